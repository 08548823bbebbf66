"""Gives Triton's interpreter the functions of libdevice, which by itself are empty there: computed by numpy, in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
# libdevice's names and numpy's; the fast forms lose some bits on a GPU and none here.
_BY_NUMPY = {
    "tanh": "tanh", "fast_tanhf": "tanh", "sinh": "sinh", "cosh": "cosh", "tan": "tan", "fast_tanf": "tan",
    "sin": "sin", "fast_sinf": "sin", "cos": "cos", "fast_cosf": "cos",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "exp": "exp", "fast_expf": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "fast_logf": "log",
    "log2": "log2", "fast_log2f": "log2", "log10": "log10", "fast_log10f": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "cbrt": "cbrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    "nearbyint": "rint", "abs": "abs", "isinf": "isinf", "isnan": "isnan",
    "pow": "power", "fast_powf": "power", "atan2": "arctan2", "fmod": "fmod", "hypot": "hypot", "copysign": "copysign",

}  # fmt: skip


def teach_libdevice() -> None:
    """Fill in libdevice's functions, for modules that are imported from now on."""
    import importlib

    from triton.runtime import interpreter

    functions = {name: getattr(interpreter.np, other, None) for name, other in _BY_NUMPY.items()}
    functions |= {"rsqrt": _rsqrt, "rcp_rn": _reciprocal, "exp10": _exp10}
    functions |= {"erf": _each("erf"), "erfc": _each("erfc"), "lgamma": _each("lgamma"), "tgamma": _each("gamma")}
    for place in _MODULES:
        module = importlib.import_module(place)
        for name, function in functions.items():
            if function is not None and hasattr(module, name):
                setattr(module, name, _on_tensors(function))


def _on_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def call(*given: Any, **_: Any) -> Any:
        tensors = [item for item in given if isinstance(item, tl.core.tensor)]
        like = tensors[0]
        # A GPU's libdevice has no half precisions: whoever calls it with one gets an error there, and here too.
        if any(tensor.dtype.scalar not in (tl.float32, tl.float64) for tensor in tensors):
            raise TypeError(f"libdevice has no such function for {like.dtype.scalar}")
        operands = [item.handle.data if isinstance(item, tl.core.tensor) else item for item in given]
        data = function(*operands)
        kind = tl.int32 if data.dtype.kind == "b" else like.dtype.scalar
        data = data.astype("int32" if data.dtype.kind == "b" else like.handle.data.dtype)
        whole = tl.block_type(kind, list(data.shape)) if like.type.is_block() else kind
        return tl.core.tensor(TensorHandle(data, kind), whole)

    return call


def _rsqrt(data: Any) -> Any:
    return 1 / data**0.5


def _reciprocal(data: Any) -> Any:
    return 1 / data


def _exp10(data: Any) -> Any:
    return 10.0**data


def _each(name: str) -> Callable[[Any], Any]:
    import math

    from triton.runtime import interpreter

    function: Callable[[float], float] = getattr(math, name)

    def call(data: Any) -> Any:
        return interpreter.np.vectorize(function, otypes=[data.dtype])(data)

    return call
