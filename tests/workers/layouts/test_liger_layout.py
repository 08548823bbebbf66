import ast
from dataclasses import replace

import pytest

from gpu_runner.contracts import BenchmarkResult, KernelNames, SourceFile, parse_problem
from tests.workers.layouts.designs import REGLU_PROBLEM, RMS_PROBLEM, reglu, rms_scale
from tests.workers.layouts.miniature import DATA, FUNCTIONAL, MODULE_EXPORTS, OPS_EXPORTS, tree
from workers.contracts import FailureCode, FileChange, LearnableParameter, ModuleParameter, UserFacingError
from workers.layouts.liger.layout import LigerLayout
from workers.layouts.liger.paths import MODEL_CONFIGS
from workers.tree import Tree

LAYOUT = LigerLayout()
MEASURED = BenchmarkResult((), False, "Some GPU", 4000.0)
DATA_PATH = "benchmark/data/all_benchmark_data.csv"
ROW = 'reglu,liger,forward,speed,ms,BT,total tokens,1024,0.5,0.4,0.6,"{""bsz"": 1}",Some GPU,2026-02-03 04:05:06,9.9.1'


def _without(path: str) -> Tree:
    return Tree({p: c for p, c in tree().files.items() if p != path})


def _with(path: str, text: str) -> Tree:
    return tree().overlaid((FileChange(path, text),))


def _change(path: str) -> str:
    return next(c.text or "" for c in LAYOUT.kernel_changes(reglu(), tree()) if c.path == path)


def _names(name: str, problem: str = REGLU_PROBLEM, library: Tree | None = None) -> KernelNames:
    return LAYOUT.names(name, parse_problem(problem), library or tree())


def test_the_library_is_known_by_its_files() -> None:
    assert LAYOUT.matches(tree())
    assert not LAYOUT.matches(_without("src/liger_kernel/transformers/functional.py"))


def test_existing_kernels_are_those_with_an_autograd_function() -> None:
    library = _with("src/liger_kernel/ops/_private.py", "class F(torch.autograd.Function):\n    pass\n")
    assert set(LAYOUT.existing(library)) == {"dyt", "geglu", "rms_norm", "softmax"}
    assert LAYOUT.existing(library)["geglu"] == "src/liger_kernel/ops/geglu.py"


def test_names_follow_the_convention() -> None:
    assert _names("reglu") == KernelNames("LigerReGLUFunction", "LigerReGLU", "liger_reglu")


def test_names_of_the_problem_win() -> None:
    names = _names("reglu", REGLU_PROBLEM + '\nNAMES = {"module": "LigerGate"}\n')
    assert names == KernelNames("LigerReGLUFunction", "LigerGate", "liger_reglu")


def test_an_existing_kernel_is_refused_with_a_pointer_to_it() -> None:
    with pytest.raises(UserFacingError) as caught:
        _names("softmax")
    failure = caught.value.failure
    assert failure.code is FailureCode.exists
    assert failure.message == "a kernel `softmax` exists at `src/liger_kernel/ops/softmax.py`"
    assert failure.fix == "Choose another name; to make the existing one faster, use `/kernel optimize softmax`."


@pytest.mark.parametrize(
    "path",
    [
        "src/liger_kernel/ops/reglu.py",
        "src/liger_kernel/ops/reglu/__init__.py",
        "src/liger_kernel/transformers/reglu.py",
        "test/transformers/test_reglu.py",
        "benchmark/scripts/benchmark_reglu.py",
    ],
)
def test_a_file_of_the_kernel_that_is_there_is_never_overwritten(path: str) -> None:
    with pytest.raises(UserFacingError) as caught:
        _names("reglu", library=_with(path, "VALUE = 1\n"))
    assert caught.value.failure.code is FailureCode.exists
    assert path in caught.value.failure.message


@pytest.mark.parametrize("symbol", ["LigerDyT", "LigerGELUMulFunction", "is_there"])
def test_a_name_that_is_exported_already_is_refused(symbol: str) -> None:
    with pytest.raises(UserFacingError) as caught:
        _names("reglu", REGLU_PROBLEM + f'\nNAMES = {{"module": "{symbol}"}}\n')
    assert caught.value.failure.code is FailureCode.exists
    assert symbol in caught.value.failure.message


def test_helpers_are_those_that_the_tree_defines() -> None:
    style = LAYOUT.style("reglu", _names("reglu"), tree())
    assert [helper for helper, _ in style.helpers] == ["calculate_settings", "device_context", "ensure_contiguous"]
    older = _with("src/liger_kernel/ops/utils.py", "def calculate_settings(n):\n    return n, 4\n")
    assert LAYOUT.style("reglu", _names("reglu"), older).helpers == (("calculate_settings", "liger_kernel.ops.utils"),)
    assert (style.function_class, style.forward_function) == ("LigerReGLUFunction", "reglu_forward")


