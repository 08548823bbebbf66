"""Code that makes an input's value as the problem wants it: normal, ones, whole numbers below a bound, and so on. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import InputSpec
from workers.layouts.dimensions import Axes, local, shape
from workers.layouts.pysource import call, tuple_of

MAKERS = {"ones": "torch.ones", "zeros": "torch.zeros", "uniform": "torch.rand"}
METHODS = {"softmax": ".softmax(dim=-1)", "log_softmax": ".log_softmax(dim=-1)"}


@dataclass(frozen=True)
class Creation:
    """A call that makes a tensor, and what is done with its result."""

    function: str
    arguments: tuple[str, ...]
    method: str = ""

    def source(self, head: str = "", tail: str = "", depth: int = 0) -> str:
        """Give it as source, with something before and after."""
        return call(head + self.function, self.arguments, self.method + tail, depth=depth)


def creation(spec: InputSpec, axes: Axes, options: tuple[str, ...] = ()) -> Creation:
    """Give the call that makes an input; ``options`` are its keyword arguments, such as ``device=device``."""
    sizes = shape(spec, axes)
    if spec.dtype == "bool" or spec.high is not None:
        high = "2" if spec.dtype == "bool" else axes.variable(str(spec.high))
        return Creation("torch.randint", (str(spec.low or 0), high, tuple_of(sizes), *options))
    method = METHODS.get(spec.init, "")
    return Creation(MAKERS.get(spec.init, "torch.randn"), (*(sizes or ("()",)), *options), method)


def assignments(specs: tuple[InputSpec, ...], axes: Axes, *, grad: bool = False, depth: int = 1) -> str:
    """Give one assignment an input, on ``device``, in ``dtype`` or its own dtype; with ``grad`` ready for a backward pass."""
    lines: list[str] = []
    for spec in specs:
        options = ("device=device", f"dtype={f'torch.{spec.dtype}' if spec.dtype else 'dtype'}")
        tail = ".requires_grad_(True)" if grad and spec.grad else ""
        lines.append(creation(spec, axes, options).source(f"{local(spec.name)} = ", tail, depth))
    return "\n".join(lines)


def initial(spec: InputSpec, axes: Axes) -> str:
    """Give the value with which a module's parameter starts."""
    return creation(spec, axes, (f"dtype=torch.{spec.dtype}",) if spec.dtype else ()).source()
