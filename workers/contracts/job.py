"""A job: what was asked, how far it is, and how a person decides on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gpu_runner.contracts.envelope import FORMERLY


class Verb(StrEnum):
    """What a command can ask for."""

    create = "create"
    optimize = "optimize"
    modify = "modify"
    port = "port"
    fuse = "fuse"
    tune = "tune"
    profile = "profile"
    bench = "bench"
    verify = "verify"
    nightly = "nightly"
    bisect = "bisect"
    triaged = "triaged"
    explain = "explain"
    status = "status"
    cancel = "cancel"
    retry = "retry"
    approve = "approve"
    revise = "revise"
    help = "help"


class StageName(StrEnum):
    """One step of a pipeline."""

    analyze = "analyze"
    generate = "generate"
    validate = "validate"
    profile = "profile"
    optimize = "optimize"
    finalize = "finalize"
    modify = "modify"
    confirm = "confirm"
    port = "port"
    route = "route"
    extract = "extract"
    dispatch = "dispatch"
    compose = "compose"
    measure = "measure"
    nightly = "nightly"
    bisect = "bisect"


class JobState(StrEnum):
    """Where a job is."""

    queued = "queued"
    running = "running"
    waiting = "waiting"  # at a checkpoint, for a person
    done = "done"
    failed = "failed"
    cancelled = "cancelled"


class StageState(StrEnum):
    """Where one attempt of a stage is."""

    pending = "pending"
    running = "running"
    waiting = "waiting"
    done = "done"
    revised = "revised"  # a review asked for changes, a later attempt follows
    failed = "failed"
    cancelled = "cancelled"


NOTIFIED_LOSSES = 3  # hosts lost over one piece of work, from which on people and operators are told of it


class AuthorName(StrEnum):
    """Who proposes candidates."""

    auto = "auto"  # the compiler, and a model where it refuses or can be beaten
    compiler = "compiler"
    llm = "llm"


class Choose(StrEnum):
    """Which of a model's proved candidates is taken."""

    first = "first"  # of those answered by then, in the order in which they were asked for; the others are ended
    best = "best"  # the fastest of all


class Goal(StrEnum):
    """What an optimize job is to improve."""

    speed = "speed"
    memory = "memory"
    balanced = "balanced"


class Scope(StrEnum):
    """Which pass an optimize job is to improve."""

    general = "general"
    forward = "forward"
    backward = "backward"


class MeasuredPart(StrEnum):
    """A part of the sizes that are measured: those that ask least of the GPU, or most."""

    small = "small"
    large = "large"


@dataclass(frozen=True)
class Regime:
    """The sizes that an optimize job is to improve: a part of them, or those at which dimensions have these values."""

    part: MeasuredPart | None = None
    sizes: tuple[tuple[str, int], ...] = ()


EVERY_SIZE = Regime()


class ProblemKind(StrEnum):
    """The form in which a person gave the problem."""

    block = "block"  # a fenced Python block
    path = "path"  # a file of the repository, perhaps with a symbol
    permalink = "permalink"  # a link to lines of a file on the same host; ``text`` holds what stood there
    words = "words"
    missing = "missing"


class FailureCode(StrEnum):
    """Why a job cannot go on."""

    problem = "problem"
    exists = "exists"
    name = "name"
    layout = "layout"
    refused = "refused"
    verdict = "verdict"
    style = "style"
    tests = "tests"
    environment = "environment"
    budget = "budget"  # what models may use is used up
    model = "model"  # no language model is configured, or none answers
    moved = "moved"
    attempts = "attempts"
    missing = "missing"  # a file that the job needs is not in the repository
    forbidden = "forbidden"
    internal = "internal"


class UserFacingError(Exception):
    """The only error whose text reaches GitHub: what is wrong, and the fix."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True)
class Failure:
    """Why something cannot go on, in words a maintainer can act on. ``log`` is untrusted text."""

    code: FailureCode
    message: str
    fix: str | None = field(default=None, metadata={FORMERLY: "cure"})
    line: int | None = None
    log: str | None = None
    attempts: tuple[str, ...] = ()  # what was tried, a sentence each


@dataclass(frozen=True)
class Origin:
    """Where a command was given. ``repository`` is ``owner/name``; ``number`` of the issue or pull request."""

    repository: str
    number: int
    author: str
    comment_id: int | None = None  # None: the body of the issue or pull request
    is_pull: bool = False
    url: str = ""
    installation_id: int | None = None


@dataclass(frozen=True)
class ProblemText:
    """How the problem was given; ``path`` and ``symbol`` with ``path``, ``url`` with ``permalink``."""

    kind: ProblemKind
    text: str = ""
    path: str | None = None
    symbol: str | None = None
    url: str | None = None


DEFAULT_OPERATORS = "default"  # the implementation that a library has besides those for other devices and languages


@dataclass(frozen=True)
class JobOptions:
    """The options of a command, with the repository's configuration already applied."""

    author: AuthorName = AuthorName.auto
    layout: str | None = None  # None: detected from the repository
    auto: bool = False  # skip checkpoints
    gpu: str | None = None  # architecture such as sm_90; None: whatever is there
    goal: Goal = Goal.balanced
    scope: Scope = Scope.general
    variants: int = 8  # at most, besides v0
    target: str | None = None  # such as "forward < 0.3 ms @ H=4096"; see workers.contracts.target
    against: str | None = None  # bench: the branch, tag or commit to compare with; None: the merge base
    candidates: int = 3  # that a model is asked for at once
    repairs: int = 3  # rounds in which a model sees what failed, at most
    choose: Choose = Choose.first
    conventional_commits: bool = False  # the repository wants its commits and pull requests named so
    regime: Regime = EVERY_SIZE  # the sizes that optimize is to improve; by default all
    timed_sizes: tuple[str, ...] = ()  # bench: the labels of the sizes to time; by default all
    budget_minutes: int = 120  # nightly: of GPU time
    profile: bool = False  # create, modify: profile the new kernel once it is proved
    to: str | None = None  # create, port: the target; None: a GPU in Triton, for port the first of the table
    ported_from: str = DEFAULT_OPERATORS  # port: the implementation whose API the port has
    tuned: bool = False  # port: tune the settings of the port, or of one that is there already, and time it


