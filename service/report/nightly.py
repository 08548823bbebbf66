"""The report of a night, the issue of a kernel that became worse, and the result of a bisection. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from service.escape import code, code_block, inline, plain, sentence
from service.report.layout import (
    NO_JOB,
    Links,
    MessageKind,
    bullets,
    counted,
    folded,
    paragraphs,
    pictures,
    signed,
    table,
)
from service.report.status import reason
from service.report.verdicts import Conclusion, provenance_line
from workers.contracts import (
    BisectSummary,
    DigestUpdate,
    JobView,
    NightChange,
    NightlySummary,
    RegressionUpdate,
    Suspect,
    regression_key,
)

CONFIRMED, UNDECIDED, RECOVERED, QUIET = "confirmed", "undecided", "recovered", "quiet"
STATES = (CONFIRMED, UNDECIDED, RECOVERED, QUIET)
Brought = tuple[str, str, int | None]  # a commit, its title, and the pull request that brought it
BY_RUNS = "Each change of time or memory was confirmed by three interleaved runs of both commits."
BACK_BY_RUNS = "In three interleaved runs it was as good as the good commit."
MAX_NAMED = 5
MAX_ROWS = 60
METRICS = {"time_us": "time", "peak_bytes": "peak memory", "wrong_values": "values"}
BY_SCRIPT = ", timed by the library's own script: its problem is unknown, so values are not verified and changes are not compared"
EVIDENCE = {
    "band": "outside the series' band",
    "change_point": "the level shifted",
    "values": "values are wrong",
    "recovery": "back near the old level",
    "right": "values are correct",
    "faster": "below the level of the week before",
}
HEADER = ("kernel", "pass", "size", "metric", "new / old (95% interval)", "between", "verdict", "why it was compared")


def has_regressed(summary: NightlySummary) -> bool:
    """Whether a change for the worse was confirmed in this night; one that stays from an earlier night is not news."""
    return bool(_news(summary))


def nightly_verdict(summary: NightlySummary, _job: JobView) -> str:
    """The verdict in one line: wrong values first, then what is slower or larger."""
    at = f"at {code(summary.revision[:12])}"
    news = _news(summary)
    wrong = [kernel.kernel for kernel in summary.kernels if kernel.wrong]  # also where nobody knows since when
    worse = _kernels([change for change in news if change.metric != "wrong_values"])
    parts = [f"wrong values in {_named(wrong)}"] if wrong else []
    parts += [f"confirmed regression in {_named(worse)}"] if worse else []
    if parts:
        found = " and ".join(parts)
        return f"**{found[0].upper()}{found[1:]}** {at}."
    if not summary.kernels:
        why = "every kernel was already measured at this commit" if summary.known else "no kernel was measured"
        return f"**Nothing to do {at}:** {why}."
    measured = [kernel for kernel in summary.kernels if kernel.skipped is None]
    if not measured and summary.known:
        return f"**Nothing to do {at}:** every kernel that can be measured already was at this commit."
    if not measured:
        return f"**Nothing could be measured {at}:** {_first_reason(summary)}"
    recovered = _kernels([change for change in summary.changes if change.state == RECOVERED])
    back = [name for name in recovered if name not in summary.standing]
    worse_still = f" Still worse: {_named(summary.standing)}." if summary.standing else ""
    if back:
        return f"**Recovered at {code(summary.revision[:12])}:** {_named(back)}; no new regression.{worse_still}"
    still = _kernels([change for change in summary.changes if change.state == UNDECIDED])
    doubt = f" Undecided: {_named(still)}; the next night compares again." if still else ""
    unproved = [kernel.kernel for kernel in summary.kernels if kernel.unproved]
    doubt += f" Values unproved: {_named(unproved)}." if unproved else ""
    new = "new " if summary.standing else ""
    return f"**No {new}regression {at}** in {counted(len(measured), 'kernel')}.{worse_still}{doubt}"


def nightly_after(summary: NightlySummary, _job: JobView, _links: Links) -> str:
    """What a maintainer does next."""
    news = _news(summary)
    if news:
        return f"look at the commits in between: {code(f'git log --oneline {news[0].good[:12]}..{news[0].bad[:12]}')}."
    wrong = [kernel.kernel for kernel in summary.kernels if kernel.wrong]
    if wrong:
        return f"fix {_named(wrong)}; {code(f'/kernel verify {wrong[0]}')} shows the details."
    if summary.left:
        return f"nothing; the budget ended before {_named(summary.left)}, where the next night starts."
    return "nothing."


def nightly_conclusion(summary: NightlySummary) -> Conclusion:
    """How the check ends: wrong values are a failure, a slower kernel is for people to weigh."""
    news = _news(summary)
    if any(kernel.wrong for kernel in summary.kernels):
        return Conclusion.failure
    return Conclusion.neutral if news or not summary.kernels else Conclusion.success


def nightly_sections(summary: NightlySummary) -> str:
    """The report below its verdict."""
    ordered = sorted(summary.changes, key=lambda change: STATES.index(change.state))
    return paragraphs(
        changes_table([change for change in ordered if change.state != QUIET]),
        _testbed(summary),
        _other_kernels(summary),
        paragraphs("**Faster than a week ago:**", changes_table(summary.improved)) if summary.improved else "",
        bullets([f"{code(kernel.kernel)}: {sentence(kernel.wrong)}" for kernel in summary.kernels if kernel.wrong]),
        folded("Compared, no change found", changes_table([change for change in ordered if change.state == QUIET])),
        folded("Measured", _measured(summary)),
        folded("Not measured", _skipped(summary)),
        provenance_line(summary.provenance),
    )


def changes_table(changes: Sequence[NightChange]) -> str:
    """Changes as a table, those beyond sixty folded."""
    rows = [_row(change) for change in changes]
    more = folded("More changes", table(HEADER, rows[MAX_ROWS:], numeric=(4,)))
    return paragraphs(table(HEADER, rows[:MAX_ROWS], numeric=(4,)), more)


def _news(summary: NightlySummary) -> list[NightChange]:
    return [one for one in summary.changes if one.state == CONFIRMED and one.evidence != "recovery"]


def _kernels(changes: Sequence[NightChange]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(change.kernel for change in changes))


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(code(name) for name in names[:MAX_NAMED]) + more


def _row(change: NightChange) -> tuple[str, ...]:
    known = change.ratio_low is not None and change.ratio_high is not None
    interval = f" ({change.ratio_low:.3f} to {change.ratio_high:.3f})" if known else ""
    amount = "–" if change.metric == "wrong_values" else f"{change.ratio:.3f}{interval}"
    evidence = "right" if (change.metric, change.evidence) == ("wrong_values", "recovery") else change.evidence
    state = "still worse" if change.state == CONFIRMED and change.evidence == "recovery" else change.state
    return (
        code(change.kernel),
        change.timed_pass,
        inline(change.workload, 120),
        METRICS.get(change.metric, change.metric),
        amount,
        f"{code(change.good[:12])} to {code(change.bad[:12])}",
        "no change" if state == QUIET else state,
        EVIDENCE.get(evidence, evidence),
    )


def _testbed(summary: NightlySummary) -> str:
    if not summary.new_testbed:
        return ""
    return (
        f"**New testbed:** {inline('; '.join(summary.new_testbed), 400)}. New series begin here; a difference from the "
        "night before is no regression."
    )


def _other_kernels(summary: NightlySummary) -> str:
    if not summary.came and not summary.gone:
        return ""
    named = [f"new: {_named(summary.came)}"] if summary.came else []
    named += [f"removed: {_named(summary.gone)}"] if summary.gone else []
    return f"**Kernels changed:** {'; '.join(named)}. A renamed kernel starts a new series."


def _measured(summary: NightlySummary) -> str:
    done = [
        f"{code(one.kernel)}: {counted(one.points, 'number')} recorded"
        + (BY_SCRIPT if one.by_script else "")
        + (f"; values unproved: {sentence(one.unproved)}" if one.unproved else "")
        for one in summary.kernels
        if not one.skipped
    ]
    spent = f"{summary.spent_s / 60:.0f} of {summary.budget_s / 60:.0f} minutes of GPU time on {inline(summary.gpu)}."
    return paragraphs(bullets(done), spent)


def _skipped(summary: NightlySummary) -> str:
    lines = [
        f"{code(one.kernel)}: {reason(one.skipped)} {sentence(one.skipped.fix) if one.skipped.fix else ''}".rstrip()
        for one in summary.kernels
        if one.skipped is not None
    ]
    lines += [f"{_named(summary.left)}: not reached within the budget; first in the next night"] if summary.left else []
    lines += [f"{_named(summary.known)}: already measured at this commit"] if summary.known else []
    return bullets(lines)


def _first_reason(summary: NightlySummary) -> str:
    skipped = summary.kernels[0].skipped
    return reason(skipped) if skipped is not None else "the runner returned no measurement."


# By what stands, the most important first: an issue's title says that alone.
TITLES = {
    "wrong_values": "{kernel} gives wrong values on {gpu}",
    "peak_bytes": "{kernel} needs more memory on {gpu}",
    "time_us": "{kernel} became slower on {gpu}",
}


def regression_title(update: RegressionUpdate) -> str:
    """The issue's title, by the most important of the changes that stand."""
    changed = {one.metric for one in update.changes if one.state == CONFIRMED}
    known = {*changed, *update.standing, *(("wrong_values",) if update.wrong else ())}
    return _titles(update).get(next((metric for metric in TITLES if metric in known), "time_us"), "")


