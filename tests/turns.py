"""What `make test` leaves out: of the tests that `turns.txt` lists, which take long, each commit runs another quarter.

Of a folder that was changed all are run, as `make test-all` does, and the four jobs of CI run all of them together.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pytest

TURNS = 4
LEAST_S = 0.2  # of a test function with all its cases, on a quiet machine
ROOT = Path(__file__).parents[1]
LISTED = ROOT / "tests/turns.txt"


def chosen(turn: int | None) -> tuple[int, list[str]]:
    """A run's turn, and what it runs all of: by the commit that is checked out, or the turn that was asked for alone."""
    return (turn, []) if turn is not None else (int("".join(_git("rev-parse", "HEAD")) or "0", 16) % TURNS, _changed())


def _changed() -> list[str]:
    """Names of Python files that the last commit or the working tree changes, `judge` of `test_judge.py`, and of their folders."""
    paths = _git("diff", "--name-only", "HEAD~1") or _git("diff", "--name-only", "HEAD")
    paths += _git("ls-files", "--others", "--exclude-standard")
    return sorted(
        {name for path in map(Path, paths) if path.suffix == ".py" for name in (_own(path), *path.parts[:-1])}
    )


def left_out(items: Iterable[pytest.Item], turn: int, whole: Collection[str]) -> set[pytest.Item]:
    """The tests that have another turn, but for those of files and folders named as one of ``whole``.

    The cases of a function take turns; so do functions, which are listed by what they take, so that turns take alike.
    """
    place = {line.split()[1]: number for number, line in enumerate(LISTED.read_text().splitlines())}
    out = set[pytest.Item]()
    for item in items:
        function = item.nodeid.partition("[")[0]
        if function not in place or any(map(item.get_closest_marker, ("long", "every_turn"))):
            continue
        if place[function] % TURNS != turn and not {_own(item.path), item.path.parent.name} & {*whole}:
            out.add(item)
        place[function] += 1
    return out


def write(took_s: Mapping[str, float]) -> None:
    """List the functions that take long, by the seconds of each of their cases."""
    functions: dict[str, float] = {}
    for case, seconds in took_s.items():
        function = case.partition("[")[0]
        functions[function] = functions.get(function, 0.0) + seconds
    long = sorted((-seconds, name) for name, seconds in functions.items() if seconds >= LEAST_S)
    LISTED.write_text("".join(f"{-seconds:5.1f} {name}\n" for seconds, name in long))


def _own(path: Path) -> str:
    """What a file and the file of its tests are both called."""
    return path.stem.removeprefix("test_")


def _git(*arguments: str) -> list[str]:
    """Lines that git writes; none where it fails, as beyond the end of a shallow clone."""
    try:
        asked = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return asked.stdout.splitlines() if asked.returncode == 0 else []
