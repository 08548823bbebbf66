"""Port: an operator's API, its kernels for the target, the export, and parity; in memory."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_runner.contracts import CaptureResult, CaseOutcome, Check, Evidence, Status, TestCase, TestsResult, from_json
from gpu_runner.verify.cases import NARROW
from tests.workers.compiler.captured import captured
from tests.workers.stages.answers import PASSED
from tests.workers.stages.context import Answers, FakeContext, optimizing
from tests.workers.stages.library import files
from tests.workers.targets.test_cutile import python
from workers.contracts import (
    CommitUpdate,
    FailureCode,
    FileChange,
    KernelTiling,
    LoweredKernel,
    Parity,
    PortSummary,
    ProblemKind,
    ProblemText,
    UserFacingError,
    Verb,
)
from workers.layouts.table import layout_named
from workers.stages.bench import known_problem
from workers.stages.definition import RESOLVES, largest_error, patterns, scalar_compares
from workers.stages.port import Port
from workers.targets.ascend import ASCEND, EXPORTS, JUDGED_TILE, UB_MANAGER
from workers.targets.backend import REGISTRY, Backend
from workers.targets.liger_cutedsl import CUTEDSL
from workers.targets.liger_cutile import CUTILE
from workers.targets.rocm import ROCM
from workers.targets.uses import ImportedName
from workers.targets.xpu import XPU
from workers.tree import Tree

BACKEND = {
    UB_MANAGER: "def compute_default_tiling_strategy():\n    pass\n",
    EXPORTS: "from liger_kernel.ops.backends._ascend.ops.dyt import LigerDyTFunction\n\n"
    '__all__ = [\n    "LigerDyTFunction",\n]\n',
} | {
    target.selecting: f"register_impl(ImplInfo(name={target.name!r}, devices=({target.device!r},), module_path='m'))\n"
    for target in (ASCEND, CUTILE, CUTEDSL)
}
LAYOUT = layout_named("liger")
RESOLVED = TestCase(f"test_ascend_geglu.py::{RESOLVES}", CaseOutcome.passed, 1.0)
API_PASSES = TestsResult(
    True,
    0,
    (TestCase("test_ascend_geglu.py::test_every_name_is_exported", CaseOutcome.passed, 0.1), RESOLVED),
    "2 passed",
    "",
)
NAMES = ("LigerGELUMulFunction", "geglu_forward", "geglu_backward")
EXPORTED = "".join(f"from liger_kernel.ops.geglu import {name}  # noqa: F401\n" for name in NAMES)


def library(**more: str | None) -> Tree:
    texts = files() | BACKEND
    texts["src/liger_kernel/ops/__init__.py"] = EXPORTED
    texts |= {path: text for path, text in more.items() if text is not None}
    return Tree({path: text.encode() for path, text in texts.items() if more.get(path, "") is not None})


def porting(answers: Answers | None = None, tree: Tree | None = None, to: str = "ascend", **more: Any) -> FakeContext:
    given = {"capture": CaptureResult(captured("geglu_tanh")[1]), "verify": PASSED, "tests": API_PASSES} | (
        answers or {}
    )
    context = optimizing(given, tree or library(), to=to, **more)
    nothing = ProblemText(ProblemKind.missing)
    context.request = replace(context.request, verb=Verb.port, kernel="geglu", problem=nothing)
    return context


def ported(context: FakeContext) -> tuple[PortSummary, dict[str, str]]:
    result = Port().run(context)
    commit = next(update for update in result.updates if isinstance(update, CommitUpdate))
    return from_json(PortSummary, result.output["summary"]), {c.path: c.text or "" for c in commit.changes}


def failure(context: FakeContext) -> Any:
    with pytest.raises(UserFacingError) as raised:
        Port().run(context)
    return raised.value.failure


def test_a_port_is_the_operator_its_export_and_the_test_of_its_api() -> None:
    summary, texts = ported(porting())
    assert list(texts) == [ASCEND.port_path("geglu"), EXPORTS, "test/backends/test_ascend_geglu.py"]
    assert "class LigerGELUMulFunction(torch.autograd.Function):" in texts[ASCEND.port_path("geglu")]
    module = "liger_kernel.ops.backends._ascend.ops.geglu"
    for name in ("LigerGELUMulFunction", "geglu_forward", "geglu_backward"):
        assert f"from {module} import {name}\n" in texts[EXPORTS]
        assert f'    "{name}",\n' in texts[EXPORTS]
    assert [(row.name, row.exported) for row in summary.api] == [(name, True) for name in NAMES]
    assert {tiling.kernel for tiling in summary.tilings} == {"_geglu_forward", "_geglu_backward"}
    assert all(0 < tiling.used_bits <= 0.75 * summary.buffer_bits for tiling in summary.tilings)
    assert len({tiling.workload for tiling in summary.tilings}) == 3, "three shape groups"


def test_a_port_is_judged_with_a_stand_in_that_is_never_committed() -> None:
    context = porting()
    _, texts = ported(context)
    request = next(request for place, request in context.asked if place == "verify verify-geglu")
    given = {file.path: file.text for file in request.candidate.files}
    assert f"LARGEST_TILE = {JUDGED_TILE:_}" in given[UB_MANAGER] and given[EXPORTS] == ""
    strategy: dict[str, Any] = {}
    exec(given[UB_MANAGER], strategy)
    asked = {"memory_multiplier": 4.0, "shapes": ((1, 64),), "tiling_dims": (0,)}
    assert strategy["compute_default_tiling_strategy"](**asked) == ((2, 64),), "a row beyond the last of an odd number"
    assert UB_MANAGER not in texts
    assert set(request.candidate.screened) == set(given) - {UB_MANAGER, EXPORTS}
    assert NARROW[1] <= JUDGED_TILE, "infinities and NaN meet the kernel for rows of one tile"


def test_a_port_that_is_wrong_is_not_pushed() -> None:
    evidence = Evidence("values", "The error is 2.", "T=8 H=8 float32")
    wrong = replace(PASSED, status=Status.incorrect_values, evidence=(evidence,), seed="5eed" * 8)
    failed = failure(porting({"verify": wrong}))
    assert failed.code is FailureCode.verdict and "Nothing was pushed" in failed.fix
    assert (failed.log or "").endswith(f"The verdict's seed: {'5eed' * 8}")


@pytest.mark.parametrize(
    ("tree", "to", "message"),
    [
        (library(), "ascent", "there is no target `ascent`"),
        (library(**{ASCEND.port_path("geglu"): "x = 1\n"}), "ascend", "`geglu` is already ported"),
        (library(**{UB_MANAGER: None}), "ascend", f"the repository has no `{UB_MANAGER}`"),
    ],
)
def test_what_cannot_be_ported_is_refused_before_anything_runs(tree: Tree, to: str, message: str) -> None:
    context = porting(tree=tree, to=to)
    failed = failure(context)
    assert message in failed.message and failed.fix
    assert context.asked == []


def test_a_compiler_that_cannot_be_started_stops_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_ASCEND_PYTHON", "/nonexistent/python")
    failed = failure(porting())
    assert failed.code is FailureCode.environment and "KERNELSMITH_ASCEND_PYTHON" in failed.fix


CUTILE_LIBRARY = library(**{CUTILE.exports: BACKEND[EXPORTS].replace("backends._ascend", "cutile")})


def test_a_port_to_cutile_goes_into_the_librarys_own_implementation() -> None:
    summary, texts = ported(porting(tree=CUTILE_LIBRARY, to="cutile"))
    path = "src/liger_kernel/ops/cutile/ops/geglu.py"
    assert list(texts) == [path, CUTILE.exports, "test/backends/test_cutile_geglu.py"]
    assert "import cuda.tile as ct" in texts[path] and "triton" not in texts[path]
    assert "from liger_kernel.ops.utils import ensure_contiguous" in texts[path]
    assert "from liger_kernel.ops.cutile.ops.geglu import LigerGELUMulFunction" in texts[CUTILE.exports]
    assert '"LIGER_KERNEL_IMPL": "cutile"' in texts["test/backends/test_cutile_geglu.py"]
    assert {(tiling.rows, tiling.columns) for tiling in summary.tilings} == {(1, 1024)}
    assert (summary.language, summary.buffer_bits) == ("cuTile", 0)


def test_a_port_to_cutile_is_judged_without_the_other_operators_of_the_implementation() -> None:
    context = porting(tree=CUTILE_LIBRARY, to="cutile")
    ported(context)
    request = next(request for place, request in context.asked if place == "verify verify-geglu")
    given = {file.path: file.text for file in request.candidate.files}
    assert given[CUTILE.exports] == "" and CUTILE.exports not in request.candidate.screened


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"kernels": [{"name": "k", "dtype": "float32", "bytes": 9}]}, None),
        ({"missing": "none"}, FailureCode.environment),
    ],
)
def test_cutiles_compiler_sees_the_kernels_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: object, code: FailureCode | None
) -> None:
    monkeypatch.setenv("KERNELSMITH_CUTILE_PYTHON", python(tmp_path, answer))
    context = porting(tree=CUTILE_LIBRARY, to="cutile")
    if code is None:
        summary, _ = ported(context)
        assert summary.compiled == "Compiled for sm_90 in float32 and bfloat16."
        assert not any("No cuTile is installed" in risk for risk in summary.risks)
    else:
        assert failure(context).code is code


CUTEDSL_LIBRARY = library(**{CUTEDSL.exports: BACKEND[EXPORTS].replace("backends._ascend", "cutedsl")})


def test_a_port_to_cute_dsl_goes_into_the_librarys_own_implementation() -> None:
    summary, texts = ported(porting(tree=CUTEDSL_LIBRARY, to="cutedsl"))
    path = "src/liger_kernel/ops/cutedsl/ops/geglu.py"
    assert list(texts) == [path, CUTEDSL.exports, "test/backends/test_cutedsl_geglu.py"]
    assert "import cutlass.cute as cute" in texts[path] and "triton" not in texts[path]
    assert "import functools" in texts[path] and "from liger_kernel.ops.utils import ensure_contiguous" in texts[path]
    assert "from liger_kernel.ops.cutedsl.ops.geglu import LigerGELUMulFunction" in texts[CUTEDSL.exports]
    assert '"LIGER_KERNEL_IMPL": "cutedsl"' in texts["test/backends/test_cutedsl_geglu.py"]
    assert {(tiling.rows, tiling.columns) for tiling in summary.tilings} == {(1, 2048)}
    assert (summary.language, summary.buffer_bits) == ("CuTe DSL", 0)
    assert any("No CuTe DSL is installed" in risk for risk in summary.risks)


def test_the_compiler_of_cute_dsl_sees_the_kernels_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer = {"kernels": [{"name": "k", "dtype": "float32", "bytes": 9}]}
    monkeypatch.setenv("KERNELSMITH_CUTEDSL_PYTHON", python(tmp_path, answer))
    summary, _ = ported(porting(tree=CUTEDSL_LIBRARY, to="cutedsl"))
    assert summary.compiled == "Compiled for sm_90a in float32 and bfloat16."


OWN = """import torch


class LigerGELUMulFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up, approximate="tanh"):
        return run(gate, up)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad, None


class OtherFunction(torch.autograd.Function):
    pass
"""
OWN_LIBRARY = library(
    **{
        CUTILE.exports: f'from {CUTILE.package}.geglu import LigerGELUMulFunction\n\n__all__ = [\n    "LigerGELUMulFunction",\n]\n',
        CUTILE.port_path("geglu"): OWN,
    }
)


def test_a_port_has_the_api_of_the_implementation_that_the_command_names() -> None:
    summary, texts = ported(porting(tree=OWN_LIBRARY, ported_from="cutile"))
    assert '    def forward(ctx, gate, up, approximate="tanh"):\n' in texts[ASCEND.port_path("geglu")]
    assert "geglu_forward" not in texts[EXPORTS], "the implementation exports no such symbol"
    assert [row.name for row in summary.api] == ["LigerGELUMulFunction", "OtherFunction"]
    assert (summary.origin, summary.narrowed) == ("cutile", ("approximate = 'tanh'",))
    assert summary.reproduce == "kernelsmith port geglu --to ascend --from cutile --repo . --auto"
    test = texts["test/backends/test_ascend_geglu.py"]
    assert (
        'ORIGIN, PORT = OPS / "cutile" / "ops" / "geglu.py", OPS / "backends" / "_ascend" / "ops" / "geglu.py"' in test
    )


@pytest.mark.parametrize(
    ("tree", "origin", "message"),
    [
        (OWN_LIBRARY, "ascend", "`geglu` cannot be ported from `ascend` to itself"),
        (OWN_LIBRARY, "cutlie", "there is no implementation `cutlie`"),
        (library(), "cutile", "`geglu` has no implementation `cutile` to port from"),
        (
            OWN_LIBRARY.overlaid([FileChange(CUTILE.port_path("geglu"), OWN.replace("gate, up, approximate", "gate"))]),
            "cutile",
            "does not take what the problem's CALL passes",
        ),
    ],
)
def test_an_implementation_that_cannot_be_ported_from_is_refused(tree: Tree, origin: str, message: str) -> None:
    context = porting(tree=tree, ported_from=origin)
    failed = failure(context)
    assert message in failed.message and failed.fix
    assert context.asked == []


def test_a_repository_without_the_implementation_is_told_what_brings_it() -> None:
    failed = failure(porting(to="cutile"))
    assert failed.message == f"the repository has no `{CUTILE.exports}`"
    assert failed.fix == "The implementation in cuTile is part of liger-kernel since 0.8; ports go into it."


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            replace(
                API_PASSES, cases=(replace(RESOLVED, outcome=CaseOutcome.failed, message="E   ImportError: no x"),)
            ),
            "both import forms: ImportError: no x",
        ),
        (
            replace(
                API_PASSES,
                cases=(RESOLVED, TestCase("t.py::test_every_name_is_exported", CaseOutcome.failed, 0.1, "x")),
            ),
            "parameters, defaults and exports: test_every_name_is_exported: x",
        ),
        (replace(API_PASSES, cases=(), log="no tests ran"), "parameters, defaults and exports: no tests ran"),
    ],
)
def test_a_port_whose_own_test_fails_is_refused_with_the_item(answer: TestsResult, message: str) -> None:
    context = porting({"tests": answer})
    failed = failure(context)
    assert failed.message == f"the port of `geglu` is not done: {message}" and "Nothing was pushed" in failed.fix
    assert not any(place.startswith("verify") for place, _ in context.asked), "nothing is judged before"


def test_a_port_that_another_file_imports_more_of_is_refused() -> None:
    caller = f"from {ASCEND.package}.geglu import _geglu_kernel\n"
    failed = failure(porting(tree=library(**{f"{ASCEND.folder}/mlp.py": caller})))
    assert (
        "names that other files use" in failed.message and "`_geglu_kernel` of it, which it has not" in failed.message
    )


def test_launchers_have_another_name_where_a_file_calls_the_operators_by_theirs() -> None:
    caller = f"from {ASCEND.package}.geglu import geglu_forward, _geglu_forward\n"
    context = porting(tree=library(**{f"{ASCEND.folder}/mlp.py": caller}))
    assert "`_geglu_forward` of it, which it has not" in failure(context).message


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((64,), "three shape groups: T=64 I=128"),
        ((64, 96, 128), "the largest has 2 times the elements of the smallest"),
    ],
)
def test_fewer_than_three_sizes_or_sizes_that_are_alike_are_refused(rows: tuple[int, ...], message: str) -> None:
    source = known_problem(ProblemText(ProblemKind.missing), LAYOUT.locate("geglu", library()), library(), LAYOUT)
    sizes = re.sub(r"WORKLOADS = .*", f"WORKLOADS = {[{'T': n, 'I': 128} for n in rows]}", source)
    context = porting()
    context.request = replace(context.request, problem=ProblemText(ProblemKind.block, sizes))
    failed = failure(context)
    assert message in failed.message and "three WORKLOADS" in failed.fix


def test_what_was_shown_and_what_only_the_device_can_say_is_in_the_summary() -> None:
    summary, _ = ported(porting())
    holds = {item.name: item.holds for item in summary.done}
    assert holds["both import forms"] is True and holds["parity forward and backward"] is True
    assert holds["times of three shape groups"] is None and holds["accepted by the target's compiler"] is None
    assert False not in holds.values()
    assert len(summary.work) == 3 and all(size.forward_bytes for size in summary.work)


def test_an_implementation_that_nothing_selects_is_refused() -> None:
    failed = failure(porting(tree=library(**{ASCEND.selecting: "x = 1\n"})))
    assert f"nothing in `{ASCEND.selecting}` registers `ascend` for the device `npu`" in failed.message


def test_failure_patterns_that_a_port_shows_are_named_with_their_fix() -> None:
    few = KernelTiling("k", "T=4", 2.0, 1, 512, 4, 0, 90)
    drifting = Parity("softmax", "call", PASSED, largest_error([Check("values", "T=4", True, error=0.8, allowed=1.0)]))
    stays = (ImportedName("_softmax_forward", "src/ops/attention.py"),)
    source = "from lab.ops.other import _softmax_kernel\n\n\ndef launch(x):\n    return x.max().item()\n"
    found = patterns(source, (few,), (drifting,), stays, 40)
    for words in (
        "`src/ops/attention.py` imports `_softmax_forward` from the operator's own module",
        "has work for 4 of 40 cores at T=4",
        "takes one row of 512 columns at a time",
        "reach 80% of what is allowed",
        "calls `.item()`",
        "`from lab.ops.other import _softmax_kernel` imports kernels of another module",
    ):
        assert sum(words in sentence for sentence in found) == 1, words
    right = (KernelTiling("k", "T=4096", 2.0, 4, 512, 40, 0, 90),)
    own = "from liger_kernel.ops.utils import device_context\n\n\ndef launch(x):\n    return x\n"
    assert patterns(own, right, (replace(drifting, largest=0.1),), (), 40) == ()


def test_kernels_that_compare_whole_numbers_are_named_together() -> None:
    kernels = (LoweredKernel("a", 8, 1, compares=2), LoweredKernel("b", 8, 1), LoweredKernel("c", 8, 1, compares=1))
    (sentence,) = scalar_compares(kernels)
    assert "element by element: `a` (2), `c` (1). " in sentence
    assert scalar_compares(kernels[1:2]) == ()


def test_callers_that_stay_with_the_default_are_in_the_report() -> None:
    caller = "from liger_kernel.ops.geglu import geglu_forward\n"
    summary, _ = ported(porting(tree=library(**{"src/liger_kernel/ops/mlp.py": caller})))
    assert any("`src/liger_kernel/ops/mlp.py` imports `geglu_forward`" in risk for risk in summary.risks)


@pytest.mark.parametrize(
    ("target", "written", "absent"),
    [
        (ROCM, "if torch.version.hip is not None:\n", 'device.type == "xpu"'),
        (XPU, 'default_devices=("xpu",)', "torch.cuda.get_device_properties"),
    ],
)
def test_a_port_to_another_gpu_brings_its_implementation_where_there_is_none(
    target: Backend, written: str, absent: str
) -> None:
    tree = library(**{REGISTRY: "x = 1\n"})
    summary, texts = ported(porting(tree=tree, to=target.name))
    assert list(texts) == [
        target.port_path("geglu"),
        target.exports,
        target.selecting,
        f"test/backends/test_{target.name}_geglu.py",
    ]
    assert written in texts[target.selecting] and absent not in texts[target.port_path("geglu")]
    assert '"LigerGELUMulFunction"' in texts[target.exports]
    assert "from liger_kernel.ops.utils import calculate_settings" in texts[target.port_path("geglu")]
    assert summary.compiled.startswith("Compiled by Triton for gfx90a and gfx942") is (target is ROCM)
    assert summary.tilings == () and False not in {item.holds for item in summary.done}
    exports = BACKEND[EXPORTS].replace("_ascend", f"_{target.name}")
    again = library(**{REGISTRY: "x = 1\n", target.selecting: texts[target.selecting], target.exports: exports})
    assert target.selecting not in ported(porting(tree=again, to=target.name))[1], "it is registered already"


def test_a_library_without_a_registry_of_implementations_is_told_what_brings_it() -> None:
    failed = failure(porting(to="rocm"))
    assert failed.message == f"the repository has no `{REGISTRY}`" and "since 0.8" in failed.fix
