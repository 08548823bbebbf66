"""`/kernel tune` of a kernel that a repository has in cuTile, from the command to the pull request."""

from __future__ import annotations

from gpu_runner.contracts import CaptureResult, to_json
from tests.conversations.conftest import Open
from tests.conversations.optimizing import answers, heard, so_fast
from tests.workers.compiler.captured import captured
from tests.workers.stages.answers import TESTS_PASS
from tests.workers.stages.test_tuning_tiles import CUTILE, FOUND, PATH
from workers.contracts import JobState


def test_the_tiles_of_a_kernel_in_cutile_are_tuned(open_talk: Open) -> None:
    talk = open_talk(CUTILE)
    answers(talk)
    talk.answer("capture", to_json(CaptureResult(captured("geglu_tanh")[1])))
    talk.answer("tune", to_json(FOUND))
    talk.answer("benchmark", to_json(so_fast(1.0)))
    talk.answer("benchmark", to_json(so_fast(1.2)), always=True)
    talk.answer("tests", to_json(TESTS_PASS), always=True)
    number = talk.ask("/kernel tune geglu")
    text = "\n".join(heard(talk, number))
    assert "Launch settings by measurement" in text and "1.20× as fast" in text
    assert [line.split()[0] for line in talk.changed()].count(PATH) == 1
    written = (talk.hub.read_file("octo/kernels", talk.job().branch, PATH) or b"").decode()
    assert '{"BLOCK_SIZE": 2048}' in written
    assert talk.job().state is not JobState.failed


def test_a_model_is_not_asked_to_write_one(open_talk: Open) -> None:
    talk = open_talk(CUTILE)
    number = talk.ask("/kernel optimize geglu --author llm")
    assert "No language model changes kernels in cuTile" in talk.heard(number)[-1]
    assert talk.asked() == [] and talk.untouched()
