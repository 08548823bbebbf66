"""Which calls of an autograd Function the fast path takes: how CALL reaches it, limits of sizes, indices in range. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from gpu_runner.contracts import Expr, Graph, InputSpec, Node, NodeRef, Problem
from gpu_runner.contracts.reading import walk
from workers.authors.protocol import Limit
from workers.strategies.source import KernelFile, method_of, names_in, rendered_call

NAME = re.compile(r"[A-Za-z_]\w*")


def condition(limit: Limit, places: dict[str, str]) -> str:
    """A bound as a condition; ``places`` are the expressions for the dimension names.

    Raises:
        ValueError: it has a name that the places lack.
    """
    if not set(NAME.findall(limit.size)) <= set(places):
        raise ValueError(f"no tensor says what `{limit.size}` is")
    return f"{NAME.sub(lambda name: places[name.group()], limit.size)} <= {limit.most}"


def sentence(limits: tuple[Limit, ...]) -> str:
    """The bounds as a sentence with a blank behind it; empty where there are none."""
    bounds = " and ".join(f"`{limit.size} <= {limit.most}`" for limit in limits)
    if not limits:
        return ""
    return f"It takes calls with {bounds} alone, as every measured size has, and spares kernels for wider rows. "


def scalar_sentence(problem: Problem, graph: Graph) -> str:
    """The whole scalars by which a graph divides sizes, and those it is specialised to, as a sentence with a blank behind it."""
    divided = [f"`{rule.dimension}` is a multiple of `{rule.of}`" for rule in graph.multiples]
    whole = [spec for spec in problem.scalars if type(spec.default) is int and spec.name in graph.specialised]
    text = f"It takes calls in which {' and '.join(divided)}. " if divided else ""
    fixed = " and ".join(f"`{spec.name} = {problem.values_of(spec)[0]}`" for spec in whole)
    return text + (
        f"It is written for {fixed} alone, since no rule was found by which other values could be. " if whole else ""
    )


class UncallableError(ValueError):
    """The CALL does not reach a Function of the file in a way that can be followed; the text is a sentence."""


@dataclass(frozen=True)
class CalledFunction:
    """A CALL, bound to the Function's parameters (without ``ctx``)."""

    owner: ast.ClassDef
    forward: ast.FunctionDef
    backward: ast.FunctionDef
    parameters: tuple[str, ...]
    places: dict[str, str]  # input or scalar of the problem: the parameter that holds it
    fixed: tuple[tuple[str, ast.expr], ...]  # parameter: what the call gives it, over the parameters
    result: int | None  # which element of the returned tuple the problem speaks of

    @property
    def constants(self) -> dict[str, object]:
        """The parameters that are plain values in this call."""
        return {name: node.value for name, node in self.fixed if isinstance(node, ast.Constant)}


def bound_call(file: KernelFile, problem: Problem) -> CalledFunction:
    """Bind a problem's CALL.

    Raises:
        UncallableError: the call cannot be followed into this file.
    """
    if problem.call is None:
        raise UncallableError("The problem does not say how the library's kernel is called for it (CALL).")
    tree = ast.parse(problem.call, mode="eval").body
    result = None
    if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant) and isinstance(tree.slice.value, int):
        result, tree = tree.slice.value, tree.value
    owner = _owner(file, tree)
    forward, backward = method_of(owner, "forward"), method_of(owner, "backward")
    if forward is None or backward is None or not isinstance(tree, ast.Call):
        raise UncallableError(f"`{owner.name}` has no forward and backward that could be extended.")
    if forward.args.vararg or forward.args.kwarg or forward.args.kwonlyargs:
        raise UncallableError(f"`{owner.name}.forward` takes arguments that are not named one by one.")
    parameters = tuple(a.arg for a in (*forward.args.posonlyargs, *forward.args.args))[1:]
    if len(tree.args) > len(parameters):
        raise UncallableError("The CALL gives more arguments than the Function takes.")
    given = dict(zip(parameters, tree.args, strict=False))
    places = _places(given, problem)
    fixed = [(name, _over_parameters(node, places)) for name, node in given.items() if name not in places.values()]
    fixed += [(name, node) for name, node in _defaults(forward).items() if name not in given]
    return CalledFunction(owner, forward, backward, parameters, places, tuple(fixed), result)


def _owner(file: KernelFile, tree: ast.expr) -> ast.ClassDef:
    func = tree.func if isinstance(tree, ast.Call) else None
    if isinstance(func, ast.Attribute) and func.attr == "apply":
        name = ast.unparse(func.value).split(".")[-1]
        if name in file.classes:
            return file.classes[name]
    raise UncallableError("The CALL does not apply an autograd Function of this file.")


