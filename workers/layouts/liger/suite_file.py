"""The test file of a new kernel in a Liger library: the reference, and tests of the module and of the functional form. Pure."""

from __future__ import annotations

from workers.layouts.comparison import exact_lines
from workers.layouts.imports import Import, block
from workers.layouts.liger.paths import FIRST_PARTY, PACKAGE, TESTS
from workers.layouts.problem_tables import opening, tables_source
from workers.layouts.protocol import Design
from workers.layouts.reference import reference_of
from workers.layouts.ruff import line_length
from workers.layouts.suite import Suite, Words, suite_of
from workers.tree import Tree

SKIP_BFLOAT16 = 'pytest.mark.skipif(not supports_bfloat16(), reason="bfloat16 not supported on this device")'
IMPORTS = (
    Import("pytest"),
    Import("torch"),
    Import("test.utils", "assert_verbose_allclose"),
    Import("test.utils", "set_seed"),
    Import(f"{PACKAGE}.utils", "infer_device"),
)
ASSERT_MATCHES = '''\
def assert_matches(expected, actual, atol, rtol, extra_info):
    """Compare with atol relative to the largest value, so that outputs of a small scale are held to account as well."""
    assert expected.dtype == actual.dtype
{exact}\
    scale = max(expected.abs().max().item(), 1e-6)
    assert_verbose_allclose(expected, actual, rtol=rtol, atol=atol * scale, extra_info=extra_info)'''


def torch_class(design: Design) -> str:
    """Give the name of the reference's module in the test file."""
    return "Torch" + (design.names.module or "").removeprefix("Liger")


def suite_source(design: Design, tree: Tree) -> str:
    """Give the whole test file."""
    suite = suite_of(design, Words("liger", torch_class(design), SKIP_BFLOAT16))
    reference = reference_of(design.problem)
    sections = [
        opening(design) + block((*reference.imports, *_imports(suite)), _first_party(tree)),
        "device = infer_device()\nset_seed()",
        f"\n# ---- PyTorch Reference ----\n{reference.code}",
        f"\n{tables_source(design, line_length(tree))}",
        f"\n{suite.form.class_source(torch_class(design), 'reference', 'torch.nn')}",
        f"\n# ---- Inputs and Comparison ----\n{suite.inputs_function()}",
        "\n" + ASSERT_MATCHES.replace("{exact}", exact_lines(design.graph)),
        f"\n# ---- Correctness Test (Module) ----\n{suite.module_test()}",
        f"\n# ---- Functional API Test ----\n{suite.functional_test()}",
        *(f"\n{test}" for test in suite.further_tests()),
    ]
    return "\n\n".join(sections) + "\n"


def _first_party(tree: Tree) -> frozenset[str]:
    # ruff takes the package that a file itself belongs to for first party.
    is_package = all(tree.exists(f"{folder}/__init__.py") for folder in ("test", TESTS))
    return FIRST_PARTY | {"test"} if is_package else FIRST_PARTY


def _imports(suite: Suite) -> tuple[Import, ...]:
    design, names = suite.design, suite.design.names
    return (
        *IMPORTS,
        *([Import("test.utils", "supports_bfloat16")] if "bfloat16" in suite.dtypes else []),
        Import(f"{PACKAGE}.transformers.functional", names.functional),
        Import(f"{PACKAGE}.transformers.{design.name}", names.module),
    )
