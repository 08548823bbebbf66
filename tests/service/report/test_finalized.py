"""What is said of an optimize job at its end, and around it."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import Pass, Word
from service.escape import CODE_SPAN
from service.report.job import check_run_output, checkpoint_comment, report_comment
from service.report.layout import length
from service.report.pull_request import commit_message, pull_request_body, pull_request_title
from service.report.status import status_comment
from tests.conversations.normal import folded, gist
from tests.service.report.facts import LINKS, PROBLEM, WRONG
from tests.service.report.kernels_facts import (
    FINALIZED,
    OPTIMIZE_DONE,
    OPTIMIZED,
    PROFILE_SUMMARY,
    PROFILE_WAITS,
    SIZES,
    V0,
    V1,
    V2,
    V3,
    asked,
    row,
)
from workers.contracts import (
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    FileChange,
    JobState,
    OptimizeSummary,
    ProfileSummary,
    PullRequestUpdate,
    ReportUpdate,
    StageName,
    Summary,
    Verb,
)


def checkpoint(stage: StageName, summary: Summary, decides: bool = True) -> str:
    return checkpoint_comment(CheckpointUpdate(stage, 1, summary, decides), PROFILE_WAITS, LINKS)


def profiled(**changes: object) -> str:
    return checkpoint(StageName.profile, replace(PROFILE_SUMMARY, **changes))  # type: ignore[arg-type]


def optimized(**changes: object) -> str:
    return checkpoint(StageName.optimize, replace(OPTIMIZED, **changes))  # type: ignore[arg-type]


def test_what_was_applied() -> None:
    urls = {"speed.png": "https://github.com/octo-org/library/raw/0123456/speed.png"}
    assert report_comment(ReportUpdate(FINALIZED), OPTIMIZE_DONE, LINKS, urls) == snapshot("""\
