"""Capture: from a problem file to its graph. The child traces; the sizes, the unifying and the checks are the parent's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from gpu_runner import kernelbench
from gpu_runner.context import RunContext
from gpu_runner.contracts import CaptureRequest, CaptureResult, Problem, ProblemError, parse_problem
from gpu_runner.errors import ChildDied, ChildError, ChildFailed, ChildOutOfMemory, ChildTimeout
from gpu_runner.session import Session
from gpu_runner.tracing import checks
from gpu_runner.tracing.tracer import Tracer


def run(request: CaptureRequest, context: RunContext) -> CaptureResult:
    """Trace a problem; what is wrong with it is the result's ``error``."""
    try:
        problem = parse_problem(request.problem_source)
        if problem.form == "reference":
            return _capture(problem, context)
        return _capture_model(problem, context)
    except ProblemError as error:
        return CaptureResult(None, error.message, error.line, error.cure)


def _capture_model(problem: Problem, context: RunContext) -> CaptureResult:
    """Capture the KernelBench form, with named sizes where the model runs at other sizes, else with its own."""
    try:
        takes = kernelbench.described(problem, context)
    except ChildFailed as failure:
        raise blamed(failure) from failure
    source = kernelbench.rewritten(problem, takes, named_sizes=True)
    try:
        result = _capture(parse_problem(source), context)
    except ProblemError:
        source = kernelbench.rewritten(problem, takes, named_sizes=False)
        result = _capture(parse_problem(source), context)
    return dataclasses.replace(result, problem_source=source)


def _capture(problem: Problem, context: RunContext) -> CaptureResult:
    try:
        with Session(
            "capture", context.limits, context.require, gpu=False, files={"problem.py": problem.source}
        ) as session:
            context.isolation.append(session.isolation)
            graph = Tracer(_caller(session), problem).graph()
    except ChildFailed as failure:
        raise blamed(failure) from failure
    checks.check(graph, problem)
    return CaptureResult(graph, operators=tuple(sorted({n.op for n in graph.nodes} - {"input", "upstream"})))


def blamed(failure: ChildFailed) -> ProblemError:
    """Give what a child's end says about the problem that it ran."""
    if isinstance(failure, ChildError):
        return ProblemError(
            f"the reference does not run: {failure.kind}: {failure.message}".split("\n")[0][:500],
            failure.line,
            "Run the problem on its own and correct it.",
        )
    cure = {
        ChildTimeout: "Make the reference finish in seconds at small sizes.",
        ChildOutOfMemory: "Let the reference need less memory; sizes of some hundreds are tried.",
        ChildDied: "The reference ended the process; it may only compute.",
    }
    return ProblemError(f"the reference does not run: {failure.message}", None, cure.get(type(failure)))


def _caller(session: Session) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    return lambda method, meta: session.call(method, meta).meta
