"""Holds a candidate's answer to one case against the proof. Pure: it decides, and computes on tensors in the parent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch

from gpu_runner.contracts.status import Status
from gpu_runner.verify.answer import Answer, Value
from gpu_runner.verify.borders import judge_memory
from gpu_runner.verify.compare import Comparison, compare, loss_of, needs_loss
from gpu_runner.verify.finding import Examined
from gpu_runner.verify.form import gradient_fault, output_fault
from gpu_runner.verify.honesty import judge_honesty
from gpu_runner.verify.notes import Notes
from gpu_runner.verify.peer import NO_PEER, Peer
from gpu_runner.verify.poison import bits_equal
from gpu_runner.verify.proof import Expected, Proof
from gpu_runner.verify.telling import CHECKS, how, remark


def examine(
    proof: Proof, answer: Answer, device: str, peer: Peer = NO_PEER, overwrites: Collection[str] = ()
) -> Examined:
    """Examine everything that came back from one case.

    ``peer`` is what stands in the candidate's place, in the same case; ``overwrites`` names the memory that may be overwritten.
    """
    notes = Notes(proof.case.label())
    examiner = _Examiner(notes, answer, peer, device, proof)
    judge_memory(notes, proof, answer, overwrites)
    examiner.values("values", proof, "first")
    deterministic = examiner.second_run(proof)
    if proof.other is not None:
        examiner.interleaved(proof, proof.other)
    judge_honesty(notes, proof, answer, peer)
    seen = (tuple(notes.overwrites), tuple(notes.allowances))
    return Examined(tuple(notes.checks), tuple(notes.findings), deterministic, *seen, tuple(notes.excused))


@dataclass(frozen=True)
class _Examiner:
    """Examines the values of one case; what it finds goes into ``notes``."""

    notes: Notes
    answer: Answer
    peer: Peer
    device: str
    case: Proof

    def values(self, check: str, proof: Proof, run: str) -> None:
        given = self.answer.runs.get(run, {})
        outputs = [label for label in given if label.startswith("output")]
        if len(outputs) != len(proof.outputs):
            message = f"The candidate gives {len(outputs)} outputs, the reference {len(proof.outputs)}."
            self.notes.wrong(Status.incorrect_shape, "shape", message)
            return
        for label, item in proof.expected().items():
            value = given.get(label, Value("NoneType"))
            if label.startswith("output"):
                self._output(check, run, item, value, bool(proof.wanted))
            else:
                self._gradient("gradient" if check == "values" else check, run, label, item, value)

    def second_run(self, proof: Proof) -> bool | None:
        """Hold the second run against the first; gives whether they are the same to the last bit, None where there was none."""
        first, second = self.answer.runs.get("first", {}), self.answer.runs.get("second", {})
        if self.notes.findings:
            return True
        differ = [label for label, value in first.items() if not _same(value, second.get(label))]
        if self._passes_over("second", "deterministic"):
            return not differ if second else None
        if not differ:
            self.notes.ok("deterministic")
            return True
        again = Notes(self.notes.workload)
        _Examiner(again, self.answer, self.peer, self.device, proof).values("values", proof, "second")
        self.notes.excused += again.excused
        for finding in again.findings:
            message = f"The second run with the same inputs is wrong, the first was right. {finding.evidence.message}"
            self.notes.wrong(Status.nondeterministic, "deterministic", message, finding.evidence.output)
        return False

    def interleaved(self, proof: Proof, other: Proof) -> None:
        """Examine two forwards before two backwards, and the second backward of the first."""
        if self._passes_over("interleaved", "interleaved"):
            return
        self.values("interleaved", proof, "interleaved")
        if not self._passes_over("interleaved other", "interleaved"):
            self.values("interleaved", other, "interleaved other")
        if not proof.has_backward or self._passes_over("second backward", "second_backward"):
            return
        given = self.answer.runs.get("second backward", {})
        for name, item in proof.gradients.items():
            label = f"gradient of {name}"
            self._gradient("second_backward", "second backward", label, item, given.get(label, Value("NoneType")))

    def _passes_over(self, run: str, check: str) -> bool:
        if run in self.peer.failed:
            self.notes.allow(check)
            return True
        return False

    def _output(self, check: str, run: str, item: Expected | None, value: Value, wanted: bool) -> None:
        if item is None:
            return
        fault = output_fault(item, value, self.device, wanted)
        if fault is None or self._has_its_form(run, item.label, fault.check, item, value):
            self._one_value(check, run, Status.incorrect_values, item, value)
        else:
            self.notes.wrong(fault.status, fault.check, fault.message, item.label)

    def _gradient(self, check: str, run: str, label: str, item: Expected | None, value: Value) -> None:
        message = gradient_fault(item, value)
        if message is not None and not self._has_its_form(run, label, "gradient", item, value):
            self.notes.wrong(Status.incorrect_gradient, "gradient", message, label)
        elif item is not None and value.tensor is not None:
            self._one_value(check, run, Status.incorrect_gradient, item, value)

    def _has_its_form(self, run: str, label: str, check: str, item: Expected | None, value: Value) -> bool:
        """Say whether the original's answer has the very form of this one, and values that can be compared."""
        if not self.peer.has_form(run, label, value):
            return False
        if item is not None and value.tensor is not None and value.tensor.numel() != item.truth.exact.numel():
            return False
        self.notes.allow(check)
        return True

    def _one_value(self, check: str, run: str, wrong: Status, item: Expected, value: Value) -> None:
        if value.tensor is None:
            return
        got = value.tensor.reshape(item.shape)
        check = CHECKS.get(self.case.case.content, check)
        comparison = self._compared(run, item, got)
        if comparison.passed:
            self.notes.ok(check, item.label, comparison)
            if comparison.alone is not None:
                self.notes.excuse(check, how(comparison.alone), item.label, comparison.alone)
            return
        left = self.answer.unwritten.get(f"{run}/{item.label}", 0)
        if left:
            message = f"{left} of {got.numel()} elements were never written."
            self.notes.wrong(Status.unwritten_output, "written", message, item.label, comparison)
            return
        message = how(comparison) + remark(self.case, item, comparison)
        self.notes.wrong(wrong, check, message, item.label, comparison)

    def _compared(self, run: str, item: Expected, got: torch.Tensor) -> Comparison:
        peers = self.peer.tensors(run, item.label, item)
        comparison = compare(got, item.truth, peers)
        if comparison.passed or not peers or not needs_loss(got, item.truth):
            return comparison
        return compare(got, item.truth, peers, self._loss(run))

    def _loss(self, run: str) -> float:
        """Give what share of a value the original loses in this run."""
        proof = self.case.other if run == "interleaved other" else self.case
        assert proof is not None, "there are values of a second set of inputs only where there is one"
        items = [item for item in proof.expected().values() if item is not None]
        return loss_of((tensor, item.truth) for item in items for tensor in self.peer.tensors(run, item.label, item))


def _same(first: Value, second: Value | None) -> bool:
    if second is None or (first.tensor is None) != (second.tensor is None):
        return False
    return first.tensor is None or second.tensor is None or bits_equal(first.tensor, second.tensor)
