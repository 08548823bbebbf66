"""Candidates asked for at once by a job on a checkout: what is proved ends the others, in one process; real runner, interpreter."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.recorded.libraries import PLAIN, REGLU
from tests.recorded.models.jobs import angle_of
from tests.recorded.models.provider import text_of
from tests.service.local.checkouts import checked_out, git, run
from tests.service.local.test_replay import configured, trees, unconfigured
from tests.workers.models.anthropic_server import anthropic_server, call, call_block, stream, thought_block
from tests.workers.models.protocol_server import Asked, Reply
from tests.workers.stages.creating import OTHER, RIGHT, WRONG, kernel
from workers.authors.llm import questions
from workers.engine import at_once

SMALL = REGLU.replace('"T": 4096, "I": 14336', '"T": 64, "I": 256')
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.usefixtures("environment")]
NEVER_ENDS = Reply(stream(thought_block(), call_block("give_kernel", json.dumps(kernel(RIGHT)), 1)), hang_after=3)


def answered(asked: Asked) -> Reply:
    """Answer the first candidate wrongly and the second one rightly, at once; the third one goes on until its client leaves."""
    replies = (call("give_kernel", kernel(WRONG)), call("give_kernel", kernel(OTHER)), NEVER_ENDS)
    return replies[angle_of(questions.KERNEL, text_of(asked.body))]


def attempts(report: Path) -> list[str]:
    """Give what became of each attempt, as a report tells it."""
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|", report.read_text(), re.MULTILINE)
    return [f"{number} {how}: {outcome.split(':')[0].strip()}" for number, how, outcome in rows]


def test_the_first_kernel_that_is_proved_ends_the_questions_that_are_left_and_a_replay_gives_the_same_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "LOOK_S", 0.1)
    library, other, recording = checked_out(tmp_path / "library", PLAIN), tmp_path / "other", tmp_path / "recording"
    shutil.copytree(library, other)
    (tmp_path / "reglu.py").write_text(SMALL)
    with anthropic_server() as server:
        server.next(*[answered] * 3)
        configured(monkeypatch, server)
        made = run(
            *("create", tmp_path / "reglu.py", "--repo", library, "--author", "llm", "--auto", "--candidates", "3"),
            *("--out", tmp_path / "out", "--record", recording),
        )
        assert made.exit_code == 0, made.output
        (third,) = [asked for asked in server.asked if answered(asked) is NEVER_ENDS]
        assert third.left.wait(10)
    expected = [
        "1 candidate, variation 1: `incorrect_gradient`",
        "2 candidate, variation 2: **`passed`, taken**",
        "3 candidate, variation 3: `not needed`",
    ]
    assert attempts(tmp_path / "out" / "generate-1.md") == expected
    first = trees(library)
    (kept,) = git(library, "branch", "--list", "kernelsmith/*", "--format=%(refname)").splitlines()
    assert "BLOCK_SIZE=512" in git(library, "show", f"{kept}:small/kernels/reglu.py")

    # What was ended is recorded too, with the most that it may have taken.
    use = json.loads(run("recording", recording, "--json").stdout)
    assert [len(question["requests"]) for question in use["questions"]] == [1, 1, 1]
    ended = max(use["questions"], key=lambda it: it["requests"][0]["output_tokens"])["requests"][0]
    assert (ended["outcome"], ended["output_tokens"] > 1000) == ("cancelled", True)

    unconfigured(monkeypatch)
    again = run("replay", recording, "--repo", other, "--out", tmp_path / "again")
    assert again.exit_code == 0, again.output
    assert (attempts(tmp_path / "again" / "generate-1.md"), trees(other)) == (expected, first)
