"""Evaluates a program's syntax tree: statements, expressions and calls, on plain values, tensors and kernels.

What CPython does with the same text is done here by the runner's own code, over the members that ``language`` lists. Nothing that
outlives a call can be changed once its module is loaded, so that a call depends on its arguments alone.

The evaluator is one object in chapters, each a class that builds on those before it:

| chapter | what it does |
| --- | --- |
| ``state`` | what an evaluation holds: limits, the line, the levels of what was evaluated last |
| ``effects`` | whether a test changes something, so that more hangs on it than whether the program refuses |
| ``deciding`` | notes for ``coverage`` what host code decides, and what it computes of values that a call may change |
| ``values`` | attributes, items, operators, truth, classes and instances: what can be done with a value |
| ``names`` | scopes: what a name stands for, and the level that it has |
| ``calls`` | functions of the program, builtins, types and library functions |
| ``expressions`` | one rule for each kind of expression, with its level |
| ``statements`` | one rule for each kind of statement, with what it leaves depending on the call |

Beside each value goes its *level*, which says whether a call can change it: ``levels`` has the rules and an example. While an
expression is evaluated ``level`` gathers those of its parts; afterwards ``last_level`` is that of its value.
Source: The Python Language Reference, chapters 6 to 8, for the meaning of each node.
"""

from __future__ import annotations

import functools

from gpu_runner.program import language
from gpu_runner.program.coverage import Decisions
from gpu_runner.program.evaluator.statements import Statements

_COMPARISONS = {"eq": "Eq", "ne": "NotEq", "lt": "Lt", "le": "LtE", "gt": "Gt", "ge": "GtE"}


class Evaluator(Statements):
    """Carries out one program. ``extensions`` evaluates what torch and Triton see of it: kernels, autograd, modules of layers."""

    def __init__(self, decisions: Decisions | None = None) -> None:
        super().__init__(decisions)
        self.special |= {
            "getattr": lambda *args: self._by_name("getattr", args),
            "hasattr": lambda *args: self._by_name("hasattr", args),
            "setattr": lambda *args: self._by_name("setattr", args),
            "isinstance": self.is_instance,
            "iter": lambda value: iter(self.iterate(value)),
            "callable": self.is_callable,
            **self.budget.models(functools.partial(self._operate, language.BINARY)),
            **{f"operator.{name}": functools.partial(self._compared, node) for name, node in _COMPARISONS.items()},
            "operator.getitem": self.item,
        }
