"""What backward is handed in place of inputs, and what a launcher computes of sums, so that no further kernel is written."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import parse_problem
from gpu_runner.tracing.tracer import Tracer
from tests.cheats.trial import source_of_problem
from tests.gpu_runner.core.test_tracing import handled
from tests.workers.compiler.captured import style
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal


def compiled(text: str) -> str:
    problem = parse_problem(text)
    given = CompilerAuthor().propose(Brief("own", problem, Tracer(handled(text), problem).graph(), style("own")))
    assert isinstance(given, Proposal), given
    return given.source


@pytest.mark.parametrize(
    ("returned", "saved", "makes"),
    [
        ("values, indices", "indices, x", 0),  # an output serves for what backward needs
        ("values, 2 * indices", "argmax_x, x", 1),
    ],
)
def test_backward_of_a_maximum_is_handed_its_place(returned: str, saved: str, makes: int) -> None:
    source = compiled(source_of_problem("row_max").replace("return values, indices", f"return {returned}"))
    assert f"ctx.save_for_backward({saved})" in source
    assert source.count("argmax_x = torch.empty(n_rows, dtype=torch.int64, device=x.device)") == makes
    backward = source.partition("def _own_backward_kernel")[2].partition("@triton.jit")[0].partition("\ndef ")[0]
    assert "x_ptr" not in backward.replace("dx_ptr", "").replace("argmax_x_ptr", "") and "tl.max" not in backward


def test_a_launcher_bounds_a_count_by_one() -> None:
    source = compiled(source_of_problem("cross_entropy_ignore"))
    assert "kept_rows.clamp(min=1)" in source
    assert "_launch_" not in source  # one kernel for each pass
