"""A key, a prompt and an answer stay where they belong: no runner, sandbox, log, comment or number has them."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Status, VerifyRequest, to_json
from gpu_runner.verify.judge import judge, judge_by
from tests.adversarial import observed
from tests.adversarial.attacks import RIGHT, in_forward
from tests.adversarial.trial import surroundings
from tests.cheats.trial import proofs
from tests.conversations.asking import Ask
from tests.conversations.talk import BOT, REPOSITORY
from tests.conversations.test_failures import WRONG as FOUND_WRONG
from tests.recorded.libraries import REGLU
from tests.recorded.runner import recorded
from tests.workers.models.kinds import KINDS
from tests.workers.stages.creating import WORDS, WRONG, kernel, problem
from workers import artifacts, runtime
from workers.contracts import JobState

ASKED = "xylographer"  # a word of the request, which the prompt holds and nobody needs
ANSWERED = "quinquagesimal"  # a word of the answer, in a field that no comment shows
PROMPTED = "You write Triton kernels for libraries of GPU kernels"  # of the system prompt


def test_one_create_leaves_its_secrets_nowhere(
    ask_models: Ask, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asking = ask_models(*KINDS, model_tries=1)
    talk = asking.talk
    known = runtime.current()
    seen = tmp_path / "seen"
    seen.mkdir()
    known.runner_command = (sys.executable, observed.__file__, str(seen), *known.runner_command)
    first, second = asking.lines["anthropic"], asking.lines["openai"]
    first.answer(problem()).refuse(401, "authentication_error").refuse(500, "api_error")
    talk.answer("verify", recorded("verify", REGLU) | FOUND_WRONG)
    second.answer(explained(WRONG), explained(RIGHT))
    number = asking.ask(f"{WORDS} {ASKED}", options="--candidates 1 --auto")
    assert talk.job().state is JobState.done
    bodies = [
        entry for it in (number, talk.pull()) for entry in talk.hub.conversation(REPOSITORY, it) if entry.by == BOT
    ]
    talk.skip(number)
    talk.skip(talk.pull())
    assert any(ASKED in prompt for prompt in first.prompts())  # so that the search below means something

    secrets = (first.kind.key, second.kind.key)
    logs = capfd.readouterr()
    shown = {
        "logs": logs.out + logs.err + "\n".join(record.getMessage() for record in caplog.records),
        "comments": "\n".join(str(body) for body in bodies),
        "metrics": talk.client.get("/metrics").text,
        "checks": "\n".join(talk.checks()),
        "commits": talk.hub.as_patch(REPOSITORY, talk.pull()),
    }
    given = [json.loads(path.read_text()) for path in seen.iterdir()]
    assert len(given) == 6  # imports, capture, two verdicts, tests, benchmark
    for place, text in shown.items() | {("runner", json.dumps(given))}:
        for word in (*secrets, ASKED, ANSWERED, PROMPTED):
            assert word not in text, f"{word} is in {place}"
    for one in given:
        assert not [name for name in one["environment"] if name.startswith("KERNELSMITH_") or "KEY" in name]
    assert not [word for word in secrets if word in kept(talk.job())]


def explained(source: str) -> dict[str, Any]:
    """Give an answer with a word in a part that only the job's page shows."""
    answer = kernel(source)
    return answer | {"plan": answer["plan"] | {"block_size_source": ANSWERED, "recomputed": ANSWERED}}


def kept(job: Any) -> str:
    """Give all artifacts of a job as text."""
    return "\n".join(artifacts.get(artifact.digest).decode("latin-1") for artifact in job.artifacts)


KEY = "sk-ant-api03-of-the-worker-0123456789"
SPIES = "raise RuntimeError(repr(sorted(os.environ.items())) + open('/proc/self/environ').read())"


@pytest.fixture
def key_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("UNRELATED", KEY)


@pytest.mark.usefixtures("key_of_the_worker")
def test_a_reference_that_prints_its_environment_finds_no_key() -> None:
    spying = REGLU.replace("    return ", f"    os = __import__('os')\n    {SPIES}\n    return ", 1)
    verdict = judge(VerifyRequest(spying, CandidateSource((SourceFile("candidate.py", RIGHT),))), surroundings())
    told = json.dumps(to_json(verdict))
    assert verdict.status is Status.refused
    assert "RuntimeError" in told and "PATH" in told  # it did see an environment
    assert KEY not in told and "KERNELSMITH_ANTHROPIC" not in told
    assert os.environ["UNRELATED"] == KEY


@pytest.mark.usefixtures("key_of_the_worker")
def test_host_code_of_a_candidate_sees_no_environment_even_without_the_screen() -> None:
    spying = in_forward(SPIES, "import os") + "\n\ndef candidate(a, b):\n    return ReGLUFunction.apply(a, b)\n"
    verdict = judge_by(proofs("reglu"), CandidateSource((SourceFile("candidate.py", spying),)), surroundings())
    told = json.dumps(to_json(verdict))
    assert verdict.status is not Status.passed
    assert "PATH" not in told and KEY not in told
