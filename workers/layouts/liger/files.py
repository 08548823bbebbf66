"""The files of a new kernel in a Liger library besides its benchmark: module, tests, exports. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts import SourceError, read_source
from gpu_runner.contracts.reading import UNPARSABLE
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError
from workers.layouts.dimensions import axes_of
from workers.layouts.liger.paths import FIRST_PARTY, FUNCTIONAL, MODULE_EXPORTS, OPS_EXPORTS, PACKAGE, TESTS
from workers.layouts.module_form import module_form
from workers.layouts.protocol import Design
from workers.layouts.python_source import Import, block, read_imports, with_function, with_import, with_listed_name
from workers.layouts.reference import opening, reference_of, tables_source
from workers.layouts.ruff import line_length
from workers.layouts.suite import Suite, Words, suite_of
from workers.tree import Tree


def module_source(design: Design, function_module: str) -> str:
    """The file with the module's class; ``function_module`` is where the autograd function is imported from."""
    form = module_form(design.problem, axes_of(design.problem))
    function = design.names.function or ""
    imports = [Import("torch.nn", None, "nn"), Import(function_module, function)]
    if form.learned:
        imports.append(Import("torch"))
    header = block(tuple(imports), FIRST_PARTY)
    source = form.class_source(design.names.module or "", f"{function}.apply", title=design.problem.title)
    return f"{header}\n\n\n{source}\n"


SKIP_BFLOAT16 = 'pytest.mark.skipif(not supports_bfloat16(), reason="bfloat16 not supported on this device")'
SUITE_IMPORTS = (
    Import("pytest"),
    Import("torch"),
    Import("test.utils", "assert_verbose_allclose"),
    Import("test.utils", "set_seed"),
    Import(f"{PACKAGE}.utils", "infer_device"),
)
ASSERT_MATCHES = '''\
def assert_matches(expected, actual, eager, atol, rtol, extra_info):
    """Compare with atol relative to the largest value, so that outputs of a small scale are held to account as well."""
{exact}\
    atol *= max(expected.abs().max().item(), 1e-6)
{rounded}\
    assert expected.dtype == actual.dtype
    assert_verbose_allclose(expected, actual, rtol=rtol, atol=atol, extra_info=extra_info)'''


def torch_class(design: Design) -> str:
    """The name of the reference's module in the test file."""
    return "Torch" + (design.names.module or "").removeprefix("Liger")


def suite_source(design: Design, tree: Tree) -> str:
    """The whole test file."""
    suite = suite_of(design, Words("liger", torch_class(design), SKIP_BFLOAT16))
    reference = reference_of(design.problem)
    sections = [
        opening(design) + block((*reference.imports, *_imports(suite)), _first_party(tree)),
        "device = infer_device()\nset_seed()",
        f"\n# ---- PyTorch Reference ----\n{reference.code}",
        f"\n{tables_source(design, line_length(tree))}",
        f"\n{suite.form.class_source(torch_class(design), 'reference', 'torch.nn')}",
        f"\n# ---- Inputs and Comparison ----\n{suite.inputs_function()}",
        f"\n{suite.comparison(ASSERT_MATCHES)}",
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
        *SUITE_IMPORTS,
        *([Import("test.utils", "supports_bfloat16")] if "bfloat16" in suite.dtypes else []),
        Import(f"{PACKAGE}.transformers.functional", names.functional),
        Import(f"{PACKAGE}.transformers.{design.name}", names.module),
    )


UNUSED_IMPORT = "  # noqa: F401"


def exported(tree: Tree) -> dict[str, str]:
    """Every public name of the three exporting files, with the file that has it."""
    names: dict[str, str] = {}
    for path in (OPS_EXPORTS, MODULE_EXPORTS, FUNCTIONAL):
        source = tree.read(path) or ""
        for statement in read_imports(source):
            names.setdefault(statement.imported.bound, path)
        for name in _defined(source):
            names.setdefault(name, path)
    return names


def function_module(name: str, tree: Tree) -> str:
    """The module that the autograd function is imported from: the package, or the kernel's own if the package exports none."""
    return f"{PACKAGE}.ops" if _exports_ops(tree) else f"{PACKAGE}.ops.{name}"


EXPORTS_LENGTH = 120  # of the lines of the exporting files


def export_changes(design: Design, tree: Tree) -> tuple[FileChange, ...]:
    """The changed exporting files.

    Raises:
        UserFacingError: a file is missing or has no import to insert next to.
    """
    names = design.names
    function, module, functional = names.function or "", names.module or "", names.functional or ""
    changes: list[FileChange] = []
    if _exports_ops(tree):
        text = _source(tree, OPS_EXPORTS)
        for name in _public_names(design):
            text = _import(text, Import(f"{PACKAGE}.ops.{design.name}", name), OPS_EXPORTS)
        changes.append(FileChange(OPS_EXPORTS, text))
    text = _source(tree, MODULE_EXPORTS)
    text = _import(text, Import(f"{PACKAGE}.transformers.{design.name}", module), MODULE_EXPORTS)
    changes.append(FileChange(MODULE_EXPORTS, with_listed_name(text, module)))
    text = _import(_source(tree, FUNCTIONAL), Import(function_module(design.name, tree), function), FUNCTIONAL)
    form = module_form(design.problem, axes_of(design.problem))
    changes.append(
        FileChange(FUNCTIONAL, with_function(text, functional, form.function_source(functional, f"{function}.apply")))
    )
    return tuple(changes)


def _public_names(design: Design) -> tuple[str, ...]:
    wanted = {design.names.function, f"{design.name}_forward", f"{design.name}_backward"}
    return tuple(sorted(name for name in _defined(design.source or "") if name in wanted))


def _import(source: str, new: Import, path: str) -> str:
    comment = UNUSED_IMPORT if path.endswith("__init__.py") and UNUSED_IMPORT.strip() in source else ""
    try:
        return with_import(source, new, comment, EXPORTS_LENGTH)
    except ValueError as error:
        raise _unlike(path, f"it has no import from `{PACKAGE}` to stand beside") from error


def _source(tree: Tree, path: str) -> str:
    source = tree.read(path)
    if source is None:
        raise _unlike(path, "it is missing or no text")
    try:
        read_source(source)
    except SourceError as error:
        raise _unlike(path, str(error)) from error
    return source


def _unlike(path: str, why: str) -> UserFacingError:
    fix = "Give `--layout plain`, or bring the file back into the form of a Liger library."
    return UserFacingError(Failure(FailureCode.layout, f"`{path}` cannot be extended: {why}", fix))


def _exports_ops(tree: Tree) -> bool:
    source = tree.read(OPS_EXPORTS) or ""
    return any(s.imported.module.startswith(f"{PACKAGE}.ops.") for s in read_imports(source))


def _defined(source: str) -> set[str]:
    try:
        body = ast.parse(source).body
    except UNPARSABLE:
        return set()
    return {
        node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
