"""From a number that differs between traces to the expression over names that gives it in each. Pure."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from gpu_runner.contracts import Multiple

Number = int | float
_RELATIVE = 1e-12  # a double's rounding over a handful of operations
MAX_PRODUCT = 4
MAX_PARTS = 128
MAX_SHIFT = 8


class Fitter:
    """Finds expressions that hold in every setting; the simplest wins. Sizes are divided by scalars where ``rules`` say so."""

    def __init__(
        self, settings: Sequence[Mapping[str, Number]], dimensions: Sequence[str], rules: Sequence[Multiple] = ()
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._dimensions = [n for n in dimensions if n in settings[0]]
        self._scalars = [n for n in settings[0] if n not in self._dimensions]
        self._expressions: dict[tuple[Number, ...], str | None] = {}

    def fit(self, numbers: Sequence[Number]) -> str | None:
        """The expression for a number's values in each setting; None where there is none."""
        key = tuple(numbers)
        if key not in self._expressions:
            whole = all(type(n) is int for n in numbers)
            self._expressions[key] = self._whole(key) if whole else self._real(key)
        return self._expressions[key]

    def _whole(self, numbers: tuple[Number, ...]) -> str | None:
        single = [base for base in self._whole_bases if base[0] in self._dimensions]
        for text, values in self._whole_bases:
            times = _times(text, values, numbers)
            if times is not None:
                return times
        quotient = next((part for base in single if (part := _part(*base, numbers)) is not None), None)
        if quotient is not None:
            return quotient
        # A product has so many quotients that one may be what a size less a number is.
        near = [(abs(rest), _plus(text, rest)) for text, values in single for rest in _rests(values, numbers)]
        if near:
            return min(near)[1]
        for text, values in self._whole_bases:
            quotient = _part(text, values, numbers)
            if quotient is not None:
                return quotient
        for text, values in self._whole_bases:
            shifted = _shifted(text, values, numbers, self._dimensions)
            if shifted is not None:
                return shifted
        return self._shifted_part(numbers) or self._sum(numbers) or self._times_known(numbers)

    def _times_known(self, numbers: tuple[Number, ...]) -> str | None:
        """A size times one that was found before and is no product itself, as the area of what a stride leaves of an image is."""
        quotients = [(known, text) for known, text in self._expressions.items() if text is not None and "//" in text]
        for known, text in quotients:
            if len(set(known)) == 1 or not all(type(k) is int and k > 1 for k in known):
                continue
            if all(n > k and n % k == 0 for n, k in zip(numbers, known, strict=True)):
                rest = self.fit([n // k for n, k in zip(numbers, known, strict=True)])
                if rest is not None:
                    return f"{_closed(rest)} * {_closed(text)}"
        return None

    def _sum(self, numbers: tuple[Number, ...]) -> str | None:
        short = [base for base in self._whole_bases if base[0].count("*") < 2]
        for (one, a), (two, b) in itertools.permutations(short, 2):
            for text, total in ((f"{one} + {two}", _add(a, b)), (f"{one} - {two}", _add(a, [-v for v in b]))):
                rest = {n - t for n, t in zip(numbers, total, strict=True)}
                if len(rest) == 1 and abs(next(iter(rest))) <= MAX_SHIFT:
                    return _plus(text, rest.pop())
            if all(b) and [x // y for x, y in zip(a, b, strict=True)] == list(numbers):
                return f"{_wrapped(one)} // {_wrapped(two)}"
        return None

    def _shifted_part(self, numbers: tuple[Number, ...]) -> str | None:
        for text, values in self._whole_bases:
            for parts in range(2, MAX_PARTS + 1) if "*" not in text else ():
                rest = {n - v // parts for n, v in zip(numbers, values, strict=True)}
                if len(rest) == 1 and abs(next(iter(rest))) <= MAX_SHIFT and numbers[0] > parts:
                    return _plus(f"{text} // {parts}", rest.pop())
        return None

    def _real(self, numbers: tuple[Number, ...]) -> str | None:
        for text, values in self._real_bases:
            if _close(values, numbers):
                return text
        for text, values in self._real_bases:
            fitted = _linear(text, values, numbers)
            if fitted is not None:
                return fitted
        return None

    @cached_property
    def _whole_bases(self) -> list[tuple[str, list[Number]]]:
        names = [*self._dimensions, *(n for n in self._scalars if all(type(s[n]) is int for s in self._settings))]
        return [*self._products(names), *self._quotients(MAX_PRODUCT)]

    @cached_property
    def _real_bases(self) -> list[tuple[str, list[Number]]]:
        scalars = [(name, [s[name] for s in self._settings]) for name in self._scalars]
        sizes = [*self._products(self._dimensions, 3), *self._quotients(3)]
        less = [(f"({text} - 1)", [v - 1 for v in values]) for text, values in sizes if " " not in text]
        divisors = [(_wrapped(text), values) for text, values in sizes] + less
        bases = [*scalars, *((text, [_single(v) for v in values]) for text, values in scalars)]
        bases += [(f"1 / {t}", [1 / v for v in vs]) for t, vs in [*scalars, *divisors] if all(vs)]
        bases += [(f"{t} * {t}", [v * v for v in vs]) for t, vs in scalars]
        bases += [(f"1 / ({t} * {t})", [1 / (v * v) for v in vs]) for t, vs in scalars if all(vs)]
        pairs = list(itertools.permutations(scalars, 2))
        bases += [(f"{a} * {b}", _mul(x, y)) for (a, x), (b, y) in pairs if a < b]
        bases += [(f"{a} / {b}", _div(x, y)) for (a, x), (b, y) in pairs if all(y)]
        for text, values in scalars:
            rest = [1 - v for v in values]
            bases += [(f"{text} / {d}", _div(values, over)) for d, over in divisors if all(over)]
            bases += [(f"(1 - {text}) / {d}", _div(rest, over)) for d, over in divisors if all(over)]
            if all(rest):
                bases += [(f"1 / (1 - {text})", [1 / r for r in rest]), (f"{text} / (1 - {text})", _div(values, rest))]
            bases += [(f"(1 - {text}) * {b}", _mul(rest, other)) for b, other in scalars if b != text]
        return [*bases, *sizes]

    def _quotients(self, longest: int) -> Iterator[tuple[str, list[Number]]]:
        """Products of sizes over products of the scalars that divide them."""
        for length in range(1, len(self._rules) + 1):
            for rules in itertools.combinations(self._rules, length):
                scalars = [name for rule in rules for name in rule.scalars]
                below = dict.fromkeys(
                    chosen
                    for count in range(length, len(scalars) + 1)
                    for chosen in itertools.combinations(scalars, count)
                )
                for text, values in list(self._products(self._dimensions, longest)):
                    if {rule.dimension for rule in rules} <= set(text.split(" * ")):
                        for chosen in below:
                            over = [math.prod(s[n] for n in chosen) for s in self._settings]
                            if not any(v % o for v, o in zip(values, over, strict=True)):
                                quotient = [v // o for v, o in zip(values, over, strict=True)]
                                yield f"{_wrapped(text)} // {_wrapped(' * '.join(chosen))}", quotient

    def _products(self, names: Sequence[str], longest: int = MAX_PRODUCT) -> Iterator[tuple[str, list[Number]]]:
        for length in range(1, longest + 1):
            for chosen in itertools.combinations_with_replacement(names, length):
                if max((chosen.count(n) for n in chosen), default=1) <= 2:
                    yield " * ".join(chosen), [math.prod(s[n] for n in chosen) for s in self._settings]


def _single(value: Number) -> float:
    """The nearest number in single precision, which is what torch's norms take of an epsilon; 0 where there is none."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return 0.0


def _times(text: str, values: Sequence[Number], numbers: Sequence[Number]) -> str | None:
    first, number = values[0], numbers[0]
    if not all(values) or not all(numbers) or number % first:
        return None
    times = number // first
    if any(n != v * times for n, v in zip(numbers, values, strict=True)):
        return None
    return text if times == 1 else f"-{_wrapped(text)}" if times == -1 else f"{int(times)} * {text}"


def _part(text: str, values: Sequence[Number], numbers: Sequence[Number]) -> str | None:
    if not all(values) or not all(numbers):
        return None
    about = int(values[0] // numbers[0])
    # A small quotient says little: many divisors give it.
    for parts in (about, about + 1) if 1 <= about <= MAX_PARTS and min(numbers) > 4 else ():
        if parts > 1 and all(n == v // parts for n, v in zip(numbers, values, strict=True)):
            return f"{_wrapped(text)} // {parts}"
        if parts > 1 and all(n == -(-v // parts) for n, v in zip(numbers, values, strict=True)):
            return f"({text} + {parts - 1}) // {parts}"
    return None


def _rests(values: Sequence[Number], numbers: Sequence[Number]) -> list[Number]:
    """What is to be added to values, where that is the same for all."""
    rests = {n - v for n, v in zip(numbers, values, strict=True)}
    return [rests.pop()] if len(rests) == 1 else []


def _shifted(text: str, values: Sequence[Number], numbers: Sequence[Number], dimensions: Sequence[str]) -> str | None:
    run, rise = values[1] - values[0], numbers[1] - numbers[0]
    if run and rise % run == 0 and rise:
        times = rise // run
        rests = {n - v * times for n, v in zip(numbers, values, strict=True)}
        # Whole scalars are small and lie close together, so a large distance from one is a coincidence.
        if len(rests) == 1 and (text in dimensions or abs(next(iter(rests))) <= MAX_SHIFT):
            start = text if times == 1 else f"-{_wrapped(text)}" if times == -1 else f"{int(times)} * {text}"
            return _plus(start, rests.pop())
    return None


def _linear(text: str, values: Sequence[Number], numbers: Sequence[Number]) -> str | None:
    run = values[1] - values[0]
    if not run:
        return None
    factor = _tidy((numbers[1] - numbers[0]) / run)
    if factor == 0:
        return None
    for rest in (0.0, _tidy(numbers[0] - factor * values[0])):
        if _close([factor * v + rest for v in values], numbers):
            grouped = _wrapped(text)
            start = text if factor == 1 else f"-{grouped}" if factor == -1 else f"{_number(factor)} * {grouped}"
            if rest == 0:
                return start
            return f"{_number(rest)} - {grouped}" if factor == -1 else _plus(start, rest)
    return None


def _tidy(number: float) -> float:
    short = float(f"{number:.9g}")
    return short if math.isclose(short, number, rel_tol=1e-10) or abs(number) < 1e-14 else number


def _close(values: Sequence[Number], numbers: Sequence[Number]) -> bool:
    return all(math.isclose(v, n, rel_tol=_RELATIVE, abs_tol=0.0) for v, n in zip(values, numbers, strict=True))


def _number(value: Number) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def _plus(text: str, rest: Number) -> str:
    if rest == 0:
        return text
    return f"{text} - {_number(-rest)}" if rest < 0 else f"{text} + {_number(rest)}"


def _closed(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _wrapped(text: str) -> str:
    return f"({text})" if " " in text and not (text[0] == "(" and text[-1] == ")" and text.count("(") == 1) else text


def _add(a: Sequence[Number], b: Sequence[Number]) -> list[Number]:
    return [x + y for x, y in zip(a, b, strict=True)]


def _mul(a: Sequence[Number], b: Sequence[Number]) -> list[Number]:
    return [x * y for x, y in zip(a, b, strict=True)]


def _div(a: Sequence[Number], b: Sequence[Number]) -> list[Number]:
    return [x / y for x, y in zip(a, b, strict=True)]
