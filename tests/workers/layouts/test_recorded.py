from dataclasses import replace

import pytest

from gpu_runner.contracts import Problem, RecordedCall, RecordedTensor, RecordResult, Workload, parse_problem
from tests.workers.layouts.standing import LIGER, NORM, liger, norm
from workers.layouts.calls import MOST
from workers.layouts.liger.layout import known_problems

NORM_CALL = parse_problem(known_problems()["rms_norm"])
REST = (0.0, "llama", True, None)


def _tensor(*shape: int, dtype: str = "bfloat16") -> RecordedTensor:
    return RecordedTensor(shape, dtype, True, True)


def _of(problem: Problem, *calls: tuple[object, ...]) -> tuple[Workload, ...]:
    recorded = RecordResult(tuple(RecordedCall(call) for call in calls))  # type: ignore[arg-type]
    return LIGER.sizes_of(problem, recorded)


def _norm(*calls: tuple[object, ...]) -> tuple[Workload, ...]:
    return _of(NORM_CALL, *calls)


def test_a_recorded_call_gives_its_sizes_and_dtype() -> None:
    found = _norm((_tensor(1024, 4096), _tensor(4096), 1e-6, *REST))
    assert found == (Workload((("T", 1024), ("H", 4096)), "bfloat16"),)


def test_leading_dimensions_are_one() -> None:
    (found,) = _norm((_tensor(4, 512, 4096), _tensor(4096), 1e-6, *REST))
    assert dict(found.sizes) == {"T": 2048, "H": 4096}


def test_weights_may_be_of_another_dtype() -> None:
    (found,) = _norm((_tensor(8, 64), _tensor(64, dtype="float32"), 1e-6, *REST))
    assert found.dtype == "bfloat16"


def test_a_scalar_takes_the_value_that_was_recorded() -> None:
    (found,) = _norm((_tensor(8, 64), _tensor(64), 1e-5, *REST))
    assert found.scalars == (("eps", 1e-5),)


@pytest.mark.parametrize(
    "call",
    [
        (_tensor(8, 64), _tensor(63), 1e-6, *REST),  # sizes that contradict
        (_tensor(8, 64), None, 1e-6, *REST),  # no weight
        (_tensor(64), _tensor(64), 1e-6, *REST),  # a dimension less
        (_tensor(8, 64), _tensor(2, 64), 1e-6, *REST),  # a weight has no leading dimensions
        (_tensor(8, 64, dtype="float64"), _tensor(64), 1e-6, *REST),
        (_tensor(8, 64), _tensor(64), 1e-6, 1.0, "gemma", True, None),  # another norm
        (_tensor(8, 64), _tensor(64), 1e-6, 0.0, "llama", 1, None),  # a number is no truth value
        (_tensor(8, 64), _tensor(64), 1e-6, 0.0, "llama", _tensor(1), None),
        (_tensor(8, 64), _tensor(64), "device", *REST),
        (_tensor(8, 64), _tensor(64), float("inf"), *REST),
        (_tensor(8, 64), _tensor(64), 1e-6, *REST, "more"),
        (_tensor(0, 64), _tensor(64), 1e-6, *REST),
        (_tensor(2**31, 64), _tensor(64), 1e-6, *REST),
        (),
    ],
)
def test_a_call_that_is_none_of_the_problem_s_gives_no_sizes(call: tuple[object, ...]) -> None:
    assert _norm(call) == ()


def test_what_a_call_leaves_out_has_its_default() -> None:
    assert len(_norm((_tensor(8, 64), _tensor(64), 1e-6))) == 1


def test_sizes_come_once_and_the_largest_first() -> None:
    calls = [(_tensor(rows, 64), _tensor(64), 1e-6, *REST) for rows in (16, 4, 16, 64)]
    assert [dict(w.sizes)["T"] for w in _norm(*calls)] == [64, 16, 4]


def test_of_many_sizes_the_ends_and_some_between_are_kept() -> None:
    calls = [(_tensor(rows, 64), _tensor(64), 1e-6, *REST) for rows in range(1, 41)]
    rows = [dict(w.sizes)["T"] for w in _norm(*calls)]
    assert len(rows) == MOST and rows[0] == 40 and rows[-1] == 1 and rows == sorted(rows, reverse=True)


def test_an_argument_that_is_a_size_is_held_against_it() -> None:
    problem = parse_problem(known_problems()["group_norm"])
    good = (_tensor(2, 512, 64), _tensor(512), _tensor(512), 512, 128, 1e-6)
    (found,) = _of(problem, good)
    assert dict(found.sizes) == {"N": 2, "C": 512, "S": 64} and found.scalars == (("groups", 128),)
    assert _of(problem, (*good[:3], 64, *good[4:])) == ()


def test_whole_numbers_are_of_their_dtype() -> None:
    problem = parse_problem(known_problems()["cross_entropy"])
    rest = (None, -100, 0.0, 0.0, "mean", None, False, False, False)
    logits = _tensor(64, 32000, dtype="float32")
    (found,) = _of(problem, (logits, _tensor(64, dtype="int64"), *rest))
    assert found == Workload((("T", 64), ("V", 32000)), "float32")
    assert _of(problem, (logits, _tensor(64, dtype="int32"), *rest)) == ()


def test_a_dtype_that_the_problem_has_not_is_none_of_its_calls() -> None:
    problem = replace(NORM_CALL, dtypes=("float32",))
    assert _of(problem, (_tensor(8, 64), _tensor(64), 1e-6, *REST)) == ()


def test_a_problem_without_a_call_has_no_recorded_sizes() -> None:
    assert _of(replace(NORM_CALL, call=None), (_tensor(8, 64), _tensor(64), 1e-6, *REST)) == ()


def test_the_script_is_recorded_on_what_the_call_names() -> None:
    tree = liger()
    standing = LIGER.locate("rms_scale", tree)
    problem = parse_problem(NORM.replace("RMSNormF", "RMSScaleF"))
    request = LIGER.sizes_request(standing, problem, tree, "tree.tar")
    assert request is not None
    assert (request.module, request.symbol) == ("liger_kernel.ops.rms_scale", "LigerRMSScaleFunction")
    assert (request.tree, request.script) == ("tree.tar", "benchmark/scripts/benchmark_rms_scale.py")
    assert request.import_roots == ("src", ".", "benchmark/scripts")
    assert [file.path for file in request.files] == ["src/liger_kernel.egg-info/PKG-INFO"]


def test_without_a_script_nothing_is_recorded() -> None:
    assert LIGER.sizes_request(*norm(), liger(), "tree.tar") is None
