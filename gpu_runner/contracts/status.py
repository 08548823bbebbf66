"""The closed vocabulary of verdicts."""

from enum import StrEnum


class Status(StrEnum):
    """What became of a candidate, or of the problem it was held against."""

    passed = "passed"
    incorrect_values = "incorrect_values"
    incorrect_gradient = "incorrect_gradient"
    incorrect_shape = "incorrect_shape"
    incorrect_dtype = "incorrect_dtype"
    unwritten_output = "unwritten_output"
    mutated_input = "mutated_input"
    out_of_bounds = "out_of_bounds"
    nondeterministic = "nondeterministic"
    compile_error = "compile_error"
    launch_error = "launch_error"
    timeout = "timeout"
    out_of_memory = "out_of_memory"
    refused = "refused"
    unproved = "unproved"  # the judge cannot say; its evidence names what it lacks
    degenerate_problem = "degenerate_problem"
    cheating = "cheating"
    environment_error = "environment_error"
