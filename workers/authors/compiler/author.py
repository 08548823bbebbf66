"""The author itself: a brief in, a proposal or a refusal out. Pure."""

from __future__ import annotations

from workers.authors.compiler.design import build_design
from workers.authors.compiler.module import render
from workers.authors.compiler.plan import plan_of
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.protocol import Brief, Proposal, Refusal


class CompilerAuthor:
    """Compiles what the graph says; the same graph always gives the same source."""

    name = "compiler"

    def propose(self, brief: Brief) -> Proposal | Refusal:
        """Propose source for a brief, or refuse it in one sentence."""
        try:
            design = build_design(brief.name, brief.problem, brief.graph)
            return Proposal(render(design, brief.style), plan_of(design))
        except CannotCompileError as error:
            return Refusal(error.sentence, error.operator)
