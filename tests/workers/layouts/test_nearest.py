import pytest

from gpu_runner.contracts import Graph, NodeRef, parse_problem
from tests.workers.compiler.captured import captured
from tests.workers.layouts.designs import RMS_PROBLEM, node, reglu, rms_scale
from tests.workers.layouts.miniature import tree
from workers.layouts.kernel_profile import Likeness, likeness_of_problem, likenesses, nearest
from workers.layouts.liger.layout import LigerLayout


def _existing() -> tuple[Likeness, ...]:
    library = tree()
    return likenesses({n: library.read(p) or "" for n, p in LigerLayout().existing(library).items()})


def _nearest(name: str, problem: object, graph: Graph) -> str | None:
    return nearest(likeness_of_problem(name, problem, graph), _existing())  # type: ignore[arg-type]


def test_a_gated_activation_is_nearest_to_another_gated_activation() -> None:
    assert _nearest("reglu", reglu().problem, reglu().graph) == "geglu"


def test_a_gated_activation_of_any_name_is_nearest_to_one_with_two_inputs() -> None:
    assert _nearest("open_gate", reglu().problem, reglu().graph) == "geglu"


def test_a_row_norm_is_nearest_to_the_root_mean_square_norm() -> None:
    assert _nearest("row_scale", rms_scale().problem, rms_scale().graph) == "rms_norm"


def test_a_scaled_softmax_is_nearest_to_softmax() -> None:
    wide, row = ("T", "H"), ("T", "1")
    x, moved = NodeRef("x"), NodeRef("moved")
    nodes = (
        node("x", "input", shape=wide),
        node("largest", "amax", x, (1,), True, shape=row),
        node("moved", "sub", x, NodeRef("largest"), shape=wide),
        node("e", "exp", moved, shape=wide),
        node("total", "sum", NodeRef("e"), (1,), True, shape=row),
        node("out", "div", NodeRef("e"), NodeRef("total"), shape=wide),
    )
    problem = parse_problem(
        RMS_PROBLEM.replace(", weight: torch.Tensor", "").replace(
            ', "weight": {"dims": "H", "init": "ones", "role": "parameter"}', ""
        )
    )
    assert _nearest("scaled_rows", problem, Graph(nodes, ("x",), ("out",), (None,), ())) == "softmax"


def test_a_sum_of_the_backward_pass_alone_is_no_trait() -> None:
    likeness = likeness_of_problem("rms_scale", rms_scale().problem, rms_scale().graph)
    assert "sum" in likeness.traits
    nodes = (
        node("x", "input", shape=("T",)),
        node("out", "tanh", NodeRef("x"), shape=("T",)),
        node("g", "sum", NodeRef("x"), shape=("1",)),
    )
    graph = Graph(nodes, ("x",), ("out",), (None,), (("x", "g"),))
    assert likeness_of_problem("bent", rms_scale().problem, graph).traits == {"tanh", "weight"}


def test_an_empty_library_has_no_nearest_kernel() -> None:
    assert nearest(Likeness("reglu", frozenset(), 2), ()) is None


NORMS = (
    Likeness("layer_norm", frozenset({"centred", "rsqrt", "sum", "weight"}), 3),
    Likeness("rms_norm", frozenset({"rsqrt", "sum", "weight"}), 2),
    Likeness("convolution", frozenset({"dot", "weight"}), 2),
)


@pytest.mark.parametrize(
    ("problem", "neighbour"),
    [
        ("layer_norm_2d", "layer_norm"),
        ("layer_norm_plain", "layer_norm"),
        ("rms_norm", "rms_norm"),
        ("glu", "rms_norm"),
    ],
)
def test_rows_that_are_centred_tell_a_norm_from_another(problem: str, neighbour: str) -> None:
    assert nearest(likeness_of_problem("scaled", *captured(problem)), NORMS) == neighbour


def test_matrix_product_is_no_neighbour_of_a_kernel_without_one() -> None:
    new = Likeness("add_bias", frozenset({"weight"}), 2)
    assert nearest(new, NORMS) == "rms_norm"
