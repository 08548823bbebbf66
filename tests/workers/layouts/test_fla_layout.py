import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runner.contracts import KernelNames, parse_problem
from tests.workers.layouts import miniature
from tests.workers.layouts.designs import REGLU_PROBLEM, reglu
from tests.workers.layouts.test_written_files_run import FROM_LIBRARY, run_suite
from workers.contracts import FailureCode, UserFacingError
from workers.layouts.fla.layout import FlaLayout
from workers.layouts.protocol import Design
from workers.layouts.table import find_layout
from workers.tree import Tree

LAYOUT = FlaLayout()
KERNEL = b"import torch\nimport triton\n\n\nclass GateFunction(torch.autograd.Function):\n    pass\n"
HELPER = b"import triton\n\n\n@triton.jit\ndef _sum(x):\n    return x\n"
EXPORTS = b"""\
from lab.ops.gla import chunk_gla
from lab.ops.retention import chunk_retention

__all__ = [
    "chunk_gla",
    "chunk_retention",
]
"""
LIBRARY = Tree(
    {
        "lab/__init__.py": b"",
        "lab/ops/__init__.py": EXPORTS,
        "lab/ops/gla/__init__.py": b"",
        "lab/ops/gla/chunk.py": KERNEL,
        "lab/ops/gla/fused_recurrent.py": KERNEL,
        "lab/ops/gla/naive.py": b"import torch\n",
        "lab/ops/gla/backends/chunk.py": KERNEL,
        "lab/ops/gate/fused.py": KERNEL,
        "lab/ops/nested/dplr/chunk_dplr.py": KERNEL,
        "lab/ops/common/sums.py": HELPER,
        "lab/modules/l2norm.py": KERNEL,
        "lab/modules/fused_loss.py": KERNEL,
        "tests/ops/test_gla.py": b"",
        "tests/modules/test_loss.py": b"",
        "benchmarks/ops/benchmark_gla.py": b"",
    }
)


def _design(tree: Tree = LIBRARY) -> Design:
    names = LAYOUT.names("reglu", reglu().problem, tree)
    source = (reglu().source or "").replace("LigerReGLUFunction", "ReGLUFunction")
    return replace(reglu(), names=names, source=source.replace(FROM_LIBRARY, "from launching import"))


def _texts(tree: Tree = LIBRARY) -> dict[str, str]:
    return {c.path: c.text or "" for c in LAYOUT.kernel_changes(_design(tree), tree)}


def test_a_library_with_references_next_to_its_kernels_is_of_this_kind() -> None:
    assert find_layout(LIBRARY).name == "fla"
    moved = Tree({f"src/{path}": text for path, text in LIBRARY.files.items()})
    assert find_layout(moved).name == "fla"
    without = {path: text for path, text in LIBRARY.files.items() if not path.endswith("naive.py")}
    assert find_layout(Tree(without)).name == "plain"
    assert find_layout(Tree(without | {"lab/ops/word/naive.py": b""})).name == "plain"


def test_kernels_are_named_by_module_and_package() -> None:
    assert LAYOUT.existing(LIBRARY) == {
        "gate": "lab/ops/gate/fused.py",
        "chunk_gla": "lab/ops/gla/chunk.py",
        "fused_recurrent_gla": "lab/ops/gla/fused_recurrent.py",
        "chunk_dplr": "lab/ops/nested/dplr/chunk_dplr.py",
        "fused_loss": "lab/modules/fused_loss.py",
        "l2norm": "lab/modules/l2norm.py",
    }


@pytest.mark.parametrize(
    ("name", "kernel", "suite", "script"),
    [
        ("chunk_gla", "chunk_gla", "tests/ops/test_gla.py", "benchmarks/ops/benchmark_gla.py"),
        ("fused_recurrent_gla", "fused_recurrent_gla", "tests/ops/test_gla.py", "benchmarks/ops/benchmark_gla.py"),
        ("fused_loss", "fused_loss", "tests/modules/test_loss.py", None),
        ("loss", "fused_loss", "tests/modules/test_loss.py", None),
        ("fused_gate", "gate", None, None),
    ],
)
def test_a_kernel_is_found_with_its_tests_and_benchmark(
    name: str, kernel: str, suite: str | None, script: str | None
) -> None:
    found = LAYOUT.locate(name, LIBRARY)
    assert (found.name, found.suite, found.script) == (kernel, suite, script)
    assert found.functions == ("GateFunction",)


def test_what_is_missing_is_named_at_its_place() -> None:
    messages = [failure.message for failure in LAYOUT.missing(LAYOUT.locate("l2norm", LIBRARY), LIBRARY)]
    assert messages == [
        "`l2norm` has no test file `tests/modules/test_l2norm.py`",
        "`l2norm` has no benchmark script `benchmarks/modules/benchmark_l2norm.py`",
    ]


