"""What a search for settings found. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Choice, TuneResult
from service.conversation.comparisons import with_interval
from service.conversation.markdown import bullets, folded, paragraphs, table
from service.conversation.quantities import counted
from service.escape import code, inline

MAX_ROWS = 60


def tuned_section(result: TuneResult) -> str:
    """Give the settings that won, at every size, with what they gain over the default."""
    if result.architecture is None:
        return "**Nothing was tuned:** no GPU is here. The candidate is written as it was."
    won = sum(bool(choice.settings) for choice in result.choices)
    ended = "" if result.complete else " The time ended before the search did."
    told = f"**{counted(won, 'setting')} better than the default**, of {counted(len(result.choices), 'size')} on"
    failed = [f"{code(settings)}: {inline(why, 160)}" for settings, why in result.failed[:MAX_ROWS]]
    header = ("pass", "workload", "size", "settings", "over the default (95% interval)", "tried")
    return paragraphs(
        f"{told} {inline(result.gpu or result.architecture, 60)}.{ended}",
        table(header, [_row(choice) for choice in result.choices[:MAX_ROWS]], numeric=(2, 4, 5)),
        bullets([inline(note) for note in result.notes]),
        folded("Settings that do not run", bullets(failed)),
    )


def _row(choice: Choice) -> tuple[str, ...]:
    settings = ", ".join(code(f"{name}={value}", 60) for name, value in choice.settings) or "the default"
    gained = with_interval(choice.speedup, choice.speedup_low, choice.speedup_high)
    return choice.tuned_pass.value, code(choice.workload.label()), str(choice.size), settings, gained, str(choice.tried)
