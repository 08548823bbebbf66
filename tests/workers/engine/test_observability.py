from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from workers.observability import configure


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, alembic = root.handlers[:], root.level, logging.getLogger("alembic").level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level
    logging.getLogger("alembic").setLevel(alembic)


def test_lines_of_ours_and_of_libraries_are_json_with_their_facts(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", json=True)
    with structlog.contextvars.bound_contextvars(job="abc"):
        structlog.get_logger("ours").warning("stage_waits", gpu_request="r1")
        logging.getLogger("library").warning("connected to %s", "redis")
    ours, theirs = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["gpu_request"], ours["job"], ours["level"]) == ("stage_waits", "r1", "abc", "warning")
    assert (theirs["event"], theirs["job"], theirs["logger"]) == ("connected to redis", "abc", "library")


def test_errors_carry_their_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", json=True)
    try:
        raise RuntimeError("broken")
    except RuntimeError as error:
        structlog.get_logger("ours").error("stage_broke", exc_info=error)
    (line,) = capsys.readouterr().err.splitlines()
    assert "RuntimeError: broken" in json.loads(line)["exception"]


def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure("warning")
    structlog.get_logger("ours").info("stage_waits")
    structlog.get_logger("ours").warning("stage_broke")
    printed = capsys.readouterr().err
    assert "stage_broke" in printed
    assert "stage_waits" not in printed
