"""Host code and kernels are tried at the size of a workload, by a few programs of each launch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Status
from gpu_runner.contracts.problem import parse_problem
from gpu_runner.errors import ChildOutOfMemory
from gpu_runner.verify import scale
from gpu_runner.verify.cases import Case
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.finding import VerdictFinding
from gpu_runner.verify.judge import _replies, _Trial, _try_at_scale
from gpu_runner.verify.opening import loaded, opened, reference_session
from gpu_runner.verify.scale import AtScale, at_scale, examined_at_scale
from gpu_runner.verify.truth import Oracle
from tests.cheats.trial import cheat, source_of_problem, surroundings
from tests.few import few
from tests.honest.table import source_of

SEED = "5eed" * 8
pytestmark = pytest.mark.slow


@functools.cache
def calls(problem_source: str) -> tuple[AtScale, ...]:
    problem, context, draws = parse_problem(problem_source), surroundings(), Draws(SEED)
    with opened(reference_session("reference", problem.source, context, 0), context) as session:
        oracle = Oracle.open(problem, session, draws.seed("module"))
        return tuple(at_scale(oracle, problem.workloads, "float32", draws))


@pytest.mark.parametrize(
    ("problem", "known"),
    [
        ("residual", {"output 0": ("T",), "gradient of x": ("T",), "gradient of y": ("T",)}),
        ("add_in_place", {"output 0": ("T",)}),
        ("rms_norm", {"output 0": ("T",), "gradient of x": ("T",)}),
        ("cross_entropy", {"gradient of x": ("T",)}),
        ("rope", {"output 0": ("B", "S"), "gradient of x": ("B", "S")}),
        ("column_norm", {"output 0": ("T",), "gradient of x": ("T",)}),  # whose sums zeros leave as they are
    ],
)
def test_batch_dimensions_are_what_the_reference_computes_by_itself(
    problem: str, known: dict[str, tuple[str, ...]]
) -> None:
    found = calls(source_of_problem(problem))
    assert {label: tuple(filter(None, one.axes)) for call in found[:1] for label, one in call.answers.items()} == known


SQUARES = """
import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


INPUTS = {"x": "B S S"}
WORKLOADS = [{"B": 8, "S": 1024}]
"""


def test_what_the_reference_makes_is_bounded_in_the_first_call_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "MOST_MADE_FIRST", 2**22)
    first, *_ = calls(SQUARES)
    assert 1 < first.sizes["S"] < 1024
    assert first.proof.inputs["x"].numel() * first.proof.inputs["x"].element_size() <= 2**22


def test_a_reference_that_is_lost_at_scale_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, context, draws = parse_problem(source_of_problem("residual")), surroundings(), Draws(SEED)
    with opened(reference_session("reference", problem.source, context, 0), context) as session:
        oracle = Oracle.open(problem, session, draws.seed("module"))

        def lost(*_: object) -> None:
            session.settle()
            raise ChildOutOfMemory("more than 16384 MiB of memory", "")

        monkeypatch.setattr(scale, "_batch_at", lost)
        assert at_scale(oracle, problem.workloads, "float32", draws) == []
        assert oracle.prove(Case("after", (("T", 9), ("H", 40)), "float32", 1), None) is not None


def test_a_mean_is_known_up_to_how_many_it_is_of() -> None:
    call, *_ = calls(source_of_problem("cross_entropy"))
    item, factor = call.truth("gradient of x")
    assert factor == pytest.approx(7 / 4096)
    before = call.proof.expected()["gradient of x"]
    assert before is not None
    assert item.truth.natural - before.truth.natural == pytest.approx(
        2.0**-149 * 4096 / 7
    )  # below it float32 has no number


def test_the_second_call_lies_beyond_the_workload() -> None:
    first, second, *_ = calls(source_of_problem("residual"))
    assert dict(first.sizes) == {"T": 4096, "H": 8192}
    assert second.sizes["H"] > 8192
    assert second.offset >= 2**24
    assert (first.offset, first.gap) == (0, 0.0)


PAIRS = """
import torch

