"""`/kernel optimize` from the command to the pull request, through the real stages, with the runner's answers made by hand."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from gpu_runner.contracts import to_json
from tests.conversations.conftest import Open
from tests.conversations.optimizing import approve, heard, searched, so_fast
from tests.conversations.talk import REPOSITORY, gist
from tests.recorded.libraries import STANDING
from tests.service.report.facts import TESTS
from workers.contracts import JobState


@pytest.mark.slow
def test_a_kernel_is_made_faster_from_the_command_to_the_pull_request(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    searched(talk, 1.4, 1.5, 1.5, 1.4)
    talk.answer("tests", to_json(TESTS), always=True)
    before = dict(talk.hub.branches(REPOSITORY))
    number = talk.ask("/kernel optimize geglu --goal speed")
    assert talk.asked() == ["imports", "capture", "record", "verify", "benchmark", "profile", "script"]
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` is memory-bound in forward, latency-bound in backward on NVIDIA H200:** forward reaches 50%, backward reaches 50%, full reaches 50% of the speed that the hardware allows.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

Goal: speed, of both passes.

- `backward`: share of the DRAM bandwidth is 0.41, and the rule `dram_idle` has its threshold at 0.6: latency-bound

| workload | pass | v0 | eager | torch.compile | host | speedup (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

▸ Noise and conditions

![Measured times of geglu-today on NVIDIA H200, by workload and pass](https://hub/octo/kernels/raw/COMMIT2/JOB1/geglu-today-speed.png)

These would be tried, in this order:

|  | strategy | because | expected gain |
| ---: | --- | --- | --- |
| 1 | Launch settings by measurement | 2 kernels are launched with settings of one rule for all GPUs and sizes. | 1.00× to 1.15× |
| 2 | Pipelined loops | Loops that load are pipelined, as deep as shared memory holds on every GPU since sm\\_80: 2 places; forward runs at 0.50 of its floor, backward runs at 0.50 of its floor. | 1.00× to 1.25× |
| 3 | Row lengths as constants | The length of a row is a compile-time constant: 1 places; forward runs at 0.50 of its floor, backward runs at 0.50 of its floor. | 1.00× to 1.08× |
| 4 | Eviction hints on streamed loads | Loads that are used once are marked to be evicted first, what every program reads again to be kept: 5 places; forward runs at 0.50 of its floor, backward runs at 0.50 of its floor. | 1.00× to 1.05× |

- The problem could not be traced, so the compiler author's kernels are out of reach: the problem is not traced here
- The library's benchmark script gave no sizes for this problem; the problem's own sizes are measured.
- The library's own benchmark script gave no rows: exit code 0.

▸ Reading of the source

▸ Nsight Compute

▸ Proof of v0

▸ Peak memory

▸ Problem

<sub>Limits of NVIDIA H200: 4240 GB/s, 740 TFLOP/s in matrix products, 60 TFLOP/s otherwise; measured in the same run.</sub>

- **Approve**: the strategies are tried in this order, each proved and measured against v0.
- **Request changes**: the profile runs again; a Python block in your words replaces the problem. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu`: profile is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.

- 👀 **profile**: measure the existing kernel, read its source, list what to try
- ⬜ **optimize**: try variants, each proved and measured against the existing kernel
- ⬜ **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
        ]
    )
    approve(talk, number)
    kept, left = ["verify", "benchmark", "script"], ["verify", "benchmark"]
    assert talk.asked()[7:] == ["tune", *kept, *kept, *left]
    assert heard(talk, number) == snapshot(
        [
            """\
**Of 4 variants of `geglu`, `v3` is 1.50× as fast as v0 on NVIDIA H200:** Row lengths as constants.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

| variant | from | strategy | outcome | forward | backward | full | memory | score | why |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| v1 | v0 | Launch settings by measurement | the same code again | – | – | – | – | – | It is the same code as v0. |
| v2 | v0 | Pipelined loops | kept | 1.40× | 1.40× | 1.40× | same | 1.40× |  |
| **v3** | v2 | Row lengths as constants | kept | 1.50× | 1.50× | 1.50× | same | 1.50× |  |
| v4 | v3 | Eviction hints on streamed loads | no gain | 1.50× | 1.50× | 1.50× | same | 1.50× |  |

