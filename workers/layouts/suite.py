"""The test file of a kernel: module, functional and reference compared, forward and backward. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import Graph, InputSpec
from gpu_runner.contracts.problem import INTEGER_DTYPES
from workers.layouts.dimensions import assignments, axes_of, factors_of, leading_inputs, local, suite_sizes
from workers.layouts.module_form import ModuleForm, module_form
from workers.layouts.protocol import Design
from workers.layouts.python_source import call, indented, listing, tuple_of


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


def exact_lines(graph: Graph) -> str:
    """The opening of ``assert_matches`` that compares whole numbers exactly; empty where every output is floating."""
    if not outputs_of(graph).whole:
        return ""
    return "    if not expected.is_floating_point():\n        assert torch.equal(expected, actual), extra_info\n        return\n"


def copies(specs: tuple[InputSpec, ...], suffix: str) -> list[str]:
    """The lines that copy each input for one side."""
    ready = {True: ".requires_grad_(True)", False: ""}
    return [f"{local(s.name)}_{suffix} = {local(s.name)}.clone(){ready[s.grad]}" for s in specs]


def forward_lines(
    outputs: Outputs, own: str, torch_call: tuple[str, list[str]], own_call: tuple[str, list[str]]
) -> list[str]:
    """The lines that run both sides and compare what they return."""
    lines = ["# Forward"]
    for side, (function, arguments) in (("torch", torch_call), (own, own_call)):
        lines += call(f"{side}_output = {function}", arguments, width=116).split("\n")
    if not outputs.is_tuple:
        return [*lines, f'assert_matches(torch_output, {own}_output, atol, rtol, "[output]")']
    return [
        *lines,
        f"assert len({own}_output) == {outputs.count}",
        f"for index in range({outputs.count}):",
        f'    assert_matches(torch_output[index], {own}_output[index], atol, rtol, f"[output {{index}}]")',
    ]


def backward_lines(outputs: Outputs, own: str, specs: tuple[InputSpec, ...], learned: tuple[str, ...]) -> list[str]:
    """The lines that run backward on both sides with the same gradients and compare the results; empty without gradients."""
    wanted = [local(s.name) for s in specs if s.grad]
    if not outputs.differentiable or not (wanted or learned):
        return []
    lines = ["", "# Backward"]
    if not outputs.is_tuple:
        lines += ["grad_output = torch.randn_like(torch_output)"]
        lines += [f"{side}_output.backward(grad_output)" for side in ("torch", own)]
    else:
        picked = [tuple_of(f"{side}_output[{i}]" for i in outputs.differentiable) for side in ("torch", own)]
        lines += [f"grad_outputs = [torch.randn_like(output) for output in {picked[0]}]"]
        lines += [f"torch.autograd.backward({outputs_}, grad_outputs)" for outputs_ in picked]
    lines += [f'assert_matches({n}_torch.grad, {n}_{own}.grad, atol, rtol, "[{n}.grad]")' for n in wanted]
    for name in learned:
        sides = f"torch_layer.{name}.grad, {own}_layer.{name}.grad"
        lines += [f'assert_matches({sides}, atol, rtol, "[{name}.grad]")']
    return lines


def layer_lines(form: ModuleForm, own: str, torch_class: str, own_class: str) -> list[str]:
    """The lines that make both modules with the same parameters, away from the values that they start with."""
    given = form.construction()
    lines = call(f"torch_layer = {torch_class}", given, ".to(device)", width=116).split("\n")
    lines += call(f"{own}_layer = {own_class}", given, ".to(device)", width=116).split("\n")
    free = [s for s in form.learned if s.dtype is None]
    if free and len(free) == len(form.learned):
        lines = [line.replace(".to(device)", ".to(device).to(dtype)") for line in lines]
    elif free:
        lines += [f"torch_layer.{s.name}.data = torch_layer.{s.name}.data.to(dtype)" for s in free]
        lines += [f"{own}_layer.{s.name}.data = {own}_layer.{s.name}.data.to(dtype)" for s in free]
    if any(s.grad for s in form.learned):
        lines += ["with torch.no_grad():", "    for parameter in torch_layer.parameters():"]
        lines += ["        parameter.add_(torch.randn_like(parameter), alpha=0.1)"]
    if form.learned:
        lines += [f"{own}_layer.load_state_dict(torch_layer.state_dict())"]
    return lines


# atol is relative to the largest value of the tensor. Source: in float32, what the verdict always allows an element; 11 bits of
# mantissa in float16, 8 in bfloat16, and what torch loses where it rounds after each operation.
# Measured: float32 references of 103 problems are within 3e-6 of the truth so counted, CPU, to 4,096 columns, 2026-11-29.
TOLERANCES = {"float32": ("2e-5", "2e-5"), "float16": ("5e-3", "5e-3"), "bfloat16": ("2e-2", "2e-2")}
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

    def inputs_function(self) -> str:
        """The function that makes one input each, parameters last."""
        specs = (*self.form.called, *self.form.learned)
        made = assignments(specs, self.form.axes)
        given = local(specs[0].name) if len(specs) == 1 else ", ".join(local(s.name) for s in specs)
        return f"def make_inputs({', '.join([*self._variables, 'dtype'])}):\n{made}\n    return {given}"

    def module_test(self) -> str:
        """The test of the module, with the gradients of its parameters."""
        own, form, names = self.words.own, self.form, [local(s.name) for s in self.form.called]
        outputs = outputs_of(self.design.graph)
        lines = [
            self._unpacked((*names, *("_" for _ in form.learned))),
            *copies(form.called, "torch"),
            *copies(form.called, own),
            "",
            *layer_lines(form, own, self.words.reference_class, self.design.names.module or ""),
            "",
            *forward_lines(
                outputs,
                own,
                ("torch_layer", [f"{name}_torch" for name in names]),
                (f"{own}_layer", [f"{name}_{own}" for name in names]),
            ),
            *backward_lines(outputs, own, form.called, tuple(s.name for s in form.learned if s.grad)),
        ]
        return self._decorated("correctness", lines, len(self._sizes))

    def functional_test(self) -> str:
        """The test of the functional form."""
        return self._decorated("functional", self._functional_lines(), FEWER_SIZES)

    def further_tests(self) -> tuple[str, ...]:
        """The tests that only some problems have."""
        return tuple(test for test in (self.strided_test(), self.leading_test()) if test is not None)

    def strided_test(self) -> str | None:
        """The test with inputs whose elements do not lie side by side; None where no input has a dimension."""
        if not any(spec.dims for spec in self.form.called):
            return None
        names = tuple(spec.name for spec in self.form.called)
        return self._reshaped(
            "non_contiguous_inputs", names, (self.words.own,), "{name}.repeat_interleave(2, dim=-1)[..., ::2]"
        )

    def leading_test(self) -> str | None:
        """The test with one dimension more, as a model calls it; None where the problem may mean something else then."""
        names = leading_inputs(self.design.problem, self.design.graph)
        if not names:
            return None
        return self._reshaped(
            "leading_dimensions", names, ("torch", self.words.own), "torch.stack([{name}, {name}.flip(0)])"
        )

    def _reshaped(self, what: str, names: tuple[str, ...], sides: tuple[str, ...], form: str) -> str:
        replaced = {
            f"{local(s.name)}_{side} = {local(s.name)}.clone()": f"{local(s.name)}_{side} = {form.format(name=local(s.name))}"
            for s in self.form.called
            for side in sides
            if s.dims and s.name in names
        }
        lines = self._functional_lines()[1:]
        for before, after in replaced.items():
            lines = [line.replace(before, after) if line.startswith(before) else line for line in lines]
        sizes = self._sizes[FEWER_SIZES:] or self._sizes
        values = [f"{name}={size}" for name, size in zip(self._variables, sizes[0], strict=True)]
        dtype = self.dtypes[0]
        opening = [f"atol, rtol = {', '.join(TOLERANCES[dtype])}"]
        opening.append(self._unpacked(self._names, [*values, f"dtype=torch.{dtype}"]))
        return f"def test_{self.design.names.functional}_{what}():\n" + indented("\n".join([*opening, *lines]))

    @property
    def _variables(self) -> list[str]:
        return [self.form.axes.variable(dim) for dim in self.form.axes.all]

    @property
    def _sizes(self) -> tuple[tuple[int, ...], ...]:
        problem = self.design.problem
        scalars = {spec.name: spec.default for spec in problem.scalars} | dict(problem.workloads[0].scalars)
        return suite_sizes(self.form.axes, factors_of(self.design.graph, scalars))

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(local(s.name) for s in (*self.form.called, *self.form.learned))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that are tested."""
        there = self.design.problem.dtypes
        return tuple(dtype for dtype in TESTED_DTYPES if dtype in there) or there

    def _functional_lines(self) -> list[str]:
        own, outputs = self.words.own, outputs_of(self.design.graph)
        specs = (*self.form.called, *self.form.learned)
        return [
            self._unpacked(self._names),
            *copies(specs, "torch"),
            *copies(specs, own),
            "",
            *forward_lines(
                outputs,
                own,
                ("reference", self.form.call_arguments("_torch")),
                (self.design.names.functional or "", self.form.call_arguments(f"_{own}")),
            ),
            *backward_lines(outputs, own, specs, ()),
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
