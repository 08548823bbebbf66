from __future__ import annotations

import pytest

from gpu_runner.contracts import CaptureResult, Evidence, Status, Verdict, VerifyRequest, from_json
from tests.conversations.modifying import ADDED, PROBLEM, change, slope
from tests.workers.stages.answers import WRONG
from tests.workers.stages.context import FakeContext
from tests.workers.stages.library import PATH, SUITE
from tests.workers.stages.modifying.changing import TREE, answers, modifying, ran
from workers.authors.protocol import Feedback
from workers.contracts import (
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    FailureCode,
    FileChange,
    ModifySummary,
    PullRequestUpdate,
    UserFacingError,
)
from workers.engine.protocol import StageResult
from workers.models.protocol import ModelError, Trouble
from workers.stages.modify import Modify
from workers.tree import Tree

OTHER = Verdict(Status.refused, (Evidence("original", "it cannot be called so"),), rule="original")
NOTE = (("gate = tl.sigmoid(1.702 * a)", "gate = tl.sigmoid(1.702 * a)  # of the gate's own slope"),)


def modified(context: FakeContext) -> tuple[ModifySummary, StageResult]:
    result = context.run(Modify())
    return from_json(ModifySummary, result.output["summary"]), result


def refused(context: FakeContext) -> UserFacingError:
    with pytest.raises(UserFacingError) as told:
        context.run(Modify())
    return told.value


def outcomes(summary: ModifySummary) -> list[tuple[str, str, bool]]:
    return [(attempt.task, attempt.outcome, attempt.chosen) for attempt in summary.attempts]


def commits(result: StageResult) -> list[CommitUpdate]:
    return [update for update in result.updates if isinstance(update, CommitUpdate)]


def test_what_is_cheap_is_asked_first_and_the_full_verdict_last() -> None:
    context = modifying()
    summary, result = modified(context)
    assert context.order == [
        "tests environment",
        "verify verify-today",
        "capture capture-candidate-1",
        "verify old-candidate-1",
        "verify quick-candidate-1",
        "tests tests-today",
        "tests tests-candidate-1",
        "tests before-candidate-1",
        "verify verify-candidate-1",
    ]
    quick = {place: request.quick for place, request in context.asked if place.startswith("verify")}
    assert quick == {place: place != "verify verify-candidate-1" for place in quick}
    assert [type(update) for update in result.updates] == [CommitUpdate, PullRequestUpdate, CheckpointUpdate]
    assert summary.changes_function is True
    assert [file.path for file in summary.files] == [PATH, SUITE]


def test_test_files_are_never_laid_beside_the_kernel_for_a_verdict() -> None:
    context = modifying()
    modified(context)
    laid = {
        file.path
        for _, request in context.asked
        if isinstance(request, VerifyRequest)
        for file in request.candidate.files
    }
    assert PATH in laid
    assert SUITE not in laid


def test_a_change_of_no_function_is_held_against_todays_problem_beside_the_original() -> None:
    context = modifying(speaks=[change(PATH, NOTE, "A comment.")])
    context.answers["tests tests-candidate-1"] = ran(nodes=("test_values",))
    summary, _ = modified(context)
    assert context.order == [
        "tests environment",
        "verify verify-today",
        "verify quick-candidate-1",
        "tests tests-today",
        "tests tests-candidate-1",
        "verify verify-candidate-1",
    ]
    assert summary.changes_function is False
    assert summary.added == ()
    asked = [request for _, request in context.asked if isinstance(request, VerifyRequest)]
    assert [request.original is not None for request in asked] == [True, True, True]


