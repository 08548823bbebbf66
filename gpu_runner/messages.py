"""The messages between parent and child: a class for each request, which names its reply. Pure, with the standard library alone.

The sender builds the object, a frame carries its JSON form (``contracts.to_json``), and the receiver gets an object again, whose
fields have their types and are within their bounds (``contracts.from_json``). Tensors go along, in the order that is stated here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar, dataclass_transform, get_args

from gpu_runner.buffers import ITEM_BYTES
from gpu_runner.contracts.benchmark import Pass
from gpu_runner.contracts.envelope import AtMost
from gpu_runner.contracts.graph import Graph
from gpu_runner.contracts.problem import InputSpec

R = TypeVar("R")

Name = Annotated[str, AtMost(80)]
Text = Annotated[str, AtMost(200)]
Reason = Annotated[str, AtMost(300)]
Label = Annotated[str, AtMost(400)]
Place = tuple[Text, int, int, bool, Label]  # of a decision: path, line, column, whether in a kernel, text

MOST_DECISIONS = 2048  # of one candidate; a large kernel library's file has some hundreds
PARAMETER_NOISE = 0.4  # of the size of a parameter, added to one that is made as ones or zeros
MOST_SIGNED = 4096  # outcomes and numbers that are told of a call of which nothing counts
MOST_TOLD = 2**14  # operations that are told to other processes
MOST_EVENTS = 4096  # of one case's trail; of the rest there is one digest
MESSAGE_CHARS, TRACE_CHARS = 4000, 16000


@dataclass_transform(frozen_default=True)
class ChildMessage:
    """Makes a frozen dataclass of each of its subclasses."""

    def __init_subclass__(cls) -> None:
        """Add the fields."""
        super().__init_subclass__()
        dataclass(frozen=True)(cls)


class Request(ChildMessage, Generic[R]):
    """A call of a role's handler. ``reply`` is the type of what it returns besides tensors."""

    reply: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        """Note the type of the reply: the argument of the base."""
        super().__init_subclass__()
        cls.reply = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]  # of every subclass of a generic class


class Raised(ChildMessage):
    """What a handler raised: the exception's class, and where in the session's files; ``verdict`` is a status and a rule."""

    kind: Annotated[str, AtMost(200)]
    message: Annotated[str, AtMost(MESSAGE_CHARS)]
    trace: Annotated[str, AtMost(TRACE_CHARS)]
    path: Annotated[str, AtMost(500)] | None
    line: int | None
    verdict: tuple[str, str | None] | None


class OpenDevice(Request[None]):
    """The first call to every child that computes: open the device."""


class Call(Protocol):
    """Hands a request to a child, and returns the message of its reply."""

    def __call__(self, request: Request[R], /) -> R: ...


# Role ``echo``


class Echo(Request[dict[str, Any]]):
    """Reply with the same values and tensors."""

    values: dict[str, Any]


class CallMain(Request[dict[str, Any]]):
    """Import a module of the session's files and call its ``main(state, tensors)``, if it has one."""

    module: str


# Role ``probe``


class WayTried(ChildMessage):
    """Whether a way out of the sandbox was open, and what the system said."""

    is_open: bool
    detail: Reason


class TryWaysOut(Request[dict[str, WayTried]]):
    """Try every way out of the sandbox, towards things of the parent; by their names."""

    port: int  # of a listener on 127.0.0.1
    socket: str  # the name of an abstract one
    marker: str  # what a variable of the parent holds
    secret: str  # the path of a file
    outside: str  # a path outside of the scratch folder
    pid: int  # of a process


class GpuFacts(ChildMessage):
    """What the GPU is; ``bandwidth_gbps`` is that of a copy on the device, read and written."""

    name: str
    memory_bytes: int
    architecture: str
    bandwidth_gbps: float | None = None


class LookAtGpu(Request[GpuFacts | None]):
    """None where torch sees none."""

    quick: bool  # measure no bandwidth


# Role ``suite``


class RunSuite(Request[int]):
    """Run ``python -m MODULE`` or a script below the child, its output going to the session's log. Its exit code, which is 128 and
    the signal where one ended it.
    """

    module: str  # one of ``gpu_runner.suite.MODULES``
    arguments: tuple[str, ...]
    report: str  # the file in the child's folder to which outcomes are written
    stands_in: tuple[str, ...]  # languages in whose place others stand where there is no GPU: tiles, threads


