"""Other calls of what a layout's call names: what its callers may hand over in place of what the layout does. Pure.

A form is a file with a function around the call, ``return rms_norm(x, w, eps, 0.0)``; another call is a function beside it.
"""

from __future__ import annotations

import ast
import copy
import itertools
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from gpu_runner.contracts.reading import parse
from gpu_runner.verify.one_sided import all_bindings

MOST_WORDS = 3  # in place of one
MOST_RESULTS = 3  # of several of which the layout's call takes one
MOST_PAIRS = 2
_VIEWS = frozenset({"contiguous", "flatten", "reshape", "squeeze", "t", "transpose", "unsqueeze", "view"})
_FLOATS, _WHOLE = ("float", "half", "bfloat16", "double"), ("int", "long")
_KEPT = "kept"


@dataclass(frozen=True)
class OtherCall:
    """A function of the form, by its name and by what differs from the layout's call, such as "`True` in place of `False`".

    ``wide`` is one beside it that hands over each floating tensor in float32.
    """

    symbol: str
    change: str

    @property
    def wide(self) -> str:
        """Its name."""
        return f"{self.symbol}_wide"


@dataclass(frozen=True)
class _CallChange:
    said: str
    arguments: tuple[tuple[int, str], ...] = ()  # places among the call's arguments, and what stands there
    positional: tuple[str, ...] = ()  # what comes after them
    named: tuple[tuple[str, str], ...] = ()
    result: str | None = None  # in place of the one that is taken, of what is kept


@dataclass(frozen=True)
class _LayoutCall:
    function: ast.FunctionDef
    call: ast.Call
    called: str  # where it is defined

    @property
    def given(self) -> list[ast.expr]:
        return [*self.call.args, *(keyword.value for keyword in self.call.keywords)]


def with_other_calls(
    text: str,
    symbol: str,
    tensors: Mapping[str, torch.Tensor],
    texts: Collection[str],
    stream: random.Random,
    most: int,
) -> tuple[str, list[OtherCall]]:
    """The form with at most ``most`` functions beside its own, each with another call, and what differs in each.

    ``tensors`` are inputs by name, ``texts`` the original's files. Each constant and tensor of the call is changed once before any
    is a second time.
    """
    tree = parse(text)
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == symbol), None)
    call = next((node for node in ast.walk(function) if isinstance(node, ast.Call)), None) if function else None
    if function is None or call is None:
        return text, []
    func = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    imported = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    names = {alias.asname or alias.name: alias.name for alias in imported}
    made = _LayoutCall(function, call, names.get(getattr(func, "id", ""), ""))
    groups = [list(group) for group in _groups(made, tensors, texts, stream)]
    for group in groups:
        stream.shuffle(group)
    stream.shuffle(groups)
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*groups))
    chosen = [change for change in rounds if change is not None][:most]
    lines, calls = text.split("\n"), []
    floating = {name for name, tensor in tensors.items() if tensor.is_floating_point()}
    for place, change in enumerate(chosen):
        calls.append(OtherCall(f"{symbol}_{place}", change.said))
        lines.append(_text_of(made, change, calls[-1].symbol) + "\n")
        lines.append(_text_of(made, change, calls[-1].wide, floating) + "\n")
    return "\n".join(lines), calls


def _groups(
    made: _LayoutCall, tensors: Mapping[str, torch.Tensor], texts: Collection[str], stream: random.Random
) -> Iterator[list[_CallChange]]:
    words = words_of(texts)
    of_constants: list[list[_CallChange]] = []
    for place, argument in enumerate(made.given):
        if _is_constant(argument):
            others = _others(argument, words, tensors, stream)
            of_constants.append([_in_place(made, {place: other}) for other in others])
        elif _root(argument) in tensors:
            others = _other_tensors(ast.unparse(argument), tensors[_root(argument)], stream)
            yield [_in_place(made, {place: other}) for other in others]
    of_constants += list(_defaults(made, words, tensors, texts, stream))
    yield from of_constants
    yield [
        _both(stream.choice(one), stream.choice(other))
        for one, other in _pairs([group for group in of_constants if group], stream)
    ]
    floating = [at for at, one in enumerate(made.given) if _root(one) in tensors and _is_floating(tensors, one)]
    yield (
        [_in_place(made, {place: f"({ast.unparse(made.given[place])}).double()" for place in floating})]
        if floating
        else []
    )
    yield list(_results(made))


