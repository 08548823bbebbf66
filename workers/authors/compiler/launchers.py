"""Launchers: the two functions of a program that allocate, choose settings and start its kernels. Pure."""

from __future__ import annotations

import ast
import math

from gpu_runner.contracts.graph import Expr
from gpu_runner.contracts.reading import walk
from workers.authors.compiler.attention import EXACT
from workers.authors.compiler.design import ProgramDesign
from workers.authors.compiler.domain import FULL
from workers.authors.compiler.graph import CannotCompileError, renamed
from workers.authors.compiler.host import host_line
from workers.authors.compiler.kernels import Store
from workers.authors.compiler.schedules.base import Schedule
from workers.authors.compiler.statements import INDENT, function
from workers.authors.protocol import SourceStyle


def launchers(design: ProgramDesign, style: SourceStyle) -> list[str]:
    """The functions of a program; backward where it starts a kernel, or is asked for gradients by name."""
    wanted = design.backward is not None or (style.section and design.program.gradients)
    return [_forward_launcher(design, style), *([_backward_launcher(design, style)] if wanted else [])]


def _forward_launcher(design: ProgramDesign, style: SourceStyle) -> str:
    """The function that computes the outputs and what backward needs."""
    schedule, names = design.forward, design.names
    nodes = [store.node for store in schedule.task.stores]
    fixed = {node: output_dtype(design, index) for index, node in enumerate(design.program.graph.outputs)}
    dtypes = [fixed[node] if node is not None else None for node in nodes]
    lines = [*_guards(design), *schedule.size_lines()]
    lines += _launched(schedule, nodes, dtypes)
    for store, node, dtype in zip(schedule.task.stores, nodes, dtypes, strict=True):
        if schedule.leaves_partials(store) and node is not None:
            lines.append(schedule.total_line(store, node, dtype or f"{schedule.source}.dtype"))
        elif store.summed:
            lines.append(f"{store.name} = {store.buffer}.sum(dim=0)")
    for name, result in zip(names.outputs, design.program.outputs, strict=True):
        if design.program.on_host(result):
            dtype = fixed[result.node] or f"{schedule.source}.dtype"
            lines.append(host_line(design.program, names, schedule.host, name, result, dtype))
    lines.append(f"return {', '.join(forward_results(design))}")
    if style.section:
        lines.insert(0, f'"""Compute {", ".join(forward_results(design))} of contiguous tensors."""')
    return function(style, style.forward_function, parameters(design), lines)


def _backward_launcher(design: ProgramDesign, style: SourceStyle) -> str:
    """The function that computes the gradients; of a section, it returns those of all inputs that have one."""
    schedule, program = design.backward, design.program
    every = [gradient_text(design, name) for name, _ in program.gradients]
    if schedule is None:
        return function(style, style.backward_function, backward_arguments(design), [f"return {', '.join(every)}"])
    lines = _backward_body(design, schedule)
    own = [store.name for store in schedule.task.stores]
    lines.append(f"return {', '.join(every if style.section else own)}")
    if style.section:
        memory = "".join(f" {name} takes the memory of {taken}." for name, taken in schedule.overwrites)
        lines = [f'"""Compute {", ".join(every)} of contiguous tensors.{memory}"""', *lines]
    return function(style, style.backward_function, backward_arguments(design), lines)


def _backward_body(design: ProgramDesign, schedule: Schedule) -> list[str]:
    program = design.program
    specs = {spec.name: spec for spec in program.problem.inputs}
    owners = {program.key(r): name for name, r in reversed(program.gradients)}
    results = program.backward_results
    dtypes = [
        _gradient_dtype(design, specs[owners[program.key(result)]].name, store.summed)
        for store, result in zip(schedule.task.stores, results, strict=True)
    ]
    lines = schedule.size_lines() + _launched(schedule, [r.node for r in results], dtypes)
    for store, result, dtype in zip(schedule.task.stores, results, dtypes, strict=True):
        if store.summed:
            lines.append(schedule.total_line(store, result.node, dtype or f"{schedule.source}.dtype"))
    return lines


