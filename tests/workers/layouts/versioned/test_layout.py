from __future__ import annotations

import ast
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gpu_runner.contracts import SourceFile, parse_problem
from gpu_runner.program.imports import Library
from gpu_runner.verify.screen import objections_to
from tests.workers.compiler.captured import captured
from tests.workers.layouts.versioned.repository import GATED, LAYOUT, REGLU, ROOT, START, design, tree
from workers.contracts import FailureCode, FileChange, UserFacingError
from workers.layouts.protocol import LogEntry
from workers.layouts.table import find_layout
from workers.layouts.versioned.files import lacking
from workers.tree import Tree

ENTRY = LogEntry("fewer <b>loads</b>", ("one\nline",), ("because",), (), "", (), "")


def with_version(source: str | None = None) -> Tree:
    placed = LAYOUT.placed(LAYOUT.locate("reglu", tree()), source or kernels(), tree())
    return tree().overlaid(placed.changes)


def kernels() -> str:
    return tree().read(f"{REGLU}/reglu/kernels.py") or ""


def refused(name: str, at: Tree) -> str:
    with pytest.raises(UserFacingError) as caught:
        LAYOUT.names(name, captured("reglu")[0], at)
    return f"{caught.value.failure.message}. {caught.value.failure.fix}"


def test_a_repository_of_this_kind_has_the_command_line_of_kernels() -> None:
    assert find_layout(tree()) is not None and find_layout(tree()).name == "versioned"
    assert not LAYOUT.matches(Tree({"kernels/a.py": b"@triton.jit"}))


def test_a_design_s_name_is_its_newest_version_and_the_older_ones_have_numbers() -> None:
    assert LAYOUT.existing(tree()) == {
        "reglu": f"{REGLU}/reglu/kernels.py",
        "rms_norm": f"{ROOT}/triton/ops/rms_norm/rms_norm/kernels.py",
    }
    newer = with_version()
    assert LAYOUT.existing(newer)["reglu"] == f"{REGLU}/reglu_v1/kernels.py"
    assert LAYOUT.existing(newer)["reglu_v0"] == f"{REGLU}/reglu/kernels.py"
    assert LAYOUT.locate("reglu_v1", newer) == LAYOUT.locate("reglu", newer)
    assert LAYOUT.locate("reglu_v0", newer).path == f"{REGLU}/reglu/kernels.py"
    assert LAYOUT.locate("reglu_v0", newer).suite == "tests/test_reglu.py"


def test_a_new_version_touches_the_design_against_its_newest_before() -> None:
    touched = LAYOUT.touched(tree(), with_version())
    assert touched == {"reglu": (f"{REGLU}/reglu_v1/kernels.py",)}


def test_only_the_kernels_are_held_to_the_language_of_candidates_and_they_keep_to_it() -> None:
    sources = {path: ast.parse(tree().read(path) or "") for path in tree().paths("src/", ".py")}
    for path in LAYOUT.existing(tree()).values():
        assert objections_to(SourceFile(path, tree().read(path) or ""), Library(sources, ("src", "."))) == []
    made = design("reglu", START.overlaid(lacking("lab", START)))
    candidate = LAYOUT.candidate(made, LAYOUT.kernel_changes(made, tree()), "tree.tar")
    assert (candidate.module, candidate.symbol) == ("lab.kernel.triton.ops.reglu.reglu.reglu", "reglu")
    assert candidate.screened == (f"{REGLU}/reglu/kernels.py",)


def test_the_problem_of_every_version_is_the_reference_that_they_share() -> None:
    newer = with_version()
    for name in ("reglu", "reglu_v0"):
        source = LAYOUT.problem_of(LAYOUT.locate(name, newer), newer)
        assert source is not None
        problem = parse_problem(source)
        assert (problem.call, problem.inputs) == ("ReGLUFunction.apply(a, b)", captured("reglu")[0].inputs)


def test_an_entry_function_that_launches_itself_is_called_by_the_name_of_its_version() -> None:
    whole = "import triton\n\n\n@triton.jit\ndef _k(x):\n    return x\n\n\ndef reglu(a, b):\n    return a\n"
    by_hand = tree().overlaid(
        (FileChange(f"{REGLU}/reglu/kernels.py", None), FileChange(f"{REGLU}/reglu/reglu.py", whole))
    )
    standing = LAYOUT.locate("reglu", by_hand)
    assert standing.path == f"{REGLU}/reglu/reglu.py"
    source = LAYOUT.problem_of(standing, by_hand)
    assert source is not None and 'CALL = "reglu(a, b)"' in source
    placed = LAYOUT.placed(standing, whole, by_hand)
    assert placed.changes[0] == FileChange(
        f"{REGLU}/reglu_v1/reglu_v1.py", whole.replace("reglu", "reglu_v1").replace("_k", "_k_v1")
    )
    form = LAYOUT.form_of(placed.kernel, parse_problem(source), placed.changes, "tree.tar")
    assert "import reglu_v1 as standing_kernel" in form.files[-1].text


