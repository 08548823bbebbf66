"""What the doctor says of a host for Ascend NPUs."""

from __future__ import annotations

import importlib.metadata
import stat
from pathlib import Path

import pytest

from gpu_runner import npu

INFO = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 85.2        22                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          59494/ 65536         |
"""


def tool(folder: Path, name: str, text: str = "") -> None:
    """A program that prints a text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
    (folder / name).chmod(stat.S_IRWXU)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with an NPU, its driver and CANN, and no package of either."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "davinci0").touch()
    tool(tmp_path / "driver", "npu-smi", INFO)
    tool(tmp_path / "cann" / "tools" / "profiler" / "bin", "msprof")
    monkeypatch.setattr(npu, "DEVICES", tmp_path / "dev")
    monkeypatch.setattr(npu, "DRIVER_TOOLS", (str(tmp_path / "driver"),))
    monkeypatch.setattr(npu, "CANN_FOLDERS", ())
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "cann"))
    return tmp_path


def test_a_host_is_described_by_its_chip_and_where_its_tools_lie(host: Path) -> None:
    facts = dict(npu.facts())
    assert facts["NPU"] == "910B3" and facts["CANN"] == str(host / "cann")
    assert facts["msprof"].endswith("profiler/bin/msprof") and facts["npu-smi"] == str(host / "driver" / "npu-smi")


def test_packages_that_are_missing_are_named_with_what_brings_them(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = npu.lacking()
    assert len(lacks) == 2 and "pip install torch_npu" in lacks[0] and "pip install triton-ascend" in lacks[1]
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "2.6.0")
    assert npu.lacking() == ()


def test_a_host_without_an_npu_lacks_everything_and_has_no_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npu, "DEVICES", tmp_path)
    monkeypatch.setattr(npu, "DRIVER_TOOLS", ())
    monkeypatch.setattr(npu, "CANN_FOLDERS", ())
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    monkeypatch.delenv("ASCEND_TOOLKIT_HOME", raising=False)
    assert npu.facts() == () and npu.name() is None
    assert npu.lacking() == tuple(npu.LACKS.values())
