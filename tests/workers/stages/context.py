"""A stage's context in memory: answers made by hand, everything that is asked, kept or said written down in order."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.orm import Session

from gpu_runner.contracts import Action, GpuResult, Limits, to_json
from tests.workers.stages import library
from workers.authors.protocol import Feedback
from workers.contracts import (
    JobOptions,
    JobRequest,
    JobState,
    JobView,
    Origin,
    ProblemKind,
    ProblemText,
    StageName,
    Update,
    UserFacingError,
    Verb,
)
from workers.engine.protocol import DEFAULT_LIMITS, Stage, StageResult, T
from workers.engine.questions import NO_MODEL, NOT_NEEDED
from workers.models.protocol import Answer, ModelError, Question, Usage
from workers.store.blobs import BlobError
from workers.store.database import Database
from workers.tree import Tree

# A contract, or what gives one from the request; by action, or by ``action key`` where one key shall differ.
Answers = dict[str, Any]


# What a model says: the data of its form, text, or why it does not; in order, or by a function of the question.
Said = dict[str, Any] | str | ModelError
Spoken = Callable[[Question], Said]


def said(*texts: str) -> tuple[Feedback, ...]:
    """Give reviews."""
    return tuple(Feedback(text) for text in texts)


@dataclass
class FakeContext:
    """Implements ``StageContext``. ``asked`` are the GPU requests that nobody had answered before."""

    answers: Answers
    request: JobRequest
    feedback: tuple[Feedback, ...] = ()
    attempt: int = 1
    blobs: dict[str, bytes] = field(default_factory=dict)
    results: dict[StageName, dict[str, Any]] = field(default_factory=dict)
    lasting: dict[str, GpuResult] = field(default_factory=dict)
    memos: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    files: list[dict[str, str]] = field(default_factory=list)  # next to each request of ``asked``
    notes: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    stage: StageName | None = None
    speaks: list[Said] | Spoken | None = None  # None: no model is configured
    questions: dict[str, Question] = field(default_factory=dict)
    kept: dict[str, Answer | ModelError] = field(default_factory=dict)
    given: dict[str, GpuResult] = field(default_factory=dict)
    # The keys of questions as their answers arrive, each looked at before the next one; None: all at once, before anybody looks.
    arrivals: Sequence[str] | None = None
    host: tuple[tuple[str, str], ...] = ()
    now_s: float | None = None  # None: the time that it is
    seconds: float = 1.0  # that each request takes
    database: Database = field(default_factory=lambda: Database("sqlite://"))

    @property
    def has_models(self) -> bool:
        return self.speaks is not None

    def now(self) -> float:
        return time.time() if self.now_s is None else self.now_s

    def ask(self, key: str, question: Question) -> Answer:
        outcome = self.ask_all({key: question})[key]
        if isinstance(outcome, ModelError):
            raise outcome
        return outcome

    def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Answer | ModelError]:
        if self.speaks is None:
            raise UserFacingError(NO_MODEL)
        for key, question in questions.items():
            assert self.questions.setdefault(key, question) == question, f"{key} asks two things in one attempt"
            if key not in self.kept:
                self.kept[key] = _heard(self.speaks(question) if callable(self.speaks) else self.speaks.pop(0))
        return {key: self.kept[key] for key in questions}

    def ask_until(
        self, questions: Mapping[str, Question], enough: Callable[[Mapping[str, Answer | ModelError]], bool] | None
    ) -> dict[str, Answer | ModelError]:
        if self.arrivals is None or enough is None:
            return self.ask_all(questions)
        arrived: set[str] = set()
        for key in self.arrivals:
            if arrived and enough({key: self.kept[key] for key in questions if key in arrived}):
                left = {key: question for key, question in questions.items() if key not in arrived}
                self.questions |= left
                self.kept |= {key: NOT_NEEDED.error() for key in left}
                break
            self.ask_all({key: questions[key]})
            arrived.add(key)
        return self.ask_all(questions)

    def meanwhile(self, key: str, function: Callable[[], T]) -> T | None:
        assert key
        return function()

    @property
    def job(self) -> JobView:
        return JobView("job1", self.request, JobState.running, tuple(StageName), (), "", "", "kernelsmith/job1")

    @property
    def order(self) -> list[str]:
        """Give what was asked of a GPU: action and key."""
        return [place for place, _ in self.asked]

    def result_of(self, stage: StageName) -> dict[str, Any]:
        return self.results[stage]

    def gpu(
        self,
        key: str,
        request: object,
        action: Action,
        files: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        lasting: bool = False,
        gpu_uuid: str | None = None,
    ) -> GpuResult:
        assert all(digest in self.blobs for digest in (files or {}).values()), "what lies beside a request is stored"
        place = f"{action.value} {key}"
        same = json.dumps([self.stage, place, to_json(request), dict(files or {}), to_json(limits)], sort_keys=True)
        # The engine gives a key's answer again whatever the second request asks for.
        assert self.keys.setdefault(key, same) == same, f"{key} is asked for two things in one attempt"
        if place in self.given:
            return self.given[place]
        if lasting and same in self.lasting:
            return self.lasting[same]
        self.asked.append((place, request))
        self.files.append(dict(files or {}))
        answer = self.answers[place] if place in self.answers else self.answers[action.value]
        answer = answer(request) if isinstance(answer, Callable) else answer  # type: ignore[arg-type]
        failed = isinstance(answer, str)
        # What a stage gets has been written down and read again.
        payload = None if failed else json.loads(json.dumps(to_json(answer)))
        error = answer if failed else None
        result = GpuResult("r", action, payload, error, host=self.host, duration_s=self.seconds)
        self.given[place] = result
        if lasting and not failed:
            self.lasting[same] = result
        return result

    def memo(self, key: str, function: Callable[[], Any]) -> Any:
        if key not in self.memos:
            self.memos[key] = json.loads(json.dumps(to_json(function())))
        return self.memos[key]

    def history(self, function: Callable[[Session], T]) -> T:
        with self.database.write() as session:
            return function(session)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def artifact(self, name: str, content: bytes, media_type: str) -> str:
        assert media_type
        self.names[name] = self.put(content)
        return self.names[name]

    def put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return digest

    def load(self, digest: str) -> bytes:
        if digest not in self.blobs:
            raise BlobError(f"artifact {digest} is not in the store")
        return self.blobs[digest]

    def emit(self, update: Update) -> None:
        raise AssertionError(f"no stage of these emits: {update}")

    def cancelled(self) -> bool:
        return False

    def run(self, stage: Stage) -> StageResult:
        """Run a stage as the engine does: its output is there for the next one."""
        self.stage = stage.name
        self.memos.clear()
        self.keys.clear()
        self.questions.clear()
        self.kept.clear()
        self.given.clear()
        result = stage.run(self)
        self.results[stage.name] = json.loads(json.dumps(result.output))
        return result

    def again(self, *texts: str) -> FakeContext:
        """Give the context of the stage's next attempt, with reviews, and nothing asked yet."""
        return replace(self, feedback=said(*texts), attempt=self.attempt + 1, asked=[], files=[], notes=[])


