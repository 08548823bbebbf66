"""Phase A of a port: the API of a library's operator, read from its source. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpu_runner.contracts.reading import UNPARSABLE
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.layouts.calls import is_function

SAVE = "save_for_backward"
LITERAL = "Literal["
VIEWS = frozenset({"contiguous", "detach", "reshape", "view"})


@dataclass(frozen=True)
class Parameter:
    """A parameter; ``default`` is its source, None where a caller must give it."""

    name: str
    default: str | None = None
    annotation: str | None = None
    values: tuple[str, ...] = ()  # all that it takes, as sources, where its annotation says so

    @property
    def source(self) -> str:
        """The parameter as a function definition has it."""
        typed = f"{self.name}: {self.annotation}" if self.annotation else self.name
        if self.default is None:
            return typed
        return f"{typed} = {self.default}" if self.annotation else f"{typed}={self.default}"


@dataclass(frozen=True)
class SymbolContract:
    """A public function that forward or backward calls: ``arguments`` and ``results`` are the names at that call."""

    name: str
    parameters: tuple[Parameter, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class ApiContract:
    """What callers of an autograd Function rely on."""

    function: str
    parameters: tuple[Parameter, ...]  # of forward, without the context
    returns: tuple[str, ...]  # what forward returns
    upstream: tuple[str, ...]  # the parameters of backward, without the context
    gradients: tuple[str, ...]  # what backward returns, one for each parameter of forward
    saved: tuple[str, ...]  # tensors kept for backward, by the names that forward has for them
    attributes: tuple[str, ...]  # what else forward leaves in the context
    contiguous: bool  # whether forward and backward are decorated with ensure_contiguous
    distributed: bool  # whether forward takes distributed tensors apart
    forward: SymbolContract | None = None
    backward: SymbolContract | None = None
    dtypes: tuple[str, ...] = ()  # dtypes that the operator's file names
    path: str = ""  # the operator's file
    optional: tuple[str, ...] = ()  # parameters of forward that the file compares with None

    @property
    def settings(self) -> frozenset[str]:
        """What its forward function returns besides tensors that are returned or saved: how its own kernels are launched."""
        results = self.forward.results if self.forward is not None else ()
        own = {parameter.name for parameter in self.parameters} | {*self.returns, *self.saved}
        return frozenset(name for name in results if name.isidentifier() and name not in own)


def read_contract(source: str, function: str, exported: Iterable[str], path: str = "") -> ApiContract:
    """The contract of one autograd Function of a file; ``exported`` are the names that the library exports from it.

    Raises:
        UserFacingError: the file has no such Function, or it is of a form that cannot be read.
    """
    try:
        module = ast.parse(source)
    except UNPARSABLE as error:
        raise _unreadable(function, "its file does not parse") from error
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef) and is_function(node)}
    if function not in classes:
        raise _unreadable(function, f"the file defines {', '.join(sorted(classes)) or 'no autograd Function'}")
    methods = {node.name: node for node in classes[function].body if isinstance(node, ast.FunctionDef)}
    if not {"forward", "backward"} <= set(methods) or "setup_context" in methods:
        raise _unreadable(function, "it has no forward with a context and backward")
    forward, backward = methods["forward"], methods["backward"]
    names = frozenset(exported)
    public = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef) and node.name in names}
    parameters = _parameters(forward, _literals(module))[1:]
    gradients = _last_return(backward)
    if forward.args.vararg or forward.args.kwarg or forward.args.kwonlyargs:
        raise _unreadable(function, "its forward takes a variable number of arguments")
    return ApiContract(
        function=function,
        parameters=parameters,
        returns=_last_return(forward),
        upstream=tuple(parameter.name for parameter in _parameters(backward)[1:]),
        gradients=gradients,
        saved=tuple(dict.fromkeys(_viewed(arg) for call in _calls(forward, SAVE) for arg in call.args)),
        attributes=tuple(dict.fromkeys(_context_attributes(forward))),
        contiguous=all(_is_contiguous(method) for method in (forward, backward)),
        distributed="DTensor" in ast.unparse(forward),
        forward=_symbol(forward, public),
        backward=_symbol(backward, public),
        dtypes=_dtypes(module),
        path=path,
        optional=tuple(parameter.name for parameter in parameters if parameter.name in _compared_with_none(module)),
    )


def _literals(module: ast.Module) -> dict[str, str]:
    """The types of a fixed set of values that a module names."""
    named = ((node.targets[0], node.value) for node in module.body if isinstance(node, ast.Assign))
    return {ast.unparse(name): ast.unparse(value) for name, value in named if ast.unparse(value).startswith(LITERAL)}


def _values(annotation: str | None, literals: Mapping[str, str]) -> tuple[str, ...]:
    if annotation == "bool":
        return ("False", "True")
    text = literals.get(annotation or "", annotation or "")
    if not text.startswith(LITERAL):
        return ()
    listed = ast.parse(text.removeprefix(LITERAL).removesuffix("]"), mode="eval").body
    return tuple(map(ast.unparse, listed.elts if isinstance(listed, ast.Tuple) else [listed]))


def _parameters(function: ast.FunctionDef, literals: Mapping[str, str] = {}) -> tuple[Parameter, ...]:
    given = [*function.args.posonlyargs, *function.args.args]
    defaults = [None] * (len(given) - len(function.args.defaults)) + [ast.unparse(d) for d in function.args.defaults]
    types = [None if arg.annotation is None else ast.unparse(arg.annotation) for arg in given]
    return tuple(Parameter(a.arg, d, t, _values(t, literals)) for a, d, t in zip(given, defaults, types, strict=True))


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _calls(function: ast.FunctionDef, method: str) -> Iterator[ast.Call]:
    for node in _own(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            yield node


def _context_attributes(function: ast.FunctionDef) -> Iterator[str]:
    context = function.args.args[0].arg
    for node in _own(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == context:
                yield target.attr


def _last_return(function: ast.FunctionDef) -> tuple[str, ...]:
    returned = [node.value for node in _own(function) if isinstance(node, ast.Return) and node.value is not None]
    if not returned:
        return ()
    last = returned[-1]
    return tuple(map(_viewed, last.elts)) if isinstance(last, ast.Tuple) else (_viewed(last),)


def _viewed(node: ast.expr) -> str:
    """The tensor of which an expression is another view."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VIEWS:
        node = node.func.value
    return ast.unparse(node)


