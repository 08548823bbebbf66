"""What can be done with a value: attributes, items, operators, truth, and the classes and instances of the program."""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.contracts.verify import Status
from gpu_runner.program import language
from gpu_runner.program.budget import (
    SIZED,
    bound_operands,
    bounded,
    bounded_format,
)
from gpu_runner.program.evaluator.deciding import Deciding
from gpu_runner.program.objects import (
    MISSING,
    BoundFunction,
    Class,
    Descriptor,
    Facade,
    Function,
    Instance,
    Method,
    Native,
    Super,
    TypeAnnotation,
    Violation,
    is_of_the_runner,
    type_name,
    unproved,
)

_COMPARISONS = {"eq": "Eq", "ne": "NotEq", "lt": "Lt", "le": "LtE", "gt": "Gt", "ge": "GtE"}


class Values(Deciding):
    def attribute(self, value: Any, name: str) -> Any:
        """An attribute of a value.

        Raises:
            AttributeError: there is none. Violation: the language has none of that name for such a value.
        """
        for extension in self.attribute_of:
            member = extension(value, name)
            if member is not NotImplemented:
                return member
        own = self._own_kinds.get(type(value))
        return own(self, value, name) if own is not None else self._of_plain(value, name)

    def _of_facade(self, value: Facade, name: str) -> Any:
        path = f"{value.path}.{name}"
        if not language.is_listed(path) and not name.startswith("_") and not language.exists(path):
            raise AttributeError(f"module '{value.path}' has no attribute '{name}'")
        return self.member(path)

    def _of_own(self, value: Any, name: str) -> Any:
        raise unproved(f"The evaluator knows no attribute `{name}` of a {type_name(value)}.")

    def _of_function(self, value: Function, name: str) -> Any:
        if name == "__name__":
            return value.attributes.get(name, value.name)
        if name in value.attributes:
            return value.attributes[name]
        if not name.startswith("__"):
            raise AttributeError(f"'function' object has no attribute '{name}'")
        raise Violation("private name", f"It uses `{name}` of a function.")

    def _of_plain(self, value: Any, name: str) -> Any:
        if isinstance(value, BaseException):
            raise unproved("What an error says differs from version to version.")
        if name == "format" and isinstance(value, str):
            return Native("format", functools.partial(_Formatter(self).format, value), value)
        if isinstance(value, tuple) and name in getattr(type(value), "_fields", ()):
            return getattr(value, name)
        if name in language.attributes_of(value):
            member = getattr(value, name)
            return self._method(value, name, member) if callable(member) else member
        if name.startswith("_"):
            raise Violation("private name", f"It uses the attribute `{name}`.")
        if hasattr(value, name):
            raise Violation(
                "unknown attribute",
                f"The attribute `{name}` of a {type_name(value)} is not in the language of host code.",
            )
        if is_of_the_runner(value):
            return self._of_own(value, name)
        raise AttributeError(f"'{type_name(value)}' object has no attribute '{name}'")

    def _method(self, value: Any, name: str, method: Callable[..., Any]) -> Native:
        if isinstance(value, list | dict | set) and name in language.MUTATES:

            def changes(*args: Any, **named: Any) -> Any:
                self.check_mutable(value)
                self.budget.charge_method(value, name, args)
                given = method(*args, **named)
                bounded(value)
                return given

            return Native(name, changes, value)
        if not isinstance(value, SIZED):
            return Native(name, method, value)

        def looks(*args: Any, **named: Any) -> Any:
            self.budget.charge_method(value, name, args)
            return bounded(method(*args, **named))

        return Native(name, looks, value)

    def member(self, path: str) -> Any:
        """A member of a library; functions come as ``Native``, or as the evaluator's own model."""
        if path not in self.members:
            self.members[path] = self._member(path)
        return self.members[path]

    def _member(self, path: str) -> Any:
        if path in self.special:
            return Native(path, self.special[path])
        if path in language.ANNOTATIONS_ONLY:
            return TypeAnnotation(path)
        member = language.resolve(path)
        if isinstance(member, Facade | type) or not callable(member) or not _is_function(member):
            return member
        return Native(path, member)

    def _of_instance(self, value: Instance, name: str) -> Any:
        _check_private(value.type, name)
        member = value.type.find(name) if value.type.has(name) else MISSING
        if name in value.fields and not (isinstance(member, Descriptor) and member.kind == "property"):
            return value.fields[name]
        if isinstance(member, Descriptor) and member.kind == "cached_property":
            kept = self.call(member.function, (value,), {})
            self.check_mutable(value).fields[name] = kept
            return kept
        return self.bound(value.type.find(name), value, value.type)

    def bound(self, member: Any, instance: Any, owner: Class) -> Any:
        """What a class's attribute is when it is asked of an instance."""
        if isinstance(member, Descriptor):
            if member.kind == "property":
                return self.call(member.function, (instance,), {})
            if member.kind == "cached_property":
                raise unproved("The evaluator knows a `cached_property` of plain classes alone.")
            return BoundFunction(member.function, owner) if member.kind == "classmethod" else member.function
        return BoundFunction(member, instance) if isinstance(member, Function | Method) else member

    def _of_class(self, value: Class, name: str) -> Any:
        if name == "__name__":
            return value.name
        _check_private(value, name)
        member = value.find(name)
        if isinstance(member, Descriptor):
            if "property" in member.kind:
                raise unproved("The evaluator gives no property of a class itself.")
            return BoundFunction(member.function, value) if member.kind == "classmethod" else member.function
        return member

    def _of_super(self, value: Super, name: str) -> Any:
        is_class = isinstance(value.instance, Class)
        kind = value.instance if is_class else self.class_of(value.instance)
        if kind is None or value.owner not in kind.order:
            raise TypeError("super(type, obj): obj must be an instance or subtype of type")
        for each in kind.order[kind.order.index(value.owner) + 1 :]:
            if name in each.names:
                member = each.names[name]
                if is_class and not isinstance(member, Descriptor):
                    return member
                return self.bound(member, value.instance, kind)
        if name == "__init__" and isinstance(value.instance, torch.nn.Module):
            return Native("__init__", lambda: torch.nn.Module.__init__(value.instance), value.instance)
        if name == "__init__" and isinstance(value.instance, Instance):
            return Native("__init__", lambda: None)
        raise unproved(f"The evaluator knows no `super().{name}` here.")

    def class_of(self, value: Any) -> Class | None:
        """The program's class of a value, where it has one."""
        if isinstance(value, Instance):
            return value.type
        return getattr(type(value), "program_class", None)

    def _by_name(self, name: str, args: tuple[Any, ...]) -> Any:
        owner, attribute = args[0], args[1]
        if not isinstance(attribute, str):
            raise TypeError("attribute name must be string")
        if name == "setattr":
            return self.set_attribute(owner, attribute, args[2])
        check_mangled(attribute)
        try:
            member = self.attribute(owner, attribute)
        except AttributeError:
            if name == "hasattr":
                return False
            if len(args) > 2:
                return args[2]
            raise
        return True if name == "hasattr" else member

    def set_attribute(self, value: Any, name: str, new: Any) -> None:
        """Set an attribute of an object of the program."""
        if isinstance(value, FunctionCtx):
            value.__dict__.get("program_levels", {}).pop(name, None)
        if any(extension(value, name, new) for extension in self.set_attribute_of):
            return
        if isinstance(value, Instance):
            self.check_mutable(value)
            if name.startswith("__"):
                raise Violation("private name", f"It sets `{name}`.")
            if value.type.has(name) and getattr(value.type.find(name), "kind", "") == "property":
                raise AttributeError(f"property '{name}' of '{value.type.name}' object has no setter")
            value.fields[name] = new
        elif isinstance(value, Facade):
            raise Violation("patches a module", f"It sets `{value.path}.{name}`.", Status.cheating)
        elif (
            isinstance(value, Function | Class)
            and self.loading
            and id(value) not in self.frozen
            and not name.startswith("__")
            and getattr(value, "real", None) is None
        ):
            (value.attributes if isinstance(value, Function) else value.names)[name] = new
        else:
            raise Violation("remembers between calls", f"It sets `{name}` of a {type_name(value)}.")

    def item(self, value: Any, key: Any) -> Any:
        """What ``value[key]`` is."""
        if isinstance(value, TypeAnnotation):
            return TypeAnnotation(value.path)
        if isinstance(value, Class):
            return value.real[key] if value.is_enum else value
        if isinstance(value, type):
            if value not in (list, dict, tuple, set, frozenset, type):
                raise TypeError(f"type '{value.__name__}' is not subscriptable")
            return TypeAnnotation(f"builtins.{value.__name__}")
        if isinstance(value, Instance) and not value.type.has("__getitem__"):
            raise TypeError(f"'{type_name(value)}' object is not subscriptable")
        if not isinstance(value, list | tuple | dict | str | bytes | range | torch.Tensor | Instance) and not hasattr(
            value, "launch"
        ):
            if hasattr(type(value), "__getitem__") and not isinstance(value, Native):
                raise unproved(f"The evaluator takes no item of a {type_name(value)}.")
            raise TypeError(f"'{type_name(value)}' object is not subscriptable")
        self._charge_item(value, key)
        return value[key]

    def _charge_item(self, value: Any, key: Any) -> None:
        """Count what a slice copies, and the parts of a key."""
        if isinstance(key, tuple):
            self.budget.charge(key)
        elif isinstance(key, slice) and isinstance(value, list | tuple | str | bytes):
            self.budget.spend(len(value))

    def set_item(self, value: Any, key: Any, new: Any) -> None:
        """Carry out ``value[key] = new``."""
        if not isinstance(value, torch.Tensor | list | dict):
            raise TypeError(f"'{type_name(value)}' object does not support item assignment")
        if not isinstance(value, torch.Tensor):
            self.check_mutable(value)
        self._charge_item(value, key)
        if isinstance(key, slice):
            self._check_order((new,))
            self.budget.charge(new)
        value[key] = new

    def _operate(self, table: dict[str, Callable[[Any, Any], Any]], name: str, left: Any, right: Any) -> Any:
        if name not in table:
            raise unproved(f"The evaluator knows no operator {name} here.")
        if name == "BitOr" and (_is_annotation(left) or _is_annotation(right)):
            return TypeAnnotation("typing.Union", (left, right))  # such as ``Tensor | None``
        for value in (left, right):
            if isinstance(value, Instance | Class | Function):
                raise unproved(f"The evaluator does no arithmetic on a {type_name(value)}.")
            if isinstance(value, set | frozenset) and name != "Sub":
                self.iterate(value)  # the order of what comes of two sets depends on both
        bound_operands(name, left, right)
        self.budget.charge_operands(left, right, in_place=table is language.IN_PLACE)
        if name == "Mod" and isinstance(left, str):
            self.check_printable(right)
        return bounded(table[name](left, right))

    def _compared(self, name: str, left: Any, right: Any) -> Any:
        if name in ("Lt", "LtE", "Gt", "GtE") and (isinstance(left, Instance) or isinstance(right, Instance)):
            raise unproved("The evaluator orders no objects of a class.")
        if name in ("In", "NotIn") and isinstance(right, Class) and right.is_enum:
            right = right.real
        self.budget.charge_compared(name, left, right)
        return language.COMPARE[name](left, right)

    def is_instance(self, value: Any, kinds: Any) -> bool:
        """What ``isinstance`` says."""
        self.budget.charge(kinds)
        return any(self._is_of(value, kind) for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))

    def _is_of(self, value: Any, kind: Any) -> bool:
        if isinstance(kind, tuple):
            return self.is_instance(value, kind)
        if isinstance(kind, Class):
            is_own = isinstance(value, Instance) and kind in value.type.order
            return is_own or (kind.real is not None and isinstance(value, kind.real))
        if isinstance(kind, TypeAnnotation):
            return self._is_annotated(value, kind)
        if isinstance(kind, Native) and kind.name == "torch.distributed.tensor.DTensor":
            return False  # of which a program makes no instance
        if kind is type or not isinstance(kind, type):
            raise unproved(f"The evaluator cannot say what is a `{type_name(kind)}`.")
        return isinstance(value.real if type(value).__name__ == "Kernel" else value, kind)

    def _is_annotated(self, value: Any, kind: TypeAnnotation) -> bool:
        if kind.path == "typing.Union":
            return self.is_instance(value, tuple(type(None) if part is None else part for part in kind.parts))
        name = kind.path.rpartition(".")[2]
        if name == "Callable":
            return self.is_callable(value)
        if name not in ("Sequence", "Mapping") or isinstance(value, Instance):
            raise unproved(f"The evaluator cannot say what is a `{kind.path}`.")
        return isinstance(value, (list, tuple, str, range, bytes) if name == "Sequence" else dict)

    def _type_of(self, value: Any) -> Any:
        made = self.class_of(value)
        if made is not None:
            return made
        if isinstance(value, bool | int | float | str | list | tuple | dict | set | type(None) | torch.Tensor):
            return type(value)
        raise unproved(f"The evaluator does not say the type of a {type_name(value)}.")

    def is_callable(self, value: Any) -> bool:
        """What ``callable`` says."""
        if isinstance(value, Instance):
            return value.type.has("__call__")
        if isinstance(value, TypeAnnotation | Descriptor) or type(value).__name__ == "Kernel":
            raise unproved(f"The evaluator cannot say whether a {type_name(value)} is callable.")
        return not isinstance(value, Facade) and callable(value)

    def truth(self, value: Any) -> bool:
        """Whether a value counts as true."""
        if isinstance(value, torch.Tensor):
            return bool(value.item())
        return bool(value)

    def iterate(self, value: Any) -> Any:
        """What a loop goes over."""
        if isinstance(value, Class) and value.is_enum:
            return value.real
        self._check_order((value,))
        if isinstance(value, Function | Native | Class | Facade):
            raise TypeError(f"'{type_name(value)}' object is not iterable")
        return value

    def _check_order(self, args: Sequence[Any]) -> None:
        """Refuse to go through a set of text: its order differs from process to process."""
        for value in args:
            if isinstance(value, set | frozenset) and not all(isinstance(item, int) for item in value):
                raise unproved("The order of a set differs from process to process. Sort it.")

    def check_mutable(self, value: Any) -> Any:
        """The value itself, which no call may change once it outlives it.

        Raises:
            Violation: it outlives the call.
        """
        if id(value) in self.frozen:
            raise Violation("remembers between calls", f"It changes a {type_name(value)} that outlives a call.")
        if isinstance(value, Instance) and any(kind.is_frozen for kind in value.type.order):
            raise AttributeError("cannot assign to field of a frozen dataclass")
        if not self.loading:
            self.changed[id(value)] = value
        return value

    def check_printable(self, value: Any) -> Any:
        """The value itself, which can be turned into text: neither what a tensor holds nor where something lies can."""
        self.budget.charge(value)
        if isinstance(value, torch.Tensor):
            if value.dim() == 0 and not isinstance(value, torch.nn.Parameter):
                return value  # as in a message of an error
            raise Violation("reads values", "It turns a tensor into text.")
        if isinstance(value, list | tuple):
            for item in value:
                self.check_printable(item)
        elif isinstance(value, dict):
            for item in (*value, *value.values()):
                self.check_printable(item)
        elif isinstance(value, Instance) and value.type.declared is not None:
            self.check_printable(list(value.fields.values()))
        elif isinstance(value, set | frozenset):
            self._check_order((value,))
        elif not isinstance(value, (*language.PLAIN, torch.dtype, torch.device)) and not _is_plain_object(value):
            raise unproved(f"The evaluator puts no {type_name(value)} into text, which would say where it lies.")
        return value

    _own_kinds: ClassVar[dict[type, Callable[..., Any]]] = {
        Facade: _of_facade, Instance: _of_instance, Class: _of_class, Super: _of_super, Function: _of_function,
        **dict.fromkeys((Descriptor, BoundFunction, Native), _of_own),
    }  # fmt: skip


