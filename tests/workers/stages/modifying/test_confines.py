from __future__ import annotations

import pytest

from workers.authors.llm.protocol import AnswerFault
from workers.contracts import ChangedFile, FileChange
from workers.layouts.protocol import Changeable, Shared
from workers.stages.confines import changed_files, diff, violation, within
from workers.tree import Tree

KERNEL = "".join(f"LINE_{n} = {n}\n" for n in range(100))
FUNCTIONAL = "import torch\n\n\ndef ours(a):\n    return a\n\n\ndef theirs(a):\n    return a\n"
SUITE = "def test_a():\n    assert True\n"
TREE = Tree({"ops/k.py": KERNEL.encode(), "functional.py": FUNCTIONAL.encode(), "test_k.py": SUITE.encode()})
PLACES = Changeable(("ops/k.py",), (Shared("functional.py", ("ours",)),), ("test_k.py",))
CHANGED = FileChange("ops/k.py", KERNEL.replace("LINE_3 = 3", "LINE_3 = 4"))


def fault_of(*changes: FileChange) -> AnswerFault | None:
    found = violation(changes, PLACES, TREE)
    return None if found is None else found.fault


def test_the_kernels_files_its_functions_and_more_tests_may_be_changed() -> None:
    shared = FileChange(
        "functional.py", FUNCTIONAL.replace("ours(a):\n    return a", "ours(a, b=1):\n    return a * b")
    )
    more = FileChange("test_k.py", SUITE + "\n\ndef test_b():\n    assert True\n")
    assert fault_of(CHANGED, shared, more) is None


@pytest.mark.parametrize(
    "path", ["ops/other.py", ".github/workflows/ci.yml", "ops/../ops/k.py", "/ops/k.py", "conftest.py"]
)
def test_no_other_file_may_be_changed(path: str) -> None:
    assert fault_of(CHANGED, FileChange(path, "x = 1\n")) is AnswerFault.path


def test_no_file_may_be_removed() -> None:
    assert fault_of(FileChange("ops/k.py", None)) is AnswerFault.path


@pytest.mark.parametrize(
    "text",
    [
        FUNCTIONAL.replace("theirs(a)", "theirs(a, b=1)"),
        FUNCTIONAL.replace("import torch", "import torch, os"),
        FUNCTIONAL + "\n\ndef ours(a):\n    return 2 * a\n",
        FUNCTIONAL + "\n\ndef third(a):\n    return a\n",
        FUNCTIONAL.replace("def ours", "def mine"),
        FUNCTIONAL.replace("def ours(a):\n    return a\n", ""),
        FUNCTIONAL + "theirs = ours\n",
        FUNCTIONAL.replace("def ours(a):", "def ours(a:"),
    ],
)
def test_in_a_shared_file_only_the_kernels_own_functions_may_be_changed(text: str) -> None:
    found = violation((CHANGED, FileChange("functional.py", text)), PLACES, TREE)
    assert found is not None
    assert found.fault is AnswerFault.path
    assert "only `ours` may be changed in it" in found.sentence


def test_old_tests_stay() -> None:
    assert fault_of(CHANGED, FileChange("test_k.py", "def test_b():\n    assert True\n")) is AnswerFault.tests


def test_tests_alone_are_no_change() -> None:
    assert fault_of(FileChange("test_k.py", SUITE + "\n\ndef test_b():\n    assert True\n")) is AnswerFault.same
    assert fault_of(FileChange("ops/k.py", KERNEL)) is AnswerFault.same


def test_a_file_is_not_written_anew() -> None:
    new = "".join(f"OTHER_{n} = {n}\n" if n < 61 else f"LINE_{n} = {n}\n" for n in range(100))
    found = violation((FileChange("ops/k.py", new),), PLACES, TREE)
    assert found is not None
    assert (found.fault, "61 of 100 lines of `ops/k.py`" in found.sentence) == (AnswerFault.too_large, True)
    assert fault_of(FileChange("ops/k.py", new.replace("OTHER_60", "LINE_60"))) is None


@pytest.mark.parametrize(("lines", "fault"), [(400, None), (401, AnswerFault.too_large)])
def test_a_change_is_small(lines: int, fault: AnswerFault | None) -> None:
    more = "".join(f"MORE_{n} = {n}\n" for n in range(lines))
    assert fault_of(FileChange("ops/k.py", KERNEL + more)) is fault
    assert fault_of(CHANGED, FileChange("test_k.py", SUITE + more)) is fault


def test_a_formatter_keeps_to_the_same_places() -> None:
    assert within((CHANGED,), PLACES, TREE)
    assert not within((FileChange("functional.py", FUNCTIONAL.replace("return a", "return (a)")),), PLACES, TREE)


def test_a_change_is_shown_as_a_patch_with_its_lines_counted() -> None:
    assert changed_files((CHANGED,), TREE) == (ChangedFile("ops/k.py", 1, 1),)
    shown = diff((CHANGED, FileChange("functional.py", FUNCTIONAL.rstrip())), TREE)
    assert "-LINE_3 = 3\n+LINE_3 = 4\n" in shown
    assert shown.endswith("+    return a\n\\ No newline at end of file\n")
