"""A problem as an nn.Module and as a function: arguments, learnable parameters, and the code of both. Pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runner.contracts import InputSpec, Problem, ScalarSpec
from workers.layouts.dimensions import Axes, initial, local
from workers.layouts.python_source import call, docstring, indented, literal

# Attributes of nn.Module that must not be replaced by an argument of the same name.
MODULE_ATTRIBUTES = frozenset({
    "apply", "bfloat16", "buffers", "children", "compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float",
    "forward", "half", "modules", "parameters", "to", "train", "training", "type", "zero_grad",
})  # fmt: skip


@dataclass(frozen=True)
class InitArgument:
    """An argument of ``__init__``; ``default`` as source, None where it must be given."""

    name: str
    type: str
    default: str | None


@dataclass(frozen=True)
class ModuleForm:
    """How a problem becomes a module: what is given once, what is learned, what is given at each call."""

    axes: Axes
    arguments: tuple[InitArgument, ...]
    learned: tuple[InputSpec, ...]
    scalars: tuple[ScalarSpec, ...]
    called: tuple[InputSpec, ...]
    order: tuple[str, ...]  # the reference's parameters
    samples: tuple[tuple[str, str], ...]  # scalars that must be given -> a value of the first workload, as source
    keyword_only: frozenset[str] = frozenset()  # parameters that the reference takes by name alone

    def class_source(self, class_name: str, target: str, nn: str = "nn", *, title: str | None = None) -> str:
        """The module's class, whose forward calls ``target`` with the reference's parameters in order.

        With ``title``, which may be empty, it is the library's own class, with a docstring and ``extra_repr``; else it is the
        reference's.
        """
        signature = [_argument(a) for a in self.arguments]
        body = ["super().__init__()"]
        body += [f"self.{attribute(a.name)} = {a.name}" for a in self.arguments]
        body += [self._learned_line(spec, nn) for spec in self.learned]
        parts = [call("def __init__", ["self", *signature], ":", width=116) + "\n" + indented("\n".join(body))]
        if not self.arguments and not self.learned and title is None:
            parts = []
        parts.append(self._forward(target, self.keyword_only if title is None else frozenset()))
        if title is not None and self.arguments:
            shown = ", ".join(f"{a.name}={{self.{attribute(a.name)}}}" for a in self.arguments)
            parts.append(f'def extra_repr(self):\n    return f"{shown}"')
        if title:
            parts.insert(0, docstring(title))
        return f"class {class_name}({nn}.Module):\n" + indented("\n\n".join(parts))

    def function_source(self, name: str, target: str) -> str:
        """The functional form, with the reference's signature."""
        defaults = {s.name: s.default for s in self.scalars}
        signature = list(call_signature(self.order, defaults))
        return call(f"def {name}", signature, ":") + "\n" + call(f"return {target}", self.order, depth=1)

    def construction(self) -> list[str]:
        """The arguments with which a module is made where each dimension is a variable; defaults are left out."""
        values = dict(self.samples)
        return [f"{a.name}={values.get(a.name, a.name)}" for a in self.arguments if a.default is None]

    def call_arguments(self, suffix: str = "") -> list[str]:
        """The arguments of the functional form, from variables ``INPUT`` and ``suffix``; defaults are left out."""
        values, given = dict(self.samples), list[str]()
        inputs = {spec.name for spec in (*self.called, *self.learned)}
        skipped = False
        for name in self.order:
            value = local(name) + suffix if name in inputs else values.get(name)
            if value is None:
                skipped = True
            else:
                given.append(f"{name}={value}" if skipped or name not in inputs or name in self.keyword_only else value)
                skipped = skipped or name not in inputs
        return given

    def _forward(self, target: str, by_name: frozenset[str]) -> str:
        own = {s.name for s in self.learned} | {s.name for s in self.scalars}
        given = [f"self.{attribute(name)}" if name in own else name for name in self.order]
        given = [f"{n}={value}" if n in by_name else value for n, value in zip(self.order, given, strict=True)]
        called = ["self", *(s.name for s in self.called)]
        # The call stands two levels deep in the class, so it has eight columns less.
        return call("def forward", called, ":", width=116) + "\n" + indented(call(f"return {target}", given, width=112))

    def _learned_line(self, spec: InputSpec, nn: str) -> str:
        value = initial(spec, self.axes)
        name = attribute(spec.name)
        if spec.grad:
            return f"self.{name} = {nn}.Parameter({value})"
        return f'self.register_buffer("{name}", {value})'


def module_form(problem: Problem, axes: Axes) -> ModuleForm:
    """The module form of a problem."""
    learned = tuple(spec for spec in problem.inputs if spec.parameter)
    dims = dict.fromkeys(d for spec in learned for d in spec.dims if not d.isdigit())
    sizes = [InitArgument(axes.variable(dim), "int", None) for dim in dims]
    scalars = [
        InitArgument(s.name, _kind(s, problem), None if s.default is None else literal(s.default))
        for s in problem.scalars
    ]
    required = [a for a in scalars if a.default is None]
    optional = [a for a in scalars if a.default is not None]
    called = tuple(spec for spec in problem.inputs if not spec.parameter)
    arguments = (*sizes, *required, *optional)
    samples, by_name = _samples(problem), _keyword_only(problem)
    return ModuleForm(axes, arguments, learned, problem.scalars, called, problem.parameters, samples, by_name)


def attribute(name: str) -> str:
    """The module's attribute for an argument or a parameter."""
    return f"{name}_value" if name in MODULE_ATTRIBUTES else name


def call_signature(order: tuple[str, ...], defaults: Mapping[str, object]) -> tuple[str, ...]:
    """A signature with the scalars' defaults; what must be given after a default is keyword-only."""
    parts: list[str] = []
    optional = starred = False
    for name in order:
        default = defaults.get(name)
        if default is not None:
            optional = True
            parts.append(f"{name}: {type(default).__name__} = {literal(default)}")
            continue
        if optional and not starred:
            starred = True
            parts.append("*")
        parts.append(name)
    return tuple(parts)


def _argument(argument: InitArgument) -> str:
    return argument.name if argument.default is None else f"{argument.name}={argument.default}"


def _kind(scalar: ScalarSpec, problem: Problem) -> str:
    value = scalar.default
    if value is None:
        value = next(v for w in problem.workloads for n, v in w.scalars if n == scalar.name)
    return type(value).__name__


def _keyword_only(problem: Problem) -> frozenset[str]:
    functions = [n for n in ast.parse(problem.source).body if isinstance(n, ast.FunctionDef) and n.name == "reference"]
    return frozenset(argument.arg for function in functions for argument in function.args.kwonlyargs)


def _samples(problem: Problem) -> tuple[tuple[str, str], ...]:
    required = {s.name for s in problem.scalars if s.default is None}
    given = problem.workloads[0].scalars if problem.workloads else ()
    return tuple((name, literal(value)) for name, value in given if name in required)
