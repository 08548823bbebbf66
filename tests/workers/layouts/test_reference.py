from gpu_runner.contracts import parse_problem
from tests.workers.layouts.designs import REGLU_PROBLEM
from tests.workers.layouts.variants import LOSS
from workers.layouts.python_source import Import
from workers.layouts.reference import reference_of


def test_the_reference_stands_as_it_was_written_without_the_tables() -> None:
    reference = reference_of(parse_problem(REGLU_PROBLEM))
    assert (
        reference.code == "def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:\n    return F.relu(a) * b"
    )
    assert reference.imports == (Import("torch"), Import("torch.nn.functional", None, "F"))


def test_helpers_and_constants_that_the_reference_needs_come_along() -> None:
    code = reference_of(parse_problem(LOSS)).code
    assert code.startswith("SMALLEST = 1e-3\n\n\ndef floor(")
    assert "INPUTS" not in code


def test_what_the_reference_does_not_need_stays_behind() -> None:
    extra = (
        REGLU_PROBLEM + "\nimport math\n\nUNUSED = 3\n\n\ndef test_other():\n    return math.pi\n\n\nprint('hello')\n"
    )
    reference = reference_of(parse_problem(extra))
    assert "UNUSED" not in reference.code and "test_other" not in reference.code and "print" not in reference.code
    assert Import("math") not in reference.imports


def test_a_comment_above_the_reference_stays_with_it() -> None:
    source = REGLU_PROBLEM.replace("def reference", "# The gate is open where a > 0.\ndef reference")
    assert reference_of(parse_problem(source)).code.startswith("# The gate is open where a > 0.\ndef reference")