def _is_contiguous(function: ast.FunctionDef) -> bool:
    return any("contiguous" in ast.unparse(decorator) for decorator in function.decorator_list)


def _symbol(method: ast.FunctionDef, public: dict[str, ast.FunctionDef]) -> SymbolContract | None:
    """The public function that a method leaves the work to: the last one that it calls by name."""
    match: SymbolContract | None = None
    for node in _own(method):
        value = node.value if isinstance(node, ast.Assign | ast.Return) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in public:
            targets = node.targets[0] if isinstance(node, ast.Assign) else None
            names = targets.elts if isinstance(targets, ast.Tuple) else [targets] if targets is not None else []
            own = _parameters(public[value.func.id])
            arguments = [*value.args, *(keyword.value for keyword in value.keywords)]
            results = tuple(map(ast.unparse, names)) or _last_return(method)
            match = SymbolContract(value.func.id, own, tuple(map(ast.unparse, arguments)), results)
    return match


def _dtypes(module: ast.Module) -> tuple[str, ...]:
    names = (ast.unparse(node) for node in ast.walk(module) if isinstance(node, ast.Attribute))
    kinds = ("torch.float", "torch.bfloat", "torch.int", "tl.float", "tl.bfloat", "tl.int")
    return tuple(sorted({name for name in names if name.startswith(kinds) and name.count(".") == 1}))


def _compared_with_none(module: ast.Module) -> frozenset[str]:
    compares = (node for node in ast.walk(module) if isinstance(node, ast.Compare))
    return frozenset(
        ast.unparse(node.left)
        for node in compares
        if isinstance(node.ops[0], ast.Is | ast.IsNot) and ast.unparse(node.comparators[0]) == "None"
    )


def _unreadable(function: str, why: str) -> UserFacingError:
    fix = "A port keeps the API of an autograd Function with `forward(ctx, ...)` and `backward(ctx, ...)`."
    return UserFacingError(Failure(FailureCode.layout, f"the API of `{function}` cannot be read: {why}", fix))
