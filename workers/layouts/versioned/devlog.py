"""The development log of a design, `docs/kernels/DESIGN.md`: an entry a version, the newest last. Pure."""

from __future__ import annotations

from workers.layouts.protocol import LogEntry

HEADING = "## Development log"
UNMEASURED = "to be filled in after profiling"


def devlog_path(design: str) -> str:
    """The page of a design."""
    return f"docs/kernels/{design}.md"


def with_entry(page: str | None, design: str, number: int, folder: str, entry: LogEntry) -> str:
    """A design's page with an entry more; the page is begun where there is none."""
    text = (page or f"# {design}\n").rstrip("\n")
    if HEADING not in text.splitlines():
        text += f"\n\n{HEADING}"
    parts = [
        f"### V{number}: {_line(entry.title)}",
        f"**Location**: `{folder}/`",
        "**What changed**:\n\n" + _bullets(entry.changes),
        "**High-level description of main code changes**:\n\n" + _bullets(entry.description),
        "**Performance metrics**: " + ("\n\n" + _bullets(entry.metrics) if entry.metrics else UNMEASURED),
        f"**Bottleneck**: {_line(entry.bottleneck) or UNMEASURED}",
        "**Issues**: "
        + ("\n\n" + _bullets(entry.issues) if entry.issues else "none known" if entry.metrics else UNMEASURED),
        f"**Insights**: {_line(entry.insights) or UNMEASURED}",
    ]
    return text + "\n\n" + "\n\n".join(parts) + "\n"


def with_measured(page: str, number: int, entry: LogEntry) -> str:
    """A design's page in which the entry of a version has what was measured, where that was left open."""
    head, mark, rest = page.partition(f"\n### V{number}: ")
    own, following, tail = rest.partition("\n### V")
    for name, text in (
        ("Performance metrics", "\n\n" + _bullets(entry.metrics) if entry.metrics else ""),
        ("Bottleneck", _line(entry.bottleneck)),
        ("Issues", "none known" if entry.metrics else ""),
    ):
        own = own.replace(f"**{name}**: {UNMEASURED}", f"**{name}**: {text or UNMEASURED}")
    return f"{head}{mark}{own}{following}{tail}"


def _bullets(items: tuple[str, ...]) -> str:
    return "\n".join(f"- {_line(item)}" for item in items)


def _line(text: str) -> str:
    """Text of an author as one line that opens no heading, fence or HTML of its own."""
    return " ".join(text.split()).replace("<", "&lt;").replace("```", "'''")
