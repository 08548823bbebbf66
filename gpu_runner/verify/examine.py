"""Holds a candidate's answer to one case against the proof: form, values, and the memory around and under its inputs. Pure: it
decides, and computes on tensors in the parent.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import torch

from gpu_runner.contracts.problem import RAISES
from gpu_runner.contracts.verify import KERNELBENCH, Check, Status
from gpu_runner.messages import Use
from gpu_runner.numerics.compare import ValueComparison, compare, loss_of, needs_loss, scattered
from gpu_runner.program.poison import bits, bits_equal
from gpu_runner.verify.answer import CaseAnswer, ReturnedValue
from gpu_runner.verify.finding import CaseNotes, Examined, VerdictFinding
from gpu_runner.verify.honesty import judge_honesty
from gpu_runner.verify.laying import Laid
from gpu_runner.verify.peer import NO_PEER, Peer
from gpu_runner.verify.proof import Expected, Proof
from gpu_runner.verify.telling import CHECKS, how, remark
from gpu_runner.verify.uses import HINTS, WORDS


@dataclass(frozen=True)
class FormFault:
    """What is wrong with the form of an output."""

    status: Status
    check: str
    message: str


def output_fault(
    item: Expected, value: ReturnedValue, device: str, wanted: bool, given: Collection[tuple[int, ...]] = ()
) -> FormFault | None:
    """What is wrong with an output's form; ``wanted`` says that an input wants a gradient.

    ``given`` are the strides of inputs that may be overwritten, of which one may be handed back.
    """
    if value.tensor is None:
        return FormFault(Status.incorrect_shape, "shape", f"It is a {value.kind}, not a tensor.")
    if value.shape != item.shape:
        return FormFault(Status.incorrect_shape, "shape", f"The shape is {value.shape}, not {item.shape}.")
    if value.dtype != item.dtype:
        return FormFault(Status.incorrect_dtype, "dtype", f"The dtype is {value.dtype}, not {item.dtype}.")
    if value.device != device:
        return FormFault(Status.incorrect_shape, "device", f"It lies on {value.device}, not on {device}.")
    if not _fits(value.stride, item) and value.stride not in given:
        message = f"The strides are {value.stride}: neither contiguous nor as the reference's, {item.stride}."
        return FormFault(Status.incorrect_shape, "stride", message)
    if wanted and item.differentiable and not value.differentiable:
        message = "It carries no gradient: the output is not connected to the inputs by autograd."
        return FormFault(Status.incorrect_gradient, "gradient", message)
    return None


def gradient_fault(item: Expected | None, value: ReturnedValue) -> str | None:
    """What is wrong with a gradient's form, or with its being there."""
    if item is None:
        there = value.tensor is not None and bool((value.tensor != 0).any())
        return "There should be no gradient here." if there else None
    if value.tensor is None:
        return "There is no gradient for this input."
    if value.shape != item.shape or value.dtype != item.dtype:
        return f"The gradient is {value.dtype} {value.shape}, not {item.dtype} {item.shape}."
    return None


def _fits(stride: tuple[int, ...], item: Expected) -> bool:
    dense, step = [], 1
    for size in reversed(item.shape):
        dense.append(step)
        step *= size
    wide = [place for place, size in enumerate(item.shape) if size > 1]
    forms = (tuple(reversed(dense)), item.stride)
    return 0 in item.shape or any(all(stride[place] == form[place] for place in wide) for form in forms)


