from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
import structlog

from workers.observability import configure


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


@pytest.mark.parametrize("json_lines", [True, False])
def test_no_line_of_ours_or_of_a_library_holds_a_secret(
    json_lines: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHERS_TOKEN", "correct horse battery")
    configure("INFO", json=json_lines)
    key = "sk-" + "a1B2c3D4" * 4
    secrets = (key, "correct horse battery", "hunter22")
    log = structlog.get_logger("ours")
    log.info("asked %s", key, token="hunter22", nested=[{"headers": {"authorization": "hunter22"}, "x": secrets[:2]}])
    logging.getLogger("library").warning("refused %s: %s", {"api_key": "hunter22"}, key)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(f"old: {key}", stacklevel=1)
    try:
        try:
            raise ValueError("cannot connect to https://bot:hunter22@db")
        except ValueError as inner:
            raise RuntimeError(f"{key} and correct horse battery") from inner
    except RuntimeError:
        log.exception("broke")
        logging.getLogger("library").exception("broke too")
    thread = threading.Thread(target=lambda: int(f"no number: {key}"), name="worker")
    thread.start()
    thread.join()
    printed = capsys.readouterr().err
    assert [secret for secret in secrets if secret in printed] == []
    for expected in ("asked", "refused", "old: ", "broke", "broke too", "uncaught", "RuntimeError: ", "ValueError: "):
        assert expected in printed
    if json_lines:
        assert all(json.loads(line)["event"] for line in printed.splitlines())


def test_an_error_that_nobody_catches_is_a_line_without_secrets() -> None:
    key = "ghp_" + "a1B2c3D4" * 5
    code = f"from workers.observability import configure; configure(json=True); raise RuntimeError('no {key}')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    line = json.loads(ended.stderr)
    assert ended.returncode == 1
    assert "RuntimeError: no [redacted: GitHub token]" in line["exception"]
    assert key not in ended.stderr


def test_a_log_on_a_full_disk_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with suppress(OSError), Path("/dev/full").open("w", encoding="utf-8") as full:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", full)
            configure("INFO", json=True)
            structlog.get_logger("ours").info("stage_waits")
            logging.getLogger("library").error("broken")
        configure("INFO", json=True)
        with pytest.raises(OSError, match="No space left"):
            full.flush()
