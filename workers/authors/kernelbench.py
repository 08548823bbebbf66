"""A compiled kernel in the KernelBench form: ``class ModelNew`` around ``candidate``, with the names of the model. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts import InputSpec, Problem


def model_new(problem: Problem) -> str:
    """Give the source of ``ModelNew`` for a problem that a KernelBench model was rewritten to.

    Raises:
        ValueError: the problem is no rewritten KernelBench model.
    """
    paths = state_paths(problem.source)
    specs = {spec.name: spec for spec in problem.inputs}
    held = [(path, specs[name]) for name, path in paths.items()]
    lines = [f'        self.add_module("{name}", torch.nn.Module())' for name in _roots(paths)]
    lines += [
        f'        self.get_submodule("{outer}").add_module("{inner}", torch.nn.Module())'
        for outer, inner in _nested(paths)
    ]
    lines += [_register(path, spec) for path, spec in held]
    own = [name for name in problem.parameters if name not in paths]
    given = ", ".join(_taken(name, paths) for name in problem.parameters)
    body = "\n".join(lines)
    return (
        "\n\nclass ModelNew(torch.nn.Module):\n"
        '    """The model with the same parameters and buffers, computed by the kernels above."""\n\n'
        "    def __init__(self, *args, **kwargs):\n"
        "        super().__init__()\n"
        f"{body}{chr(10) if body else ''}\n"
        f"    def forward(self, {', '.join(own)}):\n"
        "        held = {**dict(self.named_parameters()), **dict(self.named_buffers())}\n"
        f"        return candidate({given})\n"
    )


def state_paths(source: str) -> dict[str, str]:
    """Give, for each parameter of the reference that stands for one of the model's, its name within the model."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and _is_state(node.targets):
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {v.id: str(k.value) for k, v in pairs if isinstance(k, ast.Constant) and isinstance(v, ast.Name)}
    raise ValueError("the reference calls no model with a state of its own")


def _is_state(targets: list[ast.expr]) -> bool:
    return len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == "state"


def _folders(paths: dict[str, str]) -> list[str]:
    found: dict[str, None] = {}
    for path in paths.values():
        parts = path.split(".")[:-1]
        found.update(dict.fromkeys(".".join(parts[: depth + 1]) for depth in range(len(parts))))
    return sorted(found)


def _roots(paths: dict[str, str]) -> list[str]:
    return [folder for folder in _folders(paths) if "." not in folder]


def _nested(paths: dict[str, str]) -> list[tuple[str, str]]:
    return [(outer, inner) for outer, dot, inner in (f.rpartition(".") for f in _folders(paths)) if dot]


def _register(path: str, spec: InputSpec) -> str:
    outer, _, inner = path.rpartition(".")
    dtype = f", dtype=torch.{spec.dtype}" if spec.dtype else ""
    size = ", ".join(spec.dims)
    empty = f"torch.empty(({size}{',' if len(spec.dims) == 1 else ''}){dtype})"
    if spec.grad:
        return f'        self.get_submodule("{outer}").register_parameter("{inner}", torch.nn.Parameter({empty}))'
    return f'        self.get_submodule("{outer}").register_buffer("{inner}", {empty})'


def _taken(name: str, paths: dict[str, str]) -> str:
    return f'held["{paths[name]}"]' if name in paths else name
