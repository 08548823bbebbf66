"""Runs compiled candidates in forms other than the plain one in Triton's interpreter: tuned, as a section, in place.

``python -m tests.workers.compiler.formed CASES RESULTS``, as ``interpreted``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.workers.compiler.captured import captured, style
from tests.workers.compiler.interpreted import complaints, loaded
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal, Signature, SourceStyle

PREFIX = "_fast_"
OFFSET_FORM, OFFSET = "far from zero", 100.0  # squares about zero would drown those about the mean
BEGUN_FORM = "zero but for the first elements"  # about which the squares of the others would cancel
# Settings that no rule would choose, so that what is looked up is what is run.
SETTINGS = {
    "tunable": {},
    "tuned": {
        "BLOCK_ROWS": 2,
        "BLOCK_SIZE": 64,
        "BLOCK_SEGMENTS": 2,
        "PROGRAMS": 1,
        "NUM_STAGES": 2,
        "num_warps": 2,
        "EVICT_FIRST": 1,
    },
    "looped": {"WIDEST": 1, "LOOP_BLOCK": 64, "EVICT_FIRST": 1},
}


def tunable_style(name: str, *, liger: bool = False) -> SourceStyle:
    """The style of a module whose settings may be tuned."""
    return dataclasses.replace(style(name, liger=liger), tunable=True)


def section_style(name: str, *, liger: bool = False) -> SourceStyle:
    """The style of a section."""
    return dataclasses.replace(
        style(name, liger=liger),
        section=True,
        prefix=PREFIX,
        tunable=True,
        forward_function=f"{PREFIX}{name}_forward",
        backward_function=f"{PREFIX}{name}_backward",
    )


def everything(name: str) -> tuple[str, ...]:
    """All that a brief may allow to be overwritten."""
    problem, graph = captured(name)
    return (*(f"upstream {index}" for index in range(len(graph.upstream))), *(spec.name for spec in problem.inputs))


def formed(name: str, own: SourceStyle, may_overwrite: tuple[str, ...] = ()) -> Proposal:
    """Ask the compiler, which must not refuse."""
    problem, graph = captured(name)
    given = CompilerAuthor().propose(Brief(name, problem, graph, own, may_overwrite=may_overwrite))
    assert isinstance(given, Proposal), given
    return given


def fast_path(name: str, may_overwrite: tuple[str, ...]) -> Callable[..., Any]:
    """A section's functions behind an autograd function that is written from their signature alone."""
    given = formed(name, section_style(name), may_overwrite)
    problem, graph = captured(name)
    assert given.signature is not None
    how: Signature = given.signature
    module = loaded(name, "\n".join(given.imports) + "\n\n\n" + given.source)
    forward, backward = getattr(module, f"{PREFIX}{name}_forward"), getattr(module, f"{PREFIX}{name}_backward", None)

    class FastPath(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            args = tuple(arg.contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args)
            results = forward(*args)
            results = results if isinstance(results, tuple) else (results,)
            ctx.known = dict(zip(how.forward_arguments, args, strict=True))
            ctx.known |= dict(zip((*how.outputs, *how.saved), results, strict=True))
            outputs = results[: len(how.outputs)]
            ctx.mark_non_differentiable(*(o for o, u in zip(outputs, how.upstream, strict=True) if not u))
            return outputs if graph.tuple_output or len(outputs) > 1 else outputs[0]

        @staticmethod
        def backward(ctx: Any, *upstream: torch.Tensor) -> Any:
            assert backward is not None
            known = ctx.known | dict(zip(how.upstream, (u.contiguous() for u in upstream), strict=True))
            found = backward(*(known[argument] for argument in how.backward_arguments))
            found = found if isinstance(found, tuple) else (found,)
            table = dict(zip(how.gradients, found, strict=True))
            return tuple(table.get(argument) for argument in how.forward_arguments)

    defaults = {spec.name: spec.default for spec in problem.scalars}

    def candidate(*args: Any, **scalars: Any) -> Any:
        table = {**defaults, **dict(zip(problem.parameters, args, strict=False)), **scalars}
        return FastPath.apply(*(table[argument] for argument in how.forward_arguments))

    return candidate


def found(name: str, sizes: dict[str, int], dtype: str, form: str) -> list[str]:
    """What is wrong with a candidate in a form."""
    if form == "section":
        return complaints(name, sizes, dtype, candidate=fast_path(name, ()))
    if form == "in place":
        return complaints(name, sizes, dtype, candidate=fast_path(name, everything(name)), in_place=True)
    module = loaded(name, formed(name, tunable_style(name)).source)
    entry = ((1 << 40, SETTINGS["looped" if form in (OFFSET_FORM, BEGUN_FORM) else form]),)
    module.TUNED["cpu"] = {"forward": entry, "backward": entry}
    offset = OFFSET if form == OFFSET_FORM else 0.0
    return complaints(name, sizes, dtype, candidate=module.candidate, offset=offset, begun=form == BEGUN_FORM)


def main() -> None:
    """Run every case."""
    from gpu_runner.child.interpreter import teach_interpreter

    teach_interpreter()
    cases = json.loads(Path(sys.argv[1]).read_text())
    results: dict[str, dict[str, list[str]]] = {problem: {} for problem in cases}
    for problem, table in cases.items():
        for key, (name, sizes, dtype, form) in table.items():
            try:
                results[problem][key] = found(name, sizes, dtype, form)
            except Exception as error:
                results[problem][key] = [f"{type(error).__name__}: {error}"[:2000]]
    Path(sys.argv[2]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
