"""The knowledge base: every page has the same form, and models get those whose triggers hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_runner.contracts import parse_problem
from tests.workers.strategies.situations import PROBLEM
from workers.strategies.catalog import STRATEGIES
from workers.strategies.pages import applying, page_of, read_page, ruled_pages

ROOT = Path(__file__).resolve().parents[3] / "docs" / "knowledge"
PAGES = sorted(path for path in ROOT.rglob("*.md") if path.parent != ROOT)
SECTIONS = ["Trigger", "Mechanism", "Evidence", "Counter-evidence"]
SMALL = parse_problem(PROBLEM)
WIDE = parse_problem(PROBLEM.replace('"H": 4096', '"H": 65536'))


def titles(source: str, problem: object = SMALL) -> list[str]:
    return [page.title for page, _ in applying(source, problem)]  # type: ignore[arg-type]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_page_has_trigger_mechanism_evidence_and_counter_evidence_and_stands_in_the_index(path: Path) -> None:
    page = read_page(path.read_text())
    assert [heading for heading in page.sections if heading in SECTIONS] == SECTIONS
    assert all(page.sections[heading] for heading in SECTIONS)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", path.stem)
    assert f"({path.relative_to(ROOT)})" in (ROOT / "index.md").read_text()


def test_every_strategy_has_a_page_in_the_package() -> None:
    assert all(page_of(strategy.document).title for strategy in STRATEGIES)


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("def f(x):\n    return x.sum().item()\n", "Waiting for the GPU"),
        ("import torch\nindices = torch.sort(x)[1]\n", "A sort for a threshold"),
        ("tl.atomic_add(dw + cols, part)\n", "Atomics for weight gradients"),
        ("row = tl.program_id(0)\n", "Offsets beyond 2^31"),
        ("y = tl.sum(tl.load(p, mask=m), axis=0)\n", "Masked loads without `other`"),
        ("for i in tl.range(0, n):\n    pass\n", "Only innermost loops are pipelined"),
        ("acc = tl.dot(a, b, acc)\n", "Products of small tiles"),
        ("BLOCK, warps = calculate_settings(n)\n", "Warps by block size alone"),
        ("x = ct.load(a, (tile,), (BLOCK,))\n", "Padding left undetermined"),
        ("y = ct.maximum(x, 0.0)\n", "Maxima drop NaN"),
        ("acc = ct.mma(a, b, acc)\n", "Products compile slowly"),
        ("slots = cute.arch.alloc_smem(cutlass.Float32, 4)\n", "Shared memory without a barrier"),
        ("total = cute.arch.warp_reduction(own, add)\n", "Elements a thread"),
    ],
)
def test_a_page_holds_by_what_the_file_calls(source: str, title: str) -> None:
    assert titles(source) == [title]
    assert titles(f"text = {source!r}\n") == [], "a text calls nothing"


def test_pages_of_a_language_hold_for_its_rows_alone() -> None:
    rows = "@ct.kernel\ndef f(a):\n    return ct.sum(x)\n"
    assert titles(rows) == ["Occupancy by pass", "Rows as tiles of two axes", "Warps left to the compiler"]
    assert titles(rows.replace("@ct.kernel", "@ct.kernel(num_worker_warps=8, occupancy=2)")) == [
        "Rows as tiles of two axes"
    ]
    assert not set(titles(rows.replace("ct.", "tl."))) & set(titles(rows)), "Triton's rows have pages of their own"


def test_a_page_does_not_hold_where_the_file_has_what_it_asks_for() -> None:
    assert titles("row = tl.program_id(0).to(tl.int64)\n") == []
    assert titles("y = tl.sum(tl.load(p, mask=m, other=0.0))\n") == []
    assert titles("item = 3\nx.items()\n") == []
    assert titles("def (:\n") == []


def test_a_page_about_wide_rows_holds_where_a_size_has_them() -> None:
    source = "BLOCK = triton.next_power_of_2(n)\n"
    assert titles(source) == [] and titles(source, WIDE) == ["One block for a wide row"]


def test_a_rule_with_an_unknown_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="not call"):
        read_page("---\ncall: tl.dot\n---\n\n# Products\n")


def test_what_a_page_says_is_plain_text() -> None:
    assert ruled_pages() and all("](" not in page.advice and page.advice for page in ruled_pages())
