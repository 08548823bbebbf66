import csv
import io
import os
from pathlib import Path

import pytest

from tests.workers.layouts.miniature import DATA
from tests.workers.layouts.standing import LIGER, PLAIN, liger, plain, with_file
from workers.contracts import FileChange
from workers.layouts.liger import paths
from workers.layouts.protocol import SuiteRun

SOURCE = os.environ.get("LIGER_SOURCE")
OLD_VISUALIZER = "import seaborn\n"
VISUALIZER = f'{OLD_VISUALIZER}parser.add_argument("--sweep-mode")\n'
ROW = 'reglu,liger,forward,speed,ms,BT,total tokens,1024,0.5,0.4,0.6,"{""bsz"": 1}",Some GPU,2026-02-03 04:05:06,9.9.1\r\n'
FULL = ROW.replace(",forward,", ",full,")
MEMORY = FULL.replace(",speed,ms,", ",memory,MB,")
MODELS = ROW.replace(",BT,total tokens,1024,", ",model_config,model,llama,")


def runs(*rows: str, visualizer: str = VISUALIZER) -> tuple[SuiteRun, ...]:
    tree = with_file(liger(), paths.VISUALIZER, visualizer)
    return LIGER.plots_of((FileChange(paths.DATA, DATA + "".join(rows)),), tree)


def drawn(run: SuiteRun) -> list[dict[str, str]]:
    (data,) = run.support
    assert data.path == paths.DATA
    return list(csv.DictReader(io.StringIO(data.text, newline="")))


def test_the_visualizer_draws_the_new_rows_alone_a_run_for_each_metric() -> None:
    speed, memory = runs(ROW, FULL, MEMORY)
    options = ("--sweep-mode", "token_length", "--overwrite")
    assert speed.module == "benchmark"
    assert speed.arguments == (paths.VISUALIZER, "--kernel-name", "reglu", "--metric-name", "speed", *options)
    assert speed.pictures == (
        "benchmark/visualizations/reglu_speed_forward_token_length.png",
        "benchmark/visualizations/reglu_speed_full_token_length.png",
    )
    assert [row["kernel_operation_mode"] for row in drawn(speed)] == ["forward", "full"]
    assert memory.pictures == ("benchmark/visualizations/reglu_memory_full_token_length.png",)
    assert [row["metric_unit"] for row in drawn(memory)] == ["MB"]


def test_sweeps_over_models_and_over_tokens_are_drawn_apart() -> None:
    tokens, models = runs(ROW, MODELS)
    assert ("token_length" in tokens.arguments, "model_config" in models.arguments) == (True, True)
    assert [row["x_value"] for row in drawn(models)] == ["llama"]


def test_a_visualizer_without_sweeps_is_told_none() -> None:
    (run,) = runs(ROW, visualizer=OLD_VISUALIZER)
    assert "--sweep-mode" not in run.arguments
    assert run.pictures == ("benchmark/visualizations/reglu_speed_forward.png",)


def test_nothing_is_drawn_without_a_visualizer_or_without_new_rows() -> None:
    assert runs() == ()
    assert LIGER.plots_of((), with_file(liger(), paths.VISUALIZER, VISUALIZER)) == ()
    assert LIGER.plots_of((FileChange(paths.DATA, DATA + ROW),), liger()) == ()
    assert PLAIN.plots_of((FileChange(paths.DATA, DATA + ROW),), plain()) == ()


@pytest.mark.slow
@pytest.mark.skipif(SOURCE is None, reason="LIGER_SOURCE names no unpacked library")
def test_the_real_visualizer_has_the_options_and_the_folder() -> None:
    text = (Path(SOURCE or "") / paths.VISUALIZER).read_text()
    (run,) = runs(ROW, visualizer=text)
    assert all(f'"{word}"' in text for word in run.arguments if word.startswith("--"))
    assert paths.VISUALIZATIONS.rpartition("/")[2] in text
