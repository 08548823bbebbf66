"""A candidate's answer to one case, as typed values; what is not of this form was forged."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpu_runner.errors import ProtocolError
from gpu_runner.session import Reply


@dataclass(frozen=True)
class Value:
    """One output or gradient. ``tensor`` is None where something else than a tensor came."""

    kind: str  # the class's name
    tensor: torch.Tensor | None = None
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    dtype: str = ""
    device: str = ""
    differentiable: bool = False


@dataclass(frozen=True)
class Answer:
    """All that came back from one case. What it says of launches and operators is the child's word; the values speak."""

    runs: dict[str, dict[str, Value]]  # first, second, interleaved, ... -> label -> value
    launched: dict[str, int]  # kernel -> times
    launches: dict[str, int]  # run -> kernels
    computed: dict[str, dict[str, int]]  # forward or backward of a run -> operator -> elements
    remembered: int  # elements of the largest tensor that was used again after the run that made it
    broken: int
    untouched: tuple[str, ...]
    raw: dict[str, torch.Tensor]
    raw_upstream: tuple[torch.Tensor, ...]
    failed: dict[str, str]  # run that raised, where it may -> what it raised
    overwritten: tuple[str, ...]  # inputs and "upstream N" that were put back because they had changed
    saved_changed: int = 0  # tensors that autograd saved in a forward, and that the backward changed
    shared: tuple[tuple[str, str], ...] = ()  # pairs of gradients in the same memory
    changed: tuple[str, ...] = ()  # results of the first run that were others after the later ones


def read_answer(reply: Reply) -> Answer:
    """Read a reply of the role ``candidate``.

    Raises:
        ProtocolError: it is not of the form that the role gives.
    """
    try:
        return _read(reply)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError("the child's answer is not of the form that the runner's own code gives") from error


def _read(reply: Reply) -> Answer:
    meta = reply.meta
    tensors = [buffer.to_torch() for buffer in reply.tensors]
    runs: dict[str, dict[str, Value]] = {}
    used = 0
    for entry in meta["values"]:
        run, _, label = entry["label"].partition("/")
        runs.setdefault(run, {})[label] = _value(entry, tensors)
        used += "tensor" in entry
    names = list(meta["raw"])
    inputs, upstream = tensors[used : used + len(names)], tensors[used + len(names) :]
    if len(upstream) != meta["raw_upstream"] or len(inputs) != len(names):
        raise ValueError("tensors are missing")
    return Answer(
        runs,
        {str(name): int(count) for name, count in meta["launched"].items()},
        {str(name): int(count) for name, count in meta["launches"].items()},
        {
            str(label): {str(name): int(count) for name, count in step.items()}
            for label, step in meta["computed"].items()
        },
        int(meta["remembered"]),
        int(meta["broken"]),
        tuple(str(label) for label in meta["untouched"]),
        dict(zip(names, inputs, strict=True)),
        tuple(upstream),
        {str(run): str(message)[:300] for run, message in meta["failed"].items()},
        tuple(str(name) for name in meta["overwritten"]),
        int(meta["saved_changed"]),
        tuple((str(one), str(other)) for one, other in meta["shared"]),
        tuple(str(label) for label in meta["changed"]),
    )


def _value(entry: dict[str, object], tensors: list[torch.Tensor]) -> Value:
    kind = str(entry["kind"])[:80]
    if "tensor" not in entry:
        return Value(kind)
    place, shape, stride = entry["tensor"], entry["shape"], entry["stride"]
    if not isinstance(place, int) or not isinstance(shape, list) or not isinstance(stride, list):
        raise TypeError("not a tensor's facts")
    tensor = tensors[place]
    if tuple(shape) != tuple(tensor.shape) or str(entry["dtype"]) != str(tensor.dtype).removeprefix("torch."):
        raise ValueError("a tensor is not what was said of it")
    facts = (tuple(shape), tuple(stride), str(entry["dtype"]), str(entry["device"]), bool(entry["differentiable"]))
    return Value(kind, tensor, *facts)
