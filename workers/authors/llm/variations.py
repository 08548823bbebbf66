"""How questions for the same thing differ, so that several candidates are several ideas: a table. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variation:
    """One angle on a question. ``temperature`` goes to models that take one, which are those that do not think."""

    angle: str
    temperature: float | None = None


# The first is what a single candidate gets.
KERNEL = (
    Variation("Write the kernel that you consider best: right first, then few bytes through memory."),
    Variation(
        "Where a compiled kernel is given, start from it, and change only what you can give a reason for. Where "
        "none is given, write "
        "the simplest kernel that is right.",
        0.3,
    ),
    Variation(
        "Move every tensor through memory as few times as possible: one pass where a row fits a block, "
        "statistics and result in one "
        "kernel, the gradients of all inputs in one pass."
    ),
    Variation(
        "Write the simplest kernel that is right: one program for each row or block, no settings that need tuning.", 0.5
    ),
    Variation(
        "Recompute in backward instead of saving: save the inputs and at most one number for each row, and say "
        "in the plan what it costs."
    ),
    Variation(
        "Launch about one program for each multiprocessor, each over many tiles, with its own partial sums where rows are summed.",
        0.8,
    ),
    Variation(
        "Write one path for short rows and one for wide rows: several rows in a program below 2 KiB, a loop over "
        "blocks above 64 KiB."
    ),
    Variation(
        "Start with the formula: rewrite it so that fewer values are live or fewer reductions are needed, show "
        "in the docstring that it "
        "is the same, and write the kernel for that.",
        1.0,
    ),
)

CHANGE = (
    Variation("Make the change that a maintainer of these files would make: the smallest one that does what is asked."),
    Variation("Make it where the values are loaded and stored; leave the structure of the kernels alone.", 0.3),
    Variation(
        "Make it a constexpr branch of the existing kernels, so that calls without it compile to the same code as before."
    ),
    Variation("Make it on the host side as far as possible, and in the kernels only as far as needed.", 0.5),
    Variation("Make it a kernel of its own next to the existing ones, chosen by the function that launches."),
    Variation("Start with the gradients: work out what they become, then change backward, then forward.", 0.8),
    Variation("Start with the tests: write the case that fails today, then the change that makes it pass."),
    Variation("Question the obvious place for the change, and choose another one if the change is smaller there.", 1.0),
)

VARIANT = (
    Variation("Take the change from which you expect the most, by the measurement."),
    Variation("Take the change that removes the most bytes: a pass, a saved tensor, a cast, a temporary.", 0.3),
    Variation("Take a change of the launch: programs, rows in a program, warps, stages; leave the arithmetic alone."),
    Variation("Take a change of how a row is walked: one pass, blocks, or several rows together.", 0.5),
    Variation("Take a change of backward: what is saved, what is recomputed, how gradients are summed."),
    Variation(
        "Take a change of the order of work, so that what was read last is used next and stays in the cache.", 0.8
    ),
    Variation("Take a change of the formula that is exact and saves reductions or live values."),
    Variation("Take a change unlike anything tried so far.", 1.0),
)


def variation_of(table: tuple[Variation, ...], number: int) -> Variation:
    """A variation; past the end of the table it begins again."""
    return table[number % len(table)]
