"""Phase B of a port: the operator's module, with the default operator's API around the kernels of the compiler author. Pure."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from gpu_runner.contracts import Problem
from workers.authors.compiler.graph import renamed
from workers.authors.protocol import Proposal, Signature
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.layouts.calls import call_of
from workers.targets.contract import ApiContract, Parameter, SymbolContract

CONTEXT = "ctx."
ANY = "a value"
GIVEN = "given"
INDENT = "    "


@dataclass(frozen=True)
class CallVariant:
    """A way to call the operator, and the kernels for it; several differ in constants of their CALL, such as a casting mode.

    The operator's result is the launcher's over ``divisor``, arithmetic over the problem's inputs, where that is not empty.
    """

    name: str
    problem: Problem
    proposal: Proposal
    divisor: str = ""

    @property
    def signature(self) -> Signature:
        """How its two launchers are called."""
        assert self.proposal.signature is not None, "a section says how it is called"
        return self.proposal.signature


@dataclass(frozen=True)
class PortedSymbol:
    """What became of a public function: its definition, and what differs or why it is not exported."""

    name: str
    source: str | None
    note: str = "the same arguments and results"


@dataclass(frozen=True)
class CallKernels:
    """A call of the Function, as sources with GIVEN for what is no constant, and the launchers that it is to reach.

    ``saved`` is the number of tensors that backward is handed. ``divisor`` is what the launcher's result is divided by.
    """

    arguments: tuple[str, ...]
    forward: str
    backward: str
    saved: int
    divisor: str = GIVEN


@dataclass(frozen=True)
class PortedModule:
    """The module, the names that it exports, and the calls that it refuses."""

    source: str
    exports: tuple[str, ...]
    symbols: tuple[PortedSymbol, ...]
    narrowed: tuple[str, ...]  # parameters of which it takes some values alone, with those values
    saved: tuple[str, ...] = ()  # tensors kept for backward, by the names that forward has for them
    calls: tuple[CallKernels, ...] = ()  # where forward chooses among kernels


@dataclass(frozen=True)
class _Bound:
    """A variant's CALL against the parameters of forward: the problem's own name of each, or a constant's source."""

    variant: CallVariant
    names: Mapping[str, str]  # the Function's parameter, by the problem's
    constants: Mapping[str, str]

    def argument(self, name: str) -> str:
        """A problem's parameter as the Function's, or as it is where the launcher's own."""
        return self.names.get(name, name)

    @property
    def divisor(self) -> str:
        """What the launcher's result is divided by, in the Function's parameters."""
        return renamed(self.variant.divisor, dict(self.names))


def with_backward(variant: CallVariant, backward: Proposal) -> CallVariant:
    """A variant whose backward launcher is the forward one of another proposal, of upstream gradients and what forward returned."""
    launcher, own = backward_name(variant.name), variant.proposal
    assert backward.signature is not None, "a section says how it is called"
    blocks = [block for block in own.source.strip("\n").split("\n\n\n") if f"def {launcher}" not in block]
    signature = replace(variant.signature, backward_arguments=backward.signature.forward_arguments)
    source = "\n\n\n".join(dict.fromkeys([*blocks, *backward.source.strip("\n").split("\n\n\n")]))
    imports = tuple(dict.fromkeys([*own.imports, *backward.imports]))
    return replace(variant, proposal=replace(own, source=source, signature=signature, imports=imports))


def forward_name(kernel: str) -> str:
    """The launcher of a kernel's forward pass."""
    return f"_{kernel}_forward"


def backward_name(kernel: str) -> str:
    """The launcher of a kernel's backward pass."""
    return f"_{kernel}_backward"