# Role ``recording``


class RecordScript(Request[Text | None]):
    """Run a script on a fake GPU, and write each call into a kernel to the report. Why it left with a status other than zero."""

    module: str  # where the kernel is
    symbol: str
    script: str
    arguments: tuple[str, ...]
    report: str


# Role ``gauge``


class RatesMeasured(ChildMessage):
    """Rates of the GPU; None where one was not asked for or could not be measured, then with the reason in ``failed``."""

    gpu: str
    l2_bytes: int
    cuda: str
    gbps: float | None
    matrix_tflops: float | None
    tf32_tflops: float | None
    vector_tflops: float | None
    failed: dict[str, Text]


class MeasureRates(Request[RatesMeasured]):
    dtype: str  # of the matrix products
    parts: tuple[str, ...]  # names of the rates


# Calls: what a callable is called with, in the roles of references, candidates and contenders

Scalar = float | int | bool | str
Axes = tuple[str | None, ...]  # by axis, the batch dimension that it is
Ranges = tuple[
    tuple[str, int, int, bool, str, float, float], ...
]  # by place of a decision, the least and largest number
NumbersBeyond = tuple[
    tuple[str, int, str, float, float, float], ...
]  # path, line, text, number, between which it was seen


class CallForm(ChildMessage):
    """How a problem's callable is called."""

    name: str  # reference or kernelbench
    order: tuple[str, ...] = ()  # parameters, or positional inputs of a module
    keywords: tuple[str, ...] = ()  # those of ``order`` that are passed by name
    parameters: tuple[str, ...] = ()  # of a module
    init: tuple[Any, ...] = ()  # what a module is built with
    mutates: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()  # inputs that are a module's parameters
    defaults: tuple[tuple[str, Scalar], ...] = ()  # of scalars


CHOOSING = ("no_grad", "plain", "subset")  # kinds of uses for which a function may choose other code


class Use(ChildMessage):
    """Another way to call a candidate than forward and backward; ``kind`` as ``child.calls`` knows it."""

    kind: str  # no_grad, plain, subset, outputs, checkpoint, reentrant, double, changed, saved, elsewhere
    names: tuple[
        str, ...
    ] = ()  # of a subset: inputs that want a gradient; of what is changed: inputs, or all, or outputs
    layout: str = ""  # of the cases in which it is of use; empty: of any

    @property
    def name(self) -> str:
        """The name of its run."""
        return " ".join((self.kind, *self.names))


class SentTensor(ChildMessage):
    """A view of a tensor that goes along, with its guards; shape, stride and offset in elements."""

    name: str
    place: int  # of what is viewed among the call's tensors: parts of one tensor share it
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    grad: bool


class SentCall(ChildMessage):
    """A call whose inputs and upstream gradients go along as tensors, and the runs of it: see ``child.steps``."""

    form: CallForm
    scalars: dict[str, Any]
    inputs: tuple[SentTensor, ...]
    upstream: tuple[SentTensor | None, ...]  # one an output
    backward: bool
    others: tuple[SentTensor, ...] | None = None  # a second set of inputs, for runs that interleave
    same: tuple[str, ...] = ()  # inputs that are one tensor
    directions: tuple[SentTensor, ...] = ()  # by wanted input, of a double backward
    uses: tuple[Use, ...] = ()
    echoes: bool = False  # each output is its own upstream gradient
    passes: int = 0  # backwards of a retained graph after the first
    skip: tuple[str, ...] = ()  # runs that are left out
    tolerant: bool = False  # of what stands in a repository: everything is put back, and a later run may raise
    poison: bool = True  # memory holds what no kernel writes until one does
    odd: bool = False  # inputs hold values that are not finite
    has_devices: bool = True  # trails and digests tell devices apart
    device: dict[str, Any] | None = None  # as ``AskDevice`` tells of another process's
    gpu: str = ""  # the name of a GPU that the case tells of
    multiprocessors: int = 0  # of that
    compiling: bool = False  # host code is told that it is being compiled


class ShapedTensor(ChildMessage):
    name: str
    shape: tuple[int, ...]
    dtype: str
    grad: bool


class ShapedCall(ChildMessage):
    """A call on shapes alone."""

    form: CallForm
    scalars: dict[str, Any]
    inputs: tuple[ShapedTensor, ...]


