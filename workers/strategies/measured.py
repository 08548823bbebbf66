"""What jobs measured of strategies, written into their pages of the knowledge base; no kernel and no repository is named. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from workers.strategies.catalog import STRATEGIES
from workers.strategies.gains import TAIL, Evidence, Trial, evidence

LEAST_TRIALS, LEAST_KERNELS = 8, 3  # with fewer a line says more of the kernels than of the strategy
LEAST_GAIN, MOST_UNUSABLE = 1.01, 0.5  # what is below or above speaks against a strategy
START = "- Jobs on "
ARCHITECTURE = re.compile(r"sm_\d{2,3}[a-z]?")
FAILED = "docs/knowledge/anti-patterns/changes-that-did-not-pay.md"
DOCUMENTS = {strategy.id: f"docs/knowledge/optimizations/{strategy.document}" for strategy in STRATEGIES}
PAGES = (*DOCUMENTS.values(), FAILED)


@dataclass(frozen=True)
class PageProposal:
    """A page of a strategy as it would be, and the lines in it that jobs measured."""

    path: str
    text: str
    lines: tuple[str, ...]


def proposals(pages: Mapping[str, str], trials: Sequence[Trial]) -> tuple[PageProposal, ...]:
    """The pages that change by what trials say; ``pages`` are by path, ``trials`` the newest first.

    What speaks against a strategy stands on its page, and on that of changes that did not pay.
    """
    made, failed = [], list[str]()
    for strategy, path in DOCUMENTS.items():
        text = pages.get(path)
        if text is None:
            continue
        own = [trial for trial in trials if trial.strategy == strategy]
        places = sorted({trial.architecture for trial in own if ARCHITECTURE.fullmatch(trial.architecture)})
        known = {place: evidence(own, place, "", ())[strategy] for place in places}
        enough = {place: found for place, found in known.items() if _is_enough(found)}
        supports = [_line(place, found) for place, found in enough.items() if _supports(found)]
        against = [_line(place, found) for place, found in enough.items() if not _supports(found)]
        link = f"[{strategy.replace('_', ' ')}](../optimizations/{PurePosixPath(path).name})"
        failed += [f"{START}{line.removeprefix(START).replace('tried it', f'tried {link}', 1)}" for line in against]
        new = _with_lines(_with_lines(text, "Evidence", supports), "Counter-evidence", against)
        if new != text:
            made.append(PageProposal(path, new, (*supports, *against)))
    text = pages.get(FAILED)
    if text is not None and (new := _with_lines(text, "Evidence", failed)) != text:
        made.append(PageProposal(FAILED, new, tuple(failed)))
    return tuple(made)


def _is_enough(known: Evidence) -> bool:
    return known.trials >= LEAST_TRIALS and known.kernels >= LEAST_KERNELS


def _supports(known: Evidence) -> bool:
    here = known.averages[1]
    return here.count > 0 and here.mean >= math.log(LEAST_GAIN) and known.unusable <= MOST_UNUSABLE * known.trials


def _line(place: str, known: Evidence) -> str:
    here = known.averages[1]
    tried = f"{START}{place} tried it {known.trials} times on {known.kernels} kernels"
    unusable = f"{known.unusable} of the variants were wrong or broke a guardrail"
    if not here.count:
        return f"{tried}; {unusable}."
    spread = TAIL * math.sqrt(here.squares / here.count)
    low, high = math.exp(here.mean - spread), math.exp(here.mean + spread)
    return (
        f"{tried}: {math.exp(here.mean):.2f} times as fast, four of five between {low:.2f} and {high:.2f}; {unusable}."
    )


def _with_lines(text: str, heading: str, lines: Sequence[str]) -> str:
    """A page whose section ends with these lines, in the place of those that it had."""
    head, mark, rest = text.partition(f"\n## {heading}\n")
    body, following, tail = rest.partition("\n## ")
    own = "\n".join(line for line in body.split("\n") if not line.startswith(START)).strip("\n")
    section = "\n\n".join(part for part in (own, "\n".join(lines)) if part)
    return f"{head}{mark}\n{section}\n{following}{tail}"
