"""The plan of a capture: which traces are made, what they must have in common, and which scalars are baked in. Pure.

In the graph that comes of it every output must depend on an input, and every input must matter.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from gpu_runner.contracts import Graph, Multiple, Problem, ProblemError, Rounding, ScalarBound
from gpu_runner.errors import ChildError, ChildFailed
from gpu_runner.messages import Call, CheckReference, CompareGraph, FindRounding, TraceReference, TraceSizes
from gpu_runner.tracing.fitting import Fitter
from gpu_runner.tracing.raw import RawGraph, from_plain
from gpu_runner.tracing.sizes import (
    ScalarValue,
    Setting,
    Triple,
    changed,
    corners,
    defaults,
    dimensions,
    divisors,
    out_of_step,
    scalar_sets,
    size_sets,
    thresholds,
    traced_sizes,
    tries,
    triple_of,
    variable_scalars,
)
from gpu_runner.tracing.unify import (
    DifferentStructure,
    changed_numbers,
    check_same_structure,
    has_shapes,
    is_instance,
    unify,
    with_slopes_of_constants,
)

_SEED = 20_011
READS_VALUES = "ReadsValues"  # a name of the child's exceptions, as the ones below
FIXES = {
    "CannotFollow": "Write it so that each operator gives a new tensor.",
    "TooManyOperators": "Make one step of the recurrence a problem of its own, or take fewer steps.",
}


class Tracer:
    """Traces through ``call``, which reaches the handlers of the role ``capture`` and raises their ``ChildError``.

    With ``whole``, what is traced is the forward in torch's own operators.
    """

    def __init__(self, call: Call, problem: Problem, *, whole: bool = False) -> None:
        self._call = call
        self._problem = problem
        self._whole = whole
        self._known: dict[Setting, RawGraph] = {}
        # Scalars whose values leave operators out, as an exponent of two does, and with what the graph's first trace was made.
        self._special: list[str] = []
        self._given = defaults(problem)

    def graph(self) -> Graph:
        """The graph of the reference.

        Raises:
            ProblemError: the reference cannot be captured. ChildFailed: it does not run.
        """
        first_failure: ChildError | None = None
        for triple in size_sets(self._problem):
            try:
                self._trace(triple[0], defaults(self._problem))
                narrow = self._check(triple[0])
                graph = self._unified(triple)
                if not self._holds_at_a_workload(graph, triple[0]):
                    raise DifferentStructure("what its sizes follow there does not hold at those of WORKLOADS")
            except ChildError as failure:
                first_failure = first_failure or failure
                if failure.kind == READS_VALUES:
                    break  # as it does at other sizes
                if failure.kind in FIXES:
                    raise ProblemError(failure.message, failure.line, FIXES[failure.kind]) from failure
            except DifferentStructure as difference:
                raise ProblemError(
                    f"the reference computes something else at other sizes: {difference}",
                    _reference_line(self._problem.source),
                    "Write the reference without branches on sizes, or write the sizes as numbers in INPUTS.",
                ) from difference
            else:
                if self._whole:
                    return graph
                graph = self._bounded(with_slopes_of_constants(self._divided(graph, triple)), triple[0])
                traced = traced_sizes(self._problem, graph.multiples, triple)
                rounded = self._rounded(triple[0], graph)
                return dataclasses.replace(graph, output_dtypes=narrow, rounded=rounded, traced=traced)
        if first_failure is None:
            raise ProblemError("the inputs are too large to be traced", None, "Write smaller numbers in INPUTS.")
        raise first_failure

    def _holds_at_a_workload(self, graph: Graph, sizes: Mapping[str, int]) -> bool:
        """Whether the graph has the shapes of a trace at the sizes that it is for: three small ones leave room for chance."""
        scalars = self._given
        setting = Setting(self._problem.workloads[0].sizes, tuple(scalars.items()))
        if not set(dict(setting.sizes)) >= set(dimensions(self._problem)):
            return True
        try:
            there = self._trace(dict(setting.sizes), scalars)
        except ChildError:  # such as one that asks for values, of which inputs of that size have none
            return True
        return has_shapes(graph, self._trace(sizes, scalars), there, setting.values()) is not False

    def _check(self, sizes: Mapping[str, int]) -> tuple[str, ...]:
        scalars = defaults(self._problem)
        elements = sum(math.prod(node.shape) for node in self._trace(sizes, scalars).nodes)
        runs = self._call(CheckReference(self._at(sizes, scalars), elements))
        if runs.deterministic is False:
            raise self._random("")
        return tuple(runs.narrow or ()) if all(name.isidentifier() for name in runs.narrow or ()) else ()

    def _random(self, why: str) -> ProblemError:
        return ProblemError(
            f"the reference gives different values on two runs with the same inputs{why}",
            _reference_line(self._problem.source),
            "Take out what is random, or pass it in as an input.",
        )

    def _rounded(self, sizes: Mapping[str, int], graph: Graph) -> tuple[Rounding, ...]:
        """Where eager mode rounds is good to know and no more: a reference that does not run in bfloat16 is captured without."""
        scalars = self._given
        try:
            values = self._call(FindRounding(self._at(sizes, scalars)))
            check_same_structure([self._trace(sizes, scalars), from_plain(values.graph)])
            rounded = tuple(Rounding(node, unless) for node, unless in values.rounded)
        except (ChildFailed, DifferentStructure, ValueError, TypeError, KeyError):
            return ()
        names, inputs = {node.name for node in graph.nodes}, set(graph.inputs)
        known = all(r.node in names and inputs.issuperset(r.unless) for r in rounded)
        return rounded if known else ()

    def _divided(self, graph: Graph, base: Triple) -> Graph:
        """The graph over integer scalars that divide sizes, one after the other, for those that have a rule."""
        first = self._trace(base[0], self._given)
        for name in divisors(self._problem, graph.specialised):
            if self._runs(base[0], out_of_step(self._problem, name, base[0])):
                continue  # it chooses between functions, and divides nothing
            tried = tries(self._problem, name, graph.multiples, first)
            graph = next((ruled for rules in tried if (ruled := self._ruled(name, rules, graph, base))), graph)
        return graph

    def _runs(self, sizes: Mapping[str, int], scalars: Mapping[str, ScalarValue]) -> bool:
        try:
            self._trace(sizes, scalars)
        except ChildError:
            return False
        return True

    def _ruled(self, name: str, rules: Sequence[Multiple], graph: Graph, base: Triple) -> Graph | None:
        """The graph over one more scalar; None where the rules do not yield one."""
        triple = triple_of(self._problem, rules, base)
        if triple is None:
            return None
        fixed = [other for other in graph.specialised if other != name]
        varied = [other for other in variable_scalars(self._problem) if other not in fixed]
        sets = scalar_sets(self._problem, varied, self._special)
        sets = tuple(own | divided for own, divided in zip(sets, changed(self._problem, rules), strict=True))
        try:
            traces = [self._trace(s, v) for s, v in zip(triple, sets, strict=True)]
            check_same_structure([self._trace(base[0], self._given), *traces])
        except (ChildError, DifferentStructure):
            return None
        settings = [Setting(tuple(s.items()), tuple(v.items())) for s, v in zip(triple, sets, strict=True)]
        known = [self._varied_values(setting, varied) for setting in settings]
        unified = unify(traces, Fitter(known, dimensions(self._problem), rules), fixed)
        ruled = dataclasses.replace(unified.graph, multiples=tuple(rules))
        return None if unified.unexplained or not self._holds_at_its_ends(ruled, traces[0], triple[0]) else ruled

    def _holds_at_its_ends(self, graph: Graph, of: RawGraph, base: Mapping[str, int]) -> bool:
        """A reference may do something else for one group. Where sizes of one leave operations out, values are compared."""
        for sizes, scalars in corners(self._problem, graph.multiples, base):
            setting = Setting(tuple(sizes.items()), tuple(scalars.items()))
            try:
                same = is_instance(graph, of, self._trace(sizes, scalars), setting.values())
                if same is None:
                    same = self._agrees(graph, sizes, scalars)
            except ChildError:
                return False
            if not same:
                return False
        return True

    def _bounded(self, graph: Graph, sizes: Mapping[str, int]) -> Graph:
        """The graph with what must hold of each number that it varies in, floats alone: a whole one mostly counts something."""
        values = defaults(self._problem)
        varied = [n for n in variable_scalars(self._problem) if n not in graph.specialised]
        floats = [name for name in varied if isinstance(values[name], float)]
        bounds = [bound for name in floats for bound in self._bounds(name, float(values[name]), graph, sizes)]
        return dataclasses.replace(graph, bounds=tuple(bounds))

    def _bounds(self, name: str, default: float, graph: Graph, sizes: Mapping[str, int]) -> Iterator[ScalarBound]:
        """Outwards from the value of a number, up to the limit beyond which the reference computes something else."""
        limits = thresholds(self._problem, name)
        for sign, comparison in ((1, "<"), (-1, ">")):
            ends = sorted((limit for limit in limits if sign * limit >= sign * default), reverse=sign < 0)
            for limit, following in itertools.zip_longest(ends, ends[1:]):
                beyond = limit + sign * (abs(limit) + 1) if following is None else (limit + following) / 2
                at = limit == default or self._holds_at(name, limit, graph, sizes)
                if not self._holds_at(name, beyond, graph, sizes):
                    yield ScalarBound(name, f"{comparison}=" if at else comparison, limit)
                    break
                if not at:
                    yield ScalarBound(name, "!=", limit)

    def _holds_at(self, name: str, value: float, graph: Graph, sizes: Mapping[str, int]) -> bool:
        """Whether the reference computes what the graph does, or nothing."""
        scalars = defaults(self._problem) | {name: value}
        setting = Setting(tuple(sizes.items()), tuple(scalars.items()))
        base = self._trace(sizes, self._given)
        try:
            if is_instance(graph, base, self._trace(sizes, scalars), setting.values()):
                return True
            return self._agrees_at_limits(graph, sizes, scalars)
        except ChildError:
            return True

    def _agrees(
        self,
        graph: Graph,
        sizes: Mapping[str, int],
        scalars: Mapping[str, ScalarValue],
        last: float | None = None,
    ) -> bool:
        return self._call(CompareGraph(self._at(sizes, scalars), graph, last))

    def _agrees_at_limits(self, graph: Graph, sizes: Mapping[str, int], scalars: Mapping[str, ScalarValue]) -> bool:
        """A product with zero leaves out a term of finite numbers alone, and a slope at zero may have a limit of its own."""
        return all(self._agrees(graph, sizes, scalars, last) for last in (None, -math.inf, 0.0))

    def _unified(self, triple: Sequence[Mapping[str, int]]) -> Graph:
        varied, tried = variable_scalars(self._problem), set[str]()
        self._special = []
        while True:
            sets = scalar_sets(self._problem, varied, self._special)
            try:
                traces = [self._trace(s, v) for s, v in zip(triple, sets, strict=True)]
                check_same_structure(traces)
            except (ChildError, DifferentStructure):
                steering = [name for name in varied if self._steers(name, triple[0])]
                if not steering:
                    raise
                self._special = [name for name in steering if name not in tried and self._is_fraction(name)]
                tried.update(self._special)
                varied = [name for name in varied if name not in steering or name in self._special]
                continue
            settings = [Setting(tuple(s.items()), tuple(v.items())) for s, v in zip(triple, sets, strict=True)]
            known = [self._varied_values(setting, varied) for setting in settings]
            fixed = [name for name in defaults(self._problem) if name not in varied]
            unified = unify(traces, Fitter(known, dimensions(self._problem)), fixed)
            if self._special and (unified.unexplained or not self._agrees_at_its_values(unified.graph, triple[0])):
                varied = [name for name in varied if name not in self._special]
                self._special = []
                continue
            if not unified.unexplained:
                self._given = sets[0]
                return unified.graph
            places = {name for name, _ in unified.unexplained}
            behind = [name for name in varied if self._changed(name, triple[0]) & places]
            if not behind:
                raise DifferentStructure(
                    f"a number in `{unified.unexplained[0][0]}` follows no simple rule of the sizes"
                )
            varied = [name for name in varied if name not in behind]

    def _is_fraction(self, name: str) -> bool:
        value = defaults(self._problem)[name]
        return isinstance(value, float) and value != 0.0

    def _agrees_at_its_values(self, graph: Graph, sizes: Mapping[str, int]) -> bool:
        try:
            return self._agrees_at_limits(graph, sizes, defaults(self._problem))
        except ChildError:
            return False

    def _varied_values(self, setting: Setting, varied: Sequence[str]) -> dict[str, float | int]:
        names = {*dimensions(self._problem), *varied}
        return {name: value for name, value in setting.values().items() if name in names}

    def _steers(self, name: str, sizes: Mapping[str, int]) -> bool:
        """Whether changing one scalar alone changes the operations, or makes the reference fail."""
        base = self._trace(sizes, defaults(self._problem))
        for scalars in scalar_sets(self._problem, [name])[1:]:
            try:
                check_same_structure([base, self._trace(sizes, scalars)])
            except (ChildError, DifferentStructure):
                return True
        return False

    def _changed(self, name: str, sizes: Mapping[str, int]) -> set[str]:
        base = self._trace(sizes, defaults(self._problem))
        return changed_numbers(base, self._trace(sizes, scalar_sets(self._problem, [name])[1]))

    def _trace(self, sizes: Mapping[str, int], scalars: Mapping[str, ScalarValue]) -> RawGraph:
        setting = Setting(tuple(sizes.items()), tuple(scalars.items()))
        if setting not in self._known:
            traced = self._call(TraceReference(self._at(sizes, scalars)))
            if traced.random is not None:
                raise self._random(f": `{traced.random}` draws random numbers")
            try:
                graph = from_plain(traced.graph)
            except ValueError as error:
                raise ProblemError(f"the trace of the reference cannot be used: {error}") from error
            if list(graph.inputs) != [spec.name for spec in self._problem.inputs]:
                raise ProblemError("the trace of the reference has other inputs than the problem")
            self._known[setting] = graph
        return self._known[setting]

    def _at(self, sizes: Mapping[str, int], scalars: Mapping[str, ScalarValue]) -> TraceSizes:
        return TraceSizes(self._problem.inputs, dict(sizes), dict(scalars), _SEED, self._whole)


def _reference_line(source: str) -> int | None:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == "reference":
            return node.lineno
    return None


def check(graph: Graph, problem: Problem) -> None:
    """Check what depends on what.

    Raises:
        ProblemError: naming the output or the input, with its line.
    """
    behind = _inputs_behind(graph)
    for number, output in enumerate(graph.outputs):
        if not behind[output]:
            raise ProblemError(
                f"output {number} does not depend on any input",
                _line(problem.source, None),
                "Compute it from the inputs, or leave it out.",
            )
    for name in unused_inputs(graph)[:1]:
        raise ProblemError(
            f"no output depends on input `{name}`",
            _line(problem.source, name),
            f"Use `{name}` in the reference or take it out of its parameters and INPUTS.",
        )


def unused_inputs(graph: Graph) -> list[str]:
    """The inputs on which no output depends."""
    behind = _inputs_behind(graph)
    used = set().union(*(behind[output] for output in graph.outputs))
    return [name for name in graph.inputs if name not in used]


def _inputs_behind(graph: Graph) -> dict[str, frozenset[str]]:
    behind: dict[str, frozenset[str]] = {}
    for node in graph.nodes:
        if node.op == "input":
            behind[node.name] = frozenset({node.name})
            continue
        behind[node.name] = frozenset().union(*(behind[operand] for operand in node.operands))
    return behind


def _line(source: str, parameter: str | None) -> int | None:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == "reference":
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            return next((a.lineno for a in given if a.arg == parameter), node.lineno)
    return None