class DrawnTensor(ChildMessage):
    """A tensor that every child draws by one seed: of deviation ``scale``, or whole numbers from ``low`` to below ``high``."""

    shape: tuple[int, ...]
    dtype: str
    name: str = ""
    init: str = "normal"
    scale: float = 1.0
    noisy: bool = False  # ones and zeros are not exact: `PARAMETER_NOISE` times the size is added
    low: int = 0
    high: int = 2
    grad: bool = False


class DrawnCall(ChildMessage):
    """A call whose inputs and upstream gradients every child draws itself."""

    form: CallForm
    scalars: dict[str, Any]
    seed: int
    inputs: tuple[DrawnTensor, ...]
    upstream: tuple[DrawnTensor | None, ...] = ()


class ModuleCall(ChildMessage):
    """A module's call whose parameters go along and whose inputs ``get_inputs`` of ``source`` draws on the device."""

    sent: SentCall
    source: str
    seed: int
    dtype: str  # of floating inputs
    digests: tuple[str, ...] | None = None  # of the inputs as they were drawn first


WorkloadCall = DrawnCall | ModuleCall | SentCall


# Roles ``reference`` and ``operations``


class TensorForm(ChildMessage):
    """A tensor without its content, its stride in elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    differentiable: bool


class PlainValue(ChildMessage):
    value: Any


class ReferenceLoaded(ChildMessage):
    """Of a module: what it is built with, and names of parameters and buffers, whose tensors go along."""

    init: tuple[Any, ...] = ()
    parameters: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()


class LoadReference(Request[ReferenceLoaded]):
    """Import the problem; a module is built."""

    form: str  # reference or kernelbench
    seed: int  # of what a module draws


class ModuleInputs(ChildMessage):
    """What ``get_inputs`` of a module gives, whose tensors go along."""

    is_tensor: tuple[bool, ...]
    scalars: tuple[Any, ...]  # what is none, in order


class DrawModuleInputs(Request[ModuleInputs]):
    seed: int


class DescribeModuleInputs(Request[tuple[TensorForm | PlainValue, ...]]):
    seed: int


# Answers on inputs that are a step away: the side to which it is, and whether equal elements go the same way. Those that tie at a
# bend do for a kernel; those of a row without variance must not, if it is to show what rounding makes of that.
SHAKEN = {
    "shaken": (1.0, True),
    "shaken_back": (-1.0, True),
    "shaken_apart": (1.0, False),
    "shaken_apart_back": (-1.0, False),
}
# Answers with the noise of float32 arithmetic, by what has a sign of its own.
NOISY = {"noisy": "each", "noisy_together": "all"}
ROUNDED = "rounded"  # answers in the own dtype with half precision rounded at random: what lies farthest from the truth of each run
ROUNDINGS = (1, 2, 3)  # seeds of these runs


class TruthKinds(ChildMessage):
    """Answers of the reference besides the exact ones and its own: see ``child.reference``."""

    shake: float = 0.0  # the step by which inputs are shaken, relative; 0 for no such answers
    by_value: bool = False  # no answers in which equal elements are shaken to different sides
    noise: bool = False
    rounded: bool = False


class ReferenceValues(ChildMessage):
    """Answers by kind, None where a gradient does not exist; the tensors of all that are there go along in this order."""

    kinds: dict[str, tuple[TensorForm | None, ...]]
    names: tuple[str, ...] = ()  # of gradients, the inputs
    beside: tuple[bool, ...] = ()  # of outputs, whether another lies in the same memory
    given: tuple[bool, ...] = ()  # of outputs, whether they lie in the memory of an input


class Evaluate(Request[ReferenceValues]):
    """Compute every output."""

    call: SentCall
    kinds: TruthKinds


class Differentiate(Request[ReferenceValues]):
    """Compute the gradients of what ``Evaluate`` computed last; the call has upstream gradients alone."""

    call: SentCall
    kinds: TruthKinds


class DifferentiateTwice(Request[ReferenceValues]):
    """Compute second gradients along the call's directions, of each leaf and upstream gradient."""

    call: SentCall
    kinds: TruthKinds


class TrafficBytes(ChildMessage):
    """Bytes of a call's tensors, of what autograd keeps, and of what operators make: all of it, and the most that lives at once."""

    inputs: int
    outputs: int
    upstream: int
    gradients: int
    saved: int
    made: int
    live: int
    is_loss: bool  # each output is one number
    whole: tuple[str, ...] = ()  # of role ``operations``: inputs that are read to their last element