def test_a_problem_that_the_original_cannot_be_called_by_is_judged_without_it() -> None:
    context = modifying()
    modified(context)
    beside = {
        place: request.original is not None for place, request in context.asked if isinstance(request, VerifyRequest)
    }
    assert beside["verify quick-candidate-1"] is False
    assert beside["verify verify-candidate-1"] is False
    assert beside["verify old-candidate-1"] is True
    screened = {
        place: PATH in request.candidate.screened
        for place, request in context.asked
        if isinstance(request, VerifyRequest) and place != "verify verify-today"
    }
    assert screened == {
        "verify old-candidate-1": True,
        "verify quick-candidate-1": False,
        "verify verify-candidate-1": False,
    }


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(Status.refused, (Evidence("screen", "It uses `open`."),), rule="reaches outside"),
        Verdict(Status.cheating, (Evidence("honesty", "torch computes it."),), rule="torch"),
    ],
)
def test_what_the_screen_refuses_is_no_broken_call(verdict: Verdict) -> None:
    error = refused(modifying(answers(**{"verify old-candidate-1": verdict}), [slope(), {}], repairs=1))
    assert f"ended as `{verdict.status.value}`: {verdict.evidence[0].message}" in error.failure.message


def test_an_original_that_computes_something_else_is_found_out_by_the_runner() -> None:
    same_call = PROBLEM.replace("apply(a, b, slope)", "apply(a, b)").replace('"slope": 2.0', '"slope": 1.5')
    context = modifying(speaks=[slope(problem=same_call)])
    context.answers["verify quick-candidate-1"] = OTHER
    modified(context)
    asked = dict(context.asked)
    assert asked["verify quick-candidate-1"].original is not None
    assert asked["verify quick-candidate-1-alone"].original is None
    assert asked["verify verify-candidate-1"].original is None


def test_what_stands_must_compute_what_its_problem_says() -> None:
    error = refused(modifying(answers(**{"verify verify-today": WRONG})))
    assert error.failure.code is FailureCode.problem
    assert "does not say what `geglu` computes today" in error.failure.message


def test_the_persons_problem_is_the_judge_whatever_a_model_brings() -> None:
    weaker = PROBLEM.replace("slope * a.float()", "1.702 * a.float()")
    context = modifying(speaks=[slope(problem=weaker)], problem=PROBLEM)
    summary, _ = modified(context)
    full = dict(context.asked)["verify verify-candidate-1"]
    assert full.problem_source == PROBLEM
    assert summary.problem_source == PROBLEM


def test_a_persons_problem_that_holds_today_already_is_taken_for_todays() -> None:
    today = TREE.read(".kernelsmith/problems/geglu.py")
    assert today is None
    other_sizes = PROBLEM.replace("apply(a, b, slope)", "apply(a, b)").replace(', "slope": 2.0', "")
    context = modifying(speaks=[change(PATH, NOTE)], problem=other_sizes)
    context.answers["tests tests-candidate-1"] = ran(nodes=("test_values",))
    summary, _ = modified(context)
    assert context.order[1:4] == ["verify verify-today", "verify verify-given", "verify quick-candidate-1"]
    assert dict(context.asked)["verify verify-candidate-1"].problem_source == other_sizes
    assert summary.changes_function is False


def test_the_first_that_keeps_the_call_is_taken_before_one_that_breaks_it() -> None:
    context = modifying(speaks=[slope(), slope(summary="Another.", tests=ADDED.replace("2.0", "2.5"))], candidates=2)
    context.answers["verify old-candidate-1"] = WRONG
    summary, _ = modified(context)
    assert summary.broken_call is None
    assert outcomes(summary) == [("modify", "breaks a call", False), ("modify", "passed", True)]


def test_a_change_that_breaks_the_call_is_left_to_a_person() -> None:
    context = modifying()
    context.answers["verify old-candidate-1"] = WRONG
    summary, _ = modified(context)
    assert summary.broken_call is not None
    assert summary.broken_call.startswith("`LigerGELUMulFunction.apply(a, b)` no longer gives what it gave")
    assert outcomes(summary) == [("modify", "breaks a call", True)]
    assert any(".kernelsmith/problems/geglu.py" in note for note in summary.notes)


