"""A problem whose parts share no computation: a program for each, started one after the other by the same functions. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpu_runner.contracts import Graph, Knob, Problem, Workload
from workers.authors.compiler.components import CommonNames, common_names, components_of
from workers.authors.compiler.design import Design, build_design
from workers.authors.compiler.functions import (
    backward_arguments,
    backward_launcher,
    definition,
    forward_launcher,
    forward_results,
    function,
    method,
    parameters,
    with_defaults,
)
from workers.authors.compiler.names import Names
from workers.authors.compiler.plan import bounded, knobs_of, plan_of
from workers.authors.compiler.statements import sentence_docstring
from workers.authors.protocol import KernelPlan, Signature, SourceStyle

COMPARED = SourceStyle("", "forward", "backward", section=True)


def are_alike(designs: Iterable[Design]) -> bool:
    """Tell whether designs are written as the same kernels and the same functions."""
    return len({_text_of(design) for design in designs}) == 1


def _text_of(design: Design) -> tuple[str, ...]:
    kernels = [kernel.source for stage in design.passes for kernel in stage.kernels]
    launchers = [forward_launcher(design, COMPARED)]
    launchers += [backward_launcher(design, COMPARED)] if design.program.gradients else []
    return (*kernels, *launchers)


EACH = "each"  # what kernels are called that several programs start


@dataclass(frozen=True)
class Member:
    """One of the programs: its design, and what its functions are called."""

    design: Design
    forward: str
    backward: str
    table: dict[str, str]  # its functions' names for tensors and scalars -> those of the whole


@dataclass(frozen=True)
class Several:
    """The programs of a problem, and the names of the whole."""

    problem: Problem
    graph: Graph
    names: Names
    members: tuple[Member, ...]

    @property
    def saved(self) -> tuple[str, ...]:
        """Give what forward functions make for backward."""
        return tuple(
            member.table[name]
            for member in self.members
            for name in forward_results(member.design)[len(member.design.names.outputs) :]
        )

    @property
    def parameters(self) -> list[str]:
        """Give the reference's parameters by their names in the module."""
        table = {**self.names.tensors, **self.names.scalars}
        return [table[name] for name in self.problem.parameters]

    @property
    def backward_arguments(self) -> list[str]:
        """Give what backward takes: upstream gradients first, each once."""
        every = [m.table[name] for m in self.members for name in backward_arguments(m.design)]
        upstream = [self.names.tensors[node] for node in self.graph.upstream if node is not None]
        return list(dict.fromkeys([*(name for name in upstream if name in every), *every]))

    @property
    def gradients(self) -> list[str]:
        """Give the inputs that have a gradient, in the order in which backward returns them."""
        return [name for member in self.members for name, _ in member.design.program.gradients]


def build_several(
    name: str,
    problem: Problem,
    graph: Graph,
    tunable: bool = False,
    may_overwrite: tuple[str, ...] = (),
    sizes: tuple[Workload, ...] = (),
) -> Several | None:
    """Give the programs of a problem, None where it is one; those that are alike have the same kernels and functions.

    Raises:
        CannotCompileError: one of them is beyond what the schedules express.
    """
    components = components_of(problem, graph)
    if len(components) < 2:
        return None
    names = Names(problem, graph)
    for node, text in zip(graph.outputs, names.outputs, strict=True):
        names.tensors.setdefault(node, text)
    given = common_names(components)

    def build(index: int, common: CommonNames | None) -> tuple[str, Design]:
        part = components[index]
        others = {name for other in components if other is not part for name in other.graph.inputs}
        # A tensor that another program reads must last until then.
        allowed = tuple(name for name in part.may_overwrite(may_overwrite) if name not in others)
        outputs = tuple(names.outputs[place] for place in part.outputs)
        stem = next((n for n in part.graph.inputs if n not in others), str(index))
        inputs: tuple[tuple[str, str], ...] = ()
        if common is not None:
            stem, inputs, outputs = EACH + (f"_{common.group}" if common.group else ""), common.inputs, common.outputs
        own = f"{name}_{stem}"
        return own, bounded(build_design(own, part.problem, part.graph, tunable, allowed, outputs, inputs), sizes)

    built = [build(index, common) for index, common in enumerate(given)]
    for group in {common.group for common in given if common is not None}:
        places = [index for index, common in enumerate(given) if common is not None and common.group == group]
        if not are_alike(built[index][1] for index in places):
            for index in places:
                built[index] = build(index, None)
    members = (
        Member(design, f"_{own}_forward", f"_{own}_backward", _table(design, names, part.outputs))
        for part, (own, design) in zip(components, built, strict=True)
    )
    return Several(problem, graph, names, tuple(members))


