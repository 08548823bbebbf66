"""What kernels are built of: a plan with its problem and tiling, and how plans are composed, checked and timed."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch

# Largest error, relative to the largest value of a tensor. Source: 24, 11 and 8 bits of mantissa, and room for sums in another
# order.
TOLERANCES = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 2e-2}
PASSES = ("forward", "backward")


class PlanError(Exception):
    """A plan cannot do what is asked of it; the text says why and what to change."""


@dataclass
class Tiling:
    """How a problem is cut into blocks. A field is an option of the command line, such as ``--block_m=128``."""

    def validate(self, pd: Any) -> bool:
        """Whether the tiling can run the problem of a plan."""
        return True

    def __str__(self) -> str:
        """The settings that are set."""
        return f"{type(self).__name__}({', '.join(f'{n}={v}' for n, v in vars(self).items() if v)})"

    def launch_settings(self) -> dict[str, dict[str, int]]:
        """The settings by pass: ``forward_num_warps`` is the forward pass's ``num_warps``; 0 is left to the launcher."""
        given: dict[str, dict[str, int]] = {name: {} for name in PASSES}
        for item in fields(self):
            timed_pass, _, setting = item.name.partition("_")
            value = getattr(self, item.name)
            if timed_pass in given and value:
                given[timed_pass][setting] = value
        return {timed_pass: settings for timed_pass, settings in given.items() if settings}


@dataclass
class Output:
    """What a stage of a pipeline returns at a place, as the input of a later stage."""

    stage: Any
    index: int = 0


class Stage:
    """What can run in a pipeline: a kernel, kernels side by side, or a pipeline itself."""

    _name: str
    outputs: tuple[torch.Tensor, ...] = ()  # of the last run

    def __call__(self) -> tuple[torch.Tensor, ...]:
        """Run it."""
        with self.tiled():
            self.outputs = self.run()
        return self.outputs

    def run(self) -> tuple[torch.Tensor, ...]:
        """Run it with the launch settings as they are."""
        raise NotImplementedError

    def parts(self) -> Sequence[Stage]:
        """The stages inside."""
        return ()

    @contextlib.contextmanager
    def tiled(self) -> Iterator[None]:
        """Launch with the tilings inside of this context; the backward pass runs in it too."""
        with contextlib.ExitStack() as stack:
            for part in self.parts():
                stack.enter_context(part.tiled())
            yield

    def output(self, index: int = 0) -> Output:
        """A later stage's input."""
        return Output(self, index)

    def flops_bytes(self) -> tuple[int, int]:
        """Floating-point operations, and bytes that must move."""
        counts = [part.flops_bytes() for part in self.parts()]
        return sum(flops for flops, _ in counts), sum(moved for _, moved in counts)

    def predicted_ms(self) -> float | None:
        """The least time by the roofline; None where a part was not planned for one."""
        times = [part.predicted_ms() for part in self.parts()]
        return None if None in times else sum(ms for ms in times if ms is not None)


@dataclass
class BenchmarkFn(Stage):
    """One kernel with its inputs. ``table`` is its module's table of launch settings, which the tiling takes precedence over."""

    _name: str
    function: Callable[..., Any] | None  # None: it is only predicted
    inputs: tuple[Any, ...] = ()
    tiling: Tiling = field(default_factory=Tiling)
    counts: tuple[int, int] = (0, 0)  # floating-point operations, bytes
    table: dict[str, Any] | None = None
    peaks: tuple[float, float] | None = None  # TFLOP/s, GB/s

    def run(self) -> tuple[torch.Tensor, ...]:
        """Call the function, its inputs from other stages filled in."""
        if self.function is None:
            raise PlanError(
                f"`{self._name}` was planned without tensors and can only be predicted: use `plan`, not `plan_empty`"
            )
        given = [i.stage.outputs[i.index] if isinstance(i, Output) else i for i in self.inputs]
        return as_tuple(self.function(*given))

    @contextlib.contextmanager
    def tiled(self) -> Iterator[None]:
        """Put the tiling's settings into the table, and take them out again."""
        settings = self.tiling.launch_settings()
        if self.table is None or not settings:
            yield
            return
        before, name = dict(self.table), _architecture()
        self.table[name] = before.get(name, {}) | {p: ((math.inf, values),) for p, values in settings.items()}
        try:
            yield
        finally:
            self.table.clear()
            self.table.update(before)

    def flops_bytes(self) -> tuple[int, int]:
        """Floating-point operations, and bytes that must move."""
        return self.counts

    def predicted_ms(self) -> float | None:
        """The larger of the times for computing and for moving bytes."""
        if self.peaks is None:
            return None
        (flops, moved), (tflops, gbps) = self.counts, self.peaks
        return max(flops / (tflops * 1e9), moved / (gbps * 1e6))