def is_own_title(title: str, update: RegressionUpdate) -> bool:
    """Whether an issue's title is one that the bot gives; a person may have given it another."""
    return title in _titles(update).values()


def _titles(update: RegressionUpdate) -> dict[str, str]:
    words = {"kernel": plain(update.kernel, 80), "gpu": plain(update.gpu, 60)}
    return {metric: text.format(**words) for metric, text in TITLES.items()}


def regression_issue(update: RegressionUpdate, update_id: str, brought: Sequence[Brought] = (), plots: str = "") -> str:
    """The issue's body, by whose last line it is found again."""
    text = paragraphs(
        _head(update),
        _next(),
        _brought(brought),
        changes_table(update.changes),
        plots,
        _reproduce(update, brought),
        f"<sub>{_how(update.changes)} This issue closes by itself once they are gone.</sub>",
        _first(update_id),
    )
    return signed(text, NO_JOB, MessageKind.regression, update.key())


def regression_comment(
    update: RegressionUpdate, job_id: str, update_id: str, brought: Sequence[Brought] = (), plots: str = ""
) -> str:
    """What is new, as a comment on the issue."""
    if update.stands:
        text = paragraphs(
            _head(update), _next(), _brought(brought), changes_table(update.changes), plots, _reproduce(update, brought)
        )
    elif update.gone:
        head = f"**{code(update.kernel)} no longer exists** at {code(update.revision[:12])}."
        text = f"{head} Its regression can no longer be checked, so this issue is closed."
    else:
        head = f"**{code(update.kernel)} has recovered** at {code(update.revision[:12])} on {inline(update.gpu, 60)}."
        text = paragraphs(
            f"{head} {_how_recovered(update.changes)} This issue is closed.", changes_table(update.changes)
        )
    return signed(text, job_id, MessageKind.regression, update_id)


