from dataclasses import replace

import pytest

from gpu_runner.contracts import BenchmarkResult, KernelNames, parse_problem
from tests.workers.layouts.designs import REGLU_PROBLEM, reglu
from workers.contracts import FailureCode, UserFacingError
from workers.layouts.plain.files import home_of
from workers.layouts.plain.layout import PlainLayout
from workers.layouts.protocol import Design
from workers.tree import Tree

LAYOUT = PlainLayout()
KERNEL = b"import triton\n\n\n@triton.jit\ndef gate(x):\n    return tanh(x)\n"
EMPTY = Tree({"README.md": b"hello"})


def _design() -> Design:
    names = LAYOUT.names("reglu", reglu().problem, EMPTY)
    source = (reglu().source or "").replace("LigerReGLUFunction", "ReGLUFunction")
    return replace(reglu(), names=names, source=source)


@pytest.mark.parametrize(
    ("paths", "kernels", "root", "package"),
    [
        ((), "kernels", ".", "kernels"),
        (("mylib/fast/gate.py",), "mylib/fast", ".", "mylib.fast"),
        (("src/mylib/ops/gate.py", "tests/test_gate.py", "benchmarks/bench.py"), "src/mylib/ops", "src", "mylib.ops"),
        (("mylib/ops/a.py", "mylib/kernels/b.py"), "mylib/kernels", ".", "mylib.kernels"),
        (("one/a.py", "two/b.py"), "kernels", ".", "kernels"),
        (("a-b/gate.py",), "kernels", ".", "kernels"),
    ],
)
def test_kernels_go_where_the_library_keeps_them(paths: tuple[str, ...], kernels: str, root: str, package: str) -> None:
    home = home_of(Tree(dict.fromkeys(paths, KERNEL)))
    assert (home.kernels, home.root, home.package) == (kernels, root, package)


def test_folders_for_tests_and_benchmarks_are_those_that_are_there() -> None:
    home = home_of(Tree({"kernels/a.py": KERNEL, "test/test_a.py": b"", "bench/a.py": b""}))
    assert (home.tests, home.benchmarks) == ("test", "bench")


def test_names_have_no_prefix() -> None:
    assert LAYOUT.names("reglu", parse_problem(REGLU_PROBLEM), EMPTY) == KernelNames("ReGLUFunction", "ReGLU", "reglu")


@pytest.mark.parametrize("path", ["kernels/reglu.py", "tests/test_reglu.py", "benchmarks/benchmark_reglu.py"])
def test_a_file_that_is_there_is_never_overwritten(path: str) -> None:
    with pytest.raises(UserFacingError) as caught:
        LAYOUT.names("reglu", parse_problem(REGLU_PROBLEM), Tree({"kernels/other.py": KERNEL, path: KERNEL}))
    assert caught.value.failure.code is FailureCode.exists
    assert path in caught.value.failure.message


def test_one_module_one_test_file_and_one_script_are_written() -> None:
    changes = {c.path: c.text or "" for c in LAYOUT.kernel_changes(_design(), EMPTY)}
    assert list(changes) == [
        "kernels/__init__.py",
        "kernels/reglu.py",
        "tests/test_reglu.py",
        "benchmarks/benchmark_reglu.py",
    ]
    assert "def reglu(a, b):\n    return ReGLUFunction.apply(a, b)\n" in changes["kernels/reglu.py"]
    assert "class ReGLU(torch.nn.Module):" in changes["kernels/reglu.py"]
    assert "from kernels.reglu import ReGLU, reglu\n" in changes["tests/test_reglu.py"]
    assert '{"T": 4096, "intermediate_size": 14336},' in changes["benchmarks/benchmark_reglu.py"]


def test_the_first_commit_is_the_test_file_as_it_will_stay() -> None:
    assert LAYOUT.reference_changes(_design(), EMPTY)[0] in LAYOUT.kernel_changes(_design(), EMPTY)


def test_an_existing_folder_gets_no_new_package_file() -> None:
    tree = Tree({"src/mylib/ops/gate.py": KERNEL})
    assert LAYOUT.kernel_changes(_design(), tree)[0].path == "src/mylib/ops/reglu.py"


def test_the_candidate_is_the_functional_form_below_its_root() -> None:
    tree = Tree({"src/mylib/ops/gate.py": KERNEL})
    candidate = LAYOUT.candidate(_design(), LAYOUT.kernel_changes(_design(), tree), "tree.tar")
    assert (candidate.module, candidate.symbol) == ("mylib.ops.reglu", "reglu")
    assert candidate.import_roots == ("src", ".")
    assert candidate.screened == ("src/mylib/ops/reglu.py",)


def test_the_style_check_is_ruff_where_the_library_configures_it() -> None:
    changes = LAYOUT.reference_changes(_design(), EMPTY)
    assert LAYOUT.style_check(changes, EMPTY).check == ()
    configured = Tree({"pyproject.toml": b"[tool.ruff.lint]\nselect = ['E']\n"})
    assert len(LAYOUT.style_check(changes, configured).check) == 2


def test_the_author_is_told_the_library_s_line_length_and_imports() -> None:
    text = b"[tool.ruff]\nline-length = 100\n\n[tool.ruff.lint.isort]\nforce-single-line = true\n"
    style = LAYOUT.style("reglu", _design().names, Tree({"pyproject.toml": text}))
    assert (style.line_length, style.single_line_imports, style.helpers) == (100, True, ())
    assert LAYOUT.style("reglu", _design().names, EMPTY).line_length == 88


def test_the_profile_sweeps_the_sizes_of_the_workloads() -> None:
    profile = LAYOUT.profile(_design(), Tree({"kernels/gate.py": KERNEL}))
    assert profile.closest_existing_kernel == "gate"
    assert (profile.benchmark_variable, profile.benchmark_x_values_suggestion) == ("T", (4096, 2048))
    assert LAYOUT.profile(_design(), EMPTY).closest_existing_kernel.startswith("none")


def test_it_keeps_no_benchmark_data() -> None:
    assert LAYOUT.data_changes(_design(), (), BenchmarkResult((), False, "Some GPU", 1.0), EMPTY) == ()


def test_the_profile_sweeps_what_the_workloads_vary() -> None:
    source = REGLU_PROBLEM.replace('"T I"', '"B T I"').replace('{"T": 4096,', '{"B": 2, "T": 4096,')
    problem = parse_problem(source.replace('{"T": 2048,', '{"B": 2, "T": 2048,'))
    profile = LAYOUT.profile(replace(_design(), problem=problem), EMPTY)
    assert (profile.benchmark_variable, profile.benchmark_x_values_suggestion) == ("T", (4096, 2048))


def test_tests_outside_of_src_import_the_library_in_it() -> None:
    tree = Tree({"src/mylib/one/a.py": KERNEL, "src/mylib/two/b.py": KERNEL, "test/conftest.py": b"import mylib\n"})
    assert home_of(tree).kernels == "kernels"
    assert LAYOUT.tests(_design(), tree).import_roots == (".", "src")
    assert LAYOUT.tests(_design(), EMPTY).import_roots == (".",)
    needs = LAYOUT.needs_of("reglu", tree)
    assert (needs.roots, needs.modules) == ((".", "src"), ("pytest", "torch", "mylib"))
