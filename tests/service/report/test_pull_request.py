"""Pull request, commits and check runs."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from dataclasses import replace

import pytest
from inline_snapshot import snapshot

from service.report.job import check_run_output
from service.report.pull_request import TYPES, commit_message, pull_request_body, pull_request_title
from service.report.verdicts import Conclusion
from tests.service.report.facts import (
    CHECKPOINTS,
    DONE,
    FAILURE,
    GENERATED,
    LINKS,
    PROBLEM,
    PROFILE,
    STOPPED,
    VALIDATED,
    VERDICT,
    WAITING,
    WRONG,
)
from workers.contracts import CommitPurpose, CommitUpdate, FileChange, PullRequestUpdate, ReportUpdate, StageName

CHANGES = (FileChange("src/ops/reglu.py", "x"), FileChange("old.py", None))


def test_a_pull_request_that_has_only_its_reference() -> None:
    update = PullRequestUpdate(PROFILE, PROBLEM)
    assert pull_request_title(update, WAITING) == snapshot("Add reglu: LigerReGLU")
    assert pull_request_body(update, WAITING, LINKS) == snapshot("""\
This adds `reglu` (`liger_reglu`, `LigerReGLU`): `y = max(a, 0) * b`. Requested in #12 ([comment](https://github.com/octo-org/library/issues/12#issuecomment-34)).

**Not proved yet.** So far there is only the reference, in the test file.

### Kernel profile

| field | value |
| --- | --- |
| operation | `reglu` |
| autograd function | `LigerReGLUFunction` |
| module | `LigerReGLU` |
| functional form | `liger_reglu` |
| tier | 1, element-wise |
| nearest kernel that exists | `geglu` |
| inputs | `a` `(T, I)` input dtype<br>`b` `(T, I)` input dtype |
| outputs | `y` `(T, I)` same as input |
| forward | `y = max(a, 0) * b` |
| in float32 for precision | none |
| saved for backward | `a`, `b` |
| recomputed in backward | the mask of a |
| gradients | `da` = `dy * b where a > 0`<br>`db` = `dy * max(a, 0)` |
| grid | 1D, one program per row |
| block size | `calculate_settings(n_cols)` |
| partial sums over SMs | not needed |
| module's arguments | `bias: bool = False` |
| learnable parameters | `weight` `(I,)`, starting with ones |
| benchmark over | `T` (sequence length) |
| benchmark at | 1024, 2048 |
| compared with | `liger`, `torch` |
| fixed in the benchmark | `I` = `14336` |

<details><summary>Reference</summary>

```python
def reference(a, b):
    return F.relu(a) * b
```

</details>

The bot pushes to this branch and never merges. Commits of yours on it stay, and stop the job until `/kernel retry`.

<sub>Job [`j7k2`](https://bot.example/jobs/j7k2) · [asked](https://github.com/octo-org/library/issues/12#issuecomment-34) for by `octocat` · [pull request 13](https://github.com/octo-org/library/pull/13)</sub>

<!-- kernelsmith:job=j7k2 kind=pull -->\
""")


def test_a_pull_request_whose_kernel_is_proved() -> None:
    body = pull_request_body(PullRequestUpdate(PROFILE, PROBLEM, VERDICT), WAITING, LINKS)
    assert body.split("\n\n")[1] == snapshot(
        "**Proved:** values and gradients match the reference. Its kernels: `_reglu_forward`, `_reglu_backward`."
    )
    interpreted = PullRequestUpdate(PROFILE, PROBLEM, replace(VERDICT, interpreted=True))
    assert pull_request_body(interpreted, WAITING, LINKS).split("\n\n")[1] == snapshot(
        "**Proved in Triton's interpreter, which says nothing about speed:** values and gradients match the reference. Its kernels: `_reglu_forward`, `_reglu_backward`."
    )


@pytest.mark.parametrize("purpose", list(CommitPurpose))
def test_a_commit_has_a_short_subject_and_says_its_job(purpose: CommitPurpose) -> None:
    message = commit_message(CommitUpdate(purpose, CHANGES, StageName.generate, 2), WAITING)
    subject, empty, *_ = message.split("\n")
    assert len(subject) <= 72
    assert empty == ""
    assert message.endswith("\n\nKernelsmith-Job: j7k2\nKernelsmith-Stage: generate 2\n")


def test_a_commit_names_its_files() -> None:
    update = CommitUpdate(CommitPurpose.kernel, CHANGES, StageName.generate, 1)
    assert commit_message(update, WAITING) == snapshot("""\
Add the reglu kernel

Its values and gradients were proved against the reference before this commit.

- src/ops/reglu.py
- remove old.py

Kernelsmith-Job: j7k2
Kernelsmith-Stage: generate 1
""")


def test_a_hostile_path_mentions_nobody_in_a_commit() -> None:
    update = CommitUpdate(CommitPurpose.kernel, (FileChange("a/@octocat\n\nfixes #1", "x"),), StageName.generate, 1)
    message = commit_message(update, WAITING)
    assert "@octocat" not in message
    assert "#1" not in message


def test_check_runs_conclude_as_the_stage_did() -> None:
    outputs = {name: check_run_output(update, WAITING) for name, update in CHECKPOINTS.items()}
    assert {name: (output.title, output.conclusion.value) for name, output in outputs.items()} == snapshot(
        {
            "analyze": ("analyze: the problem is understood", "neutral"),
            "generate": ("generate: passed", "success"),
            "validate": ("validate: passed", "success"),
        }
    )


def test_a_check_run_of_a_failed_proof_fails() -> None:
    update = replace(CHECKPOINTS["generate"], summary=replace(GENERATED, verdict=WRONG))
    assert check_run_output(update, WAITING).conclusion is Conclusion.failure


def test_a_check_run_at_the_end() -> None:
    updates = [
        (ReportUpdate(VALIDATED), DONE),
        (ReportUpdate(), DONE),
        (ReportUpdate(cancelled_by="octocat"), DONE),
        (ReportUpdate(failure=FAILURE), STOPPED),
    ]
    outputs = [check_run_output(update, view) for update, view in updates]
    assert [(output.title, output.conclusion.value) for output in outputs] == snapshot(
        [
            ("Done", "success"),
            ("Done", "success"),
            ("Cancelled", "cancelled"),
            ("Stopped: the library's tests still fail after 3 attempts", "failure"),
        ]
    )
    assert outputs[-1].summary == snapshot("""\
**`reglu` stopped in validate:** the library's tests still fail after 3 attempts.

**Next:** Look at the first failing test. `/kernel retry` runs validate again, with a new set of attempts.

What was tried:

- attempt 1: 2 failed
- attempt 2: 1 failed

<details><summary>Log</summary>

```text
E   AssertionError: 0.5 != 0.25
```

</details>\
""")


def test_a_repository_that_wants_it_gets_conventional_commits_and_titles() -> None:
    options = replace(WAITING.request.options, conventional_commits=True)
    job = replace(WAITING, request=replace(WAITING.request, options=options))
    kernel = job.request.kernel
    for purpose, kind in TYPES.items():
        subject = commit_message(CommitUpdate(purpose, CHANGES, StageName.generate, 2), job).splitlines()[0]
        assert subject.startswith(f"{kind}({kernel}): "), subject
        assert len(subject) <= 72
    assert set(TYPES) == set(CommitPurpose)
    title = pull_request_title(PullRequestUpdate(PROFILE, "def reference(a): ..."), job)
    assert title.startswith(f"feat({kernel}): add {kernel}")
    assert not pull_request_title(PullRequestUpdate(PROFILE, "def reference(a): ..."), WAITING).startswith("feat")
