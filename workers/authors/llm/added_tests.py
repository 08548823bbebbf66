"""Tests out of an answer: they are added at the end of a test file that stands, and can change nothing of it. Pure.

A test file is run as a whole, so that a new line anywhere in it may take the teeth out of an old test: by a name defined again, by
a fixture of the same name, by a patched module, by an emptied table of cases. What may be added is therefore a closed list: imports
of modules that the file knows, functions, classes and constants with new names, none of which is found by a name that the old tests
use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu_runner.contracts.reading import dotted
from workers.authors.llm.checks import (
    BUILTINS,
    bound_anywhere,
    imported,
    named,
    parsed,
    quoted_name,
    reached,
    words,
)
from workers.authors.llm.protocol import AnswerFault, UnusableAnswer

MODULES = frozenset({"torch", "pytest", "math"})
# pytest and unittest find these by their names.
FOUND_BY_NAME = words(
    "setup_module teardown_module setup_function teardown_function setup teardown setup_class teardown_class setup_method "
    "teardown_method setUp tearDown setUpModule tearDownModule setUpClass tearDownClass pytestmark collect_ignore "
    "collect_ignore_glob load_tests __getattr__ __dir__ __path__ __all__"
)
# Fixtures and modules by which a test patches what other tests use, or ends the session.
PATCHES = frozenset({"monkeypatch", "mocker", "mock", "request", "pytestconfig", "unittest", "sys", "os", "importlib"})
LEAVES = frozenset(
    {"skip", "xfail", "exit", "importorskip", "fail_fast", "fixture", "register_assert_rewrite", "SkipTest"}
)
# Methods that change a table in place; where their root is a name of the file, the cases of an old test may be in it.
CHANGES = words("append extend insert clear pop popitem remove sort reverse update setdefault add discard")
OWN_ATTRIBUTES = frozenset({"grad", "requires_grad", "data"})  # of a tensor that the test itself made
GLOBAL_STATE = (
    "set_",
    "use_",
    "_",
    "backends",
)  # torch.set_default_dtype and the like hold for every test that comes after
# What a module may call while it is imported, beside what the file calls there already.
CALLED_AT_IMPORT = words(
    "range list tuple len zip sorted dict set min max int float str bool "
    "torch.tensor torch.device torch.Size torch.finfo torch.no_grad "
    "torch.cuda.is_available torch.cuda.device_count torch.cuda.get_device_capability torch.cuda.is_bf16_supported"
)
NODES = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


def with_added(path: str, existing: str, added: str) -> str:
    """A test file with tests added at its end, new imports behind the existing ones.

    Raises:
        UnusableAnswer: the addition could change existing code, tests nothing, or is no Python.
    """
    stood = parsed(existing, f"`{named(path)}`", existing)
    new = parsed(added, "the added text")
    _check_nodes(new, stood)
    _check_names(new, stood)
    for node in ast.walk(new):
        _check_node(node, stood)
    _check_calls_at_import(new, stood)
    _check_tests(new, stood)
    whole = _joined(existing, stood, added, new)
    if not _still_there(stood, parsed(whole, f"`{named(path)}`", whole)):
        raise UnusableAnswer(AnswerFault.tests, "the added text would change a part of the test file that stands")
    return whole


def _refuse(sentence: str) -> UnusableAnswer:
    return UnusableAnswer(AnswerFault.tests, sentence)


def _check_nodes(new: ast.Module, stood: ast.Module) -> None:
    known = {*MODULES, *imported(stood)}
    for place, node in enumerate(new.body):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and place == 0
        if not isinstance(node, NODES) and not is_docstring:
            raise _refuse(f"line {node.lineno} of the added tests is no import, function, class or constant")
        if isinstance(node, ast.Import | ast.ImportFrom):
            foreign = next((module for module in imported(ast.Module([node], [])) if module not in known), None)
            if foreign is not None:
                raise _refuse(f"the added tests import `{named(foreign)}`, which the test file does not know")
    at_top = {id(node) for node in new.body}
    for inner in ast.walk(new):
        if isinstance(inner, ast.Import | ast.ImportFrom) and id(inner) not in at_top:
            raise _refuse("the added tests import within a function")


def _check_names(new: ast.Module, stood: ast.Module) -> None:
    bound = set(_bound_at_top(stood))
    used = {node.id for node in ast.walk(stood) if isinstance(node, ast.Name)}
    old_imports = {_import_key(node, alias) for node, alias in _aliases(stood)}
    new_imports = {alias.asname or alias.name: _import_key(node, alias) for node, alias in _aliases(new)}
    seen: set[str] = set()
    for name in _bound_at_top(new):
        if name in new_imports and new_imports[name] in old_imports:
            continue  # the same import once more binds the same
        if name in LEAVES | PATCHES:
            raise _refuse(f"the added tests use `{named(name)}`, by which other tests could be changed or passed over")
        if name == "*" or name in FOUND_BY_NAME or name.startswith("pytest_"):
            raise _refuse(f"the added tests bind `{named(name)}`, which pytest or Python looks up by its name")
        if name in bound or name in seen:
            raise _refuse(f"the added tests define `{named(name)}` again")
        if name in used or name in BUILTINS:
            raise _refuse(f"the added tests define `{named(name)}`, a name by which what stands finds something else")
        seen.add(name)


def _aliases(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, ast.alias]]:
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node, alias) for alias in node.names)


def _import_key(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple[str, str, str]:
    module = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    return module, alias.name, alias.asname or ""


def _bound_at_top(tree: ast.Module) -> Iterator[str]:
    """Names of the module's scope: those of functions and classes in it are theirs, unless they are declared global."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        else:
            yield from bound_anywhere(node)


