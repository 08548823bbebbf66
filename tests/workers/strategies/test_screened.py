"""What strategies write is never refused by the runner's static screen, beyond what the original has of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile
from gpu_runner.program.imports import Library
from gpu_runner.verify.screen import screen
from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.loss_files import LOSS, loss_situation
from tests.workers.strategies.product_files import PRODUCT
from tests.workers.strategies.row_files import ROW_NORM
from tests.workers.strategies.saved_files import DIRECT, SAVED_GATE
from tests.workers.strategies.situations import row, situation, variant
from tests.workers.strategies.test_out_of_range import LOOKS
from workers.strategies.catalog import STRATEGIES, Described, ModelChange
from workers.strategies.fast_path import CompiledFastPath
from workers.strategies.protocol import Proposed, Situation, Strategy

FILES = {
    "scale": ROW_SCALE,
    "norm": ROW_NORM,
    "direct": DIRECT,
    "saved gate": SAVED_GATE,
    "loss": LOSS,
    "product": PRODUCT,
}
PATH = "src/library/ops/kernel.py"
AROUND = {
    "src/library/settings.py": ast.parse(
        "def calculate_settings(n): ...\ndef ensure_contiguous(f): ...\ndef device_context(x): ..."
    )
}


def objection(text: str, original: str, path: str = PATH, around: Mapping[str, ast.Module] = AROUND) -> str | None:
    """What the screen says of a file that takes another's place; ``around`` are the library's files."""
    candidate = CandidateSource((SourceFile(path, text),), import_roots=("src",))
    library = Library({**around, path: ast.parse(text)}, candidate.import_roots)
    found = screen(candidate, library, {path: original})
    return None if found is None else f"{found.message} Line {found.line}."


def written(situation: Situation, strategies: Sequence[Strategy] = STRATEGIES) -> Iterator[tuple[str, str]]:
    """What strategies write for a situation, before and after their settings were found."""
    for strategy in strategies:
        answer = strategy.propose(situation)
        if isinstance(answer, Proposed):
            yield strategy.id, answer.source
            if answer.settle is not None:
                yield strategy.id, answer.settle(answer.source, ())
                found = (("sm_90", (("forward", ((4096, (("num_warps", 8),)),)),)),)
                yield strategy.id, answer.settle(answer.source, found)


def _situation(name: str) -> Situation:
    """The loss has a fast path, which was slower at small sizes, so that one that is bounded is proposed too."""
    if name != "loss":
        return situation(FILES[name])
    slower = (row({"T": 64, "V": 128}, 0.7), row({"T": 4096, "V": 4096}, 1.5))
    return loss_situation(earlier=(variant(1, "compiled_fast_path", rows=slower),))


@pytest.mark.parametrize("name", FILES)
def test_nothing_that_a_strategy_writes_is_objected_to(name: str) -> None:
    for strategy, text in written(_situation(name)):
        assert objection(text, FILES[name]) is None, strategy


def test_every_strategy_has_written_something() -> None:
    assert {wrote for name in FILES for wrote, _ in written(_situation(name))} == {
        item.id for item in STRATEGIES if not isinstance(item, ModelChange | Described)
    }


@pytest.mark.parametrize("name", LOOKS)
def test_a_fast_path_that_looks_up_classes_is_not_objected_to(name: str) -> None:
    situation = loss_situation(name)
    answer = CompiledFastPath().propose(situation)
    assert isinstance(answer, Proposed), answer
    assert "covers(" in answer.source
    assert objection(answer.source, situation.original) is None


def test_what_the_original_does_not_have_is_objected_to() -> None:
    reaching = f"import numpy\n{LOSS}"
    assert objection(reaching, reaching) is None
    assert objection(reaching, LOSS) == "It uses `numpy`, which is none of the modules that kernels need. Line 1."