@dataclass(frozen=True)
class RangeCommit:
    """A commit of a range that is searched. ``title`` is its message's first line, untrusted; ``merges`` is its second parent."""

    sha: str
    snapshot: str  # digest of a tarball of the repository at this commit, in the artifact store
    title: str = ""
    merges: str | None = None


@dataclass(frozen=True)
class JobRequest:
    """One command, accepted. ``key`` makes it unique: the same command delivered twice is one job."""

    key: str
    verb: Verb
    kernel: str
    origin: Origin
    base_ref: str  # the branch that the pull request goes to
    base_sha: str
    snapshot: str  # digest of a tarball of the repository at base_sha, in the artifact store
    problem: ProblemText
    options: JobOptions = JobOptions()
    kernels: tuple[str, ...] = ()  # bench and verify: those that were named; empty: the ones that the change touches
    head_sha: str | None = None  # bench and verify: what is compared with base_sha, and its snapshot
    head_snapshot: str | None = None
    words: str = ""  # modify: what to change, as a person wrote it
    read_only: bool = False  # it starts from a fork's branch: nothing is pushed, and the result is told as a patch
    commits: tuple[RangeCommit, ...] = ()  # bisect: the range with both its ends, oldest first


@dataclass(frozen=True)
class Estimate:
    """What a job may take at most; proofs and tests come on top of the GPU's minutes. A price of None is not known.

    ``missing`` is what the job would end on, or wait for, as things are. ``has_gpu``: whether a host that answered lately has a
    GPU; None where none answered.
    """

    gpu_minutes: float
    gpu_dollars: float | None = None
    model_tokens: int = 0  # 0: no model is asked
    model_dollars: float | None = None
    missing: tuple[Failure, ...] = ()
    has_gpu: bool | None = None


@dataclass(frozen=True)
class Submission:
    """The job of a command; ``created`` is False where it was known already."""

    job_id: str
    created: bool


@dataclass(frozen=True)
class LineComment:
    """A review comment on a line of a file."""

    path: str
    line: int | None
    body: str


class Decision(StrEnum):
    """What a person decided at a checkpoint."""

    approve = "approve"
    revise = "revise"


class DecisionOutcome(StrEnum):
    """What became of a decision."""

    accepted = "accepted"
    duplicate = "duplicate"  # it was made already; nothing happens a second time
    stale = "stale"  # for another commit than the checkpoint's
    nothing_waits = "nothing_waits"
    attempts_used = "attempts_used"


@dataclass(frozen=True)
class DecisionResult:
    """The outcome, and the commit that the checkpoint names."""

    outcome: DecisionOutcome
    job_id: str | None = None
    stage: StageName | None = None
    sha: str | None = None


@dataclass(frozen=True)
class StageView:
    """One attempt of a stage, as a page or a comment shows it. Times are UTC, ISO 8601."""

    stage: StageName
    attempt: int
    state: StageState
    note: str = ""  # what runs now, such as "proving on 24 workloads"
    started_at: str | None = None
    ended_at: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class CheckpointView:
    """A checkpoint that waits, or was decided. ``sha`` is None until the commit was published."""

    stage: StageName
    attempt: int
    sha: str | None
    decision: Decision | None = None
    decided_by: str | None = None


@dataclass(frozen=True)
class ArtifactView:
    """A named file of a job; ``digest`` finds it in the artifact store."""

    name: str
    digest: str
    media_type: str
    size_bytes: int


@dataclass(frozen=True)
class Image:
    """A picture for the conversation; ``alt`` is its text form."""

    name: str
    digest: str
    alt: str


@dataclass(frozen=True)
class TimelineEvent:
    """Something that happened to a job."""

    at: str
    kind: (
        str  # submitted, stage_started, gpu_requested, gpu_finished, update_published, checkpoint, decided, failed, ...
    )
    text: str


@dataclass(frozen=True)
class JobView:
    """All that is shown of a job."""

    job_id: str
    request: JobRequest
    state: JobState
    pipeline: tuple[StageName, ...]
    stages: tuple[StageView, ...]  # every attempt, in order
    created_at: str
    updated_at: str
    branch: str
    head_sha: str | None = None  # the last commit that the bot made
    pull_number: int | None = None
    checkpoint: CheckpointView | None = None
    failure: Failure | None = None
    queue_position: int | None = None
    expected_wait_s: float | None = None
    no_host_since: str | None = None  # since when it waits although no GPU host is at work that could take it
    host_lost: bool = False  # it waits because the host that was at work on it was lost
    host_trouble: str | None = None  # a host that could work on it, and why it cannot as it is
    artifacts_removed: bool = False  # it ended long ago; only on a fresh snapshot could it go on
    losses: int = 0  # hosts that were lost over what it is at
    artifacts: tuple[ArtifactView, ...] = ()
    timeline: tuple[TimelineEvent, ...] = ()
