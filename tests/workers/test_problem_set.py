"""A run over a folder of problems: what it counts, that it goes on from where it was, and that one problem does not end it."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpu_runner.contracts import (
    KERNELBENCH,
    BenchmarkResult,
    Check,
    Evidence,
    Pass,
    Status,
    Timing,
    Verdict,
    Workload,
    WorkloadTiming,
    parse_problem,
)
from service.report.console import problem_set_section
from workers import byhand
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.contracts.problem_set import Entry, ProblemOutcome, counts, fast_p, reasons, report
from workers.problem_set import MOST_ELEMENTS_INTERPRETED, Compiled, Composition, SuiteTools, problems_in, work_through

SUITE = Path(__file__).parents[1] / "suite"
POOLED = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool1d(count)

    def forward(self, x):
        y = self.pool(self.pool(x))
        return torch.tanh(y) * torch.sigmoid(y)


def get_inputs():
    return [torch.rand(4, 96, 160)]


def get_init_inputs():
    return [60]
"""


@dataclass
class Bench:
    """Tools that answer by the words in a problem's source."""

    times: dict[str, float] | None = None  # of the baselines, of a candidate that takes 1
    measured: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def compile(self, source: str, name: str, left_s: float) -> Compiled:
        self.done.append(name)
        assert 0 < left_s <= 30
        if "interrupt" in source:
            raise KeyboardInterrupt
        if "breaks" in source:
            raise ZeroDivisionError("of the compiler's own")
        if "unusable" in source:
            raise UserFacingError(Failure(FailureCode.problem, "there is no `reference` in the problem"))
        if "no host" in source:
            raise UserFacingError(Failure(FailureCode.environment, "the runner could not capture"))
        if "pool" in source:
            elements = 2 * MOST_ELEMENTS_INTERPRETED if "large" in source else 8
            return Compiled(None, "it has no way to express `aten.max_pool2d` yet", "aten.max_pool2d", elements)
        small = source.replace("sized", "small") if "sized" in source else None
        elements = 2 * MOST_ELEMENTS_INTERPRETED if "large" in source else 8
        return Compiled(f"# {name}", None, None, elements, small, source.replace("positive", "drawn"))

    def compose(self, source: str, run: Path, left_s: float) -> Composition | str:
        assert 0 < left_s <= 30 and run.parent.name == "composed"
        if "alone" in source:
            return "no part of it saves memory traffic"
        if "falls apart" in source:
            raise ZeroDivisionError("of the composer's own")
        if "untraced" in source:
            raise UserFacingError(Failure(FailureCode.problem, "it draws random numbers"))
        return Composition("# composed", self.verify(source, "# composed", left_s), 3, 5)

    def verify(self, source: str, candidate: str, left_s: float) -> Verdict:
        assert "large sized" not in source
        if "wrong" in source:
            return Verdict(Status.incorrect_values, (Evidence("values", "It is off."),))
        if "positive" in source or "zeros" in source:
            return Verdict(Status.degenerate_problem, (Evidence("mutants", "A trivial answer passes."),))
        if "unproved" in source:
            return Verdict(Status.unproved, (Evidence("language", "It cannot say."),))
        if "fitting" in source and "small" in source:
            return Verdict(Status.refused, (Evidence("problem", "It does not run."),), rule="problem")
        asked = [Check(KERNELBENCH, f"seed {n}", n == 0 or "afar" not in source, "output 0") for n in range(2)]
        return Verdict(Status.passed, checks=tuple(asked))

    def measure(self, source: str, candidate: str, left_s: float) -> BenchmarkResult:
        assert self.times is not None
        self.measured.append(source)
        if "hangs" in source:
            raise UserFacingError(Failure(FailureCode.environment, "the runner could not benchmark"))
        if "off" in source:
            wrong = Timing("candidate", None, error="output 0 is wrong", wrong=True)
            return BenchmarkResult(
                (WorkloadTiming(Workload(()), Pass.forward, (wrong,), None, None, None),), False, "", None
            )
        if "roomless" in source:
            lacking = Timing("eager", None, error="out of memory"), Timing("candidate", 1.0)
            return BenchmarkResult(
                (WorkloadTiming(Workload(()), Pass.forward, lacking, None, None, None),), False, "", None
            )
        own = 3.0 if "behind" in source and candidate != "# composed" else 1.0
        timings = (Timing("candidate", own), *(Timing(name, time) for name, time in self.times.items()))
        row = WorkloadTiming(Workload(()), Pass.forward, timings, None, None, None)
        return BenchmarkResult((row,), False, "a GPU", None)

    def over(self, folder: Path, out: Path) -> list[Entry]:
        tools = SuiteTools(self.compile, self.compose, self.verify, self.measure if self.times else None)
        limit: dict[str, Any] = {"author": "compiler", "jobs": 1, "limit_s": 30.0}
        return work_through(folder, out, tools, **limit, kernel_name=lambda path: path.stem, say=lambda _: None)


