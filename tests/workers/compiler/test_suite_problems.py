"""Every problem of tests/suite is compiled and right in float32 and bfloat16, or refused with the operator that is lacking."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.few import few
from tests.workers.compiler.suited import problems

ROOT = Path(__file__).parents[3]
REFUSED = {
    "convolution_mean_without_border": "aten.avg_pool2d.default",
    "cumsum_shifted": "slice",
    "embedding_scaled": "index_select",
    "max_pool_with_indices": "aten.max_pool2d_with_indices.default",
    "rotary_neighbours": "slice",
}


# A third in `make test`: the operators one by one are those of `test_values_in_the_interpreter`, which compiles graphs of its own.
NAMES = few(problems(), {*problems()[::3], *REFUSED})


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the problems came to that this run looks at, from one process."""
    here = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    names = sorted({item.callspec.params["name"] for item in here})
    path = tmp_path_factory.mktemp("suited") / "results.json"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.workers.compiler.suited", str(path), *names]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=560, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    given: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return given


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first waits for all
@pytest.mark.parametrize("name", NAMES)
def test_a_problem_is_right_or_refused_for_the_operator_that_is_lacking(
    name: str, results: dict[str, dict[str, Any]]
) -> None:
    assert results[name] == ({"refused": REFUSED[name]} if name in REFUSED else {"complaints": []})
