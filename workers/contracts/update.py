"""Updates: what the production wants to be seen on GitHub. Each becomes exactly one effect; they hold facts, never sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpu_runner.contracts import BenchmarkResult, ProfileResult, SourceError, TestsResult, Verdict, read_source
from workers.contracts.job import (
    DEFAULT_OPERATORS,
    EVERY_SIZE,
    Failure,
    FailureCode,
    Goal,
    Image,
    JobView,
    Regime,
    Scope,
    StageName,
)
from workers.contracts.kernel_profile import KernelProfile
from workers.contracts.nightly import BisectSummary, DigestUpdate, NightlySummary, RegressionUpdate
from workers.contracts.variant import (
    AddedTest,
    Attempt,
    ChangedFile,
    ModelReading,
    PlannedStrategy,
    SourceReading,
    StopReason,
    Variant,
)


class CommitPurpose(StrEnum):
    """Why a commit is made; the service words its message."""

    reference = "reference"
    profile = "profile"
    kernel = "kernel"
    revision = "revision"
    optimization = "optimization"
    modification = "modification"
    port = "port"
    composition = "composition"
    restoration = "restoration"  # back to what stood before
    benchmark_data = "benchmark_data"


@dataclass(frozen=True)
class FileChange:
    """A file as it shall be; ``text`` None removes it. The text is kept byte for byte, line endings too."""

    path: str
    text: str | None
    executable: bool = False


def unreadable(changes: Iterable[FileChange]) -> Failure | None:
    """Why a change may not be committed: the first file that is no text, or is Python without one reading; None where all may."""
    for change in changes:
        if change.text is not None and not _is_text(change.text):
            message = f"`{change.path}` cannot be committed: it holds a half of a surrogate pair, or NUL"
            return Failure(FailureCode.refused, message, "Take the character out, or write it as an escape.")
        if change.text is not None and change.path.endswith((".py", ".pyi")):
            try:
                read_source(change.text, change.path)
            except SourceError as error:
                message = f"`{change.path}` cannot be committed: {error.message}"
                return Failure(FailureCode.refused, message, error.fix, error.line)
    return None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


@dataclass(frozen=True)
class StyleOutcome:
    """The result of the target's own style check."""

    passed: bool
    commands: tuple[str, ...]
    log: str = ""


@dataclass(frozen=True)
class AnalyzeSummary:
    """What a reviewer decides on after analyze."""

    profile: KernelProfile
    problem_source: str
    author: str
    notes: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()  # feedback of the last review, and what was done about it


@dataclass(frozen=True)
class GenerateSummary:
    """What a reviewer decides on after generate."""

    verdict: Verdict  # of the library's form
    changed: tuple[str, ...]  # paths
    author: str
    forward_formula: str
    gradient_formulas: tuple[tuple[str, str], ...]
    answered: tuple[str, ...] = ()  # feedback of the last review, and what was done about it
    notes: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()  # of a model


@dataclass(frozen=True)
class ValidateSummary:
    """The report."""

    style: StyleOutcome
    tests: TestsResult
    verdict: Verdict
    benchmark: BenchmarkResult
    script: TestsResult | None  # the library's own benchmark script, None where no GPU was there
    images: tuple[Image, ...]
    provenance: tuple[tuple[str, str], ...]
    reproduce: str  # one command
    notes: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()  # feedback of the last review, and what was done about it
    attempts: tuple[Attempt, ...] = ()  # of a model
    profile: ProfileResult | None = None  # of the new kernel, with --profile


@dataclass(frozen=True)
class ProfileSummary:
    """What a reviewer decides on after profile."""

    reading: SourceReading
    verdict: Verdict  # of what stands today, against the problem's reference
    benchmark: BenchmarkResult  # of what stands today
    profile: ProfileResult
    strategies: tuple[PlannedStrategy, ...]  # in the order in which they will be tried
    problem_source: str
    goal: Goal
    scope: Scope
    target: str | None = None
    nothing_to_gain: bool = False  # what stands is at the floor already
    notes: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    diagnosis: ModelReading | None = None
    regime: Regime = EVERY_SIZE  # the sizes that are to be improved


@dataclass(frozen=True)
class OptimizeSummary:
    """What a reviewer decides on after optimize: every variant, and the one that would be applied."""

    variants: tuple[Variant, ...]
    winner: str | None  # None: nothing is better than what stands
    stop: StopReason
    goal: Goal
    scope: Scope
    predicted: bool  # no GPU was there: the scores come from the roofline
    gpu: str | None
    images: tuple[Image, ...] = ()
    notes: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()  # feedback of the last review, and what was done about it
    reads_words: bool = False  # whether a model acts on what a review says


