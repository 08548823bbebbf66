"""What a forward kernel writes for a backward kernel to read: the way of a tensor through an autograd Function. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from workers.strategies.element_types import KEEPING
from workers.strategies.fitting import KeptError
from workers.strategies.nothing import returns_of
from workers.strategies.pointers import accesses_of
from workers.strategies.syntax import KernelFile, Launch, called, method_of, parameters_of

NOTHING = "nothing of the size of an input is written for the backward pass alone"


@dataclass(frozen=True)
class Side:
    """A launch in a method of a Function (``call`` is None), or in a function that the method calls once."""

    method: ast.FunctionDef
    launch: Launch
    call: ast.Call | None
    unpacked: ast.Assign | None  # what the method makes of the call's result

    @property
    def host(self) -> ast.FunctionDef:
        """Give the function in which the launch stands."""
        return self.launch.function

    def given(self, name: str) -> str | None:
        """Give the method's name for a parameter of the function that it calls; the same where there is no such call."""
        if self.call is None:
            return name
        arguments = dict(zip(parameters_of(self.host), self.call.args, strict=False))
        arguments |= {k.arg: k.value for k in self.call.keywords if k.arg is not None}
        value = arguments.get(name)
        return value.id if isinstance(value, ast.Name) and _kept(self.host, name) else None


@dataclass(frozen=True)
class Way:
    """Both sides of a Function, the tensors that it saves, and their names in ``backward``, place by place."""

    forward: Side
    backward: Side
    saving: ast.Call
    loading: ast.Assign
    names: tuple[str, ...]

    @property
    def saved(self) -> tuple[str, ...]:
        """Give what forward saves, by its names there; empty where an element has none."""
        return tuple(a.id if isinstance(a, ast.Name) else "" for a in self.saving.args)


def way_of(file: KernelFile, kernel: str) -> Way:
    """Give the way from a forward kernel to the only backward kernel of its Function.

    Raises:
        KeptError: it is not launched once in the forward pass of one Function, or what is saved cannot be told.
    """
    for owner in file.classes.values():
        forward, backward = method_of(owner, "forward"), method_of(owner, "backward")
        if forward is None or backward is None:
            continue
        one = [side for launch in file.launches if (side := _side(file, forward, launch)) is not None]
        other = [side for launch in file.launches if (side := _side(file, backward, launch)) is not None]
        mine = [side for side in one if side.launch.kernel == kernel]
        if not mine:
            continue
        if len(mine) != 1 or len(other) != 1 or sum(x.kernel == kernel for x in file.launches) != 1:
            raise KeptError("it is not one of a pair of kernels that are launched once")
        return Way(mine[0], other[0], *_saved(forward, backward))
    raise KeptError("no autograd Function launches it in its forward pass")


def _side(file: KernelFile, method: ast.FunctionDef, launch: Launch) -> Side | None:
    if launch.function is method:
        return Side(method, launch, None, None)
    calls = [n for n in ast.walk(file.tree) if isinstance(n, ast.Call) and called(n) == launch.function.name]
    mine = [n for n in ast.walk(method) if isinstance(n, ast.Call) and called(n) == launch.function.name]
    if len(calls) != 1 or calls != mine:
        return None
    assigned = [n for n in ast.walk(method) if isinstance(n, ast.Assign) and n.value is mine[0]]
    return Side(method, launch, mine[0], assigned[0] if assigned else None)


def _saved(forward: ast.FunctionDef, backward: ast.FunctionDef) -> tuple[ast.Call, ast.Assign, tuple[str, ...]]:
    saving = [n for n in ast.walk(forward) if isinstance(n, ast.Call) and called(n).endswith(".save_for_backward")]
    read = [n for n in ast.walk(backward) if isinstance(n, ast.Attribute) and n.attr == "saved_tensors"]
    loading = [n for n in ast.walk(backward) if isinstance(n, ast.Assign) and n.value in read]
    if len(saving) != 1 or len(read) != 1 or len(loading) != 1:
        raise KeptError("what its Function saves could not be told")
    target = loading[0].targets[0]
    elements = target.elts if isinstance(target, ast.Tuple) else []
    names = tuple(e.id for e in elements if isinstance(e, ast.Name))
    if len(names) != len(saving[0].args) or saving[0].keywords:
        raise KeptError("what its Function saves could not be told")
    return saving[0], loading[0], names


