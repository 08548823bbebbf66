"""Teaches Triton's interpreter what maxima and minima of NaN are on a GPU: the other number, unless the kernel asks for NaN.

Source: triton.language.maximum, its parameter ``propagate_nan``; PTX ISA, ``max`` without and with ``.NaN``.
"""

from __future__ import annotations

from typing import Any


def teach_maxima() -> None:
    """Change the interpreter of this process; a second time changes nothing."""
    from triton.runtime import interpreter

    for name, operation in (("create_maxnumf", interpreter.np.fmax), ("create_minnumf", interpreter.np.fmin)):
        setattr(interpreter.InterpreterBuilder, name, _of(operation))


def _of(operation: Any) -> Any:
    def create(self: Any, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, operation)

    return create
