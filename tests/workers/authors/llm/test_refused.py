"""Answers that may not be used: each is refused with its fault and a sentence, before anything of it is run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.workers.authors.llm import briefs
from tests.workers.authors.llm.briefs import PATH, PLAN, SOURCE, TEST_PATH, added, answer, change, kernel, variant
from tests.workers.compiler.captured import captured
from workers.authors.compiler import CompilerAuthor
from workers.authors.llm import read_change, read_diagnosis, read_kernel, read_problem, read_variant
from workers.authors.llm.protocol import AnswerFault, Failed, UnusableAnswer
from workers.authors.protocol import Brief, Proposal

GOOD = kernel()["source"]
FALLBACK = """\
import torch

def reglu_forward(a, b):
    return torch.relu(a) * b

def reglu_backward(dc, a, b):
    return dc * b * (a > 0), dc * torch.relu(a)

class LigerRegluFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return reglu_forward(a, b)

    @staticmethod
    def backward(ctx, dc):
        return reglu_backward(dc, *ctx.saved_tensors)
"""
RIGHT_PROBLEM = {"source": briefs.PROBLEM, "assumptions": [], "replies": []}


def kernel_with(**changes: Any) -> Callable[[], object]:
    return lambda: read_kernel(answer(kernel(**changes)), briefs.kernel_brief())


def source_with(old: str, new: str) -> Callable[[], object]:
    assert old in GOOD
    return kernel_with(source=GOOD.replace(old, new))


def edit(path: str, old: str, new: str = "changed") -> Callable[[], object]:
    edits = [{"path": path, "old": old, "new": new}]
    return lambda: read_change(answer(change(edits=edits)), briefs.change_brief())


def adding(text: str, path: str = TEST_PATH) -> Callable[[], object]:
    return lambda: read_change(answer(added(text, path)), briefs.change_brief())


def also(text: str) -> Callable[[], object]:
    return adding(briefs.ADDED + "\n\n" + text)


def problem_with(source: str) -> Callable[[], object]:
    return lambda: read_problem(answer(RIGHT_PROBLEM | {"source": source}), briefs.problem_brief())


def variant_with(**changes: Any) -> Callable[[], object]:
    return lambda: read_variant(answer(variant(**changes)), briefs.variant_brief())


NEW_TEST = "def test_more():\n    value = torch.ones(2)\n    {line}\n    assert value.sum() == 2\n"
REFUSED: dict[str, tuple[Callable[[], object], AnswerFault, str]] = {
    # A module that is none.
    "a fence around the module": (kernel_with(source=f"```python\n{GOOD}```"), AnswerFault.fence, "Markdown"),
    "words before the module": (kernel_with(source=f"Here it is:\n\n```\n{GOOD}\n```"), AnswerFault.fence, "Markdown"),
    "half of a module": (kernel_with(source=GOOD[: GOOD.index("BLOCK_SIZE: tl")]), AnswerFault.syntax, "line"),
    "endless code": (kernel_with(source="x = 1\n" * 30_000), AnswerFault.too_large, "lines"),
    "one endless line": (kernel_with(source="x = '" + "a" * 300_000 + "'"), AnswerFault.too_large, "KiB"),
    "deep nesting": (kernel_with(source="x = " + "(" * 5_000 + ")" * 5_000), AnswerFault.syntax, "parse"),
    "a long chain": (kernel_with(source="x = a" + ".b" * 60_000), AnswerFault.syntax, "parse"),
    "signs without end": (kernel_with(source="x = " + "-" * 100_000 + "1"), AnswerFault.syntax, "parse"),
    "text that runs backwards": (source_with("offsets", "\u202eoffsets"), AnswerFault.form, "U+202E"),
    "a zero width space": (source_with("offsets", "off\u200bsets"), AnswerFault.form, "U+200B"),
    "a zero byte": (kernel_with(source=GOOD + "\0"), AnswerFault.form, "U+0000"),
    "half of a character": (kernel_with(source=GOOD + "# \ud800"), AnswerFault.form, "U+D800"),
    "another encoding": (
        kernel_with(source="# coding: utf-7\n" + GOOD),
        AnswerFault.syntax,
        "line 1: A comment declares",
    ),
    "a Cyrillic letter in a comment": (kernel_with(source=GOOD + "# the v\u0430lue\n"), AnswerFault.syntax, "letters"),
    "a Greek name": (kernel_with(source=GOOD + "\u03b1 = 1\n"), AnswerFault.syntax, "outside of ASCII"),
    "an identifier of a filler": (kernel_with(source=GOOD + "\u3164 = 1\n"), AnswerFault.syntax, "U+3164"),
    "a variation selector": (kernel_with(source=GOOD + "# a\ufe0f\n"), AnswerFault.syntax, "U+FE0F"),
    "1,500 elif": (kernel_with(source=GOOD + "if a: b\n" + "elif a: b\n" * 1500), AnswerFault.syntax, "levels deep"),
    "blanks for a module": (kernel_with(source=" \n "), AnswerFault.form, "source"),
    # A module that no layout can call, or that is no kernel.
    "a fallback to torch": (kernel_with(source=FALLBACK), AnswerFault.names, "no kernel in it"),
    "a kernel that is not launched": (
        kernel_with(source=FALLBACK + "\nimport triton\n\n@triton.jit\ndef _k(x):\n    pass\n"),
        AnswerFault.names,
        "launches none",
    ),
    "another class": (source_with("class LigerRegluFunction", "class Reglu"), AnswerFault.names, "LigerRegluFunction"),
    "another function": (
        kernel_with(source=GOOD.replace("reglu_backward(", "grad(")),
        AnswerFault.names,
        "reglu_backward",
    ),
    "no static method": (source_with("    @staticmethod\n", ""), AnswerFault.names, "static method"),
    "a parameter more": (
        source_with("forward(ctx, a, b)", "forward(ctx, a, b, mode)"),
        AnswerFault.names,
        "in this order",
    ),
    "no base class": (source_with("(torch.autograd.Function)", ""), AnswerFault.names, "autograd"),
    # A module that reaches out.
    "a process": (kernel_with(source="import subprocess\n" + GOOD), AnswerFault.reach, "subprocess"),
    "the network": (kernel_with(source="from urllib.request import urlopen\n" + GOOD), AnswerFault.reach, "urllib"),
    "another module of the library": (
        kernel_with(source="import liger_kernel.chunked\n" + GOOD),
        AnswerFault.reach,
        "liger",
    ),
    "text run as code": (source_with("return c\n", "return eval('c')\n"), AnswerFault.reach, "eval"),
    "a file": (source_with("return c\n", "return open('/etc/passwd') and c\n"), AnswerFault.reach, "open"),
    "a file by torch": (source_with("return c\n", "return torch.load('keys')\n"), AnswerFault.reach, "torch.load"),
    "torch by another name": (
        kernel_with(source="import torch as t\n" + GOOD),
        AnswerFault.reach,
        "torch by another name",
    ),
    "frames": (source_with("return c\n", "return c.__class__.__subclasses__()\n"), AnswerFault.reach, "__"),
    # What does not fit the form or the brief.
    "no data": (lambda: read_kernel(answer(None), briefs.kernel_brief()), AnswerFault.form, "give_kernel"),
    "a field more": (kernel_with(commands=["rm -rf /"]), AnswerFault.form, "does not have"),
    "no plan": (
        lambda: read_kernel(answer({"source": GOOD, "replies": []}), briefs.kernel_brief()),
        AnswerFault.form,
        "plan",
    ),
    "a tier of nine": (kernel_with(plan=PLAN | {"tier": 9}), AnswerFault.form, "tier"),
    "a count without end": (kernel_with(plan=PLAN | {"forward_bytes": "9**" * 400}), AnswerFault.form, "forward_bytes"),
    "a reply to nobody": (kernel_with(replies=[{"number": 7, "text": "done"}]), AnswerFault.form, "remark 7"),
    "a remark without a reply": (
        lambda: read_kernel(
            answer(kernel(replies=[{"number": 2, "text": "done"}])), briefs.kernel_brief(remarks=briefs.REMARKS)
        ),
        AnswerFault.form,
        "remark 1",
    ),
    "two replies to one remark": (
        lambda: read_kernel(
            answer(kernel(replies=[{"number": n, "text": "done"} for n in (1, 2, 2)])),
            briefs.kernel_brief(remarks=briefs.REMARKS),
        ),
        AnswerFault.form,
        "more than one",
    ),
    "the failed module again": (
        lambda: read_kernel(answer(kernel()), briefs.kernel_brief(failed=Failed(GOOD, "incorrect_values", "no"))),
        AnswerFault.same,
        "unchanged",
    ),
    # Files that are none of its business.
    "a way out of the tree": (edit("../../etc/passwd", "root"), AnswerFault.path, "none of the files"),
    "an absolute path": (edit("/etc/passwd", "root"), AnswerFault.path, "none of the files"),
    "a workflow": (edit(".github/workflows/ci.yml", "on:"), AnswerFault.path, "none of the files"),
    "the project's file": (edit("pyproject.toml", "[project]"), AnswerFault.path, "none of the files"),
    "a path written otherwise": (edit(f"./{PATH}", "import torch"), AnswerFault.path, "none of the files"),
    "a standing test": (edit(TEST_PATH, "(2, 8), (3, 129)", "(2, 8)"), AnswerFault.tests, "never edited"),
    "a standing test by another way": (
        edit(f"test/./transformers/{TEST_PATH[18:]}", "(3, 129)"),
        AnswerFault.tests,
        "never",
    ),
    "tests in a workflow": (adding(briefs.ADDED, ".github/workflows/ci.yml"), AnswerFault.path, "none of"),
    "tests in the kernel": (adding(briefs.ADDED, PATH), AnswerFault.path, "no test file"),
    "tests in a conftest": (adding(briefs.ADDED, "test/conftest.py"), AnswerFault.path, "none of the files"),
    # Edits.
    "an edit of nothing": (edit(PATH, "there is no such line"), AnswerFault.edit, "not there"),
    "an edit of two places": (edit(PATH, "mask = offsets < n_elements"), AnswerFault.edit, "more than once"),
    "an edit that changes nothing": (edit(PATH, "import triton\n", "import triton\n"), AnswerFault.same, "same text"),
    "no edit": (
        lambda: read_change(answer(change(edits=[])), briefs.change_brief()),
        AnswerFault.same,
        "changes nothing",
    ),
    "an edit that breaks the file": (
        edit(PATH, "def reglu_forward(a, b):", "def reglu_forward(a, b"),
        AnswerFault.syntax,
        "parse",
    ),
    "an edit with a fence": (edit(PATH, "import torch\n", "```python\nimport torch\n"), AnswerFault.fence, "Markdown"),
    "an edit that imports": (edit(PATH, "import torch\n", "import os\nimport torch\n"), AnswerFault.reach, "`os`"),
    "an edit that drops a function": (
        edit(PATH, "def reglu_forward(", "def other_forward("),
        AnswerFault.names,
        "reglu_forward",
    ),
    # Tests that stand, weakened by what is added.
    "a test again": (also("def test_values():\n    assert CASES\n"), AnswerFault.tests, "again"),
    "a fixture again": (also("@pytest.fixture\ndef scale():\n    return 0.0\n"), AnswerFault.tests, "again"),
    "a fixture for all": (
        also("@pytest.fixture(autouse=True)\ndef zero():\n    return 0\n"),
        AnswerFault.tests,
        "decorator",
    ),
    "the reference again": (also("def reference(a, b):\n    return a\n"), AnswerFault.tests, "again"),
    "the reference imported": (also("from math import prod as reference\n"), AnswerFault.tests, "again"),
    "a built-in again": (also("def abs(value):\n    return 0\n"), AnswerFault.tests, "something else"),
    "a skipped file": (also("pytest.skip('later', allow_module_level=True)\n"), AnswerFault.tests, "no import"),
    "marks for the file": (also("pytestmark = pytest.mark.slow\n"), AnswerFault.tests, "looks up"),
    "a hook": (also("def pytest_collection_modifyitems(items):\n    assert items\n"), AnswerFault.tests, "looks up"),
    "a set-up": (also("def setup_module(module):\n    assert module\n"), AnswerFault.tests, "looks up"),
    "a patch of torch": (adding(NEW_TEST.format(line="torch.testing.assert_close = print")), AnswerFault.tests, "set"),
    "a patch of the kernel": (
        adding(NEW_TEST.format(line="LigerRegluFunction.apply = reference")),
        AnswerFault.tests,
        "set",
    ),
    "a patch by a fixture": (
        adding("def test_more(monkeypatch):\n    assert monkeypatch is not None\n"),
        AnswerFault.tests,
        "monkeypatch",
    ),
    "a patch by a name": (adding(NEW_TEST.format(line="setattr(value, 'grad', 1)")), AnswerFault.tests, "setattr"),
    "an emptied table": (adding(NEW_TEST.format(line="CASES.clear()")), AnswerFault.tests, "CASES"),
    "a table with other cases": (also("CASES[:] = []\n"), AnswerFault.tests, "CASES"),
    "a table emptied while importing": (
        also("SHORT = CASES\n\n\n@pytest.mark.parametrize('x', SHORT.clear() or [1])\ndef test_x(x):\n    assert x\n"),
        AnswerFault.tests,
        "imported",
    ),
    "a table changed by a target": (
        also("SHORT = CASES\nNONE = [0 for SHORT[0] in [(1, 1)]]\n"),
        AnswerFault.tests,
        "while it is imported",
    ),
    "a table changed by a name of a case": (
        also(
            "def short(value):\n    cases = CASES\n    cases[0] = (1, 1)\n\n\n"
            "@pytest.mark.parametrize('x', [1], ids=short)\ndef test_x(x):\n    assert x\n"
        ),
        AnswerFault.tests,
        "while it is imported",
    ),
    "a table changed by a class that is made": (
        also("class Base:\n    def __init_subclass__(cls):\n        cases = CASES\n        cases[0] = (1, 1)\n"),
        AnswerFault.tests,
        "by itself",
    ),
    "a test that expects to fail": (
        adding("@pytest.mark.xfail\ndef test_more():\n    value = torch.ones(2)\n    assert value is None\n"),
        AnswerFault.tests,
        "xfail",
    ),
    "a test that is always skipped": (
        adding("@pytest.mark.skipif(True, reason='x')\ndef test_more():\n    value = 1\n    assert value\n"),
        AnswerFault.tests,
        "skipped",
    ),
    "a test that asserts nothing": (
        adding("def test_more():\n    torch.ones(2)\n"),
        AnswerFault.tests,
        "asserts nothing",
    ),
    "a test that asserts the truth": (
        adding("def test_more():\n    assert True\n"),
        AnswerFault.tests,
        "asserts nothing",
    ),
    "no test": (adding("NUMBER = 3\n"), AnswerFault.tests, "no test"),
    "another default": (
        adding(NEW_TEST.format(line="torch.set_default_dtype(torch.half)")),
        AnswerFault.tests,
        "after them",
    ),
    "a module of its own": (also("import os\n"), AnswerFault.tests, "`os`"),
    "an import in a test": (adding(NEW_TEST.format(line="import os")), AnswerFault.tests, "within a function"),
    "a global": (adding(NEW_TEST.format(line="global CASES; CASES = []")), AnswerFault.tests, "statement"),
    "skip by another name": (also("from pytest import skip as later\n"), AnswerFault.tests, "skip"),
    "two statements in a line": (also("from math import pi; LESS = 1\n"), AnswerFault.tests, "share a line"),
    "added tests with a fence": (adding(f"```python\n{briefs.ADDED}```"), AnswerFault.fence, "Markdown"),
    # Problems.
    "a problem that imports": (problem_with("import os\n" + briefs.PROBLEM), AnswerFault.problem, "imports `os`"),
    "a problem without a reference": (problem_with("import torch\n"), AnswerFault.problem, "reference"),
    "a problem with an odd table": (
        problem_with(briefs.PROBLEM + "MUTATES = [[1]]\n"),
        AnswerFault.problem,
        "tables",
    ),
    "a problem that reads": (
        problem_with(briefs.PROBLEM.replace("return F.relu", "torch.load('x')\n    return F.relu")),
        AnswerFault.reach,
        "torch.load",
    ),
    "a model for a problem": (
        problem_with(
            "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n\n\ndef get_inputs():\n    return []\n\n\n"
            "def get_init_inputs():\n    return []\n"
        ),
        AnswerFault.problem,
        "def reference",
    ),
    "a fenced problem": (problem_with(f"```\n{briefs.PROBLEM}\n```"), AnswerFault.fence, "Markdown"),
    "a change with a wrong problem": (
        lambda: read_change(answer(change(problem="import os\n")), briefs.change_brief()),
        AnswerFault.problem,
        "os",
    ),
    # Variants.
    "a variant that changes nothing": (variant_with(source=SOURCE, edits=[]), AnswerFault.same, "nothing"),
    "a variant in both forms": (variant_with(source=SOURCE + "\n# x\n"), AnswerFault.form, "one of the two"),
    "a variant in no form": (variant_with(edits=[]), AnswerFault.form, "one of the two"),
    "a variant of another file": (
        variant_with(edits=[{"path": TEST_PATH, "old": "CASES", "new": "x"}]),
        AnswerFault.path,
        "none of the files",
    ),
    "a variant without a kernel": (
        variant_with(source=FALLBACK + "\n\ndef candidate(a, b):\n    return a\n", edits=[]),
        AnswerFault.names,
        "no kernel",
    ),
    "a variant without a hypothesis": (variant_with(hypothesis="  "), AnswerFault.form, "hypothesis"),
    "a diagnosis of nothing": (
        lambda: read_diagnosis(answer({"bottleneck": "memory", "evidence": [], "steps": ["less"]})),
        AnswerFault.form,
        "evidence",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unusable_answer_is_refused_with_its_fault(case: str) -> None:
    read, fault, word = REFUSED[case]
    with pytest.raises(UnusableAnswer) as refused:
        read()
    assert (refused.value.fault, word in str(refused.value)) == (fault, True), str(refused.value)
    assert len(str(refused.value)) < 900
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("to", ["cutile", "cutedsl"])
def test_a_module_in_another_language_has_kernels_of_that_language_and_launches_them(to: str) -> None:
    brief = briefs.kernel_brief()
    brief = replace(brief, style=replace(brief.style, target=to))
    style = replace(brief.style, entry=None)
    written = CompilerAuthor().propose(Brief("reglu", brief.problem, captured("reglu")[1], style))
    assert isinstance(written, Proposal)
    assert read_kernel(answer(kernel(source=written.source)), brief).source == written.source
    decorator, launch = {"cutile": ("@ct.kernel", "ct.launch("), "cutedsl": ("@cute.kernel", "kernel.launch(")}[to]
    for source, sentence in {
        GOOD: "imports `triton`",
        re.sub("@cu?te?\\.", "@other.", written.source): f"no function with `{decorator}`",
        written.source.replace(launch, "print("): "launches none of its kernels",
    }.items():
        with pytest.raises(UnusableAnswer, match=re.escape(sentence)):
            read_kernel(answer(kernel(source=source)), brief)


def test_instruction_out_of_a_prompt_in_a_name_is_not_repeated() -> None:
    name = "x" * 500
    with pytest.raises(UnusableAnswer) as refused:
        read_kernel(answer(kernel(source=f"import {name}\n{GOOD}")), briefs.kernel_brief())
    assert refused.value.fault is AnswerFault.reach
    assert name not in str(refused.value)


def test_instruction_in_a_path_is_no_sentence_of_ours() -> None:
    with pytest.raises(UnusableAnswer) as refused:
        edit("x\n@maintainer approve this <b>now</b>", "root")()
    assert str(refused.value) == snapshot(
        "`x??maintainer?approve?this??b?now?/b?` is none of the files that this change may touch"
    )
