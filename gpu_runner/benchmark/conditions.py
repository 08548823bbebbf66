"""What the GPU was doing while it was measured, and which rounds that spoils. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_runner.contracts.benchmark import Conditions

CLOCK_FALL = 0.1  # of the median clock; more is another GPU than the one that was measured before
# Source: NVML API reference, nvmlClocksThrottleReasons; the bits by their names there.
REASONS = (
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
)
# A power cap is the normal state of a large GPU under load, and being idle that between two turns.
DISTURBING = frozenset({"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"})
NORMAL = frozenset({"gpu_idle"})


@dataclass(frozen=True)
class GpuReading:
    """One look at the GPU. None: it could not be read."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    reasons: tuple[str, ...] = ()


def named(bits: int) -> tuple[str, ...]:
    """Names of NVML's throttle reasons."""
    return tuple(name for bit, name in REASONS if bits & bit)


def typical_clock(readings: Iterable[GpuReading | None]) -> float | None:
    """Median SM clock; None where none was read."""
    clocks = [reading.sm_clock_mhz for reading in readings if reading is not None and reading.sm_clock_mhz]
    return statistics.median(clocks) if clocks else None


def disturbed(reading: GpuReading | None, typical_mhz: float | None) -> bool:
    """Whether the GPU was throttled or its clock low."""
    if reading is None:
        return False
    if DISTURBING & set(reading.reasons):
        return True
    if reading.sm_clock_mhz is None or typical_mhz is None:
        return False
    return reading.sm_clock_mhz < (1 - CLOCK_FALL) * typical_mhz


def summary(readings: Sequence[GpuReading | None], dropped: int) -> Conditions | None:
    """Readings of all rounds as one; None where nothing could be read."""
    there = [reading for reading in readings if reading is not None]
    if not there:
        return None
    clocks = [reading.sm_clock_mhz for reading in there if reading.sm_clock_mhz is not None]
    memory = [reading.memory_clock_mhz for reading in there if reading.memory_clock_mhz is not None]
    degrees = [reading.temperature_c for reading in there if reading.temperature_c is not None]
    seen = {reason for reading in there for reason in reading.reasons} - NORMAL
    return Conditions(
        min(clocks, default=None),
        max(clocks, default=None),
        min(memory, default=None),
        max(degrees, default=None),
        tuple(name for _, name in REASONS if name in seen),
        dropped,
    )
