"""What a person can decide at a checkpoint, in a review or in a comment."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tests.conversations.talk import REPOSITORY, Talk
from tests.recorded.libraries import REGLU, SWIGLU, create
from workers.contracts import JobState, StageName


@pytest.fixture
def waiting(talk: Talk) -> Talk:
    """A job that waits for the review of its analysis."""
    number = talk.ask(create("reglu", REGLU))
    talk.skip(number)
    talk.skip(talk.pull())
    return talk


def test_a_new_problem_in_a_review_replaces_the_old_one(waiting: Talk) -> None:
    waiting.review("REQUEST_CHANGES", f"It should be SiLU:\n\n```python\n{SWIGLU}```\n")
    assert waiting.read(waiting.pull()) == snapshot("""\
**`reglu` is understood:** tier 1, element-wise, nearest to `scale`.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

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
| forward | `c = a * sigmoid(a) * b` |
| in float32 for precision | `sigmoid` |
| saved for backward | `a`, `b` |
| recomputed in backward | element-wise values are recomputed in backward from what is saved |
| gradients | `a` = `dc * b * (sigmoid(a) * (a * (1 - sigmoid(a)) + 1))`<br>`b` = `dc * (a * sigmoid(a))` |
| grid | 1D, a block of elements a program |
| block size | `calculate_settings` |
| partial sums over SMs | not needed |
| module's arguments | none |
| learnable parameters | none |
| benchmark over | `T` (T) |
| benchmark at | 4096 |
| compared with | `kernel`, `torch`, `torch_compile` |
| fixed in the benchmark | `I` = `14336`<br>`dtype` = `torch.bfloat16` |

- The problem is the one in the review's Python block.

▸ Reference

- **Approve**: the kernel is written and proved.
- **Request changes**: the analysis runs again; a Python block in the review replaces the problem. This was attempt 2 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT2`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert waiting.glance(1) == snapshot("""\
**`reglu`: analyze is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).
**Next:** approve or request changes on commit `COMMIT2`; the checkpoint's comment says what each does.\
""")
    assert waiting.body(waiting.pull()) == snapshot("""\
This adds `reglu` (`reglu`, `ReGLU`): `c = a * sigmoid(a) * b`. Requested in #1 ([comment](https://hub/octo/kernels/issues/1#issuecomment-1013)).

**Not proved yet.** So far there is only the reference, in the test file.

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
| forward | `c = a * sigmoid(a) * b` |
| in float32 for precision | `sigmoid` |
| saved for backward | `a`, `b` |
| recomputed in backward | element-wise values are recomputed in backward from what is saved |
| gradients | `a` = `dc * b * (sigmoid(a) * (a * (1 - sigmoid(a)) + 1))`<br>`b` = `dc * (a * sigmoid(a))` |
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
    test_file = waiting.hub.read_file(REPOSITORY, waiting.job().branch, "tests/test_reglu.py") or b""
    assert b"F.silu(a) * b" in test_file
    assert b"F.relu" not in test_file
    assert waiting.checks() == snapshot(
        [
            "Kernelsmith: completed neutral, analyze: the problem is understood",
            "Kernelsmith: completed neutral, analyze: the problem is understood",
        ]
    )


def test_words_at_analyze_change_nothing_and_the_checkpoint_says_so(waiting: Talk) -> None:
    waiting.review("REQUEST_CHANGES", "Please also support a bias.")
    assert waiting.read(waiting.pull()) == snapshot("""\
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

- The review held no Python block with a problem; the compiler author acts on nothing else, so the problem is unchanged.

▸ Reference

- **Approve**: the kernel is written and proved.
- **Request changes**: the analysis runs again; a Python block in the review replaces the problem. This was attempt 2 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT1`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    waiting.skip(1)


