"""cuTile from the program that Triton is written from: the same statements in another language, and what it cannot express."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest

from tests.few import few
from tests.workers.compiler.captured import captured, names, style
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import AuthorRefusal, Brief, Proposal

PRODUCTS = ["matmul", "linear_residual"]
EMITTED = ["reglu", "geglu_tanh", "relu_squared", "swiglu", "rms_norm", "layer_norm", "softmax", "dyt", "frob"]


def answer(name: str, target: str = "cutile", tunable: bool = False) -> Proposal | AuthorRefusal:
    problem, graph = captured(name)
    return CompilerAuthor().propose(Brief(name, problem, graph, replace(style(name), target=target, tunable=tunable)))


def emitted(name: str, target: str = "cutile", tunable: bool = False) -> Proposal:
    given = answer(name, target, tunable)
    assert isinstance(given, Proposal), given
    return given


@pytest.mark.parametrize("name", few(names(), names()[::3]))
def test_no_word_of_triton_is_left_and_every_function_is_defined(name: str) -> None:
    given = answer(name)
    if isinstance(given, AuthorRefusal):
        return
    assert not re.search(r"\b(tl|triton)\b|_ptr\b|num_warps|num_stages", given.source)
    defined = {node.name for node in ast.parse(given.source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    called = set(re.findall(r"(?<![\w.])(_\w+)\(", given.source))
    assert called <= defined


def statements(source: str, kernel: str) -> list[str]:
    """The lines of a kernel that compute, but for the module's name and what only addresses differ in."""
    node = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == kernel)
    lines = [ast.unparse(one) for one in ast.walk(node) if isinstance(one, ast.Assign | ast.AugAssign)]
    places = r"\b(load|gather|arange|program_id|bid|num_programs)\b|offsets = |mask = |rows = |cols = |cast\(|astype\((eps|\w+), ct"
    plain = [re.sub(r"\btl\.", "ct.", line) for line in lines if not re.search(places, line)]
    plain = [re.sub(r", propagate_nan=[\w.]+", "", line).replace("keep_dims", "keepdims") for line in plain]
    plain = [re.sub(r"\bct\.sigmoid\(", "_sigmoid(", line) for line in plain]
    plain = [re.sub(r"\((\w+ / \w+)\)", r"\1", ast.unparse(AsOperators().visit(ast.parse(line)))) for line in plain]
    # A call in a call is named first.
    named = next((line for line in plain if line.startswith("exp = ")), "")
    if sum(len(re.findall(r"(?<!\.)\bexp\b(?!\()", line)) for line in plain) == 2:
        plain = [re.sub(r"(?<!\.)\bexp\b(?!\()", named[6:], line) for line in plain if line != named]
    return plain


