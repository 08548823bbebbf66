"""Evaluates a program's syntax tree: statements, expressions and calls, on plain values, tensors and kernels.

What CPython does with the same text is done here by the runner's own code, over the members that ``language`` lists. Nothing that
outlives a call can be changed once its module is loaded, so that a call depends on its arguments alone.
Source: The Python Language Reference, chapters 6 to 8, for the meaning of each node.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import itertools
import operator
import string
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import Any, ClassVar

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.contracts.verify import Status
from gpu_runner.program import language
from gpu_runner.program.budget import (
    LOOKS_AT_NONE,
    SIZED,
    Budget,
    bound_operands,
    bound_rounding,
    bounded,
    bounded_format,
)
from gpu_runner.program.coverage import (
    BOTH,
    FAILED,
    HELD,
    MOST_ITEMS,
    Decisions,
    Place,
    is_known,
    is_lasting,
    is_made_by_torch,
    is_plain,
    level_of_attribute,
    level_of_result,
    never_fixed,
    only_raises,
    only_spread,
    place_of,
    stored_in,
)
from gpu_runner.program.objects import (
    FIXED,
    GIVEN,
    PASSED,
    Annotation,
    Bound,
    Class,
    Descriptor,
    Facade,
    Frame,
    Function,
    Instance,
    Kind,
    Method,
    Native,
    Super,
    Violation,
    unproved,
)
from gpu_runner.program.scopes import bound_names, declared, is_plain_annotation

MOST_LAUNCHES = 4096
MOST_DEPTH = 120
# What calls the functions that it is given.
_CALL_BACK = frozenset(["functools.partial", "functools.reduce", "itertools.accumulate", "itertools.takewhile", "sort"])
_CLASS_NAMES = language.DUNDER_NAMES | language.METHOD_DUNDERS | {"__annotations__"}
_COMPARISONS = {"eq": "Eq", "ne": "NotEq", "lt": "Lt", "le": "LtE", "gt": "Gt", "ge": "GtE"}
_LOSES = ast.FloorDiv | ast.Mod | ast.RShift | ast.BitAnd  # operators after which much is zero
_ROUNDS = frozenset(["int", "round", "math.floor", "math.ceil", "math.trunc", "math.isqrt"])
_CONTAINERS = (list, tuple, dict, str)  # what is put into one was decided before
# Expressions that hand on what they hang on by a rule of their own; others compute.
_HANDING = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.IfExp, ast.BoolOp, ast.NamedExpr, ast.Tuple, ast.List, ast.Constant,
    ast.Compare, ast.Lambda,
)  # fmt: skip
_HANDS_ON = frozenset(
    ["apply", "cached", "under", "once_differentiable"]
)  # natives that call a function of the program as it is
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_MANAGERS = (nullcontext, AbstractContextManager)
_MISSING = inspect.Parameter.empty


Levels = tuple[int, list[int] | None]  # of a value, and of the items of a tuple


class _Return(BaseException):
    def __init__(self, value: Any, levels: Levels) -> None:
        super().__init__()
        self.value, self.levels = value, levels


class _Break(BaseException):
    pass


class _Continue(BaseException):
    pass


_FLOW = (_Return, _Break, _Continue)

_VIEWS = ("items", "keys", "values")  # of a dictionary


class Evaluator:
    """Carries out one program. ``extensions`` evaluates what torch and Triton see of it: kernels, autograd, modules of layers."""

    def __init__(self, decisions: Decisions | None = None) -> None:
        self.decisions = decisions or Decisions()
        # What the arguments of the call that begins hang on, by place and by name; None where nobody knows.
        self.passed: tuple[list[int], dict[str, int]] | None = None
        self.returned: Levels | None = None  # what hangs on what, of what a function of the program gave last
        self.level = FIXED  # what that hangs on which the expression that is evaluated is made of so far
        self.last = FIXED  # what the last expression's value hangs on
        self.items: list[int] | None = None  # and the items of its tuple
        self.touched = False  # whether something hung on a call since a `try` began
        self.enters = False  # whether the call that begins is the judge's
        self.calling: Place | None = None  # where a call stands that hangs on what the call of the program was given
        self.opens = False  # whether the call that begins is of what may set a context's attributes
        self.refusing: frozenset[ast.AST] = frozenset()  # conditions of what does nothing but raise
        self.line: int | None = None
        self.path: str | None = None
        self.budget = Budget()
        self.depth = 0
        self.loading = 0
        self.opaque = 0  # open calls of the own operators of a program: torch shows nothing of what is within them
        self.launches = 0
        self.broken: Violation | None = None  # once a program left its language, nothing more of it is evaluated
        self.handling: list[Exception] = []  # what a bare ``raise`` raises again
        self.frozen: dict[int, Any] = {}  # by identity; keeps what it names alive
        # Models of members, by full name. As values they are called by native code too, such as ``map``.
        self.special: dict[str, Callable[..., Any]] = {
            "getattr": lambda *args: self._by_name("getattr", args),
            "hasattr": lambda *args: self._by_name("hasattr", args),
            "setattr": lambda *args: self._by_name("setattr", args),
            "isinstance": self.is_instance,
            "iter": lambda value: iter(self.iterate(value)),
            "callable": self.is_callable,
            **self.budget.models(functools.partial(self._operate, language.BINARY)),
            **{f"operator.{name}": functools.partial(self._compared, node) for name, node in _COMPARISONS.items()},
            "operator.getitem": self.item,
        }
        self.on_host: Callable[[Any], Any] | None = None  # puts on the host what a library is asked to put on a GPU
        self.members: dict[str, Any] = {}  # of libraries, once each, so that a member is itself
        self.attribute_of: list[
            Callable[[Any, str], Any]
        ] = []  # of values that an extension knows; NotImplemented if it does not
        self.set_attribute_of: list[Callable[[Any, str, Any], bool]] = []
        self.make_class: list[Callable[[Class], bool]] = []  # gives a class of the program its Python class
        self.import_module: Callable[[Frame, str, int], Any] = _no_imports

    # -- statements

    def body(self, statements: Sequence[ast.stmt], frame: Frame) -> None:
        """Carry out statements in order."""
        for statement in statements:
            self.statement(statement, frame)

    def statement(self, node: ast.stmt, frame: Frame) -> None:
        """Carry out one statement; an error that leaves it carries its line."""
        self._step(node, frame)
        try:
            handler = self._statements.get(type(node))
            if handler is None:
                raise unproved(f"`{type(node).__name__}` is no statement that the evaluator knows.")
            handler(self, node, frame)
        except _FLOW:
            raise
        except BaseException as error:
            self._locate(error, node, frame)
            if isinstance(error, Violation):
                self.broken = error
            raise

    def _locate(self, error: BaseException, node: ast.AST, frame: Frame) -> None:
        if not hasattr(error, "program_line"):
            error.program_line = (frame.module.path, getattr(node, "lineno", None))  # type: ignore[attr-defined]
        if isinstance(error, Violation) and error.line is None:
            error.path, error.line = frame.module.path, getattr(node, "lineno", None)

    def launch(self) -> None:
        """Count a launch."""
        self.launches += 1
        if self.launches > MOST_LAUNCHES:
            raise Violation("endless", f"The host code launches more than {MOST_LAUNCHES:,} kernels for one call.")

    def _step(self, node: ast.AST, frame: Frame) -> None:
        self.line, self.path = getattr(node, "lineno", self.line), frame.module.path
        if self.broken is not None:
            raise self.broken
        self.budget.step()

    def _expr(self, node: ast.Expr, frame: Frame) -> None:
        self.value(node.value, frame)

    def _assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.value(node.value, frame)
        level, items = self.last, self.items
        for target in node.targets:
            self.store(target, value, frame, level, items)

    def _forget(self, statements: Sequence[ast.stmt], frame: Frame) -> None:
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

    def _hang(self, statements: Sequence[ast.stmt], frame: Frame, level: int) -> bool:
        """Whether it hangs on the call if some statements are carried out; then so does what they leave."""
        if level == FIXED or self.loading:
            return False
        for statement in statements:
            stored = stored_in(statement)
            frame.exits = GIVEN if stored.returns else frame.exits
            if stored.breaks and frame.loops:
                frame.loops[-1] = GIVEN
        return True

    def _ann_assign(self, node: ast.AnnAssign, frame: Frame) -> None:
        self._check_annotation(node.annotation, frame)
        if isinstance(node.target, ast.Name) and frame.kind is Kind.type:
            annotations = frame.names.setdefault("__annotations__", {})
            annotations[node.target.id] = ast.unparse(node.annotation)
        if node.value is not None:
            value = self.value(node.value, frame)
            self.store(node.target, value, frame, self.last, self.items)

    def _aug_assign(self, node: ast.AugAssign, frame: Frame) -> None:
        target, level = node.target, GIVEN
        if isinstance(target, ast.Name):
            left: Any = self.load(target.id, frame)
            level = self.level_of_name(target.id, frame)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, frame)
            left = self.attribute(owner, target.attr)
        else:
            owner, key = self.value(target.value, frame), self.value(target.slice, frame)
            left = self.item(owner, key)
        if isinstance(left, list | dict | set):
            self.check_mutable(left)
        right = self.value(node.value, frame)
        value = self._operate(language.IN_PLACE, type(node.op).__name__, left, right)
        level = _made(value, max(level, self.last))
        self.level = level
        self._note_in_place(node, left, value, frame)
        if isinstance(target, ast.Name):
            self.store(target, value, frame, level)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(owner, target.attr, value)
        else:
            self.set_item(owner, key, value)

    def _note_in_place(self, node: ast.AugAssign, left: Any, value: Any, frame: Frame) -> None:
        """Note what ``target op= value`` computes as what ``target op value`` does."""
        if not self.loading:
            whole = _in_full(node)
            self.decisions.see(whole.left, left)
            self._note_operation(whole, value, frame)
            self.decisions.see(whole, value)

    def _if(self, node: ast.If, frame: Frame) -> None:
        if only_raises(node.body) or only_raises(node.orelse):
            self._refuse(node.test)
        held, level = self._decide(node.test, frame), self.last
        hangs = self._hang((node,), frame, level)
        self.body(node.body if held else node.orelse, frame)
        if hangs:
            self._forget((node,), frame)

    def _refuse(self, test: ast.expr) -> None:
        """Leave a condition out of the decisions: on its other side nothing is computed. What it binds may be used elsewhere."""
        if test not in self.refusing:
            bound = {part for each in ast.walk(test) if isinstance(each, ast.NamedExpr) for part in ast.walk(each)}
            self.refusing |= set(ast.walk(test)) - bound

    def _decide(self, node: ast.expr, frame: Frame) -> bool:
        """Whether a condition holds; ``last`` says what that hangs on."""
        value = self.value(node, frame)
        level = self.last
        held = self._holds(node, value, frame, level)
        self.last = level
        return held

    def _holds(self, node: ast.expr, value: Any, frame: Frame, level: int) -> bool:
        """Whether a value counts as true; comparisons, and what joins or turns them, note by themselves how they ended."""
        held = self.truth(value)
        is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        if not (is_not or isinstance(node, ast.Compare | ast.BoolOp) or isinstance(value, _CONTAINERS)):
            self._decided(node, level, held, frame)
        return held

    def _decided(self, node: ast.expr | ast.pattern, level: int, held: bool, frame: Frame) -> None:
        """Note how a decision ended, by what it hangs on."""
        if level and not self.loading and node not in self.refusing:
            always = held and _asks_for_a_tensor(node)  # as the arguments of a problem are
            self.decisions.add(frame.module.path, node, BOTH if always else HELD if held else FAILED)

    def _happens(self, node: ast.expr, level: int, does: bool, frame: Frame, what: str) -> None:
        """Note whether something happens that always may."""
        if level and not self.loading and node not in self.refusing:
            self.decisions.add(frame.module.path, node, BOTH if does else FAILED, what)

    def _computes(self, node: ast.expr, value: Any, frame: Frame, level: int) -> None:
        """Know an expression as one whose value might change from call to call, as those do that it is computed of."""
        known = self.decisions.computed
        if level and not self.loading and node not in known and node not in self.refusing and is_known(value):
            known[node] = frame.module.path

    def _looks_up(self, node: ast.expr, of: tuple[Any, int], at_key: tuple[Any, int], value: Any, frame: Frame) -> None:
        """Note which entry is taken of a table, where the call says which; each with what it hangs on."""
        (owner, table), (key, level) = of, at_key
        is_table = isinstance(owner, tuple | list | dict | str | range) and not isinstance(owner, torch.Size)
        if not is_table or not level or isinstance(key, slice):
            self._computes(node, value, frame, max(table, level))
            return
        if self.loading or node in self.refusing:
            return
        if len(owner) > MOST_ITEMS:
            self.decisions.add(frame.module.path, node, FAILED, f"each of its {len(owner)} entries")
            return
        taken = value
        for at, entry in owner.items() if isinstance(owner, dict) else enumerate(owner):
            if isinstance(at, torch.dtype) and level == PASSED:
                continue  # a verdict names the dtypes in which it judged
            if is_plain(entry) and is_plain(taken):
                is_taken, what = entry == taken, repr(entry)
            else:
                is_taken, what = entry is taken, f"the entry {at!s}"
            self.decisions.add(frame.module.path, node, BOTH if is_taken else FAILED, what)

    def _for(self, node: ast.For, frame: Frame) -> None:
        items = self.value(node.iter, frame)
        level = self._level_of_items(node.iter, frame)
        self._happens(node.iter, level, False, frame, "not empty")

        frame.loops.append(level)
        try:
            for item in self.iterate(items):
                self._happens(node.iter, level, True, frame, "not empty")
                self.store(node.target, item, frame, level)
                if self._breaks(node, frame):
                    return
            self.body(node.orelse, frame)
        finally:
            self._leave_loop(node, frame)

    def _while(self, node: ast.While, frame: Frame) -> None:
        frame.loops.append(FIXED)
        try:
            while self._goes_on(node, frame):
                self._step(node, frame)
                if self._breaks(node, frame):
                    return
            self.body(node.orelse, frame)
        finally:
            self._leave_loop(node, frame)

    def _goes_on(self, node: ast.While, frame: Frame) -> bool:
        held = self._decide(node.test, frame)
        frame.loops[-1] = max(frame.loops[-1], self.last)
        return held

    def _breaks(self, node: ast.For | ast.While, frame: Frame) -> bool:
        """Carry out the body of a loop once; whether it breaks off."""
        try:
            self.body(node.body, frame)
        except _Break:
            return True
        except _Continue:
            pass
        if frame.loops[-1]:
            self._forget(node.body, frame)
        return False

    def _leave_loop(self, node: ast.For | ast.While, frame: Frame) -> None:
        """What a loop binds hangs on what decides how often, or how far, it goes round."""
        if frame.loops.pop():
            frame.exits = GIVEN if stored_in(node).returns else frame.exits
            self._forget((node,), frame)

    def _break(self, node: ast.Break, frame: Frame) -> None:
        raise _Break

    def _continue(self, node: ast.Continue, frame: Frame) -> None:
        raise _Continue

    def _return(self, node: ast.Return, frame: Frame) -> None:
        value: Any = None if node.value is None else self.value(node.value, frame)
        raise _Return(value, (FIXED, None) if node.value is None else (self.last, self.items))

    def _pass(self, node: ast.Pass, frame: Frame) -> None:
        return

    def _assert(self, node: ast.Assert, frame: Frame) -> None:
        self._refuse(node.test)
        if not self.truth(self.value(node.test, frame)):
            raise AssertionError(*([] if node.msg is None else [self.value(node.msg, frame)]))

    def _raise(self, node: ast.Raise, frame: Frame) -> None:
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

    def _delete(self, node: ast.Delete, frame: Frame) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                if frame.kind is Kind.module or target.id in frame.outer or target.id not in frame.names:
                    raise unproved("The evaluator deletes the names of a function alone, where they are bound.")
                del frame.names[target.id]
            elif isinstance(target, ast.Subscript):
                owner = self.check_mutable(self.value(target.value, frame))
                self.budget.spend(len(owner) if isinstance(owner, list) else 0)
                del owner[self.value(target.slice, frame)]
            else:
                raise unproved("The evaluator deletes names and items alone.")

    def _outer(self, node: ast.Global | ast.Nonlocal, frame: Frame) -> None:
        return  # a declaration, which holds for the whole of its scope: see ``scopes.declared``

    def _import(self, node: ast.Import, frame: Frame) -> None:
        for alias in node.names:
            module = self.import_module(frame, alias.name, 0)
            if alias.asname is None and "." in alias.name:
                module = self.import_module(frame, alias.name.split(".")[0], 0)
            self.bind(alias.asname or alias.name.split(".")[0], module, frame, FIXED)

    def _import_from(self, node: ast.ImportFrom, frame: Frame) -> None:
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

    def _function_def(self, node: ast.FunctionDef, frame: Frame) -> None:
        decorators = [self.value(decorator, frame) for decorator in node.decorator_list]
        value: Any = self.make_function(node, node.name, frame)
        for decorator in reversed(decorators):
            value = self.call(decorator, (value,), {})
        self.bind(node.name, value, frame, GIVEN if decorators else FIXED)

    def _class_def(self, node: ast.ClassDef, frame: Frame) -> None:
        if node.keywords:
            raise Violation("metaclass", "A class takes no metaclass or keyword.")
        decorators = [self.value(decorator, frame) for decorator in node.decorator_list]
        bases = tuple(self.value(base, frame) for base in node.bases)
        bound, outer = declared(node)
        inner = Frame(Kind.type, frame.module, frame, bound=bound, outer=outer)
        self.body(node.body, inner)
        value: Any = self.build_class(node.name, bases, inner.names, frame)
        inner.made = value
        for decorator in reversed(decorators):
            value = self.call(decorator, (value,), {})
        self.bind(node.name, value, frame)

    def build_class(self, name: str, bases: tuple[Any, ...], names: dict[str, Any], frame: Frame) -> Class:
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
                    raise Violation("class", f"A class cannot derive from `{_name_of(base)}`.")
            made.real = next((base.real for base in bases if base.real is not None), None)
        return made

    def _with(self, node: ast.With, frame: Frame) -> None:
        self._with_items(node, 0, frame)

    def _with_items(self, node: ast.With, place: int, frame: Frame) -> None:
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
            raise unproved(f"The evaluator enters no {_name_of(manager)}.")

    def _run_instance(self, manager: Instance, inner: Callable[[Any], None]) -> None:
        leave = self.bound(manager.type.find("__exit__"), manager, manager.type)
        value = self.bound(manager.type.find("__enter__"), manager, manager.type)()
        launches = self.launches
        try:
            inner(value)
        except Violation:
            raise
        except _FLOW:
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
            except _FLOW as flow:  # the generator goes on as after any end of the block, and then the block is left
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

    def _try(self, node: ast.Try, frame: Frame) -> None:
        touched, self.touched = self.touched, False
        try:
            launches = self.launches
            try:
                self.body(node.body, frame)
            except _FLOW:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the program's own `except` may catch
                self._check_caught(error, launches)
                if self.touched:
                    self._forget(node.body, frame)
                self._handle(node, error, frame)
            else:
                self._note_handlers(node, None, frame)
                self.body(node.orelse, frame)
        finally:
            hangs = bool(node.handlers) and self._hang((node,), frame, self.touched)
            self.touched = self.touched or touched
            if self.broken is None:
                self.body(node.finalbody, frame)
            if hangs:
                self._forget((node,), frame)

    def _note_handlers(self, node: ast.Try, taken: ast.ExceptHandler | None, frame: Frame) -> None:
        """Note which handler is taken of a `try` in which something hung on the call."""
        for handler in node.handlers if self.touched and not self.loading else ():
            if not only_raises(handler.body):
                kind = "" if handler.type is None else f" {ast.unparse(handler.type)}"
                place = (frame.module.path, handler.lineno, handler.col_offset, False, f"`except{kind}` is taken")
                self.decisions.add_at(place, BOTH if handler is taken else FAILED)

    def _handle(self, node: ast.Try, error: Exception, frame: Frame) -> None:
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

    def _match(self, node: ast.Match, frame: Frame) -> None:
        subject, level = self.value(node.subject, frame), self.last
        hangs = self._hang((node,), frame, level)
        try:
            self._match_cases(node, (subject, level), frame)
        finally:
            if hangs:
                self._forget((node,), frame)

    def _match_cases(self, node: ast.Match, of: tuple[Any, int], frame: Frame) -> None:
        subject, level = of
        for at, case in enumerate(node.cases):
            names: dict[str, Any] = {}
            later = node.cases[at + 1 :]
            if only_raises(case.body) or (later and all(only_raises(each.body) for each in later)):
                self.refusing |= set(ast.walk(case.pattern)) | set(ast.walk(case.guard or case.pattern))
            fits = self._matches(case.pattern, subject, names, frame)
            if not isinstance(case.pattern, ast.MatchAs) or case.pattern.pattern is not None:
                self._decided(case.pattern, level, fits, frame)
            if fits:
                for name, value in names.items():
                    self.bind(name, value, frame, level)
                if case.guard is None or self._decide(case.guard, frame):
                    if case.guard is not None and self._hang((node,), frame, self.last):
                        self._forget((node,), frame)
                    self.body(case.body, frame)
                    return

    def _matches(self, pattern: ast.pattern, subject: Any, names: dict[str, Any], frame: Frame) -> bool:
        if isinstance(pattern, ast.MatchValue):
            return self.truth(self._compared("Eq", subject, self.value(pattern.value, frame)))
        if isinstance(pattern, ast.MatchSingleton):
            return subject is pattern.value
        if isinstance(pattern, ast.MatchOr):
            return any(self._matches(each, subject, names, frame) for each in pattern.patterns)
        if isinstance(pattern, ast.MatchAs):
            if pattern.pattern is not None and not self._matches(pattern.pattern, subject, names, frame):
                return False
            if pattern.name is not None:
                names[pattern.name] = subject
            return True
        if isinstance(pattern, ast.MatchSequence) and not any(isinstance(p, ast.MatchStar) for p in pattern.patterns):
            if isinstance(subject, range | torch.Tensor | Instance):
                raise unproved(f"The evaluator matches no {_name_of(subject)} with a sequence.")
            if not isinstance(subject, list | tuple) or len(subject) != len(pattern.patterns):
                return False
            return all(self._matches(p, s, names, frame) for p, s in zip(pattern.patterns, subject, strict=True))
        if isinstance(pattern, ast.MatchClass) and not pattern.patterns and not pattern.kwd_patterns:
            return bool(self.is_instance(subject, self.value(pattern.cls, frame)))
        raise unproved(f"The evaluator knows no `{type(pattern).__name__}` in a `match`.")

    # -- names

    def bind(self, name: str, value: Any, frame: Frame, level: int = GIVEN) -> None:
        """Bind a name in a scope; ``level``: what the value hangs on."""
        if name.startswith("__") and name not in language.DUNDER_NAMES | language.METHOD_DUNDERS:
            raise Violation("private name", f"It binds `{name}`.")
        where = frame.outer.get(name)
        holder: Frame | None = frame.module.frame if where == "global" else frame
        if where == "nonlocal":
            holder = frame.parent
            while holder is not None and (holder.kind is not Kind.function or name not in holder.bound):
                holder = holder.parent
        if holder is None or id(holder) in self.frozen or (holder.kind is Kind.module and not holder.module.loading):
            raise Violation("remembers between calls", f"It changes `{name}`, which outlives a call.")
        holder.names[name] = value
        holder.levels.pop(name, None)
        is_spread = (
            isinstance(value, list | dict) and frame.function is not None and name in only_spread(frame.function.node)
        )
        level = level if level == GIVEN or self.loading or is_spread else self._kept(value, level)
        if level != GIVEN and holder is frame and not self.loading:
            function = frame.function
            if function is None or name not in never_fixed(function.node):
                holder.levels[name] = level

    def load(self, name: str, frame: Frame) -> Any:
        """Look a name up through its scopes.

        Raises:
            NameError: it stands for nothing. Violation: it is no builtin that the language has.
        """
        found = self.lookup(name, frame)
        return self._builtin(name, frame) if found is _MISSING else found

    def lookup(self, name: str, frame: Frame) -> Any:
        """What the program itself binds a name to; ``inspect.Parameter.empty`` where it binds none.

        Raises:
            NameError: it binds it later, or has deleted it.
        """
        where: Frame | None = frame.module.frame if frame.outer.get(name) == "global" else frame
        inner = True
        while where is not None and where.kind is not Kind.module:
            if where.kind is Kind.function or inner:
                if name in where.names:
                    return where.names[name]
                if where.kind is Kind.type and name in where.bound:
                    break  # a class looks up what it binds itself in its module next
                if name in where.bound and name not in where.outer:
                    raise (UnboundLocalError if inner else NameError)(f"cannot access local variable '{name}'")
                if where.outer.get(name) == "global":
                    break
            inner, where = False, where.parent
        return frame.module.lookup(name)

    def _builtin(self, name: str, frame: Frame) -> Any:
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

    def level_of_name(self, name: str, frame: Frame) -> int:
        """What the value of a name hangs on; see ``lookup``."""
        where: Frame | None = frame if frame.outer.get(name) != "global" else None
        while where is not None and where.kind is not Kind.module:
            if (where.kind is Kind.function or where is frame) and name in where.names:
                return where.levels.get(name, GIVEN)
            if where.outer.get(name) == "global" or (
                where.kind is Kind.type and where is frame and name in where.bound
            ):
                break
            where = where.parent
        return FIXED

    def store(
        self, target: ast.expr, value: Any, frame: Frame, level: int = GIVEN, items: list[int] | None = None
    ) -> None:
        """Assign to a target; ``level`` and ``items``: what the value hangs on, and the items of a tuple."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, frame, level)
        elif isinstance(target, ast.Attribute):
            _check_mangled(target.attr)
            owner = self.value(target.value, frame)
            self.set_attribute(owner, target.attr, value)
            if isinstance(owner, FunctionCtx) and frame.opens:
                owner.__dict__.setdefault("program_levels", {})[target.attr] = self._kept(value, level)
        elif isinstance(target, ast.Subscript):
            self.set_item(self.value(target.value, frame), self.value(target.slice, frame), value)
        elif isinstance(target, ast.Tuple | ast.List):
            self.budget.charge(value)
            values = list(self.iterate(value))
            known = items if items is not None and len(items) == len(values) else [level] * len(values)
            self._unpack(target.elts, values, frame, known)
        else:
            raise unproved(f"The evaluator cannot assign to `{ast.unparse(target)}`.")

    def _unpack(self, targets: list[ast.expr], values: list[Any], frame: Frame, levels: list[int]) -> None:
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

    # -- expressions

    def value(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""
        handler = self._expressions.get(type(node))
        if handler is None:
            raise unproved(f"`{type(node).__name__}` is no expression that the evaluator knows.")
        outer, self.level, self.items = self.level, FIXED, None
        value = handler(self, node, frame)
        if self.loading:
            return value
        self.decisions.see(node, value)
        level = self.level
        if not isinstance(node, _HANDING):
            level = _made(value, level)
        if level:
            self.touched = True
        if not isinstance(node, ast.Tuple | ast.Call):
            self.items = None
        self.last, self.level = level, max(outer, level)
        return value

    def _kept(self, value: Any, level: int) -> int:
        """What a value hangs on under a name, where others may change it."""
        if level != FIXED or is_lasting(value) or id(value) in self.frozen:
            return level
        return PASSED if is_made_by_torch(value) else GIVEN

    def _constant(self, node: ast.Constant, frame: Frame) -> Any:
        return node.value

    def _name(self, node: ast.Name, frame: Frame) -> Any:
        found = self.load(node.id, frame)
        self.level = self.level_of_name(node.id, frame)
        if found is object or found is super or found is type:
            raise Violation("reaches outside", f"`{node.id}` is called where it stands, and never a value.")
        return found

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        _check_mangled(node.attr)
        owner, level = self.value(node.value, frame), self.last
        found = self.attribute(owner, node.attr)
        is_property = self.level > level  # of the program, which computes
        self.level = GIVEN if is_property else level_of_attribute(owner, node.attr, level, found)
        if isinstance(owner, Enum):
            self._computes(node, found, frame, self.level)
        return found

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        owner, table = self.value(node.value, frame), self.last
        key, level = self.value(node.slice, frame), self.last
        value = self.item(owner, key)
        self._note_cuts(node, owner, key, max(table, level), frame)
        if not isinstance(key, slice) and not isinstance(node.slice, ast.Constant | ast.Slice):
            self._looks_up(node, (owner, table), (key, level), value, frame)
        is_item = level == FIXED and (table == FIXED or isinstance(owner, tuple))
        self.level = table if is_item else PASSED if isinstance(owner, torch.Tensor) else GIVEN
        return value

    def _note_cuts(self, node: ast.expr, owner: Any, key: Any, level: int, frame: Frame) -> None:
        """Note of each bound of a slice whether what is sliced ends before it."""
        if not level or self.loading or node in self.refusing:
            return
        sizes = list(
            owner.shape if isinstance(owner, torch.Tensor) else (len(owner),) if isinstance(owner, SIZED) else ()
        )
        keys = [part for part in (key if isinstance(key, tuple) else (key,)) if part is not None]
        dots = next((at for at, part in enumerate(keys) if part is Ellipsis), None)
        if dots is not None:
            keys[dots : dots + 1] = [slice(None)] * (len(sizes) - len(keys) + 1)
        for at, (part, size) in enumerate(zip(keys, sizes, strict=False)):
            for end in ("start", "stop") if isinstance(part, slice) else ():
                bound = getattr(part, end)
                if isinstance(bound, int):
                    *where, text = place_of(frame.module.path, node)
                    self.decisions.cut((*where, text), f"{end} {at}", bound, size)  # type: ignore[arg-type]

    def _slice(self, node: ast.Slice, frame: Frame) -> slice:
        ends = [None if part is None else self.value(part, frame) for part in (node.lower, node.upper, node.step)]
        return slice(*ends)

    def _bin_op(self, node: ast.BinOp, frame: Frame) -> Any:
        left, right = self.value(node.left, frame), self.value(node.right, frame)
        value = self._operate(language.BINARY, type(node.op).__name__, left, right)
        self._note_operation(node, value, frame)
        return value

    def _note_operation(self, node: ast.BinOp, value: Any, frame: Frame) -> None:
        if isinstance(node.op, _LOSES) and isinstance(value, int):
            self._happens(node, self.level, bool(value), frame, "not zero")
        self._computes(node, value, frame, self.level)

    def _operate(self, table: dict[str, Callable[[Any, Any], Any]], name: str, left: Any, right: Any) -> Any:
        if name not in table:
            raise unproved(f"The evaluator knows no operator {name} here.")
        if name == "BitOr" and (_is_annotation(left) or _is_annotation(right)):
            return Annotation("typing.Union", (left, right))  # such as ``Tensor | None``
        for value in (left, right):
            if isinstance(value, Instance | Class | Function):
                raise unproved(f"The evaluator does no arithmetic on a {_name_of(value)}.")
            if isinstance(value, set | frozenset) and name != "Sub":
                self.iterate(value)  # the order of what comes of two sets depends on both
        bound_operands(name, left, right)
        self.budget.charge_operands(left, right, in_place=table is language.IN_PLACE)
        if name == "Mod" and isinstance(left, str):
            self.check_printable(right)
        return bounded(table[name](left, right))

    def _unary_op(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self.value(node.operand, frame)
        if isinstance(node.op, ast.Not):
            level = self.last
            held = self._holds(node.operand, value, frame, level)
            self.level = level
            return not held
        return language.UNARY[type(node.op).__name__](value)

    def _bool_op(self, node: ast.BoolOp, frame: Frame) -> Any:
        ends_on = isinstance(node.op, ast.Or)
        value: Any = None
        level = FIXED
        for each in node.values:
            value = self.value(each, frame)
            level = self.last if level == FIXED else GIVEN
            is_open = each is node.values[-1] and not isinstance(value, bool)  # its truth may be asked by nobody
            ends = is_open or self._holds(each, value, frame, self.last) is ends_on
            self.level = level
            if ends:
                break
        return value

    def _compare(self, node: ast.Compare, frame: Frame) -> Any:
        if (
            isinstance(node.left, ast.Name)
            and node.left.id == "__name__"
            and ast.unparse(node) == "__name__ == '__main__'"
        ):
            return False
        left = self.value(node.left, frame)
        value: Any = True
        level = self.last
        for operator_, each in zip(node.ops, node.comparators, strict=True):
            right = self.value(each, frame)
            name = type(operator_).__name__
            if name in ("Is", "IsNot"):
                _check_identity(left, right)
            value = self._compared(name, left, right)
            level = max(level, self.last)
            if right is None and level == PASSED:
                level = FIXED
            if isinstance(value, bool):
                self._decided(node if len(node.ops) == 1 else each, level, value, frame)
            self.level = level if level == FIXED else _made(value, level)
            if each is not node.comparators[-1] and not self.truth(value):
                return value
            left = right
        return value

    def _compared(self, name: str, left: Any, right: Any) -> Any:
        if name in ("Lt", "LtE", "Gt", "GtE") and (isinstance(left, Instance) or isinstance(right, Instance)):
            raise unproved("The evaluator orders no objects of a class.")
        if name in ("In", "NotIn") and isinstance(right, Class) and right.is_enum:
            right = right.real
        self.budget.charge_compared(name, left, right)
        return language.COMPARE[name](left, right)

    def _if_exp(self, node: ast.IfExp, frame: Frame) -> Any:
        held, hangs = self._decide(node.test, frame), self.last
        value = self.value(node.body if held else node.orelse, frame)
        self.level = GIVEN if hangs else self.last
        return value

    def _items(self, nodes: Sequence[ast.expr], frame: Frame) -> tuple[list[Any], list[int]]:
        """The values of some expressions, and what each hangs on."""
        found: list[Any] = []
        levels: list[int] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                items = self.iterate(self.value(node.value, frame))
                level = self.last
                self.budget.charge(items)
                found += items
                levels += [level] * (len(found) - len(levels))
            else:
                found.append(self.value(node, frame))
                levels.append(self.last)
        return found, levels

    def _tuple(self, node: ast.Tuple, frame: Frame) -> tuple[Any, ...]:
        items, self.items = self._items(node.elts, frame)
        return tuple(items)

    def _list(self, node: ast.List, frame: Frame) -> list[Any]:
        return self._items(node.elts, frame)[0]

    def _set(self, node: ast.Set, frame: Frame) -> set[Any]:
        items, _ = self._items(node.elts, frame)
        self.budget.charge(*items)
        return set(items)

    def _dict(self, node: ast.Dict, frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        levels: list[int] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                made |= self._mapping(self.value(value, frame))
            else:
                given = self.value(key, frame)
                levels.append(self.last)
                self.budget.charge(given)
                made.update([(given, self.value(value, frame))])
        keys = [key for key in node.keys if key is not None]
        if len(keys) == len(node.keys) > 1:
            self._happens(node, max(levels), len(made) < len(keys), frame, "one with equal keys")
        return made

    def _mapping(self, value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise unproved(f"The evaluator unpacks no {_name_of(value)} with two stars.")
        self.budget.spend(len(value))
        return value

    def _comprehended(self, node: Any, frame: Frame, take: Callable[[Frame], Any]) -> Iterator[None]:
        """Go through a comprehension, an item at a time; ``take`` takes each."""
        names = frozenset(name.id for g in node.generators for name in ast.walk(g.target) if isinstance(name, ast.Name))
        inner = Frame(Kind.function, frame.module, frame, {}, names, {}, frame.function, is_comprehension=True)
        first = iter(self.iterate(self.value(node.generators[0].iter, frame)))
        outermost = self._level_of_items(node.generators[0].iter, frame)

        def walk(place: int) -> Iterator[Any]:
            if place == len(node.generators):
                yield take(inner)
                return
            generator = node.generators[place]
            items = first if place == 0 else self.iterate(self.value(generator.iter, inner))
            level = outermost if place == 0 else self.last
            self._happens(generator.iter, level, False, frame, "not empty")
            for item in items:
                self._step(node, frame)
                self._happens(generator.iter, level, True, frame, "not empty")
                self.store(generator.target, item, inner, level)
                if all(self._decide(test, inner) for test in generator.ifs):
                    yield from walk(place + 1)

        return walk(0)

    def _level_of_items(self, node: ast.expr, frame: Frame) -> int:
        """What the items of an iterable hang on, which was evaluated last: on nothing those of keywords that no call wrote."""
        is_view = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS
        of = node.func.value if is_view else node  # type: ignore[attr-defined]
        rest = None if frame.function is None else frame.function.node.args.kwarg
        if rest is None or not isinstance(of, ast.Name) or of.id != rest.arg:
            return self.last
        return FIXED if self.level_of_name(rest.arg, frame) == FIXED else self.last

    def _collected(self, node: Any, frame: Frame, make: Callable[[Frame], Any]) -> list[Any]:
        try:
            return list(self._comprehended(node, frame, make))
        except RuntimeError as error:
            if isinstance(error.__cause__, StopIteration):  # which leaves no comprehension but a generator so
                raise error.__cause__ from None
            raise

    def _list_comp(self, node: ast.ListComp, frame: Frame) -> list[Any]:
        return self._collected(node, frame, lambda inner: self.value(node.elt, inner))

    def _set_comp(self, node: ast.SetComp, frame: Frame) -> set[Any]:
        return set(self._collected(node, frame, lambda inner: self.value(node.elt, inner)))

    def _dict_comp(self, node: ast.DictComp, frame: Frame) -> dict[Any, Any]:
        def pair(inner: Frame) -> tuple[Any, Any]:
            return self.value(node.key, inner), self.value(node.value, inner)

        return dict(self._collected(node, frame, pair))

    def _generator(self, node: ast.GeneratorExp, frame: Frame) -> Iterator[Any]:
        return self._comprehended(node, frame, lambda inner: self.value(node.elt, inner))

    def _named(self, node: ast.NamedExpr, frame: Frame) -> Any:
        value = self.value(node.value, frame)
        self.level = self.last
        self.bind(node.target.id, value, _own_frame(frame))
        return value

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Function:
        return self.make_function(node, "<lambda>", frame)

    def _joined(self, node: ast.JoinedStr, frame: Frame) -> str:
        text = "".join(str(self.value(part, frame)) for part in node.values)
        self._computes(node, text, frame, self.level)
        return text

    def _formatted(self, node: ast.FormattedValue, frame: Frame) -> str:
        value = self.check_printable(self.value(node.value, frame))
        if node.conversion != -1:
            value = {115: str, 114: repr, 97: ascii}[node.conversion](value)  # type: ignore[operator]
        return format(value, bounded_format("" if node.format_spec is None else self.value(node.format_spec, frame)))

    def _yield(self, node: ast.Yield, frame: Frame) -> None:
        holder = _own_frame(frame)
        if holder.on_yield is None:
            raise unproved("`yield` stands in a `contextmanager` alone.")
        holder.on_yield(None if node.value is None else self.value(node.value, frame))
        self.level = GIVEN  # whatever was done meanwhile

    def _starred(self, node: ast.Starred, frame: Frame) -> Any:
        raise unproved("A star stands in calls, displays and assignments alone.")

    def _call(self, node: ast.Call, frame: Frame) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and "super" not in frame.names:
            return self._super(node, frame)
        if isinstance(node.func, ast.Name):
            function, level = self.load(node.func.id, frame), self.level_of_name(node.func.id, frame)
        else:
            function, level = self.value(node.func, frame), self.last
        if getattr(function, "name", "") == "logging.getLogger":
            return self.call(function, (), {})
        args, levels = self._items(node.args, frame)
        named: dict[str, Any] = {}
        by_name: dict[str, int] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                given = self._mapping(self.value(keyword.value, frame))
                by_name |= dict.fromkeys(given, self.last)
                for name in given:
                    if name in named:
                        raise TypeError(f"got multiple values for keyword argument '{name}'")
                named |= given
            else:
                named[keyword.arg] = self.value(keyword.value, frame)
                by_name[keyword.arg] = self.last
        self._step(node, frame)
        takes_levels = _takes_levels(function)
        self.passed, self.returned = (levels, by_name) if takes_levels else None, None
        self.level = max([level, *levels, *by_name.values()])
        before = list(function.owner) if name_of(function) == "sort" and isinstance(function.owner, list) else None
        outer, self.calling = self.calling, self._begins(node, function, args, frame)
        try:
            value = self.call(function, tuple(args), named)
        finally:
            self.passed, self.calling = None, outer
        if self.loading:
            return value
        of = self.level  # what it computes with, and what the functions that it called did
        if takes_levels:
            hangs, self.items = (GIVEN, None) if self.returned is None else self.returned
            self.level = GIVEN if level else hangs
        else:
            self.items = None
            self.level = level_of_result(function, of, value)
            if of == PASSED and _asks_for_a_tensor(node):
                self.level = FIXED
            self._note_call(node, function, args, (value, max(of, self.level)), frame, levels)
        if before is not None:
            self._note_sorted(node, before, function.owner, frame, of)
        if name_of(function) == "save_for_backward" and isinstance(function.owner, FunctionCtx):
            function.owner.__dict__.setdefault("program_levels", {})["saved_tensors"] = max(PASSED, *levels)
        return value

    def _begins(self, node: ast.Call, function: Any, args: Sequence[Any], frame: Frame) -> Place | None:
        """The place of a call that hangs on the call of the program. Note what it looks up of a table that it changes."""
        if not self.level or self.loading or node in self.refusing:
            return None
        if name_of(function) in ("pop", "setdefault") and isinstance(function.owner, dict) and args:
            self._note_look_up(node, function.owner, args, function.owner.get(args[0]), frame, [self.level])
        return place_of(frame.module.path, node)

    def _note_call(
        self,
        node: ast.Call,
        function: Any,
        args: Sequence[Any],
        made: tuple[Any, int],
        frame: Frame,
        levels: Sequence[int],
    ) -> None:
        name, (value, level) = name_of(function), made
        if isinstance(value, bool):  # such as `operator.eq`, which compares too
            self._decided(node, self.level, value, frame)
        elif _is_builtin(function) and name in ("min", "max", "sorted"):
            self._note_order(node, name, args, value, frame, level)
        elif name in ("get", "operator.getitem") and isinstance(function, Native):
            self._note_look_up(node, function.owner, args, value, frame, levels)
        elif function is zip or name == "itertools.zip_longest":
            self._note_ends(node, name, args, level, frame)
        elif not (name == "len" and isinstance(args[0], torch.Size)):
            if function in (int, float) and args and isinstance(args[0], str):
                self._happens(node, level, False, frame, "made of anything but text")
            if name in _ROUNDS and isinstance(value, int):
                self._happens(node, level, bool(value), frame, "not zero")
            if name == "divmod":
                self._happens(node, level, bool(value[0]), frame, "more than a remainder")
            self._computes(node, value, frame, level)

    def _note_order(self, node: ast.Call, name: str, args: Sequence[Any], value: Any, frame: Frame, level: int) -> None:
        """Note which of some values is the least or largest, or whether they are in order."""
        of: Sequence[ast.expr | None] = node.args
        items = args
        if len(args) == 1 and isinstance(args[0], list | tuple) and len(args[0]) <= MOST_ITEMS:
            items = list(args[0])
            display = node.args[0]
            of = display.elts if isinstance(display, ast.Tuple | ast.List) else [None] * len(items)
        if node.keywords or len(of) != len(items) or len(of) < 2:
            self._computes(node, value, frame, level)
        elif name == "sorted":
            self._note_sorted(node, items, value, frame, level)
        else:
            for at, (each, item) in enumerate(zip(of, items, strict=True)):
                what = f"the {name}imum" if each is not None else f"item {at}"
                self._happens(each or node, level, bool(item == value), frame, what)

    def _note_ends(self, node: ast.Call, name: str, args: Sequence[Any], level: int, frame: Frame) -> None:
        """Note which of some sequences ends what goes through all at once; of one whose length nobody knows, that it never does."""
        if len(args) < 2 or any(keyword.arg == "strict" for keyword in node.keywords):
            return
        sizes = [operator.length_hint(each, -1) for each in args]
        last = min if name == "zip" else max
        for at, size in enumerate(sizes):
            self._happens(node, level, size == last(sizes) >= 0, frame, f"ended by item {at}")

    def _note_sorted(
        self, node: ast.Call, before: Sequence[Any], after: Sequence[Any], frame: Frame, level: int
    ) -> None:
        if len(before) > 1:
            self._happens(node, level, list(after) == list(before), frame, "in the order given")
            self._happens(node, level, list(after) != list(before), frame, "in another order")

    def _note_look_up(
        self, node: ast.Call, owner: Any, args: Sequence[Any], value: Any, frame: Frame, levels: Sequence[int]
    ) -> None:
        """Note what ``table.get(key)`` and ``getitem(table, key)`` look up."""
        if isinstance(owner, dict):
            self._happens(node, levels[0], args[0] in owner, frame, "found")
            if args[0] in owner:
                self._looks_up(node, (owner, FIXED), (args[0], levels[0]), value, frame)
        elif len(args) == 2:
            self._looks_up(node, (args[0], levels[0]), (args[1], levels[1]), value, frame)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let the judge call the program within a call, as torch does to compute a forward again whose tensors are asked for."""
        kept = self.level, self.last, self.items, self.returned, self.passed
        self.enters, self.passed = True, None
        try:
            yield
        finally:
            self.enters = False
            self.level, self.last, self.items, self.returned, self.passed = kept

    def pass_first(self, level: int) -> None:
        """Know that an argument goes before those that were passed."""
        if self.passed is not None:
            self.passed[0].insert(0, level)

    def _super(self, node: ast.Call, frame: Frame) -> Super:
        if node.args:
            (owner, instance), _ = self._items(node.args, frame)
        else:
            holder = _own_frame(frame)
            around: Frame | None = holder
            while around is not None and around.kind is not Kind.type:
                around = around.parent
            if around is None or holder.function is None or not isinstance(holder.function.node, ast.FunctionDef):
                raise RuntimeError("super(): no arguments")
            first = [*holder.function.node.args.posonlyargs, *holder.function.node.args.args]
            owner, instance = around.made, holder.names[first[0].arg]
        if not isinstance(owner, Class):
            raise unproved("The evaluator has `super` of the program's own classes alone.")
        return Super(owner, instance)

    # -- calls

    def make_function(self, node: ast.FunctionDef | ast.Lambda, name: str, frame: Frame) -> Function:
        """Make a function of its definition; defaults are evaluated now, annotations never."""
        arguments = node.args
        if getattr(node, "type_params", None):
            raise unproved("The evaluator knows no type parameters.")
        plain = [*arguments.posonlyargs, *arguments.args]
        given, levels = self._items(arguments.defaults, frame)
        defaults = [_MISSING] * (len(plain) - len(arguments.defaults)) + given
        known = dict(zip([arg.arg for arg in plain[len(plain) - len(given) :]], levels, strict=True))
        parameters = [
            inspect.Parameter(
                arg.arg,
                inspect.Parameter.POSITIONAL_ONLY
                if place < len(arguments.posonlyargs)
                else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=default,
            )
            for place, (arg, default) in enumerate(zip(plain, defaults, strict=True))
        ]
        if arguments.vararg:
            parameters.append(inspect.Parameter(arguments.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
        for arg, each in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            default = _MISSING if each is None else self.value(each, frame)
            known[arg.arg] = self.last
            parameters.append(inspect.Parameter(arg.arg, inspect.Parameter.KEYWORD_ONLY, default=default))
        if arguments.kwarg:
            parameters.append(inspect.Parameter(arguments.kwarg.arg, inspect.Parameter.VAR_KEYWORD))
        every = [*plain, *arguments.kwonlyargs, *filter(None, [arguments.vararg, arguments.kwarg])]
        for arg in every:
            _check_mangled(arg.arg)
        for annotation in [*(arg.annotation for arg in every), getattr(node, "returns", None)]:
            self._check_annotation(annotation, frame)
        self.level = FIXED  # which function it is
        return Function(node, name, frame, inspect.Signature(parameters), self, levels={} if self.loading else known)

    def _check_annotation(self, node: ast.expr | None, frame: Frame) -> None:
        """Refuse an annotation of which more than names and brackets is evaluated, and which could do something."""
        if node is None or (frame.kind is Kind.function and not isinstance(node, ast.expr)):
            return
        if not is_plain_annotation(node):
            raise Violation("annotation", "An annotation holds names, brackets and text alone.")
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and isinstance(self.lookup_softly(name.id, frame), Instance | list | dict):
                raise Violation("annotation", f"An annotation uses the value `{name.id}`.")

    def lookup_softly(self, name: str, frame: Frame) -> Any:
        """As ``lookup``, without an error where the name is not bound yet."""
        try:
            return self.lookup(name, frame)
        except NameError:
            return _MISSING

    def call(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a value."""
        if isinstance(function, Function):
            return self.call_function(function, args, named)
        if getattr(function, "name", getattr(function, "__name__", "")) not in LOOKS_AT_NONE:
            self.budget.charge(*args, *named.values())
        if isinstance(function, type):
            return self._call_type(function, args, named)
        if isinstance(function, Descriptor | ContextCall | Annotation):
            raise unproved(f"The evaluator calls no {_name_of(function)}.")
        if not self.is_callable(function):
            raise TypeError(f"'{_name_of(function)}' object is not callable")
        args = tuple(item.real if isinstance(item, Class) and item.is_enum else item for item in args)
        if _is_builtin(function):
            return self._call_builtin(function, args, named)
        if isinstance(function, Native):
            if function.name in _CALL_BACK:
                args, named = tuple(map(self.callback, args)), {key: self.callback(item) for key, item in named.items()}
            if function.name not in language.KEEPS_NO_ORDER:
                self._check_order(args)
            if self.on_host is not None and function.name != "apply":
                args, named = tuple(map(self.on_host, args)), {key: self.on_host(item) for key, item in named.items()}
        elif not isinstance(function, Instance | functools.partial | torch.nn.Module) and not _is_of_the_runner(
            function
        ):
            raise unproved(f"The evaluator calls no {_name_of(function)}.")
        return function(*args, **named)

    def callback(self, value: Any) -> Any:
        """A library's function as native code is given it, which calls it as the evaluator would; each call of it is noted."""
        if _is_builtin(value) or (isinstance(value, type) and not isinstance(value, torch.dtype)):
            name, call = value.__name__, functools.partial(self.call, value)
        elif isinstance(value, Native) and value.name not in _HANDS_ON:
            name, call = value.name, functools.partial(_carried_out, value)
        else:
            return value
        if self.calling is None:
            return Native(name, lambda *args, **named: call(args, named), value)
        place, calls = self.calling, itertools.count()

        def noted(*args: Any, **named: Any) -> Any:
            given = call(args, named)
            if is_known(given):
                self.decisions.operate(place, f"{name} {min(next(calls), MOST_ITEMS)}", args, given)
            return given

        return Native(name, noted, value)

    def is_callable(self, value: Any) -> bool:
        """What ``callable`` says."""
        if isinstance(value, Instance):
            return value.type.has("__call__")
        if isinstance(value, Annotation | Descriptor) or type(value).__name__ == "Kernel":
            raise unproved(f"The evaluator cannot say whether a {_name_of(value)} is callable.")
        return not isinstance(value, Facade) and callable(value)

    def _check_order(self, args: Sequence[Any]) -> None:
        """Refuse to go through a set of text: its order differs from process to process."""
        for value in args:
            if isinstance(value, set | frozenset) and not all(isinstance(item, int) for item in value):
                raise unproved("The order of a set differs from process to process. Sort it.")

    def call_function(
        self,
        function: Function,
        args: Sequence[Any],
        named: dict[str, Any],
        on_yield: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Evaluate a function's body with its arguments."""
        if function.is_context_manager and on_yield is None:
            return ContextCall(function, tuple(args), dict(named))
        try:
            given = function.signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"{function.name}() {error}") from None
        missing = function.signature.parameters.keys() - given.arguments.keys()
        given.apply_defaults()
        node = function.node
        bound, yields = bound_names(node)
        _, outer = declared(node)
        frame = Frame(
            Kind.function, function.closure.module, function.closure, dict(given.arguments), bound, outer, function
        )
        if yields and on_yield is None:
            raise unproved("The evaluator knows a function that yields under `contextmanager` alone.")
        frame.levels = {name: function.levels.get(name, FIXED) for name in missing} | self._levels(
            function, args, named
        )
        frame.opens, self.opens = self.opens, False
        frame.on_yield = on_yield
        line, path = self.line, self.path
        if not self.depth and not self.loading:
            self.budget.reset()
            self.launches = 0
        self.depth += 1
        try:
            if self.depth > MOST_DEPTH:
                raise RecursionError("maximum recursion depth exceeded")
            if isinstance(node, ast.Lambda):
                value = self.value(node.body, frame)
                self.returned = self.last, None
                return value
            self.body(node.body, frame)
            self.returned = frame.exits, None
        except _Return as result:
            level, items = result.levels
            self.returned = (GIVEN, None) if frame.exits else (level, items)
            return result.value
        finally:
            self.depth -= 1
            self.line, self.path = line, path

    def _levels(self, function: Function, args: Sequence[Any], named: dict[str, Any]) -> dict[str, int]:
        """What the parameters hang on; what native code calls is given its arguments by nobody."""
        passed, self.passed = self.passed, None
        if passed is None:
            if self.depth and not self.enters:
                return {}
            self.enters = False
            passed = [PASSED] * len(args), dict.fromkeys(named, PASSED)
        by_place, by_name = passed
        if len(args) != len(by_place):
            return {}
        parameters = function.signature.parameters.items()
        names = [name for name, item in parameters if item.kind in _BY_PLACE]
        by_place = [self._kept(value, level) for value, level in zip(args, by_place, strict=True)]
        levels = dict(zip(names, by_place, strict=False))
        rest = next((name for name, item in parameters if item.kind is inspect.Parameter.VAR_POSITIONAL), None)
        if rest is not None:
            levels[rest] = max([FIXED, *by_place[len(names) :]])
        taken = {name for name, item in parameters if item.kind is not inspect.Parameter.VAR_KEYWORD}
        levels |= {name: self._kept(named[name], by_name[name]) for name in taken & by_name.keys() & named.keys()}
        never = never_fixed(function.node)
        return {name: level for name, level in levels.items() if name not in never}

    def _call_type(self, kind: type, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if kind is type:
            if len(args) != 1:
                raise Violation("runs code from text", "A class is made by `type`.", Status.cheating)
            return self._type_of(args[0])
        if kind is object:
            raise Violation("remembers between calls", "A bare object tells one call from another by its identity.")
        if kind in (staticmethod, classmethod, property):
            if len(args) != 1 or named:
                raise unproved("The evaluator knows no property that is set.")
            return Descriptor(kind.__name__, args[0])
        if not _may_be_called(kind):
            raise unproved(f"The evaluator makes no `{kind.__name__}`.")
        if kind in (map, filter):
            args = (self.callback(args[0]), *args[1:])
        if kind not in (set, frozenset, bool):
            self._check_order(args)
        if kind.__name__ == "constexpr" and not isinstance(args[0], bool | int | float | str | type(None)):
            raise unproved("The evaluator makes a `constexpr` of a number, text or None alone.")
        if kind is str and args:
            self.check_printable(args[0])
        if kind is bytes or (issubclass(kind, int | float) and args and isinstance(args[0], torch.Tensor)):
            return kind(args[0].item()) if kind is not bytes else kind(*args, **named)
        if kind is bool:
            return self.truth(args[0]) if args else False
        if kind in (list, tuple, set, frozenset, dict, enumerate, zip, sum) and args and isinstance(args[0], Class):
            args = (self.iterate(args[0]), *args[1:])
        return kind(*args, **named)

    def _type_of(self, value: Any) -> Any:
        made = self.class_of(value)
        if made is not None:
            return made
        if isinstance(value, bool | int | float | str | list | tuple | dict | set | type(None) | torch.Tensor):
            return type(value)
        raise unproved(f"The evaluator does not say the type of a {_name_of(value)}.")

    def _call_builtin(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        name = getattr(function, "__name__", "")
        if name == "issubclass":
            raise unproved("The evaluator has no `issubclass`.")
        if name in ("repr", "format", "print"):
            for item in args:
                self.check_printable(item)
            if name == "format" and len(args) > 1:
                bounded_format(args[1])
            return None if name == "print" else function(*args, **named)
        if name == "next" and args and isinstance(args[0], list | tuple):
            raise TypeError(f"'{_name_of(args[0])}' object is not an iterator")
        if name == "pow":
            bound_operands("Pow", *args[:2])
        if name == "round":
            bound_rounding(args)
        if name == "sum":
            return self.budget.sum(functools.partial(self._operate, language.BINARY), *args, **named)
        if name in ("min", "max", "sorted"):
            named = {key: self.callback(item) for key, item in named.items()}
            if named.get("key") is not None:
                self._check_order(args)
        elif name not in ("len", "sum"):
            self._check_order(args)
        if name in ("any", "all"):
            return function(self.truth(item) for item in self.iterate(args[0]))  # as far as the first that decides
        return function(*args, **named)

    def _by_name(self, name: str, args: tuple[Any, ...]) -> Any:
        owner, attribute = args[0], args[1]
        if not isinstance(attribute, str):
            raise TypeError("attribute name must be string")
        if name == "setattr":
            return self.set_attribute(owner, attribute, args[2])
        _check_mangled(attribute)
        try:
            found = self.attribute(owner, attribute)
        except AttributeError:
            if name == "hasattr":
                return False
            if len(args) > 2:
                return args[2]
            raise
        return True if name == "hasattr" else found

    def instantiate(self, made: Class, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Make an instance of a class of the program."""
        if made.real is not None:
            return made.real(*args, **named)
        instance = Instance(made)
        if made.has("__init__"):
            self.call(self.bound(made.find("__init__"), instance, made), args, named)
        elif args or named:
            raise TypeError(f"{made.name}() takes no arguments")
        return instance

    def is_instance(self, value: Any, kinds: Any) -> bool:
        """What ``isinstance`` says."""
        self.budget.charge(kinds)
        return any(self._is_of(value, kind) for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))

    def _is_of(self, value: Any, kind: Any) -> bool:
        if isinstance(kind, tuple):
            return self.is_instance(value, kind)
        if isinstance(kind, Class):
            is_own = isinstance(value, Instance) and kind in value.type.order
            return is_own or (kind.real is not None and isinstance(value, kind.real))
        if isinstance(kind, Annotation):
            return self._is_annotated(value, kind)
        if isinstance(kind, Native) and kind.name == "torch.distributed.tensor.DTensor":
            return False  # of which a program makes no instance
        if kind is type or not isinstance(kind, type):
            raise unproved(f"The evaluator cannot say what is a `{_name_of(kind)}`.")
        return isinstance(value.real if type(value).__name__ == "Kernel" else value, kind)

    def _is_annotated(self, value: Any, kind: Annotation) -> bool:
        if kind.path == "typing.Union":
            return self.is_instance(value, tuple(type(None) if part is None else part for part in kind.parts))
        name = kind.path.rpartition(".")[2]
        if name == "Callable":
            return self.is_callable(value)
        if name not in ("Sequence", "Mapping") or isinstance(value, Instance):
            raise unproved(f"The evaluator cannot say what is a `{kind.path}`.")
        return isinstance(value, (list, tuple, str, range, bytes) if name == "Sequence" else dict)

    # -- attributes and items

    def attribute(self, value: Any, name: str) -> Any:
        """An attribute of a value.

        Raises:
            AttributeError: there is none. Violation: the language has none of that name for such a value.
        """
        for extension in self.attribute_of:
            found = extension(value, name)
            if found is not NotImplemented:
                return found
        own = self._own_kinds.get(type(value))
        return own(self, value, name) if own is not None else self._of_plain(value, name)

    def _of_facade(self, value: Facade, name: str) -> Any:
        path = f"{value.path}.{name}"
        if not language.is_listed(path) and not name.startswith("_") and not language.exists(path):
            raise AttributeError(f"module '{value.path}' has no attribute '{name}'")
        return self.member(path)

    def _of_own(self, value: Any, name: str) -> Any:
        raise unproved(f"The evaluator knows no attribute `{name}` of a {_name_of(value)}.")

    def _of_function(self, value: Function, name: str) -> Any:
        if name == "__name__":
            return value.attributes.get(name, value.name)
        if name in value.attributes:
            return value.attributes[name]
        if not name.startswith("__"):
            raise AttributeError(f"'function' object has no attribute '{name}'")
        raise Violation("private name", f"It uses `{name}` of a function.")

    def _of_plain(self, value: Any, name: str) -> Any:
        if isinstance(value, BaseException):
            raise unproved("What an error says differs from version to version.")
        if name == "format" and isinstance(value, str):
            return Native("format", functools.partial(_Formatter(self).format, value), value)
        if isinstance(value, tuple) and name in getattr(type(value), "_fields", ()):
            return getattr(value, name)
        if name in language.attributes_of(value):
            found = getattr(value, name)
            return self._method(value, name, found) if callable(found) else found
        if name.startswith("_"):
            raise Violation("private name", f"It uses the attribute `{name}`.")
        if hasattr(value, name):
            raise Violation(
                "unknown attribute",
                f"The attribute `{name}` of a {_name_of(value)} is not in the language of host code.",
            )
        if _is_of_the_runner(value):
            return self._of_own(value, name)
        raise AttributeError(f"'{_name_of(value)}' object has no attribute '{name}'")

    def _method(self, value: Any, name: str, found: Callable[..., Any]) -> Native:
        if isinstance(value, list | dict | set) and name in language.MUTATES:

            def changes(*args: Any, **named: Any) -> Any:
                self.check_mutable(value)
                self.budget.charge_method(value, name, args)
                given = found(*args, **named)
                bounded(value)
                return given

            return Native(name, changes, value)
        if not isinstance(value, SIZED):
            return Native(name, found, value)

        def looks(*args: Any, **named: Any) -> Any:
            self.budget.charge_method(value, name, args)
            return bounded(found(*args, **named))

        return Native(name, looks, value)

    def member(self, path: str) -> Any:
        """A member of a library; functions come as ``Native``, or as the evaluator's own model."""
        if path not in self.members:
            self.members[path] = self._member(path)
        return self.members[path]

    def _member(self, path: str) -> Any:
        if path in self.special:
            return Native(path, self.special[path])
        if path in language.ANNOTATIONS_ONLY:
            return Annotation(path)
        found = language.resolve(path)
        if isinstance(found, Facade | type) or not callable(found) or not _is_function(found):
            return found
        return Native(path, found)

    def _of_instance(self, value: Instance, name: str) -> Any:
        _check_private(value.type, name)
        found = value.type.find(name) if value.type.has(name) else _MISSING
        if name in value.fields and not (isinstance(found, Descriptor) and found.kind == "property"):
            return value.fields[name]
        if isinstance(found, Descriptor) and found.kind == "cached_property":
            kept = self.call(found.function, (value,), {})
            self.check_mutable(value).fields[name] = kept
            return kept
        return self.bound(value.type.find(name), value, value.type)

    def bound(self, found: Any, instance: Any, owner: Class) -> Any:
        """What a class's attribute is when it is asked of an instance."""
        if isinstance(found, Descriptor):
            if found.kind == "property":
                return self.call(found.function, (instance,), {})
            if found.kind == "cached_property":
                raise unproved("The evaluator knows a `cached_property` of plain classes alone.")
            return Bound(found.function, owner) if found.kind == "classmethod" else found.function
        return Bound(found, instance) if isinstance(found, Function | Method) else found

    def _of_class(self, value: Class, name: str) -> Any:
        if name == "__name__":
            return value.name
        _check_private(value, name)
        found = value.find(name)
        if isinstance(found, Descriptor):
            if "property" in found.kind:
                raise unproved("The evaluator gives no property of a class itself.")
            return Bound(found.function, value) if found.kind == "classmethod" else found.function
        return found

    def _of_super(self, value: Super, name: str) -> Any:
        is_class = isinstance(value.instance, Class)
        kind = value.instance if is_class else self.class_of(value.instance)
        if kind is None or value.owner not in kind.order:
            raise TypeError("super(type, obj): obj must be an instance or subtype of type")
        for each in kind.order[kind.order.index(value.owner) + 1 :]:
            if name in each.names:
                found = each.names[name]
                if is_class and not isinstance(found, Descriptor):
                    return found
                return self.bound(found, value.instance, kind)
        if name == "__init__" and isinstance(value.instance, torch.nn.Module):
            return Native("__init__", lambda: torch.nn.Module.__init__(value.instance), value.instance)
        if name == "__init__" and isinstance(value.instance, Instance):
            return Native("__init__", lambda: None)
        raise unproved(f"The evaluator knows no `super().{name}` here.")

    def class_of(self, value: Any) -> Class | None:
        """The program's class of a value, where it has one."""
        if isinstance(value, Instance):
            return value.type
        return getattr(type(value), "program_class", None)

    def set_attribute(self, value: Any, name: str, new: Any) -> None:
        """Set an attribute of an object of the program."""
        if isinstance(value, FunctionCtx):
            value.__dict__.get("program_levels", {}).pop(name, None)
        if any(extension(value, name, new) for extension in self.set_attribute_of):
            return
        if isinstance(value, Instance):
            self.check_mutable(value)
            if name.startswith("__"):
                raise Violation("private name", f"It sets `{name}`.")
            if value.type.has(name) and getattr(value.type.find(name), "kind", "") == "property":
                raise AttributeError(f"property '{name}' of '{value.type.name}' object has no setter")
            value.fields[name] = new
        elif isinstance(value, Facade):
            raise Violation("patches a module", f"It sets `{value.path}.{name}`.", Status.cheating)
        elif (
            isinstance(value, Function | Class)
            and self.loading
            and id(value) not in self.frozen
            and not name.startswith("__")
            and getattr(value, "real", None) is None
        ):
            (value.attributes if isinstance(value, Function) else value.names)[name] = new
        else:
            raise Violation("remembers between calls", f"It sets `{name}` of a {_name_of(value)}.")

    def item(self, value: Any, key: Any) -> Any:
        """What ``value[key]`` is."""
        if isinstance(value, Annotation):
            return Annotation(value.path)
        if isinstance(value, Class):
            return value.real[key] if value.is_enum else value
        if isinstance(value, type):
            if value not in (list, dict, tuple, set, frozenset, type):
                raise TypeError(f"type '{value.__name__}' is not subscriptable")
            return Annotation(f"builtins.{value.__name__}")
        if isinstance(value, Instance) and not value.type.has("__getitem__"):
            raise TypeError(f"'{_name_of(value)}' object is not subscriptable")
        if not isinstance(value, list | tuple | dict | str | bytes | range | torch.Tensor | Instance) and not hasattr(
            value, "launch"
        ):
            if hasattr(type(value), "__getitem__") and not isinstance(value, Native):
                raise unproved(f"The evaluator takes no item of a {_name_of(value)}.")
            raise TypeError(f"'{_name_of(value)}' object is not subscriptable")
        self._charge_item(value, key)
        return value[key]

    def _charge_item(self, value: Any, key: Any) -> None:
        """Count what a slice copies, and the parts of a key."""
        if isinstance(key, tuple):
            self.budget.charge(key)
        elif isinstance(key, slice) and isinstance(value, list | tuple | str | bytes):
            self.budget.spend(len(value))

    def set_item(self, value: Any, key: Any, new: Any) -> None:
        """Carry out ``value[key] = new``."""
        if not isinstance(value, torch.Tensor | list | dict):
            raise TypeError(f"'{_name_of(value)}' object does not support item assignment")
        if not isinstance(value, torch.Tensor):
            self.check_mutable(value)
        self._charge_item(value, key)
        if isinstance(key, slice):
            self._check_order((new,))
            self.budget.charge(new)
        value[key] = new

    # -- values

    def truth(self, value: Any) -> bool:
        """Whether a value counts as true."""
        if isinstance(value, torch.Tensor):
            return bool(value.item())
        return bool(value)

    def iterate(self, value: Any) -> Any:
        """What a loop goes over."""
        if isinstance(value, Class) and value.is_enum:
            return value.real
        self._check_order((value,))
        if isinstance(value, Function | Native | Class | Facade):
            raise TypeError(f"'{_name_of(value)}' object is not iterable")
        return value

    def check_mutable(self, value: Any) -> Any:
        """The value itself, which no call may change once it outlives it.

        Raises:
            Violation: it outlives the call.
        """
        if id(value) in self.frozen:
            raise Violation("remembers between calls", f"It changes a {_name_of(value)} that outlives a call.")
        if isinstance(value, Instance) and any(kind.is_frozen for kind in value.type.order):
            raise AttributeError("cannot assign to field of a frozen dataclass")
        return value

    def check_printable(self, value: Any) -> Any:
        """The value itself, which can be turned into text: neither what a tensor holds nor where something lies can."""
        self.budget.charge(value)
        if isinstance(value, torch.Tensor):
            if value.dim() == 0 and not isinstance(value, torch.nn.Parameter):
                return value  # as in a message of an error
            raise Violation("reads values", "It turns a tensor into text.")
        if isinstance(value, list | tuple):
            for item in value:
                self.check_printable(item)
        elif isinstance(value, dict):
            for item in (*value, *value.values()):
                self.check_printable(item)
        elif isinstance(value, Instance) and value.type.declared is not None:
            self.check_printable(list(value.fields.values()))
        elif isinstance(value, set | frozenset):
            self._check_order((value,))
        elif not isinstance(value, (*language.PLAIN, torch.dtype, torch.device)) and not _is_plain_object(value):
            raise unproved(f"The evaluator puts no {_name_of(value)} into text, which would say where it lies.")
        return value

    @contextmanager
    def load_time(self) -> Iterator[None]:
        """Load a module: what is made meanwhile may be changed, and is frozen afterwards by who loads."""
        self.loading += 1
        try:
            yield
        finally:
            self.loading -= 1

    _own_kinds: ClassVar[dict[type, Callable[..., Any]]] = {
        Facade: _of_facade, Instance: _of_instance, Class: _of_class, Super: _of_super, Function: _of_function,
        **dict.fromkeys((Descriptor, Bound, Native), _of_own),
    }  # fmt: skip
    _statements: ClassVar[dict[type[ast.AST], Callable[..., None]]] = {
        ast.Expr: _expr, ast.Assign: _assign, ast.AnnAssign: _ann_assign,
        ast.AugAssign: _aug_assign, ast.If: _if, ast.For: _for, ast.While: _while,
        ast.Break: _break, ast.Continue: _continue, ast.Return: _return,
        ast.Pass: _pass, ast.Assert: _assert, ast.Raise: _raise, ast.Delete: _delete,
        ast.Global: _outer, ast.Nonlocal: _outer, ast.Import: _import,
        ast.ImportFrom: _import_from, ast.FunctionDef: _function_def, ast.ClassDef: _class_def,
        ast.With: _with, ast.Try: _try, ast.Match: _match,
    }  # fmt: skip
    _expressions: ClassVar[dict[type[ast.AST], Callable[..., Any]]] = {
        ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute,
        ast.Subscript: _subscript, ast.Slice: _slice, ast.BinOp: _bin_op,
        ast.UnaryOp: _unary_op, ast.BoolOp: _bool_op, ast.Compare: _compare,
        ast.IfExp: _if_exp, ast.Tuple: _tuple, ast.List: _list, ast.Set: _set,
        ast.Dict: _dict, ast.ListComp: _list_comp, ast.SetComp: _set_comp,
        ast.DictComp: _dict_comp, ast.GeneratorExp: _generator, ast.NamedExpr: _named,
        ast.Lambda: _lambda, ast.JoinedStr: _joined, ast.FormattedValue: _formatted,
        ast.Yield: _yield, ast.Starred: _starred, ast.Call: _call,
    }  # fmt: skip


def _carried_out(function: Native, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return function(*args, **named)


class ContextCall:
    """A call of a ``contextmanager``, to be carried out by ``with``."""

    def __init__(self, function: Function, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.function, self.args, self.named = function, args, named
        self.is_used = False


class _Formatter(string.Formatter):
    """``str.format`` without attributes and items of what is formatted."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        """The argument itself.

        Raises:
            Violation: an attribute or an item of it is asked for.
        """
        if not field_name.replace("_", "").isalnum():
            raise Violation("reaches outside", "A format string asks for attributes.")
        value, used = super().get_field(field_name, args, kwargs)
        return self._evaluator.check_printable(value), used

    def format_field(self, value: Any, format_spec: str) -> Any:
        """The text of a value, of no more than a usual width."""
        return super().format_field(value, bounded_format(format_spec))


def _made(value: Any, level: int) -> int:
    """What a value hangs on that is computed of what hangs on ``level``."""
    return FIXED if level == FIXED else PASSED if is_made_by_torch(value) else GIVEN


@functools.cache
def _in_full(node: ast.AugAssign) -> ast.BinOp:
    """``target op value`` of ``target op= value``."""
    target = copy.copy(node.target)
    target.ctx = ast.Load()
    return ast.copy_location(ast.BinOp(target, node.op, node.value), node)


def _own_frame(frame: Frame) -> Frame:
    """The frame of the function, class or module around a comprehension."""
    while frame.is_comprehension:
        assert frame.parent is not None
        frame = frame.parent
    return frame


def _check_mangled(name: str) -> None:
    if name.startswith("__") and not name.endswith("__"):
        raise Violation("private name", f"It uses `{name}`, which Python renames within a class.")


def _check_private(made: Class, name: str) -> None:
    """Refuse what a class has from Python itself, or from the library's class under it."""
    inherits = made.real is not None and hasattr(made.real.__mro__[1], name)
    if (name.startswith("__") or inherits) and not made.has(name):
        raise Violation("private name", f"It uses the attribute `{name}`.")


def _no_imports(frame: Frame, name: str, level: int) -> Any:
    raise ImportError(f"No module named '{name}'")


def _is_annotation(value: Any) -> bool:
    return isinstance(value, Annotation | Class | type)


def _is_generic(value: Any) -> bool:
    return isinstance(value, Annotation) and value.path in ("typing.Generic", "typing.Protocol")


def _may_be_called(kind: type) -> bool:
    return (
        kind.__module__ in ("builtins", "itertools", "collections", "packaging.version")
        or issubclass(kind, tuple | torch.Tensor | BaseException)
        or kind in (torch.device, torch.finfo, torch.iinfo)
        or type(kind).__name__ == "tensortype"
        or kind.__name__ in ("Config", "constexpr", "TensorDescriptor")
    )


def _is_plain_object(value: Any) -> bool:
    return isinstance(value, Enum) or (isinstance(value, type) and value.__module__ == "builtins") or (
        type(value).__name__ in ("Version", "constexpr", "GPUTarget")
    )  # fmt: skip


def _takes_levels(function: Any) -> bool:
    """Whether what is called is a function of the program, or hands its arguments to one as they are."""
    if isinstance(function, Native):
        return function.name in _HANDS_ON or type(function.owner).__name__ == "Kernel"
    return isinstance(function, Function | Bound | torch.nn.Module) or type(function).__name__ == "Operator"


def name_of(function: Any) -> str:
    """The name of a library's function."""
    return str(getattr(function, "__name__", getattr(function, "name", "")))


def _asks_for_a_tensor(node: ast.expr | ast.pattern) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or len(node.args) != 2:
        return False
    return node.func.id == "isinstance" and ast.unparse(node.args[1]) in ("torch.Tensor", "Tensor")


def _is_builtin(function: Any) -> bool:
    return (
        type(function).__name__ == "builtin_function_or_method" and getattr(function, "__module__", None) == "builtins"
    )


def _is_of_the_runner(function: Any) -> bool:
    kind = function if isinstance(function, types.FunctionType | types.MethodType) else type(function)
    return kind.__module__.startswith("gpu_runner.program.")


def _is_function(found: Any) -> bool:
    return type(found).__name__ in (
        "ConstexprFunction",
        "function",
        "builtin_function_or_method",
        "method",
        "partial",
        "wrapper_descriptor",
    )


def _name_of(value: Any) -> str:
    if isinstance(value, Instance):
        return value.type.name
    if isinstance(value, Facade):
        return f"module {value.path}"
    return type(value).__name__


def _check_identity(left: Any, right: Any) -> None:
    """Identity means something for None, truth values, and objects; of plain values and functions it is CPython's own affair."""
    single = (type(None), bool, type(Ellipsis), type(NotImplemented))
    if isinstance(left, single) or isinstance(right, single):
        return
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        raise Violation("identity", "`is` tells whether two arguments are one tensor, which nobody tries.")
    named = (type, torch.dtype, torch.Tensor, Class, Instance, Function, list, dict, set, Enum)
    if not isinstance(left, named) or not isinstance(right, named):
        raise Violation("identity", "`is` compares values by where they lie in memory; use `==`.")
