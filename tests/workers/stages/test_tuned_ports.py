"""`optimize --to`: a port whose settings are tuned, or one that is there already, timed next to what stands; in memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpu_runner.contracts import Choice, Pass, TuneResult, Workload
from tests.recorded.libraries import PLAIN
from tests.workers.stages.answers import benchmark
from tests.workers.stages.context import FakeContext
from tests.workers.stages.test_port import CUTILE_LIBRARY, EXPORTED, failure, library, ported, porting
from workers.contracts import AuthorName, CommitUpdate, FileChange, Goal, PortSummary, ReportUpdate, Scope, Verb
from workers.stages.port import Port
from workers.strategies.sweep import swept
from workers.targets.liger_cutedsl import CUTEDSL
from workers.targets.liger_cutile import CUTILE
from workers.tree import Tree

PATH = CUTILE.port_path("geglu")
SIZE = Workload((("T", 4096), ("I", 11008)))
NO_GPU = "No GPU is here"
NOTHING = TuneResult((), None, notes=(NO_GPU,))


def found(**settings: int) -> TuneResult:
    chosen = tuple(settings.items())
    choice = Choice(Pass.forward, SIZE, 2**25, chosen, 1.2, 1.1, 1.3, 9)
    return TuneResult((choice,), "sm_90", ((Pass.forward, ((2**25, chosen),)),), "NVIDIA H200")


def tuning(
    tuned: TuneResult, tree: Tree = CUTILE_LIBRARY, to: str = "cutile", speedup: float = 1.2, **more: Any
) -> FakeContext:
    return porting({"tune": tuned, "benchmark": benchmark(speedup)}, tree, to, tuned=True, **more)


def asked(context: FakeContext, action: str) -> Any:
    return next(request for place, request in context.asked if place.startswith(action))


def with_port(to: str = "cutile") -> Tree:
    """The library with the port that `port` writes."""
    tree = CUTILE_LIBRARY if to == "cutile" else DSL_LIBRARY
    return tree.overlaid([FileChange(path, text) for path, text in ported(porting(tree=tree, to=to))[1].items()])


DSL_LIBRARY = library(**{CUTEDSL.exports: (CUTILE_LIBRARY.read(CUTILE.exports) or "").replace("cutile", "cutedsl")})


@pytest.mark.parametrize(
    ("to", "tree", "settings"),
    [("cutile", CUTILE_LIBRARY, {"BLOCK_SIZE": 2048}), ("cutedsl", DSL_LIBRARY, {"THREADS": 512})],
)
def test_a_port_is_written_with_the_settings_that_are_faster_and_timed_next_to_the_default(
    to: str, tree: Tree, settings: dict[str, int]
) -> None:
    context = tuning(found(**settings), tree, to)
    summary, texts = ported(context)
    (name, value), target = next(iter(settings.items())), {"cutile": CUTILE, "cutedsl": CUTEDSL}[to]
    path = target.port_path("geglu")
    assert list(texts) == [path, target.exports, f"test/backends/test_{to}_geglu.py"]
    assert f'{{"{name}": {value}}}' in texts[path] and texts[path].count("_tuned(") == 2
    assert summary.settings == ((f"forward, {SIZE.label()}", f"{name}={value}"),)
    assert not summary.existing and summary.benchmark is not None
    done = {item.name: item for item in summary.done}["times of three shape groups"]
    assert (done.holds, done.evidence) == (True, "3 sizes are timed on the NVIDIA H200")
    proved, timed = asked(context, "verify"), asked(context, "benchmark")
    assert [file.text for file in proved.candidate.files if file.path == path] == [texts[path]]
    assert timed.candidate == proved.candidate, "what is timed is what was proved"
    assert path not in {file.path for file in timed.original.files}, "the default operator"
    assert summary.reproduce == f"kernelsmith optimize geglu --to {to} --repo . --auto"


def test_where_the_language_is_not_installed_a_stand_in_does_not_have_the_imports_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = ported(porting(tree=CUTILE_LIBRARY, to="cutile"))[1]["test/backends/test_cutile_geglu.py"]
    monkeypatch.setitem(sys.modules, "cuda.tile", ModuleType("cuda.tile"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "cuda.py").write_text("")  # a package without tiles, whatever is installed
    scope: dict[str, Any] = {
        "__file__": str(tmp_path / "test" / "backends" / "test_cutile_geglu.py"),
        "__name__": "written",
    }
    exec(text, scope)
    with pytest.raises(pytest.skip.Exception, match=r"cuda\.tile is not installed"):
        scope["test_package_resolves_to_the_port_and_the_module_to_the_default"]()


def test_without_a_gpu_a_port_is_written_as_it_is_and_the_report_says_why() -> None:
    summary, texts = ported(tuning(NOTHING))
    assert texts[PATH] == ported(porting(tree=CUTILE_LIBRARY, to="cutile"))[1][PATH]
    assert summary.settings == () and summary.notes[1:] == (NO_GPU,)
    assert summary.notes[0].startswith("cuTile suits this operator: ")


def test_a_port_that_is_there_is_tuned_and_timed_next_to_itself() -> None:
    tree = with_port()
    context = tuning(found(BLOCK_SIZE=2048), tree)
    summary, texts = ported(context)
    assert list(texts) == [PATH] and '{"BLOCK_SIZE": 2048}' in texts[PATH]
    assert summary.existing and [row.name for row in summary.api] == ["LigerGELUMulFunction"]
    opened = swept(tree.read(PATH) or "")
    assert opened is not None
    tried, timed = asked(context, "tune"), asked(context, "benchmark")
    assert [file.text for file in tried.candidate.files if file.path == PATH] == [opened[0]]
    assert tried.module == "liger_kernel.ops.cutile.ops.geglu"
    assert [file.text for file in timed.original.files if file.path == PATH] == [tree.read(PATH)]


def test_a_port_of_which_no_setting_is_faster_stays_and_nothing_is_pushed() -> None:
    context = tuning(NOTHING, with_port())
    result = Port().run(context)
    assert [type(update) for update in result.updates] == [ReportUpdate] and not result.checkpoint
    summary = result.updates[0].summary  # type: ignore[union-attr]
    assert isinstance(summary, PortSummary) and summary.existing and summary.benchmark is None
    assert not any(isinstance(update, CommitUpdate) for update in result.updates)


@pytest.mark.parametrize(
    ("to", "more", "message", "fix"),
    [
        ("ascend", {}, "launchers for `ascend` choose their tiles at run time", "/kernel port geglu --to ascend"),
        ("cutile", {"author": AuthorName.llm}, "no language model changes kernels in cuTile", "--author llm"),
        ("cutile", {"scope": Scope.backward}, "tunes settings, for all passes and sizes", "Leave out `--scope`"),
        ("cutile", {"goal": Goal.memory}, "does nothing else", "Leave out `--goal`"),
    ],
)
def test_what_is_not_tuned_is_refused_before_anything_runs(to: str, more: Any, message: str, fix: str) -> None:
    context = tuning(NOTHING, to=to, **more)
    failed = failure(context)
    assert message in failed.message and fix in failed.fix and context.asked == []


def test_a_port_without_settings_and_a_repository_without_implementations_are_refused() -> None:
    own = library(**{CUTILE.exports: EXPORTED, PATH: "import cuda.tile as ct\n\n\ndef run(x):\n    return x\n"})
    failed = failure(tuning(NOTHING, own))
    assert failed.message == f"`{PATH}` launches no kernel with settings that can be tuned"
    context = tuning(NOTHING, Tree(PLAIN))
    context.request = replace(context.request, kernel="scale", verb=Verb.port)
    failed = failure(context)
    assert failed.message == "a repository of the layout `plain` has one implementation of `scale`"
