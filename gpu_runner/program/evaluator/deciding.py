"""Notes what host code decides: conditions, choices, look-ups, and whatever it computes of values that a call may change.

Nothing is noted of what is ``FIXED``, of what is done while a module is loaded, or of conditions on whose other side there is
nothing but ``raise``.
"""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import torch

from gpu_runner.messages import Place
from gpu_runner.program.budget import (
    SIZED,
)
from gpu_runner.program.coverage import (
    BOTH,
    FAILED,
    HELD,
    MOST_ITEMS,
    UNCHANGED,
    is_known,
    is_plain,
    place_of,
)
from gpu_runner.program.evaluator.effects import Effects
from gpu_runner.program.levels import (
    only_raises,
)
from gpu_runner.program.objects import (
    FIXED,
    PASSED,
    CallFrame,
    Function,
    Native,
    function_name,
    is_builtin,
)

_CUTS = frozenset(["split", "chunk", "tensor_split", "split_with_sizes", "unfold", "arange"])
_LOSES = ast.FloorDiv | ast.Mod | ast.RShift | ast.BitAnd  # operators after which much is zero


MOST_DIMENSIONS = 8  # of a tensor
_REMAINDERS = frozenset(["operator.mod", "operator.and_"])
_ROUNDS = frozenset(["int", "round", "math.floor", "math.ceil", "math.trunc", "math.isqrt"])


def _is_of_tensors(value: Any) -> bool:
    return all(isinstance(each, torch.Tensor) for each in (value if isinstance(value, tuple) else (value,)))


