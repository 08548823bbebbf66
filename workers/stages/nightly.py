"""Nightly: every kernel of a commit measured, its numbers kept, and what differs compared with the last good commit at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from gpu_runner.contracts import (
    BenchmarkResult,
    CandidateSource,
    Pass,
    Problem,
    SourceFile,
    Status,
    Verdict,
    Word,
    WorkloadTiming,
    from_json,
    to_json,
)
from workers.contracts import (
    AssetsUpdate,
    DigestUpdate,
    Failure,
    FailureCode,
    Image,
    NightChange,
    NightKernel,
    NightlySummary,
    RegressionUpdate,
    ReportUpdate,
    StageName,
    UserFacingError,
    regression_key,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.protocol import ExistingKernel
from workers.nightly.detection import (
    FLOOR,
    WRONG,
    Candidate,
    Change,
    NightEvidence,
    SeriesState,
    compared,
    improvement,
    look,
    values_accepted,
)
from workers.nightly.library_csv import NoLibraryCsvError, read_library_csv
from workers.nightly.planning import Plan, Retention, plan, week_start
from workers.nightly.series import (
    CANDIDATE,
    KERNEL,
    ORIGINAL,
    Metric,
    Point,
    PointSource,
    SeriesKey,
    Testbed,
    host_testbed,
    points_of,
)
from workers.reports.plots import draw_series
from workers.reports.provenance import provenance
from workers.stages.bench import Bench, keep_json, known_problem, open_bench
from workers.stages.gate import NO_GPU, ORIGINAL_ALONE, SNAPSHOT_FILE, Gate, timing_budget_s
from workers.stages.problem import parse
from workers.store import gpu_work, history, retention, updates
from workers.store.blobs import BlobError
from workers.tree import Tree, read_tarball

HEAD_FILE, GOOD_FILE = "head.tar.gz", "good.tar.gz"
ALL_WORKLOADS = "all"
MEASURED_NEXT = "Nothing to do: the next night measures it, on the new testbed."
BETWEEN_NIGHTS_S = 2.0  # at least; the numbers of the commit before on a new testbed are dated a second before a night
NOT_WRONG = (Status.passed, Status.unproved)
UNPROVED = 0  # samples of a number that says "nothing wrong was found" of what cannot be proved
SEEN_S = 7 * 86_400.0  # a host that answered nothing for so long takes no part in a night


@dataclass
class Night:
    """What one run of the stage works with. The gate counts what GPU hosts needed, the same in every run of it."""

    bench: Bench
    gate: Gate
    begun_at: float
    testbed: Testbed = field(default_factory=lambda: Testbed(""))
    host: tuple[tuple[str, str], ...] = ()
    measured: BenchmarkResult | None = None  # the last one, for the provenance

    @property
    def repository(self) -> str:
        """The repository's name."""
        return self.context.request.origin.repository

    @property
    def revision(self) -> str:
        """The commit that is measured."""
        return self.context.request.base_sha

    @property
    def context(self) -> StageContext:
        """The job's context."""
        return self.bench.context

    @property
    def spent_s(self) -> float:
        """The seconds that GPU hosts worked for this night."""
        return sum(self.gate.seconds.values())


class Nightly:
    """The one stage of ``nightly``."""

    name = StageName.nightly

    def run(self, context: StageContext) -> StageResult:
        """Measure what the budget has room for, keep it, and compare what changed."""
        gate = Gate(context, {HEAD_FILE: context.request.snapshot})
        night = Night(open_bench(context), gate, float(context.memo("begun_at", lambda: _begin(context))))
        budget_s = context.request.options.budget_minutes * 60.0
        kernels_asked = context.memo("kernels", lambda: _kernels(night))  # before a GPU host is waited for
        before = _open(night)
        planned = _planned(night, kernels_asked)
        context.history(
            lambda s: history.add_commit(s, night.repository, night.revision, context.request.snapshot, night.begun_at)
        )
        kernels: list[NightKernel] = []
        changes: list[NightChange] = []
        news: list[RegressionUpdate] = []
        improved: list[NightChange] = []
        for kernel, moved, better, told in _Fleet(night, planned, budget_s).measure():
            kernels.append(kernel)
            changes += moved
            improved += better
            news += told
        news = _with_untold(night, news + _gone(night))
        measured = {kernel.kernel for kernel in kernels}
        context.memo("forgotten", lambda: context.history(partial(_forget, night.begun_at)))
        summary = NightlySummary(
            tuple(kernels),
            tuple(changes),
            night.revision,
            night.testbed.gpu,
            planned.plan.known,
            tuple(name for name in planned.plan.order if name not in measured),
            budget_s,
            night.spent_s,
            () if before is None else night.testbed.changes(before),
            tuple(improved),
            provenance(
                context.request, night.measured or BenchmarkResult((), False, night.testbed.gpu, None, night.host)
            ),
            tuple(context.memo("standing", lambda: list(_standing(night)))),
            planned.came,
            planned.gone,
        )
        images = tuple(image for update in news for image in update.images)
        assets = (AssetsUpdate(images),) if images else ()
        digest = () if planned.week is None or not improved else (_digest(night, planned.week, improved),)
        keep_json(context, "report.json", summary)
        return StageResult(
            {"summary": to_json(summary)}, (*assets, *news, *digest, ReportUpdate(summary)), checkpoint=False
        )


