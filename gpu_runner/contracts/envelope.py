"""The envelope around every request and result, and its JSON form."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, TypeVar

SCHEMA_VERSION = 1
FORMERLY = "formerly"  # in a field's metadata: the name that its values were stored under once, which is still read

T = TypeVar("T")


class Action(StrEnum):
    """What the runner can be asked to do."""

    capture = "capture"
    verify = "verify"
    benchmark = "benchmark"
    profile = "profile"
    tune = "tune"
    record = "record"
    tests = "tests"
    doctor = "doctor"


class Isolation(StrEnum):
    """How a child is kept in; levels add up where the host allows."""

    process = "process"
    landlock = "landlock"
    namespaces = "namespaces"


class RunnerError(Exception):
    """The one error root of the runner; its text is for operators, not for GitHub."""


@dataclass(frozen=True)
class Limits:
    """Bounds on one action."""

    time_s: float = 600.0  # of the whole action
    step_s: float = 120.0  # of one call into a child
    memory_bytes: int = 16 * 2**30
    processes: int = 512
    file_bytes: int = 2**30
    scratch_bytes: int = 4 * 2**30  # of all files in a child's folder
    scratch_files: int = 200_000


@dataclass(frozen=True)
class GpuRequest:
    """One action. ``payload`` is the action's own request, as its JSON form (see ``to_json``)."""

    request_id: str
    action: Action
    payload: dict[str, Any]
    limits: Limits = Limits()
    require: tuple[Isolation, ...] = ()  # refuse to run where these do not hold
    schema: int = SCHEMA_VERSION


PRINTED = "; it printed: "  # in an error: what follows is the end of the runner's log


@dataclass(frozen=True)
class GpuResult:
    """What came of one action: statuses, errors and samples, never prose."""

    request_id: str
    action: Action
    payload: dict[str, Any] | None  # the action's own result as JSON; None with an ``error``
    error: str | None = None  # the runner or its environment is at fault, not the candidate
    isolation: tuple[Isolation, ...] = ()  # the levels in force
    host: tuple[tuple[str, str], ...] = ()  # python, torch, triton, gpu, driver
    duration_s: float = 0.0
    # Where the time went: what was done, and seconds. Children work side by side, so that these may add up to more than it all.
    seconds: tuple[tuple[str, float], ...] = ()
    schema: int = SCHEMA_VERSION


def to_json(value: object) -> Any:
    """The JSON form of a contract: dataclasses as objects, tuples as lists, enums as values, marked unions by ``$``.

    Raises:
        TypeError: the value contains something that is no contract.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        form: dict[str, Any] = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"$": type(value).__name__} | form
    raise TypeError(f"{type(value).__name__} has no JSON form")


def from_json(kind: type[T], form: Any) -> T:
    """Build the contract ``kind`` from its JSON form, checking every field's type.

    Raises:
        ValueError: an unknown field, a missing one, or one of the wrong type; the text names the field.
    """
    return typing.cast(T, _build(kind, form, kind.__name__))


def _build(kind: Any, form: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return form
    if origin in (typing.Union, types.UnionType):
        return _build_union(typing.get_args(kind), form, where)
    if origin is tuple:
        return _build_tuple(typing.get_args(kind), form, where)
    if origin is dict:
        if not isinstance(form, dict):
            raise ValueError(f"{where}: expected an object")
        return form
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(form)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, form, where)
    if kind is float and isinstance(form, int | float) and not isinstance(form, bool):
        return float(form)
    if kind in (int, str, bool, types.NoneType) and type(form) is kind:
        return form
    raise ValueError(f"{where}: expected {getattr(kind, '__name__', kind)}, got {type(form).__name__}")


def _build_union(options: tuple[Any, ...], form: Any, where: str) -> Any:
    mark = form.get("$") if isinstance(form, dict) else None
    for option in options:
        if dataclasses.is_dataclass(option) and (mark is not None) != (getattr(option, "__name__", None) == mark):
            continue
        try:
            return _exact(option, form, where)
        except ValueError:
            continue
    raise ValueError(f"{where}: {str(form)[:80]!r} fits none of its types")


def _exact(option: Any, form: Any, where: str) -> Any:
    # In a union an int stays an int: 1 must not become 1.0 because float stands first.
    if option is float and not isinstance(form, float):
        raise ValueError(where)
    return _build(option, form, where)


def _build_tuple(items: tuple[Any, ...], form: Any, where: str) -> Any:
    if not isinstance(form, list):
        raise ValueError(f"{where}: expected a list")
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_build(items[0], item, f"{where}[{i}]") for i, item in enumerate(form))
    if len(items) != len(form):
        raise ValueError(f"{where}: expected {len(items)} items")
    return tuple(_build(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(items, form, strict=True)))


@functools.cache
def _fields(kind: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The type of each field, and the names of fields by their former ones. Reading annotations takes longer than a value does."""
    hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
    former = {field.metadata[FORMERLY]: field.name for field in fields if FORMERLY in field.metadata}
    return {field.name: hints[field.name] for field in fields}, former


def _build_dataclass(kind: Any, form: Any, where: str) -> Any:
    if not isinstance(form, dict):
        raise ValueError(f"{where}: expected an object")
    mark = form.get("$", kind.__name__)
    if mark != kind.__name__:
        raise ValueError(f"{where}: expected {kind.__name__}, got {mark}")
    hints, former = _fields(kind)
    form = {former.get(name, name): value for name, value in form.items()}
    unknown = set(form) - set(hints) - {"$"}
    if unknown:
        raise ValueError(f"{where}: unknown field {sorted(unknown)[0]}")
    built = {name: _build(hint, form[name], f"{where}.{name}") for name, hint in hints.items() if name in form}
    try:
        return kind(**built)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error
