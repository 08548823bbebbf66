"""What bench and verify say."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import Pass, Status, Verdict, Word
from service.escape import CODE_SPAN
from service.report.benchmarks import by_pass
from service.report.job import check_run_output, report_comment
from service.report.layout import find_marker, length
from service.report.measure import unusual_section
from service.report.status import status_comment
from tests.conversations.normal import folded, gist
from tests.service.report.facts import LINKS, VERDICT, WRONG, attempt
from tests.service.report.kernels_facts import (
    BENCH_DONE,
    GEGLU,
    LAYER,
    MEASURE,
    NOTHING_TIMED,
    RMS,
    SIZES,
    SLOWER,
    SOFTMAX,
    UNDECIDED,
    VERIFY_DONE,
    asked,
    row,
)
from workers.contracts import JobState, MeasuredKernel, ReportUpdate, StageName, StageState, UsualRange, Verb

OTHER = "9f8e7d6c5b4a39281706f5e4d3c2b1a098765432"


def bench(*kernels: MeasuredKernel) -> str:
    return report_comment(ReportUpdate(replace(MEASURE, kernels=kernels)), BENCH_DONE, LINKS)


def test_a_change_that_makes_one_kernel_faster_and_one_slower() -> None:
    assert bench(RMS, LAYER, GEGLU, SOFTMAX) == snapshot("""\
**Compared with the merge base with main:** 1 of 3 kernels is slower: `layer_norm` (backward 0.95×); 1 of 3 kernels is faster: `rms_norm` (forward 1.10×, backward 1.60×, full 1.40×); 1 of 3 kernels needs more memory: `layer_norm` (+10%). 1 kernel could not be measured.
**Next:** look at `layer_norm`, or justify it in the pull request; the rows are below.

| kernel | pass | sizes | speed of head over base (95% interval) | peak memory | verdict |
| --- | --- | ---: | ---: | ---: | --- |
| `layer_norm` | forward | 2 | 1.00× (0.99 to 1.01) | +10% | same |
| `layer_norm` | backward | 2 | 0.95× (0.94 to 0.96) | +10% | slower |
| `rms_norm` | forward | 2 | 1.10× (1.09 to 1.11) | -25% | faster |
| `rms_norm` | backward | 2 | 1.60× (1.59 to 1.61) | -25% | faster |
| `rms_norm` | full | 2 | 1.40× (1.39 to 1.41) | -25% | faster |
| `geglu` | forward | 2 | 1.00× (0.99 to 1.01) | same | same |
| `geglu` | backward | 2 | 1.00× (0.99 to 1.01) | same | same |

<sub>Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 14 disturbed rounds were left out.</sub>

Not measured:

- `softmax`: there is no benchmark script for `softmax`. Add one, or name the kernels.

<details><summary>layer&#95;norm: every size</summary>

`src/ops/layer_norm.py`, touched by `src/ops/utils.py`.

