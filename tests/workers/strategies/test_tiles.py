"""Settings of files in cuTile and CuTe DSL are looked up where another value can change nothing but the time."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from gpu_runner.contracts import CandidateSource, Pass, SourceFile, Status, VerifyRequest
from gpu_runner.verify.judge import judge
from tests.cheats.trial import surroundings
from tests.workers.compiler.captured import captured
from tests.workers.compiler.test_cutedsl import emitted as threads
from tests.workers.compiler.test_cutedsl import kernels
from tests.workers.compiler.test_cutile import emitted, looked_up_settings
from tests.workers.strategies.situations import situation
from workers.authors.compiler.schedules.cutile import FLAT_ELEMENTS
from workers.authors.protocol import Proposal
from workers.strategies.order import ordered
from workers.strategies.protocol import DoesNotApply, ModelTurn, Proposed
from workers.strategies.sweep import ParameterSweep, swept, with_tuned_sweep
from workers.strategies.tiles import ELEMENTS
from workers.tuned_table import Table, table_of

HAND = """import cuda.tile as ct
import torch


@ct.kernel
def double_kernel(x_array, y_array, TILE: ct.Constant[int]):
    tile = ct.bid(0)
    x = ct.load(x_array, (tile,), (TILE,))
    ct.store(y_array, (tile,), x + x)


def double(x):
    y = torch.empty_like(x)
    n = x.numel()
    TILE = 256
    ct.launch(torch.cuda.current_stream(), (ct.cdiv(n, TILE),), double_kernel, (x.view(-1), y.view(-1), TILE))
    return y


class DoubleFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return double(x)

    @staticmethod
    def backward(ctx, dy):
        return dy + dy
