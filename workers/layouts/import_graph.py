"""What the files of a library import: reachable modules, kernels that a change touches, packages that tests need. Pure."""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from gpu_runner.contracts.reading import UNPARSABLE
from workers.layouts.python_source import Import, read_imports
from workers.toml import read_toml, table_in
from workers.tree import Tree

Imports = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class ImportStep:
    """A module on the way: the whole file, or one name of it."""

    path: str
    name: str | None = None


@dataclass
class SourceLibrary:
    """Sources of a repository by path; ``roots`` are the folders that go on ``sys.path``."""

    sources: Mapping[str, str]
    roots: tuple[str, ...]
    _parsed: dict[str, ast.Module | None] = field(default_factory=dict)

    def parsed(self, path: str) -> ast.Module | None:
        """A module's tree; None where it is not there or does not parse."""
        if path not in self._parsed:
            try:
                self._parsed[path] = ast.parse(self.sources[path])
            except (KeyError, *UNPARSABLE):
                self._parsed[path] = None
        return self._parsed[path]

    def file_of(self, module: str) -> str | None:
        """The file of a module by its full name."""
        inner = module.replace(".", "/")
        for root in self.roots:
            base = inner if root == "." else f"{root}/{inner}"
            for path in (f"{base}.py", f"{base}/__init__.py"):
                if path in self.sources:
                    return path
        return None

    def steps(self, step: ImportStep) -> Iterator[ImportStep]:
        """The modules that one imports."""
        tree = self.parsed(step.path)
        if tree is None:
            return
        if step.name is None:
            for node in _imports(tree):
                yield from self._targets(node, step.path)
            return
        nodes = list(_of_name(tree, step.name))
        for node in nodes:
            yield from self._targets(node, step.path)
        if not nodes and not any(step.name in _bound(node) for node in _statements(tree.body)):
            yield ImportStep(step.path)  # it is made while the module runs, by whatever is there

    def bindings(self, path: str, name: str) -> Iterator[Imports]:
        """The imports of a module that bind a name, each with that name alone."""
        tree = self.parsed(path)
        for node in _statements(tree.body) if tree is not None else ():
            if isinstance(node, Imports):
                yield from (_only(node, alias) for alias in node.names if _binds(alias, name))

    def _targets(self, node: Imports, path: str) -> Iterator[ImportStep]:
        if isinstance(node, ast.Import):
            files = [self.file_of(alias.name) for alias in node.names]
            yield from (ImportStep(file) for file in files if file is not None)
            return
        module = self._absolute(node, path)
        if module is None:
            return
        base = self.file_of(module)
        for alias in node.names:
            inner = self.file_of(f"{module}.{alias.name}" if module else alias.name)
            if inner is not None:
                yield ImportStep(inner)
            elif base is not None:
                yield ImportStep(base, None if alias.name == "*" else alias.name)

    def _absolute(self, node: ast.ImportFrom, path: str) -> str | None:
        if not node.level:
            return node.module
        for root in self.roots:
            if root != "." and not path.startswith(f"{root}/"):
                continue
            inside = PurePosixPath(path if root == "." else path.removeprefix(f"{root}/")).parent.parts
            kept = len(inside) - (node.level - 1)
            if kept < 0:
                return None
            return ".".join([*inside[:kept], *([node.module] if node.module else [])])
        return None


def own_statements(tree: ast.Module | None) -> str:
    """What a package does besides importing, so that two versions can be compared."""
    if tree is None:
        return ""
    kept = [node for node in tree.body if not isinstance(node, Imports) and not _is_listing(node)]
    try:
        return "\n".join(ast.dump(node) for node in kept)
    except RecursionError:  # nobody writes such a package by hand; what it hands on is compared all the same
        return ""


