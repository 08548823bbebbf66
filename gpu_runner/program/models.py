"""The evaluator's models of library members that would keep state, or run code, if they were the real ones."""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from gpu_runner.program import tiles
from gpu_runner.program.evaluator import Evaluator
from gpu_runner.program.kernels import Kernel
from gpu_runner.program.objects import (
    BoundFunction,
    Class,
    Descriptor,
    Facade,
    Function,
    Instance,
    Method,
    Native,
    TypeAnnotation,
    Violation,
    unproved,
)

_MISSING = inspect.Parameter.empty
_BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD
_FACTORY = object()
_KEYS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, tuple)


def install(evaluator: Evaluator, freeze: Callable[[Any], None], is_library: Callable[[], bool]) -> None:
    """Teach an evaluator the models; ``freeze`` marks what outlives a call."""
    special = evaluator.special
    special["functools.wraps"] = lambda wrapped: lambda wrapper: _wraps(wrapper, wrapped)
    special["functools.partial"] = functools.partial
    cached = _Caches(evaluator, freeze)
    special["functools.cache"] = cached
    special["functools.lru_cache"] = cached
    special["functools.cached_property"] = lambda function: Descriptor("cached_property", function)
    special["contextlib.contextmanager"] = lambda function: replace(function, is_context_manager=True)
    special["contextlib.nullcontext"] = contextlib.nullcontext
    special["dataclasses.dataclass"] = _dataclass
    special["dataclasses.field"] = _Field
    special["enum.auto"] = enum.auto
    special["typing.cast"] = lambda _, value: value
    special["typing.TypeVar"] = lambda *_, **__: TypeAnnotation()
    special["typing.NewType"] = lambda _, kind: lambda value: value
    special["triton.set_allocator"] = lambda function: _set_allocator(function, freeze)
    special["torch.autograd.function.once_differentiable"] = lambda function: Native(
        "once_differentiable", torch.autograd.function.once_differentiable(function), function
    )
    special["warnings.warn"] = lambda *_, **__: None
    special["logging.getLogger"] = lambda *_: _SILENT
    special["torch.no_grad"] = lambda *function: _grad_mode(evaluator, torch.no_grad, *function)
    special["torch.enable_grad"] = lambda *function: _grad_mode(evaluator, torch.enable_grad, *function)
    special["torch.inference_mode"] = lambda *function: _grad_mode(evaluator, torch.inference_mode, *function)
    for name in ("torch.cuda.device", "torch.cpu.device", "torch.xpu.device"):
        special[name] = lambda *_: contextlib.nullcontext()
    for name in (
        "torch.amp.custom_fwd",
        "torch.amp.custom_bwd",
        "torch.cuda.amp.custom_fwd",
        "torch.cuda.amp.custom_bwd",
    ):
        special[name] = _autocasts
    special["torch.compiler.disable"] = _decorates
    special["torch.cuda.current_stream"] = tiles.current_stream
    evaluator.make_class.append(_make_class)
    evaluator.attribute_of.append(_attribute)

    def environment(value: Any, name: str) -> Any:
        if not (isinstance(value, Facade) and value.path == "os" and name in ("environ", "getenv") and is_library()):
            return NotImplemented
        return _ENVIRONMENT if name == "environ" else Native(name, _ENVIRONMENT.get)

    evaluator.attribute_of.append(environment)


def _wraps(wrapper: Any, wrapped: Any) -> Any:
    if isinstance(wrapper, Function) and isinstance(wrapped, Function):
        wrapper.attributes |= {"__name__": wrapped.name} | wrapped.attributes
    return wrapper


def _set_allocator(function: Any, freeze: Callable[[Any], None]) -> None:
    import triton

    freeze([function])  # Triton keeps it from now on
    triton.set_allocator(function)


class _Caches:
    """``functools.cache``: of a function whose result is the same each time, so that nobody can tell what was kept."""

    def __init__(self, evaluator: Evaluator, freeze: Callable[[Any], None]) -> None:
        self._evaluator, self._freeze = evaluator, freeze

    def __call__(self, *args: Any, **_: Any) -> Any:
        """The decorator, with or without its own arguments."""
        return self._around(args[0]) if args and self._evaluator.is_callable(args[0]) else self._around

    def _around(self, function: Any) -> Any:
        known: dict[Any, Any] = {}
        evaluator = self._evaluator

        def call(*args: Any, **named: Any) -> Any:
            if not all(map(_is_key, (*args, *named.values()))):
                raise Violation(
                    "remembers between calls",
                    "A cached function takes more than numbers, text, dtypes and frozen dataclasses of these, and so keeps "
                    "what it found.",
                )
            for place, value in _numbers((args, tuple(named.items()))):
                key = getattr(function, "node", function), place
                if evaluator.decisions.cached.setdefault(key, type(value)) is not type(
                    value
                ):  # 2 and 2.0 have one entry
                    raise unproved(
                        "A cached function takes numbers of two types, such as 2 and 2.0, for which it keeps one result."
                    )
            launches = evaluator.launches
            given = evaluator.call(function, args, named)
            self._freeze([given])
            kept = known.setdefault((args, tuple(named.items())), given)
            if _shape(kept) != _shape(given) or evaluator.launches != launches:
                raise Violation(
                    "remembers between calls", "A cached function gives something else than it gave before."
                )
            return kept

        return Native("cached", call, function)