def folder_of(root: Path, **problems: str) -> Path:
    """Write problem files that hold nothing but a word."""
    folder = root / "set"
    for name, word in problems.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"class Model: {word!r}\n")
    (folder / "helper.py").write_text("x = 1\n")
    return folder


def test_problem_files_are_found_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, level1__10_b="", level1__9_a="", level2__1_c="", level1____init__="", plain="")
    assert [str(path.relative_to(folder)) for path in problems_in(folder)] == [
        "plain.py",
        "level1/9_a.py",
        "level1/10_b.py",
        "level2/1_c.py",
    ]


def test_a_model_whose_own_inputs_leave_nothing_to_compute_is_judged_on_drawn_ones(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, p0="positive", p1="positive zeros", p2="right")
    entries = Bench().over(folder, tmp_path / "out")
    assert [entry.outcome for entry in entries] == [
        ProblemOutcome.right,
        ProblemOutcome.unusable,
        ProblemOutcome.right,
    ]
    assert "on other inputs than the problem's own" in entries[0].sentence and not entries[2].sentence
    folder = folder_of(tmp_path / "large", p0="sized positive")
    assert Bench({"eager": 2.0}).over(folder, tmp_path / "large/out")[0].outcome is ProblemOutcome.right


def test_each_problem_ends_in_one_outcome_and_a_broken_one_ends_no_other(tmp_path: Path) -> None:
    words = ("right", "wrong", "unproved", "large", "pool alone", "unusable", "no host", "breaks")
    folder = folder_of(tmp_path, **{f"p{number}": word for number, word in enumerate(words)})
    entries = Bench().over(folder, tmp_path / "out")
    assert [entry.outcome for entry in entries] == [
        ProblemOutcome.right,
        ProblemOutcome.wrong,
        ProblemOutcome.not_judged,
        ProblemOutcome.not_judged,
        ProblemOutcome.refused,
        ProblemOutcome.unusable,
        ProblemOutcome.error,
        ProblemOutcome.error,
    ]
    assert entries[7].sentence == "ZeroDivisionError: of the compiler's own"
    assert [entry.compiled for entry in entries] == [True] * 4 + [False] * 4
    assert (tmp_path / "out/kernels/p0.py").read_text() == "# p0"
    assert counts(entries)["compiled"] == 4
    assert dict(reasons(entries))["aten.max_pool2d"] == [entries[4]]
    assert "aten.max\\_pool2d" in problem_set_section(entries)
    assert "Nothing was timed" in problem_set_section(entries)


def test_a_large_problem_is_proved_at_small_sizes_where_it_has_any(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, a="large sized right", b="large sized wrong", c="large right")
    entries = Bench().over(folder, tmp_path / "out")
    assert [entry.outcome for entry in entries] == [
        ProblemOutcome.right,
        ProblemOutcome.wrong,
        ProblemOutcome.not_judged,
    ]
    assert entries[0].sentence.startswith("at small sizes: its inputs have")


def test_small_sizes_keep_what_is_fixed_and_what_is_smaller_already() -> None:
    source = (SUITE.parent / "problems/reglu.py").read_text()
    small = byhand.small_problem(parse_problem(source))
    assert small is not None
    problem = parse_problem(small)
    assert [set(dict(workload.sizes)) for workload in problem.workloads] == [set(problem.dimensions)]
    assert all(size <= max(byhand.SMALL_SIZES) for _, size in problem.workloads[0].sizes)
    fixed = 'import torch\n\n\ndef reference(x):\n    return x + 1\n\n\nINPUTS = {"x": "T 9000000"}\nWORKLOADS = [{"T": 8}]\n'
    assert byhand.small_problem(parse_problem(fixed)) is None


def test_a_run_goes_on_from_where_it_was_ended_also_in_the_middle_of_a_line(tmp_path: Path) -> None:
    folder, out = folder_of(tmp_path, a="right", b="interrupt", c="right"), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        Bench().over(folder, out)
    with (out / "results.jsonl").open("a") as file:
        file.write('{"problem": "c.py", "dig')
    (folder / "b.py").write_text("class Model: 'right'\n")
    again = Bench()
    assert [entry.outcome for entry in again.over(folder, out)] == [ProblemOutcome.right] * 3
    assert again.done == ["b", "c"]


