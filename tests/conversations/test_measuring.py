"""From `/kernel bench` and `/kernel verify` on a pull request to the report, with the runner's answers made by hand."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import Pass, Word, to_json
from tests.conversations.conftest import Open
from tests.conversations.normal import folded
from tests.conversations.talk import REPOSITORY, Talk, gist
from tests.recorded.libraries import LIGER, STANDING
from tests.service.report.facts import VERDICT, WRONG
from tests.service.report.kernels_facts import SAME, SLOWER, measured
from workers.contracts import JobState

OPS = "src/liger_kernel/ops"


SLOWED = measured((Pass.forward, 0.95, Word.slower), (Pass.backward, 0.95, Word.slower))


def reports(talk: Talk, number: int) -> list[str]:
    """Give what was said since the last look, down to what is folded."""
    return sorted(folded(body).split("\n\n▸")[0] for body in talk.heard(number))


def pull(talk: Talk, *kernels: str) -> int:
    changes = {f"{OPS}/{name}.py": LIGER[f"{OPS}/{name}.py"] + b"# another way\n" for name in kernels}
    talk.hub.push(REPOSITORY, "faster", "maintainer", changes)
    return talk.hub.open_pull(REPOSITORY, "maintainer", "faster", "Faster").number


def test_a_bench_names_the_kernel_that_became_slower(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = pull(talk, "geglu", "softmax")
    before = dict(talk.hub.branches(REPOSITORY))
    for answer in (SLOWER, SAME):
        talk.answer("benchmark", to_json(answer))
    talk.say(number, "/kernel bench")
    talk.settle()
    assert talk.job().state is JobState.done
    assert talk.asked() == ["benchmark", "benchmark"]
    assert {branch: sha for branch, sha in talk.hub.branches(REPOSITORY).items() if branch in before} == before
    assert [body.split("\n\n▸")[0] for body in map(folded, talk.heard(number))] == snapshot(
        [
            """\
**The bench of this pull request is done**: see the report below.

**Next:** nothing; the report explains the result.

- ✅ **measure**: find the touched kernels, and compare each on both commits

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/pull/1#issuecomment-1016) for by `maintainer`</sub>\
""",
            """\
**Compared with the merge base with main:** 1 of 2 kernels is slower: `geglu` (backward 0.95×); 1 of 2 kernels needs more memory: `geglu` (+10%).
**Next:** look at `geglu`, or justify it in the pull request; the rows are below.

| kernel | pass | sizes | speed of head over base (95% interval) | peak memory | verdict |
| --- | --- | ---: | ---: | ---: | --- |
| `geglu` | forward | 2 | 1.00× (0.99 to 1.01) | +10% | same |
| `geglu` | backward | 2 | 0.95× (0.94 to 0.96) | +10% | slower |
| `softmax` | forward | 2 | 1.00× (0.99 to 1.01) | same | same |
| `softmax` | backward | 2 | 1.00× (0.99 to 1.01) | same | same |

<sub>Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 8 disturbed rounds were left out.</sub>

![Head against base on 8 measurements: 2 slower, 6 same](https://hub/octo/kernels/raw/COMMIT1/JOB1/comparison.png)\
""",
        ]
    )
    assert talk.checks() == snapshot(["Kernelsmith: completed neutral, bench: done"])


def test_a_verify_names_the_kernel_that_is_wrong(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = pull(talk, "geglu", "softmax")
    talk.answer("verify", to_json(VERDICT))
    talk.answer("verify", to_json(replace(WRONG, evidence=())))
    talk.say(number, "/kernel verify geglu softmax")
    talk.settle()
    assert talk.asked() == ["verify", "verify"]
    assert [body.split("\n\n▸")[0] for body in map(folded, talk.heard(number))] == snapshot(
        [
            """\
**The verify of `geglu`, `softmax` is done**: see the report below.

**Next:** nothing; the report explains the result.

- ✅ **measure**: find the touched kernels, and compare each on both commits

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/pull/1#issuecomment-1016) for by `maintainer`</sub>\
""",
            """\
**1 of 2 kernels is wrong:** `softmax`: a gradient is wrong.
**Next:** fix `softmax`; the evidence is below.

| kernel | verdict | checks | largest error | allowed | on |
| --- | --- | --- | ---: | ---: | --- |
| `geglu` | values and gradients match the reference | 4 of 4 | 0.003 | 0.008 | `T=1 I=1 bfloat16` |
| `softmax` | **a gradient is wrong** | 0 of 1 | 0.31 | 2e-06 | `T=7 I=129 float32` |\
""",
        ]
    )
    assert talk.checks() == snapshot(["Kernelsmith: completed failure, verify: failed"])


def three(talk: Talk, by: str = "maintainer", repository: str = REPOSITORY) -> None:
    """Have three kernels done in another way, of which one is five per cent slower."""
    names = ("geglu", "rms_norm", "softmax")
    for answer in (SAME, SLOWED, SAME):
        talk.answer("benchmark", to_json(answer))
    changes = {f"{OPS}/{name}.py": STANDING[f"{OPS}/{name}.py"] + b"# another way\n" for name in names}
    talk.hub.push(repository, "faster", by, changes)


def test_the_one_of_three_kernels_that_became_five_percent_slower_is_named_and_the_others_are_the_same(
    open_talk: Open,
) -> None:
    talk = open_talk(STANDING)
    three(talk)
    number = talk.hub.open_pull(REPOSITORY, "maintainer", "faster", "Faster").number
    talk.say(number, "/kernel bench")
    talk.settle()
    assert talk.asked() == ["benchmark"] * 3
    assert reports(talk, number) == snapshot(
        [
            """\
**Compared with the merge base with main:** 1 of 3 kernels is slower: `rms_norm` (forward 0.95×, backward 0.95×).
**Next:** look at `rms_norm`, or justify it in the pull request; the rows are below.

| kernel | pass | sizes | speed of head over base (95% interval) | peak memory | verdict |
| --- | --- | ---: | ---: | ---: | --- |
| `rms_norm` | forward | 2 | 0.95× (0.94 to 0.96) | same | slower |
| `rms_norm` | backward | 2 | 0.95× (0.94 to 0.96) | same | slower |
| `geglu` | forward | 2 | 1.00× (0.99 to 1.01) | same | same |
| `geglu` | backward | 2 | 1.00× (0.99 to 1.01) | same | same |
| `softmax` | forward | 2 | 1.00× (0.99 to 1.01) | same | same |
| `softmax` | backward | 2 | 1.00× (0.99 to 1.01) | same | same |

<sub>Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). A kernel is called faster or slower only beyond 1% and beyond this noise. 12 disturbed rounds were left out.</sub>

