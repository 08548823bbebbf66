"""Test code that holds a kernel against its reference, forward and backward: what every layout's test file shares. Pure.

Each input is there twice, as ``NAME_torch`` and ``NAME_OWN``, ``OWN`` being the layout's word for its own side; results are
compared by a function ``assert_matches(expected, actual, atol, rtol, what)`` that the layout's test file defines.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import Graph, InputSpec
from gpu_runner.contracts.problem import INTEGER_DTYPES
from workers.layouts.dimensions import local
from workers.layouts.module_form import ModuleForm
from workers.layouts.pysource import call, tuple_of


@dataclass(frozen=True)
class Outputs:
    """What the reference returns: how many tensors, as a tuple or not, and which of them have a gradient."""

    count: int
    is_tuple: bool
    differentiable: tuple[int, ...]
    whole: bool  # some are whole numbers or truth values, which match exactly


def outputs_of(graph: Graph) -> Outputs:
    """Give the outputs of a captured problem."""
    with_gradient = tuple(i for i, node in enumerate(graph.upstream) if node is not None)
    dtypes = {node.name: node.meta.dtype for node in graph.nodes}
    whole = any(dtypes.get(name, "float32") in INTEGER_DTYPES for name in graph.outputs)
    return Outputs(len(graph.outputs), graph.tuple_output or len(graph.outputs) > 1, with_gradient, whole)


def exact_lines(graph: Graph) -> str:
    """Give the opening of ``assert_matches`` that compares whole numbers exactly; nothing where every output is floating."""
    if not outputs_of(graph).whole:
        return ""
    return "    if not expected.is_floating_point():\n        assert torch.equal(expected, actual), extra_info\n        return\n"


def copies(specs: tuple[InputSpec, ...], suffix: str) -> list[str]:
    """Give the lines that copy each input for one side."""
    ready = {True: ".requires_grad_(True)", False: ""}
    return [f"{local(s.name)}_{suffix} = {local(s.name)}.clone(){ready[s.grad]}" for s in specs]


def forward_lines(
    outputs: Outputs, own: str, torch_call: tuple[str, list[str]], own_call: tuple[str, list[str]]
) -> list[str]:
    """Give the lines that run both sides and compare what they return."""
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
    """Give the lines that send the same gradients back through both sides and compare what arrives; none where nothing can."""
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
    """Give the lines that make both modules with the same parameters, away from the values that they start with."""
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