def _heard(told: Said) -> Answer | ModelError:
    if isinstance(told, ModelError):
        return told
    text, data = (told, None) if isinstance(told, str) else ("", told)
    return Answer(text, data, Usage(100, 50), "scripted", "model-of-the-test")


def packed(tree: Tree) -> bytes:
    """Give a snapshot as it is stored."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, content in sorted(tree.files.items()):
            entry = tarfile.TarInfo(f"snapshot/{path}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def optimizing(answers: Answers, tree: Tree | None = None, **options: Any) -> FakeContext:
    """Give the context of ``/kernel optimize geglu``."""
    request = JobRequest(
        "comment/1",
        Verb.optimize,
        "geglu",
        Origin("acme/kernels", 7, "maintainer", 11),
        "main",
        "a" * 40,
        "",
        ProblemText(ProblemKind.missing),
        JobOptions(**options),
    )
    context = FakeContext(answers, request)
    context.request = replace(request, snapshot=context.put(packed(tree or library.tree())))
    return context


def comparing(
    answers: Answers, base: Tree, head: Tree, kernels: Sequence[str] = (), verb: Verb = Verb.bench, **options: Any
) -> FakeContext:
    """Give the context of ``/kernel bench`` or ``/kernel verify`` on a pull request."""
    context = optimizing(answers, base, **options)
    context.request = replace(
        context.request,
        verb=verb,
        kernel="pull-7",
        kernels=tuple(kernels),
        head_sha="b" * 40,
        head_snapshot=context.put(packed(head)),
    )
    return context