![Head against base on 12 measurements: 4 slower, 8 same](https://hub/octo/kernels/raw/COMMIT1/JOB1/comparison.png)\
""",
            """\
**The bench of this pull request is done**: see the report below.

**Next:** nothing; the report explains the result.

- ✅ **measure**: find the touched kernels, and compare each on both commits

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/pull/1#issuecomment-1016) for by `maintainer`</sub>\
""",
        ]
    )
    assert talk.checks() == snapshot(["Kernelsmith: completed neutral, bench: done"])


def test_a_forks_code_is_measured_where_a_maintainer_asks_and_for_no_stranger(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    talk.hub.add_user("stranger")
    talk.hub.fork(REPOSITORY, "stranger")
    three(talk, "stranger", "stranger/kernels")
    number = talk.hub.open_pull(REPOSITORY, "stranger", "stranger:faster", "Mine is faster").number
    talk.say(number, "/kernel bench", by="stranger")
    talk.settle()
    assert (talk.asked(), talk.checks()) == ([], [])
    assert [folded(body) for body in talk.heard(number)] == snapshot(
        [
            "`stranger` has read permission on this repository, and commands need write permission. Nothing was done. A maintainer can give the command, or add a login to `allow` in `.github/kernelsmith.toml` on the default branch."
        ]
    )
    talk.clock[0] += 10
    talk.say(number, "/kernel bench", by="maintainer")
    talk.settle()
    assert talk.asked() == ["benchmark"] * 3
    assert [gist(body) for body in reports(talk, number)] == snapshot(
        [
            """\
**Compared with the merge base with main:** 1 of 3 kernels is slower: `rms_norm` (forward 0.95×, backward 0.95×).
**Next:** look at `rms_norm`, or justify it in the pull request; the rows are below.\
""",
            """\
**The bench of this pull request is done**: see the report below.
**Next:** nothing; the report explains the result.\
""",
        ]
    )
    assert sorted(talk.hub.branches(REPOSITORY)) == snapshot(["kernelsmith-assets", "main"])


def test_a_change_that_touches_no_kernel_is_told_so_and_nothing_is_measured(open_talk: Open) -> None:
    talk = open_talk(STANDING)
    talk.hub.push(REPOSITORY, "words", "maintainer", {"README.md": b"# Better words\n"})
    number = talk.hub.open_pull(REPOSITORY, "maintainer", "words", "Words").number
    talk.say(number, "/kernel bench")
    talk.settle()
    assert talk.asked() == []
    assert reports(talk, number) == snapshot(
        [
            """\
**The bench of this pull request is done**: see the report below.

**Next:** nothing; the report explains the result.

- ✅ **measure**: find the touched kernels, and compare each on both commits

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/pull/1#issuecomment-1016) for by `maintainer`</sub>\
""",
            """\
**This change touches no kernel:** nothing was compared with the merge base with main.
**Next:** nothing, or name the kernels that should be compared: `/kernel bench NAME`.

<sub>Head `COMMIT1` against base `COMMIT2`.</sub>

To repeat it on a checkout of the head commit:

```sh
kernelsmith compare --repo . --against COMMIT2
```

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/pull/1#issuecomment-1016) for by `maintainer`</sub>\
""",
        ]
    )
