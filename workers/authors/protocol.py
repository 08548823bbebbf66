"""What an author gets and gives. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from gpu_runner.contracts import Graph, KernelNames, Knob, Problem, Workload


@dataclass(frozen=True)
class SourceStyle:
    """How the target writes a kernel module.

    ``helpers`` maps the helpers that the target has to the module they are imported from: ``calculate_settings(n) ->
    (BLOCK_SIZE, num_warps)``, ``ensure_contiguous`` (decorator of forward and backward), ``device_context(device)`` (context
    manager around launches). A helper that is missing is written into the module.
    """

    function_class: str  # such as LigerReGLUFunction
    forward_function: str  # such as reglu_forward
    backward_function: str
    entry: str | None = None  # a function with the reference's signature to define as well, such as "candidate"
    helpers: tuple[tuple[str, str], ...] = ()
    line_length: int = 120
    single_line_imports: bool = (
        True  # one name an import, and a blank line between `import x` and `from x import y` blocks
    )
    section: bool = False  # the source is to stand in a file that exists: no imports, no class
    prefix: str = ""  # with which every name begins that the style does not give
    tunable: bool = False  # the source looks its launch settings up in a module-level TUNED, and the proposal has knobs
    rounds_as_reference: bool = (
        False  # values are rounded where the reference's operators round, not at the stores alone
    )
    once_differentiable: bool = False  # a second derivative raises, where torch around it would take it for zero
    target: str = "gpu"  # whose schedules write the kernels: "gpu", "ascend", "cutile" or "cutedsl"


@dataclass(frozen=True)
class Feedback:
    """What a review or a failed verdict objects to in the last proposal."""

    text: str
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Brief:
    """The input of an author."""

    name: str  # the kernel's name, snake_case
    problem: Problem
    graph: Graph
    style: SourceStyle
    names: KernelNames = field(default_factory=KernelNames)
    feedback: tuple[Feedback, ...] = ()
    may_overwrite: tuple[str, ...] = ()  # inputs, and "upstream N", whose memory gradients may be written into
    sizes: tuple[
        Workload, ...
    ] = ()  # all that the kernels must take, where other calls have code to fall back on; (): any


@dataclass(frozen=True)
class KernelSketch:
    """One kernel of a plan."""

    name: str
    timed_pass: str  # forward or backward
    iteration_space: str  # such as "rows T, columns I"
    grid: str  # one sentence


@dataclass(frozen=True)
class KernelPlan:
    """How a proposal computes the problem. Byte and FLOP counts are expressions over dimension names and ``E``, the bytes of an
    element in the workload's dtype."""

    family: str
    tier: int  # 1 element-wise, 2 reduction, 3 fused
    kernels: tuple[KernelSketch, ...]
    forward_formula: str
    gradient_formulas: tuple[tuple[str, str], ...]
    saved_tensors: tuple[str, ...]
    recomputed: str
    precision_sensitive_ops: tuple[str, ...]
    grid_dimensions: str
    grid_description: str
    block_size_source: str
    needs_sm_parallelism: bool
    forward_bytes: str
    backward_bytes: str
    forward_flops: str
    backward_flops: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Signature:
    """How the two functions of a proposal are called, by the names of their parameters."""

    forward_arguments: tuple[str, ...]  # inputs and scalars of the problem
    outputs: tuple[str, ...]  # what the forward function returns first
    saved: tuple[str, ...]  # and after them: what it made for the backward function
    backward_arguments: tuple[str, ...]  # upstream gradients, inputs, scalars and saved tensors
    upstream: tuple[
        str, ...
    ]  # those of them that are upstream gradients, in the order of the outputs; "" where there is none
    gradients: tuple[str, ...]  # the inputs whose gradients it returns, in order


@dataclass(frozen=True)
class Limit:
    """Calls that a proposal takes: those in which ``size``, arithmetic over dimension names, is at most ``most``."""

    size: str
    most: int


@dataclass(frozen=True)
class Proposal:
    """A candidate, not yet judged: the module's source in the brief's style, and its plan."""

    source: str
    plan: KernelPlan
    knobs: tuple[Knob, ...] = ()  # settings that may be tuned; the source looks them up in its TUNED
    signature: Signature | None = None
    imports: tuple[str, ...] = ()  # with ``section``: the import lines that the source needs
    limits: tuple[Limit, ...] = ()  # of the calls that it takes, where the brief says which sizes it must take


@dataclass(frozen=True)
class AuthorRefusal:
    """Why an author cannot: one sentence that names the operator or the shape."""

    sentence: str
    operator: str | None = None


class Author(Protocol):
    """Who proposes candidates; the same brief always gives the same answer where no model is asked."""

    name: str

    def propose(self, brief: Brief) -> Proposal | AuthorRefusal:
        """Propose source for a brief, or refuse it in one sentence."""
        ...
