"""The runs of one case in a candidate's process: what is called, in which order, on which memory, and what is kept of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gpu_runner.child.calls import Arguments, derived, overlaps, saved_changed, use
from gpu_runner.messages import CHOOSING, SentCall, Use, ValueForm
from gpu_runner.program.log import Log
from gpu_runner.program.poison import bits_equal

MOST_OUTPUTS = 64  # more than any problem has; the rest is not looked at


@dataclass
class LabelledTensors:
    """Collects tensors under labels for the answer."""

    entries: list[ValueForm] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)

    def add(self, label: str, value: Any) -> None:
        """Keep a copy of a value as it is now."""
        entry = ValueForm(label, type(value).__name__)
        if is_plain(value):
            # Copied at once and in order, as a caller on the same stream would read it.
            copy = value.detach().contiguous().clone()
            dtype, device = str(value.dtype).removeprefix("torch."), value.device.type
            form = (tuple(value.shape), value.stride(), dtype, device, value.requires_grad)
            entry = ValueForm(label, entry.kind, len(self.tensors), *form)
            self.tensors.append(copy)
        self.entries.append(entry)


@dataclass
class Steps:
    """One case. What ``asked.form.mutates`` names is put back between runs.

    Of a tolerant call, for what stands in a repository, everything is put back, and a later run that raises is noted.
    """

    called: Callable[..., Any]
    asked: SentCall
    tensors: list[torch.Tensor]
    arguments: Arguments
    watch: Log
    reply: LabelledTensors
    failed: dict[str, str] = field(default_factory=dict)
    overwritten: dict[str, None] = field(default_factory=dict)
    unwritten: dict[str, int] = field(
        default_factory=dict
    )  # by label, elements that hold what their memory held before
    saved_changed: int = 0
    shared: list[tuple[str, str]] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """What came of the runs besides values."""
        return {
            "failed": self.failed,
            "overwritten": tuple(self.overwritten),
            "unwritten": self.unwritten,
            "saved_changed": self.saved_changed,
            "shared": tuple(self.shared),
            "changed": tuple(self.changed),
        }

    def all(self) -> dict[str, Any]:
        """Run forward and backward, both once more, and interleaved; gives what the first run gave, by label."""
        kept = self._once("first")
        with self.watch.paused():
            self.shared = overlaps(kept, self.arguments)
            self.watch.end()
        self._restore()
        self._part("second", lambda: self._once("second"))
        if self.asked.others is not None:
            self._restore()
            self._part("interleaved", self._interleaved)
            self._look_at_results(kept)  # now, since runs on the first inputs may put back what others have changed
        for each in self.asked.uses:
            self._restore()
            self._part(each.name, functools.partial(self._use, each))
        self._look_at_results(kept)
        if self.asked.tolerant:
            self._restore()
        return kept

    def warm(self) -> None:
        """Run forward, and backward from the case's gradients, or from ones where it has none; what comes of it is dropped."""
        self.watch.begin("warm")
        self.watch.begin_step("warm")
        outputs = outputs_of(self.arguments.call(self.called))
        if not any(grad is not None for grad in self.arguments.upstream):
            with self.watch.paused():
                self.arguments.upstream = [
                    torch.ones_like(value) if is_plain(value) and value.requires_grad else None for value in outputs
                ]
        backward(outputs, self.arguments, retain=False)

    def _part(self, run: str, carry_out: Callable[[], object]) -> None:
        if run in self.asked.skip:
            return
        if not self.asked.tolerant:
            carry_out()
            return
        try:
            carry_out()
        except Exception as error:  # noqa: BLE001 - what stands may fail in any way; that it does is what is asked
            self.failed[run] = f"{type(error).__name__}: {error}"

    def _use(self, asked: Use) -> None:
        name = asked.name
        self.watch.begin(name)
        self.watch.begin_step(name)
        try:
            if asked.kind == "saved":
                self.saved_changed = saved_changed(self.called, self.arguments)
                return
            values = use(asked.kind, asked.names, self.called, self.arguments)
        finally:
            self.watch.forget(name)  # autograd and checkpoints compute by themselves
        if asked.kind in CHOOSING:
            with self.watch.paused():
                self.shared += [pair for pair in overlaps(values, self.arguments) if pair not in self.shared]
        self._add(name, values)

    def _look_at_results(self, kept: dict[str, Any]) -> None:
        """Note which results of the first run are others by now."""
        with self.watch.paused():
            changed = [label for label, value in kept.items() if self._was_changed(f"first/{label}", value)]
            self.changed = list(dict.fromkeys([*self.changed, *changed]))

    def _was_changed(self, label: str, value: Any) -> bool:
        """Say whether a result of the first run is another one by now; what lies in an input's memory is put back in between."""
        if not is_plain(value) or self.arguments.shares(value):
            return False
        place = next(entry.tensor for entry in self.reply.entries if entry.label == label)
        return place is None or not bits_equal(value.detach(), self.reply.tensors[place])

    def _once(self, name: str) -> dict[str, Any]:
        self.watch.begin(name)
        self.watch.begin_step(f"{name} forward")
        outputs = outputs_of(self.arguments.call(self.called))
        kept: dict[str, Any] = {f"output {place}": value for place, value in enumerate(outputs)}
        self._add(name, kept)
        if self.asked.backward:
            self.watch.begin_step(f"{name} backward")
            gradients = self._backward(outputs, self.arguments, retain=False)
            self._add(name, gradients)
            kept |= gradients
        self.watch.trail.results(kept)
        return kept

    def _interleaved(self) -> None:
        """Two forwards on different inputs, then two backwards, the first of them twice."""
        self.watch.begin("interleaved")
        there = self.arguments.other
        self.watch.begin_step("interleaved forward")
        here_outputs = outputs_of(self.arguments.call(self.called))
        self.watch.begin_step("interleaved other forward")
        there_outputs = outputs_of(there.call(self.called))
        rounds = [("interleaved", here_outputs, self.arguments), ("interleaved other", there_outputs, there)]
        for name, outputs, given in rounds:
            self._add(name, {f"output {place}": value for place, value in enumerate(outputs)})
            if self.asked.backward:
                self._restore_upstream()
                self.watch.begin_step(f"{name} backward")
                self._add(name, self._backward(outputs, given, retain=True))
        if self.asked.backward:
            self._part("second backward", lambda: self._later_backwards(here_outputs))

    def _later_backwards(self, outputs: list[Any]) -> None:
        """Run the backward of a retained graph again, and keep the pass that is farthest from the first of these."""
        first: dict[str, Any] = {}
        kept, farthest = first, -1.0
        for left in reversed(range(self.asked.passes)):
            self._restore_upstream()
            self.watch.begin_step(f"retained {left + 1} times, backward" if left else "retained backward")
            gradients = self._backward(outputs, self.arguments, retain=left > 0)
            first = first or gradients
            with self.watch.paused():
                distance = sum(_distance(value, first[label]) for label, value in gradients.items())
            if distance > farthest:
                kept, farthest = gradients, distance
        self._add("second backward", kept)

    def _backward(self, outputs: list[Any], given: Arguments, *, retain: bool) -> dict[str, Any]:
        """The gradients; where each output is its own upstream gradient, of copies of the outputs."""
        if self.asked.echoes:
            with self.watch.paused():
                pairs = zip(outputs, given.upstream, strict=False)
                own = [
                    value.detach().clone() if grad is not None and is_plain(value) else grad for value, grad in pairs
                ]
                for place, grad in enumerate(own):
                    if grad is not None:
                        self.watch.is_input(grad, f"upstream {place}")
                given = replace(given, upstream=own)
        return backward(outputs, given, retain)

    def _add(self, run: str, values: dict[str, Any]) -> None:
        with self.watch.paused():
            for label, value in values.items():
                self.reply.add(f"{run}/{label}", value)
                left = self.watch.unwritten(value) if is_plain(value) else 0
                if left:
                    self.unwritten[f"{run}/{label}"] = left

    def _restore(self) -> None:
        self._refill({entry.name for entry in self.asked.inputs} | self._upstream())

    def _restore_upstream(self) -> None:
        # Not the inputs: a forward may have left there what its backward needs.
        self._refill(self._upstream())

    def _upstream(self) -> set[str]:
        return {f"upstream {place}" for place, entry in enumerate(self.asked.upstream) if entry is not None}

    def _refill(self, names: set[str]) -> None:
        wanted = names if self.asked.tolerant else names & set(self.asked.form.mutates)
        if wanted:
            with self.watch.paused():
                self.overwritten |= dict.fromkeys(self.arguments.refill(self.asked, self.tensors, wanted))


