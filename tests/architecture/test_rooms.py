"""The three rooms import in one direction, through their doors, and nothing else: deny by default."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("service", "workers", "gpu_runner")
DOORS = {
    ("service", "workers"): {
        "workers.contracts",
        "workers.inbox",
        "workers.outbox",
        "workers.artifacts",
        "workers.embedded",
        "workers.byhand",
        "workers.environment",
        "workers.history",
        "workers.knowledge",
        "workers.npu_profile",
        "workers.observability",
        "workers.redaction",
    },
    ("service", "gpu_runner"): {"gpu_runner.contracts"},
    ("workers", "gpu_runner"): {"gpu_runner.contracts", "gpu_runner.peaks", "gpu_runner.removal"},
}
RUNNER_THIRD_PARTY = {"torch", "triton"}


# What is written into other repositories is no module of a room.
GENERATED = ROOT / "workers" / "layouts" / "versioned" / "target"


def modules(room: str) -> list[Path]:
    return sorted(path for path in (ROOT / room).rglob("*.py") if GENERATED not in path.parents)


@dataclass(frozen=True)
class Read:
    """What a file imports, relative names resolved; where it reads the environment; and the classes that it defines."""

    imported: list[tuple[int, str]]
    environment: list[int]
    classes: list[str]


@functools.cache
def read(path: Path) -> Read:
    """Parse a file, once for all tests."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    found = Read([], [], [])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.imported.extend((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            found.imported.extend((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ClassDef):
            found.classes.append(node.name)
        elif isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"} and ast.unparse(node.value) == "os":
            found.environment.append(node.lineno)
    return found


def is_through(door: str, name: str) -> bool:
    return name == door or name.startswith(door + ".")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_enters_another_through_its_doors_only(room: str) -> None:
    files = modules(room)
    assert files, f"{room} has no modules"
    wrong = []
    for path in files:
        for line, name in read(path).imported:
            other = name.split(".")[0]
            if other not in ROOMS or other == room:
                continue
            doors = DOORS.get((room, other), set())
            if not any(is_through(door, name) for door in doors):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert wrong == []


def test_the_runner_needs_the_standard_library_torch_and_triton_only() -> None:
    allowed = set(sys.stdlib_module_names) | RUNNER_THIRD_PARTY | {"gpu_runner"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules("gpu_runner")
        for line, name in read(path).imported
        if name.split(".")[0] not in allowed
    ]
    assert wrong == []


def test_the_doors_of_the_runner_import_without_torch_and_triton() -> None:
    code = "import sys; sys.modules['torch'] = sys.modules['triton'] = None; import gpu_runner.contracts"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("room", ROOMS)
def test_the_environment_is_read_in_one_place_of_each_kind(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules(room)
        if path.stem not in ("settings", "environment")
        for line in read(path).environment
    ]
    # The runner has no settings: it sets a child's environment up, and reads PATH and the GPU's variables for that.
    assert room == "gpu_runner" or wrong == []


def test_no_module_is_named_like_one_of_the_standard_library_or_explains_nothing() -> None:
    banned = {"utils", "helpers", "common", "misc", "manager"}
    # These are packages' conventional names, or stand inside a package where no absolute import can meet them.
    fine = {"__init__", "__main__"}
    top_level = set(sys.stdlib_module_names)
    wrong = [
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in modules(room)
        if path.stem not in fine and (path.stem in banned or path.stem in top_level)
    ]
    assert wrong == []


# Stored by their names, or what the evaluator asks for by name.
TWICE = {"Evidence", "Kernel", "Part"}


def test_a_class_name_stands_once() -> None:
    found: dict[str, list[str]] = {}
    for path in (path for room in ROOMS for path in modules(room)):
        for name in read(path).classes:
            found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1 and name not in TWICE} == {}
