"""`work --target` and `doctor --target`: a host that lacks something starts nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from service.cli import app
from workers import byhand


def test_a_host_that_lacks_something_starts_no_worker_and_is_told_what_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = SimpleNamespace(npu_lacks=("CANN is not found. Install it.",))
    monkeypatch.setattr(byhand, "doctor", lambda **asked: SimpleNamespace(host=lambda: host))
    done = CliRunner().invoke(app, ["work", "--target", "ascend"])
    assert done.exit_code == 3
    assert "this host cannot run kernels for Ascend NPUs:\n- CANN is not found. Install it." in done.output


@pytest.mark.parametrize("command", ["work", "doctor"])
def test_a_target_that_needs_no_host_of_its_own_is_refused(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--target", "cutile"])
    assert done.exit_code == 2 and "'cutile' is not one of 'ascend'" in done.output
