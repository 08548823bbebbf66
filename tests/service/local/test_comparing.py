"""A comparison on a local checkout: what its two sides are, and that nothing of it is left there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.local.asking import LocalJob, comparing_request
from service.local.checkout import Checkout
from tests.service.local.checkouts import checked_out, git
from workers.contracts import JobOptions, UserFacingError, Verb
from workers.embedded import close, configure


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder = checked_out(tmp_path / "library", {"kernel.py": b"number = 1\n"})
    git(folder, "checkout", "-q", "-b", "topic")
    (folder / "kernel.py").write_text("number = 2\n")
    git(folder, "commit", "-q", "-a", "-m", "topic")
    configure(tmp_path / "state")
    return Checkout(folder)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close()


def asked(against: str = "main", dirty: bool = False) -> LocalJob:
    return LocalJob("compare", "", JobOptions(against=against), fresh=True, verb=Verb.bench, dirty=dirty)


def test_head_is_compared_with_its_merge_base(checkout: Checkout) -> None:
    request = comparing_request(checkout, asked())
    assert (request.base_sha, request.head_sha) == (git(checkout.folder, "rev-parse", "main"), checkout.head())
    assert request.snapshot != request.head_snapshot


def test_the_working_tree_is_compared_without_being_touched(checkout: Checkout) -> None:
    (checkout.folder / "kernel.py").write_text("number = 3\n")
    (checkout.folder / "new.py").write_text("new = True\n")
    before = git(checkout.folder, "status", "--porcelain")
    request = comparing_request(checkout, asked(dirty=True))
    assert git(checkout.folder, "show", f"{request.head_sha}:kernel.py") == "number = 3"
    assert git(checkout.folder, "show", f"{request.head_sha}:new.py") == "new = True"
    assert git(checkout.folder, "status", "--porcelain") == before
    assert git(checkout.folder, "branch", "--contains", request.head_sha or "") == ""


@pytest.mark.parametrize(
    ("against", "said"), [("nowhere", "no branch"), ("topic", "is contained in topic"), ("--all", "no branch")]
)
def test_what_cannot_be_compared_is_said(checkout: Checkout, against: str, said: str) -> None:
    with pytest.raises(UserFacingError, match=said):
        comparing_request(checkout, asked(against))


def test_a_target_that_is_none_is_refused_with_the_form(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["optimize", "rms_norm", "--repo", str(tmp_path), "--target", "fast"])
    assert done.exit_code == 2
    assert "forward < 0.3 ms @ H=4096" in done.output


def test_every_command_has_its_help() -> None:
    for command in ("compile", "verify", "bench", "tune", "profile", "create", "optimize", "compare", "doctor", "demo"):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0, command
