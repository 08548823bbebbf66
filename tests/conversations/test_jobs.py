"""Commands about jobs, several jobs at once, and people who push meanwhile."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tests.conversations.talk import REPOSITORY, Talk, gist
from tests.recorded.libraries import REGLU, SWIGLU, create
from workers import inbox
from workers.contracts import FailureCode, JobState


def test_status_says_where_a_job_is_and_cancel_ends_it(talk: Talk) -> None:
    number = talk.ask(create("reglu", REGLU))
    talk.skip(number)
    talk.skip(talk.pull())
    talk.say(number, "/kernel status")
    talk.settle()
    assert talk.read(number) == snapshot(
        "- [`JOB1`](https://bot.example/jobs/JOB1): `reglu`, waits for a review of analyze, on [pull request 2](https://hub/octo/kernels/pull/2)"
    )
    talk.say(talk.pull(), "/kernel cancel")
    talk.settle()
    assert talk.job().state is JobState.cancelled
    assert [gist(body) for body in talk.heard(number)] == snapshot(
        [
            """\
**`reglu` was cancelled.**
**Next:** nothing; what was pushed stays. `/kernel retry` resumes it, a new `/kernel create` starts over.\
"""
        ]
    )
    assert talk.read(talk.pull()) == snapshot("""\
**`reglu` was cancelled** by `maintainer`; what was pushed stays.
**Next:** nothing. `/kernel retry` resumes it; a new `/kernel create` starts over.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert talk.checks() == snapshot(
        [
            "Kernelsmith: completed neutral, analyze: the problem is understood",
            "Kernelsmith: completed cancelled, Cancelled",
        ]
    )
    talk.say(number, "/kernel retry")
    talk.settle()
    assert sorted(gist(body, 1) for body in talk.heard(number)) == snapshot(
        [
            "**`reglu`: analyze is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).",
            "Job `JOB1` goes on from analyze.",
        ]
    )
    assert talk.glance(talk.pull()) == snapshot("""\
**`reglu` is understood:** tier 1, element-wise, nearest to `scale`.
**Next:** review [`COMMIT1`](https://hub/octo/kernels/commit/COMMIT1) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""")
    assert talk.job().state is JobState.waiting
    for _ in range(2):
        talk.clock[0] += 5  # longer than what times of two clocks are trusted to
        talk.say(number, "/kernel cancel")
        talk.settle()
    talk.skip(talk.pull())
    assert "Job `JOB1` has ended already (it was cancelled), so there is nothing to cancel." in talk.heard(number)


def test_a_job_that_was_cancelled_before_it_began_leaves_a_conversation_only(talk: Talk) -> None:
    number = talk.issue()
    talk.say(number, create("reglu", REGLU))
    talk.listen()
    talk.say(number, "/kernel cancel")
    talk.settle()
    assert [gist(body) for body in talk.heard(number)] == snapshot(
        [
            """\
**`reglu` was cancelled** by `maintainer`; nothing was pushed.
**Next:** nothing. `/kernel retry` resumes it; a new `/kernel create` starts over.\
""",
            """\
**`reglu` was cancelled.**
**Next:** nothing; nothing was pushed. `/kernel retry` resumes it, a new `/kernel create` starts over.\
""",
        ]
    )
    assert talk.hub.pull_numbers(REPOSITORY) == []
    assert list(talk.hub.branches(REPOSITORY)) == ["main"]
    assert talk.asked() == []


