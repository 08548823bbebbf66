"""The report of a fused model, as the console shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def fused_section(summary: Mapping[str, Any]) -> str:
    """What was proved, what stays with torch and why, and what the parts save, as markdown."""
    lines = [f"**{summary['status']}**: {_words(summary)}", "", f"Operators that compute: {summary['operators']}."]
    lines += [f"- `{name}`: proved" for name in summary["proved"]]
    lines += [f"- `{name}` stays with torch: {reason}" for name, reason in summary["stays_with_torch"].items()]
    lines += ["", f"Bytes moved by a forward: {summary['bytes']:,}; the parts save {summary['saved_bytes']:,} of them."]
    return "\n".join([*lines, "Nothing was timed.", ""])


def _words(summary: Mapping[str, Any]) -> str:
    if summary["status"] == "nothing to gain":
        return "No part of it is faster as a kernel of its own."
    if summary["status"] == "nothing proved":
        return "None of its parts could be proved, so that all of it stays with torch."
    if summary["why"] is not None:
        return str(summary["why"])
    return "Values and gradients of the whole are the model's."