def _places(given: dict[str, ast.expr], problem: Problem) -> dict[str, str]:
    places: dict[str, str] = {}
    for parameter, node in given.items():
        if isinstance(node, ast.Name):
            if node.id in places:
                raise UncallableError(f"The CALL hands `{node.id}` over twice.")
            places[node.id] = parameter
    missing = [name for name in problem.parameters if name not in places]
    if missing:
        raise UncallableError(f"The CALL does not hand `{missing[0]}` over as it is.")
    return places


def _over_parameters(node: ast.expr, places: dict[str, str]) -> ast.expr:
    renamed = ast.parse(ast.unparse(node), mode="eval").body
    for name in walk(renamed):
        if isinstance(name, ast.Name):
            name.id = places.get(name.id, name.id)
    if names_in(renamed) - set(places.values()):
        raise UncallableError(f"`{ast.unparse(node)}` in the CALL cannot be told from the Function's arguments.")
    return renamed


def _defaults(forward: ast.FunctionDef) -> dict[str, ast.expr]:
    arguments = [*forward.args.posonlyargs, *forward.args.args]
    defaults = {a.arg: None for a in arguments[1:]} | dict(
        zip(
            [a.arg for a in arguments[len(arguments) - len(forward.args.defaults) :]],
            forward.args.defaults,
            strict=True,
        )
    )
    return {name: node for name, node in defaults.items() if node is not None}


NEEDS = "needs_grad"
PLAIN = "(torch.Tensor, torch.nn.Parameter)"


