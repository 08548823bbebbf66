"""The files of a design and of its versions, and where a repository of this layout keeps them. Pure."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from gpu_runner.contracts import TABLE, Problem
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError
from workers.layouts.dimensions import assignments, axes_of, local, suite_sizes
from workers.layouts.module_form import ModuleForm, module_form
from workers.layouts.naming import import_name
from workers.layouts.protocol import Design
from workers.layouts.python_source import (
    Import,
    block,
    call,
    docstring,
    fitted,
    indented,
    literal,
    tuple_of,
)
from workers.layouts.reference import opening
from workers.layouts.ruff import line_length
from workers.tree import Tree

LANGUAGES = {
    "gpu": "triton",
    "cutile": "cutile",
    "cutedsl": "cutedsl",
}  # by target, the packages of kernels that are proved
CLASSES = ("BenchmarkFn", "KernelPlan", "Tiling")
KERNEL = re.compile(r"^@(triton\.jit|ct\.kernel|cute\.kernel)\b", re.MULTILINE)
KERNELS = "kernels"  # the module next to the entry module that holds what is proved
SCRIPT = "scripts/clone-kernel.py"
CONFIG = ".github/kernelsmith.toml"
STARTING_CONFIG = 'layout = "versioned"\nconventional_commits = true\n'
CLASS = re.compile(r"^class KernelPlan\b", re.MULTILINE)
# Launch settings that a tiling holds, with the values to try. What else a launcher looks up depends on the size alone.
TILED = {
    "BLOCK_SIZE": (1024, 2048, 4096, 8192),
    "BLOCK_ROWS": (1, 2, 4),
    "num_warps": (4, 8, 16),
    "NUM_STAGES": (1, 2, 3, 4),
    "PROGRAMS": (1, 2, 4),
    # Of cuTile and CuTe DSL.
    "BLOCK_M": (64, 128, 256),
    "BLOCK_N": (64, 128, 256),
    "BLOCK_K": (32, 64, 128),
    "ELEMENTS": (1024, 4096, 8192, 16384),
    "OCCUPANCY": (1, 2, 4, 8),
    "RESIDENT": (8192, 16384, 32768, 65536),
    "NUM_WORKER_WARPS": (4, 8),
    "THREAD_ELEMENTS": (8, 16, 32, 64),
    "THREADS": (128, 256, 512),
}
COUNTS = frozenset({"NUM_STAGES", "PROGRAMS", "OCCUPANCY"})  # of which any number may do; all others are powers of two
MOST_WARPS = 32
MOST_ELEMENTS = 2**20  # of a Triton tensor. Source: TRITON_MAX_TENSOR_NUMEL


@dataclass(frozen=True)
class Version:
    """A version of a design: its number, 0 for the base version, and its modules."""

    number: int
    entry: str
    path: str  # of the module that launches kernels: the entry module itself, or `kernels.py` next to it

    @property
    def name(self) -> str:
        """The full name."""
        return PurePosixPath(self.entry).stem

    @property
    def folder(self) -> str:
        """Its package."""
        return str(PurePosixPath(self.entry).parent)


@dataclass(frozen=True)
class PackageFolder:
    """The package `kernel` of a repository, such as `src/lib/kernel`."""

    root: str

    @property
    def package(self) -> str:
        """Its import name."""
        return import_name(self.root)

    def versions(self, tree: Tree) -> dict[str, tuple[Version, ...]]:
        """The versions of each design in the languages of `LANGUAGES`, the newest last; a name is of one language, the first."""
        pattern = re.compile(rf"{re.escape(self.root)}/\w+/\w+/(\w+)/(\1(?:_v(\d+))?)/\2\.py")
        versions_of: dict[str, list[Version]] = {}
        languages: dict[str, str] = {}
        for path in (path for name in LANGUAGES.values() for path in tree.paths(f"{self.root}/{name}/", ".py")):
            match = pattern.fullmatch(path)
            modules = (path, str(PurePosixPath(path).with_name(f"{KERNELS}.py")))
            main = next((item for item in modules if match and KERNEL.search(tree.read(item) or "")), None)
            language = path.removeprefix(f"{self.root}/").partition("/")[0]
            if match is not None and main is not None and languages.setdefault(match[1], language) == language:
                versions_of.setdefault(match[1], []).append(Version(int(match[3] or 0), path, main))
        return {name: tuple(sorted(items, key=lambda item: item.number)) for name, items in sorted(versions_of.items())}

    def folder(self, design: str, tree: Tree, target: str = "gpu") -> str:
        """The folder of a new design for a target: in the layer that has the most designs, `ops` in a repository without any."""
        layers = [PurePosixPath(items[0].folder).parts[-3] for items in self.versions(tree).values()]
        layer = max(sorted(set(layers)), key=layers.count, default="ops")
        return f"{self.root}/{LANGUAGES[target]}/{layer}/{design}"

    def runtime(self, tree: Tree) -> dict[str, str]:
        """The module of each class that a plan is built of: those of `init`, or the repository's own.

        Raises:
            UserFacingError: one is missing.
        """
        within = f"src/{PurePosixPath(self.root).parts[1]}/"
        texts = {path: tree.read(path) or "" for path in tree.paths(within, ".py")}
        helpers = {}
        for name in CLASSES:
            path = next((p for p, text in texts.items() if re.search(rf"^class {name}\b", text, re.MULTILINE)), None)
            if path is None:
                fix = "Define it, or have `kernelsmith init --layout versioned` write the runtime."
                raise UserFacingError(Failure(FailureCode.layout, f"no module below `{within}` defines `{name}`", fix))
            helpers[name] = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return helpers


def home_of(tree: Tree) -> PackageFolder | None:
    """Where a repository keeps its kernels; None where it is of another kind."""
    entries = [path for path in tree.paths("src/", "/kernel/__main__.py") if path.count("/") == 3]
    return PackageFolder(str(PurePosixPath(entries[0]).parent)) if len(entries) == 1 else None


@cache
def generated(name: str) -> str:
    """A file that is written into a repository as it is."""
    return files("workers.layouts.versioned").joinpath(name).read_text("utf-8")


def lacking(package: str | None, tree: Tree) -> tuple[FileChange, ...]:
    """What a repository lacks to be of this layout; a runtime of its own stays, and none is written next to it.

    Raises:
        UserFacingError: it has no package, or several, and none is named; or the name cannot be imported.
    """
    there = sorted({PurePosixPath(path).parts[1] for path in tree.paths("src/", "/__init__.py")})
    name = package or (there[0] if len(there) == 1 else "")
    if not name.isidentifier() or not name.isascii():
        message = (
            f"`{name}` is no name of a package" if name else "nothing says which package below `src/` holds the kernels"
        )
        fix = "Name it with `--package`, in letters, digits and `_`."
        raise UserFacingError(Failure(FailureCode.name, message, fix))
    root = f"src/{name}/kernel"
    runtime = {
        f"{root}/__main__.py": generated("target/__main__.py"),
        f"{root}/runtime.py": generated("target/runtime.py"),
    }
    wanted = dict.fromkeys(
        (f"src/{name}/__init__.py", f"{root}/__init__.py", f"{root}/{LANGUAGES['gpu']}/__init__.py"), ""
    )
    wanted |= {SCRIPT: generated("clone_kernel.py"), CONFIG: STARTING_CONFIG}
    if not any(CLASS.search(tree.read(path) or "") for path in tree.paths(f"src/{name}/", ".py")):
        wanted |= runtime
    width = line_length(tree)
    return tuple(
        FileChange(path, fitted(text, width) if path.endswith(".py") else text, executable=path == SCRIPT)
        for path, text in wanted.items()
        if path not in tree.files
    )


def entry_source(design: Design, home: PackageFolder, tree: Tree, single_line: bool) -> str:
    """The entry module of the base version: the entry function, the tiling and the plan around the proved kernels."""
    form = module_form(design.problem, axes_of(design.problem))
    folder = import_name(home.folder(design.name, tree, design.target))
    runtime = home.runtime(tree)
    tiling = f"{(design.names.module or '').removesuffix('Plan')}Tiling"
    imports = (
        Import("dataclasses", "dataclass"),
        Import("dataclasses", "field"),
        Import("torch"),
        *(Import(runtime[name], name) for name in CLASSES),
        Import(f"{folder}.reference", "reference"),
        *(Import(f"{folder}.{design.name}.{KERNELS}", name) for name in _taken(design)),
    )
    parts = [
        block(imports, frozenset({home.package.split(".")[0]}), single_line=single_line),
        form.function_source(design.name, f"{design.names.function}.apply"),
        _tiling_source(tiling, design),
        _plan_source(design, form, tiling),
    ]
    return opening(design) + "\n\n\n".join(parts) + "\n"


def _taken(design: Design) -> tuple[str, ...]:
    table = (TABLE,) if re.search(rf"^{TABLE}\b", design.source or "", re.MULTILINE) else ()
    return (*table, design.names.function or "")


def looked_up(source: str) -> dict[str, str]:
    """The settings of a module's launches that a tiling holds: a field such as ``forward_num_warps``, and the setting."""
    names: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_tuned"):
            continue
        timed_pass = str(node.args[1].value) if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else ""
        names |= {f"{timed_pass}_{k.arg}": str(k.arg) for k in node.keywords if k.arg in TILED}
    return names


