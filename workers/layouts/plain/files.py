"""The files of a new kernel in a small library, and where it keeps them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpu_runner.contracts.reading import language_of
from workers.layouts.dimensions import assignments, axes_of, local
from workers.layouts.module_form import ModuleForm, module_form
from workers.layouts.naming import source_of
from workers.layouts.protocol import Design
from workers.layouts.python_source import Import, block, call, indented, listing, literal
from workers.layouts.reference import opening, reference_of, tables_source
from workers.layouts.suite import Words, suite_of
from workers.tree import Tree

KERNEL = re.compile(r"^@triton\.jit|^@triton\.autotune|^import triton\b|^@ct\.kernel|^@cute\.kernel", re.MULTILINE)
ELSEWHERE = frozenset(
    {"test", "tests", "bench", "benchmark", "benchmarks", "doc", "docs", "example", "examples", "scripts"}
)


@dataclass(frozen=True)
class LibraryFolders:
    """Folders of a library; ``root`` is on ``sys.path``, ``package`` is the kernels' dotted name below it."""

    kernels: str
    root: str
    package: str
    tests: str
    benchmarks: str

    def module(self, name: str) -> str:
        """The import name of a kernel's module."""
        return f"{self.package}.{name}"


def kernel_folders(tree: Tree) -> tuple[str, ...]:
    """The folders with Triton kernels; tests and the like, and fused models, are left out."""
    folders = dict.fromkeys(
        str(PurePosixPath(path).parent)
        for path in tree.paths(suffix=".py")
        if _is_importable(path) and not path.endswith("/composed_kernel.py") and KERNEL.search(tree.read(path) or "")
    )
    return tuple(folders)


def home_of(tree: Tree) -> LibraryFolders:
    """The folders: the one with Triton kernels where there is one, else ``kernels``."""
    folders = kernel_folders(tree)
    named = [folder for folder in folders if PurePosixPath(folder).name == "kernels"]
    kernels = folders[0] if len(folders) == 1 else named[0] if len(named) == 1 else "kernels"
    inside = PurePosixPath(kernels)
    root, package = (
        ("src", inside.parts[1:]) if inside.parts[0] == "src" and len(inside.parts) > 1 else (".", inside.parts)
    )
    tests = next((folder for folder in ("tests", "test") if tree.exists(folder)), "tests")
    benchmarks = next((folder for folder in ("benchmarks", "benchmark", "bench") if tree.exists(folder)), "benchmarks")
    return LibraryFolders(kernels, root, ".".join(package), tests, benchmarks)


def _is_importable(path: str) -> bool:
    folders = PurePosixPath(path).parts[:-1]
    return bool(folders) and all(folder.isidentifier() and folder not in ELSEWHERE for folder in folders)


SUITE_IMPORTS = (Import("pytest"), Import("torch"))
DEVICE = 'device = "cuda" if torch.cuda.is_available() else "cpu"'
INTERPRETED = "# Without a GPU the kernels run in Triton's interpreter: set TRITON_INTERPRET=1.\n"
NEEDS_BFLOAT16 = '\nneeds_bfloat16 = pytest.mark.skipif(device == "cpu", reason="bfloat16 needs a GPU")'
ASSERT_MATCHES = '''\
def assert_matches(expected, actual, eager, atol, rtol, extra_info):
    """Compare with atol relative to the largest value: a small scale counts too."""
{exact}\
    atol *= max(expected.abs().max().item(), 1e-6)
{rounded}\
    torch.testing.assert_close(
        actual,
        expected,
        atol=atol,
        rtol=rtol,
        msg=lambda text: f"{extra_info} {text}",
    )'''
DIFFERENTIABLE = """\
def differentiable(outputs):
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return [output for output in outputs if output.requires_grad]"""


def lacks_interpreter(design: Design) -> bool:
    """Whether a kernel is one of a language that has no interpreter of its own."""
    return language_of([design.source or ""]) != "Triton"


def kernel_source(design: Design) -> str:
    """The kernel's module: the proved source, then the functional form and the nn.Module around it."""
    form = _form(design)
    target = f"{design.names.function}.apply"
    function = form.function_source(design.names.functional or "", target)
    module = form.class_source(design.names.module or "", target, "torch.nn", title=design.problem.title)
    return f"{source_of(design)}\n\n{function}\n\n\n{module}\n"


