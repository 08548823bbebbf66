"""The command line as on a machine without settings and without a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.recorded import runner
from workers import runtime
from workers.embedded import close


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Unset every setting of this machine, and have the runner use Triton's interpreter."""
    for name in list(os.environ):
        if name.startswith("KERNELSMITH_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KERNELSMITH_ARCHITECTURE", "interpreter")
    monkeypatch.setenv("COLUMNS", "400")
    yield
    close()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """Have jobs be answered as the real runner answered them; what lies in ``answers`` there is answered first."""
    build, command = runtime.build, runner.command(tmp_path / "desk", request.config.getoption("--record"))
    monkeypatch.setattr(runtime, "build", lambda settings: replace(build(settings), runner_command=command))
    for name in ("answers", "pause"):
        (tmp_path / "desk" / name).mkdir(parents=True)
    return tmp_path / "desk"
