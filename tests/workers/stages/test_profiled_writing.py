"""``--profile`` of create and modify: the proved kernel is profiled, and the checkpoint holds what bounds it."""

from __future__ import annotations

import json
from dataclasses import replace

from gpu_runner.contracts import ProfileRequest, ProfileResult, from_json, to_json
from tests.workers.stages.answers import PROFILED, benchmark
from tests.workers.stages.context import FakeContext
from tests.workers.stages.creating import answers, creating
from tests.workers.stages.modifying.changing import answers as changing
from tests.workers.stages.modifying.changing import modifying
from workers.contracts import CheckpointUpdate, ConfirmSummary, JobOptions, JobRequest, ValidateSummary, Verb
from workers.engine.protocol import Stage, StageResult
from workers.stages.analyze import Analyze
from workers.stages.confirm import Confirm
from workers.stages.estimate import gpu_seconds
from workers.stages.generate import Generate
from workers.stages.modify import Modify
from workers.stages.validate import Validate


def _through(context: FakeContext, *stages: Stage) -> StageResult:
    for stage in stages:
        result = context.run(stage)
    return result


def _profile_of(result: StageResult) -> ProfileResult | None:
    (summary,) = [update.summary for update in result.updates if isinstance(update, CheckpointUpdate)]
    assert isinstance(summary, ValidateSummary | ConfirmSummary)
    return summary.profile


def _page(context: FakeContext) -> str:
    return context.load(context.names["profile.md"]).decode()


def test_a_created_kernel_is_profiled_once_it_is_proved_and_tested() -> None:
    context = creating(None, answers(profile=PROFILED), profile=True)
    result = _through(context, Analyze(), Generate(), Validate())
    assert _profile_of(result) == PROFILED
    places = context.order
    assert places.index("tests tests-1") < places.index("profile profile")
    asked = dict(context.asked)["profile profile"]
    assert isinstance(asked, ProfileRequest)
    assert asked.candidate == dict(context.asked)["benchmark benchmark"].candidate
    assert len(asked.workloads) == 1
    kept = json.loads(context.load(context.names["profile.json"]))
    assert from_json(ProfileResult, kept) == PROFILED
    assert _page(context).startswith("# Profile of reglu\n\nGPU: NVIDIA H200, 4240 GB/s (measured)")
    assert "- forward: memory\n- backward: latency" in _page(context)
    assert "## Times (predicted, no GPU took part)" in _page(context)
    assert from_json(ValidateSummary, result.output["summary"]).reproduce.endswith(" --auto --profile")


def test_the_profilers_own_table_is_an_artifact_and_no_part_of_the_profile() -> None:
    context = creating(None, answers(profile=replace(PROFILED, counters_csv="Workload,Kernel Name\n")), profile=True)
    result = _through(context, Analyze(), Generate(), Validate())
    assert context.load(context.names["ncu.csv"]) == b"Workload,Kernel Name\n"
    assert _profile_of(result) == PROFILED


def test_a_changed_kernel_is_profiled_with_its_change() -> None:
    context = modifying(changing(profile=PROFILED, benchmark=benchmark(1.25)), profile=True)
    result = _through(context, Modify(), Confirm())
    assert _profile_of(result) == PROFILED
    asked = dict(context.asked)
    assert asked["profile profile"].candidate.files == asked["verify verify"].candidate.files
    assert "| 160.0 | 100.0 | 62% |" in _page(context), "the times of the change, not of what stood"


def test_nothing_is_profiled_where_nobody_asks_for_it() -> None:
    context = creating(None)
    assert _profile_of(_through(context, Analyze(), Generate(), Validate())) is None
    assert "profile.md" not in context.names
    change = modifying()
    assert _profile_of(_through(change, Modify(), Confirm())) is None


def test_a_job_that_was_stored_before_the_option_was_there_still_loads() -> None:
    request = creating(None).request
    stored = to_json(request)
    del stored["options"]["profile"]
    assert from_json(JobRequest, stored) == request
    assert request.options.profile is False


def test_the_estimate_counts_the_profile() -> None:
    plain = creating(None).request
    profiled = creating(None, profile=True).request
    assert plain.verb is Verb.create
    assert gpu_seconds(profiled) == gpu_seconds(plain) + 60.0
    assert profiled.options == JobOptions(profile=True)