def _launched(schedule: Schedule, nodes: list[str | None], dtypes: list[str | None]) -> list[str]:
    settings = schedule.setting_lines()
    buffers = [_allocation(schedule, s, n, d) for s, n, d in zip(schedule.task.stores, nodes, dtypes, strict=True)]
    launch = [f"with device_context({schedule.source}.device):", *(INDENT + line for line in schedule.launch_lines())]
    return [*settings, *buffers, *launch]


def _allocation(schedule: Schedule, store: Store, node: str | None, dtype: str | None) -> str:
    """Allocate what a kernel writes; ``node`` is the graph's tensor, None for a row number that is saved, in float32 or whole."""
    device = f"device={schedule.source}.device"
    if node is not None and node.endswith(EXACT):
        rounded = next(other.buffer for other in schedule.task.stores if other.node == node.removesuffix(EXACT))
        wide = f"torch.empty_like({rounded}, dtype=torch.float32)"
        return f"{store.buffer} = {rounded} if {rounded}.dtype == torch.float32 else {wide}"
    if store.name in dict(schedule.overwrites):
        taken = dict(schedule.overwrites)[store.name]
        # Detached, or autograd would take a gradient for the tensor whose memory it has.
        return f"{store.buffer} = {taken}.detach()  # every element of {taken} is read before it is written"
    if schedule.leaves_partials(store) or node is None:
        shape = schedule.partials(store) if schedule.leaves_partials(store) else "n_rows"
        kept = "int64" if store.value.integer else "float32"
        return f"{store.buffer} = torch.empty({shape}, dtype=torch.{kept}, {device})"
    shapes, free = schedule.program.domain.shapes, schedule.program.fixed_dtype
    same_shape = [(text, free(other)) for text, other in schedule.host.tensors if shapes[other] == shapes[node]]
    if dtype is None:
        same_shape = [(text, fixed) for text, fixed in same_shape if fixed is None]
    if same_shape:
        return f"{store.buffer} = torch.empty_like({same_shape[0][0]}{f', dtype={dtype}' if dtype else ''})"
    return f"{store.buffer} = torch.empty({schedule.host.shape(node)}, dtype={dtype or schedule.source + '.dtype'}, {device})"


def forward_results(design: ProgramDesign) -> list[str]:
    """What the forward launcher returns: the outputs, then what it made for backward."""
    return [*design.names.outputs, *(design.names.tensors[key] for key, _ in design.program.saved)]


def _guards(design: ProgramDesign) -> list[str]:
    """The graph of a specialised scalar is valid for one value only, that of a bounded one within its bounds."""
    lines = []
    for spec in design.program.problem.scalars:
        value = design.program.problem.values_of(spec)[0]
        if spec.name in design.program.graph.specialised and value is not None:
            name = design.names.scalars[spec.name]
            lines.append(f"if {name} != {value!r}:")
            lines.append(f'{INDENT}raise ValueError("this kernel is written for {name} = {value}")')
    for bound in design.program.graph.bounds:
        text = bound.text(design.names.scalars[bound.scalar])
        beyond = text.replace("!=", "==") if bound.comparison == "!=" else f"not {text}"
        lines += [f"if {beyond}:", f'{INDENT}raise ValueError("this kernel is written for {text}")']
    return lines + _multiple_guards(design) + _chunk_guards(design) + _group_guards(design)


def _multiple_guards(design: ProgramDesign) -> list[str]:
    """A dimension that scalars do not divide would be cut where the reference does not cut it."""
    lines, scalars = [], design.names.scalars
    for rule in design.program.graph.multiples:
        spec = next((spec for spec in design.program.problem.inputs if rule.dimension in spec.dims), None)
        if spec is None:
            raise CannotCompileError(f"no input has the dimension `{rule.dimension}`")
        name, position = design.names.tensors[spec.name], spec.dims.index(rule.dimension) - len(spec.dims)
        own, of = [scalars[scalar] for scalar in dict.fromkeys(rule.scalars)], renamed(rule.of, scalars)
        least = own[0] if len(own) == 1 else f"min({', '.join(own)})"
        lines.append(f"if {least} < 1 or {name}.shape[{position}] % {of if of.isidentifier() else f'({of})'}:")
        lines.append(f'{INDENT}raise ValueError("dimension {position} of {name} is no multiple of {of}")')
    return lines