def ported_module(
    name: str, contract: ApiContract, variants: tuple[CallVariant, ...], free: Iterable[str], contiguous: str
) -> PortedModule:
    """The module of a port; ``free`` are parameters that choose memory or launches and never values, ``contiguous`` the
    line that imports the decorator of forward and backward.

    Raises:
        UserFacingError: a CALL computes its arguments, or the contract has defaults that only its own module knows.
    """
    bound = tuple(_bound(variant, contract) for variant in _sharing(variants, name))
    defaults = {parameter.name: parameter.default for parameter in contract.parameters}
    usual = min(bound, key=lambda one: sum(text != defaults[name] for name, text in one.constants.items()))
    title = f"{usual.variant.problem.title.rstrip('.')}."
    return _Writer(name, contract, bound, frozenset(free), title, contiguous).module()


def _sharing(variants: tuple[CallVariant, ...], name: str) -> tuple[CallVariant, ...]:
    """The variants, those with the same kernels under one name: the operator's where all have the same."""
    first: dict[str, CallVariant] = {}
    for variant in sorted(variants, key=lambda one: bool(one.divisor)):  # a sum gives its name before a mean
        first.setdefault(variant.proposal.source.replace(variant.name, name), variant)
    if len(first) == 1:
        shared = replace(variants[0].proposal, source=next(iter(first)))
        return tuple(replace(variant, name=name, proposal=shared) for variant in variants)
    owners = (first[variant.proposal.source.replace(variant.name, name)] for variant in variants)
    pairs = zip(owners, variants, strict=True)
    return tuple(replace(one, name=own.name, proposal=own.proposal) for own, one in pairs)


def _bound(variant: CallVariant, contract: ApiContract) -> _Bound:
    call = call_of(variant.problem)
    names, constants = dict[str, str](), dict[str, str]()
    given = dict(zip((parameter.name for parameter in contract.parameters), call.arguments, strict=False))
    for parameter in contract.parameters:
        node = given.get(parameter.name)
        if isinstance(node, ast.Name):
            names[node.id] = parameter.name
        elif node is not None and not isinstance(node, ast.Constant | ast.UnaryOp):
            raise _unbound(contract, f"its CALL computes `{parameter.name}`")
        else:
            constants[parameter.name] = ast.unparse(node) if node is not None else parameter.default or "None"
    if call.index is not None or set(variant.problem.parameters) - set(names):
        raise _unbound(contract, "its CALL returns only a part of the operator's results, or leaves out a parameter")
    return _Bound(variant, names, constants)


def _unbound(contract: ApiContract, why: str) -> UserFacingError:
    fix = "Commit a problem whose CALL passes the reference's own parameters, as `.kernelsmith/problems/NAME.py`."
    return UserFacingError(Failure(FailureCode.problem, f"`{contract.function}` cannot be ported: {why}", fix))


