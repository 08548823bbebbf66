"""Polynomials of a tensor: Horner's scheme takes few operations, and keeps the tensor in registers where powers would be. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workers.authors.compiler.algebra import scaled, simplified
from workers.authors.compiler.values import TileValue, ValueNumbering, topological


def with_polynomials(numbering: ValueNumbering, stored: list[TileValue], kept: list[TileValue]) -> list[TileValue]:
    """The values to store, each that is a polynomial of a loaded tensor by Horner's scheme where a pass gets shorter by it.

    ``kept`` are what the pass computes besides. Rounding errors stay bounded by those of the terms: no sum is multiplied out of
    which two terms are exact, since these may cancel to digits that products no longer have.
    """
    for place, value in enumerate(stored):
        for tensor in (v for v in topological([value]) if v.op == "load" and v.space.cols and not v.integer):
            try:
                terms = _TermsOf(numbering, tensor).of(value)
            except _NoPolynomialError:
                continue
            powers = {term.power for term in terms}
            if len(powers) < 2 or max(powers) < 2:
                continue
            new = [*stored[:place], _horner(numbering, tensor, terms), *stored[place + 1 :]]
            if _operations([*new, *kept]) < _operations([*stored, *kept]):
                stored = new
                break
    return stored


class _NoPolynomialError(Exception):
    """A value depends on the tensor otherwise."""


@dataclass(frozen=True)
class _Term:
    """``number * row * tiles * tensor ** power``; ``row`` varies along no row."""

    number: float
    row: TileValue | None
    tiles: tuple[TileValue, ...]
    power: int


class _TermsOf:
    """The terms of values as polynomials of one tensor."""

    def __init__(self, numbering: ValueNumbering, tensor: TileValue) -> None:
        self._numbering = numbering
        self._tensor = tensor
        self._known: dict[TileValue, list[_Term]] = {}

    def of(self, value: TileValue) -> list[_Term]:
        if value not in self._known:
            self._known[value] = self._merged(self._terms(value))
        return self._known[value]

    def _terms(self, value: TileValue) -> list[_Term]:
        if value is self._tensor:
            return [_Term(1.0, None, (), 1)]
        if value.number is not None:
            return [_Term(float(value.number), None, (), 0)]
        if not value.space.cols:
            return [_Term(1.0, value, (), 0)]
        if value.op in {"add", "sub"}:
            left, right = (self.of(arg) for arg in value.args)
            return [*left, *(right if value.op == "add" else self._times(right, [_Term(-1.0, None, (), 0)]))]
        if value.op == "neg":
            return self._times(self.of(value.args[0]), [_Term(-1.0, None, (), 0)])
        if value.op == "mul":
            left, right = (self.of(arg) for arg in value.args)
            if len(left) > 1 and len(right) > 1:
                raise _NoPolynomialError
            for arg, terms in zip(value.args, (left, right), strict=True):
                if len(terms) > 1 and sum(term in {"load", "const", "scalar"} for term in _summands(arg)) > 1:
                    raise _NoPolynomialError
            return self._times(left, right)
        if self._tensor in topological([value]):
            raise _NoPolynomialError
        return [_Term(1.0, None, (value,), 0)]

    def _times(self, left: list[_Term], right: list[_Term]) -> list[_Term]:
        return [self._product(one, other) for one in left for other in right]

    def _product(self, one: _Term, other: _Term) -> _Term:
        row = one.row or other.row
        if one.row is not None and other.row is not None:
            row = simplified(self._numbering, "mul", one.row, other.row)
        tiles = tuple(sorted((*one.tiles, *other.tiles), key=id))
        return _Term(one.number * other.number, row, tiles, one.power + other.power)

    def _merged(self, terms: list[_Term]) -> list[_Term]:
        numbers: dict[_Term, float] = {}
        for term in terms:
            key = _Term(1.0, term.row, term.tiles, term.power)
            numbers[key] = numbers.get(key, 0.0) + term.number
        return [_Term(number, key.row, key.tiles, key.power) for key, number in numbers.items() if number]


def _summands(value: TileValue) -> list[str]:
    """The operators of what a sum adds up."""
    if value.op in {"add", "sub", "neg"} and value.space.cols:
        return [op for arg in value.args for op in _summands(arg)]
    return [value.op]


def _horner(numbering: ValueNumbering, tensor: TileValue, terms: list[_Term]) -> TileValue:
    powers = {term.power for term in terms}
    result = _coefficient(numbering, terms, max(powers))
    for power in range(max(powers) - 1, -1, -1):
        result = simplified(numbering, "mul", result, tensor)
        if power in powers:
            result = simplified(numbering, "add", result, _coefficient(numbering, terms, power))
    return result


def _coefficient(numbering: ValueNumbering, terms: list[_Term], power: int) -> TileValue:
    """The sum of what a power of the tensor is multiplied by; what varies along no row is added up before it meets a tile."""
    rows: dict[tuple[TileValue, ...], TileValue] = {}
    for term in (term for term in terms if term.power == power):
        row = numbering.const(term.number) if term.row is None else scaled(numbering, term.number, term.row)
        rows[term.tiles] = simplified(numbering, "add", rows[term.tiles], row) if term.tiles in rows else row
    products = []
    for tiles, row in rows.items():
        for tile in tiles:
            row = simplified(numbering, "mul", row, tile)
        products.append(row)
    total = products[0]
    for product in products[1:]:
        total = simplified(numbering, "add", total, product)
    return total


def _operations(roots: Iterable[TileValue]) -> int:
    """Operations that a pass carries out for each element."""
    return sum(value.space.cols and bool(value.args) for value in topological(roots))
