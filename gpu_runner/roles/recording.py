"""The role in which a repository's own script runs on paper, and the calls into one of its kernels are noted."""

from __future__ import annotations

import importlib
import inspect
import json
import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch

from gpu_runner.roles import Handler, State
from gpu_runner.roles.on_paper import on_paper

MOST_LINES = 20_000  # calls that are written down; a script that makes more has been heard


@dataclass
class _Recorder:
    """Writes each call as a line, at once: a script that ends its process has been heard up to there."""

    file: TextIO
    written: int = 0

    def note(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        if self.written < MOST_LINES:
            self.written += 1
            line = [_described(value) for value in (*values, *named.values())]
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()


def run(state: State, meta: dict[str, Any], tensors: list[torch.Tensor]) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Run the script to its end; what it raises is the answer's error."""
    with (state.work / meta["report"]).open("w") as file, on_paper():
        _stop_clocks_and_kernels()
        _replace(meta["module"], meta["symbol"], _Recorder(file))
        script = Path(meta["script"])
        sys.argv = [script.name, *meta["arguments"]]
        sys.path.insert(0, str((state.work / script).parent))
        try:
            runpy.run_path(str(state.work / script), run_name="__main__")
        except SystemExit as end:
            return {"error": None if end.code in (None, 0) else f"SystemExit: {end.code}"}, []
    return {"error": None}, []


def _stop_clocks_and_kernels() -> None:
    import triton
    import triton.testing
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    for kind in (JITFunction, InterpretedFunction, Autotuner):
        kind.run = _launches_nothing
    triton.testing.do_bench = _no_time
    triton.testing.do_bench_cudagraph = _no_time


def _launches_nothing(self: Any, *_: Any, **__: Any) -> None:
    return None


def _no_time(
    fn: Callable[[], Any], *_: Any, quantiles: Any = None, return_mode: str = "mean", **__: Any
) -> float | list[float]:
    fn()
    if quantiles is not None:
        return [0.0] * len(quantiles) if len(quantiles) > 1 else 0.0
    return [0.0] if return_mode == "all" else 0.0


def _replace(module_name: str, symbol: str, recorder: _Recorder) -> None:
    """Put the recorder in the place of a kernel.

    Raises:
        TypeError: it is neither an autograd Function nor callable.
    """
    module = importlib.import_module(module_name)
    owner: Any = module
    *path, last = symbol.split(".")
    for part in path:
        owner = getattr(owner, part)
    found = getattr(owner, last)
    if isinstance(found, type) and issubclass(found, torch.autograd.Function):
        _record_function(found, recorder)
    elif callable(found):
        _record_callable(owner, last, found, recorder)
    else:
        raise TypeError(f"{symbol} is neither an autograd Function nor callable")


def _record_function(function: Any, recorder: _Recorder) -> None:
    """Replace what ``apply`` runs: ``apply`` itself may be bound under other names already."""
    wants_ctx = function.setup_context is torch.autograd.function._SingleLevelFunction.setup_context  # noqa: SLF001 - torch asks so
    outputs = _outputs_of(function)
    original = function.forward

    def forward(*given: Any) -> Any:
        values = given[1:] if wants_ctx else given
        recorder.note(values, {})
        try:
            return original(*given)  # its kernels launch nothing, but its outputs have their shapes
        except Exception:  # noqa: BLE001 - a library's own code meets tensors without content, and may fail in any way; the
            # call is noted, which is all that is asked, and where the script cannot go on with these outputs, its error is told.
            return _likely(values, outputs)

    def backward(ctx: Any, *_: Any) -> tuple[None, ...]:
        return (None,) * len(ctx.needs_input_grad)

    function.forward = staticmethod(forward)
    function.backward = staticmethod(backward)


def _outputs_of(function: Any) -> int:
    """Give the number of outputs, which is that of the gradients that a backward takes."""
    try:
        parameters = list(inspect.signature(inspect.unwrap(function.backward)).parameters.values())[1:]
    except (TypeError, ValueError):
        return 1
    plain = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    return max(1, len(plain))


def _record_callable(owner: Any, name: str, original: Callable[..., Any], recorder: _Recorder) -> None:
    def called(*values: Any, **named: Any) -> Any:
        recorder.note(values, named)
        try:
            return original(*values, **named)
        except Exception:  # noqa: BLE001 - as above
            return _likely((*values, *named.values()), 1)

    setattr(owner, name, called)
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is original:
            setattr(module, name, called)


def _likely(values: tuple[Any, ...], outputs: int) -> Any:
    """Give outputs of the first tensor's shape."""
    first = next((value for value in values if isinstance(value, torch.Tensor)), None)
    if first is None:
        return None
    made = tuple(torch.empty_like(first) for _ in range(outputs))
    return made if outputs > 1 else made[0]


def _described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return {
            "shape": [int(size) for size in value.shape],
            "dtype": str(value.dtype).removeprefix("torch."),
            "contiguous": value.is_contiguous(),
            "grad": value.requires_grad,
        }
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return type(value).__name__


HANDLERS: dict[str, Handler] = {"run": run}
