from __future__ import annotations

import pytest

from workers.stages.confines import weakening

OLD = """\
import pytest
import torch

from liger_kernel.ops.geglu import geglu_forward

TOLERANCE = 1e-6
CASES = [1, 2]


def close(a, b):
    return torch.allclose(a, b, atol=TOLERANCE)


@pytest.mark.parametrize("n", CASES)
def test_values(n):
    assert close(torch.ones(n), torch.ones(n))
"""
NEW = "\n\ndef test_more():\n    assert close(torch.zeros(1), torch.zeros(1))\n"


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        OLD + NEW,
        OLD + "\n\nMORE = [3]\n" + NEW,
        OLD + "\nimport torch\n" + NEW,
        OLD.replace("import torch\n", "import torch\nimport math\n", 1) + NEW,
        OLD.replace("import pytest\n", "import math\n\nimport pytest\n", 1) + NEW,
        OLD + "\n\nclass TestMore:\n    def test_it(self):\n        assert close(torch.ones(1), torch.ones(1))\n",
    ],
)
def test_more_behind_what_stands_takes_nothing_away(new: str) -> None:
    assert weakening(OLD, new) is None


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (OLD.replace("1e-6", "1e-1") + NEW, "must stay as it is"),
        (OLD.replace("[1, 2]", "[1]") + NEW, "must stay as it is"),
        (OLD.replace("    assert close", "    return\n    assert close") + NEW, "must stay as it is"),
        (OLD.replace("@pytest", "# @pytest") + NEW, "must stay as it is"),
        (OLD.replace("def test_values", "def no_test_values") + NEW, "must stay as it is"),
        (OLD.replace("TOLERANCE = 1e-6\n", "TOLERANCE = 1e-6\nimport math as CASES\n"), "another meaning"),
        (NEW, "must stay as it is"),
        ("", "must stay as it is"),
        (OLD + "\n\nTOLERANCE = 1e3\n", "`TOLERANCE` is there already"),
        (OLD + "\n\ndef close(a, b):\n    return True\n", "`close` is there already"),
        (OLD + "\n\ndef test_values():\n    pass\n", "`test_values` is there already"),
        (OLD + "\nfrom math import isclose as close\n", "another meaning"),
        (OLD + "\ntorch.allclose = max\n", "changes something that stands elsewhere"),
        (OLD + "\nCASES[0] = 3\n", "changes something that stands elsewhere"),
        (OLD + "\nCASES.clear()\n", "something else"),
        (OLD + "\nfor test_values in ():\n    pass\n", "something else"),
        (OLD + "\nif True:\n    TOLERANCE = 1\n", "something else"),
        (OLD + "\ndel test_values\n", "something else"),
        (OLD + "\nTOLERANCE += 1\n", "something else"),
        (OLD + "\npytestmark = pytest.mark.skip\n", "would be called around"),
        (OLD + "\ndef setup_module():\n    pass\n", "would be called around"),
        (OLD + "\ndef pytest_collection_modifyitems(items):\n    items.clear()\n", "would be called around"),
        (OLD + "\n@pytest.fixture(autouse=True)\ndef fast(monkeypatch):\n    pass\n", "is a fixture"),
        (OLD + "\ndef test_a():\n    global TOLERANCE\n    TOLERANCE = 9\n", "writes names of the whole file"),
        (OLD + "\ndef test_a(:\n", "cannot be parsed"),
    ],
)
def test_what_takes_something_away_is_told(new: str, told: str) -> None:
    found = weakening(OLD, new)
    assert found is not None
    assert told in found


@pytest.mark.parametrize("line", [f"{'-' * 5000}1", f"{'lambda:' * 3000}1"], ids=["recursion", "memory"])
def test_a_line_that_nests_too_deeply_is_no_import(line: str) -> None:
    assert "must stay as it is" in (weakening(OLD, f"{line}\n{OLD}") or "")
    assert "cannot be parsed" in (weakening(OLD, f"{OLD}{line}\n") or "")


def test_line_endings_are_no_other_text() -> None:
    old = OLD.replace("\n", "\r\n")
    assert weakening(old, old + NEW.replace("\n", "\r\n")) is None
