"""Expressions, a rule for each kind: its value, and what that depends on.

A rule adds the levels of the parts to ``level``; ``value`` then takes it for that of the whole, or for what is computed of it.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, ClassVar

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.program import language
from gpu_runner.program.budget import (
    bounded_format,
)
from gpu_runner.program.coverage import place_of
from gpu_runner.program.evaluator.calls import HANDS_ON, Calls
from gpu_runner.program.evaluator.names import own_frame
from gpu_runner.program.evaluator.values import check_mangled
from gpu_runner.program.levels import (
    level_of_attribute,
    level_of_computed,
    level_of_result,
)
from gpu_runner.program.objects import (
    FIXED,
    GIVEN,
    PASSED,
    BoundFunction,
    CallFrame,
    Class,
    Function,
    Instance,
    Native,
    ScopeKind,
    Super,
    Violation,
    function_name,
    is_builtin,
    type_name,
    unproved,
)

# Expressions that hand on what they hang on by a rule of their own; others compute.
_HANDING = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.IfExp, ast.BoolOp, ast.NamedExpr, ast.Tuple, ast.List, ast.Constant,
    ast.Compare, ast.Lambda,
)  # fmt: skip


_VIEWS = ("items", "keys", "values")  # of a dictionary


class Expressions(Calls):
    def value(self, node: ast.expr, frame: CallFrame) -> Any:
        """The value of an expression."""
        handler = self._expressions.get(type(node))
        if handler is None:
            raise unproved(f"`{type(node).__name__}` is no expression that the evaluator knows.")
        outer, self.level, self.item_levels = self.level, FIXED, None
        value = handler(self, node, frame)
        if self.loading:
            return value
        if self.turned is not None:
            value = self._as_turned(node, value, frame)
        self.decisions.see(node, value)
        level = self.level
        if not isinstance(node, _HANDING):
            level = level_of_computed(value, level)
        if level:
            self.saw_call = True
        if not isinstance(node, ast.Tuple | ast.Call):
            self.item_levels = None
        self.last_level, self.level = level, max(outer, level)
        return value

    def _as_turned(self, node: ast.expr, value: Any, frame: CallFrame) -> Any:
        """How a decision ends where it is the one that ends the other way."""
        if isinstance(value, bool) and place_of(frame.module.path, node) == self.turned:
            self.turns += 1
            return not value
        return value

    def _decide(self, node: ast.expr, frame: CallFrame) -> bool:
        """Whether a condition holds; ``last`` says what that hangs on."""
        value = self.value(node, frame)
        level = self.last_level
        outcome = self._holds(node, value, frame, level)
        self.last_level = level
        return outcome

    def _holds(self, node: ast.expr, value: Any, frame: CallFrame, level: int) -> bool:
        """Whether a value counts as true; what gives a bool by comparing, joining or turning notes by itself how it ended."""
        outcome = self.truth(value)
        is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        if not (is_not or (isinstance(node, ast.Compare | ast.BoolOp) and isinstance(value, bool))):
            self._note_decision(node, level, outcome, frame)
        return outcome

    def _constant(self, node: ast.Constant, frame: CallFrame) -> Any:
        return node.value

    def _name(self, node: ast.Name, frame: CallFrame) -> Any:
        value = self.load(node.id, frame)
        self.level = self.level_of_name(node.id, frame)
        if value is object or value is super or value is type:
            raise Violation("reaches outside", f"`{node.id}` is called where it stands, and never a value.")
        return value

    def _attribute(self, node: ast.Attribute, frame: CallFrame) -> Any:
        check_mangled(node.attr)
        owner, level = self.value(node.value, frame), self.last_level
        member = self.attribute(owner, node.attr)
        is_property = self.level > level  # of the program, which computes
        self.level = GIVEN if is_property else level_of_attribute(owner, node.attr, level, member)
        if isinstance(owner, Enum | complex):
            self._note_computed(node, member, frame, self.level)
        return member

    def _subscript(self, node: ast.Subscript, frame: CallFrame) -> Any:
        owner, table = self.value(node.value, frame), self.last_level
        key, level = self.value(node.slice, frame), self.last_level
        value = self.item(owner, key)
        self._note_cuts(node, owner, key, max(table, level), frame)
        if not isinstance(key, slice) and not isinstance(node.slice, ast.Constant | ast.Slice):
            self._note_entry(node, (owner, table), (key, level), value, frame)
        is_item = level == FIXED and (table == FIXED or isinstance(owner, tuple))
        self.level = table if is_item else PASSED if isinstance(owner, torch.Tensor) else GIVEN
        return value

    def _slice(self, node: ast.Slice, frame: CallFrame) -> slice:
        ends = [None if part is None else self.value(part, frame) for part in (node.lower, node.upper, node.step)]
        return slice(*ends)

    def _bin_op(self, node: ast.BinOp, frame: CallFrame) -> Any:
        left, right = self.value(node.left, frame), self.value(node.right, frame)
        value = self._operate(language.BINARY, type(node.op).__name__, left, right)
        self._note_operation(node, left, value, frame)
        return value

    def _unary_op(self, node: ast.UnaryOp, frame: CallFrame) -> Any:
        value = self.value(node.operand, frame)
        if isinstance(node.op, ast.Not):
            level = self.last_level
            outcome = self._holds(node.operand, value, frame, level)
            self.level = level
            return not outcome
        return language.UNARY[type(node.op).__name__](value)

    def _bool_op(self, node: ast.BoolOp, frame: CallFrame) -> Any:
        ends_on = isinstance(node.op, ast.Or)
        value: Any = None
        level = FIXED
        for each in node.values:
            value = self.value(each, frame)
            level = self.last_level if level == FIXED else GIVEN
            is_open = each is node.values[-1] and not isinstance(value, bool)  # its truth may be asked by nobody
            ends = is_open or self._holds(each, value, frame, self.last_level) is ends_on
            self.level = level
            if ends:
                break
        return value

    def _compare(self, node: ast.Compare, frame: CallFrame) -> Any:
        if (
            isinstance(node.left, ast.Name)
            and node.left.id == "__name__"
            and ast.unparse(node) == "__name__ == '__main__'"
        ):
            return False
        self._note_zero_question(node)
        left = self.value(node.left, frame)
        value: Any = True
        level = self.last_level
        for at, (operator_, each) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = self.value(each, frame)
            name = type(operator_).__name__
            if name in ("Is", "IsNot"):
                _check_identity(left, right)
            value = self._compared(name, left, right)
            level = max(level, self.last_level)
            if right is None and level == PASSED:
                level = FIXED
            if isinstance(value, bool) and len(node.ops) == 1:
                self._note_decision(node, level, value, frame)
            elif isinstance(value, bool) and each not in self.refusing:
                link = _link_of(node, at)
                value = value if self.turned is None else self._as_turned(link, value, frame)
                self._note_decision(link, level, value, frame)
            if name in ("In", "NotIn"):
                self._note_members(node, left, (right, self.last_level), level, frame)
            self.level = level if level == FIXED else level_of_computed(value, level)
            if each is not node.comparators[-1] and not self.truth(value):
                return value
            left = right
        return value

    def _if_exp(self, node: ast.IfExp, frame: CallFrame) -> Any:
        outcome, hangs = self._decide(node.test, frame), self.last_level
        value = self.value(node.body if outcome else node.orelse, frame)
        self.level = GIVEN if hangs else self.last_level
        return value

    def _tuple(self, node: ast.Tuple, frame: CallFrame) -> tuple[Any, ...]:
        items, self.item_levels = self._items(node.elts, frame)
        return tuple(items)

    def _list(self, node: ast.List, frame: CallFrame) -> list[Any]:
        return self._items(node.elts, frame)[0]

    def _set(self, node: ast.Set, frame: CallFrame) -> set[Any]:
        items, _ = self._items(node.elts, frame)
        self.budget.charge(*items)
        return set(items)

    def _dict(self, node: ast.Dict, frame: CallFrame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        levels: list[int] = []
        spread: list[Any] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                given = self._mapping(self.value(value, frame))
                levels.append(self.last_level)
                spread += given
                made |= given
            else:
                given = self.value(key, frame)
                levels.append(self.last_level)
                self.budget.charge(given)
                made.update([(given, self.value(value, frame))])
        keys = [key for key in node.keys if key is not None]
        if len(keys) == len(node.keys) > 1:
            self._note_event(node, max(levels), len(made) < len(keys), frame, "one with equal keys")
        elif len(node.keys) > 1:
            self._note_keys(node, max(levels), tuple(made), frame, is_met=len(made) < len(keys) + len(spread))
        return made

    def _mapping(self, value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise unproved(f"The evaluator unpacks no {type_name(value)} with two stars.")
        self.budget.spend(len(value))
        return value

    def _comprehended(self, node: Any, frame: CallFrame, take: Callable[[CallFrame], Any]) -> Iterator[None]:
        """Go through a comprehension, an item at a time; ``take`` takes each."""
        names = frozenset(name.id for g in node.generators for name in ast.walk(g.target) if isinstance(name, ast.Name))
        inner = CallFrame(ScopeKind.function, frame.module, frame, {}, names, {}, frame.function, is_comprehension=True)
        first = iter(self.iterate(self.value(node.generators[0].iter, frame)))
        outermost = self._level_of_items(node.generators[0].iter, frame)

        def walk(place: int) -> Iterator[Any]:
            if place == len(node.generators):
                yield take(inner)
                return
            generator = node.generators[place]
            items = first if place == 0 else self.iterate(self.value(generator.iter, inner))
            level = outermost if place == 0 else self.last_level
            self._note_event(generator.iter, level, False, frame, "not empty")
            for item in items:
                self._step(node, frame)
                self._note_event(generator.iter, level, True, frame, "not empty")
                self.store(generator.target, item, inner, level)
                if all(self._decide(test, inner) for test in generator.ifs):
                    yield from walk(place + 1)

        return walk(0)

    def _level_of_items(self, node: ast.expr, frame: CallFrame) -> int:
        """What the items of an iterable hang on, which was evaluated last: on nothing those of keywords that no call wrote."""
        is_view = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS
        of = node.func.value if is_view else node  # type: ignore[attr-defined]
        rest = None if frame.function is None else frame.function.node.args.kwarg
        if rest is None or not isinstance(of, ast.Name) or of.id != rest.arg:
            return self.last_level
        return FIXED if self.level_of_name(rest.arg, frame) == FIXED else self.last_level

    def _collected(self, node: Any, frame: CallFrame, make: Callable[[CallFrame], Any]) -> list[Any]:
        try:
            return list(self._comprehended(node, frame, make))
        except RuntimeError as error:
            if isinstance(error.__cause__, StopIteration):  # which leaves no comprehension but a generator so
                raise error.__cause__ from None
            raise

    def _list_comp(self, node: ast.ListComp, frame: CallFrame) -> list[Any]:
        return self._collected(node, frame, lambda inner: self.value(node.elt, inner))

    def _set_comp(self, node: ast.SetComp, frame: CallFrame) -> set[Any]:
        return set(self._collected(node, frame, lambda inner: self.value(node.elt, inner)))

    def _dict_comp(self, node: ast.DictComp, frame: CallFrame) -> dict[Any, Any]:
        def pair(inner: CallFrame) -> tuple[Any, Any]:
            return self.value(node.key, inner), self.value(node.value, inner)

        pairs = self._collected(node, frame, pair)
        made = dict(pairs)
        self._note_keys(node, self.level, tuple(made), frame, is_met=len(made) < len(pairs))
        return made

    def _generator(self, node: ast.GeneratorExp, frame: CallFrame) -> Iterator[Any]:
        return self._comprehended(node, frame, lambda inner: self.value(node.elt, inner))

    def _named(self, node: ast.NamedExpr, frame: CallFrame) -> Any:
        value = self.value(node.value, frame)
        self.level = self.last_level
        self.bind(node.target.id, value, own_frame(frame))
        return value

    def _lambda(self, node: ast.Lambda, frame: CallFrame) -> Function:
        return self.make_function(node, "<lambda>", frame)

    def _joined(self, node: ast.JoinedStr, frame: CallFrame) -> str:
        text = "".join(str(self.value(part, frame)) for part in node.values)
        self._note_computed(node, text, frame, self.level)
        return text

    def _formatted(self, node: ast.FormattedValue, frame: CallFrame) -> str:
        value = self.check_printable(self.value(node.value, frame))
        if node.conversion != -1:
            value = {115: str, 114: repr, 97: ascii}[node.conversion](value)  # type: ignore[operator]
        return format(value, bounded_format("" if node.format_spec is None else self.value(node.format_spec, frame)))

    def _yield(self, node: ast.Yield, frame: CallFrame) -> None:
        holder = own_frame(frame)
        if holder.on_yield is None:
            raise unproved("`yield` stands in a `contextmanager` alone.")
        holder.on_yield(None if node.value is None else self.value(node.value, frame))
        self.level = GIVEN  # whatever was done meanwhile

    def _starred(self, node: ast.Starred, frame: CallFrame) -> Any:
        raise unproved("A star stands in calls, displays and assignments alone.")

    def _call(self, node: ast.Call, frame: CallFrame) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and "super" not in frame.names:
            return self._super(node, frame)
        if isinstance(node.func, ast.Name):
            function, level = self.load(node.func.id, frame), self.level_of_name(node.func.id, frame)
        else:
            function, level = self.value(node.func, frame), self.last_level
        if getattr(function, "name", "") == "logging.getLogger":
            return self.call(function, (), {})
        args, levels = self._items(node.args, frame)
        named: dict[str, Any] = {}
        by_name: dict[str, int] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                given = self._mapping(self.value(keyword.value, frame))
                by_name |= dict.fromkeys(given, self.last_level)
                for name in given:
                    if name in named:
                        raise TypeError(f"got multiple values for keyword argument '{name}'")
                named |= given
                self._note_names(keyword.value, self.last_level, function, tuple(given), frame)
            else:
                named[keyword.arg] = self.value(keyword.value, frame)
                by_name[keyword.arg] = self.last_level
        if is_builtin(function) and function_name(function) in ("min", "max", "sorted") and len(args) == 1:
            args = self._listed(args)
        self._step(node, frame)
        self._note_question(node, function, args)
        takes_levels = _takes_levels(function)
        self.argument_levels, self.returned_levels = (levels, by_name) if takes_levels else None, None
        self.level = max([level, *levels, *by_name.values()])
        before = (
            list(function.owner) if function_name(function) == "sort" and isinstance(function.owner, list) else None
        )
        outer, self.call_place = self.call_place, self._place_of_call(node, function, args, frame)
        try:
            value = self.call(function, tuple(args), named)
        finally:
            self.argument_levels, self.call_place = None, outer
        if self.loading:
            return value
        of = self.level  # what it computes with, and what the functions that it called did
        if takes_levels:
            hangs, self.item_levels = (GIVEN, None) if self.returned_levels is None else self.returned_levels
            self.level = GIVEN if level else hangs
        else:
            self.item_levels = None
            self.level = level_of_result(function, of, value)
            if of == PASSED and node in self.tensor_questions:
                self.level = FIXED
            self._note_call(node, function, (args, named), (value, max(of, self.level)), frame, levels)
        if before is not None:
            self._note_sorted(node, before, function.owner, frame, of)
        if function_name(function) == "save_for_backward" and isinstance(function.owner, FunctionCtx):
            function.owner.__dict__.setdefault("program_levels", {})["saved_tensors"] = max(PASSED, *levels)
        return value

    def _listed(self, args: list[Any]) -> list[Any]:
        """The items of what a minimum is of, or what is sorted, where they are given one after the other: each is noted."""
        return [list(args[0])] if isinstance(args[0], Iterator) else args

    def _super(self, node: ast.Call, frame: CallFrame) -> Super:
        if node.args:
            (owner, instance), _ = self._items(node.args, frame)
        else:
            holder = own_frame(frame)
            around: CallFrame | None = holder
            while around is not None and around.kind is not ScopeKind.type:
                around = around.parent
            if around is None or holder.function is None or not isinstance(holder.function.node, ast.FunctionDef):
                raise RuntimeError("super(): no arguments")
            first = [*holder.function.node.args.posonlyargs, *holder.function.node.args.args]
            owner, instance = around.made, holder.names[first[0].arg]
        if not isinstance(owner, Class):
            raise unproved("The evaluator has `super` of the program's own classes alone.")
        return Super(owner, instance)

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


def _takes_levels(function: Any) -> bool:
    """Whether what is called is a function of the program, or hands its arguments to one as they are."""
    if isinstance(function, Native):
        return function.name in HANDS_ON or type(function.owner).__name__ == "Kernel"
    return isinstance(function, Function | BoundFunction | torch.nn.Module) or type(function).__name__ == "Operator"


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


@functools.cache
def _link_of(node: ast.Compare, at: int) -> ast.Compare:
    """One comparison of a chain, at the place of its right side."""
    left = node.comparators[at - 1] if at else node.left
    return ast.copy_location(ast.Compare(left, [node.ops[at]], [node.comparators[at]]), node.comparators[at])
