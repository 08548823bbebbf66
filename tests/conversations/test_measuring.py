"""From `/kernel bench` and `/kernel verify` on a pull request to the report, with the runner's answers made by hand."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

from dataclasses import replace

from inline_snapshot import snapshot

from gpu_runner.contracts import to_json
from tests.conversations.conftest import Open
from tests.conversations.normal import folded
from tests.conversations.talk import REPOSITORY, Talk
from tests.recorded.libraries import LIGER
from tests.service.conversation.facts import VERDICT, WRONG
from tests.service.conversation.kernels_facts import SAME, SLOWER
from workers.contracts import JobState

OPS = "src/liger_kernel/ops"


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
**The bench of this pull request is done**: the report stands below.

**Next:** nothing; the report says what it means.

- ✅ **measure**: find the kernels that are touched, and compare each on both commits

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/pull/1#issuecomment-1016) for by `maintainer`</sub>\
""",
            """\
**Compared with the merge base with main:** 1 of 2 kernels is slower: `geglu` (backward 0.95×); 1 of 2 kernels needs more memory: `geglu` (+10%).
**Next:** look at `geglu`, or say in the pull request what it is worth; the rows are below.

| kernel | pass | sizes | speed of head over base (95% interval) | peak memory | so it is |
| --- | --- | ---: | ---: | ---: | --- |
| `geglu` | forward | 2 | 1.00× (0.99 to 1.01) | +10% | same |
| `geglu` | backward | 2 | 0.95× (0.94 to 0.96) | +10% | slower |
| `softmax` | forward | 2 | 1.00× (0.99 to 1.01) | same | same |
| `softmax` | backward | 2 | 1.00× (0.99 to 1.01) | same | same |

<sub>Noise: a baseline measured against itself in the same run differed by 0.2% (median) and 0.2% (most). Faster and slower are said only beyond 1% and beyond what it showed. 8 disturbed rounds were left out.</sub>

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
**The verify of `geglu`, `softmax` is done**: the report stands below.

**Next:** nothing; the report says what it means.

- ✅ **measure**: find the kernels that are touched, and compare each on both commits

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/pull/1#issuecomment-1016) for by `maintainer`</sub>\
""",
            """\
**1 of 2 kernels is wrong:** `softmax`: a gradient is wrong.
**Next:** mend `softmax`; the evidence is below.

| kernel | verdict | checks | largest error | allowed | on |
| --- | --- | --- | ---: | ---: | --- |
| `geglu` | values and gradients match the reference | 4 of 4 | 0.003 | 0.008 | `T=1 I=1 bfloat16` |
| `softmax` | **a gradient is wrong** | 0 of 1 | 0.31 | 2e-06 | `T=7 I=129 float32` |\
""",
        ]
    )
    assert talk.checks() == snapshot(["Kernelsmith: completed failure, verify: failed"])
