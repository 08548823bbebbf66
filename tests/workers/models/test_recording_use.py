from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.workers.models.test_recording import ANSWER, QUESTION, TRIED, texts
from workers.models.ledger import Price
from workers.models.protocol import Message, Part, Role, Trouble, Usage
from workers.models.recording import (
    Record,
    Recording,
    RecordingError,
    Refusal,
    Tried,
    characters,
    records_at,
    use_of,
    write_record,
)

PRICE = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
THOUGHTFUL = replace(texts("again", "repair"), thinking_tokens=2_000)
ASKED = Record(QUESTION, ANSWER, TRIED)
REPAIRED = Record(THOUGHTFUL, ANSWER, (Tried("openai", "model-2", "answered", Usage(10, 20), None, 2.5),))
DECLINED = Record(texts("no"), Refusal(Trouble.refused, "the model declined", "anthropic", Usage(7, 1)))


def test_what_repeats_is_counted_up_to_the_last_stable_part() -> None:
    form = len("files") + len("the files") + 103
    stable = form + len("You write kernels.")
    assert characters(QUESTION) == (stable + len("softmax") + len("done") + 2, stable)
    turn = Message(
        Role.user,
        (Part("one ", stable=True), Part("two "), Part("three ", stable=True), Part("four")),
    )
    assert characters(replace(QUESTION, messages=(turn,))) == (stable + 18, stable + 14)


def test_a_question_without_a_stable_part_has_nothing_to_cache() -> None:
    assert characters(replace(QUESTION, system=(Part("You write kernels."),)))[1] == 0
    assert characters(replace(QUESTION, system=(), messages=(), form=None)) == (0, 0)


def test_tries_of_a_question_are_requests_of_their_own() -> None:
    (question,) = use_of([ASKED], {}).questions
    assert [(it.outcome, it.input_tokens, it.micro_dollars, it.duration_s) for it in question.requests] == [
        ("overloaded", 0, None, None),
        ("answered", 1, 5, 1.5),
    ]
    assert question.answer_characters == len("text") + len('{"b": "x", "a": 1.5}')


def test_sums_are_by_purpose_and_of_all() -> None:
    use = use_of([ASKED, REPAIRED, DECLINED], {})
    assert [name for name, _ in use.purposes] == ["generate", "repair"]
    generate = dict(use.purposes)["generate"]
    assert (generate.questions, generate.requests) == (2, 3)
    assert (generate.input_tokens, generate.output_tokens) == (1 + 7, 2 + 1)
    assert (generate.cache_read_tokens, generate.cache_written_tokens) == (3, 4)
    assert (use.total.requests, use.total.input_tokens, use.total.output_tokens) == (4, 18, 23)
    assert use.total.duration_s == 4.0
    assert use.total.characters == sum(question.characters for question in use.questions)


def test_a_question_that_was_declined_has_no_answer_and_took_tokens_all_the_same() -> None:
    (question,) = use_of([DECLINED], {}).questions
    assert question.answer_characters is None
    assert [(it.provider, it.outcome, it.input_tokens) for it in question.requests] == [("anthropic", "refused", 7)]


def test_a_price_of_today_is_for_requests_that_had_none() -> None:
    total = use_of([ASKED, REPAIRED], {"openai/model-2": PRICE}).total
    assert total.micro_dollars == 5 + 10 * 3 + 20 * 15
    assert total.unpriced_requests == 1  # the overloaded one, by another model
    assert use_of([REPAIRED], {}).total.micro_dollars is None


def test_records_are_read_from_an_archive_a_folder_a_file_and_a_folder_of_files(tmp_path: Path) -> None:
    archive, folder, kept = tmp_path / "recording.tar.gz", tmp_path / "recording", tmp_path / "models"
    recording = Recording((ASKED, REPAIRED))
    recording.write(archive)
    recording.write(folder)
    for number, record in enumerate(recording.records):
        place = kept / f"generate-{number}" / "candidate.json"
        place.parent.mkdir(parents=True)
        place.write_bytes(write_record(record))
    (kept / "attempts-generate-1.json").write_text('{"stage": "generate"}')  # another artifact of the job
    wanted = use_of(recording.records, {})
    assert use_of(records_at(archive), {}) == wanted
    assert use_of(records_at(folder), {}) == wanted
    assert use_of(records_at(kept), {}) == wanted
    assert use_of(records_at(place), {}).total.questions == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("report.json", b"{}", "report.json: this is no record of a question"),
        ("notes.txt", b"nothing", "notes.txt: it is no archive that holds a recording.jsonl"),
        ("report.json", b"[" * 100_000, "report.json: this is no record of a question"),
    ],
)
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RecordingError) as error:
        records_at(tmp_path / name)
    assert said in str(error.value)


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(RecordingError, match=r"no recording\.jsonl and no record of a question in the folder"):
        records_at(tmp_path)


def test_a_record_whose_question_was_changed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "candidate.json").write_bytes(write_record(ASKED).replace(b"softmax", b"softmin"))
    with pytest.raises(RecordingError, match=r"candidate\.json: a record's question is not the one"):
        records_at(tmp_path)
