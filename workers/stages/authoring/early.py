"""Candidates that are judged while others are still being written, until one of them decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from workers.contracts import UserFacingError
from workers.engine.protocol import StageContext
from workers.models.protocol import Answer, ModelError

Answers = Mapping[str, Answer | ModelError]
T = TypeVar("T")


class Early(Generic[T]):
    """Looks at answers as they arrive. What it says ends questions and decides nothing: that is done by who has all of them.

    ``trials`` gives, out of what has been answered, what is worth judging, by key and in the order in which it was asked for, and
    ``wins`` says of what one comes to that nothing else is needed. With ``every`` all are judged and nothing is ended.
    """

    def __init__(
        self,
        context: StageContext,
        trials: Callable[[Answers], Mapping[str, Callable[[], T]]],
        wins: Callable[[T], bool],
        *,
        every: bool = False,
    ) -> None:
        self._context, self._trials, self._wins, self._every = context, trials, wins, every
        self._lost: set[str] = set()
        self._open: tuple[str, Callable[[], T]] | None = None

    def enough(self, answered: Answers) -> bool:
        """Go on judging what has been answered, and tell whether the other questions can be ended."""
        trials = dict(self._trials(answered))
        if self._every:
            for key, trial in trials.items():
                if key not in self._lost and self._decides(key, trial) is not None:
                    self._lost.add(key)
            return False
        # One after the other, as a host does it anyway: the proof of one that is not needed is time lost for whoever waits for it.
        waiting = [] if self._open is None else [self._open]
        for key, trial in (*waiting, *trials.items()):
            if key in self._lost:
                continue
            self._open = (key, trial)
            decides = self._decides(key, trial)
            if decides is None or decides:
                return bool(decides)
            self._lost.add(key)
        self._open = None
        return False

    def _decides(self, key: str, trial: Callable[[], T]) -> bool | None:
        """Tell whether one decides; None: nobody knows yet."""
        try:
            found = self._context.meanwhile(f"trial-{key}", trial)
        except UserFacingError:
            return True  # the host failed, or no candidate can pass: the run that follows says so
        return None if found is None else self._wins(found)
