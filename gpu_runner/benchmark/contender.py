"""One contender in its own child, as the parent sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_runner.contracts.benchmark import Pass
from gpu_runner.errors import ChildDied, ChildError, ChildFailed, ChildOutOfMemory, ChildTimeout, ProtocolError
from gpu_runner.session import Session
from gpu_runner.verify.proof import Call, Form

FAILURES = (ChildError, ChildDied, ChildTimeout, ChildOutOfMemory, ProtocolError)


@dataclass
class Contender:
    """``error`` says why it cannot run; then it takes no more turns."""

    name: str
    session: Session
    error: str | None = None
    blocks: dict[Pass, list[list[float]]] = field(default_factory=dict)
    peaks: dict[Pass, int | None] = field(default_factory=dict)

    def load(self, module: str, symbol: str, form: Form, compiled: bool) -> None:
        """Import it."""
        facts = {"module": module, "symbol": symbol, "form": form.name, "init": list(form.init), "compiled": compiled}
        self._call("load", facts)

    def prepare(self, call: Call) -> None:
        """Lay out a workload; what was measured of the last one is dropped, and an error of the last one with it."""
        self.blocks, self.peaks = {}, {}
        self._call("prepare", call.meta, call)

    def take_turn(self, timed_pass: Pass, samples: int, warm_up: int) -> bool:
        """Time one block; says whether it could."""
        meta = self._call("block", {"pass": timed_pass.value, "samples": samples, "warm_up": warm_up})
        times = meta.get("device_us", []) if self.error is None else []
        if len(times) != samples or not all(isinstance(item, float) and item > 0 for item in times):
            self.error = self.error or "it gave no times"
            return False
        self.blocks.setdefault(timed_pass, []).append(times)
        return True

    def weigh(self, timed_pass: Pass) -> None:
        """Measure the peak memory of a pass."""
        peak = self._call("memory", {"pass": timed_pass.value}).get("peak_bytes")
        self.peaks[timed_pass] = peak if type(peak) is int else None

    def computed(self, place: int) -> tuple[int, list[bool], list[torch.Tensor]] | None:
        """Give what it computed last for one set of inputs: the number of outputs, which gradients there are, and all of them."""
        if self.error is not None:
            return None
        try:
            reply = self.session.call("check", {"place": place})
            outputs, there = int(reply.meta["outputs"]), [bool(item) for item in reply.meta["gradients"]]
        except FAILURES as error:
            self.error = _short(error)
            return None
        except (KeyError, TypeError, ValueError):
            self.error = "its answer is not of the form that the runner's own code gives"
            return None
        return outputs, there, [buffer.to_torch() for buffer in reply.tensors]

    def _call(self, method: str, meta: dict[str, Any], call: Call | None = None) -> dict[str, Any]:
        if self.error is not None:
            return {}
        try:
            return self.session.call(method, meta, call.tensors if call else ()).meta
        except FAILURES as error:
            self.error = _short(error)
            return {}


def _short(error: ChildFailed | ProtocolError) -> str:
    flat = " ".join(str(error).split())
    return flat if len(flat) <= 300 else flat[:299] + "…"
