"""Has a compiler take the kernels of an emitted module. Carried out by Python as a script of its own, with the path of a module of
this folder that knows the compiler as its argument: a request in JSON on standard input, an answer in JSON on standard output.

Of the emitted module only functions are defined whose one decorator the compiler knows, and nothing runs when they are.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import linecache
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Protocol, cast

LONGEST = 2000  # characters of a compiler's message
Job = tuple[
    dict[str, Any], Callable[[], dict[str, Any]]
]  # what is said of a kernel anyway, and what its compilation adds


class KernelCompiler(Protocol):
    """What a compiler's module has. It imports nothing of this project: it runs where the compiler is."""

    IMPORTS: str  # in front of the functions
    LACKING: Mapping[type[Exception], str]  # what an error says is missing of the compiler, in a sentence

    def is_known(self, decorator: ast.expr) -> bool:
        """Whether a decorator marks code for the device, and runs nothing else."""

    def unusable(self) -> str | None:
        """What of the compiler is missing, in a sentence; None where it is there."""

    def jobs(self, functions: dict[str, Any], request: dict[str, Any]) -> Iterator[Job]:
        """The compilations that a request asks for, of these functions."""


@contextlib.contextmanager
def command(python: str, compiler: str) -> Iterator[list[str]]:
    """The command line that has a Python carry this script out for a compiler, by the name of its file."""
    folder = files("workers.targets")
    with as_file(folder.joinpath("compiling.py")) as script, as_file(folder.joinpath(compiler)) as module:
        yield [python, "-I", str(script), str(module)]


def device_functions(source: str, is_known: Callable[[ast.expr], bool]) -> list[ast.FunctionDef]:
    """The functions of a module that have one decorator, a known one, and no defaults."""
    body = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    marked = [node for node in body if len(node.decorator_list) == 1 and is_known(node.decorator_list[0])]
    return [node for node in marked if not node.args.defaults]


@contextlib.contextmanager
def defined(nodes: list[ast.FunctionDef], imports: str) -> Iterator[dict[str, Any]]:
    """The names of a module of these functions, whose source can be read as long as it is there."""
    text = imports + "\n\n\n" + "\n\n\n".join(map(ast.unparse, nodes)) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.py"
        path.write_text(text)
        module = types.ModuleType("kernels")
        module.__file__ = str(path)
        sys.modules["kernels"] = module
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - definitions alone, see device_functions
        linecache.checkcache(str(path))
        yield module.__dict__


def answered(compiler: KernelCompiler, request: dict[str, Any]) -> dict[str, Any]:
    """What became of each kernel, or the compiler's words; or what of the compiler is missing."""
    missing = compiler.unusable()
    if missing is not None:
        return {"missing": missing}
    kernels = []
    with defined(device_functions(request["source"], compiler.is_known), compiler.IMPORTS) as functions:
        for asked, compile_one in compiler.jobs(functions, request):
            try:
                kernels.append({**asked, **compile_one()})
            except Exception as error:  # noqa: BLE001 - whatever the compiler raises is its answer on this kernel
                if type(error) in compiler.LACKING:
                    return {"missing": compiler.LACKING[type(error)]}
                kernels.append({**asked, "error": f"{type(error).__name__}: {error}"[-LONGEST:]})
    return {"kernels": kernels}


def main(path: str) -> None:
    """Answer the request on standard input; what a compiler prints goes to standard error."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    compiler = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compiler)
    with contextlib.redirect_stdout(sys.stderr):
        answer = answered(cast(KernelCompiler, compiler), json.load(sys.stdin))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
