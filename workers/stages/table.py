"""The steps that a pipeline may name: the closed vocabulary, one file a stage."""

from __future__ import annotations

from workers.contracts import StageName
from workers.engine.protocol import Stage
from workers.stages.analyze import Analyze
from workers.stages.bisection import Bisect
from workers.stages.confirm import Confirm
from workers.stages.finalize import Finalize
from workers.stages.generate import Generate
from workers.stages.measure import Measure
from workers.stages.modify import Modify
from workers.stages.nightly import Nightly
from workers.stages.optimize import Optimize
from workers.stages.port import Port
from workers.stages.profiling import Profile
from workers.stages.validate import Validate

STAGES: dict[StageName, Stage] = {
    StageName.analyze: Analyze(),
    StageName.generate: Generate(),
    StageName.validate: Validate(),
    StageName.profile: Profile(),
    StageName.optimize: Optimize(),
    StageName.finalize: Finalize(),
    StageName.modify: Modify(),
    StageName.confirm: Confirm(),
    StageName.port: Port(),
    StageName.measure: Measure(),
    StageName.nightly: Nightly(),
    StageName.bisect: Bisect(),
}