def test_words_at_generate_are_answered_by_the_compiler(waiting: Talk) -> None:
    waiting.review()
    waiting.skip(1)
    waiting.skip(waiting.pull())
    waiting.review(
        "REQUEST_CHANGES",
        "Keep it @maintainer simple.",
        comments=[{"path": "small/kernels/reglu.py", "line": 1, "body": "Why this import?"}],
    )
    assert waiting.read(waiting.pull()) == snapshot("""\
**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.

Triton's interpreter ran the kernels: the values are proved as the interpreter computes them, and nothing is known about the compiled code. Speed has not been measured yet.

To your last review:

- The compiler author cannot act on words: it wrote the same kernel from the same problem.

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
- **Request changes**: the kernel is written and proved again, with your comments as feedback. This was attempt 2 of 5.
- If GitHub does not let you review: `/kernel approve COMMIT2`, or `/kernel revise` with what should change.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    waiting.skip(1)
    assert waiting.page(waiting.pull()) == snapshot("""\
smith[bot] opened «Add reglu: ReGLU»
smith[bot] committed: Add the reference of reglu and its tests
smith[bot] commented (outdated): **`reglu` is understood:** tier 1, element-wise, nearest to `scale`.
smith[bot]: review_requested maintainer
maintainer reviewed: approved
smith[bot] committed: Add the reglu kernel
smith[bot] commented (outdated): **`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
smith[bot]: review_requested maintainer
maintainer reviewed: changes_requested
smith[bot] commented: **`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
smith[bot]: review_requested maintainer\
""")


@pytest.mark.long  # in `make test` tests/service/io/test_reviews approves by a command
def test_a_comment_may_approve_and_revise_where_github_refuses_a_review(waiting: Talk) -> None:
    sha = waiting.job().head_sha or ""
    waiting.say(waiting.pull(), f"/kernel approve {sha[:10]}")
    waiting.settle()
    assert waiting.glance(1) == snapshot("""\
**`reglu`: generate is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).
**Next:** approve or request changes on commit `COMMIT2`; the checkpoint's comment says what each does.\
""")
    assert [body.splitlines()[0] for body in waiting.heard(waiting.pull())] == snapshot(
        [
            "Approved: `analyze` is done.",
            "**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.",
        ]
    )
    waiting.say(waiting.pull(), "/kernel revise name the grid in the comment")
    waiting.settle()
    assert [body.splitlines()[0] for body in waiting.heard(waiting.pull())] == snapshot(
        [
            "Understood: `generate` runs again.",
            "**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.",
        ]
    )
    waiting.skip(1)
    assert waiting.job().checkpoint is not None
    assert [(s.stage, s.attempt) for s in waiting.job().stages] == [
        (StageName.analyze, 1),
        (StageName.generate, 1),
        (StageName.generate, 2),
    ]


@pytest.mark.long  # in `make test` tests/service/io/test_reviews has an old commit
def test_an_approval_of_an_old_commit_decides_nothing_and_is_answered(waiting: Talk) -> None:
    old = waiting.job().head_sha or ""
    waiting.review()
    waiting.skip(1)
    waiting.skip(waiting.pull())
    waiting.review(commit_id=old)
    assert waiting.read(waiting.pull()) == snapshot(
        "That names commit `COMMIT1`, but the checkpoint of `generate` is at another one. Nothing was decided. Look at the latest commit, then reply `/kernel approve COMMIT2`."
    )
    waiting.say(waiting.pull(), f"/kernel approve {old}")
    waiting.settle()
    assert waiting.read(waiting.pull()) == snapshot(
        "That names commit `COMMIT1`, but the checkpoint of `generate` is at another one. Nothing was decided. Look at the latest commit, then reply `/kernel approve COMMIT2`."
    )
    assert waiting.job().state is JobState.waiting


@pytest.mark.long  # in `make test` tests/workers/store/test_reviews counts attempts
def test_after_five_attempts_a_stage_is_not_repeated(waiting: Talk) -> None:
    for number in range(4):
        waiting.say(waiting.pull(), f"/kernel revise once more, please ({number})")
        waiting.settle()
        waiting.skip(waiting.pull())
    waiting.say(waiting.pull(), "/kernel revise and again")
    waiting.settle()
    assert waiting.read(waiting.pull()) == snapshot(
        "`analyze` has used all its attempts, so it does not run again. Approve the result, cancel with `/kernel cancel`, or give a new `/kernel create`."
    )
    waiting.skip(1)
    assert waiting.job().state is JobState.waiting


def test_somebody_who_may_only_read_decides_nothing(waiting: Talk) -> None:
    waiting.review(by="visitor")
    assert waiting.read(waiting.pull()) == snapshot(
        "`visitor` has read permission on this repository, and only people with write permission decide at a checkpoint. Nothing was done."
    )
    assert waiting.job().state is JobState.waiting


def test_a_review_that_only_comments_decides_nothing(waiting: Talk) -> None:
    waiting.review("COMMENT", "Interesting.")
    assert waiting.heard(waiting.pull()) == []
    assert waiting.job().state is JobState.waiting
