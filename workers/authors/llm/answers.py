"""What answers come to: each read strictly against its brief, or refused with a fault and a sentence. Pure; nothing is run."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from gpu_runner.contracts import Expr, Graph, Problem, ProblemError, parse_problem
from gpu_runner.contracts.reading import UNPARSABLE
from workers.authors.llm import forms
from workers.authors.llm.added_tests import with_added
from workers.authors.llm.checks import (
    check_capabilities,
    check_file,
    check_module,
    check_path,
    checked_data,
    edited,
    named,
    parsed,
    replies_to,
)
from workers.authors.llm.prompts import is_hidden
from workers.authors.llm.protocol import (
    AnswerFault,
    ChangeAnswer,
    ChangeBrief,
    CompositionBrief,
    Diagnosis,
    Failed,
    KernelAnswer,
    KernelBrief,
    ProblemAnswer,
    ProblemBrief,
    UnusableAnswer,
    VariantAnswer,
    VariantBrief,
)
from workers.authors.protocol import KernelPlan, KernelSketch
from workers.models.protocol import Answer

MOST_SENTENCE = 300
PROBLEM_MODULES = ("torch.nn", "torch.nn.functional", "torch.fft", "torch.special", "torch.linalg")


def read_problem(answer: Answer, brief: ProblemBrief) -> ProblemAnswer:
    """Read the answer to a problem question.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    data = checked_data(answer, forms.PROBLEM)
    source = _ended(data["source"])
    _problem(source)
    _changed(source, brief.failed)
    return ProblemAnswer(source, tuple(data["assumptions"]), replies_to(brief.remarks, data["replies"]))


def read_kernel(answer: Answer, brief: KernelBrief) -> KernelAnswer:
    """Read the answer to a kernel question.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    data = checked_data(answer, forms.KERNEL)
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
    data = checked_data(answer, forms.CHANGE)
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
        raise UnusableAnswer(AnswerFault.same, "the answer changes nothing")
    return ChangeAnswer(files, data["summary"], problem, replies_to(brief.remarks, data["replies"]))


def read_diagnosis(answer: Answer) -> Diagnosis:
    """Read the answer to a diagnosis question.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    data = checked_data(answer, forms.DIAGNOSIS)
    return Diagnosis(data["bottleneck"], tuple(data["evidence"]), tuple(data["steps"]))


def read_wishes(answer: Answer) -> tuple[str, ...]:
    """Read the answer to a question about a cut: sentences in the grammar of its review.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    return tuple(checked_data(answer, forms.CUT)["wishes"])


def read_composition(answer: Answer, brief: CompositionBrief) -> str:
    """Read the function that calls the parts.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    source = _ended(checked_data(answer, forms.COMPOSITION)["source"])
    before = parsed(brief.entry, "the function as it is")
    check_capabilities(parsed(source, "the function"), "the function", before=before)
    _changed(source, brief.failed)
    return source


def read_variant(answer: Answer, brief: VariantBrief) -> VariantAnswer:
    """Read the answer to a variant question: edits of the file it starts from, or the whole file.

    Raises:
        UnusableAnswer: it cannot be used, whatever it holds.
    """
    data = checked_data(answer, forms.VARIANT)
    if ("source" in data) == bool(data.get("edits")):
        raise UnusableAnswer(AnswerFault.form, "the answer gives either edits or the whole source, one of the two")
    if "source" in data:
        source = _ended(data["source"])
    else:
        source = edited(data["edits"], {brief.path: brief.source}).get(brief.path, brief.source)
    if source.strip() == brief.source.strip():
        raise UnusableAnswer(AnswerFault.same, "the answer changes nothing")
    _changed(source, brief.failed)
    check_file(brief.path, brief.source, source)
    return VariantAnswer(
        source, data["hypothesis"], data["change"], data["expected"], replies_to(brief.remarks, data["replies"])
    )


def _problem(source: str) -> Problem:
    """A problem file is read by the runner's own parser, whose errors name the line and the fix."""
    tree = parsed(source, "the problem")
    try:
        problem = parse_problem(source)
    except ProblemError as error:
        where = f" (line {error.line})" if error.line else ""
        raise UnusableAnswer(AnswerFault.problem, _sentence(f"{error.message}{where}")) from None
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError, MemoryError, OverflowError):
        raise UnusableAnswer(AnswerFault.problem, "the tables of the problem are not in their form") from None
    if problem.form != "reference":
        raise UnusableAnswer(AnswerFault.problem, "the problem is not written as `def reference(...)`")
    check_capabilities(tree, "the problem", PROBLEM_MODULES)
    return problem