class AsOperators(ast.NodeTransformer):
    """Writes divisions as Triton does, and leaves out how results are rounded."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.keywords = [given for given in node.keywords if given.arg != "rounding_mode"]
        if ast.unparse(node.func) != "ct.truediv":
            return node
        one = isinstance(node.args[0], ast.Constant) and node.args[0].value == 1.0
        return ast.BinOp(ast.Constant(1) if one else node.args[0], ast.Div(), node.args[1])


@pytest.mark.parametrize("name", EMITTED)
@pytest.mark.parametrize("timed", ["forward", "backward"])
def test_both_languages_compute_the_same_statements(name: str, timed: str) -> None:
    kernel = f"_{name}_{timed}_kernel"
    assert statements(emitted(name).source, kernel) == statements(emitted(name, "gpu").source, kernel)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_takes_its_operands_as_they_lie_and_what_follows_from_it_in_one_kernel(name: str) -> None:
    source = emitted(name).source
    tiles = {"matmul": "x, w", "linear_residual": "x, ct.permute(weight, (1, 0))"}
    assert f"product = ct.mma({tiles[name]}, product)" in source
    assert source.count("ct.mma(") == 3, "forward, and a product for each gradient"
    assert ("y = residual + (bias + product)" in source) is (name == "linear_residual")


def test_a_tile_of_a_product_has_as_many_bytes_in_every_dtype() -> None:
    source = emitted("matmul").source
    sizes = {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 128}
    assert all(source.count(f"{name} = {size} // ") == 3 for name, size in sizes.items())
    assert "BLOCK_K=128 // x.element_size()" in emitted("matmul", tunable=True).source


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "softmax", "dyt", "swiglu"])
def test_a_programs_only_tile_is_asked_for_by_place_and_those_of_a_loop_by_number(name: str) -> None:
    source = emitted(name).source
    for way in ("forward", "backward"):
        kernel = kernel_of(source, f"_{name}_{way}_kernel")
        by_place = set(re.findall(r"ct\.(gather|scatter)\(\w+_array, (?:offsets|\(\w+, cols\))", kernel))
        by_number = set(
            re.findall(r"ct\.(load|store)\(\w+_array, \((?:tile|0), (?:0|col_tile)\).*BLOCK_SIZE\)", kernel)
        )
        is_loop = "for tile in" in kernel
        assert by_place == (set() if is_loop else {"gather", "scatter"})
        assert ("load" in by_number) is is_loop


def test_so_many_programs_share_a_multiprocessor_as_their_tiles_fit_into_its_registers() -> None:
    sources = {name: emitted(name).source for name in ("rms_norm", "softmax", "dyt", "swiglu")}
    assert sources["rms_norm"].count("occupancy = ct.cdiv(16384, BLOCK_ROWS * BLOCK_SIZE)") == 1, (
        "not where sums are kept"
    )
    assert "_hinted(_rms_norm_forward_kernel, occupancy, 8)," in sources["rms_norm"]
    assert "occupancy = ct.cdiv(8192, BLOCK_ROWS * BLOCK_SIZE)" in sources["softmax"], "backward holds two tiles"
    assert "_hinted(_dyt_forward_kernel, 4, 8)," in sources["dyt"], (
        "a block of columns has as many elements in all rows"
    )
    assert "_dyt_backward_kernel," in sources["dyt"] and "occupancy" not in sources["swiglu"]


def kernel_of(source: str, name: str) -> str:
    return next(ast.unparse(n) for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == name)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("softmax", ["ratio = ct.truediv(exp, denominator, rounding_mode=ct.RoundingMode.FULL)"]),
        ("swiglu", ["return ct.truediv(1.0, 1.0 + exp, rounding_mode=ct.RoundingMode.FULL)"]),
        ("layer_norm", ["mean = sum_x / n_cols", "x_hat * (dot_dy_weight_x_hat / n_cols)"]),
    ],
)
def test_what_is_divided_element_by_element_is_divided_as_triton_does(name: str, lines: list[str]) -> None:
    source = emitted(name).source
    assert all(line in source for line in lines)
    assert source.count("ct.exp(") == source.count("rounding_mode=ct.RoundingMode.APPROX")


def test_a_tile_beyond_the_last_column_is_what_the_reduction_ignores() -> None:
    source = emitted("softmax").source
    assert 'padding_value=-float("inf")' in source and "ct.max(x, axis=1, keepdims=True)" in source
    assert "padding_mode=ct.PaddingMode.ZERO" in emitted("rms_norm").source
    assert "ct.where(mask, " in emitted("layer_norm").source


def test_rows_that_no_tile_holds_are_an_error_of_the_launcher_and_a_limit_of_the_proposal() -> None:
    proposal = emitted("softmax")
    assert 'raise ValueError(f"{n_cols} columns are more than the 65536 that a tile holds")' in proposal.source
    assert [(limit.size, limit.most) for limit in proposal.limits] == [("V", 32768)]


def test_a_call_without_rows_starts_a_program_for_which_no_element_is_there() -> None:
    assert emitted("swiglu").source.count("(n_elements // BLOCK_SIZE + 1,),") == 2
    assert emitted("softmax").source.count("n_programs = n_rows // BLOCK_ROWS + 1") == 2
    for name in ("swiglu", "rms_norm", "cross_entropy"):
        assert "if n_" not in emitted(name).source.replace("if n_cols >", "")
    assert emitted("matmul").source.count("if n_rows * n_cols:") == 3, "a tile of a product lies in its array"


def test_one_element_of_each_row_is_taken_where_its_index_is_in_range() -> None:
    kernel = kernel_of(emitted("cross_entropy").source, "_cross_entropy_forward_kernel")
    assert "picked_x_mask = row_mask & (index >= 0) & (index < n_cols)" in kernel
    masked = "mask=picked_x_mask, check_bounds=False, padding_value=float('nan')"
    assert f"ct.gather(x_array, (rows, index), {masked})" in kernel


def test_a_row_that_is_moved_ends_where_its_array_does() -> None:
    source = emitted("rope_one").source
    assert "picked_q_cols = total" in source and "ct.gather(q_array, (rows, picked_q_cols))" in source


def test_a_tensor_of_some_rows_has_none_beyond_the_last_one_of_the_others() -> None:
    source = emitted("rope_one").source
    assert "ct.gather(cos_array, (ct.where(row_mask, rows % cos_rows, -1), cols))" in source
    assert "cos.view(-1, n_cols)," in source


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("bias_gelu", "cuTile has no way to write `erf` yet"),
        ("bmm", "the cuTile target has no schedule for batches of products"),
        ("norm_linear", "the cuTile target has no schedule for products of what is computed for each tile"),
        ("convolution", "the cuTile target has no schedule for windows of a tensor"),
        ("group_norm", "the cuTile target has no schedule for groups within a row"),
        ("packed_geglu", "the cuTile target has no schedule for chunks of a row"),
        ("argmin_rows", "the cuTile target has no schedule for `argmax` of a row"),
        ("middle_max", "the cuTile target has no schedule for dimensions that are reduced in the middle"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_its_operator(name: str, sentence: str) -> None:
    given = answer(name)
    assert isinstance(given, AuthorRefusal) and given.sentence == sentence


@pytest.mark.parametrize("name", ["swiglu", "rms_norm", "dyt"])
def test_where_settings_are_tuned_the_launchers_look_the_tile_up_and_the_kernels_are_as_they_are(name: str) -> None:
    tuned = emitted(name, tunable=True)
    plain = emitted(name).source
    for timed in ("forward", "backward"):
        kernel = f"_{name}_{timed}_kernel"
        assert statements(tuned.source, kernel) == statements(plain, kernel)
    looked_up = looked_up_settings(tuned.source)
    assert looked_up and {(knob.tuned_pass.value, knob.setting) for knob in tuned.knobs} == looked_up


def looked_up_settings(source: str) -> set[tuple[str, str]]:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found = [call for call in calls if ast.unparse(call.func) == "_tuned"]
    return {(ast.literal_eval(call.args[1]), str(k.arg)) for call in found for k in call.keywords}
