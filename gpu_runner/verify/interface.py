"""What callers of a file can see beside the call that is judged, and a candidate must leave as its original has it. Pure."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence

from gpu_runner.contracts.reading import parse_bounded
from gpu_runner.contracts.verify import SourceFile
from gpu_runner.program.scopes import binds, own_nodes
from gpu_runner.verify.one_sided import alike, all_bindings, named_by

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_OF_KERNELS = ("jit", "autotune", "heuristics")
_OF_AUTOCAST = ("custom_fwd", "custom_bwd", "autocast")  # by what a decorator's name ends with


def changed_interface(files: Sequence[SourceFile], original: Iterable[str], called: Collection[str]) -> str | None:
    """What no call of the problem shows and its callers would see; None where there is nothing of it.

    Names, parameters and their defaults stay, as does what the original defines beside all that ``called`` hangs on.
    """
    texts = list(original)
    elsewhere = touched_elsewhere(files, texts, called)
    if elsewhere:
        return (
            f"`{elsewhere[0]}` depends on what was changed, and no call of the problem reaches it. Leave what it uses unchanged, "
            "and add a function or kernel of its own."
        )
    before, now = [parse_bounded(text).body for text in texts], [parse_bounded(file.text).body for file in files]
    missing = _public(before) - {name for body in now for node in body for name in _bound_by(node)}
    if missing:
        return f"`{min(missing)}` is gone, which other code may import. Leave it in the file."
    functions = dict(_functions(node for body in now for node in body))
    for name, function in _functions(node for body in before for node in body):
        message = _changed_signature(name, function, functions[name]) if name in functions else None
        if message:
            return message
    return None


def other_names(files: Iterable[SourceFile], symbol: str, names: Sequence[str]) -> str | None:
    """Say where a function takes the reference's arguments under other names; None where it does not, or takes any.

    A verdict gives them by place, and callers may give them by name.
    """
    functions = [node for file in files for node in parse_bounded(file.text).body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        own = [name for name, _ in (*_positional(function.args), *_keywords(function.args))]
        takes_any = function.args.vararg is not None or function.args.kwarg is not None
        if function.name == symbol and not takes_any and own[: len(names)] != list(names):
            theirs = f"takes ({', '.join(own)}), and the reference ({', '.join(names)})"
            return f"`{symbol}` {theirs}: who gives them by name calls another function."
    return None


def touched_elsewhere(files: Sequence[SourceFile], original: Iterable[str], called: Collection[str]) -> list[str]:
    """What an original defines beside all that ``called`` hangs on, where ``files`` change it or something that it names.

    What calls ``called`` itself, such as a module around it, gets what is judged.
    """
    texts = list(original)
    before, now = all_bindings(texts), all_bindings(file.text for file in files)
    reached, left = set(called), list(called)
    while left:
        named = named_by(before.get(left.pop(), ())) & before.keys() - reached
        reached |= named
        left += named
    same = alike(now, before, set(now), frozenset(called))
    trees = [parse_bounded(text) for text in texts]
    made = {node.name for tree in trees for node in tree.body if isinstance(node, (*_FUNCTIONS, ast.ClassDef))}
    return sorted(made - reached - same)


def _public(bodies: Iterable[Sequence[ast.stmt]]) -> set[str]:
    """The names that files define for others, kernels aside."""
    nodes = [node for body in bodies for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
    plain = [node for node in nodes if not isinstance(node, ast.If | ast.Try) and not _is_kernel(node)]
    return {name for node in plain for name in _bound_by(node) if not name.startswith("_")}


def _bound_by(node: ast.stmt) -> Iterator[str]:
    for part in own_nodes(node):
        yield from binds(part)


def _is_kernel(node: ast.stmt) -> bool:
    return isinstance(node, _FUNCTIONS) and any(_name_of(one).endswith(_OF_KERNELS) for one in node.decorator_list)


def _name_of(decorator: ast.expr) -> str:
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)


def _functions(nodes: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Public functions, and methods of classes, by name; of an autograd Function what `apply` and autograd call."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not _is_kernel(node):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            own = [one for one in methods if not one.name.startswith("_") or one.name.startswith("__")]
            yield from ((f"{node.name}.{one.name}", one) for one in own)


def _changed_signature(name: str, before: ast.FunctionDef, now: ast.FunctionDef) -> str | None:
    autocast = [{ast.unparse(one) for one in each.decorator_list if _is_of_autocast(one)} for each in (before, now)]
    if autocast[0] != autocast[1]:
        return f"`{name}` is decorated otherwise for autocast, which no call of the problem shows. Decorate it as the original is."
    if name.endswith(".backward") or before.args.vararg or now.args.vararg:
        return None
    by_place = name.endswith(".forward") and any(_name_of(one) == "staticmethod" for one in before.decorator_list)
    one, other = ([_parameter(*item, by_place=by_place) for item in _positional(each.args)] for each in (before, now))
    more = _positional(now.args)[len(one) :]
    keywords = [dict(_keywords(each.args)) for each in (before, now)]
    more += [(key, default) for key, default in keywords[1].items() if key not in keywords[0]]
    is_wider = all(default is not None for _, default in more) and keywords[0].items() <= keywords[1].items()
    if other[: len(one)] == one and is_wider and (now.args.kwarg is not None or before.args.kwarg is None):
        return None
    return f"`{name}` has other parameters or defaults than the original. Leave them, and give new ones a default, at the end."


def _is_of_autocast(decorator: ast.expr) -> bool:
    return _name_of(decorator).endswith(_OF_AUTOCAST)


def _positional(arguments: ast.arguments) -> list[tuple[str, str | None]]:
    given = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(given) - len(arguments.defaults)) + [ast.unparse(one) for one in arguments.defaults]
    return [(one.arg, default) for one, default in zip(given, defaults, strict=True)]


def _keywords(arguments: ast.arguments) -> Iterator[tuple[str, str | None]]:
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield one.arg, None if default is None else ast.unparse(default)


def _parameter(name: str, default: str | None, *, by_place: bool) -> tuple[str, str | None]:
    return "" if by_place else name, default