def _group_guards(design: ProgramDesign) -> list[str]:
    """A dimension that does not fall into groups would lose its last elements."""
    domain, lines, known = design.program.domain, [], set[tuple[int, ...]]()
    for spec in design.program.problem.inputs:
        shape = domain.shapes[spec.name]
        for place, dim in enumerate(shape):
            sizes = [domain.sizes[axis] for axis in dim if axis not in domain.chunk_axes]
            count = math.prod(size for size in sizes if isinstance(size, int))
            if count > 1 and any(isinstance(size, Expr) for size in sizes) and dim not in known:
                known.add(dim)
                name, position = design.names.tensors[spec.name], place - len(shape)
                lines.append(f"if {name}.shape[{position}] % {count}:")
                sentence = f"dimension {position} of {name} is no multiple of {count}"
                lines.append(f'{INDENT}raise ValueError("{sentence}")')
    return lines


def _chunk_guards(design: ProgramDesign) -> list[str]:
    """A row of another length does not fall into chunks, and its last elements would stay unwritten."""
    domain, lines = design.program.domain, []
    for node in dict.fromkeys(
        chunk.node for chunk in domain.chunks.values() if chunk.node in design.program.graph.inputs
    ):
        name, count = design.names.tensors[node], next(p.count for p in domain.chunks.values() if p.node == node)
        axes = domain.shapes[node][-1]
        if isinstance(domain.sizes[axes[-1]], Expr):
            lines.append(f"if {name}.shape[-1] % {count}:")
            lines.append(f'{INDENT}raise ValueError("the last dimension of {name} is no multiple of {count}")')
    return lines


def output_dtype(design: ProgramDesign, index: int) -> str | None:
    """The dtype of an output where it is fixed; None where it follows the call."""
    fixed = design.program.fixed_dtype(design.program.graph.outputs[index])
    return None if fixed is None else f"torch.{fixed}"


def _gradient_dtype(design: ProgramDesign, name: str, summed: bool) -> str | None:
    spec = next(spec for spec in design.program.problem.inputs if spec.name == name)
    if spec.dtype is not None:
        return f"torch.{spec.dtype}"
    text = design.names.tensors[name]
    own = summed or design.program.domain.space_of(name) != FULL
    return f"{text}.dtype" if own and design.backward and name in design.saved_nodes else None


def parameters(design: ProgramDesign) -> list[str]:
    """The reference's parameters, in its order, by their names in the module."""
    table = {**design.names.tensors, **design.names.scalars}
    return [table[name] for name in design.program.problem.parameters]


def backward_arguments(design: ProgramDesign) -> list[str]:
    """What the backward launcher takes: gradients of outputs, saved tensors, scalars."""
    names = design.names
    upstream = [names.tensors[node] for node in design.program.graph.upstream if node is not None]
    return [*upstream, *(names.tensors[node] for node in design.saved_nodes), *_backward_scalars(design)]


def _backward_scalars(design: ProgramDesign) -> list[str]:
    if design.backward is None:
        return []
    body = walk(ast.parse("\n".join(_backward_body(design, design.backward))))
    words = {node.id for node in body if isinstance(node, ast.Name)}
    return [name for name in design.names.scalars.values() if name in words]


def gradient_text(design: ProgramDesign, name: str) -> str:
    """What a launcher calls the gradient of an input: inputs with the same gradient share one tensor."""
    program = design.program
    result = dict(program.gradients)[name]
    if program.is_upstream(result):
        return design.names.tensors[str(result.value.datum)]
    assert design.backward is not None
    places = [program.key(r) for r in program.backward_results]
    return design.backward.task.stores[places.index(program.key(result))].name
