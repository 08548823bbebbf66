"""What compiled sections launch on a Hopper GPU, assembled without one: no launch asks for more shared memory than there is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.few import asked_for, few
from tests.workers.compiler.assembled import PROPERTIES

NAMES = few(["layer_norm", "softmax", "rms_norm", "dyt", "cross_entropy", "sparsemax", "relu_residual"], ["layer_norm"])


@pytest.fixture(scope="module")
def launches(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    """The launches of each problem that this run looks at; Triton compiles where it is not in its interpreter."""
    names = asked_for(request, "name")
    results = tmp_path_factory.mktemp("assembled") / "launches.json"
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(results.parent / "cache")
    part = () if len(names) == len(NAMES) else ("--few",)
    command = [sys.executable, "-m", "tests.workers.compiler.assembled", *part, *names, str(results)]
    subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[3])
    found: dict[str, list[dict[str, Any]]] = json.loads(results.read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_no_launch_asks_for_more_shared_memory_than_there_is(
    name: str, launches: dict[str, list[dict[str, Any]]]
) -> None:
    assert {launch["size"] for launch in launches[name]} >= {"5 x 1 float32", "7 x 70000 float32"}
    most = PROPERTIES.shared_memory_per_block_optin
    assert [launch for launch in launches[name] if launch["shared_bytes"] > most] == []


@pytest.mark.parametrize("name", NAMES[:3:2])
def test_loops_of_several_turns_are_pipelined_and_those_of_one_are_not(
    name: str, launches: dict[str, list[dict[str, Any]]]
) -> None:
    backward = [one for one in launches[name] if one["kernel"].endswith("backward_kernel")]
    stages = {one["size"]: one["constants"]["NUM_STAGES"] for one in backward}
    assert stages["20000 x 8192 bfloat16"] > 1
    assert stages["8 x 4099 float32"] == 1
