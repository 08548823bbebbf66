"""Errors of a tensor by row, in float64, piece by piece: what is larger than a cache is read once. No I/O."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

MEDIAN_OF_NORMAL = 0.6745  # of the magnitudes, in standard deviations
# Elements that are looked at together: 256 KiB in float64, and the most that torch leaves to one thread. Of 2**15 (its grain,
# at::internal::GRAIN_SIZE) a sum goes to all threads already, which takes 20 times as long where other jobs have the few cores.
# Threads of our own over bands of rows gain nothing either: the steps are short, and Python's lock is asked for between them.
# Where there are many cores a few threads share a step. Measured: 2026-11-28, 16 cores, 4096 x 14336 in bfloat16, by 16 threads in
# pieces of 2**18: 0.4 s in place of 1.0 s.
THREADS = 4 if torch.get_num_threads() >= 16 else 1
PIECE = 2**15 - 1 if THREADS == 1 else THREADS * 2**15

# Rounded at random a number errs up to twice as much as rounded to the nearest; the worst of three times twice as much in the mean.
OF_CHANCE = 0.5

Place = tuple[slice, slice]
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)


@dataclass(frozen=True)
class Sums:
    """Norms of each row [rows] in float64, of a tensor as [rows, columns]; what is left out counts as zero.

    ``plain`` says that all was finite and nothing was left out, ``largest`` is the largest finite true value.
    """

    columns: int
    error: torch.Tensor  # Euclidean norm of the errors
    peak: torch.Tensor  # largest error
    excess: torch.Tensor  # largest error beyond shares of what the reference loses there, and of the true value
    own: torch.Tensor  # Euclidean norm of what the reference loses, the larger one where it was rounded in two ways
    exact: torch.Tensor  # Euclidean norm of the finite true values
    finite: int  # true values that are finite
    largest: float
    plain: bool

    @property
    def scale(self) -> float:
        """The root mean square of the finite true values; zero where there are none."""
        return float(self.exact.square().sum() / self.finite) ** 0.5 if self.finite else 0.0

    def mean(self, norms: torch.Tensor) -> torch.Tensor:
        """Root mean squares of rows from their norms."""
        return norms / math.sqrt(self.columns)

    def overall(self, norms: torch.Tensor) -> float:
        """The root mean square over the whole tensor from the norms of its rows."""
        return float(norms.square().mean().sqrt()) / math.sqrt(self.columns)


@dataclass(frozen=True)
class Piece:
    """Errors of some rows and columns, in float64, and whether all is finite and counts."""

    exact: torch.Tensor
    error: torch.Tensor
    own_error: torch.Tensor


@dataclass(frozen=True)
class Sheet:
    """A value beside its truth, both as [rows, columns]; ``judged`` says which elements count."""

    got: torch.Tensor
    exact: torch.Tensor
    own: torch.Tensor
    shaken: tuple[torch.Tensor, ...] = ()
    judged: torch.Tensor | None = None
    rounded: torch.Tensor | None = None

    def sums(self, of_own: float, of_exact: float) -> Sums:
        """Go through the whole tensor once; the shares are those by which an error counts as excess."""
        rows, columns = self.got.shape
        squares, chance = torch.zeros((3, rows), dtype=torch.float64), torch.zeros(rows, dtype=torch.float64)
        peak = torch.zeros(rows, dtype=torch.float64)
        excess = torch.full((rows,), -math.inf, dtype=torch.float64)
        finite, largest, plain = 0, 0.0, self.judged is None
        for place in pieces(rows, columns):
            quick = self._quick(place) if self.judged is None else None
            if quick is None:
                plain = False
                piece = self.piece(place)
                good = torch.isfinite(piece.exact)
                piece = Piece(torch.where(good, piece.exact, 0.0), piece.error, piece.own_error)
                norms = _norms(piece)
                finite += int(good.sum())
            else:
                piece, norms = quick
                finite += piece.exact.numel()
            at = place[0]
            squares[:, at] += norms.square_()
            if self.rounded is not None:
                chance[at] += norm(self.lost_by_chance(place)).square_()
            error, exact = piece.error.abs_(), piece.exact.abs()
            torch.maximum(peak[at], error.amax(-1), out=peak[at])
            largest = max(largest, float(exact.amax(-1).max()))
            beyond = error.sub_(piece.own_error.abs_(), alpha=of_own).sub_(exact, alpha=of_exact)
            torch.maximum(excess[at], beyond.amax(-1), out=excess[at])
        error, own, exact = squares.sqrt()
        own = torch.maximum(own, OF_CHANCE * chance.sqrt())
        return Sums(columns, error, peak, excess, own, exact, finite, largest, plain)

    def piece(self, place: Place) -> Piece:
        """The errors of some rows and columns, zero where an element is not finite or does not count."""
        value, exact = self.got[place].double(), self.exact[place].double()
        good = torch.isfinite(exact) & torch.isfinite(value)
        if self.judged is not None:
            good &= self.judged[place]
        lost = own_error(exact, [self.own[place], *(shaken[place] for shaken in self.shaken)])
        return Piece(exact, torch.where(good, (value - exact).abs(), 0.0), torch.where(good, lost, 0.0))

    def lost_by_chance(self, place: Place) -> torch.Tensor:
        """What the reference loses where half precision is rounded at random; zero where that was not tried."""
        if self.rounded is None:
            return torch.zeros(self.got[place].shape, dtype=torch.float64)
        lost = own_error(self.exact[place].double(), [self.rounded[place]])
        return lost if self.judged is None else torch.where(self.judged[place], lost, 0.0)

    def _quick(self, place: Place) -> tuple[Piece, torch.Tensor] | None:
        """The same up to signs, with the norms of its rows, where all is finite; None where something is not."""
        exact = self.exact[place].double()
        error = self.got[place].double() - exact
        lost = self.own[place].double() - exact
        for shaken in self.shaken:
            lost = torch.maximum(lost.abs_(), (shaken[place].double() - exact).abs_())
        piece = Piece(exact, error, lost)
        norms = _norms(piece)
        # The norm of what is finite may overflow, and that of what is not is never finite.
        return (piece, norms) if math.isfinite(float(norms.sum())) else None


def _norms(piece: Piece) -> torch.Tensor:
    """The Euclidean norms of the errors, of what the reference loses and of the truth, each [rows]."""
    return torch.stack([norm(values) for values in (piece.error, piece.own_error, piece.exact)])


def keep_pages() -> None:
    """Have this process keep the memory that it frees, where malloc of glibc may be told so.

    What a step allocates is else mapped anew, and each page cleared, which takes as long as the step.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 2**25)  # the most that it takes
        mallopt(_M_TRIM_THRESHOLD, 2**30)


