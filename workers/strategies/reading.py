"""What stands in a kernel file about launches, memory and autograd, and remarks on it with their lines. Pure."""

from __future__ import annotations

import ast
from functools import lru_cache

from gpu_runner.contracts.reading import walk
from workers.contracts import KernelReading, SourceReading
from workers.strategies.source import KernelFile, Launch, accesses_of, autotune_of, called, constexprs_of, parsed

SETTINGS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
REDUCTIONS = frozenset(
    f"tl.{name}"
    for name in ("sum", "max", "min", "argmax", "argmin", "cumsum", "cumprod", "reduce", "associative_scan", "sort")
)
PRODUCTS = frozenset({"tl.dot", "torch.matmul", "torch.mm", "torch.addmm", "torch.bmm", "F.linear"})


@lru_cache(maxsize=64)  # as often as its file is parsed
def read_source(path: str, source: str) -> SourceReading:
    """Analyse a kernel's file.

    Raises:
        ValueError: it cannot be parsed.
    """
    file = parsed(source)
    launches = {name: [x for x in file.launches if x.kernel == name] for name in file.kernels}
    return SourceReading(
        path,
        _tier(file),
        tuple(_kernel(file, kernel, launches[name]) for name, kernel in file.kernels.items()),
        _saved(file),
        _in_place(file),
        any(autotune_of(kernel) is not None for kernel in file.kernels.values()),
        remarks(file),
    )


def _kernel(file: KernelFile, kernel: ast.FunctionDef, launches: list[Launch]) -> KernelReading:
    accesses = accesses_of(kernel)
    casts = [n for n in walk(kernel) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return KernelReading(
        kernel.name,
        kernel.lineno,
        tuple(name for name in constexprs_of(kernel) if "BLOCK" in name.upper()),
        tuple(dict.fromkeys(pair for launch in launches for pair in _settings(file, launch))),
        file.segment(launches[0].grid) if launches else None,
        len(accesses.loads),
        len(accesses.stores),
        sum(1 for node in casts if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cast")),
        sum(1 for node in walk(kernel) if isinstance(node, ast.For | ast.While)),
        len(accesses.atomics),
    )


def _settings(file: KernelFile, launch: Launch) -> list[tuple[str, str]]:
    named = [k for k in launch.call.keywords if k.arg in SETTINGS or "BLOCK" in (k.arg or "").upper()]
    return [(k.arg or "", file.segment(k.value)) for k in named]


def _tier(file: KernelFile) -> int:
    calls = {called(node) for node in walk(file.tree)}
    if calls & PRODUCTS or any(isinstance(node, ast.MatMult) for node in walk(file.tree)):
        return 3
    return 2 if calls & REDUCTIONS else 1


def _saved(file: KernelFile) -> tuple[str, ...]:
    calls = [n for owner in file.classes.values() for n in walk(owner) if called(n) == "ctx.save_for_backward"]
    ordered = sorted((c for c in calls if isinstance(c, ast.Call)), key=lambda c: c.lineno)
    return tuple(dict.fromkeys(file.segment(argument) for call in ordered for argument in call.args))


def _in_place(file: KernelFile) -> bool:
    """A kernel writes to what it reads, or a launch hands one tensor over twice, by its name or by another."""
    for launch in file.launches:
        accesses = accesses_of(file.kernels[launch.kernel])
        if accesses.read & accesses.written:
            return True
        aliases = _aliases(launch.function)
        read = {_tensor(launch.argument(p), aliases) for p in accesses.read} - {None}
        stored = {_tensor(launch.argument(p), aliases) for p in accesses.written} - {None}
        if read & stored:
            return True
    return False


def _aliases(function: ast.FunctionDef) -> dict[str, str]:
    plain = [n for n in walk(function) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name)]
    return {
        t.id: n.value.id for n in plain for t in n.targets if isinstance(t, ast.Name) and isinstance(n.value, ast.Name)
    }


def _tensor(argument: ast.expr | None, aliases: dict[str, str]) -> str | None:
    return aliases.get(argument.id, argument.id) if isinstance(argument, ast.Name) else None


# What each does to a pass, by the call that does it.
COSTS = {
    "torch.sort": "sorts whole rows with torch",
    "torch.equal": "waits for the GPU (`torch.equal` brings its answer to the host)",
    "torch.zeros": "fills a buffer with zeros in a launch of its own",
    "torch.zeros_like": "fills a buffer with zeros in a launch of its own",
}
HOST_READS = ("item", "tolist", "cpu")


def remarks(file: KernelFile) -> tuple[str, ...]:
    """What is notable in a file, in the order of the lines."""
    notes = [*_calls(file), *_kernels(file)]
    notes += [
        (x.call.lineno, f"the launch of `{x.kernel}` leaves num_warps to Triton's default")
        for x in file.launches
        if not _sets_warps(x)
    ]
    return tuple(f"line {line}: {sentence}" for line, sentence in sorted(set(notes)))


def _calls(file: KernelFile) -> list[tuple[int, str]]:
    remarks: list[tuple[int, str]] = []
    hosts = [*file.functions.values(), *file.classes.values()]
    for node in (n for host in hosts for n in walk(host) if isinstance(n, ast.Call)):
        name = called(node)
        if name in COSTS:
            remarks.append((node.lineno, COSTS[name]))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in HOST_READS and not node.args:
            remarks.append((node.lineno, f"waits for the GPU (`.{node.func.attr}()` brings a value to the host)"))
    return remarks


def _kernels(file: KernelFile) -> list[tuple[int, str]]:
    remarks: list[tuple[int, str]] = []
    for name, kernel in file.kernels.items():
        atomics = accesses_of(kernel).atomics
        if atomics:
            remarks.append(
                (atomics[0].call.lineno, f"`{name}` adds atomically, in an order that changes from run to run")
            )
        loops = [n for n in walk(kernel) if isinstance(n, ast.For)]
        plain = [n for n in loops if called(n.iter) == "range" and any(called(x) == "tl.load" for x in walk(n))]
        if plain:
            sentence = f"`{name}` loads in a loop that Triton does not pipeline (`range`, not `tl.range` with stages)"
            remarks.append((plain[0].lineno, sentence))
    return remarks


def _sets_warps(launch: Launch) -> bool:
    named = any(k.arg == "num_warps" for k in launch.call.keywords)
    in_dict = any(isinstance(n, ast.Constant) and n.value == "num_warps" for n in walk(launch.function))
    return named or (bool(launch.starred) and in_dict)