def _how(changes: Sequence[NightChange]) -> str:
    """How it was decided what became worse."""
    ways = {
        "Values were verified three times, together with the good commit." if one.metric == "wrong_values" else BY_RUNS
        for one in changes
    }
    return " ".join(sorted(ways, reverse=True))


def _how_recovered(changes: Sequence[NightChange]) -> str:
    ways = {"Its values passed three verdicts." if one.metric == "wrong_values" else BACK_BY_RUNS for one in changes}
    return " ".join(sorted(ways))


def digest_title(update: DigestUpdate) -> str:
    """The title of the issue that tells every week what became faster."""
    return f"Kernels that became faster on {plain(update.gpu, 60)}, week by week"


def digest_issue(update: DigestUpdate) -> str:
    """The issue's body, by whose last line it is found again."""
    text = (
        "A weekly comment lists the kernels that became faster or need less memory, each confirmed by three interleaved runs of "
        "both commits. A week without any has no comment. Close this issue to stop the comments."
    )
    return signed(text, NO_JOB, MessageKind.digest, regression_key("digest", update.gpu))


def digest_comment(update: DigestUpdate, job_id: str, update_id: str) -> str:
    """A week's improvements as a comment."""
    week = datetime.fromtimestamp(update.since, UTC).date().isoformat()
    head = f"**Faster since {week}** at {code(update.revision[:12])}: {_named(_kernels(update.improved))}."
    return signed(paragraphs(head, changes_table(update.improved)), job_id, MessageKind.digest, update_id)