def _distance(value: Any, other: Any) -> float:
    """How far two gradients are apart; what is no number in one of them is far."""
    if not is_plain(value) or not is_plain(other) or value.shape != other.shape:
        return 0.0
    apart = (value.detach().double() - other.detach().double()).abs()
    return float(apart.nan_to_num(0.0 if bits_equal(value.detach(), other.detach()) else 1e30).sum())


def outputs_of(value: Any) -> list[Any]:
    """A callable's outputs as a list."""
    return list(value[: MOST_OUTPUTS + 1]) if isinstance(value, tuple | list) else [value]


def is_plain(value: object) -> bool:
    """Say whether this is a tensor and nothing more: one of a class of its own may compute as it is looked at."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided  # type: ignore[attr-defined]


def backward(outputs: list[Any], arguments: Arguments, retain: bool) -> dict[str, Any]:
    """The gradient of every input that wants one, by label; None where there is none."""
    wanted = list(arguments.leaves)
    pairs = [
        (value, grad)
        for value, grad in zip(outputs, arguments.upstream, strict=False)
        if grad is not None and is_plain(value) and value.requires_grad
    ]
    if not pairs or not wanted:
        return {f"gradient of {name}": None for name in wanted}
    grads = derived(
        [value for value, _ in pairs],
        [arguments.leaves[name] for name in wanted],
        [grad for _, grad in pairs],
        retain_graph=retain,
        allow_unused=True,
    )
    return {f"gradient of {name}": grad for name, grad in zip(wanted, grads, strict=True)}
