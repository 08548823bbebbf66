"""Questions and their answers as JSON: the record of one, a recording of many, a provider that replays it, and what they cost."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpu_runner.contracts import from_json, to_json
from workers.contracts import QuestionUse, RecordingUse, RequestUse, UseSum
from workers.errors import WorkersError
from workers.models.ledger import Price, cost, price_of
from workers.models.protocol import Answer, Form, ModelError, Part, Question, Trouble, Usage
from workers.redaction import redact

VERSION = 1
LINES = "recording.jsonl"
MOST_BYTES = 1 << 30
# What follows from the question and the answer alone, so that the same question ends so again as far as anybody can tell. What was
# not needed, or had no room in a budget, stays so as well: who chooses among several answers shall have the same ones to choose
# from.
FINAL = frozenset(
    {Trouble.refused, Trouble.too_long, Trouble.malformed, Trouble.truncated, Trouble.not_needed, Trouble.out_of_budget}
)


class RecordingError(WorkersError):
    """A recording cannot be read; the text says where."""


@dataclass(frozen=True)
class Tried:
    """One attempt of a request: its provider, its outcome and its usage."""

    provider: str
    model: str
    outcome: str  # answered, a trouble, or lost
    usage: Usage
    micro_dollars: int | None = None  # None: the model has no price
    duration_s: float | None = None  # None: its worker was lost


@dataclass(frozen=True)
class Refusal:
    """A ``ModelError`` as it is kept."""

    trouble: Trouble
    sentence: str
    provider: str = ""
    usage: Usage = field(default_factory=Usage)
    request_id: str | None = None

    @staticmethod
    def of(error: ModelError) -> Refusal:
        """What is kept of an error."""
        return Refusal(error.trouble, str(error), error.provider, error.usage, error.request_id)

    def error(self) -> ModelError:
        """The error again."""
        return ModelError(
            self.trouble, self.sentence, provider=self.provider, usage=self.usage, request_id=self.request_id
        )


@dataclass(frozen=True)
class Record:
    """One question as it was sent and what it came to: an answer, or why there is none."""

    question: Question
    outcome: Answer | Refusal
    tried: tuple[Tried, ...] = ()
    version: int = VERSION

    @property
    def final(self) -> bool:
        """Whether the same question would come to the same again."""
        return isinstance(self.outcome, Answer) or self.outcome.trouble in FINAL

    def result(self) -> Answer:
        """The answer.

        Raises:
            ModelError: there was none.
        """
        outcome = self.answer_or_error()
        if isinstance(outcome, ModelError):
            raise outcome
        return outcome

    def answer_or_error(self) -> Answer | ModelError:
        """The answer, or the error that there was in place of it."""
        return self.outcome.error() if isinstance(self.outcome, Refusal) else self.outcome


def digest_of(question: Question) -> str:
    """The SHA-256 of a question's canonical JSON."""
    return hashlib.sha256(_canonical(to_json(_exact(question))).encode()).hexdigest()


def write_record(record: Record) -> bytes:
    """A record as one line of JSON."""
    form = {"digest": digest_of(record.question)} | to_json(replace(record, question=_exact(record.question)))
    return _canonical(form).encode() + b"\n"


def read_record(line: bytes) -> Record:
    """Read a record.

    Raises:
        RecordingError: it is none, or its question is not the one that its digest names.
    """
    try:
        form = json.loads(line)
        digest = form.pop("digest")
        record = from_json(Record, form)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise RecordingError(f"this is no record of a question: {error}") from error
    if record.version != VERSION or digest != digest_of(record.question):
        raise RecordingError("a record's question is not the one that its digest names, or it is of another version")
    return record


@dataclass(frozen=True)
class Recording:
    """Questions and what each came to, in order. Passing troubles are no part of it: who replays it meets none."""

    records: tuple[Record, ...]

    @staticmethod
    def of(artifacts: Iterable[tuple[str, bytes]]) -> Recording:
        """Build a recording from a job's artifacts, by name and in the order in which they were kept."""
        records = (read_record(content) for name, content in artifacts if is_record(name))
        return Recording(tuple(record for record in records if record.final))

    def write(self, path: Path, extra: Mapping[str, bytes] = MappingProxyType({})) -> None:
        """Write it, and ``extra`` files, into a folder, or a tar archive where the name ends in ``.tar`` or ``.tar.gz``."""
        lines = b"".join(write_record(record) for record in self.records)
        # What is written is passed on.
        files = {name: redact(content.decode()).encode() for name, content in {LINES: lines, **extra}.items()}
        if not path.name.endswith((".tar", ".tar.gz")):
            path.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                (path / name).write_bytes(content)
            return
        with tarfile.open(path, "w:gz" if path.name.endswith(".gz") else "w") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))

    @staticmethod
    def read(path: Path) -> Recording:
        """Read what ``write`` wrote.

        Raises:
            RecordingError: there is none, or a line of it is damaged.
        """
        records = []
        for number, line in enumerate(read_member(path, LINES).splitlines(), 1):
            try:
                records.append(read_record(line))
            except RecordingError as error:
                raise RecordingError(f"line {number} of the recording {path}: {error}") from error
        return Recording(tuple(records))