def test_a_plan_in_the_module_of_the_kernels_is_no_part_of_what_is_judged() -> None:
    plan = "\n\n@dataclass\nclass ReGLUPlan(KernelPlan):\n    T: int = 4\n"
    head = "from dataclasses import dataclass\n\nimport triton\nfrom lab.kernel.runtime import KernelPlan\n\n\n"
    whole = head + "@triton.jit\ndef _k(x):\n    return x\n\n\ndef reglu(a, b):\n    return a\n" + plan
    by_hand = tree().overlaid(
        (FileChange(f"{REGLU}/reglu/kernels.py", None), FileChange(f"{REGLU}/reglu/reglu.py", whole))
    )
    existing = LAYOUT.locate("reglu", by_hand)
    problem = parse_problem(LAYOUT.problem_of(existing, by_hand) or "")
    placed = LAYOUT.placed(existing, whole, by_hand)
    form = LAYOUT.form_of_placed(placed, problem, "tree.tar")
    judged = next(file.text for file in form.files if file.path == f"{REGLU}/reglu_v1/reglu_v1.py")
    assert form.screened[:-1] == (f"{REGLU}/reglu_v1/reglu_v1.py",)
    assert "Plan" not in judged and "dataclass" not in judged and "def reglu_v1(a, b):" in judged
    assert len(judged.splitlines()) == len((placed.changes[0].text or "").splitlines())
    assert objections_to(SourceFile("reglu_v1.py", judged), Library({}, ())) == []
    assert "class ReGLUPlanV1(KernelPlan):" in (placed.changes[0].text or "")


def test_a_variant_becomes_the_next_version_with_its_own_names() -> None:
    changed = kernels().replace("num_warps=num_warps", "num_warps=8")
    placed = LAYOUT.placed(LAYOUT.locate("reglu", tree()), changed, tree())
    texts = {change.path: change.text or "" for change in placed.changes}
    assert list(texts) == [f"{REGLU}/reglu_v1/{name}" for name in ("kernels.py", "__init__.py", "reglu_v1.py")]
    assert "num_warps=8" in texts[f"{REGLU}/reglu_v1/kernels.py"]
    assert "def _reglu_forward_kernel_v1(" in texts[f"{REGLU}/reglu_v1/kernels.py"]
    entry = texts[f"{REGLU}/reglu_v1/reglu_v1.py"]
    assert "class ReGLUPlanV1(KernelPlan):" in entry and "def reglu_v1(a, b):" in entry
    assert 'pd: "ReGLUPlanV1"' in entry and 'BenchmarkFn("reglu_v1", reglu_v1,' in entry
    assert "from lab.kernel.triton.ops.reglu.reglu_v1.kernels import TUNED, ReGLUFunction" in entry
    assert "from lab.kernel.triton.ops.reglu.reference import reference" in entry
    second = LAYOUT.placed(placed.kernel, changed, tree().overlaid(placed.changes))
    assert second.changes[0].path == f"{REGLU}/reglu_v2/kernels.py" and "_kernel_v2(" in (second.changes[0].text or "")


def test_an_entry_of_the_log_follows_the_template_and_stays_one_section() -> None:
    placed = LAYOUT.placed(LAYOUT.locate("reglu", tree()), kernels(), tree())
    (page,) = LAYOUT.logged(placed.kernel, ENTRY, tree().overlaid(placed.changes))
    assert page.path == "docs/kernels/reglu.md" and page.text is not None
    assert page.text.startswith((tree().read(page.path) or "-").rstrip())
    assert page.text.split("\n\n## Development log", 1)[1].split("### V1: ")[1] == (
        "fewer &lt;b>loads&lt;/b>\n\n"
        f"**Location**: `{REGLU}/reglu_v1/`\n\n"
        "**What changed**:\n\n- one line\n\n"
        "**High-level description of main code changes**:\n\n- because\n\n"
        "**Performance metrics**: to be filled in after profiling\n\n"
        "**Bottleneck**: to be filled in after profiling\n\n"
        "**Issues**: to be filled in after profiling\n\n"
        "**Insights**: to be filled in after profiling\n"
    )
    measured = replace(ENTRY, metrics=("1.2 times as fast",), bottleneck="memory", insights="It is bound by memory.")
    (page,) = LAYOUT.logged(placed.kernel, measured, tree().overlaid(placed.changes))
    assert "after profiling" not in (page.text or "").split("### V1: ")[1]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("reglu", "a kernel `reglu` exists at `src/lab/kernel/triton/ops/reglu/reglu/kernels.py`"),
        ("reglu_v1", "`reglu_v1` ends like a version. Name the design `reglu`;"),
    ],
)
def test_a_name_that_is_taken_or_is_a_version_s_is_refused(name: str, sentence: str) -> None:
    assert sentence in refused(name, tree())


def test_what_is_there_under_another_name_s_files_is_never_overwritten() -> None:
    for path in ("tests/test_gelu.py", "docs/kernels/gelu.md", f"{ROOT}/triton/ops/gelu/notes.txt"):
        assert "a kernel `gelu` exists" in refused("gelu", tree().overlaid((FileChange(path, "mine"),)))


