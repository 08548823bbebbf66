"""Answers as data: JSON from a model, bounded before it is parsed and held strictly against its form. Pure."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry

from workers.models.protocol import Form

MOST_CHARACTERS = 2_000_000  # of an answer, text or JSON: far above what any model writes in one answer
MOST_DEPTH = 32
MOST_STARTS = 8  # braces in a text at which an object is looked for
MOST_PARAMETERS = 32  # in tags
MOST_FAULTS = 5  # told to a model at once
TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
THOUGHT = re.compile(r"</(?:think|thinking|thought|reasoning|analysis)>|<\|message\|>")  # its end, or that of its label
# As Qwen3-Coder writes a call where no parser of the server reads it.
PARAMETER = re.compile(r"<parameter=([A-Za-z0-9_-]{1,64})>\n?(.*?)\n?</parameter>", re.DOTALL)
WRAPPERS = ("arguments", "parameters", "input")  # in which some models put the object once more
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # both providers' rule for the name of a tool


class FormError(ValueError):
    """An answer does not fit its form. The text names places of the form and nothing of the answer."""


class OpenFormError(ValueError):
    """A form that cannot be enforced strictly: a fault of the program that asks."""


def parsed(text: str, form: Form) -> dict[str, Any]:
    """The object that ``text`` spells, as ``form`` wants it.

    Raises:
        FormError: it is too large, too deep, no JSON object, or does not fit the form's schema.
    """
    return _unwrapped(_loaded(text), form)


def object_in(text: str, form: Form) -> dict[str, Any]:
    """The object of a form in a text: after its thinking, with or without a fence, prose or the tool's name around it.

    Raises:
        FormError: there is none, or one that does not fit.
    """
    message = THOUGHT.split(text)[-1]
    in_tags = f"<function={form.name}>" in message and message.count("<parameter=") <= MOST_PARAMETERS
    if in_tags and (named := PARAMETER.findall(message)):
        return parsed(json.dumps({name: _spelled(name, value, form) for name, value in named}), form)
    fault = f"it does not call the tool {form.name}, and its text is no JSON object either"
    starts = itertools.islice((match.start() for match in re.finditer(r"\{", message)), MOST_STARTS)
    for start in starts:
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(message, start)
            return _unwrapped(_loaded(message[start:end]), form)
        except FormError as error:
            fault = str(error)
        except (ValueError, RecursionError):
            continue
    raise FormError(fault)


def _spelled(name: str, value: str, form: Form) -> Any:
    """A value that stands between tags: a text as it is, anything else as JSON."""
    if form.schema.get("properties", {}).get(name, {}).get("type") == "string":
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _unwrapped(value: dict[str, Any], form: Form) -> dict[str, Any]:
    inner = next((value[name] for name in WRAPPERS if name in value), None)
    if inner is not None and (value.get("name") == form.name or (len(value) == 1 and _is_closed_to(form, WRAPPERS))):
        return parsed(inner if isinstance(inner, str) else json.dumps(inner), form)
    check(value, form)
    return value


def _is_closed_to(form: Form, names: tuple[str, ...]) -> bool:
    return not set(names) & set(form.schema.get("properties", {}))


def _loaded(text: str) -> dict[str, Any]:
    if len(text) > MOST_CHARACTERS:
        raise FormError(f"it is longer than {MOST_CHARACTERS} characters")
    if _depth(text) > MOST_DEPTH:
        raise FormError(f"it is nested more than {MOST_DEPTH} deep")
    try:
        # Not strict: code in a string may stand in lines, as small models write it.
        value = json.loads(
            text,
            strict=False,
            object_pairs_hook=_distinct,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
        text.encode("utf-8")
        _encodable(value)
    except FormError:
        raise
    except (ValueError, RecursionError):
        raise FormError("it is not JSON") from None
    if isinstance(value, str):
        return _loaded(value)  # some servers spell the object twice
    if not isinstance(value, dict):
        raise FormError("it is not a JSON object")
    return value


def check(value: dict[str, Any], form: Form) -> None:
    """Validate an object by a form.

    Raises:
        FormError: it does not fit; every fault up to five is named by its place in the form.
        OpenFormError: the form itself lets anything pass.
    """
    validator = _validator(json.dumps(form.schema, sort_keys=True))
    faults: list[str] = []
    for error in validator.iter_errors(value):
        faults.append(_fault(error))
        if len(faults) == MOST_FAULTS:
            break
    if faults:
        raise FormError("it does not fit the form: " + "; ".join(dict.fromkeys(faults)))


def check_form(form: Form) -> None:
    """Require that a form is closed: every object lists its properties and allows no others.

    Raises:
        OpenFormError: it is not.
    """
    if not NAME.fullmatch(form.name):
        raise OpenFormError(f"{form.name!r} cannot be the name of a tool")
    _validator(json.dumps(form.schema, sort_keys=True))


@lru_cache(maxsize=64)
def _validator(schema_text: str) -> Draft202012Validator:
    schema = json.loads(schema_text)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise OpenFormError(f"a form's schema is none: {error.message}") from None
    if schema.get("type") != "object":
        raise OpenFormError("a form's schema must be that of an object")
    for node in _nodes(schema):
        if (node.get("type") == "object" or "properties" in node) and node.get("additionalProperties") is not False:
            raise OpenFormError("each object of a form needs additionalProperties: false")
        if str(node.get("$ref", "#")).partition("#")[0]:
            raise OpenFormError("a form refers to nothing outside of itself")
    # An empty registry: nothing is ever fetched for a reference.
    return Draft202012Validator(schema, registry=Registry())


def _nodes(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for key, inner in schema.items():
            if key in ("properties", "$defs") and isinstance(inner, dict):
                for child in inner.values():
                    yield from _nodes(child)
            elif key not in ("enum", "const", "default", "examples", "required"):
                yield from _nodes(inner)
    elif isinstance(schema, list):
        for child in schema:
            yield from _nodes(child)


def _fault(error: ValidationError) -> str:
    """Every word comes from the schema: the library's own messages quote the answer."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    where = f"at $.{place.lstrip('.')}" if place and not place.startswith("[") else f"at ${place}"
    rule, wanted = str(error.validator), error.validator_value
    if rule == "required" and isinstance(wanted, list) and isinstance(error.instance, dict):
        missing = [name for name in wanted if name not in error.instance]
        return f"{where} there is no {' and no '.join(missing)}"
    if rule == "additionalProperties":
        return f"{where} there is a field that the form does not have"
    return f"{where} {rule} {json.dumps(wanted)[:200]} does not hold"


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in TOKENS.finditer(text):
        if match[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MOST_DEPTH:
                return deepest
        elif match[0] in "]}":
            depth -= 1
    return deepest


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise FormError("an object names a field twice")
    return values


def _no_constant(_: str) -> float:
    raise FormError("a number is not finite")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise FormError("a number is not finite")
    return value


def _integer(text: str) -> int:
    if len(text) > 20:
        raise FormError("a number is too long")
    return int(text)


def _encodable(value: object) -> None:
    if isinstance(value, str):
        value.encode("utf-8")  # half of a surrogate pair, written as an escape, breaks whoever stores it
    elif isinstance(value, dict):
        for key, inner in value.items():
            _encodable(key)
            _encodable(inner)
    elif isinstance(value, list):
        for inner in value:
            _encodable(inner)
