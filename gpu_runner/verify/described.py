"""Describes what stands in a repository where it is itself what shall be judged: what it errs, and whether that is too far. Thin.

It cannot be held against a second run of itself: what sums in no fixed order errs now more, now less, and would be refused by
luck. Its one run is its own peer instead. What is wrong by far is refused as ever (``original``), and what is merely imprecise is
named in the verdict. That it is the original is seen by its files, which are those of the original to the last letter.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runner.context import RunContext
from gpu_runner.contracts.verify import CandidateSource
from gpu_runner.errors import ChildFailed, ProtocolError
from gpu_runner.session import Session, has_gpu
from gpu_runner.spans import span
from gpu_runner.verify.early import Door
from gpu_runner.verify.examine import examine
from gpu_runner.verify.finding import Examined
from gpu_runner.verify.original import Standing, learn
from gpu_runner.verify.peaks import NO_PEAKS, Peaks, peaks_of
from gpu_runner.verify.proof import Proof


def is_original(candidate: CandidateSource, original: CandidateSource | None) -> bool:
    """Say whether a candidate is the original itself: the same files in the same tree, and the same callable of them."""
    return candidate == original


def describe(
    original: CandidateSource, proofs: Sequence[Proof], context: RunContext, door: Door | None = None
) -> tuple[Standing, list[Examined], Peaks]:
    """Run the original once on every case, and examine it beside itself; with the peaks of its memory.

    Raises:
        BadOriginal: it does not run where it must, or computes something else than the reference.
        RunnerError: the host is at fault.
    """
    peaks = [NO_PEAKS]

    def last(session: Session, ran: list[Proof]) -> None:
        try:
            peaks[0] = peaks_of(session, ran)
        except (ChildFailed, ProtocolError) as error:
            context.progress(f"verify: the original's memory was not measured: {error}")

    standing = learn(original, proofs, context, door, last)
    device = "cuda" if has_gpu() else "cpu"
    examined = []
    with span("comparing"):
        for proof, peer in standing.cases:
            assert peer.answer is not None, "a case of an original has what it gave"
            examined.append(examine(proof, peer.answer, device, peer, tuple(standing.overwrites)))
    return standing, examined, peaks[0]
