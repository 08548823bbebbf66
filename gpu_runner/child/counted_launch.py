"""The process that Nsight Compute watches: it runs a candidate's passes once outside of the profiled range and once inside.

It is started in the sandbox, by the role ``profiling``, with the folder in which that role laid the call.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpu_runner.child.calls import Arguments, settle
from gpu_runner.child.handlers import ChildState
from gpu_runner.contracts.envelope import from_json, to_json
from gpu_runner.messages import ProfileCall

CALL, LAUNCHED = "call.json", "launched.json"
WARM_UP = 2
CHUNK_ELEMENTS = 2**26  # a file stays under the limit on files that a child has
_MARKER_CYCLES = 1000


@dataclass(frozen=True)
class LaidCall:
    """The call of a folder: of each of its tensors, how many pieces there are."""

    request: ProfileCall
    work: str
    gpu: bool
    pieces: tuple[int, ...]


def write(folder: Path, request: ProfileCall, state: ChildState, tensors: list[torch.Tensor]) -> None:
    """Write a call to a folder, its tensors in pieces; the request's import roots are whole paths.

    Raises:
        OSError: there is no room.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pieces = []
    for place, tensor in enumerate(tensors):
        parts = tensor.flatten().split(CHUNK_ELEMENTS) if tensor.numel() else (tensor.flatten(),)
        for number, part in enumerate(parts):
            torch.save(part.clone(), folder / f"{place}.{number}.pt")
        pieces.append(len(parts))
    call = LaidCall(request, str(state.work), state.gpu, tuple(pieces))
    (folder / CALL).write_text(json.dumps(to_json(call)), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run the call of a folder; what goes wrong ends the process with its traceback."""
    folder = Path(arguments[0])
    laid = from_json(LaidCall, json.loads((folder / CALL).read_text(encoding="utf-8")))
    tensors = [_tensor(folder, place, count) for place, count in enumerate(laid.pieces)]
    state = ChildState(scratch=folder, work=Path(laid.work), gpu=laid.gpu)
    launched = _noted_launches()
    sys.path[:0] = laid.request.import_roots
    candidate = _loaded(state, laid.request)
    call = settle(state, laid.request.call, tensors)
    buffers = [*call.raw.values(), *call.raw_upstream]
    pristine = [raw.clone() for raw in buffers]
    for _ in range(WARM_UP):
        _passes(candidate, call, laid, profiled=False)
        for raw, source in zip(buffers, pristine, strict=True):
            raw.copy_(source)  # a candidate may overwrite what it is given
    _passes(candidate, call, laid, profiled=True)
    (folder / LAUNCHED).write_text(json.dumps(sorted(launched)), encoding="utf-8")
    return 0


def _tensor(folder: Path, place: int, count: int) -> torch.Tensor:
    parts = [torch.load(folder / f"{place}.{number}.pt", weights_only=True) for number in range(count)]
    return torch.cat(parts)


def _noted_launches() -> set[str]:
    """Note the names of the Triton kernels that this process launches from now on."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    names: set[str] = set()
    for kind in (JITFunction, InterpretedFunction):
        _note_runs(kind, names)
    return names


def _note_runs(kind: Any, names: set[str]) -> None:
    original = kind.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        names.add(str(getattr(self.fn, "__name__", "kernel")))
        return original(self, *args, **kwargs)

    kind.run = run


def _loaded(state: ChildState, request: ProfileCall) -> Any:
    symbol: Any = importlib.import_module(request.module)
    for part in request.symbol.split("."):
        symbol = getattr(symbol, part)
    form = request.call.form
    return symbol(*form.init).to(state.device) if form.name == "kernelbench" else symbol


def _passes(candidate: Any, given: Arguments, laid: LaidCall, *, profiled: bool) -> None:
    """Run forward, a marker, and backward; on a GPU alone there is a range to open."""
    watched = profiled and laid.gpu
    _synchronize(laid.gpu)
    if watched:
        torch.cuda.profiler.start()
    value = given.call(candidate)
    outputs = list(value) if isinstance(value, tuple | list) else [value]
    _synchronize(laid.gpu)
    pairs = [
        (output, grad)
        for output, grad in zip(outputs, given.upstream, strict=False)
        if grad is not None and output.requires_grad
    ]
    leaves = list(given.leaves.values())
    if laid.request.call.backward and pairs and leaves:
        if watched:
            torch.cuda._sleep(_MARKER_CYCLES)  # noqa: SLF001 - the one kernel of torch that does nothing and has a name of its own
        torch.autograd.grad([output for output, _ in pairs], leaves, [grad for _, grad in pairs], allow_unused=True)
        _synchronize(laid.gpu)
    if watched:
        torch.cuda.profiler.stop()


def _synchronize(gpu: bool) -> None:
    if gpu:
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
