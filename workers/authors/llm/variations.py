"""How questions for the same thing differ, so that several candidates are several ideas: a table. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variation:
    """One angle on a question. ``temperature`` goes to providers that take one; where it is None the model may think at length."""

    angle: str
    temperature: float | None = None


# The first is what a single candidate gets. Every second one has a temperature in place of thought: a request has one of the two.
KERNEL = (
    Variation("Write the kernel that you hold to be the best answer: right first, then few bytes through memory."),
    Variation(
        "Where a compiled kernel is given, start from it and keep what is right in it; change only what you can name a reason for. "
        "Where none is given, write the simplest kernel that is right.",
        0.3,
    ),
    Variation(
        "Let every tensor go through memory as few times as possible: one pass where a row fits a block, statistics and result in "
        "the same kernel, gradients of all inputs in the same pass."
    ),
    Variation(
        "Write the simplest kernel that is right: one program a row or a block, no settings that need tuning.", 0.5
    ),
    Variation(
        "Recompute in backward instead of saving: save the inputs and a number a row at most, and say in the plan what it costs."
    ),
    Variation(
        "Launch about one program a multiprocessor, each over many tiles, with partial sums of its own where rows are summed.",
        0.8,
    ),
    Variation(
        "Give short rows and wide rows a path each: several rows a program below 2 KiB a row, a loop over blocks above 64 KiB."
    ),
    Variation(
        "Look at the formula first: rewrite it so that fewer values are live or fewer reductions are needed, show in the docstring "
        "that it is the same, and write the kernel of that.",
        1.0,
    ),
)

CHANGE = (
    Variation("Make the change that a maintainer of these files would make: the smallest one that does what is asked."),
    Variation("Make it where the values are loaded and stored; leave the structure of the kernels alone.", 0.3),
    Variation(
        "Make it as a constexpr branch of the kernels that stand, so that calls without it compile to what they were."
    ),
    Variation("Make it on the host side as far as possible, and in the kernels only as far as needed.", 0.5),
    Variation("Make it as a kernel of its own beside those that stand, chosen by the function that launches."),
    Variation("Begin with the gradients: say first what they become, then change backward, then forward.", 0.8),
    Variation("Begin with the tests: write the case that fails today, then the change that lets it pass."),
    Variation("Question the obvious place for the change, and choose another one if that is smaller.", 1.0),
)

VARIANT = (
    Variation("Take the change of which you expect the most, by the measurement."),
    Variation("Take the change that removes most bytes: a pass, a saved tensor, a cast, a temporary.", 0.3),
    Variation("Take a change of the launch: programs, rows a program, warps, stages; leave the arithmetic alone."),
    Variation("Take a change of how a row is walked: one pass, blocks, or several rows together.", 0.5),
    Variation("Take a change of backward: what is saved, what is recomputed, how gradients are summed."),
    Variation(
        "Take a change of the order of work, so that what was read last is used next and stays in the cache.", 0.8
    ),
    Variation("Take a change of the formula that is exact and saves reductions or live values."),
    Variation("Take a change that nothing tried so far resembles.", 1.0),
)


def variation_of(table: tuple[Variation, ...], number: int) -> Variation:
    """Give a variation; past the end of the table it begins again, since temperatures alone differ there too."""
    return table[number % len(table)]
