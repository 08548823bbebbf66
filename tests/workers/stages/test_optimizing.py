from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from gpu_runner.contracts import (
    BenchmarkRequest,
    BenchmarkResult,
    Choice,
    GpuResult,
    Pass,
    SourceFile,
    TestsResult,
    TuneRequest,
    TuneResult,
)
from tests.workers.layouts.miniature import DATA
from tests.workers.stages.answers import PASSED, SIZES, TESTS_PASS, WRONG, answers, benchmark
from tests.workers.stages.context import FakeContext
from tests.workers.stages.jobs import different, optimized, profiled, scripted, text_of
from tests.workers.stages.library import GEGLU, PATH
from workers.contracts import Guardrail, Outcome, StopReason
from workers.reports.notebook import NOT_RUN, PROPOSED
from workers.stages.gate import Gate
from workers.stages.optimize import WORDS_ALONE, Optimize
from workers.strategies.source import parsed

TUNED = TuneResult(
    (Choice(Pass.backward, SIZES[0], 11008, (("num_warps", 8),), 1.1, 1.09, 1.11, 12),),
    "sm_90",
    ((Pass.backward, ((11008, (("num_warps", 8),)),)),),
)
CSV = "benchmark/data/all_benchmark_data.csv"
ROW = 'geglu,liger,forward,speed,ms,T,tokens,1024,0.15,0.1,0.2,"{""bsz"": 1}",NVIDIA H200,2026-11-20 03:04:05,9.9.1\r\n'
Patch = pytest.MonkeyPatch


def outcomes(summary: object) -> dict[str, str]:
    return {variant.name: variant.outcome.value for variant in summary.variants}  # type: ignore[attr-defined]


def test_the_first_variant_is_the_sweep_with_its_settings_found_by_tuning() -> None:
    context = profiled(answers(tune=TUNED), variants=1)
    summary = optimized(context)
    (first,) = summary.variants
    assert context.order == ["tune v1-tune", "verify v1-verify", "benchmark v1-benchmark", "tests v1-script"]
    assert (first.strategy, first.parent, first.outcome) == ("parameter_sweep", "v0", Outcome.kept)
    assert ("backward, T=4096 I=11008", "num_warps=8") in first.settings
    assert '"sm_90"' in text_of(context, "v1")
    asked = context.asked[0][1]
    assert isinstance(asked, TuneRequest)
    assert asked.module == "liger_kernel.ops.geglu"


def test_a_sweep_that_finds_nothing_is_what_stands_and_is_not_measured_again() -> None:
    context = profiled()
    first = optimized(context).variants[0]
    assert (first.outcome, first.reason) == (Outcome.duplicate, "It is the same code as v0.")
    assert text_of(context, "v1") == GEGLU
    assert not [place for place in context.order if place.startswith(("verify v1", "benchmark v1"))]


def test_every_variant_is_proved_and_then_measured_beside_what_stands() -> None:
    context = profiled(answers(tune=TUNED))
    summary = optimized(context)
    names = [variant.name for variant in summary.variants]
    expected = ["tune v1-tune"] + [f"{what} {name}-{what}" for name in names for what in ("verify", "benchmark")]
    assert [place for place in context.order if not place.startswith("tests")] == expected
    for place, request in [asked for asked in context.asked[1:] if not asked[0].startswith("tests")]:
        (name,) = {text for text in names if text in place}
        candidate = {file.path: file.text for file in request.candidate.files}
        assert candidate[PATH] == text_of(context, name)
        assert PATH not in {file.path for file in request.original.files}
    assert all(f"{name}.json" in context.names for name in names)


def test_without_a_gpu_nothing_is_tuned() -> None:
    context = profiled(answers(benchmark=benchmark(predicted=True)))
    assert not [place for place in context.order if place.startswith("tune")]
    assert optimized(context).predicted is True


def test_without_a_gpu_a_variant_whose_changed_kernels_run_in_no_case_is_not_proposed(monkeypatch: Patch) -> None:
    line = "@triton.jit\ndef _never(x_ptr):\n    tl.store(x_ptr, 1)"
    ran, *_ = parsed(GEGLU).kernels
    made = answers(benchmark=benchmark(predicted=True)) | {"verify v1-verify": replace(PASSED, kernels=(ran,))}
    context = scripted(monkeypatch, profiled(made), line)
    (variant,) = optimized(context).variants
    assert (variant.outcome, variant.reason) == (Outcome.no_gain, "No case runs a kernel that it changes: `_never`")
    assert "benchmark v1-benchmark" not in context.order


