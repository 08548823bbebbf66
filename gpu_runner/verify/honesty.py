"""Holds what torch computed for a candidate against what kernels are for. Pure.

Torch may allocate, view and move data, add up the partial results that kernels left, and compute with small inputs such as a
norm's weight. What it may not do is the work: compute of an input that is as large as the problem, or finish what a kernel began
over whole tensors.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import torch

from gpu_runner.contracts.problem import InputSpec, Problem
from gpu_runner.contracts.verify import Composed, Status
from gpu_runner.messages import Work
from gpu_runner.program.log import BY_AUTOGRAD
from gpu_runner.verify.answer import CaseAnswer
from gpu_runner.verify.finding import CaseNotes
from gpu_runner.verify.peer import NO_PEER, Peer
from gpu_runner.verify.proof import SMALL, Proof, Scale

PART = 64  # torch may work on this part of the largest tensor of a step, as where it looks at an index or at one row
LEAST = 64  # and on as many elements in any case
# Results of programs that are added up: so many meet in one, at most, or so many for each processor.
PARTIALS, PROGRAMS = 192, 4
COLUMNS, LARGE = 64, 4096  # from which on what a kernel left says how the work is shared
MOST_DIMENSIONS = 6
MOST_LOOKED_AT = 4096  # values of an output
MOST_SEARCHED = 2**20  # elements of inputs among which these are looked for, where smaller cases tell
USES = 16  # of one input: autograd adds the gradients of so many by itself
FEW = 4  # or they are this part of the largest tensor, of which no more meet in one than
SHARE = 16  # this part of what the largest tensor has for each result
REDUCTIONS = frozenset({"sum", "mean", "amax", "amin", "max", "min"})
SCANS = frozenset({"cumsum"})  # of the sums of blocks, which are this part of the largest tensor:
BLOCKS = 64


def scale_of(problem: Problem, proofs: Sequence[Proof]) -> Scale:
    """The scale of a problem; from the cases themselves where it names no sizes."""
    sizes = [dict(workload.sizes) for workload in problem.workloads] or [dict(proof.case.sizes) for proof in proofs]
    elements: dict[str, int] = {}
    for spec in problem.inputs:
        elements[spec.name] = max((_read_of(spec, problem, size) for size in sizes), default=1)
    largest = max(sizes, key=lambda size: math.prod(size.values()), default={})
    outputs = range(max((len(proof.outputs) for proof in proofs), default=0))
    smallest = sorted(proofs, key=_all_elements)  # of one that is no move the first mostly tells
    answers = max((_answer_at_scale(proofs, place, largest) for place in outputs), default=0)
    return Scale(elements, any(_only_moves(smallest, place) for place in outputs), largest, answers)


def _answer_at_scale(proofs: Sequence[Proof], place: int, scale: Mapping[str, int]) -> int:
    """The elements of an output at a problem's own sizes; zero where they are no product of its dimensions in every case."""
    known = [
        set(_products(math.prod(proof.outputs[place].shape), dict(proof.case.sizes), scale))
        for proof in proofs
        if place < len(proof.outputs)
    ]
    named = set[tuple[str, ...]]().union(*known).intersection(*known)
    return min((math.prod(scale[name] for name in names) for names in named), default=0)


def _all_elements(proof: Proof) -> int:
    return sum(tensor.numel() for tensor in proof.inputs.values())


def _only_moves(proofs: Sequence[Proof], place: int) -> bool:
    """Whether an output is a move in each case in which that can be told; of large cases where no small one tells."""
    told = False
    for proof in proofs:
        if told and _all_elements(proof) > MOST_SEARCHED:
            break
        answer = _is_moved(proof, place)
        if answer is False:
            return False
        told |= answer is True
    return told