def _in_place(made: _LayoutCall, others: Mapping[int, str]) -> _CallChange:
    said = ", ".join(f"`{other}` in place of `{ast.unparse(made.given[place])}`" for place, other in others.items())
    return _CallChange(said, tuple(others.items()))


def _both(one: _CallChange, other: _CallChange) -> _CallChange:
    few, many = sorted((one.positional, other.positional), key=len)  # of each the last differs from a default
    positional = (*many[: len(few) - 1], few[-1], *many[len(few) :]) if few else many
    return _CallChange(
        f"{one.said} and {other.said}", one.arguments + other.arguments, positional, one.named + other.named
    )


def _pairs(
    groups: Sequence[list[_CallChange]], stream: random.Random
) -> list[tuple[list[_CallChange], list[_CallChange]]]:
    pairs = list(itertools.combinations(groups, 2))
    return stream.sample(pairs, min(len(pairs), MOST_PAIRS))


def _results(made: _LayoutCall) -> Iterator[_CallChange]:
    """Another one of several results, and two of them in one, so that both have a gradient."""
    for node in ast.walk(made.function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Subscript) and _is_constant(node.value.slice):
            taken = ast.literal_eval(node.value.slice)
            for place in range(MOST_RESULTS):
                if place != taken:
                    yield _CallChange(f"result {place} in place of {taken}", result=f"{_KEPT}[{place}]")
                    together = f"{_KEPT}[{taken}] + 0.5 * {_KEPT}[{place}]"
                    yield _CallChange(f"results {taken} and {place} together", result=together)


def _defaults(
    made: _LayoutCall,
    words: Sequence[str],
    tensors: Mapping[str, torch.Tensor],
    texts: Collection[str],
    stream: random.Random,
) -> Iterator[list[_CallChange]]:
    """Parameters of what is called that the call leaves at their defaults."""
    is_applied = isinstance(made.call.func, ast.Attribute)
    definitions = list(all_bindings(texts).get(made.called, ()))
    if is_applied:
        definitions = [
            item for node in definitions if isinstance(node, ast.ClassDef) for item in node.body if _is_forward(item)
        ]
    node = next((node for node in definitions if isinstance(node, ast.FunctionDef)), None)
    if node is None:
        return
    parameters = [*node.args.posonlyargs, *node.args.args][1 if is_applied else 0 :]
    defaults = dict(zip(reversed([arg.arg for arg in parameters]), reversed(node.args.defaults), strict=False))
    left = parameters[len(made.call.args) :]
    given = {keyword.arg for keyword in made.call.keywords}
    before: list[str] = []
    for parameter in left:
        default = defaults.get(parameter.arg)
        if default is None:
            return
        if _is_constant(default) and parameter.arg not in given:
            others = _others(default, words, tensors, stream)
            if is_applied:
                yield [_CallChange(f"`{parameter.arg}={o}`", positional=(*before, o)) for o in others]
            else:
                yield [_CallChange(f"`{parameter.arg}={o}`", named=((parameter.arg, o),)) for o in others]
        before.append(ast.unparse(default))


def _is_forward(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "forward"


def words_of(texts: Collection[str]) -> list[str]:
    """The words that the original's files compare something with, or look up."""
    words: dict[str, None] = {}
    for node in (node for text in texts for node in ast.walk(parse(text))):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            parts = [*node.comparators, node.left]
        elif isinstance(node, ast.Dict):
            parts = [*node.keys]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        parts += [item for part in parts if isinstance(part, ast.Tuple | ast.List | ast.Set) for item in part.elts]
        words |= {p.value: None for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)}
    return list(words)


