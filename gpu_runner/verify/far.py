"""Says where an original is not right at all: so far off that it computes something else. Pure."""

from __future__ import annotations

from gpu_runner.verify.answer import Answer
from gpu_runner.verify.compare import Comparison, compare
from gpu_runner.verify.proof import Expected, Proof

FAR = 10.0  # times the allowed error: rounding and approximations stay below it, another formula does not


def runs_wrong_by_far(proof: Proof, answer: Answer) -> frozenset[str]:
    """Give the runs after the first whose values are wrong by far."""
    looked_at = [("second", proof)]
    if proof.other is not None:
        looked_at += [("interleaved", proof), ("interleaved other", proof.other)]
        looked_at += [("second backward", proof)] if proof.has_backward else []
    return frozenset(run for run, held in looked_at if wrong_by_far(held, answer, run) is not None)


def wrong_by_far(proof: Proof, answer: Answer, run: str) -> str | None:
    """Say what is wrong by far in a run; None where nothing is."""
    expected = proof.expected()
    if run == "second backward":
        expected = {label: item for label, item in expected.items() if label.startswith("gradient")}
    elif sum(label.startswith("output") for label in answer.runs.get(run, {})) != len(proof.outputs):
        return "the number of outputs is another one"
    for label, item in expected.items():
        words = None if item is None else _value_wrong(item, answer, run, label)
        if words is not None:
            return words
    return None


def _value_wrong(item: Expected, answer: Answer, run: str, label: str) -> str | None:
    value = answer.runs.get(run, {}).get(label)
    if value is None or value.tensor is None:
        return f"there is no {label}"
    if value.tensor.numel() != item.truth.exact.numel():
        return f"{label} has the shape {value.shape}, not {item.shape}"
    comparison = compare(value.tensor.reshape(item.shape), item.truth)
    if not _is_far(comparison):
        return None
    if comparison.allowed is None or comparison.error is None:
        return f"{label} is not finite where it should be"
    return f"{label} errs by {comparison.error:.3g} of its scale, {comparison.allowed:.3g} is allowed"


def _is_far(comparison: Comparison) -> bool:
    if comparison.passed:
        return False
    return comparison.error is None or comparison.allowed is None or comparison.error > FAR * comparison.allowed
