"""The emitted modules: what they look like, that they are the same every time, and that they pass the checks they meet later.

``python -m tests.workers.compiler.goldens`` writes the golden files again.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile
from gpu_runner.program.imports import Library
from gpu_runner.verify.screen import screen
from tests.few import few
from tests.workers.compiler.captured import COMPILED, LOOKED_AT, REFUSED, answer, captured, names, proposal, style
from tests.workers.compiler.goldens import GOLDEN_NAMES, golden_path, golden_source
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import AuthorRefusal, Brief, Proposal

# What the target's own configuration says, as its pyproject.toml does.
TARGET_RUFF = """
line-length = 120
target-version = "py310"
[lint]
select = ["E", "F", "I"]
ignore = ["E501", "B006", "E731", "A002", "E203"]
[lint.isort]
known-first-party = ["liger_kernel"]
force-single-line = true
lines-between-types = 1
"""


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_source_is_the_golden_one(name: str) -> None:
    assert golden_source(name) == golden_path(name).read_text()


@pytest.mark.parametrize("name", few(COMPILED, LOOKED_AT))
def test_same_graph_gives_same_source_and_plan(name: str) -> None:
    again = answer.__wrapped__(name, liger=False, entry="candidate")  # not the one that is remembered
    assert again is not proposal(name)
    assert again == proposal(name)


@pytest.mark.parametrize("name", COMPILED)
def test_names_of_the_module_are_the_ones_that_the_style_asks_for(name: str) -> None:
    source = proposal(name).source
    tree = ast.parse(source)
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    wanted = style(name)
    assert {wanted.function_class, wanted.forward_function, wanted.entry} <= defined


@pytest.mark.parametrize("name", few(COMPILED, [*LOOKED_AT, "elu", "argmin_rows"]))
def test_lines_mean_the_same_wherever_they_are_broken(name: str) -> None:
    def meaning(length: int) -> str:
        problem, graph = captured(name)
        given = CompilerAuthor().propose(Brief(name, problem, graph, replace(style(name), line_length=length)))
        assert isinstance(given, Proposal)
        tree = ast.parse(given.source)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
                del node.body[0]
        return ast.dump(tree)

    assert meaning(72) == meaning(88) == meaning(1000)


@pytest.mark.parametrize("name", few(COMPILED, LOOKED_AT))
def test_static_screen_has_no_objection(name: str) -> None:
    source = proposal(name).source
    library = Library({"candidate.py": ast.parse(source)}, ["."])
    assert screen(CandidateSource((SourceFile("candidate.py", source),)), library) is None


@pytest.mark.skipif(shutil.which("ruff", path=str(Path(sys.executable).parent)) is None, reason="ruff is not installed")
@pytest.mark.parametrize("turn", few(range(4), (0,)))
def test_modules_pass_the_target_s_style_check_as_emitted(tmp_path: Path, turn: int) -> None:
    (tmp_path / "ruff.toml").write_text(TARGET_RUFF)
    for name in COMPILED[turn::4]:
        for liger in (True, False):
            (tmp_path / f"{name}_{liger}.py").write_text(proposal(name, liger=liger).source)
    ruff = str(Path(sys.executable).parent / "ruff")
    for command in (["check"], ["format", "--diff"]):
        done = subprocess.run([ruff, *command, "."], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[:3000]


@pytest.mark.parametrize("name", COMPILED)
def test_number_of_warps_stays_a_power_of_two(name: str) -> None:
    for tensors in re.findall(r"_tile_settings\(min\(n_cols, \d+\), (\d+)\)", proposal(name).source):
        assert int(tensors) & (int(tensors) - 1) == 0


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusal_names_the_operator_in_one_sentence(name: str) -> None:
    given = answer(name)
    assert isinstance(given, AuthorRefusal)
    assert given.operator == REFUSED[name]
    assert given.sentence and "\n" not in given.sentence
    assert f"`{REFUSED[name]}`" in given.sentence


def test_every_graph_is_compiled_or_expected_to_be_refused() -> None:
    assert {name for name in names() if isinstance(answer(name), AuthorRefusal)} == set(REFUSED)


def test_unknown_operator_with_a_strange_name_does_not_break_the_author() -> None:
    import dataclasses

    problem, graph = captured("reglu")
    strange = tuple(dataclasses.replace(n, op="aten.`evil`") if n.op == "mul" else n for n in graph.nodes)
    brief = Brief("reglu", problem, dataclasses.replace(graph, nodes=strange), style("reglu"))
    assert isinstance(CompilerAuthor().propose(brief), AuthorRefusal)


@pytest.mark.parametrize("name", ["dyt", "group_norm", "layer_norm", "poly_norm"])
def test_a_summed_gradient_has_the_dtype_of_its_own_input(name: str) -> None:
    sums = re.findall(
        r"^ +d(\w+) = \w+_partials.*sum\(dim=0\)\.to\((\w+)\.dtype\)", proposal(name).source, re.MULTILINE
    )
    assert len(sums) >= 2
    assert [gradient for gradient, _ in sums] == [owner for _, owner in sums]