def _of_name(tree: ast.Module, name: str) -> Iterator[Imports]:
    """The imports that a name of a module needs: what binds it, or what its definition uses, and so on."""
    statements = list(_statements(tree.body))
    waiting, seen = [name], {name}
    while waiting:
        wanted = waiting.pop()
        for node in statements:
            if isinstance(node, Imports):
                yield from (_only(node, alias) for alias in node.names if _binds(alias, wanted))
            elif wanted in _bound(node):
                yield from _imports(node)
                used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - seen
                seen |= used
                waiting += sorted(used)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under its conditions too."""
    waiting = deque(body)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.If) and _is_for_type_checkers(node):
            waiting.extendleft(reversed(node.orelse))
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            handlers = node.handlers if isinstance(node, ast.Try) else []
            waiting.extendleft(reversed([*inner, *(child for handler in handlers for child in handler.body)]))
        else:
            yield node


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return set()


def _binds(alias: ast.alias, name: str) -> bool:
    return alias.name == "*" or name == (alias.asname or alias.name.split(".")[0])


def _imports(tree: ast.AST) -> Iterator[Imports]:
    waiting = deque([tree])
    while waiting:
        node = waiting.popleft()
        if isinstance(node, Imports):
            yield node
        elif isinstance(node, ast.If) and _is_for_type_checkers(node):
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _is_for_type_checkers(node: ast.If) -> bool:
    named = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
    return named == "TYPE_CHECKING"


def _only(node: Imports, alias: ast.alias) -> Imports:
    if isinstance(node, ast.Import):
        return ast.Import([alias])
    return ast.ImportFrom(node.module, [alias], node.level)


def _is_listing(node: ast.stmt) -> bool:
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    targets = node.targets if isinstance(node, ast.Assign) else []
    return text or any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def touched_kernels(
    base: Tree, head: Tree, starts: Mapping[str, tuple[str, ...]], roots: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """The kernels whose imports reach a changed file, each with those files, the shortest chain first.

    ``starts`` are a kernel's entry files: its own, and its wrapper's.
    """
    changed = {path for path in {*base.files, *head.files} if base.files.get(path) != head.files.get(path)}
    if not any(path.endswith(".py") for path in changed):
        return {}
    before, after = _sources(base), _sources(head)
    change = _Change(changed, SourceLibrary(before, roots), SourceLibrary(before | after, roots))
    reached = {name: change.reached(paths) for name, paths in sorted(starts.items())}
    return {name: paths for name, paths in reached.items() if paths}


@dataclass(frozen=True)
class _Change:
    changed: set[str]
    base: SourceLibrary
    both: SourceLibrary  # head, and of base what head has no longer, so that what was deleted is reached too

    def reached(self, starts: tuple[str, ...]) -> tuple[str, ...]:
        """The changed files that are reached, nearest first."""
        seen = dict.fromkeys(ImportStep(path) for path in starts)
        waiting, files = list(seen), dict[str, None]()
        while waiting:
            step = waiting.pop(0)
            if self._is_changed(step):
                files[step.path] = None
            for following in self.both.steps(step):
                if following not in seen:
                    seen[following] = None
                    waiting.append(following)
        return tuple(files)

    def _is_changed(self, step: ImportStep) -> bool:
        if step.path not in self.changed or step.name is None or not step.path.endswith("/__init__.py"):
            return step.path in self.changed
        # One more export in a package changes nothing for who imports another.
        sides = (self.base, self.both)
        bindings = [[ast.dump(node) for node in side.bindings(step.path, step.name)] for side in sides]
        bodies = [own_statements(side.parsed(step.path)) for side in sides]
        return bindings[0] != bindings[1] or bodies[0] != bodies[1]


def _sources(tree: Tree) -> dict[str, str]:
    return {path: tree.read(path) or "" for path in tree.paths(suffix=".py")}


@dataclass(frozen=True)
class Needs:
    """``modules`` are to be imported with ``roots`` on ``sys.path``; ``dev`` are requirements as pip reads them."""

    modules: tuple[str, ...]
    roots: tuple[str, ...]
    dev: tuple[str, ...]


def needed_modules(suite: str, imports: Iterable[Import], tree: Tree, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The modules that a test file and the conftest files above it import at their top level.

    Left out are those of Python itself, and those of the library that are not in ``tree``: a kernel that is yet to be written.
    """
    above = (f"{folder}/conftest.py".removeprefix("./") for folder in PurePosixPath(suite).parents)
    imported = [*imports, *(one.imported for path in above for one in read_imports(tree.read(path) or ""))]
    modules = dict.fromkeys(["pytest", *(one.module for one in imported)])
    return tuple(module for module in modules if _is_needed(module, tree, roots))


def is_own(module: str, tree: Tree, roots: tuple[str, ...]) -> bool:
    """Whether a module belongs to the repository, by its first name."""
    return _is_there(module.partition(".")[0], tree, roots)


def _is_needed(module: str, tree: Tree, roots: tuple[str, ...]) -> bool:
    if module.startswith("."):
        return False
    if is_own(module, tree, roots):
        return _is_there(module, tree, roots)
    return module.partition(".")[0] not in sys.stdlib_module_names


def _is_there(module: str, tree: Tree, roots: tuple[str, ...]) -> bool:
    inner = module.replace(".", "/")
    places = [inner if root == "." else f"{root}/{inner}" for root in roots]
    return any(tree.exists(f"{place}.py") or tree.paths(f"{place}/", ".py") for place in places)


DEV = "dev"


def dev_extra(tree: Tree) -> tuple[str, ...]:
    """The dev extra as the first file lists it that has one: pyproject.toml, setup.cfg or setup.py, which is not run."""
    listed = table_in(read_toml(tree.read("pyproject.toml") or ""), "project", "optional-dependencies").get(DEV)
    texts = [text for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    texts = texts or _of_setup_cfg(tree.read("setup.cfg") or "") or _of_setup(tree.read("setup.py") or "")
    return tuple(dict.fromkeys(texts))


def _of_setup_cfg(source: str) -> list[str]:
    config = ConfigParser(interpolation=None)
    try:
        config.read_string(source)
    except ConfigError:
        return []
    listed = config.get("options.extras_require", DEV, fallback="")
    return [line.strip() for line in listed.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _of_setup(source: str) -> list[str]:
    """The texts under the key of the extra, wherever a dictionary has it: in lists, sums of lists, and names of these."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except UNPARSABLE:
        return []
    targets = [(target, node.value) for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    named = {target.id: value for target, value in targets if isinstance(target, ast.Name)}
    found = [value for target, value in targets if isinstance(target, ast.Subscript) and _is_dev(target.slice)]
    for node in nodes:
        if isinstance(node, ast.Dict):
            found += [value for key, value in zip(node.keys, node.values, strict=True) if _is_dev(key)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            found += [keyword.value for keyword in node.keywords if keyword.arg == DEV]
    return _texts(found[0], named) if found else []


def _is_dev(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == DEV


def _texts(node: ast.expr, named: Mapping[str, ast.expr], depth: int = 8) -> list[str]:
    inner: list[ast.expr] = []
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.List | ast.Tuple):
        inner = node.elts
    elif isinstance(node, ast.BinOp):
        inner = [node.left, node.right]
    elif isinstance(node, ast.Starred):
        inner = [node.value]
    elif isinstance(node, ast.Name) and node.id in named:
        inner = [named[node.id]]
    return [text for one in inner if depth for text in _texts(one, named, depth - 1)]
