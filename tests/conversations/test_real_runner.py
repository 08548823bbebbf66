"""One whole conversation with nothing left out: the real runner proves, tests and measures in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from tests.conversations.conftest import Open
from tests.conversations.talk import gist
from tests.few import few
from tests.recorded.libraries import REGLU, create
from tests.warm_runner import cold
from workers.contracts import JobState

Started = Callable[[], AbstractContextManager[None]]


# In `make test` test_main of the runner starts it by its command, which imports torch twice for each request.
@pytest.mark.slow
@pytest.mark.parametrize("started", few([nullcontext, cold], [nullcontext]), ids=["forked", "by its command"])
def test_the_real_runner_carries_a_kernel_to_a_pull_request(open_talk: Open, started: Started) -> None:
    talk = open_talk(real_runner=True)
    with started():
        number = talk.ask(create("reglu", REGLU, "--auto --profile"))
    assert talk.job().state is JobState.done, talk.heard(number)
    talk.skip(number)
    heard = talk.heard(talk.pull())
    understood, proved, reported = [gist(body, 1) for body in heard]
    assert understood.startswith("**`reglu` is understood:** tier 1, element-wise")
    assert proved.startswith("**`reglu` is written and proved in Triton's interpreter:**")
    assert reported.startswith("**`reglu` is proved in Triton's interpreter and passes the library's tests.**")
    assert [line.split()[0] for line in talk.changed()] == [
        "benchmarks/benchmark_reglu.py",
        "small/kernels/reglu.py",
        "tests/test_reglu.py",
    ]
    profile = heard[-1].partition("<summary>Profile</summary>")[2]
    assert "**memory-bound** on" in profile
    assert "Nsight Compute was not used" in profile


@pytest.mark.slow
def test_the_real_runner_proves_and_tests_a_kernel_of_cutile(open_talk: Open) -> None:
    talk = open_talk(real_runner=True)
    number = talk.ask(create("reglu", REGLU, "--auto --to cutile"))
    assert talk.job().state is JobState.done, talk.heard(number)
    talk.skip(number)
    _, proved, reported = talk.heard(talk.pull())
    assert "nothing is known about the compiled code. cuTile has no" in proved
    assert "10 passed, 8 skipped" in reported
