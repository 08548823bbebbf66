import pytest

from gpu_runner.contracts import parse_problem
from tests.workers.layouts.designs import REGLU_PROBLEM, reglu, reglu_graph, rms_scale
from workers.layouts.rank import takes_leading_dimensions


def test_element_wise_work_takes_leading_dimensions() -> None:
    assert takes_leading_dimensions(reglu().problem, reglu().graph)


def test_a_reduction_may_mean_a_certain_dimension() -> None:
    assert not takes_leading_dimensions(rms_scale().problem, rms_scale().graph)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("F.relu(a) * b", "F.relu(a) * b[:, :]"),
        ("F.relu(a) * b", "F.relu(a).reshape(b.shape) * b"),
        ('"b": "T I"', '"b": "I"'),
        ('"a": "T I", "b": "T I"', '"a": "I", "b": "I"'),
    ],
)
def test_a_reference_that_looks_at_shapes_or_has_other_inputs_does_not(old: str, new: str) -> None:
    source = REGLU_PROBLEM.replace(old, new)
    if '"T I"' not in source:
        source = source.replace('"T": 4096, ', "").replace('"T": 2048, ', "")
    assert not takes_leading_dimensions(parse_problem(source), reglu_graph())