def _begin(context: StageContext) -> float:
    """Now, but behind the night before: where a clock is put back, nights stay in the order of the commits."""
    request = context.request
    last = context.history(lambda s: history.last_night(s, request.origin.repository, request.base_sha))
    return context.now() if last is None else max(context.now(), last + BETWEEN_NIGHTS_S)


def _forget(begun_at: float, session: Session) -> int:
    return history.forget(session, Retention(), retention.counted_to(session, begun_at))


def _news(night: Night, kernel: NightKernel, changes: Sequence[NightChange]) -> list[RegressionUpdate]:
    """What the issue of a kernel has not been told before: what was confirmed in this night, and what has recovered."""
    news = tuple(
        change
        for change in changes
        if change.state == SeriesState.recovered
        or (change.state == SeriesState.confirmed and change.evidence != NightEvidence.recovery)
    )
    if not news:
        return []
    gpu, images = night.testbed.gpu, _drawn(night, kernel.kernel, news)
    left = _left(night, kernel.kernel)
    update = RegressionUpdate(kernel.kernel, gpu, night.revision, news, bool(left), kernel.wrong, images)
    return [replace(update, standing=left)]


def _left(night: Night, kernel: str) -> tuple[str, ...]:
    """The metrics of a kernel's changes that stand."""
    repository, gpu = night.repository, night.testbed.gpu

    def read() -> Any:
        return night.context.history(lambda s: list(history.standing_metrics(s, repository, kernel, gpu)))

    return tuple(night.context.memo(f"{kernel}-left", read))


def _standing(night: Night) -> tuple[str, ...]:
    return night.context.history(lambda s: history.standing(s, night.repository, night.testbed.gpu))


def _gone(night: Night) -> list[RegressionUpdate]:
    """Accept what stands of kernels that are no longer there: it can recover no more, and their issues are closed."""
    if night.context.request.kernels:
        return []
    there, gpu = night.bench.layout.existing(night.bench.tree), night.testbed.gpu
    names = night.context.memo("gone", lambda: [name for name in _standing(night) if name not in there])
    for name in names:
        key, reason = regression_key(name, gpu), f"no longer there at {night.revision[:12]}"
        night.context.history(
            lambda s, key=key, reason=reason: history.triage(  # type: ignore[misc]
                s, night.repository, key, reason, night.begun_at
            )
        )
    return [RegressionUpdate(name, gpu, night.revision, (), stands=False, gone=True) for name in names]


def _with_untold(night: Night, news: list[RegressionUpdate]) -> list[RegressionUpdate]:
    """News, and what issues were not told before, such as where the repository had none, as far as it still stands."""
    context, gpu = night.context, night.testbed.gpu
    forms = context.memo("untold", lambda: context.history(lambda s: updates.untold(s, night.repository)))
    before = {form["kernel"]: from_json(RegressionUpdate, form) for form in forms if form["gpu"] == gpu}
    told = [_joined(update, before.pop(update.kernel, None)) for update in news]
    stands = context.memo("stands", lambda: list(_standing(night))) if before else ()
    again = [update for update in before.values() if update.stands == (update.kernel in stands)]
    return told + [
        replace(
            update,
            images=_drawn(night, update.kernel, update.changes),
            standing=_left(night, update.kernel),
        )
        for update in again
    ]


def _joined(news: RegressionUpdate, before: RegressionUpdate | None) -> RegressionUpdate:
    """News, with the changes of earlier ones that were not told."""
    if before is None or not news.stands:
        return news
    seen = {(one.timed_pass, one.workload, one.metric) for one in news.changes}
    left = tuple(
        one
        for one in before.changes
        if one.state == SeriesState.confirmed and (one.timed_pass, one.workload, one.metric) not in seen
    )
    wrong = before.wrong if any(one.metric == Metric.wrong_values for one in left) else None
    return replace(news, changes=news.changes + left, wrong=news.wrong or wrong)


