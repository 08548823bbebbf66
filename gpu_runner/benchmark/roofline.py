"""The fewest bytes that a problem must move, the operations it must do, and the least time that takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts.benchmark import Pass

FAULT_SHARE = 0.9  # of the floor; a time below is not a record but a mistake in measuring


@dataclass(frozen=True)
class Traffic:
    """Bytes of a workload's tensors. ``saved``: what the reference's autograd keeps for the backward pass; ``gradients``: each once
    that autograd gives to several inputs, none that is an upstream one."""

    inputs: int
    outputs: int
    upstream: int
    gradients: int
    saved: int
    is_loss: bool  # every output is one number, so a kernel may compute the gradient in the forward pass


def moved_bytes(traffic: Traffic, timed_pass: Pass, l2_bytes: int) -> int | None:
    """The fewest bytes that must move through device memory; None where the pass alone has no floor.

    Forward reads the inputs and writes the outputs. Backward reads the upstream gradient and what it needs of the inputs, and
    writes the gradients; an input that the reference's autograd does not keep is not needed. Both together may find in the L2
    cache what the forward pass left there. A loss may write its gradient in the forward pass, so only both together have a floor.
    """
    forward = traffic.inputs + traffic.outputs
    again = min(traffic.inputs, traffic.saved)
    backward = traffic.upstream + again + traffic.gradients
    if timed_pass is Pass.forward:
        return forward
    if timed_pass is Pass.backward:
        return None if traffic.is_loss else backward
    if traffic.is_loss:
        return traffic.inputs + traffic.gradients
    return forward + backward - min(again, l2_bytes)


def surely_moved(traffic: Traffic, timed_pass: Pass, l2_bytes: int) -> int | None:
    """Bytes that no kernel can avoid: what it wrote last may still be in the L2 cache when its time ends."""
    moved = moved_bytes(traffic, timed_pass, l2_bytes)
    if moved is None:
        return None
    output_bytes = {
        Pass.forward: traffic.outputs,
        Pass.backward: traffic.gradients,
        Pass.full: traffic.outputs + traffic.gradients,
    }[timed_pass]
    return max(0, moved - min(output_bytes, l2_bytes))


@dataclass(frozen=True)
class Rates:
    """A GPU's peak rates; None: unknown, and nothing is concluded from it."""

    bandwidth_gbps: float | None
    matrix_tflops: float | None = None
    vector_tflops: float | None = None
    tf32_tflops: float | None = None  # of products of float32 rounded to TF32; None: as the others


@dataclass(frozen=True)
class PassWork:
    """Least bytes and operations of one pass. ``sure_bytes`` leaves out whatever a cache could hold."""

    moved_bytes: int | None = None
    sure_bytes: int | None = None
    matrix_flops: int | None = None
    vector_flops: int | None = None  # one for each element and step of the reference, without those that only move
    tf32_flops: int = 0  # of those of matrix products

    @property
    def flops(self) -> int | None:
        """All operations; None where they were not counted."""
        if self.matrix_flops is None or self.vector_flops is None:
            return None
        return self.matrix_flops + self.vector_flops


@dataclass(frozen=True)
class TimeFloor:
    """The least time for the work, and which part of it is the longer. ``sure_us``: a shorter time cannot be true."""

    us: float | None
    bound: str | None
    sure_us: float | None


def floor(work: PassWork, rates: Rates) -> TimeFloor:
    """The floor: bytes over the bandwidth, or operations over their rate, whichever is longer.

    Operations outside of matrix products are those of the reference as written, which a kernel may share between steps, so no
    time is called a fault because of them.
    Source: Williams, Waterman and Patterson, Roofline: an insightful visual performance model (2009).
    """
    memory = floor_us(work.moved_bytes, rates.bandwidth_gbps)
    rounded = _compute_us(work.tf32_flops, rates.tf32_tflops or rates.matrix_tflops) or 0.0
    matrix = (
        None if work.matrix_flops is None else _compute_us(work.matrix_flops - work.tf32_flops, rates.matrix_tflops)
    )
    matrix = None if matrix is None else matrix + rounded
    computing = [time for time in (matrix, _compute_us(work.vector_flops, rates.vector_tflops)) if time is not None]
    compute = max(computing, default=None)
    sure = [time for time in (floor_us(work.sure_bytes, rates.bandwidth_gbps), matrix) if time is not None]
    known = [time for time in (memory, compute) if time is not None]
    if not known:
        return TimeFloor(None, None, None)
    bound = "memory" if compute is None or (memory is not None and memory >= compute) else "compute"
    return TimeFloor(max(known), bound, max(sure, default=None))


def _compute_us(flops: int | None, tflops: float | None) -> float | None:
    return None if flops is None or not tflops else flops / tflops / 1e6


def floor_us(moved: int | None, bandwidth_gbps: float | None) -> float | None:
    """Least time for these bytes; None where either is unknown."""
    if moved is None or not bandwidth_gbps:
        return None
    return moved / bandwidth_gbps / 1e3


def fault(median_us: float | None, floor: float | None) -> str | None:
    """Why a time cannot be true; None where it can."""
    if median_us is None or floor is None or median_us >= FAULT_SHARE * floor:
        return None
    share = f"{median_us:.1f} us is under {FAULT_SHARE:.0%} of the floor of {floor:.1f} us"
    return f"{share}: this is an error of the measurement, not a fast kernel."
