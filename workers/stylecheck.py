"""Runs a target's own style check in a temporary checkout; the target's configuration is read, none of its code is run."""

from __future__ import annotations

import contextlib
import posixpath
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path, PurePosixPath

from workers.contracts import Failure, FailureCode, FileChange, StyleOutcome, UserFacingError, unreadable
from workers.layouts.protocol import StyleCheck
from workers.toml import read_toml, table_in
from workers.tree import Tree

# Isolated (-I), so that a module named ruff in the target is not what runs.
TOOLS = {"ruff": (sys.executable, "-I", "-m", "ruff")}
NAMES = ("pyproject.toml", "ruff.toml", ".ruff.toml")
OTHERS = ("setup.cfg", ".editorconfig")
TIME_LIMIT_S = 60.0
CLEAN = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "NO_COLOR": "1"}  # the whole environment of a tool
MAX_LOG = 20_000
MAX_PLACEHOLDERS = 20_000
COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def check_style(
    layout_check: StyleCheck, tree: Tree, changes: tuple[FileChange, ...]
) -> tuple[StyleOutcome, tuple[FileChange, ...]]:
    """Run the check on the changed files and, where it fails, the fixes once and the check again.

    The second value are the files that the fixes changed.

    Raises:
        UserFacingError: a changed file is ambiguous to read, the target's configuration reaches outside of the repository, a tool
            is not installed, or a command did not end in time.
    """
    failure = unreadable(change for change in changes if tree.read(change.path) != change.text)
    if failure is not None:
        raise UserFacingError(failure)
    named = tuple(shlex.join(command) for command in layout_check.check)
    if not layout_check.check:
        return StyleOutcome(True, named), ()
    _refuse_missing(layout_check)
    configurations = _configurations(tree)
    with tempfile.TemporaryDirectory(prefix="style-") as scratch:
        checkout = Path(scratch) / "checkout"
        _write(checkout, tree, changes, configurations)
        passed, log = _run_all(layout_check.check, checkout)
        if passed or not layout_check.fix:
            return StyleOutcome(passed, named, log), ()
        _run_all(layout_check.fix, checkout)
        fixes = _fixes(checkout, changes)
        passed, log = _run_all(layout_check.check, checkout)
        return StyleOutcome(passed, named, log), fixes


def _refuse_missing(layout_check: StyleCheck) -> None:
    """A missing tool is this host's fault, never the change's."""
    for tool in dict.fromkeys(command[0] for command in layout_check.check):
        # One that does not answer in time is there; the check itself then says that it did not end.
        with contextlib.suppress(subprocess.TimeoutExpired):
            asked = subprocess.run(
                [*TOOLS[tool], "--version"], env=CLEAN, capture_output=True, timeout=TIME_LIMIT_S, check=False
            )
            if asked.returncode != 0:
                message = f"`{tool}`, which the library's style check needs, is not installed where the workers run"
                fix = f"An operator installs it with `pip install {tool}` in the workers' environment."
                raise UserFacingError(Failure(FailureCode.environment, message, fix))


def _configurations(tree: Tree) -> frozenset[str]:
    """The files that ruff may read as its configuration: those by its names, and those that they extend.

    Raises:
        UserFacingError: one reaches outside of the repository, or may without that being seen here.
    """
    found = {path for path in tree.paths() if PurePosixPath(path).name in NAMES}
    unread = sorted(found)
    while unread:
        path = unread.pop()
        extended = _extended(path, tree.read(path) or "")
        if extended is None:
            continue
        if not _stays_inside(PurePosixPath(path).parent, extended):
            fix = "Name a file of the repository in `extend`."
            message = f"the style configuration `{path}` extends a file outside of the repository"
            raise UserFacingError(Failure(FailureCode.style, message, fix))
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), str(extended)))
        if inside in tree.files and inside not in found:
            found.add(inside)
            unread.append(inside)
    return frozenset(found)


def _extended(path: str, text: str) -> object | None:
    document = read_toml(text)
    if document is None:
        # What is no TOML ruff refuses too, and says where; but it reads more than is read here: TOML 1.1, and files of any size.
        if "extend" in text or "\\" in text:
            fix = "Write it as TOML 1.0 of at most 1 MiB, without long runs of dots in a line."
            message = (
                f"the style configuration `{path}` cannot be read here, and may extend a file outside of the repository"
            )
            raise UserFacingError(Failure(FailureCode.style, message, fix))
        return None
    # As ruff tells the two apart.
    return (table_in(document, "tool", "ruff") if path.endswith("pyproject.toml") else document).get("extend")


def _stays_inside(folder: PurePosixPath, extended: object) -> bool:
    # ruff expands ~ and environment variables, so that a name with either is not the path that it seems to be.
    if not isinstance(extended, str) or extended.startswith(("/", "~")) or "$" in extended or "\\" in extended:
        return False
    depth = len(folder.parts)
    for part in PurePosixPath(extended).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return False
    return True


def _write(checkout: Path, tree: Tree, changes: tuple[FileChange, ...], configurations: frozenset[str]) -> None:
    after = tree.overlaid(changes)
    wanted = {change.path for change in changes if change.text is not None}
    wanted |= {path for path in after.files if path in configurations or PurePosixPath(path).name in OTHERS}
    for path in sorted(wanted):
        _put(checkout, path, after.files[path])
    # Which imports are the library's own is told by the files that are there, so every module stands there, empty.
    for path in after.paths(suffix=".py")[:MAX_PLACEHOLDERS]:
        if path not in wanted:
            _put(checkout, path, b"")


def _put(checkout: Path, path: str, content: bytes) -> None:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        return
    target = checkout.joinpath(*parts)
    if target.is_dir() or any(parent.is_file() for parent in target.parents):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def _run_all(commands: tuple[tuple[str, ...], ...], checkout: Path) -> tuple[bool, str]:
    results = [_run(command, checkout) for command in commands]
    log = "\n".join(f"$ {shlex.join(c)}\n{text}".rstrip() for c, (_, text) in zip(commands, results, strict=True))
    return all(code == 0 for code, _ in results), log[-MAX_LOG:]


def _run(command: tuple[str, ...], checkout: Path) -> tuple[int, str]:
    home = checkout.parent / "home"
    home.mkdir(exist_ok=True)
    try:
        done = subprocess.run(
            [*TOOLS[command[0]], *command[1:]],
            cwd=checkout,
            env=CLEAN | {"HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        message = f"the style check did not end within {TIME_LIMIT_S:.0f} seconds"
        raise UserFacingError(Failure(FailureCode.environment, message, "Retry the job.")) from error
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    return done.returncode, COLOURS.sub("", text).replace(str(checkout) + "/", "")


def _fixes(checkout: Path, changes: tuple[FileChange, ...]) -> tuple[FileChange, ...]:
    fixed: list[FileChange] = []
    for change in changes:
        target = checkout / change.path
        if change.text is None or not target.is_file():
            continue
        text = target.read_bytes().decode("utf-8")
        if text != change.text:
            fixed.append(replace(change, text=text))
    return tuple(fixed)
