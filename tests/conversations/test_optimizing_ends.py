"""How `/kernel optimize` ends without a pull request, through the real stages, with the runner's answers made by hand."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from gpu_runner.contracts import CaseOutcome, TestCase, TestsResult, to_json
from tests.conversations.conftest import Open
from tests.conversations.optimizing import alone, answers, approve, closed, heard, searched, so_fast, to_the_comparison
from tests.conversations.talk import REPOSITORY, gist
from tests.recorded.libraries import LIGER, STANDING
from workers.contracts import JobState

LIBRARY = LIGER | {
    "test/transformers/test_geglu.py": b"def test_nothing():\n    assert True\n",
    "benchmark/scripts/benchmark_geglu.py": b"print('nothing to measure')\n",
}


def test_where_no_strategy_applies_the_job_says_so_and_changes_nothing(open_talk: Open) -> None:
    talk = open_talk(LIBRARY)
    answers(talk)
    before = dict(talk.hub.branches(REPOSITORY))
    number = talk.ask("/kernel optimize geglu --goal speed --variants 3")
    assert talk.job().state is JobState.waiting
    assert [gist(body) for body in heard(talk, number)] == snapshot(
        [
            """\
**`geglu` is memory-bound in forward, latency-bound in backward on NVIDIA H200:** forward reaches 50%, backward reaches 50% of the speed that the hardware allows.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""",
            """\
**`geglu`: profile is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).
**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.\
""",
        ]
    )
    approve(talk, number)
    assert talk.job().state is JobState.done
    assert closed(talk)
    assert [gist(body) for body in heard(talk, number)] == snapshot(
        [
            """\
**No variant improves `geglu`:** 1 variant, every strategy whose trigger holds has been tried.
**Next:** nothing to do; the job ends with its report, and nothing is changed.\
""",
            """\
