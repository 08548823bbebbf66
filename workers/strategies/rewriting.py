"""A strategy that is one change of the kernels' own text: shared by those that need no more than the source. Pure."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from workers.contracts import Notes, PlannedStrategy
from workers.strategies.evidence import Worth, bound_of, nothing_foreseen, share_sentence
from workers.strategies.patches import Patches, indent_of, rendered_call
from workers.strategies.protocol import DoesNotApply, Proposed, Situation, Stands
from workers.strategies.syntax import KernelFile, parsed

WIDTH = 120


@dataclass(frozen=True)
class Change:
    """A file as it shall be, and what was changed in it, one entry a place."""

    source: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class Rewriting:
    """One change of kernels; ``rewrite`` gives None where there is nothing that it may change."""

    id: str
    title: str
    document: str
    rewrite: Callable[[KernelFile], Change | None]
    hypothesis: str
    change: str  # what is done to each place
    nothing: str  # the sentence where there is nothing to change
    gain_high: float
    foreseen: Callable[[Situation], Worth | None] = nothing_foreseen  # by the problem alone
    needs_kernel: bool = False

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """It is worth a try where the source has such places, or where the problem alone says that it will have."""
        try:
            worth = self.foreseen(situation) if situation.stands is Stands.nothing else self._worth(situation)
        except ValueError:
            return None
        if worth is None:
            return None
        told = share_sentence(situation)
        trigger = f"{worth.trigger}{'; ' + told if told else ''}."
        return PlannedStrategy(self.id, self.title, trigger, worth.gain_low, worth.gain_high, bound_of(situation))

    def _worth(self, situation: Situation) -> Worth | None:
        found = self.rewrite(parsed(situation.source))
        return None if found is None else Worth(f"{self.change}: {len(found.places)} places", self.gain_high)

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """Give the file with every such place changed."""
        try:
            found = self.rewrite(parsed(situation.source))
        except ValueError as error:
            return DoesNotApply(f"The source was not understood: {error}.")
        if found is None:
            return DoesNotApply(self.nothing)
        expected = f"Up to {self.gain_high:.2f} times as fast where memory bounds it; the same values."
        return Proposed(found.source, Notes(self.hypothesis, f"{self.change}: {', '.join(found.places)}.", expected))


def add_argument(patches: Patches, file: KernelFile, call: ast.Call, text: str) -> bool:
    """Give a call one more keyword argument; False where the call is written in a way that this cannot keep."""
    segment = file.segment(call)
    line = file.source.split("\n")[call.lineno - 1]
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    last = arguments[-1]
    if call.lineno != call.end_lineno:
        closing = file.source.split("\n")[(last.end_lineno or last.lineno) - 1]
        if "#" in segment or last.lineno == call.lineno:
            return False
        if closing.rstrip().endswith(","):
            patches.insert_before(
                (last.end_lineno or last.lineno) + 1, f"{indent_of(file.source, last.lineno)}{text},\n"
            )
            return True
        patches.replace(
            call, rendered_call(file.segment(call.func), _texts(file, call, text), indent_of(file.source, call.lineno))
        )
        return True
    if "#" in line:
        return False
    if len(line) + len(text) + 2 <= WIDTH:
        patches.replace(call, f"{segment[:-1]}, {text})")
        return True
    behind = line.encode()[call.end_col_offset or 0 :].lstrip()
    if behind.startswith((b".", b"[")):
        # A formatter breaks a chain at another place, and not the better one.
        return False
    indent = indent_of(file.source, call.lineno)
    patches.replace(call, rendered_call(file.segment(call.func), _texts(file, call, text), indent, width=0))
    return True


def _texts(file: KernelFile, call: ast.Call, more: str) -> list[str]:
    named = (f"{k.arg}={file.segment(k.value)}" if k.arg else f"**{file.segment(k.value)}" for k in call.keywords)
    return [*(file.segment(a) for a in call.args), *named, more]


def add_parameter(patches: Patches, file: KernelFile, function: ast.FunctionDef, text: str) -> None:
    """Give a function one more parameter, the last; with a default it may stand behind others that have one."""
    arguments = function.args.args
    defaults = [None] * (len(arguments) - len(function.args.defaults)) + list(function.args.defaults)
    end: ast.expr | ast.arg = defaults[-1] or arguments[-1]
    line = file.source.split("\n")[(end.end_lineno or end.lineno) - 1]
    if line.split("#")[0].rstrip().endswith(","):
        patches.insert_before((end.end_lineno or end.lineno) + 1, f"{indent_of(file.source, end.lineno)}{text},\n")
    elif len(line) + len(text) + 2 <= WIDTH or "#" in line:
        patches.append(end, f", {text}")
    else:
        indent = indent_of(file.source, function.lineno) + "    "
        texts = [_parameter(file, a, d) for a, d in zip(arguments, defaults, strict=True)]
        broken = f",\n{indent}".join([*texts, text]) + ","
        same_line = arguments[0].lineno == function.lineno
        patches.replace_span(arguments[0], end, f"\n{indent}{broken}\n" if same_line else broken)


def _parameter(file: KernelFile, argument: ast.arg, default: ast.expr | None) -> str:
    text = file.segment(argument)
    if default is None:
        return text
    return f"{text} = {file.segment(default)}" if argument.annotation else f"{text}={file.segment(default)}"
