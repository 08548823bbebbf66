"""Reads clocks, temperature and throttle reasons from NVIDIA's management library, where it is there. Never fails."""

from __future__ import annotations

import ctypes
from typing import Any

from gpu_runner.benchmark.conditions import GpuReading, named
from gpu_runner.settings import passed_variables, visible

LIBRARY = "libnvidia-ml.so.1"
# Source: NVML API reference, nvmlClockType_t and nvmlTemperatureSensors_t.
SM_CLOCK, MEMORY_CLOCK = 1, 2
GPU_SENSOR = 0
# The reasons' newer name first; drivers before 535 know only the older one.
REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


class Watcher:
    """The first GPU that a child sees. Gives None for what cannot be read."""

    def __init__(self) -> None:
        self._library: Any = None
        self._device: ctypes.c_void_p | None = None
        try:
            library = ctypes.CDLL(LIBRARY)
            if library.nvmlInit_v2() == 0:
                self._library = library
                self._device = _device(library, visible(passed_variables().get("CUDA_VISIBLE_DEVICES")))
        except (OSError, AttributeError):
            return

    def read(self) -> GpuReading | None:
        """Read once: well under a millisecond, and only while nothing is timed."""
        if self._device is None:
            return None
        sm = self._number("nvmlDeviceGetClockInfo", SM_CLOCK)
        memory = self._number("nvmlDeviceGetClockInfo", MEMORY_CLOCK)
        degrees = self._number("nvmlDeviceGetTemperature", GPU_SENSOR)
        return GpuReading(sm, memory, degrees, self._reasons())

    def close(self) -> None:
        """Unload the library; idempotent."""
        if self._library is not None:
            self._library.nvmlShutdown()
        self._library = self._device = None

    def _number(self, function: str, which: int) -> int | None:
        value = ctypes.c_uint()
        try:
            status = getattr(self._library, function)(self._device, ctypes.c_int(which), ctypes.byref(value))
        except AttributeError:
            return None
        return value.value if status == 0 else None

    def _reasons(self) -> tuple[str, ...]:
        bits = ctypes.c_ulonglong()
        for function in REASONS:
            try:
                if getattr(self._library, function)(self._device, ctypes.byref(bits)) == 0:
                    return named(bits.value)
            except AttributeError:
                continue
        return ()


def _device(library: Any, wanted: str) -> ctypes.c_void_p | None:
    handle = ctypes.c_void_p()
    if wanted.isdigit():
        status = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(wanted)), ctypes.byref(handle))
        return handle if status == 0 else None
    if library.nvmlDeviceGetHandleByUUID(wanted.encode(), ctypes.byref(handle)) == 0:
        return handle
    return _by_beginning(library, wanted)


def _by_beginning(library: Any, wanted: str) -> ctypes.c_void_p | None:
    """Find the GPU by the beginning of its UUID: CUDA takes a shortened one."""
    count = ctypes.c_uint()
    if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return None
    for index in range(count.value):
        handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != 0:
            continue
        if library.nvmlDeviceGetUUID(handle, text, ctypes.c_uint(96)) == 0 and text.value.decode().startswith(wanted):
            return handle
    return None
