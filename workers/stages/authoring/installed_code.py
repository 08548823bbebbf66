"""The source of an installed transformers: found by its place on disk and read as text; none of it is imported or executed."""

from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path

from workers.stages.authoring.code_source import Read

PACKAGE = "transformers"
MOST_BYTES = 2 * 2**20


def reader() -> Read | None:
    """Give what reads files of the installed package by their path below its parent folder, None where it is not installed."""
    found = PathFinder.find_spec(PACKAGE)
    places = None if found is None else found.submodule_search_locations
    if not places:
        return None
    root = Path(next(iter(places))).resolve().parent

    def read(path: str) -> str | None:
        place = (root / path).resolve()
        inside = place.is_relative_to(root / PACKAGE)
        if not inside or not place.is_file() or place.stat().st_size > MOST_BYTES:
            return None
        return place.read_text(encoding="utf-8", errors="replace")

    return read


def place_of(symbol: str, read: Read) -> tuple[str, str] | None:
    """Give the file and the class of ``MODULE.Class``, such as ``llama.LlamaRMSNorm``; None where there is none."""
    *parts, name = symbol.split(".")
    if not parts:
        return None
    short = [f"models/{parts[0]}/modeling_{parts[0]}"] if len(parts) == 1 else []
    for place in ["/".join(parts), *short]:
        for ending in (".py", "/__init__.py"):
            path = f"{PACKAGE}/{place}{ending}"
            if read(path) is not None:
                return path, name
    return None