def _drawn(night: Night, kernel: str, news: Sequence[NightChange]) -> tuple[Image, ...]:
    """The series of the change that is the largest, with its nights; none where nothing became slower or larger here."""
    timed = [one for one in news if one.state == SeriesState.confirmed and one.metric != Metric.wrong_values]
    if not timed:
        return ()
    worst = max(timed, key=lambda one: one.ratio)
    metric, repository = Metric(worst.metric), night.repository
    key = SeriesKey(repository, kernel, KERNEL, worst.timed_pass, worst.workload, metric, night.testbed)

    def draw() -> Any:
        series = night.context.history(lambda s: dict(history.read(s, repository, kernel, night.testbed)))
        nights = [point for point in series.get(key, ()) if point.source is PointSource.night]
        if not nights:
            return None
        unit = "peak memory, bytes" if metric is Metric.peak_bytes else "time, microseconds"
        what = f"{kernel}: {unit}, {worst.timed_pass}, {worst.workload}"
        return to_json(draw_series(night.context, f"{kernel}-history.png", what, nights, worst.bad))

    drawn = night.context.memo(f"{kernel}-history", draw)
    return () if drawn is None else (from_json(Image, drawn),)


def _digest(night: Night, week: float, improved: Sequence[NightChange]) -> DigestUpdate:
    return DigestUpdate(night.testbed.gpu, night.revision, week, tuple(improved))


def _open(night: Night) -> Testbed | None:
    """Ask the host what it is, and give the testbed of the night before on such a GPU.

    Raises:
        UserFacingError: it has no GPU.
    """
    report, host = night.gate.host()
    if report.gpu is None:
        raise UserFacingError(NO_GPU)
    night.host, night.testbed = host, host_testbed(report.gpu, dict(host))
    context, repository, gpu = night.context, night.repository, report.gpu
    known = context.memo("testbed", lambda: _form(context.history(lambda s: history.last_testbed(s, repository, gpu))))
    return None if known is None else Testbed(**known)


def _form(testbed: Testbed | None) -> dict[str, str] | None:
    return None if testbed is None else dict(vars(testbed))


@dataclass(frozen=True)
class Planned:
    """A night's plan, and what was known when it began: the commit measured last, and this testbed's kernels."""

    plan: Plan
    last: str | None
    measured: tuple[str, ...]
    changed: tuple[str, ...]  # since they were measured on this testbed, or never measured on it
    places: dict[str, str] = field(default_factory=dict)  # the GPU that a kernel was measured on last, by its UUID
    revisions: dict[str, str] = field(
        default_factory=dict
    )  # the other commit at which it was measured last on this model
    gpus: tuple[str, ...] = ()  # others of the model whose hosts were at work in the last days
    week: float | None = None  # when the week began that this night is the first after; None: it is not
    came: tuple[str, ...] = ()  # kernels that the last commit had not, and those that it had
    gone: tuple[str, ...] = ()


def _kernels(night: Night) -> list[str]:
    """The kernels that were named, else all that the library has.

    Raises:
        UserFacingError: one that was named is not there.
    """
    layout, tree = night.bench.layout, night.bench.tree
    return [layout.locate(name, tree).name for name in night.context.request.kernels] or list(layout.existing(tree))


def _planned(night: Night, kernels: Sequence[str]) -> Planned:
    form = night.context.memo("plan", lambda: _plan(night, kernels))
    # A night that an older version began has no places, and the snapshot next to the last commit.
    last = form["last"] if isinstance(form["last"], str | None) else str(form["last"][0])
    return Planned(
        Plan(tuple(form["order"]), tuple(form["known"])),
        last,
        tuple(form["measured"]),
        tuple(form["changed"]),
        form.get("places", {}),
        form.get("revisions", {}),
        tuple(form.get("gpus", ())),
        form["week"],
        tuple(form.get("came", ())),
        tuple(form.get("gone", ())),
    )


