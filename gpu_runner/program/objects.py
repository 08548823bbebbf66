"""What the evaluator makes of a program's functions, classes and modules. None of it is a Python function, class or module."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gpu_runner.contracts.verify import Status

if TYPE_CHECKING:
    from gpu_runner.program.evaluator.calls import Calls
    from gpu_runner.program.modules import SourceModule


class Violation(BaseException):
    """The program leaves its language. No ``except`` of the program catches it.

    ``status`` is ``cheating`` only where the line itself reaches out, ``unproved`` where the evaluator lacks what may be honest.
    """

    def __init__(self, rule: str | None, message: str, status: Status = Status.refused) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.status = status
        self.path: str | None = None
        self.line: int | None = None


def unproved(message: str) -> Violation:
    """The violation of a program that uses something harmless which the evaluator does not know."""
    return Violation("not evaluated", message, Status.unproved)


class ScopeKind(Enum):
    """What a scope belongs to."""

    module = auto()
    function = auto()
    type = auto()


# What a value depends on (``levels``): the file alone; what the problem says of a call, such as whether an argument is None; more.
FIXED, PASSED, GIVEN = 0, 1, 2
MISSING = inspect.Parameter.empty  # in the place of a value that there is not


@dataclass(eq=False)
class CallFrame:
    """The names of one call, class body or module. ``bound`` are those that a function assigns anywhere in its body."""

    kind: ScopeKind
    module: SourceModule
    parent: CallFrame | None = None
    names: dict[str, Any] = field(default_factory=dict)
    bound: frozenset[str] = frozenset()
    outer: dict[str, str] = field(default_factory=dict)  # names declared global or nonlocal, by which of the two
    function: Function | None = None
    is_comprehension: bool = False
    levels: dict[str, int] = field(default_factory=dict)  # of names, GIVEN where they have none
    exits: int = FIXED  # what it hangs on where the function returns
    loops: list[int] = field(default_factory=list)  # what it hangs on how often the loops go round that are open
    may_set_context: bool = False  # whether it is the forward or setup of a context, which may set its attributes
    made: Class | None = None  # of a class body: the class
    on_yield: Callable[[Any], Any] | None = None


@dataclass(eq=False)
class Function:
    """A function of the program; calling it evaluates its body."""

    node: ast.FunctionDef | ast.Lambda
    name: str
    closure: CallFrame
    signature: inspect.Signature
    evaluator: Calls = field(repr=False)
    owner: Class | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    is_context_manager: bool = False
    levels: dict[str, int] = field(default_factory=dict)  # of defaults that a call made, by parameter

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Evaluate the function: what lets native code, such as ``sorted`` or a grid's caller, call back."""
        return self.evaluator.call_function(self, args, named)

    def __repr__(self) -> str:
        """Without an address, which would differ from run to run."""
        return f"<function {self.name}>"


