"""What a stage is, and what the engine gives it. Stage code is linear and replayed from the start after every suspension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_runner.contracts import Action, GpuResult
from workers.contracts import JobRequest, LineComment, StageName, Update


@dataclass(frozen=True)
class ReviewFeedback:
    """A review that asked for changes of this stage."""

    text: str
    lines: tuple[LineComment, ...] = ()
    by: str = ""


@dataclass(frozen=True)
class StageResult:
    """What a stage leaves: ``output`` (JSON) for later stages, and updates to publish in this order."""

    output: dict[str, Any]
    updates: tuple[Update, ...] = ()


class StageContext(Protocol):
    """The engine, as a stage sees it."""

    request: JobRequest
    attempt: int
    feedback: tuple[ReviewFeedback, ...]

    def result_of(self, stage: StageName) -> dict[str, Any] | None:
        """Give the output of the last finished attempt of a stage (this one included), None where there is none."""
        ...

    def gpu(self, key: str, action: Action, payload: object, files: Mapping[str, str] | None = None) -> GpuResult:
        """Give the runner's result, asking for it once; ``files`` maps names beside the request to artifact digests."""
        ...

    def memo(self, key: str, function: Callable[[], Any]) -> Any:
        """Give the stored JSON value of ``function``, calling it once in an attempt."""
        ...

    def note(self, text: str) -> None:
        """Say what runs now."""
        ...

    def artifact(self, name: str, content: bytes, media_type: str) -> str:
        """Store a named file of the job and give its digest."""
        ...

    def read_artifact(self, digest: str) -> bytes:
        """Give the bytes of a digest."""
        ...


class Stage(Protocol):
    """One step of a pipeline."""

    name: StageName

    def run(self, context: StageContext) -> StageResult:
        """Do the step. ``UserFacingError`` fails it for good, any other error is tried again."""
        ...