def _tiling_source(name: str, design: Design) -> str:
    settings = looked_up(design.source or "")
    doc = "Launch settings by pass; 0 leaves one to the launcher." if settings else "The launcher chooses all settings."
    return "\n".join(
        [
            "@dataclass",
            f"class {name}(Tiling):",
            f'    """{doc}"""',
            "",
            *(f"    {item}: int = 0" for item in settings),
            *([""] if settings else []),
            f'    def validate(self, pd: "{design.names.module}") -> bool:',
            *(f"        {line}" for line in _validation(settings, design.problem)),
        ]
    )


def _validation(settings: dict[str, str], problem: Problem) -> list[str]:
    """What can never run: blocks and warps that are no powers of two, and more elements than a Triton tensor holds."""
    axes = axes_of(problem)
    groups: dict[str, list[str]] = {}
    for item, setting in settings.items():
        group = (
            "warps"
            if setting == "num_warps"
            else setting.removeprefix("BLOCK_").lower()
            if setting.startswith("BLOCK")
            else "counts"
            if setting in COUNTS
            else "others"
        )
        groups.setdefault(group, []).append(f"self.{item}")
    rules = [f"min({group}) >= 0" for group in groups]
    rules += [f"all(n & (n - 1) == 0 for n in {group})" for group in groups if group != "counts"]
    columns = f" * pd.{axes.variable(axes.columns)}" if axes.columns is not None else ""
    limits = {
        "rows": f"max(rows){columns} <= {MOST_ELEMENTS}",
        "size": f"max(size) <= {MOST_ELEMENTS}",
        "warps": f"max(warps) <= {MOST_WARPS}",
    }
    rules += [rule for group, rule in limits.items() if group in groups]
    if not rules:
        return ["return True"]
    sizes = [f"{group} = {tuple_of(items)}" for group, items in groups.items()]
    return [*sizes, "return (", f"    {rules[0]}", *(f"    and {rule}" for rule in rules[1:]), ")"]