**`geglu` is done**: nothing is better than the existing kernel, and [pull request 2](https://hub/octo/kernels/pull/2) is closed.
**Next:** nothing; the report explains the result.\
""",
            """\
**`geglu` stays as it is:** No variant was better than the existing kernel within the guardrails, so nothing is changed.
**Next:** nothing to merge. [pull request 2](https://hub/octo/kernels/pull/2) is closed. The variants, and what they showed, are below.\
""",
            "Approved: `profile` is done.",
        ]
    )
    assert {branch: sha for branch, sha in talk.hub.branches(REPOSITORY).items() if branch in before} == before
    assert talk.checks() == snapshot(
        [
            "Kernelsmith: completed neutral, profile: the kernel is measured",
            "Kernelsmith: completed neutral, optimize: done",
            "Kernelsmith: completed success, Done",
        ]
    )


def test_a_kernel_at_its_floor_ends_with_a_report_and_no_question(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    answers(talk)
    talk.answer("benchmark", to_json(alone(so_fast(1.97))))
    number = talk.ask("/kernel optimize geglu")
    assert talk.job().state is JobState.done
    assert talk.asked() == ["imports", "capture", "record", "verify", "benchmark", "profile", "script"]
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` is already at the hardware limit on NVIDIA H200, so there is nothing to gain:** forward reaches 99%, backward reaches 99%, full reaches 99% of the speed that the hardware allows.
**Next:** nothing to do; the job ends with its report, and nothing is changed.

Goal: balanced, of both passes.

- `backward`: share of the DRAM bandwidth is 0.41, and the rule `dram_idle` has its threshold at 0.6: latency-bound

| workload | pass | v0 | eager | torch.compile | host | speedup (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

▸ Noise and conditions

![Measured times of geglu-today on NVIDIA H200, by workload and pass](https://hub/octo/kernels/raw/COMMIT1/JOB1/geglu-today-speed.png)

- The problem could not be traced, so the compiler author's kernels are out of reach: the problem is not traced here
- The library's benchmark script gave no sizes for this problem; the problem's own sizes are measured.
- The library's own benchmark script gave no rows: exit code 0.

▸ Reading of the source

▸ Nsight Compute

▸ Proof of v0

▸ Peak memory

▸ Problem

<sub>Limits of NVIDIA H200: 4240 GB/s, 740 TFLOP/s in matrix products, 60 TFLOP/s otherwise; measured in the same run.</sub>

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
            """\
**`geglu` is done**: nothing was changed.

**Next:** nothing; the report explains the result.

- ✅ **profile**: measure the existing kernel, read its source, list what to try
- ✅ **optimize**: try variants, each proved and measured against the existing kernel
- ✅ **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
            """\
**`geglu` stays as it is:** The existing kernel is already at the floor: there is nothing to gain.
**Next:** nothing to merge. The variants, and what they showed, are below.

| workload | pass | v0 | eager | torch.compile | host | speedup (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 102 µs | 900 µs | 210 µs | 14.0 µs | 2.07× (2.05 to 2.09) | 100 µs | 99% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

▸ Noise and conditions

The search ended because the kernel has reached its floor, so nothing is left to gain.

▸ Peak memory

Provenance: GPU `NVIDIA H200` · measured copy bandwidth `4240 GB/s` · base commit `COMMIT2`

To repeat it on a checkout of the base commit, with `problem.py` from the job's page:

```sh
kernelsmith optimize geglu --repo . --auto --goal balanced --scope general --variants 8
```

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
        ]
    )
    assert talk.hub.pull_numbers(REPOSITORY) == []
    assert talk.checks() == []


def test_where_no_variant_is_better_the_job_ends_with_what_was_tried(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    searched(talk, 1.0, 1.002)
    number = talk.ask("/kernel optimize geglu")
    talk.skip_all(number)
    approve(talk, number)
    assert talk.job().state is JobState.done
    assert heard(talk, number) == snapshot(
        [
            """\
**No variant improves `geglu`:** 3 variants, two variants in a row were less than 1% better.
**Next:** nothing to do; the job ends with its report, and nothing is changed.

| variant | from | strategy | outcome | forward | backward | full | memory | score | why |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| v1 | v0 | Launch settings by measurement | the same code again | – | – | – | – | – | It is the same code as v0. |
| v2 | v0 | Pipelined loops | no gain | 1.00× | 1.00× | 1.00× | same | 1.00× |  |
| v3 | v0 | Row lengths as constants | no gain | 1.00× | 1.00× | 1.00× | same | 1.00× |  |

The search ended because two variants in a row were less than 1% better.

![Speedup of 2 variants of geglu over what stands, by pass](https://hub/octo/kernels/raw/COMMIT3/JOB1/geglu-variants.png)

▸ v1: Launch settings by measurement, the same code again

▸ v2: Pipelined loops, no gain

▸ v3: Row lengths as constants, no gain

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu` is done**: nothing is better than the existing kernel, and [pull request 2](https://hub/octo/kernels/pull/2) is closed.

**Next:** nothing; the report explains the result.

- ✅ **profile**: measure the existing kernel, read its source, list what to try
- ✅ **optimize**: try variants, each proved and measured against the existing kernel
- ✅ **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu` stays as it is:** No variant was better than the existing kernel within the guardrails, so nothing is changed.
**Next:** nothing to merge. [pull request 2](https://hub/octo/kernels/pull/2) is closed. The variants, and what they showed, are below.

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

The search ended because two variants in a row were less than 1% better.

▸ All variants

▸ Variants tried and rejected

▸ Peak memory

Provenance: GPU `NVIDIA H200` · measured copy bandwidth `4240 GB/s` · base commit `COMMIT4`

To repeat it on a checkout of the base commit, with `problem.py` from the job's page:

```sh
kernelsmith optimize geglu --repo . --auto --goal balanced --scope general --variants 8
```

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            "Approved: `profile` is done.",
        ]
    )
    assert closed(talk)


@pytest.mark.long  # in `make test` test_finalizing has such tests
def test_where_the_librarys_tests_fail_on_every_variant_nothing_is_committed(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    searched(talk, 1.4, 1.5, 1.6)
    broken = TestsResult(
        False, 1, (TestCase("test_geglu.py::test_grad", CaseOutcome.failed, 0.1, "wrong"),), "1 failed", ""
    )
    good = TestsResult(True, 0, (TestCase("test_geglu.py::test_grad", CaseOutcome.passed, 0.1),), "1 passed", "")
    for answer in (broken, good, broken, broken):
        talk.answer("tests", to_json(answer))
    number = to_the_comparison(talk)
    talk.skip_all(number)
    approve(talk, number)
    assert talk.job().state is JobState.done
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` is done**: nothing is better than the existing kernel, and [pull request 2](https://hub/octo/kernels/pull/2) is closed.

**Next:** nothing; the report explains the result.

- ✅ **profile**: measure the existing kernel, read its source, list what to try
- ✅ **optimize**: try variants, each proved and measured against the existing kernel
- ✅ **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu` stays as it is:** Every variant that was tried failed the library's own tests or the full verdict: the original stays.
**Next:** nothing to merge. [pull request 2](https://hub/octo/kernels/pull/2) is closed. The variants, and what they showed, are below.

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

- v4: the library's tests fail that pass without the change: test\\_geglu.py::test\\_grad
- v3: the library's tests fail that pass without the change: test\\_geglu.py::test\\_grad
- v2: the library's tests fail that pass without the change: test\\_geglu.py::test\\_grad

The search ended because every strategy whose trigger holds has been tried.

▸ All variants

▸ Variants tried and rejected

▸ Peak memory

Provenance: GPU `NVIDIA H200` · measured copy bandwidth `4240 GB/s` · base commit `COMMIT4`

To repeat it on a checkout of the base commit, with `problem.py` from the job's page:

```sh
kernelsmith optimize geglu --repo . --auto --goal speed --scope general --variants 8
```

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            "Approved: `optimize` is done.",
        ]
    )
    assert closed(talk)


def test_a_choice_that_cannot_be_met_is_answered_and_costs_nothing(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    searched(talk, 1.4, 1.5, 1.5)
    number = to_the_comparison(talk)
    talk.skip_all(number)
    asked = talk.asked()
    talk.clock[0] += 10
    talk.say(number, "/kernel revise use v9")
    talk.settle()
    assert talk.asked() == asked
    assert talk.job().state is JobState.waiting
    told = heard(talk, number)
    assert (
        sum(
            "v9 was not tried, so the comparison is unchanged. Variants that may be applied: v2, v3, v4." in body
            for body in told
        )
        == 1
    )


@pytest.mark.long  # in `make test` test_optimize_interrupted cancels and retries one
@pytest.mark.slow
def test_a_job_that_was_cancelled_goes_on_from_its_last_finished_variant(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    searched(talk, 1.4, 1.5, 1.5)
    number = to_the_comparison(talk)
    talk.skip_all(number)
    asked = talk.asked()
    talk.clock[0] += 10
    talk.say(number, "/kernel cancel")
    talk.settle()
    assert talk.job().state is JobState.cancelled
    assert heard(talk, number) == snapshot(
        [
            """\
**`geglu` was cancelled** by `maintainer`; what was pushed stays.
**Next:** nothing. `/kernel retry` resumes it; a new `/kernel optimize` starts over.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
            """\
**`geglu` was cancelled.**

**Next:** nothing; what was pushed stays. `/kernel retry` resumes it, a new `/kernel optimize` starts over.

- ✅ **profile**: measure the existing kernel, read its source, list what to try
- ⏹️ **optimize**: try variants, each proved and measured against the existing kernel
- ⬜ **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""",
        ]
    )
    talk.clock[0] += 10
    talk.say(number, "/kernel retry")
    talk.settle()
    assert talk.asked() == asked
    assert [gist(body) for body in heard(talk, number)] == snapshot(
        [
            """\
**Of 4 variants of `geglu`, `v3` is 1.50× as fast as v0 on NVIDIA H200:** Row lengths as constants.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""",
            """\
**`geglu`: optimize is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).
**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.\
""",
            "Job `JOB1` goes on from optimize.",
        ]
    )


def test_all_that_is_missing_is_named_at_once(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.ask("/kernel optimize geglu")
    assert talk.read(number) == snapshot("""\
`geglu` has no test file `test/transformers/test_geglu.py`; `geglu` has no benchmark script `benchmark/scripts/benchmark_geglu.py`. Nothing was done.

**Next:** Add one that holds the kernel against PyTorch: no change is proposed that it does not pass. Add one, as the library's other kernels have it: its sizes are what a change is measured on.\
""")
    assert talk.untouched()
