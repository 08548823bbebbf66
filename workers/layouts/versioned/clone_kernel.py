"""Makes a new version of a kernel: `python scripts/clone-kernel.py [LANGUAGE.]NAME SUFFIX [--dry-run]`.

NAME is a version's full name, such as `flash_mla` (the base version) or `flash_mla_v2`; SUFFIX is the new one's, such as `v3`.
Its package is copied next to the old one, and what bears the version's name is renamed: modules, the entry function, decorated
kernel functions, subclasses of KernelPlan and Tiling, imports inside of the package, quoted forward references, and the
package's name in strings. Nothing else changes, and nothing is overwritten. Exit 0 done, 2 it cannot be carried out.

Without this script: copy the package, rename its modules, and change the same names by hand.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

KERNEL_DECORATORS = ("kernel", "jit")  # @ct.kernel, @cute.kernel, @cute.jit, @triton.jit
RENAMED_BASES = ("KernelPlan", "Tiling")
SUFFIX = re.compile(r"v[1-9]\d*")
Span = tuple[int, int, str]  # first byte, byte behind the last, replacement


class CloneError(Exception):
    """A version cannot be made; the text says why and what to do."""


@dataclass(frozen=True)
class VersionNames:
    """Renaming of one version: ``design`` is its name without the suffix, ``package`` where its design is imported from."""

    design: str
    old: str
    new: str
    package: str  # such as lib.kernel.triton.mla.flash_mla
    symbols: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by module: what it defines and is renamed

    def stem(self, stem: str) -> str:
        """The name of a module of the package."""
        rest = stem.removeprefix(self.old)
        bears = stem.startswith(self.old) and (not rest or rest[0] == "_") and not re.match(r"_v\d", rest)
        return self.new + rest if bears else stem

    def path(self, path: str) -> str:
        """The path of a file of the package."""
        *folders, file = PurePosixPath(path).parts
        stem, dot, suffix = file.partition(".")
        return "/".join([*map(self.stem, folders), f"{self.stem(stem)}{dot}{suffix}"])

    def symbol(self, name: str) -> str:
        """The name of a function or class with the new version's suffix in the place of the old one."""
        number, suffix = self.old.removeprefix(self.design).removeprefix("_v"), self.new.removeprefix(self.design)
        if name == self.old:
            return self.new
        if name[:1].isupper():
            return (name.removesuffix(f"V{number}") if number else name) + suffix.removeprefix("_").upper()
        return (name.removesuffix(f"_v{number}") if number else name) + suffix

    @property
    def every(self) -> dict[str, str]:
        """All renamed functions and classes."""
        return {old: new for table in self.symbols.values() for old, new in table.items()}


def cloned(files: Mapping[str, str], design: str, old: str, new: str, package: str) -> dict[str, str]:
    """The files of a version under another name; paths are relative to its package.

    Raises:
        CloneError: a file is not Python.
    """
    plain = VersionNames(design, old, new, package)
    trees = {path: _parsed(path, text) for path, text in files.items() if path.endswith(".py")}
    classes = {node.name: node for tree in trees.values() for node in _top(tree) if isinstance(node, ast.ClassDef)}
    symbols = {
        _module(path): {name: plain.symbol(name) for name in _versioned(tree, PurePosixPath(path).stem, classes)}
        for path, tree in trees.items()
    }
    names = VersionNames(design, old, new, package, symbols)
    return {
        plain.path(path): Module(names, path, text, trees[path]).renamed() if path in trees else text
        for path, text in files.items()
    }