@dataclass(frozen=True)
class NewVersion:
    """A variant that stays in the repository as a version of its kernel, next to the others."""

    name: str  # such as flash_mla_v2
    variant: str  # its name in the job, such as v3
    applied: tuple[str, ...]  # each change with its reason; a model's words are untrusted
    created: tuple[str, ...]  # paths
    modified: tuple[str, ...]
    log: str | None  # the page of the development log with its entry


@dataclass(frozen=True)
class FinalizeSummary:
    """The report of an optimize job. ``applied`` False: the original is unchanged, and ``notes`` say why."""

    applied: bool
    winner: Variant | None
    variants: tuple[Variant, ...]
    style: StyleOutcome | None
    tests: TestsResult | None
    verdict: Verdict | None
    benchmark: BenchmarkResult | None  # the winner (as the candidate) beside the original, eager and torch.compile
    script: TestsResult | None
    diff: str
    images: tuple[Image, ...]
    provenance: tuple[tuple[str, str], ...]
    reproduce: str
    stop: StopReason | None = None
    notes: tuple[str, ...] = ()
    versions: tuple[NewVersion, ...] = ()  # the winner last; none where it took the original's place


@dataclass(frozen=True)
class ModifySummary:
    """What a reviewer decides on after modify: a change that passed the verdict and the library's tests."""

    summary: str  # in the model's words, untrusted
    files: tuple[ChangedFile, ...]
    diff: str
    verdict: Verdict  # the full one, of the problem as it shall be
    tests: TestsResult  # the whole test file, with the tests that are added
    added: tuple[AddedTest, ...]
    style: StyleOutcome
    attempts: tuple[Attempt, ...]
    problem_source: str  # as it shall be
    changes_function: bool = False  # the problem is another one than before
    broken_call: str | None = None  # what becomes of the call as it stands today, where it no longer passes
    answered: tuple[str, ...] = ()  # feedback of the last review, and what was done about it
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConfirmSummary:
    """The report of a modify job."""

    change: ModifySummary
    style: StyleOutcome
    tests: TestsResult
    verdict: Verdict
    benchmark: BenchmarkResult  # beside the original, where the call as it stood still holds
    script: TestsResult | None
    images: tuple[Image, ...]
    provenance: tuple[tuple[str, str], ...]
    reproduce: str
    notes: tuple[str, ...] = ()
    profile: ProfileResult | None = None  # of the changed kernel, with --profile


@dataclass(frozen=True)
class UsualRange:
    """Within what one number of a kernel varies from night to night, where no change was found. Shares of its level."""

    timed_pass: str
    workload: str
    metric: str  # time_us or peak_bytes
    gpu: str
    nights: int
    low: float
    high: float
    scatter: float  # standard deviation of a run's log time within a night; 0 where it was not kept


@dataclass(frozen=True)
class PortedName:
    """A public name of the default operator's file, and what became of it; ``note`` names parameters of the repository."""

    name: str
    exported: bool
    note: str


