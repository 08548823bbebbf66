"""Calls: functions of the program with the levels of their arguments, builtins, types, and functions of libraries."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from gpu_runner.contracts.verify import Status
from gpu_runner.program import language
from gpu_runner.program.budget import (
    LOOKS_AT_NONE,
    bound_operands,
    bound_rounding,
    bounded_format,
)
from gpu_runner.program.coverage import BOTH, FAILED, MOST_ITEMS, is_known
from gpu_runner.program.evaluator.names import Names
from gpu_runner.program.evaluator.state import Return
from gpu_runner.program.evaluator.values import check_mangled
from gpu_runner.program.levels import (
    never_fixed,
)
from gpu_runner.program.objects import (
    FIXED,
    GIVEN,
    MISSING,
    PASSED,
    CallFrame,
    Class,
    Descriptor,
    Function,
    Instance,
    Native,
    ScopeKind,
    TypeAnnotation,
    Violation,
    is_builtin,
    is_of_the_runner,
    type_name,
    unproved,
)
from gpu_runner.program.scopes import bound_names, declared, is_plain_annotation

MOST_DEPTH = 120


# What calls the functions that it is given.
_CALL_BACK = frozenset(["functools.partial", "functools.reduce", "itertools.accumulate", "itertools.takewhile", "sort"])


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


HANDS_ON = frozenset(
    ["apply", "cached", "under", "once_differentiable"]
)  # natives that call a function of the program as it is


class Calls(Names):
    def _items(self, nodes: Sequence[ast.expr], frame: CallFrame) -> tuple[list[Any], list[int]]:
        """The values of some expressions, and what each hangs on."""
        values: list[Any] = []
        levels: list[int] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                items = self.iterate(self.value(node.value, frame))
                level = self.last_level
                self.budget.charge(items)
                values += items
                levels += [level] * (len(values) - len(levels))
            else:
                values.append(self.value(node, frame))
                levels.append(self.last_level)
        return values, levels

    def make_function(self, node: ast.FunctionDef | ast.Lambda, name: str, frame: CallFrame) -> Function:
        """Make a function of its definition; defaults are evaluated now, annotations never."""
        arguments = node.args
        if getattr(node, "type_params", None):
            raise unproved("The evaluator knows no type parameters.")
        plain = [*arguments.posonlyargs, *arguments.args]
        given, levels = self._items(arguments.defaults, frame)
        defaults = [MISSING] * (len(plain) - len(arguments.defaults)) + given
        levels = [self._level_of_kept(value, level) for value, level in zip(given, levels, strict=True)]
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
            default = MISSING if each is None else self.value(each, frame)
            known[arg.arg] = self._level_of_kept(default, self.last_level)
            parameters.append(inspect.Parameter(arg.arg, inspect.Parameter.KEYWORD_ONLY, default=default))
        if arguments.kwarg:
            parameters.append(inspect.Parameter(arguments.kwarg.arg, inspect.Parameter.VAR_KEYWORD))
        every = [*plain, *arguments.kwonlyargs, *filter(None, [arguments.vararg, arguments.kwarg])]
        for arg in every:
            check_mangled(arg.arg)
        for annotation in [*(arg.annotation for arg in every), getattr(node, "returns", None)]:
            self._check_annotation(annotation, frame)
        self.level = FIXED  # which function it is
        return Function(node, name, frame, inspect.Signature(parameters), self, levels={} if self.loading else known)

    def _check_annotation(self, node: ast.expr | None, frame: CallFrame) -> None:
        """Refuse an annotation of which more than names and brackets is evaluated, and which could do something."""
        if node is None or (frame.kind is ScopeKind.function and not isinstance(node, ast.expr)):
            return
        if not is_plain_annotation(node):
            raise Violation("annotation", "An annotation holds names, brackets and text alone.")
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and isinstance(self.lookup_softly(name.id, frame), Instance | list | dict):
                raise Violation("annotation", f"An annotation uses the value `{name.id}`.")

    def call(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a value."""
        if isinstance(function, Function):
            return self.call_function(function, args, named)
        if getattr(function, "name", getattr(function, "__name__", "")) not in LOOKS_AT_NONE:
            self.budget.charge(*args, *named.values())
        if isinstance(function, type):
            return self._call_type(function, args, named)
        if isinstance(function, Descriptor | ContextCall | TypeAnnotation):
            raise unproved(f"The evaluator calls no {type_name(function)}.")
        if not self.is_callable(function):
            raise TypeError(f"'{type_name(function)}' object is not callable")
        args = tuple(item.real if isinstance(item, Class) and item.is_enum else item for item in args)
        if is_builtin(function):
            return self._call_builtin(function, args, named)
        if isinstance(function, Native):
            if function.name in _CALL_BACK:
                args, named = tuple(map(self.callback, args)), {key: self.callback(item) for key, item in named.items()}
            if function.name not in language.KEEPS_NO_ORDER:
                self._check_order(args)
            if self.placement is not None and function.name != "apply":
                return self.placement.call(function, args, named)
        elif not isinstance(function, Instance | functools.partial | torch.nn.Module) and not is_of_the_runner(
            function
        ):
            raise unproved(f"The evaluator calls no {type_name(function)}.")
        return function(*args, **named)

    def callback(self, value: Any) -> Any:
        """A library's function as native code is given it, which calls it as the evaluator would; each call of it is noted."""
        if is_builtin(value) or (isinstance(value, type) and not isinstance(value, torch.dtype)):
            name, call = value.__name__, functools.partial(self.call, value)
        elif isinstance(value, Native) and value.name not in HANDS_ON:
            name, call = value.name, functools.partial(_carried_out, value)
        else:
            return value
        if self.call_place is None:
            return Native(name, lambda *args, **named: call(args, named), value)
        place, calls = self.call_place, itertools.count()

        def noted(*args: Any, **named: Any) -> Any:
            given = call(args, named)
            if name in ("min", "max") and is_known(given) and not self.loading:
                *where, text = place
                for at, each in enumerate(args):
                    what = f"{text}: the {name}imum is argument {at + 1}"
                    self.decisions.add_at((*where, what), BOTH if each == given else FAILED)  # type: ignore[arg-type]
            elif is_known(given):
                self.decisions.operate(place, f"{name} {min(next(calls), MOST_ITEMS)}", args, given)
            return given

        return Native(name, noted, value)

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
        frame = CallFrame(
            ScopeKind.function, function.closure.module, function.closure, dict(given.arguments), bound, outer, function
        )
        if yields and on_yield is None:
            raise unproved("The evaluator knows a function that yields under `contextmanager` alone.")
        frame.levels = {name: function.levels.get(name, FIXED) for name in missing} | self._parameter_levels(
            function, args, named
        )
        frame.may_set_context, self.may_set_context = self.may_set_context, False
        frame.on_yield = on_yield
        line, path = self.line, self.path
        if not self.depth and not self.loading:
            self.budget.reset()
            self.launches = 0
            self.changed = {}
        self.depth += 1
        try:
            if self.depth > MOST_DEPTH:
                raise RecursionError("maximum recursion depth exceeded")
            if isinstance(node, ast.Lambda):
                value = self.value(node.body, frame)
                self.returned_levels = self.last_level, None
                return value
            self.body(node.body, frame)
            self.returned_levels = frame.exits, None
        except Return as result:
            level, items = result.levels
            self.returned_levels = (GIVEN, None) if frame.exits else (level, items)
            return result.value
        finally:
            self.depth -= 1
            self.line, self.path = line, path

    def _parameter_levels(self, function: Function, args: Sequence[Any], named: dict[str, Any]) -> dict[str, int]:
        """What the parameters hang on; what native code calls is given its arguments by nobody."""
        passed, self.argument_levels = self.argument_levels, None
        if passed is None:
            if self.depth and not self.is_called_by_judge:
                return {}
            self.is_called_by_judge = False
            passed = [PASSED] * len(args), dict.fromkeys(named, PASSED)
        by_place, by_name = passed
        if len(args) != len(by_place):
            return {}
        parameters = function.signature.parameters.items()
        names = [name for name, item in parameters if item.kind in _BY_PLACE]
        by_place = [self._level_of_kept(value, level) for value, level in zip(args, by_place, strict=True)]
        levels = dict(zip(names, by_place, strict=False))
        rest = next((name for name, item in parameters if item.kind is inspect.Parameter.VAR_POSITIONAL), None)
        if rest is not None:
            levels[rest] = max([FIXED, *by_place[len(names) :]])
        taken = {name for name, item in parameters if item.kind is not inspect.Parameter.VAR_KEYWORD}
        levels |= {
            name: self._level_of_kept(named[name], by_name[name]) for name in taken & by_name.keys() & named.keys()
        }
        never = never_fixed(function.node)
        return {name: level for name, level in levels.items() if name not in never}

    def pass_first(self, level: int) -> None:
        """Know that an argument goes before those that were passed."""
        if self.argument_levels is not None:
            self.argument_levels[0].insert(0, level)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let the judge call the program within a call, as torch does to compute a forward again whose tensors are asked for."""
        kept = self.level, self.last_level, self.item_levels, self.returned_levels, self.argument_levels
        self.is_called_by_judge, self.argument_levels = True, None
        try:
            yield
        finally:
            self.is_called_by_judge = False
            self.level, self.last_level, self.item_levels, self.returned_levels, self.argument_levels = kept

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
            raise TypeError(f"'{type_name(args[0])}' object is not an iterator")
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


def _carried_out(function: Native, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return function(*args, **named)


class ContextCall:
    """A call of a ``contextmanager``, to be carried out by ``with``."""

    def __init__(self, function: Function, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.function, self.args, self.named = function, args, named
        self.is_used = False


def _may_be_called(kind: type) -> bool:
    return (
        kind.__module__ in ("builtins", "itertools", "collections", "packaging.version")
        or issubclass(kind, tuple | torch.Tensor | BaseException)
        or kind in (torch.device, torch.finfo, torch.iinfo)
        or type(kind).__name__ == "tensortype"
        or kind.__name__ in ("Config", "constexpr", "TensorDescriptor")
    )
