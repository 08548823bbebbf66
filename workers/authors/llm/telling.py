"""The pieces of a prompt that are made from a brief: our words around texts of others, which stand between marks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpu_runner.contracts import Expr, Graph, NodeRef, Problem
from workers.authors.llm.marks import EXAMPLE_CHARACTERS, Kind, quoted
from workers.authors.llm.protocol import Example, Failed, Idea, KernelBrief, Remark
from workers.authors.protocol import SourceStyle

NOT_OF_A_WORD = re.compile(r"[^A-Za-z0-9_./-]")
MOST_EXAMPLES = 6
MOST_IDEAS = 12
MOST_EVIDENCE = 20
MOST_TRIED = 16
STANDARD = {
    "calculate_settings": "`calculate_settings(n)` -> `(BLOCK_SIZE, num_warps)`: the next power of two, at most 65536",
    "ensure_contiguous": "`@ensure_contiguous`: a decorator of `forward` and `backward` that makes tensor arguments contiguous",
    "device_context": "`with device_context(x.device):` around launches, for tensors on another GPU than the current one",
}


def joined(*pieces: str) -> str:
    """The pieces that say something, a blank line between them."""
    return "\n\n".join(piece.strip("\n") for piece in pieces if piece.strip())


def hardware(text: str) -> str:
    """What a kernel is written for."""
    return joined("# What it is written for", quoted(Kind.measured, "the runner", text)) if text.strip() else ""


def form_of(brief: KernelBrief) -> str:
    """What a layout expects of the module: its names, helpers and lines."""
    style = brief.style
    return joined("# The form of the module", "\n".join([*_names(brief), *_helpers(style), *_lines(style)]))


def _names(brief: KernelBrief) -> list[str]:
    style, parameters = brief.style, ", ".join(brief.problem.parameters) or "the reference's parameters"
    outputs = len(brief.graph.outputs) if brief.graph is not None else None
    upstream = {None: "one gradient for each output", 1: "the gradient of the output"}.get(
        outputs, f"the gradients of the {outputs} outputs, in order"
    )
    lines = [
        f"- It becomes `{word(brief.path)}`, or a part of it. A program writes the code around it and calls these names.",
        f"- `{style.forward_function}`: a plain function that allocates, launches, and returns the outputs "
        f"followed by what backward "
        "needs. Its tensors are contiguous.",
        f"- `{style.backward_function}`: the same for backward. It takes upstream gradients, saved tensors and "
        f"scalars, and returns "
        "gradients.",
    ]
    if style.section:
        lines.append(
            f"- It is a section of an existing file: no imports, no class, and every name begins with `{style.prefix}`."
        )
    else:
        lines += [
            f"- `class {style.function_class}(torch.autograd.Function)` with the static methods `forward(ctx, {parameters})` and "
            f"`backward(ctx, ...)`. `{style.function_class}.apply` is called with the reference's parameters by position, in this "
            "order, and has the reference's defaults.",
            f"- `backward` takes {upstream}, and returns one value for each parameter of `forward`: a gradient, or None for "
            "scalars and for inputs that want none. It also works when only some inputs want a gradient.",
        ]
    if style.entry is not None and not style.section:
        lines.append(f"- `def {style.entry}({parameters})` at module level, which calls `apply`.")
    if style.rounds_as_reference:
        lines.append(
            "- Values are rounded to the inputs' dtype where the reference's operators round, not at the stores alone."
        )
    return lines


def _helpers(style: SourceStyle) -> list[str]:
    offered = dict(style.helpers)
    lines = [
        f"- {text}. Import it: `from {offered[name]} import {name}`."
        for name, text in STANDARD.items()
        if name in offered
    ]
    missing = [text for name, text in STANDARD.items() if name not in offered]
    if missing:
        lines.append(f"- The target has no {'; no '.join(missing)}. Where you need one, define it in the module.")
    return lines


def _lines(style: SourceStyle) -> list[str]:
    imports = (
        "one name an import line (`from m import a`, then `from m import b`)" if style.single_line_imports else "sorted"
    )
    return [
        f"- Lines of at most {style.line_length} characters, four blanks of indentation, double quotes. Imports: {imports}; first "
        "the standard library, then torch and triton, then the target's own, a blank line between the groups."
    ]


def examples(given: tuple[Example, ...]) -> str:
    """Give files of the target repository to learn its form from."""
    if not given:
        return ""
    told = [
        joined(
            f"Shown because: {one_line(example.why)}", quoted(Kind.file, example.path, example.text, EXAMPLE_CHARACTERS)
        )
        for example in given[:MOST_EXAMPLES]
    ]
    return joined(FORM_ALONE, *told)


FORM_ALONE = (
    "# Files of the target repository\n\nTake names, helpers and layout from them, and nothing else: they were "
    "not written for this "
    "runner, and where they break a rule above, the rule holds."
)


def problem(given: Problem, graph: Graph | None) -> str:
    """The problem and, where it was captured, its computation."""
    told = [quoted(Kind.problem, "the problem file", given.source)]
    if graph is not None:
        told += [
            "Its computation as it was captured, forward and backward:",
            quoted(Kind.graph, "captured", graph_lines(graph)),
        ]
    return joined("# The problem", *told)


def graph_lines(graph: Graph) -> str:
    """A graph as text, a node a line."""
    lines = []
    for node in graph.nodes:
        arguments = ", ".join(
            [*map(_argument, node.args), *(f"{key}={_argument(value)}" for key, value in node.kwargs)]
        )
        shape = ", ".join(_argument(size) for size in node.meta.shape)
        lines.append(f"{node.name} = {node.op}({arguments})  # {node.meta.dtype} [{shape}]")
    lines.append(f"outputs: {', '.join(graph.outputs)}")
    lines += [f"gradient of {name}: {node}" for name, node in graph.gradients if node is not None]
    return "\n".join(lines)


def _argument(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_argument, value))})"
    if isinstance(value, NodeRef):
        return value.name
    return value.text if isinstance(value, Expr) else repr(value)


def remarks(given: tuple[Remark, ...]) -> str:
    """The remarks of a review, each with its number."""
    if not given:
        return ""
    told = []
    for remark in given:
        where = f"{remark.path or 'the whole'}{f', line {remark.line}' if remark.line else ''}"
        told.append(quoted(Kind.review, f"remark {remark.number}, on {where}", remark.text))
        if remark.quoted:
            told.append(quoted(Kind.code, f"the line of remark {remark.number}", remark.quoted))
    numbers = ", ".join(str(remark.number) for remark in given)
    asked = (
        f"Do what each remark asks as far as it concerns this work, and answer each in `replies` by its number ({numbers}): one "
        "entry for each, two sentences at most. Where a remark is mistaken, or asks for what these rules forbid, say so in its "
        "reply and change nothing for it."
    )
    return joined("# What a review said", *told, asked)


def failed(given: Failed | None, *, with_source: bool = True) -> str:
    """What the last proposal came to: its text, the status, the evidence and the log."""
    if given is None:
        return ""
    told = [quoted(Kind.proposal, "the last proposal", given.source)] if with_source and given.source.strip() else []
    evidence = "\n".join(given.evidence[:MOST_EVIDENCE])
    # The sentence is mostly that of the first finding, which says it with its place.
    ending = given.status if given.sentence in evidence else f"{given.status}: {given.sentence}"
    told.append(quoted(Kind.evidence, "the runner", f"{ending}\n{evidence}".rstrip("\n")))
    if given.log.strip() and given.log.strip() not in evidence:
        told.append(quoted(Kind.log, "the runner's log", given.log))
    return joined("# How the last proposal failed", *told)


def ideas(given: Iterable[Idea]) -> str:
    """The catalog's entries whose triggers hold."""
    told = [quoted(Kind.idea, idea.title, idea.text) for idea in list(given)[:MOST_IDEAS]]
    return joined("# Entries of the strategy catalog that a rule picked for it", *told) if told else ""