class MeasureTraffic(Request[TrafficBytes]):
    call: ShapedCall


class OutputForm(ChildMessage):
    """An output as it is told.

    Raises:
        ValueError: no tensor has this form.
    """

    shape: tuple[int, ...]
    dtype: str
    differentiable: bool

    def __post_init__(self) -> None:
        """Refuse what is no form of a tensor."""
        if self.dtype not in ITEM_BYTES or any(size < 0 for size in self.shape):
            raise ValueError("no form of an output")


class DescribeOutputs(Request[tuple[OutputForm, ...]]):
    call: WorkloadCall


class Operations(ChildMessage):
    """Floating-point operations of one pass.

    Raises:
        ValueError: a number is negative.
    """

    matrix: int  # of matrix products
    vector: int  # of everything else, one per element and step
    tf32: int = 0  # of the matrix products, convolutions in float32

    def __post_init__(self) -> None:
        """Refuse what counts nothing."""
        if min(self.matrix, self.vector, self.tf32) < 0:
            raise ValueError("no counts of operations")

    @property
    def total(self) -> int:
        return self.matrix + self.vector

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.matrix + other.matrix, self.vector + other.vector, self.tf32 + other.tf32)


class OutlinedCall(ChildMessage):
    forward: Operations
    backward: Operations | None
    outputs: tuple[OutputForm, ...]


class OutlineCall(Request[OutlinedCall]):
    """Count the operations of a call on shapes alone."""

    call: ShapedCall


class DigestInputs(Request[tuple[str, ...]]):
    """Digests of the inputs that a call draws."""

    call: WorkloadCall


class RowForm(ChildMessage):
    """A tensor of which rows go along."""

    shape: tuple[int, ...]
    dtype: str


class TruthRows(ChildMessage):
    """Outputs and gradients, None where there is none; rows of all go along, exact ones, then the reference's own."""

    outputs: tuple[RowForm, ...]
    names: tuple[str, ...]  # of the gradients
    gradients: tuple[RowForm | None, ...]
    natural: tuple[float, ...]  # of each gradient, the error that float32 rounding explains
    kind: Annotated[str, AtMost(20)]  # the dtype of the exact ones, or own


class ComputeRows(Request[TruthRows]):
    """Compute rows of every output and gradient for one set of inputs."""

    call: WorkloadCall
    place: int  # of the set
    rows: int  # the secret number that says which rows
    backward: bool


class BendRows(Request[None]):
    """Compute what half precision may make of the rows: by inputs ``shake`` of themselves away, to either side, and by roundings
    at random. Each run's rows go along in turn.
    """

    call: WorkloadCall
    place: int
    rows: int
    backward: bool
    shake: float


# Role ``candidate``


class LoadCandidate(Request[None]):
    module: str
    symbol: str
    form: CallForm
    mode: str  # as ``program.load`` names them
    roots: tuple[str, ...]  # folders of imports
    own: tuple[str, ...]  # the candidate's files; none in a library, all of which is its own by need
    written: tuple[str, ...] | None  # in a library, the files that the candidate wrote
    compiles: bool = False  # kernels are compiled for a GPU that is not there, and none runs


class SelectCallable(Request[None]):
    """Take another callable of the module that was loaded."""

    symbol: str


class Work(ChildMessage):
    """What an operator of torch did in one step, as often as it was called on one line for operands of one size.

    ``source`` is the input that it worked on, empty for what a kernel wrote.
    """

    step: Name
    operator: Name
    source: Name
    line: int | None
    path: Text | None
    elements: int
    reduced: int = 1  # elements that meet in one
    is_move: bool = False  # it only moved them
    permuted: bool = False  # after dimensions had been exchanged
    each: int = 0  # elements of one of these operations, which are alike


class TrailEvent(ChildMessage):
    """One operator or launch of a run; the digest is of its operands."""

    what: Label
    path: Text | None
    line: int | None
    digest: Annotated[str, AtMost(64)]


class CaseTrail(ChildMessage):
    """What the host code did in a case, in order; ``whole`` is of all of it, of which the first ``events`` are named."""

    events: Annotated[tuple[TrailEvent, ...], AtMost(MOST_EVENTS)] = ()
    whole: Annotated[str, AtMost(64)] = ""