class Coverage:
    """Writes the conditions of one problem, called in one way."""

    def __init__(
        self,
        problem: Problem,
        graph: Graph,
        called: CalledFunction,
        *,
        contiguous: bool,
        least_elements: int = 0,
        loose: frozenset[str] = frozenset(),
        limits: tuple[Limit, ...] = (),
    ) -> None:
        self.limits = limits
        self.may_be_float32 = loose
        self.least_elements = least_elements
        self.problem, self.graph, self.called, self.contiguous = problem, graph, called, contiguous
        self.anchor = max(problem.inputs, key=lambda spec: (spec.dtype is None, len(spec.dims)))
        self.loose = self._leading_dimensions_are_free()

    def function(self, name: str, wants: list[str], looks: bool) -> str:
        """The function; ``wants`` are conditions on the gradients that are needed.

        ``looks``: indices are brought to the host, to see that they are in range.
        """
        sizes: dict[str, str] = {}
        conditions = [*self._tensors(), *self._shapes(sizes), *self._scalars(), *self._rules(sizes)]
        conditions += [*self._constants(), *wants]
        conditions += self._ranges() if looks else []
        lines = [f"        {'and ' if number else ''}{text}" for number, text in enumerate(conditions)]
        head = rendered_call(f"def {name}", [*self.called.parameters, NEEDS], "", ":")
        doc = '    """Tell whether a call is one that the fast kernels are written and proved for."""'
        return "\n".join([head, doc, "    return (", *lines, "    )"])

    def _place(self, spec: InputSpec) -> str:
        return self.called.places[spec.name]

    def _tensors(self) -> list[str]:
        anchor = self._place(self.anchor)
        places = [self._place(spec) for spec in self.problem.inputs]
        listed = f"({places[0]},)" if len(places) == 1 else f"({', '.join(places)})"
        conditions = [_all(f"type(tensor) in {PLAIN}", listed)]
        conditions.append(f'{anchor}.device.type in ("cuda", "cpu")')
        conditions.append("torch.version.hip is None")
        # Traced into a compiled graph, kernels over memory that is used again gave wrong gradients: Liger's test of kl_div
        # under torch.compile, seen on an H200. There the original is what runs.
        conditions.append("not torch.compiler.is_compiling()")
        conditions += [f"{place}.device == {anchor}.device" for place in places if place != anchor]
        dtypes = ", ".join(f"torch.{dtype}" for dtype in self.problem.dtypes)
        conditions.append(f"{anchor}.dtype in ({dtypes}{',' if len(self.problem.dtypes) == 1 else ''})")
        for spec in self.problem.inputs:
            if spec is not self.anchor:
                conditions.append(f"{self._place(spec)}.dtype {self._dtype(spec)}")
        if not self.contiguous:
            conditions.append(_all("tensor.is_contiguous()", listed))
        return conditions

    def _dtype(self, spec: InputSpec) -> str:
        anchor = f"{self._place(self.anchor)}.dtype"
        if spec.name in self.may_be_float32:
            return f"in (torch.float32, {anchor})"
        return f"== torch.{spec.dtype}" if spec.dtype else f"== {anchor}"

    def _leading_dimensions_are_free(self) -> bool:
        """More dimensions may come before the last ones where every row is computed for itself and results keep the rows."""
        dims = self.anchor.dims
        if len(dims) != 2 or dims[0].isdigit() or dims[0] == dims[1]:
            return False
        lead, rows = dims[0], self.anchor.name
        others = [spec for spec in self.problem.inputs if lead in spec.dims and spec.dims != dims]
        metas = {node.name: node.meta.shape for node in self.graph.nodes}
        kept = all(metas[output] == metas[rows] for output in self.graph.outputs)
        counted = any(_mentions(argument, lead) for node in self.graph.nodes for argument in node.args)
        divided = any(rule.dimension == lead for rule in self.graph.multiples)
        return not others and kept and not counted and not divided

    def _shapes(self, sizes: dict[str, str]) -> list[str]:
        """The conditions on shapes; ``sizes`` is filled with what each dimension is read off."""
        anchor, dims = self._place(self.anchor), self.anchor.dims
        least = f">= {self.least_elements}" if self.least_elements else "> 0"
        conditions = [f"{anchor}.ndim {'>=' if self.loose else '=='} {len(dims)}", f"{anchor}.numel() {least}"]
        for number, dim in enumerate(dims):
            text = f"{anchor}.shape[{number - len(dims)}]"
            if dim.isdigit() or dim in sizes:
                conditions.append(f"{text} == {sizes.get(dim, dim)}")
            sizes.setdefault(dim, text)
        for spec in self.problem.inputs:
            if spec is not self.anchor:
                conditions += self._shape(spec, sizes)
        return conditions + [condition(limit, sizes) for limit in self.limits if not self._divided(limit)]

    def _rules(self, sizes: dict[str, str]) -> list[str]:
        """Conditions on sizes and scalars together: what the scalars must divide, then how wide a row of what is divided may be."""
        scalars = {spec.name: self.called.places[spec.name] for spec in self.problem.scalars}
        conditions = []
        for rule in self.graph.multiples:
            if rule.dimension not in sizes:
                raise UncallableError(
                    f"No tensor says what `{rule.dimension}` is, which must be a multiple of {rule.of}."
                )
            of = NAME.sub(lambda name: scalars[name.group()], rule.of)
            conditions += [f"{scalars[name]} > 0" for name in NAME.findall(rule.of)]
            conditions.append(f"{sizes[rule.dimension]} % {of if of.isidentifier() else f'({of})'} == 0")
        limits = [condition(limit, sizes | scalars) for limit in self.limits if self._divided(limit)]
        return [*dict.fromkeys(conditions), *limits]

    def _divided(self, limit: Limit) -> bool:
        return not {spec.name for spec in self.problem.scalars}.isdisjoint(NAME.findall(limit.size))

    def _shape(self, spec: InputSpec, sizes: dict[str, str]) -> list[str]:
        anchor, place, dims = self._place(self.anchor), self._place(spec), self.anchor.dims
        if spec.dims == dims:
            return [f"{place}.shape == {anchor}.shape"]
        if spec.dims and dims[-len(spec.dims) :] == spec.dims:
            return [f"{place}.shape == {anchor}.shape[-{len(spec.dims)}:]"]
        conditions = [f"{place}.ndim == {len(spec.dims)}"]
        for number, dim in enumerate(spec.dims):
            text = f"{place}.shape[{number}]"
            known = dim if dim.isdigit() else sizes.get(dim)
            if known is None:
                sizes[dim] = text
            else:
                conditions.append(f"{text} == {known}")
        return conditions

    def _scalars(self) -> list[str]:
        conditions: list[str] = []
        for spec in self.problem.scalars:
            place = self.called.places[spec.name]
            if spec.name in self.graph.specialised:
                conditions.append(_equals(place, ast.Constant(self.problem.values_of(spec)[0])))
            elif isinstance(spec.default, bool | str) or spec.default is None:
                conditions.append(
                    f"isinstance({place}, {type(spec.default).__name__ if spec.default is not None else 'int'})"
                )
            else:
                conditions.append(f"isinstance({place}, {'int' if isinstance(spec.default, int) else '(int, float)'})")
            conditions += [bound.text(place) for bound in self.graph.bounds if bound.scalar == spec.name]
        return conditions

    def _constants(self) -> list[str]:
        return [_equals(name, node) for name, node in self.called.fixed]

    def _ranges(self) -> list[str]:
        """One wait for the GPU a condition, by operators that files with such checks have of their own: no mask is reduced."""
        conditions: list[str] = []
        for spec in ranged(self.problem):
            place, low, high = self._place(spec), spec.low or 0, self._high(spec)
            left_out = singled_out(spec, self.graph)
            kept = " & ".join(f"({place} != {value})" for value in left_out)
            inside = f"({place} * {kept if len(left_out) == 1 else f'({kept})'})" if left_out else place
            conditions += [f"int({inside}.max()) < {high}", f"int({inside}.min()) >= {low}"]
            conditions += [f"int({place}.max()) >= {low}"] if left_out else []
        return conditions

    def _high(self, spec: InputSpec) -> str:
        dims = self.anchor.dims
        if isinstance(spec.high, str) and spec.high in dims:
            return f"{self._place(self.anchor)}.shape[{dims.index(spec.high) - len(dims)}]"
        return str(spec.high) if isinstance(spec.high, int) else "0"


