"""The KernelBench form of a problem, rewritten in the reference form: the model's parameters become inputs.

The model is built once more next to the reference, and called with the parameters that the reference was given in place of its own.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from gpu_runner.contracts import Problem, ProblemError
from gpu_runner.contracts.problem import DTYPES
from gpu_runner.messages import DescribedModel, ModelNumber, ModelTensor

_FLOATING = ("float32", "bfloat16", "float16", "float64")
_WHOLE = ("int64", "int32", "int16", "int8", "uint8", "bool")


@dataclass(frozen=True)
class ModelInput:
    """A tensor, or with ``value`` a number, that the reference takes; ``path`` is its name within the model."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    grad: bool = False
    path: str | None = None
    low: int | None = None
    high: int | None = None
    value: float | int | bool | str | None = None
    init: str | None = None  # ones or zeros, where it starts as that
    idle: bool = False  # no value depends on it, as on a count of batches: it takes no part, and stays the model's own


@dataclass(frozen=True)
class Taken:
    """What a model takes; ``state_elements`` are those of its parameters and buffers, ``tied`` second names of these.

    ``tracking`` are the modules that normalise by the batch's statistics and keep running ones, which nothing else reads.
    """

    items: tuple[ModelInput, ...]
    state_elements: int
    tied: tuple[tuple[str, str], ...] = ()
    tracking: tuple[str, ...] = ()

    def without(self, idle: Collection[str]) -> Taken:
        """The same without parameters and buffers on which no value depends; ``idle`` are names of items."""
        items = tuple(replace(item, idle=True) if item.path and item.name in idle else item for item in self.items)
        return replace(self, items=items)

    def without_gradients(self) -> Taken:
        """The same where nothing has a gradient."""
        return replace(self, items=tuple(replace(item, grad=False) for item in self.items))


def read(model: DescribedModel) -> Taken:
    """A model's description as its child sent it.

    Raises:
        ProblemError: the model cannot be rewritten soundly.
    """
    if model.hidden:
        raise ProblemError(
            f"the model holds the tensor `{model.hidden[0]}`, which is neither a parameter nor a buffer",
            fix="Register it with register_buffer or as an nn.Parameter.",
        )
    try:
        tied = tuple((_path(second), _path(first)) for second, first in model.tied)
        tracking = tuple(_path(name) if name else "" for name in model.tracking)
        return Taken(_read(model), model.held_elements, tied, tracking)
    except ValueError as error:
        raise ProblemError(f"what the model takes cannot be read: {error}") from error


def forward_line(problem: Problem) -> int | None:
    """The line of the model's ``forward``."""
    for node in ast.walk(ast.parse(problem.source)):
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            return next(
                (m.lineno for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "forward"), node.lineno
            )
    return None


class NamedSizes(StrEnum):
    """Which sizes of a call's inputs get names."""

    places = "places"  # first dimensions, and others that no parameter shares; equal ones one name where they are in one place
    free = "free"  # those that no parameter shares; equal ones one name wherever they are
    first = "first"  # first dimensions alone
    none = "none"

    @property
    def is_by_place(self) -> bool:
        """Whether equal sizes may have several names."""
        return self in (NamedSizes.places, NamedSizes.first)


def rewritten(problem: Problem, taken: Taken, named: NamedSizes) -> str:
    """The reference form, with names for some sizes of the call's inputs."""
    every = taken.items
    takes = tuple(item for item in every if not item.idle)
    fixed = {size for item in takes if item.path is not None for size in item.shape}
    names: dict[_SizePlace, str] = {}
    workload: dict[str, int] = {}
    for item in takes:
        for place in _places(item, named) if item.path is None else ():
            is_named = place.is_first or (place.size not in fixed and named in (NamedSizes.places, NamedSizes.free))
            if is_named and place.size > 1 and place not in names:
                name = names[place] = f"D{len(names)}"
                workload[name] = place.size
    dims = {item.name: _dims(item, named, {} if item.path is not None else names) for item in takes}
    tensors = [item for item in takes if item.value is None]
    floating = {item.dtype for item in tensors if item.dtype in _FLOATING}
    # A model of one narrow dtype is a problem of that; where there are several, each tensor keeps its own.
    call = next(iter(floating)) if len(floating) == 1 else "float32"
    call = call if call in DTYPES else "float32"
    inputs = "".join(f"    {item.name!r}: {_spec(item, dims[item.name], call)!r},\n" for item in tensors)
    state = "".join(f"        {item.path!r}: {item.name},\n" for item in takes if item.path is not None)
    arguments = ", ".join(item.name for item in takes if item.path is None)
    idle = {item.path: (item.dtype, item.shape, item.grad, item.init) for item in every if item.idle}
    still = "".join(f"_MODEL.get_submodule({name!r}).track_running_stats = False\n" for name in taken.tracking)
    return (
        f"{problem.source.rstrip()}\n\n\n_MODEL = Model(*get_init_inputs())\n"
        f"{still}{f'_IDLE = {idle!r}' if idle else ''}\n\n"
        f"def reference({_signature(takes)}):\n"
        f"    state = {{\n{state}    }}\n"
        f"    return torch.func.functional_call(_MODEL, state, ({arguments},))\n\n\n"
        f"INPUTS = {{\n{inputs}}}\nWORKLOADS = [{workload!r}]\n"
        f"{f'DTYPES = [{call!r}]{chr(10)}' if call != 'float32' else ''}"
    )


