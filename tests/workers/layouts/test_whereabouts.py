import pytest

from tests.workers.layouts.standing import LIGER, PLAIN, liger, plain, with_file
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.layouts.protocol import ExistingKernel


@pytest.mark.parametrize(
    "name",
    [
        "rms_norm",
        "RMSNorm",
        "rms-norm",
        "rms norm",
        "liger_rms_norm",
        "LigerRMSNorm",
        "LigerRMSNormFunction",
        "rms_norm.py",
    ],
)
def test_a_kernel_is_found_by_any_form_of_its_name(name: str) -> None:
    assert LIGER.locate(name, liger()).name == "rms_norm"


def test_a_kernel_is_found_by_the_class_of_its_function() -> None:
    assert LIGER.locate("GELUMul", liger()).name == "geglu"


def test_all_that_a_kernel_has_is_found() -> None:
    assert LIGER.locate("reglu", liger()) == ExistingKernel(
        name="reglu",
        path="src/liger_kernel/ops/reglu.py",
        module="liger_kernel.ops.reglu",
        functions=("LigerReGLUFunction",),
        suite="test/transformers/test_reglu.py",
        script="benchmark/scripts/benchmark_reglu.py",
    )


def test_what_a_kernel_of_a_small_library_has_is_found_too() -> None:
    assert PLAIN.locate("ReGLU", plain()) == ExistingKernel(
        name="reglu",
        path="kernels/reglu.py",
        module="kernels.reglu",
        functions=("ReGLUFunction",),
        suite="tests/test_reglu.py",
        script="benchmarks/benchmark_reglu.py",
    )


def test_the_function_that_the_library_uses_comes_first() -> None:
    path = "src/liger_kernel/ops/geglu.py"
    source = liger().read(path) or ""
    other = "class AnotherFunction(torch.autograd.Function):\n    pass\n\n\n"
    tree = with_file(liger(), path, source.replace("class LigerGELU", other + "class LigerGELU"))
    assert LIGER.locate("geglu", tree).functions == ("LigerGELUMulFunction", "AnotherFunction")


def _failure(name: str) -> Failure:
    with pytest.raises(UserFacingError) as caught:
        LIGER.locate(name, liger())
    return caught.value.failure


def test_a_name_that_is_not_there_is_answered_with_the_nearest() -> None:
    failure = _failure("rms_nrm")
    assert failure.code is FailureCode.missing
    assert failure.message == "there is no kernel `rms_nrm` in the repository"
    assert failure.fix == "The nearest names: `rms_norm`."


def test_a_name_that_is_like_none_is_answered_with_those_there_are() -> None:
    assert _failure("zzz").fix == "The kernels there: `dyt`, `geglu`, `reglu`, `rms_norm`, `rms_scale`, `softmax`."


@pytest.mark.parametrize("name", ["`@everyone`", "a\nb", "x" * 200, "<img>"])
def test_a_name_that_could_say_something_else_is_not_repeated(name: str) -> None:
    assert _failure(name).message == "there is no kernel of that name in the repository"


def test_missing_files_are_named_with_the_fix() -> None:
    tree = liger()
    assert LIGER.missing(LIGER.locate("reglu", tree), tree) == ()
    suite, script = LIGER.missing(LIGER.locate("rms_norm", tree), tree)
    assert suite.message == "`rms_norm` has no test file `test/transformers/test_rms_norm.py`"
    assert script.message == "`rms_norm` has no benchmark script `benchmark/scripts/benchmark_rms_norm.py`"
    assert suite.code is script.code is FailureCode.missing
    assert suite.fix and script.fix


def test_test_files_and_scripts_with_other_names_are_found() -> None:
    tree = plain()
    for old, new in (
        ("tests/test_reglu.py", "tests/gates/reglu_test.py"),
        ("benchmarks/benchmark_reglu.py", "benchmarks/reglu.py"),
    ):
        tree = with_file(with_file(tree, new, tree.read(old)), old, None)
    found = PLAIN.locate("reglu", tree)
    assert (found.suite, found.script) == ("tests/gates/reglu_test.py", "benchmarks/reglu.py")


def test_the_whole_test_file_and_the_script_are_run() -> None:
    tree = liger()
    found = LIGER.locate("reglu", tree)
    assert LIGER.suite_of(found, tree).arguments == ("-q", "test/transformers/test_reglu.py")
    run = LIGER.script_of(found, tree)
    assert (run.module, run.arguments) == ("benchmark", ("benchmark/scripts/benchmark_reglu.py",))
    assert run.collect == ("benchmark/data/all_benchmark_data.csv",)
    helpers = "benchmark/scripts/utils.py"
    told = with_file(tree, helpers, (tree.read(helpers) or "") + '\nparser.add_argument("--overwrite")\n')
    assert LIGER.script_of(found, told).arguments[1:] == ("--overwrite",)


def test_a_run_of_what_is_not_there_says_so() -> None:
    tree = liger()
    found = LIGER.locate("rms_norm", tree)
    for run in (LIGER.suite_of, LIGER.script_of):
        with pytest.raises(UserFacingError) as caught:
            run(found, tree)
        assert caught.value.failure.code is FailureCode.missing
