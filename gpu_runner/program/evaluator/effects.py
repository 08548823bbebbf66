"""Whether a test asks alone: what it does besides, it does on both sides of what only refuses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from gpu_runner.program import language
from gpu_runner.program.evaluator.state import EvaluationState
from gpu_runner.program.objects import (
    MISSING,
    BoundFunction,
    CallFrame,
    Class,
    Facade,
    Function,
    Instance,
    Native,
)
from gpu_runner.program.scopes import bound_names

_CHANGING = frozenset(["next", "setattr", *language.MUTATES])
_LIBRARY = (torch.Tensor, torch.device, str, dict, list, tuple, int, float)  # on whose methods a test may call
# What Python calls of an object that a test asks.
_ASKED = ("__len__", "__getitem__", "__iter__", "__contains__", "__eq__", "__bool__", "__call__")


class Effects(EvaluationState):
    def _asks_alone(self, test: ast.expr, frame: CallFrame) -> set[ast.AST]:
        """The parts of a test that decide nothing but its outcome: neither what it changes or binds, nor whether it does."""
        if not self._has_effect(test, frame):
            return set(ast.walk(test))
        parts: list[ast.expr] = []
        if isinstance(test, ast.UnaryOp):
            parts = [test.operand]
        elif isinstance(test, ast.Compare) and len(test.ops) == 1:
            parts = [test.left, *test.comparators]
        elif isinstance(test, ast.BoolOp):
            last = max(at for at, part in enumerate(test.values) if self._has_effect(part, frame))
            parts = test.values[last:]
        return {test}.union(*(self._asks_alone(part, frame) for part in parts)) if parts else set()

    def _has_effect(self, node: ast.AST, frame: CallFrame) -> bool:
        """Whether evaluating an expression may change, bind, launch or use something up."""
        self.examined = {}
        return self._may_change(node, frame, frozenset())

    def _may_change(self, node: ast.AST, frame: CallFrame, own: frozenset[str]) -> bool:
        """The same of an expression or a function; ``own``: names that the function binds, of which nobody knows what they are."""
        return any(self._changes(part, frame, own) for part in ast.walk(node))

    def _changes(self, part: ast.AST, frame: CallFrame, own: frozenset[str]) -> bool:
        if isinstance(part, ast.Attribute | ast.Subscript):
            is_written = not isinstance(part.ctx, ast.Load)
            return is_written or (isinstance(part, ast.Attribute) and self._changes_by_attribute(part.attr, frame))
        if isinstance(part, ast.Name):
            return part.id not in own and self._changes_by_value(self.lookup_softly(part.id, frame), part.id)
        if isinstance(part, ast.Call):
            return self._calls_unknown(part, frame, own)
        if isinstance(part, ast.AugAssign):
            return isinstance(part.target, ast.Name) and part.target.id in own
        return isinstance(part, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Global | ast.Nonlocal)

    def _changes_by_attribute(self, name: str, frame: CallFrame) -> bool:
        in_place = name.endswith("_") and not name.endswith("__")
        defined = frame.module.program.definitions(name)
        return name in _CHANGING or in_place or any(self._function_changes(each, frame) for each in defined)

    def _changes_by_value(self, value: object, name: str) -> bool:
        if isinstance(value, Function):
            return self._function_changes(value.node, value.closure)
        if isinstance(value, BoundFunction):
            return self._changes_by_value(value.function, name)
        if isinstance(value, Instance):
            asked = [value.type.find(each) for each in _ASKED if value.type.has(each)]
            return any(self._changes_by_value(each, name) for each in asked)
        if isinstance(value, Native):
            name = value.name.rpartition(".")[2]
        return isinstance(value, Iterator) or ((isinstance(value, Native) or value is MISSING) and name in _CHANGING)

    def _function_changes(self, node: ast.FunctionDef | ast.Lambda, frame: CallFrame) -> bool:
        if node not in self.examined:
            self.examined[node] = False  # of one that calls itself
            self.examined[node] = self._may_change(node, frame, bound_names(node)[0])
        return self.examined[node]

    def _calls_unknown(self, call: ast.Call, frame: CallFrame, own: frozenset[str]) -> bool:
        """Whether nobody knows what a call does, as of a launch, or it makes an object of the program or writes to ``out``."""
        function = call.func
        if any(keyword.arg == "out" for keyword in call.keywords):
            return True
        if isinstance(function, ast.Name):
            value = MISSING if function.id in own else self.lookup_softly(function.id, frame)
            if value is MISSING:
                return function.id in own or function.id not in language.BUILTINS
            known = isinstance(value, Function | Native | BoundFunction | type) or type(value).__name__ == "Kernel"
            return isinstance(value, Class) or not known
        if not isinstance(function, ast.Attribute):
            return True
        owner: ast.expr = function
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        value = self.lookup_softly(owner.id, frame) if isinstance(owner, ast.Name) and owner.id not in own else None
        if isinstance(value, Facade) or frame.module.program.definitions(function.attr):
            return False
        is_library = any(hasattr(kind, function.attr) for kind in _LIBRARY)
        return not is_library or frame.module.program.is_stored(function.attr)