class Deciding(Effects):
    def _refuse(self, test: ast.expr, frame: CallFrame) -> None:
        """Leave a condition out of the decisions: on its other side nothing is computed. What it changes may be used elsewhere."""
        if test not in self.refusals:
            self.refusals.add(test)
            self.refusing |= self._asks_alone(test, frame)

    def _note_decision(self, node: ast.expr | ast.pattern, level: int, outcome: bool, frame: CallFrame) -> None:
        """Note how a decision ended, by what it hangs on."""
        if level and not self.loading and node not in self.refusing:
            always = outcome and node in self.tensor_questions  # as the arguments of a problem are
            self.decisions.add(frame.module.path, node, BOTH if always else HELD if outcome else FAILED)

    def _note_zero_question(self, node: ast.Compare) -> None:
        """Know a number as one of which nothing is used but whether it is zero, which its comparison notes."""
        is_equality = len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq)
        other = node.comparators[0]
        if is_equality and isinstance(node.left, ast.BinOp) and isinstance(other, ast.Constant) and other.value == 0:
            self.zero_questions.add(node.left)

    def _note_question(self, node: ast.Call, function: Any, args: Sequence[Any]) -> None:
        """Know whether a call asks if something is a tensor."""
        is_asked = function_name(function) == "isinstance" and len(args) == 2 and args[1] is torch.Tensor
        (self.tensor_questions.add if is_asked else self.tensor_questions.discard)(node)

    def _note_members(self, node: ast.Compare, value: Any, of: tuple[Any, int], level: int, frame: CallFrame) -> None:
        """Note of each of few numbers or texts whether it is the one that is looked for."""
        container, own = of
        if is_word(value):
            return
        is_known_set = own == FIXED and isinstance(container, dict | set | frozenset)
        if level and (is_known_set or isinstance(container, list | tuple)) and len(container) <= MOST_ITEMS:
            for at, item in enumerate(container):
                if is_plain(item):
                    what = f"met by {repr(item) if own == FIXED else f'item {at}'}"
                    self._note_event(node, level, bool(item == value), frame, what)

    def _note_event(self, node: ast.expr, level: int, does: bool, frame: CallFrame, what: str) -> None:
        """Note whether something happens that always may."""
        if level and not self.loading and node not in self.refusing:
            self.decisions.add(frame.module.path, node, BOTH if does else FAILED, what)

    def _note_computed(self, node: ast.expr, value: Any, frame: CallFrame, level: int) -> None:
        """Know an expression as one whose value might change from call to call, as those do that it is computed of."""
        known = self.decisions.computed
        if level and not self.loading and node not in known and node not in self.refusing and is_known(value):
            known[node] = frame.module.path

    def _note_entry(
        self, node: ast.expr, of: tuple[Any, int], at_key: tuple[Any, int], value: Any, frame: CallFrame
    ) -> None:
        """Note which entry is taken of a table, where the call says which; each with what it hangs on."""
        (owner, table), (key, level) = of, at_key
        is_table = isinstance(owner, tuple | list | dict | str | range) and not _is_shape(owner, table)
        if not is_table or not level or isinstance(key, slice):
            self._note_computed(node, value, frame, max(table, level))
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

    def _note_cuts(self, node: ast.expr, owner: Any, key: Any, level: int, frame: CallFrame) -> None:
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
            if isinstance(part, slice) and part.step not in (None, 1) and size:
                self._note_size(node, f"{at}", [size, part], len(range(size)[part]), frame)

    def _note_size(self, node: ast.expr, what: str, operands: Sequence[Any], size: int, frame: CallFrame) -> None:
        """Note a size that is a quotient or a rest of others."""
        self.decisions.operate(place_of(frame.module.path, node), f"size {what}", operands, size)

    def _note_sizes(
        self, node: ast.Call, function: Any, given: tuple[Sequence[Any], dict[str, Any]], value: Any, frame: CallFrame
    ) -> None:
        """Note the sizes of what is cut of a tensor, or counted, but for those that it had and those that the call names; nothing
        where there is nothing to cut or count."""
        values = [function.owner, *given[0], *given[1].values()]
        sizes = next((tuple(each.shape) for each in values if isinstance(each, torch.Tensor)), ())
        numbers = [each for each in values if isinstance(each, int | float | tuple | list)]
        named = {
            *(each for each in numbers if isinstance(each, int)),
            *itertools.chain(*(n for n in numbers if isinstance(n, tuple | list))),
        }
        is_unfolded = function_name(function) == "unfold"  # into windows, whose size is the last
        parts = value if isinstance(value, tuple) else (value,)
        if 0 in sizes or not any(part.numel() for part in parts):
            return
        for at, part in enumerate(parts):
            for dimension, size in enumerate(part.shape[: part.dim() - is_unfolded]):
                if (is_unfolded or size not in named) and sizes[dimension : dimension + 1] != (size,):
                    self._note_size(node, f"{dimension} of part {at}", [sizes, numbers], size, frame)

    def _note_keys(
        self, node: ast.AST, level: int, keys: Sequence[Any], frame: CallFrame, *, is_met: bool = False
    ) -> None:
        """Note whether keys, where calls differ in them, ever meet one that was there: then what is found by a key is another."""
        if level and not self.loading and node not in self.refusing:
            place = place_of(frame.module.path, node)  # type: ignore[arg-type]  # an expression in each use
            self.decisions.operate(place, "keys that meet", [tuple(keys)], is_met)

    def _note_names(self, node: ast.expr, level: int, function: Any, names: tuple[str, ...], frame: CallFrame) -> None:
        """Note which of the keywords that a mapping gives a function of the program are its parameters."""
        if level and isinstance(function, Function) and not self.loading and node not in self.refusing:
            taken = tuple(name for name in names if name in function.signature.parameters)
            self.decisions.operate(place_of(frame.module.path, node), "keywords", [names], taken)

    def _note_stored(self, node: ast.Subscript, owner: Any, at_key: tuple[Any, int], frame: CallFrame) -> None:
        """Note to which place of a container something is written, where the call says so."""
        key, level = at_key
        if isinstance(owner, dict):
            self._note_keys(node, level, (*owner, key), frame, is_met=key in owner)
        elif isinstance(key, int) and isinstance(owner, list | torch.Tensor):
            size = len(owner)
            if size <= MOST_ITEMS:
                for place in range(size):
                    self._note_event(node, level, place in (key, key + size), frame, f"written at {place}")
            elif level and not self.loading and node not in self.refusing:
                place_ = place_of(frame.module.path, node)
                self.decisions.operate(place_, "written at the end", [key], key in (-1, size - 1))
        else:
            self._note_cuts(node, owner, key, level, frame)

    def _note_operation(self, node: ast.BinOp, left: Any, value: Any, frame: CallFrame) -> None:
        if node in self.zero_questions:
            return
        if isinstance(node.op, _LOSES) and isinstance(value, int):
            self._note_event(node, self.level, bool(value), frame, "not zero")
            if isinstance(node.op, ast.Mod | ast.BitAnd) and not isinstance(value, bool):
                self._note_event(node, self.level, value != left, frame, UNCHANGED)
        if isinstance(value, dict):
            self._note_keys(node, self.level, tuple(value), frame)
        self._note_computed(node, value, frame, self.level)

    def _note_in_place(self, node: ast.AugAssign, left: Any, value: Any, frame: CallFrame) -> None:
        """Note what ``target op= value`` computes as what ``target op value`` does."""
        if not self.loading:
            whole = in_full(node)
            self.decisions.see(whole.left, left)
            self._note_operation(whole, left, value, frame)
            self.decisions.see(whole, value)

    def _place_of_call(self, node: ast.Call, function: Any, args: Sequence[Any], frame: CallFrame) -> Place | None:
        """The place of a call that hangs on the call of the program. Note what it looks up of a table that it changes."""
        if not self.level or self.loading or node in self.refusing:
            return None
        if function_name(function) in ("pop", "setdefault") and isinstance(function.owner, dict) and args:
            self._note_look_up(node, function.owner, args, function.owner.get(args[0]), frame, [self.level])
        return place_of(frame.module.path, node)

    def _note_call(
        self,
        node: ast.Call,
        function: Any,
        given: tuple[Sequence[Any], dict[str, Any]],
        made: tuple[Any, int],
        frame: CallFrame,
        levels: Sequence[int],
    ) -> None:
        name, (args, named), (value, level) = function_name(function), given, made
        if isinstance(value, bool):  # such as `operator.eq`, which compares too
            self._note_decision(node, self.level, value, frame)
        elif is_builtin(function) and name in ("min", "max", "sorted"):
            self._note_order(node, name, args, value, frame, level)
        elif name in ("get", "operator.getitem") and isinstance(function, Native):
            self._note_look_up(node, function.owner, args, value, frame, levels)
        elif name.rpartition(".")[2] in _CUTS and _is_of_tensors(value):
            if level and not self.loading and node not in self.refusing:
                self._note_sizes(node, function, given, value, frame)
            if isinstance(value, tuple):
                self._note_event(node, level, len(value) > 1, frame, "more than one part")
        elif name == "diagonal" and isinstance(function.owner, torch.Tensor):
            self._note_diagonal(node, function.owner, level, frame, *args, **named)
        elif function is itertools.islice and len(args) > 1:
            self._note_islice(node, args, level, frame)
        elif function is zip or function is map or name == "itertools.zip_longest":
            self._note_ends(node, name, args[1:] if function is map else args, level, frame)
        elif (function is dict and args) or (name == "update" and isinstance(function.owner, dict)):
            self._note_keys(node, level, tuple(value if function is dict else function.owner), frame)
        elif name == "insert" and isinstance(function.owner, list):
            self._note_event(node, levels[0], False, frame, "inserted anywhere else")
        elif not (name == "len" and isinstance(args[0], torch.Size)):
            self._note_number(node, function, args, (value, level), frame)

    def _note_number(
        self, node: ast.Call, function: Any, args: Sequence[Any], made: tuple[Any, int], frame: CallFrame
    ) -> None:
        """Note what a function of numbers loses: a fraction, a quotient, a sign."""
        name, (value, level) = function_name(function), made
        if function in (int, float, complex) and args and isinstance(args[0], str):
            self._note_event(node, level, False, frame, "made of anything but text")
        if name in _ROUNDS and isinstance(value, int):
            self._note_event(node, level, bool(value), frame, "not zero")
        if name == "divmod":
            self._note_event(node, level, bool(value[0]), frame, "more than a remainder")
        if (name in _REMAINDERS or (name == "pow" and len(args) > 2)) and isinstance(value, int):
            first = args[0] ** args[1] if name == "pow" else args[0]
            self._note_event(node, level, value != first, frame, UNCHANGED)
        if name in ("abs", "math.fabs", "math.copysign") and args and isinstance(args[-1], int | float):
            is_negative = math.copysign(1.0, args[-1]) < 0
            self._note_event(node, level, is_negative, frame, "of a negative number")
            self._note_event(node, level, not is_negative, frame, "of a number that is not negative")
        self._note_computed(node, value, frame, level)

    def _note_order(
        self, node: ast.Call, name: str, args: Sequence[Any], value: Any, frame: CallFrame, level: int
    ) -> None:
        """Note which of some values is the least or largest, or whether they are in order."""
        of: Sequence[ast.expr | None] = node.args
        items = args
        if len(args) == 1 and _is_unseen(name, args[0]):
            what = "each that it sorts" if name == "sorted" else f"each of what it is the {name}imum of"
            self._note_event(node, level, False, frame, what)
            return
        if len(args) == 1 and isinstance(args[0], list | tuple) and len(args[0]) <= MOST_ITEMS:
            items = list(args[0])
            display = node.args[0]
            of = display.elts if isinstance(display, ast.Tuple | ast.List) else [None] * len(items)
        if len(of) != len(items):  # some are spread
            of = [None] * len(items)
        if len(items) < 2:
            self._note_computed(node, value, frame, level)
        elif name == "sorted":
            self._note_sorted(node, items, value, frame, level)
        else:
            for at, (each, item) in enumerate(zip(of, items, strict=True)):
                what = f"the {name}imum" if each is not None else f"item {at}"
                self._note_event(each or node, level, bool(item == value), frame, what)

    def _note_islice(self, node: ast.Call, args: Sequence[Any], level: int, frame: CallFrame) -> None:
        """Note of each bound of ``islice`` whether what it goes through ends before it; without a length, that it never does."""
        size = operator.length_hint(args[0], -1)
        for end, bound in zip(("start", "stop") if len(args) > 2 else ("stop",), args[1:3], strict=False):
            if isinstance(bound, int) and level and not self.loading and node not in self.refusing:
                if size < 0:
                    self._note_event(node, level, False, frame, f"ended by its {end}")
                else:
                    self.decisions.cut(place_of(frame.module.path, node), end, bound, size)

    def _note_ends(self, node: ast.Call, name: str, args: Sequence[Any], level: int, frame: CallFrame) -> None:
        """Note which of some sequences ends what goes through all at once; of one whose length nobody knows, that it never does."""
        if len(args) < 2 or any(keyword.arg == "strict" for keyword in node.keywords):
            return
        sizes = [operator.length_hint(each, -1) for each in args]
        last = max if name == "itertools.zip_longest" else min
        for at, size in enumerate(sizes):
            self._note_event(node, level, size == last(sizes) >= 0, frame, f"ended by item {at}")

    def _note_diagonal(
        self,
        node: ast.Call,
        tensor: torch.Tensor,
        level: int,
        frame: CallFrame,
        offset: int = 0,
        dim1: int = 0,
        dim2: int = 1,
    ) -> None:
        """Note which of two dimensions ends a diagonal."""
        sizes = tensor.shape[dim1] + min(offset, 0), tensor.shape[dim2] - max(offset, 0)
        for at, size in enumerate(sizes):
            self._note_event(node, level, size == min(sizes), frame, f"ended by dimension {at + 1}")

    def _note_sorted(
        self, node: ast.Call, before: Sequence[Any], after: Sequence[Any], frame: CallFrame, level: int
    ) -> None:
        if len(before) > 1:
            self._note_event(node, level, list(after) == list(before), frame, "in the order given")
            self._note_event(node, level, list(after) != list(before), frame, "in another order")

    def _note_look_up(
        self, node: ast.Call, owner: Any, args: Sequence[Any], value: Any, frame: CallFrame, levels: Sequence[int]
    ) -> None:
        """Note what ``table.get(key)`` and ``getitem(table, key)`` look up."""
        if isinstance(owner, dict):
            is_found, may_lack = args[0] in owner, len(args) > 1 and not _is_dtype_passed(args[0], levels[0])
            if levels[0] and not self.loading and node not in self.refusing:
                outcome = (HELD if may_lack else BOTH) if is_found else FAILED
                self.decisions.add(frame.module.path, node, outcome, "found")
            if args[0] in owner:
                self._note_entry(node, (owner, FIXED), (args[0], levels[0]), value, frame)
        elif len(args) == 2:
            self._note_entry(node, (args[0], levels[0]), (args[1], levels[1]), value, frame)

    def _note_handlers(self, node: ast.Try, taken: ast.ExceptHandler | None, frame: CallFrame) -> None:
        """Note which handler is taken of a `try` in which something hung on the call."""
        for handler in node.handlers if self.saw_call and not self.loading else ():
            if not only_raises(handler.body):
                kind = "" if handler.type is None else f" {ast.unparse(handler.type)}"
                place = (frame.module.path, handler.lineno, handler.col_offset, False, f"`except{kind}` is taken")
                self.decisions.add_at(place, BOTH if handler is taken else FAILED)


