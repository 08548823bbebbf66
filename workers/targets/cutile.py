"""cuTile's own compiler on the kernels of a module, in a process of its own; it needs no GPU."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from types import SimpleNamespace

from gpu_runner.contracts import Problem
from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.graph import CannotCompileError, evaluate, numbers_of
from workers.authors.compiler.schedules.cutile import TILE_SHAPE
from workers.authors.protocol import Proposal
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.targets.compiling import command

ARCHITECTURE = "sm_90"
ITEMSIZE = {"float32": 4, "bfloat16": 2}
DTYPES = tuple(ITEMSIZE)
LONGEST_S = 300.0
PYTHON = sys.executable  # of the environment that has cuTile
SCRIPT = "cutile_compiling.py"
FIX = "Run: pip install 'kernelsmith[cutile]'"
USUAL_COLUMNS = 4096  # where a problem has no workloads
HOST = SimpleNamespace(cdiv=lambda number, divisor: -(-number // divisor))  # what a launcher calls of the package
SIZE = re.compile(r"n_\w+|\w+_(rows|repeats)")  # a kernel's parameter that is a number of elements
ALLOCATION = re.compile(r"(\w+) = torch\.empty(?:_like)?\(.*dtype=torch\.(\w+)")


def kernel_requests(problem: Problem, proposal: Proposal) -> list[dict[str, object]]:
    """Each kernel that a module launches: the ranks and dtypes of its parameters, and its tile at the most columns."""
    requests: list[dict[str, object]] = []
    tree = ast.parse(proposal.source)
    kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for launcher in kernels.values():
        dtypes = dtypes_of(problem, proposal, launcher)
        for call in (node for node in ast.walk(launcher) if isinstance(node, ast.Call)):
            if ast.unparse(call.func) != "ct.launch":
                continue
            kernel, arguments = call.args[2], call.args[3]
            hint, kernel = (kernel.args[1], kernel.args[0]) if isinstance(kernel, ast.Call) else (None, kernel)
            assert isinstance(kernel, ast.Name) and isinstance(arguments, ast.Tuple)
            columns = columns_of(problem, proposal, kernel.id)
            constants = {dtype: _constants(launcher, columns, size) for dtype, size in ITEMSIZE.items()}
            parameters = zip(kernels[kernel.id].args.args, arguments.elts, strict=True)
            made = [_parameter(one, argument, dtypes, constants) for one, argument in parameters]
            occupancy = hint and {dtype: _number(hint, known) for dtype, known in constants.items()}
            requests.append({"name": kernel.id, "parameters": made, "occupancy": occupancy})
    return requests


def dtypes_of(problem: Problem, proposal: Proposal, launcher: ast.FunctionDef) -> dict[str, str]:
    """Dtypes that do not follow the call, by the launcher's names; what backward is handed of forward is float32."""
    assert proposal.signature is not None
    own = {spec.name: spec.dtype for spec in problem.inputs if spec.dtype}
    own |= dict.fromkeys(proposal.signature.saved, "float32")
    passes = (proposal.signature.forward_arguments, proposal.signature.backward_arguments)
    known = [arg.arg for arg in launcher.args.args]
    for names in passes:
        if len(names) == len(known):
            own |= {text: own[name] for text, name in zip(known, names, strict=True) if name in own}
    return own | dict(ALLOCATION.findall(ast.unparse(launcher)))


def _constants(launcher: ast.FunctionDef, columns: int, element_size: int) -> dict[str, object]:
    """The tile and the hint that a launcher chooses for rows of so many columns, of elements of so many bytes."""
    scope: dict[str, object] = {"n_cols": columns, "tuned": own_settings(launcher, element_size), "ct": HOST}
    lines = [_sized(node, element_size) for node in launcher.body if isinstance(node, ast.Assign)]
    chosen = [line for line in lines if line.startswith(("BLOCK_", "occupancy"))]
    exec("\n".join([TILE_SHAPE, *chosen]), scope)  # noqa: S102 - the compiler author's own lines about whole numbers
    return scope


def own_settings(launcher: ast.FunctionDef, element_size: int = 4) -> dict[str, int]:
    """The settings that a launcher takes where its table has no others, for elements of so many bytes."""
    calls = [node for node in ast.walk(launcher) if isinstance(node, ast.Call) and ast.unparse(node.func) == "_tuned"]
    given = {str(one.arg): _sized(one.value, element_size) for call in calls for one in call.keywords}
    return {name: eval(text, {"__builtins__": {}}) for name, text in given.items()}  # noqa: S307 - as `_constants`