def _check_node(node: ast.AST, stood: ast.Module) -> None:
    if isinstance(node, ast.Global | ast.AsyncFunctionDef | ast.Await | ast.NamedExpr | ast.Delete):
        raise _refuse(f"line {getattr(node, 'lineno', 0)} of the added tests uses a statement that tests do not need")
    if isinstance(node, ast.FunctionDef):
        _check_function(node, stood)
    elif isinstance(node, ast.ClassDef):
        if node.decorator_list or node.keywords:
            raise _refuse(f"the class `{named(node.name)}` of the added tests has a decorator or a metaclass")
    elif isinstance(node, ast.Attribute):
        _check_attribute(node)
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        if _root(node) in {*_bound_at_top(stood)}:
            raise _refuse(f"the added tests change `{named(_root(node) or '')}`, which stands in the file")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        if _root(node.func) in {*_bound_at_top(stood)}:
            raise _refuse(f"the added tests change `{named(_root(node.func) or '')}`, which stands in the file")
    elif isinstance(node, ast.alias) and node.name in LEAVES | PATCHES:
        raise _refuse(
            f"the added tests import `{named(node.name)}`, by which other tests could be changed or passed over"
        )
    elif isinstance(node, ast.Name) and node.id in PATCHES | LEAVES:
        raise _refuse(f"the added tests use `{named(node.id)}`, by which other tests could be changed or passed over")


def _check_function(node: ast.FunctionDef, stood: ast.Module) -> None:
    if node.name.startswith("__") and node.name != "__init__":
        raise _refuse(f"the added tests define `{named(node.name)}`, which Python calls by itself")
    used = {name for other in ast.walk(stood) for name in _decorators(other)}
    for decorator in node.decorator_list:
        name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
        plain = name in ("staticmethod", "classmethod", "property", "torch.no_grad") or name in used
        if not plain and not (name or "").startswith("pytest.mark."):
            raise _refuse(f"`{named(node.name)}` of the added tests has a decorator that the file does not use")
        if name == "pytest.mark.skipif":
            _check_condition(decorator)
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if argument.arg in PATCHES:
            sentence = (
                f"`{named(node.name)}` of the added tests takes `{named(argument.arg)}`, by which modules are patched"
            )
            raise _refuse(sentence)


def _decorators(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef):
        for decorator in node.decorator_list:
            name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name is not None and "fixture" not in name:
                yield name


def _check_condition(node: ast.expr) -> None:
    """A condition that is none skips always."""
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if given is None or not any(isinstance(inner, ast.Name) for inner in ast.walk(given)):
        raise _refuse("the added tests are skipped whatever holds")


