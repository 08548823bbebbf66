"""What is said of a kernel as it stands."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import Bound, Evidence, Pass, ProfileResult
from service.report.create import validated_sections
from service.report.job import checkpoint_comment
from service.report.modify import confirmed_sections
from service.report.profiled import profile_section
from tests.conversations.normal import folded, gist
from tests.service.report.facts import LINKS, VALIDATED, WRONG
from tests.service.report.kernels_facts import (
    NOTHING_TIMED,
    PEAKS,
    PROFILE_SUMMARY,
    PROFILE_WAITS,
    PROFILED,
)
from tests.service.report.test_modified import REPORT
from workers.contracts import (
    CheckpointUpdate,
    StageName,
    Summary,
)


def checkpoint(stage: StageName, summary: Summary, decides: bool = True) -> str:
    return checkpoint_comment(CheckpointUpdate(stage, 1, summary, decides), PROFILE_WAITS, LINKS)


def profiled(**changes: object) -> str:
    return checkpoint(StageName.profile, replace(PROFILE_SUMMARY, **changes))  # type: ignore[arg-type]


def test_the_profile_of_a_kernel() -> None:
    assert profiled() == snapshot("""\
**`rms_norm` is memory-bound in forward, latency-bound in backward on NVIDIA H200:** forward reaches 50%, backward reaches 50% of the speed that the hardware allows.
**Next:** look at it, and reply `/kernel approve abc012345678` here, or `/kernel revise` with what should change.

Goal: speed, of both passes, until `forward < 0.1 ms @ N=4096`.

- `backward`: share of the DRAM bandwidth is 0.41, and the rule `dram_idle` has its threshold at 0.6: latency-bound

| workload | pass | v0 | eager | torch.compile | against the best baseline (95% interval) | floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 4 disturbed rounds were left out.</sub>

<details><summary>Noise and conditions</summary>

| workload | pass | baseline against itself | SM clock | memory clock | temperature | throttled | dropped |
| --- | --- | --- | --- | --- | --- | --- | --- |
| `M=2048 N=4096 bfloat16` | forward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=16384 bfloat16` | forward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=4096 bfloat16` | backward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=16384 bfloat16` | backward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |

</details>

These would be tried, in this order:

|  | strategy | because | expected gain |
| ---: | --- | --- | --- |
| 1 | Settings by size | Settings are one rule for all sizes. | 1.02× to 1.30× |
| 2 | Recompute instead of save | `X` is saved &#124; as a copy. | not known |

- Sizes are those of `benchmark/scripts/benchmark_rms_norm.py`.

<details><summary>Reading of the source</summary>

- `src/ops/rms_norm.py`: tier 2, reduction
- saved for backward: `X`, `RSTD`, `W`
- an input is overwritten
- its settings are fixed rules
- `W` is loaded again for every row.

| kernel | line | block sizes | launch | grid | loads | stores | casts | loops | atomics |
| --- | ---: | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |
| `_rms_norm_backward_kernel` | 101 | `BLOCK_SIZE` | `num_warps=num_warps` | `(sm_count,)` | 5 | 2 | 6 | 1 | 0 |

</details>

<details><summary>Nsight Compute</summary>

| kernel | pass | on | time | DRAM | L2 | SM | occupancy | registers | waits for |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| `_rms_norm_backward_kernel` | backward | `M=2048 N=4096 bfloat16` | 180 µs | 41% | 33% | 52% | 38% | 96 | long\\_scoreboard 44%, barrier 20% |

</details>

<details><summary>Proof of v0</summary>

- 4 of 4 checks passed, on 2 workloads with 5 seeds.
- Kernels that ran: `_reglu_forward`, `_reglu_backward`.
- Two runs agree bit for bit.
- Peak memory: 3.00 MiB forward, 5.00 MiB backward.

<details><summary>All checks</summary>

| check | of | passed | largest error | allowed | on |
| --- | --- | ---: | ---: | ---: | --- |
| values | output 0 | 2 of 2 | 0.003 | 0.008 | `T=1 I=1 bfloat16` |
| gradient | gradient of a | 1 of 1 | 2e-07 | 2e-06 | `T=7 I=129 float32` |
| written | – | 1 of 1 | – | – | `T=7 I=129 float32` |

</details>

</details>

<details><summary>Peak memory</summary>

| workload | pass | v0 | eager | torch.compile |
| --- | --- | ---: | ---: | ---: |
| `M=2048 N=4096 bfloat16` | forward | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | forward | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=4096 bfloat16` | backward | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | backward | 64.0 MiB | 192 MiB | 64.0 MiB |

</details>

<details><summary>Problem</summary>

```python
def reference(a, b):
    return F.relu(a) * b
```

</details>

<sub>Limits of NVIDIA H200: 4240 GB/s, 740 TFLOP/s in matrix products, 60 TFLOP/s otherwise; measured in the same run.</sub>

- `/kernel approve abc012345678`: the strategies are tried in this order, each proved and measured against v0.
- `/kernel revise`: the profile runs again; a Python block in your words replaces the problem. This was attempt 1 of 5.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=checkpoint key=profile-1 -->\
""")


def test_a_kernel_at_its_limit() -> None:
    assert folded(profiled(nothing_to_gain=True, strategies=())) == snapshot("""\