class KernelOutcomes(ChildMessage):
    """What outcomes of decisions in kernels are joined by with those of other processes."""

    uncounted: Annotated[tuple[Place, ...], AtMost(MOST_TOLD)] = ()  # of whose outcomes none counted
    # Operations that never changed, each at its place, with what is said of it.
    unchanged: Annotated[tuple[tuple[Text, int, int, bool, Label, Label, Label], ...], AtMost(MOST_TOLD)] = ()
    values: Annotated[tuple[tuple[Text, int, int, bool, Label, Label, Label], ...], AtMost(MOST_TOLD)] = ()


Outcomes = Annotated[tuple[tuple[Text, int, int, bool, Label, int], ...], AtMost(MOST_DECISIONS)]


class ValueForm(ChildMessage):
    """One output or gradient by its label; ``tensor`` is its place among the tensors, None where something else came."""

    label: str  # run/output 0, run/gradient of x
    kind: Name  # the class's name
    tensor: int | None = None
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    dtype: Name = ""
    device: Name = ""
    differentiable: bool = False


class CaseReply(ChildMessage):
    """What came of the runs of a case; the tensors of ``values`` go along, then inputs and upstream gradients with their guards."""

    values: tuple[ValueForm, ...]
    launched: dict[str, int]  # kernel -> times
    launches: dict[str, int]  # run -> kernels
    work: tuple[Work, ...]
    unwritten: dict[str, int]  # run/label -> elements that hold what their memory held before
    broken: int  # buffers beyond whose ends something was written
    untouched: tuple[str, ...]  # results that no kernel wrote
    raw: tuple[str, ...]  # names of the inputs that go along
    raw_upstream: int  # upstream gradients that go along
    failed: dict[str, Reason]  # run that raised, where it may -> what it raised
    overwritten: tuple[str, ...]  # inputs and "upstream N" that were put back because they had changed
    saved_changed: int  # tensors that autograd saved in a forward, and that the backward changed
    shared: tuple[tuple[str, str], ...]  # pairs of outputs, with "input NAME" too, or of gradients in the same memory
    changed: tuple[str, ...]  # results of the first run that were others after the later ones
    imported: str  # why CPython carried out the host code; empty where it was evaluated
    processors: int  # of the GPU, or of the one that it was told of; zero in the interpreter
    asked: bool  # it asked about the device in a case that tells of another one
    trail: CaseTrail
    decisions: Outcomes  # so far
    kernels: KernelOutcomes
    touched: tuple[str, ...]  # inputs and "upstream N" that a launch changed, whatever they hold in the end
    ordering: tuple[tuple[Label, int | None], ...]  # options that change the order of launches, and a line of each


class RunCase(Request[CaseReply]):
    """Run one case: forward, backward, both once more, and the call's uses."""

    call: SentCall
    optional: bool = False  # the candidate may fail in it, and then nothing of it counts
    several: bool = False  # other processes run other cases, so that outcomes of kernels are told
    # What kernels meet otherwise, see ``program.altered``; what is decided then is told of all such calls, and counts nowhere else.
    altered: str = ""


class LeaveTrail(Request[CaseTrail]):
    """The trail of a case, whose kernels run where it is another one than ``expected`` without them."""

    call: SentCall
    expected: str | None = None  # the digest of a whole trail
    dry: bool = False  # kernels never run


class TurnedReply(ChildMessage):
    trail: CaseTrail
    turns: int  # how often the decision ended the other way
    decisions: Outcomes  # that were made in such cases alone


class TurnDecision(Request[TurnedReply]):
    """The trail of a case in which the decision at a place ends the other way; no kernel runs."""

    call: SentCall
    decision: Place


class DecideCase(Request[Annotated[tuple[tuple[int, int], ...], AtMost(MOST_SIGNED)]]):
    """What host code decides and computes in a call of which nothing counts and no kernel runs: digests, which are of one process,
    of places and of outcomes or numbers.
    """

    call: SentCall


class WarmUp(Request[None]):
    """Compile what a case launches, or run it once."""

    call: SentCall


class CompilerRefusal(ChildMessage):
    kind: str  # the exception's class
    message: str
    path: Text | None
    line: int | None


class CompiledReply(ChildMessage):
    refused: CompilerRefusal | None
    compiled: tuple[str, ...]  # kernels that were taken so far


