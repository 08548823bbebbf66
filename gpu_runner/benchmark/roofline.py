"""The fewest bytes that a problem must move, and the least time that takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts.benchmark import Pass

FAULT_SHARE = 0.9  # of the floor; a time below is not a record but a mistake in measuring


@dataclass(frozen=True)
class Traffic:
    """Bytes of a workload's tensors. ``saved``: what the reference's autograd keeps for the backward pass."""

    inputs: int
    outputs: int
    upstream: int
    gradients: int
    saved: int
    is_loss: bool  # every output is one number, so a kernel may compute the gradient in the forward pass


def moved_bytes(traffic: Traffic, timed_pass: Pass, l2_bytes: int) -> int | None:
    """Give the fewest bytes that must move through device memory; None where the pass alone has no floor.

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


def floor_us(moved: int | None, bandwidth_gbps: float | None) -> float | None:
    """Give the least time for these bytes; None where either is not known."""
    if moved is None or not bandwidth_gbps:
        return None
    return moved / bandwidth_gbps / 1e3


def fault(median_us: float | None, floor: float | None) -> str | None:
    """Give the sentence that says that a time cannot be true; None where it can."""
    if median_us is None or floor is None or median_us >= FAULT_SHARE * floor:
        return None
    share = f"{median_us:.1f} us is under {FAULT_SHARE:.0%} of the floor of {floor:.1f} us"
    return f"{share}: the measurement is wrong, not the kernel fast."
