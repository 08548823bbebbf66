"""A small difference must hold in fresh processes: how fast a process runs a kernel is partly the luck of that process. Pure.

Two processes with the same kernel differ by more than the intervals of one run say: what is drawn when a process starts (its
context, its pages of memory, where its code lies) stays for as long as it lives, and no number of rounds averages it out.
Measured on three H200s, 2026-11-29, 486 controls of kernels that do not wait for the device: half of them lie outside of their own
95% interval; below 100 us 5% differ from themselves by 1.5% or more, and none by more than 2.5%.
Source: Kalibera and Jones, Rigorous Benchmarking in Reasonable Time (2013), for repetition at the level that varies.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gpu_runner.contracts.benchmark import Comparison, Word

PROCESS_LUCK = 0.05  # log-ratio: twice the most that one of these controls differed from itself


def needs_repeat(comparison: Comparison, *, waits: bool) -> bool:
    """Whether a comparison is called faster or slower by so little that processes may make it.

    ``waits``: the host waits for the device within the pass, so that its share, which varies by far more, is in the time.
    """
    nearest = min(abs(math.log(comparison.speedup_low)), abs(math.log(comparison.speedup_high)))
    return comparison.word in (Word.faster, Word.slower) and (waits or nearest < PROCESS_LUCK)


def repeated(first: Comparison, second: Comparison | None) -> Comparison:
    """Both as one: the word where both have it, else undecided; the geometric mean, within all that the two intervals cover."""
    if second is None:
        return replace(first, word=Word.undecided)
    return replace(
        first,
        speedup=math.sqrt(first.speedup * second.speedup),
        speedup_low=min(first.speedup_low, second.speedup_low),
        speedup_high=max(first.speedup_high, second.speedup_high),
        word=first.word if second.word is first.word else Word.undecided,
        pairs=first.pairs + second.pairs,
    )
