"""Running a repository's tests: what passes, what is collected, and what hostile tests cannot make us believe."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path

import pytest

from gpu_runner import suite
from gpu_runner.context import RunContext
from gpu_runner.contracts import CaseOutcome, Limits, SourceFile, TestCase, TestsRequest
from gpu_runner.scratch import Scratch

LIMITS = Limits(time_s=60, step_s=30)
PROJECT = '[project]\nname = "some-lib"\nversion = "1.2.3"\n'
TESTS = """
import importlib.metadata
import pytest
from lib import VALUE

def test_value():
    assert VALUE == 7

def test_version():
    assert importlib.metadata.version("some-lib") == "1.2.3"

@pytest.mark.skip(reason="not here")
def test_skipped():
    assert False

def test_interpreter_without_a_gpu():
    import os
    assert (os.environ.get("TRITON_INTERPRET") == "1") != os.path.exists("/dev/nvidiactl")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "lib-1/src/lib/__init__.py": "VALUE = 7\n",
        "lib-1/tests/test_a.py": TESTS,
        "lib-1/pyproject.toml": PROJECT,
    }
    with tarfile.open(tmp_path / "tree.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return tmp_path


def request(
    *arguments: str, module: str = "pytest", files: dict[str, str] | None = None, **more: tuple
) -> TestsRequest:
    changed = tuple(SourceFile(path, text) for path, text in (files or {}).items())
    return TestsRequest("tree.tar.gz", changed, module, arguments, ("src", "."), **more)


def test_a_repositorys_tests_are_run_and_counted(folder: Path) -> None:
    result = suite.run(request("-q", "tests/test_a.py"), RunContext(folder, LIMITS))
    assert result.passed, result.log
    assert (result.exit_code, result.summary) == (0, "3 passed, 1 skipped, exit code 0")
    assert {case.node.partition("::")[2]: case.outcome for case in result.cases} == {
        "test_value": CaseOutcome.passed,
        "test_version": CaseOutcome.passed,
        "test_skipped": CaseOutcome.skipped,
        "test_interpreter_without_a_gpu": CaseOutcome.passed,
    }


def test_changed_files_lie_over_the_tree_and_failures_are_told(folder: Path) -> None:
    changed = request("-q", "tests/test_a.py", files={"src/lib/__init__.py": "VALUE = 8\n"})
    result = suite.run(changed, RunContext(folder, LIMITS))
    assert (result.passed, result.exit_code) == (False, 1)
    failed = [case for case in result.cases if case.outcome is CaseOutcome.failed]
    assert [case.node for case in failed] == ["tests/test_a.py::test_value"]
    assert "assert 8 == 7" in (failed[0].message or "")


def test_a_script_gives_back_the_files_that_are_asked_for(folder: Path) -> None:
    script = (
        "import pathlib, lib\npathlib.Path('data').mkdir()\npathlib.Path('data/out.csv').write_text(f'v,{lib.VALUE}')\n"
    )
    result = suite.run(
        request("bench.py", module="benchmark", files={"bench.py": script}, collect=("data/out.csv", "data/none.csv")),
        RunContext(folder, LIMITS),
    )
    assert result.passed, result.log
    assert result.collected == (SourceFile("data/out.csv", "v,7"),)


@pytest.mark.parametrize(
    "hostile",
    [
        "import os\nos._exit(0)\n",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
        "raise SystemExit(0)\n",
    ],
)
def test_ending_the_run_early_is_no_pass(folder: Path, hostile: str) -> None:
    result = suite.run(request("-q", "tests/test_b.py", files={"tests/test_b.py": hostile}), RunContext(folder, LIMITS))
    assert not result.passed


def test_a_hanging_test_is_killed_and_told(folder: Path) -> None:
    hanging = "import time\ndef test_one():\n    pass\ndef test_hang():\n    time.sleep(600)\n"
    limits = Limits(time_s=6, step_s=6)
    result = suite.run(request("-q", "tests/test_b.py", files={"tests/test_b.py": hanging}), RunContext(folder, limits))
    assert (result.passed, result.exit_code) == (False, None)
    assert [case.node for case in result.cases] == ["tests/test_b.py::test_one"]
    assert "no answer within" in result.summary


def test_a_failure_outweighs_a_forged_pass() -> None:
    line = {"node": "a::b", "duration_s": 0.1, "message": None}
    report = "\n".join(json.dumps(line | {"outcome": outcome}) for outcome in ("passed", "failed", "passed"))
    assert [case.outcome for case in suite.read_report(report.encode())] == [CaseOutcome.failed]


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"7", b'{"node": 1}', b'{"node": "a", "outcome": "great", "duration_s": 1}', b"\xff\xfe"]
)
def test_lines_that_are_no_report_are_left_out(line: bytes) -> None:
    assert suite.read_report(line) == ()