def is_first(body: str, update_id: str) -> bool:
    """Whether an issue was opened by this very update, which is then not told a second time."""
    return _first(update_id) in body


def reply_triaged(count: int) -> str:
    """Answer a triage that was done."""
    numbers = "1 series" if count == 1 else f"{count} series"
    return f"**Accepted.** The current measurements are the new baseline of {numbers}; this issue is closed. **Next:** nothing."


def reply_no_regression() -> str:
    """Answer a triage outside of an issue of the nightly run."""
    return (
        "Nothing was done: `triaged` accepts the regression that an issue of the nightly run reports, and this is not one. "
        "Use it on the issue that the bot opened."
    )


def reply_nothing_to_triage() -> str:
    """Answer a triage where no confirmed change stands."""
    return "Nothing was done: no confirmed change is open here. It has recovered, or was accepted before."


def _head(update: RegressionUpdate) -> str:
    confirmed = [change for change in update.changes if change.state == CONFIRMED]
    at = f"on {inline(update.gpu, 60)}, found at {code(update.revision[:12])}"
    if update.wrong:
        return f"**{code(update.kernel)} gives wrong values** {at}: {sentence(update.wrong)}"
    if not confirmed:
        return f"**{code(update.kernel)} has partly recovered** {at}; other changes remain."
    worst = max(confirmed, key=lambda change: change.ratio)
    what = "peak memory" if worst.metric == "peak_bytes" else f"{worst.timed_pass} time"
    size = inline(worst.workload, 120)
    return f"**{code(update.kernel)} became worse** {at}: {what} is {worst.ratio:.3f} times the old value at {size}."


def _brought(brought: Sequence[Brought]) -> str:
    lines = [
        f"{code(sha[:12])} {inline(title, 120)}" + ("" if pull is None else f", pull request #{pull}")
        for sha, title, pull in brought
    ]
    return paragraphs("The only commits between the two nights:", bullets(lines)) if lines else ""


def _next() -> str:
    return "**Next:** fix it, or accept it with `/kernel triaged REASON`, which makes the current measurements the new baseline."


def _reproduce(update: RegressionUpdate, brought: Sequence[Brought]) -> str:
    confirmed: NightChange | None = next((change for change in update.changes if change.state == CONFIRMED), None)
    if confirmed is None:
        return ""
    name, good, bad = shlex.quote(update.kernel), shlex.quote(confirmed.good), shlex.quote(confirmed.bad)
    verify = " --verify" if update.wrong else ""
    commands = [f"git checkout {bad}", f"kernelsmith compare {name} --against {good}{verify}"]
    commands += [f"kernelsmith bisect {name} {good}..{bad}"]
    asked = code(f"/kernel bisect {update.kernel} {confirmed.good[:12]}..{confirmed.bad[:12]}")
    return paragraphs(
        "" if brought else f"To find the commit, comment {asked} here.",
        "On a checkout, on a machine with the same GPU:",
        code_block("\n".join(commands), "sh"),
    )


def _first(update_id: str) -> str:
    return f"<!-- first {update_id} -->"


