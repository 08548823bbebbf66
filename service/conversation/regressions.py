"""The issue of a kernel that became worse: what was measured, between which commits, how to see it again. Pure."""

from __future__ import annotations

import shlex

from service.conversation.markdown import paragraphs
from service.conversation.markers import NO_JOB, Kind, signed
from service.conversation.nightly import CONFIRMED, changes_table
from service.escape import code, code_block, inline, plain, sentence
from workers.contracts import NightChange, RegressionUpdate


def regression_title(update: RegressionUpdate) -> str:
    """Give the issue's title; it stays as it is whatever follows."""
    became = "gives wrong values" if update.wrong else "became slower or larger"
    return f"{plain(update.kernel, 80)} {became} on {plain(update.gpu, 60)}"


def regression_issue(update: RegressionUpdate, update_id: str) -> str:
    """Give the issue's body, by whose last line it is found again."""
    told = paragraphs(
        _head(update),
        _next(),
        changes_table(update.changes),
        _reproduce(update),
        "<sub>Every change was found in two interleaved runs of both commits. The issue closes by itself once they are gone.</sub>",
        _first(update_id),
    )
    return signed(told, NO_JOB, Kind.regression, update.key())


def regression_comment(update: RegressionUpdate, job_id: str, update_id: str) -> str:
    """Give what is new, as a comment on the issue."""
    if update.stands:
        told = paragraphs(_head(update), _next(), changes_table(update.changes), _reproduce(update))
    else:
        head = f"**{code(update.kernel)} has recovered** at {code(update.revision[:12])} on {inline(update.gpu, 60)}."
        why = "Two interleaved runs against the good commit found it as good as before. This issue is closed."
        told = paragraphs(f"{head} {why}", changes_table(update.changes))
    return signed(told, job_id, Kind.regression, update_id)


def is_first(body: str, update_id: str) -> bool:
    """Tell whether an issue was opened by this very update, which is then not told a second time."""
    return _first(update_id) in body


def reply_triaged(count: int) -> str:
    """Answer a triage that was done."""
    numbers = "1 series" if count == 1 else f"{count} series"
    return (
        f"**Accepted.** What is measured now is the new base of {numbers}, and this issue is closed. **Next:** nothing."
    )


def reply_no_regression() -> str:
    """Answer a triage outside of an issue of the nightly run."""
    return (
        "`triaged` accepts the regression that an issue of the nightly run reports, and this is no such issue. Nothing was done. "
        "Give it on the issue that the bot opened."
    )


def reply_nothing_to_triage() -> str:
    """Answer a triage where no confirmed change stands."""
    return "No confirmed change stands here: it has recovered, or was accepted before. Nothing was done."


def _head(update: RegressionUpdate) -> str:
    found = [change for change in update.changes if change.state == CONFIRMED]
    at = f"on {inline(update.gpu, 60)}, found at {code(update.revision[:12])}"
    if update.wrong:
        return f"**{code(update.kernel)} gives wrong values** {at}: {sentence(update.wrong)}"
    if not found:
        return f"**{code(update.kernel)} has recovered in part** {at}; other changes stand."
    worst = max(found, key=lambda change: change.ratio)
    what = "peak memory" if worst.metric == "peak_bytes" else f"{worst.timed_pass} time"
    size = inline(worst.workload, 120)
    return f"**{code(update.kernel)} became worse** {at}: {what} {worst.ratio:.3f} times what it was at {size}."


def _next() -> str:
    return "**Next:** mend it, or accept it with `/kernel triaged REASON`: what is measured then is the new base."


def _reproduce(update: RegressionUpdate) -> str:
    found: NightChange | None = next((change for change in update.changes if change.state == CONFIRMED), None)
    if found is None:
        return ""
    name, good, bad = shlex.quote(update.kernel), shlex.quote(found.good), shlex.quote(found.bad)
    verify = " --verify" if update.wrong else ""
    commands = [f"git checkout {bad}", f"kernelsmith compare {name} --against {good}{verify}"]
    commands += [] if update.wrong else [f"kernelsmith bisect {name} {good}..{bad}"]
    return paragraphs("On a checkout, on a machine with such a GPU:", code_block("\n".join(commands), "sh"))


def _first(update_id: str) -> str:
    return f"<!-- first {update_id} -->"