def _is_key(value: Any) -> bool:
    """Whether a value is equal to another one by what it says alone, and for as long as it lives."""
    if isinstance(value, Instance):
        of_fields = value.type.is_frozen and not (value.type.has("__eq__") or value.type.has("__hash__"))
        return of_fields and all(map(_is_key, value.declared_values()))
    return isinstance(value, _KEYS) or _is_of_kernels(value)


def _is_of_kernels(value: Any) -> bool:
    """Whether a value is a function of a library, or a launcher, compiled or not: none of them changes."""
    if isinstance(value, Native):
        return value.owner is None or isinstance(value.owner, Kernel)
    return isinstance(value, Kernel)


def _numbers(value: Any, place: tuple[int, ...] = ()) -> Iterator[tuple[object, int | float]]:
    """The numbers in a structure of arguments, each with its place."""
    if isinstance(value, tuple | Instance):
        for at, item in enumerate(value.declared_values() if isinstance(value, Instance) else value):
            yield from _numbers(item, (*place, at))
    elif isinstance(value, int | float):
        yield place, value


def _shape(value: Any) -> Any:
    """A value with the types in it, by which two that are equal can be told apart."""
    if isinstance(value, tuple):
        return type(value), tuple(map(_shape, value))
    if isinstance(value, Kernel):
        return type(value), value.place  # of its text, whatever it is compiled with
    if not (isinstance(value, _KEYS) or _is_of_kernels(value)):
        raise Violation("remembers between calls", "A cached function gives what is no number, text or dtype.")
    return type(value), value.name if isinstance(value, Native) else str(value)


def _autocasts(*args: Any, cast_inputs: Any = None, **_: Any) -> Any:
    if cast_inputs is not None:
        raise unproved("`cast_inputs` changes what a user of autocast gets, and no case runs under it.")
    return _decorates(*args)


def _decorates(*args: Any, **_: Any) -> Any:
    return args[0] if args and callable(args[0]) else lambda function: function


class _Field:
    def __init__(self, *, default: Any = _MISSING, default_factory: Any = _MISSING, repr: bool = True) -> None:
        self.default, self.default_factory = default, default_factory
        if not repr:
            raise unproved("The evaluator shows every field of a dataclass.")


