"""The screen drops what stands in the original: by the statement, as often as it stands there, and nothing else."""

from __future__ import annotations

import pytest
from gpu_runner.verify.objections import Objection

from gpu_runner.contracts import CandidateSource, SourceFile, Status
from gpu_runner.verify.screen import screen

HEAD = "import torch\n"
ORIGINAL = f"""{HEAD}import os
from torch import sort


def order(x):
    x_sorted = sort(x).values
    return x_sorted


def home():
    return os.getcwd()


def careful(x):
    try:
        return x.cumsum(0)
    except RuntimeError:
        return x
"""


def objection(text: str) -> Objection | None:
    candidate = CandidateSource((SourceFile("candidate.py", text),))
    return screen(candidate, original=[SourceFile("candidate.py", ORIGINAL)])


def test_the_originals_own_text_is_not_objected_to() -> None:
    assert objection(ORIGINAL) is None


def test_a_statement_is_known_again_in_another_place_and_layout() -> None:
    moved = ORIGINAL.replace(
        "def order(x):\n    x_sorted = sort(x).values\n",
        "def order(x):\n    # why\n    x_sorted = sort(\n        x\n    ).values\n",
    )
    assert objection("\n\n" + moved) is None


def test_a_statement_may_not_stand_more_often_than_in_the_original() -> None:
    found = objection(ORIGINAL + "\n\ndef again(x):\n    x_sorted = sort(x).values\n    return x_sorted\n")
    assert found is not None
    assert found.line == 23


def test_an_import_that_the_original_has_does_not_open_the_module() -> None:
    found = objection(ORIGINAL + "\n\ndef more(x):\n    return sort(x).values\n")
    assert found is not None
    assert found.rule == "unknown module"


def test_what_reaches_out_must_stand_in_the_very_same_function() -> None:
    found = objection(ORIGINAL.replace("def home():\n", "def home(x):\n"))
    assert found is not None
    assert found.status is Status.cheating


def test_a_try_is_known_only_with_all_that_stands_in_it() -> None:
    found = objection(
        ORIGINAL.replace(
            "    except RuntimeError:\n        return x\n", "    except RuntimeError:\n        return x + 1\n"
        )
    )
    assert found is not None
    assert found.rule == "try around code"


TYPED = f"""{HEAD}

def scale(x, weight: torch.FloatTensor = None) -> torch.LongTensor:
    return x
"""


def typed(text: str) -> Objection | None:
    candidate = CandidateSource((SourceFile("candidate.py", text),))
    return screen(candidate, original=[SourceFile("candidate.py", TYPED)])


def test_the_type_of_a_parameter_or_result_stays_known_where_the_function_changes() -> None:
    assert typed(TYPED.replace("return x", "y = x.view(-1)\n    return y")) is None


@pytest.mark.parametrize(
    "change",
    [
        ("weight: torch.FloatTensor", "other: torch.FloatTensor"),
        ("weight: torch.FloatTensor", "weight: torch.HalfTensor"),
        ("x, weight", "x: torch.FloatTensor, weight"),
        ("= None", "= torch.FloatTensor"),
        ("-> torch.LongTensor", "-> torch.sort"),
        ("return x", "return torch.FloatTensor(x)"),
    ],
)
def test_a_type_that_is_new_or_used_as_a_value_is_objected_to(change: tuple[str, str]) -> None:
    found = typed(TYPED.replace(*change))
    assert found is not None
    assert found.rule == "torch operator"


def test_without_an_original_everything_is_objected_to() -> None:
    assert screen(CandidateSource((SourceFile("candidate.py", ORIGINAL),))) is not None