class _Formatter(string.Formatter):
    """``str.format`` without attributes and items of what is formatted."""

    def __init__(self, evaluator: Values) -> None:
        self._evaluator = evaluator

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        """The argument itself.

        Raises:
            Violation: an attribute or an item of it is asked for.
        """
        if not field_name.replace("_", "").isalnum():
            raise Violation("reaches outside", "A format string asks for attributes.")
        value, used = super().get_field(field_name, args, kwargs)
        return self._evaluator.check_printable(value), used

    def format_field(self, value: Any, format_spec: str) -> Any:
        """The text of a value, of no more than a usual width."""
        return super().format_field(value, bounded_format(format_spec))


def check_mangled(name: str) -> None:
    if name.startswith("__") and not name.endswith("__"):
        raise Violation("private name", f"It uses `{name}`, which Python renames within a class.")


def _check_private(made: Class, name: str) -> None:
    """Refuse what a class has from Python itself, or from the library's class under it."""
    inherits = made.real is not None and hasattr(made.real.__mro__[1], name)
    if (name.startswith("__") or inherits) and not made.has(name):
        raise Violation("private name", f"It uses the attribute `{name}`.")


def _is_annotation(value: Any) -> bool:
    return isinstance(value, TypeAnnotation | Class | type)


def _is_plain_object(value: Any) -> bool:
    return isinstance(value, Enum) or (isinstance(value, type) and value.__module__ == "builtins") or (
        type(value).__name__ in ("Version", "constexpr", "GPUTarget")
    )  # fmt: skip


def _is_function(value: Any) -> bool:
    return type(value).__name__ in (
        "ConstexprFunction",
        "function",
        "builtin_function_or_method",
        "method",
        "partial",
        "wrapper_descriptor",
    )
