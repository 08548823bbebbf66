"""From a comment to a pull request that is ready for review."""

from __future__ import annotations

from inline_snapshot import snapshot

from tests.conversations.talk import Talk
from tests.recorded.libraries import REGLU
from workers.contracts import JobState

CREATE = f"/kernel create reglu\n\n```python\n{REGLU}```\n"


def test_three_approvals_lead_to_a_pull_request_that_is_ready(talk: Talk) -> None:
    number = talk.issue()
    command = talk.say(number, CREATE)
    talk.settle()
    assert talk.reactions(number, command) == ("eyes by smith[bot]",)
    assert talk.read(number) == snapshot("""\
**`reglu`: analyze is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** approve or request changes on commit `COMMIT1`; the checkpoint's comment says what each does.

- 👀 **analyze**: find and trace the problem, write the kernel profile
- ⬜ **generate**: write the kernel and prove it against the reference
- ⬜ **validate**: the library's own checks and tests, the benchmark, the report

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert talk.read(talk.pull(), unfolded=True) == snapshot('''\
**`reglu` is understood:** tier 1, element-wise, nearest to `scale`.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

Look at the inputs, the gradients and the names; the kernel is written from these by the `compiler` author.

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
| benchmark at | 64 |
| compared with | `kernel`, `torch`, `torch_compile` |
| fixed in the benchmark | `I` = `128`<br>`dtype` = `torch.bfloat16` |

<details><summary>Reference</summary>

```python
"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 64, "I": 128}]
```

</details>

- **Approve**: the kernel is written and proved.
- **Request changes**: the analysis is made again; a Python block in the review replaces the problem. This was attempt 1 of 5.
- Where GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` and what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
''')
    talk.review()
    assert talk.read(talk.pull()) == snapshot("""\
**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

Triton's interpreter ran the kernels: the values are proved as the interpreter computes them, and nothing is known of the compiled code. Speed is not looked at yet.

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
- **Request changes**: the kernel is written and proved again, with your words and line comments as feedback. This was attempt 1 of 5.
- Where GitHub does not let you review: `/kernel approve COMMIT2`, or `/kernel revise` and what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    talk.skip(number)
    talk.review()
    assert talk.read(talk.pull()) == snapshot("""\
**`reglu` is proved in Triton's interpreter and passes the library's tests.** Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

| workload | pass | bytes to move |
| --- | --- | ---: |
| `T=64 I=128` | forward | 48.0 KiB |
| `T=64 I=128` | backward | 80.0 KiB |
| `T=64 I=128` | full | 96.0 KiB |

<sub>Predicted for NVIDIA H200: the bytes that must move over its bandwidth, or the arithmetic over its rate, whichever takes longer. A kernel on a GPU takes longer than this.</sub>

- No GPU is here: the kernels ran in Triton's interpreter only. Values are proved by verify, speed is not measured.
- The floor is the fewest bytes that must move, over the bandwidth that a copy reaches on the GPU named.
- NVIDIA H200: NVIDIA H200 Tensor Core GPU data sheet \\(SXM\\).

![Errors of reglu against the float64 reference; the worst is 0.30 of what is allowed](https://hub/octo/kernels/raw/COMMIT3/JOB1/reglu-accuracy.png)
![Predicted least times of reglu on NVIDIA H200, by workload and pass](https://hub/octo/kernels/raw/COMMIT3/JOB1/reglu-speed.png)

▸ Proof

▸ The library's tests

▸ Style check

Provenance: predicted for `NVIDIA H200` · datasheet bandwidth `4224 GB/s` · base commit `COMMIT4`

To repeat it:

```sh
kernelsmith create problem.py --name reglu --repo . --auto
```

- **Approve**: the job ends, and the pull request is yours to merge.
- **Request changes**: tests, benchmark and report are made again, with your words and line comments as feedback. This was attempt 1 of 5.
- Where GitHub does not let you review: `/kernel approve COMMIT2`, or `/kernel revise` and what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    talk.skip(number)
    talk.review()
    assert talk.job().state is JobState.done
    assert talk.read(number) == snapshot("""\
**`reglu` is done**: see [pull request 2](https://hub/octo/kernels/pull/2).

**Next:** merge it when you are content. The bot never merges.

- ✅ **analyze**: find and trace the problem, write the kernel profile
- ✅ **generate**: write the kernel and prove it against the reference
- ✅ **validate**: the library's own checks and tests, the benchmark, the report

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
