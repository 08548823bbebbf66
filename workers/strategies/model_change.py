"""A change that a language model writes. What it is decides nobody before it is asked, so that the stage proposes it. Pure."""

from __future__ import annotations

from workers.contracts import PlannedStrategy
from workers.strategies.evidence import bound_of, headroom, share_sentence
from workers.strategies.protocol import DoesNotApply, ModelTurn, Proposed, Situation

# A pass that is within a tenth of its floor is finished, and what could still be gained is not worth an answer.
LEAST_ROOM = 1.10
GAIN = (1.0, 1.3)
ELSEWHERE = "A model writes this change, and the stage asks for it."


class ModelChange:
    """One change at a time, each on the best variant so far, as long as they gain something."""

    id = "model_change"
    title = "A model's change"
    document = "model_change.md"
    needs_kernel = True

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """It is worth a try where a model may be asked and, if nobody asked for it by name, a pass is far enough from its floor."""
        if situation.model is ModelTurn.never:
            return None
        if situation.model is ModelTurn.last and headroom(situation) < LEAST_ROOM:
            return None
        told = share_sentence(situation) or "how far it is from its floor was not measured"
        when = "after what needs none" if situation.model is ModelTurn.last else "right after the launch settings"
        trigger = f"A model may be asked, {when}; {told}."
        return PlannedStrategy(self.id, self.title, trigger, *GAIN, bound=bound_of(situation), repeats=True)

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """Give nothing: a strategy is pure, and a model is not."""
        assert situation.source, "there is a file"
        return DoesNotApply(ELSEWHERE)
