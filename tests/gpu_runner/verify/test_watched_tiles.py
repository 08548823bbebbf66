"""What is watched of Triton's kernels is watched of cuTile's: tables in memory, and calls at the size of a workload."""

from __future__ import annotations

import functools
import json

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile
from gpu_runner.contracts.problem import parse_problem
from gpu_runner.errors import ChildError
from gpu_runner.messages import RunCase
from gpu_runner.program.coverage import BOTH
from gpu_runner.verify.answer import read_answer
from gpu_runner.verify.cases import Case
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.finding import VerdictFinding
from gpu_runner.verify.judge import prove
from gpu_runner.verify.opening import loaded, opened, reference_session
from gpu_runner.verify.proof import make_call
from gpu_runner.verify.scale import AtScale, at_scale, examined_at_scale
from gpu_runner.verify.truth import Oracle
from tests.cheats.trial import surroundings
from tests.gpu_runner.program.test_nans import PROBLEM
from tests.workers.compiler.captured import FOLDER
from tests.workers.compiler.test_cutile import emitted

TABLE = """
import cuda.tile as ct
import torch


@ct.kernel
def _fill(table_array, BLOCK: ct.Constant[int]):
    ct.store(table_array, (0,), ct.arange(BLOCK, dtype=ct.int32))


@ct.kernel
def _kernel(x_array, y_array, table_array, BLOCK: ct.Constant[int]):
    row = ct.bid(0)
    x = ct.load(x_array, (row, 0), (1, BLOCK), padding_mode=ct.PaddingMode.ZERO)
    {body}
    ct.store(y_array, (row, 0), ct.where(x > 0.0, x, 0.0))


def candidate(x):
    y, table = torch.empty_like(x), torch.empty(8, dtype=torch.int32)
    block = 1 << (x.shape[1] - 1).bit_length()
    ct.launch(torch.cuda.current_stream(), (1,), _fill, (table, 8))
    ct.launch(torch.cuda.current_stream(), (x.shape[0],), _kernel, (x, y, table, block))
    return y
"""
READ = {
    "two of eight entries": ("found = ct.gather(table_array, (x > 0.0).astype(ct.int32))", 1),
    "a tile of two": ("found = ct.load(table_array, (ct.max((x > 0.0).astype(ct.int32)),), (2,))", 1),
    "all entries": ("found = ct.gather(table_array, (x * 1000.0).astype(ct.int32) & 7)", 0),
    "places that nothing loaded decides": ("found = ct.gather(table_array, row % 2)", 0),
}


@pytest.mark.parametrize("name", READ)
def test_a_table_is_read_whole_or_its_look_up_was_not_seen(name: str) -> None:
    body, unseen = READ[name]
    text = TABLE.replace("{body}", body)
    context = surroundings()
    (proof,), _ = prove(parse_problem(PROBLEM), [Case("drawn", (("T", 10), ("H", 40)), "float32", 5)], context)
    source = CandidateSource((SourceFile("candidate.py", text),))
    with loaded("candidate", source, proof.form, context) as session:
        call = make_call(proof, poison=True)
        decisions = read_answer(session.call(RunCase(call.call), call.tensors)).decisions
    missed = [one for one, outcome in decisions.items() if "each entry of the memory" in one.text and outcome != BOTH]
    assert len(missed) == unseen
    assert {text.splitlines()[one.line - 1].strip() for one in missed} == ({body} if unseen else set())


@functools.cache
def calls(problem_source: str) -> tuple[AtScale, ...]:
    problem, context, draws = parse_problem(problem_source), surroundings(), Draws("5eed" * 8)
    with opened(reference_session("reference", problem.source, context, 0), context) as session:
        oracle = Oracle.open(problem, session, draws.seed("module"))
        return tuple(at_scale(oracle, problem.workloads, "float32", draws))


def said_at_scale(problem: str, text: str) -> tuple[list[VerdictFinding], set[str | None]]:
    """What is found at scale of a candidate, and which answers were compared."""
    findings: list[VerdictFinding] = []
    compared: set[str | None] = set()
    found = calls(problem)
    source = CandidateSource((SourceFile("candidate.py", text),))
    with loaded("candidate", source, found[0].proof.form, surroundings()) as session:
        for call in found:
            sent = call.call()
            checks, wrong = examined_at_scale(call, session.call(sent.call, sent.tensors))
            findings += wrong
            compared |= {check.output for check in checks}
    return findings, compared


EPSILON = "float(eps),"  # of the forward launch


@pytest.mark.slow
@pytest.mark.parametrize("eps", [EPSILON, "float(eps) + (n_rows / 1e3) ** 4,"])
def test_an_emitted_kernel_is_right_at_scale_and_one_whose_epsilon_grows_with_rows_is_not(eps: str) -> None:
    text, problem = emitted("rms_norm").source, json.loads((FOLDER / "rms_norm.json").read_text())["problem"]
    assert EPSILON in text
    findings, compared = said_at_scale(problem, text.replace(EPSILON, eps))
    if eps == EPSILON:
        assert not findings
        assert {"output 0", "gradient of x"} <= compared
    else:
        assert findings[0].evidence.output == "output 0"


ROWS = """
import cuda.tile as ct
import torch


@ct.kernel
def _number(order_array):
    row = ct.bid(0)
    ct.store(order_array, (row,), ct.full((1,), row + 1, ct.int32))


@ct.kernel
def _kernel(x_array, y_array, order_array, n_rows, BLOCK: ct.Constant[int]):
    row = ct.gather(order_array, {place}) - 1
    x = ct.load(x_array, (row, 0), (1, BLOCK), padding_mode=ct.PaddingMode.ZERO)
    ct.store(y_array, (row, 0), ct.where(x > 0.0, x, ct.where(x != x, x, 0.0)))


def candidate(x):
    n_rows, block = x.shape[0], 1 << (x.shape[1] - 1).bit_length()
    y, order = torch.empty_like(x), torch.zeros(n_rows, dtype=torch.int32)
    ct.launch(torch.cuda.current_stream(), (n_rows,), _number, (order,))
    ct.launch(torch.cuda.current_stream(), (n_rows,), _kernel, (x, y, order, n_rows, block))
    return y
"""
LONG = PROBLEM.replace('{"T": 8, "H": 8}', '{"T": 4096, "H": 64}')


SHIFTED = "(ct.bid(0) + n_rows // 2) % n_rows"


@pytest.mark.parametrize(
    ("place", "rows", "compared"),
    [
        ("ct.bid(0)", 4096, {"output 0"}),
        (SHIFTED, 4096, {"output 0"}),
        pytest.param(SHIFTED, 65536, set(), marks=pytest.mark.slow),
    ],
)
def test_a_tile_whose_index_no_program_wrote_is_judged_where_all_programs_can_run(
    place: str, rows: int, compared: set[str]
) -> None:
    assert said_at_scale(LONG.replace("4096", str(rows)), ROWS.replace("{place}", place)) == ([], compared)


def test_a_tile_beyond_its_array_at_scale_alone_ends_the_call() -> None:
    text = ROWS.replace("{place}", "ct.bid(0)").replace(
        "(order_array, (row,)", "(order_array, (row + n_rows // 4096 * n_rows,)"
    )
    text = text.replace("def _number(order_array)", "def _number(order_array, n_rows)").replace(
        "(order,)", "(order, n_rows)"
    )
    with pytest.raises(ChildError, match="a tile that lies beyond its array"):
        said_at_scale(LONG, text)
