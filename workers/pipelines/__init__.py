"""Pipelines: which stages a command goes through, and where a review decides. The table is the closed vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from workers.contracts import StageName, Verb


@dataclass(frozen=True)
class Step:
    """A stage, and whether a review decides before the job goes on."""

    stage: StageName
    checkpoint: bool = True


Pipeline = tuple[Step, ...]

PIPELINES: dict[Verb, Pipeline] = {
    Verb.create: (Step(StageName.analyze), Step(StageName.generate), Step(StageName.validate)),
    Verb.optimize: (Step(StageName.profile), Step(StageName.optimize), Step(StageName.finalize)),
    Verb.tune: (
        Step(StageName.profile, checkpoint=False),
        Step(StageName.optimize, checkpoint=False),
        Step(StageName.finalize),
    ),
    Verb.profile: (Step(StageName.profile, checkpoint=False),),
    Verb.modify: (Step(StageName.modify), Step(StageName.confirm)),
    Verb.port: (Step(StageName.port),),
    Verb.fuse: (
        Step(StageName.route, checkpoint=False),
        Step(StageName.extract),
        Step(StageName.dispatch, checkpoint=False),
        Step(StageName.compose),
        Step(StageName.validate),
    ),
    Verb.bench: (Step(StageName.measure, checkpoint=False),),
    Verb.verify: (Step(StageName.measure, checkpoint=False),),
    Verb.nightly: (Step(StageName.nightly, checkpoint=False),),
    Verb.bisect: (Step(StageName.bisect, checkpoint=False),),
}

__all__ = ["PIPELINES", "Pipeline", "Step"]
