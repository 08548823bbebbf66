"""The library that the demo works on, and what its own tests say of the patch."""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from workers.environment import PIP, plain_environment

PROJECT = "liger-kernel"
VERSION = "0.8.5"
ARCHIVE = "liger_kernel-0.8.5.tar.gz"
SHA256 = "4e8f8f611a8ad735c37c989410d09820bb08881f131851a3967c34baa7889d66"


class LibraryError(Exception):
    """The library's source cannot be had; the text says what to do."""


def fetch(folder: Path) -> Path:
    """The library's source archive, downloading it once into ``folder``.

    Raises:
        LibraryError: pip could not fetch it, or it is not the file that is expected.
    """
    archive = folder / ARCHIVE
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        command += ["--dest", str(folder), f"{PROJECT}=={VERSION}"]
        variables = plain_environment(PIP)
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        if done.returncode != 0 or not archive.exists():
            last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise LibraryError(f"pip could not fetch {PROJECT} {VERSION}: {last}. Put {ARCHIVE} into {folder} by hand.")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256:
        raise LibraryError(f"{archive} is not the file that was expected (sha256 {digest}): delete it and try again.")
    return archive


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack the archive into ``folder`` and give the library's own folder in it."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / ARCHIVE.removesuffix(".tar.gz")


OUTCOMES = {
    "failure": "failed",
    "passed": "passed",
    "skipped": "skipped",
    "error": "error",
}  # by the elements of a report
LIMIT_S = 300.0


@dataclass(frozen=True)
class LookedAt:
    """One thing that was looked at."""

    what: str
    held: bool
    detail: str


def audit(patch: Path, untouched: Path, kernel_tests: str, neighbours: tuple[str, ...]) -> tuple[LookedAt, ...]:
    """Apply the patch in place and give what the library's own checks say; what follows a failure is left out.

    ``kernel_tests`` is the test file of the kernel, which has to pass; ``neighbours`` have to say the same before and after.
    """
    before = _tests(untouched, neighbours)
    applied = _run(untouched, ["git", "apply", "--whitespace=nowarn", str(patch.absolute())])
    findings = [LookedAt("the patch applies to the untouched library", applied.returncode == 0, _last(applied.stderr))]
    if applied.returncode != 0:
        return tuple(findings)
    touched = touched_python_files(patch.read_text(encoding="utf-8", errors="surrogateescape"))
    changed = f"{len(touched)} Python files" if touched else "the job proposed nothing"
    findings.append(LookedAt("the patch changes the library", bool(touched), changed))
    if not touched:
        return tuple(findings)
    for arguments in (["check"], ["format", "--check"]):
        done = _run(untouched, [sys.executable, "-m", "ruff", *arguments, "--no-cache", *touched])
        what = f"ruff {' '.join(arguments)} on the {len(touched)} touched files"
        findings.append(LookedAt(what, done.returncode == 0, _last(done.stdout)))
    own, *after = _tests(untouched, (kernel_tests, *neighbours))
    findings.append(LookedAt(f"pytest {kernel_tests}", own.get("passed", 0) > 0 and not _bad(own), _told(own)))
    for path, earlier, now in zip(neighbours, before, after, strict=True):
        detail = f"{_told(earlier)} before, {_told(now)} now"
        findings.append(LookedAt(f"pytest {path}", now == earlier and bool(now), detail))
    return tuple(findings)


def touched_python_files(patch: str) -> tuple[str, ...]:
    """The Python files that a patch adds or changes."""
    return tuple(dict.fromkeys(re.findall(r"^\+\+\+ b/(.+\.py)$", patch, re.MULTILINE)))


def _tests(folder: Path, paths: tuple[str, ...]) -> list[dict[str, int]]:
    """How the tests of each file ended, from one process, which imports the library once; nothing where it takes too long."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
        command += [f"--junitxml={report}", "-o", "junit_family=xunit1", *paths]
        with contextlib.suppress(subprocess.TimeoutExpired):
            _run(folder, ["env", "TRITON_INTERPRET=1", "CUDA_VISIBLE_DEVICES=", "PYTHONPATH=src", *command])
        return outcomes(report.read_text(encoding="utf-8"), paths) if report.exists() else [{} for _ in paths]


def outcomes(report: str, paths: tuple[str, ...]) -> list[dict[str, int]]:
    """The outcomes that a JUnit report of pytest has of the tests of each file."""
    counts = {path: dict.fromkeys(OUTCOMES.values(), 0) for path in paths}
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - of the library, whose digest is known
        ends = [OUTCOMES[part.tag] for part in case if part.tag in OUTCOMES]
        counts[case.attrib["file"]][ends[0] if ends else OUTCOMES["passed"]] += 1
    return [{word: count for word, count in own.items() if count} for own in counts.values()]


def _run(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=plain_environment()
    )


def _last(output: str) -> str:
    return next((line.strip("= ") for line in reversed(output.splitlines()) if line.strip()), "")


def _bad(ended: dict[str, int]) -> int:
    return ended.get("failed", 0) + ended.get("error", 0)


def _told(ended: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in ended.items()) or "nothing ran"