def test_the_same_code_as_an_earlier_variant_is_not_measured_twice(monkeypatch: Patch) -> None:
    lines = ["FAST = 1", "# Another remark.", "FAST = 1  # The same in other words."]
    made = answers() | {"benchmark v1-benchmark": benchmark(1.5, forward=0.8)}
    context = scripted(monkeypatch, profiled(made), *lines)
    summary = optimized(context)
    assert outcomes(summary) == {"v1": "guardrail", "v2": "duplicate", "v3": "duplicate"}
    assert [v.reason for v in summary.variants[1:]] == ["It is the same code as v0.", "It is the same code as v1."]
    assert context.order == ["verify v1-verify", "benchmark v1-benchmark"]


def test_a_wrong_variant_is_not_measured_and_nothing_is_built_on_it(monkeypatch: Patch) -> None:
    made = answers() | {"verify v1-verify": WRONG}
    context = scripted(monkeypatch, profiled(made), *different(2))
    summary = optimized(context)
    first, second = summary.variants
    assert (first.outcome, first.rows) == (Outcome.incorrect, ())
    assert "output 0 is off by 0.3" in (first.reason or "")
    assert second.parent == "v0"
    assert "benchmark v1-benchmark" not in context.order


@pytest.mark.parametrize(
    ("measured", "goal", "guardrail", "metric"),
    [
        (benchmark(1.5, forward=0.85), "speed", Guardrail.cross_regression, "time"),
        (benchmark(1.5, memory=1.06), "speed", Guardrail.other_metric, "memory"),
        (benchmark(0.9, memory=0.5), "memory", Guardrail.other_metric, "time"),
    ],
)
def test_a_variant_that_breaks_a_guardrail_is_rejected_however_fast_it_is(
    monkeypatch: Patch, measured: object, goal: str, guardrail: Guardrail, metric: str
) -> None:
    made = answers() | {"benchmark v1-benchmark": measured}
    summary = optimized(scripted(monkeypatch, profiled(made, goal=goal), *different(2)))
    first, second = summary.variants
    assert first.outcome is Outcome.guardrail
    assert {(b.guardrail, b.metric) for b in first.breaches} == {(guardrail, metric)}
    assert second.parent == "v0"
    assert summary.winner != "v1"


def test_a_variant_that_is_wrong_in_one_timed_run_is_not_kept_however_fast_it_is_elsewhere(monkeypatch: Patch) -> None:
    def measured(request: BenchmarkRequest) -> BenchmarkResult:
        good = benchmark(1.5)(request)
        own, *others = good.rows[0].timings
        assert own.contender == "candidate"
        timings = (replace(own, error="output 0 of a timed run is wrong"), *others)
        return replace(good, rows=(replace(good.rows[0], timings=timings), *good.rows[1:]))

    made = answers() | {"benchmark v1-benchmark": measured}
    summary = optimized(scripted(monkeypatch, profiled(made), *different(2)))
    assert summary.variants[0].outcome is Outcome.failed
    assert summary.variants[0].reason == "It could not be measured: output 0 of a timed run is wrong"
    assert summary.variants[1].parent == "v0"
    assert summary.winner != "v1"


def test_a_change_that_adds_nothing_to_its_parent_is_not_kept(monkeypatch: Patch) -> None:
    made = answers(benchmark=benchmark(1.2)) | {"benchmark v2-benchmark": benchmark(1.203)}
    summary = optimized(scripted(monkeypatch, profiled(made), *different(2)))
    assert [(v.parent, v.outcome.value) for v in summary.variants] == [("v0", "kept"), ("v1", "no_gain")]
    assert summary.winner == "v1"


def by_variant(*speedups: float) -> dict[str, object]:
    return {f"benchmark v{n}-benchmark": benchmark(s) for n, s in enumerate(speedups, 1)}


def test_search_ends_where_the_variants_are_used_up(monkeypatch: Patch) -> None:
    made = answers() | by_variant(1.1, 1.2, 1.3, 1.4)
    summary = optimized(scripted(monkeypatch, profiled(made, variants=3), *different(6)))
    assert (len(summary.variants), summary.stop) == (3, StopReason.variants_used)


