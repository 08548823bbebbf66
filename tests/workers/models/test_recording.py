from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.models.protocol import Answer, Form, Message, ModelError, Part, Question, Role, Trouble, Usage
from workers.models.recording import (
    LINES,
    Record,
    Recording,
    RecordingError,
    Refusal,
    ReplayProvider,
    Tried,
    digest_of,
    read_record,
    record_name,
    write_record,
)

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "number"}}, "required": ["b"]}
QUESTION = Question(
    "generate",
    (Part("You write kernels.", stable=True),),
    (
        Message(Role.user, (Part("softmax"),)),
        Message(Role.assistant, (Part("done"),)),
        Message(Role.user, (Part("é\ud800"),)),
    ),
    Form("files", "the files", SCHEMA),
    temperature=0.2,
)
ANSWER = Answer("text", {"b": "x", "a": 1.5}, Usage(1, 2, 3, 4), "anthropic", "model-1", "req_1")
TRIED = (
    Tried("anthropic", "model-1", "overloaded", Usage()),
    Tried("anthropic", "model-1", "answered", Usage(1, 2, 3, 4), 5, 1.5),
)


def asked(question: Question, provider: ReplayProvider) -> Answer:
    return provider.ask(question, 1.0, lambda: False)


def texts(text: str, purpose: str = "generate") -> Question:
    return replace(QUESTION, purpose=purpose, messages=(Message(Role.user, (Part(text),)),))


def recorded(*questions: Question) -> Recording:
    return Recording(tuple(Record(it, replace(ANSWER, text=str(n))) for n, it in enumerate(questions)))


def test_digest_is_what_it_always_was() -> None:
    assert digest_of(QUESTION) == "a94aa2f599b044cebb6e446e5943aacea9c08cb18d2d5436229e7417991bfa7d"


def test_digest_is_the_same_in_another_process() -> None:
    code = "from tests.workers.models.test_recording import *; print(digest_of(QUESTION))"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[3],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == digest_of(QUESTION)


