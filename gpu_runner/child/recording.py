"""The role in which a repository's own script runs on a fake GPU, and the calls into one of its kernels are noted.

The GPU is not there: tensors have shapes and no content, nothing is computed, and no time passes. Everything lies on the host as
torch's fake tensors, whatever device is asked for; what asks for the GPU's memory gets an account of the tensors that live.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, TextIO

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from gpu_runner.child.handlers import Answer, ChildState, Handler
from gpu_runner.messages import RecordScript, Request
from gpu_runner.program.mode import Mode

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


def run(state: ChildState, request: RecordScript, tensors: list[torch.Tensor]) -> Answer[str | None]:
    """Run the script to its end; what it raises is the answer's error."""
    with (state.work / request.report).open("w") as file, on_paper():
        _stop_clocks_and_kernels()
        _replace(request.module, request.symbol, _Recorder(file))
        script = Path(request.script)
        sys.argv = [script.name, *request.arguments]
        sys.path.insert(0, str((state.work / script).parent))
        try:
            runpy.run_path(str(state.work / script), run_name="__main__")
        except SystemExit as end:
            return None if end.code in (None, 0) else f"SystemExit: {end.code}", []
    return None, []


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
    traced = getattr(owner, last)
    if isinstance(traced, type) and issubclass(traced, torch.autograd.Function):
        _record_function(traced, recorder)
    elif callable(traced):
        _record_callable(owner, last, traced, recorder)
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
    """The number of outputs, which is that of the gradients that a backward takes."""
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
    """Outputs of the first tensor's shape."""
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


# The GPU that scripts believe in: they choose their sizes by its memory. An H200, by NVIDIA's data sheet.
NAME = "NVIDIA H200"
MEMORY_BYTES = 141 * 10**9
CAPABILITY = (9, 0)
MULTIPROCESSORS = 132

_ELSEWHERE = ("cuda", "xpu", "npu", "mps", "hpu")
# What torch's own code asks of a tensor's content, as quantile does of its shares in some versions.
_BY_CONTENT = {
    torch.ops.aten.equal.default: True,
    torch.ops.aten.is_nonzero.default: True,
    torch.ops.aten._local_scalar_dense.default: 1,  # noqa: SLF001 - an operator's name
}
_NUMBERS = {"item": 1, "__int__": 1, "__float__": 1.0, "__bool__": True, "__index__": 1}


class Account(Mode):
    """Counts the bytes of the tensors that live, and the most that lived at once."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[int, tuple[StorageWeakRef, int]] = {}
        self._live_bytes = 0
        self.peak_bytes = 0

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator, and count what it made; one that gives a number by the content gives one that lets a script go on."""
        if func in _BY_CONTENT:
            return _BY_CONTENT[func]
        given = func(*args, **kwargs)
        for tensor in given if isinstance(given, tuple | list) else (given,):
            if isinstance(tensor, torch.Tensor):
                self._note(tensor)
        return given

    def live_bytes(self) -> int:
        """The bytes of what lives now."""
        self._held = {key: entry for key, entry in self._held.items() if not entry[0].expired()}
        self._live_bytes = sum(size for _, size in self._held.values())
        return self._live_bytes

    def reset(self) -> None:
        """Begin to look for the most from now on."""
        self.peak_bytes = self.live_bytes()

    def _note(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)
        if reference.cdata in self._held:
            return
        self._held[reference.cdata] = (reference, int(storage.nbytes()))
        self._live_bytes += int(storage.nbytes())
        if self._live_bytes > self.peak_bytes:
            self.peak_bytes = max(self.peak_bytes, self.live_bytes())