def _all(test: str, listed: str) -> str:
    """``all(...)`` over tensors, broken as a formatter breaks it behind an ``and``."""
    line = f"all({test} for tensor in {listed})"
    return line if len(line) <= 108 else f"all(\n            {test}\n            for tensor in {listed}\n        )"


def _mentions(argument: object, dim: str) -> bool:
    if isinstance(argument, tuple):
        return any(_mentions(part, dim) for part in argument)
    if isinstance(argument, Expr):
        return any(isinstance(n, ast.Name) and n.id == dim for n in walk(ast.parse(argument.text, mode="eval")))
    return False


def _equals(place: str, node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool)):
        return f"{place} is {node.value}"
    text = ast.unparse(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = '"' + node.value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{place} == {text}"


class _Known(Enum):
    """What is known of a tensor, for a row whose index is neither in its range nor a number that the problem singles out."""

    row = "each element is NaN where that element of an input is, along the dimension that the index counts"
    index = "holds the index"
    nan = "holds NaN"
    true = "holds True"
    false = "holds False"
    unknown = "unknown"


_KEEP_NAN = frozenset(["neg", "abs", "sqrt", "rsqrt", "exp", "log", "add", "sub", "mul", "div", "cast"])
_MOVES = frozenset(["reshape", "permute"])


def ranged(problem: Problem) -> list[InputSpec]:
    """The inputs that hold whole numbers of a range."""
    return [spec for spec in problem.inputs if spec.high is not None]


def singled_out(spec: InputSpec, graph: Graph) -> list[int]:
    """Values below the range that the problem itself compares with, such as the class that a loss leaves out."""
    distinct: list[int] = []
    for node in graph.nodes:
        if node.op in ("eq", "ne") and NodeRef(spec.name) in node.args:
            values = [a for a in node.args if type(a) is int and a < (spec.low or 0)]
            distinct += [value for value in values if value not in distinct]
    return distinct


def result_shows_range_errors(problem: Problem, graph: Graph) -> bool:
    """Whether the one result is one number, which is NaN for every index out of range, of whichever input."""
    if len(graph.outputs) != 1:
        return False
    result = next(node for node in graph.nodes if node.name == graph.outputs[0])
    return result.meta.shape == () and all(_reaches_result(spec, problem, graph) for spec in ranged(problem))


def _reaches_result(spec: InputSpec, problem: Problem, graph: Graph) -> bool:
    columns = [i.name for i in problem.inputs if i.dtype is None and i.dims and i.dims[-1] == str(spec.high)]
    known = {**dict.fromkeys(columns, _Known.row), spec.name: _Known.index}
    for node in graph.nodes:
        if node.op != "input":
            args = [known.get(arg.name, _Known.unknown) if isinstance(arg, NodeRef) else arg for arg in node.args]
            known[node.name] = _known(node, args, spec)
    return known[graph.outputs[0]] is _Known.nan


def _known(node: Node, args: Sequence[object], spec: InputSpec) -> _Known:
    first, low = args[0] if args else None, spec.low or 0
    if node.op in _MOVES and first in (_Known.index, _Known.nan):
        return _Known(first)
    if node.op in ("eq", "ne") and _Known.index in args and any(type(arg) is int and arg < low for arg in args):
        return _Known.false if node.op == "eq" else _Known.true
    if node.op == "where" and first in (_Known.true, _Known.false):
        chosen = args[1 if first is _Known.true else 2]
        return chosen if isinstance(chosen, _Known) else _Known.unknown
    if node.op == "gather" and first is _Known.row and args[2] is _Known.index:
        last = node.args[1] in (-1, len(node.meta.shape) - 1)
        return _Known.nan if last and low == 0 else _Known.unknown
    if node.op in _KEEP_NAN and _Known.nan in args:
        return _Known.nan
    if node.op in _KEEP_NAN and _Known.row in args and _width(node) == str(spec.high):
        return _Known.row
    return _Known.nan if node.op == "sum" and first is _Known.nan else _Known.unknown


def _width(node: Node) -> str:
    size = node.meta.shape[-1] if node.meta.shape else ""
    return size.text if isinstance(size, Expr) else str(size)
