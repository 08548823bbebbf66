"""Faults that are put into honest candidates are caught, or the candidate is still the same one."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from gpu_runner.contracts import Status, VerifyRequest, parse_problem
from gpu_runner.verify.judge import choose_cases, judge_by, prove
from tests.cheats.trial import surroundings
from tests.honest.table import problem_of, source_of
from tests.mutants.__main__ import table
from tests.mutants.generator import (
    CANDIDATES,
    FAULTS,
    Mutant,
    drawn,
    is_changed,
    mutants,
    mutated,
    original,
    room,
    source,
)
from tests.mutants.judge import Outcome

FEW = ("l2_normalize_classes", "reglu", "row_sum_expand", "softmax_one_block")
SAMPLE = 16


def fault(candidate: str, kind: str, change: str) -> Mutant:
    """The first mutant of a class whose change has this text."""
    every = (Mutant(candidate, kind, number) for number in range(room(candidate)[kind]))
    return next(mutant for mutant in every if change in mutated(mutant)[1])


def outcomes(folder: Path, *arguments: str) -> dict[str, Outcome]:
    """What the command finds, by mutant. It has a process of its own, as it forks."""
    path = folder / "outcomes.jsonl"
    command = [sys.executable, "-m", "tests.mutants", "--outcomes", str(path), *arguments]
    root = Path(__file__).parents[2]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=False)
    assert path.exists(), run.stderr[-2000:]
    found = [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]
    assert run.returncode == int(any(item.kind == "hole" for item in found)), run.stderr[-2000:]
    return {item.mutant: item for item in found}


@pytest.fixture(scope="module")
def some() -> tuple[Mutant, ...]:
    """Twenty mutants of a few candidates."""
    return drawn(20, 5, CANDIDATES[:5])


@pytest.mark.long  # in `make test` mutants differ from their originals in one place, below
def test_the_same_seed_draws_the_same_mutants(some: tuple[Mutant, ...]) -> None:
    more = drawn(40, 5, CANDIDATES[:5])
    assert len(set(more)) == 40
    assert more[:20] == some
    assert drawn(20, 6, CANDIDATES[:5]) != some


@pytest.mark.long  # in `make test` mutants differ from their originals in one place, below
def test_a_mutant_is_known_by_its_name(some: tuple[Mutant, ...]) -> None:
    assert [Mutant.named(str(mutant)) for mutant in some] == list(some)


@pytest.mark.long  # in `make test` mutants differ from their originals in one place, below
def test_there_is_room_for_every_class_of_fault() -> None:
    some = ("cross_entropy_item_count", "cumsum_blocks", "layer_norm_atomics", "reglu", "rms_norm")
    assert {kind for name in some for kind in room(name)} == set(FAULTS)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutants(CANDIDATES[:12]))
def test_a_mutant_differs_from_its_original_in_one_place(mutant: Mutant) -> None:
    text, change = mutated(mutant)
    assert change.startswith("line ")
    if is_changed(mutant):
        before, after = original(mutant.candidate).splitlines(), text.splitlines()
        first = next(at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
        last = next(at for at, pair in enumerate(zip(before[::-1], after[::-1], strict=False)) if pair[0] != pair[1])
        assert len(after) - first - last <= 8
        assert ast.parse(text)


@pytest.mark.long
@pytest.mark.slow
def test_a_sample_is_caught_or_equal(tmp_path: Path) -> None:
    found = outcomes(tmp_path, "--count", str(SAMPLE), "--seed", "11", "--candidates", *FEW)
    assert len(found) == SAMPLE
    assert [item for item in found.values() if item.kind not in ("caught", "equal")] == []
    assert sum(item.kind == "caught" for item in found.values()) > SAMPLE // 2


@pytest.mark.long
@pytest.mark.slow
def test_what_a_few_cases_do_not_reach_is_a_hole(tmp_path: Path) -> None:
    beyond = fault("reglu", "size_guards", "if n_cols == 7:")
    cast = fault("reglu", "casts_dropped", "tl.program_id(0).to(tl.int64) -> tl.program_id(0)")
    clamped = fault("reglu", "ranges", "dy_ptr + row + cols, mask=mask, other=0.0), -1.0), 1.0)")
    other = fault("reglu", "computed_by_torch", "a = a + 0")
    found = outcomes(tmp_path, "--quick", "--only", *map(str, (beyond, cast, clamped, other)))
    assert (found[str(beyond)].kind, found[str(beyond)].status) == ("hole", "values")
    assert (found[str(cast)].kind, found[str(cast)].status) == ("equal", "bits")
    assert (found[str(clamped)].kind, found[str(clamped)].status) == ("caught", "incorrect_gradient")
    assert (found[str(other)].kind, found[str(other)].status) == ("caught", "cheating")
    # The sandboxed verdict comes to the same.
    request = VerifyRequest(problem_of("reglu"), source_of("reglu"), quick=True)
    problem = parse_problem(request.problem_source)
    proofs = prove(problem, choose_cases(request, problem, True), surroundings())[0]
    for mutant in (beyond, cast, clamped, other):
        verdict = judge_by(proofs, source(mutant), surroundings())
        judged = found[str(mutant)]
        assert verdict.status == (judged.status if judged.kind == "caught" else Status.passed)


def test_the_table_counts_each_outcome_once() -> None:
    rows = [
        Outcome("reglu:scales:1", "caught", "incorrect_values", "", ""),
        Outcome("reglu:scales:2", "equal", "bits", "", ""),
        Outcome("reglu:grids:1", "hole", "values", "", ""),
    ]
    assert table(rows).splitlines() == [
        "| class | drawn | invalid | incorrect_values | equal | of these to the bit | named as not run | hole |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
        "| scales | 2 | 0 | 1 | 1 | 1 | 0 | 0 |",
        "| grids | 1 | 0 | 0 | 0 | 0 | 0 | 1 |",
        "| all | 3 | 0 | 1 | 1 | 1 | 0 | 1 |",
    ]