def share_steps() -> None:
    """Have few threads share a step where there are many cores, which others use too: all of them would wait for each other."""
    if THREADS > 1:
        torch.set_num_threads(THREADS)


def pieces(rows: int, columns: int) -> Iterator[Place]:
    """The places of pieces of whole rows, or of parts of one where rows are long."""
    if not rows or not columns:
        return
    deep, wide = max(1, PIECE // columns), math.ceil(columns / math.ceil(columns / PIECE))
    for row in range(0, rows, deep):
        for column in range(0, columns, wide):
            yield slice(row, min(row + deep, rows)), slice(column, min(column + wide, columns))


def own_error(exact: torch.Tensor, own: Sequence[torch.Tensor]) -> torch.Tensor:
    """The largest distance of several values from the truth in each element; zero where one of both is not finite."""
    lost = torch.zeros(exact.shape, dtype=torch.float64)
    for value in own:
        distance = (value.double() - exact).abs_()
        torch.maximum(lost, distance.nan_to_num_(0.0, 0.0, 0.0), out=lost)
    return lost


def norm(values: torch.Tensor) -> torch.Tensor:
    """The Euclidean norm of each row."""
    return torch.linalg.vector_norm(values, dim=-1)


def rms(tensor: torch.Tensor) -> float:
    """The root mean square of the finite elements; zero where there are none, infinite where float64 holds no square of theirs."""
    flat = tensor.detach().reshape(-1)
    total, count = 0.0, 0
    for piece in flat.split(PIECE):
        values = piece.double()
        size = float(norm(values))
        square = size * size  # a power of Python's would raise
        if not math.isfinite(square):
            good = torch.isfinite(values)
            square, count = float(torch.where(good, values, 0.0).square().sum()), count - int((~good).sum())
        total, count = total + square, count + values.numel()
    return math.sqrt(total / count) if count else 0.0


def typical_size(tensor: torch.Tensor) -> float:
    """The root mean square, or what normal numbers of this median have if that is less: a few large rows do not move it."""
    flat = tensor.detach().reshape(-1)
    sizes = flat[:: math.ceil(flat.numel() / PIECE) | 1].double().abs()
    sizes = sizes[torch.isfinite(sizes) & (sizes > 0)]
    return min(rms(tensor), float(sizes.median()) / MEDIAN_OF_NORMAL) if sizes.numel() else 0.0


def farthest(exact: torch.Tensor | None, values: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Of each element the value that lies farthest from the exact one."""
    farthest, *others = values
    for other in others:
        if exact is None or farthest is None or other is None:
            return None
        farthest = torch.where((other.double() - exact).abs() > (farthest.double() - exact).abs(), other, farthest)
    return farthest
