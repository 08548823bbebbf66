"""The test file of a new kernel in a Liger library: the reference, and tests of the module and of the functional form. Pure."""

from __future__ import annotations

from workers.layouts.imports import Import, block
from workers.layouts.liger.paths import FIRST_PARTY, PACKAGE
from workers.layouts.protocol import Design
from workers.layouts.reference import reference_of
from workers.layouts.suite import Words, suite_of

ASSERT_MATCHES = '''\
def assert_matches(expected, actual, atol, rtol, extra_info):
    """Compare with atol relative to the largest value, so that outputs of a small scale are held to account as well."""
    assert expected.dtype == actual.dtype
    scale = max(expected.abs().max().item(), 1e-6)
    assert_verbose_allclose(expected, actual, rtol=rtol, atol=atol * scale, extra_info=extra_info)'''


def torch_class(design: Design) -> str:
    """Give the name of the reference's module in the test file."""
    return "Torch" + (design.names.module or "").removeprefix("Liger")


def suite_source(design: Design) -> str:
    """Give the whole test file."""
    suite = suite_of(design, Words("liger", torch_class(design), "supports_bfloat16()"))
    reference = reference_of(design.problem)
    strided = suite.strided_test()
    sections = [
        block((*reference.imports, *_imports(design)), FIRST_PARTY),
        "device = infer_device()\nset_seed()",
        f"\n# ---- PyTorch Reference ----\n{reference.code}",
        f"\n{suite.form.class_source(torch_class(design), 'reference', 'torch.nn')}",
        f"\n# ---- Inputs and Comparison ----\n{suite.inputs_function()}",
        f"\n{ASSERT_MATCHES}",
        f"\n# ---- Correctness Test (Module) ----\n{suite.module_test()}",
        f"\n# ---- Functional API Test ----\n{suite.functional_test()}",
        *([] if strided is None else [f"\n{strided}"]),
    ]
    return "\n\n".join(sections) + "\n"


def _imports(design: Design) -> tuple[Import, ...]:
    names = design.names
    return (
        Import("pytest"),
        Import("torch"),
        Import("test.utils", "assert_verbose_allclose"),
        Import("test.utils", "set_seed"),
        Import("test.utils", "supports_bfloat16"),
        Import(f"{PACKAGE}.transformers.functional", names.functional),
        Import(f"{PACKAGE}.transformers.{design.name}", names.module),
        Import(f"{PACKAGE}.utils", "infer_device"),
    )