The search ended because every strategy whose trigger holds has been tried.

![Speedup of 3 variants of geglu over what stands, by pass; the best is v3 at 1.50](https://hub/octo/kernels/raw/COMMIT3/JOB1/geglu-variants.png)

▸ v1: Launch settings by measurement, the same code again

▸ v2: Pipelined loops, kept

▸ v3: Row lengths as constants, kept

▸ v4: Eviction hints on streamed loads, no gain

- **Approve**: `v3` is applied, and the library's whole test file and style check run on it.
- **Request changes**: `use v2` takes that variant instead, unless it is wrong or breaks a guardrail. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu`: optimize is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.

- ✅ **profile**: measure the existing kernel, read its source, list what to try
- 👀 **optimize**: try variants, each proved and measured against the existing kernel
- ⬜ **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            "Approved: `profile` is done.",
        ]
    )
    talk.clock[0] += 10
    talk.say(number, "/kernel revise Less code is better, use v2")
    talk.settle()
    assert talk.asked()[16:] == []
    assert heard(talk, number) == snapshot(
        [
            """\
**Of 4 variants of `geglu`, `v2` is 1.40× as fast as v0 on NVIDIA H200:** Pipelined loops.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

| variant | from | strategy | outcome | forward | backward | full | memory | score | why |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| v1 | v0 | Launch settings by measurement | the same code again | – | – | – | – | – | It is the same code as v0. |
| **v2** | v0 | Pipelined loops | kept | 1.40× | 1.40× | 1.40× | same | 1.40× |  |
| v3 | v2 | Row lengths as constants | kept | 1.50× | 1.50× | 1.50× | same | 1.50× |  |
| v4 | v3 | Eviction hints on streamed loads | no gain | 1.50× | 1.50× | 1.50× | same | 1.50× |  |

The search ended because every strategy whose trigger holds has been tried.

![Speedup of 3 variants of geglu over what stands, by pass; the best is v3 at 1.50](https://hub/octo/kernels/raw/COMMIT3/JOB1/geglu-variants.png)

- v2 was chosen by the review.

▸ v1: Launch settings by measurement, the same code again

▸ v2: Pipelined loops, kept

▸ v3: Row lengths as constants, kept

▸ v4: Eviction hints on streamed loads, no gain

- **Approve**: `v2` is applied, and the library's whole test file and style check run on it.
- **Request changes**: `use v2` takes that variant instead, unless it is wrong or breaks a guardrail. This was attempt 2 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu`: optimize is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.

- ✅ **profile**: measure the existing kernel, read its source, list what to try
- 👀 **optimize** (2 attempts): try variants, each proved and measured against the existing kernel
- ⬜ **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            "Understood: `optimize` runs again.",
        ]
    )
    assert {branch: sha for branch, sha in talk.hub.branches(REPOSITORY).items() if branch in before} == before
    assert talk.changed() == snapshot(["optimization/geglu/profile.md +34 -0"])
    approve(talk, number)
    assert talk.asked()[16:] == ["tests", "verify", "benchmark", "script"]
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` is 1.40× as fast as before on NVIDIA H200, peak memory same.** Its values and gradients are proved, and the library's tests pass. By pass: forward 1.40×, backward 1.40×, full 1.40×.
**Next:** review [`COMMIT4`](https://hub/octo/kernels/commit/COMMIT4) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

| workload | pass | after | before | eager | torch.compile | host | against before (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

▸ Noise and conditions

![Errors of geglu against the float64 reference; the worst is 0.38 of what is allowed](https://hub/octo/kernels/raw/COMMIT5/JOB1/geglu-accuracy.png)
![Measured times of geglu on NVIDIA H200, by workload and pass](https://hub/octo/kernels/raw/COMMIT5/JOB1/geglu-speed.png)

The search ended because every strategy whose trigger holds has been tried.

▸ What was changed

▸ All variants

▸ Variants tried and rejected

▸ Proof

▸ The library's tests

▸ The library's benchmark script

▸ Style check

▸ Peak memory

Provenance: GPU `NVIDIA H200` · measured copy bandwidth `4240 GB/s` · base commit `COMMIT6`

To repeat it on a checkout of the base commit, with `problem.py` from the job's page:

```sh
kernelsmith optimize geglu --repo . --auto --goal speed --scope general --variants 8
```

- **Approve**: the job ends, and the pull request is yours to merge.
- **Request changes**: tests, benchmark and report run again, with your comments as feedback. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT4`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu`: finalize is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** approve or request changes on commit `COMMIT4`; the checkpoint's comment says what each does.

- ✅ **profile**: measure the existing kernel, read its source, list what to try
- ✅ **optimize** (2 attempts): try variants, each proved and measured against the existing kernel
- 👀 **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            "Approved: `optimize` is done.",
        ]
    )
    assert talk.body(talk.pull()) == snapshot("""\
**`geglu` is 1.40× as fast as before on NVIDIA H200, peak memory same.** Its values and gradients are proved, and the library's tests pass. By pass: forward 1.40×, backward 1.40×, full 1.40×.
Requested in #1 ([comment](https://hub/octo/kernels/issues/1#issuecomment-1013)). Only the kernel and its benchmark data are changed.

**What was changed** (Pipelined loops): Loops that load are pipelined, as deep as shared memory holds on every GPU since sm\\_80: `_geglu_forward_kernel` \\(1 loops\\), `_geglu_backward_kernel` \\(1 loops\\).

| workload | pass | after | before | eager | torch.compile | host | against before (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

▸ Noise and conditions

▸ Peak memory

▸ All variants

▸ Proof

Provenance: GPU `NVIDIA H200` · measured copy bandwidth `4240 GB/s` · base commit `COMMIT6`

▸ Reference

The bot pushes to this branch and never merges. Commits of yours on it stay, and stop the job until `/kernel retry`.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert heard(talk, talk.pull()) == snapshot([])
    assert talk.changed() == snapshot(["src/liger_kernel/ops/geglu.py +36 -6"])
    assert talk.checks() == snapshot(
        [
            "Kernelsmith: completed neutral, profile: the kernel is measured",
            "Kernelsmith: completed neutral, optimize: done",
            "Kernelsmith: completed neutral, optimize: done",
            "Kernelsmith: completed success, finalize: passed",
        ]
    )
    talk.review()
    assert talk.job().state is JobState.done
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` is done**: see [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** merge it when you are satisfied. The bot never merges.

- ✅ **profile**: measure the existing kernel, read its source, list what to try
- ✅ **optimize** (2 attempts): try variants, each proved and measured against the existing kernel
- ✅ **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
"""
        ]
    )
    assert heard(talk, talk.pull()) == snapshot([])
    assert talk.page(talk.pull()) == snapshot("""\
smith[bot] opened «Optimize geglu: 1.40× as fast»
smith[bot] committed: Add the profile of geglu
smith[bot] commented (outdated): **`geglu` is memory-bound in forward, latency-bound in backward on NVIDIA H200:** forward reaches 50%, backward reaches 50%, full reaches 50% of the speed that the hardware allows.
smith[bot]: review_requested maintainer
smith[bot] commented (outdated): **Of 4 variants of `geglu`, `v3` is 1.50× as fast as v0 on NVIDIA H200:** Row lengths as constants.
smith[bot] commented (outdated): **Of 4 variants of `geglu`, `v2` is 1.40× as fast as v0 on NVIDIA H200:** Pipelined loops.
smith[bot] committed: Optimize the geglu kernel
smith[bot]: ready_for_review
smith[bot] commented: **`geglu` is 1.40× as fast as before on NVIDIA H200, peak memory same.** Its values and gradients are proved, and the library's tests pass. By pass: forward 1.40×, backward 1.40×, full 1.40×.
maintainer reviewed: approved\
""")
    talk.answer("benchmark", to_json(so_fast(1.4)))
    talk.clock[0] += 10
    pull = talk.pull()
    talk.say(pull, "/kernel bench")
    talk.settle()
    assert talk.asked()[20:] == ["benchmark"]
    assert [gist(body) for body in heard(talk, pull)] == snapshot(
        [
            """\
**Compared with the merge base with main:** 1 of 1 kernel is faster: `geglu` (forward 1.40×, backward 1.40×, full 1.40×); nothing is slower.
**Next:** nothing; speed is no obstacle to merging.\
""",
            """\
**The bench of this pull request is done**: see the report below.
**Next:** nothing; the report explains the result.\
""",
        ]
    )