def judge_memory(notes: CaseNotes, proof: Proof, answer: CaseAnswer, overwrites: Collection[str]) -> None:
    """Hold the memory of inputs and upstream gradients against what was sent; ``overwrites`` names those that may change."""
    if set(answer.raw) != set(proof.laid):
        notes.wrong(Status.cheating, "inputs", "The inputs did not come back.", rule="forged answer")
        return
    before = len(notes.findings)
    pairs = [(name, name, proof.laid[name], answer.raw[name]) for name in proof.laid]
    sent = [(place, laid) for place, laid in enumerate(proof.upstream) if laid is not None]
    for (place, laid), raw in zip(sent, answer.raw_upstream, strict=False):
        pairs.append((f"upstream {place}", f"the upstream gradient of output {place}", laid, raw))
    for name, words, laid, raw in pairs:
        beside = [other for _, _, other, _ in pairs if other.raw is laid.raw]
        may_be = overwrites if name not in proof.form.mutates else (name,)
        _one(notes, name, words, beside, laid, raw, may_be)
        if name in answer.touched and name not in may_be and bits_equal(raw, laid.raw):
            message = (
                f"A kernel changed {words}, and what it held was put back: who reads it meanwhile reads something else."
            )
            notes.wrong(Status.mutated_input, "inputs", message, words)
    if answer.broken:
        notes.wrong(Status.out_of_bounds, "guard", "A kernel wrote beyond the end of a buffer that it had allocated.")
    if len(notes.findings) == before:
        notes.ok("guard")
        notes.ok("inputs")


def _judge_options(notes: CaseNotes, answer: CaseAnswer, peer: Peer) -> None:
    """Say which options of launches change an order that the verdict does not see; what the original is seen to use is its own."""
    for name, line in answer.ordering.items():
        if peer.answer is None or name not in peer.answer.ordering:
            message = f"A kernel is launched with `{name}`, which changes in which order things are done, and that is not judged."
            notes.wrong(Status.unproved, "launch", message, rule="launch option", line=line)


def _one(
    notes: CaseNotes,
    name: str,
    words: str,
    beside: Collection[Laid],
    laid: Laid,
    raw: torch.Tensor,
    overwrites: Collection[str],
) -> None:
    """Judge the memory of one tensor; ``beside`` are those that lie in the same buffer, itself among them."""
    if raw.shape != laid.raw.shape or raw.dtype != laid.raw.dtype:
        notes.wrong(Status.cheating, "inputs", "The inputs came back in another form.", words, rule="forged answer")
        return
    if bits_equal(raw, laid.raw):
        return
    changed = bits(raw) != bits(laid.raw)
    inside = torch.zeros(raw.shape, dtype=torch.bool)
    for one in beside:
        one.elements(inside).fill_(True)
    if bool((changed & ~inside).any()):
        notes.wrong(Status.out_of_bounds, "guard", f"A kernel wrote beyond the edge of {words}.", words)
    elif not bool(laid.elements(changed).any()):
        return
    elif name not in overwrites:
        cure = "Write to a buffer of your own, or name the input in MUTATES."
        notes.wrong(Status.mutated_input, "inputs", f"The candidate changed {words}. {cure}", words)
    else:
        notes.overwrites[name] = None


@dataclass(frozen=True)
class AnsweredCase:
    """A case's proof, and everything that came back on a device.

    ``peer`` is what stands in the candidate's place, in the same case; ``overwrites`` names the memory that may be overwritten.
    """

    proof: Proof
    answer: CaseAnswer
    device: str
    peer: Peer = NO_PEER
    overwrites: Collection[str] = ()


@dataclass(frozen=True)
class ComparedCase:
    """What came of comparing a case's values: all but what torch did of the work, which the problem's scale says."""

    notes: CaseNotes
    deterministic: bool | None


def compared_case(answered: AnsweredCase, *, is_coarse: bool = False) -> ComparedCase:
    """Compare everything that came back from one case with its truth; a coarse comparison sees what is wrong by far."""
    proof, notes = answered.proof, CaseNotes(answered.proof.case.label())
    examiner = _Examiner(notes, answered, is_coarse)
    judge_memory(notes, proof, answered.answer, answered.overwrites)
    _judge_options(notes, answered.answer, answered.peer)
    examiner.values("values", proof, "first")
    deterministic = examiner.second_run()
    if proof.other is not None:
        examiner.interleaved(proof.other)
    examiner.uses()
    examiner.results()
    return ComparedCase(notes, deterministic)