def _check_attribute(node: ast.Attribute) -> None:
    full = dotted(node) or ""
    if node.attr in LEAVES:
        raise _refuse(f"the added tests use `{named(node.attr)}`, by which other tests could be changed or passed over")
    if full.startswith("torch.") and any(part.startswith(GLOBAL_STATE) for part in full.split(".")[1:]):
        raise _refuse(f"the added tests use `{named(full)}`, which holds for every test after them")
    if not isinstance(node.ctx, ast.Load) and node.attr not in OWN_ATTRIBUTES and _root(node) != "self":
        raise _refuse(f"the added tests set `{named(full or node.attr)}`, which outlives them")


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _check_calls_at_import(new: ast.Module, stood: ast.Module) -> None:
    """What runs while the file is imported could change the tables of the tests that stand before they are collected."""
    known = {_called(node) for node in _at_import(stood) if isinstance(node, ast.Call)}
    own = {node.name for node in ast.walk(new) if isinstance(node, ast.FunctionDef)}
    for node in _at_import(new):
        if isinstance(node, ast.Call) and _called(node) not in known:
            name = _called(node)
            if name not in CALLED_AT_IMPORT and not name.startswith(("pytest.mark.", "pytest.param")):
                raise _refuse(f"the added tests call `{named(name)}` while the file is imported")
        is_own = isinstance(node, ast.Name) and node.id in own
        changes = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        if is_own or changes or isinstance(node, ast.Lambda):  # whoever takes a function may call it
            raise _refuse(
                f"line {getattr(node, 'lineno', 0)} of the added tests does more than define while it is imported"
            )


def _called(node: ast.Call) -> str:
    return dotted(node.func) or "an expression"


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those in the bodies of functions."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        inner = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = [child for child in inner if child not in node.body]
        todo += inner


def _check_tests(new: ast.Module, stood: ast.Module) -> None:
    for name in reached(new):
        raise _refuse(f"the added tests use {quoted_name(name)}, which no test of a kernel needs")
    tests = [node for node in ast.walk(new) if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]
    if not tests:
        raise _refuse("the added text holds no test")
    helpers = {node.name for node in (*stood.body, *new.body) if isinstance(node, ast.FunctionDef)}
    for test in tests:
        if not any(_checks(node, helpers) for node in ast.walk(test)):
            raise _refuse(f"`{named(test.name)}` of the added tests asserts nothing")


def _checks(node: ast.AST, helpers: set[str]) -> bool:
    if isinstance(node, ast.Assert):
        return any(isinstance(inner, ast.Name) for inner in ast.walk(node.test))
    if not isinstance(node, ast.Call):
        return False
    name = (dotted(node.func) or "").rpartition(".")[2]
    return name.startswith("assert") or name == "raises" or (isinstance(node.func, ast.Name) and name in helpers)


def _joined(existing: str, existing_tree: ast.Module, added: str, new: ast.Module) -> str:
    """Imports go to the imports, since linters want them there, a line each; each must have its lines for itself."""
    rows = added.split("\n")
    taken: set[int] = set()
    import_lines: set[int] = set()
    for node in new.body:
        span = set(_span(node))
        if taken & span:
            raise _refuse("two statements of the added tests share a line")
        taken |= span
        import_lines |= span if isinstance(node, ast.Import | ast.ImportFrom) else set()
    known = {_import_key(node, alias) for node, alias in _aliases(existing_tree)}
    fresh = [_import_line(node, alias) for node, alias in _aliases(new) if _import_key(node, alias) not in known]
    body = "\n".join(row for place, row in enumerate(rows) if place not in import_lines).strip("\n")
    lines = existing.replace("\r\n", "\n").rstrip("\n").split("\n")
    place = _after_imports(existing_tree)
    lines[place:place] = fresh
    text = "\n".join(lines) + "\n\n\n" + body + "\n"
    return text.replace("\n", "\r\n") if "\r\n" in existing else text


def _import_line(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    one = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], node.level)
    return ast.unparse(one)


def _span(node: ast.stmt) -> range:
    return range(node.lineno - 1, (node.end_lineno or node.lineno))


def _after_imports(tree: ast.Module) -> int:
    """The line behind the last import of the module's own; behind its docstring where it has none."""
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if imports:
        return max(node.end_lineno or node.lineno for node in imports)
    first = tree.body[0] if tree.body else None
    has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return (first.end_lineno or 0) if first is not None and has_docstring else 0


def _still_there(stood: ast.Module, whole: ast.Module) -> bool:
    """Every statement that stood is there still, in its order, and all that is new between them is an import."""
    try:
        old = [ast.dump(node) for node in stood.body]
        now = [(ast.dump(node), isinstance(node, ast.Import | ast.ImportFrom)) for node in whole.body]
    except RecursionError:
        return False
    place = 0
    for text, is_import in now:
        if place < len(old) and text == old[place]:
            place += 1
        elif place < len(old) and not is_import:
            return False
    return place == len(old)
