"""Problems drawn at random are compiled right or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.few import few
from tests.workers.compiler.processes import run


@pytest.mark.slow
@pytest.mark.parametrize("count", few((4, 10), (4,)))
@pytest.mark.parametrize("draws", ["windows_at_random", "rows_at_random"])
def test_problems_at_random_are_right_or_refused(tmp_path: Path, draws: str, count: int) -> None:
    path = tmp_path / "results.json"
    run(draws, "100", str(count), str(path), folder=tmp_path)
    results = json.loads(path.read_text())
    assert {number: result for number, result in results.items() if result.get("complaints")} == {}
    assert sum("complaints" in result for result in results.values()) > len(results) // 2  # not all are refused
