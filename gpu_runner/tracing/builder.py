"""A canonical graph as it is built up, node by node; runs in the child."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpu_runner.tracing.raw import RawArg, RawNode, Ref


class GraphBuilder:
    """The canonical graph as it grows."""

    def __init__(self, reserved: Sequence[str]) -> None:
        self.nodes: list[RawNode] = []
        self._named: set[str] = set(reserved)
        self._numbers: dict[str, int] = {}
        self._by_name: dict[str, RawNode] = {}

    def add(
        self, op: str, args: Sequence[RawArg], shape: Sequence[int], dtype: torch.dtype | str, name: str | None = None
    ) -> Ref:
        """Append a node and give a reference to it."""
        text = str(dtype).removeprefix("torch.")
        node = RawNode(name or self._fresh(op), op, tuple(args), tuple(int(s) for s in shape), text)
        self.nodes.append(node)
        self._by_name[node.name] = node
        return Ref(node.name)

    def known(self, ref: Ref) -> RawNode:
        """Give the node behind a reference."""
        return self._by_name[ref.name]

    def operand(self, value: Any) -> Any:
        """Give an operand: a reference, or a number also where it was a constant tensor without dimensions."""
        if isinstance(value, Ref):
            node = self.known(value)
            if node.op == "full" and node.shape == ():
                return node.args[0]
        return value

    def is_zero(self, value: Any) -> bool:
        """Tell whether an operand is a tensor of zeros; a number that is zero may be a scalar's value and stays."""
        return isinstance(value, Ref) and self.known(value).op == "full" and self.known(value).args[0] == 0

    def cast(self, value: Ref, dtype: torch.dtype) -> Ref:
        """Give ``value`` in another dtype, itself where it has it."""
        node = self.known(value)
        if node.dtype == str(dtype).removeprefix("torch."):
            return value
        return self.add("cast", [value], node.shape, dtype)

    def _fresh(self, op: str) -> str:
        stem = op.removeprefix("aten.").replace(".", "_")
        number = self._numbers.get(stem, 0)
        while f"{stem}_{number}" in self._named:
            number += 1
        self._numbers[stem] = number + 1
        name = f"{stem}_{number}"
        self._named.add(name)
        return name