@dataclass(frozen=True)
class _Writer:
    name: str
    contract: ApiContract
    bound: tuple[_Bound, ...]
    free: frozenset[str]
    title: str
    contiguous: str

    def module(self) -> PortedModule:
        symbols = tuple(
            filter(None, (self._symbol(self.contract.forward), self._symbol(self.contract.backward, back=True)))
        )
        defined = [symbol.source for symbol in symbols if symbol.source]
        sections = [block for one in self.bound for block in one.variant.proposal.source.strip("\n").split("\n\n\n")]
        imports = dict.fromkeys(line for one in self.bound for line in one.variant.proposal.imports)
        head = [
            *(line for line in imports if line.startswith("import ")),
            "",
            *sorted(line for line in {*imports, self.contiguous} if line.startswith("from ")),
        ]
        blocks = ["\n".join(head), *dict.fromkeys(sections), *defined, self._function()]
        exports = (self.contract.function, *(symbol.name for symbol in symbols if symbol.source))
        saved = dict.fromkeys(self._names(one).get(n, one.argument(n)) for one in self.bound for n in self._kept(one))
        source = "\n\n\n".join(blocks) + "\n"
        return PortedModule(source, exports, symbols, self.narrowed, tuple(saved), self._calls())

    def _calls(self) -> tuple[CallKernels, ...]:
        if len({(one.variant.name, one.divisor) for one in self.bound}) == 1:
            return ()
        names = [parameter.name for parameter in self.contract.parameters]
        return tuple(
            CallKernels(
                tuple(one.constants.get(name, GIVEN) for name in names),
                forward_name(one.variant.name),
                backward_name(one.variant.name),
                len(self._kept(one)),
                renamed(one.divisor or "1", dict.fromkeys(names, GIVEN)) if self._is_divided(one) else GIVEN,
            )
            for one in self.bound
        )

    def _is_divided(self, one: _Bound) -> bool:
        """Whether some call with the same kernels divides what they give."""
        return any(other.divisor for other in self.bound if other.variant.name == one.variant.name)

    @cached_property
    def discriminating(self) -> tuple[str, ...]:
        """The parameters in whose constants the variants differ, or that some have and some have not."""
        return _differing(self.bound)

    @cached_property
    def fixed(self) -> dict[str, str]:
        """The parameters that have one constant in every variant, with it, but for those that change no values."""
        first = self.bound[0].constants
        return {n: text for n, text in first.items() if n not in self.discriminating and n not in self.free}

    @property
    def narrowed(self) -> tuple[str, ...]:
        """What a caller can no longer pass."""
        whole = {parameter.name: set(parameter.values) for parameter in self.contract.parameters}
        taken = self._values_of().items()
        some = {n: texts for n, texts in taken if ANY not in texts and (not whole[n] or whole[n] - {*texts})}
        tensors = (f"{name} = a tensor" for name in self.required)
        return (*(f"{n} = {text}" for n, text in self.fixed.items()), *tensors, *_listed(some))

    def _names(self, one: _Bound) -> dict[str, str]:
        """Names for what the launchers return, free of the parameters' own."""
        taken = {parameter.name for parameter in self.contract.parameters}
        own = (*one.variant.signature.outputs, *one.variant.signature.saved)
        return {text: f"{text}_" if text in taken else text for text in own}

    # -- the Function

    def _function(self) -> str:
        contract = self.contract
        sources = [Parameter(p.name, _literal(p, contract)).source for p in contract.parameters]
        forward, backward = [], []
        for text in self._refusals():
            forward += text
        groups = {one.variant.name: [o for o in self.bound if o.variant.name == one.variant.name] for one in self.bound}
        several = len(groups) > 1
        for name, alike in groups.items():
            condition = self._condition(*alike)
            if several:
                forward += _guarded([f'ctx.variant = "{name}"', *self._forward(*alike)], condition)
            else:  # one way for all: other calls are refused before it
                forward += [
                    *(_guarded([self._none_left()], _negated(condition)) if condition else []),
                    *self._forward(*alike),
                ]
            backward += _guarded(self._backward(alike[0]), f'ctx.variant == "{name}"' if several else "")
        if several:
            forward.append(self._none_left())
        return "\n".join(
            [
                f"class {contract.function}(torch.autograd.Function):",
                f'{INDENT}"""{self.title}"""',
                "",
                *_method("forward", sources, forward),
                "",
                *_method("backward", list(contract.upstream), backward),
            ]
        )

    def _refusals(self) -> list[list[str]]:
        refused = [self._refusal(name, text) for name, text in self.fixed.items()]
        return [*refused, *map(self._none_refusal, self.required)]

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters that the origin takes as None too, and no call of the port does."""
        known = [one.constants for one in self.bound]
        return tuple(name for name in self.contract.optional if not any(name in constants for constants in known))

    def _none_refusal(self, name: str) -> list[str]:
        taken = f"{self.contract.function} on this device takes no {name} = None"
        return [f"if {name} is None:", f'{INDENT}raise NotImplementedError("{taken}")']

    def _refusal(self, name: str, text: str) -> list[str]:
        taken = f"{self.contract.function} on this device takes {name} = {_quoted(text)} alone"
        return [f"if {_equals(name, text, negated=True)}:", f'{INDENT}raise NotImplementedError("{taken}")']

    def _none_left(self) -> str:
        return f'raise NotImplementedError("{self.contract.function} on this device takes {_quoted("; ".join(self.taken))}")'

    @property
    def taken(self) -> tuple[str, ...]:
        """The values of the discriminating parameters, for people."""
        return _listed(self._values_of())

    def _values_of(self) -> dict[str, list[str]]:
        return {n: list(dict.fromkeys(one.constants.get(n, ANY) for one in self.bound)) for n in self.discriminating}

    def _condition(self, *alike: _Bound, among: tuple[_Bound, ...] = ()) -> str:
        """When a call is one of several variants, of all or of those that it is known to be ``among``."""
        names = _differing(among or self.bound)
        values = {name: list(dict.fromkeys(one.constants.get(name) for one in alike)) for name in names}
        if math.prod(map(len, values.values())) == len(alike):  # every combination of their values
            return " and ".join(_is_one_of(name, texts) for name, texts in values.items())
        return " or ".join(f"({self._condition(one, among=among)})" for one in alike)

    def _forward(self, *alike: _Bound) -> list[str]:
        one = alike[0]
        signature, names = one.variant.signature, self._names(one)
        outputs = [names[text] for text in signature.outputs]
        results = ", ".join([*outputs, *(names[text] for text in signature.saved)])
        given = ", ".join(one.argument(name) for name in signature.forward_arguments)
        divided = {each.divisor: [o for o in alike if o.divisor == each.divisor] for each in alike}
        lines = list[str]()
        for divisor, those in divided.items() if any(divided) else ():
            lines += _guarded([f"ctx.divisor = {divisor or 1}"], self._condition(*those, among=alike))
        lines += [f"{results} = {forward_name(one.variant.name)}({given})"]
        kept = [names.get(text, one.argument(text)) for text in self._kept(one)]
        lines += [f"ctx.save_for_backward({', '.join(kept)})"] if kept else []
        lines += [f"ctx.{one.argument(n)} = {one.argument(n)}" for n in self._scalars(one)]
        silent = [o for o, u in zip(outputs, signature.upstream, strict=True) if not u]
        lines += [f"ctx.mark_non_differentiable({', '.join(silent)})"] if silent else []
        return [*lines, f"return {', '.join(outputs)}{' / ctx.divisor' if any(divided) else ''}"]

    def _kept(self, one: _Bound) -> list[str]:
        signature = one.variant.signature
        scalars = {spec.name for spec in one.variant.problem.scalars}
        return [a for a in signature.backward_arguments if a not in signature.upstream and a not in scalars]

    def _scalars(self, one: _Bound) -> list[str]:
        scalars = {spec.name for spec in one.variant.problem.scalars}
        return [a for a in one.variant.signature.backward_arguments if a in scalars]

    def _backward(self, one: _Bound) -> list[str]:
        signature, names = one.variant.signature, self._names(one)
        kept = [names.get(text, one.argument(text)) for text in self._kept(one)]
        lines = []
        if kept:
            lines.append(f"{f'({kept[0]},)' if len(kept) == 1 else ', '.join(kept)} = ctx.saved_tensors")
        over = " / ctx.divisor" if self._is_divided(one) else ""
        upstream = {name: own + over for name, own in zip(signature.upstream, self.contract.upstream, strict=False)}
        scalars = set(self._scalars(one))
        given = [
            upstream.get(a) or (f"ctx.{one.argument(a)}" if a in scalars else names.get(a, one.argument(a)))
            for a in signature.backward_arguments
        ]
        own = {one.argument(name): f"d{one.argument(name)}" for name in signature.gradients}
        results = ", ".join(own.values())
        lines.append(f"{results} = {backward_name(one.variant.name)}({', '.join(given)})")
        return [*lines, f"return {', '.join(own.get(p.name, 'None') for p in self.contract.parameters)}"]

    # -- public functions

    def _symbol(self, symbol: SymbolContract | None, *, back: bool = False) -> PortedSymbol | None:
        if symbol is None:
            return None
        if len({one.variant.name for one in self.bound}) > 1 or any(one.divisor for one in self.bound):
            return PortedSymbol(symbol.name, None, "it encodes the variants in its own form")
        lines = self._backward_symbol(symbol) if back else self._forward_symbol(symbol)
        if lines is None:
            internal = [text for text in (*self._needed(symbol), *symbol.results) if not self._is_shared(text)]
            why = "it passes values that only its own kernels have"
            return PortedSymbol(symbol.name, None, f"{why}: {', '.join(dict.fromkeys(internal))}" if internal else why)
        head = f"def {symbol.name}({', '.join(Parameter(p.name, p.default).source for p in symbol.parameters)}):"
        source = "\n".join([head, *(INDENT + line for line in lines)])
        own = [
            text
            for text in (*symbol.results, *symbol.arguments)
            if text.removeprefix(CONTEXT) in self.contract.settings
        ]
        settings = ", ".join(dict.fromkeys(text.removeprefix(CONTEXT) for text in own))
        how = "ignored" if back else "None"
        passed = zip(symbol.arguments, symbol.parameters, strict=False)
        optional = ", ".join(p.name for text, p in passed if back and not self._is_shared(text))
        notes = [
            PortedSymbol.note,
            *([f"but that {settings} are {how}: each launcher chooses its own"] if settings else []),
            *([f"{optional} ignored: all gradients are computed"] if optional else []),
        ]
        return PortedSymbol(symbol.name, source, ", ".join(notes))

    def _is_shared(self, text: str) -> bool:
        contract = self.contract
        own = {parameter.name for parameter in contract.parameters} | {*contract.upstream, *contract.returns}
        return text.removeprefix(CONTEXT) in own | contract.settings | {*contract.gradients, *self._statistics}

    @staticmethod
    def _needed(symbol: SymbolContract) -> list[str]:
        """What callers must pass; what they may leave out chooses what is computed, and the port computes all."""
        pairs = zip(symbol.arguments, symbol.parameters, strict=False)
        return [text for text, parameter in pairs if parameter.default is None]

    @cached_property
    def _statistics(self) -> dict[str, str]:
        """What the origin makes for backward and the port makes too, by the origin's name: the same but for its case.

        Nothing where the port makes more, or other tensors: one of that name is then a part of what the origin has.
        """
        own = {name.casefold(): name for name in self.bound[0].variant.signature.saved}
        made = {text for symbol in (self.contract.forward,) if symbol is not None for text in symbol.results}
        found = {text: own[text.casefold()] for text in self.contract.saved if text in made and text.casefold() in own}
        return found if len(found) == len(own) else {}

    def _chosen(self, values: Mapping[str, str]) -> list[str] | None:
        """The refusal of calls that the kernels are not for, in a public function's parameters; None where it lacks one."""
        given = {name for name, own in values.items() if own == name}
        if any(values.get(name) not in (name, text) for name, text in self.fixed.items()):
            return None
        if not given.issuperset(self.discriminating):
            return None
        lines = [line for name, text in self.fixed.items() if name in given for line in self._refusal(name, text)]
        lines += [line for name in self.required if name in given for line in self._none_refusal(name)]
        condition = self._condition(*self.bound)
        return [*lines, *(_guarded([self._none_left()], _negated(condition)) if condition else [])]

    def _values(self, symbol: SymbolContract) -> dict[str, str]:
        """The Function's own names, as the symbol's parameters; defaults of the Function for what the symbol lacks."""
        own = dict(
            zip((t.removeprefix(CONTEXT) for t in symbol.arguments), (p.name for p in symbol.parameters), strict=False)
        )
        defaults = {p.name: p.default for p in self.contract.parameters if p.default is not None}
        return {**defaults, **own}

    def _forward_symbol(self, symbol: SymbolContract) -> list[str] | None:
        one, values = self.bound[0], self._values(symbol)
        signature, names = one.variant.signature, self._names(one)
        parameters = {parameter.name for parameter in self.contract.parameters}
        refusal = self._chosen(values)
        shared = all(map(self._is_shared, (*self._needed(symbol), *symbol.results)))
        if refusal is None or not shared:
            return None
        outputs = dict(zip(self.contract.returns, (names[o] for o in signature.outputs), strict=False))
        given = [values.get(one.argument(name)) for name in signature.forward_arguments]
        made = {text: names[own] for text, own in self._statistics.items()}
        given_back = {**dict.fromkeys(self.contract.settings, "None"), **outputs, **made}
        returned = [given_back.get(t) or (values.get(t) if t in parameters else None) for t in symbol.results]
        if None in given or None in returned:
            return None
        targets = [*(names[o] for o in signature.outputs), *(names[s] for s in signature.saved)]
        targets = [text if text in returned else "_" for text in targets]
        call = f"{forward_name(one.variant.name)}({_dense(one, signature.forward_arguments, given)})"
        if returned == targets:
            return [*refusal, f"return {call}"]
        return [*refusal, f"{', '.join(targets)} = {call}", f"return {', '.join(map(str, returned))}"]

    def _backward_symbol(self, symbol: SymbolContract) -> list[str] | None:
        one, values = self.bound[0], self._values(symbol)
        signature = one.variant.signature
        outputs = dict(zip(signature.outputs, self.contract.returns, strict=False))
        upstream = dict(zip(signature.upstream, self.contract.upstream, strict=False))
        kept = {own: text for text, own in self._statistics.items()}
        own = [
            upstream.get(a) or outputs.get(a) or kept.get(a) or one.argument(a) for a in signature.backward_arguments
        ]
        given = [values.get(name) for name in own]
        places = {text: p.name for text, p in zip(self.contract.gradients, self.contract.parameters, strict=False)}
        wanted = [places.get(text) for text in symbol.results]
        gradients = [one.argument(name) for name in signature.gradients]
        if None in given or wanted != gradients or not all(map(self._is_shared, self._needed(symbol))):
            return None
        return [f"return {backward_name(one.variant.name)}({_dense(one, signature.backward_arguments, given)})"]


