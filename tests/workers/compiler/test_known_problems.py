"""What the compiler says to each problem that is known of the library's own kernels."""

from __future__ import annotations

import pytest

from tests.gpu_runner.core.test_tracing import captured
from tests.workers.compiler.rounded import style
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import AuthorRefusal, Brief, Proposal
from workers.layouts.liger.layout import known_problems

REFUSED = {
    "embedding": ("index_select", "`index_select` takes whole rows of a table, not single elements"),
    "fused_moe": ("slice", "`slice` takes a part of a dimension that was flattened"),
    "multi_token_attention": (
        "sum",
        "`sum` runs over dimensions that are neither all of the leading nor all of the trailing ones",
    ),
}


def answered(name: str) -> Proposal | AuthorRefusal:
    """The author's answer to a known problem."""
    problem, graph = captured(known_problems()[name])
    return CompilerAuthor().propose(Brief(name, problem, graph, style(True)))


LONG = {"qwen2vl_mrope"}  # fifty kernels, most of them copies
COMPILED = [
    pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
    for name in sorted(set(known_problems()) - set(REFUSED))
]


@pytest.mark.parametrize("name", COMPILED)
def test_a_known_problem_compiles(name: str) -> None:
    answer = answered(name)
    assert isinstance(answer, Proposal), answer


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_known_problem_is_refused_in_a_sentence_that_names_the_operator(name: str) -> None:
    answer = answered(name)
    assert isinstance(answer, AuthorRefusal)
    assert (answer.operator, answer.sentence) == REFUSED[name]


def test_a_number_of_each_segment_of_a_row_is_stored_by_a_kernel_of_its_own() -> None:
    """A share of each block and token beside the blocks' sum: a kernel over whole rows would store it once an element."""
    answer = answered("attn_res")
    assert isinstance(answer, Proposal)
    (share,) = [kernel for kernel in answer.plan.kernels if kernel.name.endswith("_forward_h_3_kernel")]
    text = answer.source[answer.source.index(f"def {share.name}(") :].split("@triton.jit")[0]
    assert text.count("tl.store(") == 1 and "v_ptr" not in text


@pytest.mark.parametrize("name", ["post", "res"])
def test_a_gradient_is_stored_in_the_dtype_that_its_input_is_declared_with(name: str) -> None:
    """Of bfloat16 streams mixed by float32 numbers: a step that stores a gradient knows the call's dtype alone."""
    answer = answered("mhc")
    assert isinstance(answer, Proposal)
    (line,) = [line for line in answer.source.splitlines() if line.strip().startswith(f"d{name} = torch.empty")]
    assert "dtype=torch.float32" in line
