"""Says where an original is not right at all: so far off that it computes something else. Pure."""

from __future__ import annotations

from gpu_runner.verify.answer import Answer, Value
from gpu_runner.verify.compare import compare, is_far
from gpu_runner.verify.poison import bits_equal
from gpu_runner.verify.proof import Expected, Proof

# Runs on the same inputs as the first: what gives the same bits is not looked at again.
_SAME_INPUTS = ("first", "second", "interleaved", "second backward")


class Look:
    """A look at an original's answer to one case, that holds each value against the truth once."""

    def __init__(self, proof: Proof, answer: Answer) -> None:
        self._proof = proof
        self._answer = answer
        self._known: list[tuple[str, Value, str | None]] = []  # label, value, what is wrong by far with it

    def runs_wrong_by_far(self) -> frozenset[str]:
        """Give the runs after the first whose values are wrong by far."""
        runs = ["second"]
        if self._proof.other is not None:
            runs += ["interleaved", "interleaved other"]
            runs += ["second backward"] if self._proof.has_backward else []
        return frozenset(run for run in runs if self.wrong_by_far(run) is not None)

    def wrong_by_far(self, run: str) -> str | None:
        """Say what is wrong by far in a run; None where nothing is."""
        proof = self._proof
        if run == "interleaved other":
            assert proof.other is not None, "only then are there two sets of inputs"
            proof = proof.other
        expected = proof.expected()
        if run == "second backward":
            expected = {label: item for label, item in expected.items() if label.startswith("gradient")}
        elif sum(label.startswith("output") for label in self._answer.runs.get(run, {})) != len(proof.outputs):
            return "the number of outputs is another one"
        for label, item in expected.items():
            words = None if item is None else self._value_wrong(item, run, label)
            if words is not None:
                return words
        return None

    def _value_wrong(self, item: Expected, run: str, label: str) -> str | None:
        value = self._answer.runs.get(run, {}).get(label)
        if value is None or value.tensor is None:
            return f"there is no {label}"
        if run not in _SAME_INPUTS:
            return _wrong(item, label, value)
        for known, other, words in self._known:
            if known == label and other.tensor is not None and bits_equal(other.tensor, value.tensor):
                return words
        words = _wrong(item, label, value)
        self._known.append((label, value, words))
        return words


def _wrong(item: Expected, label: str, value: Value) -> str | None:
    assert value.tensor is not None
    if value.tensor.numel() != item.truth.exact.numel():
        return f"{label} has the shape {value.shape}, not {item.shape}"
    comparison = compare(value.tensor.reshape(item.shape), item.truth)
    if not is_far(comparison):
        return None
    if comparison.allowed is None or comparison.error is None:
        return f"{label} is not finite where it should be"
    return f"{label} errs by {comparison.error:.3g} of its scale, {comparison.allowed:.3g} is allowed"
