"""Every problem of tests/suite is compiled and right in float32 and bfloat16, or refused with the operator that is lacking."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.few import asked_for, few
from tests.workers.compiler.processes import run
from tests.workers.compiler.suited import problems

REFUSED = {
    "convolution_mean_without_border": "aten.avg_pool2d.default",
    "embedding_scaled": "index_select",
    "max_pool_with_indices": "aten.max_pool2d_with_indices.default",
    "rotary_neighbours": "slice",
}


# A sixth in `make test`: the operators one by one are those of `test_values_in_the_interpreter`, which compiles graphs of its own.
NAMES = few(problems(), {*problems()[::6], *REFUSED})


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the problems came to that this run looks at, from one process."""
    names = asked_for(request, "name")
    path = tmp_path_factory.mktemp("suited") / "results.json"
    run("suited", str(path), *names, folder=path.parent, time_s=560.0)
    given: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return given


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first waits for all
@pytest.mark.parametrize("name", NAMES)
def test_a_problem_is_right_or_refused_for_the_operator_that_is_lacking(
    name: str, results: dict[str, dict[str, Any]]
) -> None:
    assert results[name] == ({"refused": REFUSED[name]} if name in REFUSED else {"complaints": []})
