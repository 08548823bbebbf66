"""The pages of one repository as files, for GitHub Pages or any other folder that is served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from service.pages import kernels
from service.pages.sites import StaticSite, file_name
from workers import history


def export_pages(folder: Path, repository: str, repository_url: str | None, last: int, comparisons: int) -> int:
    """Write every page, its JSON and the badges, and give how many files; what else lies in the folder stays.

    Compared is each of the newest commits with the one before it.
    """
    states = history.kernel_states(repository)
    names = dict.fromkeys(state.kernel for state in states)
    firsts = {name: _history(repository, name, {}, last) for name in names}
    commits = history.newest_commits(repository, comparisons + 1)
    pairs = [(good, bad) for bad, good in pairwise(commits)]
    site = StaticSite(frozenset(pairs))
    env = kernels.Rendering(site, None, repository_url).environment()
    count = 0

    def write(name: str, text: str) -> None:
        nonlocal count
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        count += 1

    write(".nojekyll", "")
    for name in (site.style, site.script):
        write(name, (kernels.FOLDER / "static" / name).read_text(encoding="utf-8"))
    write("index.html", kernels.overview_page(env, repository, (repository,), states, None, next(iter(pairs), None)))
    write("api/kernels.json", _json(kernels.overview_form(repository, (repository,), states, None)))
    for state in states:
        for shows in kernels.BADGE_SHOWS:
            write(site.badge(repository, state.kernel, state.gpu, shows), kernels.badge_of(state.kernel, state, shows))
    for choice in (chosen for first in firsts.values() for chosen in _every_choice(first, last)):
        page = site.history(repository, choice.kernel, choice.chosen, last)
        write(page, kernels.history_page(env, choice, last))
        write(f"api/{page.removesuffix('.html')}.json", _json(kernels.history_form(choice)))
    for before, after in pairs:
        compared = history.compare_commits(repository, before, after)
        page = f"{file_name('compare', before, after)}.html"
        write(page, kernels.comparison_page(env, repository, compared, {}, ()))
        write(f"api/{page.removesuffix('.html')}.json", _json(kernels.comparison_form(compared)))
    return count


def _every_choice(first: history.KernelHistory, last: int) -> Iterator[history.KernelHistory]:
    for choice in first.choices:
        wanted = {name: getattr(choice, name) for name in ("gpu", "metric", "timed_pass", "workload")}
        yield first if choice == first.chosen else _history(first.repository, first.kernel, wanted, last)


def _history(repository: str, kernel: str, wanted: dict[str, str], last: int) -> history.KernelHistory:
    shown = history.kernel_history(repository, kernel, wanted, last)
    if shown is None:
        raise LookupError(f"{kernel} has no numbers any more")
    return shown


def _json(form: dict[str, Any]) -> str:
    return json.dumps(form, ensure_ascii=False) + "\n"