def read_member(path: Path, name: str) -> bytes:
    """A file of a recording.

    Raises:
        RecordingError: there is none of this name.
    """
    try:
        if path.is_dir():
            return (path / name).read_bytes()
        with tarfile.open(path) as archive:
            member = archive.extractfile(name)
            content = b"" if member is None else member.read(MOST_BYTES + 1)
    except (OSError, KeyError, tarfile.TarError) as error:
        why = error if isinstance(error, OSError) else f"it is no archive that holds a {name}"
        raise RecordingError(f"there is no recording at {path}: {why}") from error
    if len(content) > MOST_BYTES:
        raise RecordingError(f"the recording {path} is larger than {MOST_BYTES >> 20} MiB")
    return content


def record_name(stage: str, attempt: int, key: str) -> str:
    """The artifact's name under which a question's record is kept."""
    return f"models/{stage}-{attempt}/{key}.json"


def is_record(name: str) -> bool:
    """Whether an artifact is a question's record."""
    return name.startswith("models/") and name.endswith(".json")


@dataclass
class ReplayProvider:
    """Answers from a recording: the same question a second time gets its second answer. Sends no request, costs nothing."""

    recording: Recording
    name: str = "replay"
    model: str = "recorded"
    _known: dict[str, list[Record]] = field(default_factory=dict, init=False, repr=False)
    _given: Counter[str] = field(default_factory=Counter, init=False, repr=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        """Index the records by their questions."""
        for record in self.recording.records:
            self._known.setdefault(digest_of(_unlimited(record.question)), []).append(record)

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        """The recorded answer.

        Raises:
            ModelError: there was none, or the recording does not hold the question.
        """
        del timeout_s, cancelled
        digest = digest_of(_unlimited(question))
        known = self._known.get(digest, [])
        if not known:
            raise ModelError(Trouble.rejected, self._unknown(question), provider=self.name)
        with self._guard:
            turn = self._given[digest]
            self._given[digest] += 1
        if turn >= len(known):
            times = "once" if len(known) == 1 else f"{len(known)} times"
            sentence = f"the recording answers this question for {question.purpose!r} only {times}"
            raise ModelError(Trouble.rejected, sentence, provider=self.name)
        return known[turn].result()

    def _unknown(self, question: Question) -> str:
        sentence = f"the recording does not hold this question for {question.purpose!r}"
        asked = dict(leaves(to_json(question)))
        candidates = [record.question for record in self.recording.records]
        same = [other for other in candidates if other.purpose == question.purpose] or candidates
        if not same:
            return f"{sentence}: it is empty"
        nearest = max(same, key=lambda other: _likeness(dict(leaves(to_json(other))), asked))
        place = first_difference(dict(leaves(to_json(nearest))), asked)
        return f"{sentence}; the nearest one, {digest_of(nearest)[:12]}, differs first at {place}"


def leaves(form: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a JSON form with their places, such as ``messages[0].parts[1].text``, in order."""
    if isinstance(form, dict) and form:
        for name, item in form.items():
            if name != "$":
                yield from leaves(item, f"{place}.{name}" if place else name)
    elif isinstance(form, list) and form:
        for index, item in enumerate(form):
            yield from leaves(item, f"{place}[{index}]")
    else:
        yield place, form


def first_difference(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    """The path of the first difference between two questions, never its content."""
    for place in dict.fromkeys((*asked, *recorded)):
        if place not in recorded:
            return f"{place}, which the recorded one has not"
        if place not in asked:
            return f"{place}, which only the recorded one has"
        one, other = recorded[place], asked[place]
        if one != other:
            if isinstance(one, str) and isinstance(other, str):
                at = _same_start(one, other)
                return f"{place}, line {one.count(chr(10), 0, at) + 1}, character {at}"
            return place
    return "nothing that can be named"


def _likeness(recorded: dict[str, Any], asked: dict[str, Any]) -> tuple[int, int]:
    same = sum(1 for place, value in asked.items() if place in recorded and recorded[place] == value)
    texts = ((recorded.get(place), value) for place, value in asked.items() if isinstance(value, str))
    return same, sum(_same_start(one, other) for one, other in texts if isinstance(one, str))


def _same_start(one: str, other: str) -> int:
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(index for index in range(shorter) if one[index] != other[index])


def _unlimited(question: Question) -> Question:
    """How long an answer may be is a setting of where it was recorded, and no part of what is asked."""
    return replace(question, most_tokens=1, thinking_tokens=0)


def _exact(question: Question) -> Question:
    # 1 and 1.0 are the same temperature, and JSON tells them apart.
    return question if question.temperature is None else replace(question, temperature=float(question.temperature))


def _canonical(form: Any) -> str:
    return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def records_at(path: Path) -> tuple[Record, ...]:
    """The records of a recording, of one record that a job keeps, or of a folder of those, in their names' order.

    Raises:
        RecordingError: there is none, or one is damaged; the text says where.
    """
    if path.is_dir() and not (path / LINES).exists():
        records = [_kept(file) for file in sorted(path.rglob("*.json")) if _may_be_record(file)]
        if not records:
            raise RecordingError(f"there is no {LINES} and no record of a question in the folder {path}")
        return tuple(records)
    if path.suffix == ".json":
        return (_kept(path),)
    return Recording.read(path).records


def use_of(records: Sequence[Record], prices: Mapping[str, Price]) -> RecordingUse:
    """What the questions took; a request that had no price when it was made is priced by ``prices``."""
    questions = tuple(_question_use(record, prices) for record in records)
    purposes = dict.fromkeys(question.purpose for question in questions)
    sums = tuple((name, _sum([each for each in questions if each.purpose == name])) for name in purposes)
    return RecordingUse(questions, sums, _sum(questions))


def characters(question: Question) -> tuple[int, int]:
    """The characters of a question and those of its stable start, the form of the answer counted in both."""
    parts = (*question.system, *(part for message in question.messages for part in message.parts))
    form = 0 if question.form is None else _form_characters(question.form)
    last = max((number for number, part in enumerate(parts, 1) if part.stable), default=0)
    return form + _length(parts), form + _length(parts[:last]) if last else 0


def _kept(file: Path) -> Record:
    try:
        return read_record(file.read_bytes())
    except (OSError, RecordingError) as error:
        raise RecordingError(f"{file}: {error}") from error


def _may_be_record(file: Path) -> bool:
    try:
        form = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(form, dict) and {"digest", "question", "outcome"} <= form.keys()


def _question_use(record: Record, prices: Mapping[str, Price]) -> QuestionUse:
    whole, stable = characters(record.question)
    outcome = record.outcome
    return QuestionUse(
        purpose=record.question.purpose,
        digest=digest_of(record.question),
        characters=whole,
        stable_characters=stable,
        answer_characters=_answer_characters(outcome) if isinstance(outcome, Answer) else None,
        most_output_tokens=record.question.most_tokens,
        most_thinking_tokens=record.question.thinking_tokens,
        requests=tuple(_request_use(tried, prices) for tried in record.tried or _only(outcome)),
    )


def _only(outcome: Answer | Refusal) -> tuple[Tried, ...]:
    """The one attempt of a record without attempts; none where no provider was asked."""
    if isinstance(outcome, Answer):
        return (Tried(outcome.provider, outcome.model, "answered", outcome.usage),)
    if outcome.trouble is Trouble.not_needed:
        return ()
    return (Tried(outcome.provider, "", outcome.trouble.value, outcome.usage),)


def _request_use(tried: Tried, prices: Mapping[str, Price]) -> RequestUse:
    usage, paid = tried.usage, tried.micro_dollars
    if paid is None:
        paid = cost(usage, price_of(prices, tried.provider, tried.model))
    return RequestUse(
        tried.provider,
        tried.model,
        tried.outcome,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_written_tokens,
        paid,
        tried.duration_s,
    )


def _sum(questions: Sequence[QuestionUse]) -> UseSum:
    requests = [request for question in questions for request in question.requests]
    paid = [request.micro_dollars for request in requests if request.micro_dollars is not None]
    durations = [request.duration_s for request in requests if request.duration_s is not None]
    return UseSum(
        questions=len(questions),
        requests=len(requests),
        input_tokens=sum(request.input_tokens for request in requests),
        output_tokens=sum(request.output_tokens for request in requests),
        cache_read_tokens=sum(request.cache_read_tokens for request in requests),
        cache_written_tokens=sum(request.cache_written_tokens for request in requests),
        micro_dollars=sum(paid) if paid else None,
        unpriced_requests=len(requests) - len(paid),
        duration_s=sum(durations) if durations else None,
        characters=sum(question.characters for question in questions),
        stable_characters=sum(question.stable_characters for question in questions),
        answer_characters=sum(question.answer_characters or 0 for question in questions),
    )


def _answer_characters(answer: Answer) -> int:
    return len(answer.text) + (0 if answer.data is None else len(json.dumps(answer.data, ensure_ascii=False)))


def _form_characters(form: Form) -> int:
    return len(form.name) + len(form.description) + len(json.dumps(form.schema))


def _length(parts: Sequence[Part]) -> int:
    return sum(len(part.text) for part in parts)
