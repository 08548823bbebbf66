"""JSON to keep in the repository: what fits on a line stands on one, so that a change can be seen and files stay short."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 240


def compact(form: Any, indent: int = 0) -> str:
    """The text of a form, one member a line where it does not fit on one."""
    line = json.dumps(form)
    if not isinstance(form, dict | list) or len(line) + indent <= WIDTH:
        return line
    pad = " " * (indent + 1)
    if isinstance(form, dict):
        members = [f"{json.dumps(name)}: {compact(value, indent + 1)}" for name, value in form.items()]
        return "{\n" + ",\n".join(pad + member for member in members) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + compact(value, indent + 1) for value in form) + "\n" + " " * indent + "]"