def _plan(night: Night, kernels: Sequence[str]) -> dict[str, Any]:
    context, repository = night.context, night.repository
    gpu = night.testbed
    here = context.history(lambda s: history.last_measured(s, repository, gpu))
    seen = context.history(lambda s: gpu_work.gpu_uuids(s, gpu.gpu, night.begun_at - SEEN_S))
    others = [gpu_uuid for gpu_uuid in seen if gpu_uuid != gpu.gpu_uuid]
    placed = context.history(lambda s: history.last_places(s, repository, gpu.gpu))
    measured = here | {name: place[1:] for name, place in placed.items() if place[0] in others}
    last = context.history(lambda s: history.last_commit(s, repository, night.revision))
    changed = {name for name in kernels if name not in measured}
    # Each kernel is held against the commit at which it was measured itself: the last night's budget may have ended before it.
    for revision in {revision for revision, _ in measured.values() if revision != night.revision}:
        snapshot = context.history(lambda s, revision=revision: history.snapshot_of(s, repository, revision))  # type: ignore[misc]
        old = None if snapshot is None else _tree(context, snapshot)
        touched = kernels if old is None else night.bench.layout.touched(old, night.bench.tree)
        changed |= {name for name in touched if name in measured and measured[name][0] == revision}
    known = context.history(lambda s: history.kernels_at(s, repository, gpu, night.revision))
    made = plan(kernels, changed, measured, night.revision, known)
    before = context.history(lambda s: history.last_night(s, repository, night.revision))
    week = None if before is None or week_start(before) == week_start(night.begun_at) else week_start(before)
    old = None if last is None or context.request.kernels else _tree(context, last[1])
    then = set(() if old is None else night.bench.layout.existing(old))
    now = set(() if old is None else night.bench.layout.existing(night.bench.tree))
    return {
        "order": made.order,
        "known": made.known,
        "last": None if last is None else last[0],
        "places": {name: place[0] for name, place in placed.items()},
        "revisions": {name: place[1] for name, place in placed.items() if place[1] != night.revision},
        "gpus": others,
        "measured": tuple(here),
        "changed": sorted(changed),
        "week": week,
        "came": sorted(now - then),
        "gone": sorted(then - now),
    }


# A kernel as it was measured, what changed, what became faster since a week began, and what its issue is told.
Measured = tuple[NightKernel, list[NightChange], list[NightChange], list[RegressionUpdate]]


@dataclass
class _Fleet:
    """The GPUs of one model that share a night: a kernel goes to the one that has its series, any other to an idle one.

    Each has one kernel at a time. Which kernel was begun where is kept, so that every run of the stage begins the same ones.
    """

    night: Night
    planned: Planned
    budget_s: float
    testbeds: dict[str, Testbed] = field(default_factory=dict)  # by UUID, of the hosts that have answered
    silent: set[str] = field(default_factory=set)  # GPUs whose hosts have not answered yet
    at_work: dict[str, str] = field(default_factory=dict)  # kernel to UUID

    def measure(self) -> Iterator[Measured]:
        """Each kernel that the budget has room for; where every GPU is at work, the stage waits for the first to be done."""
        context, order = self.night.context, self.planned.plan.order
        self.testbeds[self.night.testbed.gpu_uuid] = self.night.testbed
        for gpu_uuid in self.planned.gpus:
            self._probe(gpu_uuid)
        begun: list[str] = []
        while True:
            place = self._next([name for name in order if name not in begun], len(begun))
            if place is not None:
                begun.append(place[0])
                context.note(f"measuring {place[0]}, {len(begun)} of {len(order)}")
                measured = (
                    context.meanwhile(place[0], partial(self._one, *place)) if self._shares else self._one(*place)
                )
            elif self.at_work:
                place = next(iter(self.at_work.items()))
                measured = self._one(*place)
            else:
                return
            if measured is None:
                self.at_work[place[0]] = place[1]
            else:
                self.at_work.pop(place[0], None)
                yield measured

    @property
    def _shares(self) -> bool:
        return len(self.testbeds) + len(self.silent) > 1

    def _probe(self, gpu_uuid: str) -> None:
        """Ask a GPU's host what it is: one that has another GPU by now takes no part, one that is busy may answer later."""
        gate = replace(self.night.gate, gpu_uuid=gpu_uuid)
        try:
            found = self.night.context.meanwhile(f"host-{gpu_uuid}", gate.host)
        except UserFacingError:
            return
        if found is None:
            self.silent.add(gpu_uuid)
            return
        report, host = found
        testbed = host_testbed(report.gpu or "", dict(host))
        if (testbed.gpu, testbed.gpu_uuid) == (self.night.testbed.gpu, gpu_uuid):
            self.testbeds[gpu_uuid] = testbed

    def _next(self, left: Sequence[str], number: int) -> tuple[str, str] | None:
        """The kernel to begin now and its GPU; None where all GPUs are at work, nothing is left, or the budget has no room."""
        choice = self._choice(left)
        if choice is None:
            return None
        has_room = self.night.spent_s < self.budget_s
        kept = self.night.context.memo(f"begun-{number}", lambda: choice if has_room else None)
        return None if kept is None else (kept[0], kept[1])

    def _choice(self, left: Sequence[str]) -> tuple[str, str] | None:
        places = self.planned.places
        free = [gpu_uuid for gpu_uuid in self.testbeds if gpu_uuid not in self.at_work.values()]
        for name in left if free else ():
            home = places.get(name)
            if home in free:
                return name, home
            if home not in self.testbeds and home not in self.silent:
                return name, min(free, key=lambda one: sum(places.get(other) == one for other in left))
        # Their hosts are busy with something else, or gone: one kernel after the other goes on elsewhere, as on a new testbed.
        return None if self.at_work or not left else (left[0], free[0])

    def _one(self, name: str, gpu_uuid: str) -> Measured:
        night, planned = self.night, self.planned
        if self._shares:
            night = replace(night, testbed=self.testbeds[gpu_uuid], gate=replace(night.gate, gpu_uuid=gpu_uuid))
        if gpu_uuid != self.night.testbed.gpu_uuid:
            here = night.context.memo(
                f"measured-{gpu_uuid}",
                lambda: list(
                    night.context.history(lambda s: history.last_measured(s, night.repository, night.testbed))
                ),
            )
            planned = replace(planned, measured=tuple(here))
        kernel, moved, better = _one(night, name, planned)
        self.night.measured = night.measured or self.night.measured
        return kernel, moved, better, _news(night, kernel, moved)


