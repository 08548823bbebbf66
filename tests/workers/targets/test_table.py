"""Targets by name, and the stand-in for what only a device has."""

from __future__ import annotations

import itertools
import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

from service.commands.grammar import TARGETS as OFFERED
from workers.contracts import UserFacingError
from workers.targets import stand_in
from workers.targets.table import TARGETS, target_named


def test_the_grammar_offers_every_target() -> None:
    assert tuple(TARGETS) == OFFERED


def test_an_unknown_target_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UserFacingError) as raised:
        target_named("ascent")
    assert raised.value.failure.message == "there is no target `ascent`"
    assert raised.value.failure.fix == "Did you mean `ascend`? Targets: `ascend`, `cutile`, `cutedsl`, `rocm`, `xpu`."


def test_a_tile_fits_into_the_buffer_with_room_for_what_is_loaded_meanwhile() -> None:
    for multiplier, columns in itertools.product((1.5, 4.0, 9.0, 14.0), (1, 7, 1000, 4096, 11008, 128256)):
        ((block,),) = stand_in.compute_default_tiling_strategy(0.8, 4, multiplier, ((columns,),), (0,))
        assert block & (block - 1) == 0
        assert multiplier * block * 32 <= stand_in.CAPACITY_BITS * 0.75
        assert block >= columns or multiplier * block * 64 > stand_in.CAPACITY_BITS * 0.75, "the next one fits no more"


@pytest.mark.skipif("LIGER_SOURCE" not in os.environ, reason="LIGER_SOURCE names no unpacked source of the library")
def test_the_stand_in_cuts_tiles_as_the_library_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(os.environ["LIGER_SOURCE"]) / "src"))
    monkeypatch.setenv("ASCEND_UB_CAPACITY_BITS", str(stand_in.CAPACITY_BITS))
    theirs = import_module("liger_kernel.ops.backends._ascend.ub_manager").compute_default_tiling_strategy
    shapes = [((n,),) for n in (1, 5, 1000, 4096, 11008, 128256)] + [
        ((m, n),) for m in (1, 3, 77, 410) for n in (64, 4096)
    ]
    for margin, size, multiplier, shape in itertools.product((0.8, 0.9), (2, 4), (1.5, 4.0, 11.0), shapes):
        ours = stand_in.compute_default_tiling_strategy(margin, size, multiplier, shape, (0,))
        assert tuple(ours) == tuple(theirs(margin, size, multiplier, shape, (0,))), (margin, size, multiplier, shape)
    for name in [name for name in sys.modules if name.partition(".")[0] == "liger_kernel"]:
        del sys.modules[name]
