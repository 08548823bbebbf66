"""The author itself: a brief in, a proposal or a refusal out. Pure."""

from __future__ import annotations

from dataclasses import replace

from workers.authors.compiler.design import build_design
from workers.authors.compiler.emit import render, render_several
from workers.authors.compiler.functions import backward_arguments, signature_of
from workers.authors.compiler.graph import CannotCompileError, require_well_formed
from workers.authors.compiler.plan import bounded, knobs_of, limits_of, plan_of
from workers.authors.compiler.several import build_several, several_knobs, several_plan, several_signature
from workers.authors.protocol import Brief, Proposal, Refusal


class CompilerAuthor:
    """Compiles what the graph says; the same graph always gives the same source."""

    name = "compiler"

    def propose(self, brief: Brief) -> Proposal | Refusal:
        """Propose source for a brief, or refuse it in one sentence."""
        if not brief.style.rounds_as_reference:
            brief = replace(brief, graph=replace(brief.graph, rounded=()))
        try:
            return _one(brief)
        except CannotCompileError as error:
            refused = error
        try:
            return _several(brief) or Refusal(refused.sentence, refused.operator)
        except CannotCompileError:
            return Refusal(refused.sentence, refused.operator)


def _one(brief: Brief) -> Proposal:
    style = brief.style
    design = build_design(brief.name, brief.problem, brief.graph, style.tunable, brief.may_overwrite)
    design = bounded(design, brief.sizes)
    rendered = render(design, style)
    knobs = knobs_of(design) if style.tunable else ()
    gradients = [name for name, _ in design.program.gradients]
    signature = signature_of(design, backward_arguments(design), gradients) if style.section else None
    return Proposal(rendered.source, plan_of(design), knobs, signature, rendered.imports, limits_of(design))


def _several(brief: Brief) -> Proposal | None:
    """Compile the parts of a problem that share no computation, each by itself; None where it is one."""
    require_well_formed(brief.problem, brief.graph)
    style = brief.style
    several = build_several(brief.name, brief.problem, brief.graph, style.tunable, brief.may_overwrite, brief.sizes)
    if several is None:
        return None
    rendered = render_several(several, style)
    knobs = several_knobs(several) if style.tunable else ()
    signature = several_signature(several) if style.section else None
    limits = limits_of(*(member.design for member in several.members))
    return Proposal(rendered.source, several_plan(several), knobs, signature, rendered.imports, limits)