def _tree(context: StageContext, digest: str) -> Tree | None:
    """An earlier commit's tree; None where its snapshot is no longer kept."""
    try:
        return read_tarball(context.load(digest))
    except BlobError:
        return None


def _one(night: Night, name: str, planned: Planned) -> tuple[NightKernel, list[NightChange], list[NightChange]]:
    """A kernel as it was measured, what changed, and in the first night of a week what became faster."""
    path = night.bench.layout.existing(night.bench.tree).get(name, name)
    existing = None
    try:
        existing = night.bench.layout.locate(name, night.bench.tree)
        problem = parse(known_problem(night.context.request.problem, existing, night.bench.tree, night.bench.layout))
        form = night.bench.layout.form_of(existing, problem, (), HEAD_FILE)
        # On a testbed that is new to a kernel the commit at which it was measured last takes turns with this one, so that the
        # new series has a past.
        last = None if name in planned.measured else planned.revisions.get(name, planned.last)
        kernel = _Kernel(night, name, existing, problem, form)
        measured, changes = kernel.measure(last, changed=name in planned.changed)
        return measured, changes, [] if planned.week is None or measured.wrong else kernel.improved(planned.week)
    except UserFacingError as error:
        if error.failure.code is FailureCode.problem and existing is not None and existing.script is not None:
            return _by_script(night, existing), [], []
        return NightKernel(name, path, skipped=error.failure), [], []


def _by_script(night: Night, existing: ExistingKernel) -> NightKernel:
    """Time a kernel whose problem is not known by the library's own script: its rows are kept, nothing is proved."""
    layout, tree, context = night.bench.layout, night.bench.tree, night.context
    try:
        gate = replace(night.gate, files={SNAPSHOT_FILE: context.request.snapshot})
        result = gate.tests(f"{existing.name}-script", layout.script_of(existing, tree), lasting=True)
    except UserFacingError as error:
        return NightKernel(existing.name, existing.path, skipped=error.failure)
    numbers = [one for file in result.collected for one in _rows_of_script(night, existing, file, tree.read(file.path))]
    if not result.passed or not numbers:
        said = result.summary if not result.passed else "it wrote no row of this kernel"
        failure = Failure(
            FailureCode.tests, f"the library's own benchmark script reported no number: {said}", log=result.log
        )
        return NightKernel(existing.name, existing.path, skipped=failure)
    context.history(lambda session: history.add(session, numbers))
    return NightKernel(existing.name, existing.path, len(numbers), by_script=True)


def _rows_of_script(
    night: Night, existing: ExistingKernel, file: SourceFile, before: str | None
) -> Iterator[tuple[SeriesKey, Point]]:
    """The rows that a script wrote into the library's CSV, as numbers of this night on its testbed."""
    header, *lines = file.text.splitlines(keepends=True) or [""]
    known = set((before or "").splitlines(keepends=True))
    try:
        rows = read_library_csv("".join([header, *(line for line in lines if line not in known)]), night.repository)
    except NoLibraryCsvError:
        return
    for key, point in rows.numbers:
        if key.kernel == existing.name and key.provider == KERNEL:
            tonight = replace(point, revision=night.revision, measured_at=night.begun_at, source=PointSource.night)
            yield replace(key, testbed=night.testbed), tonight


Look = Callable[[SeriesKey, Sequence[Point], Sequence[Change]], Candidate | None]


