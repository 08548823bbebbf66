"""Draws mutants, judges them, and prints what became of them: ``python -m tests.mutants --count 2000 --seed 0``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from tests.mutants.generator import CANDIDATES, FAULTS, Mutant, drawn
from tests.mutants.judge import Outcome, judged_group

GROUP = 12  # mutants of one candidate that a process judges with one set of cases


def main(arguments: Sequence[str]) -> int:
    """Judge as many mutants as wanted, those in the file of outcomes left out; 1 where there are holes."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--candidates", nargs="*", default=CANDIDATES, metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1, help="processes that judge at once")
    parser.add_argument("--quick", action="store_true", help="the few cases of a quick verdict")
    parser.add_argument("--only", metavar="MUTANT", nargs="*", help="judge these, by name, in place of a draw")
    parser.add_argument(
        "--outcomes", type=Path, help="a file of JSON lines, which is carried on (build/mutants-SEED.jsonl)"
    )
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("TRITON_INTERPRET", "1")
    path = chosen.outcomes or Path("build") / f"mutants-{chosen.seed}.jsonl"
    named = tuple(Mutant.named(name) for name in chosen.only or ())
    wanted = named or drawn(chosen.count, chosen.seed, tuple(chosen.candidates))
    outcomes = carried_on(wanted, path, quick=chosen.quick, jobs=chosen.jobs)
    print(table(outcomes))
    for outcome in outcomes:
        if outcome.kind == "hole":
            print(f"\n{outcome.mutant}: {outcome.status}\n  {outcome.change}\n  {outcome.why}")
    return int(any(outcome.kind == "hole" for outcome in outcomes))


def carried_on(wanted: Sequence[Mutant], path: Path, *, quick: bool, jobs: int = 1) -> list[Outcome]:
    """The outcome of each mutant, from the file or by judging it; the file has each as soon as it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    known = {outcome.mutant: outcome for outcome in (Outcome(**json.loads(line)) for line in path.open())}
    left = [mutant for mutant in wanted if str(mutant) not in known]
    start = time.monotonic()
    with path.open("a") as file:
        for done, outcome in enumerate(judged(left, quick=quick, jobs=jobs), 1):
            known[outcome.mutant] = outcome
            file.write(json.dumps(asdict(outcome)) + "\n")
            file.flush()
            if done % 25 == 0 or outcome.kind == "hole":
                note = f"{outcome.mutant} {outcome.kind} {outcome.status}"
                print(f"{time.monotonic() - start:6.0f} s {done}/{len(left)} {note}", file=sys.stderr, flush=True)
    return [known[str(mutant)] for mutant in wanted]


def judged(mutants: Iterable[Mutant], *, quick: bool = False, jobs: int = 1) -> Iterator[Outcome]:
    """The outcome of each mutant. Groups of one candidate share its cases; ``jobs`` groups are judged at once."""
    groups = [
        (name, group[first : first + GROUP], quick)
        for name, group in by_candidate(mutants).items()
        for first in range(0, len(group), GROUP)
    ]
    if jobs == 1:
        for group in groups:
            yield from judged_group(*group)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(judged_group, *group) for group in groups]):
            yield from future.result()


def by_candidate(mutants: Iterable[Mutant]) -> dict[str, list[Mutant]]:
    """Mutants by their candidate."""
    found: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        found.setdefault(mutant.candidate, []).append(mutant)
    return found


def table(outcomes: Sequence[Outcome]) -> str:
    """What became of the mutants, by class of fault, as Markdown."""
    caught = Counter(outcome.status for outcome in outcomes if outcome.kind == "caught")
    statuses = [status for status, _ in caught.most_common()]
    rows = [["class", "drawn", "invalid", *statuses, "equal", "of these to the bit", "named as not run", "hole"]]
    for fault in [*FAULTS, "all"]:
        some = [outcome for outcome in outcomes if fault in ("all", Mutant.named(outcome.mutant).fault)]
        if some:
            kinds = Counter(outcome.kind for outcome in some)
            by_status = Counter(outcome.status for outcome in some if outcome.kind == "caught")
            bits = sum(outcome.status == "bits" for outcome in some)
            counts = [
                len(some),
                kinds["invalid"],
                *(by_status[s] for s in statuses),
                kinds["equal"],
                bits,
                kinds["named"],
                kinds["hole"],
            ]
            rows.append([fault, *map(str, counts)])
    rows.insert(1, ["---", *["--:"] * (len(rows[0]) - 1)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
