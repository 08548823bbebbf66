from __future__ import annotations

import pytest

from tests.conversations.modifying import PROBLEM, WORDS
from tests.workers.stages.library import PATH, SUITE
from tests.workers.stages.modifying.changing import TREE, modifying
from workers.authors.protocol import Feedback
from workers.contracts import FileChange, UserFacingError
from workers.stages.bench import open_modify
from workers.stages.briefs import change_brief
from workers.tree import Tree


def test_a_model_is_told_the_files_the_tests_the_problem_and_kernels_like_it() -> None:
    brief = change_brief(open_modify(modifying()))
    assert (brief.name, brief.request, brief.before, brief.failed) == ("geglu", WORDS, (), None)
    assert [path for path, _ in brief.files] == [PATH, "src/liger_kernel/transformers/functional.py"]
    assert brief.tests == ((SUITE, TREE.read(SUITE)),)
    assert brief.problem is not None
    assert 'CALL = "LigerGELUMulFunction.apply(a, b)"' in brief.problem
    assert len(brief.examples) == 2
    assert PATH not in {example.path for example in brief.examples}


def test_a_persons_problem_and_earlier_reviews_are_part_of_what_is_asked_for() -> None:
    subject = open_modify(modifying(problem=PROBLEM))
    brief = change_brief(subject, done=(Feedback("Keep it short."),))
    assert PROBLEM in brief.request
    assert "- Keep it short." in brief.request
    carried = change_brief(open_modify(modifying()), before=(FileChange(PATH, "x = 1\n"),), problem=PROBLEM)
    assert (carried.carried, PROBLEM in carried.request) == (PROBLEM, False)
    assert change_brief(subject, problem=PROBLEM).carried is None
    assert carried.before == ((PATH, "x = 1\n"),)


def test_the_bots_own_files_are_none_of_the_models() -> None:
    kept = FileChange(".kernelsmith/problems/geglu.py", PROBLEM)
    assert change_brief(open_modify(modifying()), before=(kept,)).before == ()


def test_all_that_is_missing_is_named_together() -> None:
    without = Tree({path: text for path, text in TREE.files.items() if path != SUITE})
    with pytest.raises(UserFacingError) as told:
        open_modify(modifying(tree=without, words=" \n"))
    assert told.value.failure.message == (
        "`geglu` has no test file `test/transformers/test_geglu.py`; nothing says what to change in `geglu`"
    )


@pytest.mark.parametrize(("module", "language"), [("cuda.tile as ct", "cuTile"), ("cutlass", "CuTe DSL")])
def test_a_kernel_in_another_language_is_changed_by_no_model(module: str, language: str) -> None:
    tree = Tree(TREE.files | {PATH: f"import {module}\n".encode() + TREE.files[PATH]})
    with pytest.raises(UserFacingError, match=f"`geglu` is written in {language}, which no model is asked to write"):
        open_modify(modifying(tree=tree))


def test_a_problem_says_how_the_kernel_is_called() -> None:
    with pytest.raises(UserFacingError, match="does not say how the kernel is called"):
        open_modify(modifying(problem=PROBLEM[: PROBLEM.index("CALL")]))


def test_the_problem_that_is_known_already_is_no_wish() -> None:
    today = open_modify(modifying()).problem.source
    assert open_modify(modifying(problem=today)).wanted is None
    assert open_modify(modifying(problem=PROBLEM)).wanted is not None