def test_with_auto_a_broken_call_is_refused_unless_the_persons_problem_asks_for_it() -> None:
    broken = answers(**{"verify old-candidate-1": WRONG})
    silent = ModelError(Trouble.rejected, "no more")
    error = refused(modifying(broken, [slope(), silent], auto=True))
    assert "ended as `call`" in error.failure.attempts[0]
    summary, _ = modified(modifying(broken, problem=PROBLEM, auto=True))
    assert summary.broken_call is not None


def test_a_repair_keeps_the_problem_of_the_proposal_that_it_starts_from() -> None:
    half = slope()
    half["edits"] = [edit for edit in half["edits"] if "slope * a * (1 - gate)" not in edit["new"]]
    mended = change(PATH, (("1 + 1.702 * a * (1 - gate)", "1 + slope * a * (1 - gate)"),))
    context = modifying(speaks=[half, mended])
    context.answers["verify quick-candidate-1"] = WRONG
    summary, _ = modified(context)
    assert summary.changes_function is True
    assert summary.problem_source == PROBLEM
    assert outcomes(summary) == [("modify", "incorrect_values", False), ("repair", "passed", True)]
    assert PROBLEM.splitlines()[-1] in "".join(part.text for part in context.questions["repair-1"].messages[0].parts)


def test_a_changed_function_needs_a_test_that_fails_without_the_change() -> None:
    silent = ModelError(Trouble.rejected, "no more")
    for before, told in ((ran(), "passes, or cannot pass, without the change"), (None, "none was added")):
        nonblank = [slope(), silent]
        if before is None:
            nonblank[0] = {key: value for key, value in slope().items() if key != "added_tests"}
        context = modifying(speaks=nonblank)
        context.answers["tests tests-candidate-1"] = ran() if before else ran(nodes=("test_values",))
        context.answers["tests before-candidate-1"] = before
        assert told in "".join(refused(context).failure.attempts)


def test_two_answers_that_are_one_change_are_proved_once() -> None:
    context = modifying(speaks=[slope(), slope(summary="In other words."), {}], candidates=2, repairs=1)
    context.answers["verify quick-candidate-1"] = WRONG
    refusal = refused(context)
    assert "it is the same change as attempt 1" in refusal.failure.attempts[1]
    assert [place for place in context.order if "candidate-2" in place] == []


def test_nothing_that_fails_the_full_verdict_is_committed() -> None:
    wrong = answers(**{"verify verify-candidate-1": WRONG})
    error = refused(modifying(wrong, [slope(), ModelError(Trouble.refused, "it declined")]))
    assert error.failure.code is FailureCode.model
    error = refused(modifying(wrong, [slope(), {}], repairs=1))
    assert error.failure.code is FailureCode.verdict
    assert "ended as `incorrect_values`: output 0 is off by 0.3" in error.failure.message


def test_a_host_at_fault_is_no_reason_for_a_repair() -> None:
    lost = Verdict(Status.environment_error, (Evidence("host", "the driver is gone"),))
    context = modifying(answers(**{"verify quick-candidate-1": lost}))
    assert "the driver is gone" in str(refused(context))
    assert list(context.questions) == ["candidate-1"]


def test_a_problem_that_cannot_be_traced_is_told_to_the_model() -> None:
    bad = answers(**{"capture capture-candidate-1": CaptureResult(None, "`slope` is not used", None, "Use it.")})
    error = refused(modifying(bad, [slope(), {}], repairs=1))
    assert "ended as `problem`: The problem cannot be used: `slope` is not used Use it." in error.failure.message