def _table(design: Design, names: Names, places: tuple[int, ...]) -> dict[str, str]:
    table = {text: names.scalars[name] for name, text in design.names.scalars.items()}
    # A tensor may be two of the outputs, each of which has a name.
    table |= {text: names.outputs[place] for text, place in zip(design.names.outputs, places, strict=True)}
    for key, text in design.names.tensors.items():
        if key in names.tensors:
            table[text] = names.tensors[key]
    for name, text in design.names.gradients.items():
        if name in names.gradients:
            table[text] = names.gradients[name]
    for key, _ in design.program.saved:
        table[design.names.tensors[key]] = names.free(design.names.tensors[key])
    return table


def launchers_of(several: Several, style: SourceStyle) -> list[str]:
    """Give the functions of every program, then those that call them."""
    functions = []
    for member in several.members:
        own = replace(style, section=True, forward_function=member.forward, backward_function=member.backward)
        functions.append(forward_launcher(member.design, own))
        if member.design.program.gradients:
            functions.append(backward_launcher(member.design, own))
    functions = [*dict.fromkeys(functions), _forward(several, style)]
    return functions + ([_backward(several, style)] if several.gradients else [])


def _forward(several: Several, style: SourceStyle) -> str:
    results = [*several.names.outputs, *several.saved]
    lines = [f'"""Give {", ".join(results)} of contiguous tensors."""'] if style.section else []
    for member in several.members:
        given = ", ".join(member.table[name] for name in forward_results(member.design))
        taken = ", ".join(member.table[name] for name in parameters(member.design))
        lines.append(f"{given} = {member.forward}({taken})")
    return function(style, style.forward_function, several.parameters, [*lines, f"return {', '.join(results)}"])


def _backward(several: Several, style: SourceStyle) -> str:
    names, lines = several.names, []
    for member in (m for m in several.members if m.design.program.gradients):
        given = ", ".join(names.gradients[name] for name, _ in member.design.program.gradients)
        taken = ", ".join(member.table[name] for name in backward_arguments(member.design))
        lines.append(f"{given} = {member.backward}({taken})")
    results = ", ".join(names.gradients[name] for name in several.gradients)
    if style.section:
        memory = [
            f" {m.table.get(name, name)} takes the memory of {m.table[taken]}."
            for m in several.members
            for name, taken in (m.design.backward.overwrites if m.design.backward else ())
        ]
        lines.insert(0, f'"""Give {results} of contiguous tensors.{"".join(memory)}"""')
    return function(style, style.backward_function, several.backward_arguments, [*lines, f"return {results}"])


