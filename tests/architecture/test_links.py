"""The pages point to what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LARGEST_IMAGE_BYTES = 300_000


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def targets(page: Path) -> list[str]:
    """The targets on this machine that a page links to."""
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)) if "://" not in target]


def links(page: Path) -> list[str]:
    """The files that a page links to."""
    return [target.partition("#")[0] for target in targets(page) if not target.startswith("#")]


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub writes them."""
    plain = [
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
        for line in re.findall(r"^#+ (.+?)\s*$", prose(page), re.MULTILINE)
    ]
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in plain}


def test_every_test_and_changelog_line_that_guards_a_trial_is_there() -> None:
    page = (ROOT / "docs/decisions/0029-what-guards-the-trials.md").read_text()
    tests, lines = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page), re.findall(r"“([^”]+)”", page)
    assert [name for path, name in tests if f"def {name}(" not in (ROOT / path).read_text()] == []
    changelog = (ROOT / "docs/changelog.md").read_text()
    assert [line for line in lines if f"\n- {line}" not in changelog] == []
    rows = re.findall(r"^\| *(\d+) \|.*$", page, re.MULTILINE)
    assert rows == [str(number) for number in range(1, 21)]
    assert len(tests) >= 20 <= len(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_is_a_heading(page: Path) -> None:
    anchored = [target.partition("#") for target in targets(page) if "#" in target]
    lost = [
        f"{name}#{anchor}"
        for name, _, anchor in anchored
        if anchor not in headings((page.parent / name).resolve() if name else page)
    ]
    assert lost == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in links(page):
            found = (page.parent / target).resolve()
            waiting += [found] if found.suffix == ".md" else sorted(found.glob("*.md")) if found.is_dir() else []
    assert set(PAGES) <= reached


def test_images_are_small_enough_for_a_clone() -> None:
    images = sorted((ROOT / "docs").rglob("*.png"))
    assert images
    assert [image.name for image in images if image.stat().st_size > LARGEST_IMAGE_BYTES] == []
