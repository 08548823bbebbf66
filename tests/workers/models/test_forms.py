"""Answers are held strictly against their form, whatever their size and shape."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.forms import MOST_CHARACTERS, FormError, OpenFormError, check_form, parsed
from workers.models.protocol import Form

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "maxLength": 20},
        "tier": {"type": "integer", "enum": [1, 2, 3]},
        "files": {
            "type": "array",
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string", "minLength": 1}, "text": {"type": "string"}},
                "required": ["path", "text"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["summary", "files"],
    "additionalProperties": False,
}
FORM = Form("propose", "Propose files.", SCHEMA)
GOOD: dict[str, Any] = {"summary": "s", "tier": 2, "files": [{"path": "a.py", "text": "x = 1\n"}]}


def said(text: str) -> str:
    with pytest.raises(FormError) as told:
        parsed(text, FORM)
    return str(told.value)


def test_an_answer_that_fits_is_given_as_it_is() -> None:
    assert parsed(json.dumps(GOOD), FORM) == GOOD


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"summary": 7}, 'at $.summary type "string" does not hold'),
        ({"summary": "x" * 21}, "at $.summary maxLength 20 does not hold"),
        ({"tier": True}, 'at $.tier type "integer" does not hold'),
        ({"tier": 4}, "at $.tier enum [1, 2, 3] does not hold"),
        ({"secret-word": 1}, "at $ there is a field that the form does not have"),
        ({"files": [{"path": ""}]}, "at $.files[0] there is no text"),
        ({"files": [{"path": "", "text": ""}]}, "at $.files[0].path minLength 1 does not hold"),
        ({"files": [GOOD["files"][0]] * 3}, "at $.files maxItems 2 does not hold"),
    ],
)
def test_a_fault_is_named_by_its_place_and_without_a_word_of_the_answer(change: dict[str, Any], fault: str) -> None:
    told = said(json.dumps(GOOD | change))
    assert fault in told
    assert "secret-word" not in told
    assert "xxx" not in told


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "3",
        '"x"',
        "{",
        "{}}",
        "{'a': 1}",
        '{"summary": "s", "files": []',
        '{"summary": "s", "files": [], "tier": NaN}',
        '{"summary": "s", "files": [], "tier": 1e999}',
        '{"summary": "s", "files": [], "tier": ' + "9" * 5000 + "}",
        '{"summary": "s", "summary": "t", "files": []}',
        '{"summary": "\\ud800", "files": []}',
        '{"summary": "\ud800", "files": []}',
        '```json\n{"summary": "s", "files": []}\n```',
        '{"summary": "s", "files": []} trailing',
    ],
)
def test_what_is_no_json_object_of_plain_values_is_refused(text: str) -> None:
    assert said(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000 + "]" * 10_000,
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        '{"summary": "' + "x" * 50_000_000 + '"}',
        '"' + "\\" * (MOST_CHARACTERS - 10),
        '{"summary": "' + '\\"' * 900_000,
        '{"files": [' + "0," * 900_000 + "0]}",
    ],
    ids=["deep list", "deep object", "50 MB", "backslashes", "open string", "long list"],
)
def test_an_answer_made_to_hurt_is_refused_within_a_second(text: str) -> None:
    began = time.perf_counter()
    assert said(text)
    assert time.perf_counter() - began < 2.0


def test_brackets_inside_strings_do_not_count_as_depth() -> None:
    text = "[{" * 1000 + '"'
    assert parsed(json.dumps(GOOD | {"files": [{"path": "p", "text": text}]}), FORM)["files"][0]["text"] == text


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "object", "properties": {}},
        {
            "type": "object",
            "properties": {"a": {"type": "object", "properties": {}}},
            "additionalProperties": False,
        },
        {"type": "object", "properties": {"a": {"type": "nonsense"}}, "additionalProperties": False},
        {
            "type": "object",
            "properties": {"a": {"$ref": "http://127.0.0.1/schema.json"}},
            "additionalProperties": False,
        },
    ],
)
def test_a_form_that_lets_anything_pass_is_a_fault_of_the_program(schema: dict[str, Any]) -> None:
    with pytest.raises(OpenFormError):
        check_form(Form("propose", "d", schema))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON | st.text().map(lambda text: text))
def test_whatever_is_said_either_fits_or_is_refused(value: object) -> None:
    try:
        found = parsed(value if isinstance(value, str) else json.dumps(value), FORM)
    except FormError:
        return
    assert set(found) <= set(SCHEMA["properties"])


def test_an_object_that_is_spelled_twice_is_read() -> None:
    assert parsed(json.dumps(json.dumps(GOOD)), FORM) == GOOD
    assert said(json.dumps(json.dumps([GOOD]))) == "it is not a JSON object"