@dataclass
class KernelPipeline(Stage):
    """Stages one after the other; it returns what the last one returns."""

    _name: str
    stages: Sequence[Stage]

    def run(self) -> tuple[torch.Tensor, ...]:
        """Run the stages in their order."""
        return [stage() for stage in self.stages][-1]

    def parts(self) -> Sequence[Stage]:
        """The stages."""
        return self.stages


@dataclass
class ConcurrentKernels(Stage):
    """Kernels that need nothing of each other, each in a CUDA stream of its own; without a GPU one after the other.

    ``validate_joint_tiling_fn`` takes their tilings in order, and says whether these can share the GPU.
    """

    _name: str
    concurrent_kernels: Sequence[BenchmarkFn]
    validate_joint_tiling_fn: Callable[..., bool] | None = None

    def __post_init__(self) -> None:
        """Refuse tilings that do not go together."""
        tilings = [kernel.tiling for kernel in self.concurrent_kernels]
        if self.validate_joint_tiling_fn is not None and not self.validate_joint_tiling_fn(*tilings):
            shown = " and ".join(str(tiling) for tiling in tilings)
            raise PlanError(f"{shown} cannot run side by side in `{self._name}`: change one of them")

    def run(self) -> tuple[torch.Tensor, ...]:
        """Run them, and return the outputs of all."""
        if not torch.cuda.is_available():
            return tuple(output for kernel in self.concurrent_kernels for output in kernel())
        current = torch.cuda.current_stream()
        streams = [torch.cuda.Stream() for _ in self.concurrent_kernels]
        outputs: list[torch.Tensor] = []
        for kernel, stream in zip(self.concurrent_kernels, streams, strict=True):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                outputs += kernel()
            for output in kernel.outputs:
                output.record_stream(current)
        # After all are launched: a stream waits for what the current one waits for.
        for stream in streams:
            current.wait_stream(stream)
        return tuple(outputs)

    def parts(self) -> Sequence[Stage]:
        """The kernels."""
        return self.concurrent_kernels

    def predicted_ms(self) -> float | None:
        """The time of the longest: they share the GPU, so this is a lower bound."""
        times = [kernel.predicted_ms() for kernel in self.concurrent_kernels]
        return None if None in times else max(ms for ms in times if ms is not None)


@dataclass
class KernelPlan:
    """A kernel for one problem. Its fields are the problem's dimensions and scalars, ``dtype`` and ``tiling``."""

    tiling: Any = field(default_factory=Tiling, kw_only=True)

    def prepare_inputs(self, device: str) -> tuple[Any, ...]:
        """Input tensors on a device; those that want a gradient require one."""
        raise self._lacks("prepare_inputs", "which makes the inputs")

    def reference_fn(self, *inputs: Any) -> Any:
        """What `plan` computes, in plain PyTorch."""
        raise self._lacks("reference_fn", "which `--check` compares with")

    def _autotune_configs(self) -> Sequence[Any]:
        """The tilings to try."""
        return [self.tiling]

    def _algorithmic_flops_bytes(self, tiling: Any) -> tuple[int, int]:
        """Floating-point operations, and bytes that must move, in the forward pass."""
        raise self._lacks("_algorithmic_flops_bytes", "which the roofline needs")

    def plan(self, *inputs: Any) -> Stage:
        """The kernel on these inputs, ready to run."""
        raise self._lacks("plan", "which makes the kernel ready to run")

    def plan_empty(self, peak_tflops: float, peak_gbps: float) -> Stage:
        """The prediction of the roofline, without tensors."""
        counts = self._algorithmic_flops_bytes(self.tiling)
        return BenchmarkFn(type(self).__name__, None, tiling=self.tiling, counts=counts, peaks=(peak_tflops, peak_gbps))

    def tilings(self) -> Sequence[Any]:
        """The tilings to try, whether each can run the problem or not."""
        return self._autotune_configs()

    def __str__(self) -> str:
        """The problem, without the tiling."""
        return f"{type(self).__name__}({', '.join(f'{n}={v}' for n, v in vars(self).items() if n != 'tiling')})"

    def _lacks(self, name: str, what: str) -> PlanError:
        return PlanError(f"`{type(self).__name__}` has no `{name}`, {what}: define it")


