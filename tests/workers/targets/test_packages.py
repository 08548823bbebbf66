"""What is emitted and interpreted of cuTile and CuTe DSL, held against the names and signatures of the installed packages."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from gpu_runner.program import language, threads, tiles
from tests.workers.compiler.test_cutile import EMITTED, answer
from workers.authors.protocol import Proposal

MODULES = {"cutile": {"ct": "cuda.tile"}, "cutedsl": {"cute": "cutlass.cute", "cutlass": "cutlass"}}
INSTALLED = {distribution.metadata["Name"] for distribution in importlib.metadata.distributions()}
PYTHONS = {
    "cutile": os.environ.get("CUTILE_PYTHON") or (sys.executable if "cuda-tile" in INSTALLED else None),
    "cutedsl": os.environ.get("CUTEDSL_PYTHON") or (sys.executable if "nvidia-cutlass-dsl" in INSTALLED else None),
}
LISTED = {
    "cutile": (language.TILE_HOST | language.TILE_LANGUAGE) - {"torch.cuda.current_stream"},
    "cutedsl": language.THREAD_HOST | language.THREAD_LANGUAGE,
}
ASKED = """
    import importlib, inspect, json, sys

    def found(path):
        parts = path.split(".")
        value = importlib.import_module(parts[0])
        for n, part in enumerate(parts[1:], 2):
            if not hasattr(value, part):
                importlib.import_module(".".join(parts[:n]))
            value = getattr(value, part)
        return value

    def parameters(path):
        try:
            value = found(path)
        except (AttributeError, ImportError) as error:
            return {"missing": str(error)}
        try:
            own = inspect.signature(value).parameters.values()
        except (TypeError, ValueError):
            return {}  # no function
        return {"parameters": [[one.name, int(one.kind), one.default is not one.empty] for one in own]}

    json.dump({path: parameters(path) for path in json.load(sys.stdin)}, sys.stdout)
"""
TARGETS = [
    pytest.param(to, marks=pytest.mark.skipif(python is None, reason=f"no Python with the package of {to}"))
    for to, python in PYTHONS.items()
]


def package(to: str, paths: set[str] | frozenset[str]) -> dict[str, dict[str, Any]]:
    """What the package has by these names: the parameters of a function, what is missing of a name that it has not."""
    run = [str(PYTHONS[to]), "-I", "-c", textwrap.dedent(ASKED)]
    done = subprocess.run(run, input=json.dumps(sorted(paths)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answered: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return answered


def signature(known: dict[str, Any]) -> inspect.Signature:
    kinds = list(type(inspect.Parameter.POSITIONAL_ONLY))
    made = [
        inspect.Parameter(name, kinds[kind], default=None if has_default else inspect.Parameter.empty)
        for name, kind, has_default in known["parameters"]
    ]
    return inspect.Signature(made)


def calls(to: str) -> set[tuple[str, int, tuple[str, ...]]]:
    """Each call of the package that is emitted for some problem: what is called, the arguments by place, those by name."""
    found = set()
    for name in EMITTED:
        for tunable in (False, True):
            given = answer(name, to, tunable)
            if isinstance(given, Proposal):
                nodes = [node for node in ast.walk(ast.parse(given.source)) if isinstance(node, ast.Call)]
                found |= {call for node in nodes if (call := _call(node, MODULES[to])) is not None}
    return found


def _call(node: ast.Call, modules: dict[str, str]) -> tuple[str, int, tuple[str, ...]] | None:
    root, _, rest = ast.unparse(node.func).partition(".")
    if root not in modules or not all(part.isidentifier() for part in rest.split(".")):
        return None
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    return f"{modules[root]}.{rest}", len(node.args), tuple(sorted(str(keyword.arg) for keyword in node.keywords))


@pytest.mark.parametrize("to", TARGETS)
def test_the_package_has_every_name_that_a_candidate_may_use(to: str) -> None:
    lacking = {path: known["missing"] for path, known in package(to, LISTED[to]).items() if "missing" in known}
    assert lacking == {}


@pytest.mark.parametrize("to", TARGETS)
def test_the_package_takes_every_call_that_is_emitted(to: str) -> None:
    emitted = calls(to)
    assert len(emitted) > 10
    known = package(to, {path for path, *_ in emitted})
    assert not [path for path in known if "missing" in known[path]]
    for path, count, named in emitted:
        if "parameters" in known[path]:
            signature(known[path]).bind(*range(count), **dict.fromkeys(named))


def interpreted(to: str) -> dict[str, Any]:
    """The functions that stand for the package's where kernels are interpreted, by its names."""
    own = tiles._MEMBERS if to == "cutile" else vars(threads)
    named = {path: own.get(path.rpartition(".")[2]) for path in LISTED[to]}
    return {path: made for path, made in named.items() if inspect.isfunction(made)}


@pytest.mark.parametrize("to", TARGETS)
def test_what_stands_for_a_function_takes_no_more_than_the_package(to: str) -> None:
    own = interpreted(to)
    assert len(own) > 10
    for path, known in package(to, set(own)).items():
        theirs = signature(known).parameters.values()
        if any(each.kind is each.VAR_POSITIONAL for each in theirs):
            continue
        parameters = inspect.signature(own[path]).parameters.values()
        named = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        takes_any = any(each.kind is each.VAR_KEYWORD for each in theirs)
        assert takes_any or named <= {each.name for each in theirs}, path
        by_place = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        assert len(by_place) <= sum(each.kind is not each.KEYWORD_ONLY for each in theirs), path