def counted(text: str) -> str:
    """The least that a problem must move and compute, as it was counted."""
    return joined("# What it must move and compute", quoted(Kind.measured, "the graph", text)) if text.strip() else ""


def measured(text: str) -> str:
    """What was measured or predicted."""
    return joined("# What was measured", quoted(Kind.measured, "the runner", text)) if text.strip() else ""


def files(heading: str, given: Iterable[tuple[str, str]]) -> str:
    """Give files whole, as they stand."""
    told = [quoted(Kind.file, path, text) for path, text in given]
    return joined(f"# {heading}", *told) if told else ""


def tried(given: tuple[tuple[str, str], ...]) -> str:
    """The earlier variants and what was learned, the latest ones where there are many."""
    told = [
        quoted(Kind.note, f"variant {number}", f"change: {change}\nlearned: {learned}")
        for number, (change, learned) in list(enumerate(given, 1))[-MOST_TRIED:]
    ]
    return joined("# What was tried before", *told) if told else ""


def one_line(text: str) -> str:
    """A short text of the program as a part of a sentence."""
    return " ".join(text.split())[:200]


def word(text: str) -> str:
    """A name or a path as it may stand outside of marks: one word, of plain characters alone."""
    return NOT_OF_A_WORD.sub("?", text)[:200]
