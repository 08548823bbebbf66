"""The steps that a pipeline may name: the closed vocabulary, one file a stage."""

from __future__ import annotations

from workers.contracts import StageName, Verb
from workers.engine.protocol import Stage, StageContext, StageResult
from workers.stages.analyze import Analyze
from workers.stages.bisection import Bisect
from workers.stages.confirm import Confirm
from workers.stages.finalize import Finalize
from workers.stages.fuse import Compose, Dispatch, Extract, Route, ValidateFused
from workers.stages.generate import Generate
from workers.stages.measure import Measure
from workers.stages.modify import Modify
from workers.stages.nightly import Nightly
from workers.stages.optimize import Optimize
from workers.stages.port import Port
from workers.stages.profiling import Profile
from workers.stages.validate import Validate


class ValidateByVerb:
    """The last stage of ``create`` and of ``fuse``: a kernel's, or a model's."""

    name = StageName.validate

    def run(self, context: StageContext) -> StageResult:
        """What the stage of the job's verb gives."""
        stage: Stage = ValidateFused() if context.request.verb is Verb.fuse else Validate()
        return stage.run(context)


STAGES: dict[StageName, Stage] = {
    StageName.analyze: Analyze(),
    StageName.generate: Generate(),
    StageName.validate: ValidateByVerb(),
    StageName.profile: Profile(),
    StageName.optimize: Optimize(),
    StageName.finalize: Finalize(),
    StageName.modify: Modify(),
    StageName.confirm: Confirm(),
    StageName.port: Port(),
    StageName.route: Route(),
    StageName.extract: Extract(),
    StageName.dispatch: Dispatch(),
    StageName.compose: Compose(),
    StageName.measure: Measure(),
    StageName.nightly: Nightly(),
    StageName.bisect: Bisect(),
}