@dataclass(frozen=True)
class _Right:
    """A commit at which nothing wrong was found in a kernel's values, with its snapshot and the kernel there."""

    revision: str
    snapshot: str
    form: CandidateSource
    is_proved: bool


@dataclass
class _Kernel:
    """One kernel at the commit of this night."""

    night: Night
    name: str
    existing: ExistingKernel
    problem: Problem
    form: CandidateSource

    def measure(self, last: str | None, *, changed: bool) -> tuple[NightKernel, list[NightChange]]:
        """Prove and time the kernel, keep its numbers, and compare what changed."""
        night = self.night
        right = self._right()
        verdict = self.verdict(
            f"{self.name}-verify", self.form, None if right is None else (right.form, right.snapshot)
        )
        wrong = verdict.status in WRONG
        accepted = wrong and self._accepted()
        numbers = list(self._values(verdict.status, None if accepted else right))
        if not wrong or accepted:
            numbers += self._times(last)
        night.context.history(lambda session: history.add(session, numbers))
        first = next(iter(verdict.evidence), None)
        said = None if first is None else f"{first.message} ({first.workload})" if first.workload else first.message
        measured = NightKernel(self.name, self.existing.path, len(numbers))
        if accepted:
            measured = replace(measured, unproved=f"wrong, which was accepted: {said or verdict.status.value}")
        elif wrong:
            measured = replace(measured, wrong=said or "values are wrong")
        elif verdict.status is not Status.passed:
            measured = replace(measured, unproved=said or verdict.status.value)
        return measured, self._changes(changed)

    def _values(self, status: Status, right: _Right | None) -> Sequence[tuple[SeriesKey, Point]]:
        """Whether values are wrong, tonight and, where that is asked for here, at the commit where nothing wrong was found last.

        What cannot be proved counts as not wrong where that commit was not proved either, or where there is none: it is what
        later nights are held against. What a verdict such as a timeout does not decide is no number.
        """
        night, numbers = self.night, []

        def keep(revision: str, at: float, found: Status) -> None:
            samples = UNPROVED if found is Status.unproved else None
            numbers.append((self._values_key, Point(revision, at, float(found in WRONG), samples=samples)))

        before: Status | None = None
        if right is not None and self._asks_before(status, right.revision):
            before = self.verdict(f"{self.name}-verify-before", right.form, (right.form, right.snapshot)).status
            if before in WRONG or before in NOT_WRONG:
                keep(right.revision, night.begun_at - 1.0, before)
        as_before = right is None or not right.is_proved or before is Status.unproved
        if status is Status.passed or status in WRONG or (status is Status.unproved and as_before):
            keep(night.revision, night.begun_at, status)
        return numbers

    def _asks_before(self, status: Status, right: str) -> bool:
        """Whether a verdict on the last right commit says more: this testbed has no right number, or its last one is wrong."""
        if status is not Status.unproved and status not in WRONG:
            return False

        def read(session: Any) -> list[bool]:
            series = dict(history.read(session, self.night.repository, self.name, self.night.testbed))
            points = series.get(self._values_key, ())
            known = any(point.value == 0 or point.revision == right for point in points)
            return [known, bool(points) and points[-1].value > 0]

        known, is_wrong = self.night.context.memo(f"{self.name}-values-here", lambda: self.night.context.history(read))
        return not known or (status is Status.unproved and is_wrong)

    @property
    def _values_key(self) -> SeriesKey:
        night = self.night
        return SeriesKey(
            night.repository,
            self.name,
            KERNEL,
            Pass.full.value,
            ALL_WORKLOADS,
            Metric.wrong_values,
            night.testbed,
        )

    def _accepted(self) -> bool:
        """Whether a person has accepted, on this GPU model with whatever driver, that the values are wrong."""
        night = self.night

        def read(session: Any) -> bool:
            points: list[Point] = []
            changes: list[Change] = []
            for key, numbers, known in history.own_series(session, night.repository, self.name):
                if key.metric is Metric.wrong_values and key.testbed.gpu == night.testbed.gpu:
                    points += numbers
                    changes += known
            return values_accepted(sorted(points, key=lambda point: point.measured_at), changes)

        return bool(night.context.memo(f"{self.name}-accepted", lambda: night.context.history(read)))

    def verdict(self, key: str, form: CandidateSource, good: tuple[CandidateSource, str] | None) -> Verdict:
        """Prove a kernel's values, next to those of a commit where they are right, which is given with its snapshot.

        What that one does, such as overwriting an input, this one may do. A kernel that is judged next to itself is refused
        only where it is wrong by far, and nothing says then whether it or its problem is wrong.
        """
        original, snapshot = (form, None) if good is None else good
        return self.night.gate.verify(key, self.problem, form, original=original, more=_next_to(snapshot))

    def _right(self) -> _Right | None:
        """The commit at which nothing wrong was found in the kernel's values last.

        None where that is unknown, or the kernel has another call there.
        """
        night = self.night
        found = night.context.memo(
            f"{self.name}-proved-at",
            lambda: night.context.history(lambda s: history.last_right(s, night.repository, self.name, night.revision)),
        )
        if found is None:
            return None
        revision, snapshot, *more = found  # a night that an older version began has no more
        form = self.form_at(snapshot)
        return None if form is None else _Right(revision, snapshot, form, more != [UNPROVED])

    def _times(self, last: str | None) -> list[tuple[SeriesKey, Point]]:
        """Time the kernel, in turns with an earlier commit where one is given.

        Raises:
            UserFacingError: the host's driver, torch or Triton is no longer what it was when the night began.
        """
        night = self.night
        good = None if last is None else self.at(last)
        result = self.benchmark(f"{self.name}-time", good)
        here = host_testbed(result.gpu or "", dict(result.host))
        if not result.predicted and here != night.testbed:
            became = "; ".join(here.changes(night.testbed))
            raise UserFacingError(
                Failure(FailureCode.environment, f"the host changed during the night: {became}", MEASURED_NEXT)
            )
        night.measured = result
        numbers = list(points_of(result, night.repository, self.name, night.revision, night.begun_at, CANDIDATE))
        if good is not None and last is not None:
            before = night.begun_at - 1.0
            numbers += points_of(result, night.repository, self.name, last, before, ORIGINAL)
        return numbers

    def at(self, revision: str) -> tuple[CandidateSource, str] | None:
        """The kernel at an earlier commit with that commit's snapshot; None where either is no longer there."""
        night = self.night
        snapshot = night.context.memo(
            f"snapshot-{revision}",
            lambda: night.context.history(lambda s: history.snapshot_of(s, night.repository, revision)),
        )
        form = None if snapshot is None else self.form_at(snapshot)
        return None if form is None else (form, snapshot)

    def form_at(self, snapshot: str) -> CandidateSource | None:
        """The kernel at an earlier commit, called as today; None where it was not there or cannot be called so."""
        tree = _tree(self.night.context, snapshot)
        if tree is None or self.name not in self.night.bench.layout.existing(tree):
            return None
        try:
            kernel = self.night.bench.layout.locate(self.name, tree)
            return self.night.bench.layout.form_of(kernel, self.problem, (), GOOD_FILE)
        except UserFacingError:
            return None

    def benchmark(self, key: str, good: tuple[CandidateSource, str] | None) -> BenchmarkResult:
        """Time the kernel alone, or in turns with another commit's, which is given with its snapshot."""
        return self.night.gate.benchmark(
            key,
            self.problem,
            self.form,
            budget_s=timing_budget_s(len(self.problem.workloads)),
            original=None if good is None else good[0],
            contenders=ORIGINAL_ALONE,
            existing=True,
            more=None if good is None else _next_to(good[1]),
            whole=True,
        )

    def _changes(self, changed: bool) -> list[NightChange]:
        night, context = self.night, self.night.context
        changes = []
        found = self._candidates("candidates", lambda key, points, known: look(points, key.metric, known))
        for key, candidate in [*found, *(self._elsewhere() if changed else ())]:
            state, ratio = self._compared(key, candidate)
            context.history(
                lambda s, key=key, candidate=candidate, state=state, ratio=ratio: history.keep_change(  # type: ignore[misc]
                    s, key, candidate, state, ratio, night.begun_at
                )
            )
            changes.append(self._change(key, candidate, state, ratio))
        return changes

    def _elsewhere(self) -> list[tuple[SeriesKey, Candidate]]:
        """Regressions that stand on an earlier testbed of this GPU model, such as another driver: they may be gone by now."""
        night = self.night

        def read(session: Any) -> list[dict[str, Any]]:
            existing = history.standing_elsewhere(session, night.repository, self.name, night.testbed)
            gone = [
                (key, Candidate(one.good, night.revision, one.ratio, NightEvidence.recovery)) for key, one in existing
            ]
            return [_candidate_form(*one) for one in gone]

        return _read_candidates(night.context.memo(f"{self.name}-elsewhere", lambda: night.context.history(read)))

    def improved(self, since: float) -> list[NightChange]:
        """What is faster or smaller than when a week began, in three runs of both commits."""
        found = self._candidates("improvements", lambda _key, points, known: improvement(points, since, known))
        compared = [(key, candidate, *self._compared(key, candidate)) for key, candidate in found]
        return [self._change(*one) for one in compared if one[2] is SeriesState.improved]

    def _compared(self, key: SeriesKey, candidate: Candidate) -> tuple[SeriesState, history.Ratio]:
        comparison = _Comparison(self, key, candidate)
        state = compared(candidate, comparison.word)
        return state, comparison.ratio or (candidate.ratio, None, None)

    def _change(self, key: SeriesKey, candidate: Candidate, state: SeriesState, ratio: history.Ratio) -> NightChange:
        return NightChange(
            self.name,
            key.timed_pass,
            key.workload,
            key.metric.value,
            state.value,
            candidate.evidence.value,
            candidate.good,
            candidate.bad,
            *ratio,
        )

    def _candidates(self, memo: str, looked: Look) -> list[tuple[SeriesKey, Candidate]]:
        """What ``looked`` finds in the kernel's own series that have a number of this night."""
        night = self.night

        def look_at_all(session: Any) -> list[dict[str, Any]]:
            rows = []
            for key, points in history.read(session, night.repository, self.name, night.testbed):
                # Only nights are in the order of the commits: a job measures its base whenever it is asked to.
                nights = [point for point in points if point.source is PointSource.night]
                own = key.provider == KERNEL and nights and nights[-1].revision == night.revision
                candidate = looked(key, nights, history.changes_of(session, key)) if own else None
                if candidate is not None:
                    rows.append(_candidate_form(key, candidate))
            return rows

        forms = night.context.memo(f"{self.name}-{memo}", lambda: night.context.history(look_at_all))
        return _read_candidates(forms)


