from tests.workers.layouts.standing import LIGER, PLAIN, liger, plain, with_file
from workers.layouts.protocol import ExistingKernel
from workers.tree import Tree

PATH = "src/liger_kernel/ops/reglu.py"


def _standing(tree: Tree) -> ExistingKernel:
    return LIGER.locate("reglu", tree)


def test_a_section_has_names_of_its_own_and_no_class() -> None:
    style = LIGER.section_style(_standing(liger()), liger())
    assert style.section and style.prefix == "_fast_reglu_"
    assert (style.forward_function, style.backward_function) == ("_fast_reglu_forward", "_fast_reglu_backward")
    assert (style.line_length, style.single_line_imports, style.entry) == (120, True, None)


def test_a_second_section_in_the_same_file_has_other_names() -> None:
    tree = with_file(liger(), PATH, (liger().read(PATH) or "") + "\n\ndef _fast_reglu_forward(a):\n    return a\n")
    style = LIGER.section_style(_standing(tree), tree)
    assert (style.prefix, style.forward_function) == ("_fast2_reglu_", "_fast2_reglu_forward")


def test_helpers_are_taken_from_where_the_file_takes_them() -> None:
    moved = (liger().read(PATH) or "").replace("ops.utils import calculate", "ops.launch import calculate")
    tree = with_file(liger(), PATH, moved)
    helpers = dict(LIGER.section_style(_standing(tree), tree).helpers)
    assert helpers["calculate_settings"] == "liger_kernel.ops.launch"
    assert helpers["device_context"] == "liger_kernel.ops.utils"


def test_a_small_library_has_its_own_style_and_no_helpers() -> None:
    tree = plain()
    style = PLAIN.section_style(PLAIN.locate("reglu", tree), tree)
    assert (style.prefix, style.line_length, style.helpers) == ("_fast_reglu_", 88, ())
