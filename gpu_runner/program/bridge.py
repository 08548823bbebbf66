"""What torch sees of a program: tensors, classes for autograd and for modules, and operators under a name of the program's own."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.contracts.verify import Status
from gpu_runner.program import language
from gpu_runner.program.evaluator import Evaluator
from gpu_runner.program.objects import (
    FIXED,
    GIVEN,
    PASSED,
    BoundFunction,
    Class,
    Descriptor,
    Function,
    Native,
    Violation,
    unproved,
)

_MODULE = frozenset(
    [
        "training",
        "parameters",
        "named_parameters",
        "named_buffers",
        "register_parameter",
        "register_buffer",
        "add_module",
        "eval",
        "train",
        "to",
    ]
)
_CHANGES = frozenset(["register_parameter", "register_buffer", "add_module", "eval", "train", "to"])
_OF_CLASS = ["__init__", "__doc__", "__annotations__", "forward"]
_OF_MODULE = frozenset([*_OF_CLASS, "extra_repr"])
_OF_FUNCTION = frozenset([*_OF_CLASS[1:], "backward", "setup_context", "generate_vmap_rule"])
_OF_EVERY_MODULE = frozenset([*torch.nn.Module().__dict__, "program_fields", "program_is_ready", "program_memory"])


def install(evaluator: Evaluator, freeze: Callable[[Any], None]) -> None:
    """Teach an evaluator torch's classes; ``freeze`` marks what a forward leaves to its backward."""
    bridge = _Bridge(evaluator, freeze)
    evaluator.attribute_of.append(bridge.attribute)
    evaluator.set_attribute_of.append(bridge.set_attribute)
    evaluator.make_class.append(bridge.make_class)
    special = evaluator.special
    special["torch.library.triton_op"] = bridge.operator
    special["torch.library.custom_op"] = bridge.operator
    special["torch.library.register_fake"] = bridge.register_fake
    special["torch.library.register_autograd"] = bridge.register_autograd
    special["torch.distributed.tensor.DTensor"] = lambda *_: None


