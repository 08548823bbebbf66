"""Spares Triton's interpreter work that it does again and again, or whose result it throws away. What it computes stays.

And lets Triton 3.6 work with the numpy of today.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any


def hasten_interpreter() -> None:
    """Change the interpreter of this process, once.

    Measured: 2026-11-22, on a CPU, the cases of ``tests/workers/compiler/test_values_in_the_interpreter.py`` and
    ``test_forms_in_the_interpreter.py``, with and without it side by side: 39 and 61 s of CPU time.
    """
    from triton.runtime import interpreter

    interpreter._patch_builtin = _patching(interpreter)  # noqa: SLF001 - as bfloat16: there is no public place for it
    interpreter._get_np_dtype = _numbered(interpreter._get_np_dtype)  # noqa: SLF001 - as above
    interpreter.ReduceOps.generic_reduce = _reduced
    interpreter._patch_lang_tensor = _indexing(interpreter._patch_lang_tensor)  # noqa: SLF001 - as above
    builder = interpreter.interpreter_builder
    # Each sum and product of whole numbers is done once more in int64, for an assertion that is made in debugging alone.
    if not builder.options.debug:
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)


def _indexing(original: Callable[..., None]) -> Callable[..., None]:
    """Let a scalar be an index where it is an array of one element: numpy from 2.4 on refuses what Triton up to 3.6 asks of it."""

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    return patch_lang_tensor


def _reduced(self: Any, input: tuple[Any, ...]) -> list[Any]:
    """Reduce by a function of the kernel's own, a whole slice at each step along the axis in place of single elements."""
    from triton.runtime.interpreter import np

    given, axis = self.unravel(input, self.axis)
    slices = [np.moveaxis(arg.handle.data, axis, 0) for arg in given]
    shape = slices[0].shape[1:]

    def at(place: int) -> tuple[Any, ...]:
        return tuple(
            self.to_tensor(data[place].reshape(shape or (1,)), arg.dtype)
            for data, arg in zip(slices, given, strict=True)
        )

    found = at(0)
    for place in range(1, len(slices[0])):
        combined = self.combine_fn.fn(*found, *at(place))
        found = combined if isinstance(combined, tuple) else (combined,)
    kept = [1 if dim == axis else size for dim, size in enumerate(given[0].handle.data.shape)]
    if self.axis is None:
        kept = [1] * len(input[0].handle.data.shape)
    results = []
    for part, data, arg in zip(found, slices, given, strict=True):
        values = part.handle.data if hasattr(part, "handle") else part
        values = np.broadcast_to(np.asarray(values).astype(data.dtype), shape or (1,))
        values = values.reshape(kept) if self.keep_dims else values.reshape(shape) if shape else values.item()
        results.append(self.to_tensor(values, arg.dtype))
    return results


def _patching(interpreter: Any) -> Callable[..., None]:
    """Patch what is a builtin of the language, in turn for each call of a function: which names are is looked up once."""
    from triton.language import core

    names: dict[Any, tuple[str, ...]] = {}

    def patch_builtin(package: Any, *rest: Any) -> None:
        if package not in names:
            names[package] = tuple(name for name, member in inspect.getmembers(package) if core.is_builtin(member))
        for name in names[package]:
            member = getattr(package, name)
            if core.is_builtin(member):  # else it is patched already, by the kernel that calls
                interpreter._patch_attr(package, name, member, *rest)  # noqa: SLF001 - as above

    return patch_builtin


def _numbered(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Look the type of numpy for a plain type of Triton up once: a table of all is made each time."""
    from triton.language import core

    found: dict[str, Any] = {}

    def get_np_dtype(kind: Any) -> Any:
        element = kind.element_ty if type(kind) is core.block_type else kind
        if type(element) is not core.dtype:
            return original(kind)
        if element.name not in found:
            found[element.name] = original(element)
        return found[element.name]

    return get_np_dtype
