"""What is said of the variants of a kernel."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import Status
from service.report.job import checkpoint_comment
from service.report.optimize import lineage
from tests.conversations.normal import folded, gist
from tests.service.report.facts import LINKS
from tests.service.report.kernels_facts import (
    OPTIMIZED,
    PROFILE_SUMMARY,
    PROFILE_WAITS,
    V1,
    V2,
    V3,
)
from workers.contracts import (
    CheckpointUpdate,
    Goal,
    Outcome,
    StageName,
    StopReason,
    Summary,
)


def checkpoint(stage: StageName, summary: Summary, decides: bool = True) -> str:
    return checkpoint_comment(CheckpointUpdate(stage, 1, summary, decides), PROFILE_WAITS, LINKS)


def profiled(**changes: object) -> str:
    return checkpoint(StageName.profile, replace(PROFILE_SUMMARY, **changes))  # type: ignore[arg-type]


def optimized(**changes: object) -> str:
    return checkpoint(StageName.optimize, replace(OPTIMIZED, **changes))  # type: ignore[arg-type]


def test_the_variants_of_a_kernel() -> None:
    assert optimized() == snapshot("""\
**Of 3 variants of `rms_norm`, `v1` is 1.35× as fast as v0 on NVIDIA H200:** Settings by size.
**Next:** look at it, and reply `/kernel approve abc012345678` here, or `/kernel revise` with what should change.

| variant | from | strategy | outcome | forward | backward | full | memory | score | why |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
| **v1** | v0 | Settings by size | kept | 1.10× | 1.60× | 1.40× | -25% | 1.35× |  |
| v2 | v1 | Recompute &#124; instead of save | rejected by a guardrail | 1.00× | 0.95× | – | +10% | 0.97× | Forward is 12% worse, and 10% are allowed. |
| v3 | v1 | Pipelined loop | wrong | – | – | – | – | – | dW is wrong. |

The search ended because every strategy whose trigger holds has been tried.

<details><summary>v1: Settings by size, kept</summary>

- **Hypothesis**: Wide rows want more warps.
- **Change**: `num_warps` comes from a table.
- **Expected**: Backward 1.1 to 1.3 times as fast.
- **Learned**: It did: 1.6.

Settings: `num_warps: 16`

Verdict: values and gradients match the reference.

