"""A candidate's answer to one case, as typed values; what is not of this form was forged."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from gpu_runner.codec import Shape
from gpu_runner.contracts.problem import RAISES
from gpu_runner.errors import AnswerRefused, MalformedReply
from gpu_runner.messages import CaseReply, CaseTrail, KernelOutcomes, Outcomes, ValueForm, Work
from gpu_runner.program.coverage import BOTH
from gpu_runner.reply import MALFORMED, ChildReply
from gpu_runner.verify.proof import Proof

RUNS = ("first", "second", "interleaved", "interleaved other", "second backward")
MOST_OUTPUTS = 65  # one more than a candidate may give, so that too many are seen
MOST_NAMES = 1024  # of kernels and the like
MOST_ROWS = 2**14  # of values in all runs, and of what torch did, which grow with a model's parameters and operators
MAX_NAME_CHARS = 400
# A value of another shape or dtype than the expected one is still read, to name what is wrong, up to this size.
SLACK = 4
SLACK_BYTES = 2**24


@dataclass(frozen=True)
class ReturnedValue:
    """One output or gradient. ``tensor`` is None where something else than a tensor came."""

    kind: str  # the class's name
    tensor: torch.Tensor | None = None
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    dtype: str = ""
    device: str = ""
    differentiable: bool = False


@dataclass(frozen=True, order=True)
class SeenDecision:
    """Something in a candidate's text that may be true or false."""

    path: str
    line: int
    column: int
    text: str
    in_kernel: bool = False


