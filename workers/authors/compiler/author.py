"""The author itself: a brief in, a proposal or a refusal out. Pure."""

from __future__ import annotations

from workers.authors.compiler.design import build_design
from workers.authors.compiler.functions import backward_arguments
from workers.authors.compiler.knobs import knobs_of
from workers.authors.compiler.module import render
from workers.authors.compiler.plan import plan_of
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.section import signature_of
from workers.authors.protocol import Brief, Proposal, Refusal


class CompilerAuthor:
    """Compiles what the graph says; the same graph always gives the same source."""

    name = "compiler"

    def propose(self, brief: Brief) -> Proposal | Refusal:
        """Propose source for a brief, or refuse it in one sentence."""
        try:
            style = brief.style
            design = build_design(brief.name, brief.problem, brief.graph, style.tunable, brief.may_overwrite)
            rendered = render(design, style)
            knobs = knobs_of(design) if style.tunable else ()
            gradients = [name for name, _ in design.program.gradients]
            signature = signature_of(design, backward_arguments(design), gradients) if style.section else None
            return Proposal(rendered.source, plan_of(design), knobs, signature, rendered.imports)
        except CannotCompileError as error:
            return Refusal(error.sentence, error.operator)