@dataclass(frozen=True)
class KernelTiling:
    """A kernel's tile at one size. ``used_bits`` is the estimate of the device's buffer by which it was chosen."""

    kernel: str
    workload: str
    multiplier: float  # float32 tiles that are alive at once
    rows: int
    columns: int
    programs: int
    used_bits: int
    tiles: int = 0  # that the programs take in turn; 0 where it is not known

    def turns(self, cores: int) -> int:
        """Tiles that one core takes at most, one after the other."""
        return -(-self.tiles // self.programs) * -(-self.programs // cores)

    def filled_share(self, cores: int) -> float:
        """How much of the cores' time has work, where every tile takes as long."""
        return self.tiles / (self.turns(cores) * cores)


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel that the target's compiler took; ``bits`` of its tiles are alive at once, counted in what it was lowered to.

    ``buffered_bits`` are those with a second buffer of each tile that a loop moves, as the compiler keeps it where it fits.
    """

    name: str
    bits: int
    copies: int  # between memory and the buffer, each of a whole tile
    buffered_bits: int = 0
    compares: int = 0  # of tiles of whole numbers, for which a vector core takes its scalar unit


@dataclass(frozen=True)
class Parity:
    """The verdict on one way to call a port; ``largest`` is its largest error, as a share of what is allowed.

    ``dtypes`` are those that it was judged in: one alone where a call before it differs by a divisor.
    """

    name: str
    call: str
    verdict: Verdict
    largest: float | None = None
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DoneItem:
    """An item of a port's definition of done; ``holds`` is None where only a host with the device can say."""

    name: str
    holds: bool | None
    evidence: str


@dataclass(frozen=True)
class PortWork:
    """What a port has to do at one size in bfloat16: bytes that must move, and arithmetic operations."""

    workload: str
    forward_bytes: int
    backward_bytes: int
    forward_operations: int
    backward_operations: int


@dataclass(frozen=True)
class PortSummary:
    """The report of a port, and what a reviewer decides on."""

    target: str
    language: str
    files: tuple[str, ...]  # paths
    api: tuple[PortedName, ...]
    narrowed: tuple[str, ...]  # parameters of which it takes some values alone, with those values
    tilings: tuple[KernelTiling, ...]
    parities: tuple[Parity, ...]
    style: StyleOutcome
    risks: tuple[str, ...]
    problem_source: str
    reproduce: str  # one command
    buffer_bits: int = 0  # of the device's buffer that holds the tiles
    cores: int = 0  # for which programs and turns are counted; 0 where a launcher's grid follows from the sizes alone
    lowered: tuple[LoweredKernel, ...] = ()  # by the target's own compiler; none where it is not installed
    compiled: str = ""  # what a compiler that gives machine code says of all kernels, in a sentence
    origin: str = DEFAULT_OPERATORS  # the implementation whose API it has
    existing: bool = False  # it was there already, and its settings were tuned
    settings: tuple[tuple[str, str], ...] = ()  # that were found faster, by pass and size
    benchmark: BenchmarkResult | None = (
        None  # against the default operator, or against itself as it was; of a tuned one alone
    )
    notes: tuple[str, ...] = ()  # on what was tuned, a sentence each
    done: tuple[DoneItem, ...] = ()  # the definition of done, in its order
    work: tuple[PortWork, ...] = ()  # by size


@dataclass(frozen=True)
class FusedPart:
    """A part of a model. Bytes are of one forward at the first workload: ``saved_bytes`` of all its places, the others of one.
    One that was cut again after it failed has no places.
    """

    name: str
    operators: tuple[str, ...]
    shapes: tuple[str, ...]  # of its inputs, such as "4 x 8 float32"
    places: int
    bytes_apart: int
    floor_bytes: int
    saved_bytes: int
    proved: bool | None = None  # None: not tried yet
    reason: str | None = None  # why it stays with torch after all


@dataclass(frozen=True)
class KeptOperator:
    """An operator that stays with torch, at so many places for one reason."""

    operator: str
    reason: str
    places: int


@dataclass(frozen=True)
class FuseSummary:
    """What a reviewer decides on after extract and after compose, and the report of a fuse job: each adds to the one before."""

    route: tuple[str, ...]  # what the model consists of, a sentence each
    parts: tuple[FusedPart, ...]
    kept: tuple[KeptOperator, ...]
    picture: str  # a mermaid flowchart
    operators: int  # that compute
    moved_bytes: int  # by one forward with each operator a kernel of its own
    problem_source: str
    reproduce: str  # one command
    answered: tuple[str, ...] = ()  # wishes of the last review, and what was done about them
    files: tuple[str, ...] = ()  # paths
    verdict: Verdict | None = None  # on the whole
    style: StyleOutcome | None = None
    tests: TestsResult | None = None
    benchmark: BenchmarkResult | None = None
    compiled: BenchmarkResult | None = None  # of the program under torch.compile, which fuses what is left to torch
    images: tuple[Image, ...] = ()
    provenance: tuple[tuple[str, str], ...] = ()

    @property
    def saved_bytes(self) -> int:
        """What the parts that are not known to stay with torch save."""
        return sum(part.saved_bytes for part in self.parts if part.proved is not False)


@dataclass(frozen=True)
class MeasuredKernel:
    """One kernel of bench or verify: head as the candidate, the base as the original."""

    kernel: str
    path: str
    touched: tuple[str, ...]  # the changed files by which it is touched
    benchmark: BenchmarkResult | None = None
    verdict: Verdict | None = None
    skipped: Failure | None = None  # why it was not measured
    usual: tuple[UsualRange, ...] = ()  # by its own nights on such a GPU, where there are enough


@dataclass(frozen=True)
class MeasureSummary:
    """The results of bench and verify, one for each kernel."""

    kernels: tuple[MeasuredKernel, ...]
    base_sha: str
    head_sha: str
    against: str  # how the base was named, such as "the merge base with main"
    images: tuple[Image, ...] = ()
    provenance: tuple[tuple[str, str], ...] = ()
    reproduce: str = ""
    notes: tuple[str, ...] = ()


Summary = (
    AnalyzeSummary
    | GenerateSummary
    | ValidateSummary
    | ProfileSummary
    | OptimizeSummary
    | FinalizeSummary
    | ModifySummary
    | ConfirmSummary
    | PortSummary
    | FuseSummary
    | MeasureSummary
    | NightlySummary
    | BisectSummary
)


# What a job may end with.
Report = (
    ValidateSummary
    | FinalizeSummary
    | ProfileSummary
    | ConfirmSummary
    | PortSummary
    | FuseSummary
    | MeasureSummary
    | NightlySummary
    | BisectSummary
)


@dataclass(frozen=True)
class StatusUpdate:
    """Create or edit the job's status comment; it is rendered from the job as it is when published."""


@dataclass(frozen=True)
class CommitUpdate:
    """One commit on the job's branch, on top of the job's last commit, or of the base where it is the first."""

    purpose: CommitPurpose
    changes: tuple[FileChange, ...]
    stage: StageName
    attempt: int


@dataclass(frozen=True)
class PullRequestUpdate:
    """Open the draft pull request, or bring its body up to date; of what it may be about, one is there."""

    profile: KernelProfile | None
    problem_source: str
    verdict: Verdict | None = None
    optimization: FinalizeSummary | None = None
    modification: ModifySummary | None = None
    confirmation: ConfirmSummary | None = None  # of the modification, once it is there
    port: PortSummary | None = None
    fusion: FuseSummary | None = None


@dataclass(frozen=True)
class AssetsUpdate:
    """Put images on the orphan branch; the effect's ``url_root`` is where they can be seen, by commit."""

    images: tuple[Image, ...]


@dataclass(frozen=True)
class CheckpointUpdate:
    """Ask for a review: a comment, a review request, and a check run on the commit before it."""

    stage: StageName
    attempt: int
    summary: Summary
    decides: bool = True  # False with --auto: it is told, nobody is asked


@dataclass(frozen=True)
class ReminderUpdate:
    """A comment, once, that a checkpoint still waits; times are UTC, ISO 8601. ``ends`` None: it has no end."""

    stage: StageName
    attempt: int
    since: str
    ends: str | None = None


@dataclass(frozen=True)
class ReadyUpdate:
    """Take the pull request out of draft."""


@dataclass(frozen=True)
class CloseUpdate:
    """Close the draft pull request: the job made nothing worth a merge."""


@dataclass(frozen=True)
class ReportUpdate:
    """The end of a job: done with its report, failed, or cancelled; a new comment, since an edit notifies nobody."""

    summary: Report | None = None
    failure: Failure | None = None
    cancelled_by: str | None = None
    why: str = ""  # it was cancelled, where that is not because a person said so; one sentence, as markdown of ours


Update = (
    StatusUpdate
    | CommitUpdate
    | PullRequestUpdate
    | AssetsUpdate
    | CheckpointUpdate
    | ReminderUpdate
    | ReadyUpdate
    | CloseUpdate
    | RegressionUpdate
    | DigestUpdate
    | ReportUpdate
)


@dataclass(frozen=True)
class Effect:
    """What publishing an update did; None is what does not apply."""

    sha: str | None = None  # the commit
    pull_number: int | None = None
    comment_id: int | None = None
    check_run_id: int | None = None
    url_root: str | None = None  # of assets
    skipped: bool = False  # GitHub refused it, and the job went on without


@dataclass(frozen=True)
class ClaimedUpdate:
    """An update that this publisher holds a lease on. Updates of one job come one after the other, in order.

    ``effects`` are those of the job's earlier updates, oldest first, so that the same thing is found again and not made twice.
    ``tries`` counts claims, also those that ended with a killed process; ``refusals`` and ``outages`` how often publishing it
    was refused or broke, and how often it met an outage or a rate limit.
    """

    update_id: str
    sequence: int
    job: JobView
    update: Update
    tries: int
    effects: tuple[Effect, ...] = ()
    refusals: int = 0
    outages: int = 0
