"""What a host has of what kernels for Ascend NPUs need, found without loading any of it; each lack with what brings it."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
from pathlib import Path

from gpu_runner.settings import ascend_home

DEVICES = Path("/dev")
DRIVER_TOOLS = ("/usr/local/sbin", "/usr/local/Ascend/driver/tools")  # where npu-smi lies when PATH has it not
CANN_FOLDERS = (Path("/usr/local/Ascend/ascend-toolkit/latest"), Path("/usr/local/Ascend/cann"))
PROFILERS = ("bin", "tools/profiler/bin")
TOOLS = ("npu-smi", "msprof")
NAME = re.compile(r"\|\s*\d+\s+(Ascend\w+|\d{3}\w+)\s*\|")  # of a row of `npu-smi info`: number and chip
LACKS = {
    "device": "There is no NPU: no `/dev/davinci0`. Install the driver and firmware; in a container pass the devices `davinci0`,"
    " `davinci_manager`, `devmm_svm` and `hisi_hdc`.",
    "npu-smi": "`npu-smi` is not found. It comes with the driver: put `/usr/local/sbin` on PATH, or mount it into the container.",
    "CANN": "CANN is not found. Install its toolkit and kernels, and `source /usr/local/Ascend/ascend-toolkit/set_env.sh`.",
    "msprof": "`msprof` is not found. CANN's toolkit brings it: `source /usr/local/Ascend/ascend-toolkit/set_env.sh`.",
    "torch_npu": "torch_npu is not installed. `pip install torch_npu` in the release of this torch, in the same environment.",
    "triton-ascend": "Triton-Ascend is not installed. `pip install triton-ascend==3.2.0` in an environment without another Triton.",
}


def has_npu() -> bool:
    """Whether this host has an Ascend NPU."""
    return (DEVICES / "davinci0").exists()


def name() -> str | None:
    """The chip as `npu-smi` calls it, such as 910B3."""
    tool = found("npu-smi")
    if tool is None:
        return None
    try:
        done = subprocess.run([tool, "info"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = NAME.search(done.stdout)
    return match[1] if match else None


def facts() -> tuple[tuple[str, str], ...]:
    """The chip, and where its tools and CANN lie; nothing where there is no NPU."""
    if not has_npu():
        return ()
    places = {"NPU": name(), "CANN": cann(), **{tool: found(tool) for tool in TOOLS}}
    return tuple((what, str(place)) for what, place in places.items() if place is not None)


def found(tool: str) -> str | None:
    """Where a tool lies: on PATH, with the driver, or in CANN."""
    home = cann()
    folders = [*DRIVER_TOOLS, *(str(home / inside) for inside in PROFILERS if home is not None)]
    return shutil.which(tool) or shutil.which(tool, path=os.pathsep.join(folders))


def cann() -> Path | None:
    """CANN's folder, where it says that it is or where it is installed by default."""
    home = ascend_home()
    folders = (*([Path(home)] if home else []), *CANN_FOLDERS)
    return next((folder for folder in folders if folder.is_dir()), None)


def lacking() -> tuple[str, ...]:
    """What is missing, a sentence each with what brings it."""
    there = {
        "device": has_npu(),
        "CANN": cann() is not None,
        **{tool: found(tool) is not None for tool in TOOLS},
        **{package: _is_installed(package) for package in ("torch_npu", "triton-ascend")},
    }
    return tuple(sentence for what, sentence in LACKS.items() if not there[what])


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