def test_who_interrupts_a_run_is_told_what_is_kept_and_waits_for_no_problem(tmp_path: Path) -> None:
    ended, said = threading.Event(), list[str]()

    def compiled(source: str, name: str, left_s: float) -> Compiled:
        if name != "a":
            assert ended.wait(60)
        return Bench().compile(source, name, left_s)

    def say(line: str) -> None:
        said.append(line)
        if "a.py" in line:
            raise KeyboardInterrupt

    folder, out = folder_of(tmp_path, a="right", b="right", c="right", d="right"), tmp_path / "out"
    tools = SuiteTools(compiled, Bench().compose, Bench().verify, None, ended.set)
    asked: dict[str, Any] = {"author": "compiler", "jobs": 2, "limit_s": 30.0}
    with pytest.raises(KeyboardInterrupt):
        work_through(folder, out, tools, **asked, kernel_name=lambda path: path.stem, say=say)
    assert said[-1].startswith("Interrupted. 1 of 4 problems have their result in ") and ended.is_set()
    again = Bench()
    again.over(folder, out)
    assert again.done == ["b", "c", "d"]


def test_a_problem_that_was_changed_is_worked_on_again(tmp_path: Path) -> None:
    folder, out = folder_of(tmp_path, a="wrong"), tmp_path / "out"
    assert Bench().over(folder, out)[0].outcome is ProblemOutcome.wrong
    (folder / "a.py").write_text("class Model: 'right'\n")
    assert Bench().over(folder, out)[0].outcome is ProblemOutcome.right
    untouched = Bench()
    assert untouched.over(folder, out)[0].outcome is ProblemOutcome.right
    assert untouched.done == []


def test_fast_p_counts_what_is_right_and_faster_among_all_problems(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, a="right", b="wrong", c="right", d="pool alone")
    entries = Bench({"eager": 1.6, "torch_compile": 0.9}).over(folder, tmp_path / "out")
    assert [fast_p(entries, "eager", p) for p in (0.0, 1.0, 1.5, 2.0)] == [0.5, 0.5, 0.5, 0.0]
    assert [fast_p(entries, "torch_compile", p) for p in (0.0, 1.0)] == [0.5, 0.0]
    assert "torch.compile" in problem_set_section(entries)
    assert json.loads(json.dumps(report(entries)))["total"]["fast_p"]["eager"]["fast_1.5"] == 0.5


def test_what_was_proved_stays_so_where_it_cannot_be_timed_and_not_where_a_timed_run_is_wrong(tmp_path: Path) -> None:
    words = ("right", "hangs", "off", "roomless", "wrong")
    folder = folder_of(tmp_path, **{f"p{number}": word for number, word in enumerate(words)})
    bench = Bench({"eager": 2.0})
    entries = bench.over(folder, tmp_path / "out")
    assert [(entry.outcome, entry.untimed) for entry in entries] == [
        (ProblemOutcome.right, ""),
        (ProblemOutcome.right, "the runner could not benchmark"),
        (ProblemOutcome.wrong, ""),
        (ProblemOutcome.right, "eager: out of memory"),
        (ProblemOutcome.wrong, ""),
    ]
    assert entries[0].speedups == {"eager": 2.0}
    assert entries[2].sentence == "incorrect_values: at the problem's own sizes, output 0 is wrong"
    assert len(bench.measured) == 4
    again = Bench({"eager": 2.0})
    assert again.over(folder, tmp_path / "out") == entries
    assert again.measured == []


def test_a_run_that_was_ended_before_it_timed_goes_on_with_that(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, a="right", b="wrong")
    assert Bench().over(folder, tmp_path / "out")[0].speedups == {}
    bench = Bench({"eager": 2.0})
    assert bench.over(folder, tmp_path / "out")[0].speedups == {"eager": 2.0}
    assert bench.done == [] and len(bench.measured) == 1


def test_kernelbenchs_own_rule_counts_apart_and_every_draw_must_hold_by_it(tmp_path: Path) -> None:
    entries = Bench().over(folder_of(tmp_path, a="right", b="afar", c="wrong"), tmp_path / "out")
    assert [entry.close for entry in entries] == [True, False, None]
    assert report(entries)["total"]["right_by_kernelbench"] == 1
    assert "right by KernelBench's rule" in problem_set_section(entries)


