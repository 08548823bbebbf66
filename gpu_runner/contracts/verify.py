"""The contract of the verdict, and its closed vocabulary of statuses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_runner.contracts.graph import Multiple
from gpu_runner.contracts.problem import Workload


class Status(StrEnum):
    """The verdict on a candidate, or on its problem."""

    passed = "passed"
    incorrect_values = "incorrect_values"
    incorrect_gradient = "incorrect_gradient"
    incorrect_shape = "incorrect_shape"
    incorrect_dtype = "incorrect_dtype"
    unwritten_output = "unwritten_output"
    mutated_input = "mutated_input"
    out_of_bounds = "out_of_bounds"
    nondeterministic = "nondeterministic"
    compile_error = "compile_error"
    launch_error = "launch_error"
    timeout = "timeout"
    out_of_memory = "out_of_memory"
    refused = "refused"
    unproved = "unproved"  # the judge cannot say; its evidence names what it lacks
    degenerate_problem = "degenerate_problem"
    cheating = "cheating"
    environment_error = "environment_error"


@dataclass(frozen=True)
class SourceFile:
    """A text file of a candidate, ``path`` relative with forward slashes."""

    path: str
    text: str


@dataclass(frozen=True)
class CandidateSource:
    """What is judged: files, and where the callable is in them.

    ``module`` and ``symbol`` name a callable with the reference's signature (or ``ModelNew`` for a KernelBench problem).
    With ``tree``, a tarball next to the request (by file name) is unpacked first and ``files`` are laid over it; ``import_roots``
    are the folders of it that go on ``sys.path``. What stands in a library cannot be screened as strictly as a single file:
    ``screened`` names the files to which the static screen applies (all of ``files`` where it is empty).
    """

    files: tuple[SourceFile, ...]
    module: str = "candidate"
    symbol: str = "candidate"
    tree: str | None = None
    import_roots: tuple[str, ...] = (".",)
    screened: tuple[str, ...] = ()

    @property
    def screened_files(self) -> list[SourceFile]:
        """The Python files to which the static screen applies."""
        wanted = set(self.screened) or {file.path for file in self.files}
        return [file for file in self.files if file.path in wanted and file.path.endswith(".py")]


@dataclass(frozen=True)
class Composed:
    """A program of proved parts: the lines of its file at which torch is to compute, and the kernels that its parts launch."""

    torch_lines: tuple[int, ...]
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class VerifyRequest:
    """Judge a candidate against a problem. ``seeds`` and the random stream are the runner's own; a request cannot set them.

    ``original`` is the kernel in the repository that the candidate is to replace. What the original does, the candidate may do:
    overwrite the same inputs and upstream gradients, have torch compute as much, contain lines of the original's files that the
    screen refuses, have no second backward, err as much in the same case.
    A candidate that equals the original, file for file, is not compared with it: it runs once, is refused where it is wrong
    by far, and the verdict states its error.
    """

    problem_source: str
    candidate: CandidateSource
    dtypes: tuple[str, ...] = ()  # empty: the problem's
    workloads: tuple[Workload, ...] = ()  # empty: the problem's, and irregular sizes that the runner picks
    quick: bool = False  # a smoke test: one seed, two sizes; its verdict says so and opens no gate
    original: CandidateSource | None = None
    # As the captured graph has them: the scalars in them are moved to other numbers that divide, which a kernel must take too.
    multiples: tuple[Multiple, ...] = ()
    # The candidate is a program around parts, each of which has a verdict of its own. CPython runs its host code, as operators of
    # torch are outside of the evaluator's language; torch may compute at its lines, and each kernel must be launched.
    composed: Composed | None = None


@dataclass(frozen=True)
class Evidence:
    """Where and how a candidate failed."""

    check: str  # the check that failed, such as "values"
    message: str  # one sentence
    workload: str | None = None  # such as "T=7 I=129 float32"
    output: str | None = None  # "output 0" or "gradient of a"
    position: tuple[int, ...] | None = None  # index of the worst element
    got: float | None = None
    expected: float | None = None
    error: float | None = None  # relative to the tensor's scale
    allowed: float | None = None
    line: int | None = None  # in the candidate's source, where known
    log: str | None = None  # the first lines of what the child printed; untrusted text


KERNELBENCH = "kernelbench"  # the check whether an output is right by KernelBench's own rule; no verdict depends on it


@dataclass(frozen=True)
class Check:
    """One comparison or property that was examined."""

    name: str  # values, gradient, shape, dtype, written, guard, inputs, deterministic, memory, second_backward, ...
    workload: str
    passed: bool
    output: str | None = None
    error: float | None = None
    allowed: float | None = None  # with what is let pass because the original errs as much


@dataclass(frozen=True)
class Verdict:
    """The outcome of verify: decided by the parent process alone."""

    status: Status
    evidence: tuple[Evidence, ...] = ()
    checks: tuple[Check, ...] = ()
    rule: str | None = None  # with ``cheating`` and ``refused``: the rule that was broken
    deterministic: bool | None = None
    seeds: int = 0
    quick: bool = False
    interpreted: bool = False  # Triton's interpreter ran the kernels, so nothing is known of the compiled code
    kernels: tuple[str, ...] = ()  # the candidate's own kernels that were seen to run
    peak_forward_bytes: int | None = None
    peak_backward_bytes: int | None = None
    overwrites: tuple[str, ...] = ()  # inputs, and "upstream N", that were seen to be overwritten and may be
    allowances: tuple[
        str, ...
    ] = ()  # what was let pass because the original does it too: a check's name each, such as "second_backward"
    # What errs by more than is allowed, and passed only because the original errs as much; of the original itself where that is
    # what was judged. ``allowed`` is what a kernel that replaces nothing would be allowed; the largest of each check and output.
    excused: tuple[Evidence, ...] = ()
    # Decisions of the candidate that had one outcome in every case, so that nothing is known of the other side.
    one_sided: tuple[Evidence, ...] = ()
    # The master seed of everything that was drawn, in hexadecimal, known only after the fact: every verdict draws a new one.
    seed: str | None = None
    repeated: bool = False  # the seed was given on a person's command line, so that this verdict opens no gate
    language: str = "Triton"  # or "cuTile" or "CuTe DSL", whose operations the interpreter carries out as Triton's
