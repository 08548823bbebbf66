"""Capture: from a problem file to its graph. The child traces; the sizes, the unifying and the checks are the parent's."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from gpu_runner import kernelbench
from gpu_runner.context import RunContext
from gpu_runner.contracts import CaptureRequest, CaptureResult, Graph, Problem, ProblemError, parse_problem
from gpu_runner.errors import ChildDied, ChildError, ChildFailed, ChildOutOfMemory, ChildTimeout, MalformedReply
from gpu_runner.kernelbench import NamedSizes
from gpu_runner.messages import Call, DescribeModel, LoadProblem, R, Request
from gpu_runner.session import ChildSession
from gpu_runner.tracing.tracer import Tracer, check, unused_inputs

_NO_BACKWARD = "needed for gradient computation has been modified by an inplace operation"  # of torch's autograd

# A model with more in its parameters and buffers is built without data, and its values are never run.
MOST_ELEMENTS_WITH_DATA = 2**24
# A model with more parameters and buffers is captured with its own sizes alone.
MOST_STATE_WITH_NAMED_SIZES = 48


def run(request: CaptureRequest, context: RunContext) -> CaptureResult:
    """Trace a problem; what is wrong with it is the result's ``error``."""
    try:
        problem = parse_problem(request.problem_source)
        with ChildSession(
            "capture", context.limits, context.require, gpu=False, files={"problem.py": problem.source}
        ) as session:
            context.isolation.append(session.isolation)
            call = _caller(session)
            if problem.form == "reference":
                call(LoadProblem())
                return _captured(problem, call, request.whole)
            return captured_model(problem, call, request.whole)
    except ChildFailed as failure:
        error = blamed(failure)
    except ProblemError as raised:
        error = raised
    return CaptureResult(None, error.message, error.line, error.fix)


def captured_model(problem: Problem, call: Call, whole: bool) -> CaptureResult:
    """Capture the KernelBench form, with as many named sizes as the model runs at others of, or with its own.

    Its own are taken too where they alone leave no operator outside of the vocabulary: a pool may divide no others evenly. A model
    that autograd refuses, since it changes what its gradients need, is captured forward alone.
    """
    takes = kernelbench.read(call(DescribeModel()))
    try:
        return _captured_model(problem, takes, call, whole)
    except ProblemError as error:
        if _NO_BACKWARD not in error.message:
            raise
        return _captured_model(problem, takes.without_gradients(), call, whole)


def _captured_model(problem: Problem, takes: kernelbench.Taken, call: Call, whole: bool) -> CaptureResult:
    if whole:  # operators of torch's are taken as they are, and these change what they keep
        takes = dataclasses.replace(takes, tracking=())
    found: CaptureResult | None = None
    last: ProblemError | None = None
    # Each set of sizes that a large model is traced at takes seconds.
    large = sum(item.path is not None for item in takes.items) > MOST_STATE_WITH_NAMED_SIZES
    for named in _ways(problem, takes, whole=whole, large=large):
        try:
            source, graph = traced(problem, takes, call, whole, named)
            result = _result(graph, parse_problem(source))
        except (ProblemError, ChildError) as failure:
            last = failure if isinstance(failure, ProblemError) else blamed(failure)
            continue
        if named.is_by_place and any(one.of is not None for one in graph.traced):
            continue  # sizes that are one have two names
        is_expressed = whole or not any("." in operator for operator in result.operators)
        if found is None or is_expressed:
            found = dataclasses.replace(result, problem_source=source, tied=takes.tied)
        if is_expressed:
            break
    if found is not None:
        return found
    assert last is not None, "both ways failed"
    if last.line is not None and last.line > problem.source.rstrip().count("\n") + 1:
        raise ProblemError(last.message, kernelbench.forward_line(problem), last.fix)
    raise last


def _ways(problem: Problem, takes: kernelbench.Taken, *, whole: bool, large: bool) -> list[NamedSizes]:
    """How sizes may be named, the most names first; none that names what another one does."""
    ways = tuple(NamedSizes) if not large else (NamedSizes.none,)
    ways = (NamedSizes.free, NamedSizes.none) if whole else ways
    return [*{kernelbench.rewritten(problem, takes, named): named for named in reversed(ways)}.values()][::-1]


def traced(problem: Problem, takes: kernelbench.Taken, call: Call, whole: bool, named: NamedSizes) -> tuple[str, Graph]:
    """A KernelBench model in the reference form, and its graph; what no value depends on stays the model's own."""
    source = kernelbench.rewritten(problem, takes, named)
    call(LoadProblem(source, takes.state_elements > MOST_ELEMENTS_WITH_DATA))
    graph = Tracer(call, parse_problem(source), whole=whole).graph()
    unused = set(unused_inputs(graph)) & {item.name for item in takes.items if item.path is not None and not item.idle}
    if not unused:
        return source, graph
    idle = takes.without(unused)
    without = kernelbench.rewritten(problem, idle, named)
    specs = {spec.name: spec for spec in parse_problem(source).inputs}
    if any(specs[spec.name] != spec for spec in parse_problem(without).inputs):  # what was a number has a name now
        return traced(problem, idle, call, whole, named)
    call(LoadProblem(without, takes.state_elements > MOST_ELEMENTS_WITH_DATA))
    return without, _without_inputs(graph, unused)


def _without_inputs(graph: Graph, unused: Collection[str]) -> Graph:
    return dataclasses.replace(
        graph,
        nodes=tuple(node for node in graph.nodes if node.name not in unused),
        inputs=tuple(name for name in graph.inputs if name not in unused),
        gradients=tuple(pair for pair in graph.gradients if pair[0] not in unused),
        rounded=tuple(
            dataclasses.replace(one, unless=tuple(name for name in one.unless if name not in unused))
            for one in graph.rounded
        ),
    )


def _captured(problem: Problem, call: Call, whole: bool) -> CaptureResult:
    return _result(Tracer(call, problem, whole=whole).graph(), problem)


def _result(graph: Graph, problem: Problem) -> CaptureResult:
    check(graph, problem)
    return CaptureResult(graph, operators=tuple(sorted({n.op for n in graph.nodes} - {"input", "upstream"})))


def blamed(failure: ChildFailed) -> ProblemError:
    """What a child's end says about its problem."""
    if isinstance(failure, ChildError):
        return ProblemError(
            f"the reference does not run: {failure.kind}: {failure.message}".split("\n")[0][:500],
            failure.line,
            "Run the problem on its own and correct it.",
        )
    fix = {
        ChildTimeout: "Make the reference finish in seconds at small sizes.",
        ChildOutOfMemory: "Let the reference need less memory; sizes of some hundreds are tried.",
        ChildDied: "The reference ended the process; it may only compute.",
    }
    return ProblemError(f"the reference does not run: {failure.message}", None, fix.get(type(failure)))


def _caller(session: ChildSession) -> Call:
    def call(request: Request[R]) -> R:
        try:
            return session.call(request).message
        except MalformedReply as error:
            raise ProblemError("the reference answered in place of the runner's own code") from error

    return call
