"""Which calls the fast kernels are written for, as a function that the kernel's file gets. Pure text."""

from __future__ import annotations

import ast

from gpu_runner.contracts import Expr, Graph, InputSpec, Problem
from workers.authors.protocol import Limit
from workers.strategies.calling import Called, UncallableError
from workers.strategies.limits import NAME, condition
from workers.strategies.out_of_range import ranged, singled_out
from workers.strategies.patches import rendered_call

NEEDS = "needs_grad"
PLAIN = "(torch.Tensor, torch.nn.Parameter)"


class Coverage:
    """Writes the conditions of one problem, called in one way."""

    def __init__(
        self,
        problem: Problem,
        graph: Graph,
        called: Called,
        *,
        contiguous: bool,
        least_elements: int = 0,
        loose: frozenset[str] = frozenset(),
        choice: str | None = None,
        limits: tuple[Limit, ...] = (),
    ) -> None:
        self.limits = limits
        self.choice = choice
        self.may_be_float32 = loose
        self.least_elements = least_elements
        self.problem, self.graph, self.called, self.contiguous = problem, graph, called, contiguous
        self.anchor = max(problem.inputs, key=lambda spec: (spec.dtype is None, len(spec.dims)))
        self.loose = self._leading_dimensions_are_free()

    def function(self, name: str, wants: list[str], looks: bool) -> str:
        """Give the function; ``wants`` are conditions on the gradients that are needed.

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
        found = [_all(f"type(tensor) in {PLAIN}", listed)]
        found.append(f'{anchor}.device.type in ("cuda", "cpu")')
        found.append("torch.version.hip is None")
        # Traced into a compiled graph, kernels over memory that is used again gave wrong gradients: Liger's test of kl_div
        # under torch.compile, seen on an H200. There the original is what runs.
        found.append("not torch.compiler.is_compiling()")
        found += [f"{place}.device == {anchor}.device" for place in places if place != anchor]
        dtypes = ", ".join(f"torch.{dtype}" for dtype in self.problem.dtypes)
        found.append(f"{anchor}.dtype in ({dtypes}{',' if len(self.problem.dtypes) == 1 else ''})")
        for spec in self.problem.inputs:
            if spec is not self.anchor:
                found.append(f"{self._place(spec)}.dtype {self._dtype(spec)}")
        if not self.contiguous:
            found.append(_all("tensor.is_contiguous()", listed))
        return found

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
        """Give the conditions on shapes; ``sizes`` is filled with what each dimension is read off."""
        anchor, dims = self._place(self.anchor), self.anchor.dims
        least = f">= {self.least_elements}" if self.least_elements else "> 0"
        found = [f"{anchor}.ndim {'>=' if self.loose else '=='} {len(dims)}", f"{anchor}.numel() {least}"]
        for number, dim in enumerate(dims):
            text = f"{anchor}.shape[{number - len(dims)}]"
            if dim.isdigit() or dim in sizes:
                found.append(f"{text} == {sizes.get(dim, dim)}")
            sizes.setdefault(dim, text)
        for spec in self.problem.inputs:
            if spec is not self.anchor:
                found += self._shape(spec, sizes)
        return found + [condition(limit, sizes) for limit in self.limits if not self._divided(limit)]

    def _rules(self, sizes: dict[str, str]) -> list[str]:
        """Conditions on sizes and scalars together: what the scalars must divide, then how wide a row of what is divided may be."""
        scalars = {spec.name: self.called.places[spec.name] for spec in self.problem.scalars}
        found = []
        for rule in self.graph.multiples:
            if rule.dimension not in sizes:
                raise UncallableError(
                    f"No tensor says what `{rule.dimension}` is, which must be a multiple of {rule.of}."
                )
            of = NAME.sub(lambda name: scalars[name.group()], rule.of)
            found += [f"{scalars[name]} > 0" for name in NAME.findall(rule.of)]
            found.append(f"{sizes[rule.dimension]} % {of if of.isidentifier() else f'({of})'} == 0")
        limits = [condition(limit, sizes | scalars) for limit in self.limits if self._divided(limit)]
        return [*dict.fromkeys(found), *limits]

    def _divided(self, limit: Limit) -> bool:
        return not {spec.name for spec in self.problem.scalars}.isdisjoint(NAME.findall(limit.size))

    def _shape(self, spec: InputSpec, sizes: dict[str, str]) -> list[str]:
        anchor, place, dims = self._place(self.anchor), self._place(spec), self.anchor.dims
        if spec.dims == dims:
            return [f"{place}.shape == {anchor}.shape"]
        if spec.dims and dims[-len(spec.dims) :] == spec.dims:
            return [f"{place}.shape == {anchor}.shape[-{len(spec.dims)}:]"]
        found = [f"{place}.ndim == {len(spec.dims)}"]
        for number, dim in enumerate(spec.dims):
            text = f"{place}.shape[{number}]"
            known = dim if dim.isdigit() else sizes.get(dim)
            if known is None:
                sizes[dim] = text
            else:
                found.append(f"{text} == {known}")
        return found

    def _scalars(self) -> list[str]:
        found: list[str] = []
        for spec in self.problem.scalars:
            place = self.called.places[spec.name]
            if spec.name in self.graph.specialised:
                found.append(_equals(place, ast.Constant(spec.default)))
            elif isinstance(spec.default, bool | str) or spec.default is None:
                found.append(
                    f"isinstance({place}, {type(spec.default).__name__ if spec.default is not None else 'int'})"
                )
            else:
                found.append(f"isinstance({place}, {'int' if isinstance(spec.default, int) else '(int, float)'})")
        return found

    def _constants(self) -> list[str]:
        free = [] if self.choice is None else [f"isinstance({self.choice}, bool)"]
        return [_equals(name, node) for name, node in self.called.fixed if name != self.choice] + free

    def _ranges(self) -> list[str]:
        """One wait for the GPU a condition, by operators that files with such checks have of their own: no mask is reduced."""
        found: list[str] = []
        for spec in ranged(self.problem):
            place, low, high = self._place(spec), spec.low or 0, self._high(spec)
            left_out = singled_out(spec, self.graph)
            kept = " & ".join(f"({place} != {value})" for value in left_out)
            inside = f"({place} * {kept if len(left_out) == 1 else f'({kept})'})" if left_out else place
            found += [f"int({inside}.max()) < {high}", f"int({inside}.min()) >= {low}"]
            found += [f"int({place}.max()) >= {low}"] if left_out else []
        return found

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
        return any(isinstance(n, ast.Name) and n.id == dim for n in ast.walk(ast.parse(argument.text, mode="eval")))
    return False


def _equals(place: str, node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool)):
        return f"{place} is {node.value}"
    text = ast.unparse(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = '"' + node.value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{place} == {text}"
