"""Judges every cheat and every honest candidate on this host, and prints what became of each.

Most cheats are judged by cases in one dtype, without what a whole verdict demands besides; what passes there meets that too.

    python -m tests.cheats [--jobs N] [--only WORD ...] [--minutes M] [--times] [--out FILE.json]

It needs torch and Triton alone, so that it runs on a GPU host as it stands. What took longest the last time comes first, so that
no process waits for another at the end: seconds are kept in ``build/judged-seconds.json``. In so many minutes as many are judged as
can be: some of each mechanism and direction first, then others in an order that is drawn anew each time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_runner import spans, verify
from gpu_runner.contracts import CandidateSource, Status, Verdict, VerifyRequest
from gpu_runner.program.imports import Library
from gpu_runner.session import has_gpu
from gpu_runner.verify.judge import judge_by
from gpu_runner.verify.screen import screen
from gpu_runner.verify.sources import CandidateFiles
from tests.cheats.table import CHEATS
from tests.cheats.table_new import NEW, NEW_ENDS
from tests.cheats.trial import cheat, proofs, surroundings, whole_verdict
from tests.honest.table import HONEST, problem_of, source_of

MOST_IN_A_BATCH = 16
SECONDS = Path("build/judged-seconds.json")
# Of what has not been judged on this host yet: a whole verdict, cases and their truth, and a cheat by cases that are there.
WHOLE_S, PROOFS_S, RUN_S = 8.0, 4.0, 1.5
FAULT = "error"  # the judge itself failed: never as it should be


@dataclass(frozen=True)
class Row:
    """What became of one candidate; ``screen`` is what its text shows, ``run`` what it does without the screen."""

    kind: str
    name: str
    screen: str
    run: str
    line: int | None
    message: str
    seconds: float
    spans: tuple[tuple[str, float], ...] = ()


def judged(kind: str, name: str) -> Row:
    """Judge one candidate."""
    begin = time.monotonic()
    spans.begin()
    if kind == "honest":
        source = source_of(name)
        verdict = verify.run(VerifyRequest(problem_of(name), source), surroundings())
        if verdict.evidence:
            first = verdict.evidence[0]
            text = f"{first.workload}, {first.output}, seed {verdict.seed}: {first.message}"
            verdict = replace(verdict, evidence=(replace(first, message=text),))
    else:
        try:
            source = cheat(name)
        except UnicodeDecodeError as error:
            return Row(kind, name, "refused/encoding", "-", None, str(error), 0.0)
        known = _problem(kind, name)
        verdict = judge_by(proofs(*known), source, surroundings()) if known[0] else whole_verdict(name)
        if known[0] and verdict.status is Status.passed:  # cases in one dtype, and no decision demanded
            verdict = whole_verdict(name)
    return _row(kind, name, source, verdict, time.monotonic() - begin)


def _problem(kind: str, name: str) -> tuple[str, str, str]:
    """A cheat's problem and dtypes, and its name where cases lie around its constants; what a whole verdict judges has its own."""
    if kind == "honest" or (name in NEW and NEW[name].layer == "whole"):
        return "", "", ""
    return NEW[name].cases(name) if name in NEW else ("reglu", "float32", "")


def _row(kind: str, name: str, source: CandidateSource, verdict: Verdict, seconds: float) -> Row:
    files = CandidateFiles(source, surroundings())
    objection = screen(source, Library(files, source.import_roots))
    seen = "-" if objection is None else f"{objection.status.value}/{objection.rule}"
    first = verdict.evidence[0] if verdict.evidence else None
    ended = verdict.status.value + (f"/{verdict.rule}" if verdict.rule else "")
    message, line = ("", None) if first is None else (first.message, first.line)
    return Row(kind, name, seen, ended, line, message[:400], round(seconds, 1), spans.spent())


def main(arguments: list[str] | None = None) -> int:
    """Exit 1 where a cheat passes screen and run or ends in a status that it may not, or an honest candidate does not pass."""
    parser = argparse.ArgumentParser(prog="python -m tests.cheats", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--only",
        nargs="*",
        default=[""],
        metavar="WORD",
        help="kinds (honest, cheat) and names with one of these words",
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="begin none after so many; 0: judge all")
    parser.add_argument("--times", action="store_true", help="say where the seconds of each went")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    names = [("honest", name) for name in HONEST] + [("cheat", name) for name in (*CHEATS, *NEW)]
    wanted = [(kind, name) for kind, name in names if any(word in f"{kind} {name}" for word in options.only)]
    rows: list[Row] = []
    seconds = _known_seconds()
    for row in _all_judged(wanted, options.jobs, seconds, options.minutes * 60.0):
        rows.append(row)
        mark = "" if _is_right(row) else "  <---"
        sys.stdout.write(f"{row.kind:6} {row.name:38} {row.seconds:6.1f} {row.screen:34} {row.run:34}{mark}\n")
        if mark:
            sys.stdout.write(f"       {row.line}: {row.message}\n")
        if options.times:
            sys.stdout.write(f"       {', '.join(f'{name} {seconds:.1f}' for name, seconds in row.spans)}\n")
        sys.stdout.flush()
    SECONDS.parent.mkdir(exist_ok=True)
    SECONDS.write_text(json.dumps(seconds | {f"{row.kind} {row.name}": row.seconds for row in rows}, indent=1))
    wrong = [row for row in rows if not _is_right(row)]
    where = "a GPU" if has_gpu() else "the interpreter"
    of_all = "" if len(rows) == len(wanted) else f" of {len(wanted)}"
    sys.stdout.write(f"{len(rows)}{of_all} candidates on {where}, {len(wrong)} not as they should be\n")
    if options.out is not None:
        options.out.write_text(json.dumps([vars(row) for row in sorted(rows, key=lambda row: row.name)], indent=1))
    return 1 if wrong else 0


