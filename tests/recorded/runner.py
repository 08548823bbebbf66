"""Stands in for ``python -m gpu_runner``: gives the answers that the real runner gave, in milliseconds.

It answers by what is asked, not by which candidate stands in the request, so that a better kernel needs no new recording. The
recordings are made anew by ``rm tests/recorded/answers/*.json; pytest tests/conversations --record``, which asks the real runner.
A test tells it what to do by files on its *desk*: ``answers/verify-1.json`` is the payload of the next verify and of no
other (``verify-always.json`` of all), ``pause/runner.verify`` has it wait there until that file is gone. A benchmark with no
original to hold the kernel against is answered by ``alone-always.json`` where there is one; the imports
that are tried before a job by ``imports-1.json`` and a library's benchmark script by ``script-1.json``, else both with success.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.compact import compact
from tests.recorded.pause import pause

EVERYTHING_THERE = {"passed": True, "exit_code": 0, "cases": [], "summary": "exit code 0", "log": "", "collected": []}
MODULES = {"imports": "imports", "benchmark": "script"}  # of the action ``tests``
ANSWERS = Path(__file__).with_name("answers")


def command(desk: Path, record: bool = False) -> tuple[str, ...]:
    """Give the command line under which a runtime starts this runner."""
    return (sys.executable, __file__, "--desk", str(desk), *(["--record"] if record else []))


def recorded(action: str, problem_source: str) -> Any:
    """Give a recorded answer's payload, for a test to change and hand out."""
    asked = {"action": action, "payload": {"problem_source": problem_source}}
    return json.loads(recording_of(asked).read_text())["payload"]


def recording_of(request: dict[str, Any]) -> Path:
    """Give the file of a request's answer."""
    payload = request["payload"]
    asked = payload.get("problem_source") or [payload["module"], payload["arguments"], payload["import_roots"]]
    digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
    return ANSWERS / f"{request['action']}-{digest[:12]}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one request."""
    parser = argparse.ArgumentParser()
    for name in ("--desk", "--request", "--result"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(arguments)
    request = json.loads(options.request.read_text())
    action = MODULES.get(request["payload"].get("module"), request["action"])
    with (options.desk / "asked").open("a") as told:
        told.write(f"{action} {request['request_id']}\n")
    pause(options.desk, f"runner.{action}")
    alone = request["action"] == "benchmark" and request["payload"].get("original") is None
    directed = (_directed(options.desk, "alone") if alone else None) or _directed(options.desk, action)
    if directed is not None:
        result = {"payload": directed, "duration_s": 1.0}
    elif action in MODULES.values():
        result = {"payload": EVERYTHING_THERE, "duration_s": 1.0}
    else:
        recording = recording_of(request)
        if not recording.exists() and options.record:
            _record(recording, options.request)
        if not recording.exists():
            print(f"nothing is recorded for this {request['action']}: see {__file__}")
            return 3
        result = json.loads(recording.read_text())
    answer = {"request_id": request["request_id"], "action": request["action"]} | result
    (options.result / "result.json").write_text(json.dumps(answer))
    return 0


def _directed(desk: Path, action: str) -> Any:
    folder = desk / "answers"
    for path in sorted(folder.glob(f"{action}-*.json")):
        answer = json.loads(path.read_text())
        if not path.stem.endswith("-always"):
            path.unlink()
        return answer
    return None


def _record(recording: Path, request: Path) -> None:
    result = recording.with_suffix("")
    result.mkdir(parents=True)
    try:
        subprocess.run(
            [sys.executable, "-m", "gpu_runner", "--request", str(request), "--result", str(result)], check=True
        )
        answer = json.loads((result / "result.json").read_text())
    finally:
        for path in result.iterdir():
            path.unlink()
        result.rmdir()
    kept = {name: answer[name] for name in ("payload", "error", "isolation", "host", "duration_s")}
    if kept["error"] is None:
        recording.write_text(compact(kept) + "\n")
    else:
        print(f"not recorded: {kept['error']}")


if __name__ == "__main__":
    sys.exit(main())
