"""Who is accused by the number of launches: not where the original's second call is wrong, so that there was none."""

from __future__ import annotations

import torch

from gpu_runner.verify.answer import Answer
from gpu_runner.verify.cases import Case
from gpu_runner.verify.honesty import judge_honesty
from gpu_runner.verify.notes import Notes
from gpu_runner.verify.peer import NO_PEER, Peer
from gpu_runner.verify.proof import Form, Proof

PROOF = Proof(Case("one", (), "float32", 1), Form("reference", ("x",)), {"x": torch.zeros(4)}, {}, (), ())


def answered(**launches: int) -> Answer:
    return Answer({}, {"kernel": 2}, launches, {}, 0, 0, (), {}, (), {}, ())


def accused(answer: Answer, peer: Peer) -> list[str | None]:
    notes = Notes("one")
    judge_honesty(notes, PROOF, answer, peer)
    return [finding.rule for finding in notes.findings]


def test_a_second_call_with_fewer_launches_remembers_an_answer() -> None:
    assert accused(answered(first=1), NO_PEER) == ["remembers an answer"]
    assert accused(answered(first=1), Peer(answered(first=1, second=1))) == ["remembers an answer"]


def test_a_second_call_that_was_left_out_is_no_accusation() -> None:
    assert accused(answered(first=1), Peer(answered(first=1, second=1), frozenset({"second"}))) == []


def test_what_the_original_does_too_is_no_accusation() -> None:
    assert accused(answered(first=1), Peer(answered(first=1))) == []
