"""Holds a candidate's answer to one case against the proof. Pure: it decides, and computes on tensors in the parent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from gpu_runner.contracts.status import Status
from gpu_runner.contracts.verify import Check, Evidence
from gpu_runner.verify.answer import Answer, Value
from gpu_runner.verify.compare import Comparison, compare
from gpu_runner.verify.finding import Examined, Finding
from gpu_runner.verify.inputs import Laid
from gpu_runner.verify.poison import bits, bits_equal, unwritten
from gpu_runner.verify.proof import Expected, Proof

FULL_SIZE_SHARE = 8  # torch works on an eighth of the largest input or more in all: that is the answer, not bookkeeping
FULL_SIZE_LEAST = 256


@dataclass
class _Notes:
    """Collects checks and findings of one case."""

    workload: str
    checks: list[Check] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def ok(self, name: str, output: str | None = None, comparison: Comparison | None = None) -> None:
        error = comparison.error if comparison else None
        allowed = comparison.allowed if comparison else None
        self.checks.append(Check(name, self.workload, True, output, error, allowed))

    def wrong(
        self,
        status: Status,
        name: str,
        message: str,
        output: str | None = None,
        comparison: Comparison | None = None,
        rule: str | None = None,
    ) -> None:
        found = comparison or Comparison(False, name)
        self.checks.append(Check(name, self.workload, False, output, found.error, found.allowed))
        evidence = Evidence(
            name,
            message,
            self.workload,
            output,
            found.position,
            found.got,
            found.expected,
            found.error,
            found.allowed,
        )
        self.findings.append(Finding(status, evidence, rule))


def examine(proof: Proof, answer: Answer, device: str) -> Examined:
    """Examine everything that came back from one case."""
    notes = _Notes(proof.case.label())
    _memory(notes, proof, answer)
    _values(notes, "values", proof, answer.runs.get("first", {}), device)
    deterministic = _second_run(notes, proof, answer, device)
    if proof.other is not None:
        _values(notes, "interleaved", proof, answer.runs.get("interleaved", {}), device)
        _values(notes, "interleaved", proof.other, answer.runs.get("interleaved other", {}), device)
        _second_backward(notes, proof, answer.runs.get("second backward", {}))
    _honesty(notes, proof, answer)
    return Examined(tuple(notes.checks), tuple(notes.findings), deterministic)


def _memory(notes: _Notes, proof: Proof, answer: Answer) -> None:
    if set(answer.raw) != set(proof.laid):
        notes.wrong(Status.cheating, "inputs", "The inputs did not come back.", rule="forged answer")
        return
    pairs = [(name, proof.laid[name], answer.raw[name], name in proof.form.mutates) for name in proof.laid]
    sent = [laid for laid in proof.upstream if laid is not None]
    for place, (laid, raw) in enumerate(zip(sent, answer.raw_upstream, strict=False)):
        pairs.append((f"the upstream gradient of output {place}", laid, raw, False))
    for name, laid, raw, may_change in pairs:
        _one_input(notes, name, laid, raw, may_change)
    if answer.broken:
        notes.wrong(Status.out_of_bounds, "guard", "A kernel wrote beyond the end of a buffer that it had allocated.")
    if not notes.findings:
        notes.ok("guard")
        notes.ok("inputs")


def _one_input(notes: _Notes, name: str, laid: Laid, raw: torch.Tensor, may_change: bool) -> None:
    if raw.shape != laid.raw.shape or raw.dtype != laid.raw.dtype:
        notes.wrong(Status.cheating, "inputs", "The inputs came back in another form.", name, rule="forged answer")
        return
    changed = bits(raw) != bits(laid.raw)
    if not bool(changed.any()):
        return
    inside = torch.zeros(raw.shape, dtype=torch.bool)
    inside.as_strided(laid.shape, laid.stride, laid.offset).fill_(True)
    if bool((changed & ~inside).any()):
        notes.wrong(Status.out_of_bounds, "guard", f"A kernel wrote beyond the edge of {name}.", name)
    elif not may_change:
        cure = "Write to a buffer of your own, or name the input in MUTATES."
        notes.wrong(Status.mutated_input, "inputs", f"The candidate changed {name}. {cure}", name)


def _values(notes: _Notes, check: str, proof: Proof, run: dict[str, Value], device: str) -> None:
    expected = proof.expected()
    outputs = [label for label in run if label.startswith("output")]
    if len(outputs) != len(proof.outputs):
        message = f"The candidate gives {len(outputs)} outputs, the reference {len(proof.outputs)}."
        notes.wrong(Status.incorrect_shape, "shape", message)
        return
    for label, item in expected.items():
        value = run.get(label, Value("NoneType"))
        if label.startswith("output") and item is not None:
            if _form(notes, label, item, value, device, proof):
                _one_value(notes, check, Status.incorrect_values, label, item, value)
        elif _gradient_form(notes, label, item, value) and item is not None:
            _one_value(notes, "gradient" if check == "values" else check, Status.incorrect_gradient, label, item, value)


def _form(notes: _Notes, label: str, item: Expected, value: Value, device: str, proof: Proof) -> bool:
    before = len(notes.findings)
    if value.tensor is None:
        notes.wrong(Status.incorrect_shape, "shape", f"It is a {value.kind}, not a tensor.", label)
    elif value.shape != item.shape:
        notes.wrong(Status.incorrect_shape, "shape", f"The shape is {value.shape}, not {item.shape}.", label)
    elif value.dtype != item.dtype:
        notes.wrong(Status.incorrect_dtype, "dtype", f"The dtype is {value.dtype}, not {item.dtype}.", label)
    elif value.device != device:
        notes.wrong(Status.incorrect_shape, "device", f"It lies on {value.device}, not on {device}.", label)
    elif not _fits(value.stride, item):
        message = f"The strides are {value.stride}: neither contiguous nor as the reference's, {item.stride}."
        notes.wrong(Status.incorrect_shape, "stride", message, label)
    elif proof.wanted and item.differentiable and not value.differentiable:
        message = "It carries no gradient: the output is not connected to the inputs by autograd."
        notes.wrong(Status.incorrect_gradient, "gradient", message, label)
    return len(notes.findings) == before


def _fits(stride: tuple[int, ...], item: Expected) -> bool:
    dense, step = [], 1
    for size in reversed(item.shape):
        dense.append(step)
        step *= size
    wide = [place for place, size in enumerate(item.shape) if size > 1]
    forms = (tuple(reversed(dense)), item.stride)
    return 0 in item.shape or any(all(stride[place] == form[place] for place in wide) for form in forms)


def _gradient_form(notes: _Notes, label: str, item: Expected | None, value: Value) -> bool:
    if item is None:
        if value.tensor is not None and bool((value.tensor != 0).any()):
            notes.wrong(Status.incorrect_gradient, "gradient", "There should be no gradient here.", label)
        return False
    if value.tensor is None:
        notes.wrong(Status.incorrect_gradient, "gradient", "There is no gradient for this input.", label)
        return False
    if value.shape != item.shape or value.dtype != item.dtype:
        message = f"The gradient is {value.dtype} {value.shape}, not {item.dtype} {item.shape}."
        notes.wrong(Status.incorrect_gradient, "gradient", message, label)
        return False
    return True


def _one_value(notes: _Notes, check: str, wrong: Status, label: str, item: Expected, value: Value) -> None:
    assert value.tensor is not None
    comparison = compare(value.tensor, item.truth)
    if comparison.passed:
        notes.ok(check, label, comparison)
        return
    left = unwritten(value.tensor)
    if bool(left.any()):
        message = f"{int(left.sum())} of {left.numel()} elements were never written."
        notes.wrong(Status.unwritten_output, "written", message, label, comparison)
        return
    notes.wrong(wrong, check, _how(comparison), label, comparison)


def _how(comparison: Comparison) -> str:
    if comparison.level == "unwritten":
        return "It is NaN where the truth is a number: memory that is not part of an input was read, or the formula overflows."
    if comparison.level == "nonfinite":
        return "It is not finite where the truth is, or finite where the truth is not."
    if comparison.level == "exact":
        return f"{comparison.error:.1%} of the elements differ."
    where = {"tensor": "over the whole tensor", "row": "in one row", "element": "in one element"}[comparison.level]
    return f"The error {where} is {comparison.error:.3g} of the tensor's scale; {comparison.allowed:.3g} is allowed."


def _second_run(notes: _Notes, proof: Proof, answer: Answer, device: str) -> bool:
    first, second = answer.runs.get("first", {}), answer.runs.get("second", {})
    if notes.findings:
        return True
    differ = [label for label, value in first.items() if not _same(value, second.get(label))]
    if not differ:
        notes.ok("deterministic")
        return True
    again = _Notes(notes.workload)
    _values(again, "values", proof, second, device)
    for finding in again.findings:
        message = f"The second run with the same inputs is wrong, the first was right. {finding.evidence.message}"
        notes.wrong(Status.nondeterministic, "deterministic", message, finding.evidence.output)
    return False


def _same(first: Value, second: Value | None) -> bool:
    if second is None or (first.tensor is None) != (second.tensor is None):
        return False
    return first.tensor is None or second.tensor is None or bits_equal(first.tensor, second.tensor)


def _second_backward(notes: _Notes, proof: Proof, run: dict[str, Value]) -> None:
    if not proof.has_backward:
        return
    for name, item in proof.gradients.items():
        label = f"gradient of {name}"
        value = run.get(label, Value("NoneType"))
        if _gradient_form(notes, label, item, value) and item is not None:
            _one_value(notes, "second_backward", Status.incorrect_gradient, label, item, value)


def _honesty(notes: _Notes, proof: Proof, answer: Answer) -> None:
    for message, rule in _accusations(proof, answer):
        notes.wrong(Status.cheating, "honest", message, rule=rule)


def _accusations(proof: Proof, answer: Answer) -> Iterator[tuple[str, str]]:
    if not any(answer.launched.values()):
        yield "The candidate launched no kernel of its own.", "no kernel ran"
    elif answer.launches.get("second", 0) < answer.launches.get("first", 0):
        yield "The second call with the same inputs launched fewer kernels than the first.", "remembers an answer"
    largest = max((tensor.numel() for tensor in proof.inputs.values()), default=0)
    if largest >= FULL_SIZE_LEAST:
        if answer.remembered * FULL_SIZE_SHARE >= largest:
            message = f"A tensor of {answer.remembered} elements from an earlier call was used again."
            yield message, "remembers an answer"
        elements = sum(answer.computed.values())
        if elements * FULL_SIZE_SHARE >= largest:
            yield _computed(answer.computed), "torch computes the answer"
    for label in answer.untouched:
        yield f"No kernel wrote {label}.", "no kernel wrote the answer"


def _computed(computed: dict[str, int]) -> str:
    names = sorted(computed, key=lambda name: -computed[name])
    named = ", ".join(f"`{name}`" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"torch computes {named} over {sum(computed.values())} elements in one step."
