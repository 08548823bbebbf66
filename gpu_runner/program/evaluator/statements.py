"""Statements, a rule for each kind.

Where a condition, loop, ``try`` or pattern depends on the call, so does all that it may bind and whether it returns, whichever
way it goes: see ``_forget_levels`` and ``_mark_exits``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.program import language
from gpu_runner.program.evaluator.calls import ContextCall
from gpu_runner.program.evaluator.deciding import is_word
from gpu_runner.program.evaluator.expressions import Expressions
from gpu_runner.program.evaluator.state import FLOW, Break, Continue, Return
from gpu_runner.program.levels import (
    is_lasting,
    level_of_computed,
    only_raises,
    stored_in,
)
from gpu_runner.program.objects import (
    FIXED,
    GIVEN,
    PASSED,
    CallFrame,
    Class,
    Facade,
    Instance,
    Native,
    ScopeKind,
    TypeAnnotation,
    Violation,
    type_name,
    unproved,
)
from gpu_runner.program.scopes import declared

_CLASS_NAMES = language.DUNDER_NAMES | language.METHOD_DUNDERS | {"__annotations__"}


_MANAGERS = (nullcontext, AbstractContextManager)


class Statements(Expressions):
    def body(self, statements: Sequence[ast.stmt], frame: CallFrame) -> None:
        """Carry out statements in order."""
        for statement in statements:
            self.statement(statement, frame)

    def statement(self, node: ast.stmt, frame: CallFrame) -> None:
        """Carry out one statement; an error that leaves it carries its line."""
        self._step(node, frame)
        try:
            handler = self._statements.get(type(node))
            if handler is None:
                raise unproved(f"`{type(node).__name__}` is no statement that the evaluator knows.")
            handler(self, node, frame)
        except FLOW:
            raise
        except BaseException as error:
            self._locate(error, node, frame)
            if isinstance(error, Violation):
                self.broken = error
            raise

    def _expr(self, node: ast.Expr, frame: CallFrame) -> None:
        self.value(node.value, frame)

    def _assign(self, node: ast.Assign, frame: CallFrame) -> None:
        value = self.value(node.value, frame)
        level, items = self.last_level, self.item_levels
        for target in node.targets:
            self.store(target, value, frame, level, items)

    def _ann_assign(self, node: ast.AnnAssign, frame: CallFrame) -> None:
        self._check_annotation(node.annotation, frame)
        if isinstance(node.target, ast.Name) and frame.kind is ScopeKind.type:
            annotations = frame.names.setdefault("__annotations__", {})
            annotations[node.target.id] = ast.unparse(node.annotation)
        if node.value is not None:
            value = self.value(node.value, frame)
            self.store(node.target, value, frame, self.last_level, self.item_levels)

    def _aug_assign(self, node: ast.AugAssign, frame: CallFrame) -> None:
        target, level = node.target, GIVEN
        if isinstance(target, ast.Name):
            left: Any = self.load(target.id, frame)
            level = self.level_of_name(target.id, frame)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, frame)
            left = self.attribute(owner, target.attr)
        else:
            owner, key = self.value(target.value, frame), self.value(target.slice, frame)
            self._note_stored(target, owner, (key, self.last_level), frame)
            left = self.item(owner, key)
        if isinstance(left, list | dict | set):
            self.check_mutable(left)
        right = self.value(node.value, frame)
        value = self._operate(language.IN_PLACE, type(node.op).__name__, left, right)
        level = level_of_computed(value, max(level, self.last_level))
        self.level = level
        self._note_in_place(node, left, value, frame)
        if isinstance(target, ast.Name):
            self.store(target, value, frame, level)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(owner, target.attr, value)
        else:
            self.set_item(owner, key, value)

    def _forget_levels(self, statements: Sequence[ast.stmt], frame: CallFrame) -> None:
        """Have all that some statements may bind hang on the call, which decided whether or how often they were carried out."""
        if self.loading:
            return
        for statement in statements:
            stored = stored_in(statement)
            for name in stored.names:
                if not (name in stored.again and frame.levels.get(name) == PASSED):
                    frame.levels.pop(name, None)
            for owner, attribute in stored.attributes:
                value = self.lookup_softly(owner, frame)
                if isinstance(value, FunctionCtx):
                    value.__dict__.get("program_levels", {}).pop(attribute, None)

    def _mark_exits(self, statements: Sequence[ast.stmt], frame: CallFrame, level: int) -> bool:
        """Whether it hangs on the call if some statements are carried out; then so does what they leave."""
        if level == FIXED or self.loading:
            return False
        for statement in statements:
            stored = stored_in(statement)
            frame.exits = GIVEN if stored.returns else frame.exits
            if stored.breaks and frame.loops:
                frame.loops[-1] = GIVEN
        return True

    def _if(self, node: ast.If, frame: CallFrame) -> None:
        if only_raises(node.body) or only_raises(node.orelse):
            self._refuse(node.test, frame)
        outcome, level = self._decide(node.test, frame), self.last_level
        hangs = self._mark_exits((node,), frame, level)
        self.body(node.body if outcome else node.orelse, frame)
        if hangs:
            self._forget_levels((node,), frame)

    def _for(self, node: ast.For, frame: CallFrame) -> None:
        items = self.value(node.iter, frame)
        level = self._level_of_items(node.iter, frame)
        self._note_event(node.iter, level, False, frame, "not empty")

        frame.loops.append(level)
        try:
            for item in self.iterate(items):
                self._note_event(node.iter, level, True, frame, "not empty")
                self.store(node.target, item, frame, level)
                if self._breaks(node, frame):
                    return
            self.body(node.orelse, frame)
        finally:
            self._leave_loop(node, frame)

    def _while(self, node: ast.While, frame: CallFrame) -> None:
        frame.loops.append(FIXED)
        try:
            while self._goes_on(node, frame):
                self._step(node, frame)
                if self._breaks(node, frame):
                    return
            self.body(node.orelse, frame)
        finally:
            self._leave_loop(node, frame)

    def _goes_on(self, node: ast.While, frame: CallFrame) -> bool:
        outcome = self._decide(node.test, frame)
        frame.loops[-1] = max(frame.loops[-1], self.last_level)
        return outcome

    def _breaks(self, node: ast.For | ast.While, frame: CallFrame) -> bool:
        """Carry out the body of a loop once; whether it breaks off."""
        try:
            self.body(node.body, frame)
        except Break:
            return True
        except Continue:
            pass
        if frame.loops[-1]:
            self._forget_levels(node.body, frame)
        return False

    def _leave_loop(self, node: ast.For | ast.While, frame: CallFrame) -> None:
        """What a loop binds hangs on what decides how often, or how far, it goes round."""
        if frame.loops.pop():
            frame.exits = GIVEN if stored_in(node).returns else frame.exits
            self._forget_levels((node,), frame)

    def _break(self, node: ast.Break, frame: CallFrame) -> None:
        raise Break

    def _continue(self, node: ast.Continue, frame: CallFrame) -> None:
        raise Continue

    def _return(self, node: ast.Return, frame: CallFrame) -> None:
        value: Any = None if node.value is None else self.value(node.value, frame)
        raise Return(value, (FIXED, None) if node.value is None else (self.last_level, self.item_levels))

    def _pass(self, node: ast.Pass, frame: CallFrame) -> None:
        return

    def _assert(self, node: ast.Assert, frame: CallFrame) -> None:
        self._refuse(node.test, frame)
        if not self.truth(self.value(node.test, frame)):
            raise AssertionError(*([] if node.msg is None else [self.value(node.msg, frame)]))

    def _raise(self, node: ast.Raise, frame: CallFrame) -> None:
        if node.exc is None:
            raise self.handling[-1] if self.handling else RuntimeError("No active exception to reraise")
        error = self.value(node.exc, frame)
        error = error.real if isinstance(error, Class) else error
        if node.cause is not None:
            self.value(node.cause, frame)
        if isinstance(error, type) and issubclass(error, BaseException):
            error = error()
        if not isinstance(error, BaseException):
            raise TypeError("exceptions must derive from BaseException")
        if not isinstance(error, Exception):
            raise unproved("The evaluator raises an `Exception` alone.")
        raise error

    def _delete(self, node: ast.Delete, frame: CallFrame) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                if frame.kind is ScopeKind.module or target.id in frame.outer or target.id not in frame.names:
                    raise unproved("The evaluator deletes the names of a function alone, where they are bound.")
                del frame.names[target.id]
            elif isinstance(target, ast.Subscript):
                owner = self.check_mutable(self.value(target.value, frame))
                self.budget.spend(len(owner) if isinstance(owner, list) else 0)
                del owner[self.value(target.slice, frame)]
            else:
                raise unproved("The evaluator deletes names and items alone.")

    def _outer(self, node: ast.Global | ast.Nonlocal, frame: CallFrame) -> None:
        return  # a declaration, which holds for the whole of its scope: see ``scopes.declared``

    def _import(self, node: ast.Import, frame: CallFrame) -> None:
        for alias in node.names:
            module = self.import_module(frame, alias.name, 0)
            if alias.asname is None and "." in alias.name:
                module = self.import_module(frame, alias.name.split(".")[0], 0)
            self.bind(alias.asname or alias.name.split(".")[0], module, frame, FIXED)

    def _import_from(self, node: ast.ImportFrom, frame: CallFrame) -> None:
        if node.module == "__future__":
            frame.module.is_deferred |= any(alias.name == "annotations" for alias in node.names)
            return
        module = self.import_module(frame, node.module or "", node.level)
        for alias in node.names:
            if alias.name == "*":
                raise unproved("The evaluator imports names one by one, not `*`.")
            try:
                value = self.attribute(module, alias.name)
            except AttributeError as error:
                if isinstance(module, Facade):
                    raise ImportError(str(error)) from None
                value = self.import_module(frame, f"{node.module or ''}.{alias.name}".strip("."), node.level)
            self.bind(alias.asname or alias.name, value, frame, FIXED if is_lasting(value) else GIVEN)

    def _function_def(self, node: ast.FunctionDef, frame: CallFrame) -> None:
        decorators = [self.value(decorator, frame) for decorator in node.decorator_list]
        value: Any = self.make_function(node, node.name, frame)
        for decorator in reversed(decorators):
            value = self.call(decorator, (value,), {})
        self.bind(node.name, value, frame, GIVEN if decorators else FIXED)

    def _class_def(self, node: ast.ClassDef, frame: CallFrame) -> None:
        if node.keywords:
            raise Violation("metaclass", "A class takes no metaclass or keyword.")
        decorators = [self.value(decorator, frame) for decorator in node.decorator_list]
        bases = tuple(self.value(base, frame) for base in node.bases)
        bound, outer = declared(node)
        inner = CallFrame(ScopeKind.type, frame.module, frame, bound=bound, outer=outer)
        self.body(node.body, inner)
        value: Any = self.build_class(node.name, bases, inner.names, frame)
        inner.made = value
        for decorator in reversed(decorators):
            value = self.call(decorator, (value,), {})
        self.bind(node.name, value, frame)

    def build_class(self, name: str, bases: tuple[Any, ...], names: dict[str, Any], frame: CallFrame) -> Class:
        """Make a class; its functions know it, for ``super``."""
        bases = tuple(base for base in bases if base is not object and not _is_generic(base))
        for each in names:
            if each.startswith("__") and each not in _CLASS_NAMES:
                raise Violation("private name", f"A class defines `{each}`.")
        if "__slots__" in names and not any(isinstance(base, Native) for base in bases):
            raise unproved("The evaluator knows no `__slots__`.")
        made = Class(name, bases, names, frame.module, self)
        if not any(extension(made) for extension in self.make_class):
            for base in bases:
                if not isinstance(base, Class):
                    raise Violation("class", f"A class cannot derive from `{type_name(base)}`.")
            made.real = next((base.real for base in bases if base.real is not None), None)
        return made

    def _with(self, node: ast.With, frame: CallFrame) -> None:
        self._with_items(node, 0, frame)

    def _with_items(self, node: ast.With, place: int, frame: CallFrame) -> None:
        if place == len(node.items):
            self.body(node.body, frame)
            return
        item = node.items[place]
        manager = self.value(item.context_expr, frame)

        def inner(value: Any) -> None:
            if item.optional_vars is not None:
                self.store(item.optional_vars, value, frame)
            self._with_items(node, place + 1, frame)

        if isinstance(manager, ContextCall):
            self._run_manager(manager, inner)
        elif isinstance(manager, Instance):
            self._run_instance(manager, inner)
        elif isinstance(manager, _MANAGERS):
            with manager as value:
                inner(value)
        else:
            raise unproved(f"The evaluator enters no {type_name(manager)}.")

    def _run_instance(self, manager: Instance, inner: Callable[[Any], None]) -> None:
        leave = self.bound(manager.type.find("__exit__"), manager, manager.type)
        value = self.bound(manager.type.find("__enter__"), manager, manager.type)()
        launches = self.launches
        try:
            inner(value)
        except Violation:
            raise
        except FLOW:
            leave(None, None, None)
            raise
        except Exception as error:
            self._check_caught(error, launches)
            if self.truth(leave(Native("type", type(error)), error, None)):
                raise unproved("The evaluator lets no `__exit__` swallow an error.") from None
            raise
        leave(None, None, None)

    def _run_manager(self, manager: ContextCall, inner: Callable[[Any], None]) -> None:
        """Carry out a ``contextmanager``: its body, with the statements under the ``with`` where it yields."""
        left: list[BaseException] = []
        yields: list[None] = []
        if manager.is_used:
            raise unproved("The evaluator enters the result of a `contextmanager` once.")
        manager.is_used = True

        def on_yield(value: Any) -> None:
            if yields:
                raise RuntimeError("generator didn't stop")
            yields.append(None)
            try:
                inner(value)
            except FLOW as flow:  # the generator goes on as after any end of the block, and then the block is left
                left.append(flow)

        self.call_function(manager.function, manager.args, manager.named, on_yield)
        if not yields:
            raise RuntimeError("generator didn't yield")
        if left:
            raise left[0]

    def _check_caught(self, error: Exception, launches: int) -> None:
        """Refuse a program that goes on after an error which differs under CPython, or after a launch."""
        if self.launches != launches:
            raise Violation(
                "try around a launch", "A `try` that stands around a launch could hide a fallback."
            ) from None
        if isinstance(error, RecursionError | MemoryError):
            raise unproved("It catches that it ran out of memory or of stack.") from None

    def _try(self, node: ast.Try, frame: CallFrame) -> None:
        touched, self.saw_call = self.saw_call, False
        try:
            launches = self.launches
            try:
                self.body(node.body, frame)
            except FLOW:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the program's own `except` may catch
                self._check_caught(error, launches)
                if self.saw_call:
                    self._forget_levels(node.body, frame)
                self._handle(node, error, frame)
            else:
                self._note_handlers(node, None, frame)
                self.body(node.orelse, frame)
        finally:
            hangs = bool(node.handlers) and self._mark_exits((node,), frame, self.saw_call)
            self.saw_call = self.saw_call or touched
            if self.broken is None:
                self.body(node.finalbody, frame)
            if hangs:
                self._forget_levels((node,), frame)

    def _handle(self, node: ast.Try, error: Exception, frame: CallFrame) -> None:
        self.handling.append(error)
        try:
            for handler in node.handlers:
                if handler.type is None or isinstance(error, self._error_types(self.value(handler.type, frame))):
                    self._note_handlers(node, handler, frame)
                    if handler.name is None:
                        self.body(handler.body, frame)
                        return
                    self.bind(handler.name, error, frame)
                    try:
                        self.body(handler.body, frame)
                    finally:
                        frame.names.pop(handler.name, None)
                    return
        finally:
            self.handling.pop()
        raise error

    def _error_types(self, value: Any) -> tuple[type, ...]:
        each = value if isinstance(value, tuple) else (value,)
        types = tuple(item.real if isinstance(item, Class) else item for item in each)
        if not all(isinstance(item, type) and issubclass(item, BaseException) for item in types):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
        return types

    def _match(self, node: ast.Match, frame: CallFrame) -> None:
        subject, level = self.value(node.subject, frame), self.last_level
        hangs = self._mark_exits((node,), frame, level)
        try:
            self._match_cases(node, (subject, level), frame)
        finally:
            if hangs:
                self._forget_levels((node,), frame)

    def _match_cases(self, node: ast.Match, of: tuple[Any, int], frame: CallFrame) -> None:
        for at, case in enumerate(node.cases):
            names: dict[str, Any] = {}
            later = node.cases[at + 1 :]
            if only_raises(case.body) or (later and all(only_raises(each.body) for each in later)):
                self.refusing |= set(ast.walk(case.pattern))
                if case.guard is not None:
                    self._refuse(case.guard, frame)
            if self._matches(case.pattern, of, names, frame):
                for name, value in names.items():
                    self.bind(name, value, frame, of[1])
                if case.guard is None or self._decide(case.guard, frame):
                    if case.guard is not None and self._mark_exits((node,), frame, self.last_level):
                        self._forget_levels((node,), frame)
                    self.body(case.body, frame)
                    return

    def _matches(self, pattern: ast.pattern, of: tuple[Any, int], names: dict[str, Any], frame: CallFrame) -> bool:
        """Whether a value fits, with what it hangs on; each pattern that may not fit notes how it ended."""
        fits = self._fits(pattern, of, names, frame)
        if not isinstance(pattern, ast.MatchAs) or pattern.pattern is not None:
            self._note_decision(pattern, of[1], fits, frame)
        return fits

    def _fits(self, pattern: ast.pattern, of: tuple[Any, int], names: dict[str, Any], frame: CallFrame) -> bool:
        subject, level = of
        if isinstance(pattern, ast.MatchValue):
            return self.truth(self._compared("Eq", subject, self.value(pattern.value, frame)))
        if isinstance(pattern, ast.MatchSingleton):
            return subject is pattern.value
        if isinstance(pattern, ast.MatchOr):
            fits = self._fits if is_word(subject) else self._matches
            return any(fits(each, of, names, frame) for each in pattern.patterns)
        if isinstance(pattern, ast.MatchAs):
            if pattern.pattern is not None and not self._matches(pattern.pattern, of, names, frame):
                return False
            if pattern.name is not None:
                names[pattern.name] = subject
            return True
        if isinstance(pattern, ast.MatchSequence) and not any(isinstance(p, ast.MatchStar) for p in pattern.patterns):
            if isinstance(subject, range | torch.Tensor | Instance):
                raise unproved(f"The evaluator matches no {type_name(subject)} with a sequence.")
            if not isinstance(subject, list | tuple) or len(subject) != len(pattern.patterns):
                return False
            parts = zip(pattern.patterns, subject, strict=True)
            return all(self._matches(each, (item, level), names, frame) for each, item in parts)
        if isinstance(pattern, ast.MatchClass) and not pattern.patterns and not pattern.kwd_patterns:
            return bool(self.is_instance(subject, self.value(pattern.cls, frame)))
        raise unproved(f"The evaluator knows no `{type(pattern).__name__}` in a `match`.")

    _statements: ClassVar[dict[type[ast.AST], Callable[..., None]]] = {
        ast.Expr: _expr, ast.Assign: _assign, ast.AnnAssign: _ann_assign,
        ast.AugAssign: _aug_assign, ast.If: _if, ast.For: _for, ast.While: _while,
        ast.Break: _break, ast.Continue: _continue, ast.Return: _return,
        ast.Pass: _pass, ast.Assert: _assert, ast.Raise: _raise, ast.Delete: _delete,
        ast.Global: _outer, ast.Nonlocal: _outer, ast.Import: _import,
        ast.ImportFrom: _import_from, ast.FunctionDef: _function_def, ast.ClassDef: _class_def,
        ast.With: _with, ast.Try: _try, ast.Match: _match,
    }  # fmt: skip


def _is_generic(value: Any) -> bool:
    return isinstance(value, TypeAnnotation) and value.path in ("typing.Generic", "typing.Protocol")
