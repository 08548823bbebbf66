"""The author itself: a brief in, a proposal or a refusal out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from workers.authors.compiler.emit import render
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.plan import knobs_of, limits_of, plan_of, signature_of
from workers.authors.compiler.programs import Programs, in_parts, in_series, whole
from workers.authors.compiler.series import has_products, without_vectors
from workers.authors.protocol import AuthorRefusal, Brief, Proposal, SourceStyle


class CompilerAuthor:
    """Compiles what the graph says; the same graph always gives the same source."""

    name = "compiler"

    def propose(self, brief: Brief) -> Proposal | AuthorRefusal:
        """Propose source for a brief, or refuse it in one sentence."""
        narrow = frozenset(rounding.node for rounding in brief.graph.rounded)
        if not brief.style.rounds_as_reference:
            brief = replace(brief, graph=replace(brief.graph, rounded=()))
        refused: CannotCompileError | None = None
        brief = replace(brief, graph=without_vectors(brief.graph))
        series = [partial(in_series, narrow=narrow, apart=apart) for apart in (None, False, True)]
        ways: Sequence[Callable[[Brief], Programs]] = (whole, in_parts)
        if has_products(brief.graph):
            ways = (*series[1:], series[0]) if brief.style.target == "gpu" else series[:1]
        for programs_of in ways:
            try:
                return _proposal(programs_of(brief), brief.style)
            except CannotCompileError as error:
                chained = programs_of in series[1:]
                refused = refused if chained else refused or error  # of the whole, which says what the problem takes
        assert refused is not None, "a problem is compiled or refused"
        return AuthorRefusal(refused.sentence, refused.operator)


def _proposal(programs: Programs, style: SourceStyle) -> Proposal:
    rendered = render(programs, style)
    knobs = knobs_of(programs) if style.tunable else ()
    signature = signature_of(programs) if style.section or style.target == "cutile" else None
    return Proposal(rendered.source, plan_of(programs), knobs, signature, rendered.imports, limits_of(programs))