def test_seven_files_are_written_and_the_data_is_left_alone() -> None:
    assert [change.path for change in LAYOUT.kernel_changes(reglu(), tree())] == [
        "src/liger_kernel/ops/reglu.py",
        "src/liger_kernel/transformers/reglu.py",
        "src/liger_kernel/ops/__init__.py",
        "src/liger_kernel/transformers/__init__.py",
        "src/liger_kernel/transformers/functional.py",
        "test/transformers/test_reglu.py",
        "benchmark/scripts/benchmark_reglu.py",
    ]


def test_the_first_commit_is_the_test_file_as_it_will_stay() -> None:
    (change,) = LAYOUT.reference_changes(replace(reglu(), source=None), tree())
    assert change in LAYOUT.kernel_changes(reglu(), tree())
    assert "    return F.relu(a) * b\n" in (change.text or "")


@pytest.mark.parametrize(
    ("path", "before", "added"),
    [
        (
            "src/liger_kernel/ops/__init__.py",
            OPS_EXPORTS,
            [
                "from liger_kernel.ops.reglu import LigerReGLUFunction  # noqa: F401\n",
                "from liger_kernel.ops.reglu import reglu_backward  # noqa: F401\n",
                "from liger_kernel.ops.reglu import reglu_forward  # noqa: F401\n",
            ],
        ),
        (
            "src/liger_kernel/transformers/__init__.py",
            MODULE_EXPORTS,
            ["from liger_kernel.transformers.reglu import LigerReGLU  # noqa: F401\n", '    "LigerReGLU",\n'],
        ),
        (
            "src/liger_kernel/transformers/functional.py",
            FUNCTIONAL,
            [
                "from liger_kernel.ops import LigerReGLUFunction\n",
                "\n\ndef liger_reglu(a, b):\n    return LigerReGLUFunction.apply(a, b)\n",
            ],
        ),
    ],
)
def test_exporting_files_gain_their_lines_and_keep_every_other_byte(path: str, before: str, added: list[str]) -> None:
    after = _change(path)
    for piece in added:
        assert after.count(piece) == 1
        after = after.replace(piece, "")
    assert after == before


def test_a_library_that_does_not_export_functions_imports_them_from_their_module() -> None:
    older = _with("src/liger_kernel/ops/__init__.py", "").overlaid(
        (
            FileChange(
                "src/liger_kernel/transformers/functional.py",
                FUNCTIONAL.replace("ops import LigerDyT", "ops.dyt import LigerDyT"),
            ),
        )
    )
    changes = {c.path: c.text or "" for c in LAYOUT.kernel_changes(reglu(), older)}
    assert "src/liger_kernel/ops/__init__.py" not in changes
    for path in ("src/liger_kernel/transformers/functional.py", "src/liger_kernel/transformers/reglu.py"):
        assert "from liger_kernel.ops.reglu import LigerReGLUFunction\n" in changes[path]


@pytest.mark.parametrize(
    "text", ["def broken(:\n", "VALUE = 1\n", f"VALUE = {'-' * 5000}1\n"], ids=["broken", "no import", "too deep"]
)
def test_a_library_that_cannot_be_extended_says_which_file_and_why(text: str) -> None:
    with pytest.raises(UserFacingError) as caught:
        LAYOUT.kernel_changes(reglu(), _with("src/liger_kernel/transformers/functional.py", text))
    assert caught.value.failure.code is FailureCode.layout
    assert "functional.py" in caught.value.failure.message


def test_a_module_has_its_parameters_and_shows_its_arguments() -> None:
    changes = {c.path: c.text or "" for c in LAYOUT.kernel_changes(rms_scale(), tree())}
    module = changes["src/liger_kernel/transformers/rms_scale.py"]
    assert "    def __init__(self, hidden_size, eps=1e-6):\n" in module
    assert "        self.weight = nn.Parameter(torch.ones(hidden_size))\n" in module
    assert "        return LigerRMSScaleFunction.apply(x, self.weight, self.eps)\n" in module
    assert '        return f"hidden_size={self.hidden_size}, eps={self.eps}"\n' in module
    assert (
        "def liger_rms_scale(x, weight, eps: float = 1e-6):\n" in changes["src/liger_kernel/transformers/functional.py"]
    )


def test_a_title_cannot_leave_its_docstring() -> None:
    problem = replace(reglu().problem, title='Gate """\nimport os\n\\" of\x00 rows')
    changes = LAYOUT.kernel_changes(replace(reglu(), problem=problem), tree())
    body = ast.parse(next(c.text or "" for c in changes if c.path == "src/liger_kernel/transformers/reglu.py")).body
    assert [type(node).__name__ for node in body] == ["Import", "ImportFrom", "ClassDef"]


def test_the_candidate_is_the_functional_form_and_only_the_kernel_is_screened() -> None:
    changes = LAYOUT.kernel_changes(reglu(), tree())
    candidate = LAYOUT.candidate(reglu(), changes, "tree.tar")
    assert (candidate.module, candidate.symbol) == ("liger_kernel.transformers.functional", "liger_reglu")
    assert (candidate.tree, candidate.import_roots) == ("tree.tar", ("src", "."))
    assert candidate.screened == ("src/liger_kernel/ops/reglu.py",)
    assert len(candidate.files) == len(changes)


