"""A GPU that is not there: tensors have shapes and no content, nothing is computed, and no time passes.

Everything lies on the host as torch's fake tensors, whatever device is asked for; what asks for the GPU's memory gets an account
of the tensors that live.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Self

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from gpu_runner.verify.mode import Mode

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
        """Give the bytes of what lives now."""
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
    return (lambda found: found) if model is None else model


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