@dataclass(eq=False)
class Native:
    """A function of a library that the language lists, or a bound method of a plain value."""

    name: str
    call: Callable[..., Any] = field(repr=False)
    owner: Any = None  # what it is a method of, or calls: kept as long as it is

    def __eq__(self, other: object) -> bool:
        """By name; two methods of values are compared by nobody."""
        if self is other:
            return True
        if isinstance(other, Native) and self.owner is None and other.owner is None:
            return self.name == other.name
        if isinstance(other, Native):
            raise unproved("The evaluator compares no methods.")
        return False

    def __hash__(self) -> int:
        """By name."""
        return hash(self.name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call it."""
        return self.call(*args, **named)


class Method(Native):
    """A function of the runner in a class of the program."""


@dataclass(eq=False)
class BoundFunction:
    """A function of the program with its first argument."""

    function: Any
    first: Any

    def __eq__(self, other: object) -> bool:
        """By nothing."""
        if self is not other and isinstance(other, BoundFunction):
            raise unproved("The evaluator compares no methods.")
        return self is other

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Evaluate the function."""
        evaluator = getattr(self.function, "evaluator", None)
        if evaluator is not None:
            evaluator.pass_first(PASSED)
        return self.function(self.first, *args, **named)

    def __repr__(self) -> str:
        """Without an address."""
        return f"<bound {self.function!r}>"


@dataclass(eq=False)
class Descriptor:
    """A function under ``staticmethod``, ``classmethod``, ``property`` or ``cached_property``."""

    kind: str
    function: Any


@dataclass(eq=False)
class Class:
    """A class of the program. ``real`` is the Python class that stands for it where torch or Python must see one."""

    name: str
    bases: tuple[Any, ...]
    names: dict[str, Any]
    module: SourceModule
    evaluator: Calls = field(repr=False)
    real: Any = None
    declared: tuple[str, ...] | None = None  # the fields of a dataclass
    defaults: dict[str, Any] = field(default_factory=dict, repr=False)  # of them
    is_frozen: bool = False
    is_enum: bool = False
    order: tuple[Class, ...] = ()
    shadow: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Settle the order in which bases are looked through, as Python does."""
        shadow: Any = type(
            "shadow", tuple(base.shadow for base in self.bases if isinstance(base, Class)) or (object,), {}
        )
        self.shadow = shadow
        shadow.stands_for = self
        self.declared = next((base.declared for base in self.bases if isinstance(base, Class) and base.declared), None)
        self.order = tuple(each.stands_for for each in shadow.__mro__ if "stands_for" in vars(each))

    def find(self, name: str) -> Any:
        """The attribute of the class or a base.

        Raises:
            AttributeError: there is none.
        """
        for each in self.order:
            if name in each.names:
                return each.names[name]
        raise AttributeError(f"type object '{self.name}' has no attribute '{name}'")

    def has(self, name: str) -> bool:
        """Whether the class or a base defines the name."""
        return any(name in each.names for each in self.order)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Make an instance."""
        return self.evaluator.instantiate(self, args, named)

    def __repr__(self) -> str:
        """Without an address."""
        return f"<class {self.name}>"


@dataclass(eq=False)
class Instance:
    """An object of a class of the program."""

    type: Class
    fields: dict[str, Any] = field(default_factory=dict)

    def _dunder(self, name: str, *args: Any) -> Any:
        evaluator = self.type.evaluator
        if not self.type.has(name):
            raise TypeError(f"'{self.type.name}' object has no `{name}`")
        return evaluator.call(evaluator.bound(self.type.find(name), self, self.type), args, {})

    def declared_values(self) -> tuple[Any, ...]:
        """The fields of a dataclass, in their order."""
        names = self.type.declared or ()
        self.type.evaluator.budget.spend(len(names))  # equal and hashed by what is nested in them too
        return tuple(self.fields[name] for name in names)

    def __repr__(self) -> str:
        """The fields of a dataclass; never an address."""
        if self.type.declared is None:
            raise unproved(f"The text of a `{self.type.name}` would say where it lies.")
        self.type.evaluator.budget.spend(len(self.type.declared))
        shown = ", ".join(f"{name}={self.fields[name]!r}" for name in self.type.declared)
        return f"{self.type.name}({shown})"

    def __eq__(self, other: object) -> Any:
        """As the class says, by its fields for a dataclass, else by identity."""
        if (
            isinstance(other, Instance)
            and other.type is not self.type
            and (self.type.has("__eq__") or other.type.has("__eq__"))
        ):
            raise unproved("The evaluator compares objects of one class.")
        if self.type.has("__eq__"):
            return self._dunder("__eq__", other)
        if self.type.declared is None or not isinstance(other, Instance) or other.type is not self.type:
            return NotImplemented if self is not other else True
        return self.declared_values() == other.declared_values()

    def __hash__(self) -> int:
        """By the fields of a frozen dataclass, else by identity."""
        if self.type.has("__eq__") or (self.type.declared is not None and not self.type.is_frozen):
            raise TypeError(f"unhashable type: '{self.type.name}'")
        return hash(self.declared_values()) if self.type.declared is not None else object.__hash__(self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """As the class says."""
        evaluator = self.type.evaluator
        if not self.type.has("__call__"):
            raise TypeError(f"'{self.type.name}' object is not callable")
        return evaluator.call(evaluator.bound(self.type.find("__call__"), self, self.type), args, named)

    def __len__(self) -> int:
        """As the class says."""
        return self._dunder("__len__")  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        """As the class says; true where it says nothing."""
        if self.type.has("__bool__"):
            return self._dunder("__bool__")  # type: ignore[no-any-return]
        return bool(len(self)) if self.type.has("__len__") else True

    def __getitem__(self, key: Any) -> Any:
        """As the class says."""
        return self._dunder("__getitem__", key)

    def __iter__(self) -> Iterator[Any]:
        """As the class says."""
        if not self.type.has("__iter__") and self.type.has("__getitem__"):
            raise unproved("The evaluator goes through no object by its `__getitem__`.")
        return iter(self._dunder("__iter__"))

    def __contains__(self, key: Any) -> bool:
        """As the class says, or by going through it."""
        if not self.type.has("__contains__"):
            return any(item is key or item == key for item in self)
        return bool(self._dunder("__contains__", key))


class TypeAnnotation:
    """A name that stands in annotations alone, such as ``typing.Optional``; ``parts`` are those of a union."""

    def __init__(self, path: str = "typing.Any", parts: tuple[Any, ...] = ()) -> None:
        self.path, self.parts = path, parts

    def __repr__(self) -> str:
        """Its name."""
        return self.path


@dataclass(frozen=True)
class Facade:
    """A module of a library, by its dotted name: its listed members can be reached, and nothing else."""

    path: str


class DeviceProperties(SimpleNamespace):
    """What ``torch.cuda.get_device_properties`` gives where host code is told of another GPU."""


@dataclass(eq=False)
class Super:
    """What ``super()`` gives in a method."""

    owner: Class
    instance: Any


def type_name(value: Any) -> str:
    """What a value is, as messages say it."""
    if isinstance(value, Instance):
        return value.type.name
    if isinstance(value, Facade):
        return f"module {value.path}"
    return type(value).__name__


def function_name(function: Any) -> str:
    """The name of a library's function."""
    return str(getattr(function, "__name__", getattr(function, "name", "")))


def is_builtin(function: Any) -> bool:
    """Whether a value is one of Python's builtin functions."""
    kind, module = type(function).__name__, getattr(function, "__module__", None)
    return kind == "builtin_function_or_method" and module == "builtins"


def is_of_the_runner(function: Any) -> bool:
    """Whether a value is a function, or an object, of the runner's own."""
    kind = function if isinstance(function, types.FunctionType | types.MethodType) else type(function)
    return kind.__module__.startswith("gpu_runner.program.")
