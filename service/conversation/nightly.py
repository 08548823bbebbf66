"""The report of a night: what became worse, how sure that is, and what was measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from service.conversation.conclusion import Conclusion
from service.conversation.failures import reason
from service.conversation.links import Links
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.conversation.quantities import counted
from service.conversation.validated import provenance_line
from service.escape import code, inline, sentence
from workers.contracts import JobView, NightChange, NightlySummary

CONFIRMED, UNDECIDED, RECOVERED, QUIET = "confirmed", "undecided", "recovered", "quiet"
STATES = (CONFIRMED, UNDECIDED, RECOVERED, QUIET)
MAX_NAMED = 5
MAX_ROWS = 60
METRICS = {"time_us": "time", "peak_bytes": "peak memory", "wrong_values": "values"}
EVIDENCE = {
    "band": "outside of the series' band",
    "change_point": "its level moved",
    "values": "values are wrong",
    "recovery": "back near the old level",
}
HEADER = ("kernel", "pass", "size", "what", "new over old (95% interval)", "since", "so it is", "why it was compared")


def has_regressed(summary: NightlySummary) -> bool:
    """Tell whether a change for the worse was confirmed in this night; one that stays from an earlier night is not news."""
    return bool(_news(summary))


def nightly_verdict(summary: NightlySummary, _job: JobView) -> str:
    """Give the verdict in one line: wrong values first, then what is slower or larger."""
    at = f"at {code(summary.revision[:12])}"
    news = _news(summary)
    wrong = [kernel.kernel for kernel in summary.kernels if kernel.wrong]  # also where nobody knows since when
    worse = _kernels([change for change in news if change.metric != "wrong_values"])
    parts = [f"wrong values in {_named(wrong)}"] if wrong else []
    parts += [f"a confirmed regression in {_named(worse)}"] if worse else []
    if parts:
        return f"**Found {at}:** {' and '.join(parts)}."
    if not summary.kernels:
        why = "every kernel was measured at this commit before" if summary.known else "no kernel was measured"
        return f"**Nothing to do {at}:** {why}."
    measured = [kernel for kernel in summary.kernels if kernel.skipped is None]
    if not measured:
        return f"**Nothing could be measured {at}:** {_first_reason(summary)}"
    back = _kernels([change for change in summary.changes if change.state == RECOVERED])
    if back:
        return f"**Recovered at {code(summary.revision[:12])}:** {_named(back)}; nothing else became worse."
    still = _kernels([change for change in summary.changes if change.state == UNDECIDED])
    doubt = f" Not decided: {_named(still)}; the next night compares again." if still else ""
    return f"**No regression {at}** in {counted(len(measured), 'kernel')}.{doubt}"


def nightly_after(summary: NightlySummary, _job: JobView, _links: Links) -> str:
    """Give what a maintainer does next."""
    news = _news(summary)
    if news:
        return f"look at the commits between the two: {code(f'git log --oneline {news[0].good[:12]}..{news[0].bad[:12]}')}."
    if summary.left:
        return f"nothing; the budget ended, and {_named(summary.left)} come first the next night."
    return "nothing."


def nightly_conclusion(summary: NightlySummary) -> Conclusion:
    """Give how the check ends: wrong values are a failure, a slower kernel is for people to weigh."""
    news = _news(summary)
    if any(kernel.wrong for kernel in summary.kernels):
        return Conclusion.failure
    return Conclusion.neutral if news or not summary.kernels else Conclusion.success


def nightly_sections(summary: NightlySummary) -> str:
    """Give the report below its verdict."""
    ordered = sorted(summary.changes, key=lambda change: STATES.index(change.state))
    return paragraphs(
        changes_table([change for change in ordered if change.state != QUIET]),
        _testbed(summary),
        bullets([f"{code(kernel.kernel)}: {sentence(kernel.wrong)}" for kernel in summary.kernels if kernel.wrong]),
        folded(
            "Compared, and no change was found", changes_table([change for change in ordered if change.state == QUIET])
        ),
        folded("Measured", _measured(summary)),
        folded("Not measured", _skipped(summary)),
        provenance_line(summary.provenance),
    )


def changes_table(changes: Sequence[NightChange]) -> str:
    """Give changes as a table, those beyond sixty folded."""
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
    state = "still worse" if change.state == CONFIRMED and change.evidence == "recovery" else change.state
    return (
        code(change.kernel),
        change.timed_pass,
        inline(change.workload, 120),
        METRICS.get(change.metric, change.metric),
        amount,
        f"{code(change.good[:12])} to {code(change.bad[:12])}",
        "no change" if state == QUIET else state,
        EVIDENCE.get(change.evidence, change.evidence),
    )


def _testbed(summary: NightlySummary) -> str:
    if not summary.new_testbed:
        return ""
    return (
        f"**New testbed:** {inline('; '.join(summary.new_testbed), 400)}. Numbers from here on are series of their own, and what "
        "differs from the night before is no regression."
    )


def _measured(summary: NightlySummary) -> str:
    done = [f"{code(one.kernel)}: {counted(one.points, 'number')} kept" for one in summary.kernels if not one.skipped]
    spent = f"{summary.spent_s / 60:.0f} of {summary.budget_s / 60:.0f} minutes of GPU time on {inline(summary.gpu)}."
    return paragraphs(bullets(done), spent)


def _skipped(summary: NightlySummary) -> str:
    told = [
        f"{code(one.kernel)}: {reason(one.skipped)} {sentence(one.skipped.cure) if one.skipped.cure else ''}".rstrip()
        for one in summary.kernels
        if one.skipped is not None
    ]
    told += [f"{_named(summary.left)}: the budget ended; they come first the next night"] if summary.left else []
    told += [f"{_named(summary.known)}: measured at this commit before"] if summary.known else []
    return bullets(told)


def _first_reason(summary: NightlySummary) -> str:
    skipped = summary.kernels[0].skipped
    return reason(skipped) if skipped is not None else "the runner gave no measurement."
