"""What a stage is and what it gets. A stage is plain linear code that is run again from its start after every pause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gpu_runner.contracts import Action, GpuResult, Limits
from workers.authors.protocol import Feedback
from workers.contracts import JobRequest, JobView, StageName, Update
from workers.models.protocol import Answer, ModelError, Question

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

DEFAULT_LIMITS = Limits()
T = TypeVar("T")


@dataclass(frozen=True)
class StageResult:
    """What a stage ends with: ``output`` is JSON for later stages, ``updates`` follow those that were emitted.

    ``checkpoint`` False lets the job go on without a review where the pipeline would ask for one.
    """

    output: dict[str, Any] = field(default_factory=dict)
    updates: tuple[Update, ...] = ()
    checkpoint: bool = True


class StageContext(Protocol):
    """What a running stage can do. Everything here is kept, so that a stage run again gets the same answers.

    Code between two calls must come to the same decisions each time: put the clock, randomness, the network and anything
    expensive into ``memo``. ``gpu`` does not return until the result is there; in between the stage is not in memory at all.
    """

    @property
    def job(self) -> JobView:
        """The job as it was when this run of the stage began."""
        ...

    @property
    def request(self) -> JobRequest:
        """What was asked for."""
        ...

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        ...

    @property
    def feedback(self) -> tuple[Feedback, ...]:
        """What the reviews of this stage asked for, oldest first."""
        ...

    @property
    def has_models(self) -> bool:
        """Whether a language model may be asked here at all; a stage that decides by it keeps the answer in ``memo``."""
        ...

    def result_of(self, stage: StageName) -> dict[str, Any]:
        """The output of the last finished attempt of an earlier stage.

        Raises:
            KeyError: no attempt of that stage has finished.
        """
        ...

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
        """The result of one action on a GPU host; ``files`` maps names in the request's folder to artifact digests.

        With ``gpu_uuid`` the host of that GPU answers and no other; without it whichever of the job's architecture is free.

        The answer belongs to ``key`` within this attempt. It has an ``error`` where host after host was lost over it.
        With ``lasting`` the answer that an earlier attempt of this stage got to the very same request under the same key serves
        again, unless it was an error: what took minutes to measure is not lost with the attempt that asked for it.
        """
        ...

    def memo(self, key: str, function: Callable[[], Any]) -> Any:
        """The JSON value of ``function``, called once in this attempt and kept."""
        ...

    def now(self) -> float:
        """Seconds since the epoch, by the installation's clock; it belongs in ``memo``."""
        ...

    def ask(self, key: str, question: Question) -> Answer:
        """A model's answer to a question; it belongs to ``key`` within this attempt and is paid for once.

        An attempt that follows one which ended for want of a budget, a model or a working GPU host, or was cancelled, has that
        one's answers to the very same questions under the same keys.

        Raises:
            ModelError: there is no answer. What follows from the question and its answer, such as a refusal, is kept too;
                after a trouble that passes, or that a setting fixes, the next run of the stage asks again.
            UserFacingError: a budget is reached, or no model is configured.
        """
        ...

    def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Answer | ModelError]:
        """Ask several questions at once, by key; each outcome is kept as it arrives, as by ``ask``.

        Raises:
            UserFacingError: a budget had no room for one of them, or no model is configured; what was answered is kept.
        """
        ...

    def ask_until(
        self, questions: Mapping[str, Question], should_stop: Callable[[Mapping[str, Answer | ModelError]], bool] | None
    ) -> dict[str, Answer | ModelError]:
        """Ask several questions at once, and cancel the rest once ``should_stop`` is true of the answers so far.

        It is called with those in the order of ``questions``: before anything is asked, where answers are kept already, and about
        every second while some are open. The rest is kept as ``not_needed``, so that each run of the attempt has the same
        answers. Which those are is chance, so decisions may depend on the answers alone, not on what ``should_stop`` saw.
        None asks all, as ``ask_all`` does, and so does a replay, whose recording knows what was not needed.

        Raises:
            UserFacingError: as by ``ask_all``, unless ``should_stop`` was true.
        """
        ...

    def meanwhile(self, key: str, function: Callable[[], T]) -> T | None:
        """The result of a function, or None while it waits for a GPU host: that works on it, and the stage goes on.

        For ``should_stop`` of ``ask_until``, and for work that several hosts share. The function is called again from its start
        once the host has answered; a later run of it, outside of this, finds the same results and waits for what is missing.
        ``key`` is the function's within the run.
        """
        ...

    def history(self, function: Callable[[Session], T]) -> T:
        """Read or write the numbers of past nights, in one transaction under the attempt's lease.

        What is read differs at the next run: it belongs in ``memo``. What is written is written again by every run, and must be
        the same.
        """
        ...

    def note(self, text: str) -> None:
        """What runs now, such as "proving on 24 workloads"."""
        ...

    def artifact(self, name: str, content: bytes, media_type: str) -> str:
        """Keep a named file of the job and give its digest; the same name again replaces it."""
        ...

    def load(self, digest: str) -> bytes:
        """An artifact's bytes."""
        ...

    def emit(self, update: Update) -> None:
        """Emit an update before the stage ends; it is written at the next pause, once."""
        ...

    def cancelled(self) -> bool:
        """Whether the job was cancelled; long loops ask now and then and simply return."""
        ...


class Stage(Protocol):
    """One step of a pipeline.

    Raising ``UserFacingError`` fails the stage with its failure; any other exception is tried again, three times in all.
    """

    @property
    def name(self) -> StageName:
        """The stage's name in the pipeline table."""
        ...

    def run(self, context: StageContext) -> StageResult:
        """Run the stage from its start."""
        ...


Stages = Mapping[StageName, Stage]