**`rms_norm` is 1.40× as fast as before on NVIDIA H200, peak memory -25%.** Its values and gradients are proved, and the library's tests pass. By pass: forward 1.10×, backward 1.60×, full 1.40×.
**Next:** merge [pull request 22](https://github.com/octo-org/library/pull/22) when you are satisfied. The bot never merges.

| workload | pass | after | before | eager | torch.compile | host | against before (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
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

![Speed by size](https://github.com/octo-org/library/raw/0123456/speed.png)

The search ended because every strategy whose trigger holds has been tried.

<details><summary>What was changed</summary>

```diff
--- a/src/ops/rms_norm.py
+++ b/src/ops/rms_norm.py
@@ -1 +1 @@
-num_warps = 8
+num_warps = 16
```

</details>

<details><summary>All variants</summary>

| variant | from | strategy | outcome | forward | backward | full | memory | score | why |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| **v1** | v0 | Settings by size | kept | 1.10× | 1.60× | 1.40× | -25% | 1.35× |  |
| v2 | v1 | Recompute &#124; instead of save | rejected by a guardrail | 1.00× | 0.95× | – | +10% | 0.97× | Forward is 12% worse, and 10% are allowed. |
| v3 | v1 | Pipelined loop | wrong | – | – | – | – | – | dW is wrong. |

</details>

<details><summary>Variants tried and rejected</summary>

<details><summary>v2: Recompute &#124; instead of save, rejected by a guardrail</summary>

- **Hypothesis**: Wide rows want more warps.
- **Change**: `num_warps` comes from a table.
- **Expected**: Backward 1.1 to 1.3 times as fast.

Verdict: values and gradients match the reference.

- time of forward at `M=2048 N=4096 bfloat16` is +12%, and +10% is allowed

| workload | pass | v2 | v0 | eager | torch.compile | host | against v0 (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 200 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.00× (0.99 to 1.01) same | 1.05× (1.04 to 1.06) | 100 µs | 50% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 211 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 0.95× (0.94 to 0.96) slower | 1.00× (0.99 to 1.01) | 100 µs | 48% | same |
| `M=2048 N=16384 bfloat16` | backward | 211 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 0.95× (0.94 to 0.96) slower | 1.00× (0.99 to 1.01) | 100 µs | 48% | same |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 4 disturbed rounds were left out.</sub>

</details>

<details><summary>v3: Pipelined loop, wrong</summary>

- **Hypothesis**: Wide rows want more warps.
- **Change**: `num_warps` comes from a table.
- **Expected**: Backward 1.1 to 1.3 times as fast.
- **Learned**: It did: 1.6.

Verdict: a gradient is wrong.

</details>

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

<details><summary>The library's tests</summary>

1 passed in 0.50s

| test | outcome |
| --- | --- |
| `test/test_reglu.py::test_correct[1]` | passed |

</details>

<details><summary>The library's benchmark script</summary>

1 passed in 0.50s

| test | outcome |
| --- | --- |
| `test/test_reglu.py::test_correct[1]` | passed |

</details>

<details><summary>Style check</summary>

Passed: `ruff check`

</details>

<details><summary>Peak memory</summary>

| workload | pass | after | before | eager | torch.compile |
| --- | --- | ---: | ---: | ---: | ---: |
| `M=2048 N=4096 bfloat16` | forward | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | forward | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=4096 bfloat16` | backward | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | backward | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=4096 bfloat16` | full | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |
| `M=2048 N=16384 bfloat16` | full | 48.0 MiB | 64.0 MiB | 192 MiB | 64.0 MiB |

</details>

Provenance: GPU `NVIDIA H200` · torch `2.11.0`

To repeat it on a checkout of the base commit, with `problem.py` from the job's page:

```sh
kernelsmith optimize rms_norm --repo . --auto
```

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat` · [pull request 22](https://github.com/octo-org/library/pull/22)</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")


def test_the_last_checkpoint_stands_on_the_pull_request() -> None:
    body = checkpoint_comment(CheckpointUpdate(StageName.finalize, 1, FINALIZED), OPTIMIZE_DONE, LINKS)
    assert gist(body) == snapshot("""\
**`rms_norm` is 1.40× as fast as before on NVIDIA H200, peak memory -25%.** Its values and gradients are proved, and the library's tests pass. By pass: forward 1.10×, backward 1.60×, full 1.40×.
**Next:** review [`1f2e3d4c5b6a`](https://github.com/octo-org/library/commit/1f2e3d4c5b6a79880011223344556677889900aa) on [pull request 22](https://github.com/octo-org/library/pull/22), and approve it or request changes.\
""")


def test_a_kernel_that_stays_as_it_is() -> None:
    stays = replace(
        FINALIZED,
        applied=False,
        benchmark=V0,
        style=None,
        tests=None,
        script=None,
        diff="",
        notes=("The library's tests fail after two repairs.",),
    )
    assert folded(report_comment(ReportUpdate(stays), asked(Verb.optimize, JobState.done), LINKS)) == snapshot("""\
**`rms_norm` stays as it is:** The library's tests fail after two repairs.
**Next:** nothing to merge. The variants, and what they showed, are below.

| workload | pass | v0 | eager | torch.compile | against the best baseline (95% interval) | floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 200 µs | 900 µs | 210 µs | 1.05× (1.04 to 1.06) | 100 µs | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 4 disturbed rounds were left out.</sub>

▸ Noise and conditions

The search ended because every strategy whose trigger holds has been tried.

▸ All variants

▸ Variants tried and rejected

▸ Proof

▸ Peak memory

Provenance: GPU `NVIDIA H200` · torch `2.11.0`

To repeat it on a checkout of the base commit, with `problem.py` from the job's page:

```sh
kernelsmith optimize rms_norm --repo . --auto
```

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=report -->\
""")
    nothing = replace(stays, winner=None, variants=(V2, V3), notes=())
    assert gist(report_comment(ReportUpdate(nothing), asked(Verb.optimize, JobState.done), LINKS)) == snapshot("""\
**`rms_norm` stays as it is:** nothing that was tried is better.
**Next:** nothing to merge. The variants, and what they showed, are below.\
""")


def test_a_pull_request_before_and_after_its_measurements() -> None:
    early = PullRequestUpdate(None, PROBLEM)
    late = PullRequestUpdate(None, PROBLEM, optimization=FINALIZED)
    assert [pull_request_title(update, OPTIMIZE_DONE) for update in (early, late)] == snapshot(
        ["Optimize rms_norm", "Optimize rms_norm: 1.40× as fast"]
    )
    assert folded(pull_request_body(early, OPTIMIZE_DONE, LINKS)) == snapshot("""\
This is to make `rms_norm` faster or smaller. Requested in #21 ([comment](https://github.com/octo-org/library/pull/21#issuecomment-35)). Only the kernel and its benchmark data are changed.

**Profiled so far:** `optimization/rms_norm/profile.md` lists what bounds it and what will be tried. The kernel's commit removes it.

▸ Reference

The bot pushes to this branch and never merges. Commits of yours on it stay, and stop the job until `/kernel retry`.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat` · [pull request 22](https://github.com/octo-org/library/pull/22)</sub>

<!-- kernelsmith:job=j7k2 kind=pull -->\
""")
    assert folded(pull_request_body(late, OPTIMIZE_DONE, LINKS)) == snapshot("""\
**`rms_norm` is 1.40× as fast as before on NVIDIA H200, peak memory -25%.** Its values and gradients are proved, and the library's tests pass. By pass: forward 1.10×, backward 1.60×, full 1.40×.
Requested in #21 ([comment](https://github.com/octo-org/library/pull/21#issuecomment-35)). Only the kernel and its benchmark data are changed.

**What was changed** (Settings by size): `num_warps` comes from a table.

| workload | pass | after | before | eager | torch.compile | host | against before (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 182 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.10× (1.09 to 1.11) faster | 1.16× (1.14 to 1.17) | 100 µs | 55% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 182 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.10× (1.09 to 1.11) faster | 1.16× (1.14 to 1.17) | 100 µs | 55% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 125 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.60× (1.58 to 1.62) faster | 1.68× (1.66 to 1.70) | 100 µs | 80% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 125 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.60× (1.58 to 1.62) faster | 1.68× (1.66 to 1.70) | 100 µs | 80% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

▸ Noise and conditions

▸ Peak memory

▸ All variants

▸ Proof

Provenance: GPU `NVIDIA H200` · torch `2.11.0`

▸ Reference

The bot pushes to this branch and never merges. Commits of yours on it stay, and stop the job until `/kernel retry`.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat` · [pull request 22](https://github.com/octo-org/library/pull/22)</sub>

<!-- kernelsmith:job=j7k2 kind=pull -->\
""")


def test_commits_of_an_optimization() -> None:
    change = FileChange("src/ops/rms_norm.py", "x")
    messages = [
        commit_message(CommitUpdate(purpose, (change,), StageName.finalize, 1), OPTIMIZE_DONE)
        for purpose in (CommitPurpose.optimization, CommitPurpose.restoration)
    ]
    assert messages == snapshot(
        [
            """\
Optimize the rms_norm kernel

Its values and gradients were proved against the reference, and it was compared with the previous kernel.

- src/ops/rms_norm.py

Kernelsmith-Job: j7k2
Kernelsmith-Stage: finalize 1
""",
            """\
Restore the rms_norm kernel

The variants failed the library's own checks, so the previous kernel is restored.

- src/ops/rms_norm.py

Kernelsmith-Job: j7k2
Kernelsmith-Stage: finalize 1
""",
        ]
    )


def test_the_status_of_an_optimize_job() -> None:
    assert status_comment(PROFILE_WAITS, LINKS) == snapshot("""\
**`rms_norm`: profile is done and waits for your decision** here.

**Next:** `/kernel approve abc012345678` or `/kernel revise`; the checkpoint's comment says what each does.

- 👀 **profile**: measure the existing kernel, read its source, list what to try
- ⬜ **optimize**: try variants, each proved and measured against the existing kernel
- ⬜ **finalize**: apply the winner, run the library's own checks and tests, write the report

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=status -->\
""")
    assert gist(status_comment(asked(Verb.optimize, JobState.done), LINKS).replace("\n\n", "\n")) == snapshot("""\
**`rms_norm` is done**: nothing was changed.
**Next:** nothing; the report explains the result.\
""")
    assert gist(status_comment(OPTIMIZE_DONE, LINKS).replace("\n\n", "\n")) == snapshot("""\
**`rms_norm` is done**: see [pull request 22](https://github.com/octo-org/library/pull/22).
**Next:** merge it when you are satisfied. The bot never merges.\
""")


def test_check_runs_of_an_optimize_job() -> None:
    summaries: list[tuple[StageName, ProfileSummary | OptimizeSummary]] = [
        (StageName.profile, PROFILE_SUMMARY),
        (StageName.profile, replace(PROFILE_SUMMARY, verdict=WRONG)),
        (StageName.optimize, OPTIMIZED),
    ]
    found = [check_run_output(CheckpointUpdate(stage, 1, summary), PROFILE_WAITS) for stage, summary in summaries]
    found.append(check_run_output(CheckpointUpdate(StageName.finalize, 1, FINALIZED), OPTIMIZE_DONE))
    found.append(
        check_run_output(CheckpointUpdate(StageName.finalize, 1, replace(FINALIZED, verdict=WRONG)), OPTIMIZE_DONE)
    )
    found.append(check_run_output(ReportUpdate(FINALIZED), OPTIMIZE_DONE))
    assert [(output.title, output.conclusion.value) for output in found] == snapshot(
        [
            ("profile: the kernel is measured", "neutral"),
            ("profile: the kernel is measured", "failure"),
            ("optimize: done", "neutral"),
            ("finalize: passed", "success"),
            ("finalize: failed", "failure"),
            ("Done", "success"),
        ]
    )


def test_many_variants_fit_into_one_comment() -> None:
    many = tuple(replace(V1, name=f"v{number}") for number in range(1, 33))
    body = optimized(variants=many)
    assert length(body) <= 65_536
    assert body.count("<details>") == body.count("</details>")


HOSTILE = "x | y\n\n# head\n@octocat <!-- kernelsmith:job=none kind=report --> ```\n</details>"


def test_foreign_text_does_nothing() -> None:
    reading = replace(PROFILE_SUMMARY.reading, path=HOSTILE, notes=(HOSTILE,), saved_tensors=(HOSTILE,))
    profile = profiled(reading=reading, notes=(HOSTILE,), target=HOSTILE, problem_source=HOSTILE)
    variant = replace(V2, title=HOSTILE, reason=HOSTILE, name=HOSTILE, settings=((HOSTILE, HOSTILE),))
    variants = optimized(variants=(variant,), notes=(HOSTILE,))
    final = replace(FINALIZED, diff=HOSTILE, notes=(HOSTILE,), variants=(variant,), reproduce=HOSTILE)
    report = report_comment(ReportUpdate(final), OPTIMIZE_DONE, LINKS)
    for body in (profile, variants, report):
        prose = [
            line for line in outside_of_fences(body) if "@octocat" in line.replace("&#8203;", "") and "`" not in line
        ]
        assert all("@&#8203;octocat" in line for line in prose)
        plain = "\n".join(CODE_SPAN.sub("", line) for line in outside_of_fences(body))
        assert plain.count("<details>") == plain.count("</details>")
        assert not any(line.startswith("# head") for line in outside_of_fences(body))


def outside_of_fences(body: str) -> list[str]:
    kept, fence = [], ""
    for line in body.splitlines():
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if not fence and len(ticks) >= 3:
            fence = ticks
        elif fence and line.strip() == fence:
            fence = ""
        elif not fence:
            kept.append(line)
    return kept


def test_a_size_at_which_a_timed_run_was_wrong_stands_in_the_first_line() -> None:
    assert FINALIZED.benchmark is not None
    first, *rest = FINALIZED.benchmark.rows
    failed = replace(first.timings[0], median_us=None, error="gradient of b of a timed run is wrong")
    rows = (replace(first, timings=(failed, *first.timings[1:])), *rest)
    wrong = replace(FINALIZED, benchmark=replace(FINALIZED.benchmark, rows=rows))
    told = report_comment(ReportUpdate(wrong), OPTIMIZE_DONE, LINKS, {}).splitlines()[0]
    assert told == (
        "**`rms_norm` cannot be merged as it is:** it could not be timed on every size "
        "(gradient of b of a timed run is wrong)."
    )


def test_peak_memory_in_the_first_line_is_that_of_both_passes_together() -> None:
    assert FINALIZED.benchmark is not None
    size = SIZES[0]
    rows = (row(size, Pass.forward, 2.0, Word.faster, memory=1e-5), row(size, Pass.full, 1.5, Word.faster, memory=0.5))
    told = report_comment(
        ReportUpdate(replace(FINALIZED, benchmark=replace(FINALIZED.benchmark, rows=rows))), OPTIMIZE_DONE, LINKS, {}
    ).splitlines()[0]
    assert "1.50× as fast as before on NVIDIA H200, peak memory -50%." in told
