"""The test file of a kernel: module, functional and reference compared, forward and backward. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runner.contracts import Graph, InputSpec
from gpu_runner.contracts.problem import INTEGER_DTYPES
from workers.layouts.dimensions import assignments, axes_of, leading_inputs, local, suite_sizes
from workers.layouts.module_form import ModuleForm, module_form
from workers.layouts.protocol import Design
from workers.layouts.python_source import INDENT, call, indented, listing, tuple_of


@dataclass(frozen=True)
class Outputs:
    """What the reference returns: how many tensors, as a tuple or not, and which of them have a gradient."""

    count: int
    is_tuple: bool
    differentiable: tuple[int, ...]
    whole: bool  # some are whole numbers or truth values, which match exactly


def outputs_of(graph: Graph) -> Outputs:
    """The outputs of a captured problem."""
    with_gradient = tuple(i for i, node in enumerate(graph.upstream) if node is not None)
    dtypes = {node.name: node.meta.dtype for node in graph.nodes}
    whole = any(dtypes.get(name, "float32") in INTEGER_DTYPES for name in graph.outputs)
    return Outputs(len(graph.outputs), graph.tuple_output or len(graph.outputs) > 1, with_gradient, whole)


EXACT = """\
    if not expected.is_floating_point():
        assert torch.equal(expected, actual), extra_info
        return
"""
ROUNDED = """\
    # Twice what eager mode loses by rounding is allowed as well.
    atol += 2 * (eager.double() - expected).nan_to_num(0.0, 0.0, 0.0).abs().max().item()
    expected = expected.to(eager.dtype)
"""


# cuDNN's convolutions of float32 are TF32 by default, 10 bits of mantissa, and so are compiled ones.
WITHOUT_TF32 = '''\
@pytest.fixture(autouse=True)
def without_tf32(monkeypatch):
    """Convolutions of float32 are computed in float32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


