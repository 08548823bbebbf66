"""Inputs take turns, lie somewhere else for every block, and are put back where they were overwritten."""

from __future__ import annotations

import random

import torch

from gpu_runner.child.calls import Arguments
from gpu_runner.child.input_sets import STEP_BYTES, Ring


def given() -> Arguments:
    x = torch.arange(12.0).view(4, 3).requires_grad_()
    index = torch.tensor([3, 1, 2, 0])
    return Arguments(positional=[x, index, 0.5], named={"again": x}, leaves={"x": x}, upstream=[torch.ones(4, 3), None])


def laid() -> Ring:
    ring = Ring(given(), 3)
    ring.lay(random.Random(1))
    return ring


def test_a_set_is_the_first_one_moved_on_by_its_place_with_the_same_upstream() -> None:
    ring = laid()
    for place, there in enumerate(ring.sets):
        assert torch.equal(there.positional[0], torch.roll(ring.pristine.positional[0], place, 0))
        assert torch.equal(there.positional[1], torch.roll(ring.pristine.positional[1], place, 0))
        assert there.positional[2] == 0.5
        assert there.upstream[1] is None
        assert torch.equal(there.upstream[0], torch.ones(4, 3))


def test_what_is_passed_twice_stays_one_tensor_and_leaves_want_their_gradients() -> None:
    there = laid().sets[1]
    assert there.positional[0] is there.named["again"] is there.leaves["x"]
    assert there.leaves["x"].is_leaf
    assert there.leaves["x"].requires_grad


def test_no_two_sets_share_memory_and_every_block_has_other_addresses_of_the_same_alignment() -> None:
    ring = laid()
    first = [there.leaves["x"].data_ptr() for there in ring.sets]
    base = [tensor.data_ptr() for (label, _), tensor in ring._memory.items() if label == "x"]
    assert len({there.upstream[0].untyped_storage().data_ptr() for there in ring.sets}) == 3  # type: ignore[union-attr]
    ring.lay(random.Random(2))
    second = [there.leaves["x"].data_ptr() for there in ring.sets]
    assert not set(first) & set(second)
    assert all((pointer - start) % STEP_BYTES == 0 for pointer, start in zip(second, base, strict=True))


def test_only_what_was_overwritten_is_found_once_and_put_back() -> None:
    ring = laid()
    assert ring.look(1) == ()
    with torch.no_grad():
        ring.sets[1].leaves["x"].zero_()
        ring.sets[1].upstream[0].fill_(7.0)  # type: ignore[union-attr]
    assert ring.look(1) == ("x", "upstream 0")
    assert ring.look(1) == ()
    with torch.no_grad():
        ring.sets[1].positional[1].zero_()
    ring.restore(1)
    assert torch.equal(ring.sets[1].leaves["x"], torch.roll(ring.pristine.leaves["x"], 1, 0))
    assert torch.equal(ring.sets[1].upstream[0], torch.ones(4, 3))
    assert not ring.sets[1].positional[1].any()
    assert ring.look(1) == ("argument 1",)


def test_large_sets_take_turns_in_one_memory_and_each_has_its_own_content_in_its_turn() -> None:
    ring = Ring(given(), 3, shared_bytes=1)
    ring.lay(random.Random(1))
    assert len({there.leaves["x"].data_ptr() for there in ring.sets}) == 1
    for place in (0, 2, 1, 1, 0):
        ring.restore(place)
        assert torch.equal(ring.sets[place].leaves["x"], torch.roll(ring.pristine.leaves["x"], place, 0))
        assert torch.equal(ring.sets[place].upstream[0], torch.ones(4, 3))
        assert ring.look(place) == ring.look(1) == ()
    with torch.no_grad():
        ring.sets[0].leaves["x"].zero_()
    assert ring.look(2) == ("x",)  # of the set that lies there
    ring.restore(2)
    assert torch.equal(ring.sets[2].leaves["x"], torch.roll(ring.pristine.leaves["x"], 2, 0))