def _parsed(path: str, text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise CloneError(f"line {error.lineno} of `{path}` is no Python: correct it first") from error


def _module(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _top(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module's own scope, those under `if`, `try` and `with` too."""
    waiting = [*tree.body]
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += [item for item in _blocks(node) if isinstance(item, ast.stmt)]


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions of a module, those inside of functions too, and no methods."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and not isinstance(node, ast.ClassDef):
            yield child
        yield from _functions(child)


def _blocks(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def _versioned(tree: ast.Module, stem: str, classes: Mapping[str, ast.ClassDef]) -> Iterator[str]:
    """The names that a module defines and that belong to its version."""
    aliases = _aliases(tree)
    for function in _functions(tree):
        decorators = [item.func if isinstance(item, ast.Call) else item for item in function.decorator_list]
        named = [_last(item) for item in decorators]
        if function.name == stem or any(aliases.get(name, name) in KERNEL_DECORATORS for name in named):
            yield function.name
    yield from (node.name for node in derived(tree, classes))
    if any(isinstance(node, ast.Assign) and stem in map(_last, node.targets) for node in _top(tree)):
        yield stem


def derived(tree: ast.Module, classes: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The plans and tilings of a module; ``classes`` are those of its package."""
    aliases, own = _aliases(tree), (node for node in _top(tree) if isinstance(node, ast.ClassDef))
    return [node for node in own if _derives(node, classes, aliases, frozenset())]


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What imports call by another name."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}


def _derives(
    node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], aliases: Mapping[str, str], seen: frozenset[str]
) -> bool:
    """Whether a class is a plan or a tiling: by its bases, those of the package's own classes followed, or by a base's name."""
    named = [_last(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
    bases = [aliases.get(name, name) for name in named]
    own = [classes[base] for base in bases if base in classes and base not in seen]
    return any(base.endswith(RENAMED_BASES) for base in bases) or any(
        _derives(b, classes, aliases, seen | {b.name}) for b in own
    )


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@dataclass
class Module:
    """One module while it is renamed, by edits at the places of its syntax tree: all other bytes stay."""

    names: VersionNames
    path: str
    text: str
    tree: ast.Module
    spans: list[Span] = field(default_factory=list)

    def renamed(self) -> str:
        """The module's text with the new names."""
        raw = self.text.encode()
        lines = raw.splitlines(keepends=True)
        self.starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
        self.raw, self.own = raw, dict(self.names.symbols[_module(self.path)])
        self.scope = frozenset((*_top(self.tree), *_functions(self.tree)))
        self.modules: dict[str, str] = {}  # a name bound to a module of the package, and that module
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        self._visit(self.tree, frozenset())
        for first, last, new in sorted(set(self.spans), reverse=True):
            raw = raw[:first] + new.encode() + raw[last:]
        return raw.decode()

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Rename modules and names of an import inside of the package; what it binds is remembered."""
        first, last = self._place(node)
        segment = self.raw[first:last].decode()
        if isinstance(node, ast.Import):
            for alias in node.names:
                inside = self._inside(alias.name, 0)
                if inside is not None and alias.asname:
                    self.modules[alias.asname] = inside
            self.spans.append((first, last, self._dotted(segment)))
            return
        inside = self._inside(node.module or "", node.level)
        if inside is None:
            self.spans.append((first, last, self._dotted(segment)))
            return
        # What the package's __init__ hands on is defined in one of its modules.
        table = self.names.symbols.get(inside, {}) if inside else self.names.every
        for alias in node.names:
            module = f"{inside}.{alias.name}".lstrip(".")
            new = self.names.stem(alias.name) if module in self.names.symbols else table.get(alias.name)
            if module in self.names.symbols:
                self.modules[alias.asname or alias.name] = module
            if new is not None:
                start = self._place(alias)[0]
                self.spans.append((start, start + len(alias.name.encode()), new))
                if alias.asname is None:
                    self.own[alias.name] = new
        head = re.match(r"from\s+(\.*)([\w.]*)", segment)
        if head is not None:
            start = first + head.start(2)
            parts = [self.names.stem(p) for p in head[2].split(".")] if node.level else [self._dotted(head[2])]
            self.spans.append((start, start + len(head[2]), ".".join(parts)))

    def _inside(self, module: str, level: int) -> str | None:
        """A module of the package, relative to it; None for any other."""
        if level:
            at = _module(self.path).split(".") if _module(self.path) else []
            package = at if self.path.endswith("__init__.py") else at[:-1]
            if level - 1 > len(package):
                return None
            return ".".join([*package[: len(package) - level + 1], *([module] if module else [])])
        root = f"{self.names.package}.{self.names.old}"
        return module[len(root) + 1 :] if module == root or module.startswith(root + ".") else None

    def _visit(self, node: ast.AST, hidden: frozenset[str]) -> None:
        """Rename names that stand for something of the package, where no parameter or local variable hides them."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            self._definition(node)
            outside = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
            if not isinstance(node, ast.Lambda):
                outside += [*node.decorator_list, *([node.returns] if node.returns else [])]
            arguments = [a for a in ast.walk(node.args) if isinstance(a, ast.arg)]
            outside += [a.annotation for a in arguments if a.annotation is not None]
            for part in outside:
                self._visit(part, hidden)
            hidden |= {a.arg for a in arguments} | _stored(node.body)
            body: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
            for inner in body:
                self._visit(inner, hidden)
            return
        if isinstance(node, ast.ClassDef):
            self._definition(node)
            # A field hides a name from the other statements of its class, and not from the methods.
            fields = _stored([item for item in node.body if not isinstance(item, ast.FunctionDef | ast.ClassDef)])
            for child in ast.iter_child_nodes(node):
                inside = isinstance(child, ast.stmt) and not isinstance(child, ast.FunctionDef | ast.ClassDef)
                self._visit(child, hidden | fields if inside else hidden)
        elif not self._renames(node, hidden):
            for child in ast.iter_child_nodes(node):
                self._visit(child, hidden)

    def _renames(self, node: ast.AST, hidden: frozenset[str]) -> bool:
        """Rename one node; whether that is all there is to do inside of it."""
        if isinstance(node, ast.Name) and node.id not in hidden and node.id in self.own:
            self.spans.append((*self._place(node), self.own[node.id]))
        elif isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            module = self.modules.get(ast.unparse(node.value)) or self._inside(ast.unparse(node.value), 0)
            new = self.names.symbols.get(module or "-", {}).get(node.attr)
            if new is not None:
                last = self._place(node)[1]
                self.spans.append((last - len(node.attr.encode()), last, new))
            elif self._inside(whole, 0) is not None:
                self.spans.append((*self._place(node), self._dotted(whole)))
                return True
        elif isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            first, last = self._place(node)
            text = self.raw[first:last].decode()
            self.spans.append((first, last, self._string(text)))
            return True
        return False

    def _definition(self, node: ast.AST) -> None:
        name = getattr(node, "name", None)
        if name in self.own and node in self.scope:
            first, last = self._place(node)
            match = re.compile(rb"(?:def|class)\s+").search(self.raw, first, last)
            if match is not None:
                self.spans.append((match.end(), match.end() + len(name.encode()), self.own[name]))

    def _string(self, text: str) -> str:
        """A string literal with the names of classes and kernels, and the name of the package, replaced."""
        table = {old: new for old, new in self.names.every.items() if old != self.names.old}
        if table:
            pattern = rf"(?<![\w.])(?:{'|'.join(map(re.escape, table))})(?!\w)"
            text = re.sub(pattern, lambda match: table[match[0]], text)
        text = self._dotted(text)
        old = re.escape(self.names.old)
        if self.names.old != self.names.design:
            return re.sub(rf"(?<![A-Za-z0-9]){old}(?!\d)", self.names.new, text)
        # The base version has the design's name, so that only a string which begins with it as a name is surely meant.
        text = re.sub(rf"(?<=\{{){old}(?=[.\[(}}!:])", self.names.new, text)
        return re.sub(rf"^([rbfuRBFU]*['\"]+){old}(?=['\"]|_(?!v\d)\S*['\"])", rf"\g<1>{self.names.new}", text)

    def _dotted(self, text: str) -> str:
        """A text with the package's name replaced in dotted names and paths, which name the design before it."""
        design, old, new = self.names.design, re.escape(self.names.old), self.names.new
        inner = rf"(?<!\w){re.escape(design)}([./]){old}(?![\w])(?:([./]){old}(?=_(?!v\d)|\b(?!_)))?"
        return re.sub(inner, lambda m: f"{design}{m[1]}{new}" + (f"{m[2]}{new}" if m[2] else ""), text)

    def _place(self, node: ast.AST) -> tuple[int, int]:
        first = self.starts[getattr(node, "lineno", 1) - 1] + getattr(node, "col_offset", 0)
        return first, self.starts[(getattr(node, "end_lineno", 1) or 1) - 1] + (getattr(node, "end_col_offset", 0) or 0)


def _stored(body: Sequence[ast.AST] | ast.AST) -> set[str]:
    """The names that a function binds itself."""
    nodes = [inner for item in ([body] if isinstance(body, ast.AST) else body) for inner in ast.walk(item)]
    free = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    return {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)} - free


def find_version(root: Path, name: str) -> tuple[Path, str]:
    """The folder of a version below a repository's `src`, and the name of its design.

    Raises:
        CloneError: there is none, or several.
    """
    language, _, version = name.rpartition(".")
    design = re.sub(r"_v\d+$", "", version)
    found = sorted(
        path.parent
        for path in (root / "src").glob(f"*/kernel/*/*/{design}/{version}/{version}.py")
        if language.replace("-", "_").rpartition(".")[2] in ("", path.parents[3].name, path.parents[1].name)
    )
    if len(found) == 1:
        return found[0], design
    if found:
        named = " or ".join(f"`{path.parents[2].name}.{version}`" for path in found)
        raise CloneError(f"`{version}` is there in several languages: name it as {named}")
    there = sorted(p.parent.name for p in (root / "src").glob("*/kernel/*/*/*/*/*.py") if p.stem == p.parent.name)
    raise CloneError(
        f"there is no version `{version}`: those there are {', '.join(f'`{n}`' for n in there) or 'none yet'}"
    )


def main(arguments: Sequence[str], root: Path) -> int:
    """Carry a command out; give its exit code."""
    words = [word for word in arguments if word != "--dry-run"]
    if len(words) != 2 or SUFFIX.fullmatch(words[1].removeprefix("_")) is None:
        print("Name a version and the suffix of the new one: clone-kernel.py flash_mla_v2 v3.", file=sys.stderr)
        return 2
    try:
        made = clone(root, words[0], words[1].removeprefix("_"), dry_run="--dry-run" in arguments)
    except CloneError as error:
        print(f"{error}.", file=sys.stderr)
        return 2
    print("\n".join(made) if made else "It is there already, as it would be written.")
    return 0


def clone(root: Path, name: str, suffix: str, *, dry_run: bool = False) -> list[str]:
    """Write a new version beside an old one; the paths of its files, none where it stands there as it would be written.

    Raises:
        CloneError: it cannot be made; nothing is written.
    """
    folder, design = find_version(root, name)
    sources = {
        str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if _is_source(path)
    }
    package = ".".join(folder.parent.relative_to(root / "src").parts)
    new = f"{design}_{suffix}"
    files = {
        folder.parent / new / path: text for path, text in cloned(sources, design, folder.name, new, package).items()
    }
    if (folder.parent / new).exists():
        if all(path.is_file() and path.read_text() == text for path, text in files.items()):
            return []
        raise CloneError(f"`{new}` is there already and is another: choose the next suffix")
    for path, text in files.items() if not dry_run else ():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [str(path.relative_to(root)) for path in files]


def _is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parents[1]))