def test_help_shows_the_commands_and_one_in_full(talk: Talk) -> None:
    number = talk.ask("/kernel help")
    assert talk.read(number) == snapshot("""\
**A line that starts with `/kernel` is a command.** `/kernel help create` explains one of them in full.

| command | what it does |
| --- | --- |
| `/kernel create NAME [from PATH[:SYMBOL]\\|URL] [--author compiler\\|llm\\|auto] [--candidates N] [--repairs N] [--choose first\\|best] [--to ascend\\|cutile\\|cutedsl\\|rocm] [--layout liger\\|plain\\|versioned\\|fla] [--gpu ARCH] [--profile] [--auto] [--dry-run]` | Write, prove and measure a new kernel, on a pull request. |
| `/kernel optimize [NAME] [from PATH[:SYMBOL]\\|URL] [--goal speed\\|memory\\|balanced] [--scope general\\|forward\\|backward\\|small\\|large\\|SIZES] [--variants N] [--target TEXT] [--to cutile\\|cutedsl] [--gpu ARCH] [--author compiler\\|llm\\|auto] [--repairs N] [--layout liger\\|plain\\|versioned\\|fla] [--auto] [--dry-run]` | Make an existing kernel faster or smaller, and prove it, on a pull request. |
| `/kernel modify NAME TEXT [--author llm\\|auto] [--candidates N] [--repairs N] [--layout liger\\|plain\\|versioned\\|fla] [--gpu ARCH] [--profile] [--auto] [--dry-run]` | Change an existing kernel as described, and prove, test and measure the change, on a pull request. |
| `/kernel port NAME [from PATH[:SYMBOL]\\|URL] [--to ascend\\|cutile\\|cutedsl\\|rocm\\|xpu] [--from default\\|ascend\\|cutile\\|cutedsl\\|rocm\\|xpu] [--layout liger\\|plain\\|versioned\\|fla] [--auto] [--dry-run]` | Port an existing operator to another device with the same API, and prove it, on a pull request. |
| `/kernel fuse [PATH[:SYMBOL]\\|URL] [--author compiler\\|llm\\|auto] [--candidates N] [--repairs N] [--layout liger\\|plain\\|versioned\\|fla] [--auto] [--dry-run]` | Cut a whole model into parts, write and prove a kernel for each, and compose and prove the whole, on a pull request. |
| `/kernel tune [NAME] [from PATH[:SYMBOL]\\|URL] [--scope general\\|forward\\|backward\\|small\\|large\\|SIZES] [--to cutile\\|cutedsl] [--gpu ARCH] [--layout liger\\|plain\\|versioned\\|fla] [--auto] [--dry-run]` | Find the launch settings of an existing kernel by measurement, and nothing else, on a pull request. |
| `/kernel profile [NAME] [from PATH[:SYMBOL]\\|URL] [--scope general\\|forward\\|backward\\|small\\|large\\|SIZES] [--gpu ARCH] [--layout liger\\|plain\\|versioned\\|fla] [--dry-run]` | Measure an existing kernel, and report what bounds it and what could be tried; nothing is changed. |
| `/kernel bench [NAME ...] [--against REF] [--gpu ARCH] [--dry-run]` | Measure whether a pull request makes kernels faster or slower than its merge base. |
| `/kernel verify [NAME ...] [--gpu ARCH] [--dry-run]` | Prove the kernels of a pull request against their references. |
| `/kernel nightly [NAME ...] [--gpu ARCH] [--dry-run]` | Measure every kernel of the default branch, keep the numbers, and compare what changed with the last good commit. |
| `/kernel bisect NAME GOOD..BAD [--gpu ARCH] [--dry-run]` | Find the commits that made a kernel slower or larger: each step runs two commits interleaved. |
| `/kernel triaged REASON` | Accept the regression that an issue of the nightly run reports: the current measurements become the new base. |
| `/kernel explain NAME` | Show what is known of a kernel without a new job: its last numbers on each GPU, and the jobs about it. |
| `/kernel status [JOB]` | Show the state of a job. |
| `/kernel cancel [JOB]` | Stop a job. What was pushed stays. |
| `/kernel retry [JOB]` | Resume a stopped job from the stage in which it stopped. |
| `/kernel approve SHA` | Approve a checkpoint where GitHub does not let you review. |
| `/kernel revise TEXT` | Run the stage before the checkpoint again, with your feedback. |
| `/kernel help [VERB]` | Show the commands, or one of them in full. |

Commands in code blocks, quotes and HTML are only text. A comment with more than 5 commands is not carried out. Commands need write permission, or a line in `.github/kernelsmith.toml`.\
""")
    talk.say(number, "/kernel help create")
    talk.settle()
    assert talk.read(number) == snapshot("""\
**create**: Write, prove and measure a new kernel, on a pull request.

```
/kernel create NAME [from PATH[:SYMBOL]|URL] [--author compiler|llm|auto] [--candidates N] [--repairs N] [--choose first|best] [--to ascend|cutile|cutedsl|rocm] [--layout liger|plain|versioned|fla] [--gpu ARCH] [--profile] [--auto] [--dry-run]
```

- `NAME`: the new kernel's name, in snake_case
- `from PATH[:SYMBOL]|URL` (optional): the problem: a file of the repository, or a link to one on this host
- `--author compiler|llm|auto`: who writes the kernel: `compiler` asks no model, `auto` asks one where the compiler refuses or can be beaten, `llm` always; by default auto
- `--candidates N`: kernels that a model is asked for at once, 1 to 8; by default 3
- `--repairs N`: how often a model may repair a failed answer, 1 to 5; by default 3
- `--choose first|best`: which of a model's proved kernels to take: the first, or the fastest; by default first
- `--to ascend|cutile|cutedsl|rocm`: the device and language to write it for; by default a GPU, in Triton
- `--layout liger|plain|versioned|fla`: how kernels live in the repository; by default detected
- `--gpu ARCH`: the architecture to measure on, such as sm_90, h100 or hopper; by default any available
- `--profile`: profile the proved kernel: by Nsight Compute where the GPU host allows it, else by its bytes and operations
- `--auto`: do not wait for reviews; the pull request stays open
- `--dry-run`: show what would be done and its limits, and start nothing

May be followed by a fenced Python block that holds the problem, or words where a model is configured.

Example: `/kernel create reglu --layout liger`\
""")
    assert talk.untouched()


