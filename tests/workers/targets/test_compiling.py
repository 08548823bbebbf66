"""The script that loads an emitted module for a compiler, carried out as it is where the compiler is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workers.targets.compiling import command

COMPILER = """
import ast
import inspect

IMPORTS = "import math\\nknown = lambda function: function"
LACKING = {FileNotFoundError: "its assembler is missing"}


def is_known(decorator):
    return ast.unparse(decorator) == "known"


def unusable():
    return %r


def jobs(functions, request):
    for name in request["kernels"]:
        yield {"name": name}, lambda name=name: one(functions, name)


def one(functions, name):
    print("a compiler that prints")
    return {"lines": len(inspect.getsource(functions[name]).splitlines()), "value": functions[name]()}
"""
SOURCE = """
print("the module runs")


@known
def _kernel():
    return math.pi


@known
@other
def _decorated():
    return 1


@known
def _default(x=print("it runs when it is defined")):
    return 1


def host():
    return 1


@known
def _broken():
    raise ValueError("x" * 5000)


@known
def _lacking():
    raise FileNotFoundError("ptxas")
"""


def answered(folder: Path, kernels: list[str], unusable: str | None = None) -> dict[str, Any]:
    module = folder / "compiler.py"
    module.write_text(COMPILER % unusable)
    with command(sys.executable, "compiling.py") as words:
        run = [*words[:-1], str(module)]
    request = json.dumps({"source": SOURCE, "kernels": kernels})
    done = subprocess.run(run, input=request, capture_output=True, text=True, cwd=folder, check=True)
    assert "runs" not in done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_marked_functions_alone_are_defined_and_their_source_can_be_read(tmp_path: Path) -> None:
    kernel, decorated, default, host = answered(tmp_path, ["_kernel", "_decorated", "_default", "host"])["kernels"]
    assert kernel == {"name": "_kernel", "lines": 3, "value": pytest.approx(3.14159, abs=1e-5)}
    assert [one["error"] for one in (decorated, default, host)] == [
        f"KeyError: '{name}'" for name in ("_decorated", "_default", "host")
    ]


def test_an_error_has_the_compilers_last_words_and_what_is_missing_ends_all(tmp_path: Path) -> None:
    (broken,) = answered(tmp_path, ["_broken"])["kernels"]
    assert broken["error"] == "x" * 2000
    assert answered(tmp_path, ["_kernel", "_lacking"]) == {"missing": "its assembler is missing"}
    assert answered(tmp_path, ["_kernel"], "it is version 9 here") == {"missing": "it is version 9 here"}
