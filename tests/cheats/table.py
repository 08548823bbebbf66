"""Every cheat (a file in ``forms/``, or a diff there), with the status and rule that the screen and the run must end in."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import Status

Outcome = tuple[Status, str | None]

REACHES: Outcome = (Status.cheating, "reaches outside")
REMEMBERS: Outcome = (Status.refused, "remembers between calls")
ATTRIBUTE: Outcome = (Status.refused, "unknown attribute")
OPERATOR: Outcome = (Status.refused, "torch operator")
BY_TORCH: Outcome = (Status.cheating, "torch computes the answer")
NO_KERNEL: Outcome = (Status.cheating, "no kernel wrote the answer")
RECALLS: Outcome = (Status.cheating, "remembers an answer")
VALUES: Outcome = (Status.incorrect_values, None)
GRADIENT: Outcome = (Status.incorrect_gradient, None)


@dataclass(frozen=True)
class Cheat:
    """``screen``: what the static screen says, None where nothing shows. ``run``: what the run says by itself, one of these."""

    screen: Outcome | None
    run: tuple[Outcome, ...]


CHEATS: dict[str, Cheat] = {
    "autotune_hook": Cheat(None, (GRADIENT,)),
    "beyond_the_end": Cheat(None, ((Status.out_of_bounds, None),)),
    "by_content": Cheat(REMEMBERS, (REMEMBERS,)),
    "by_pointer": Cheat(ATTRIBUTE, ((Status.refused, "unknown attribute"),)),
    "by_shape": Cheat(REMEMBERS, (REMEMBERS,)),
    "changes_inputs": Cheat(None, ((Status.mutated_input, None), VALUES)),
    "changes_upstream": Cheat(None, ((Status.mutated_input, None),)),
    "compiles": Cheat(OPERATOR, (OPERATOR,)),
    "computes_when_read": Cheat((Status.refused, "class"), ((Status.refused, "class"),)),
    "constant": Cheat(None, (VALUES,)),
    "decoy": Cheat(None, (BY_TORCH,)),
    "decoy_gradient": Cheat(None, (BY_TORCH,)),
    "dense_upstream_only": Cheat(None, (GRADIENT, (Status.out_of_bounds, None))),
    "element_by_element": Cheat(None, (BY_TORCH, (Status.refused, "endless"))),  # the second by a case of many elements
    "evaluates_text": Cheat((Status.cheating, "runs code from text"), ((Status.cheating, "runs code from text"),)),
    "exits_at_import": Cheat(REACHES, (REACHES,)),
    "falls_back": Cheat((Status.refused, "try around code"), ((Status.refused, "try around a launch"),)),
    "first_block": Cheat(None, ((Status.unwritten_output, None),)),
    "forges_the_answer": Cheat(REACHES, (REACHES,)),
    "freed_gradient": Cheat(None, (NO_KERNEL,)),
    "freed_memory": Cheat(None, (NO_KERNEL,)),
    "grid_lambda": Cheat(REMEMBERS, (BY_TORCH,)),
    "grid_lambda_gradient": Cheat(REMEMBERS, (BY_TORCH,)),
    "hooked_gradient": Cheat(ATTRIBUTE, ((Status.refused, "unknown attribute"),)),
    "in_a_subprocess": Cheat(REACHES, (REACHES,)),
    "in_a_thread": Cheat(REACHES, (REACHES,)),
    "kept_by_a_cached_function": Cheat(REMEMBERS, (REMEMBERS,)),
    "kept_by_a_class": Cheat(REMEMBERS, (REMEMBERS,)),
    "kept_by_a_closure": Cheat(REMEMBERS, (REMEMBERS,)),
    "kept_by_a_default": Cheat(REMEMBERS, (REMEMBERS,)),
    "kept_by_an_object": Cheat(ATTRIBUTE, (REMEMBERS,)),
    "kernel_calls_back": Cheat(REMEMBERS, ((Status.refused, "kernel"),)),
    "lower_precision": Cheat(None, (VALUES,)),
    "lower_precision_gradient": Cheat(None, (GRADIENT,)),
    "many_outputs": Cheat(None, ((Status.incorrect_shape, None),)),
    "no_gradient": Cheat(None, (GRADIENT,)),
    "one_buffer": Cheat(REMEMBERS, (REMEMBERS,)),
    "one_wrong_row": Cheat(None, (VALUES,)),
    "patches_torch": Cheat((Status.cheating, "patches a module"), ((Status.cheating, "patches a module"),)),
    "reaches_network": Cheat(REACHES, (REACHES,)),
    "reads_memory": Cheat(REACHES, (REACHES,)),
    # Which run first comes after the warm-up is drawn.
    "right_in_warm_up": Cheat(REMEMBERS, (REMEMBERS,)),
    "row_by_row": Cheat(None, (BY_TORCH,)),
    "row_by_row_gradient": Cheat(None, (BY_TORCH,)),
    "saved_and_scaled": Cheat(None, (GRADIENT,)),
    "saved_answer": Cheat(None, ((Status.refused, "memory made at import"),)),
    "small_only": Cheat(None, (VALUES,)),
    "test_mode": Cheat(REACHES, (REACHES,)),
    "torch_operator": Cheat(OPERATOR, (OPERATOR,)),
}

# Cheats against the freedom of a candidate that is judged beside an original: files in ``beside/``.
BESIDE: dict[str, Cheat] = {
    "beyond_the_edge": Cheat(None, ((Status.out_of_bounds, None),)),
    "errs_more": Cheat(None, (VALUES,)),
    "line_in_a_new_place": Cheat(None, (BY_TORCH,)),
    "line_twice": Cheat(None, (BY_TORCH,)),
    "more_torch": Cheat(OPERATOR, (OPERATOR,)),
    "overwrites_upstream": Cheat(None, ((Status.mutated_input, None),)),
    "torch_forward": Cheat(ATTRIBUTE, (ATTRIBUTE,)),
}
