import pytest

from gpu_runner.contracts import Expr, Graph, Multiple, Node, TensorMeta, parse_problem
from gpu_runner.tracing.joint import make_inputs
from gpu_runner.tracing.sizes import defaults
from tests.few import few
from tests.gpu_runner.core.problems import PROBLEMS, full
from tests.gpu_runner.core.test_tracing import captured, caught_once
from tests.workers.layouts.designs import REGLU_PROBLEM, RMS_PROBLEM
from tests.workers.layouts.variants import PAIR, SCALARS
from workers.layouts.dimensions import axes_of, factors_of, suite_sizes


def test_columns_are_the_last_dimension_of_the_widest_call_input() -> None:
    axes = axes_of(parse_problem(PAIR))
    assert (axes.rows, axes.columns) == (("B", "T"), "H")
    assert axes_of(parse_problem(RMS_PROBLEM)).columns == "H"


def test_dimensions_are_called_what_a_model_calls_them_and_never_like_a_digit() -> None:
    assert axes_of(parse_problem(REGLU_PROBLEM)).variable("I") == "intermediate_size"
    renamed = parse_problem(REGLU_PROBLEM.replace("T I", "T l").replace('"I"', '"l"'))
    assert axes_of(renamed).variable("l") == "length"


def test_a_dimension_never_takes_the_name_of_an_input() -> None:
    source = (
        REGLU_PROBLEM.replace("(a:", "(hidden_size:")
        .replace('{"a"', '{"hidden_size"')
        .replace("relu(a)", "relu(hidden_size)")
    )
    axes = axes_of(parse_problem(source.replace("T I", "T H").replace('"I"', '"H"')))
    assert axes.variable("H") == "H"


def sizes_of(source: str, graph: Graph) -> tuple[tuple[int, ...], ...]:
    problem = parse_problem(source)
    return suite_sizes(axes_of(problem), problem, graph)


def test_sizes_hold_widths_that_no_block_fits_and_single_rows() -> None:
    sizes = sizes_of(SCALARS, Graph((), (), (), (), ()))
    assert any(columns & (columns - 1) for _, columns in sizes)
    assert any(rows == 1 for rows, _ in sizes)


def test_narrow_problems_have_sizes_of_their_own_width() -> None:
    source = REGLU_PROBLEM.replace("14336", "64").replace("11008", "40")
    assert [columns for _, columns in sizes_of(source, Graph((), (), (), (), ()))] == [128, 64, 31, 8, 5]


def test_a_dimension_that_the_problem_halves_gets_even_sizes() -> None:
    meta = TensorMeta((Expr("T"), Expr("I // 2")), "float32")
    graph = Graph((Node("half", "slice", (), meta),), (), ("half",), (None,), ())
    assert factors_of(graph) == {"I": 2}
    assert {columns % 2 for _, columns in sizes_of(REGLU_PROBLEM, graph)} == {0}


def test_a_dimension_that_a_scalar_divides_gets_multiples_of_it() -> None:
    node = Node("x", "input", (), TensorMeta((Expr("T"), Expr("I")), "float32"))
    graph = Graph((node,), ("x",), ("x",), (None,), (), multiples=(Multiple("I", "2 * groups"),))
    assert factors_of(graph, {"groups": 3, "eps": 1e-6}) == {"I": 6}
    scaled = REGLU_PROBLEM.replace("b: torch.Tensor)", "b: torch.Tensor, groups: int = 3)")
    assert {columns % 6 for _, columns in sizes_of(scaled, graph)} == {0}


RELATED = {
    "two groups": full("    return F.group_norm(x, 2)", "x", '{"x": "N C"}', '{"N": 8, "C": 64}'),
    "halves of a row": full(
        "    a, b = x.chunk(2, dim=-1)\n    return torch.cat((a * cos - b, b * cos + a), dim=-1)",
        "x, cos",
        '{"x": "B T D", "cos": {"dims": "T R", "grad": False}}',
        '{"B": 2, "T": 40, "D": 16, "R": 8}',
    ),
    "more query heads than keys": full(
        "    return q + k.repeat_interleave(4, dim=0)",
        "q, k",
        '{"q": "N H", "k": "K H"}',
        '{"N": 32, "K": 8, "H": 128}',
    ),
}


@pytest.mark.parametrize("name", [*RELATED, *few(PROBLEMS, [*PROBLEMS][::6])])
def test_the_reference_runs_at_the_sizes_of_written_tests(name: str) -> None:
    source = (RELATED | PROBLEMS)[name]
    problem, graph = captured(source)
    axes, specs = axes_of(problem), list(problem.inputs)
    for row in suite_sizes(axes, problem, graph):
        inputs = make_inputs(specs, dict(zip(axes.all, row, strict=True)), seed=5)
        caught_once(source).reference(*inputs, **defaults(problem))
