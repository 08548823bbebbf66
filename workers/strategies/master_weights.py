"""Which of a Function's parameters may be float32 beside inputs of fewer bits, as far as fast kernels and file agree. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpu_runner.contracts import Problem
from workers.authors.protocol import Signature, SourceStyle
from workers.strategies.calling import Called
from workers.strategies.element_types import outermost, returned_types
from workers.strategies.patches import Patches
from workers.strategies.pointers import LOADS, accesses_of
from workers.strategies.rewriting import add_parameter
from workers.strategies.syntax import KernelFile, called, parsed


@dataclass(frozen=True)
class Loosened:
    """A section, the inputs that may be float32 in it, and those whose dtype its backward function is told last."""

    section: str
    loose: frozenset[str]
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class Names:
    """How a section's functions are called."""

    style: SourceStyle
    signature: Signature

    @property
    def functions(self) -> tuple[str, str]:
        """Give the names of the forward and the backward function."""
        return self.style.forward_function, self.style.backward_function


def loosened(file: KernelFile, bound: Called, problem: Problem, section: str, names: Names) -> Loosened:
    """Give a section that takes float32 for parameters wherever that gives what the file's own code gives.

    It reads them as float32 anyway; results must keep the dtype that the file gives them, told from the source of both.
    """
    strict = Loosened(section, frozenset())
    wanted = [spec.name for spec in problem.inputs if spec.parameter and spec.dtype is None]
    fast = parsed(section)
    forward, backward = (fast.functions.get(name) for name in names.functions)
    if not wanted or forward is None or backward is None:
        return strict
    loose = frozenset(name for name in wanted if _always_cast(fast, name))
    others = frozenset(spec.name for spec in problem.inputs if spec.dtype is None) - loose
    if not _same_results(file, bound, fast, forward, names.signature, others):
        return strict
    patches, told = Patches(section), []
    dtypes = {name: _gradient_dtype(backward, names.signature, name) for name in loose}
    keeping = frozenset(name for name, node in dtypes.items() if name not in names.signature.gradients or node)
    for name in (n for n in names.signature.gradients if n in keeping):
        node = dtypes[name]
        if node is None or ast.unparse(node.value) == name:
            continue
        at_hand = name in names.signature.backward_arguments
        patches.replace(node, f"{name}.dtype" if at_hand else f"{name}_dtype")
        told += [] if at_hand else [name]
    if told:
        broken = backward.args.args[0].lineno != backward.lineno
        add_parameter(patches, fast, backward, (",\n    " if broken else ", ").join(f"{name}_dtype" for name in told))
    return Loosened(patches.result(), keeping, tuple(told))


def _always_cast(fast: KernelFile, name: str) -> bool:
    """Tell whether every kernel that gets the input casts it where it loads it, and nothing else depends on its bytes."""
    for function in fast.functions.values():
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return False
            if isinstance(node, ast.Attribute) and ast.unparse(node) == f"{name}.element_size":
                return False
    pointers = [
        (launch.kernel, parameter)
        for launch in fast.launches
        for parameter, value in launch.arguments
        if isinstance(value, ast.Name) and value.id == name
    ]
    return all(_casts(fast.kernels[kernel], parameter) for kernel, parameter in pointers)


def _casts(kernel: ast.FunctionDef, parameter: str) -> bool:
    found = accesses_of(kernel)
    if parameter in found.written or found.atomics or any(a.parameter is None for a in found.loads):
        return False
    cast = {
        id(node.func.value)
        for node in ast.walk(kernel)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "to"
        and called(node.func.value) in LOADS
        and [ast.unparse(a) for a in node.args] == ["tl.float32"]
    }
    return all(id(a.call) in cast for a in found.loads if a.parameter == parameter)


def _same_results(
    file: KernelFile,
    bound: Called,
    fast: KernelFile,
    forward: ast.FunctionDef,
    signature: Signature,
    others: frozenset[str],
) -> bool:
    """Tell whether each result has the dtype of the inputs that are no parameters, or the same fixed one, in both."""
    count = len(signature.outputs)
    mine = returned_types(fast, outermost(forward))[:count]
    theirs = returned_types(file, outermost(bound.forward))
    theirs = theirs[:count] if bound.result is None else theirs[bound.result : bound.result + 1]
    if len(mine) != count or len(theirs) != count:
        return False
    own = {bound.places[name] for name in others}
    for fast_types, types in zip(mine, theirs, strict=True):
        if not fast_types or not types:
            return False
        if not (fast_types <= others and types <= own) and not (fast_types == types and len(types) == 1):
            return False
    return True


def _gradient_dtype(backward: ast.FunctionDef, signature: Signature, name: str) -> ast.Attribute | None:
    """Give the ``.dtype`` that the gradient of an input is cast to; None where it is not to be told from one place."""
    last = backward.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    elements = value.elts if isinstance(value, ast.Tuple) else [value]
    if name not in signature.gradients or len(elements) != len(signature.gradients):
        return None
    result = elements[signature.gradients.index(name)]
    made = [
        n.value
        for n in ast.walk(backward)
        if isinstance(n, ast.Assign)
        and isinstance(result, ast.Name)
        and any(isinstance(t, ast.Name) and t.id == result.id for t in n.targets)
    ]
    found = [n for v in made for n in ast.walk(v) if isinstance(n, ast.Attribute) and n.attr == "dtype"]
    return found[0] if len(made) == 1 and len(found) == 1 else None