| workload | pass | head | base | eager | torch.compile | host | against base (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 211 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 0.95× (0.94 to 0.96) slower | 1.00× (0.99 to 1.01) | 100 µs | 48% | same |
| `M=2048 N=16384 bfloat16` | backward | 211 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 0.95× (0.94 to 0.96) slower | 1.00× (0.99 to 1.01) | 100 µs | 48% | same |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 4 disturbed rounds were left out.</sub>

<details><summary>Noise and conditions</summary>

| workload | pass | baseline against itself | SM clock | memory clock | temperature | throttled | dropped |
| --- | --- | --- | --- | --- | --- | --- | --- |
| `M=2048 N=4096 bfloat16` | forward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=16384 bfloat16` | forward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=4096 bfloat16` | backward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=16384 bfloat16` | backward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |

</details>

<details><summary>Peak memory</summary>

| workload | pass | head | base | eager | torch.compile |
| --- | --- | ---: | ---: | ---: | ---: |
| `M=2048 N=4096 bfloat16` | forward | 70.4 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | forward | 70.4 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=4096 bfloat16` | backward | 70.4 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | backward | 70.4 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |

</details>

<details><summary>Proof</summary>

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

</details>

<details><summary>rms&#95;norm: every size</summary>

`src/ops/rms_norm.py`, touched by `src/ops/utils.py`, `src/ops/rms_norm.py`.

| workload | pass | head | base | eager | torch.compile | host | against base (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 182 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.10× (1.09 to 1.11) faster | 1.16× (1.14 to 1.17) | 100 µs | 55% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 182 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.10× (1.09 to 1.11) faster | 1.16× (1.14 to 1.17) | 100 µs | 55% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 125 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.60× (1.58 to 1.62) faster | 1.68× (1.66 to 1.70) | 100 µs | 80% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 125 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.60× (1.58 to 1.62) faster | 1.68× (1.66 to 1.70) | 100 µs | 80% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

<details><summary>Noise and conditions</summary>

| workload | pass | baseline against itself | SM clock | memory clock | temperature | throttled | dropped |
| --- | --- | --- | --- | --- | --- | --- | --- |
| `M=2048 N=4096 bfloat16` | forward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=16384 bfloat16` | forward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=4096 bfloat16` | backward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=16384 bfloat16` | backward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=4096 bfloat16` | full | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=16384 bfloat16` | full | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |

</details>

<details><summary>Peak memory</summary>

| workload | pass | head | base | eager | torch.compile |
| --- | --- | ---: | ---: | ---: | ---: |
| `M=2048 N=4096 bfloat16` | forward | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | forward | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=4096 bfloat16` | backward | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | backward | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=4096 bfloat16` | full | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | full | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |

</details>

<details><summary>Proof</summary>

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

</details>

<details><summary>geglu: every size</summary>

`src/ops/geglu.py`, touched by `src/ops/utils.py`.

| workload | pass | head | base | eager | torch.compile | host | against base (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 4 disturbed rounds were left out.</sub>

<details><summary>Noise and conditions</summary>

| workload | pass | baseline against itself | SM clock | memory clock | temperature | throttled | dropped |
| --- | --- | --- | --- | --- | --- | --- | --- |
| `M=2048 N=4096 bfloat16` | forward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=16384 bfloat16` | forward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=4096 bfloat16` | backward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |
| `M=2048 N=16384 bfloat16` | backward | 1.00× (0.99 to 1.01) | 1950 to 1980 MHz | 3201 MHz | 54 °C | sw\\_power\\_cap | 1 |

</details>

<details><summary>Peak memory</summary>

| workload | pass | head | base | eager | torch.compile |
| --- | --- | ---: | ---: | ---: | ---: |
| `M=2048 N=4096 bfloat16` | forward | 64.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | forward | 64.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=4096 bfloat16` | backward | 64.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | backward | 64.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |

</details>

<details><summary>Proof</summary>

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

</details>

<sub>Head `1f2e3d4c5b6a` against base `abc012345678`.</sub>

Provenance: GPU `NVIDIA H200`

To repeat it on a checkout of the head commit:

```sh
kernelsmith compare --repo . --against main
```

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_only_faster_only_the_same_and_undecided() -> None:
    noisy = replace(GEGLU, benchmark=UNDECIDED)
    assert [gist(bench(*kernels)) for kernels in ((RMS, GEGLU), (GEGLU,), (GEGLU, noisy), (SOFTMAX,), ())] == snapshot(
        [
            """\
**Compared with the merge base with main:** 1 of 2 kernels is faster: `rms_norm` (forward 1.10×, backward 1.60×, full 1.40×); nothing is slower.
**Next:** nothing; speed is no obstacle to merging.\
""",
            """\
**Nothing became faster or slower** than the merge base with main: 1 kernel, 4 measurements.
**Next:** nothing; speed is no obstacle to merging.\
""",
            """\
**Nothing is known to be faster or slower** than the merge base with main (2 kernels, 6 measurements), but not all is decided: `geglu`.
**Next:** `/kernel bench` again, when the GPU is quieter, if the undecided rows matter.\
""",
            """\
**Nothing could be measured** against the merge base with main: there is no benchmark script for `softmax`.
**Next:** see why below, then use `/kernel bench` again.\
""",
            """\
**This change touches no kernel:** nothing was compared with the merge base with main.
**Next:** nothing, or name the kernels that should be compared: `/kernel bench NAME`.\
""",
        ]
    )


def test_what_is_slower_at_one_size_is_not_hidden_by_the_mean_of_all() -> None:
    rows = (row(SIZES[0], Pass.forward, 0.95, Word.slower), row(SIZES[1], Pass.forward, 1.2, Word.faster))
    mixed = replace(RMS, benchmark=replace(SLOWER, rows=rows))
    assert gist(bench(mixed)).split("\n")[0] == snapshot(
        "**Compared with the merge base with main:** 1 of 1 kernel is slower: `rms_norm` (forward 0.95× on 1 of 2 sizes); 1 of 1 kernel is faster: `rms_norm` (forward 1.20× on 1 of 2 sizes)."
    )


def test_a_wrong_kernel_comes_before_its_speed() -> None:
    assert folded(bench(replace(RMS, verdict=WRONG), LAYER)) == snapshot("""\
**Compared with the merge base with main:** `rms_norm` is wrong, a gradient is wrong; 1 of 2 kernels is slower: `layer_norm` (backward 0.95×); 1 of 2 kernels is faster: `rms_norm` (forward 1.10×, backward 1.60×, full 1.40×); 1 of 2 kernels needs more memory: `layer_norm` (+10%).
**Next:** fix `rms_norm` first; timings of a wrong kernel mean nothing.

| kernel | pass | sizes | speed of head over base (95% interval) | peak memory | verdict |
| --- | --- | ---: | ---: | ---: | --- |
| `layer_norm` | forward | 2 | 1.00× (0.99 to 1.01) | +10% | same |
| `layer_norm` | backward | 2 | 0.95× (0.94 to 0.96) | +10% | slower |
| `rms_norm` | forward | 2 | 1.10× (1.09 to 1.11) | -25% | faster |
| `rms_norm` | backward | 2 | 1.60× (1.59 to 1.61) | -25% | faster |
| `rms_norm` | full | 2 | 1.40× (1.39 to 1.41) | -25% | faster |

<sub>Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 10 disturbed rounds were left out.</sub>

▸ layer&#95;norm: every size

▸ rms&#95;norm: every size

<sub>Head `1f2e3d4c5b6a` against base `abc012345678`.</sub>

Provenance: GPU `NVIDIA H200`

To repeat it on a checkout of the head commit:

```sh
kernelsmith compare --repo . --against main
```

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_without_a_gpu_nothing_is_said_of_speed() -> None:
    interpreted = replace(VERDICT, interpreted=True)
    assert folded(bench(replace(RMS, benchmark=NOTHING_TIMED, verdict=interpreted))) == snapshot("""\
**Nothing was timed:** no GPU was available, so the speed is unknown against the merge base with main.
**Next:** give the command on an installation with a GPU; `/kernel verify` proves the values without one.

▸ rms&#95;norm: every size

<sub>Head `1f2e3d4c5b6a` against base `abc012345678`.</sub>

Provenance: GPU `NVIDIA H200`

To repeat it on a checkout of the head commit:

```sh
kernelsmith compare --repo . --against main
```

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_a_host_at_fault_is_not_the_kernels_fault() -> None:
    assert "is wrong" not in bench(replace(GEGLU, verdict=Verdict(Status.environment_error)))


def test_a_pull_request_that_moved_while_it_was_measured() -> None:
    body = report_comment(ReportUpdate(MEASURE), BENCH_DONE, LINKS, moved_to=OTHER)
    assert body.splitlines()[3] == snapshot(
        "**The pull request has changed:** this is about [`1f2e3d4c5b6a`](https://github.com/octo-org/library/commit/1f2e3d4c5b6a79880011223344556677889900aa), and its head is now [`9f8e7d6c5b4a`](https://github.com/octo-org/library/commit/9f8e7d6c5b4a39281706f5e4d3c2b1a098765432). `/kernel bench` runs on the new head."
    )
    same = report_comment(ReportUpdate(MEASURE), BENCH_DONE, LINKS, moved_to=BENCH_DONE.request.head_sha)
    assert "moved on" not in same


def test_the_status_of_a_bench() -> None:
    running = attempt(StageName.measure, StageState.running, note="layer_norm, 2 of 3")
    assert status_comment(asked(Verb.bench, JobState.running, stages=(running,)), LINKS) == snapshot("""\
**The bench of this pull request is in measure.**

**Now:** layer\\_norm, 2 of 3.

- ⏳ **measure**: layer\\_norm, 2 of 3

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=status -->\
""")
    assert status_comment(BENCH_DONE, LINKS) == snapshot("""\
**The bench of this pull request is done**: see the report below.

**Next:** nothing; the report explains the result.

- ✅ **measure**: find the touched kernels, and compare each on both commits

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=status -->\
""")
    named = replace(
        BENCH_DONE, request=replace(BENCH_DONE.request, kernels=("rms_norm", "geglu"), kernel="rms_norm,geglu")
    )
    assert status_comment(named, LINKS).splitlines()[0] == snapshot(
        "**The bench of `rms_norm`, `geglu` is done**: see the report below."
    )
    assert status_comment(replace(named, state=JobState.cancelled), LINKS).splitlines()[2] == snapshot(
        "**Next:** nothing; `/kernel retry` resumes it, a new `/kernel bench` starts over."
    )


def test_check_runs_of_bench_and_verify() -> None:
    wrong = replace(GEGLU, verdict=WRONG)
    found = [
        (kernels, check_run_output(ReportUpdate(replace(MEASURE, kernels=kernels)), done))
        for done in (BENCH_DONE, VERIFY_DONE)
        for kernels in ((RMS, GEGLU), (LAYER,), (wrong,), (SOFTMAX,))
    ]
    assert [f"{output.title}: {output.conclusion.value}" for _, output in found] == snapshot(
        [
            "bench: passed: success",
            "bench: done: neutral",
            "bench: failed: failure",
            "bench: done: neutral",
            "verify: passed: success",
            "verify: passed: success",
            "verify: failed: failure",
            "verify: done: neutral",
        ]
    )


def test_the_interval_of_several_sizes_is_narrower_than_that_of_each() -> None:
    forward, _ = by_pass(SLOWER.rows)
    assert forward.low is not None and forward.high is not None
    assert 0.99 < forward.low < 1.0 < forward.high < 1.01


def test_foreign_text_does_nothing() -> None:
    hostile = "x | y\n@octocat </details> <!-- kernelsmith:job=none kind=report -->"
    kernel = replace(RMS, kernel=hostile, path=hostile, touched=(hostile,))
    summary = replace(MEASURE, kernels=(kernel,), against=hostile, notes=(hostile,), reproduce="")
    for done in (BENCH_DONE, VERIFY_DONE):
        body = report_comment(ReportUpdate(summary), done, LINKS)
        plain = "\n".join(CODE_SPAN.sub("", line) for line in body.splitlines())
        assert "@octocat" not in plain.replace("<code>", "").replace("&#64;octocat", "")
        assert plain.count("<details>") == plain.count("</details>")
        assert find_marker(body) is not None and find_marker(body) != find_marker(hostile)


def test_many_kernels_fit_into_one_comment() -> None:
    many = tuple(replace(RMS, kernel=f"kernel_{number}") for number in range(40))
    assert length(bench(*many)) <= 65_536


def nights(
    kernel: MeasuredKernel, timed_pass: Pass, low: float, high: float, metric: str = "time_us"
) -> MeasuredKernel:
    ranges = [
        UsualRange(timed_pass.value, size.label(), metric, "NVIDIA H200", 27, low, high, 0.004) for size in SIZES[:1]
    ]
    return replace(kernel, usual=(*kernel.usual, *ranges))


def test_a_difference_is_named_unusual_only_where_it_leaves_what_the_kernels_nights_vary_by() -> None:
    rms = nights(nights(RMS, Pass.forward, 0.99, 1.01), Pass.backward, 0.6, 1.4)
    text = unusual_section(
        replace(MEASURE, kernels=(rms, nights(LAYER, Pass.forward, 0.99, 1.01, "peak_bytes"), GEGLU))
    )
    assert text == snapshot("""\
**Unusual for `rms_norm`, `layer_norm`**, by the nights on NVIDIA H200:

- `rms_norm` forward, M=2048 N=4096 bfloat16: time -9.1%; 27 nights vary from -1.0% to +1.0%.
- `layer_norm` forward, M=2048 N=4096 bfloat16: peak memory +10.0%; 27 nights vary from -1.0% to +1.0%.

<details><summary>Different, but within the nightly variation</summary>

- `rms_norm` backward, M=2048 N=4096 bfloat16: time -37.5%; 27 nights vary from -40.0% to +40.0%.

</details>\
""")
    quiet = nights(GEGLU, Pass.forward, 0.97, 1.03)
    assert unusual_section(replace(MEASURE, kernels=(quiet,))) == snapshot(
        "Nothing is unusual for `geglu`, by the nights on NVIDIA H200."
    )
    assert unusual_section(MEASURE) == ""
    assert text in bench(rms, nights(LAYER, Pass.forward, 0.99, 1.01, "peak_bytes"), GEGLU)
