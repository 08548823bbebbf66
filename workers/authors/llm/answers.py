"""What answers come to: each read strictly against its brief, or refused with a fault and a sentence. Pure; nothing is run."""

from __future__ import annotations

from typing import Any

from gpu_runner.contracts import Problem, ProblemError, parse_problem
from workers.authors.llm import forms
from workers.authors.llm.added_tests import with_added
from workers.authors.llm.edits import check_file, check_path, edited
from workers.authors.llm.hearing import heard, named, replies_to
from workers.authors.llm.kernel_module import check_module
from workers.authors.llm.marks import is_hidden
from workers.authors.llm.planning import plan_from
from workers.authors.llm.protocol import (
    ChangeAnswer,
    ChangeBrief,
    Diagnosis,
    Failed,
    Fault,
    KernelAnswer,
    KernelBrief,
    ProblemAnswer,
    ProblemBrief,
    UnusableAnswer,
    VariantAnswer,
    VariantBrief,
)
from workers.authors.llm.python_text import check_reach, parsed
from workers.models.protocol import Answer

MOST_SENTENCE = 300
PROBLEM_MODULES = ("torch.nn", "torch.nn.functional", "torch.fft", "torch.special", "torch.linalg")


def read_problem(answer: Answer, brief: ProblemBrief) -> ProblemAnswer:
    """Read the answer to a problem question.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    data = heard(answer, forms.PROBLEM)
    source = _ended(data["source"])
    _problem(source)
    _changed(source, brief.failed)
    return ProblemAnswer(source, tuple(data["assumptions"]), replies_to(brief.remarks, data["replies"]))


def read_kernel(answer: Answer, brief: KernelBrief) -> KernelAnswer:
    """Read the answer to a kernel question.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    data = heard(answer, forms.KERNEL)
    source = _ended(data["source"])
    check_module(source, brief)
    _changed(source, brief.failed)
    plan = plan_from(data["plan"], brief.problem, brief.graph)
    return KernelAnswer(source, plan, replies_to(brief.remarks, data["replies"]))


def read_change(answer: Answer, brief: ChangeBrief) -> ChangeAnswer:
    """Read the answer to a change question. Edits begin where the last proposal left the files, where there is one.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    data = heard(answer, forms.CHANGE)
    stood, tests, before = dict(brief.files), dict(brief.tests), dict(brief.before)
    left = {path: before.get(path, text) for path, text in stood.items()}
    now = left | edited(data["edits"], left, frozenset(tests))
    for path, text in now.items():
        if text != stood[path]:
            check_file(path, stood[path], text)
    now |= {path: before.get(path, text) for path, text in tests.items()}
    if "added_tests" in data:
        path = _test_path(str(data["added_tests"]["path"]), stood, tests)
        now[path] = with_added(path, tests[path], data["added_tests"]["text"])
    problem = _new_problem(data, brief.problem)
    files = tuple((path, text) for path, text in now.items() if text != {**stood, **tests}[path])
    failed_so = brief.failed is not None and bool(before) and dict(files) == before
    if problem is None and (not files or failed_so):
        raise UnusableAnswer(Fault.same, "the answer changes nothing")
    return ChangeAnswer(files, data["summary"], problem, replies_to(brief.remarks, data["replies"]))


def read_diagnosis(answer: Answer) -> Diagnosis:
    """Read the answer to a diagnosis question.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    data = heard(answer, forms.DIAGNOSIS)
    return Diagnosis(data["bottleneck"], tuple(data["evidence"]), tuple(data["steps"]))


def read_variant(answer: Answer, brief: VariantBrief) -> VariantAnswer:
    """Read the answer to a variant question: edits of the file it starts from, or the whole file.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    data = heard(answer, forms.VARIANT)
    if ("source" in data) == bool(data.get("edits")):
        raise UnusableAnswer(Fault.form, "the answer gives either edits or the whole source, one of the two")
    if "source" in data:
        source = _ended(data["source"])
    else:
        source = edited(data["edits"], {brief.path: brief.source}).get(brief.path, brief.source)
    if source.strip() == brief.source.strip():
        raise UnusableAnswer(Fault.same, "the answer changes nothing")
    _changed(source, brief.failed)
    check_file(brief.path, brief.source, source)
    return VariantAnswer(
        source, data["hypothesis"], data["change"], data["expected"], replies_to(brief.remarks, data["replies"])
    )


def _problem(source: str) -> Problem:
    """A problem file is read by the runner's own reader, whose sentences name the line and the cure."""
    tree = parsed(source, "the problem")
    try:
        problem = parse_problem(source)
    except ProblemError as error:
        where = f" (line {error.line})" if error.line else ""
        raise UnusableAnswer(Fault.problem, _sentence(f"{error.message}{where}")) from None
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError, MemoryError, OverflowError):
        raise UnusableAnswer(Fault.problem, "the tables of the problem are not in their form") from None
    if problem.form != "reference":
        raise UnusableAnswer(Fault.problem, "the problem is not written as `def reference(...)`")
    check_reach(tree, "the problem", PROBLEM_MODULES)
    return problem


def _new_problem(data: dict[str, Any], standing: str | None) -> str | None:
    if "problem" not in data:
        return None
    source = _ended(data["problem"])
    if standing is not None and source.strip() == standing.strip():
        return None
    _problem(source)
    return source


def _test_path(path: str, files: dict[str, str], tests: dict[str, str]) -> str:
    if path in tests:
        return path
    if path in files:
        raise UnusableAnswer(Fault.path, f"`{named(path)}` is no test file: tests are added to a test file that stands")
    return check_path(path, tests)


def _changed(source: str, failed: Failed | None) -> None:
    """What failed would fail again. What a review spoke of may stay as it is: its remarks may be questions, or wrong."""
    if failed is not None and source.strip() == failed.source.strip():
        raise UnusableAnswer(Fault.same, "the answer is what was proposed before, unchanged")


def _ended(text: str) -> str:
    return text.strip("\n") + "\n"


def _sentence(text: str) -> str:
    """The runner's sentences name what stands in the file; here nobody has escaped it yet."""
    seen = "".join("?" if is_hidden(c) or c in "\n\t@<>" else c for c in text)
    return seen[:MOST_SENTENCE]