def forward_names(side: Side, name: str) -> frozenset[str]:
    """Give the method's names for a tensor of the function that launches: what it was given, and what it gives back."""
    if side.call is None:
        return frozenset({name})
    found = {given} if (given := side.given(name)) is not None else set()
    place = returned_place(side, name)
    if place is not None and side.unpacked is not None and isinstance(side.unpacked.targets[0], ast.Tuple):
        element = side.unpacked.targets[0].elts[place]
        found |= {element.id} if isinstance(element, ast.Name) else set()
    return frozenset(found)


def returned_place(side: Side, name: str) -> int | None:
    """Give the place of a name in the tuple that a function ends in; None where it is not there once."""
    last = side.host.body[-1]
    value = last.value if isinstance(last, ast.Return) and returns_of(side.host) == 1 else None
    places = (
        [i for i, e in enumerate(value.elts) if isinstance(e, ast.Name) and e.id == name]
        if isinstance(value, ast.Tuple)
        else []
    )
    return places[0] if len(places) == 1 else None


def unwritten(file: KernelFile, way: Way, names: frozenset[str]) -> bool:
    """Tell whether no kernel of the forward pass writes to a tensor, by any of its names."""
    for launch in file.launches:
        if launch.function not in (way.forward.host, way.forward.method):
            continue
        for parameter in accesses_of(file.kernels[launch.kernel]).written:
            value = launch.argument(parameter)
            if not isinstance(value, ast.Name) or value.id in names:
                return False
    return True


def _kept(function: ast.FunctionDef, name: str) -> bool:
    """A name has the same elements throughout: nothing but a view of itself is given to it."""
    stores = [
        n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
    ]
    views = [
        n for n in ast.walk(function) if isinstance(n, ast.Assign) and n.targets[0] in stores and _view(n.value, name)
    ]
    return len(stores) == len(views)


def _view(value: ast.expr, name: str) -> bool:
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in KEEPING:
        value = value.func.value
    return isinstance(value, ast.Name) and value.id == name


def steady(function: ast.FunctionDef, names: frozenset[str], allowed: ast.Assign | None) -> bool:
    """Tell whether a method gives names nothing new, besides one assignment."""
    inside = {id(n) for n in ast.walk(allowed)} if allowed is not None else set()
    stores = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return not any(n.id in names and id(n) not in inside for n in stores)


def allocation_of(host: ast.FunctionDef, name: str) -> ast.Assign:
    """Give ``s = torch.empty_like(x)``: as many elements as an input has, and its element type.

    Raises:
        KeptError: it is not allocated so.
    """
    found = [s for s in host.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == name]
    value = found[0].value if len(found) == 1 else None
    like = isinstance(value, ast.Call) and called(value) == "torch.empty_like" and not value.keywords
    if not like or not isinstance(value, ast.Call) or not isinstance(value.args[0], ast.Name):
        raise KeptError(NOTHING)
    return found[0]


def saved_place(way: Way, name: str) -> int:
    """Give the place at which a tensor is saved.

    Raises:
        KeptError: it is not, or it is for more than that.
    """
    side, mine = way.forward, name
    if side.call is not None:
        place = returned_place(side, name)
        target = side.unpacked.targets[0] if side.unpacked is not None else None
        if place is None or not isinstance(target, ast.Tuple) or not isinstance(target.elts[place], ast.Name):
            raise KeptError(NOTHING)
        mine = ast.unparse(target.elts[place])
        if count(side.method, mine) != 2:
            raise KeptError(NOTHING)
    elif count(side.method, mine) != 1 + count(side.launch.call, mine) + 1:
        raise KeptError(NOTHING)
    if way.saved.count(mine) != 1:
        raise KeptError(NOTHING)
    return way.saved.index(mine)


def count(node: ast.AST, name: str) -> int:
    """Give how often a name is mentioned."""
    return sum(1 for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name)


def same_tensor(file: KernelFile, way: Way, name: str, other: ast.expr | None) -> bool:
    """Tell whether backward is given a tensor of the forward pass with the same elements."""
    mine = forward_names(way.forward, name)
    places = [number for number, saved in enumerate(way.saved) if saved in mine]
    theirs = way.backward.given(other.id) if isinstance(other, ast.Name) else None
    kept = steady(way.forward.method, mine, way.forward.unpacked) and unwritten(file, way, mine | {name})
    return kept and any(way.names[number] == theirs for number in places)
