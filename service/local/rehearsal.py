"""A terminal at which decisions are made again as they were recorded."""

from __future__ import annotations

from collections.abc import Sequence

from service.local.terminal import Choice, Terminal
from workers.contracts import Decision, JobView, LineComment
from workers.embedded import Decided


class Rehearsal(Terminal):
    """Answers with the recorded decisions in their order, and approves where they have come to an end."""

    def __init__(self, decisions: Sequence[Decided]) -> None:
        super().__init__()
        self._left = list(decisions)

    def ask(self, job: JobView) -> Choice:
        """Decide as it was decided then."""
        if not self._left:
            return Choice(Decision.approve)
        decided = self._left.pop(0)
        stage = job.checkpoint.stage.value if job.checkpoint else "this stage"
        self.say(f"{stage}: {decided.decision.value}, as recorded.")
        words = "\n\n".join(point.text for point in decided.feedback if point.path is None)
        lines = tuple(LineComment(p.path, p.line, p.text) for p in decided.feedback if p.path is not None)
        return Choice(decided.decision, words, lines)