class CompileCase(Request[CompiledReply]):
    """Compile what a case launches for a GPU that is not there, and run none of it."""

    call: SentCall


class PeakBytes(ChildMessage):
    """Peak bytes of memory beyond what was there; None where there is no GPU, or no backward."""

    forward: int | None = None
    backward: int | None = None


class MeasurePeaks(Request[PeakBytes]):
    call: SentCall


class AskDevice(Request[dict[str, Any]]):
    """What host code can learn of the GPU."""


class SpreadTensor(ChildMessage):
    """How a tensor that goes along for a few places is laid out at full size, its offset in elements."""

    axes: Axes
    gap: float = 0.0  # after each row, of its length
    offset: int = 0
    permuted: bool = False  # its first dimension is that whose elements lie side by side


class SampledValue(ChildMessage):
    """An output or gradient at its full shape; ``tensor`` is the place of its values at the call's places, what is known of them
    follows. None where it is of another form.
    """

    label: str
    shape: tuple[int, ...]
    dtype: Name
    tensor: int | None = None
    unsure: bool = False  # more may be known than is told


class SampledReply(ChildMessage):
    """What is known of a call at scale; nothing where CPython carries out the host code."""

    values: tuple[SampledValue, ...] = ()
    # Of tensors by name: the largest offset in 32 bits, the line that computes it, and the number of elements.
    offsets: tuple[tuple[str, int, int | None, int], ...] = ()
    ranges: Ranges = ()  # between which numbers of host code lay
    work: tuple[Work, ...] = ()
    launched: dict[str, int] = field(default_factory=dict)
    processors: int = 0


class SampleCall(Request[SampledReply]):
    """Call the candidate at the size of a workload, where a few programs of each launch run; see ``verify.scale``.

    With ``operations`` on blocks of each launch at most, all programs run, on tensors as they are sent.
    """

    call: SentCall
    inputs: dict[str, SpreadTensor]
    upstream: tuple[SpreadTensor | None, ...]
    sizes: dict[str, int]  # of the batch dimensions
    places: dict[str, tuple[int, ...]]  # along them
    answers: dict[str, Axes]  # by label, the axes of what is compared
    operations: int = 0
    again: int = 0  # operations with which the call is made once more where places of an answer are left
    middle: tuple[int, int] | None = None  # one of the places between first and last, and of how many it is


class FindBeyond(Request[NumbersBeyond]):
    """Those numbers of a call at scale that no case of this process had."""

    ranges: Ranges


# Role ``timing``


class LoadContender(Request[None]):
    module: str
    symbol: str
    form: CallForm
    compiled: bool  # by ``torch.compile``


class PrepareContender(Request[tuple[Name, ...]]):
    """Lay out a workload, and run each pass so that everything is compiled; the inputs that its runs change."""

    call: WorkloadCall
    passes: tuple[Pass, ...]
    places: int  # sets of inputs that take turns


class ReleaseWorkload(Request[None]):
    """Free the memory of a workload."""


class HostTimes(ChildMessage):
    """How long the host queues a pass, and until the device is done as well."""

    host_us: float
    wall_us: float
    waits: bool  # the pass waits for the device


class TimeHost(Request[HostTimes]):
    timed_pass: Pass
    samples: int
    most_s: float


class BlockTimes(ChildMessage):
    device_us: tuple[float, ...]
    late: int = 0  # runs that were taken again because the host came too late


class TimeBlock(Request[BlockTimes]):
    """Time so many runs of a pass after those that do not count."""

    timed_pass: Pass
    samples: int
    warm_up: int


class MeasurePeak(Request[int]):
    """The peak bytes that one run of a pass takes beyond what was there."""

    timed_pass: Pass


class ComputedRows(ChildMessage):
    """What a timed run computed last: the number of outputs, which gradients there are, all shapes in order; rows go along."""

    outputs: int
    gradients: tuple[bool, ...]
    shapes: tuple[tuple[int, ...], ...]
    unforeseen: tuple[Name, ...]  # inputs that were overwritten and had not been before


class CheckRows(Request[ComputedRows]):
    place: int  # of the set of inputs
    rows: int  # the secret number that says which rows
    outputs: bool  # whether those of the outputs too


# Role ``tuning``

SettingsTable = dict[str, dict[str, int]]  # by pass


class TunedLoaded(ChildMessage):
    architecture: Annotated[str, AtMost(20)]
    gpu: Annotated[str, AtMost(100)] | None


