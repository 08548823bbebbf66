"""Scalars that divide a dimension: the host computes with them, the kernels are those of the number."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from gpu_runner.contracts import Expr, Graph, Multiple, Workload, from_json, to_json
from tests.workers.compiler.captured import captured, proposal, style
from workers.authors.compiler import CompilerAuthor
from workers.authors.compiler.graph import Sizes, evaluate, numbers_of
from workers.authors.protocol import Brief, Proposal


def kernels(source: str, columns: str) -> list[list[str]]:
    """The lines of each kernel, without formulas and without the number of elements of a group, which is a size or a float."""
    texts = [text.split("\n\n\n")[0] for text in source.split("@triton.jit")[1:]]
    plain = [re.sub(columns, "n", re.sub(r'""".*?"""', "", text, flags=re.DOTALL)) for text in texts]
    gone = {"    n,", "    n = tl.cast(n, tl.float32)"}
    return [[line for line in text.split("\n") if line not in gone] for text in plain]


def test_the_kernels_of_a_number_of_groups_are_those_of_thirty_two() -> None:
    problem, graph = captured("group_norm")
    form = json.dumps(to_json(graph)).replace("(C * S) // groups", "(C * S) // 32")
    form = form.replace('{"$": "Expr", "text": "groups"}', "32")
    numbered = replace(from_json(Graph, json.loads(form)), multiples=(), specialised=("groups",))
    answer = CompilerAuthor().propose(Brief("group_norm", problem, numbered, style("group_norm")))
    assert isinstance(answer, Proposal)
    source = proposal("group_norm").source
    assert kernels(answer.source, r"\bcount\b|\bn_cols\b") == kernels(source, r"\bn_cols\b")
    chosen = "BLOCK_SEGMENTS, BLOCK_SIZE, num_warps = _segment_settings(n_segments, segment_size"
    assert answer.source.count(chosen) == source.count(chosen) == 2
    assert "w_rows = 32" in answer.source and "w_rows = groups" in source


def test_backward_is_handed_the_scalars_that_its_sizes_are_computed_with() -> None:
    source = proposal("group_norm").source
    assert "def group_norm_backward(dy, x, w, b, mean, rstd, groups):" in source
    assert "n_segments = dy.shape[-2] // groups" in source
    assert "ctx.groups = groups" in source
    assert "group_norm_backward(dy, x, w, b, mean, rstd, ctx.groups)" in source


def test_a_section_names_the_scalars_of_backward_by_the_problems_own_names() -> None:
    problem, graph = captured("group_norm")
    section = replace(style("group_norm", entry=None), section=True, prefix="_fast_")
    answer = CompilerAuthor().propose(Brief("group_norm", problem, graph, section))
    assert isinstance(answer, Proposal) and answer.signature is not None
    assert "groups" in answer.signature.backward_arguments


def test_the_length_of_a_block_is_the_width_of_a_row() -> None:
    source = proposal("block_scales").source
    assert source.count("    n_cols = block\n") == 2
    assert "x.shape[-1] // block)" in source
    assert "float(block)" not in source


def test_a_bound_to_the_columns_counts_with_the_scalars_of_each_size() -> None:
    problem, graph = captured("block_scales")
    section = replace(style("block_scales", entry=None), section=True, prefix="_fast_", tunable=True)
    sizes = [Workload((("T", 8), ("H", 2**20)), None, (("block", block),)) for block in (2**17, 64)]
    limits = []
    for chosen in (sizes, sizes[1:]):
        answer = CompilerAuthor().propose(Brief("block_scales", problem, graph, section, sizes=tuple(chosen)))
        assert isinstance(answer, Proposal)
        limits.append([limit.size for limit in answer.limits])
    assert limits == [[], ["block"]]
    assert numbers_of(problem, sizes[0]) == {"T": 8, "H": 2**20, "block": 2**17}


@pytest.mark.parametrize("of", ["g", "g * g", "2 * g", "g * m"])
def test_numbers_that_stand_in_for_sizes_keep_the_rules(of: str) -> None:
    sizes = Sizes.of(("T", "H"), (Multiple("H", of),))
    for chosen in (sizes, sizes.times(6)):
        assert chosen.value(Expr("H")) % int(evaluate(Expr(of), chosen.stand_ins)) == 0
        assert len(set(chosen.stand_ins.values())) == len(chosen.stand_ins)
        assert chosen.value(Expr("T")) % chosen.value(Expr("g"))
    assert sizes.times(6).value(Expr("g")) == sizes.value(Expr("g"))