def _plan_source(design: Design, form: ModuleForm, tiling: str) -> str:
    name, axes, plan = design.names.module or "", form.axes, design.plan
    variables = [axes.variable(dim) for dim in axes.all]
    sizes = dict(design.problem.workloads[0].sizes)
    samples = dict(form.samples)
    fields = [f"{axes.variable(dim)}: int = {sizes[dim]}" for dim in axes.all]
    for scalar in form.scalars:
        value = literal(scalar.default) if scalar.default is not None else samples[scalar.name]
        fields.append(f"{scalar.name}: {type(ast.literal_eval(value)).__name__} = {value}")
    dtype = design.problem.dtypes[0]
    specs = {spec.name: spec for spec in design.problem.inputs}
    ordered = tuple(specs[parameter] for parameter in form.order if parameter in specs)
    scalars = {scalar.name: f"self.{scalar.name}" for scalar in form.scalars}
    made = assignments(ordered, axes, grad=True, depth=0)
    inputs = [scalars.get(parameter, local(parameter)) for parameter in form.order]
    unpacked = [f"{', '.join(variables)} = {', '.join(f'self.{v}' for v in variables)}"] if variables else []
    settings = looked_up(design.source or "")
    tried = "values = {\n" + "".join(f'    "{item}": {TILED[s]},\n' for item, s in settings.items()) + "}\n"
    configs = f"return [{tiling}()" + (
        f", *({tiling}(**{{n: v}}) for n, some in values.items() for v in some)]" if settings else "]"
    )
    counted = [_counted(text, axes.variables) for text in (plan.forward_flops, plan.forward_bytes)]
    names = call(
        "return BenchmarkFn", [f'"{design.name}"', design.name, "inputs", "self.tiling", "counts", *_taken(design)[:-1]]
    )
    return "\n".join(
        [
            "@dataclass",
            f"class {name}(KernelPlan):",
            *([indented(docstring(design.problem.title)), ""] if design.problem.title else []),
            *(f"    {line}" for line in fields),
            f"    dtype: torch.dtype = torch.{dtype}",
            f"    tiling: {tiling} = field(default_factory={tiling})",
            "",
            "    def prepare_inputs(self, device: str) -> tuple:",
            *(f"        {line}" for line in [*unpacked, "dtype = self.dtype"]),
            indented(made, 2),
            f"        return {tuple_of(inputs)}",
            "",
            "    def reference_fn(self, *inputs) -> tuple:",
            "        return reference(*inputs)",
            "",
            f'    def _autotune_configs(self) -> "list[{tiling}]":',
            indented((tried if settings else "") + configs, 2),
            "",
            f'    def _algorithmic_flops_bytes(self, tiling: "{tiling}") -> tuple[int, int]:',
            *(f"        {line}" for line in unpacked),
            "        E = self.dtype.itemsize",
            f"        return {counted[0]}, {counted[1]}",
            "",
            "    def plan(self, *inputs) -> BenchmarkFn:",
            "        counts = self._algorithmic_flops_bytes(self.tiling)",
            indented(names, 2),
        ]
    )


