"""Says how an answer is wrong, and what a case of large or odd values held there. Pure."""

from __future__ import annotations

import math

from gpu_runner.contracts.verify import Check
from gpu_runner.numerics.compare import ValueComparison
from gpu_runner.verify.cases import Case, Content, Special
from gpu_runner.verify.extremes import row_words
from gpu_runner.verify.proof import Expected, Proof

# The name of every check of values in such a case.
CHECKS = {Content.large: "large_values", Content.odd: "not_finite"}
_DISTRIBUTION = {
    "share": "{error:.1%} of the elements are not the truth rounded once; beside what the reference loses {allowed:.1%} may be.",
    "spread": "The errors are {error:.3g} of their rows' scales; the reference's own, or one rounding, explain {allowed:.3g}.",
    "bias": "The errors do not cancel: their mean with signs is {error:.3g} of a row's scale; chance explains {allowed:.3g}.",
    "slope": "The errors of a row go together: whole rows are off by {error:.3g}; {allowed:.3g} is explained.",
    "scatter": "{error:.1%} of the elements differ between two runs; sums in another order explain {allowed:.1%}.",
    "zero": "Where the truth is zero, whatever is rounded how, it gives a number of {error:.3g} of the tensor's scale.",
    "emptied": "It gives zero where there is a number, whatever is rounded how, of {error:.3g} of the tensor's scale.",
    "tail": "One element errs by {error:.3g} of the tensor's scale, far beyond the bulk of the others; {allowed:.3g} is allowed.",
}
_LEFT_OUT = "{}_left_out"


def passed_over(case: Case) -> Check:
    """The check that says that there is nothing to judge by in a case."""
    return Check(_LEFT_OUT.format(CHECKS[case.content]), case.label(), True)


def how(comparison: ValueComparison) -> str:
    """Say how a value differs from the truth, in one or two sentences."""
    if comparison.level == "unwritten":
        return "It is NaN where the truth is a number: memory that is not part of an input was read, or the formula overflows."
    if comparison.level == "nonfinite":
        return _odd(comparison)
    if comparison.level == "exact":
        return f"{comparison.error:.1%} of the elements differ."
    if comparison.level in _DISTRIBUTION:
        return _DISTRIBUTION[comparison.level].format(error=comparison.error, allowed=comparison.allowed)
    if comparison.level == "cut":
        return f"Of {comparison.error:.0%} of the numbers the last bits are zero: precision is thrown away."
    if comparison.level == "rounding":
        return (
            f"The reference rounds nearly every element correctly; this errs by {comparison.error:.1f} units in the last place "
            f"(median), {comparison.allowed:.0f} are allowed."
        )
    if comparison.level == "outlier":
        return (
            f"The reference rounds nearly every element correctly; here one element is {comparison.error:.0f} units in the "
            f"last place beyond what rounding explains, {comparison.allowed:.0f} are allowed."
        )
    where = {"tensor": "over the whole tensor", "row": "in one row", "element": "in one element"}[comparison.level]
    return f"The error {where} is {comparison.error:.3g} of the tensor's scale; {comparison.allowed:.3g} is allowed."


def remark(proof: Proof, item: Expected, comparison: ValueComparison) -> str:
    """Say what the inputs held, and what the row did that is wrong; nothing of a case with ordinary values."""
    if not proof.filled:
        return ""
    names = ", ".join(f"`{name}`" for name in proof.filled)
    if proof.case.odd_element:
        return f" An element of {names} is {proof.case.odd_element}."
    if proof.case.special is Special.down:
        return f" Some slices of {names} are minus infinity throughout."
    if proof.case.special is Special.magnitudes:
        return f" The elements of {names} are of every magnitude up to {proof.case.reach:.3g}."
    what = "infinities and NaN" if proof.case.content is Content.odd else f"values up to {proof.case.reach:.3g}"
    return f" Some rows of {names} hold {what}{_row(proof, item, comparison)}."


def _row(proof: Proof, item: Expected, comparison: ValueComparison) -> str:
    if comparison.position is None:
        return ""
    for place, name in enumerate(proof.filled):
        shape = tuple(proof.inputs[name].shape)
        if len(shape) > 1 and shape[:-1] in (item.shape, item.shape[:-1]):
            at = comparison.position[: len(shape) - 1]
            row = sum(index * math.prod(shape[axis + 1 : -1]) for axis, index in enumerate(at))
            return f", this one of `{name}`: {row_words(proof.case.content, row, place, proof.case.reach)}"
    return ""


def _odd(comparison: ValueComparison) -> str:
    got, expected = comparison.got, comparison.expected
    if got is None or expected is None or math.isfinite(got) == math.isfinite(expected):
        return "It is another number than the truth, and one of them is not finite."
    if math.isfinite(got) and math.isnan(expected):
        cure = "Comparisons and `tl.maximum` drop a NaN; `propagate_nan=tl.PropagateNan.ALL` lets it through."
        return f"It is a number where the truth is NaN: a fault of what feeds it would stay unseen. {cure}"
    if math.isfinite(got):
        return f"It is a number where the truth is {expected}."
    return f"It is {got} where the truth is a number."