def checked_tiling(plan: KernelPlan) -> KernelPlan:
    """The plan, where its tiling can run its problem.

    Raises:
        PlanError: it cannot; the text names one that can, if `_autotune_configs` has any.
    """
    if plan.tiling.validate(plan):
        return plan
    able = next((tiling for tiling in plan.tilings() if tiling.validate(plan)), None)
    fix = (
        "no tiling of `_autotune_configs` can either, so change the problem" if able is None else f"use such as {able}"
    )
    raise PlanError(f"{plan.tiling} can never run {plan}: {fix}")


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A tuple of outputs, whether there is one or several."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def differences(plan: KernelPlan, device: str) -> list[str]:
    """What differs between a plan and its reference, outputs and gradients, a sentence each; nothing where all match.

    The reference in float64 is what is expected. Twice what it loses in its own dtype is allowed, and `TOLERANCES` as well.
    """
    torch.manual_seed(0)
    inputs = plan.prepare_inputs(device)
    copies, wide = (tuple(_copied(value, wider) for value in inputs) for wider in (False, True))
    stage = checked_tiling(plan).plan(*inputs)
    eager, exact = as_tuple(plan.reference_fn(*copies)), as_tuple(plan.reference_fn(*wide))
    with stage.tiled():
        actual = stage()
        if len(actual) != len(eager):
            return [f"there are {len(actual)} outputs, and the reference has {len(eager)}"]
        upstream = [torch.randn_like(output) for output in eager if output.requires_grad]
        compared = [(f"output {i}", *values) for i, values in enumerate(zip(exact, eager, actual, strict=True))]
        if upstream:
            sides = ((exact, wide), (eager, copies), (actual, inputs))
            gradients = [_gradients(outputs, leaves, upstream) for outputs, leaves in sides]
            compared += [(f"gradient of input {i}", *(side[i] for side in gradients)) for i in gradients[0]]
    return [sentence for name, *values in compared if (sentence := _difference(name, *values)) is not None]


def time_ms(stage: Stage, repeats: int = 20) -> float:
    """The median time of a run, by CUDA events; on the CPU by the clock."""
    stage()
    times: list[float] = []
    for _ in range(repeats):
        if torch.cuda.is_available():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            stage()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        else:
            begun = time.perf_counter()
            stage()
            times.append((time.perf_counter() - begun) * 1e3)
    return sorted(times)[len(times) // 2]


def _architecture() -> str:
    if not torch.cuda.is_available():
        return "cpu"
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _copied(value: Any, wider: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    return (copy.double() if wider and copy.is_floating_point() else copy).requires_grad_(value.requires_grad)


def _gradients(outputs: Sequence[Any], inputs: Sequence[Any], upstream: Sequence[Any]) -> dict[int, Any]:
    wanted = {i: value for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and value.requires_grad}
    heads = [output for output in outputs if output.requires_grad]
    if len(heads) != len(upstream):
        return dict.fromkeys(wanted)
    return dict(
        zip(wanted, torch.autograd.grad(heads, list(wanted.values()), upstream, allow_unused=True), strict=True)
    )


def _difference(name: str, exact: Any, eager: Any, actual: Any) -> str | None:
    if eager is None or actual is None:
        return None if actual is eager else f"{name}: one side has none"
    if eager.shape != actual.shape or eager.dtype != actual.dtype:
        return f"{name} is {tuple(actual.shape)} {actual.dtype}, and should be {tuple(eager.shape)} {eager.dtype}"
    if not eager.is_floating_point():
        return None if torch.equal(eager, actual) else f"{name} differs"
    if not eager.numel():
        return None
    largest = max(exact.abs().max().item(), 1e-6)
    lost, off = ((side.double() - exact).abs().max().item() / largest for side in (eager, actual))
    allowed = TOLERANCES.get(eager.dtype, 1e-4) + 2 * lost
    return None if off <= allowed else f"{name} is off by {off:.2e} of the largest value, beyond {allowed:.2e}"