class _HostOnly(TorchFunctionMode):  # type: ignore[misc]  # torch is untyped to the checker
    """Puts every tensor on the host, and gives a number where content is asked for."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _NUMBERS:
            return _NUMBERS[name]
        if name == "cuda":
            return args[0]
        if name in ("synchronize", "record_stream"):
            return None
        if name == "backward":
            # Only the memory that it takes is of use; what a recorder gave need not fit, and a backward then fails as it likes.
            with contextlib.suppress(Exception):
                func(*args, **dict(kwargs or {}))
            return None
        named = {key: _here(value) for key, value in (kwargs or {}).items() if key != "generator"}
        return func(*[_here(value) for value in args], **named)


def _here(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type in _ELSEWHERE:
        return torch.device("cpu")
    if isinstance(value, str) and value.partition(":")[0] in _ELSEWHERE:
        return "cpu"
    return value


def _listed(shape: Any) -> Any:
    if not shape:
        return 0.0
    return [_listed(shape[1:]) for _ in range(shape[0])]


@contextlib.contextmanager
def on_paper() -> Iterator[Account]:
    """Let what is run inside believe in a GPU; the process is not fit for anything else afterwards."""
    account = Account()
    pretend_gpu(account)
    FakeTensor.tolist = lambda tensor: _listed(tensor.shape)
    torch.nn.Module._apply = _apply  # noqa: SLF001 - fake tensors cannot be swapped in place
    torch.autograd.backward = _always(None)
    torch.compile, torch.nn.Module.compile = _uncompiled, _always(None)
    with _HostOnly(), FakeTensorMode(allow_non_fake_inputs=True), account:
        yield account


def pretend_gpu(account: Account) -> None:
    """Put answers in the place of what asks the GPU."""
    facts = {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_name": NAME,
        "get_device_capability": CAPABILITY, "is_bf16_supported": True, "memory_reserved": 0, "max_memory_reserved": 0,
        "mem_get_info": (MEMORY_BYTES, MEMORY_BYTES), "current_stream": _Inert(), "default_stream": _Inert(),
        "memory_stats": {}, "memory_summary": "", "utilization": 0,
    }  # fmt: skip
    idle = (
        "synchronize empty_cache init manual_seed manual_seed_all set_device ipc_collect reset_accumulated_memory_stats"
    )
    answers: dict[str, Callable[..., Any]] = {name: _always(value) for name, value in facts.items()}
    answers |= {name: _always(None) for name in idle.split()}
    answers |= {
        "get_device_properties": _always(_properties()),
        "memory_allocated": lambda *_, **__: account.live_bytes(),
        "max_memory_allocated": lambda *_, **__: account.peak_bytes,
        "reset_peak_memory_stats": lambda *_, **__: account.reset(),
        "reset_max_memory_allocated": lambda *_, **__: account.reset(),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
        if hasattr(torch.cuda.memory, name):
            setattr(torch.cuda.memory, name, answer)
    for name in ("Event", "Stream", "device", "stream", "CUDAGraph", "graph"):
        setattr(torch.cuda, name, _Inert)


def _properties() -> SimpleNamespace:
    return SimpleNamespace(
        name=NAME,
        total_memory=MEMORY_BYTES,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        multi_processor_count=MULTIPROCESSORS,
        L2_cache_size=50 * 2**20,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block_optin=227 * 2**10,
        shared_memory_per_multiprocessor=228 * 2**10,
        regs_per_multiprocessor=65536,
    )


class _Inert:
    """An event, a stream or a context of a GPU: everything can be done with it, and nothing comes of it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def elapsed_time(self, *_: Any) -> float:
        return 0.0

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _always(None)


def _uncompiled(model: Callable[..., Any] | None = None, **_: Any) -> Callable[..., Any]:
    """Stand in for ``torch.compile``, also as a decorator with options: without content it may end the process."""
    return (lambda value: value) if model is None else model


def _always(value: Any) -> Callable[..., Any]:
    # One function for each place: torch's compiler keeps tables of torch's functions, and refuses one that is there twice.
    return lambda *_, **__: value


def _apply(module: torch.nn.Module, change: Callable[[Any], Any], recurse: bool = True) -> torch.nn.Module:
    for part in module.modules() if recurse else [module]:
        for name, parameter in part._parameters.items():  # noqa: SLF001 - where torch's own form of this puts them
            if parameter is not None:
                changed = change(parameter.detach())
                part._parameters[name] = torch.nn.Parameter(changed, parameter.requires_grad)  # noqa: SLF001 - as above
        for name, buffer in part._buffers.items():  # noqa: SLF001 - as above
            if buffer is not None:
                part._buffers[name] = change(buffer)  # noqa: SLF001 - as above
    return module


HANDLERS: dict[type[Request[Any]], Handler] = {RecordScript: run}
