"""Which rounds the state of the GPU spoils, and how that state is read."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from gpu_runner.benchmark import nvml
from gpu_runner.benchmark.conditions import GpuReading, disturbed, named, summary, typical_clock

GOOD = GpuReading(1980, 3201, 45, ("gpu_idle",))


@pytest.mark.parametrize(
    ("reading", "bad"),
    [
        (GOOD, False),
        (None, False),
        (GpuReading(1980, 3201, 60, ("sw_power_cap",)), False),
        (GpuReading(1800, 3201, 60, ("sw_power_cap",)), False),
        (GpuReading(1770, 3201, 60, ("sw_power_cap",)), True),
        (GpuReading(1980, 3201, 88, ("sw_thermal_slowdown",)), True),
        (GpuReading(1980, 3201, 88, ("hw_slowdown", "hw_thermal_slowdown")), True),
        (GpuReading(None, None, None, ("hw_power_brake_slowdown",)), True),
        (GpuReading(None), False),
    ],
)
def test_a_thermal_or_hardware_throttle_or_a_clock_down_by_a_tenth_spoils_a_round(
    reading: GpuReading | None, bad: bool
) -> None:
    assert disturbed(reading, 1980.0) is bad


def test_a_clock_is_compared_with_the_median_of_the_race_and_with_nothing_where_none_was_read() -> None:
    assert typical_clock([GOOD, None, GpuReading(1500), GOOD]) == 1980
    assert typical_clock([None, GpuReading()]) is None
    assert not disturbed(GpuReading(100), None)


def test_the_rounds_of_a_race_are_summed_up() -> None:
    found = summary([GOOD, None, GpuReading(1905, 3201, 61, ("sw_power_cap", "gpu_idle"))], 2)
    assert found is not None
    assert (found.sm_clock_mhz_low, found.sm_clock_mhz_high, found.memory_clock_mhz) == (1905, 1980, 3201)
    assert (found.temperature_c, found.throttle_reasons, found.dropped_blocks) == (61, ("sw_power_cap",), 2)
    assert summary([None, None], 0) is None


def test_bits_are_named_as_nvml_names_them() -> None:
    assert named(0x4 | 0x40) == ("sw_power_cap", "hw_thermal_slowdown")
    assert named(0) == ()


class Library:
    """Two GPUs as NVML shows them; functions of newer drivers are missing."""

    uuids = (b"GPU-aaaa-1111", b"GPU-bbbb-2222")

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.closed = 0

    def nvmlInit_v2(self) -> int:
        return self.status

    def nvmlShutdown(self) -> int:
        self.closed += 1
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: ctypes.c_uint, handle: Any) -> int:
        if index.value > 1:
            return 2
        handle._obj.value = 100 + index.value
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: Any) -> int:
        if uuid not in self.uuids:
            return 6
        handle._obj.value = 100 + self.uuids.index(uuid)
        return 0

    def nvmlDeviceGetUUID(self, handle: ctypes.c_void_p, text: Any, size: ctypes.c_uint) -> int:
        text.value = self.uuids[(handle.value or 0) - 100]
        return 0

    def nvmlDeviceGetClockInfo(self, handle: ctypes.c_void_p, which: ctypes.c_int, value: Any) -> int:
        value._obj.value = {1: 1980, 2: 3201}[which.value] + (handle.value or 0) - 100
        return 0

    def nvmlDeviceGetTemperature(self, handle: ctypes.c_void_p, which: ctypes.c_int, value: Any) -> int:
        return 3  # not supported

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: ctypes.c_void_p, bits: Any) -> int:
        bits._obj.value = 0x4
        return 0


@pytest.mark.parametrize(
    ("variable", "clock"),
    [(None, 1980), ("1,0", 1981), ("GPU-bbbb-2222", 1981), ("GPU-bb", 1981), ("", 1980), ("7", None), ("MIG-x", None)],
)
def test_the_gpu_that_a_child_sees_first_is_read(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, clock: int | None
) -> None:
    library = Library()
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(
        nvml, "passed_variables", lambda: {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    )
    watcher = nvml.Watcher()
    reading = watcher.read()
    watcher.close()
    watcher.close()
    assert library.closed == 1
    assert watcher.read() is None
    if clock is None:
        assert reading is None
    else:
        assert reading == GpuReading(clock, 3201 + clock - 1980, None, ("sw_power_cap",))


def test_without_the_library_or_its_driver_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(nvml.ctypes, "CDLL", missing)
    assert nvml.Watcher().read() is None
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda name: Library(status=9))
    assert nvml.Watcher().read() is None
