"""Before anything is written: the GPU host can import what the library's tests need, or the job says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_runner.contracts import CaseOutcome, TestCase, TestsRequest, TestsResult
from tests.workers.stages import library
from tests.workers.stages.answers import answers
from tests.workers.stages.context import FakeContext, optimizing
from tests.workers.stages.creating import answers as created
from tests.workers.stages.creating import creating
from tests.workers.stages.modifying.changing import TREE, modifying
from tests.workers.stages.modifying.changing import answers as changed
from workers.contracts import Failure, FailureCode, UserFacingError, Verb
from workers.engine.protocol import Stage
from workers.stages.analyze import Analyze
from workers.stages.modify import Modify
from workers.stages.profiling import Profile
from workers.tree import Tree

PLACE = "tests environment"
SUITE = "test/transformers/test_geglu.py"
DEV = """\
[project]
name = "x"

[project.optional-dependencies]
dev = ["Transformers>=5.0", "seaborn", "triton-windows; sys_platform == 'win32'"]
"""
IMPORTS = b"import einops\nfrom transformers.models.llama import modeling_llama\nimport torch\n"


def tried(**failed: str) -> Callable[[TestsRequest], TestsResult]:
    """Answer that these are missing, ``torch__nn`` being ``torch.nn``, and everything else is there."""
    messages = {name.replace("__", "."): message for name, message in failed.items()}

    def answer(request: TestsRequest) -> TestsResult:
        cases = [_case(word, messages.get(word.removeprefix("package:").lower())) for word in request.arguments]
        return TestsResult(True, 0, tuple(cases), "exit code 0", "")

    return answer


def _case(word: str, message: str | None) -> TestCase:
    return TestCase(word, CaseOutcome.passed if message is None else CaseOutcome.failed, 0.1, message)


def failure(context: FakeContext, stage: Stage) -> Failure:
    with pytest.raises(UserFacingError) as caught:
        context.run(stage)
    assert caught.value.failure.code is FailureCode.environment
    return caught.value.failure


def lacking(files: dict[str, bytes], **failed: str) -> FakeContext:
    """Give an optimize job on a host on which imports fail."""
    return optimizing(answers(**{PLACE: tried(**failed)}), Tree(library.tree().files | files))


NO_SEABORN = {"seaborn": "seaborn: No package metadata was found for seaborn"}


@pytest.mark.parametrize(
    ("context", "stage"),
    [
        (creating(None, created(**{PLACE: tried(torch="torch: No module named 'torch'")})), Analyze()),
        (optimizing(answers(**{PLACE: tried(pytest="pytest: No module named 'pytest'")})), Profile()),
        (modifying(changed(**{PLACE: tried(pytest="pytest: No module named 'pytest'")})), Modify()),
    ],
    ids=["create", "optimize", "modify"],
)
def test_a_host_that_cannot_import_what_the_tests_need_is_found_out_before_anything_else_is_asked(
    context: FakeContext, stage: Stage
) -> None:
    assert "the GPU host cannot import what the tests of" in failure(context, stage).message
    assert context.order == [PLACE]
    assert context.questions == {}


def test_the_failure_names_what_is_missing_and_the_command_that_installs_it() -> None:
    missing = {
        "transformers.models.llama": "transformers: No module named 'transformers'",
        "einops": "einops: No module named 'einops'",
        "transformers": "transformers: No package metadata was found for transformers",
    } | NO_SEABORN
    context = lacking({SUITE: IMPORTS, "pyproject.toml": DEV.encode()}, **missing)
    found = failure(context, Profile())
    assert found.message == (
        "the GPU host cannot import what the tests of `geglu` need: `einops`, `transformers` (which "
        "`transformers.models.llama` imports)"
    )
    assert found.fix == (
        "On that host, in the Python environment of its GPU worker: `pip install 'Transformers>=5.0'`. "
        "What `einops` needs comes with the library's own set-up for development: `pip install -e '.[dev]'` in a checkout of it. "
        "Of the library's dev extra these are not there either, and these tests do not import them: `seaborn`. "
        "Then `/kernel retry` goes on."
    )
    asked = dict(context.asked)[PLACE]
    assert asked.module == "imports"
    assert "package:triton-windows" not in asked.arguments


def test_a_library_without_a_dev_extra_is_not_told_to_install_it() -> None:
    found = failure(lacking({SUITE: IMPORTS}, einops="einops: No module named 'einops'"), Profile())
    assert "[dev]" not in (found.fix or "")
    assert "The library has no extra `dev` that says which packages hold `einops`" in (found.fix or "")


def test_a_package_that_is_too_old_is_told_with_what_python_says() -> None:
    text = "transformers.models.llama: cannot import name 'modeling_llama' from 'transformers.models.llama'"
    context = lacking({SUITE: IMPORTS}, transformers__models__llama=text)
    assert "`transformers.models.llama` (cannot import name 'modeling_llama'" in failure(context, Profile()).message


def test_what_the_tests_do_not_import_is_no_reason_to_refuse() -> None:
    context = lacking({SUITE: IMPORTS, "pyproject.toml": DEV.encode()}, **NO_SEABORN)
    assert context.run(Profile()).output["nothing_to_gain"] is False
    assert "package:seaborn" in dict(context.asked)[PLACE].arguments


def test_a_module_that_is_found_and_raises_is_left_to_the_tests() -> None:
    raised = TestsResult(True, 0, (TestCase("torch", CaseOutcome.skipped, 0.1, "RuntimeError: no GPU"),), "", "")
    assert optimizing(answers(**{PLACE: raised})).run(Profile()).checkpoint


def test_a_fault_of_the_librarys_own_modules_is_left_to_the_tests() -> None:
    own = "liger_kernel.ops: cannot import name 'Other' from 'liger_kernel.ops'"
    context = modifying(changed(**{PLACE: tried(test__utils=own)}), tree=TREE)
    context.run(Modify())


def test_the_tests_of_other_kernels_are_no_reason_to_refuse_a_new_one() -> None:
    context = creating(None, files={"tests/test_scale.py": b"import vendor_sdk\n"})
    context.run(Analyze())
    assert dict(context.asked)[PLACE].arguments == ("pytest", "torch")


def test_a_job_that_only_measures_asks_nothing_of_the_tests() -> None:
    context = optimizing(answers())
    context.request = replace(context.request, verb=Verb.profile)
    context.run(Profile())
    assert PLACE not in context.order


def test_after_a_refusal_the_host_is_asked_again_and_after_a_review_it_is_not() -> None:
    context = lacking({}, pytest="pytest: No module named 'pytest'")
    failure(context, Profile())
    context.answers[PLACE] = tried()
    again = context.again()
    again.run(Profile())
    assert again.order[0] == PLACE
    reviewed = again.again("Try the sweep first.")
    reviewed.run(Profile())
    assert PLACE not in reviewed.order
