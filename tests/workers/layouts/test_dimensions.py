from gpu_runner.contracts import Expr, Graph, Multiple, Node, TensorMeta, parse_problem
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


def test_sizes_hold_widths_that_no_block_fits_and_single_rows() -> None:
    sizes = suite_sizes(axes_of(parse_problem(SCALARS)))
    assert any(columns & (columns - 1) for _, columns in sizes)
    assert any(rows == 1 for rows, _ in sizes)


def test_a_dimension_that_the_problem_halves_gets_even_sizes() -> None:
    meta = TensorMeta((Expr("T"), Expr("I // 2")), "float32")
    node = Node("half", "slice", (), meta)
    factors = factors_of(Graph((node,), (), ("half",), (None,), ()))
    assert factors == {"I": 2}
    assert {columns % 2 for _, columns in suite_sizes(axes_of(parse_problem(REGLU_PROBLEM)), factors)} == {0}


def test_a_dimension_that_a_scalar_divides_gets_multiples_of_it() -> None:
    node = Node("x", "input", (), TensorMeta((Expr("T"), Expr("I")), "float32"))
    graph = Graph((node,), ("x",), ("x",), (None,), (), multiples=(Multiple("I", "2 * groups"),))
    factors = factors_of(graph, {"groups": 3, "eps": 1e-6})
    assert factors == {"I": 6}
    assert {columns % 6 for _, columns in suite_sizes(axes_of(parse_problem(REGLU_PROBLEM)), factors)} == {0}
