"""From a comment to a pull request that is ready for review."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tests.conversations.conftest import Open
from tests.conversations.talk import REPOSITORY, Talk, gist
from tests.recorded.libraries import LIGER, REGLU, create
from workers.contracts import JobState


def test_three_approvals_lead_to_a_pull_request_that_is_ready(talk: Talk) -> None:
    number = talk.issue()
    command = talk.say(number, create("reglu", REGLU))
    talk.settle()
    assert talk.reactions(number, command) == ("eyes by smith[bot]",)
    assert talk.read(number) == snapshot("""\
**`reglu`: analyze is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.

- 👀 **analyze**: find and trace the problem, write the kernel profile
- ⬜ **generate**: write the kernel and prove it against the reference
- ⬜ **validate**: run the library's own checks and tests, benchmark, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert talk.read(talk.pull(), unfolded=True) == snapshot('''\
**`reglu` is understood:** tier 1, element-wise, nearest to `scale`.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

Check the inputs, gradients and names: the `compiler` author writes the kernel from them.

| field | value |
| --- | --- |
| operation | `reglu` |
| autograd function | `ReGLUFunction` |
| module | `ReGLU` |
| functional form | `reglu` |
| tier | 1, element-wise |
| nearest kernel that exists | `scale` |
| inputs | `a` `(T, I)` input dtype<br>`b` `(T, I)` input dtype |
| outputs | `output` `(T, I)` same as input |
| forward | `c = max(a, 0) * b` |
| in float32 for precision | none |
| saved for backward | `a`, `b` |
| recomputed in backward | element-wise values are recomputed in backward from what is saved |
| gradients | `a` = `where(a > 0, dc * b, 0)`<br>`b` = `dc * max(a, 0)` |
| grid | 1D, a block of elements a program |
| block size | `calculate_settings` |
| partial sums over SMs | not needed |
| module's arguments | none |
| learnable parameters | none |
| benchmark over | `T` (T) |
| benchmark at | 4096 |
| compared with | `kernel`, `torch`, `torch_compile` |
| fixed in the benchmark | `I` = `14336`<br>`dtype` = `torch.bfloat16` |

<details><summary>Reference</summary>

```python
"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}]
```

</details>

