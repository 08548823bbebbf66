"""The evaluator's models of library members that would keep state, or run code, if they were the real ones."""

from __future__ import annotations

import collections
import contextlib
import enum
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from gpu_runner.program.evaluator import AUTO, Annotation, Evaluator
from gpu_runner.program.objects import Class, Descriptor, Facade, Function, Instance, Native, Violation

_MISSING = inspect.Parameter.empty


def install(evaluator: Evaluator, freeze: Callable[[Any], None]) -> None:
    """Teach an evaluator the models; ``freeze`` marks what outlives a call."""
    special = evaluator.special
    special["functools.wraps"] = lambda wrapped, *_, **__: lambda wrapper: _wraps(wrapper, wrapped)
    cached = _Caches(freeze)
    special["functools.cache"] = cached
    special["functools.lru_cache"] = cached
    special["functools.cached_property"] = lambda function: Descriptor("property", function)
    special["contextlib.contextmanager"] = lambda function: replace(function, is_context_manager=True)
    special["contextlib.nullcontext"] = contextlib.nullcontext
    special["dataclasses.dataclass"] = _dataclass
    special["dataclasses.field"] = _Field
    special["enum.auto"] = lambda: AUTO
    special["typing.cast"] = lambda _, value: value
    special["typing.TypeVar"] = lambda *_, **__: Annotation()
    special["typing.NewType"] = lambda _, kind: lambda value: value
    special["warnings.warn"] = lambda *_, **__: None
    special["logging.getLogger"] = lambda *_: _SILENT
    special["torch.no_grad"] = lambda *function: _grad_mode(evaluator, torch.no_grad, *function)
    special["torch.enable_grad"] = lambda *function: _grad_mode(evaluator, torch.enable_grad, *function)
    special["torch.inference_mode"] = lambda *function: _grad_mode(evaluator, torch.no_grad, *function)
    special["torch.cuda.device"] = lambda *_: contextlib.nullcontext()
    for name in (
        "torch.amp.custom_fwd",
        "torch.amp.custom_bwd",
        "torch.cuda.amp.custom_fwd",
        "torch.cuda.amp.custom_bwd",
    ):
        special[name] = _decorates
    special["torch.compiler.disable"] = _decorates
    evaluator.make_class.append(_make_class)
    evaluator.attribute_of.append(_attribute)


def _wraps(wrapper: Any, wrapped: Any) -> Any:
    if isinstance(wrapper, Function) and isinstance(wrapped, Function):
        wrapper.attributes["__name__"] = wrapped.attributes.get("__name__", wrapped.name)
    return wrapper


class _Caches:
    """``functools.cache``: of a function that depends on plain arguments alone, and whose result nobody can change."""

    def __init__(self, freeze: Callable[[Any], None]) -> None:
        self._freeze = freeze

    def __call__(self, *args: Any, **_: Any) -> Any:
        """The decorator, with or without its own arguments."""
        return self._around(args[0]) if args and callable(args[0]) else self._around

    def _around(self, function: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            if any(isinstance(value, torch.Tensor) for value in (*args, *named.values())):
                raise Violation(
                    "remembers between calls", "A cached function takes a tensor, and so keeps what it found."
                )
            given = function(*args, **named)
            self._freeze([given])
            return given

        return Native("cached", call)


def _decorates(*args: Any, **_: Any) -> Any:
    return args[0] if args and callable(args[0]) else lambda function: function


class _Field:
    def __init__(self, *, default: Any = _MISSING, default_factory: Any = _MISSING, **_: Any) -> None:
        self.default, self.default_factory = default, default_factory


def _dataclass(*args: Any, frozen: bool = False, **_: Any) -> Any:
    def decorate(made: Class) -> Class:
        fields: dict[str, Any] = {}
        for base in reversed(made.order):
            for name in base.names.get("__annotations__", {}):
                fields[name] = _default_of(base.names.get(name, _MISSING))
        made.fields = fields
        if frozen:
            made.names["__frozen__"] = True
        return made

    return decorate(args[0]) if args else decorate


def _default_of(value: Any) -> Any:
    """What makes a field's default; ``inspect.Parameter.empty`` where it has none."""
    if isinstance(value, _Field):
        if value.default_factory is not _MISSING:
            return value.default_factory
        value = value.default
    return _MISSING if value is _MISSING else lambda: value


class _GradMode(contextlib.ContextDecorator):
    """``torch.no_grad`` and its kind: as a context and as a decorator."""

    def __init__(self, evaluator: Evaluator, mode: Callable[[], Any]) -> None:
        self._evaluator, self._mode = evaluator, mode

    def __call__(self, function: Any) -> Any:
        def under(*args: Any, **named: Any) -> Any:
            with self._mode():
                return self._evaluator.call(function, args, named)

        return under

    def __enter__(self) -> None:
        self._open = self._mode()
        self._open.__enter__()

    def __exit__(self, *error: object) -> None:
        self._open.__exit__(*error)


def _grad_mode(evaluator: Evaluator, mode: Callable[[], Any], *function: Any) -> Any:
    made = _GradMode(evaluator, mode)
    return made(function[0]) if function and callable(function[0]) else made


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
        return lambda *_, **__: None
    if isinstance(value, Facade) and value.path == "os" and name in ("environ", "getenv"):
        return _ENVIRONMENT if name == "environ" else Native(name, _ENVIRONMENT.get)
    if isinstance(value, _Environment) and name == "get":
        return Native(name, value.get)
    if type(value).__module__ == "torch.return_types" and name in ("values", "indices"):
        return getattr(value, name)
    fields = getattr(type(value), "_fields", ()) if isinstance(value, tuple) else ()
    made = getattr(type(value), "program_class", None) if fields else None
    if name in ("_replace", "_asdict") and fields:
        return Native(name, getattr(value, name))
    if made is not None and name not in fields and made.has(name):
        return made.evaluator.bound(made.find(name), value, made)
    return NotImplemented


def _make_class(made: Class) -> bool:
    for base in made.bases:
        if isinstance(base, type) and issubclass(base, enum.Enum):
            _make_enum(made, base)
            return True
        if isinstance(base, type) and issubclass(base, BaseException):
            made.real = type(made.name, (base,), {})
            return True
        if isinstance(base, Native) and base.name == "typing.NamedTuple":
            _make_named_tuple(made)
            return True
        if isinstance(base, Class) and base.real is not None and issubclass(base.real, BaseException):
            made.real = type(made.name, (base.real,), {})
            return True
    return False


def _make_enum(made: Class, base: type) -> None:
    made.is_enum = True
    made.evaluator._fill_enum(made)  # noqa: SLF001 - the evaluator's own second half
    if issubclass(base, int | str):
        made.names |= {name: value.fields["value"] for name, value in made.names.items() if isinstance(value, Instance)}


def _make_named_tuple(made: Class) -> None:
    fields = list(made.names.get("__annotations__", {}))
    defaults = [made.names[name] for name in fields if name in made.names]
    plain = collections.namedtuple(made.name, fields, defaults=defaults)  # type: ignore[misc]  # noqa: PYI024 - the program's names
    made.real = type(made.name, (plain,), {"__slots__": (), "program_class": made})
