"""What is installed and what runs in CI: named by version or by commit, nothing that floats."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
EXTRAS = {name for extra in PROJECT["optional-dependencies"].values() for name in extra}


@pytest.mark.parametrize("wanted", sorted({*PROJECT["dependencies"], *EXTRAS}))
def test_every_dependency_has_a_lower_and_an_upper_bound(wanted: str) -> None:
    assert wanted.startswith("kernelsmith[") or re.fullmatch(r"[\w.\[\]-]+>=[\d.]+,<[\d.]+", wanted)


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_every_action_is_named_by_its_commit(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name)] == []


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_no_workflow_has_more_rights_than_its_jobs_need(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}, "what a job needs beyond it stands at the job"
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    kept = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in kept), "what runs later would hold the token"


def test_the_command_says_its_version() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "service.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == f"kernelsmith {PROJECT['version']}"


def test_the_image_has_what_the_packages_link_to() -> None:
    """A link of a package leads out of it to a folder that the image copies too."""
    copied = re.findall(r"^COPY (\S+) \1$", (ROOT / "deploy/docker/Dockerfile").read_text(), re.MULTILINE)
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    links = [
        path for room in ("workers", "service", "gpu_runner") for path in (ROOT / room).rglob("*") if path.is_symlink()
    ]
    assert links
    for link in links:
        target = str(link.resolve().relative_to(ROOT))
        assert target in copied and f"!{target}" in sent


def test_the_wheel_has_every_file_that_lies_beside_the_modules() -> None:
    data = SETTINGS["tool"]["setuptools"]["package-data"]
    folders = {package: ROOT / package.replace(".", "/") for package in (*data, "deploy.demo")}
    packed = {path for package, patterns in data.items() for each in patterns for path in folders[package].glob(each)}
    there = {path for folder in folders.values() for path in folder.rglob("*") if path.is_file()}
    assert [path for path in sorted(there - packed) if path.suffix not in (".py", ".pyc")] == []
