"""Functions of the emitted module: those that call launchers, the autograd function, the entry. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from workers.authors.compiler.expressions import plain
from workers.authors.compiler.launchers import (
    backward_arguments,
    backward_launcher,
    definition,
    fitted,
    forward_launcher,
    forward_results,
    function,
    launchers,
    parameters,
)
from workers.authors.compiler.programs import Programs
from workers.authors.compiler.statements import INDENT, sentence_docstring
from workers.authors.protocol import SourceStyle


def module_functions(programs: Programs, style: SourceStyle) -> list[str]:
    """All functions of a module, or of a section, which has no autograd function and no entry."""
    if len(programs.members) == 1:
        functions = launchers(programs.members[0].design, style)
    else:
        functions = _launchers_of_each(programs, style)
    if style.section:
        return functions
    return [*functions, _autograd_function(programs, style), *([_entry(programs, style)] if style.entry else [])]


def _launchers_of_each(programs: Programs, style: SourceStyle) -> list[str]:
    """The launchers of every program, then the functions that call them."""
    functions = []
    for member in programs.members:
        own = replace(style, section=True, forward_function=member.forward, backward_function=member.backward)
        functions.append(forward_launcher(member.design, own))
        if member.gradients:
            functions.append(backward_launcher(member.design, own))
    functions = [*dict.fromkeys(functions), _forward(programs, style)]
    return [*functions, *([_backward(programs, style)] if programs.gradients else [])]


def _forward(programs: Programs, style: SourceStyle) -> str:
    results = [*programs.names.outputs, *programs.saved]
    lines = [f'"""Give {", ".join(results)} of contiguous tensors."""'] if style.section else []
    for member in programs.members:
        given = ", ".join(member.table[name] for name in forward_results(member.design))
        taken = ", ".join(member.table[name] for name in parameters(member.design))
        lines.append(f"{given} = {member.forward}({taken})")
    return function(style, style.forward_function, programs.parameters, [*lines, f"return {', '.join(results)}"])


def _backward(programs: Programs, style: SourceStyle) -> str:
    lines = []
    for member in (m for m in programs.members if m.gradients):
        taken = ", ".join(member.table[name] for name in backward_arguments(member.design))
        lines.append(f"{', '.join(member.gradients.values())} = {member.backward}({taken})")
    results = ", ".join(programs.backward_results)
    if style.section:
        memory = [
            f" {m.table.get(name, name)} takes the memory of {m.table[taken]}."
            for m in programs.members
            for name, taken in (m.design.backward.overwrites if m.design.backward else ())
        ]
        lines.insert(0, f'"""Give {results} of contiguous tensors.{"".join(memory)}"""')
    return function(style, style.backward_function, programs.backward_arguments, [*lines, f"return {results}"])


def _autograd_function(programs: Programs, style: SourceStyle) -> str:
    names, graph, outputs = programs.names, programs.graph, programs.names.outputs
    scalars = [name for name in programs.backward_arguments if name in names.scalars.values()]
    kept = [name for name in programs.backward_arguments if name not in (*scalars, *programs.upstream)]
    results = ", ".join([*outputs, *programs.saved])
    forward = [f"{results} = {style.forward_function}({', '.join(programs.parameters)})"]
    forward += [f"ctx.save_for_backward({', '.join(kept)})"] if kept else []
    forward += [f"ctx.{name} = {name}" for name in scalars]
    silent = [name for name, node in zip(outputs, graph.upstream, strict=True) if node is None]
    forward += [f"ctx.mark_non_differentiable({', '.join(silent)})"] if silent else []
    forward.append(f"return {', '.join(outputs)}{',' if graph.tuple_output and len(outputs) == 1 else ''}")
    backward = []
    if programs.backward_results:
        if kept:
            backward.append(f"{f'({kept[0]},)' if len(kept) == 1 else ', '.join(kept)} = ctx.saved_tensors")
        arguments = ", ".join(f"ctx.{name}" if name in scalars else name for name in programs.backward_arguments)
        backward.append(f"{', '.join(programs.backward_results)} = {style.backward_function}({arguments})")
    backward.append(f"return {', '.join(programs.gradients.get(n, 'None') for n in programs.problem.parameters)}")
    title = programs.problem.title or "Computes the formulas of its kernels."
    own = _with_defaults(programs, programs.parameters, names.scalars)
    return "\n".join(
        [
            f"class {style.function_class}(torch.autograd.Function):",
            *sentence_docstring(title, style.line_length),
            "",
            *_method(style, "forward", own, forward),
            "",
            *_method(style, "backward", programs.upstream, backward),
        ]
    )


def _entry(programs: Programs, style: SourceStyle) -> str:
    """A function with the reference's own signature."""
    parameters, own = programs.problem.parameters, {spec.name: spec.name for spec in programs.problem.scalars}
    call = f"return {style.function_class}.apply({', '.join(parameters)})"
    return function(style, str(style.entry), _with_defaults(programs, parameters, own), [call])


def _with_defaults(programs: Programs, arguments: Iterable[str], scalars: dict[str, str]) -> list[str]:
    """Parameters with the problem's defaults, which stand only where every later parameter has one too."""
    defaults = {scalars[spec.name]: spec.default for spec in programs.problem.scalars}
    result: list[str] = []
    trailing = True
    for name in reversed(list(arguments)):
        trailing = trailing and defaults.get(name) is not None
        result.insert(0, f"{name}={_literal(defaults[name])}" if trailing else name)
    return result


def _literal(value: float | bool | str | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return plain(value)


def _method(style: SourceStyle, name: str, arguments: list[str], lines: list[str]) -> list[str]:
    head = [f"{INDENT}@staticmethod", f"{INDENT}@ensure_contiguous"]
    return [*head, *definition(style, 1, name, ["ctx", *arguments]), *fitted(style, lines, 2)]
