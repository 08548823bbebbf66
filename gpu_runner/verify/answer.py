"""A candidate's answer to one case, as typed values; what is not of this form was forged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runner.channel import Check
from gpu_runner.codec import FrameKind, Shape
from gpu_runner.contracts.problem import RAISES
from gpu_runner.errors import AnswerRefused, ProtocolError
from gpu_runner.program.coverage import BOTH, MOST_DECISIONS, MOST_SIGNED, MOST_TOLD
from gpu_runner.program.trail import MOST_EVENTS
from gpu_runner.session import ChildReply
from gpu_runner.verify.combinations import Signature
from gpu_runner.verify.proof import Proof

BY_AUTOGRAD = "autograd's add"  # how a sum is named that autograd makes by itself where an input is used several times
RUNS = ("first", "second", "interleaved", "interleaved other", "second backward")
MOST_OUTPUTS = 65  # one more than a candidate may give, so that too many are seen
MOST_NAMES = 1024  # of kernels and the like
MOST_ROWS = 2**14  # of values in all runs, and of what torch did, which grow with a model's parameters and operators
MAX_NAME_CHARS = 400
# A value of another shape or dtype than the expected one is still read, to name what is wrong, up to this size.
SLACK = 4
SLACK_BYTES = 2**24


@dataclass(frozen=True)
class Work:
    """What an operator of torch did in one step, as often as it was called on one line for operands of one size.

    ``source`` is the input that it worked on, empty for what a kernel wrote.
    """

    step: str
    operator: str
    source: str
    line: int | None
    path: str | None
    elements: int
    reduced: int = 1  # elements that meet in one
    is_move: bool = False  # it only moved them
    permuted: bool = False  # after dimensions had been exchanged
    each: int = 0  # elements of one of these operations, which are alike


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


@dataclass(frozen=True)
class TrailEvent:
    """One operator or launch of a run; the digest is of its operands."""

    what: str
    path: str | None
    line: int | None
    digest: str


@dataclass(frozen=True)
class CaseTrail:
    """What the host code did in a case, in order; ``whole`` is of all of it, of which the first ``events`` are named."""

    events: tuple[TrailEvent, ...] = ()
    whole: str = ""


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
    shared: tuple[tuple[str, str], ...] = ()  # pairs of outputs or gradients in the same memory
    changed: tuple[str, ...] = ()  # results of the first run that were others after the later ones
    imported: bool = False  # CPython carried out the host code
    processors: int = 0  # of the GPU, or of the one that it was told of; zero in the interpreter
    asked: bool = False  # it asked about the device in a case that tells of another one
    trail: CaseTrail = CaseTrail()
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
    found: dict[SeenDecision, int] = {}
    for process in processes:
        for one, outcome in process.outcomes.items():
            is_changed = one in process.unchanged and len(values.get(process.unchanged[one], ())) > 1
            if not is_changed and (one not in process.uncounted or one not in counted):
                found[one] = found.get(one, 0) | outcome
    return found


def expecting(proof: Proof) -> Check:
    """What an answer to this case may announce: labels that were asked for, each once, of about the expected size.

    The check raises AnswerRefused, or ProtocolError where the runner's own code never gives such an answer.
    """
    expected = {f"output {place}": None for place in range(MOST_OUTPUTS)} | proof.expected()
    expected |= {f"gradient of {name}": proof.gradients.get(name) for name in proof.wanted}
    expected |= {RAISES: None} | proof.seconds
    runs = {*RUNS, *(use.name for use in proof.uses)}
    sent = [laid.raw for laid in (*proof.laid.values(), *(item for item in proof.upstream if item is not None))]
    largest = max((item.truth.exact.numel() for item in proof.expected().values() if item is not None), default=1)

    def check(kind: FrameKind, meta: dict[str, Any], shapes: tuple[Shape, ...]) -> None:
        if kind is not FrameKind.answer:
            if shapes:
                raise ProtocolError("an error came with tensors")
            return
        try:
            body = meta["meta"]
            _check_names(body)
            values = [entry for entry in body["values"] if "tensor" in entry]
            places = [entry["tensor"] for entry in values]
            if places != list(range(len(values))) or list(body["raw"]) != list(proof.laid):
                raise ValueError("tensors are missing, or there are more than values")
            _check_labels([entry["label"] for entry in body["values"]], expected, runs)
            _check_raw(shapes[len(values) :], sent)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError("the child's answer is not of the form that the runner's own code gives") from error
        for entry, shape in zip(values, shapes, strict=False):
            label = entry["label"].partition("/")[2]
            item = expected[label]
            elements = largest if item is None else item.truth.exact.numel()
            if shape.nbytes > SLACK * 8 * elements + SLACK_BYTES:
                wanted = "" if item is None else f", where {tuple(item.shape)} is expected"
                given = f"{label} has the shape {tuple(shape.shape)} in {shape.dtype}{wanted}"
                differs = item is not None and tuple(item.shape) != tuple(shape.shape)
                raise AnswerRefused(f"{given}: it is too large to be read", wrong_shape=differs)

    return check


def _check_names(body: Mapping[str, Any]) -> None:
    tables = [body["launched"], body["launches"], body["unwritten"], body["failed"]]
    lists, rows = [body["untouched"], body["touched"], body["overwritten"], body["raw"]], [body["values"], body["work"]]
    if any(len(names) > MOST_NAMES for names in (*tables, *lists)) or any(len(found) > MOST_ROWS for found in rows):
        raise AnswerRefused("the answer names more kernels, operators or values than can be read")
    names = [name for table in tables for name in table] + [*body["untouched"], *body["touched"], *body["overwritten"]]
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


def read_answer(reply: ChildReply) -> CaseAnswer:
    """Read a reply of the role ``candidate``.

    Raises:
        ProtocolError: it is not of the form that the role gives.
    """
    with _of_the_form():
        return _read(reply)


def trail_of(reply: ChildReply) -> CaseTrail:
    """Read the trail of a case where nothing else was asked for.

    Raises:
        ProtocolError: it is not of the form that the role gives.
    """
    with _of_the_form():
        return _read_trail(reply.meta["trail"])


def read_turned(reply: ChildReply) -> tuple[CaseTrail, int, Mapping[SeenDecision, int]]:
    """Read a trail that a decision left which ended the other way, how often it did, and what was decided then.

    Raises:
        ProtocolError: it is not of the form that the role gives.
    """
    with _of_the_form():
        meta = reply.meta
        return _read_trail(meta["trail"]), int(meta["turns"]), dict(_read_decisions(meta["decisions"]))


def read_signature(reply: ChildReply) -> Signature:
    """Read what host code decided in a call of which nothing else was asked.

    Raises:
        ProtocolError: it is not of the form that the role gives.
    """
    with _of_the_form():
        rows = reply.meta["signature"]
        if len(rows) > MOST_SIGNED:
            raise ValueError("a signature names too much")
        return frozenset((int(key), int(value)) for key, value in rows)


@contextmanager
def _of_the_form() -> Iterator[None]:
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ProtocolError("the child's answer is not of the form that the runner's own code gives") from error


def _read(reply: ChildReply) -> CaseAnswer:
    meta = reply.meta
    tensors = [buffer.to_torch() for buffer in reply.tensors]
    runs: dict[str, dict[str, ReturnedValue]] = {}
    used = 0
    for entry in meta["values"]:
        run, _, label = entry["label"].partition("/")
        runs.setdefault(run, {})[label] = _value(entry, tensors)
        used += "tensor" in entry
    names = list(meta["raw"])
    inputs, upstream = tensors[used : used + len(names)], tensors[used + len(names) :]
    if len(upstream) != meta["raw_upstream"] or len(inputs) != len(names):
        raise ValueError("tensors are missing")
    return CaseAnswer(
        runs,
        {str(name): int(count) for name, count in meta["launched"].items()},
        {str(name): int(count) for name, count in meta["launches"].items()},
        tuple(read_work(meta["work"])),
        {str(label): int(count) for label, count in meta["unwritten"].items()},
        int(meta["broken"]),
        tuple(str(label) for label in meta["untouched"]),
        dict(zip(names, inputs, strict=True)),
        tuple(upstream),
        {str(run): str(message)[:300] for run, message in meta["failed"].items()},
        tuple(str(name) for name in meta["overwritten"]),
        int(meta["saved_changed"]),
        tuple((str(one), str(other)) for one, other in meta["shared"]),
        tuple(str(label) for label in meta["changed"]),
        bool(meta["imported"]),
        int(meta["processors"]),
        bool(meta["asked"]),
        _read_trail(meta["trail"]),
        _read_seen(meta),
        frozenset(map(str, meta["touched"])),
        {str(name)[:MAX_NAME_CHARS]: line and int(line) for name, line in meta["ordering"][:MOST_NAMES]},
    )


def _read_seen(meta: Mapping[str, Any]) -> SeenOutcomes:
    uncounted, unchanged, values = (meta["told"].get(kind, ()) for kind in ("uncounted", "unchanged", "values"))
    if max(len(uncounted), len(unchanged), len(values)) > MOST_TOLD:
        raise ValueError("an answer tells too much")
    return SeenOutcomes(
        dict(_read_decisions(meta["decisions"])),
        frozenset(_decision_at(*row) for row in uncounted),
        {_decision_at(*row[:4], row[-1]): _decision_at(*row[:-1]) for row in unchanged},
        {_decision_at(*row[:-1]): str(row[-1])[:MAX_NAME_CHARS] for row in values},
    )


def _decision_at(path: Any, line: Any, column: Any, in_kernel: Any, *text: Any) -> SeenDecision:
    where = str(path)[:200], int(line), int(column), " ".join(map(str, text))[:MAX_NAME_CHARS]
    return SeenDecision(*where, bool(in_kernel))


def _read_decisions(rows: Any) -> Iterator[tuple[SeenDecision, int]]:
    if len(rows) > MOST_DECISIONS:
        raise ValueError("an answer names too many decisions")
    for *where, outcome in rows:
        yield _decision_at(*where), int(outcome) & BOTH


def _read_trail(meta: Mapping[str, Any]) -> CaseTrail:
    if len(meta["events"]) > MOST_EVENTS:
        raise ValueError("a trail names too many events")
    events = (
        TrailEvent(
            str(what)[:MAX_NAME_CHARS], None if path is None else str(path)[:200], line and int(line), str(digest)[:64]
        )
        for what, path, line, digest in meta["events"]
    )
    return CaseTrail(tuple(events), str(meta["whole"])[:64])


def read_work(rows: Any) -> Iterator[Work]:
    """What torch computed, as typed values."""
    for row in rows:
        line, path = row["line"], row["path"]
        yield Work(
            str(row["step"])[:80],
            str(row["operator"])[:80],
            str(row["source"])[:80],
            None if line is None else int(line),
            None if path is None else str(path)[:200],
            int(row["elements"]),
            int(row["reduced"]),
            bool(row["is_move"]),
            bool(row["permuted"]),
            int(row["each"]),
        )


def _value(entry: dict[str, object], tensors: list[torch.Tensor]) -> ReturnedValue:
    kind = str(entry["kind"])[:80]
    if "tensor" not in entry:
        return ReturnedValue(kind)
    place, shape, stride = entry["tensor"], entry["shape"], entry["stride"]
    if not isinstance(place, int) or not isinstance(shape, list) or not isinstance(stride, list):
        raise TypeError("not a tensor's facts")
    tensor = tensors[place]
    if tuple(shape) != tuple(tensor.shape) or str(entry["dtype"]) != str(tensor.dtype).removeprefix("torch."):
        raise ValueError("a tensor is not what was said of it")
    facts = (tuple(shape), tuple(stride), str(entry["dtype"]), str(entry["device"]), bool(entry["differentiable"]))
    return ReturnedValue(kind, tensor, *facts)