def bisected_verdict(summary: BisectSummary) -> str:
    """The result of a bisection in one line."""
    good, bad = code(summary.good[:12]), code(summary.bad[:12])
    if not summary.suspects:
        said = {"undecided": "cannot be distinguished from", "broken": "cannot be compared with"}
        why = ": at one of the two the kernel is missing or does not build" if summary.whole == "broken" else ""
        what = said.get(summary.whole, "is not worse than")
        return f"**{code(summary.kernel)}: {bad} {what} {good}.** There was no search{why}."
    grown = "" if summary.ratio is None else f", {summary.ratio:.3f} times what it was"
    worse = "wrong" if summary.by_values else "worse"
    if len(summary.suspects) == 1 and len(summary.suspects[0].commits) == 1:
        return f"**{code(summary.suspects[0].commits[0][:12])} made {code(summary.kernel)} {worse}**{grown}."
    places = counted(len(summary.suspects), "place")
    return f"**{code(summary.kernel)} became {worse} in {places}** between {good} and {bad}{grown}."


def bisected_sections(summary: BisectSummary, image_urls: Mapping[str, str] | None = None) -> str:
    """The commits, the plot where it was published, and what it took."""
    titles, pulls = dict(summary.titles), dict(summary.pulls)
    steps = f"{counted(summary.steps, 'comparison')}, each an interleaved run of two commits"
    steps = f"{counted(summary.steps, 'commit')} verified" if summary.by_values else steps
    spent = f"<sub>{steps} on {inline(summary.gpu or 'this machine', 60)}.</sub>"
    return paragraphs(
        bullets([_line(one, titles, pulls) for one in summary.suspects]),
        pictures(summary.images, image_urls or {}),
        spent,
        provenance_line(summary.provenance),
    )


def bisected_after(summary: BisectSummary) -> str:
    """What a maintainer does next."""
    if any(one.merge for one in summary.suspects):
        name, ends = shlex.quote(summary.kernel), f"{summary.good[:12]}..{summary.bad[:12]}"
        return f"`kernelsmith bisect {name} {ends}` on a checkout searches inside the merge; then fix it."
    return "fix it, or accept it on its issue with `/kernel triaged REASON`." if summary.suspects else "nothing."


def bisected_report(summary: BisectSummary) -> str:
    """The result of a bisection on a terminal."""
    return paragraphs(bisected_verdict(summary), bisected_sections(summary))


def culprit_check(kernel: str, gpu: str, commit: str, ratio: float | None, wrong: bool) -> tuple[str, str]:
    """Title and summary of the check on the pull request that brought a commit."""
    grown = "slower or larger" if ratio is None else f"worse: {ratio:.3f} times what it was"
    grown = "incorrect" if wrong else grown
    title = plain(f"{kernel} became {grown}", 120)
    text = f"{code(kernel)} on {inline(gpu, 60)} became {grown} in {code(commit[:12])}, a commit of this pull request."
    how = "Found by a verdict on each commit." if wrong else "Found by interleaved runs of the commits on one machine."
    return title, paragraphs(text, how)


def reply_no_range(good: str, bad: str) -> str:
    """Answer a bisection whose commits are none, or do not follow on each other."""
    return (
        f"Nothing was done: no line of commits leads from {code(good)} to {code(bad)}. Name a commit of the default branch and a "
        "later one as `GOOD..BAD`, each by its id, branch or tag."
    )


def reply_range_too_long(kernel: str, good: str, bad: str, count: int, most: int) -> str:
    """Answer a bisection of more commits than a job fetches."""
    command = code(f"kernelsmith bisect {kernel} {good}..{bad}")
    return (
        f"Nothing was done: {code(f'{good}..{bad}')} has {count} commits, and a job takes at most {most}. Name two that are closer "
        f"together, such as two that nights measured, or run {command} on a checkout."
    )


def _line(suspect: Suspect, subjects: Mapping[str, str], pulls: Mapping[str, int]) -> str:
    first, last = suspect.commits[0], suspect.commits[-1]
    brought = f", merged by {code(suspect.merge[:12])}" if suspect.merge not in (None, last) else ""
    brought += f", pull request #{pulls[last]}" if last in pulls else ""
    if len(suspect.commits) == 1:
        return f"{code(last[:12])} {inline(subjects.get(last, ''), 120)}{brought}"
    why = f"{counted(len(suspect.unjudged), 'commit')} between them could not be tested"
    return f"one of {len(suspect.commits)} commits, {code(first[:12])} to {code(last[:12])}{brought}: {why}"
