"""Jobs that stop: what is said, what is left, and what a retry does."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.conversations.talk import REPOSITORY, Talk, gist
from tests.recorded.libraries import REGLU, create
from tests.recorded.runner import recorded
from workers.contracts import FailureCode, JobState

WRONG: dict[str, Any] = {
    "status": "incorrect_values",
    "evidence": [
        {
            "check": "values",
            "message": "output 0 is wrong",
            "workload": "T=7 I=97 float32",
            "output": "output 0",
            "position": [0, 3],
            "got": 0.25,
            "expected": 0.5,
            "error": 0.5,
            "allowed": 0.001,
        }
    ],
}
FAILING: dict[str, Any] = {
    "passed": False,
    "exit_code": 1,
    "cases": [
        {"node": "tests/test_reglu.py::test_reglu_functional[dtype0]", "outcome": "passed", "duration_s": 0.1},
        {
            "node": "tests/test_reglu.py::test_reglu_correctness[dtype0]",
            "outcome": "failed",
            "duration_s": 0.1,
            "message": "AssertionError: @everyone tensors differ",
        },
    ],
    "summary": "1 passed, 1 failed, exit code 1",
    "log": "==== FAILURES ====",
    "collected": [],
}


@pytest.fixture
def approved(talk: Talk) -> Talk:
    """A job whose analysis is there; what comes next is the test's."""
    talk.skip(talk.ask(create("reglu", REGLU)))
    talk.skip(talk.pull())
    return talk


