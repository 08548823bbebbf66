"""`/kernel port` from the command to the pull request, through the real stage, with a runner's answers."""

from __future__ import annotations

from gpu_runner.contracts import CaptureResult, to_json
from tests.conversations.conftest import Open
from tests.conversations.modifying import LIGER
from tests.conversations.optimizing import heard, so_fast
from tests.service.report.facts import VERDICT
from tests.workers.compiler.captured import captured
from tests.workers.stages.test_port import API_PASSES, BACKEND, EXPORTED, OWN_LIBRARY
from tests.workers.stages.test_tuned_ports import NOTHING, with_port
from tests.workers.stages.test_tuning_tiles import FOUND
from workers.contracts import JobState
from workers.targets.ascend import ASCEND, EXPORTS
from workers.targets.liger_cutile import CUTILE

OPS = "src/liger_kernel/ops/__init__.py"
LIBRARY = LIGER | {path: text.encode() for path, text in (BACKEND | {OPS: EXPORTED}).items()}


def test_an_operator_is_ported_from_the_command_to_the_pull_request(open_talk: Open) -> None:
    talk = open_talk(LIBRARY)
    talk.answer("capture", to_json(CaptureResult(captured("geglu_tanh")[1])))
    talk.answer("tests", to_json(API_PASSES))
    talk.answer("verify", to_json(VERDICT))
    number = talk.ask("/kernel port LigerGELUMulFunction --to ascend")
    assert talk.asked() == ["capture", "tests", "verify"]
    text = "\n".join(heard(talk, number))
    assert "**`geglu` is ported to `ascend`, and its values and gradients are proved:**" in text
    assert "### Tiling and launches" in text and "`_geglu_backward`" in text
    talk.clock[0] += 10
    talk.review("APPROVE")
    assert talk.job().state is JobState.done
    assert "merge" in "\n".join(heard(talk, number))
    changed = {line.partition(" ")[0] for line in talk.changed()}
    assert changed == {ASCEND.port_path("geglu"), EXPORTS, "test/backends/test_ascend_geglu.py"}


def test_a_port_takes_the_api_of_another_implementation(open_talk: Open) -> None:
    talk = open_talk(
        LIBRARY | {path: OWN_LIBRARY.read(path).encode() for path in (CUTILE.exports, CUTILE.port_path("geglu"))}
    )
    talk.answer("capture", to_json(CaptureResult(captured("geglu_tanh")[1])))
    talk.answer("tests", to_json(API_PASSES))
    talk.answer("verify", to_json(VERDICT))
    text = "\n".join(heard(talk, talk.ask("/kernel port geglu --to ascend --from cutile")))
    assert "**`geglu` is ported from `cutile` to `ascend`, and its values and gradients are proved:**" in text
    assert "compared with the implementation `cutile`" in text
    assert "kernelsmith port geglu --to ascend --from cutile --repo . --auto" in text


def test_an_implementation_that_is_not_there_is_refused_where_it_was_asked(open_talk: Open) -> None:
    talk = open_talk(LIBRARY)
    text = "\n".join(heard(talk, talk.ask("/kernel port geglu --from cutile")))
    assert "`geglu` has no implementation `cutile` to port from" in text and "Leave out `--from`" in text
    assert talk.asked() == []


def test_a_kernel_is_optimized_in_another_language_by_a_port_whose_settings_are_tuned(open_talk: Open) -> None:
    talk = open_talk(LIBRARY | {CUTILE.exports: OWN_LIBRARY.read(CUTILE.exports).encode()})  # type: ignore[union-attr]
    talk.answer("capture", to_json(CaptureResult(captured("geglu_tanh")[1])))
    talk.answer("tests", to_json(API_PASSES))
    talk.answer("tune", to_json(FOUND))
    talk.answer("verify", to_json(VERDICT))
    talk.answer("benchmark", to_json(so_fast(1.2)))
    number = talk.ask("/kernel optimize geglu --to cutile")
    assert talk.asked() == ["capture", "tune", "tests", "verify", "benchmark"]
    text = "\n".join(heard(talk, number))
    assert "**`geglu` is ported to `cutile`, and its values and gradients are proved:**" in text
    assert "`BLOCK_SIZE=2048`" in text and "1.20" in text and "Not measured" not in text
    assert "kernelsmith optimize geglu --to cutile --repo . --auto" in text
    written = (talk.hub.read_file("octo/kernels", talk.job().branch, CUTILE.port_path("geglu")) or b"").decode()
    assert '{"BLOCK_SIZE": 2048}' in written


def test_a_port_of_which_no_setting_is_faster_ends_in_a_report(open_talk: Open) -> None:
    tree = with_port()
    files = {path: (tree.read(path) or "").encode() for path in (CUTILE.exports, CUTILE.port_path("geglu"))}
    talk = open_talk(LIBRARY | files)
    talk.answer("tune", to_json(NOTHING))
    talk.answer("verify", to_json(VERDICT))
    number = talk.ask("/kernel tune geglu --to cutile")
    assert talk.asked() == ["tune", "verify"]
    text = "\n".join(heard(talk, number))
    assert "No faster setting of `geglu` in cuTile was found, so nothing is changed" in text
    assert talk.job().state is JobState.done and talk.job().pull_number is None


def test_what_is_ported_already_is_refused_where_it_was_asked(open_talk: Open) -> None:
    talk = open_talk(LIBRARY | {ASCEND.port_path("geglu"): b"x = 1\n"})
    number = talk.ask("/kernel port geglu")
    assert "`geglu` is already ported" in "\n".join(heard(talk, number))
    assert talk.asked() == []
