"""The context of one run of a stage: everything it hands out or takes is kept under the attempt's lease."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from gpu_runner.contracts import Action, GpuRequest, GpuResult, Limits, to_json
from workers.contracts import JobRequest, JobState, JobView, StageName, Update
from workers.engine.lease import Begun, LeaseLost, Suspended, leased
from workers.engine.protocol import DEFAULT_LIMITS, T
from workers.engine.questions import Questions
from workers.models.protocol import Answer, ModelError, Question
from workers.runtime import Runtime
from workers.store import attempts, gpu_work, updates
from workers.store.attempts import Lease
from workers.store.codec import read_feedback, storable
from workers.store.models import Job, StageAttempt

MAX_NOTE = 300


class AttemptContext:
    """Implements ``StageContext`` for one run; ``emitted`` are the run's updates so far.

    ``memos`` are what earlier runs of the attempt have kept: read once, as nearly all of them are wanted again.
    """

    def __init__(
        self, runtime: Runtime, lease: Lease, job: JobView, claimed: StageAttempt, memos: dict[str, Any]
    ) -> None:
        self._runtime = runtime
        self._lease = lease
        self._memos = memos
        self._notes, self._notes_shown = 0, claimed.notes
        self._waits = True  # False while something is tried meanwhile
        self._begun: dict[str, str] = {}
        self._questions = Questions(runtime, lease, self.cancelled)
        self.lost = threading.Event()
        self.emitted: list[Update] = []
        self.job = job
        self.attempt = claimed.attempt
        self._stage = claimed.stage
        self.feedback = read_feedback(claimed.feedback)

    @property
    def request(self) -> JobRequest:
        return self.job.request

    @property
    def has_models(self) -> bool:
        return bool(self._runtime.models().providers)

    def result_of(self, stage: StageName) -> dict[str, Any]:
        with self._leased() as (session, job, _):
            output = attempts.finished_output(session, job, stage.value)
        if output is None:
            raise KeyError(f"no attempt of {stage.value} has finished")
        return output

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
        asked = GpuRequest(uuid.uuid4().hex, action, to_json(request), limits)
        artifacts = dict(files or {})
        with self._leased() as (session, job, row):
            work = gpu_work.find(session, row.id, key)
            if work is None and lasting:
                work = gpu_work.find_earlier(session, row, key, asked, artifacts)
            result = None if work is None else gpu_work.result_of(work)
            if result is not None:
                return result
            fresh = work is None
            if work is None:
                work = gpu_work.ask(session, job, row, key, asked, artifacts, self._runtime.clock(), gpu_uuid)
                attempts.progressed(row)
            if self._waits:
                self._suspend(session, job, row, work.request_id)
        self._runtime.at_boundary("gpu_requested")
        if fresh or self._waits:
            self._runtime.notifier.gpu(work.request_id, work.architecture)
        raise (Suspended if self._waits else Begun)(work.request_id)

    def meanwhile(self, key: str, function: Callable[[], T]) -> T | None:
        begun = self._begun.get(key)
        if begun is not None:
            with self._runtime.database.read() as session:
                if not gpu_work.ended(session, begun):
                    return None
        self._waits = False
        try:
            return function()
        except Begun as waiting:
            self._begun[key] = waiting.request_id
            return None
        finally:
            self._waits = True

    def memo(self, key: str, function: Callable[[], Any]) -> Any:
        if key in self._memos:
            return self._memos[key]
        with self._leased():  # before what may take long
            pass
        given = self._runtime.before.memo(self._stage, self.attempt, key)
        value = to_json(function()) if given is None else given
        self._runtime.at_boundary("memo_computed")
        with self._leased() as (session, _, row):
            attempts.keep_memo(session, row, key, value)
        self._memos[key] = value
        self._runtime.at_boundary("memo_kept")
        return value

    def now(self) -> float:
        return self._runtime.clock()

    def history(self, function: Callable[[Session], T]) -> T:
        with self._leased() as (session, _, _):
            return function(session)

    def ask(self, key: str, question: Question) -> Answer:
        return self._questions.ask(key, question)

    def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Answer | ModelError]:
        return self._questions.ask_all(questions)

    def ask_until(
        self, questions: Mapping[str, Question], should_stop: Callable[[Mapping[str, Answer | ModelError]], bool] | None
    ) -> dict[str, Answer | ModelError]:
        return self._questions.ask_until(questions, should_stop)

    def note(self, text: str) -> None:
        """What runs now; a note that an earlier run of the attempt has shown is not shown again."""
        if not self._waits:
            return  # notes are known by their number, and what is tried meanwhile is tried in each run another number of times
        self._notes += 1
        if self._notes <= self._notes_shown:
            return
        with self._leased() as (session, job, row):
            row.notes, row.note = self._notes, storable(text, MAX_NOTE)
            updates.append_status(session, job, self._runtime.clock())

    def artifact(self, name: str, content: bytes, media_type: str) -> str:
        digest = self._runtime.blobs.put(content)
        with self._leased() as (session, job, _):
            attempts.keep_artifact(session, job, name, digest, media_type, len(content))
        return digest

    def load(self, digest: str) -> bytes:
        return self._runtime.blobs.get(digest)

    def emit(self, update: Update) -> None:
        self.emitted.append(update)

    def cancelled(self) -> bool:
        if self.lost.is_set():
            return True
        with self._runtime.database.read() as session:
            return attempts.job_state(session, self._lease.job_id) != JobState.running

    def _suspend(self, session: Session, job: Job, row: StageAttempt, request_id: str) -> None:
        now = self._runtime.clock()
        updates.append_stage_updates(session, job, row, self.emitted, now)
        row.awaiting = request_id
        row.notified_at = now
        attempts.release(row)
        updates.append_status(session, job, now)
        session.flush()

    @contextmanager
    def _leased(self) -> Iterator[tuple[Session, Job, StageAttempt]]:
        if self.lost.is_set():
            raise LeaseLost(self._lease.job_id)
        with leased(self._runtime, self._lease) as claimed:
            yield claimed
