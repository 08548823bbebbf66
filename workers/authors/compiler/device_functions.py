"""Small device functions that triton.language lacks on some backends, as source. Pure."""

from __future__ import annotations

from workers.authors.compiler.values import Value

_TANH = """@triton.jit
def _tanh(x):
    # Near zero 1 - exp(-2x) loses its digits, so that a polynomial takes over (Cephes, tanhf).
    square = x * x
    series = -5.70498872745e-3 * square + 2.06390887954e-2
    series = series * square - 5.37397155531e-2
    series = series * square + 1.33314422036e-1
    series = series * square - 3.33332819422e-1
    # tanh is 1 - 2 / (1 + exp(2x)) further out; a reciprocal root squared takes fewer instructions than a division.
    root = tl.rsqrt(1.0 + tl.exp2(2.8853900817779268 * tl.abs(x)))
    far = 1.0 - 2.0 * root * root
    return tl.where(tl.abs(x) < 0.625, x + x * square * series, tl.where(x < 0, -far, far))"""

_LOG1P = """@triton.jit
def _log1p(x):
    # What 1 + x rounds away is put back by the factor (Kahan).
    u = 1.0 + x
    exact = (u == 1.0) | (u == float("inf"))
    return tl.where(exact, x, tl.log(u) * (x / tl.where(exact, 1.0, u - 1.0)))"""

_EXPM1 = """@triton.jit
def _expm1(x):
    # Near zero exp(x) - 1 loses its digits; the series is exact to float32 there.
    series = x * (1.0 + x * (0.5 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720))))))
    return tl.where(tl.abs(x) < 0.35, series, tl.exp(x) - 1.0)"""

_SIGN = """@triton.jit
def _sign(x):
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))"""

_TRUNC = """@triton.jit
def _trunc(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))"""

_ROUND = """@triton.jit
def _round(x):
    # Halves go to the even neighbour, as torch rounds.
    below = tl.floor(x)
    odd = below - 2.0 * tl.floor(0.5 * below)
    up = (x - below > 0.5) | ((x - below == 0.5) & (odd == 1.0))
    return tl.where(up, below + 1.0, below)"""

_FMOD = """@triton.jit
def _fmod(x, y):
    quotient = x / y
    return x - y * tl.where(quotient < 0, tl.ceil(quotient), tl.floor(quotient))"""

_POW = """@triton.jit
def _pow(x, exponent):
    power = tl.exp2(exponent * tl.log2(tl.abs(x)))
    # A negative base has a power only where the exponent is whole.
    whole = tl.floor(exponent) == exponent
    odd = exponent - 2.0 * tl.floor(0.5 * exponent) == 1.0
    below = tl.where(whole, tl.where(odd, -power, power), float("nan"))
    return tl.where(exponent == 0, 1.0, tl.where(x < 0, below, power))"""

_MULTIPLIED = """@triton.jit
def _multiplied(x, y):
    return x * y"""

_SOURCES = {
    "tanh": _TANH,
    "log1p": _LOG1P,
    "expm1": _EXPM1,
    "sign": _SIGN,
    "trunc": _TRUNC,
    "round": _ROUND,
    "fmod": _FMOD,
    "pow": _POW,
    "prod": _MULTIPLIED,
}


def device_functions(values: list[Value]) -> list[str]:
    """Give the source of the device functions that values call, each once."""
    kinds = {str(value.datum).partition(" ")[0] for value in values if value.op in {"over_cols", "scan"}}
    used = {value.op for value in values} | kinds
    return [source for op, source in _SOURCES.items() if op in used]
