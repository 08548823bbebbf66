"""Secrets are taken out of whatever leaves for a provider: the forms that are known, and the values that this process holds. Pure.

It is the last net, not the first: nothing that holds a secret should be put into a question at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from workers.models.protocol import Message, Part, Question

LEAST_CHARACTERS = 8  # of a configured value: a shorter one occurs in honest text

# Each has a bound on every repetition, so that no text makes the search slow.
FORMS: dict[str, re.Pattern[str]] = {
    "private key": re.compile(
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]{0,20000}-----END (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?:\s|\\n){0,4}[A-Za-z0-9+/=]{16,80}){0,400})"
    ),
    "GitHub token": re.compile(r"(?<![A-Za-z0-9_])(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{22,255})"),
    "GitLab token": re.compile(r"(?<![A-Za-z0-9_])gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{20,255}"),
    "Anthropic key": re.compile(r"(?<![A-Za-z0-9_])sk-ant-[A-Za-z0-9_-]{16,255}"),
    "API key": re.compile(
        r"(?<![A-Za-z0-9_])(?:sk-(?:proj-|svcacct-|admin-|or-v1-)?[A-Za-z0-9_-]{20,255}"
        r"|[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}|AIza[A-Za-z0-9_-]{35}|hf_[A-Za-z0-9]{30,255}|gsk_[A-Za-z0-9]{30,255}"
        r"|xai-[A-Za-z0-9]{40,255}|nvapi-[A-Za-z0-9_-]{40,255}|pypi-AgE[A-Za-z0-9_-]{40,255}|npm_[A-Za-z0-9]{36}"
        r"|xox[abeoprs]-[A-Za-z0-9-]{10,255}|SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}|dckr_pat_[A-Za-z0-9_-]{20,64})"
    ),
    "AWS key": re.compile(
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z2-7]{16}(?![A-Za-z0-9])"
        r"|(?i:aws_?secret_?access_?key)[\"'\s:=]{1,6}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])"
    ),
    "web token": re.compile(
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,2048}"
    ),
    "authorization": re.compile(
        r"(?i:\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token)\s{1,3})[A-Za-z0-9._~+/=-]{8,2048}"
    ),
    "password in a URL": re.compile(
        r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,100}:[^\s/@\"'<>]{1,200}@"
    ),
}


@dataclass(frozen=True)
class Redacted:
    """A question without secrets, and how many of each kind were in it."""

    question: Question
    counts: Mapping[str, int] = field(hash=False)


def redacted(text: str, secrets: Iterable[str] = ()) -> tuple[str, Counter[str]]:
    """Give the text with each secret replaced by a word for its kind, and how many there were."""
    counts: Counter[str] = Counter()
    # The longest first: one value may be the beginning of another.
    for secret in sorted({it for it in secrets if len(it) >= LEAST_CHARACTERS}, key=len, reverse=True):
        if found := text.count(secret):
            counts["configured secret"] += found
            text = text.replace(secret, _stand_in("configured secret"))
    for kind, form in FORMS.items():
        text, found = form.subn(_stand_in(kind), text)
        if found:
            counts[kind] += found
    return text, counts


def redacted_question(question: Question, secrets: Iterable[str] = ()) -> Redacted:
    """Give the question with every part of it redacted. The form is the program's own and stays as it is."""
    known = tuple(secrets)
    counts: Counter[str] = Counter()

    def clean(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        kept = []
        for part in parts:
            text, found = redacted(part.text, known)
            counts.update(found)
            kept.append(replace(part, text=text))
        return tuple(kept)

    system = clean(question.system)
    messages = tuple(Message(message.role, clean(message.parts)) for message in question.messages)
    return Redacted(replace(question, system=system, messages=messages), dict(counts))


def _stand_in(kind: str) -> str:
    return f"[redacted: {kind}]"