def test_the_function_is_not_named_as_its_package() -> None:
    assert LAYOUT.names("reglu", parse_problem(REGLU_PROBLEM), LIBRARY) == KernelNames(
        "ReGLUFunction", "ReGLU", "fused_reglu"
    )


@pytest.mark.parametrize("path", ["lab/ops/reglu/chunk.py", "lab/ops/reglu.py", "tests/ops/test_reglu.py"])
def test_a_file_that_is_there_is_never_overwritten(path: str) -> None:
    with pytest.raises(UserFacingError) as caught:
        LAYOUT.names("reglu", parse_problem(REGLU_PROBLEM), Tree(LIBRARY.files | {path: HELPER}))
    assert caught.value.failure.code is FailureCode.exists


def test_a_repository_of_another_kind_is_refused_when_the_layout_is_named() -> None:
    with pytest.raises(UserFacingError) as caught:
        LAYOUT.names("reglu", parse_problem(REGLU_PROBLEM), Tree({"kernels/a.py": KERNEL}))
    assert caught.value.failure.code is FailureCode.layout


def test_an_operation_gets_a_package_with_its_reference_in_it() -> None:
    texts = _texts()
    assert list(texts) == [
        "lab/ops/reglu/fused.py",
        "lab/ops/reglu/__init__.py",
        "lab/ops/__init__.py",
        "lab/ops/reglu/naive.py",
        "tests/ops/test_reglu.py",
        "benchmarks/ops/benchmark_reglu.py",
    ]
    assert "def fused_reglu(a, b):\n    return ReGLUFunction.apply(a, b)\n" in texts["lab/ops/reglu/fused.py"]
    assert texts["lab/ops/reglu/__init__.py"].startswith("from lab.ops.reglu.fused import ReGLU, fused_reglu\n")
    assert 'CALL = "ReGLUFunction.apply(a, b)"' in texts["lab/ops/reglu/naive.py"]
    for path in ("tests/ops/test_reglu.py", "benchmarks/ops/benchmark_reglu.py"):
        assert "from lab.ops.reglu.naive import reference\n" in texts[path]
        assert "def reference" not in texts[path]


@pytest.mark.parametrize(
    ("before", "added"),
    [
        (EXPORTS, ["from lab.ops.reglu import fused_reglu", '    "fused_reglu",']),
        (b"from .gla import chunk_gla\n", ["from .reglu import fused_reglu"]),
        (b"", None),
    ],
)
def test_the_function_is_exported_as_the_others_are(before: bytes, added: list[str] | None) -> None:
    text = _texts(Tree(LIBRARY.files | {"lab/ops/__init__.py": before})).get("lab/ops/__init__.py")
    lines = None if text is None else [line for line in text.splitlines() if line not in before.decode().splitlines()]
    assert lines == added


def test_the_problem_is_read_back_out_of_the_reference() -> None:
    tree = LIBRARY.overlaid(LAYOUT.kernel_changes(_design(), LIBRARY))
    problem = parse_problem(LAYOUT.problem_of(LAYOUT.locate("reglu", tree), tree) or "")
    assert (problem.call, problem.workloads) == ("ReGLUFunction.apply(a, b)", reglu().problem.workloads)


def test_the_candidate_is_what_the_package_exports() -> None:
    candidate = LAYOUT.candidate(_design(), LAYOUT.kernel_changes(_design(), LIBRARY), "tree.tar")
    assert (candidate.module, candidate.symbol) == ("lab.ops.reglu", "fused_reglu")
    assert candidate.screened == ("lab/ops/reglu/fused.py",)


def test_the_written_tests_pass_on_a_right_kernel_and_fail_on_a_wrong_one(tmp_path: Path) -> None:
    tree = Tree(LIBRARY.files | {"launching.py": miniature.OPS_UTILS.encode(), "lab/ops/__init__.py": b""})
    right = _design(tree)
    wrong = replace(
        right,
        name="open",
        names=KernelNames("OpenFunction", "Open", "fused_open"),
        source=(right.source or "").replace("tl.maximum(a, 0.0) * b", "a * b").replace("ReGLUF", "OpenF"),
    )
    for design in (right, wrong):
        tree = tree.overlaid(LAYOUT.kernel_changes(design, tree))
    miniature.unpack(tree, tmp_path)
    done = run_suite(LAYOUT.tests(right, tree), tmp_path, LAYOUT.tests(wrong, tree).arguments[-1], "--tb=no")
    assert set(re.findall(r"^FAILED tests/ops/test_(\w+)\.py", done.stdout, re.MULTILINE)) == {"open"}
    assert re.search(r"\b\d+ passed", done.stdout)
