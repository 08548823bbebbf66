"""Bytecode of packages that were installed without any is kept in a folder of this user alone."""

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from gpu_runner.forkserver.client import ForkServer
from gpu_runner.importing import bytecode_folder, keep_bytecode
from gpu_runner.sandbox import environment
from tests import warm_runner


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of caches, on a host whose torch has no bytecode."""
    spec = ModuleSpec("torch", None, origin=str(tmp_path / "torch.py"))
    spec.cached = str(tmp_path / "__pycache__" / "torch.pyc")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_it_is_kept_where_torch_has_none(cache: Path) -> None:
    keep_bytecode()
    folder = cache / "kernelsmith" / "bytecode"
    assert (sys.pycache_prefix, sys.dont_write_bytecode) == (str(folder), False)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert bytecode_folder() == folder  # of the server that this process starts


def test_it_stays_where_torch_has_its_own(cache: Path) -> None:
    own = cache.parent / "__pycache__" / "torch.pyc"
    own.parent.mkdir()
    own.touch()
    keep_bytecode()
    assert (sys.pycache_prefix, sys.dont_write_bytecode) == (None, True)
    assert not cache.exists()


def test_a_folder_into_which_others_can_write_is_not_read(cache: Path) -> None:
    folder = cache / "kernelsmith" / "bytecode"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert bytecode_folder() is None


def test_without_a_place_for_it_nothing_is_kept(cache: Path) -> None:
    cache.write_text("no folder", encoding="utf-8")
    assert bytecode_folder() is None


def test_a_fork_server_keeps_it_there_and_its_children_do_not(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[list[str]] = []

    class Started(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, command: list[str], **named: object) -> None:
            started.append(command)
            super().__init__([sys.executable, "-c", ""], **named)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", Started)
    with warm_runner.cold_servers():
        ForkServer(gpu=False).close()
    assert started[0][-1] == str(cache / "kernelsmith" / "bytecode")
    program = """
import sys
import gpu_runner.forkserver.server as server
server.PACKAGES = ("colorsys",)
server._send = lambda control, answer: print(answer["seconds"].keys(), sys.pycache_prefix, sys.dont_write_bytecode)
server._is_closed = lambda control: False
server._serve = lambda control: sys.exit(0)
server.socket.socket = lambda fileno: None
server.main(["0", sys.argv[1]])
"""
    folder = tmp_path / "kept"
    whole = environment(tmp_path, gpu=False)
    command = [sys.executable, "-P", "-s", "-c", program, str(folder)]
    monkeypatch.undo()
    done = subprocess.run(
        command, capture_output=True, text=True, env=whole | {"PYTHONPATH": ":".join(sys.path)}, timeout=60, check=False
    )
    assert done.stdout == "dict_keys(['colorsys']) None True\n", done.stderr
    assert [file.name for file in folder.rglob("*.pyc") if file.name.startswith("colorsys")]