**`rms_norm` is already at the hardware limit on NVIDIA H200, so there is nothing to gain:** forward reaches 50%, backward reaches 50% of the speed that the hardware allows.
**Next:** nothing to do; the job ends with its report, and nothing is changed.

Goal: speed, of both passes, until `forward < 0.1 ms @ N=4096`.

- `backward`: share of the DRAM bandwidth is 0.41, and the rule `dram_idle` has its threshold at 0.6: latency-bound

| workload | pass | v0 | eager | torch.compile | against the best baseline (95% interval) | floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 4 disturbed rounds were left out.</sub>

▸ Noise and conditions

- Sizes are those of `benchmark/scripts/benchmark_rms_norm.py`.

▸ Reading of the source

▸ Nsight Compute

▸ Proof of v0

▸ Peak memory

▸ Problem

<sub>Limits of NVIDIA H200: 4240 GB/s, 740 TFLOP/s in matrix products, 60 TFLOP/s otherwise; measured in the same run.</sub>

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=checkpoint key=profile-1 -->\
""")


def test_a_profile_without_a_gpu_and_without_counters() -> None:
    predicted = ProfileResult(
        PROFILE_SUMMARY.profile.rooflines,
        replace(PEAKS, measured=False),
        bounds=((Pass.forward, Bound.memory), (Pass.backward, Bound.memory)),
        counters_error="`ncu` is not on this host: install Nsight Compute.",
    )
    assert folded(profiled(profile=predicted, benchmark=NOTHING_TIMED, target=None)) == snapshot("""\
**`rms_norm` is memory-bound on NVIDIA H200:** by bytes and operations, since no GPU was available to time it.
**Next:** look at it, and reply `/kernel approve abc012345678` here, or `/kernel revise` with what should change.

Goal: speed, of both passes.

| workload | pass | least time | bytes to move |
| --- | --- | ---: | ---: |
| `M=2048 N=4096 bfloat16` | forward | 66.0 µs | 256 MiB |

<sub>Predicted for NVIDIA H200: bytes that must move / bandwidth that a copy is expected to reach. This is a lower bound for a kernel on a GPU.</sub>

These would be tried, in this order:

|  | strategy | because | expected gain |
| ---: | --- | --- | --- |
| 1 | Settings by size | Settings are one rule for all sizes. | 1.02× to 1.30× |
| 2 | Recompute instead of save | `X` is saved &#124; as a copy. | not known |

- Sizes are those of `benchmark/scripts/benchmark_rms_norm.py`.

▸ Reading of the source

Nsight Compute was not used: `ncu` is not on this host: install Nsight Compute.

▸ Proof of v0

▸ Problem

<sub>Limits of NVIDIA H200: 4240 GB/s, 740 TFLOP/s in matrix products, 60 TFLOP/s otherwise; by the maker's data sheet.</sub>

- `/kernel approve abc012345678`: the strategies are tried in this order, each proved and measured against v0.
- `/kernel revise`: the profile runs again; a Python block in your words replaces the problem. This was attempt 1 of 5.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=checkpoint key=profile-1 -->\
""")


def test_a_kernel_that_does_not_compute_what_its_problem_says() -> None:
    assert gist(profiled(verdict=WRONG)) == snapshot("""\
**`rms_norm` does not compute what its problem says:** a gradient is wrong.
**Next:** look at it, and reply `/kernel approve abc012345678` here, or `/kernel revise` with what should change.\
""")


def test_what_stands_and_is_imprecise_is_profiled_with_what_it_errs() -> None:
    where = "N=8 C=512 S=512 bfloat16"
    error = Evidence("gradient", "Too far.", where, "gradient of b", error=0.00709, allowed=0.0063)
    verdict = replace(PROFILE_SUMMARY.verdict, excused=(error,), deterministic=False)
    lines = profiled(verdict=verdict).splitlines()
    told = next(place for place, line in enumerate(lines) if line.startswith("**The existing kernel's errors"))
    assert "\n".join(lines[told : told + 3]) == snapshot("""\
**The existing kernel's errors exceed the tolerance for a new kernel**, but it computes the right function. It is measured as it is, and a variant's errors may be as large and no larger. Two runs on the same inputs are not bitwise identical.

- gradient of b: error 0.0071, allowed 0.0063 (`N=8 C=512 S=512 bfloat16`)\
""")
    assert "The existing kernel's errors" not in profiled()


def test_the_profile_of_a_new_or_changed_kernel_stands_folded_in_its_report() -> None:
    shown = profile_section(PROFILED)
    for told in (
        validated_sections(replace(VALIDATED, profile=PROFILED), {}),
        confirmed_sections(replace(REPORT, profile=PROFILED), {}),
    ):
        assert f"<details><summary>Profile</summary>\n\n{shown}\n\n</details>" in told
    assert "<summary>Profile</summary>" not in validated_sections(VALIDATED, {})


def test_without_counters_the_report_says_what_the_roofline_says_and_why_there_is_no_more() -> None:
    roofline = replace(PROFILED, counters=(), findings=(), counters_error="no GPU is here.")
    told = validated_sections(replace(VALIDATED, profile=roofline), {})
    assert "memory-bound in forward" in told
    assert "Nsight Compute was not used: no GPU is here." in told