def _counted(expression: str, variables: tuple[tuple[str, str], ...]) -> str:
    table = dict(variables)
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda match: table.get(match[0], match[0]), expression)


def suite_source(design: Design, home: PackageFolder) -> str:
    """The test file: every version of the design, by the repository's own command line, at sizes of a few blocks and less."""
    form = module_form(design.problem, axes_of(design.problem))
    options = [
        tuple(f"--{form.axes.variable(dim)}={size}" for dim, size in zip(form.axes.all, row, strict=True))
        for row in suite_sizes(form.axes, design.problem, design.graph)[:3]
    ]
    folder = "/".join(("..", *PurePosixPath(home.root).parts))
    return f'''{docstring(design.problem.title or design.name)}

import runpy
import sys
from pathlib import Path

import pytest

LANGUAGE, DESIGN = "{LANGUAGES[design.target]}", "{design.name}"
FOLDER = next((Path(__file__).parent / "{folder}" / LANGUAGE).glob(f"*/{{DESIGN}}"))
VERSIONS = [f"v{{path.name.removeprefix(DESIGN)[2:] or 0}}" for path in FOLDER.glob(f"{{DESIGN}}*") if path.is_dir()]
SIZES = [
{"".join(f"    {_listed(row)},{chr(10)}" for row in options)}]


@pytest.mark.parametrize("sizes", SIZES, ids=" ".join)
@pytest.mark.parametrize("version", sorted(VERSIONS))
def test_matches_the_reference(version, sizes, monkeypatch, capsys):
    arguments = [f"{{LANGUAGE}}.{{DESIGN}}", version, "--prof_type=disabled", "--check", *sizes]
    monkeypatch.setattr(sys, "argv", ["kernel", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("{home.package}", run_name="__main__", alter_sys=False)
    assert ended.value.code in (None, 0), "".join(capsys.readouterr())
'''


def _listed(row: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{option}"' for option in row) + "]"
