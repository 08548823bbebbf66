"""Whole models fused by the compiler: the module in Triton's interpreter beside the original, with its parameters, in bfloat16,
under autocast and ``torch.compile``; and how the cost model cuts them.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from tests.workers.fuse.models import module_of
from tests.workers.fuse.wholes import NAMES, cut_model
from tests.workers.fuse.wholes.steps import COMPILED
from workers.fuse.program import composed_of

# A rectifier passes or stops an element by one rounding: of a few hundred elements either program may have the worse luck.
SMOOTH = tuple(name for name in NAMES if name != "resnet_block")


@functools.cache
def losses() -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.workers.fuse.wholes.steps", *NAMES]
    ended = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_models_are_cut_where_bytes_are_saved() -> None:
    found = {name: sorted(part.operators for part in cut_model(name)[1].parts.values()) for name in NAMES}
    gelu = ("add", "mul", "pow", "mul", "add", "mul", "tanh", "add", "mul")
    scores = ("mul", "eq", "masked_fill", "softmax")
    assert found == {
        "gru_cell": [
            ("add", "add", "add", "sigmoid", "add", "sigmoid", "mul", "add", "tanh", "mul", "rsub", "mul", "add")
        ],
        "mingpt_block": [("add", "add", "layer_norm"), gelu, ("layer_norm",), scores],
        "mixer_block": [("add", "gelu"), ("add", "gelu"), ("add", "layer_norm"), ("layer_norm",)],
        "resnet_block": [("batch_norm", "batch_norm", "add", "relu"), ("batch_norm", "relu")],
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), [(n, w) for n in NAMES for w in ("plain", "compiled")])
def test_a_whole_model_has_the_values_and_gradients_of_the_original(name: str, way: str) -> None:
    found = losses()[name][way]
    assert bool(found) is (way == "plain" or name in COMPILED)
    assert all(ours < 2 * theirs + 1e-6 for theirs, ours in found)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), [(n, w) for n in SMOOTH for w in ("bfloat16", "autocast")])
def test_in_half_precision_it_loses_no_more_than_the_original(name: str, way: str) -> None:
    assert all(ours < 1.5 * theirs + 0.001 for theirs, ours in losses()[name][way])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_state_dict_goes_both_ways(name: str) -> None:
    assert losses()[name]["state"]


def test_what_autocast_gives_in_two_dtypes_a_part_gets_in_the_wider_one() -> None:
    model, chosen, bodies = cut_model("mingpt_block")
    text = composed_of(model, chosen, bodies).source
    own = module_of(
        f"import functools\nimport torch\n\n\ndef in{text.partition('def in')[2].partition('def candidate')[0]}"
    )
    given = torch.ones(2, dtype=torch.bfloat16), torch.ones(2), torch.ones(2, dtype=torch.bool)
    assert own.in_one_dtype(*given) == given
    with torch.autocast("cpu", torch.bfloat16):
        assert [x.dtype for x in own.in_one_dtype(*given)] == [torch.float32, torch.float32, torch.bool]
