import pytest

from gpu_runner.contracts import parse_problem
from tests.workers.compiler.captured import captured
from tests.workers.layouts.designs import REGLU_PROBLEM, reglu, reglu_graph, rms_scale
from workers.layouts.dimensions import counts_from_the_end, leading_inputs


def test_element_wise_work_takes_leading_dimensions() -> None:
    assert leading_inputs(reglu().problem, reglu().graph) == ("a", "b")


def test_a_row_program_takes_them_and_its_weight_stays_as_it_is() -> None:
    assert leading_inputs(rms_scale().problem, rms_scale().graph) == ("x",)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("row_scale", ("x", "scale")),
        ("position_scale", ("x",)),
        ("logsumexp", ("x",)),
        ("layer_norm_2d", ("x",)),
        ("mse", ("x", "y")),
        ("ada_partial", ()),
        ("middle_softmax", ()),
        ("centered_columns", ()),
        ("token_share", ()),
        ("matmul", ()),
        ("vector_softmax", ()),
    ],
)
def test_captured_problems_take_them_where_nothing_is_counted_from_the_front(
    name: str, inputs: tuple[str, ...]
) -> None:
    assert leading_inputs(*captured(name)) == inputs


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("F.relu(a) * b", "F.relu(a) * b[:, :]"),
        ("F.relu(a) * b", "F.relu(a).reshape(b.shape) * b"),
        ("F.relu(a) * b", "F.relu(a) * b.softmax(1)"),
        ("F.relu(a) * b", "F.normalize(a) * b"),
        ('"a": "T I", "b": "T I"', '"a": "I", "b": "I"'),
        ('"a": "T I", "b": "T I"', '"a": "I T", "b": "T I"'),
        ('"b": "T I"', '"b": "I T"'),
        ('"a": "T I"', '"a": {"dims": "T I", "role": "parameter"}'),
    ],
)
def test_a_reference_that_counts_from_the_front_or_has_other_inputs_does_not(old: str, new: str) -> None:
    source = REGLU_PROBLEM.replace(old, new)
    if " T" not in source and '"T ' not in source:
        source = source.replace('"T": 4096, ', "").replace('"T": 2048, ', "")
    assert leading_inputs(parse_problem(source), reglu_graph()) == ()


@pytest.mark.parametrize(
    "body",
    [
        "x.sum(-1, keepdim=True)",
        "torch.softmax(x, dim=-1)",
        "F.layer_norm(x, (x.shape[-1],), w)",
        "F.layer_norm(x, x.shape[-2:], w)",
        "F.layer_norm(x, w.shape, w)",
        "x[..., : x.size(-1) // 2] * w[0]",
        "torch.cat((x, -x), -1)",
        "x.mean()",
        "x * s.unsqueeze(-1)",
    ],
)
def test_what_counts_from_the_end_is_known(body: str) -> None:
    assert counts_from_the_end(f"def reference(x, w, s):\n    return {body}\n", frozenset({"w"}))


@pytest.mark.parametrize(
    "body",
    [
        "x.sum(1)",
        "torch.softmax(x, dim=d)",
        "F.layer_norm(x, x.shape[1:], w)",
        "F.layer_norm(x, x.shape, w)",
        "x[0]",
        "x.T * w",
        "torch.cat((x, x))",
        "F.kl_div(x, w, reduction='batchmean')",
        "F.group_norm(x, 2)",
        "F.cosine_similarity(x, w)",
    ],
)
def test_what_may_count_from_the_front_is_not_trusted(body: str) -> None:
    assert not counts_from_the_end(f"def reference(x, w, s):\n    return {body}\n", frozenset({"w"}))
