"""Makes a case's inputs and upstream gradients from its secret seed, and lays them into guarded buffers."""

from __future__ import annotations

import ast
import math
import random
from dataclasses import replace

import torch

from gpu_runner.contracts.problem import InputSpec, Problem
from gpu_runner.contracts.reading import UNPARSABLE, parse, walk
from gpu_runner.messages import PARAMETER_NOISE
from gpu_runner.verify.cases import (
    DISTRIBUTIONS,
    EXPANDED,
    FAR_DATA,
    PADDED_ROW,
    REPEATED,
    Case,
    Content,
    Indices,
    MemoryLayout,
    Special,
    Upstream,
    columns_of,
    evenly,
    holds_extremes,
    is_activation,
    is_ranged,
    is_weight,
)
from gpu_runner.verify.extremes import (
    sharpen,
    with_down,
    with_ends,
    with_large,
    with_magnitudes,
    with_odd,
    with_odd_element,
    with_special,
)
from gpu_runner.verify.laying import Laid, Placement, lay, place_of
from gpu_runner.verify.relations import best_indices, related
from gpu_runner.verify.scalars import is_ignored, is_padding

__all__ = [
    "DTYPES",
    "Laid",
    "filled_of",
    "lay",
    "make_inputs",
    "make_upstream",
    "places_of",
    "shape_of",
]

WILD = 4.0  # doublings of the scale up or down, where scales are drawn widely
FAR_GRADIENTS = (80.0, 90.0)  # doublings of the scale of large upstream gradients: losses are scaled by 2**16 and more
TINY_GRADIENTS = (80.0, 90.0)  # halvings of that of small ones: so far that a limit before that shows in every verdict
LOSS_SCALE, LOSS_SCALE_OF_HALF = 2.0**16, 2.0**10  # with which a gradient scaler begins; of float16 outputs less
FAR_HALF_GRADIENTS = (4.5, 6.0)  # of float16, which soon overflows
TINY_HALF_GRADIENTS = (14.0, 20.0)  # of float16: what a mean over 2**20 elements gives is no normal number of it
EQUAL_WEIGHTS = (
    0.25  # the share of weights, drawn widely, that are one number, as of a scale that a training begins with
)
SMALLEST_SHARE = 40.0  # halvings: of a sigmoid of -28
FAR_WEIGHTS, OFTEN_FAR = (
    (90.0, 120.0),
    0.25,
)  # of either sign, so far that float32 holds no exponential of them, and how often
FAINT_WEIGHT = (20.0, 40.0)  # halvings of a weight of tiny numbers: their squares are numbers of float32
ZERO_WEIGHTS = 0.125  # the share of weights that are zero where they are drawn widely
SHAPED = (
    Upstream.sparse, Upstream.one_hot, Upstream.zero_rows, Upstream.few_rows, Upstream.signs, Upstream.centered,
)  # fmt: skip
FEW_ROWS = 32  # of an upstream gradient that is zero elsewhere
IGNORING = (Indices.ignored, Indices.padded, Indices.nothing)
FEW_GRADIENTS = 0.1  # the share of a sparse upstream gradient that is not zero
DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "float64", "float32", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8", "bool",
    )
}  # fmt: skip


def shape_of(spec: InputSpec, sizes: dict[str, int]) -> tuple[int, ...]:
    """An input's shape."""
    return tuple(int(dim) if dim.isdigit() else sizes[dim] for dim in spec.dims)


def make_inputs(problem: Problem, case: Case) -> dict[str, torch.Tensor]:
    """Every input of the case by name, dense."""
    stream = torch.Generator().manual_seed(case.seed)
    # Inputs that lie side by side hold their large rows one after the other, so that each meets an ordinary one.
    place = {name: at for at, name in enumerate(filled_of(problem, case))}
    ignored = ignored_index(problem, case) if case.indices in IGNORING or case.content is Content.odd else None
    places, made = places_of(problem, case), {}
    able = [spec.name for spec in problem.inputs if is_activation(spec)]
    equal = able[case.seed % len(able)] if able else None  # the one with rows of equal elements
    for spec in problem.inputs:
        values = _make(spec, case, stream, place.get(spec.name), ignored, beside=spec.name != equal)
        made[spec.name] = places[spec.name].repeated(values)
    for spec in problem.inputs:
        best = best_indices(spec, problem, case, made)
        if best is not None:
            made[spec.name] = places[spec.name].repeated(best)
    if case.related:
        made |= related(case, made, stream)
    return made | dict.fromkeys(case.same, made[case.same[0]]) if case.same else made