def _is_moved(proof: Proof, place: int) -> bool | None:
    """Whether an output's values are inputs', but for one constant such as what pads; None where it has none of them."""
    if place >= len(proof.outputs) or not proof.outputs[place].truth.exact.is_floating_point():
        return False
    floating = [value.double().flatten() for value in proof.inputs.values() if value.is_floating_point()]
    known = torch.cat(floating) if floating else torch.empty(0, dtype=torch.float64)
    values = proof.outputs[place].truth.exact.double().flatten()
    # All over it, and in no column alone: the first row of a triangular matrix is zero but for one element.
    values = values[:: values.numel() // MOST_LOOKED_AT | 1]
    others = values[~torch.isin(values, known)]
    is_move = others.unique().numel() <= 1
    return None if is_move and others.numel() == values.numel() else is_move


def _read_of(spec: InputSpec, problem: Problem, size: Mapping[str, int]) -> int:
    """The elements of an input; of a table without a gradient those of the rows, at most, that indices name."""
    rows, *columns = [_product([dim], size) for dim in spec.dims] or [1]
    named = [_product(one.dims, size) for one in problem.inputs if spec.dims and one.high == spec.dims[0]]
    return (min(rows, sum(named)) if named and not spec.grad else rows) * math.prod(columns)


def _product(dims: Sequence[str], size: Mapping[str, int]) -> int:
    return math.prod(int(dim) if dim.isdigit() else size.get(dim, 1) for dim in dims)


def judge_honesty(notes: CaseNotes, proof: Proof, answer: CaseAnswer, peer: Peer = NO_PEER) -> None:
    """Accuse a candidate by what was done in one case; what the original did there too is named as an allowance."""
    if proof.composed is not None:
        for message, rule, line in _of_composed(proof, answer, proof.composed):
            notes.wrong(Status.cheating, "honest", message, rule=rule, line=line)
        return
    alone = list(_accusations(proof, answer, NO_PEER))
    beside = alone if peer.answer is None else list(_accusations(proof, answer, peer))
    for message, rule, line in beside:
        notes.wrong(Status.cheating, "honest", message, rule=rule, line=line)
    if len(beside) < len(alone):
        notes.allow("honest")
    for work in adjoints(answer.work, _elements(proof)):
        notes.ok("summed_by_torch", f"gradient by `{work.operator}`")


def _of_composed(proof: Proof, answer: CaseAnswer, composed: Composed) -> Iterator[tuple[str, str, int | None]]:
    missing = [kernel for kernel in composed.kernels if not answer.launched.get(kernel)]
    if missing and all(tensor.numel() for tensor in proof.inputs.values()):
        yield f"The kernel `{missing[0]}` of a part was not launched.", "a part was not called", None
    # Autograd's own work for what torch computed forward has no line.
    work = [item for item in answer.work if item.line is not None and item.line not in composed.torch_lines]
    yield from computed_by_torch(work, proof, (), answer.processors)


def _accusations(proof: Proof, answer: CaseAnswer, peer: Peer) -> Iterator[tuple[str, str, int | None]]:
    original = peer.answer
    launches = any(answer.launched.values()) or (original is not None and not any(original.launched.values()))
    if not launches and any(tensor.numel() for tensor in proof.inputs.values()):
        yield "The candidate launched no kernel of its own.", "no kernel ran", None
    theirs = () if original is None else original.work
    yield from computed_by_torch(answer.work, proof, theirs, answer.processors)
    known = () if original is None else original.untouched
    summed = any(adjoints(answer.work, _elements(proof)))
    added = {f"gradient of {name}" for name in proof.case.same}  # by autograd, of an input that is given twice
    for label in answer.untouched:
        if label not in known and label not in added and not (summed and label.startswith("gradient")):
            yield f"No kernel wrote {label}.", "no kernel wrote the answer", None


def _is_representative(proof: Proof) -> bool:
    """Whether sizes are apart as where the kernel is used: with few columns, one number a row is as much as the row."""
    deep = [tensor for tensor in proof.inputs.values() if tensor.dim() > 1]
    largest = max(deep, key=lambda tensor: tensor.numel(), default=None)
    return largest is not None and largest.shape[-1] >= COLUMNS and largest.numel() >= LARGE


def _elements(proof: Proof) -> dict[str, int]:
    elements = {name: tensor.numel() for name, tensor in proof.inputs.items()}
    elements |= {item.label: math.prod(item.shape) for item in proof.outputs}
    return elements | {
        f"upstream {n}": math.prod(laid.shape) for n, laid in enumerate(proof.upstream) if laid is not None
    }


def computed_by_torch(
    work: Sequence[Work], proof: Proof, original: Sequence[Work] = (), processors: int = 0
) -> Iterator[tuple[str, str, int | None]]:
    """What torch computed in a step beyond what it may, with the line that had it do so."""
    elements, scale = _elements(proof), proof.scale
    largest = max(elements.values(), default=0)
    known: dict[tuple[str, str], int] = {}
    for item in original:
        known[item.step, item.operator] = known.get((item.step, item.operator), 0) + item.elements
    summed = Counter(adjoints(work, elements))
    on_line = Counter[tuple[str, str, str, str | None, int | None]]()
    for item in work:
        on_line[_place(item)] += item.elements
    steps: dict[str, list[Work]] = {}
    for item in work:
        partial = _is_partial(item, proof, processors, on_line[_place(item)])
        summed[item] -= 1
        if summed[item] >= 0 or not _is_work(item, scale, elements) or partial:
            continue
        left = known.get((item.step, item.operator), 0)
        if item.elements <= left:
            known[item.step, item.operator] = left - item.elements
            continue
        steps.setdefault(item.step, []).append(item)
    for items in steps.values():
        total = sum(item.elements for item in items)
        if total > max(LEAST, largest // PART):
            worst = max(items, key=lambda item: item.elements)
            yield _sentence(items, total), "torch computes the answer", worst.line


def _is_work(item: Work, scale: Scale, elements: Mapping[str, int]) -> bool:
    if item.operator == BY_AUTOGRAD:
        return item.elements > USES * sum(elements.values())
    if item.is_move:
        # Where the answer is a move, moving is the work; a copy of a whole input as it lies is none.
        is_whole = not item.permuted and item.each >= elements.get(item.source, 0)
        return scale.moves_only and bool(item.source) and not is_whole
    # Of small inputs torch may make something small, and nothing of the size of an answer.
    return not scale.is_small(item.source) or item.each > elements.get(item.source, 0)


def _place(item: Work) -> tuple[str, str, str, str | None, int | None]:
    return item.step, item.operator, item.source, item.path, item.line


def _is_partial(item: Work, proof: Proof, processors: int, together: int) -> bool:
    """Whether this adds up, or scans, what programs of a kernel left: they are few, or give the gradient of a small input.

    ``together`` are the elements of all that its line does by this operator. A buffer whose elements are a product of the
    case's dimensions is taken at the problem's own sizes, where rows and columns are as far apart as in use; any other one
    counts where the case itself is like that.
    """
    if item.source or item.operator not in REDUCTIONS | SCANS:
        return False
    part = FEW if item.operator in REDUCTIONS else BLOCKS
    elements, scale = _elements(proof), proof.scale
    # A backward is given the upstream gradient of the largest output.
    given_back = scale.answers if item.step.endswith("backward") else 0
    whole = max([*scale.elements.values(), given_back])
    given = item.each // item.reduced
    small = (name for name, count in scale.elements.items() if count * SMALL <= whole)
    of_parameter = any(given == elements.get(name) for name in small)
    most = max(PARTIALS, PROGRAMS * processors)
    scaled = list(_at_scale(item.each, dict(proof.case.sizes), scale.sizes))
    if scaled:
        return any(size * part <= whole for size in scaled) or (of_parameter and item.reduced <= most)
    largest = max(elements.values(), default=0)
    few = together * part <= largest
    if item.operator in REDUCTIONS:
        few &= item.reduced <= max(most, largest // max(1, given) // SHARE)
    return few or (of_parameter and item.reduced <= most) or not _is_representative(proof)


def _at_scale(elements: int, sizes: Mapping[str, int], scale: Mapping[str, int]) -> Iterator[int]:
    """What a number of elements is at the problem's own sizes, for each product of dimensions that it may be."""
    for chosen in _products(elements, sizes, scale):
        yield math.prod(scale[name] for name in chosen)


def _products(elements: int, sizes: Mapping[str, int], scale: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """The dimensions of which a number of elements may be the product."""
    names = [name for name in sizes if name in scale][:MOST_DIMENSIONS]
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            if math.prod(sizes[name] for name in chosen) == elements:
                yield chosen


def adjoints(work: Sequence[Work], elements: Mapping[str, int]) -> Iterator[Work]:
    """The sums of an upstream gradient that are a gradient: what autograd itself does for inputs that were broadcast.

    It adds up all of it once for each input at most: more are sums of overlapping parts, which a kernel computes.
    """
    inputs = sum(" " not in name for name in elements)  # as other labels have it
    summed = Counter[tuple[str, str]]()
    for item in work:
        is_backward = item.source.startswith("upstream") and item.step.endswith("backward")
        if is_backward and item.operator == "sum" and item.elements <= (whole := elements.get(item.source, 0)):
            summed[item.step, item.source] += item.elements
            if summed[item.step, item.source] <= inputs * whole:
                yield item


def _sentence(items: Sequence[Work], total: int) -> str:
    by_name: dict[str, int] = {}
    for item in items:
        by_name[item.operator] = by_name.get(item.operator, 0) + item.elements
    names = sorted(by_name, key=lambda name: -by_name[name])
    named = ", ".join(f"`{name}`" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    where = f" of `{items[0].source}`" if items[0].source and len({item.source for item in items}) == 1 else ""
    return f"torch computes {named}{where} over {total} elements in {items[0].step}: that is a kernel's work."
