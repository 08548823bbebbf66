"""What the command line says of one action."""

# ruff: noqa: E501 (messages stand here as they are printed)
from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import Choice, Pass, TuneResult
from service.report.profiled import profile_section, tuned_section
from tests.service.report.kernels_facts import PROFILED, SIZES

TUNED = TuneResult(
    (
        Choice(Pass.forward, SIZES[0], 4096, (("num_warps", 8),), 1.12, 1.1, 1.14, 24),
        Choice(Pass.backward, SIZES[1], 16384, (), None, None, None, 24),
    ),
    "sm_90",
    gpu="NVIDIA H200",
    failed=(("num_warps=32", "out of shared | memory"),),
    complete=False,
)


def test_settings_that_were_found() -> None:
    assert tuned_section(TUNED) == snapshot("""\
**1 setting better than the default**, of 2 sizes on NVIDIA H200. The time ended before the search did.

| pass | workload | size | settings | over the default (95% interval) | tried |
| --- | --- | ---: | --- | ---: | ---: |
| forward | `M=2048 N=4096 bfloat16` | 4096 | `num_warps=8` | 1.12× (1.10 to 1.14) | 24 |
| backward | `M=2048 N=16384 bfloat16` | 16384 | the default | – | 24 |

<details><summary>Settings that do not run</summary>

- `num_warps=32`: out of shared &#124; memory

</details>\
""")


def test_without_a_gpu_nothing_is_tuned() -> None:
    assert tuned_section(TuneResult((), None)) == snapshot(
        "**Nothing was tuned:** no GPU is available. The candidate was written unchanged."
    )


def test_a_profile_by_itself() -> None:
    assert profile_section(replace(PROFILED, counters_error="no counters: ask your administrator.")) == snapshot("""\
**memory-bound in forward, latency-bound in backward** on NVIDIA H200

- `backward`: share of the DRAM bandwidth is 0.41, and the rule `dram_idle` has its threshold at 0.6: latency-bound

| workload | pass | bytes to move | operations a byte | by bytes | by operations | bound |
| --- | --- | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 256 MiB | 0.06 | 66.0 µs | 0.30 µs | memory-bound |

| kernel | pass | on | time | DRAM | L2 | SM | occupancy | registers | waits for |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| `_rms_norm_backward_kernel` | backward | `M=2048 N=4096 bfloat16` | 180 µs | 41% | 33% | 52% | 38% | 96 | long\\_scoreboard 44%, barrier 20% |

Nsight Compute was not used: no counters: ask your administrator.

<sub>Limits of NVIDIA H200: 4240 GB/s, 740 TFLOP/s in matrix products, 60 TFLOP/s otherwise; measured in the same run.</sub>\
""")
