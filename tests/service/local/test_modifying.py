"""A change by a model on a local checkout: the real runner in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conversations.modifying import PLAIN_PATH, PLAIN_PROBLEM, PLAIN_SUITE, SMALL, change
from tests.service.local.checkouts import checked_out, git, run
from tests.workers.models.anthropic_server import KEY, MODEL, anthropic_server, call

pytestmark = pytest.mark.usefixtures("environment")
PROVIDER = ("ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "ANTHROPIC_BASE_URL")
OFFSET = (
    ("n, factor, BLOCK_SIZE: tl.constexpr", "n, factor, offset, BLOCK_SIZE: tl.constexpr"),
    ("mask=mask) * factor, mask=mask)", "mask=mask) * factor + offset, mask=mask)"),
    ("def scale(x, factor):\n", "def scale(x, factor, offset=0.0):\n    x = x.contiguous()\n"),
    ("(x, y, n, factor, BLOCK_SIZE=256)", "(x, y, n, factor, offset, BLOCK_SIZE=256)"),
)
TESTS = """\
def test_offset():
    x = torch.randn(5, 7)
    torch.testing.assert_close(scale(x, 2.0, 0.5), x * 2.0 + 0.5)
"""
PROBLEM = (
    PLAIN_PROBLEM.replace("factor: float = 3.0", "factor: float = 3.0, offset: float = 0.5")
    .replace("x * factor", "x * factor + offset")
    .replace("scale(x, factor)", "scale(x, factor, offset)")
)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return checked_out(tmp_path / "library", SMALL)


def branch(folder: Path) -> str:
    names = git(folder, "for-each-ref", "--format=%(refname)", "refs/heads").splitlines()
    (found,) = [name for name in names if name != "refs/heads/main"]
    return found


@pytest.mark.long  # in `make test` a change is made in a conversation, and a job of a checkout is repeated
@pytest.mark.slow
def test_a_change_is_made_on_a_checkout_and_recorded(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish, recording = tmp_path / "wish.md", tmp_path / "recording.tar.gz"
    wish.write_text("Add an offset after scaling; none is the default.")
    right = change(PLAIN_PATH, OFFSET, "There is an offset.", suite=PLAIN_SUITE, tests=TESTS, problem=PROBLEM)
    weak = right | {"edits": [*right["edits"], {"path": PLAIN_SUITE, "old": "scale(x, 2.0)", "new": "x * 2.0"}]}
    with anthropic_server() as provider:
        provider.next(call("give_change", weak), call("give_change", right))
        for name, value in zip(PROVIDER, (KEY, MODEL, provider.base_url), strict=True):
            monkeypatch.setenv(f"KERNELSMITH_{name}", value)
        made = run(
            *("modify", "scale", "--repo", library, "--request", wish, "--auto", "--candidates", "1"),
            *("--record", recording),
        )
    assert made.exit_code == 0, made.output
    assert "2 questions are recorded" in made.output
    told = " ".join(made.output.split())
    assert "scale is changed and proved in Triton's interpreter" in told
    assert "1 added test fails before the change and passes with it" in told
    changed = git(library, "diff", "--name-only", "main", branch(library)).splitlines()
    assert changed == [".kernelsmith/problems/scale.py", PLAIN_PATH, PLAIN_SUITE]
    patch = (library / ".git" / "kernelsmith" / "scale" / "scale.patch").read_text()
    assert "+    x = x.contiguous()" in patch


def test_what_to_change_is_said_once(library: Path, tmp_path: Path) -> None:
    wish = tmp_path / "wish.md"
    wish.write_text("Faster.")
    for more in ((), ("--words", "Faster.", "--request", wish)):
        told = run("modify", "scale", "--repo", library, *more)
        assert told.exit_code == 2
        assert "--words" in told.output


def test_what_is_missing_is_told_before_anything_is_left(library: Path) -> None:
    told = run("modify", "scales", "--repo", library, "--words", "Faster.")
    assert told.exit_code == 2
    assert "there is no kernel `scales`" in " ".join(told.output.split())
    assert git(library, "for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"


def test_without_a_model_the_job_stops_and_says_how_one_is_configured(library: Path) -> None:
    told = run("modify", "scale", "--repo", library, "--words", "Faster.", "--auto")
    assert told.exit_code == 1
    assert "needs a language model" in " ".join(told.output.split())
    assert "docs/models.md" in told.output