@dataclass(frozen=True)
class SeenOutcomes:
    """How decisions ended in one process, and what that is joined by with what kernels did in others."""

    outcomes: Mapping[SeenDecision, int] = field(default_factory=dict)  # true, false or both
    uncounted: frozenset[SeenDecision] = frozenset()  # of whose outcomes none counted
    # By what is said of it, an operation that never changed; by operation, what it gave.
    unchanged: Mapping[SeenDecision, SeenDecision] = field(default_factory=dict)
    values: Mapping[SeenDecision, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseAnswer:
    """All that came back from one case, from a process that ran no Python of the candidate."""

    runs: dict[str, dict[str, ReturnedValue]]  # first, second, interleaved, ... -> label -> value
    launched: dict[str, int]  # kernel -> times
    launches: dict[str, int]  # run -> kernels
    work: tuple[Work, ...]  # what torch computed
    unwritten: dict[str, int]  # run/label -> elements that hold what their memory held before
    broken: int
    untouched: tuple[str, ...]
    raw: dict[str, torch.Tensor]
    raw_upstream: tuple[torch.Tensor, ...]
    failed: dict[str, str]  # run that raised, where it may -> what it raised
    overwritten: tuple[str, ...]  # inputs and "upstream N" that were put back because they had changed
    saved_changed: int = 0  # tensors that autograd saved in a forward, and that the backward changed
    shared: tuple[
        tuple[str, str], ...
    ] = ()  # pairs of outputs, with "input NAME" too, or of gradients in the same memory
    changed: tuple[str, ...] = ()  # results of the first run that were others after the later ones
    imported: str = ""  # why CPython carried out the host code; empty where it was evaluated
    processors: int = 0  # of the GPU, or of the one that it was told of; zero in the interpreter
    asked: bool = False  # it asked about the device in a case that tells of another one
    trail: CaseTrail = field(default_factory=CaseTrail)
    decided: SeenOutcomes = SeenOutcomes()  # so far
    touched: frozenset[str] = (
        frozenset()
    )  # inputs and "upstream N" that a launch changed, whatever they hold in the end
    ordering: Mapping[str, int | None] = field(
        default_factory=dict
    )  # options that change the order of launches, by line

    @property
    def decisions(self) -> Mapping[SeenDecision, int]:
        """How each decision has ended so far in its process: true, false or both."""
        return self.decided.outcomes


def joined(processes: Collection[SeenOutcomes]) -> dict[SeenDecision, int]:
    """How decisions ended in several processes, each of which ran some of the cases."""
    counted = {one for process in processes for one in process.outcomes.keys() - process.uncounted}
    values: dict[SeenDecision, set[str]] = {}
    for process in processes:
        for operation, value in process.values.items():
            values.setdefault(operation, set()).add(value)
    outcomes: dict[SeenDecision, int] = {}
    for process in processes:
        for one, outcome in process.outcomes.items():
            is_changed = one in process.unchanged and len(values.get(process.unchanged[one], ())) > 1
            if not is_changed and (one not in process.uncounted or one not in counted):
                outcomes[one] = outcomes.get(one, 0) | outcome
    return outcomes


def expecting(proof: Proof) -> Callable[[CaseReply, tuple[Shape, ...]], None]:
    """What an answer to this case may announce: labels that were asked for, each once, of about the expected size.

    The check raises AnswerRefused, or MalformedReply where the runner's own code never gives such an answer.
    """
    expected = {f"output {place}": None for place in range(MOST_OUTPUTS)} | proof.expected()
    expected |= {f"gradient of {name}": proof.gradients.get(name) for name in proof.wanted}
    expected |= {RAISES: None} | proof.seconds
    runs = {*RUNS, *(use.name for use in proof.uses)}
    sent = [laid.raw for laid in (*proof.laid.values(), *(item for item in proof.upstream if item is not None))]
    largest = max((math.prod(item.shape) for item in proof.expected().values() if item is not None), default=1)

    def check(reply: CaseReply, shapes: tuple[Shape, ...]) -> None:
        _check_names(reply)
        values = [entry for entry in reply.values if entry.tensor is not None]
        with _of_the_form():
            if [entry.tensor for entry in values] != list(range(len(values))) or reply.raw != tuple(proof.laid):
                raise ValueError("tensors are missing, or there are more than values")
            _check_labels([entry.label for entry in reply.values], expected, runs)
            _check_raw(shapes[len(values) :], sent)
        for entry, shape in zip(values, shapes, strict=False):
            label = entry.label.partition("/")[2]
            item = expected[label]
            elements = largest if item is None else math.prod(item.shape)
            if shape.nbytes > SLACK * 8 * elements + SLACK_BYTES:
                wanted = "" if item is None else f", where {tuple(item.shape)} is expected"
                given = f"{label} has the shape {tuple(shape.shape)} in {shape.dtype}{wanted}"
                differs = item is not None and tuple(item.shape) != tuple(shape.shape)
                raise AnswerRefused(f"{given}: it is too large to be read", wrong_shape=differs)

    return check


def _check_names(reply: CaseReply) -> None:
    tables: list[Collection[str]] = [reply.launched, reply.launches, reply.unwritten, reply.failed]
    lists = [reply.untouched, reply.touched, reply.overwritten]
    if any(len(names) > MOST_NAMES for names in (*tables, *lists, reply.raw, reply.ordering)) or any(
        len(rows) > MOST_ROWS for rows in (reply.values, reply.work)
    ):
        raise AnswerRefused("the answer names more kernels, operators or values than can be read")
    names = [name for each in (*tables, *lists) for name in each]
    if any(len(name) > MAX_NAME_CHARS for name in names):
        raise AnswerRefused("the answer has a name that is too long to be read")


def _check_labels(labels: list[str], expected: Collection[str], runs: Collection[str]) -> None:
    if len(set(labels)) != len(labels):
        raise ValueError("a label comes twice")
    for whole in labels:
        run, _, label = whole.partition("/")
        if run not in runs or label not in expected:
            raise ValueError("a label was not asked for")


def _check_raw(shapes: tuple[Shape, ...], sent: list[torch.Tensor]) -> None:
    """Compare the memory of inputs and upstream gradients with what was sent; it comes back in its own form."""
    if len(shapes) != len(sent):
        raise ValueError("inputs are missing")
    for shape, raw in zip(shapes, sent, strict=True):
        if tuple(shape.shape) != tuple(raw.shape) or shape.dtype != str(raw.dtype).removeprefix("torch."):
            raise ValueError("an input comes back in another form")


def read_answer(reply: ChildReply[CaseReply]) -> CaseAnswer:
    """Read a reply of the role ``candidate``.

    Raises:
        MalformedReply: it is not of the form that the role gives.
    """
    with _of_the_form():
        return _read(reply.message, [buffer.to_torch() for buffer in reply.tensors])


@contextmanager
def _of_the_form() -> Iterator[None]:
    try:
        yield
    except (IndexError, ValueError) as error:
        raise MalformedReply(MALFORMED) from error


def _read(reply: CaseReply, tensors: list[torch.Tensor]) -> CaseAnswer:
    runs: dict[str, dict[str, ReturnedValue]] = {}
    used = 0
    for entry in reply.values:
        run, _, label = entry.label.partition("/")
        runs.setdefault(run, {})[label] = _value(entry, tensors)
        used += entry.tensor is not None
    inputs, upstream = tensors[used : used + len(reply.raw)], tensors[used + len(reply.raw) :]
    if len(upstream) != reply.raw_upstream or len(inputs) != len(reply.raw):
        raise ValueError("tensors are missing")
    return CaseAnswer(
        runs,
        reply.launched,
        reply.launches,
        reply.work,
        reply.unwritten,
        reply.broken,
        reply.untouched,
        dict(zip(reply.raw, inputs, strict=True)),
        tuple(upstream),
        reply.failed,
        reply.overwritten,
        reply.saved_changed,
        reply.shared,
        reply.changed,
        reply.imported,
        reply.processors,
        reply.asked,
        reply.trail,
        _seen(reply.decisions, reply.kernels),
        frozenset(reply.touched),
        dict(reply.ordering),
    )


def _seen(decisions: Outcomes, kernels: KernelOutcomes) -> SeenOutcomes:
    return SeenOutcomes(
        outcomes_of(decisions),
        frozenset(_decision_at(*row) for row in kernels.uncounted),
        {_decision_at(*row[:4], row[-1]): _decision_at(*row[:-1]) for row in kernels.unchanged},
        {_decision_at(*row[:-1]): row[-1] for row in kernels.values},
    )


def _decision_at(path: str, line: int, column: int, in_kernel: bool, *text: str) -> SeenDecision:
    return SeenDecision(path, line, column, " ".join(text)[:MAX_NAME_CHARS], in_kernel)


def outcomes_of(rows: Outcomes) -> dict[SeenDecision, int]:
    """How decisions ended, by what they are."""
    return {_decision_at(*row[:5]): row[5] & BOTH for row in rows}


def _value(entry: ValueForm, tensors: list[torch.Tensor]) -> ReturnedValue:
    if entry.tensor is None:
        return ReturnedValue(entry.kind)
    tensor = tensors[entry.tensor]
    if entry.shape != tuple(tensor.shape) or entry.dtype != str(tensor.dtype).removeprefix("torch."):
        raise ValueError("a tensor is not what was said of it")
    return ReturnedValue(entry.kind, tensor, entry.shape, entry.stride, entry.dtype, entry.device, entry.differentiable)
