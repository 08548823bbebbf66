"""The command line of the runner: one action from a request file, at once or on standby, or a look at what this host can do.

    python -m gpu_runner --request request.json --result DIR
    python -m gpu_runner --standby < a line {"request": "request.json", "result": "DIR"}
    python -m gpu_runner doctor [--json]

Exit 0: a result was written, whatever it says. Exit 3: the request is none, or no result could be written.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from gpu_runner import companion, host, removal, spans
from gpu_runner.actions import prepare
from gpu_runner.context import RunContext
from gpu_runner.contracts import Action, GpuRequest, GpuResult, RunnerError, from_json, to_json
from gpu_runner.forkserver import keeper
from gpu_runner.importing import keep_bytecode, uncollected
from gpu_runner.session import has_gpu

BAD_REQUEST = 3
MAX_REQUEST_BYTES = 64 * 2**20
MOST_SPANS_LOGGED = 12
# Threads of torch's that wait for work sleep: spinning, they took a third of the runner's processor time beside the compilers of a
# candidate's kernels (2026-11-30, 16 cores). It is read as torch is loaded.
_ASLEEP = {"OMP_WAIT_POLICY": "PASSIVE"}
_log = logging.getLogger("gpu_runner")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    options = _parser().parse_args(arguments)
    os.environ |= {name: value for name, value in _ASLEEP.items() if name not in os.environ}
    keep_bytecode()
    if options.command == "doctor":
        return _doctor(options.json)
    if options.standby:
        return _stand_by()
    if options.request is None or options.result is None:
        sys.stderr.write("give --request FILE and --result DIR, --standby, or doctor\n")
        return BAD_REQUEST
    return _act(options.request, options.result, options.seed)


def _act(request_file: Path, result_folder: Path, seed: str | None = None) -> int:
    try:
        request, carry_out = _read(request_file)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{request_file} is no request: {error}\n")
        return BAD_REQUEST
    if request.action is not Action.tests:
        is_whole = request.action is Action.verify and not request.payload.get("quick")
        apart = is_whole and request.payload.get("original") is None
        _warm_up(beside=is_whole and not apart, apart=apart)
    result = carried_out(request, carry_out, request_file.resolve().parent, seed)
    try:
        write_atomically(result_folder / "result.json", json.dumps(to_json(result)))
    except OSError as error:
        sys.stderr.write(f"the result cannot be written to {result_folder}: {error}\n")
        return BAD_REQUEST
    return 0


def _warm_up(*, beside: bool, apart: bool) -> None:
    """Start what children are forked from, before this process imports torch itself; also of those ``beside`` a GPU, which have
    none, in this process or ``apart``."""
    if apart and has_gpu() and companion.has_cores():
        companion.start()
    else:
        beside |= apart
    for gpu in dict.fromkeys([has_gpu(), *([False] if beside else [])]):
        keeper.warm_up(gpu)


def _stand_by() -> int:
    """Import what actions need, wait for one line of standard input that names request and result, and carry it out."""
    _warm_up(beside=True, apart=True)
    with uncollected():
        importlib.import_module("torch")
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        return 0  # whoever would have asked is gone
    with Path(os.devnull).open("rb") as null_input:
        os.dup2(null_input.fileno(), sys.stdin.fileno())
    paths = json.loads(line)
    return _act(Path(paths["request"]), Path(paths["result"]))


def carried_out(
    request: GpuRequest, carry_out: Callable[[RunContext], dict[str, Any]], folder: Path, seed: str | None = None
) -> GpuResult:
    """Carry out an action; what goes wrong around it is the result's ``error``, never a verdict."""
    context = RunContext(folder, request.limits, request.require, lambda line: _log.info("%s", line))
    context.seed = seed
    removal.sweep()
    spans.begin()
    start = time.monotonic()
    payload, error = None, None
    _log.info("%s: %s starts", request.request_id, request.action.value)
    try:
        payload = carry_out(context)
    except (RunnerError, ValueError, OSError) as failure:
        error = f"{type(failure).__name__}: {failure}"
        _log.warning("%s: %s", request.request_id, error)
    except Exception as failure:  # noqa: BLE001 - the runner's main boundary: the fault is reported as the runner's
        error = f"{type(failure).__name__}: {failure} ({_place_of(failure)})"
        _log.exception("%s: the runner failed", request.request_id)
    duration_s = time.monotonic() - start
    seconds = spans.spent()
    longest = ", ".join(f"{name} {value:.1f}" for name, value in seconds[:MOST_SPANS_LOGGED])
    _log.info("%s: %s ended after %.1f s (%s)", request.request_id, request.action.value, duration_s, longest)
    return GpuResult(
        request.request_id,
        request.action,
        payload,
        error,
        context.levels(),
        host.facts(),
        round(duration_s, 3),
        seconds,
    )


def _place_of(failure: Exception) -> str:
    """The line that raised it, which is all that the caller's log has of a fault of the runner's own."""
    frame = traceback.extract_tb(failure.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _read(path: Path) -> tuple[GpuRequest, Callable[[RunContext], dict[str, Any]]]:
    if path.stat().st_size > MAX_REQUEST_BYTES:
        raise ValueError("it is too large")
    try:
        request = from_json(GpuRequest, json.loads(path.read_text(encoding="utf-8")))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return request, prepare(request.action, request.payload)


def _doctor(as_json: bool) -> int:
    from gpu_runner import doctor
    from gpu_runner.contracts import DoctorRequest

    report = doctor.run(DoctorRequest(), RunContext(Path.cwd()))
    sys.stdout.write(json.dumps(to_json(report), indent=2) if as_json else doctor.describe(report))
    sys.stdout.write("\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpu_runner", description="Proves and measures kernels in a sandbox."
    )
    parser.add_argument("--request", type=Path, help="the request, as JSON; tarballs it names are in the same folder")
    parser.add_argument("--result", type=Path, help="the folder in which result.json is written")
    parser.add_argument(
        "--standby", action="store_true", help="import, then wait on standard input for a line of JSON with both"
    )
    parser.add_argument("--seed", help="repeat a verdict: the seed that it shows; no request can carry one")
    commands = parser.add_subparsers(dest="command")
    doctor = commands.add_parser("doctor", help="say what this host can do, and prove its isolation")
    doctor.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser


def _end(code: int) -> NoReturn:
    """End this process without taking apart what it has imported.

    Measured: 2026-11-29, on a CPU, torch 2.13: 0.5 s of CPU time, for which whoever waits for the answer would wait.
    """
    keeper.close()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    _end(main())
