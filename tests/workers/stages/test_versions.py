"""Optimize in a repository that keeps versions: every kept variant stays, through the same gate, with an entry of the log."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from service.report.optimize import new_version
from tests.workers.layouts.versioned.repository import REGLU, tree
from tests.workers.stages.answers import WRONG, answers, benchmark, failing_tests
from tests.workers.stages.context import Answers, FakeContext, optimizing
from tests.workers.stages.jobs import different, finalized, optimized, scripted
from workers.contracts import CommitPurpose, CommitUpdate, FinalizeSummary
from workers.engine.protocol import StageResult
from workers.stages.profiling import Profile

LOG = "docs/kernels/reglu.md"


Ended = tuple[FakeContext, FinalizeSummary, StageResult]


@cache
def kept() -> Ended:
    """A job with three variants, each faster than the one before."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return ended(monkeypatch, {})


def ended(monkeypatch: pytest.MonkeyPatch, made: Answers) -> Ended:
    speeds = {f"benchmark v{n}-benchmark": benchmark(s) for n, s in enumerate((1.1, 1.5, 1.7), 1)}
    context = optimizing(answers() | speeds | made, tree())
    context.request = replace(context.request, kernel="reglu")
    context.run(Profile())
    context = scripted(monkeypatch, context.again(), *different(3))
    optimized(context)
    context = context.again()
    return context, *finalized(context)


def commits(result: StageResult) -> list[CommitUpdate]:
    return [update for update in result.updates if isinstance(update, CommitUpdate)]


def test_each_kept_variant_is_a_version_with_a_commit_and_an_entry_and_the_winner_is_the_newest() -> None:
    context, summary, result = kept()
    assert [(v.name, v.variant) for v in summary.versions] == [
        ("reglu_v1", "v1"),
        ("reglu_v2", "v2"),
        ("reglu_v3", "v3"),
    ]
    assert [place for place in context.order if place.startswith("verify")] == [
        f"verify verify-v{n}" for n in (1, 2, 3)
    ]
    made = commits(result)
    assert [commit.purpose for commit in made] == [CommitPurpose.optimization] * 3
    for number, commit in enumerate(made, 1):
        texts = {change.path: change.text for change in commit.changes if change.text is not None}
        folder = f"{REGLU}/reglu_v{number}"
        assert list(texts) == [f"{folder}/{n}" for n in ("kernels.py", "__init__.py", f"reglu_v{number}.py")] + [LOG]
        assert f"LINE_{number} = {number}" in (texts[f"{folder}/kernels.py"] or "")
        assert (texts[LOG] or "").count("### V") == number + 1
    entry = (made[-1].changes[3].text or "").split("### V3: ")[1]
    assert "1.70 times as fast as before" in entry and "after profiling" not in entry
    assert "forward by memory, backward by latency" in entry


def test_the_entry_of_the_version_that_was_measured_first_is_filled_where_it_was_left_open() -> None:
    assert "**Bottleneck**: to be filled in after profiling" in (tree().read(LOG) or "")
    first, *_ = commits(kept()[2])
    base = (first.changes[3].text or "").split("### V0: ")[1].split("### V1: ")[0]
    assert " us on " in base and "**Bottleneck**: forward by memory, backward by latency" in base
    assert "**Issues**: none known" in base and base.count("to be filled in") == 1, "what it taught, nobody measures"


def test_what_is_proved_timed_and_tested_is_the_version_as_it_is_committed() -> None:
    context, _, result = kept()
    wanted = {change.path: change.text for change in commits(result)[-1].changes[:3]}
    asked = dict(context.asked)
    for place in ("verify verify-v3", "benchmark benchmark"):
        files = {file.path: file.text for file in asked[place].candidate.files}
        assert wanted.items() <= files.items()
        assert "from lab.kernel.triton.ops.reglu.reglu_v3.kernels import ReGLUFunction" in "".join(files.values())
        assert asked[place].candidate.screened[:-1] == (f"{REGLU}/reglu_v3/kernels.py",), "and what calls it"
    assert {f.path: f.text for f in asked["tests tests-v3"].files} == wanted


def test_a_kept_variant_that_fails_the_gate_is_no_version_and_leaves_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    _, summary, result = ended(monkeypatch, {"verify verify-v1": WRONG})
    assert [(v.name, v.variant) for v in summary.versions] == [("reglu_v1", "v2"), ("reglu_v2", "v3")]
    assert len(commits(result)) == 2 and "v1: the full verdict is incorrect_values" in summary.notes[0]


def test_where_the_winner_fails_the_best_version_before_it_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    _, summary, result = ended(monkeypatch, {"tests tests-v3": failing_tests("test_grad")})
    assert summary.winner is not None and summary.winner.name == "v2"
    assert [(v.name, v.variant) for v in summary.versions] == [("reglu_v1", "v1"), ("reglu_v2", "v2")]
    assert len(commits(result)) == 2


def test_the_comment_has_the_form_that_an_orchestrator_reads() -> None:
    _, summary, _ = kept()
    told = new_version(summary.versions[-1])
    assert told == (
        "## New Version: reglu v3\n\n"
        "### Changes Applied\n1. Strategy 3: One line. It may help.\n\n"
        f"### Files\n- Created: `{REGLU}/reglu_v3/kernels.py`, `{REGLU}/reglu_v3/__init__.py`, `{REGLU}/reglu_v3/reglu_v3.py`\n"
        f"- Modified: `{LOG}`\n\n"
        "### Correctness: PASS\n\n"
        f"### Devlog Entry Written: `{LOG}`"
    )
