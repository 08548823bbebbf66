"""Processes with Triton in its interpreter, which they may teach; forked from one that has the compiler's tests imported."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FORKING = multiprocessing.get_context("forkserver")
# To import torch and triton takes longer than many of these processes work.
IMPORTED = ("torch._dynamo", "tests.workers.compiler.interpreted", "tests.workers.compiler.suited")
TIME_S = 280.0


def interpreted(module: str, cases: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What a module of this folder finds in cases, from one process."""
    (folder / "cases.json").write_text(json.dumps(cases))
    run(module, str(folder / "cases.json"), str(folder / "results.json"), folder=folder)
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return results


def run(module: str, *arguments: str, folder: Path, time_s: float = TIME_S) -> None:
    """Run ``main`` of a module of this folder in a process of its own."""
    FORKING.set_forkserver_preload([*IMPORTED])
    errors = folder / "errors.txt"
    process = FORKING.Process(target=_main, args=(f"tests.workers.compiler.{module}", arguments, str(errors)))
    process.start()
    process.join(time_s)
    if process.exitcode is None:
        process.kill()
        process.join()
    assert process.exitcode == 0, errors.read_text()[-2000:]


def _main(module: str, arguments: tuple[str, ...], errors: str) -> None:
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    warnings.simplefilter("ignore")
    sys.argv[:] = [module, *arguments]
    importlib.import_module(module).main()
