"""The author itself: a brief in, a proposal or a refusal out. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from workers.authors.compiler.emit import render
from workers.authors.compiler.graph import POINTWISE, CannotCompileError, require_well_formed, with_ratios
from workers.authors.compiler.moving import with_moves
from workers.authors.compiler.nesting import with_narrow_reductions, with_nested_reductions
from workers.authors.compiler.plan import knobs_of, limits_of, plan_of, signature_of
from workers.authors.compiler.programs import Programs, in_parts, in_series, whole
from workers.authors.compiler.series import takes_steps, without_vectors
from workers.authors.protocol import AuthorRefusal, Brief, Proposal, SourceStyle


class CompilerAuthor:
    """Compiles what the graph says; the same graph always gives the same source."""

    name = "compiler"

    def propose(self, brief: Brief) -> Proposal | AuthorRefusal:
        """Propose source for a brief, or refuse it in one sentence."""
        narrow = frozenset(rounding.node for rounding in brief.graph.rounded)
        if not brief.style.rounds_as_reference:
            brief = replace(brief, graph=replace(brief.graph, rounded=()))
        brief = replace(brief, graph=without_vectors(brief.graph))
        try:
            require_well_formed(brief.problem, brief.graph)
        except CannotCompileError as error:
            return AuthorRefusal(error.sentence, error.operator)
        brief = replace(brief, graph=with_narrow_reductions(brief.graph))
        nested = replace(brief, graph=with_nested_reductions(brief.problem, brief.graph))
        series = partial(in_series, narrow=narrow, known={})
        briefs = [brief] if nested.graph is brief.graph else [nested, brief]
        chained: list[tuple[Callable[[Brief], Programs], Brief]] = []
        ways: list[tuple[Callable[[Brief], Programs], Brief]] = [(series, own) for own in briefs]
        if not takes_steps(brief.graph):
            ways[-1:] = [(whole, brief), (in_parts, brief), (series, brief)]
        elif brief.style.target == "gpu":
            chained = [(partial(series, apart=apart), own) for own in briefs for apart in (False, True)]
        halves = replace(brief, graph=with_ratios(brief.graph))
        if halves.graph is not brief.graph:
            ways += [(whole, halves), (in_parts, halves), (series, halves)]
        refused: list[CannotCompileError] = []
        for programs_of, own in itertools.chain(chained, ways, _moved(brief, series, refused)):
            try:
                return _proposal(programs_of(own), brief.style)
            except CannotCompileError as error:
                refused.append(error)
        whole_refused = refused[len(chained)]  # without chains, which says what the problem takes
        return AuthorRefusal(whole_refused.sentence, whole_refused.operator)


def _moved(
    brief: Brief, series: partial[Programs], refused: Sequence[CannotCompileError]
) -> Iterator[tuple[Callable[[Brief], Programs], Brief]]:
    """Ways with copies, which cost memory traffic, so that they come last: where what was ``refused`` is what they are for."""
    for operands in (False, True):
        if operands and not any(error.operator in POINTWISE | {"matmul", "permute"} for error in refused):
            return
        try:
            moved = replace(brief, graph=with_moves(brief.problem, brief.graph, operands=operands))
        except CannotCompileError:
            return  # refused before, in other words
        if moved.graph is not brief.graph:
            chains = (False, True) if brief.style.target == "gpu" else ()
            yield from ((partial(series, apart=apart), moved) for apart in chains)
            yield series, moved


def _proposal(programs: Programs, style: SourceStyle) -> Proposal:
    rendered = render(programs, style)
    knobs = knobs_of(programs)
    called = signature_of(programs)
    return Proposal(rendered.source, plan_of(programs), knobs, called, rendered.imports, limits_of(programs))
