"""What a candidate is accused of by what its process was seen to do, beyond what the original does in the same case. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_runner.contracts.status import Status
from gpu_runner.verify.answer import Answer
from gpu_runner.verify.notes import Notes
from gpu_runner.verify.peer import NO_PEER, Peer
from gpu_runner.verify.proof import Proof

FULL_SIZE_SHARE = 8  # torch works on an eighth of the largest input or more in all: that is the answer, not bookkeeping
FULL_SIZE_LEAST = 256


def judge_honesty(notes: Notes, proof: Proof, answer: Answer, peer: Peer = NO_PEER) -> None:
    """Accuse a candidate; what the original did in the same case is no accusation, but named as an allowance."""
    alone = list(_accusations(proof, answer, NO_PEER))
    beside = alone if peer.answer is None else list(_accusations(proof, answer, peer))
    for message, rule in beside:
        notes.wrong(Status.cheating, "honest", message, rule=rule)
    if len(beside) < len(alone):
        notes.allow("honest")


def _accusations(proof: Proof, answer: Answer, peer: Peer) -> Iterator[tuple[str, str]]:
    original = peer.answer
    if not any(answer.launched.values()):
        if original is None or any(original.launched.values()):
            yield "The candidate launched no kernel of its own.", "no kernel ran"
    elif _launches_fewer(answer) and not _had_no_second_call(peer):
        yield "The second call with the same inputs launched fewer kernels than the first.", "remembers an answer"
    largest = max((tensor.numel() for tensor in proof.inputs.values()), default=0)
    if largest >= FULL_SIZE_LEAST:
        remembered = answer.remembered if original is None or answer.remembered > original.remembered else 0
        if remembered * FULL_SIZE_SHARE >= largest:
            message = f"A tensor of {remembered} elements from an earlier call was used again."
            yield message, "remembers an answer"
        computed = _most_computed(answer, original)
        if sum(computed.values()) * FULL_SIZE_SHARE >= largest:
            yield _computed(computed), "torch computes the answer"
    known = () if original is None else original.untouched
    for label in answer.untouched:
        if label not in known:
            yield f"No kernel wrote {label}.", "no kernel wrote the answer"


def _had_no_second_call(peer: Peer) -> bool:
    """Say whether there was none because the original's is wrong, or the original launches fewer kernels in it too."""
    return "second" in peer.failed or (peer.answer is not None and _launches_fewer(peer.answer))


def _launches_fewer(answer: Answer) -> bool:
    return answer.launches.get("second", 0) < answer.launches.get("first", 0)


def _most_computed(answer: Answer, original: Answer | None) -> dict[str, int]:
    """Give what torch computes in the step in which that is most, by operator, beyond what it computes there for the original."""
    standing: Mapping[str, Mapping[str, int]] = {} if original is None else original.computed
    steps = [_beyond(step, standing.get(label, {})) for label, step in answer.computed.items()]
    return max(steps, key=lambda step: sum(step.values()), default={})


def _beyond(step: Mapping[str, int], standing: Mapping[str, int]) -> dict[str, int]:
    more = {name: elements - standing.get(name, 0) for name, elements in step.items()}
    return {name: elements for name, elements in more.items() if elements > 0}


def _computed(computed: dict[str, int]) -> str:
    names = sorted(computed, key=lambda name: -computed[name])
    named = ", ".join(f"`{name}`" for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"torch computes {named} over {sum(computed.values())} elements in one step."
