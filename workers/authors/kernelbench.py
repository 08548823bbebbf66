"""A compiled kernel in the KernelBench form: ``class ModelNew`` around ``candidate``, with the names of the model. Pure.

A module of the closed language of host code is complete once it is built, so that each part is handed all that it holds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpu_runner.contracts import InputSpec, Problem

_PART = '''

class Part(torch.nn.Module):
    """A part of the model: its parameters, buffers and parts by name."""

    def __init__(self, parameters, buffers, parts):
        super().__init__()
        for name, value in parameters.items():
            self.register_parameter(name, value)
        for name, value in buffers.items():
            self.register_buffer(name, value)
        for name, value in parts.items():
            self.add_module(name, value)
'''


def model_new(problem: Problem, tied: Iterable[tuple[str, str]] = ()) -> str:
    """The source of ``ModelNew`` for a problem that a KernelBench model was rewritten to.

    ``tied`` are second names of its parameters, each with the first one.

    Raises:
        ValueError: the problem is no rewritten KernelBench model.
    """
    paths = state_paths(problem.source)
    specs = {spec.name: spec for spec in problem.inputs}
    state = {path: specs[name] for name, path in paths.items()} | idle(problem.source)
    own = [name for name in problem.parameters if name not in paths]
    second = dict(tied)
    state |= {name: state[first] for name, first in second.items()}
    given = ", ".join(_taken(name, paths) for name in problem.parameters)
    body = "".join(f"        {line}\n" for line in [*_root(state), *map(_tie, second.items())])
    everything = "remove_duplicate=False" if second else ""
    return (
        f"{_PART if any('.' in path for path in state) else ''}\n\n"
        "class ModelNew(torch.nn.Module):\n"
        '    """The model with the same parameters and buffers, computed by the kernels above."""\n\n'
        "    def __init__(self, *args, **kwargs):\n"
        "        super().__init__()\n"
        f"{body}\n"
        f"    def forward(self, {', '.join(own)}):\n"
        f"        held = {{**dict(self.named_parameters({everything})), **dict(self.named_buffers())}}\n"
        f"        return candidate({given})\n"
    )


def _tie(pair: tuple[str, str]) -> str:
    folder, _, name = pair[0].rpartition(".")
    return f'self.get_submodule("{folder}").register_parameter("{name}", self.get_parameter("{pair[1]}"))'


def state_paths(source: str) -> dict[str, str]:
    """For each parameter of the reference that is one of the model's, its name within the model."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and _is_state(node.targets):
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {v.id: str(k.value) for k, v in pairs if isinstance(k, ast.Constant) and isinstance(v, ast.Name)}
    raise ValueError("the reference calls no model with a state of its own")


def idle(source: str) -> dict[str, InputSpec]:
    """The parameters and buffers, such as a count of batches, that the model has and no value depends on."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_IDLE":
            table: dict[str, tuple[str, tuple[int, ...], bool, str | None]] = ast.literal_eval(node.value)
            return {
                path: InputSpec("", tuple(map(str, shape)), dtype, init=init or "zeros", grad=grad, parameter=True)
                for path, (dtype, shape, grad, init) in table.items()
            }
    return {}


def _is_state(targets: list[ast.expr]) -> bool:
    return len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == "state"


def _root(state: dict[str, InputSpec]) -> list[str]:
    lines = [
        f"self.register_{'parameter' if spec.grad else 'buffer'}({_quoted(path)}, {_made(spec)})"
        for path, spec in state.items()
        if "." not in path
    ]
    return [*lines, *(f"self.add_module({_quoted(name)}, {_part(state, name)})" for name in _parts(state, ""))]


def _part(state: dict[str, InputSpec], folder: str) -> str:
    own = {path.removeprefix(f"{folder}."): spec for path, spec in state.items() if path.startswith(f"{folder}.")}
    direct = {name: spec for name, spec in own.items() if "." not in name}
    parameters = ", ".join(f"{_quoted(name)}: {_made(spec)}" for name, spec in direct.items() if spec.grad)
    buffers = ", ".join(f"{_quoted(name)}: {_made(spec)}" for name, spec in direct.items() if not spec.grad)
    parts = ", ".join(f"{_quoted(name)}: {_part(state, f'{folder}.{name}')}" for name in _parts(state, f"{folder}."))
    return f"Part({{{parameters}}}, {{{buffers}}}, {{{parts}}})"


def _parts(state: dict[str, InputSpec], prefix: str) -> list[str]:
    """The names of the parts right below a prefix."""
    inside = (path.removeprefix(prefix) for path in state if path.startswith(prefix))
    return list(dict.fromkeys(path.partition(".")[0] for path in inside if "." in path))


def _quoted(name: str) -> str:
    return f'"{name}"'


def _made(spec: InputSpec) -> str:
    dtype = f", dtype=torch.{spec.dtype}" if spec.dtype else ""
    size = ", ".join(spec.dims)
    # A variance so far starts at one; what the model draws is drawn nowhere else, and is handed over with its state.
    make = {"ones": "ones", "zeros": "zeros", "uniform": "ones"}.get(spec.init, "empty")
    made = f"torch.{make}(({size}{',' if len(spec.dims) == 1 else ''}){dtype})"
    return f"torch.nn.Parameter({made})" if spec.grad else made


def _taken(name: str, paths: dict[str, str]) -> str:
    return f'held["{paths[name]}"]' if name in paths else name