def test_a_review_starts_from_the_last_change_and_only_what_is_new_is_answered() -> None:
    context = modifying()
    modified(context)
    second = context.again()
    second.feedback = (Feedback("Shorter.", PATH, 3),)
    second.speaks = [
        change(PATH, (("slope=1.702):\n    n_cols = a", "slope=1.7):\n    n_cols = a"),), replies=("Done.",))
    ]
    summary, result = modified(second)
    assert summary.answered == (f"`{PATH}:3`, “Shorter.”: Done.",)
    assert [commit.purpose for commit in commits(result)] == [CommitPurpose.revision]
    assert [change.path for change in commits(result)[0].changes] == [PATH]
    third = second.again()
    third.feedback = (*second.feedback, Feedback("And a test."))
    third.speaks = [change(PATH, (("slope=1.7):\n    n_cols = a", "slope=1.702):\n    n_cols = a"),), replies=("No.",))]
    summary, _ = modified(third)
    assert summary.answered == ("“And a test.”: No.",)
    asked = "".join(part.text for part in third.questions["candidate-1"].messages[0].parts)
    assert "Earlier reviews asked for this" in asked


def test_what_an_earlier_attempt_changed_and_this_one_does_not_is_put_back() -> None:
    functional = "src/liger_kernel/transformers/functional.py"
    both = slope()
    both["edits"].append(
        {"path": functional, "old": "(a, b):\n    return LigerGELU", "new": "(a, b, *more):\n    return LigerGELU"}
    )
    context = modifying(speaks=[both])
    _, result = modified(context)
    assert [change.path for change in commits(result)[0].changes] == [PATH, functional, SUITE]
    second = context.again("Leave the interface alone.")
    back = [{"path": functional, "old": "(a, b, *more)", "new": "(a, b)"}]
    second.speaks = [{"summary": "Back.", "edits": back, "replies": [{"number": 1, "text": "Yes."}]}]
    _, result = modified(second)
    assert commits(result)[0].changes == (FileChange(functional, TREE.read(functional)),)


def test_a_library_that_keeps_its_problems_has_them_brought_up_to_date() -> None:
    kept = ".kernelsmith/problems/geglu.py"
    today = PROBLEM.replace("apply(a, b, slope)", "apply(a, b)").replace(', "slope": 2.0', "")
    context = modifying(tree=Tree({**TREE.files, kept: today.encode()}))
    summary, result = modified(context)
    assert commits(result)[0].changes[-1] == FileChange(kept, PROBLEM)
    assert summary.files[-1].path == kept


def test_without_a_model_nothing_is_asked_of_a_gpu() -> None:
    context = modifying()
    context.speaks = None
    assert refused(context).failure.code is FailureCode.model
    assert context.order == []


def test_a_provider_that_is_down_is_told_as_such() -> None:
    down = ModelError(Trouble.overloaded, "the provider is overloaded")
    error = refused(modifying(speaks=[down, down], candidates=2))
    assert error.failure.code is FailureCode.model
    assert error.failure.message == "no model gave a change: the provider is overloaded"


def test_an_answer_that_cannot_be_used_is_told_in_one_spelling() -> None:
    answer = slope(tests="def expected(a, b):\n    return a\n")
    questions = []
    for json_text in (answer, dict(reversed(answer.items()))):
        context = modifying(speaks=[json_text, {}], repairs=1)
        refused(context)
        questions.append(context.questions["repair-1"])
    assert questions[0] == questions[1]


def test_a_change_that_is_proved_before_the_others_have_answered_ends_them() -> None:
    context = modifying(speaks=[slope()], candidates=3)
    context.arrivals = ("candidate-2", "candidate-1", "candidate-3")
    summary, _ = modified(context)
    assert outcomes(summary) == [
        ("modify", "not needed", False),
        ("modify", "passed", True),
        ("modify", "not needed", False),
    ]
    assert [place for place in context.order if "candidate-1" in place] == []


def test_a_change_that_breaks_the_call_ends_no_other() -> None:
    context = modifying(speaks=[slope(), slope(summary="Another.", tests=ADDED.replace("2.0", "2.5"))], candidates=2)
    context.arrivals = ("candidate-2", "candidate-1")
    context.answers["verify old-candidate-2"] = WRONG
    summary, _ = modified(context)
    assert outcomes(summary) == [("modify", "passed", True), ("modify", "not judged", False)]