def test_only_skips_are_no_pass() -> None:
    skipped = (TestCase("a", CaseOutcome.skipped, 0.0),)
    assert not suite.passed("pytest", 0, skipped)
    assert suite.passed("benchmark", 0, ())
    assert not suite.passed("benchmark", None, ())


def test_other_modules_and_other_trees_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="none of"):
        suite.run(request(module="http.server"), RunContext(folder, LIMITS))
    with pytest.raises(ValueError, match="no tarball"):
        suite.run(TestsRequest("../tree.tar.gz", (), "pytest", ()), RunContext(folder / "x", LIMITS))


@pytest.mark.parametrize("project", ["", "not toml [", '[project]\nname = "../../x"\n', "[project]\nname = 7\n"])
def test_a_project_without_a_usable_name_gives_no_metadata(project: str) -> None:
    scratch = Scratch()
    try:
        scratch.write({"pyproject.toml": project})
        assert suite.distribution(scratch) == {}
    finally:
        scratch.remove()


DRAW = """
import pathlib, struct
def png(name, width, height, begins=b"\\x89PNG\\r\\n\\x1a\\n"):
    pathlib.Path(name).write_bytes(begins + b"\\0\\0\\0\\rIHDR" + struct.pack(">II", width, height) + b"\\x08\\x06")
png("a.png", 640, 480)
png("page.png", 640, 480, b"<html>\\r\\n")
png("vast.png", 2**31 - 1, 480)
png("empty.png", 0, 480)
pathlib.Path("short.png").write_bytes(b"\\x89PNG\\r\\n\\x1a\\n")
pathlib.Path("link.png").symlink_to("a.png")
"""


def test_pictures_come_back_and_what_is_none_does_not(folder: Path) -> None:
    asked = ("a.png", "page.png", "vast.png", "empty.png", "short.png", "link.png", "none.png", "../a.png")
    result = suite.run(
        request("draw.py", module="benchmark", files={"draw.py": DRAW}, pictures=asked), RunContext(folder, LIMITS)
    )
    assert result.passed, result.log
    assert [picture.path for picture in result.pictures] == ["a.png"]
    assert base64.b64decode(result.pictures[0].base64).startswith(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0"
    )


def test_imports_are_tried_one_by_one_and_packages_looked_for(folder: Path) -> None:
    files = {
        "src/lib/needy.py": "import not_installed_anywhere.inner\n",
        "src/lib/older.py": "from lib import NOT_YET\n",
        "src/lib/no_gpu.py": "raise RuntimeError('no GPU')\n",
        "src/lib/ends.py": "raise SystemExit(3)\n",
    }
    asked = ("lib", "lib.needy", "lib.older", "lib.no_gpu", "lib.ends", "nowhere", "package:pytest", "package:nowhere")
    result = suite.run(request(*asked, module="imports", files=files), RunContext(folder, LIMITS))
    found = {case.node: (case.outcome.value, case.message) for case in result.cases}
    outcome, older = found.pop("lib.older")
    assert outcome == "failed"
    assert (older or "").startswith("lib: cannot import name 'NOT_YET' from 'lib' (")
    assert found == {
        "lib": ("passed", None),
        "lib.needy": ("failed", "not_installed_anywhere: No module named 'not_installed_anywhere'"),
        "lib.no_gpu": ("skipped", "RuntimeError: no GPU"),
        "lib.ends": ("skipped", "SystemExit: 3"),
        "nowhere": ("failed", "nowhere: No module named 'nowhere'"),
        "package:pytest": ("passed", None),
        "package:nowhere": ("failed", "nowhere: No package metadata was found for nowhere"),
    }