def test_on_a_gpu_a_problem_that_runs_at_no_smaller_sizes_is_judged_at_its_own(tmp_path: Path) -> None:
    entries = Bench({"eager": 2.0}).over(folder_of(tmp_path, a="sized", b="sized fitting"), tmp_path / "out")
    assert [entry.outcome for entry in entries] == [ProblemOutcome.right] * 2
    assert [entry.sentence for entry in entries] == ["at small sizes: its own have 8 elements to compare", ""]


def test_what_is_refused_as_a_whole_is_composed_and_never_counted_as_one_program(tmp_path: Path) -> None:
    words = ("pool", "pool wrong", "pool unproved", "pool alone", "pool untraced", "right")
    folder = folder_of(tmp_path, **{f"p{number}": word for number, word in enumerate(words)})
    entries = Bench({"eager": 1.6}).over(folder, tmp_path / "out")
    assert [(entry.outcome, entry.parts, entry.left_to_torch) for entry in entries] == [
        (ProblemOutcome.composed, 3, 5),
        (ProblemOutcome.wrong, 3, 5),
        (ProblemOutcome.not_judged, 3, 5),
        (ProblemOutcome.refused, 0, 0),
        (ProblemOutcome.refused, 0, 0),
        (ProblemOutcome.right, 0, 0),
    ]
    assert counts(entries)["compiled"] == 1
    assert [fast_p(entries, "eager", 1.5, composed=composed) for composed in (False, True)] == [1 / 6, 2 / 6]
    assert dict(reasons(entries))["aten.max_pool2d"] == entries[:5]
    assert entries[3].sentence.endswith("; not composed of parts: no part of it saves memory traffic")
    assert entries[4].sentence.endswith("; not composed of parts: it draws random numbers")
    assert (tmp_path / "out/kernels/p0.py").read_text() == "# composed"
    shown = problem_set_section(entries)
    assert "| `p0.py` | 3 | 5 | 1.60 |" in shown
    assert "| `all` | right | eager |" in shown and "| `all` | right or composed | eager |" in shown


def test_what_is_behind_is_held_beside_a_program_of_parts_which_counts_as_composed(tmp_path: Path) -> None:
    words = ("behind", "behind alone", "behind untraced", "right", "pool", "behind falls apart")
    folder = folder_of(tmp_path, **{f"p{number}": word for number, word in enumerate(words)})
    bench = Bench({"eager": 2.0, "torch_compile": 1.5})
    entries = bench.over(folder, tmp_path / "out")
    assert [(entry.speedups["torch_compile"], dict(entry.in_parts), entry.not_in_parts) for entry in entries] == [
        (0.5, {"eager": 2.0, "torch_compile": 1.5}, ""),
        (0.5, {}, "no part of it saves memory traffic"),
        (0.5, {}, "it draws random numbers"),
        (1.5, {}, ""),
        (1.5, {}, ""),
        (0.5, {}, "ZeroDivisionError: of the composer's own"),
    ]
    assert [fast_p(entries, "torch_compile", 1.0, composed=composed) for composed in (False, True)] == [1 / 6, 3 / 6]
    assert (tmp_path / "out/kernels/p0_in_parts.py").read_text() == "# composed"
    assert (tmp_path / "out/kernels/p0.py").read_text() == "# p0"
    assert "| `p0.py` | 0.67 | 0.50 | 2.00 | 1.50 | 5 |" in problem_set_section(entries)
    measured = [*bench.measured]
    assert bench.over(folder, tmp_path / "out") == entries
    assert bench.measured == measured


def test_what_is_too_large_for_the_interpreter_is_not_composed_there(tmp_path: Path) -> None:
    [entry] = Bench().over(folder_of(tmp_path, a="pool large"), tmp_path / "out")
    assert entry.outcome is ProblemOutcome.refused
    assert "not composed of parts: its inputs have" in entry.sentence


@pytest.mark.slow
def test_real_problems_are_captured_compiled_and_judged(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    for name in ("layer_norm_3d", "max_pool_with_indices"):
        (folder / f"1_{name}.py").write_text((SUITE / f"{name}.py").read_text())
    (folder / "2_pooled.py").write_text(POOLED)
    said: list[str] = []
    entries = byhand.suite(folder, tmp_path / "out", 2, 300.0, lambda path: path.stem[2:], said.append)
    assert [(entry.outcome, entry.reason) for entry in entries] == [
        (ProblemOutcome.right, None),
        (ProblemOutcome.refused, "aten.max_pool2d_with_indices.default"),
        (ProblemOutcome.composed, "aten._adaptive_avg_pool2d.default"),
    ]
    assert (entries[2].parts, entries[2].left_to_torch) == (1, 2)
    assert len(said) == 4