- **Approve**: the kernel is written and proved.
- **Request changes**: the analysis runs again; a Python block in the review replaces the problem. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
''')
    talk.review()
    assert talk.read(talk.pull()) == snapshot("""\
**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

Triton's interpreter ran the kernels: the values are proved as the interpreter computes them, and nothing is known about the compiled code. Speed has not been measured yet.

| value | computed as |
| --- | --- |
| forward | `c = max(a, 0) * b` |
| a | `where(a > 0, dc * b, 0)` |
| b | `dc * max(a, 0)` |

Files, by the `compiler` author:

- `small/kernels/reglu.py`
- `tests/test_reglu.py`
- `benchmarks/benchmark_reglu.py`

▸ Proof

- **Approve**: the library's tests and the benchmark run.
- **Request changes**: the kernel is written and proved again, with your comments as feedback. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT2`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    talk.skip(number)
    talk.review()
    assert talk.read(talk.pull()) == snapshot("""\
**`reglu` is proved in Triton's interpreter and passes the library's tests.** Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

| workload | pass | least time | bytes to move |
| --- | --- | ---: | ---: |
| `T=4096 I=14336` | forward | 83.4 µs | 336 MiB |
| `T=4096 I=14336` | backward | 139 µs | 560 MiB |
| `T=4096 I=14336` | full | 210 µs | 846 MiB |

<sub>Predicted for NVIDIA H200: bytes that must move / bandwidth that a copy is expected to reach. This is a lower bound for a kernel on a GPU.</sub>

- No GPU is here: the kernels ran in Triton's interpreter only. Values are proved by verify, speed is not measured.
- The floor is the fewest bytes that must move, over the bandwidth that a copy reaches on the GPU named.
- NVIDIA H200: NVIDIA H200 Tensor Core GPU data sheet \\(SXM\\).

![Errors of reglu against the float64 reference; the worst is 0.30 of what is allowed](https://hub/octo/kernels/raw/COMMIT3/JOB1/reglu-accuracy.png)
![Predicted least times of reglu on NVIDIA H200, by workload and pass](https://hub/octo/kernels/raw/COMMIT3/JOB1/reglu-speed.png)

▸ Proof

▸ The library's tests

▸ Style check

Provenance: predicted for `NVIDIA H200` · expected copy bandwidth `4224 GB/s` · base commit `COMMIT4`

To repeat it on a checkout of the base commit, with `problem.py` from the job's page:

```sh
kernelsmith create problem.py --name reglu --repo . --auto
```

- **Approve**: the job ends, and the pull request is yours to merge.
- **Request changes**: tests, benchmark and report run again, with your comments as feedback. This was attempt 1 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT2`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    talk.skip(number)
    talk.review()
    assert talk.job().state is JobState.done
    assert talk.read(number) == snapshot("""\
**`reglu` is done**: see [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** merge it when you are satisfied. The bot never merges.

- ✅ **analyze**: find and trace the problem, write the kernel profile
- ✅ **generate**: write the kernel and prove it against the reference
- ✅ **validate**: run the library's own checks and tests, benchmark, write the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert talk.page(talk.pull()) == snapshot("""\
smith[bot] opened «Add reglu: ReGLU»
smith[bot] committed: Add the reference of reglu and its tests
smith[bot] commented (outdated): **`reglu` is understood:** tier 1, element-wise, nearest to `scale`.
smith[bot]: review_requested maintainer
maintainer reviewed: approved
smith[bot] committed: Add the reglu kernel
smith[bot] commented (outdated): **`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
smith[bot]: review_requested maintainer
maintainer reviewed: approved
smith[bot]: ready_for_review
smith[bot] commented: **`reglu` is proved in Triton's interpreter and passes the library's tests.** Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed.
smith[bot]: review_requested maintainer
maintainer reviewed: approved\
""")
    assert talk.body(talk.pull()) == snapshot("""\
This adds `reglu` (`reglu`, `ReGLU`): `c = max(a, 0) * b`. Requested in #1 ([comment](https://hub/octo/kernels/issues/1#issuecomment-1013)).

**Proved in Triton's interpreter, which says nothing about speed:** values and gradients match the reference. Its kernels: `_reglu_forward_kernel`, `_reglu_backward_kernel`.

▸ Proof

### Kernel profile

| field | value |
| --- | --- |
| operation | `reglu` |
| autograd function | `ReGLUFunction` |
| module | `ReGLU` |
| functional form | `reglu` |
| tier | 1, element-wise |
| nearest kernel that exists | `scale` |
| inputs | `a` `(T, I)` input dtype<br>`b` `(T, I)` input dtype |
| outputs | `output` `(T, I)` same as input |
| forward | `c = max(a, 0) * b` |
| in float32 for precision | none |
| saved for backward | `a`, `b` |
| recomputed in backward | element-wise values are recomputed in backward from what is saved |
| gradients | `a` = `where(a > 0, dc * b, 0)`<br>`b` = `dc * max(a, 0)` |
| grid | 1D, a block of elements a program |
| block size | `calculate_settings` |
| partial sums over SMs | not needed |
| module's arguments | none |
| learnable parameters | none |
| benchmark over | `T` (T) |
| benchmark at | 4096 |
| compared with | `kernel`, `torch`, `torch_compile` |
| fixed in the benchmark | `I` = `14336`<br>`dtype` = `torch.bfloat16` |

▸ Reference

The bot pushes to this branch and never merges. Commits of yours on it stay, and stop the job until `/kernel retry`.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert talk.changed() == snapshot(
        ["benchmarks/benchmark_reglu.py +56 -0", "small/kernels/reglu.py +153 -0", "tests/test_reglu.py +194 -0"]
    )
    assert talk.checks() == snapshot(
        [
            "Kernelsmith: completed neutral, analyze: the problem is understood",
            "Kernelsmith: completed success, generate: passed",
            "Kernelsmith: completed success, validate: passed",
        ]
    )
    assert talk.asked() == ["imports", "capture", "verify", "tests", "benchmark"]


def test_auto_asks_nobody_and_ends_in_an_open_pull_request(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.ask(create("reglu", REGLU, "--auto"))
    assert talk.job().state is JobState.done
    assert talk.glance(number) == snapshot("""\
**`reglu` is done**: see [pull request 2](https://hub/octo/kernels/pull/2).
**Next:** merge it when you are satisfied. The bot never merges.\
""")
    assert [gist(body) for body in talk.heard(talk.pull())] == snapshot(
        [
            """\
**`reglu` is understood:** tier 1, element-wise, nearest to `geglu`.
**Next:** nothing to do. With `--auto` nobody is asked; the kernel is written and proved.\
""",
            """\
**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
**Next:** nothing to do. With `--auto` nobody is asked; the library's tests and the benchmark run.\
""",
            """\
**`reglu` is proved in Triton's interpreter and passes the library's tests.** Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed.
**Next:** nothing to do. With `--auto` nobody is asked; the job ends, and the pull request is yours to merge.\
""",
        ]
    )
    assert talk.page(talk.pull()) == snapshot("""\
smith[bot] opened «Add reglu: LigerReGLU»
smith[bot] committed: Add the reference of reglu and its tests
smith[bot] commented (outdated): **`reglu` is understood:** tier 1, element-wise, nearest to `geglu`.
smith[bot] committed: Add the reglu kernel
smith[bot] commented (outdated): **`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
smith[bot]: ready_for_review
smith[bot] commented: **`reglu` is proved in Triton's interpreter and passes the library's tests.** Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed.\
""")
    assert talk.changed() == snapshot(
        [
            "benchmark/scripts/benchmark_reglu.py +118 -0",
            "src/liger_kernel/ops/__init__.py +3 -0",
            "src/liger_kernel/ops/reglu.py +108 -0",
            "src/liger_kernel/transformers/__init__.py +2 -0",
            "src/liger_kernel/transformers/functional.py +5 -0",
            "src/liger_kernel/transformers/reglu.py +13 -0",
            "test/transformers/test_reglu.py +198 -0",
        ]
    )
    assert talk.checks() == snapshot(
        [
            "Kernelsmith: completed neutral, analyze: the problem is understood",
            "Kernelsmith: completed success, generate: passed",
            "Kernelsmith: completed success, validate: passed",
        ]
    )
    assert talk.hub.issue(REPOSITORY, talk.pull()).state == "open"


def test_a_kernel_is_written_in_cutile(talk: Talk) -> None:
    number = talk.ask(create("reglu", REGLU, "--to cutile --auto"))
    job = talk.job()
    assert job.state is JobState.done, talk.heard(number)
    talk.skip(number)
    analyzed, proved, reported = talk.heard(talk.pull())
    assert "cuTile suits this operator: each result depends on one tile" in analyzed
    assert "No cuTile is installed where this job ran" in proved
    assert "kernelsmith create problem.py --name reglu --repo . --auto --to cutile" in reported
    kernel = talk.hub.read_file(REPOSITORY, job.branch, "small/kernels/reglu.py") or b""
    assert b"import cuda.tile as ct" in kernel and b"@ct.kernel" in kernel and b"triton" not in kernel
    assert b"TRITON_INTERPRET" not in (talk.hub.read_file(REPOSITORY, job.branch, "tests/test_reglu.py") or b"")


@pytest.mark.slow
def test_a_kernel_for_amd_is_triton_that_its_compiler_has_seen(talk: Talk) -> None:
    number = talk.ask(create("reglu", REGLU, "--to rocm --auto"))
    job = talk.job()
    assert job.state is JobState.done, talk.heard(number)
    talk.skip(number)
    _, proved, reported = talk.heard(talk.pull())
    assert "Compiled by Triton for gfx90a and gfx942 in bfloat16" in proved
    assert "--auto --to rocm" in reported
    assert b"@triton.jit" in (talk.hub.read_file(REPOSITORY, job.branch, "small/kernels/reglu.py") or b"")


def test_a_target_without_a_place_or_an_author_is_refused_where_it_was_asked(talk: Talk) -> None:
    for options, sentence in {
        "--to ascend": "A new kernel for `ascend` has no place in a repository of the layout `plain`",
        "--to cutle": "`cutile`",
    }.items():
        assert sentence in talk.heard(talk.ask(create("reglu", REGLU, options)))[-1]
    assert talk.asked() == [] and talk.untouched()


def test_where_implementations_are_ported_the_way_to_one_is_said(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    assert (
        "where it is merged give `/kernel port reglu --to cutile`"
        in talk.heard(talk.ask(create("reglu", REGLU, "--to cutile")))[-1]
    )
    assert talk.asked() == []