def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x.transpose(-1, -2), -1) @ x

INPUTS = {"x": {"dims": "B S D", "grad": False}}
WORKLOADS = [{"B": 64, "S": 512, "D": 8}]
"""


def test_where_the_reference_makes_much_only_the_first_call_has_the_full_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scale, "MOST_MADE", 2**22)  # with seven of the batch it makes two tensors of 7 MiB
    first, *others = calls(PAIRS)
    assert dict(first.sizes) == {"B": 64, "S": 512, "D": 8}
    assert others[0].sizes["S"] == 256 and others[0].sizes["B"] >= 64
    assert others[1].sizes["S"] < 256


def test_the_call_before_the_last_has_the_rows_of_the_workload_and_few_columns() -> None:
    *_, narrow, _ = calls(source_of_problem("residual"))
    assert dict(narrow.sizes) == {"T": 4096, "H": 64}
    assert narrow.again and narrow.middle is not None


def test_that_call_names_the_first_and_last_row_of_a_long_table() -> None:
    *_, narrow, _ = calls(source_of_problem("take_rows"))
    assert dict(narrow.sizes) == {"T": 8192, "V": 16000, "H": 16}
    assert {0, 15999} < set(narrow.proof.inputs["index"].tolist())


def test_the_last_call_has_more_rows_than_sixteen_bits_count_to() -> None:
    *_, last = calls(source_of_problem("residual"))
    assert last.many_rows == "T"
    assert 2**16 < last.sizes["T"] <= 2**17
    assert last.sizes["T"] * last.sizes["H"] <= scale.MOST_ELEMENTS


def test_rows_that_are_numbered_in_sixteen_bits_leave_the_last_ones_unwritten() -> None:
    trial, found = _Trial(), calls(source_of_problem("silu"))
    with loaded("candidate", cheat("rows_in_sixteen_bits"), found[0].proof.form, surroundings()) as session:
        _try_at_scale(trial, session, _replies(session, found), None)
    assert [finding.status for finding in trial.findings] == [Status.unproved]
    assert "last programs write elsewhere" in trial.findings[0].evidence.message


@pytest.mark.parametrize("name", ["programs_of_a_fixed_number", "rows_from_both_ends"])
def test_where_few_programs_leave_places_all_of_them_show_what_nobody_writes(name: str) -> None:
    findings, _ = said_of("rms_forward", cheat(name))
    assert {finding.evidence.output for finding in findings} == {"output 0"}
    workloads = [finding.evidence.workload for finding in findings]
    assert workloads == [f"T=4096 H={columns} float32, a few programs of each launch" for columns in (4096, 64)]


def test_rows_that_other_programs_write_are_compared() -> None:
    findings, compared = said_of("rms_forward", source_of("rms_rows_in_steps"))
    assert (findings, compared) == ([], {"output 0"})


def test_a_program_that_leaves_its_memory_at_scale_without_having_read_what_is_unknown_is_not_proved() -> None:
    trial, found = _Trial(), calls(source_of_problem("rms_forward"))
    name = "workspace_of_a_fixed_size"
    with loaded("candidate", cheat(name), found[0].proof.form, surroundings()) as session:
        _try_at_scale(trial, session, _replies(session, found[:1]), None)
    assert [finding.status for finding in trial.findings] == [Status.unproved]
    assert "memory that it was not given" in trial.findings[0].evidence.message


@pytest.mark.parametrize(("row", "lines"), [("tl.program_id(0)", [14]), ("tl.program_id(0).to(tl.int64)", [])])
def test_offsets_in_32_bits_are_not_proved_of_a_workload_that_has_more_elements(row: str, lines: list[int]) -> None:
    text = cheat("offsets_at_its_own_workload").files[0].text.replace("row = tl.program_id(0)", f"row = {row}")
    source = CandidateSource((SourceFile("candidate.py", text),))
    findings, compared = said_of("logits_scaled", source)
    assert [finding.evidence.line for finding in findings] == lines
    assert all("beyond 2^31" in finding.evidence.message for finding in findings)
    assert compared == {"output 0"}


def said_of(problem: str, candidate: CandidateSource) -> tuple[list[VerdictFinding], set[str | None]]:
    """What is found at scale, and which answers were compared."""
    findings: list[VerdictFinding] = []
    compared: set[str | None] = set()
    found = calls(source_of_problem(problem))
    with loaded("candidate", candidate, found[0].proof.form, surroundings()) as session:
        for call in found:
            sent = call.call()
            checks, wrong = examined_at_scale(call, session.call(sent.call, sent.tensors))
            findings += wrong
            compared |= {check.output for check in checks}
    return findings, compared


def changed(name: str, changes: Sequence[tuple[str, str]]) -> CandidateSource:
    source = source_of(name)
    text = source.files[0].text
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return replace(source, files=(SourceFile("candidate.py", text),))


SCALED = (
    ("x.stride(0), n_cols, eps, BLOCK=block)", "x.stride(0), n_cols, eps, {scale}, BLOCK=block)"),
    (
        "stride, n_cols, eps, BLOCK: tl.constexpr):\n    row",
        "stride, n_cols, eps, scale, BLOCK: tl.constexpr):\n    row",
    ),
    ("y = w * (h * rstd).to", "y = w * (h * rstd * scale).to"),
)
# Each is smooth in what a call is given, right at all sizes of cases, and wrong at those of workloads.
SMOOTH = {
    "elements": "1.0 - (x.numel() / 1e7) ** 4",
    "a bump at one size": "1.0 + 1e-3 / (1.0 + ((n_rows - 4096) / 64) ** 2)",
    "a storage offset": "1.0 + (x.storage_offset() / 1e8) ** 3",
    "a row stride": "1.0 + (x.stride(0) / 1e5) ** 6",
    "where it is as good as one": "math.sin(x.numel() * 1e-8) / (x.numel() * 1e-8)",
}


@pytest.mark.parametrize("name", few(SMOOTH, [*SMOOTH][::2]))
def test_what_is_smooth_in_a_size_is_wrong_at_scale(name: str) -> None:
    changes = [(before, after.replace("{scale}", SMOOTH[name])) for before, after in SCALED]
    findings, _ = said_of(
        "rms_norm", changed("rms_norm", [("import torch\n", "import math\n\nimport torch\n"), *changes])
    )
    assert [finding.evidence.output for finding in findings][:1] == ["output 0"]
    assert {finding.status for finding in findings} == {Status.unproved}


@pytest.mark.parametrize("is_wrong_too", [True, False])
def test_what_the_original_gets_wrong_at_scale_is_left_out(is_wrong_too: bool) -> None:
    changes = [(before, after.replace("{scale}", SMOOTH["elements"])) for before, after in SCALED]
    candidate, found, trial = changed("rms_norm", changes), calls(source_of_problem("rms_norm")), _Trial()
    original = candidate if is_wrong_too else source_of("rms_norm")
    form = found[0].proof.form
    with loaded("candidate", candidate, form, surroundings()) as session:
        beside = functools.partial(loaded, "candidate", original, form, surroundings())
        _try_at_scale(trial, session, _replies(session, found), None, beside)
    left_out = [check.name for check in trial.refused]
    assert bool(trial.findings) is not is_wrong_too
    assert ("at_scale_left_out" in left_out) is is_wrong_too


def test_what_a_kernel_makes_of_its_place_is_wrong_at_scale() -> None:
    drift = "    drift = 1.0 + (row.to(tl.float32) / 65536.0) * (row.to(tl.float32) / 65536.0)\n    y = w * (h * rstd * drift)"
    findings, _ = said_of("rms_norm", changed("rms_norm", [("    y = w * (h * rstd)", drift)]))
    assert findings


@pytest.mark.parametrize(("problem", "name"), [("rms_norm", "rms_norm"), ("cross_entropy", "cross_entropy")])
def test_what_divides_by_sizes_is_right_at_scale(problem: str, name: str) -> None:
    findings, compared = said_of(problem, source_of(name))
    assert findings == []
    assert "gradient of x" in compared
