"""Answers to commands."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from gpu_runner.contracts import parse_problem
from service.commands.markdown import find_problem_block
from service.commands.parser import parse_comment
from service.report.replies import (
    EXAMPLE_PROBLEM,
    help_text,
    paste_this,
    reply_cancel,
    reply_configuration,
    reply_decision,
    reply_empty_create,
    reply_explain,
    reply_failure,
    reply_jobs,
    reply_known,
    reply_limit,
    reply_moved,
    reply_no_job,
    reply_no_permission,
    reply_nothing_waits,
    reply_retry,
    reply_unknown_job,
    reply_unreadable_link,
    reply_which_job,
    reply_words_without_model,
)
from tests.service.report.facts import DONE, LINKS, SHA, STOPPED, WAITING, job
from workers.contracts import Decision, DecisionOutcome, DecisionResult, Failure, FailureCode, JobState, StageName, Verb
from workers.history import KernelState, Testbed


def test_help() -> None:
    assert help_text() == snapshot("""\
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
    assert help_text(Verb.create) == snapshot("""\
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
    assert [help_text(verb).startswith(f"**{verb.value}**") for verb in Verb] == [True] * len(Verb)


def test_an_empty_create_and_words_say_what_to_paste() -> None:
    assert reply_empty_create("reglu") == snapshot('''\
The command does not say what `reglu` should compute. Paste this with your own code:

````markdown
/kernel create reglu
```python
"""ReGLU: a gated unit with ReLU on the gate."""
import torch
import torch.nn.functional as F


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(a) * b


INPUTS = {"a": "T I", "b": "T I"}
WORKLOADS = [{"T": 4096, "I": 14336}, {"T": 2048, "I": 11008}]
```
````

`reference` computes in plain PyTorch what the kernel should; `INPUTS` names each tensor's dimensions, outermost first; `WORKLOADS` gives the sizes to measure. A KernelBench file (`class Model`, `get_inputs()`, `get_init_inputs()`) works too, and so does `from PATH` for a file of this repository.\
''')
    assert reply_words_without_model("reglu").split("\n")[0] == snapshot(
        "A description in words needs a language model, and none is configured here; the compiler works from code. For `reglu`, paste this with your own code:"
    )


def test_what_is_to_be_pasted_works() -> None:
    assert parse_problem(EXAMPLE_PROBLEM).title == "ReGLU: a gated unit with ReLU on the gate."
    pasted = paste_this("reglu").split("````")[1].removeprefix("markdown\n")
    (command,) = parse_comment(pasted).commands
    assert (command.name, command.problem.text) == ("reglu", EXAMPLE_PROBLEM)
    assert find_problem_block(paste_this("reglu")) is None


def test_permission() -> None:
    assert reply_no_permission("octocat", "read") == snapshot(
        "`octocat` has read permission on this repository, and commands need write permission. Nothing was done. A maintainer can give the command, or add a login to `allow` in `.github/kernelsmith.toml` on the default branch."
    )
    assert reply_no_permission("octocat", "none", decides=True) == snapshot(
        "`octocat` has no permission on this repository, and only people with write permission decide at a checkpoint. Nothing was done."
    )


def test_what_cannot_become_a_job() -> None:
    assert reply_limit("jobs a day for one person", 20, 20, "after 2026-05-05 10:00 UTC") == snapshot(
        "The limit is reached: 20 of 20 jobs a day for one person. Nothing was done. The command can be given again after 2026-05-05 10:00 UTC; limits are set in `.github/kernelsmith.toml` on the default branch."
    )
    assert reply_unreadable_link("https://github.com/o/l/blob/main/a.py", "404") == snapshot(
        "`https://github.com/o/l/blob/main/a.py` could not be read (404). Check that the file is there at that commit and that the bot may read the repository, or paste the code as a fenced Python block."
    )
    assert reply_configuration(3, "unknown key `layuot`", "Did you mean `layout`?") == snapshot(
        "`.github/kernelsmith.toml` on the default branch, line 3: unknown key `layuot`. Nothing was done. **Next:** Did you mean `layout`?"
    )
    assert reply_moved("1" * 40, "2" * 40) == snapshot(
        "The pull request moved from `111111111111` to `222222222222` after this command, so nothing was done. Give it again if you mean the new commit."
    )
    failure = Failure(FailureCode.environment, "the snapshot could not be read", "Retry the job.", log="@octocat")
    assert reply_failure(failure) == snapshot("""\
The snapshot could not be read. Nothing was done.

**Next:** Retry the job.

<details><summary>Log</summary>

```text
@octocat
```

</details>\
""")


def test_decisions() -> None:
    def told(outcome: DecisionOutcome, decision: Decision = Decision.approve) -> str | None:
        return reply_decision(
            DecisionResult(outcome, "j7k2", StageName.generate, SHA), decision, "abcdef1234567", WAITING
        )

    assert told(DecisionOutcome.accepted) == snapshot("Approved: `generate` is done.")
    assert told(DecisionOutcome.accepted, Decision.revise) == snapshot("Understood: `generate` runs again.")
    assert told(DecisionOutcome.stale) == snapshot(
        "That names commit `abcdef123456`, but the checkpoint of `generate` is at another one. Nothing was decided. Look at the latest commit, then reply `/kernel approve 1f2e3d4c5b6a`."
    )
    assert told(DecisionOutcome.attempts_used, Decision.revise) == snapshot(
        "`generate` has used all its attempts, so it does not run again. Approve the result, cancel with `/kernel cancel`, or give a new `/kernel create`."
    )
    assert told(DecisionOutcome.duplicate) is None
    assert reply_decision(DecisionResult(DecisionOutcome.nothing_waits), Decision.approve, SHA, DONE) == snapshot(
        "Job `j7k2` does not wait for a decision: it is done. Nothing was decided."
    )
    assert reply_nothing_waits() == snapshot("No job waits for a decision here, so nothing was decided.")


@pytest.mark.parametrize("outcome", list(DecisionOutcome))
def test_every_outcome_of_a_decision_is_answered_or_known(outcome: DecisionOutcome) -> None:
    reply = reply_decision(DecisionResult(outcome), Decision.revise, SHA)
    assert (reply is None) == (outcome is DecisionOutcome.duplicate)


def test_jobs() -> None:
    assert reply_unknown_job("@x", (WAITING,)) == snapshot("""\
There is no job `@x` in this repository.

- `j7k2`: `reglu`, analyze waits for a review\
""")
    assert reply_no_job(Verb.cancel) == snapshot(
        "No job belongs to this conversation, so there is nothing to cancel. `/kernel create NAME` starts one."
    )
    assert reply_which_job(Verb.retry, (STOPPED, job(JobState.queued, job_id="k8"))) == snapshot("""\
More than one job belongs to this conversation. Name one, such as `/kernel retry j7k2`:

- `j7k2`: `reglu`, it stopped in validate
- `k8`: `reglu`, it is queued\
""")
    assert reply_jobs([(WAITING, LINKS), (STOPPED, LINKS)]) == snapshot("""\
- [`j7k2`](https://bot.example/jobs/j7k2): `reglu`, waits for a review of analyze, on [pull request 13](https://github.com/octo-org/library/pull/13)
- [`j7k2`](https://bot.example/jobs/j7k2): `reglu`, stopped in validate, on [pull request 13](https://github.com/octo-org/library/pull/13)\
""")
    assert reply_jobs([]) == snapshot("No job belongs to this conversation. `/kernel create NAME` starts one.")
    assert reply_known(WAITING, LINKS) == snapshot(
        "This is already job [`j7k2`](https://bot.example/jobs/j7k2): analyze waits for a review."
    )


def test_cancel_and_retry() -> None:
    assert reply_cancel(WAITING, done=True) == snapshot("Job `j7k2` is cancelled; what was pushed stays.")
    assert reply_cancel(DONE, done=False) == snapshot(
        "Job `j7k2` has ended already (it is done), so there is nothing to cancel."
    )
    assert reply_retry(STOPPED, done=True) == snapshot("Job `j7k2` goes on from validate.")
    assert reply_retry(STOPPED, done=True, fresh=True) == snapshot("Job `j7k2` starts over from `main` as it is now.")
    assert reply_retry(WAITING, done=False) == snapshot(
        "Only a job that stopped can be retried, and job `j7k2` did not: analyze waits for a review."
    )
    assert reply_retry(job(JobState.cancelled), done=False) == snapshot(
        "Job `j7k2` was cancelled and cannot be resumed. Give a new `/kernel create`."
    )


def test_explain_shows_the_newest_numbers_and_the_last_jobs() -> None:
    state = KernelState(
        kernel="reglu",
        gpu="NVIDIA H200",
        testbed=Testbed("NVIDIA H200"),
        timed_pass="both",
        workload="T=4096",
        source="night",
        commit=SHA,
        measured_at_s=0.0,
        time_us=312.4,
        time_low_us=None,
        time_high_us=None,
        floor_share=0.87,
        wrong_values=False,
        confirmed_changes=1,
        last_change=None,
        trend=(),
    )
    assert reply_explain("reglu", (state,), [(STOPPED, LINKS)], 7) == snapshot("""\
**`reglu`**

| GPU | pass, sizes | time | share of the floor | commit | values | regressions |
| --- | --- | ---: | ---: | --- | --- | ---: |
| NVIDIA H200 | both, T=4096 | 312 µs | 87% | `1f2e3d4c5b6a` | right | 1 |

Jobs, the last 1 of 7:

- [`j7k2`](https://bot.example/jobs/j7k2): `reglu`, stopped in validate, on [pull request 13](https://github.com/octo-org/library/pull/13)\
""")
    assert reply_explain("reglu", (), [(WAITING, LINKS)], 1) == snapshot("""\
**`reglu`**

No night has measured it.

Jobs:

- [`j7k2`](https://bot.example/jobs/j7k2): `reglu`, waits for a review of analyze, on [pull request 13](https://github.com/octo-org/library/pull/13)\
""")
    assert reply_explain("reglu", (), [], 0) == snapshot("""\
Nothing is known about `reglu`: no job was about it, and no night measured it.

`/kernel nightly reglu` measures it, if the repository has it.\
""")
