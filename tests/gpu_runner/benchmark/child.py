"""The reference's role in this process, and what contenders would say that computed something."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from gpu_runner.benchmark.contender import Computed
from gpu_runner.benchmark.material import Secret
from gpu_runner.buffers import Buffer
from gpu_runner.child import operations
from gpu_runner.child.calls import Arguments
from gpu_runner.child.handlers import ChildState
from gpu_runner.child.input_sets import drawn, sampled
from gpu_runner.contracts import Pass
from gpu_runner.messages import DrawnCall, DrawnTensor, Request
from gpu_runner.session import ChildReply

Answers = Callable[[Arguments], tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]]]


class Child:
    """The role in this process."""

    def __init__(self, reference: Any) -> None:
        self.state = ChildState(Path(tempfile.gettempdir()), Path(tempfile.gettempdir()), gpu=False)
        self.state.values["reference"] = reference

    def call(self, request: Request[Any], tensors: Any = ()) -> ChildReply[Any]:
        sent = [tensor.to_torch() if isinstance(tensor, Buffer) else tensor for tensor in tensors]
        found, given = operations.HANDLERS[type(request)](self.state, request, sent)
        return ChildReply(found, tuple(Buffer.from_torch(tensor) for tensor in given))


def entry(name: str, *shape: int, dtype: str = "float32", **more: Any) -> DrawnTensor:
    return DrawnTensor(shape, dtype, name, grad=True, **more)


def answer(call: DrawnCall, secret: Secret, timed_pass: Pass, answers: Answers) -> Computed:
    """What a contender's child would say of its last run: outputs and gradients of the inputs at the secret place."""
    outputs, gradients = answers(drawn("cpu", call).rolled(secret.place))
    outputs = () if timed_pass is Pass.backward else outputs
    gradients = () if timed_pass is Pass.forward else gradients
    values = [*outputs, *gradients]
    shapes = [tuple(value.shape) for value in values]
    rows = [sampled(value, secret.rows) for value in values]
    return Computed(len(outputs), [True] * len(gradients), shapes, rows)