def examine(answered: AnsweredCase, *, is_coarse: bool = False, compared: ComparedCase | None = None) -> Examined:
    """Examine everything that came back from one case, whose values may have been ``compared`` before; see ``compared_case``."""
    compared = compared or compared_case(answered, is_coarse=is_coarse)
    notes = compared.notes
    if not answered.proof.case.is_empty:  # there is no work that anybody could do
        judge_honesty(notes, answered.proof, answered.answer, answered.peer)
    seen = (tuple(notes.overwrites), tuple(notes.allowances))
    return Examined(tuple(notes.checks), tuple(notes.findings), compared.deterministic, *seen, tuple(notes.excused))


# The share of elements that by chance are what their memory held before: there are few numbers of 8 bits of mantissa.
BY_CHANCE = {torch.bfloat16: 1 / 64, torch.float16: 1 / 256, torch.float32: 0.0, torch.float64: 0.0, torch.bool: 1.0}
WHOLE_BY_CHANCE = 1 / 32


@dataclass(frozen=True)
class _Examiner:
    """Examines the values of one case; what it finds goes into ``notes``."""

    notes: CaseNotes
    answered: AnsweredCase
    is_coarse: bool = False
    # By the identity of a truth, which the proof keeps alive: values that were compared with it, and what came of them.
    compared: dict[int, list[tuple[torch.Tensor, ValueComparison]]] = field(default_factory=dict)

    @property
    def proof(self) -> Proof:
        return self.answered.proof

    @property
    def answer(self) -> CaseAnswer:
        return self.answered.answer

    @property
    def peer(self) -> Peer:
        return self.answered.peer

    def values(self, check: str, proof: Proof, run: str) -> None:
        given = self.answer.runs.get(run, {})
        outputs = [label for label in given if label.startswith("output")]
        if len(outputs) != len(proof.outputs):
            message = f"The candidate gives {len(outputs)} outputs, the reference {len(proof.outputs)}."
            self.notes.wrong(Status.incorrect_shape, "shape", message)
            return
        for label, item in proof.expected().items():
            value = given.get(label, ReturnedValue("NoneType"))
            if label.startswith("output"):
                self._output(check, run, item, value, bool(proof.wanted))
            else:
                self._gradient("gradient" if check == "values" else check, run, label, item, value)

    def second_run(self) -> bool | None:
        """Hold the second run against the first; gives whether they are the same to the last bit, None where there was none."""
        first, second = self.answer.runs.get("first", {}), self.answer.runs.get("second", {})
        if self.notes.findings:
            return True
        if self.proof.once and not second:
            return None
        differ = [label for label, value in first.items() if not _same(value, second.get(label))]
        if self._passes_over("second", "deterministic"):
            return not differ if second else None
        if not differ:
            self.notes.ok("deterministic")
            return True
        again = self._elsewhere()
        again.values("values", self.proof, "second")
        self.notes.excused += again.notes.excused
        for finding in again.notes.findings:
            message = f"The second run with the same inputs is wrong, the first was right. {finding.evidence.message}"
            evidence = replace(finding.evidence, check="deterministic", message=message)
            self.notes.add(VerdictFinding(Status.nondeterministic, evidence))
        if not again.notes.findings:
            self._scatter(differ)
        return False

    def _scatter(self, differ: list[str]) -> None:
        """Find results of which more elements differ between two runs than sums in another order explain."""
        expected = self.proof.expected()
        for label in differ:
            item = expected.get(label)
            pair = [self.answer.runs[run][label].tensor for run in ("first", "second")]
            if item is None or pair[0] is None or pair[1] is None:
                continue
            peers = self.peer.tensors("first", label, item)
            comparison = scattered(item.known(pair[0]), item.known(pair[1]), item.truth, peers)
            if not comparison.passed:
                self.notes.wrong(Status.nondeterministic, "deterministic", how(comparison), label, comparison)

    def _elsewhere(self) -> _Examiner:
        """The same examiner with notes of its own."""
        return replace(self, notes=CaseNotes(self.notes.workload))

    def uses(self) -> None:
        """Examine what came of other ways to call the candidate."""
        for use in self.proof.uses:
            if self._passes_over(use.name, use.kind):
                continue
            if use.kind == "saved":
                self._saved()
                continue
            again = self._elsewhere()
            again.use(use)
            self.notes.take(again.notes, WORDS[use.kind], HINTS.get(use.kind, ""))

    def use(self, use: Use) -> None:
        """Examine one use."""
        proof, given = self.proof, self.answer.runs.get(use.name, {})
        if use.kind == "double":
            if RAISES not in given:
                for label, item in proof.seconds.items():
                    self._gradient("double", use.name, label, item, given.get(label, ReturnedValue("NoneType")))
            return
        if RAISES in given:
            return  # autograd says that there is no gradient any more
        wanted = {"no_grad": (), "plain": (), "subset": use.names}.get(use.kind, proof.wanted)
        for output in proof.outputs if use.kind not in ("outputs", "changed", "elsewhere") else ():
            value = given.get(output.label, ReturnedValue("NoneType"))
            self._output(use.kind, use.name, output, value, False)  # what is not connected gives no gradient
        for name in wanted:
            label = f"gradient of {name}"
            self._gradient(
                use.kind, use.name, label, proof.gradients.get(name), given.get(label, ReturnedValue("NoneType"))
            )

    def _saved(self) -> None:
        if self.answer.saved_changed == 0:
            self.notes.ok("saved")
        elif self.peer.answer is not None and self.peer.answer.saved_changed:
            self.notes.allow("saved")
        else:
            message = "The backward changes a tensor that the forward saved for it, so a second backward reads something else."
            self.notes.wrong(Status.incorrect_gradient, "saved", message)

    def results(self) -> None:
        """Examine whether results stay as they are, and lie in memory of their own."""
        known = self.peer.answer
        beside = {item.label for item in self.proof.outputs if item.is_beside}
        given = {item.label for item in self.proof.outputs if item.is_given}
        may_be_given = {f"input {name}" for name in (*self.proof.form.mutates, *self.answered.overwrites)}
        for one, other in self.answer.shared:
            if (
                (one in beside and other in beside)
                or (other.startswith("input ") and one in given)
                or other in may_be_given
            ):
                continue
            if known is not None and (one, other) in known.shared:
                self.notes.allow("shared")
                continue
            message = f"It lies in the same memory as {other}: who changes one of them, as clipping does, changes both."
            status = Status.incorrect_values if one.startswith("output") else Status.incorrect_gradient
            self.notes.wrong(status, "shared", message, one)
        for label in self.answer.changed:
            if known is not None and label in known.changed:
                self.notes.allow("kept")
                continue
            status = Status.incorrect_values if label.startswith("output") else Status.incorrect_gradient
            self.notes.wrong(status, "kept", "A later backward or call changed this result of an earlier one.", label)

    def interleaved(self, other: Proof) -> None:
        """Examine two forwards before two backwards, and the second backward of the first."""
        proof = self.proof
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
            self._gradient(
                "second_backward", "second backward", label, item, given.get(label, ReturnedValue("NoneType"))
            )

    def _passes_over(self, run: str, check: str) -> bool:
        if run in self.peer.failed:
            self.notes.allow(check)
            return True
        return False

    def _output(self, check: str, run: str, item: Expected | None, value: ReturnedValue, wanted: bool) -> None:
        if item is None:
            return
        given = [self.proof.laid[name].stride for name in self.proof.form.mutates]
        fault = output_fault(item, value, self.answered.device, wanted, given)
        if fault is None or self._has_its_form(run, item.label, fault.check, item, value):
            self._one_value(check, run, Status.incorrect_values, item, value)
        else:
            self.notes.wrong(fault.status, fault.check, fault.message, item.label)

    def _gradient(self, check: str, run: str, label: str, item: Expected | None, value: ReturnedValue) -> None:
        message = gradient_fault(item, value)
        if message is not None and not self._has_its_form(run, label, "gradient", item, value):
            self.notes.wrong(Status.incorrect_gradient, "gradient", message, label)
        elif item is not None and value.tensor is not None:
            self._one_value(check, run, Status.incorrect_gradient, item, value)

    def _has_its_form(self, run: str, label: str, check: str, item: Expected | None, value: ReturnedValue) -> bool:
        """Say whether the original's answer has the very form of this one, and values that can be compared."""
        if not self.peer.has_form(run, label, value):
            return False
        if item is not None and value.tensor is not None and value.tensor.numel() != item.truth.exact.numel():
            return False
        self.notes.allow(check)
        return True

    def _one_value(self, check: str, run: str, wrong: Status, item: Expected, value: ReturnedValue) -> None:
        if value.tensor is None:
            return
        got = item.known(value.tensor)
        check = CHECKS.get(self.proof.case.content, check)
        if run == "first" and self.proof.form.name == "kernelbench":
            self.notes.checks.append(Check(KERNELBENCH, self.notes.workload, is_close(got, item.truth.own), item.label))
        comparison = self._compared(run, item, got)
        if comparison.passed:
            self.notes.ok(check, item.label, comparison)
            if comparison.alone is not None:
                self.notes.excuse(check, how(comparison.alone), item.label, comparison.alone)
            return
        left = self.answer.unwritten.get(f"{run}/{item.label}", 0)
        by_chance = BY_CHANCE.get(got.dtype, WHOLE_BY_CHANCE) * got.numel()
        if left > by_chance + 3.0 * math.sqrt(by_chance):
            message = f"{left} of {value.tensor.numel()} elements were never written."
            self.notes.wrong(Status.unwritten_output, "written", message, item.label, comparison)
            return
        message = how(comparison) + remark(self.proof, item, comparison)
        self.notes.wrong(wrong, check, message, item.label, comparison)

    def _compared(self, run: str, item: Expected, got: torch.Tensor) -> ValueComparison:
        peers = self.peer.tensors(run, item.label, item)
        if not peers:
            return self._compared_once(item, got)
        comparison = compare(got, item.truth, peers)
        if comparison.passed or not needs_loss(got, item.truth):
            return comparison
        return compare(got, item.truth, peers, self._loss(run))

    def _compared_once(self, item: Expected, got: torch.Tensor) -> ValueComparison:
        """Compare a value with its truth; most uses give to the last bit what the first run gave."""
        known = self.compared.setdefault(id(item.truth), [])
        for value, comparison in known:
            if bits_equal(value, got):
                return comparison
        known.append((got, compare(got, item.truth, is_coarse=self.is_coarse)))
        return known[-1][1]

    def _loss(self, run: str) -> float:
        """What share of a value the original loses in this run."""
        proof = self.proof.other if run == "interleaved other" else self.proof
        assert proof is not None, "there are values of a second set of inputs only where there is one"
        items = [item for item in proof.expected().values() if item is not None]
        return loss_of((tensor, item.truth) for item in items for tensor in self.peer.tensors(run, item.label, item))


# KernelBench's own rule: how far an element may lie from eager mode's, absolute and relative alike.
# Source: KernelBench, src/eval.py, get_tolerance_for_precision.
CLOSE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-2}


def is_close(got: torch.Tensor, own: torch.Tensor) -> bool:
    """Whether a value is right by KernelBench's rule, which compares it with eager mode's alone."""
    tolerance = CLOSE.get(own.dtype, 1e-4)
    if not own.dtype.is_floating_point:
        return bool(torch.equal(got, own))
    return bool(torch.allclose(got.to(own.dtype), own, rtol=tolerance, atol=tolerance))


def _same(first: ReturnedValue, second: ReturnedValue | None) -> bool:
    if second is None or (first.tensor is None) != (second.tensor is None):
        return False
    return first.tensor is None or second.tensor is None or bits_equal(first.tensor, second.tensor)
