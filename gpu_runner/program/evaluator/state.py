"""What an evaluation holds, and how a statement ends that leaves its block."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gpu_runner.messages import Place
from gpu_runner.program.budget import (
    CallBudget,
)
from gpu_runner.program.coverage import (
    Decisions,
)
from gpu_runner.program.objects import (
    FIXED,
    CallFrame,
    Class,
    Violation,
)

Levels = tuple[int, list[int] | None]  # of a value, and of the items of a tuple


class Return(BaseException):
    """``return``."""

    def __init__(self, value: Any, levels: Levels) -> None:
        super().__init__()
        self.value, self.levels = value, levels


class Break(BaseException):
    """``break``."""


class Continue(BaseException):
    """``continue``."""


FLOW = (Return, Break, Continue)


MOST_LAUNCHES = 4096


class EvaluationState:
    """What an evaluation holds: the limits that are left, where it stands, and the levels of what it evaluates."""

    def __init__(self, decisions: Decisions | None = None) -> None:
        self.decisions = decisions or Decisions()
        # -- levels
        self.level = FIXED  # of the parts of the expression that is being evaluated, the highest so far
        self.last_level = FIXED  # of the value of the last expression
        self.item_levels: list[int] | None = None  # of the items of the last expression, where it is a tuple
        # Of the arguments of the call that begins, by place and by name; None where nobody knows.
        self.argument_levels: tuple[list[int], dict[str, int]] | None = None
        self.returned_levels: Levels | None = None  # of what a function of the program returned last
        self.turned: Place | None = None  # a decision that ends the other way, and how often it did
        self.turns = 0
        self.saw_call = False  # whether a value depended on the call since a `try` began
        self.is_called_by_judge = False  # whether the call that begins is the judge's own
        self.call_place: Place | None = None  # of the library call that is open, where it depends on the program's call
        self.may_set_context = False  # whether the call that begins is of what may set a context's attributes
        # By identity, what the open call has changed: from then on it hangs on the call, by whatever name.
        self.changed: dict[int, Any] = {}
        # -- the rest
        self.refusing: frozenset[ast.AST] = frozenset()  # conditions of what does nothing but raise
        self.tensor_questions: set[ast.AST] = set()  # calls that asked the last time whether something is a tensor
        self.zero_questions: set[ast.AST] = set()  # numbers of which it is asked alone whether they are zero
        self.refusals: set[ast.AST] = set()  # tests of which it is known what ``refusing`` has of them
        self.examined: dict[ast.AST, bool] = {}  # functions, by whether they may change something
        self.line: int | None = None
        self.path: str | None = None
        self.budget = CallBudget()
        self.depth = 0
        self.loading = 0
        self.opaque = 0  # open calls of the own operators of a program: torch shows nothing of what is within them
        self.launches = 0
        self.broken: Violation | None = None  # once a program left its language, nothing more of it is evaluated
        self.handling: list[Exception] = []  # what a bare ``raise`` raises again
        self.frozen: dict[int, Any] = {}  # by identity; keeps what it names alive
        # Models of members, by full name. As values they are called by native code too, such as ``map``.
        self.special: dict[str, Callable[..., Any]] = {}
        self.placement: Any = (
            None  # of memory, where a program is told of a GPU that is not there: `devices.MemoryPlacement`
        )
        self.members: dict[str, Any] = {}  # of libraries, once each, so that a member is itself
        self.attribute_of: list[
            Callable[[Any, str], Any]
        ] = []  # of values that an extension knows; NotImplemented if it does not
        self.set_attribute_of: list[Callable[[Any, str, Any], bool]] = []
        self.make_class: list[Callable[[Class], bool]] = []  # gives a class of the program its Python class
        self.import_module: Callable[[CallFrame, str, int], Any] = _no_imports

    # What later chapters do, and earlier ones need.

    def value(self, node: ast.expr, frame: CallFrame) -> Any:
        """The value of an expression."""
        raise NotImplementedError

    def body(self, statements: Sequence[ast.stmt], frame: CallFrame) -> None:
        """Carry out statements in order."""
        raise NotImplementedError

    def call(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a value."""
        raise NotImplementedError

    def lookup_softly(self, name: str, frame: CallFrame) -> Any:
        """As ``lookup``, without an error where the name is not bound yet."""
        raise NotImplementedError

    def _locate(self, error: BaseException, node: ast.AST, frame: CallFrame) -> None:
        if not hasattr(error, "program_line"):
            error.program_line = (frame.module.path, getattr(node, "lineno", None))  # type: ignore[attr-defined]
        if isinstance(error, Violation) and error.line is None:
            error.path, error.line = frame.module.path, getattr(node, "lineno", None)

    def launch(self) -> None:
        """Count a launch."""
        self.launches += 1
        if self.launches > MOST_LAUNCHES:
            raise Violation("endless", f"The host code launches more than {MOST_LAUNCHES:,} kernels for one call.")

    def _step(self, node: ast.AST, frame: CallFrame) -> None:
        self.line, self.path = getattr(node, "lineno", self.line), frame.module.path
        if self.broken is not None:
            raise self.broken
        self.budget.step()

    @contextmanager
    def load_time(self) -> Iterator[None]:
        """Load a module: what is made meanwhile may be changed, and is frozen afterwards by who loads."""
        self.loading += 1
        try:
            yield
        finally:
            self.loading -= 1


def _no_imports(frame: CallFrame, name: str, level: int) -> Any:
    raise ImportError(f"No module named '{name}'")