def _dataclass(*args: Any, frozen: bool = False, eq: bool = True, kw_only: bool = False, **others: Any) -> Any:
    if not eq or others.keys() - {"repr", "slots"}:
        raise unproved("The evaluator knows a `dataclass` that is frozen or not, with nothing else about it.")

    def decorate(made: Class) -> Class:
        own = made.names.get("__annotations__", {})
        inherited = next((base.declared for base in made.order[1:] if base.declared is not None), ())
        several = sum(isinstance(base, Class) and base.declared is not None for base in made.bases) > 1
        if several or any(
            "ClassVar" in text and not text.startswith(("ClassVar", "typing.ClassVar")) for text in own.values()
        ):
            raise unproved("The evaluator knows a dataclass with one base, and `ClassVar` by its plain name.")
        fields = [name for name, text in own.items() if not text.removeprefix("typing.").startswith("ClassVar")]
        if kw_only or made.real is not None or any("InitVar" in text or "KW_ONLY" in text for text in own.values()):
            raise unproved("The evaluator knows plain fields of a dataclass alone.")
        made.declared = tuple(dict.fromkeys([*inherited, *fields]))
        made.is_frozen = frozen
        defaults = dict(zip(inherited, _inherited_defaults(made, inherited), strict=True))
        for name in fields:
            value = made.names.get(name, _MISSING)
            if isinstance(value, list | dict | set) or getattr(value, "__hash__", 1) is None:
                raise ValueError(f"mutable default for field {name} is not allowed: use default_factory")
            defaults[name] = value
            if isinstance(value, _Field):
                made.names.pop(name)
                if value.default is not _MISSING:
                    made.names[name] = defaults[name] = value.default
        made.defaults = defaults
        signature = inspect.Signature(
            [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
            + [inspect.Parameter(name, _BY_NAME, default=_absent(defaults[name])) for name in made.declared]
        )
        if "__init__" not in made.names:
            made.names["__init__"] = Method("__init__", functools.partial(_fill, made, signature))
        return made

    return decorate(args[0]) if args else decorate


def _inherited_defaults(made: Class, names: tuple[str, ...]) -> list[Any]:
    base = next((base for base in made.order[1:] if base.defaults), None)
    return [base.defaults[name] if base is not None else _MISSING for name in names]


def _absent(default: Any) -> Any:
    return _FACTORY if isinstance(default, _Field) else default


def _fill(made: Class, signature: inspect.Signature, instance: Instance, *args: Any, **named: Any) -> None:
    """What the ``__init__`` of a dataclass does."""
    given = signature.bind(instance, *args, **named)
    given.apply_defaults()
    for name in made.declared or ():
        value = given.arguments[name]
        instance.fields[name] = (
            made.evaluator.call(made.defaults[name].default_factory, (), {}) if value is _FACTORY else value
        )
    if made.has("__post_init__"):
        made.evaluator.call(BoundFunction(made.find("__post_init__"), instance), (), {})


class _GradMode(contextlib.ContextDecorator):
    """``torch.no_grad`` and its kind: as a context and as a decorator."""

    def __init__(self, evaluator: Evaluator, mode: Callable[[], Any]) -> None:
        self._evaluator, self._mode = evaluator, mode

    def __call__(self, function: Any) -> Any:
        def under(*args: Any, **named: Any) -> Any:
            with self._mode():
                return self._evaluator.call(function, args, named)

        return Native("under", under, function)

    def __enter__(self) -> None:
        self._open = self._mode()
        self._open.__enter__()

    def __exit__(self, *error: object) -> None:
        self._open.__exit__(*error)


def _grad_mode(evaluator: Evaluator, mode: Callable[[], Any], *function: Any) -> Any:
    made = _GradMode(evaluator, mode)
    if function and not evaluator.is_callable(function[0]):
        raise unproved("The evaluator knows a mode of autograd without arguments.")
    return made(function[0]) if function else made


class _Silent:
    """A logger that writes nothing."""


_SILENT = _Silent()


class _Environment:
    """The environment as a library around a candidate finds it: empty. The static check lets no candidate ask for it."""

    def get(self, _: str, default: Any = None) -> Any:
        """The default."""
        return default


_ENVIRONMENT = _Environment()


def _attribute(value: Any, name: str) -> Any:
    if isinstance(value, _Silent) and name in ("debug", "info", "warning", "error", "exception", "log"):
        return Native(name, lambda *_, **__: None)
    if isinstance(value, enum.Enum) and name in ("name", "value"):
        return getattr(value, name)
    if isinstance(value, _Environment) and name == "get":
        return Native(name, value.get)
    if type(value).__module__ == "torch.return_types" and name in ("values", "indices"):
        return getattr(value, name)
    fields = getattr(type(value), "_fields", ()) if isinstance(value, tuple) else ()
    made = getattr(type(value), "program_class", None) if fields or isinstance(value, enum.Enum) else None
    if name in ("_replace", "_asdict") and fields:
        return Native(name, getattr(value, name), value)
    if made is not None and name not in fields and made.has(name):
        return made.evaluator.bound(made.find(name), value, made)
    return NotImplemented


def _make_class(made: Class) -> bool:
    for base in made.bases:
        real = base.real if isinstance(base, Class) else base
        if isinstance(real, type) and issubclass(real, enum.Enum):
            _check_names(made, real)
            _make_enum(made, real)
            return True
        if isinstance(real, type) and issubclass(real, BaseException):
            _check_names(made, real)
            if any(isinstance(value, Function | Descriptor) for value in made.names.values()) or len(made.bases) > 1:
                raise unproved("The evaluator knows an error without methods alone.")
            made.real = type(made.name, (real,), {"program_class": made})
            return True
        if isinstance(base, Native) and base.name == "typing.NamedTuple":
            _check_names(made, tuple)
            _make_named_tuple(made)
            return True
        if isinstance(real, type) and issubclass(real, tuple):
            raise unproved("The evaluator derives no class from a NamedTuple.")
    return False


def _check_names(made: Class, real: type) -> None:
    """Refuse a class that changes what Python asks of it by name."""
    for name in made.names:
        if name not in ("__slots__", "__doc__", "__annotations__") and (name.startswith("_") or hasattr(real, name)):
            raise unproved(f"The evaluator knows no `{name}` in a class under `{real.__name__}`.")


def _make_enum(made: Class, base: type) -> None:
    values = {n: v for n, v in made.names.items() if not n.startswith("_") and not isinstance(v, Function | Descriptor)}
    if (
        not all(isinstance(value, bool | int | float | str | enum.auto) for value in values.values())
        or len(made.bases) > 1
    ):
        raise unproved("The evaluator knows an enum of numbers and text alone.")
    made.is_enum = True
    made.real = base(made.name, values)
    made.real.program_class = made
    made.names |= {name: made.real[name] for name in values}


def _make_named_tuple(made: Class) -> None:
    fields = list(made.names.get("__annotations__", {}))
    defaults = [made.names[name] for name in fields if name in made.names]
    plain = collections.namedtuple(made.name, fields, defaults=defaults)  # type: ignore[misc]  # noqa: PYI024 - the program's names
    made.real = type(made.name, (plain,), {"__slots__": (), "program_class": made})
    for name in fields:
        made.names.pop(name, None)
