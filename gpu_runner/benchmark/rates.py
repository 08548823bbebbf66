"""What the GPU of this run can do, asked of a child in which nothing untrusted runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_runner.benchmark.roofline import Rates
from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.errors import ChildFailed
from gpu_runner.host import facts as host_facts
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
        facts: dict[str, Any] = session.call("rates", {"dtype": dtype, "parts": list(parts)}).meta
        failed = dict(facts["failed"])
        # Versions and driver as this host knows them; the child adds its CUDA version.
        named = (*(fact for fact in host_facts() if fact[0] not in ("gpu", "machine")), ("cuda", str(facts["cuda"])))
        rates = Rates(
            _rate(facts["gbps"]),
            _rate(facts["matrix_tflops"]),
            _rate(facts["vector_tflops"]),
            _rate(facts["tf32_tflops"]),
        )
        return Gauged(
            str(facts["gpu"]),
            int(facts["l2_bytes"]),
            rates,
            named,
            tuple(f"The {_NAMES.get(name, name)} could not be measured: {reason}" for name, reason in failed.items()),
        )
    except (ChildFailed, KeyError, TypeError, ValueError) as error:
        raise RunnerError(f"the GPU's bandwidth and rates could not be measured: {error}") from error


def _rate(value: Any) -> float | None:
    return float(value) if isinstance(value, float) and value > 0 else None