def _text_of(made: _LayoutCall, change: _CallChange, symbol: str, widened: Collection[str] = ()) -> str:
    """A copy of the form's function with a change, under another name; what is made of ``widened`` tensors is in float32."""
    function = copy.deepcopy(made.function)
    function.name = symbol
    call = next(node for node in ast.walk(function) if isinstance(node, ast.Call))
    for place, text in change.arguments:
        value = _expression(text)
        if place < len(call.args):
            call.args[place] = value
        else:
            call.keywords[place - len(call.args)].value = value
    call.args += map(_expression, change.positional)
    call.keywords += [ast.keyword(name, _expression(text)) for name, text in change.named]
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)] if widened else ():
        if _root(argument, made=_VIEWS.union(_FLOATS), parts=True) in widened:
            _replace_argument(call, argument, _expression(f"({ast.unparse(argument)}).float()"))
    if change.result is not None:
        body = function.body
        at = next(place for place, node in enumerate(body) if isinstance(node, ast.Return))
        body[at : at + 1] = parse(f"{_KEPT} = {ast.unparse(call)}\nreturn_ = {change.result}").body
        returned = body[at + 1]
        assert isinstance(returned, ast.Assign)
        body[at + 1] = ast.Return(returned.value)
    return ast.unparse(ast.fix_missing_locations(function))


def _replace_argument(call: ast.Call, argument: ast.expr, other: ast.expr) -> None:
    call.args = [other if each is argument else each for each in call.args]
    for keyword in call.keywords:
        keyword.value = other if keyword.value is argument else keyword.value


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _is_constant(argument: ast.expr) -> bool:
    """Whether an argument is a constant, or a number below zero."""
    inner = argument.operand if isinstance(argument, ast.UnaryOp) and isinstance(argument.op, ast.USub) else argument
    return isinstance(inner, ast.Constant)


def _root(argument: ast.expr, *, made: Collection[str] = _VIEWS, parts: bool = False) -> str:
    """The name of the tensor that an argument is, or is ``made`` of by these methods, or a part of; nothing of any other one."""
    while True:
        if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute) and argument.func.attr in made:
            argument = argument.func.value
        elif parts and isinstance(argument, ast.Subscript):
            argument = argument.value
        else:
            return argument.id if isinstance(argument, ast.Name) else ""


def _is_floating(tensors: Mapping[str, torch.Tensor], argument: ast.expr) -> bool:
    return bool(tensors[_root(argument)].is_floating_point())


def _others(
    constant: ast.expr, words: Sequence[str], tensors: Mapping[str, torch.Tensor], stream: random.Random
) -> list[str]:
    """Other values in place of a constant: what a caller may mean by it, and what few do."""
    value = ast.literal_eval(constant)
    if isinstance(value, bool):
        return [repr(not value)]
    if isinstance(value, int):
        return [repr(stream.choice([n for n in few if n != value])) for few in (range(5), (-2, -1, 7))]
    if isinstance(value, float):
        usual = round(stream.uniform(0.1, 0.9), 3)
        return [repr(other) for other in (usual, -usual, round(1 + 3 * usual, 3), 0.0) if other != value]
    if isinstance(value, str):
        other = [word for word in words if word != value]
        return [repr(word) for word in stream.sample(other, min(len(other), MOST_WORDS))]
    if value is not None:
        return []
    others = [repr(round(math.exp(stream.uniform(0.1, 2.0)), 3)), "True"]
    floating = sorted(
        (name for name in tensors if tensors[name].is_floating_point()), key=lambda name: tensors[name].dim()
    )
    for name in dict.fromkeys([*floating[:1], *floating[-1:]]):
        others.append(name)
        if tensors[name].dim() > 1:
            others.append(f"{name}.reshape(-1, {name}.shape[-1])[0]")
    return others


def _other_tensors(text: str, tensor: torch.Tensor, stream: random.Random) -> list[str]:
    """What may come in place of a tensor: none, one of another dtype, and its first slice."""
    kinds = _FLOATS if tensor.is_floating_point() else _WHOLE
    others = [f"({text}).{stream.choice(kinds)}()", "None"]
    return others if tensor.dim() < 2 else [*others, f"({text})[:1]"]
