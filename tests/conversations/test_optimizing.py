"""`/kernel optimize` through the real stages, with the runner's answers made by hand."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

from inline_snapshot import snapshot

from gpu_runner.contracts import CaptureResult, RecordResult, TuneResult, to_json
from tests.conversations.conftest import Open
from tests.conversations.talk import REPOSITORY, Talk, gist
from tests.recorded.libraries import LIGER
from tests.service.conversation.facts import VERDICT
from tests.service.conversation.kernels_facts import PROFILED, V0
from workers.contracts import JobState

LIBRARY = LIGER | {
    "test/transformers/test_geglu.py": b"def test_nothing():\n    assert True\n",
    "benchmark/scripts/benchmark_geglu.py": b"print('nothing to measure')\n",
}


def answers(talk: Talk) -> None:
    """Have the runner say what stands today, and that the problem cannot be traced."""
    talk.answer("capture", to_json(CaptureResult(None, "the problem is not traced here")), always=True)
    talk.answer("record", to_json(RecordResult(())), always=True)
    talk.answer("tune", to_json(TuneResult((), None)), always=True)
    talk.answer("profile", to_json(PROFILED), always=True)
    talk.answer("verify", to_json(VERDICT), always=True)
    talk.answer("benchmark", to_json(V0), always=True)


def approve(talk: Talk, number: int) -> None:
    talk.clock[0] += 10
    checkpoint = talk.job().checkpoint
    assert checkpoint is not None
    talk.say(number, f"/kernel approve {(checkpoint.sha or '')[:12]}")
    talk.settle()


def test_where_no_strategy_applies_the_job_says_so_and_changes_nothing(open_talk: Open) -> None:
    talk = open_talk(LIBRARY)
    answers(talk)
    before = dict(talk.hub.branches(REPOSITORY))
    number = talk.ask("/kernel optimize geglu --goal speed --variants 3")
    assert talk.job().state is JobState.waiting
    assert sorted(gist(body) for body in talk.heard(number)) == snapshot(
        [
            """\
**`geglu` is memory-bound in forward, latency-bound in backward on NVIDIA H200:** forward reaches 50%, backward reaches 50% of the speed that the hardware allows.
**Next:** look at it, and say `/kernel approve COMMIT1` here, or `/kernel revise` and what should change.\
""",
            """\
**`geglu`: profile is done and waits for your decision** here.
**Next:** `/kernel approve COMMIT1` or `/kernel revise`; the checkpoint's comment says what each does.\
""",
        ]
    )
    approve(talk, number)
    assert talk.job().state is JobState.done
    assert talk.job().pull_number is None
    assert sorted(gist(body) for body in talk.heard(number)) == snapshot(
        [
            """\
**Nothing that was tried makes `geglu` better than it is:** 1 variant, every strategy whose trigger holds has been tried.
**Next:** nothing to do; the job ends with its report, and nothing is changed.\
""",
            """\
**`geglu` is done**: nothing was changed.
**Next:** nothing; the report says what it means.\
""",
            """\
**`geglu` stays as it is:** No variant was better than what stands, within the guardrails: nothing is changed.
**Next:** nothing to merge. What was tried, and what was learned from it, stands below.\
""",
            "Approved: `profile` is done.",
        ]
    )
    assert {branch: sha for branch, sha in talk.hub.branches(REPOSITORY).items() if branch in before} == before
    assert talk.checks() == []


def test_all_that_is_missing_is_named_at_once(open_talk: Open) -> None:
    talk = open_talk(LIGER)
    number = talk.ask("/kernel optimize geglu")
    assert talk.read(number) == snapshot("""\
`geglu` has no test file `test/transformers/test_geglu.py`; `geglu` has no benchmark script `benchmark/scripts/benchmark_geglu.py`. Nothing was done.

**Next:** Add one that holds the kernel against PyTorch: no change is proposed that it does not pass. Add one, as the library's other kernels have it: its sizes are what a change is measured on.\
""")
    assert talk.untouched()
