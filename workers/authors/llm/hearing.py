"""What all answers have in common: held against their form, texts without hidden characters, remarks answered. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from workers.authors.llm.marks import hidden_in
from workers.authors.llm.protocol import Fault, Remark, Reply, UnusableAnswer
from workers.models.forms import FormError, check
from workers.models.protocol import Answer, Form

NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9_./\[\]:*-]")
MOST_NAME = 80


def heard(answer: Answer, form: Form) -> dict[str, Any]:
    """The answer's object, which fits the form and whose texts can be seen whole.

    Raises:
        UnusableAnswer: it does not.
    """
    if not isinstance(answer.data, dict):
        raise UnusableAnswer(Fault.form, f"the answer is not given by the form `{form.name}`")
    try:
        check(answer.data, form)
    except FormError as error:
        raise UnusableAnswer(Fault.form, str(error)) from None
    except (RecursionError, ValueError, TypeError):  # what no JSON spells, or nests too deep
        raise UnusableAnswer(Fault.form, "the answer is no plain JSON object") from None
    for place, text in _texts(answer.data):
        found = hidden_in(text)
        if found is not None:
            sentence = (
                f"`{named(place)}` holds the character U+{ord(found):04X}, which cannot be seen; write it as an escape"
            )
            raise UnusableAnswer(Fault.form, sentence)
        if not text.strip() and not place.endswith(".new"):
            raise UnusableAnswer(Fault.form, f"`{named(place)}` says nothing")
    return answer.data


def _texts(value: object, place: str = "$") -> list[tuple[str, str]]:
    """The depth is bounded: the value fits a form."""
    if isinstance(value, str):
        return [(place, value)]
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in _texts(inner, f"{place}.{key}")]
    if isinstance(value, list):
        return [found for index, inner in enumerate(value) for found in _texts(inner, f"{place}[{index}]")]
    return []


def replies_to(remarks: tuple[Remark, ...], given: list[dict[str, Any]]) -> tuple[Reply, ...]:
    """The replies in the order of the remarks.

    Raises:
        UnusableAnswer: a remark has none, has two, or a reply is to no remark.
    """
    asked = [remark.number for remark in remarks]
    counted = Counter(int(reply["number"]) for reply in given)
    for number in sorted(counted):
        if number not in asked:
            raise UnusableAnswer(Fault.form, f"there is a reply to remark {number}, which nobody made")
        if counted[number] > 1:
            raise UnusableAnswer(Fault.form, f"remark {number} has more than one reply")
    missing = [str(number) for number in asked if number not in counted]
    if missing:
        raise UnusableAnswer(Fault.form, f"there is no reply to remark {', '.join(missing)}")
    texts = {int(reply["number"]): str(reply["text"]) for reply in given}
    return tuple(Reply(number, texts[number]) for number in asked)


def named(text: str) -> str:
    """A name out of an answer as a sentence may quote it: one line, short, no markup."""
    return NOT_OF_A_NAME.sub("?", text[:MOST_NAME])
