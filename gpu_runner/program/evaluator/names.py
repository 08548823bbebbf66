"""Scopes: what a name stands for, where it may be bound, and the level of what it stands for."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from torch.autograd.function import FunctionCtx

from gpu_runner.contracts.verify import Status
from gpu_runner.program import language
from gpu_runner.program.evaluator.values import Values, check_mangled
from gpu_runner.program.levels import (
    is_lasting,
    is_made_by_torch,
    never_fixed,
    only_spread,
)
from gpu_runner.program.objects import (
    FIXED,
    GIVEN,
    MISSING,
    PASSED,
    CallFrame,
    ScopeKind,
    Violation,
    unproved,
)


class Names(Values):
    def bind(self, name: str, value: Any, frame: CallFrame, level: int = GIVEN) -> None:
        """Bind a name in a scope; ``level``: what the value hangs on."""
        if name.startswith("__") and name not in language.DUNDER_NAMES | language.METHOD_DUNDERS:
            raise Violation("private name", f"It binds `{name}`.")
        where = frame.outer.get(name)
        holder: CallFrame | None = frame.module.frame if where == "global" else frame
        if where == "nonlocal":
            holder = frame.parent
            while holder is not None and (holder.kind is not ScopeKind.function or name not in holder.bound):
                holder = holder.parent
        if (
            holder is None
            or id(holder) in self.frozen
            or (holder.kind is ScopeKind.module and not holder.module.loading)
        ):
            raise Violation("remembers between calls", f"It changes `{name}`, which outlives a call.")
        holder.names[name] = value
        holder.levels.pop(name, None)
        is_spread = (
            isinstance(value, list | dict) and frame.function is not None and name in only_spread(frame.function.node)
        )
        level = level if level == GIVEN or self.loading or is_spread else self._level_of_kept(value, level)
        if level != GIVEN and holder is frame and not self.loading:
            function = frame.function
            if function is None or name not in never_fixed(function.node):
                holder.levels[name] = level

    def load(self, name: str, frame: CallFrame) -> Any:
        """Look a name up through its scopes.

        Raises:
            NameError: it stands for nothing. Violation: it is no builtin that the language has.
        """
        value = self.lookup(name, frame)
        return self._builtin(name, frame) if value is MISSING else value

    def lookup(self, name: str, frame: CallFrame) -> Any:
        """What the program itself binds a name to; ``inspect.Parameter.empty`` where it binds none.

        Raises:
            NameError: it binds it later, or has deleted it.
        """
        where: CallFrame | None = frame.module.frame if frame.outer.get(name) == "global" else frame
        inner = True
        while where is not None and where.kind is not ScopeKind.module:
            if where.kind is ScopeKind.function or inner:
                if name in where.names:
                    return where.names[name]
                if where.kind is ScopeKind.type and name in where.bound:
                    break  # a class looks up what it binds itself in its module next
                if name in where.bound and name not in where.outer:
                    raise (UnboundLocalError if inner else NameError)(f"cannot access local variable '{name}'")
                if where.outer.get(name) == "global":
                    break
            inner, where = False, where.parent
        return frame.module.lookup(name)

    def lookup_softly(self, name: str, frame: CallFrame) -> Any:
        """As ``lookup``, without an error where the name is not bound yet."""
        try:
            return self.lookup(name, frame)
        except NameError:
            return MISSING

    def _builtin(self, name: str, frame: CallFrame) -> Any:
        if name in ("__name__", "__file__"):
            raise Violation("recognises its caller", f"It looks at `{name}`, by which a program knows where it runs.")
        if name in self.special:
            return self.member(name)
        if name in language.BUILTINS:
            return language.BUILTINS[name]
        if name in language.RUNS_TEXT:
            raise Violation("runs code from text", f"It uses `{name}`.", Status.cheating)
        if name in language.REACHES or name.startswith("__"):
            raise Violation("reaches outside", f"It uses `{name}`.")
        if hasattr(builtins, name):
            raise unproved(f"The evaluator has no builtin `{name}`.")
        raise NameError(f"name '{name}' is not defined")

    def level_of_name(self, name: str, frame: CallFrame) -> int:
        """What the value of a name hangs on; see ``lookup``."""
        where: CallFrame | None = frame if frame.outer.get(name) != "global" else None
        while where is not None and where.kind is not ScopeKind.module:
            if (where.kind is ScopeKind.function or where is frame) and name in where.names:
                return GIVEN if id(where.names[name]) in self.changed else where.levels.get(name, GIVEN)
            if where.outer.get(name) == "global" or (
                where.kind is ScopeKind.type and where is frame and name in where.bound
            ):
                break
            where = where.parent
        return FIXED

    def _level_of_kept(self, value: Any, level: int) -> int:
        """What a value hangs on under a name, where others may change it."""
        if level != FIXED or is_lasting(value) or id(value) in self.frozen:
            return level
        return PASSED if is_made_by_torch(value) else GIVEN

    def store(
        self, target: ast.expr, value: Any, frame: CallFrame, level: int = GIVEN, items: list[int] | None = None
    ) -> None:
        """Assign to a target; ``level`` and ``items``: what the value hangs on, and the items of a tuple."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, frame, level)
        elif isinstance(target, ast.Attribute):
            check_mangled(target.attr)
            owner = self.value(target.value, frame)
            self.set_attribute(owner, target.attr, value)
            if isinstance(owner, FunctionCtx) and frame.may_set_context:
                owner.__dict__.setdefault("program_levels", {})[target.attr] = self._level_of_kept(value, level)
        elif isinstance(target, ast.Subscript):
            owner = self.value(target.value, frame)
            key = self.value(target.slice, frame)
            self._note_stored(target, owner, (key, self.last_level), frame)
            self.set_item(owner, key, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self.budget.charge(value)
            values = list(self.iterate(value))
            known = items if items is not None and len(items) == len(values) else [level] * len(values)
            self._unpack(target.elts, values, frame, known)
        else:
            raise unproved(f"The evaluator cannot assign to `{ast.unparse(target)}`.")

    def _unpack(self, targets: list[ast.expr], values: list[Any], frame: CallFrame, levels: list[int]) -> None:
        star = next((place for place, item in enumerate(targets) if isinstance(item, ast.Starred)), None)
        if star is not None:
            after = len(targets) - star - 1
            if len(values) < len(targets) - 1:
                raise ValueError(
                    f"not enough values to unpack (expected at least {len(targets) - 1}, got {len(values)})"
                )
            middle = values[star : len(values) - after]
            levels = [*levels[:star], GIVEN, *levels[len(values) - after :]]
            values = [*values[:star], middle, *values[len(values) - after :]]
            targets = [item.value if isinstance(item, ast.Starred) else item for item in targets]
        if len(targets) != len(values):
            raise ValueError(f"cannot unpack {len(values)} values into {len(targets)}")
        for target, value, level in zip(targets, values, levels, strict=True):
            self.store(target, value, frame, level)


def own_frame(frame: CallFrame) -> CallFrame:
    """The frame of the function, class or module around a comprehension."""
    while frame.is_comprehension:
        assert frame.parent is not None
        frame = frame.parent
    return frame