class _Bridge:
    def __init__(self, evaluator: Evaluator, freeze: Callable[[Any], None]) -> None:
        self.evaluator = evaluator
        self.freeze = freeze
        self.open: set[int] = set()  # contexts whose forward runs
        self.operators: dict[str, Operator] = {}
        self.inputs = GIVEN  # what the arguments of the forward hang on that ran last

    # -- attributes

    def attribute(self, value: Any, name: str) -> Any:
        if isinstance(value, torch.Tensor):
            return self._of_tensor(value, name)
        if isinstance(value, FunctionCtx):
            return self._of_context(value, name)
        if isinstance(value, torch.nn.Module):
            return self._of_module(value, name)
        if isinstance(value, Class) and value.real is not None and name == "apply" and not value.has("apply"):
            return Native("apply", value.real.apply, value)
        if isinstance(value, Operator) and name in ("register_autograd", "register_fake", "register_kernel"):
            return Native(name, getattr(value, name), value)
        if isinstance(value, type) and name == "from_tensor" and value.__name__ == "TensorDescriptor":
            return Native(name, value.from_tensor)  # type: ignore[attr-defined]
        return NotImplemented

    def _of_tensor(self, value: torch.Tensor, name: str) -> Any:
        if name not in language.TENSOR:
            if hasattr(torch.Tensor, name):
                raise Violation(
                    "unknown attribute", f"The attribute `{name}` of a tensor is not in the language of host code."
                )
            raise AttributeError(f"'Tensor' object has no attribute '{name}'")
        if name == "type":
            return Native(name, functools.partial(_converted, value), value)
        if name == "tolist":
            return Native(name, lambda: self._listed(value), value)
        member = getattr(value, name)
        return Native(name, member, value) if callable(member) else member

    def _listed(self, tensor: torch.Tensor) -> Any:
        """Each number is read by an operator of its own, so that the log sees it; torch's own `tolist` shows in none."""
        self.evaluator.opaque += 1
        try:
            numbers = iter([element.item() for element in tensor.reshape(-1)])
        finally:
            self.evaluator.opaque -= 1

        def part(shape: tuple[int, ...]) -> Any:
            return [part(shape[1:]) for _ in range(shape[0])] if shape else next(numbers)

        return part(tuple(tensor.shape))

    def _of_context(self, value: FunctionCtx, name: str) -> Any:
        fields = _fields(value)
        if name in fields:
            return fields[name]
        if name in language.CONTEXT:
            with self.evaluator.entered():
                member = getattr(value, name)
            return Native(name, member, value) if callable(member) else member
        if hasattr(value, name):
            raise Violation(
                "unknown attribute", f"The attribute `{name}` of a context is not in the language of host code."
            )
        raise AttributeError(f"the context has no attribute '{name}'")

    def _of_module(self, value: torch.nn.Module, name: str) -> Any:
        for table in (value._parameters, value._buffers, value._modules, _fields(value)):  # noqa: SLF001 - torch has no other door to them
            if name in table:
                return table[name]
        made = self.evaluator.class_of(value)
        if made is not None and made.has(name):
            return self.evaluator.bound(made.find(name), value, made)
        if name in _MODULE and not (name in _CHANGES and value.__dict__.get("program_is_ready")):
            member = getattr(value, name)
            return Native(name, member, value) if callable(member) else member
        if hasattr(value, name):
            raise Violation(
                "unknown attribute", f"The attribute `{name}` of a module is not in the language of host code."
            )
        raise AttributeError(f"'{type(value).__name__}' object has no attribute '{name}'")

    def set_attribute(self, value: Any, name: str, new: Any) -> bool:
        if isinstance(value, FunctionCtx):
            if id(value) not in self.open:
                raise Violation("remembers between calls", f"It sets `{name}` of the context after its forward.")
            if hasattr(value, name) and name not in _fields(value):
                raise Violation("unknown attribute", f"It sets `{name}` of a context, which is torch's own.")
            _fields(value)[name] = new
            return True
        if not isinstance(value, torch.nn.Module):
            return False
        if value.__dict__.get("program_is_ready"):
            raise Violation("remembers between calls", f"It sets `{name}` of a module, which outlives a call.")
        if hasattr(torch.nn.Module, name) or name in _OF_EVERY_MODULE:
            raise Violation("unknown attribute", f"It sets `{name}` of a module, which is torch's own.")
        made = self.evaluator.class_of(value)
        if made is not None and made.has(name) and isinstance(made.find(name), Descriptor | Function):
            raise unproved(f"It sets `{name}` of a module, which its class defines.")
        if isinstance(new, torch.nn.Parameter | torch.nn.Module) or name in value._parameters:  # noqa: SLF001 - as above
            setattr(value, name, new)
        elif isinstance(new, torch.Tensor):
            raise Violation(
                "remembers between calls",
                f"It keeps the tensor `{name}` on a module. Register it as a buffer, so that it is known and watched.",
            )
        else:
            _fields(value)[name] = new
        return True

    # -- classes

    def make_class(self, made: Class) -> bool:
        for base in made.bases:
            real = base.real if isinstance(base, Class) else base
            if isinstance(real, type) and issubclass(real, torch.autograd.Function):
                _check_names(made, real, _OF_FUNCTION)
                self._make_function(made)
                return True
            if isinstance(real, type) and issubclass(real, torch.nn.Module):
                _check_names(made, torch.nn.Module, _OF_MODULE)
                self._make_module(made, real)
                return True
        return False

    def _make_function(self, made: Class) -> None:
        with_setup = made.has("setup_context")
        names: dict[str, Any] = {"program_class": made}

        def forward(ctx: Any, *args: Any, **named: Any) -> Any:
            self.evaluator.pass_first(PASSED)
            return self.in_context(ctx, _function(made, "forward"), (ctx, *args), named)

        def plain_forward(*args: Any, **named: Any) -> Any:
            return self.forward(_function(made, "forward"), args, named)

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            self.set_up(ctx, _function(made, "setup_context"), (ctx, inputs, output), {})

        def backward(ctx: Any, *grads: Any) -> Any:
            return self.evaluator.call(_function(made, "backward"), (ctx, *grads), {})

        names["forward"] = staticmethod(plain_forward if with_setup else forward)
        if with_setup:
            names["setup_context"] = staticmethod(setup)
        if made.has("backward"):
            names["backward"] = staticmethod(backward)
        made.real = type(made.name, (torch.autograd.Function,), names)

    def in_context(self, ctx: Any, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call what may set attributes of a context."""
        self.open.add(id(ctx))
        self.evaluator.may_set_context = True
        try:
            return self.evaluator.call(function, args, named)
        finally:
            self.evaluator.may_set_context = False
            self.open.discard(id(ctx))
            self.freeze([value for value in _fields(ctx).values() if not isinstance(value, torch.Tensor)])

    def forward(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a forward whose context is set up afterwards."""
        passed = self.evaluator.argument_levels
        inputs = GIVEN if passed is None else max([FIXED, *passed[0], *passed[1].values()])
        try:
            return self.evaluator.call(function, args, named)
        finally:
            self.inputs = inputs

    def set_up(self, ctx: Any, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Set up the context of what a forward gave last."""
        evaluator = self.evaluator
        returned = evaluator.returned_levels
        levels = [PASSED, max(PASSED, self.inputs), PASSED]
        evaluator.argument_levels = levels[: len(args)], dict(zip(named, levels, strict=False))
        self.in_context(ctx, function, args, named)
        evaluator.returned_levels = returned

    def _make_module(self, made: Class, real: type) -> None:
        evaluator = self.evaluator

        def init(module: Any, *args: Any, **named: Any) -> None:
            module.__dict__["program_is_ready"] = False
            if made.has("__init__"):
                evaluator.call(BoundFunction(made.find("__init__"), module), args, named)
            else:
                torch.nn.Module.__init__(module)
            module.__dict__["program_is_ready"] = True
            self.freeze(list(_fields(module).values()))
            own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
            module.__dict__["program_memory"] = {
                name: (id(tensor), tensor.requires_grad, tensor.detach().clone()) for name, tensor in own
            }

        def forward(module: Any, *args: Any, **named: Any) -> Any:
            with torch.utils._python_dispatch._disable_current_modes():  # noqa: SLF001 - the runner's own look
                _check_memory(module)
            return evaluator.call(BoundFunction(made.find("forward"), module), args, named)

        made.real = type(made.name, (real,), {"__init__": init, "forward": forward, "program_class": made})

    # -- operators under a name

    def register_autograd(self, op: Any, backward: Any, **named: Any) -> None:
        operator = self.operators.get(op) if isinstance(op, str) else op
        if not isinstance(operator, Operator):
            raise unproved("It registers a gradient for an operator that is not the file's own.")
        operator.register_autograd(backward, **named)

    def register_fake(self, operator: Any, function: Any = None, **_: Any) -> Any:
        """Take an operator's function of shapes, by its name or itself."""
        made = operator if isinstance(operator, Operator) else self.operators.get(str(operator))
        return (lambda inner: inner) if made is None else made.register_fake(function)

    def operator(self, name: Any, function: Any = None, **options: Any) -> Any:
        def decorate(inner: Any) -> Operator:
            if str(name) in self.operators:
                raise Violation("operator", f"Two operators have the name `{name}`.")
            made = Operator(self, inner)
            self.operators[str(name)] = made
            return made

        return decorate(function) if function is not None else decorate


class Operator:
    """A function under ``torch.library``: called as it is, with the autograd formula that is registered for it."""

    def __init__(self, bridge: _Bridge, function: Any) -> None:
        self._bridge, self._function = bridge, function
        self._real: Any = None
        self._fake: Any = None
        self.holds: tuple[Any, ...] = ()

    def register_autograd(self, backward: Any, *, setup_context: Any = None) -> None:
        """Register the formula of the gradient."""
        if not self._bridge.evaluator.loading:
            raise Violation("remembers between calls", "It registers a gradient while it is called.")
        self._make(lambda ctx, *grads: self._bridge.evaluator.call(backward, (ctx, *grads), {}), setup_context)
        self.holds = (backward, setup_context)

    def _make(self, back: Callable[..., Any], setup_context: Any) -> None:
        bridge, function = self._bridge, self._function

        def forward(*args: Any) -> Any:
            bridge.evaluator.opaque += 1
            try:
                given = bridge.forward(function, args, {})
                self._check_fake(args, given)
                return given
            finally:
                bridge.evaluator.opaque -= 1

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            if setup_context is not None:
                bridge.set_up(ctx, setup_context, (), {"ctx": ctx, "inputs": inputs, "output": output})

        names = {"forward": staticmethod(forward), "setup_context": staticmethod(setup), "backward": staticmethod(back)}
        self._real = type("operator", (torch.autograd.Function,), names)

    def register_fake(self, function: Any = None) -> Any:
        """Take a function of shapes, by which torch.compile goes: it must give what the operator gives."""

        def take(inner: Any) -> Any:
            self._fake = inner
            return inner

        return take if function is None else take(function)

    def _check_fake(self, args: tuple[Any, ...], given: Any) -> None:
        if self._fake is None:
            return
        evaluator = self._bridge.evaluator
        with evaluator.entered():
            told = evaluator.call(self._fake, args, {})
        for one, other in itertools.zip_longest(_listed(given), _listed(told)):
            if _form(one) != _form(other):
                message = f"A fake says that an operator gives {_words(other)}, and it gives {_words(one)}."
                raise Violation("fake", message, Status.incorrect_shape)

    def register_kernel(self, *_: Any, **__: Any) -> Any:
        """Refuse another function for a device."""
        raise unproved("The evaluator knows one function of an operator.")

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the operator; without a formula its gradient is an error, as torch has it."""
        if self._real is None:
            self._make(_no_gradient, None)
        signature: inspect.Signature = self._function.signature
        given = signature.bind(*args, **named)
        given.apply_defaults()
        evaluator = self._bridge.evaluator
        if evaluator.argument_levels is not None:
            by_place, by_name = evaluator.argument_levels
            levels = signature.bind(*by_place, **by_name).arguments
            evaluator.argument_levels = [levels.get(name, FIXED) for name in given.arguments], {}
        return self._real.apply(*given.args, *given.kwargs.values())


def _converted(tensor: torch.Tensor, *args: Any, **named: Any) -> torch.Tensor:
    """What ``type`` makes of a tensor; without a type it is text that names the device, and nothing of it is tried on another."""
    if not args and not named:
        raise Violation(
            "unknown attribute", "`type()` of a tensor says where it lies as text; use `dtype` and `device`."
        )
    return tensor.type(*args, **named)


def _check_names(made: Class, real: type, known: frozenset[str]) -> None:
    """Refuse a class that changes what torch asks of it by name."""
    for name in made.names:
        if hasattr(real, name) and name not in known:
            raise Violation("class", f"A class under `{real.__name__}` defines `{name}`, which is torch's own.")


def _check_memory(module: Any) -> None:
    """Refuse a module whose own parameters or buffers a call has changed."""
    own = {**module._parameters, **module._buffers}  # noqa: SLF001 - torch has no other door to them
    for name, (identity, wanted, before) in module.__dict__["program_memory"].items():
        now = own.get(name)
        if now is None or id(now) != identity or now.device != before.device:
            continue  # given in its place, or moved
        if now.requires_grad != wanted or now.shape != before.shape or not torch.equal(_bits(now), _bits(before)):
            raise Violation("remembers between calls", f"It changes `{name}` of a module, which outlives a call.")


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _function(made: Class, name: str) -> Any:
    member = made.find(name)
    return member.function if isinstance(member, Descriptor) else member


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _form(value: Any) -> Any:
    return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else type(value)


def _words(value: Any) -> str:
    return f"{list(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"


def _no_gradient(ctx: Any, *grads: Any) -> Any:
    raise RuntimeError("Trying to backward through an operator for which no autograd formula was registered.")


def _fields(value: Any) -> dict[str, Any]:
    fields: dict[str, Any] | None = value.__dict__.get("program_fields")
    if fields is None:
        fields = {}
        value.__dict__["program_fields"] = fields
    return fields