| workload | pass | v1 | v0 | eager | torch.compile | host | against v0 (95% interval) | against the best baseline (95% interval) | floor | of the floor | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
| `M=2048 N=4096 bfloat16` | forward | 182 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.10× (1.09 to 1.11) faster | 1.16× (1.14 to 1.17) | 100 µs | 55% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | forward | 182 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.10× (1.09 to 1.11) faster | 1.16× (1.14 to 1.17) | 100 µs | 55% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | backward | 125 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.60× (1.58 to 1.62) faster | 1.68× (1.66 to 1.70) | 100 µs | 80% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | backward | 125 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.60× (1.58 to 1.62) faster | 1.68× (1.66 to 1.70) | 100 µs | 80% | faster than torch.compile |
| `M=2048 N=4096 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |
| `M=2048 N=16384 bfloat16` | full | 143 µs | 200 µs | 900 µs | 210 µs | 14.0 µs | 1.40× (1.39 to 1.41) faster | 1.47× (1.46 to 1.48) | 100 µs | 70% | faster than torch.compile |

<sub>Medians. The floor is the least time that the hardware allows. Host is the host's time to queue the pass. Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 6 disturbed rounds were left out.</sub>

</details>

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

- `/kernel approve abc012345678`: `v1` is applied, and the library's whole test file and style check run on it.
- `/kernel revise`: `use v2` takes that variant instead, unless it is wrong or breaks a guardrail. This was attempt 1 of 5.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=checkpoint key=optimize-1 -->\
""")


def test_where_there_is_nothing_to_choose_nobody_is_asked() -> None:
    for body in (profiled(nothing_to_gain=True), optimized(winner=None)):
        assert "/kernel approve" not in body
        assert "**Next:** nothing to do; the job ends" in body


def test_variants_without_a_gpu() -> None:
    untimed = replace(OPTIMIZED, predicted=True, variants=(replace(V1, rows=(), score=None),))
    assert "`v1` is proved, and proposed without having been timed" in checkpoint(StageName.optimize, untimed)
    variants = tuple(replace(variant, rows=(), breaches=(), reason=None) for variant in (V1, V2))
    assert folded(optimized(predicted=True, variants=variants)) == snapshot("""\
**Of 2 variants of `rms_norm`, `v1` is predicted to be 1.35× as fast as v0 on NVIDIA H200:** Settings by size.
**Next:** look at it, and reply `/kernel approve abc012345678` here, or `/kernel revise` with what should change.

No GPU was available: nothing was timed, and every gain is predicted from the roofline of NVIDIA H200.

| variant | from | strategy | outcome | score |
| --- | --- | --- | --- | ---: |
| **v1** | v0 | Settings by size | kept | 1.35× |
| v2 | v1 | Recompute &#124; instead of save | rejected by a guardrail | 0.97× |

The search ended because every strategy whose trigger holds has been tried.

▸ v1: Settings by size, kept

▸ v2: Recompute &#124; instead of save, rejected by a guardrail

- `/kernel approve abc012345678`: `v1` is applied, and the library's whole test file and style check run on it.
- `/kernel revise`: `use v2` takes that variant instead, unless it is wrong or breaks a guardrail. This was attempt 1 of 5.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/pull/21#issuecomment-35) for by `octocat`</sub>

<!-- kernelsmith:job=j7k2 kind=checkpoint key=optimize-1 -->\
""")


def test_a_search_that_found_nothing() -> None:
    summary = replace(OPTIMIZED, winner=None, variants=(V2, V3), stop=StopReason.no_progress)
    assert gist(checkpoint(StageName.optimize, summary)) == snapshot("""\
**No variant improves `rms_norm`:** 2 variants, two variants in a row were less than 1% better.
**Next:** nothing to do; the job ends with its report, and nothing is changed.\
""")
    assert "the job ends with its report, and nothing is changed" in checkpoint(StageName.optimize, summary)


def test_every_goal_and_every_reason_to_stop_has_its_words() -> None:
    told = [
        gist(optimized(goal=goal, predicted=predicted)).splitlines()[0] for goal in Goal for predicted in (False, True)
    ]
    assert told == snapshot(
        [
            "**Of 3 variants of `rms_norm`, `v1` is 1.35× as fast as v0 on NVIDIA H200:** Settings by size.",
            "**Of 3 variants of `rms_norm`, `v1` is predicted to be 1.35× as fast as v0 on NVIDIA H200:** Settings by size.",
            "**Of 3 variants of `rms_norm`, `v1` is 1.35× as small as v0 in peak memory on NVIDIA H200:** Settings by size.",
            "**Of 3 variants of `rms_norm`, `v1` is predicted to be 1.35× as small as v0 in peak memory on NVIDIA H200:** Settings by size.",
            "**Of 3 variants of `rms_norm`, `v1` is 1.35× as good as v0, by speed and memory together on NVIDIA H200:** Settings by size.",
            "**Of 3 variants of `rms_norm`, `v1` is predicted to be 1.35× as good as v0, by speed and memory together on NVIDIA H200:** Settings by size.",
        ]
    )
    ends = [optimized(stop=stop).partition("ended because ")[2].partition("\n")[0] for stop in StopReason]
    assert ends == snapshot(
        [
            "as many variants as were allowed have been tried.",
            "two variants in a row were less than 1% better.",
            "the target is met.",
            "the kernel has reached its floor, so nothing is left to gain.",
            "every strategy whose trigger holds has been tried.",
            "no model answered, and nothing else was left to try.",
            "it was cancelled.",
        ]
    )


def test_a_variant_stands_on_those_that_it_builds_on() -> None:
    first, second, third = (replace(V1, name=f"v{n}", parent=f"v{n - 1}") for n in (1, 2, 3))
    other = replace(V1, name="v4", parent="v0")
    variants = (first, second, third, other)
    assert [variant.name for variant in lineage(third, variants)] == ["v1", "v2", "v3"]
    assert [variant.name for variant in lineage(other, variants)] == ["v4"]
    assert lineage(None, variants) == ()


def test_a_variant_that_cannot_be_evaluated_is_not_called_wrong() -> None:
    unproved = replace(
        V2, outcome=Outcome.incorrect, status=Status.unproved, reason="The verdict is unproved: no `match`."
    )
    (row,) = [line for line in optimized(variants=(V1, unproved)).splitlines() if line.startswith("| v2 ")]
    assert "not proved" in row and "wrong" not in row
