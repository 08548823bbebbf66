"""What the GPU of this run can do, asked of a child in which nothing untrusted runs."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.benchmark.roofline import Rates
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.errors import ChildFailed
from gpu_runner.host import facts as host_facts
from gpu_runner.messages import MeasureRates
from gpu_runner.session import ChildSession


@dataclass(frozen=True)
class Gauged:
    """Rates measured in the same run, with the facts of the host; ``notes`` list what could not be measured, and why."""

    gpu: str
    l2_bytes: int
    rates: Rates
    host: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


_NAMES = {
    "gbps": "bandwidth of a copy",
    "matrix_tflops": "rate of matrix products",
    "tf32_tflops": "rate of matrix products in TF32",
    "vector_tflops": "float32 rate",
}


def measure_rates(session: ChildSession, dtype: str, parts: tuple[str, ...] = tuple(_NAMES)) -> Gauged:
    """Measure the GPU's rates, or the named ones.

    Raises:
        RunnerError: none could be measured.
    """
    try:
        measured = session.call(MeasureRates(dtype, parts)).message
    except (ChildFailed, ValueError) as error:
        raise RunnerError(f"the GPU's bandwidth and rates could not be measured: {error}") from error
    # Versions and driver as this host knows them; the child adds its CUDA version.
    named = (*(fact for fact in host_facts() if fact[0] not in ("gpu", "machine")), ("cuda", measured.cuda))
    rates = (measured.gbps, measured.matrix_tflops, measured.vector_tflops, measured.tf32_tflops)
    return Gauged(
        measured.gpu,
        measured.l2_bytes,
        Rates(*(rate if rate is not None and rate > 0 else None for rate in rates)),
        named,
        tuple(
            f"The {_NAMES.get(name, name)} could not be measured: {reason}" for name, reason in measured.failed.items()
        ),
    )
