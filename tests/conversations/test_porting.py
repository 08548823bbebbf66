"""`/kernel port` from the command to the pull request, through the real stage, with a runner's answers."""

from __future__ import annotations

from gpu_runner.contracts import CaptureResult, to_json
from tests.conversations.conftest import Open
from tests.conversations.modifying import LIGER
from tests.conversations.optimizing import heard
from tests.service.report.facts import VERDICT
from tests.workers.compiler.captured import captured
from tests.workers.stages.test_port import BACKEND, EXPORTED, OWN_LIBRARY
from workers.contracts import JobState
from workers.targets.ascend import ASCEND, EXPORTS
from workers.targets.liger_cutile import CUTILE

OPS = "src/liger_kernel/ops/__init__.py"
LIBRARY = LIGER | {path: text.encode() for path, text in (BACKEND | {OPS: EXPORTED}).items()}


def test_an_operator_is_ported_from_the_command_to_the_pull_request(open_talk: Open) -> None:
    talk = open_talk(LIBRARY)
    talk.answer("capture", to_json(CaptureResult(captured("geglu_tanh")[1])))
    talk.answer("verify", to_json(VERDICT))
    number = talk.ask("/kernel port LigerGELUMulFunction --to ascend")
    assert talk.asked() == ["capture", "verify"]
    text = "\n".join(heard(talk, number))
    assert "**`geglu` is ported to `ascend`, and its values and gradients are proved:**" in text
    assert "### Tiling and launches" in text and "`_geglu_backward`" in text
    talk.clock[0] += 10
    talk.review("APPROVE")
    assert talk.job().state is JobState.done
    assert "merge" in "\n".join(heard(talk, number))
    changed = {line.partition(" ")[0] for line in talk.changed()}
    assert changed == {ASCEND.port_path("geglu"), EXPORTS, "test/ops/test_ascend_geglu.py"}


def test_a_port_takes_the_api_of_another_implementation(open_talk: Open) -> None:
    talk = open_talk(
        LIBRARY | {path: OWN_LIBRARY.read(path).encode() for path in (CUTILE.exports, CUTILE.port_path("geglu"))}
    )
    talk.answer("capture", to_json(CaptureResult(captured("geglu_tanh")[1])))
    talk.answer("verify", to_json(VERDICT))
    text = "\n".join(heard(talk, talk.ask("/kernel port geglu --to ascend --from cutile")))
    assert "**`geglu` is ported from `cutile` to `ascend`, and its values and gradients are proved:**" in text
    assert "against the implementation `cutile`" in text
    assert "kernelsmith port geglu --to ascend --from cutile --repo . --auto" in text


def test_an_implementation_that_is_not_there_is_refused_where_it_was_asked(open_talk: Open) -> None:
    talk = open_talk(LIBRARY)
    text = "\n".join(heard(talk, talk.ask("/kernel port geglu --from cutile")))
    assert "`geglu` has no implementation `cutile` to port from" in text and "Leave `--from` out" in text
    assert talk.asked() == []


def test_what_is_ported_already_is_refused_where_it_was_asked(open_talk: Open) -> None:
    talk = open_talk(LIBRARY | {ASCEND.port_path("geglu"): b"x = 1\n"})
    number = talk.ask("/kernel port geglu")
    assert "`geglu` is ported already" in "\n".join(heard(talk, number))
    assert talk.asked() == []
