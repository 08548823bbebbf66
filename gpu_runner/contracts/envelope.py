"""The envelope around every request and result, and its JSON form."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
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
    file_bytes: int = 16 * 2**30  # of one file, and of one tensor that a child hands over
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


@dataclass(frozen=True)
class AtMost:
    """The bound of an annotated field: a text is cut to so many characters, a list or object with more items is refused."""

    count: int


_PLAIN = frozenset((str, int, float, bool, types.NoneType))


def to_json(value: object) -> Any:
    """The JSON form of a contract: dataclasses as objects, tuples as lists, enums as values, marked unions by ``$``.

    Raises:
        TypeError: the value contains something that is no contract.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        form: dict[str, Any] = {name: to_json(getattr(value, name)) for name in _names(kind)}
        return {"$": kind.__name__} | form
    raise TypeError(f"{kind.__name__} has no JSON form")


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def from_json(kind: type[T], form: Any) -> T:
    """Build the contract ``kind`` from its JSON form, checking every field's type.

    Raises:
        ValueError: an unknown field, a missing one, or one of the wrong type; the text names the field.
    """
    try:
        return typing.cast(T, _reader(typing.cast(Any, kind))(form))
    except _MisfitError as misfit:
        raise ValueError(str(misfit.within(getattr(kind, "__name__", str(kind))))) from None


class _MisfitError(ValueError):
    """A form that does not fit its type, and where it stands."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(f"{place}: {reason}")
        self.reason, self.place = reason, place

    def within(self, place: str) -> _MisfitError:
        """The same, seen from what it is a part of."""
        return _MisfitError(self.reason, place + self.place)


Reader = Callable[[Any], Any]


@functools.cache
def _reader(kind: Any) -> Reader:
    """What builds a value of a type: annotations are read once a class, not with each value."""
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return _unread
    if origin in (typing.Union, types.UnionType):
        return _union_reader(options)
    if origin is tuple:
        if len(options) == 2 and options[1] is Ellipsis:
            return functools.partial(_read_list, _reader(options[0]))
        return functools.partial(_read_tuple, tuple(map(_reader, options)))
    if origin is dict:
        return _read_object if options[1] is Any else functools.partial(_read_values, _reader(options[1]))
    if origin is typing.Annotated:
        return functools.partial(_read_bounded, _reader(options[0]), options[1].count)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if dataclasses.is_dataclass(kind):
        return functools.partial(_read_dataclass, kind)
    return _read_float if kind is float else functools.partial(_read_plain, kind)


def _unread(form: Any) -> Any:
    return form


def _read_object(form: Any) -> Any:
    if not isinstance(form, dict):
        raise _MisfitError("expected an object")
    return form


def _read_values(reader: Reader, form: Any) -> dict[str, Any]:
    return dict(zip(_read_object(form), _read_list(reader, list(form.values())), strict=True))


def _read_bounded(reader: Reader, most: int, form: Any) -> Any:
    if isinstance(form, list | dict) and len(form) > most:
        raise _MisfitError(f"has more than {most} items")
    return reader(form[:most] if isinstance(form, str) else form)


def _read_float(form: Any) -> float:
    if not isinstance(form, int | float) or isinstance(form, bool):
        raise _MisfitError(f"expected float, got {type(form).__name__}")
    return float(form)


def _read_plain(kind: Any, form: Any) -> Any:
    if type(form) is not kind or kind not in _PLAIN:
        raise _MisfitError(f"expected {getattr(kind, '__name__', kind)}, got {type(form).__name__}")
    return form


def _union_reader(options: tuple[Any, ...]) -> Reader:
    # In a union an int stays an int: 1 must not become 1.0 because float stands first.
    readers = tuple(
        (
            getattr(option, "__name__", None) if dataclasses.is_dataclass(option) else None,
            functools.partial(_read_plain, float) if option is float else _reader(option),
        )
        for option in options
        if option is not types.NoneType
    )
    return functools.partial(_read_union, types.NoneType in options, readers)


def _read_union(optional: bool, options: tuple[tuple[str | None, Reader], ...], form: Any) -> Any:
    if form is None and optional:
        return None
    mark = form.get("$") if isinstance(form, dict) else None
    for name, reader in options:
        if name is not None and mark is not None and name != mark:
            continue
        try:
            return reader(form)
        except ValueError:
            continue
    raise _MisfitError(f"{str(form)[:80]!r} fits none of its types")


def _read_list(reader: Reader, form: Any) -> tuple[Any, ...]:
    if not isinstance(form, list):
        raise _MisfitError("expected a list")
    built: list[Any] = []
    try:
        built.extend(map(reader, form))
    except _MisfitError as misfit:
        raise misfit.within(f"[{len(built)}]") from None
    return tuple(built)


def _read_tuple(readers: tuple[Reader, ...], form: Any) -> tuple[Any, ...]:
    if not isinstance(form, list):
        raise _MisfitError("expected a list")
    if len(readers) != len(form):
        raise _MisfitError(f"expected {len(readers)} items")
    built: list[Any] = []
    try:
        for reader, item in zip(readers, form, strict=True):
            built.append(reader(item))
    except _MisfitError as misfit:
        raise misfit.within(f"[{len(built)}]") from None
    return tuple(built)


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[str, Reader]]:
    """The name of each field and what reads it, by its name and by its former one."""
    hints, readers = typing.get_type_hints(kind, include_extras=True), {}
    for field in dataclasses.fields(kind):
        readers[field.name] = (field.name, _reader(hints[field.name]))
        if FORMERLY in field.metadata:
            readers[field.metadata[FORMERLY]] = readers[field.name]
    return readers


def _read_dataclass(kind: Any, form: Any) -> Any:
    if not isinstance(form, dict):
        raise _MisfitError("expected an object")
    mark = form.get("$", kind.__name__)
    if mark != kind.__name__:
        raise _MisfitError(f"expected {kind.__name__}, got {mark}")
    fields, built = _fields(kind), {}
    if unknown := form.keys() - fields.keys() - {"$"}:
        raise _MisfitError(f"unknown field {min(unknown)}")
    for key, value in form.items():
        if key == "$":
            continue
        name, reader = fields[key]
        try:
            built[name] = reader(value)
        except _MisfitError as misfit:
            raise misfit.within(f".{name}") from None
    try:
        return kind(**built)
    except TypeError as error:
        raise _MisfitError(str(error)) from error