def test_search_ends_after_two_in_a_row_that_gain_less_than_one_percent(monkeypatch: Patch) -> None:
    made = answers() | by_variant(1.2, 1.2, 1.3, 1.305, 1.3, 1.5)
    summary = optimized(scripted(monkeypatch, profiled(made, goal="speed"), *different(6)))
    assert (len(summary.variants), summary.stop) == (5, StopReason.no_progress)
    assert summary.winner == "v3"


def test_search_ends_where_the_target_is_met(monkeypatch: Patch) -> None:
    made = answers() | by_variant(1.1, 1.4)
    context = profiled(made, target="forward < 150 us", variants=8)
    summary = optimized(scripted(monkeypatch, context, *different(6)))
    assert (len(summary.variants), summary.stop, summary.winner) == (2, StopReason.target_met, "v2")


def test_search_ends_where_the_floor_is_reached(monkeypatch: Patch) -> None:
    made = answers() | {"benchmark v2-benchmark": benchmark(1.97)}
    summary = optimized(scripted(monkeypatch, profiled(made), *different(6)))
    assert (len(summary.variants), summary.stop, summary.winner) == (2, StopReason.floor_reached, "v2")


def test_search_ends_where_every_strategy_was_tried(monkeypatch: Patch) -> None:
    summary = optimized(scripted(monkeypatch, profiled(), *different(1)))
    assert (len(summary.variants), summary.stop) == (1, StopReason.strategies_used)


def test_the_winner_is_the_best_and_not_the_last(monkeypatch: Patch) -> None:
    made = answers() | by_variant(1.1, 1.5, 1.3)
    summary = optimized(scripted(monkeypatch, profiled(made), *different(3)))
    assert [v.parent for v in summary.variants] == ["v0", "v1", "v2"]
    assert summary.winner == "v2"


def test_where_nothing_is_better_nobody_is_asked(monkeypatch: Patch) -> None:
    context = scripted(monkeypatch, profiled(answers(benchmark=benchmark(1.0))), *different(3))
    result = context.run(Optimize())
    assert result.checkpoint is False
    assert result.output["summary"]["winner"] is None


def test_a_review_chooses_a_variant_and_nothing_is_measured_again(monkeypatch: Patch) -> None:
    made = answers() | by_variant(1.1, 1.5, 1.3)
    context = scripted(monkeypatch, profiled(made), *different(3))
    assert optimized(context).winner == "v2"
    again = context.again("Too much code for me, use v1.")
    summary = optimized(again)
    assert (summary.winner, summary.notes) == ("v1", ("v1 was chosen by the review.",))
    assert again.asked == []


def test_a_choice_that_cannot_be_met_leaves_the_comparison_as_it_is_and_says_what_can(monkeypatch: Patch) -> None:
    made = answers() | by_variant(1.1, 1.5) | {"verify v3-verify": WRONG}
    context = scripted(monkeypatch, profiled(made), *different(3))
    assert optimized(context).winner == "v2"
    for text, why in (("use v9", "v9 was not tried"), ("use v3", "v3 may not be applied: its outcome is incorrect")):
        again = context.again(text)
        summary = optimized(again)
        assert summary.winner == "v2"
        assert summary.notes == (f"{why}, so the comparison is unchanged. Variants that may be applied: v1, v2.",)
        assert again.asked == []


def test_a_review_of_words_alone_says_what_it_can_act_on(monkeypatch: Patch) -> None:
    context = scripted(monkeypatch, profiled(), *different(1))
    optimized(context)
    assert optimized(context.again("Can it be nicer?")).notes == (WORDS_ALONE,)


def test_an_earlier_choice_stands_until_another_can_be_met(monkeypatch: Patch) -> None:
    context = scripted(monkeypatch, profiled(answers() | by_variant(1.1, 1.5)), *different(2))
    optimized(context)
    assert optimized(context.again("use v1", "Thank you. Why is it slower?")).winner == "v1"
    assert optimized(context.again("use v1", "use v7")).winner == "v1"
    assert optimized(context.again("use v1", "no, use v2 after all")).winner == "v2"


def test_a_gpu_host_that_fails_loses_nothing_that_was_measured(monkeypatch: Patch) -> None:
    made = answers() | by_variant(1.1, 1.2, 1.3) | {"benchmark v2-benchmark": "its host was lost three times"}
    context = scripted(monkeypatch, profiled(made), *different(3))
    with pytest.raises(Exception, match="its host was lost three times"):
        optimized(context)
    made["benchmark v2-benchmark"] = benchmark(1.2)
    again = context.again()
    assert optimized(again).winner == "v3"
    assert again.order == [
        "benchmark v2-benchmark",
        "tests v2-script",
        "verify v3-verify",
        "benchmark v3-benchmark",
        "tests v3-script",
    ]


