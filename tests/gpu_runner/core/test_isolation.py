"""The levels of isolation, proved by a child that tries; without a level the same attempts succeed, so the proofs can fail."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_runner import doctor
from gpu_runner.child.probe import WAYS
from gpu_runner.context import RunContext
from gpu_runner.contracts import DoctorRequest, Isolation, Limits
from gpu_runner.forkserver import keeper
from gpu_runner.messages import CallMain, TryWaysOut, WayTried
from gpu_runner.sandbox import landlock, levels, make_plan
from gpu_runner.sandbox.levels import LEVELS
from gpu_runner.sandbox.plan import SandboxPlan, environment, package_roots, readable_paths
from gpu_runner.session import ChildSession

pytestmark = pytest.mark.every_turn

LIMITS = Limits(time_s=60, step_s=20)


@pytest.fixture(scope="module")
def goal() -> Iterator[TryWaysOut]:
    with doctor.bait() as bait:
        yield bait


def attempts(goal: TryWaysOut, wanted: tuple[Isolation, ...]) -> dict[str, WayTried]:
    with ChildSession("probe", LIMITS, gpu=False, levels=wanted) as session:
        if set(wanted) - set(session.isolation):
            pytest.skip(f"this host gives {session.isolation} only")
        return session.call(goal).message


def test_without_isolation_every_way_but_the_environment_is_open(goal: TryWaysOut) -> None:
    tried = attempts(goal, (Isolation.process,))
    Path(goal.outside).unlink()
    closed = {name for name, way in tried.items() if not way.is_open}
    assert set(tried) == set(WAYS)
    assert "read the parent's variables in its own environment" in closed
    # A child has no capabilities, so where the parent has some the kernel keeps the two apart by itself.
    by_the_kernel = {"trace the parent", "read the parent's environment", "change a setting of the kernel"}
    assert closed <= {"read the parent's variables in its own environment", *by_the_kernel}


@pytest.mark.parametrize("level", [Isolation.landlock, Isolation.namespaces])
def test_a_level_closes_what_it_has_to(goal: TryWaysOut, level: Isolation) -> None:
    tried = attempts(goal, (Isolation.process, level))
    opened = [name for name in doctor.must_prevent(level) if tried[name].is_open]
    if not Path(goal.outside).exists():
        opened = [name for name in opened if not name.startswith("write outside")]
    assert not opened


def test_all_levels_together_close_every_way(goal: TryWaysOut) -> None:
    tried = attempts(goal, LEVELS)
    assert [name for name, way in tried.items() if way.is_open] == []
    assert not Path(goal.outside).exists()


def test_the_childs_environment_is_a_short_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with_gpu, without = environment(tmp_path, gpu=True), environment(tmp_path, gpu=False)
    assert "secret" not in str(with_gpu) + str(without)
    assert with_gpu["CUDA_VISIBLE_DEVICES"] == "3"
    assert (without["CUDA_VISIBLE_DEVICES"], without["TRITON_INTERPRET"]) == ("", "1")
    assert all(without[name].startswith(str(tmp_path)) for name in ("HOME", "TMPDIR", "TRITON_CACHE_DIR"))


def test_no_home_and_no_temporary_folder_is_opened_as_a_whole() -> None:
    assert not set(readable_paths()) & {"/", "/home", "/root", "/tmp", "/var", "/etc", "/work", os.path.expanduser("~")}


def test_threads_that_plan_at_once_do_not_fill_the_interpreters_table_of_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    before = readable_paths(), package_roots()
    monkeypatch.setattr(sysconfig, "get_path", None)
    assert (readable_paths(), package_roots()) == before


def test_a_plan_survives_its_way_to_the_child(tmp_path: Path) -> None:
    plan = make_plan("echo", tmp_path, LIMITS, LEVELS, False, (".",))
    form = {k: list(v) if isinstance(v, tuple) else v for k, v in plan.to_dict().items()}
    assert SandboxPlan.from_dict(form) == plan


@pytest.mark.parametrize("version", range(1, 8))
def test_a_newer_landlock_restricts_at_least_what_an_older_did(version: int) -> None:
    older, newer = landlock.handled(version), landlock.handled(version + 1)
    assert all(a & b == a for a, b in zip(older, newer, strict=True))


def test_the_child_cannot_see_its_neighbours_folder() -> None:
    with ChildSession("echo", LIMITS, files={"mine.txt": "x"}) as other:
        if set(LEVELS) - set(other.isolation):
            pytest.skip("this host does not give every level")
        source = (
            f"def main(s, t):\n    import os\n    return {{'there': os.path.exists({str(other.scratch.work)!r})}}, []\n"
        )
        with ChildSession("echo", LIMITS, files={"thing.py": source}) as session:
            assert session.call(CallMain("thing")).message == {"there": False}


def test_doctor_reports_what_holds_and_why_not() -> None:
    report = doctor.run(DoctorRequest(quick=True), RunContext(Path.cwd(), LIMITS))
    assert Isolation.process in report.levels
    assert all(proof.prevented for proof in report.proofs if proof.attempt.partition(":")[0] in report.levels)
    assert len(report.levels) + sum("Isolation level" in p for p in report.problems) == 3
    assert report.torch is not None
    assert "isolation: process" in doctor.describe(report)
    assert report.child_start is not None
    assert report.child_start.forked is (keeper.why_not() is None)
    assert "children: forked" in doctor.describe(report)


def test_doctor_says_why_children_are_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_FORK_CHILDREN", "false")
    start = doctor._child_start(RunContext(Path.cwd(), LIMITS))
    assert start is not None
    assert (start.forked, start.imports_s, start.reason) == (False, None, "it is switched off")
    assert "fresh interpreters, none is forked (it is switched off)" in doctor._child_start_text(start)


def test_a_level_that_keeps_from_the_gpu_is_given_up_for_children_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_refused", {})
    assert levels.remember_failure("g landlock the driver does not start") is Isolation.landlock
    assert not levels.worth_trying(Isolation.landlock, gpu=True)
    assert levels.worth_trying(Isolation.landlock, gpu=False)
    assert levels.remember_failure("f namespaces unshare: Operation not permitted") is Isolation.namespaces
    assert not levels.worth_trying(Isolation.namespaces, gpu=True)
    assert not levels.worth_trying(Isolation.namespaces, gpu=False)
    assert levels.remember_failure("e 0") is None
    assert set(levels.refusals()) == {Isolation.namespaces}
