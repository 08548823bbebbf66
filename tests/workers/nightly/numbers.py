"""Series and points made by hand."""

from __future__ import annotations

from dataclasses import replace

from workers.nightly.series import KERNEL, Metric, Point, SeriesKey, Testbed

REPOSITORY = "acme/kernels"
H200 = Testbed("NVIDIA H200", "GPU-1", "580.159.04", "2.11.0", "3.6.0")
KEY = SeriesKey(REPOSITORY, "geglu", KERNEL, "forward", "T=4096 I=11008 bfloat16", Metric.time_us, H200)
DAY_S = 86_400.0
FIRST_AT = 1_700_000_000.0


def point(night: int, value: float = 100.0, **more: object) -> Point:
    return replace(Point(f"{night:040x}", FIRST_AT + night * DAY_S, value), **more)  # type: ignore[arg-type]
