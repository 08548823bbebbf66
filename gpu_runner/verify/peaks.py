"""Asks a child for the peak memory of forward and backward. Thin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpu_runner.messages import MeasurePeaks
from gpu_runner.session import ChildSession
from gpu_runner.verify.proof import Proof, make_call

Peaks = tuple[int | None, int | None]  # bytes beyond what was there, of forward and backward

NO_PEAKS: Peaks = (None, None)


def peaks_of(session: ChildSession, proofs: Sequence[Proof]) -> Peaks:
    """The peaks of the first measured case; None without a GPU.

    Raises:
        ChildFailed, ProtocolError: the code that is loaded there does not run.
    """
    if not session.gpu:
        return NO_PEAKS
    measured = [proof for proof in proofs if proof.case.measured] or list(proofs)
    call = make_call(replace(measured[0], other=None))
    peaks = session.call(MeasurePeaks(call.call), call.tensors).message
    return peaks.forward, peaks.backward