def _signature(takes: tuple[ModelInput, ...]) -> str:
    plain = [item.name for item in takes if item.value is None]
    return ", ".join([*plain, *(f"{item.name}={item.value!r}" for item in takes if item.value is not None)])


@dataclass(frozen=True)
class _SizePlace:
    """A size of an input, and where it is, as far as that matters to its name."""

    size: int
    number: int | None = None
    is_first: bool = False


def _places(item: ModelInput, named: NamedSizes) -> list[_SizePlace]:
    by_place = named is NamedSizes.places
    return [_SizePlace(s, n if by_place else None, named.is_by_place and n == 0) for n, s in enumerate(item.shape)]


def _dims(item: ModelInput, named: NamedSizes, names: Mapping[_SizePlace, str]) -> str:
    return " ".join(names.get(place, str(place.size)) for place in _places(item, named))


def _spec(item: ModelInput, dims: str, call: str) -> dict[str, Any] | str:
    spec: dict[str, Any] = {"dims": dims}
    if item.dtype != call:
        spec["dtype"] = item.dtype
    if item.dtype in _WHOLE and item.dtype != "bool":
        spec |= {"low": item.low, "high": item.high}
    if item.path is not None:
        spec["role"] = "parameter"
    if item.path is not None and item.path.endswith("running_var"):
        spec["init"] = "uniform"  # a variance is not negative
    elif item.init is not None:
        spec["init"] = item.init
    if not item.grad and item.dtype in _FLOATING:
        spec["grad"] = False
    return spec if len(spec) > 1 else dims


def _read(model: DescribedModel) -> tuple[ModelInput, ...]:
    taken: set[str] = {"_MODEL", "torch", "state", "Model", "get_inputs", "get_init_inputs", "reference"}
    inputs = [_item(item, None, taken) for item in model.inputs]
    # The call's own floating inputs want gradients, whatever get_inputs says: it makes plain tensors.
    items = [ModelInput(**(vars(i) | {"grad": i.value is None and i.dtype in _FLOATING})) for i in inputs]
    items += [_item(parameter, parameter.name, taken) for parameter in model.parameters]
    for buffer in model.buffers:
        item = _item(replace(buffer, grad=False), buffer.name, taken)
        items.append(item if item.dtype in _FLOATING else replace(item, idle=True))
    return tuple(items)


def _item(given: ModelTensor | ModelNumber, path: str | None, taken: set[str]) -> ModelInput:
    name = _identifier(given.name, taken)
    if path is not None:
        _path(path)
    if isinstance(given, ModelNumber):
        if len(str(given.value)) > 200:
            raise ValueError("a number of the call is not of its form")
        return ModelInput(name, value=given.value)
    dtype = given.dtype
    if dtype not in (*_FLOATING, *_WHOLE):
        raise ValueError(f"the dtype {dtype[:40]} is not supported")
    if dtype in _WHOLE and dtype != "bool" and given.high is None and path is None:
        raise ValueError(f"between which values the whole numbers of `{name}` lie; draw them with torch.randint")
    init = given.init if given.init in ("ones", "zeros") else None
    return ModelInput(name, given.shape, dtype, given.grad, path, given.low, given.high, init=init)


def _path(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.]{1,200}", text):
        raise ValueError("a parameter's name is not of its form")
    return text


def _identifier(name: str, taken: set[str]) -> str:
    plain = re.sub(r"\W", "_", name)[:80] or "value"
    plain = f"p_{plain}" if plain[0].isdigit() or keyword.iskeyword(plain) else plain
    while plain in taken:
        plain += "_"
    taken.add(plain)
    return plain
