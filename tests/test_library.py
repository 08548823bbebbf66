"""``import kernelsmith``: what the commands by hand do, as functions with typed results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kernelsmith
from kernelsmith import Status, create, fuse, verify
from tests.problems import problem_source

MODEL = """import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)).square() * 0.5)


def get_inputs():
    return [torch.randn(8, 48)]


def get_init_inputs():
    return [48]
"""
REFUSED = problem_source("reglu").replace("* b", "* torch.linalg.svdvals(b.float()).sum()")


@pytest.mark.long  # in `make test` test_verify judges by hand, and a conversation creates by the real runner
@pytest.mark.slow
def test_a_problem_becomes_a_proved_kernel_in_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "reglu.py"
    path.write_text(problem_source("reglu"))
    made = create(str(path), name="reglu", out=tmp_path / "runs" / "reglu")
    assert made and made.verdict is not None and made.session is not None and made.kernel is not None
    assert (made.verdict.status, made.message) == (Status.passed, "")
    assert made.kernel.read_text() == made.source
    assert (made.session / "problem.py").read_text() == problem_source("reglu")
    assert json.loads((made.session / "verdict.json").read_text())["status"] == "passed"
    wrong = made.source.replace("tl.load(a_ptr", "2 * tl.load(a_ptr") if made.source else ""
    assert verify(problem_source("reglu"), wrong).status is not Status.passed


def test_a_fusion_that_wants_a_model_where_none_is_configured_says_so(tmp_path: Path) -> None:
    authors = kernelsmith.Authors(kernelsmith.AuthorName.llm)
    with pytest.raises(kernelsmith.KernelsmithError, match="model"):
        fuse(MODEL, tmp_path, authors=authors)


def test_what_the_compiler_refuses_is_said_and_leaves_no_kernel_of_an_earlier_call(tmp_path: Path) -> None:
    (tmp_path / "candidate.py").write_text("# of an earlier call\n")
    made = create(REFUSED, out=tmp_path)
    assert not made
    assert "svd" in made.message
    assert (made.source, made.kernel, made.verdict) == (None, None, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["problem.py"]


@pytest.mark.long
@pytest.mark.slow
def test_a_model_is_fused_in_a_folder(tmp_path: Path) -> None:
    said: list[str] = []
    fused = fuse(MODEL, tmp_path / "run", say=said.append)
    assert fused.verdict is not None and fused.verdict.status is Status.passed
    assert (tmp_path / "run" / "compose_out" / "composed_kernel.py").exists()
    assert said


def test_bad_input_is_said_in_words() -> None:
    with pytest.raises(kernelsmith.KernelsmithError, match="reference"):
        create("x = 1\ny = 2\n")
    with pytest.raises(ValueError, match="lower case"):
        create(problem_source("reglu"), name="Not a name")
    with pytest.raises(FileNotFoundError):
        create("no/such/file.py")
    with pytest.raises(kernelsmith.KernelsmithError, match="nothing is measured in 'int7'"):
        kernelsmith.benchmark(problem_source("reglu"), "import torch\n", dtype="int7")
    with pytest.raises(kernelsmith.KernelsmithError, match="the candidate has no `candidate`"):
        kernelsmith.verify(problem_source("reglu"), "import torch\n")