def test_a_failing_verdict_stops_the_job_with_its_evidence(approved: Talk) -> None:
    approved.answer("verify", recorded("verify", REGLU) | WRONG)
    approved.review()
    job = approved.job()
    assert job.failure is not None
    assert job.failure.code is FailureCode.verdict
    assert approved.read(approved.pull(), unfolded=True) == snapshot("""\
**`reglu` stopped in generate:** the compiler author's kernel did not pass, status `incorrect_values`: output 0 is wrong \\(T=7 I=97 float32\\).
**Next:** Nothing was pushed; a new `/kernel create` takes another problem. `/kernel retry` writes and proves the kernel again.

<details><summary>Log</summary>

```text
values: output 0 is wrong; T=7 I=97 float32, output 0, at [0, 3], got 0.25, expected 0.5, error 0.5, allowed 0.001
```

</details>

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert approved.glance(1) == snapshot("""\
**`reglu` stopped in generate:** the compiler author's kernel did not pass, status `incorrect_values`: output 0 is wrong \\(T=7 I=97 float32\\).
**Next:** Nothing was pushed; a new `/kernel create` takes another problem. `/kernel retry` writes and proves the kernel again.\
""")
    assert approved.checks() == snapshot(
        [
            "Kernelsmith: completed neutral, analyze: the problem is understood",
            "Kernelsmith: completed failure, Stopped: the compiler author's kernel did not pass, status `incorrect_values`: output 0 is wrong (T=7 I=97 f…",
        ]
    )
    assert [line for line in approved.page(approved.pull()).splitlines() if "committed" in line] == snapshot(
        ["smith[bot] committed: Add the reference of reglu and its tests"]
    )


def test_tests_that_fail_three_times_stop_the_job_and_retry_goes_on_from_there(approved: Talk) -> None:
    approved.review()
    approved.skip(1)
    approved.skip(approved.pull())
    for _ in range(3):
        approved.answer("tests", FAILING)
    approved.review()
    job = approved.job()
    assert job.failure is not None
    assert job.failure.code is FailureCode.tests
    assert approved.read(approved.pull(), unfolded=True) == snapshot("""\
**`reglu` stopped in validate:** the library's tests for `reglu` fail: 1 passed, 1 failed, exit code 1.
**Next:** Read the failing tests below; if the problem is what is wrong, give a new `/kernel create`. `/kernel retry` runs validate again, with a new set of attempts.

What was tried:

- the library's tests, attempt 1: 1 passed, 1 failed, exit code 1
- the author wrote the same kernel again, so the tests ran once more to tell a flaky test from a failing one
- the library's tests, attempt 2: 1 passed, 1 failed, exit code 1
- the author wrote the same kernel again, so the tests ran once more to tell a flaky test from a failing one
- the library's tests, attempt 3: 1 passed, 1 failed, exit code 1

<details><summary>Log</summary>

```text
tests/test_reglu.py::test_reglu_correctness[dtype0]: AssertionError: @everyone tensors differ
```

</details>

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert approved.read(1) == snapshot("""\
**`reglu` stopped in validate:** the library's tests for `reglu` fail: 1 passed, 1 failed, exit code 1.

**Next:** Read the failing tests below; if the problem is what is wrong, give a new `/kernel create`. `/kernel retry` runs validate again, with a new set of attempts.

- ✅ **analyze**: find and trace the problem, write the kernel profile
- ✅ **generate**: write the kernel and prove it against the reference
- ❌ **validate**: the library's tests for `reglu` fail: 1 passed, 1 failed, exit code 1

What was tried:

- the library's tests, attempt 1: 1 passed, 1 failed, exit code 1
- the author wrote the same kernel again, so the tests ran once more to tell a flaky test from a failing one
- the library's tests, attempt 2: 1 passed, 1 failed, exit code 1
- the author wrote the same kernel again, so the tests ran once more to tell a flaky test from a failing one
- the library's tests, attempt 3: 1 passed, 1 failed, exit code 1

▸ Log

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    assert approved.checks()[-1] == snapshot(
        "Kernelsmith: completed failure, Stopped: the library's tests for `reglu` fail: 1 passed, 1 failed, exit code 1"
    )
    approved.say(approved.pull(), "/kernel retry")
    approved.settle()
    assert [gist(body) for body in approved.heard(approved.pull())] == snapshot(
        [
            "Job `JOB1` goes on from validate.",
            """\
**`reglu` is proved in Triton's interpreter and passes the library's tests.** Speed is only predicted, from the roofline of NVIDIA H200: nothing was timed.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""",
        ]
    )
    approved.skip(1)
    assert approved.job().state is JobState.waiting
    assert approved.asked().count("verify") == 1
    assert approved.asked().count("tests") == 4


def test_tests_that_fail_once_are_run_again_and_the_report_says_so(approved: Talk) -> None:
    approved.review()
    approved.skip(1)
    approved.skip(approved.pull())
    approved.answer("tests", FAILING)
    approved.review()
    assert [line for line in approved.read(approved.pull()).splitlines() if "attempt" in line] == snapshot(
        [
            "- the library's tests, attempt 1: 1 passed, 1 failed, exit code 1",
            "- **Request changes**: tests, benchmark and report run again, with your comments as feedback. This was attempt 1 of 5.",
        ]
    )
    approved.skip(1)


def test_a_host_that_cannot_run_stops_the_job_and_names_the_operator(approved: Talk) -> None:
    approved.answer("verify", "no answer of its form")
    approved.review()
    job = approved.job()
    assert job.failure is not None
    assert job.failure.code is FailureCode.environment
    assert approved.logged("gpu_request_failed") == 1
    assert approved.read(approved.pull(), unfolded=True) == snapshot("""\
**`reglu` stopped in generate:** the GPU host could not prove the candidate: ValueError: GpuResult.payload: 'no answer of its form' fits none of its types.
**Next:** An operator should run `kernelsmith doctor` on that host; then `/kernel retry` goes on from here.

<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer` · [pull request 2](https://hub/octo/kernels/pull/2)</sub>\
""")
    approved.skip(1)
    approved.say(approved.pull(), f"/kernel retry {job.job_id}")
    approved.settle()
    assert [gist(body) for body in approved.heard(approved.pull())] == snapshot(
        [
            "Job `JOB1` goes on from generate.",
            """\
**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""",
        ]
    )
    approved.skip(1)


def test_a_check_that_failed_can_be_run_again_by_its_button(approved: Talk) -> None:
    approved.answer("verify", recorded("verify", REGLU) | WRONG)
    approved.review()
    approved.skip(1)
    approved.skip(approved.pull())
    failed = approved.hub.check_runs(REPOSITORY)[-1]
    approved.hub.rerequest_check(REPOSITORY, failed.id, "maintainer")
    approved.settle()
    assert approved.job().state is JobState.waiting
    assert approved.glance(approved.pull()) == snapshot("""\
**`reglu` is written and proved in Triton's interpreter:** values and gradients match the reference.
**Next:** review [`COMMIT2`](https://hub/octo/kernels/commit/COMMIT2) on [pull request 2](https://hub/octo/kernels/pull/2), and approve it or request changes.\
""")
    assert approved.glance(1) == snapshot("""\
**`reglu`: generate is done and waits for your review** on [pull request 2](https://hub/octo/kernels/pull/2).
**Next:** approve or request changes on commit `COMMIT2`; the checkpoint's comment says what each does.\
""")


def test_a_kernel_that_the_compiler_cannot_write_is_refused_with_the_operator(talk: Talk) -> None:
    number = talk.ask(create("sorted_rows", SORT))
    assert [gist(body, 9) for body in talk.heard(number)] == snapshot(
        [
            """\
**`sorted_rows` stopped in analyze:** the compiler author cannot write this kernel: it has no way to express `aten.sort.default` yet.
**Next:** Rewrite the reference without it; or have an operator configure a language model \\(`docs/models.md`\\), which `--author auto` asks where the compiler refuses. `/kernel retry` gives the same problem to the same author, so it helps only if one of them has changed. A problem with other operators needs a new `/kernel create`.
- ❌ **analyze**: the compiler author cannot write this kernel: it has no way to express `aten.sort.default` yet
- ⬜ **generate**: write the kernel and prove it against the reference
- ⬜ **validate**: run the library's own checks and tests, benchmark, write the report
<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
            """\
**`sorted_rows` stopped in analyze:** the compiler author cannot write this kernel: it has no way to express `aten.sort.default` yet.
**Next:** Rewrite the reference without it; or have an operator configure a language model \\(`docs/models.md`\\), which `--author auto` asks where the compiler refuses. `/kernel retry` gives the same problem to the same author, so it helps only if one of them has changed. A problem with other operators needs a new `/kernel create`.
<sub>Job [`JOB1`](https://bot.example/jobs/JOB1) · [asked](https://hub/octo/kernels/issues/1#issuecomment-1013) for by `maintainer`</sub>\
""",
        ]
    )
    assert talk.hub.pull_numbers(REPOSITORY) == []
    assert list(talk.hub.branches(REPOSITORY)) == ["main"]


SORT = '''\
"""Rows in order."""
import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x, dim=-1).values


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 64, "H": 128}]
'''