def _all_judged(
    wanted: list[tuple[str, str]], jobs: int, seconds: Mapping[str, float], limit_s: float
) -> Iterator[Row]:
    """Rows as they come, none begun after ``limit_s`` where that is not zero.

    Where a process is killed (out of memory, mostly) the rest goes on with half as many at once.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # torch and Triton are imported once
    end = time.monotonic() + limit_s if limit_s else math.inf
    while wanted and time.monotonic() < end:
        lost: list[tuple[str, str]] = []
        left = iter(mixed(batches(wanted, seconds)) if limit_s else batches(wanted, seconds))
        with ProcessPoolExecutor(jobs, context) as pool:
            running = {pool.submit(_judged, batch): batch for batch in itertools.islice(left, jobs)}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    batch, error = running.pop(future), future.exception()
                    if isinstance(error, BrokenProcessPool) and jobs > 1:
                        lost += batch
                    elif error:
                        yield from (Row(kind, name, "-", FAULT, None, repr(error)[:200], 0.0) for kind, name in batch)
                    else:
                        yield from future.result()
                if lost:
                    lost += itertools.chain(*running.values(), *left)
                    break
                if time.monotonic() < end:
                    coming = itertools.islice(left, len(done))
                    running |= {pool.submit(_judged, batch): batch for batch in coming}
        if lost:
            jobs //= 2
            sys.stdout.write(f"a process was killed: {len(lost)} candidates go on, {jobs} at once\n")
        wanted = lost


def mixed(ordered: Sequence[list[tuple[str, str]]]) -> list[list[tuple[str, str]]]:
    """The batches in a drawn order, but for those first that have a mechanism and direction which none before them has."""
    drawn = random.SystemRandom().sample(ordered, len(ordered))
    known: set[object] = set()
    first: list[list[tuple[str, str]]] = []
    others: list[list[tuple[str, str]]] = []
    for batch in drawn:
        kinds = {_mechanism(*named) for named in batch}
        (others if kinds <= known else first).append(batch)
        known |= kinds
    return first + others


def _mechanism(kind: str, name: str) -> object:
    row = NEW.get(name) if kind == "cheat" else None
    return (kind, row.mechanism, row.direction, row.layer) if row else kind


def batches(wanted: Sequence[tuple[str, str]], seconds: Mapping[str, float]) -> list[list[tuple[str, str]]]:
    """What one process judges in turn, the longest first: whole verdicts one by one, other cheats by what their cases are made of.

    A process that judges one of a batch has the truth for all of it.
    """
    found = []
    for known, group in itertools.groupby(sorted(wanted, key=lambda named: _problem(*named)), lambda n: _problem(*n)):
        alike, most = list(group), MOST_IN_A_BATCH if known[0] else 1
        found += [alike[at : at + most] for at in range(0, len(alike), most)]

    def takes(batch: list[tuple[str, str]]) -> float:
        has_cases = bool(_problem(*batch[0])[0])
        usual = RUN_S if has_cases else WHOLE_S
        return PROOFS_S * has_cases + sum(seconds.get(f"{kind} {name}", usual) for kind, name in batch)

    return sorted(found, key=takes, reverse=True)


def _known_seconds() -> dict[str, float]:
    """How long each took the last time, where that was noted."""
    try:
        return {str(name): float(took) for name, took in json.loads(SECONDS.read_text()).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _judged(batch: list[tuple[str, str]]) -> list[Row]:
    return [_judged_or_fault(kind, name) for kind, name in batch]


def _judged_or_fault(kind: str, name: str) -> Row:
    try:
        return judged(kind, name)
    except Exception as error:  # whatever it is, it is a row, and the others are judged
        return Row(kind, name, "-", FAULT, None, repr(error)[:200], 0.0)


def _is_right(row: Row) -> bool:
    cheat, host = NEW.get(row.name), "gpu" if has_gpu() else "interpreter"
    if row.run == FAULT or (row.run == Status.timeout.value and not (cheat and host in cheat.slow_on)):
        return False  # it was not judged
    passed = row.run == Status.passed.value
    if row.kind == "honest":
        return passed and row.screen == "-"
    if passed and cheat and (cheat.passes or host in cheat.right_on):
        return True
    if row.screen != "-" or row.run == Status.timeout.value:
        return True
    ends = NEW_ENDS[cheat.mechanism] if cheat else {status for status, _ in CHEATS[row.name].run}
    return Status(row.run.split("/")[0]) in ends