def _new_problem(data: dict[str, Any], existing: str | None) -> str | None:
    if "problem" not in data:
        return None
    source = _ended(data["problem"])
    if existing is not None and source.strip() == existing.strip():
        return None
    _problem(source)
    return source


def _test_path(path: str, files: dict[str, str], tests: dict[str, str]) -> str:
    if path in tests:
        return path
    if path in files:
        raise UnusableAnswer(
            AnswerFault.path, f"`{named(path)}` is no test file: tests are added to a test file that stands"
        )
    return check_path(path, tests)


def _changed(source: str, failed: Failed | None) -> None:
    """What failed would fail again. What a review spoke of may stay as it is: its remarks may be questions, or wrong."""
    if failed is not None and source.strip() == failed.source.strip():
        raise UnusableAnswer(AnswerFault.same, "the answer is what was proposed before, unchanged")


def _ended(text: str) -> str:
    return text.strip("\n") + "\n"


def _sentence(text: str) -> str:
    """The runner's errors quote the file; here the text is not escaped yet."""
    seen = "".join("?" if is_hidden(c) or c in "\n\t@<>" else c for c in text)
    return seen[:MOST_SENTENCE]


MOST_CHARACTERS = 400
MOST_DEPTH = 40
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv)
MOST_NUMBER = 2**53


def plan_from(data: dict[str, Any], problem: Problem, graph: Graph | None) -> KernelPlan:
    """The plan of an answer's object; counts that cannot be read are replaced, and a note says so."""
    least = least_bytes(problem, graph)
    defaults = {"forward_bytes": least, "backward_bytes": least, "forward_flops": "0", "backward_flops": "0"}
    known = {*problem.dimensions, *(scalar.name for scalar in problem.scalars), "E"}
    counts = {name: data[name].strip() if is_count(data[name], known) else None for name in defaults}
    replaced = [name.replace("_", " ") for name, text in counts.items() if text is None]
    notes = tuple(data["notes"])
    if replaced:
        notes += (
            f"the model's {', '.join(replaced)} could not be read; each input and output once, no FLOPs, stand for it",
        )
    given = {name: counts[name] or defaults[name] for name in defaults}
    return KernelPlan(
        family=data["family"],
        tier=int(data["tier"]),
        kernels=tuple(
            KernelSketch(kernel["name"], kernel["pass"], kernel["iteration_space"], kernel["grid"])
            for kernel in data["kernels"]
        ),
        forward_formula=data["forward_formula"],
        gradient_formulas=tuple((entry["input"], entry["formula"]) for entry in data["gradient_formulas"]),
        saved_tensors=tuple(data["saved_tensors"]),
        recomputed=data["recomputed"],
        precision_sensitive_ops=tuple(data["precision_sensitive_ops"]),
        grid_dimensions=data["grid_dimensions"],
        grid_description=data["grid_description"],
        block_size_source=data["block_size_source"],
        needs_sm_parallelism=data["needs_sm_parallelism"],
        notes=notes,
        **given,
    )


def is_count(text: str, known: set[str]) -> bool:
    """Whether a text is arithmetic over ``known`` names and whole numbers, without powers: cheap to evaluate anywhere."""
    if len(text) > MOST_CHARACTERS:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    except UNPARSABLE:
        return False
    return _is_count(tree, known, MOST_DEPTH)


def _is_count(node: ast.expr, known: set[str], depth: int) -> bool:
    if depth == 0:
        return False
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float) and 0 <= node.value <= MOST_NUMBER  # type: ignore[operator]
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.BinOp) and isinstance(node.op, OPERATORS):
        return _is_count(node.left, known, depth - 1) and _is_count(node.right, known, depth - 1)
    return False


def least_bytes(problem: Problem, graph: Graph | None) -> str:
    """The bytes of each input and output once, as an expression; an integer input counts as an element of the dtype."""
    metas = {node.name: node.meta for node in graph.nodes} if graph is not None else {}
    shapes = [spec.dims for spec in problem.inputs]
    outputs = [metas[name].shape for name in graph.outputs if name in metas] if graph is not None else []
    shapes += [tuple(_factor(size) for size in shape) for shape in outputs]
    return " + ".join(" * ".join([*shape, "E"]) for shape in shapes) or "0"


def _factor(size: int | Expr) -> str:
    text = str(size) if isinstance(size, int) else size.text
    return text if text.isidentifier() or text.isdigit() else f"({text})"