def autograd_of(several: Several, style: SourceStyle) -> str:
    """Give the class that autograd calls."""
    names, graph = several.names, several.graph
    scalars = [name for name in several.backward_arguments if name in names.scalars.values()]
    upstream = [names.tensors.get(u or "", f"_d{o}") for u, o in zip(graph.upstream, names.outputs, strict=True)]
    kept = [name for name in several.backward_arguments if name not in (*scalars, *upstream)]
    results = ", ".join([*names.outputs, *several.saved])
    lines = [f"{results} = {style.forward_function}({', '.join(several.parameters)})"]
    lines += [f"ctx.save_for_backward({', '.join(kept)})"] if kept else []
    lines += [f"ctx.{name} = {name}" for name in scalars]
    silent = [name for name, node in zip(names.outputs, graph.upstream, strict=True) if node is None]
    lines += [f"ctx.mark_non_differentiable({', '.join(silent)})"] if silent else []
    lines.append(f"return {', '.join(names.outputs)}")
    back = [f"({kept[0]},) = ctx.saved_tensors" if len(kept) == 1 else f"{', '.join(kept)} = ctx.saved_tensors"]
    back = back if kept else []
    if several.gradients:
        arguments = ", ".join(f"ctx.{name}" if name in scalars else name for name in several.backward_arguments)
        given = ", ".join(names.gradients[name] for name in several.gradients)
        back.append(f"{given} = {style.backward_function}({arguments})")
    returned = [names.gradients[n] if n in several.gradients else "None" for n in several.problem.parameters]
    back.append(f"return {', '.join(returned)}")
    title = several.problem.title or "Computes the formulas of its kernels."
    head = [f"class {style.function_class}(torch.autograd.Function):", *sentence_docstring(title, style.line_length)]
    own = with_defaults(several.problem, several.parameters, names.scalars)
    return "\n".join([*head, "", *method(style, "forward", own, lines), "", *method(style, "backward", upstream, back)])


def entry_of(several: Several, style: SourceStyle) -> str:
    """Give a function with the reference's own signature."""
    assert style.entry is not None
    own = {spec.name: spec.name for spec in several.problem.scalars}
    signature = with_defaults(several.problem, list(several.problem.parameters), own)
    call = f"    return {style.function_class}.apply({', '.join(several.problem.parameters)})"
    return "\n".join([*definition(style, 0, style.entry, signature), call])


def several_knobs(several: Several) -> tuple[Knob, ...]:
    """Give the knobs of all programs: those of a pass share their settings."""
    found: dict[tuple[str, str], Knob] = {}
    for knob in (knob for member in several.members for knob in knobs_of(member.design)):
        key = (knob.tuned_pass.value, knob.setting)
        values = (*found[key].values, *knob.values) if key in found else knob.values
        found[key] = replace(knob, values=tuple(sorted(set(values))))
    return tuple(found.values())


def several_signature(several: Several) -> Signature:
    """Give how the two functions are called; inputs and scalars by the problem's own names."""
    names = several.names
    own = {text: name for name, text in names.scalars.items()}
    own |= {names.tensors[spec.name]: spec.name for spec in several.problem.inputs}
    return Signature(
        forward_arguments=several.problem.parameters,
        outputs=names.outputs,
        saved=several.saved,
        backward_arguments=tuple(own.get(text, text) for text in several.backward_arguments),
        upstream=tuple(names.tensors[node] if node is not None else "" for node in several.graph.upstream),
        gradients=tuple(several.gradients),
    )


def _share(several: Several) -> bool:
    return len({member.forward for member in several.members}) < len(several.members)


def several_plan(several: Several) -> KernelPlan:
    """Give the plan of all programs together."""
    plans = [plan_of(member.design) for member in several.members]
    first = plans[0]
    return replace(
        first,
        tier=max(plan.tier for plan in plans),
        kernels=tuple(sketch for plan in plans for sketch in plan.kernels),
        forward_formula="; ".join(dict.fromkeys(plan.forward_formula for plan in plans)),
        gradient_formulas=tuple(formula for plan in plans for formula in plan.gradient_formulas),
        saved_tensors=tuple(
            dict.fromkeys(
                m.table[n] for m, plan in zip(several.members, plans, strict=True) for n in plan.saved_tensors
            )
        ),
        precision_sensitive_ops=tuple(dict.fromkeys(op for plan in plans for op in plan.precision_sensitive_ops)),
        needs_sm_parallelism=any(plan.needs_sm_parallelism for plan in plans),
        forward_bytes=" + ".join(plan.forward_bytes for plan in plans),
        backward_bytes=" + ".join(plan.backward_bytes for plan in plans),
        forward_flops=" + ".join(plan.forward_flops for plan in plans),
        backward_flops=" + ".join(plan.backward_flops for plan in plans),
        notes=(
            "outputs that share no computation have kernels of their own, started one after the other",
            *(["those that compute the same of other tensors share them"] if _share(several) else []),
            *dict.fromkeys(note for plan in plans for note in plan.notes),
        ),
    )
