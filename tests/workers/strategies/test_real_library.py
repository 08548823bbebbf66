"""Every strategy on kernels of an unpacked Liger-Kernel, where the environment names one: LIGER_SOURCE=/path/to/it."""

from __future__ import annotations

import ast
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runner import verify
from gpu_runner.capture import run
from gpu_runner.context import RunContext
from gpu_runner.contracts import CaptureRequest, Multiple, Status, VerifyRequest, parse_problem
from tests.workers.layouts.standing import LIGER
from tests.workers.strategies.situations import situation
from tests.workers.strategies.test_screened import objection, written
from workers.authors.compiler import CompilerAuthor
from workers.contracts import FileChange
from workers.layouts.liger.layout import known_problems
from workers.stages.bench import SNAPSHOT_FILE
from workers.strategies.fast_path import CompiledFastPath
from workers.strategies.protocol import Proposed, Situation
from workers.strategies.reading import read_source
from workers.tree import Tree

SOURCE = os.environ.get("LIGER_SOURCE")
FAST = (
    "rms_norm", "layer_norm", "geglu", "group_norm", "cross_entropy", "kl_div", "jsd", "sparsemax", "rope", "dyt", "poly_norm",
)  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SOURCE is None, reason="LIGER_SOURCE names no unpacked library"),
]


@pytest.fixture(scope="module")
def library() -> Tree:
    root = Path(SOURCE or "")
    files = (path for path in root.rglob("*.py") if not path.is_symlink())
    return Tree({path.relative_to(root).as_posix(): path.read_bytes() for path in files})


def _situation(library: Tree, name: str, folder: Path) -> Situation:
    standing = LIGER.locate(name, library)
    problem = parse_problem(known_problems()[name])
    captured = run(CaptureRequest(problem.source), RunContext(folder))
    assert captured.graph is not None, captured.error
    text = library.read(standing.path) or ""
    return situation(
        text,
        CompilerAuthor(),  # type: ignore[arg-type]
        kernel=standing,
        problem=problem,
        graph=captured.graph,
        tree=library,
        reading=read_source(standing.path, text),
        style=LIGER.section_style(standing, library),
    )


@pytest.mark.parametrize("name", FAST)
def test_nothing_that_a_strategy_writes_is_refused_by_the_screen(library: Tree, name: str, tmp_path: Path) -> None:
    given = _situation(library, name, tmp_path)
    inputs = tuple(spec.name for spec in given.problem.inputs if spec.grad)
    texts = list(written(given))
    # Gradients may take the memory of upstream gradients, or of inputs too, where the original does so.
    for overwrites in (("upstream 0",), ("upstream 0", *inputs)):
        texts += written(replace(given, overwrites=overwrites), (CompiledFastPath(),))
    assert [strategy for strategy, _ in texts].count(CompiledFastPath.id) >= 3
    path, around = given.kernel.path, {name: ast.parse(library.read(name) or "") for name in library.paths()}
    found = [(strategy, objection(text, given.original, path, around)) for strategy, text in texts]
    assert [(strategy, said) for strategy, said in found if said is not None] == []


def test_the_fast_path_of_group_norm_takes_any_number_of_groups_that_divides(library: Tree, tmp_path: Path) -> None:
    given = _situation(library, "group_norm", tmp_path)
    assert given.graph is not None and given.graph.multiples == (Multiple("C", "groups"),)
    proposed = CompiledFastPath().propose(given)
    assert isinstance(proposed, Proposed), proposed
    with tarfile.open(tmp_path / SNAPSHOT_FILE, "w:gz") as archive:
        archive.add(Path(SOURCE or "") / "src", "library/src")
    stands = LIGER.form_of(given.kernel, given.problem, (), SNAPSHOT_FILE)
    baked = proposed.source.replace("w_rows = groups\n", "w_rows = 32\n")
    verdicts = []
    for text in (proposed.source, baked):
        change = FileChange(given.kernel.path, text)
        form = LIGER.form_of(given.kernel, given.problem, (change,), SNAPSHOT_FILE)
        request = VerifyRequest(
            given.problem.source,
            form,
            dtypes=("float32",),
            quick=True,
            original=stands,
            multiples=given.graph.multiples,
        )
        verdicts.append(verify.run(request, RunContext(tmp_path)))
    assert verdicts[0].status is Status.passed, verdicts[0].evidence
    assert set(verdicts[0].kernels) >= {"_fast_group_norm_forward_kernel", "_fast_group_norm_backward_kernel"}
    # Found by values, or since groups of another size reach beyond the weights.
    assert verdicts[1].status in (Status.incorrect_values, Status.incorrect_gradient, Status.out_of_bounds), verdicts[1]
