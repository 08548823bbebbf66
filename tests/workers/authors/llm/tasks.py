"""Twenty-two tasks of a model, each with an answer that is right and a usual wrong one, and the rule of the prompts that it breaks.

Kernels are judged by the runner's verdict in the interpreter, the other answers are read: a prompt that loses a rule, or asks for
what does not pass, fails a test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import Status, parse_problem
from tests.honest.table import KERNELS, problem_of
from tests.workers.authors.llm import briefs
from tests.workers.authors.llm.goldens import FAILED
from workers.authors.llm import (
    change_question,
    composition_question,
    cut_question,
    diagnosis_question,
    kernel_question,
    problem_question,
    read_change,
    read_composition,
    read_diagnosis,
    read_kernel,
    read_problem,
    read_variant,
    read_wishes,
    variant_question,
)
from workers.authors.llm.protocol import AnswerFault, KernelBrief, Task
from workers.authors.protocol import SourceStyle
from workers.models.protocol import Question

STYLE = SourceStyle("Function", "forward", "backward", entry="candidate")


@dataclass(frozen=True)
class Wrong:
    """What a usual mistake makes of the right answer, how it ends, and words of the rule that stands against it."""

    replaced: str
    by: str
    ending: Status
    rule: str
    quick: bool = True  # whether a quick verdict finds it


# By honest candidate: the name of its problem and its source are those of tests/honest.
KERNEL_TASKS: dict[str, Wrong] = {
    "geglu_flat": Wrong(
        "tl.store(out_ptr + idx, gelu.to(a.dtype) * b, mask=mask)",
        "tl.store(out_ptr + idx, gelu.to(a.dtype) * b)",
        Status.out_of_bounds,
        "Mask every load and store whose block can pass the end",
    ),
    "layer_norm_partial_sums": Wrong(
        "xc = tl.where(mask, x - mean, 0.0)",
        "xc = x - mean",
        Status.incorrect_values,
        "mask again with `tl.where` before a reduction",
    ),
    "softmax": Wrong(
        "top = tl.max(largest, axis=0)",
        "top = 0.0",
        Status.incorrect_values,
        "Subtract the row's maximum before `exp`",
    ),
    "rms_norm": Wrong(
        "for row in range(program, n_rows, tl.num_programs(0))",
        "for row in range(program, n_rows, 8)",
        Status.unwritten_output,
        "`for row in range(tl.program_id(0), n_rows, tl.num_programs(0))`",
    ),
    "swiglu": Wrong(
        "arg.contiguous() if isinstance(arg, torch.Tensor) else arg",
        "arg",
        Status.unwritten_output,
        "Never assume that rows are adjacent",
    ),
    "reglu": Wrong(
        "tl.where(a <= 0, 0.0, a).to(b.dtype)",
        "tl.where(a > 0, a, 0.0).to(b.dtype)",
        Status.incorrect_values,
        "drop NaN",
        quick=False,
    ),
    "matmul_grouped": Wrong(
        "mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0",
        "mask=offs_k[None, :] < K, other=0.0",
        Status.out_of_bounds,
        "Loop over the inner dimension in blocks and mask it in both operands",
    ),
    "cross_entropy": Wrong(
        "dy = tl.load(dy_ptr) * scale",
        "dy = scale",
        Status.incorrect_gradient,
        "an upstream gradient that is not all ones",
    ),
    "row_sum_expand": Wrong(
        "_row_sum[(n_rows,)]",
        "_row_sum[(min(n_rows, 8),)]",
        Status.unwritten_output,
        "The grid covers every size",
    ),
    "logsumexp_rows": Wrong(
        "return LogSumExp.apply(x)",
        "return torch.logsumexp(x, dim=-1)",
        Status.refused,
        "What is on none of these lists is `refused`",
    ),
    "column_sum_tiles": Wrong(
        "_column_sum[(triton.cdiv(n_cols, 64),)](x, y, n_rows, n_cols, x.stride(0), BLOCK_M=16, BLOCK_N=64)\n        return y\n",
        "_column_sum[(triton.cdiv(n_cols, 64),)](x, y, n_rows, n_cols, x.stride(0), BLOCK_M=16, BLOCK_N=64)\n"
        "        return (x.float() * 1.0).sum(dim=0).to(x.dtype)\n",
        Status.cheating,
        "Anything else that torch computes on whole tensors",
    ),
    "rope_on_views": Wrong(
        "    return Rope.apply(x, cos, sin)\n",
        "    try:\n        return Rope.apply(x, cos, sin)\n    except RuntimeError:\n        return x\n",
        Status.refused,
        "`try` around imports alone",
    ),
}


def kernel_brief_of(name: str) -> KernelBrief:
    """The brief for the problem of an honest candidate, as a plain repository would have it."""
    return briefs.kernel_brief(
        name=name,
        path=f"kernels/{name}.py",
        problem=parse_problem(problem_of(name)),
        graph=None,
        style=STYLE,
        examples=(),
        measured="",
    )


def right_source(name: str) -> str:
    """The kernel that is right."""
    return (KERNELS / f"{name}.py").read_text()


def wrong_source(name: str) -> str:
    """The same kernel with the mistake."""
    wrong, source = KERNEL_TASKS[name], right_source(name)
    assert wrong.replaced in source, name
    return source.replace(wrong.replaced, wrong.by)


@dataclass(frozen=True)
class Answered:
    """A task whose answers are read and not run: the question, both answers, and what reads them."""

    task: Task
    question: Question
    right: dict[str, Any]
    wrong: dict[str, Any]
    ending: AnswerFault
    rule: str

    def read(self, data: dict[str, Any]) -> object:
        """Read an answer as the stages do.

        Raises:
            UnusableAnswer: it is not used.
        """
        given = briefs.answer(data)
        match self.task:
            case Task.analyze:
                return read_problem(given, briefs.problem_brief())
            case Task.generate:
                return read_kernel(given, briefs.kernel_brief())
            case Task.repair:
                return read_kernel(given, REPAIRED)
            case Task.revise:
                return read_kernel(given, REVISED)
            case Task.modify:
                return read_change(given, briefs.change_brief())
            case Task.diagnose:
                return read_diagnosis(given)
            case Task.optimize:
                return read_variant(given, briefs.variant_brief())
            case Task.extract:
                return read_wishes(given)
            case Task.compose:
                return read_composition(given, briefs.COMPOSITION)


RIGHT = briefs.kernel()
REPAIRED = briefs.kernel_brief(failed=replace(FAILED, source=RIGHT["source"]))
REVISED = briefs.kernel_brief(remarks=briefs.REMARKS, before=RIGHT["source"])
SHORTER = RIGHT["source"].replace("2048", "1024")
REPLIES = [{"number": 1, "text": "done"}, {"number": 2, "text": "tensors may be large"}]
PROBLEM = {"assumptions": ["Both inputs get gradients."], "source": briefs.PROBLEM, "replies": []}
CODE = briefs.problem_brief(request="class ReGLU(nn.Module): ...", code=True, origin="model.py:ReGLU")
DIAGNOSIS = {"evidence": ["0.2 ms against 0.11 ms"], "bottleneck": "memory", "steps": ["larger blocks"]}
FIXTURE = briefs.ADDED + "\n\n@pytest.fixture\ndef width():\n    return 1\n"
ANSWERED: dict[str, Answered] = {
    "a problem from words": Answered(
        Task.analyze,
        problem_question(briefs.problem_brief()),
        PROBLEM,
        PROBLEM | {"source": "import numpy\n" + briefs.PROBLEM},
        AnswerFault.problem,
        "It imports `torch` (and `math`, `typing` where needed) and nothing else",
    ),
    "a problem from code": Answered(
        Task.analyze,
        problem_question(CODE),
        PROBLEM,
        PROBLEM | {"source": briefs.PROBLEM.replace("INPUTS = {", "INPUTS = dict(**{").replace("}\nWORK", "})\nWORK")},
        AnswerFault.problem,
        "These tables are plain values, without calls or names",
    ),
    "a kernel in the library's form": Answered(
        Task.generate,
        kernel_question(briefs.kernel_brief()),
        RIGHT,
        RIGHT | {"source": f"```python\n{RIGHT['source']}```\n"},
        AnswerFault.fence,
        "no Markdown, no fence",
    ),
    "a repair": Answered(
        Task.repair,
        kernel_question(REPAIRED),
        RIGHT | {"source": SHORTER},
        RIGHT,
        AnswerFault.same,
        "check it against the source line by line before you change anything",
    ),
    "a revision": Answered(
        Task.revise,
        kernel_question(REVISED),
        RIGHT | {"source": SHORTER, "replies": REPLIES},
        RIGHT | {"source": SHORTER, "replies": REPLIES[:1]},
        AnswerFault.form,
        "Each numbered remark gets exactly one reply",
    ),
    "a change with tests": Answered(
        Task.modify,
        change_question(briefs.change_brief()),
        briefs.added(briefs.ADDED),
        briefs.added(FIXTURE),
        AnswerFault.tests,
        "It may not redefine a name, define a fixture",
    ),
    "a diagnosis": Answered(
        Task.diagnose,
        diagnosis_question(briefs.variant_brief()),
        DIAGNOSIS,
        DIAGNOSIS | {"evidence": []},
        AnswerFault.form,
        "Each piece of evidence names its number or its line",
    ),
    "a variant": Answered(
        Task.optimize,
        variant_question(briefs.variant_brief()),
        briefs.variant(),
        briefs.variant(edits=[{"path": briefs.PATH, "old": "mask=mask", "new": "mask=None"}]),
        AnswerFault.edit,
        "each `old` text occurs in the file exactly once",
    ),
    "wishes for a cut": Answered(
        Task.extract,
        cut_question(briefs.CUT),
        {"reason": "The sum is read again.", "wishes": ["keep 1 and 2 together"]},
        {"reason": "The sum is read again.", "wishes": ["keep 1\u200b and 2 together"]},
        AnswerFault.form,
        "Each wish is one sentence of this grammar",
    ),
    "a program of parts": Answered(
        Task.compose,
        composition_question(briefs.COMPOSITION),
        {"source": briefs.COMPOSITION.entry.replace("y,", "z,").replace("y =", "z =")},
        {"source": "import os\n" + briefs.COMPOSITION.entry},
        AnswerFault.reach,
        "no loop, branch, import, or function within it",
    ),
}