def _differing(bound: Iterable[_Bound]) -> tuple[str, ...]:
    """The parameters in whose constants calls differ, or that some have and some have not."""
    constants = [one.constants for one in bound]
    names = dict.fromkeys(name for each in constants for name in each)
    return tuple(name for name in names if len({each.get(name) for each in constants}) > 1)


def _listed(values: Mapping[str, list[str]]) -> tuple[str, ...]:
    return tuple(f"{name} = {' or '.join(texts)}" for name, texts in values.items())


def _dense(one: _Bound, names: Iterable[str], given: Iterable[str | None]) -> str:
    """Arguments of a launcher for callers that did not make their tensors contiguous, which a Function's methods do."""
    scalars = {spec.name for spec in one.variant.problem.scalars}
    return ", ".join(
        str(text) if name in scalars else f"{text}.contiguous()" for name, text in zip(names, given, strict=True)
    )


def _literal(parameter: Parameter, contract: ApiContract) -> str | None:
    if parameter.default is None:
        return None
    try:
        ast.literal_eval(parameter.default)
    except ValueError as error:
        raise _unbound(contract, f"the default of `{parameter.name}` is no literal") from error
    return parameter.default


def _is_one_of(name: str, texts: list[str | None]) -> str:
    if None in texts:  # a variant takes any value but the constants of the others
        return f"{name} is not None"
    known = [text for text in texts if text is not None]
    return _equals(name, known[0]) if len(known) == 1 else f"{name} in ({', '.join(known)})"


def _equals(name: str, text: str, *, negated: bool = False) -> str:
    if text in ("None", "True", "False"):
        return f"{name} is {'not ' if negated else ''}{text}"
    return f"{name} {'!=' if negated else '=='} {text}"


def _negated(condition: str) -> str:
    alone = " and " not in condition and " or " not in condition
    return condition.replace(" in (", " not in (") if alone and " in (" in condition else f"not ({condition})"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _guarded(lines: list[str], condition: str) -> list[str]:
    return [f"if {condition}:", *(INDENT + line for line in lines)] if condition else lines


def _method(name: str, arguments: list[str], lines: list[str]) -> list[str]:
    head = [
        f"{INDENT}@staticmethod",
        f"{INDENT}@ensure_contiguous",
        f"{INDENT}def {name}({', '.join(['ctx', *arguments])}):",
    ]
    return [*head, *(INDENT * 2 + line for line in lines)]