def test_what_is_supposed_is_written_down_before_a_variant_runs(monkeypatch: Patch) -> None:
    context = scripted(monkeypatch, profiled(), *different(1))
    before, ask = list[str](), Gate._ask

    def asked(gate: Gate, *asks: Any) -> GpuResult:
        before.append(text(context, "v1_notes.md"))
        return ask(gate, *asks)

    monkeypatch.setattr(Gate, "_ask", asked)
    optimized(context)
    assert "## Hypothesis\n\nIt may help." in before[0]
    assert NOT_RUN in before[0]
    after = text(context, "v1_notes.md")
    assert NOT_RUN not in after
    assert "## Hypothesis\n\nIt may help." in after


def test_what_was_measured_of_a_variant_is_kept_as_csv(monkeypatch: Patch) -> None:
    context = scripted(monkeypatch, profiled(answers() | {"benchmark v1-benchmark": benchmark(1.5)}), *different(1))
    (variant,) = optimized(context).variants
    rows = list(csv.DictReader(io.StringIO(text(context, "v1_results.csv"))))
    assert {(row["sizes"], row["pass"]) for row in rows} == {
        (row.workload.label(), row.timed_pass.value) for row in variant.rows
    }
    mine = [row for row in rows if row["contender"] == "candidate"]
    assert mine and all(float(row["speedup_over_v0"]) == pytest.approx(1.5, rel=0.01) for row in mine)


def script(*, passed: bool = True) -> TestsResult:
    return TestsResult(passed, 0, (), "done" if passed else "exit code 1", "", (SourceFile(CSV, DATA + ROW),))


def test_the_librarys_benchmark_script_is_run_on_what_stands_and_on_each_variant_that_is_kept(
    monkeypatch: Patch,
) -> None:
    made = answers(tests=script()) | by_variant(1.1, 1.0) | {"tests environment": TESTS_PASS}
    context = scripted(monkeypatch, profiled(made), *different(2))
    assert outcomes(optimized(context)) == {"v1": "kept", "v2": "no_gain"}
    assert (
        text(context, "v0_script.csv")
        == text(context, "v1_script.csv")
        == DATA.splitlines()[0] + "\n" + ROW.replace("\r", "")
    )
    assert [place for place in context.order if place.startswith("tests")] == ["tests v1-script"]
    (asked,) = [request for place, request in context.asked if place == "tests v1-script"]
    assert asked.module == "benchmark" and "LINE_1 = 1" in asked.files[0].text


def test_scripts_that_took_ten_minutes_leave_the_rest_to_the_winner(monkeypatch: Patch) -> None:
    context = scripted(monkeypatch, profiled(answers(tests=script()) | by_variant(1.1, 1.2, 1.3)), *different(3))
    context.seconds = 300.0
    optimized(context)
    assert [place for place in context.order if place.startswith("tests")] == ["tests v1-script", "tests v2-script"]


def test_a_script_that_fails_rejects_no_variant_and_its_notes_say_so(monkeypatch: Patch) -> None:
    context = scripted(monkeypatch, profiled(answers(tests=script(passed=False))), *different(1))
    (variant,) = optimized(context).variants
    assert variant.outcome is Outcome.kept
    assert variant.notes.learnings.endswith("The library's own benchmark script gave no rows: exit code 1.")
    assert "v1_script.csv" not in context.names


def test_a_host_that_fails_at_a_script_ends_no_job(monkeypatch: Patch) -> None:
    made = answers() | {"tests v1-script": "its disk is full"}
    (variant,) = optimized(scripted(monkeypatch, profiled(made), *different(1))).variants
    assert variant.outcome is Outcome.kept and "its disk is full" in variant.notes.learnings


def text(context: FakeContext, name: str) -> str:
    return context.load(context.names[name]).decode()


def test_without_a_gpu_a_variant_that_would_be_taken_is_proposed_and_not_kept_in_its_notes(monkeypatch: Patch) -> None:
    context = scripted(monkeypatch, profiled(answers(benchmark=benchmark(predicted=True))), *different(1))
    (variant,) = optimized(context).variants
    assert (variant.outcome, variant.score, variant.breaches) == (Outcome.proposed, None, ())
    assert PROPOSED in text(context, "v1_notes.md")
