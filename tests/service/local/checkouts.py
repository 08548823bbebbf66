"""A checkout of a library in a test's folder, and the command line on it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner, Result

from service.cli import app
from workers.embedded import close

GIT = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")


def git(folder: Path, *arguments: str) -> str:
    """Run git there, as somebody; gives what it said."""
    done = subprocess.run(["git", "-C", str(folder), *GIT, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def checked_out(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Make a repository of these files, with one commit on main."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return folder


def run(*arguments: str | Path) -> Result:
    """Give a command to the program, as from a shell."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    close()
    return result
