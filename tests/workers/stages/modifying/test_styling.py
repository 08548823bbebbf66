from __future__ import annotations

from tests.workers.stages.library import GEGLU, PATH
from tests.workers.stages.modifying.changing import TREE, modifying
from workers.authors.llm.protocol import Failed
from workers.contracts import FileChange
from workers.stages.bench import open_modify
from workers.stages.proof import UNSTYLED, Styled, styled
from workers.tree import Tree

FUNCTIONAL = "src/liger_kernel/transformers/functional.py"


def checked(*changes: FileChange, tree: Tree = TREE) -> Styled | Failed:
    context = modifying(tree=tree)
    return styled(open_modify(context), "style", changes, "a patch")


def test_a_formatter_has_its_way_with_a_change() -> None:
    found = checked(FileChange(PATH, GEGLU.replace("BLOCK_SIZE = 1024", "BLOCK_SIZE=1024")))
    assert isinstance(found, Styled)
    assert (found.changes, found.outcome.passed, found.notes) == ((FileChange(PATH, GEGLU),), True, ())


def test_a_change_that_breaks_the_rules_is_told_to_the_model() -> None:
    found = checked(FileChange(PATH, GEGLU + "\n\nx = nothing_of_that_name\n"))
    assert isinstance(found, Failed)
    assert found.status == "style"
    assert "nothing_of_that_name" in found.log


def test_a_file_that_breaks_the_rules_today_is_not_put_right_on_the_way() -> None:
    untidy = GEGLU.replace("BLOCK_SIZE = 1024", "BLOCK_SIZE=1024")
    tree = Tree({**TREE.files, FUNCTIONAL: TREE.files[FUNCTIONAL] + b"x=1\n"})
    change = FileChange(FUNCTIONAL, (tree.read(FUNCTIONAL) or "").replace("geglu(a, b)", "geglu(a, b, c=None)"))
    found = checked(change, FileChange(PATH, untidy), tree=tree)
    assert isinstance(found, Styled)
    assert found.changes == (change, FileChange(PATH, untidy))
    assert (found.outcome.passed, found.notes) == (False, (UNSTYLED,))