def filled_of(problem: Problem, case: Case) -> tuple[str, ...]:
    """The inputs that hold a case's large or odd values."""
    if case.content is Content.ordinary:
        return ()
    if case.odd_element or case.special is Special.magnitudes:
        return case.among
    able = [spec.name for spec in problem.inputs if holds_extremes(spec)]
    return tuple(name for name in able if not case.among or name in case.among)


def places_of(problem: Problem, case: Case) -> dict[str, Placement]:
    """Where each input lies: at least one as the case says, the others so, dense or with a gap after each row."""
    if case.layout == MemoryLayout.dense:
        return {spec.name: Placement() for spec in problem.inputs}
    stream = random.Random(f"{case.seed}/places")  # noqa: S311 - the case's seed is secret
    able = [spec.name for spec in problem.inputs if _can_lie(problem, spec, case)]
    first = stream.choice(able) if able else ""
    alone = case.layout in (MemoryLayout.broadcast, MemoryLayout.level) or (
        case.layout != MemoryLayout.windows and stream.random() < 0.5
    )
    if case.layout == MemoryLayout.shifted and case.sizes == evenly(problem, case):
        alone = False  # whichever pointer is said to be aligned
    alone &= case.name != PADDED_ROW
    places = {}
    for spec in problem.inputs:
        free = not is_weight(spec) and (spec.name in able or spec.name not in problem.mutates)  # a weight is one piece
        others = (MemoryLayout.dense, MemoryLayout.apart, MemoryLayout.shifted) if free else (MemoryLayout.dense,)
        if spec.name in able and case.layout is not MemoryLayout.shifted:
            others = (*others, MemoryLayout.permuted, MemoryLayout.sliced)
        is_table = case.layout == MemoryLayout.sliced and (
            _is_labels(spec) or _is_of_rows(problem, spec)
        )  # whenever anything is: few cases are
        as_case = spec.name == first or (spec.name in able and (is_table or not alone))
        kind = case.layout if as_case else stream.choice(others)
        shape = shape_of(spec, case.size_of)
        place = place_of(shape, MemoryLayout(kind), stream)
        places[spec.name] = place.aligned(shape) if case.aligned else place
    return places


def _can_lie(problem: Problem, spec: InputSpec, case: Case) -> bool:
    """Whether an input may lie as the case says. Weights may start anywhere, but are one piece."""
    if case.layout == MemoryLayout.shifted:
        return bool(spec.dims)
    if case.layout in REPEATED and (spec.name in problem.mutates or case.content is not Content.ordinary):
        return False
    if is_weight(spec):
        return False
    # What holds one number for each row may be a column of a table, and so may all where there are vectors alone; others are one
    # piece, as a bias is.
    is_of_vectors = all(len(other.dims) < 2 for other in problem.inputs)
    is_column = (
        case.layout == MemoryLayout.sliced
        and bool(spec.dims)
        and (is_of_vectors or _is_labels(spec) or _is_of_rows(problem, spec))
    )
    return len(spec.dims) > 1 or is_column


def _is_labels(spec: InputSpec) -> bool:
    return bool(spec.dims) and (spec.high is not None or spec.dtype == "bool")


def _is_of_rows(problem: Problem, spec: InputSpec) -> bool:
    """Whether an activation is a vector with one number for each row of the problem, such as an expert's share of each token.

    Rows are those of the first input that has any: a bias of N has one number for each row of a weight of N rows.
    """
    if not is_activation(spec) or len(spec.dims) != 1 or spec.dims[0] in columns_of(problem):
        return False
    rows = next((other.dims[:-1] for other in problem.inputs if len(other.dims) > 1 and not is_weight(other)), ())
    return spec.dims[0] in rows