@dataclass
class _Comparison:
    """Runs the good commit and tonight's in turns. The series of a kernel share the runs of one pair of commits."""

    kernel: _Kernel
    key: SeriesKey
    candidate: Candidate
    runs: int = 0
    ratio: tuple[float, float | None, float | None] | None = None

    def word(self) -> Word | None:
        """Compare once more; None where the good commit's kernel is no longer there."""
        self.runs += 1
        good = self.kernel.at(self.candidate.good)
        if good is None:
            return None
        place = f"{self.kernel.name}-{self.candidate.good[:12]}-{self.runs}"
        if self.key.metric is Metric.wrong_values:
            return self._values(place, good)
        return self._of(self.kernel.benchmark(f"{place}-compare", good))

    def _values(self, place: str, good: tuple[CandidateSource, str]) -> Word | None:
        status = self.kernel.verdict(f"{place}-verify", self.kernel.form, good).status
        if status is Status.unproved:
            own = self.kernel.verdict(f"{place}-verify-good", good[0], good).status
            return Word.same if own is Status.unproved else None
        return Word.same if status is Status.passed else Word.slower if status in WRONG else None

    def _of(self, result: BenchmarkResult) -> Word | None:
        row = next((row for row in result.rows if self._is_of(row)), None)
        if row is None or result.predicted:
            return None
        if self.key.metric is Metric.peak_bytes:
            ratio = row.memory_ratio
            if ratio is None:
                return None
            self.ratio = (ratio, None, None)
            return Word.slower if ratio > 1 + FLOOR else Word.faster if ratio < 1 - FLOOR else Word.same
        pair = next((one for one in row.comparisons if one.baseline == ORIGINAL and one.contender == CANDIDATE), None)
        if pair is None:
            return None
        self.ratio = (1 / pair.speedup, 1 / pair.speedup_high, 1 / pair.speedup_low)
        return pair.word

    def _is_of(self, row: WorkloadTiming) -> bool:
        return row.timed_pass.value == self.key.timed_pass and row.workload.label() == self.key.workload


def _next_to(good: str | None) -> dict[str, str]:
    return {} if good is None else {GOOD_FILE: good}


def _key_form(key: SeriesKey) -> dict[str, Any]:
    return vars(key) | {"testbed": dict(vars(key.testbed))}


def _key(form: dict[str, Any]) -> SeriesKey:
    return SeriesKey(**(form | {"metric": Metric(form["metric"]), "testbed": Testbed(**form["testbed"])}))


def _candidate_form(key: SeriesKey, candidate: Candidate) -> dict[str, Any]:
    return {"key": _key_form(key), "candidate": dict(vars(candidate))}


def _read_candidates(forms: list[dict[str, Any]]) -> list[tuple[SeriesKey, Candidate]]:
    return [(_key(form["key"]), _candidate(form["candidate"])) for form in forms]


def _candidate(form: dict[str, Any]) -> Candidate:
    return Candidate(form["good"], form["bad"], float(form["ratio"]), NightEvidence(form["evidence"]))