'''


def assert_matches_source(template: str, graph: Graph) -> str:
    """The function that compares tensors of the sides, whole numbers exactly, and what convolutions are computed in."""
    operators = {node.op for node in graph.nodes}
    convolves = "windows" in operators and not operators.isdisjoint(("matmul", "mul"))  # a pool multiplies nothing
    compared = template.replace("{exact}", EXACT * outputs_of(graph).whole).replace("{rounded}", ROUNDED)
    return WITHOUT_TF32 * convolves + compared


@dataclass(frozen=True)
class Sides:
    """What is compared: the reference in a wider dtype, in the tested dtype, and the layout's own."""

    own: str
    widened: str  # the method of tensors and modules that makes them wider

    @property
    def all(self) -> tuple[str, ...]:
        """Every side."""
        return ("torch", "eager", self.own)

    def copies(self, specs: tuple[InputSpec, ...]) -> list[str]:
        """The lines that copy each input for each side."""
        return [
            f"{local(s.name)}_{side} = {local(s.name)}{self.cast(side, s)}.clone(){'.requires_grad_(True)' * s.grad}"
            for side in self.all
            for s in specs
        ]

    def cast(self, side: str, spec: InputSpec) -> str:
        """The cast of an input or parameter, where the side wants one."""
        return f".{self.widened}()" if side == "torch" and spec.dtype in (None, *FLOATING) else ""

    def matched(self, form: str, label: str) -> list[str]:
        """The lines that compare the sides' tensors, each of ``form`` with the side's name in place of ``{}``."""
        tensors = [form.replace("{}", side) for side in ("torch", self.own, "eager")]
        return call("assert_matches", [*tensors, "atol", "rtol", label], width=116).split("\n")

    def forward_lines(self, outputs: Outputs, calls: Mapping[str, tuple[str, list[str]]]) -> list[str]:
        """The lines that run all sides and compare what they return."""
        lines = ["# Forward"]
        for side, (function, arguments) in calls.items():
            lines += call(f"{side}_output = {function}", arguments, width=116).split("\n")
        if not outputs.is_tuple:
            return [*lines, *self.matched("{}_output", '"[output]"')]
        lines += [f"assert len({self.own}_output) == {outputs.count}", f"for i in range({outputs.count}):"]
        return [*lines, *(INDENT + line for line in self.matched("{}_output[i]", 'f"[output {i}]"'))]

    def backward_lines(self, outputs: Outputs, specs: tuple[InputSpec, ...], learned: tuple[str, ...]) -> list[str]:
        """The lines that run backward with the same upstream gradients and compare the results; empty without gradients."""
        wanted = [local(s.name) for s in specs if s.grad]
        if not outputs.differentiable or not (wanted or learned):
            return []
        lines = ["", "# Backward"]
        if not outputs.is_tuple:
            lines += ["grad_output = torch.randn_like(eager_output)"]
            lines += [f"{side}_output.backward(grad_output)" for side in self.all]
        else:
            picked = {side: tuple_of(f"{side}_output[{i}]" for i in outputs.differentiable) for side in self.all}
            lines += [f"grad_outputs = [torch.randn_like(output) for output in {picked['eager']}]"]
            lines += [f"torch.autograd.backward({tensors}, grad_outputs)" for tensors in picked.values()]
        forms = {name: f"{name}_{{}}.grad" for name in wanted} | {name: f"{{}}_layer.{name}.grad" for name in learned}
        return [*lines, *(line for name, form in forms.items() for line in self.matched(form, f'"[{name}.grad]"'))]

    def layer_lines(self, form: ModuleForm, torch_class: str, own_class: str) -> list[str]:
        """The lines that make the modules with the same parameters, away from the values that they start with."""
        free = [s for s in form.learned if s.dtype is None]
        lines: list[str] = []
        for side in self.all:
            made = own_class if side == self.own else torch_class
            is_wide = side == "torch"
            is_cast = free and len(free) == len(form.learned)
            wider = f".{self.widened}()" if form.learned else ""
            cast = wider if is_wide else ".to(dtype)" if is_cast else ""
            lines += call(f"{side}_layer = {made}", form.construction(), f".to(device){cast}", width=116).split("\n")
            if not cast and not is_wide:
                lines += [f"{side}_layer.{s.name}.data = {side}_layer.{s.name}.data.to(dtype)" for s in free]
        if any(s.grad for s in form.learned):
            lines += ["with torch.no_grad():", "    for parameter in eager_layer.parameters():"]
            lines += ["        parameter.add_(torch.randn_like(parameter), alpha=0.1)"]
        if form.learned:
            others = [side for side in self.all if side != "eager"]
            lines += [f"{side}_layer.load_state_dict(eager_layer.state_dict())" for side in others]
        return lines


# atol is relative to the largest value of the tensor. Source: in float32, what the verdict always allows an element; 11 bits of
# mantissa in float16, 8 in bfloat16, and what torch loses where it rounds after each operation.
# Measured: float32 references of 103 problems are within 3e-6 of the truth so counted, CPU, to 4,096 columns, 2026-11-29.
TOLERANCES = {"float32": ("2e-5", "2e-5"), "float16": ("5e-3", "5e-3"), "bfloat16": ("2e-2", "2e-2")}
FLOATING = ("float32", "float16", "bfloat16")
TESTED_DTYPES = ("float32", "bfloat16")
FEWER_SIZES = 3


@dataclass(frozen=True)
class Words:
    """What a layout calls things in its tests; ``bfloat16_mark`` is the mark that skips bfloat16 where it is not there."""

    own: str  # the side that is not torch
    reference_class: str
    bfloat16_mark: str


@dataclass(frozen=True)
class Suite:
    """The tests of one design."""

    design: Design
    form: ModuleForm
    words: Words

    @property
    def sides(self) -> Sides:
        """What the tests compare. Whole numbers such as rounded ones are other ones where they are computed in float64."""
        return Sides(self.words.own, "float" if outputs_of(self.design.graph).whole else "double")

    def comparison(self, template: str) -> str:
        """The function that compares tensors, written as the layout does."""
        return assert_matches_source(template, self.design.graph)

    def inputs_function(self) -> str:
        """The function that makes one input each, parameters last."""
        specs = (*self.form.called, *self.form.learned)
        made = assignments(specs, self.form.axes)
        given = local(specs[0].name) if len(specs) == 1 else ", ".join(local(s.name) for s in specs)
        head = f"def make_inputs({', '.join([*self._variables, 'dtype'])}):\n    torch.manual_seed(0)"
        return f"{head}\n{made}\n    return {given}"

    def module_test(self) -> str:
        """The test of the module, with the gradients of its parameters."""
        form, names, sides = self.form, [local(s.name) for s in self.form.called], self.sides
        outputs = outputs_of(self.design.graph)
        calls = {side: (f"{side}_layer", [f"{name}_{side}" for name in names]) for side in sides.all}
        lines = [
            self._unpacked((*names, *("_" for _ in form.learned))),
            *sides.copies(form.called),
            "",
            *sides.layer_lines(form, self.words.reference_class, self.design.names.module or ""),
            "",
            *sides.forward_lines(outputs, calls),
            *sides.backward_lines(outputs, form.called, tuple(s.name for s in form.learned if s.grad)),
        ]
        return self._decorated("correctness", lines, len(self._sizes))

    def functional_test(self) -> str:
        """The test of the functional form."""
        return self._decorated("functional", self._functional_lines(self.sides), FEWER_SIZES)

    def further_tests(self) -> tuple[str, ...]:
        """The tests that only some problems have."""
        return tuple(test for test in (self.strided_test(), self.leading_test()) if test is not None)

    def strided_test(self) -> str | None:
        """The test with inputs whose elements do not lie side by side; None where no input has a dimension."""
        if not any(spec.dims for spec in self.form.called):
            return None
        names = tuple(spec.name for spec in self.form.called)
        return self._reshaped(
            "non_contiguous_inputs", names, ("{name}.repeat_interleave(2, dim=-1)[..., ::2]"), own_alone=True
        )

    def leading_test(self) -> str | None:
        """The test with one dimension more, as a model calls it; None where the problem may mean something else then."""
        names = leading_inputs(self.design.problem, self.design.graph)
        if not names:
            return None
        return self._reshaped("leading_dimensions", names, "torch.stack([{name}, {name}.flip(0)])")

    def _reshaped(self, what: str, names: tuple[str, ...], form: str, *, own_alone: bool = False) -> str:
        dtype, sides = self.dtypes[0], self.sides
        replaced: dict[str, str] = {}
        for s in (s for s in self.form.called if s.dims and s.name in names):
            for side in (sides.own,) if own_alone else sides.all:
                name, cast = local(s.name), sides.cast(side, s)
                replaced[f"{name}_{side} = {name}{cast}.clone()"] = f"{name}_{side} = {form.format(name=name)}{cast}"
        lines = self._functional_lines(sides)[1:]
        for before, after in replaced.items():
            lines = [line.replace(before, after) if line.startswith(before) else line for line in lines]
        sizes = self._sizes[FEWER_SIZES:] or self._sizes
        values = [f"{name}={size}" for name, size in zip(self._variables, sizes[0], strict=True)]
        opening = [f"atol, rtol = {', '.join(TOLERANCES[dtype])}"]
        opening.append(self._unpacked(self._names, [*values, f"dtype=torch.{dtype}"]))
        return f"def test_{self.design.names.functional}_{what}():\n" + indented("\n".join([*opening, *lines]))

    @property
    def _variables(self) -> list[str]:
        return [self.form.axes.variable(dim) for dim in self.form.axes.all]

    @property
    def _sizes(self) -> tuple[tuple[int, ...], ...]:
        return suite_sizes(self.form.axes, self.design.problem, self.design.graph)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(local(s.name) for s in (*self.form.called, *self.form.learned))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that are tested."""
        there = self.design.problem.dtypes
        return tuple(dtype for dtype in TESTED_DTYPES if dtype in there) or there

    def _functional_lines(self, sides: Sides) -> list[str]:
        specs = (*self.form.called, *self.form.learned)
        outputs = outputs_of(self.design.graph)
        functions = dict.fromkeys(("torch", "eager"), "reference") | {sides.own: self.design.names.functional or ""}
        calls = {side: (name, self.form.call_arguments(f"_{side}")) for side, name in functions.items()}
        return [
            self._unpacked(self._names),
            *sides.copies(specs),
            "",
            *sides.forward_lines(outputs, calls),
            *sides.backward_lines(outputs, specs, ()),
        ]

    def _unpacked(self, names: tuple[str, ...], arguments: list[str] | None = None) -> str:
        return f"{', '.join(names)} = make_inputs({', '.join(arguments or [*self._variables, 'dtype'])})"

    def _decorated(self, what: str, lines: list[str], count: int) -> str:
        variables = self._variables
        sizes = [tuple_of(map(str, row)) if len(row) > 1 else str(row[0]) for row in self._sizes if row]
        parts: list[str] = []
        if variables:
            rows = listing("", sizes[:count], ",", depth=1)
            parts += ["@pytest.mark.parametrize(", f'    "{", ".join(variables)}",', rows, ")"]
        kinds = listing("", [self._dtype(dtype) for dtype in self.dtypes], ",", depth=1)
        parts += ["@pytest.mark.parametrize(", '    "dtype, atol, rtol",', kinds, ")"]
        signature = ", ".join([*variables, "dtype", "atol", "rtol"])
        head = f"def test_{self.design.names.functional}_{what}({signature}):"
        return "\n".join([*parts, head, indented("\n".join(lines))])

    def _dtype(self, dtype: str) -> str:
        atol, rtol = TOLERANCES[dtype]
        if dtype != "bfloat16":
            return f"(torch.{dtype}, {atol}, {rtol})"
        inner = "".join(
            f"            {line}\n"
            for line in ("torch.bfloat16,", f"{atol},", f"{rtol},", f"marks={self.words.bfloat16_mark},")
        )
        return f"pytest.param(\n{inner}        )"


def suite_of(design: Design, words: Words) -> Suite:
    """The suite of a design."""
    return Suite(design, module_form(design.problem, axes_of(design.problem)), words)
