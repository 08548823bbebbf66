"""The SDKs' typed parameters as a check that knows no other key and takes no other type."""

from __future__ import annotations

import collections.abc
import types
import typing
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict


def faults(value: object, hint: Any, place: str = "$") -> list[str]:
    """What of a JSON value does not fit a type of the SDK: an unknown key, a missing one, another type.

    The types declare more than JSON has (iterables, files); what pydantic would coerce is a fault here.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return []
    if origin in (Required, NotRequired, typing.Annotated):
        return faults(value, arguments[0], place)
    if origin in (Union, types.UnionType):
        return _any_of(value, arguments, place)
    if origin is Literal:
        return (
            []
            if any(value == it and type(value) is type(it) for it in arguments)
            else [f"{place}: {value!r} is not one of {arguments}"]
        )
    if is_typeddict(hint):
        return _object(value, hint, place)
    if origin in (list, collections.abc.Iterable, collections.abc.Sequence) or _is_sequence(hint):
        inner = arguments[0] if arguments else object
        if not isinstance(value, list):
            return [f"{place}: not a list"]
        return [fault for index, it in enumerate(value) for fault in faults(it, inner, f"{place}[{index}]")]
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            return [f"{place}: not an object"]
        return [fault for key, it in value.items() for fault in faults(it, arguments[1], f"{place}.{key}")]
    if hint is float:
        return [] if isinstance(value, int | float) and not isinstance(value, bool) else [f"{place}: not a number"]
    if hint is type(None):
        return [] if value is None else [f"{place}: not null"]
    if isinstance(hint, type):
        return [] if type(value) is hint else [f"{place}: not of type {hint.__name__}"]
    raise AssertionError(f"{place}: {hint!r} is a type that this check does not know")


def _is_sequence(hint: Any) -> bool:
    return getattr(get_origin(hint), "__name__", "") == "SequenceNotStr"


def _any_of(value: object, arguments: tuple[Any, ...], place: str) -> list[str]:
    each = [faults(value, it, place) for it in arguments]
    if any(not found for found in each):
        return []
    # The alternative that fits furthest is the one that was meant.
    return max(each, key=lambda found: (len(found[0].partition(": ")[0]), -len(found)))


def _object(value: object, hint: Any, place: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{place}: not an object"]
    hints = get_type_hints(hint, include_extras=True)
    open_ = getattr(hint, "__pydantic_config__", {}).get("extra") == "allow"
    required = {name for name, it in hints.items() if name in hint.__required_keys__ or get_origin(it) is Required}
    found = [f"{place}: there is no {name}" for name in sorted(required - set(value))]
    for name, it in value.items():
        if name in hints:
            found += faults(it, hints[name], f"{place}.{name}")
        elif not open_:
            found.append(f"{place}: the key {name} is unknown")
    return found