def make_upstream(shapes: list[tuple[int, ...]], dtypes: list[torch.dtype], case: Case) -> list[torch.Tensor]:
    """A random upstream gradient for every output."""
    stream = torch.Generator().manual_seed((case.seed * 6364136223846793005 + 1442695040888963407) % 2**63)
    grads = []
    for shape, dtype in zip(shapes, dtypes, strict=True):
        if case.upstream == MemoryLayout.full:
            values = torch.ones(shape)
        elif case.upstream in EXPANDED or (not shape and torch.rand((), generator=stream) < 0.5):
            values = _one_number(shape, case, stream, dtype).expand(shape)
        else:
            values = _shaped(_random(shape, stream, _upstream_scale(case, stream, dtype)), case.gradients, stream)
        grads.append((_with_odd_rows(values, stream) if case.odd_upstream else values).to(dtype))
    return grads


def _one_number(shape: tuple[int, ...], case: Case, stream: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """What a loss gives each element: exactly one as a sum, a share as a mean, or any number."""
    if case.upstream == MemoryLayout.ones:
        return torch.tensor(1.0)
    if case.upstream == MemoryLayout.scaled:
        return torch.tensor(LOSS_SCALE if dtype != torch.float16 else LOSS_SCALE_OF_HALF)
    kind = int(torch.randint(3, (), generator=stream))
    if kind == 2 or case.gradients in (Upstream.large, Upstream.small):
        return _random((), stream, _upstream_scale(case, stream, dtype))
    return torch.tensor(1.0 / max(1, math.prod(shape)) if kind or case.upstream == MemoryLayout.expanded else 1.0)


def _with_odd_rows(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    """An upstream gradient of which half or all of every other row is not finite; of one dimension it is one row."""
    rows = values.clone().reshape(-1, values.shape[-1] if values.dim() else 1)
    kinds = [(odd, share) for odd in (math.nan, math.inf, -math.inf) for share in (0.5, 1.0)]
    order = torch.randperm(len(kinds), generator=stream).tolist()
    for place, row in enumerate(range(0, rows.shape[0], 2) if rows.shape[1] else ()):
        odd, share = kinds[order[place % len(kinds)]]
        chosen = torch.rand(rows.shape[1], generator=stream) < share
        chosen[int(torch.randint(rows.shape[1], (), generator=stream))] = True
        rows[row, chosen] = odd
    return rows.reshape(values.shape)


def _upstream_scale(case: Case, stream: torch.Generator, dtype: torch.dtype) -> float:
    if case.gradients not in (Upstream.large, Upstream.small):
        return _scale(stream, dtype)
    is_half = dtype == torch.float16
    far = FAR_HALF_GRADIENTS if is_half else FAR_GRADIENTS
    tiny = TINY_HALF_GRADIENTS if is_half else TINY_GRADIENTS
    low, high = far if case.gradients is Upstream.large else tiny
    doublings = low + (high - low) * torch.rand((), generator=stream).item()
    return float(2.0 ** (doublings if case.gradients is Upstream.large else -doublings))


def _shaped(values: torch.Tensor, kind: Upstream, stream: torch.Generator) -> torch.Tensor:
    """A gradient with few elements or rows that are not zero, with elements of one magnitude, or with rows whose sum is zero."""
    if values.numel() < 2 or kind not in SHAPED:
        return values
    rows = values.reshape(-1, values.shape[-1])
    if kind is Upstream.signs:
        # A power of two: sums of as many of either sign are zero in any order, and not what another order rounds them to.
        return values.sign() * 2.0 ** values.abs().mean().clamp(min=1e-30).log2().round()
    if kind is Upstream.centered:
        return (rows - rows.mean(-1, keepdim=True)).reshape(values.shape) if rows.shape[1] > 1 else values
    if kind is Upstream.zero_rows and rows.shape[0] > 1:
        kept = torch.rand((rows.shape[0], 1), generator=stream) < 0.5
        kept[torch.randint(rows.shape[0], (), generator=stream)] = True
    elif kind is Upstream.few_rows:
        kept = torch.zeros((rows.shape[0], 1), dtype=torch.bool)
        kept[torch.randperm(rows.shape[0], generator=stream)[:FEW_ROWS]] = True
    elif kind is Upstream.one_hot:
        at = torch.randint(rows.shape[1], (rows.shape[0], 1), generator=stream)
        kept = torch.zeros(rows.shape, dtype=torch.bool).scatter_(1, at, value=True)
    else:
        kept = torch.rand(rows.shape, generator=stream) < FEW_GRADIENTS
        kept.view(-1)[torch.randint(rows.numel(), (), generator=stream)] = True
    return torch.where(kept, rows, 0.0).reshape(values.shape)


def ignored_index(problem: Problem, case: Case) -> int | None:
    """The index that counts for nothing: of a scalar that is named so, or written out where the reference calls torch."""
    given = {spec.name: spec.default for spec in problem.scalars} | dict(case.scalars)
    for name, value in given.items():
        if (is_ignored(name) or is_padding(name)) and type(value) is int:
            return _from_the_end(value, problem, case) if is_padding(name) else value
    try:
        tree = parse(problem.source)
    except UNPARSABLE:
        return None
    for node in walk(tree):
        if isinstance(node, ast.keyword) and node.arg is not None and (is_ignored(node.arg) or is_padding(node.arg)):
            handed = given.get(node.value.id) if isinstance(node.value, ast.Name) else _written(node.value)
            if type(handed) is int:
                return _from_the_end(handed, problem, case) if is_padding(node.arg) else handed
    return None


def _written(node: ast.expr) -> object:
    """What an expression of literals stands for; None for any other."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        return None


def _from_the_end(index: int, problem: Problem, case: Case) -> int:
    """A row of a table, below zero counted from its end."""
    highs = (case.size_of[spec.high] if isinstance(spec.high, str) else spec.high for spec in problem.inputs)
    return index + max((int(high) for high in highs if high is not None), default=0) if index < 0 else index


def _make(
    spec: InputSpec,
    case: Case,
    stream: torch.Generator,
    place: int | None,
    ignored: int | None,
    *,
    beside: bool = False,
) -> torch.Tensor:
    shape = shape_of(spec, case.size_of)
    other = case.weights if is_weight(spec) else case.beside if spec.name in case.mixed else ""
    dtype = DTYPES[spec.dtype or other or case.dtype]
    if dtype == torch.bool:
        return _mask(shape, case.indices, stream)
    if not dtype.is_floating_point:
        high = case.size_of[spec.high] if isinstance(spec.high, str) else spec.high
        return _whole(spec.low or 0, high or 2, shape, case, stream, ignored).to(dtype)
    values = _floating(spec, shape, case, stream, dtype)
    if place is not None:
        values = _filled(values, spec, case, stream, place)
    elif case.special and is_activation(spec) and (not case.among or spec.name in case.among):
        is_half = dtype == torch.float16
        more = {"beside": beside, "is_half": is_half, "faint": case.faint, "limits": case.limits}
        values = with_special(values, case.special, stream, **more)
    elif case.special is Special.ends and is_ranged(spec):
        values = with_ends(values, spec.init == "uniform", stream)
    return _distribution(values, spec).to(dtype)


def _whole(
    low: int, high: int, shape: tuple[int, ...], case: Case, stream: torch.Generator, ignored: int | None
) -> torch.Tensor:
    high = max(high, low + 1)  # where a dimension is too small for any the reference says whether it has an answer
    values = torch.randint(low, high, shape, generator=stream)
    count, flat = values.numel(), values.view(-1)
    if case.indices is Indices.duplicates:
        pair = torch.randint(low, high, (2,), generator=stream)
        values = pair[torch.randint(0, 2, shape, generator=stream)]
    elif case.indices is Indices.ascending and shape:
        values = low + torch.arange(shape[-1]).expand(shape).contiguous() % (high - low)
    elif case.indices is Indices.ordered and shape:
        values = flat.sort().values.reshape(shape)
    elif case.indices is Indices.ends:
        ends = torch.tensor([low, high - 1])[torch.arange(min(count, 2))]
        flat[torch.randperm(count, generator=stream)[: len(ends)]] = ends
    elif case.indices is Indices.one:
        values = torch.randint(low, high, (), generator=stream).expand(shape).contiguous()
    elif ignored is not None and case.indices is Indices.nothing:
        values = torch.full(shape, ignored)
    elif case.indices in IGNORING and ignored is not None and count > 1:
        picked = _ignored(count, case.indices, stream)
        flat[picked[:-1]] = ignored
        if int(flat[picked[-1]]) == ignored:  # one row at least counts
            flat[picked[-1]] = low if ignored != low else high - 1
    if case.content is Content.odd and ignored is not None:  # torch gives zero times NaN there, and fused kernels zero
        values = torch.where(values == ignored, low if ignored != low else high - 1, values)
    return values


def _ignored(count: int, kind: Indices, stream: torch.Generator) -> torch.Tensor:
    """The places of classes that are ignored, up to half of them or at one end most, and of one that is not."""
    if kind is Indices.padded:
        kept = int(torch.randint(1, max(2, count // 4 + 1), (), generator=stream))
        ordered = torch.arange(count)
        ordered = ordered if torch.rand((), generator=stream) < 0.5 else ordered.flip(0)
        return ordered[: count - kept + 1]
    picked = torch.randperm(count, generator=stream)
    some = int(torch.randint(1, max(2, count // 2 + 1), (), generator=stream))
    return torch.cat((picked[:some], picked[-1:]))


def _mask(shape: tuple[int, ...], kind: Indices, stream: torch.Generator) -> torch.Tensor:
    """Truth values: any, dense or sparse, or in each row one, a beginning, an end, all or none."""
    drawn = torch.rand(shape, generator=stream)
    if kind is Indices.duplicates:
        return drawn < torch.rand((), generator=stream)
    if kind is Indices.spread or not shape or 0 in shape:
        return drawn < 0.5
    rows, places = drawn.reshape(-1, shape[-1]), torch.arange(shape[-1])
    ends = torch.randint(shape[-1] + 1, (rows.shape[0], 1), generator=stream)
    if kind is Indices.ascending:
        mask = (places <= torch.arange(rows.shape[0])[:, None] % shape[-1]).clone()
    elif kind is Indices.one:
        mask = places == torch.randint(shape[-1], ends.shape, generator=stream)
    elif kind is Indices.nothing:
        share = torch.tensor([0.0, 0.5, 1.0])[torch.randint(3, ends.shape, generator=stream)]
        mask = rows < share
    else:
        mask = places >= ends if kind is Indices.ignored else places < ends
    return mask.reshape(shape)


def _filled(values: torch.Tensor, spec: InputSpec, case: Case, stream: torch.Generator, place: int) -> torch.Tensor:
    """Put a case's large or odd values into the rows of an input that takes part in it."""
    if case.special is Special.magnitudes:
        dtype = DTYPES[spec.dtype or case.dtype]
        reach = min(case.reach, 1.0) if spec.init == "uniform" else case.reach
        is_positive = spec.init == "uniform" or (spec.init == "ones" and not spec.grad)
        return with_magnitudes(values, torch.finfo(dtype).tiny, reach, stream, is_positive=is_positive)
    if case.content is Content.large and spec.init in DISTRIBUTIONS:
        return sharpen(values, case.reach, stream, place)
    if case.special is Special.down:
        return with_down(values, -math.inf, stream)
    if case.content is Content.large:
        return with_large(values, case.reach, stream, place)
    return with_odd_element(values, case.odd_element, stream) if case.odd_element else with_odd(values, stream)


def _floating(
    spec: InputSpec, shape: tuple[int, ...], case: Case, stream: torch.Generator, dtype: torch.dtype
) -> torch.Tensor:
    if spec.name == case.far:
        usual = _floating(spec, shape, replace(case, far=""), stream, dtype)
        sizes = FAR_WEIGHTS[0] + (FAR_WEIGHTS[1] - FAR_WEIGHTS[0]) * torch.rand(shape, generator=stream)
        is_below = (torch.rand(shape, generator=stream) < 0.5) & (not case.is_above)
        far = torch.where(is_below, -sizes, sizes)
        return torch.where(torch.rand(shape, generator=stream) < (OFTEN_FAR if shape else 1.0), far, usual)
    if spec.name == case.faint_weight:
        doublings = FAINT_WEIGHT[0] + (FAINT_WEIGHT[1] - FAINT_WEIGHT[0]) * float(torch.rand((), generator=stream))
        return 2.0**-doublings * _floating(spec, shape, replace(case, faint_weight=""), stream, dtype)
    if spec.init in ("ones", "zeros"):
        exact = torch.full(shape, 1.0 if spec.init == "ones" else 0.0)
        # A weight of exact ones would let a kernel pass that forgets the weight.
        if case.plain_init:
            return exact
        if spec.name == case.zero:
            return torch.zeros(shape)
        if not spec.grad:  # a state or statistic, such as a variance: what begins at one stays above zero
            noise = PARAMETER_NOISE * torch.randn(shape, generator=stream)
            return torch.exp(noise) if spec.init == "ones" else noise
        if case.special in FAR_DATA or (case.wild and torch.rand((), generator=stream) < EQUAL_WEIGHTS):
            return torch.full(shape, _random((), stream, _scale(stream, dtype, wild=True)).item())
        if case.wild:
            return _with_zeros(_random(shape, stream, 1.0) * _wild_scales(shape, stream, dtype), stream)
        return exact + PARAMETER_NOISE * torch.randn(shape, generator=stream)
    if spec.init == "uniform":
        shares = torch.rand(shape, generator=stream)
        return shares * _small_shares(shape, stream) if case.wild and not case.measured else shares
    return _random(shape, stream, _scale(stream, dtype, wild=case.wild and not case.measured))


def _small_shares(shape: tuple[int, ...], stream: torch.Generator) -> torch.Tensor:
    """Factors of shares, down to what a sigmoid leaves: of half of the rows one for all or for each element."""
    rows = (*shape[:-1], 1) if shape else ()
    doublings = SMALLEST_SHARE * torch.rand(rows, generator=stream) * (torch.rand(rows, generator=stream) < 0.5)
    is_each = torch.rand(rows, generator=stream) < 0.5
    return 2.0 ** -(doublings * torch.where(is_each, torch.rand(shape, generator=stream), 1.0))


def _wild_scales(shape: tuple[int, ...], stream: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """One scale for all weights, or one for each."""
    if torch.rand((), generator=stream) < 0.5:
        return torch.tensor(_scale(stream, dtype, wild=True))
    most = WILD / (2.0 if dtype == torch.float16 else 1.0)
    return 2.0 ** ((torch.rand(shape, generator=stream) * 2 - 1) * most)


def _with_zeros(values: torch.Tensor, stream: torch.Generator) -> torch.Tensor:
    return torch.where(torch.rand(values.shape, generator=stream) < ZERO_WEIGHTS, 0.0, values)


def _distribution(values: torch.Tensor, spec: InputSpec) -> torch.Tensor:
    if spec.init == "log_softmax":
        return torch.log_softmax(values, -1)
    if spec.init == "softmax":
        return torch.softmax(values, -1)
    return values


def _random(shape: tuple[int, ...], stream: torch.Generator, scale: float) -> torch.Tensor:
    return torch.randn(shape, generator=stream) * scale


def _scale(stream: torch.Generator, dtype: torch.dtype, *, wild: bool = False) -> float:
    """A scale between a quarter and four, or a sixteenth and sixteen; in float16 half as many doublings."""
    most = (WILD if wild else 2.0) / (2.0 if dtype == torch.float16 else 1.0)
    return float(2.0 ** ((torch.rand((), generator=stream).item() * 2 - 1) * most))
