"""The problems of Liger's own kernels, from the files in ``references``. They are read as text, never imported."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

FOLDER = "references"


@cache
def known_problems() -> dict[str, str]:
    """Give every problem by its kernel's name."""
    folder = files("workers.layouts.liger").joinpath(FOLDER)
    found = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name[:-3]: file.read_text("utf-8") for file in found if file.name.endswith(".py")}