"""


@pytest.mark.parametrize("name", ["swiglu", "rms_norm", "layer_norm", "softmax", "dyt"])
def test_a_file_of_the_compiler_is_opened_at_the_tiles_that_the_compiler_would_open(name: str) -> None:
    plain = emitted(name).source
    opened = swept(plain)
    assert opened is not None
    text, knobs = opened
    assert {(knob.tuned_pass.value, knob.setting) for knob in knobs} == looked_up_settings(text) != set()
    kernels = [node for node in ast.parse(plain).body if "ct.kernel" in ast.unparse(node).partition("def ")[0]]
    assert kernels and all(ast.unparse(node) in ast.unparse(ast.parse(text)) for node in kernels)
    again = swept(text)
    assert again is not None and again[0] == text, "a file that looks its tiles up is tuned as it is"
    assert {knob.setting for knob in again[1]} == {knob.setting for knob in knobs}


def test_the_values_to_try_lie_around_todays() -> None:
    opened = swept(emitted("swiglu").source)
    assert opened is not None and [knob.tuned_pass for knob in opened[1]] == [Pass.forward, Pass.backward]
    assert all(knob.setting == "BLOCK_SIZE" and FLAT_ELEMENTS in knob.values for knob in opened[1])
    rows = swept(emitted("rms_norm").source)
    assert rows is not None and {knob.setting for knob in rows[1]} == {ELEMENTS}


def test_a_tile_is_looked_up_in_the_line_before_it_is_chosen() -> None:
    opened = swept(HAND)
    assert opened is not None
    assert '    tuned = _tuned(x.device, "forward", n, TILE=256)\n    TILE = tuned["TILE"]\n' in opened[0]
    assert opened[1][0].values == (64, 128, 256, 512, 1024, 2048)


def test_only_what_was_found_is_looked_up_and_nothing_found_gives_the_file_back() -> None:
    table: Table = (("sm_90", (("forward", ((4096, (("BLOCK_SIZE", 2048),)),)),)),)
    plain = emitted("swiglu").source
    text = with_tuned_sweep(plain, table)
    assert table_of(text) == table and looked_up_settings(text) == {("forward", "BLOCK_SIZE")}
    proposed = ParameterSweep().propose(situation(plain))
    assert isinstance(proposed, Proposed) and proposed.settle is not None
    assert proposed.settle(proposed.source, ()) == plain


@pytest.mark.parametrize(
    ("today", "other"),
    [
        ("(ct.cdiv(n, TILE),)", "(16,)"),  # the grid is not counted in tiles
        ("x + x)", "x + TILE)"),  # it is a value
        ("TILE = 256", "TILE = 250"),  # no tile has such a side
        ("TILE = 256", "TILE = n"),
        ("TILE = 256", "TILE = 256\n    TILE = n"),
        ("TILE: ct.Constant[int]", "TILE"),
        ("return dy + dy", "return double(dy)"),  # it is of both passes
    ],
)
def test_a_tile_that_may_change_what_is_computed_is_left_alone(today: str, other: str) -> None:
    assert today in HAND
    assert swept(HAND.replace(today, other)) is None


@pytest.mark.parametrize("name", ["swiglu", "rms_norm", "softmax", "dyt"])
def test_a_file_of_threads_is_opened_at_the_settings_that_the_compiler_would_open(name: str) -> None:
    plain = threads(name).source
    opened = swept(plain)
    assert opened is not None
    text, knobs = opened
    assert {(knob.tuned_pass.value, knob.setting) for knob in knobs} == looked_up_settings(text) != set()
    assert kernels(text) == kernels(plain)
    again = swept(text)
    assert again is not None and again[0] == text and {k.setting for k in again[1]} == {k.setting for k in knobs}


def test_settings_of_one_launcher_are_looked_up_together_and_what_was_not_found_is_not() -> None:
    plain = threads("rms_norm").source
    opened = swept(plain)
    assert opened is not None
    assert '    tuned = _tuned(dy.device, "backward", n_cols, THREAD_ELEMENTS=16, PROGRAMS=1)\n' in opened[0]
    table: Table = (("sm_90", (("backward", ((8192, (("PROGRAMS", 2),)),)),)),)
    text = with_tuned_sweep(plain, table)
    assert table_of(text) == table and looked_up_settings(text) == {("backward", "PROGRAMS")}


def test_a_function_that_chooses_threads_in_its_own_way_is_left_alone() -> None:
    own = threads("softmax").source
    assert swept(own.replace("min(1024, max(32, width // elements))", "min(512, max(32, width // elements))")) is None


def test_of_a_file_of_tiles_the_sweep_alone_is_planned() -> None:
    for turn in ModelTurn:
        planned = ordered(situation(emitted("rms_norm").source, model=turn))
        assert [plan.strategy for plan in planned] == ["parameter_sweep"]
        assert planned[0].trigger.startswith("Settings are the same on all GPUs and at all sizes: `ELEMENTS` (forward)")
    assert isinstance(ParameterSweep().propose(situation(HAND.replace("256", "250"))), DoesNotApply)


# In `make test` the same file is proved in a quick verdict by tests/gpu_runner/verify/test_tiles, before it is tuned.
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "name", "settings"),
    [
        (emitted, "swiglu", (("BLOCK_SIZE", 512),)),
        (emitted, "rms_norm", ((ELEMENTS, 2048),)),
        (threads, "swiglu", (("THREADS", 64), ("THREAD_ELEMENTS", 16))),
        (threads, "rms_norm", (("PROGRAMS", 2), ("THREAD_ELEMENTS", 8))),
    ],
)
def test_a_tuned_file_passes_a_whole_verdict_beside_its_original(
    made: Callable[[str], Proposal], name: str, settings: tuple[tuple[str, int], ...]
) -> None:
    plain = made(name).source
    rows = ((2**30, settings),)
    tuned = with_tuned_sweep(plain, (("cpu", tuple((timed.value, rows) for timed in (Pass.forward, Pass.backward))),))
    original, candidate = (CandidateSource((SourceFile("candidate.py", text),)) for text in (plain, tuned))
    problem = captured(name)[0].source
    verdict = judge(VerifyRequest(problem, candidate, dtypes=("float32",), original=original), surroundings())
    assert verdict.status is Status.passed and verdict.one_sided == (), verdict.evidence