def _number(node: ast.expr, scope: dict[str, object]) -> int:
    return int(eval(ast.unparse(node), dict(scope)))  # noqa: S307 - as `_constants`


def _sized(node: ast.AST, element_size: int) -> str:
    """The source of a launcher's line, with the bytes of an element in it as a number."""
    return re.sub(r"\w+\.element_size\(\)", str(element_size), ast.unparse(node))


def columns_of(problem: Problem, proposal: Proposal, kernel: str) -> int:
    spaces = [sketch.iteration_space for sketch in proposal.plan.kernels if sketch.name == kernel]
    counts = [USUAL_COLUMNS] if not problem.workloads else [1]
    for text in (space.partition("columns ")[2] for space in spaces):
        for workload in problem.workloads if text else ():
            try:
                counts.append(int(evaluate(Expr(text), numbers_of(problem, workload))))
            except CannotCompileError:
                counts.append(USUAL_COLUMNS)
    return min(max(counts), *(limit.most for limit in proposal.limits), max(counts))


def _parameter(
    parameter: ast.arg, argument: ast.expr, dtypes: dict[str, str], constants: dict[str, dict[str, object]]
) -> dict[str, object]:
    if parameter.annotation is not None:
        return {"constant": {dtype: known[parameter.arg] for dtype, known in constants.items()}}
    if isinstance(argument, ast.Call) and ast.unparse(argument.func).endswith(".view"):
        tensor = parameter.arg.removesuffix("_array")
        return {"ndim": len(argument.args), "dtype": dtypes.get(tensor)}
    return {"dtype": "int32" if SIZE.fullmatch(parameter.arg) else "float32"}


def compiled(
    source: str, requests: list[dict[str, object]], python: str | None = None, architecture: str = ARCHITECTURE
) -> str:
    """Compiles every kernel in every dtype, and gives a sentence on it; nothing of this process's environment is passed.

    Raises:
        UserFacingError: cuTile's compiler is missing or another one, or a kernel does not compile; with the compiler's words.
    """
    request = {"source": source, "kernels": requests, "dtypes": DTYPES, "architecture": architecture}
    return compiled_by("cuTile", SCRIPT, request, python or PYTHON, FIX)


def compiled_by(language: str, script_name: str, request: Mapping[str, object], python: str, fix: str) -> str:
    """Has a script of ``workers.targets`` compile the kernels of a request, and gives a sentence; raises as ``kernels_by``."""
    kernels_by(language, script_name, request, python, fix)
    return f"compiled for {request['architecture']} in {' and '.join(DTYPES)}; values not verified on this host"


def kernels_by(
    language: str, script_name: str, request: Mapping[str, object], python: str, fix: str
) -> list[dict[str, object]]:
    """What a script of ``workers.targets`` says of each kernel of a request, which it compiles in a process of its own.

    Raises:
        UserFacingError: the compiler is missing or another one, or a kernel does not compile; with the compiler's words.
    """
    with tempfile.TemporaryDirectory() as folder, command(python, script_name) as words:
        environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "TMPDIR": folder, "CUDA_TILE_TEMP_DIR": folder}
        try:
            done = subprocess.run(
                words,
                input=json.dumps(request),
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                env=environment,
                cwd=folder,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            message = f"{language}'s compiler cannot be run: {error}"
            raise UserFacingError(Failure(FailureCode.environment, message, fix)) from error
    if done.returncode != 0:
        log = done.stderr.strip()[-2000:] or None
        raise UserFacingError(Failure(FailureCode.environment, f"{language}'s compiler cannot be used", fix, log=log))
    answer = json.loads(done.stdout)
    if "missing" in answer:
        raise UserFacingError(Failure(FailureCode.environment, str(answer["missing"]), fix))
    kernels: list[dict[str, object]] = answer["kernels"]
    for kernel in kernels:
        if "error" in kernel:
            architecture = kernel.get("architecture", request["architecture"])
            message = f"{language} does not compile `{kernel['name']}` in {kernel['dtype']} for {architecture}"
            raise UserFacingError(
                Failure(FailureCode.verdict, message, "Nothing was written.", log=str(kernel["error"]))
            )
    return kernels