def test_two_jobs_at_once_do_not_know_of_each_other(talk: Talk) -> None:
    first = talk.issue()
    second = talk.issue()
    talk.say(first, create("reglu", REGLU, "--auto"))
    talk.say(second, create("swiglu", SWIGLU, "--auto"), by="second")
    talk.settle()
    jobs = inbox.find_jobs(REPOSITORY)
    assert [(job.request.kernel, job.state) for job in jobs] == [
        ("reglu", JobState.done),
        ("swiglu", JobState.done),
    ]
    for job in jobs:
        pull = job.pull_number or 0
        talk.skip(job.request.origin.number)
        assert [gist(body, 1) for body in talk.heard(pull)][-1].startswith(f"**`{job.request.kernel}` is proved")
        name = job.request.kernel
        assert talk.changed(job) == [
            f"benchmarks/benchmark_{name}.py +56 -0",
            *talk.changed(job)[1:],
        ]
        assert all(name in line for line in talk.changed(job))


def test_two_kernels_asked_for_in_one_comment_are_two_jobs(talk: Talk) -> None:
    number = talk.ask("/kernel create reglu from problems/reglu.py\n/kernel create gated from problems/reglu.py")
    assert [job.request.kernel for job in inbox.find_jobs(REPOSITORY)] == ["reglu", "gated"]
    assert [gist(body, 1) for body in talk.heard(number)] == snapshot(
        [
            "**`reglu`: analyze is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).",
            "**`gated`: analyze is done and waits for your review** on [pull request 3](https://hub/octo/kernels/pull/3).",
        ]
    )
    for job in inbox.find_jobs(REPOSITORY):
        talk.skip(job.pull_number or 0)
    talk.say(number, "/kernel cancel")
    talk.settle()
    assert talk.read(number) == snapshot("""\
More than one job belongs to this conversation. Name one, such as `/kernel cancel JOB2`:

- `JOB2`: `gated`, analyze waits for a review
- `JOB1`: `reglu`, analyze waits for a review\
""")


def test_the_same_kernel_twice_is_answered_with_the_job_that_is_there(talk: Talk) -> None:
    number = talk.ask(create("reglu", REGLU))
    talk.skip(number)
    talk.skip(talk.pull())
    other = talk.ask(create("reglu", REGLU), by="second")
    assert talk.read(other) == snapshot(
        "This is already job [`JOB1`](https://bot.example/jobs/JOB1): analyze waits for a review."
    )
    assert talk.job().state is JobState.waiting


@pytest.mark.long  # in `make test` tests/service/io/test_faults has what a person pushed
def test_what_a_person_pushed_stays_and_retry_starts_over_on_another_branch(talk: Talk) -> None:
    number = talk.ask(create("reglu", REGLU))
    talk.skip(number)
    first = talk.job()
    talk.skip(talk.pull())
    theirs = talk.hub.push(REPOSITORY, first.branch, "second", {"mine.txt": "mine\n"})
    talk.review(commit_id=first.head_sha)
    job = talk.job()
    assert job.failure is not None
    assert job.failure.code is FailureCode.moved
    assert talk.hub.head(REPOSITORY, first.branch) == theirs
    assert talk.read(talk.pull()) == snapshot("""\
**`reglu` stopped in generate:** somebody pushed to the branch `kernelsmith/reglu-JOB1` while the job was running; what is there now stays as it is.
**Next:** Take the branch over by hand, or use `/kernel retry`: the job then starts over, on a new branch.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert talk.glance(number) == snapshot("""\
**`reglu` stopped in generate:** somebody pushed to the branch `kernelsmith/reglu-JOB1` while the job was running; what is there now stays as it is.
**Next:** Take the branch over by hand, or use `/kernel retry`: the job then starts over, on a new branch.\
""")
    talk.say(talk.pull(), "/kernel retry")
    talk.settle()
    assert talk.read(first.pull_number or 0) == snapshot("Job `JOB1` starts over from `main` as it is now.")
    assert talk.glance(number) == snapshot("""\
**`reglu`: analyze is done and waits for your review** on [pull request 3](https://hub/octo/kernels/pull/3).
**Next:** approve or request changes on commit `COMMIT2`; the checkpoint's comment says what each does.\
""")
    assert talk.glance(talk.pull()) == snapshot("""\
**`reglu` is understood:** tier 1, element-wise, nearest to `scale`.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 3](https://hub/octo/kernels/pull/3), and approve it or request changes.\
""")
    assert talk.job().branch != first.branch
    assert talk.hub.head(REPOSITORY, first.branch) == theirs


def test_explain_shows_the_jobs_about_a_kernel_and_what_is_not_known(talk: Talk) -> None:
    number = talk.ask(create("reglu", REGLU))
    talk.skip(number)
    talk.skip(talk.pull())
    talk.say(number, "/kernel explain reglu")
    talk.settle()
    assert talk.read(number) == snapshot("""\
**`reglu`**

No night has measured it.

Jobs:

- [`JOB1`](https://bot.example/jobs/JOB1): `reglu`, waits for a review of analyze, on [pull request 2](https://hub/octo/kernels/pull/2)\
""")
    talk.say(number, "/kernel explain swiglu")
    talk.settle()
    assert talk.read(number) == snapshot("""\
Nothing is known about `swiglu`: no job was about it, and no night measured it.

`/kernel nightly swiglu` measures it, if the repository has it.\
""")
    assert len(inbox.find_jobs(REPOSITORY)) == 1
    talk.skip(talk.pull())