def _is_dtype_passed(key: Any, level: int) -> bool:
    """Whether a key is the dtype of what was passed: a verdict names the dtypes in which it judged."""
    return isinstance(key, torch.dtype) and level == PASSED


def is_word(value: Any) -> bool:
    """Whether a value is text that no number makes, such as a mode: the problem names each, and a program its synonyms."""
    return isinstance(value, str) and value.isascii() and value.isprintable() and not any(map(str.isdigit, value))


def _is_shape(value: Any, level: int) -> bool:
    """Whether a value may be the shape of a tensor, whose dimensions the problem gives, and is no table."""
    return isinstance(value, torch.Size) and level != FIXED and len(value) <= MOST_DIMENSIONS


def _is_unseen(name: str, items: Any) -> bool:
    """Whether nobody sees which of some items is the least, or how they were ordered: of too many, or of ones without an order."""
    if isinstance(items, list | tuple):
        return len(items) > MOST_ITEMS
    return isinstance(items, set | frozenset) or name != "sorted"


@functools.cache
def in_full(node: ast.AugAssign) -> ast.BinOp:
    """``target op value`` of ``target op= value``."""
    target = copy.copy(node.target)
    target.ctx = ast.Load()
    return ast.copy_location(ast.BinOp(target, node.op, node.value), node)
