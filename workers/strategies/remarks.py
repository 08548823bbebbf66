"""What a reader of a kernel's file would point at: one sentence each, with the line. Pure."""

from __future__ import annotations

import ast

from workers.strategies.pointers import accesses_of
from workers.strategies.syntax import KernelFile, Launch, called

# What each does to a pass, by the call that does it.
COSTS = {
    "torch.sort": "sorts whole rows with torch",
    "torch.equal": "waits for the GPU (`torch.equal` brings its answer to the host)",
    "torch.zeros": "fills a buffer with zeros in a launch of its own",
    "torch.zeros_like": "fills a buffer with zeros in a launch of its own",
}
HOST_READS = ("item", "tolist", "cpu")


def remarks(file: KernelFile) -> tuple[str, ...]:
    """Give what stands out, in the order of the lines."""
    found = [*_calls(file), *_kernels(file)]
    found += [
        (x.call.lineno, f"the launch of `{x.kernel}` leaves num_warps to Triton's default")
        for x in file.launches
        if not _sets_warps(x)
    ]
    return tuple(f"line {line}: {sentence}" for line, sentence in sorted(set(found)))


def _calls(file: KernelFile) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    hosts = [*file.functions.values(), *file.classes.values()]
    for node in (n for host in hosts for n in ast.walk(host) if isinstance(n, ast.Call)):
        name = called(node)
        if name in COSTS:
            found.append((node.lineno, COSTS[name]))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in HOST_READS and not node.args:
            found.append((node.lineno, f"waits for the GPU (`.{node.func.attr}()` brings a value to the host)"))
    return found


def _kernels(file: KernelFile) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for name, kernel in file.kernels.items():
        atomics = accesses_of(kernel).atomics
        if atomics:
            found.append(
                (atomics[0].call.lineno, f"`{name}` adds atomically, in an order that changes from run to run")
            )
        loops = [n for n in ast.walk(kernel) if isinstance(n, ast.For)]
        plain = [n for n in loops if called(n.iter) == "range" and any(called(x) == "tl.load" for x in ast.walk(n))]
        if plain:
            sentence = f"`{name}` loads in a loop that Triton does not pipeline (`range`, not `tl.range` with stages)"
            found.append((plain[0].lineno, sentence))
    return found


def _sets_warps(launch: Launch) -> bool:
    named = any(k.arg == "num_warps" for k in launch.call.keywords)
    in_dict = any(isinstance(n, ast.Constant) and n.value == "num_warps" for n in ast.walk(launch.function))
    return named or (bool(launch.starred) and in_dict)
