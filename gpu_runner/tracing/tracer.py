"""The plan of a capture: which traces are made, what they must have in common, and which scalars are baked in. Pure."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu_runner.contracts import Graph, Problem, ProblemError, Rounding
from gpu_runner.errors import ChildError, ChildFailed
from gpu_runner.tracing.fitting import Fitter
from gpu_runner.tracing.raw import RawGraph, from_plain
from gpu_runner.tracing.sizes import (
    ScalarValue,
    Setting,
    defaults,
    dimensions,
    scalar_sets,
    size_sets,
    variable_scalars,
)
from gpu_runner.tracing.unify import DifferentStructure, changed_numbers, check_same_structure, unify

_SEED = 20_011


class Tracer:
    """Traces through ``call``, which reaches the handlers of the role ``capture`` and raises their ``ChildError``."""

    def __init__(self, call: Callable[[str, dict[str, Any]], dict[str, Any]], problem: Problem) -> None:
        self._call = call
        self._problem = problem
        self._specs = [dataclasses.asdict(spec) for spec in problem.inputs]
        self._known: dict[Setting, RawGraph] = {}

    def graph(self) -> Graph:
        """Give the graph.

        Raises:
            ProblemError: the reference cannot be captured. ChildFailed: it does not run.
        """
        self._call("load", {})
        first_failure: ChildError | None = None
        for triple in size_sets(self._problem):
            try:
                narrow = self._check(triple[0])
                graph = self._unified(triple)
            except ChildError as failure:
                first_failure = first_failure or failure
            except DifferentStructure as difference:
                raise ProblemError(
                    f"the reference computes something else at other sizes: {difference}",
                    _reference_line(self._problem.source),
                    "Write the reference without branches on sizes, or write the sizes as numbers in INPUTS.",
                ) from difference
            else:
                return dataclasses.replace(graph, output_dtypes=narrow, rounded=self._rounded(triple[0], graph))
        if first_failure is None:
            raise ProblemError("the inputs are too large to be traced", None, "Write smaller numbers in INPUTS.")
        raise first_failure

    def _check(self, sizes: Mapping[str, int]) -> tuple[str, ...]:
        meta = self._meta(sizes, defaults(self._problem))
        answer = self._call("check", meta)
        if answer.get("deterministic") is not True:
            raise ProblemError(
                "the reference gives different values on two runs with the same inputs",
                _reference_line(self._problem.source),
                "Take out what is random, or pass it in as an input.",
            )
        narrow = answer.get("narrow")
        known = isinstance(narrow, list) and all(isinstance(n, str) and n.isidentifier() for n in narrow)
        return tuple(narrow) if known and narrow is not None else ()

    def _rounded(self, sizes: Mapping[str, int], graph: Graph) -> tuple[Rounding, ...]:
        """Where eager mode rounds is good to know and no more: a reference that does not run in bfloat16 is captured without."""
        scalars = defaults(self._problem)
        try:
            answer = self._call("rounding", self._meta(sizes, scalars))
            check_same_structure([self._trace(sizes, scalars), from_plain(answer.get("graph"))])
            rounded = tuple(Rounding(str(node), tuple(map(str, unless))) for node, unless in answer["rounded"])
        except (ChildFailed, DifferentStructure, ValueError, TypeError, KeyError):
            return ()
        names, inputs = {node.name for node in graph.nodes}, set(graph.inputs)
        known = all(r.node in names and inputs.issuperset(r.unless) for r in rounded)
        return rounded if known else ()

    def _unified(self, triple: Sequence[Mapping[str, int]]) -> Graph:
        varied = variable_scalars(self._problem)
        while True:
            sets = scalar_sets(self._problem, varied)
            try:
                traces = [self._trace(s, v) for s, v in zip(triple, sets, strict=True)]
                check_same_structure(traces)
            except (ChildError, DifferentStructure):
                steering = [name for name in varied if self._steers(name, triple[0])]
                if not steering:
                    raise
                varied = [name for name in varied if name not in steering]
                continue
            settings = [Setting(tuple(s.items()), tuple(v.items())) for s, v in zip(triple, sets, strict=True)]
            known = [self._varied_values(setting, varied) for setting in settings]
            fixed = [name for name in defaults(self._problem) if name not in varied]
            found = unify(traces, Fitter(known, dimensions(self._problem)), fixed)
            if not found.unexplained:
                return found.graph
            places = {name for name, _ in found.unexplained}
            behind = [name for name in varied if self._changed(name, triple[0]) & places]
            if not behind:
                raise DifferentStructure(f"a number in `{found.unexplained[0][0]}` follows no simple rule of the sizes")
            varied = [name for name in varied if name not in behind]

    def _varied_values(self, setting: Setting, varied: Sequence[str]) -> dict[str, float | int]:
        names = {*dimensions(self._problem), *varied}
        return {name: value for name, value in setting.values().items() if name in names}

    def _steers(self, name: str, sizes: Mapping[str, int]) -> bool:
        """Tell whether changing one scalar alone changes the operations, or makes the reference fail."""
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
            answer = self._call("trace", self._meta(sizes, scalars))
            try:
                graph = from_plain(answer.get("graph"))
            except ValueError as error:
                raise ProblemError(f"the trace of the reference cannot be used: {error}") from error
            if list(graph.inputs) != [spec.name for spec in self._problem.inputs]:
                raise ProblemError("the trace of the reference has other inputs than the problem")
            self._known[setting] = graph
        return self._known[setting]

    def _meta(self, sizes: Mapping[str, int], scalars: Mapping[str, ScalarValue]) -> dict[str, Any]:
        return {"inputs": self._specs, "sizes": dict(sizes), "scalars": dict(scalars), "seed": _SEED}


def _reference_line(source: str) -> int | None:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == "reference":
            return node.lineno
    return None
