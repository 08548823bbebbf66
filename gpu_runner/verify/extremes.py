"""What rows hold in the cases of large values and of values that are not finite, and how a row is told of. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from gpu_runner.verify.cases import Content, Special

# How far the largest values lie out, tried from the left until the reference can be judged by: where squares of float32 overflow,
# then where they stay finite and those of float16 do not, then where logits, sums and products do. The first is no number that
# stands for minus infinity in kernels that people write (-1e30), and its sums over a row stay finite.
REACHES: dict[str, tuple[float, ...]] = {
    "float16": (3 * 2.0**14, 2.0**10, 2.0**7, 2.0**5, 2.0**3),
    "bfloat16": (2.0**60, 2.0**30, 2.0**15, 2.0**9, 2.0**6, 2.0**4),
    "float32": (2.0**96, 2.0**60, 2.0**30, 2.0**15, 2.0**9, 2.0**6, 2.0**4),
    "float64": (2.0**60, 2.0**30, 2.0**15, 2.0**9, 2.0**6, 2.0**4),
}
TIES = (2.0**-1, 2.0**-2, 2.0**-3, 2.0**-4, 2.0**-5)  # of what rows hold odd multiples
LEVELS = 255  # of a pixel of eight bits
FILLS = (-1e4, -1e9)  # by rows in turn: what masks are added to logits as
LOWEST = torch.finfo(torch.bfloat16).min  # what masks fill with too; infinite in float16, as -1e9 is
MOST_FILLED = 0.5  # of a row
MOST_STEPS = 64  # of numbers in order, whose squares and sums stay small
NEAREST = 8.0  # of what is drawn between ordinary values and the farthest
SEVERAL_ROWS = 6  # from which on one of the special rows rises
PEAK, FARTHEST_PEAK = 64.0, 512.0  # times its value: one element of a special row
FAINT, FAINT_HALF = 2.0**-9, 2.0**-5  # times its values: a row of small numbers, and one in float16
MOST_KEPT = 0.6  # of a row of which most elements are zero, as behind a ReLU or a dropout
OUTLYING = (10.0, 12.0)  # doublings of the mean size of an element, of one that lies far out in each row
TINY = (72.0, 100.0)  # halvings of all elements: their squares are no numbers of float32
DISTANT = (7.0, 12.0)  # doublings of the mean size of an element by which all lie away from zero
FAR_ROW = 4.0  # mean sizes of an element by which a row lies away from zero
SEVERAL_BANDS = 8  # rows from which on most have a band of magnitudes each
MOST_LOGIT = 32.0  # of what becomes a distribution: its smallest probability stays a normal number of float32


@dataclass(frozen=True)
class _Row:
    """What one kind of row holds; ``fill`` changes rows [rows, columns] in place, given the reach."""

    words: str
    fill: Callable[[torch.Tensor, float, torch.Generator], None]
    is_single: bool = False  # one element of the row is large


def _ordinary(rows: torch.Tensor, reach: float, stream: torch.Generator) -> None:
    pass


def _one(sign: float) -> Callable[[torch.Tensor, float, torch.Generator], None]:
    def fill(rows: torch.Tensor, reach: float, stream: torch.Generator) -> None:
        at = torch.randint(rows.shape[1], (rows.shape[0], 1), generator=stream)
        rows.scatter_(1, at, sign * reach)

    return fill


def _near(sign: float) -> Callable[[torch.Tensor, float, torch.Generator], None]:
    def fill(rows: torch.Tensor, reach: float, stream: torch.Generator) -> None:
        rows.add_(sign * reach)

    return fill


def _equal(rows: torch.Tensor, reach: float, stream: torch.Generator) -> None:
    rows.fill_(reach)


def _some(value: float) -> Callable[[torch.Tensor, float, torch.Generator], None]:
    """One element of each row, or of half of the rows a drawn share, up to all."""

    def fill(rows: torch.Tensor, reach: float, stream: torch.Generator) -> None:
        share = torch.rand((rows.shape[0], 1), generator=stream) * 2 - 1
        chosen = torch.rand(rows.shape, generator=stream) < share
        at = torch.randint(rows.shape[1], (rows.shape[0], 1), generator=stream)
        rows[chosen.scatter_(1, at, value=True)] = value

    return fill


def _several(value: float) -> Callable[[torch.Tensor, float, torch.Generator], None]:
    """At least two elements of each row that has as many after its first, up to all of these: the first of them has a place."""

    def fill(rows: torch.Tensor, reach: float, stream: torch.Generator) -> None:
        for row in rows:
            later = row[1:] if len(row) > 2 else row
            count = int(torch.randint(2, max(3, len(later) + 1), (), generator=stream))
            later[torch.randperm(len(later), generator=stream)[:count]] = value

    return fill


def _masked_before(rows: torch.Tensor, reach: float, stream: torch.Generator) -> None:
    """Minus infinity before a drawn column; in half of the rows up to the last, so that whole blocks of a row are."""
    for row in rows:
        end = int(torch.randint(rows.shape[1], (), generator=stream))
        row[: end if int(torch.randint(2, (), generator=stream)) else -1] = -math.inf


def _masked_after(rows: torch.Tensor, reach: float, stream: torch.Generator) -> None:
    """Minus infinity after a drawn column, as of a causal mask."""
    for row in rows:
        row[int(torch.randint(rows.shape[1], (), generator=stream)) + 1 :] = -math.inf


# Row r of an input holds entry r (of the inputs after the first: r + 1, ...), over and over.
LARGE_ROWS = (
    _Row("ordinary values", _ordinary),
    _Row("one element of +{reach}", _one(1.0), is_single=True),
    _Row("values near -{reach}", _near(-1.0)),
    _Row("one element of -{reach}", _one(-1.0), is_single=True),
    _Row("values near +{reach}", _near(1.0)),
    _Row("+{reach} everywhere", _equal),
)
ODD_ROWS = (
    _Row("ordinary values", _ordinary),
    _Row("one NaN or several", _some(math.nan)),
    _Row("ordinary values", _ordinary),
    _Row("one +inf or several", _some(math.inf)),
    _Row("one -inf or several", _some(-math.inf)),
    _Row("-inf before a column", _masked_before),
    _Row("-inf after a column", _masked_after),
    _Row("several NaN", _several(math.nan)),
    _Row("ordinary values", _ordinary),
    _Row("-inf everywhere", lambda rows, reach, stream: _equal(rows, -math.inf, stream)),
)


def with_large(values: torch.Tensor, reach: float, stream: torch.Generator, place: int = 0) -> torch.Tensor:
    """Values of which some rows hold large ones; ``place`` counts the inputs that do.

    Shapes: values [..., columns]; of one dimension: one row, which gets two large elements.
    """
    if values.dim() == 1:
        return _scattered(values, (reach, -reach), stream)
    return _filled(values, LARGE_ROWS, reach, stream, place, drawn=True)


def with_special(
    values: torch.Tensor,
    special: Special,
    stream: torch.Generator,
    *,
    beside: bool = False,
    is_half: bool = False,
    faint: float = 0.0,
    limits: Sequence[float] = (),
) -> torch.Tensor:
    """Values of which some rows are zero, mostly zero, equal, whole, far, faint, sorted or of one sign, or hold one large element.
    Of several rows one rises.

    Shapes: values [..., columns]; a tensor of fewer than three rows keeps one ordinary row, a single row stays as it is. Of a
    tensor of two dimensions it may be its columns. ``beside`` another such tensor no row has equal elements: a product of two
    of them rounds the same way at each step. ``is_half``: float16 holds fewer small numbers. Elements of a faint row are of the
    size ``faint`` where that is given.
    """
    if special is Special.limits:
        return _at_limits(values, limits, stream)
    if special in MAKE:
        return values if 0 in values.shape or not values.dim() else MAKE[special](values, stream)
    if values.dim() < 2 or 0 in values.shape or special is Special.ends:
        return values
    if values.dim() == 2 and special is Special.columns:
        return _special(values.t(), stream, beside, is_half, faint).t().contiguous()
    return _special(values, stream, beside, is_half, faint)


def _special(values: torch.Tensor, stream: torch.Generator, beside: bool, is_half: bool, faint: float) -> torch.Tensor:
    factor = FAINT_HALF if is_half else faint or FAINT
    rows = values.clone().reshape(-1, values.shape[-1])
    order = torch.randperm(rows.shape[0], generator=stream).tolist()
    kinds = [SPECIAL_ROWS[at] for at in torch.randperm(len(SPECIAL_ROWS), generator=stream).tolist()]
    kinds = [make for make in kinds if not (beside and make is _equal_row)]
    if len(order) >= SEVERAL_ROWS:  # one rises, whichever others there are
        kinds.sort(key=lambda make: make is not _rising_row)
    for row, make in zip(order[1:], kinds, strict=False):  # the first of the order stays ordinary
        make(rows, row, order[0], stream)
        if make is _faint_row:
            rows[row] *= factor / FAINT
    return rows.reshape(values.shape)


def _zero_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    rows[row] = 0.0


def _equal_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    rows[row] = rows[ordinary, int(torch.randint(rows.shape[1], (), generator=stream))]


def _peaked_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    """The first or the last as often as any other: what moments may be taken about."""
    any_place = int(torch.randint(rows.shape[1], (), generator=stream))
    place = (0, rows.shape[1] - 1, any_place)[int(torch.randint(3, (), generator=stream))]
    rows[row, place] *= PEAK * (FARTHEST_PEAK / PEAK) ** float(torch.rand((), generator=stream))


def _repeated_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    rows[row] = rows[ordinary]


def _whole_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    rows[row] = torch.randint(-3, 4, rows[row].shape, generator=stream).to(rows.dtype)


def _far_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    side = 2 * int(torch.randint(2, (), generator=stream)) - 1
    rows[row] += side * FAR_ROW * rows[row].abs().mean()


def _one_signed_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    rows[row] = rows[row].abs() * (2 * int(torch.randint(2, (), generator=stream)) - 1)


def _rising_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    rows[row] = rows[row].sort().values


def _falling_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    rows[row] = rows[row].sort(descending=True).values


def _faint_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    rows[row] *= FAINT


def _sparse_row(rows: torch.Tensor, row: int, ordinary: int, stream: torch.Generator) -> None:
    kept = torch.rand(rows[row].shape, generator=stream) < MOST_KEPT * torch.rand((), generator=stream)
    rows[row] *= kept.to(rows.dtype)


SPECIAL_ROWS = (
    _zero_row, _equal_row, _peaked_row, _repeated_row, _whole_row, _far_row, _one_signed_row, _faint_row, _sparse_row,
    _rising_row, _falling_row,
)  # fmt: skip


def _levels(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    return torch.randint(0, LEVELS + 1, values.shape, generator=stream) / float(LEVELS)


def _bytes(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    return torch.randint(0, LEVELS + 1, values.shape, generator=stream).float()


def _distant(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """All values by as much beyond zero, a hundred times and more of what they are apart."""
    low, high = DISTANT
    times = 2.0 ** (low + (high - low) * float(torch.rand((), generator=stream)))
    side = 2 * int(torch.randint(2, (), generator=stream)) - 1
    return values + side * times * values.abs().mean()


def _outlying(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """Of each row the first, the last, any element, or three of them far out: what is taken about one, or their median, cancels."""
    rows = values.clone().reshape(-1, values.shape[-1])
    places = torch.randint(rows.shape[1], (len(rows),), generator=stream)
    places[0::2], places[1::4] = 0, rows.shape[1] - 1
    low, high = OUTLYING
    far = 2.0 ** (low + (high - low) * torch.rand(len(rows), generator=stream))
    signs = torch.randint(2, (len(rows),), generator=stream) * 2 - 1
    numbers = far * signs * values.abs().mean()
    rows[torch.arange(len(rows)), places] = numbers
    rows[2::4, [0, rows.shape[1] // 2, -1]] = numbers[2::4, None]
    return rows.reshape(values.shape)


def _lengthwise(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    longest = max(range(values.dim()), key=lambda axis: values.shape[axis])
    return _outlying(values.movedim(longest, -1), stream).movedim(-1, longest).contiguous()


def _tiny(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    low, high = TINY
    return values * 2.0 ** -(low + (high - low) * float(torch.rand((), generator=stream)))


def _filled_by_a_mask(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """In every second row at least one element, up to half, is what masks fill with; the likelier in the first such row."""
    return _filled_with(FILLS, values, stream)


def _partly(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """In every second row some elements, up to half, are what masks fill with; the smallest number in the first such row."""
    return _filled_with((LOWEST, *FILLS), values, stream)


def with_down(values: torch.Tensor, fill: float, stream: torch.Generator) -> torch.Tensor:
    """Values of which every third slice down their longest dimension but the last is this number throughout.

    Shapes: values [..., columns]; of one dimension they stay as they are.
    """
    if values.dim() < 2 or 0 in values.shape:
        return values
    longest = max(range(values.dim() - 1), key=lambda axis: values.shape[axis])
    first = int(torch.randint(3, (), generator=stream))
    filled = values.movedim(longest, -1).clone(memory_format=torch.contiguous_format)
    filled.view(-1, values.shape[longest])[first::3] = fill
    return filled.movedim(-1, longest).contiguous()


def _down(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    return with_down(values, LOWEST, stream)


def _masked(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """The same, and every third row holds the smallest number alone or the largest, in turn; never all that hold it with others."""
    masked = _partly(values, stream).reshape(-1, values.shape[-1])
    partly = int((masked == LOWEST).any(-1).nonzero()[0])
    able = [start for start in range(min(3, len(masked))) if start != partly % 3] or [0]
    starts = [start for start in able if start + 3 < len(masked)] or able
    start = starts[int(torch.randint(len(starts), (), generator=stream))]
    masked[start::3] = LOWEST
    masked[start + 3 :: 6] = -LOWEST
    return masked.reshape(values.shape)


def _filled_with(fills: tuple[float, ...], values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    rows = values.clone().reshape(-1, values.shape[-1])
    first = min(int(torch.randint(2, (), generator=stream)), len(rows) - 1)
    for turn, row in enumerate(rows[first::2]):
        chosen = torch.rand(row.shape, generator=stream) < MOST_FILLED * torch.rand((), generator=stream)
        chosen[int(torch.randint(len(row), (), generator=stream))] = True
        row[chosen] = fills[turn % len(fills)]
    return rows.reshape(values.shape)


def _ties(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """Odd multiples of a half down to a thirty-second, by rows in turn; in a row no two are the same."""
    rows = values.reshape(-1, values.shape[-1])
    order = torch.rand(rows.shape, generator=stream).argsort(-1) - rows.shape[1] // 2
    units = torch.tensor(TIES)[torch.arange(rows.shape[0]) % len(TIES)]
    return ((2 * order + 1) * units[:, None]).reshape(values.shape)


def _at_limits(values: torch.Tensor, limits: Sequence[float], stream: torch.Generator) -> torch.Tensor:
    """Elements that are these numbers, each at most once in a row and, of as many rows as there are columns, in a column.

    So no two that a maximum compares are the same. At most half of a row is changed.
    """
    rows = values.clone().reshape(-1, values.shape[-1]) if values.dim() else values.clone().reshape(1, 1)
    columns = torch.randperm(rows.shape[1], generator=stream)
    for at in torch.randperm(len(limits), generator=stream).tolist()[: rows.shape[1] // 2]:
        for row in range(min(rows.shape)):
            rows[row, columns[(at + row) % rows.shape[1]]] = limits[at]
    return rows.reshape(values.shape)


def _mask(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """Zeros and ones, of each row another share."""
    share = 0.25 + 0.65 * torch.rand((*values.shape[:-1], 1), generator=stream)
    return (torch.rand(values.shape, generator=stream) < share).float()


def _ramp(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """Each element its place along the last or first dimension, as a share of it where there are many."""
    dim = (0, values.dim() - 1)[int(torch.randint(2, (), generator=stream))]
    size = values.shape[dim]
    steps = torch.arange(size) / (1.0 if size <= MOST_STEPS and torch.rand((), generator=stream) < 0.5 else float(size))
    return steps.reshape([-1 if at == dim else 1 for at in range(values.dim())]).expand(values.shape).clone()


def _unit(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    return torch.nn.functional.normalize(values, dim=-1)


def _shares(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    return torch.softmax(values, -1)


def _triangle(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """A triangular matrix, or one that is symmetric or diagonal too; of one dimension the values as they are."""
    if values.dim() < 2:
        return values
    lower = values.tril()
    kind = int(torch.randint(4, (), generator=stream))
    if kind == 0 and values.shape[-1] == values.shape[-2]:
        return lower + lower.transpose(-1, -2)
    return (lower, values.triu(), lower.triu())[kind % 3]


def _faint(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    rows = values.clone().reshape(-1, values.shape[-1])
    rows[torch.randperm(len(rows), generator=stream)[: (len(rows) + 1) // 2]] *= FAINT
    return rows.reshape(values.shape)


MAKE: dict[str, Callable[[torch.Tensor, torch.Generator], torch.Tensor]] = {
    Special.faint: _faint,
    Special.levels: _levels,
    Special.bytes: _bytes,
    Special.ties: _ties,
    Special.distant: _distant,
    Special.outlying: _outlying,
    Special.lengthwise: _lengthwise,
    Special.tiny: _tiny,
    Special.filled: _filled_by_a_mask,
    Special.masked: _masked,
    Special.partly: _partly,
    Special.down: _down,
    Special.mask: _mask,
    Special.ramp: _ramp,
    Special.unit: _unit,
    Special.shares: _shares,
    Special.triangle: _triangle,
}


def with_magnitudes(
    values: torch.Tensor, smallest: float, reach: float, stream: torch.Generator, *, is_positive: bool = False
) -> torch.Tensor:
    """Values of every magnitude from ``smallest`` to ``reach`` and either sign, each power of two as often as any other.

    Shapes: values [..., columns]. In each third of many rows all magnitudes are mixed; any other row has a band of them to itself.
    """
    rows = values.reshape(-1, values.shape[-1]) if values.dim() else values.reshape(1, 1)
    count, order = len(rows), torch.randperm(len(rows), generator=stream)
    bands = count - count // 3 if count >= SEVERAL_BANDS else 0
    start, width = torch.zeros(count), torch.ones(count)
    if bands:
        start[order[:bands]] = torch.arange(bands) / bands
        width[order[:bands]] = 1 / bands
    ranks = torch.stack([torch.randperm(rows.shape[1], generator=stream) for _ in range(count)])
    mixed = order[bands:]
    ranks[mixed] = torch.randperm(ranks[mixed].numel(), generator=stream).reshape(len(mixed), -1)
    parts = torch.full((count, 1), rows.shape[1]).index_fill(0, mixed, max(1, ranks[mixed].numel()))
    shares = (ranks + torch.rand(rows.shape, generator=stream)) / parts
    low, high = math.log2(smallest), math.log2(reach)
    sizes = 2.0 ** (low + (high - low) * (start[:, None] + width[:, None] * shares)).double()
    is_below = (ranks % 2 == int(torch.randint(2, (), generator=stream))) & (not is_positive)
    return torch.where(is_below, -sizes, sizes).reshape(values.shape)


def with_ends(values: torch.Tensor, is_share: bool, stream: torch.Generator) -> torch.Tensor:
    """Values of which some rows lie at the ends of their range: shares are exactly zero or one, logits minus infinity.

    Shapes: values [..., columns]; at least one row, and one logit of each row, stays as it was drawn.
    """
    if values.dim() == 0 or values.numel() < 2:
        return values
    rows = values.clone().reshape(-1, values.shape[-1])
    low, high = (0.0, 1.0) if is_share else (-math.inf, None)
    for row in range(rows.shape[0]):
        share = (0.0, 1.0, float(torch.rand((), generator=stream)))[int(torch.randint(3, (), generator=stream))]
        chosen = torch.rand(rows[row].shape, generator=stream) < share
        if high is None:
            chosen[int(torch.randint(rows.shape[1], (), generator=stream))] = False
        else:
            upper = torch.rand(rows[row].shape, generator=stream) < float(torch.rand((), generator=stream))
            rows[row] = torch.where(chosen & upper, high, rows[row])
            chosen &= ~upper
        rows[row] = torch.where(chosen, low, rows[row])
    return rows.reshape(values.shape)


def sharpen(logits: torch.Tensor, reach: float, stream: torch.Generator, place: int = 0) -> torch.Tensor:
    """Logits of which some rows lie so far apart that nearly all of the probability falls on few elements."""
    if logits.dim() == 1:
        return with_large(logits, min(reach, MOST_LOGIT), stream)
    return _filled(logits, LARGE_ROWS, min(reach, MOST_LOGIT), stream, place)


def with_odd(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """Values of which some rows hold infinities and NaN.

    Shapes: values [..., columns]; of one dimension: one row, which gets each of them once.
    """
    if values.dim() == 1:
        return _scattered(values, (math.inf, -math.inf, math.nan), stream)
    return _filled(values, ODD_ROWS, 1.0, stream, 0)


def with_odd_element(values: torch.Tensor, element: float, stream: torch.Generator) -> torch.Tensor:
    """A vector or number of which one element is this one: the last as often as any."""
    odd = values.clone()
    flat = odd.view(-1)
    place = int(torch.randint(max(1, len(flat)), (), generator=stream))
    flat[-1 if int(torch.randint(2, (), generator=stream)) else place] = element
    return odd


def row_words(content: Content, row: int, place: int, reach: float) -> str:
    """Say what a row of the input at ``place`` among those that take part holds."""
    table = ODD_ROWS if content is Content.odd else LARGE_ROWS
    shift = 0 if content is Content.odd else place
    return table[(row + shift) % len(table)].words.format(reach=f"{reach:.3g}")


def _filled(
    values: torch.Tensor,
    table: tuple[_Row, ...],
    reach: float,
    stream: torch.Generator,
    place: int,
    drawn: bool = False,
) -> torch.Tensor:
    """Rows by the table; with ``drawn`` single elements may reach less far, to any magnitude below ``reach``."""
    rows = values.clone().reshape(-1, values.shape[-1])
    for at, row in enumerate(table):
        first = (at - place) % len(table)
        if first < rows.shape[0] and rows.shape[1]:
            row.fill(rows[first :: len(table)], _nearer(reach, stream) if drawn and row.is_single else reach, stream)
    return rows.reshape(values.shape)


def _nearer(reach: float, stream: torch.Generator) -> float:
    low, high = math.log2(NEAREST), math.log2(reach)
    drawn, full = torch.rand(2, generator=stream).tolist()
    return reach if full < 0.5 or high <= low else float(2.0 ** (low + drawn * (high - low)))


def _scattered(values: torch.Tensor, odd: tuple[float, ...], stream: torch.Generator) -> torch.Tensor:
    scattered = values.clone()
    at = torch.randperm(len(values), generator=stream)[: len(odd)]
    scattered[at] = torch.tensor(odd)[: len(at)]
    return scattered
