"""Jobs as the tests of pages and publishing need them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workers.contracts import (
    JobRequest,
    JobState,
    JobView,
    Origin,
    ProblemKind,
    ProblemText,
    StageName,
    StageState,
    StageView,
    TimelineEvent,
    Verb,
)

REPOSITORY = "octo/kernels"
BASE = "1" * 40
NOW = "2026-01-02T03:04:05+00:00"

PROBLEM = '''\
"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 64, "I": 128}]
'''


def request(**changes: Any) -> JobRequest:
    made = JobRequest(
        key=f"{REPOSITORY}#comment-1:1:abc",
        verb=Verb.create,
        kernel="reglu",
        origin=Origin(REPOSITORY, 7, "maintainer", comment_id=1),
        base_ref="main",
        base_sha=BASE,
        snapshot="0" * 64,
        problem=ProblemText(ProblemKind.block, PROBLEM),
    )
    return replace(made, **changes)


def job(**changes: Any) -> JobView:
    made = JobView(
        job_id="abcdefgh",
        request=request(),
        state=JobState.running,
        pipeline=(StageName.analyze, StageName.generate, StageName.validate),
        stages=(StageView(StageName.analyze, 1, StageState.running, "tracing the problem", started_at=NOW),),
        created_at=NOW,
        updated_at=NOW,
        branch="kernelsmith/reglu-abcdefgh",
        timeline=(TimelineEvent(NOW, "submitted", "create reglu"),),
    )
    return replace(made, **changes)