def test_a_repository_s_own_runtime_is_used_and_stays() -> None:
    own = {
        "src/lab/__init__.py": b"",
        "src/lab/kernel/__main__.py": b"",
        "src/lab/plans.py": b"class KernelPlan:\n    pass\n",
    }
    there = Tree(START.files | own)
    written = lacking(None, there)
    assert not {"src/lab/kernel/runtime.py", "src/lab/kernel/__main__.py"} & {change.path for change in written}
    made = there.overlaid(written)
    with pytest.raises(UserFacingError) as caught:
        LAYOUT.kernel_changes(design("reglu", made), made)
    assert caught.value.failure.message == "no module below `src/lab/` defines `BenchmarkFn`"
    more = FileChange("src/lab/plans.py", "class KernelPlan: ...\n\n\nclass BenchmarkFn: ...\n\n\nclass Tiling: ...\n")
    whole = made.overlaid((more,))
    entry = next(
        c.text or "" for c in LAYOUT.kernel_changes(design("reglu", whole), whole) if c.path.endswith("/reglu/reglu.py")
    )
    assert "from lab.plans import BenchmarkFn, KernelPlan, Tiling" in entry


def test_without_a_command_line_of_the_layout_the_fix_is_init() -> None:
    assert "Make it with `kernelsmith init --layout versioned`" in refused("reglu", START)


def test_a_new_design_goes_to_the_layer_that_has_most() -> None:
    moved = Tree({path.replace("/triton/ops/", "/triton/mla/"): content for path, content in tree().files.items()})
    assert LAYOUT.kernel_path("gelu", moved) == f"{ROOT}/triton/mla/gelu/gelu/kernels.py"
    assert (
        LAYOUT.kernel_path("gelu", START.overlaid(lacking("lab", START))) == f"{ROOT}/triton/ops/gelu/gelu/kernels.py"
    )


@pytest.mark.parametrize(("target", "decorator"), [("cutile", "@ct.kernel"), ("cutedsl", "@cute.kernel")])
def test_a_design_in_another_language_has_a_package_of_that_language_and_versions(target: str, decorator: str) -> None:
    new = design("dyt", tree(), target)
    folder = f"{ROOT}/{target}/ops/dyt"
    changed = tree().overlaid(LAYOUT.kernel_changes(new, tree()))
    assert LAYOUT.kernel_path("dyt", tree(), target) == LAYOUT.existing(changed)["dyt"] == f"{folder}/dyt/kernels.py"
    assert changed.read(f"{ROOT}/{target}/__init__.py") == ""
    assert decorator in (changed.read(f"{folder}/dyt/kernels.py") or "")
    assert f'LANGUAGE, DESIGN = "{target}", "dyt"' in (changed.read("tests/test_dyt.py") or "")
    assert f'main(["{target}.dyt"' in (changed.read(f"{folder}/__main__.py") or "")
    placed = LAYOUT.placed(LAYOUT.locate("dyt", changed), new.source or "", changed)
    assert placed.changes[0].path == f"{folder}/dyt_v1/kernels.py"
    assert "a kernel `dyt` exists" in refused("dyt", changed), "a name is of one language"


def test_a_tiling_in_cutile_holds_its_hints_and_refuses_what_is_no_power_of_two() -> None:
    changes = {
        change.path: change.text or "" for change in LAYOUT.kernel_changes(design("dyt", tree(), "cutile"), tree())
    }
    entry = changes[f"{ROOT}/cutile/ops/dyt/dyt/dyt.py"]
    assert "forward_OCCUPANCY: int = 0" in entry and '"forward_NUM_WORKER_WARPS": (4, 8)' in entry
    (validation,) = [node for node in ast.walk(ast.parse(entry)) if getattr(node, "name", "") == "validate"]
    scope: dict[str, object] = {}
    exec(ast.unparse(validation), scope)
    fields = dict.fromkeys(re.findall(r"self\.(\w+)", entry), 0)
    takes = [
        scope["validate"](SimpleNamespace(**fields | given), SimpleNamespace(hidden_size=64))  # type: ignore[operator]
        for given in ({}, {"forward_OCCUPANCY": 3}, {"forward_NUM_WORKER_WARPS": 3}, {"backward_ELEMENTS": -1})
    ]
    assert takes == [True, True, False, False]


def test_a_package_that_cannot_be_imported_is_refused() -> None:
    for package, message in ((None, "nothing says which package"), ("my-lab", "`my-lab` is no name of a package")):
        with pytest.raises(UserFacingError) as caught:
            lacking(package, START)
        assert caught.value.failure.code is FailureCode.name and message in caught.value.failure.message


def test_designs_in_other_languages_are_no_kernels_of_kernelsmith() -> None:
    assert f"{GATED}/gated_sum/gated_sum.py" in tree().files and "gated_sum" not in LAYOUT.existing(tree())
