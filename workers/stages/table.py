"""The closed vocabulary of stages."""

from __future__ import annotations

from workers.contracts import StageName
from workers.stages.analyze import Analyze
from workers.stages.generate import Generate
from workers.stages.protocol import Stage
from workers.stages.validate import Validate

STAGES: dict[StageName, Stage] = {
    StageName.analyze: Analyze(),
    StageName.generate: Generate(),
    StageName.validate: Validate(),
}