class LoadTuned(Request[TunedLoaded]):
    """Import the candidate, and find the table of settings in the module that holds it."""

    module: str
    symbol: str
    form: CallForm
    holder: str  # a module


class PreparedTuning(ChildMessage):
    """By pass, the sizes by which settings were looked up, and the defaults."""

    sizes: dict[str, tuple[int, ...]]
    defaults: SettingsTable


class PrepareTuning(Request[PreparedTuning]):
    """Lay out a workload, and run it with the default settings."""

    call: WorkloadCall
    architecture: str
    backward: bool  # there is a gradient to compute


class TrySettings(Request[Text | None]):
    """Compile and run a pass with settings; how its values differ from those of the default ones."""

    timed_pass: Pass
    architecture: str
    table: SettingsTable


class TimeSettings(Request[BlockTimes]):
    timed_pass: Pass
    architecture: str
    table: SettingsTable
    samples: int
    warm_up: int


class SumOnDevice(Request[int]):
    """Add up eight ones: after some faults of a kernel nothing in the process can."""


# Role ``profiling``


class ProfilerOutput(ChildMessage):
    exit_code: int | None  # None: it was ended at the limit
    output: str
    log: str
    launched: Annotated[tuple[str, ...], AtMost(200)]  # names of the candidate's kernels


class ProfileCall(Request[ProfilerOutput]):
    """Have the profiler watch one call of a candidate."""

    call: SentCall
    profiler: str  # its path
    metrics: tuple[str, ...]
    limit_s: float
    module: str
    symbol: str
    import_roots: tuple[str, ...]


# Role ``capture``


class LoadProblem(Request[None]):
    """Import the problem, or run a source in its place; ``fake``: what it makes has no data."""

    source: str | None = None
    fake: bool = False


class TraceSizes(ChildMessage):
    """The inputs of a problem, and the numbers at which it is traced or run."""

    inputs: tuple[InputSpec, ...]
    sizes: dict[str, int]
    scalars: dict[str, Any]
    seed: int
    whole: bool  # operators are taken as they are called


class TracedReference(ChildMessage):
    graph: dict[str, Any]  # as ``tracing.raw`` reads it
    random: Annotated[str, AtMost(100)] | None  # an operator in it that draws random numbers


class TraceReference(Request[TracedReference]):
    at: TraceSizes


class ReferenceRuns(ChildMessage):
    deterministic: bool | None  # None where there is too much to run
    narrow: tuple[str, ...] | None  # dtypes of the outputs in bfloat16; None where it does not run so


class CheckReference(Request[ReferenceRuns]):
    """Run the reference twice on the same inputs, and once in bfloat16."""

    at: TraceSizes
    elements: int  # of all values of the trace


class RoundedValues(ChildMessage):
    """Values of a trace that are bfloat16 in eager mode, each with the float32 parameters beside which it is not."""

    graph: dict[str, Any]  # as ``tracing.raw`` reads it, so that the names can be seen to be of the same one
    rounded: tuple[tuple[str, tuple[str, ...]], ...]


class FindRounding(Request[RoundedValues]):
    at: TraceSizes


class CompareGraph(Request[bool]):
    """Whether a graph gives the outputs and gradients of the reference.

    ``last``: the last element of each row of activations, where it is not drawn as the others are.
    """

    at: TraceSizes
    graph: Graph
    last: float | None


class ModelTensor(ChildMessage):
    """An input, parameter or buffer of a model; the bounds are of whole numbers that it was drawn with."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    grad: bool
    low: int | None = None
    high: int | None = None
    init: str | None = None  # ones or zeros, where it starts as that


class ModelNumber(ChildMessage):
    name: str
    value: bool | int | float | str


class DescribedModel(ChildMessage):
    inputs: tuple[ModelTensor | ModelNumber, ...]
    parameters: tuple[ModelTensor, ...]
    buffers: tuple[ModelTensor, ...]
    hidden: tuple[Annotated[str, AtMost(100)], ...]  # tensors that are neither
    tied: tuple[tuple[str, str], ...]  # second names of parameters and buffers, each with the first
    held_elements: int
    tracking: tuple[str, ...]  # modules that keep running statistics


class DescribeModel(Request[DescribedModel]):
    """Build a KernelBench model without data, and describe what it takes."""