def suite_source(
    design: Design, home: LibraryFolders, single_line: bool, width: int, imported: Import | None = None
) -> str:
    """The whole test file, with the problem in it unless the reference is ``imported``."""
    reference_class = f"Torch{design.names.module}"
    suite = suite_of(design, Words("kernel", reference_class, "needs_bfloat16"))
    imports, code = _reference(design, imported)
    names = [Import(home.module(design.name), name) for name in (design.names.functional, design.names.module)]
    sections = [
        opening(design) + _header((*imports, *SUITE_IMPORTS, *names), home, single_line),
        ("" if lacks_interpreter(design) else INTERPRETED)
        + DEVICE
        + (NEEDS_BFLOAT16 if "bfloat16" in suite.dtypes else ""),
        *code,
        *([f"\n{tables_source(design, width)}"] if imported is None else []),
        f"\n{suite.form.class_source(reference_class, 'reference', 'torch.nn')}",
        f"\n{suite.inputs_function()}",
        f"\n{suite.comparison(ASSERT_MATCHES)}",
        f"\n{suite.module_test()}",
        f"\n{suite.functional_test()}",
        *(f"\n{test}" for test in suite.further_tests()),
    ]
    return "\n\n".join(sections) + "\n"


def script_source(design: Design, home: LibraryFolders, single_line: bool, imported: Import | None = None) -> str:
    """The benchmark script: the kernel against the reference, eager and compiled, on the problem's workloads."""
    form, (imports, code) = _form(design), _reference(design, imported)
    names = (Import("torch"), Import("triton.testing"), Import(home.module(design.name), design.names.functional))
    sections = [
        _header((*imports, *names), home, single_line),
        listing("WORKLOADS = ", _workloads(design, form)),
        *code,
        f"\n{_make_inputs(design, form)}",
        f"\n{_measure(form)}",
        f"\n{_main(design)}",
    ]
    return "\n\n".join(sections) + "\n"


def _reference(design: Design, imported: Import | None) -> tuple[tuple[Import, ...], list[str]]:
    if imported is not None:
        return (imported,), []
    reference = reference_of(design.problem)
    return reference.imports, [f"\n{reference.code}"]


def _form(design: Design) -> ModuleForm:
    return module_form(design.problem, axes_of(design.problem))


def _header(imports: tuple[Import, ...], home: LibraryFolders, single_line: bool) -> str:
    return block(imports, frozenset({home.package.split(".")[0]}), single_line=single_line)


def _workloads(design: Design, form: ModuleForm) -> list[str]:
    rows = [{form.axes.variable(dim): size for dim, size in w.sizes} for w in design.problem.workloads]
    return ["{" + ", ".join(f"{literal(name)}: {size}" for name, size in row.items()) + "}" for row in rows]


def _make_inputs(design: Design, form: ModuleForm) -> str:
    specs = (*form.called, *form.learned)
    variables = [form.axes.variable(dim) for dim in form.axes.all]
    dtype = "bfloat16" if "bfloat16" in design.problem.dtypes else design.problem.dtypes[0]
    given = ", ".join(f'"{s.name}": {local(s.name)}' for s in specs)
    body = [
        f'device, dtype = "cuda", torch.{dtype}',
        assignments(specs, form.axes, grad=True, depth=0),
        f"return {{{given}}}",
    ]
    return call("def make_inputs", variables, ":") + "\n" + indented("\n".join(body))


def _measure(form: ModuleForm) -> str:
    samples = ", ".join(f"{name}={value}" for name, value in form.samples)
    arguments = f"**inputs, {samples}" if samples else "**inputs"
    lines = [
        '"""The median ms of forward, and of both passes or None without gradients."""',
        "leaves = list(inputs.values())",
        f'forward_ms = triton.testing.do_bench(lambda: function({arguments}), return_mode="median")',
        f"outputs = differentiable(function({arguments}))",
        "if not outputs:",
        "    return forward_ms, None",
        "gradients = [torch.randn_like(output) for output in outputs]",
        "",
        "def full():",
        f"    torch.autograd.backward(differentiable(function({arguments})), gradients)",
        "",
        'full_ms = triton.testing.do_bench(full, grad_to_none=leaves, return_mode="median")',
        "return forward_ms, full_ms",
    ]
    return f"{DIFFERENTIABLE}\n\n\ndef measure(function, inputs):\n" + indented("\n".join(lines))


def _main(design: Design) -> str:
    contenders = [
        f'"kernel": {design.names.functional}',
        '"torch": reference',
        '"torch_compile": torch.compile(reference)',
    ]
    lines = [
        'if __name__ == "__main__":',
        "    for sizes in WORKLOADS:",
        "        inputs = make_inputs(**sizes)",
        *indented("contenders = {\n" + "".join(f"    {c},\n" for c in contenders) + "}", 2).split("\n"),
        "        for name, function in contenders.items():",
        "            forward_ms, full_ms = measure(function, inputs)",
        '            full = "-" if full_ms is None else f"{full_ms:.4f}"',
        '            print(f"{sizes} {name}:")',
        '            print(f"  forward {forward_ms:.4f} ms, both passes {full} ms")',
    ]
    return "\n".join(lines)
