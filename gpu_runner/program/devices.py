"""Other GPUs than the one that is there, for host code that asks about the device.

What a program computes must not depend on the GPU's name, its number of multiprocessors, or on whether torch traces it. In some
cases the evaluator answers for another GPU, in the interpreter for one at all; kernels run where they run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from gpu_runner.contracts.verify import Status
from gpu_runner.peaks import AMD, GPUS, Gpu
from gpu_runner.program import language
from gpu_runner.program.evaluator import Evaluator
from gpu_runner.program.kernels import tensors_in
from gpu_runner.program.objects import DeviceProperties, Native, Violation

DRIVER_COUNTS = ("multiprocessor_count", "num_vectorcore")  # what a driver counts, of a GPU and of an Ascend NPU
MEMORY_BYTES = 48 * 2**30
_KIB = 2**10
# Of one program, by architecture. Source: CUDA C++ Programming Guide, technical specifications by compute capability.
_SHARED_MEMORY = {
    "sm_80": 163 * _KIB, "sm_86": 99 * _KIB, "sm_89": 99 * _KIB, "sm_90": 227 * _KIB, "sm_100": 227 * _KIB, "sm_120": 99 * _KIB,
    "gfx942": 64 * _KIB,
}  # fmt: skip


class _Members(dict[str, Any]):
    """Members of libraries, some of which tell of the device: each time one of these is looked up is noted."""

    def __init__(self, members: Mapping[str, Any], telling: Collection[str], note: Callable[[], None]) -> None:
        super().__init__(members)
        self._telling, self._note = frozenset(telling), note

    def __getitem__(self, path: str) -> Any:
        """A member."""
        if path in self._telling:
            self._note()
        return super().__getitem__(path)


class Device:
    """What a program is told about its device in one case; ``was_asked`` says whether it asked.

    On a GPU it is told another name and a part of the multiprocessors, so that programs which wait for each other still run at the
    same time. In the interpreter it is told that its tensors lie on a GPU.
    """

    def __init__(self, gpu: str, multiprocessors: int, *, is_compiling: bool) -> None:
        self.was_asked = False
        self._facts: Mapping[str, Any] | None = None
        self._is_compiling = is_compiling
        self._gpu = (GPUS | {AMD.name: AMD})[gpu] if gpu else None
        self._is_there = torch.cuda.is_available()
        self._index = (
            0 if self._is_there or not gpu else (multiprocessors + 1) % 2
        )  # as of the first and second of several
        here = torch.cuda.get_device_properties(0).multi_processor_count if self._is_there else multiprocessors
        self.multiprocessors = min(multiprocessors, here) if gpu else here if self._is_there else 0

    @classmethod
    def like(cls, facts: Mapping[str, Any]) -> Device:
        """The GPU of another process, by what ``facts_of_gpu`` gave there, for the interpreter."""
        device = cls("", 0, is_compiling=False)
        device._facts = facts
        device.multiprocessors = int(facts["properties"]["multi_processor_count"])
        return device

    def install(self, evaluator: Evaluator) -> None:
        """Have an evaluator, which has loaded nothing yet, answer for this device."""
        answers: dict[str, Callable[..., Any]] = {}
        if self._facts is not None or not self._is_there:  # in the interpreter, which multiplies float32 as it is
            evaluator.members = evaluator.members | {"torch.backends.cudnn.allow_tf32": False}
            answers["torch.get_float32_matmul_precision"] = lambda: "highest"
        if self._is_compiling:
            answers |= dict.fromkeys(
                ("torch.compiler.is_compiling", "torch.compiler.is_dynamo_compiling"), lambda: True
            )
        if self._gpu is not None:
            answers |= self._elsewhere(self._gpu) if self._is_there else self._anywhere(self._gpu)
            if not self._is_there:
                is_amd = self._gpu is AMD
                versions = (None, "6.4.43482") if is_amd else ("12.8", None)
                told = dict(zip(("torch.version.cuda", "torch.version.hip"), versions, strict=True))
                evaluator.members = _Members(evaluator.members | told, told, self._note)
                evaluator.attribute_of.insert(0, self._attribute)
                evaluator.placement = MemoryPlacement()
        if self._facts is not None:
            answers |= _answers(self._facts)
            evaluator.attribute_of.insert(0, self._attribute)
            evaluator.placement = MemoryPlacement()
        for path, answer in answers.items():
            evaluator.special[path] = self._noted(answer)

    def _note(self) -> None:
        self.was_asked = True

    def _noted(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **named: Any) -> Any:
            self.was_asked = True
            return answer(*args, **named)

        return noted

    def _elsewhere(self, gpu: Gpu) -> dict[str, Callable[..., Any]]:
        def properties(device: Any = None) -> DeviceProperties:
            known = torch.cuda.get_device_properties(device)
            values = {name: getattr(known, name) for name in language.DEVICE_PROPERTIES if hasattr(known, name)}
            return DeviceProperties(**values | {"name": gpu.name, "multi_processor_count": self.multiprocessors})

        def of_driver(device: Any = 0) -> dict[str, Any]:
            from triton.runtime import driver

            known = driver.active.utils.get_device_properties(device)
            return {**known, **dict.fromkeys(DRIVER_COUNTS, self.multiprocessors)}

        return {
            "torch.cuda.get_device_properties": properties,
            "torch.cuda.get_device_name": lambda *_, **__: gpu.name,
            "triton.runtime.driver.active.utils.get_device_properties": of_driver,
        }

    def _anywhere(self, gpu: Gpu) -> dict[str, Callable[..., Any]]:
        is_amd = gpu is AMD
        architecture = gpu.architecture if is_amd else int(gpu.architecture.removeprefix("sm_"))
        capability = (9, 4) if isinstance(architecture, str) else divmod(architecture, 10)
        lanes = 64 if is_amd else 32
        shared = _SHARED_MEMORY[gpu.architecture]
        properties = DeviceProperties(
            name=gpu.name,
            major=capability[0],
            minor=capability[1],
            multi_processor_count=self.multiprocessors,
            total_memory=MEMORY_BYTES,
            L2_cache_size=gpu.l2_bytes,
            warp_size=lanes,
            gcnArchName=gpu.architecture if is_amd else gpu.name,
            max_threads_per_multi_processor=2048,
            shared_memory_per_block=48 * 2**10,
            shared_memory_per_block_optin=shared,
            shared_memory_per_multiprocessor=shared + 2**10,
            regs_per_multiprocessor=65536,
            is_integrated=0,
            is_multi_gpu_board=0,
        )
        of_driver = {
            "max_shared_mem": shared,
            "max_num_regs": 65536,
            "warpSize": lanes,
        } | dict.fromkeys(DRIVER_COUNTS, self.multiprocessors)
        return _answers(
            {
                "count": 1 + self._index + self.multiprocessors % 7,
                "index": self._index,
                "has_bf16": True,
                "capability": capability,
                "properties": vars(properties),
                "driver": of_driver,
                "target": ("hip" if is_amd else "cuda", architecture, lanes),
            }
        )

    def _attribute(self, value: Any, name: str) -> Any:
        if not isinstance(value, torch.Tensor) or name not in ("device", "is_cuda", "is_cpu", "get_device", "cuda"):
            return NotImplemented
        self.was_asked = True
        if name == "get_device":
            return Native(name, lambda: self._index, value)
        if name == "cuda":
            return Native(name, lambda *_, **__: value, value)
        return torch.device("cuda", self._index) if name == "device" else name == "is_cuda"


def facts_of_gpu() -> dict[str, Any]:
    """What host code can learn of the GPU that is there, in a plain form."""
    from triton.runtime import driver

    known = torch.cuda.get_device_properties(0)
    target = driver.active.get_current_target()
    return {
        "count": torch.cuda.device_count(),
        "has_bf16": torch.cuda.is_bf16_supported(),
        "capability": list(torch.cuda.get_device_capability(0)),
        "properties": {name: getattr(known, name) for name in language.DEVICE_PROPERTIES if hasattr(known, name)},
        "driver": dict(driver.active.utils.get_device_properties(0)),
        "target": [target.backend, target.arch, target.warp_size],
    }


def _answers(facts: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """What host code is told of a GPU that is not there, by what it asks."""

    def target() -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget(*facts["target"])

    plain = {
        "torch.cuda.is_available": True,
        "torch.cuda.device_count": facts["count"],
        "torch.cuda.current_device": facts.get("index", 0),
        "torch.cuda.is_bf16_supported": facts["has_bf16"],
        "torch.cuda.get_device_name": facts["properties"]["name"],
        "torch.cuda.get_device_capability": tuple(facts["capability"]),
        "torch.cuda.get_device_properties": DeviceProperties(**facts["properties"]),
        "triton.runtime.driver.active.utils.get_device_properties": dict(facts["driver"]),
        "triton.runtime.driver.active.get_current_device": facts.get("index", 0),
    }
    answers = {path: _always(value) for path, value in plain.items()}
    return answers | {"triton.runtime.driver.active.get_current_target": target}


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


class MemoryPlacement:
    """Where memory would lie with a GPU, in a process that has none: what torch is asked to put there lies on the host here, as all
    does."""

    def __init__(self) -> None:
        self._on_host: dict[int, StorageWeakRef] = {}  # what would lie on the host with a GPU too

    def call(self, function: Native, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of a library with all on the host, and note where its result would lie."""
        own = function.owner if isinstance(function.owner, torch.Tensor) else None
        operands = tensors_in((own, args, named))
        plain = tuple(map(_on_host, args)), {key: _on_host(item) for key, item in named.items()}
        is_moved = any(new is not old for new, old in zip(plain[0], args, strict=True))
        is_moved |= any(plain[1][key] is not old for key, old in named.items())
        given = function(*plain[0], **plain[1])
        is_on_host = not is_moved and all(map(self.is_on_host, operands))
        for tensor in tensors_in(given) if is_on_host else ():
            storage = tensor.untyped_storage()
            self._on_host[storage._cdata] = StorageWeakRef(storage)  # noqa: SLF001 - as torch itself identifies it
        if is_moved and isinstance(given, torch.Tensor) and self.is_on_host(given):
            return given.clone()
        return given

    def is_on_host(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor would lie on the host, where no kernel can reach it."""
        known = self._on_host.get(tensor.untyped_storage()._cdata)  # noqa: SLF001 - as above
        return known is not None and not known.expired()

    def check(self, arguments: Any) -> None:
        """Look at the arguments of a launch.

        Raises:
            Violation: one of them would lie on the host.
        """
        if any(map(self.is_on_host, tensors_in(arguments))):
            message = "A kernel is given a tensor that was made without a device: beside a GPU it lies on the CPU."
            raise Violation("device", message, Status.launch_error)


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return value