def test_the_style_check_is_the_library_s_own_on_the_changed_files() -> None:
    changes = (*LAYOUT.reference_changes(reglu(), tree()), FileChange("README.md", "x"), FileChange("gone.py", None))
    style = LAYOUT.style_check(changes, tree())
    assert [command[:2] for command in style.check] == [("ruff", "check"), ("ruff", "format")]
    assert all(
        command[-1] == "test/transformers/test_reglu.py" and "--force-exclude" in command for command in style.check
    )
    assert "--check" in style.check[1] and "--check" not in style.fix[1]
    assert LAYOUT.style_check(changes, _without("pyproject.toml")).check == ()


def test_the_benchmark_brings_the_metadata_that_the_helpers_ask_for() -> None:
    run = LAYOUT.benchmark(reglu(), tree())
    assert (run.module, run.arguments) == ("benchmark", ("benchmark/scripts/benchmark_reglu.py",))
    assert run.collect == (DATA_PATH,)
    (metadata,) = run.support
    assert metadata.path == "src/liger_kernel.egg-info/PKG-INFO"
    assert "Version: 9.9.1\n" in metadata.text
    assert LAYOUT.benchmark(reglu(), _with("src/liger_kernel.egg-info/PKG-INFO", "Version: 9.9.1\n")).support == ()


def test_the_profile_has_every_field() -> None:
    profile = LAYOUT.profile(rms_scale(), tree())
    assert profile.closest_existing_kernel == "rms_norm"
    assert (profile.tier, profile.tier_description) == (2, "reduction")
    assert [(t.name, t.shape) for t in profile.forward_inputs] == [("x", "(T, H)"), ("weight", "(H,)")]
    assert [(t.shape, t.dtype) for t in profile.forward_outputs] == [("(T, H)", "same as input")]
    assert profile.module_init_params == (
        ModuleParameter("hidden_size", "int"),
        ModuleParameter("eps", "float", "1e-6"),
    )
    assert profile.learnable_params == (LearnableParameter("weight", "(hidden_size,)", "ones"),)
    assert (profile.benchmark_variable, profile.benchmark_x_label) == ("T", "total tokens")
    assert profile.benchmark_fixed_config == (("H", "hidden_size of the model"), ("dtype", "torch.bfloat16"))


def _appended(written: str, measured: BenchmarkResult = MEASURED) -> str | None:
    collected = (SourceFile(DATA_PATH, written),)
    changes = LAYOUT.data_changes(reglu(), collected, measured, tree())
    return changes[0].text if changes else None


def test_only_the_kernel_s_rows_are_appended_to_the_bytes_that_were_there() -> None:
    written = DATA.replace("0.25", "0.99") + ROW + "\r\n"
    assert _appended(written) == DATA + ROW + "\r\n"


def test_rows_written_with_other_line_endings_take_the_file_s_own() -> None:
    assert _appended((DATA + ROW + "\n").replace("\r\n", "\n")) == DATA + ROW + "\r\n"


def test_nothing_is_appended_where_no_gpu_measured() -> None:
    assert _appended(DATA + ROW, replace(MEASURED, predicted=True)) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reglu,liger,", "reglu,other,"),
        (",forward,", ",sideways,"),
        (",speed,ms,", ",speed,MB,"),
        (",0.5,", ",nan,"),
        (",0.5,", ",-1,"),
        (",0.5,", ",fast,"),
        ("Some GPU", "=HYPERLINK()"),
        ("Some GPU", "G" * 500),
        ("reglu,", "geglu,"),
        (",9.9.1", ""),
    ],
)
def test_a_row_that_the_library_s_writer_cannot_have_written_is_left_out(old: str, new: str) -> None:
    assert _appended(DATA + ROW.replace(old, new, 1) + "\r\n") is None


@pytest.mark.parametrize(("size", "told"), [(4096, "4096"), (4100, "hidden_size of the model")])
def test_profile_says_which_size_the_benchmark_takes_from_a_model(size: int, told: str) -> None:
    problem = parse_problem(RMS_PROBLEM.replace('"H": 4096', f'"H": {size}'))
    models = (tree().read(MODEL_CONFIGS) or "") + "\nLARGE = ModelConfig(hidden_size=4096)\n"
    library = tree().overlaid((FileChange(MODEL_CONFIGS, models),))
    profile = LAYOUT.profile(replace(rms_scale(), problem=problem), library)
    assert profile.benchmark_fixed_config[0] == ("H", told)


def test_an_exporting_file_without_a_single_reading_is_not_extended() -> None:
    path = "src/liger_kernel/transformers/functional.py"
    library = _with(path, (tree().read(path) or "") + "# \u200b\n")
    with pytest.raises(UserFacingError) as caught:
        LAYOUT.kernel_changes(reglu(), library)
    assert path in caught.value.failure.message
    assert "U+200B ZERO WIDTH SPACE" in caught.value.failure.message