@pytest.mark.parametrize(
    "change",
    [
        {"purpose": "repair"},
        {"system": ()},
        {"messages": QUESTION.messages[:1]},
        {"form": None},
        {"most_tokens": 1},
        {"thinking_tokens": 1},
        {"temperature": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_digest_tells_questions_apart(change: dict[str, Any]) -> None:
    assert digest_of(replace(QUESTION, **change)) != digest_of(QUESTION)


def test_digest_does_not_depend_on_how_the_same_is_written() -> None:
    turned = dict(reversed(SCHEMA.items()))
    same = replace(QUESTION, form=Form("files", "the files", turned))
    assert digest_of(same) == digest_of(QUESTION)
    assert digest_of(replace(QUESTION, temperature=1)) == digest_of(replace(QUESTION, temperature=1.0))


@given(
    st.text(),
    st.text(),
    st.one_of(st.none(), st.floats(0, 2), st.integers(0, 2)),
    st.dictionaries(st.text(), st.integers() | st.text()),
)
def test_record_is_read_as_it_was_written(
    prompt: str, text: str, temperature: float | None, data: dict[str, Any]
) -> None:
    question = replace(texts(prompt), temperature=temperature)
    record = Record(question, replace(ANSWER, text=text, data=data), TRIED)
    line = write_record(record)
    assert line.count(b"\n") == 1
    assert read_record(line) == record


def test_record_holds_why_there_is_no_answer() -> None:
    error = ModelError(Trouble.refused, "the model declined", provider="anthropic", usage=Usage(1), request_id="req_2")
    again = read_record(write_record(Record(QUESTION, Refusal.of(error))))
    with pytest.raises(ModelError, match="the model declined") as caught:
        again.result()
    found = caught.value
    assert (found.trouble, found.provider, found.usage, found.request_id) == (
        Trouble.refused,
        "anthropic",
        Usage(1),
        "req_2",
    )


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{}",
        b'{"digest": "0"}',
        write_record(Record(QUESTION, ANSWER)).replace(b"softmax", b"softmin"),
        write_record(Record(QUESTION, ANSWER)).replace(b'"version":1', b'"version":2'),
        b"[" * 100_000,
    ],
    ids=["nothing", "list", "empty", "digest", "another question", "version", "deep"],
)
def test_what_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(RecordingError):
        read_record(line)


@pytest.mark.parametrize("name", ["folder", "one.tar", "one.tar.gz"])
def test_recording_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    recording = recorded(texts("a"), texts("b"), texts("a"))
    recording.write(tmp_path / name)
    assert Recording.read(tmp_path / name) == recording


def test_recording_passes_no_secret_on(tmp_path: Path) -> None:
    key = "sk-" + "a1B2c3D4" * 4
    Recording((Record(texts("a"), replace(ANSWER, text=f"it is {key}")),)).write(tmp_path, {"job.json": key.encode()})
    written = [path.read_text() for path in tmp_path.iterdir()]
    assert len(written) == 2
    assert all("[redacted: API key]" in text and key not in text for text in written)
    assert Recording.read(tmp_path).records[0].outcome == replace(ANSWER, text="it is [redacted: API key]")


def test_recording_that_is_not_there_or_damaged_says_where(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="there is no recording at"):
        Recording.read(tmp_path / "none")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    with pytest.raises(RecordingError, match="there is no recording at"):
        Recording.read(tmp_path / "empty.tar")
    (tmp_path / LINES).write_bytes(write_record(Record(QUESTION, ANSWER)) + b"{\n")
    with pytest.raises(RecordingError, match="line 2 of the recording"):
        Recording.read(tmp_path)


def test_recording_of_a_job_leaves_out_what_passes_and_what_is_no_question() -> None:
    overloaded = Record(texts("b"), Refusal(Trouble.overloaded, "busy"))
    refused = Record(texts("c"), Refusal(Trouble.refused, "no"))
    answered = Record(texts("a"), ANSWER)
    artifacts = [
        ("report.json", b"{}"),
        *(
            (record_name("generate", 1, str(n)), write_record(it))
            for n, it in enumerate((answered, overloaded, refused))
        ),
    ]
    assert Recording.of(artifacts) == Recording((answered, refused))


def test_replay_gives_each_question_its_answers_in_order() -> None:
    replay = ReplayProvider(recorded(texts("a"), texts("b"), texts("a")))
    assert [asked(texts(text), replay).text for text in ("b", "a", "a")] == ["1", "0", "2"]
    with pytest.raises(ModelError, match="answers this question for 'generate' only 2 times") as caught:
        asked(texts("a"), replay)
    assert caught.value.trouble is Trouble.rejected


def test_replay_ends_as_the_question_ended() -> None:
    replay = ReplayProvider(Recording((Record(QUESTION, Refusal(Trouble.too_long, "it is too long")),)))
    with pytest.raises(ModelError, match="it is too long") as caught:
        asked(QUESTION, replay)
    assert caught.value.trouble is Trouble.too_long


def test_unknown_question_is_told_with_its_purpose_and_where_it_differs_and_no_word_of_it() -> None:
    near, far = texts("line one\nline two is secret\n"), texts("something else")
    replay = ReplayProvider(recorded(far, near, texts("line one\nline two is SECRET\n", "repair")))
    with pytest.raises(ModelError) as caught:
        asked(texts("line one\nline two is SECRET\n"), replay)
    assert str(caught.value) == (
        "the recording does not hold this question for 'generate'; the nearest one, "
        f"{digest_of(near)[:12]}, differs first at messages[0].parts[0].text, line 2, character 21"
    )


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"temperature": 0.9}, "temperature"),
        ({"form": None}, "form, which the recorded one has not"),
        ({"messages": QUESTION.messages[:1]}, "messages[1].role, which only the recorded one has"),
        ({"temperature": None}, "temperature"),
    ],
    ids=["number", "form", "shorter", "none"],
)
def test_place_of_a_difference_is_named(change: dict[str, Any], place: str) -> None:
    with pytest.raises(ModelError) as caught:
        asked(replace(QUESTION, **change), ReplayProvider(recorded(QUESTION)))
    assert str(caught.value).endswith(f"differs first at {place}")


def test_recording_is_played_where_settings_give_answers_another_room() -> None:
    found = asked(replace(QUESTION, most_tokens=5, thinking_tokens=0), ReplayProvider(recorded(QUESTION)))
    assert found == asked(QUESTION, ReplayProvider(recorded(QUESTION)))


def test_empty_recording_says_so() -> None:
    with pytest.raises(ModelError, match="'generate': it is empty"):
        asked(QUESTION, ReplayProvider(Recording(())))
