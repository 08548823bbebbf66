import pytest

from gpu_runner.contracts import KernelNames, parse_problem
from tests.workers.layouts.designs import REGLU_PROBLEM
from workers.contracts import FailureCode, UserFacingError
from workers.layouts.naming import camel_case, check_name, check_problem, check_symbols


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("reglu", "ReGLU"),
        ("geglu", "GEGLU"),
        ("swiglu", "SwiGLU"),
        ("rms_norm", "RMSNorm"),
        ("relu_squared", "ReLUSquared"),
        ("prelu", "PReLU"),
        ("kl_div", "KLDiv"),
        ("dyt", "DyT"),
        ("fused_add_rms_norm", "FusedAddRMSNorm"),
        ("l2_norm", "L2Norm"),
        ("softmax", "Softmax"),
    ],
)
def test_class_names_are_spelled_as_the_field_spells_them(name: str, written: str) -> None:
    assert camel_case(name) == written


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../reglu", "a path"),
        ("ops/reglu", "a path"),
        ("ops\\reglu", "a path"),
        ("reglu.py", "a path"),
        ("", "no Python identifier"),
        ("re-glu", "no Python identifier"),
        ("re glu", "no Python identifier"),
        ("2glu", "no Python identifier"),
        ("réglu", "no Python identifier"),
        ("lambda", "a word of the Python language"),
        ("match", "a word of the Python language"),
        ("ReGLU", "not in snake_case"),
        ("__init__", "not in snake_case"),
        ("re__glu", "not in snake_case"),
        ("_reglu", "not in snake_case"),
        ("utils", "reserved"),
        ("functional", "reserved"),
        ("a" * 61, "longer than 60"),
    ],
)
def test_a_name_that_cannot_be_a_module_is_refused_with_a_fix(name: str, says: str) -> None:
    with pytest.raises(UserFacingError) as caught:
        check_name(name)
    assert caught.value.failure.code is FailureCode.name
    assert says in caught.value.failure.message
    assert caught.value.failure.fix


def test_the_fix_for_another_spelling_is_the_snake_case_name() -> None:
    with pytest.raises(UserFacingError) as caught:
        check_name("RmsScale")
    assert caught.value.failure.fix == "Write it as `rms_scale`."


def test_an_input_that_every_linter_refuses_is_refused_at_once() -> None:
    problem = parse_problem(REGLU_PROBLEM.replace("a: torch", "l: torch").replace("(a)", "(l)").replace('"a"', '"l"'))
    with pytest.raises(UserFacingError) as caught:
        check_problem(problem)
    assert caught.value.failure.code is FailureCode.problem


@pytest.mark.parametrize("helper", ["make_inputs", "device", "test_helper", "assert_matches"])
def test_a_helper_that_the_test_file_would_overwrite_is_refused(helper: str) -> None:
    source = REGLU_PROBLEM.replace("F.relu(a)", f"{helper}(a)") + f"\n\ndef {helper}(x):\n    return x\n"
    with pytest.raises(UserFacingError) as caught:
        check_problem(parse_problem(source))
    assert caught.value.failure.code is FailureCode.problem
    assert f"`{helper}`" in caught.value.failure.message


@pytest.mark.parametrize("names", [("A", "A", "b"), ("A", "class", "b"), ("A", "B", "reference"), ("A", "B", "torch")])
def test_names_that_cannot_stand_together_are_refused(names: tuple[str, str, str]) -> None:
    with pytest.raises(UserFacingError) as caught:
        check_symbols(KernelNames(*names))
    assert caught.value.failure.code is FailureCode.name
