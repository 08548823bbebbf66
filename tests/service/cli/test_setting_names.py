"""What is named like a setting and is none is said, with the name that was meant."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from service.settings import variables
from workers.environment import plain_environment, unknown_keys, unknown_variables


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.cli", *command],
        env=plain_environment() | {f"KERNELSMITH_{name}": value for name, value in environment.items()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("WEBHOOK_SECRET", "WEBHOOK_SECRETS"),
        ("GITHUB_TOKEN", "TOKEN"),
        ("OPENAI_KEY", "OPENAI_API_KEY"),
        ("PRIVATEKEY_PATH", "PRIVATE_KEY_PATH"),
        ("LEASE", "LEASE_S"),
        ("_TOKEN", "TOKEN"),
        ("ENVFILE", "ENV_FILE"),
    ],
)
def test_the_name_that_was_meant_is_found(monkeypatch: pytest.MonkeyPatch, name: str, meant: str) -> None:
    monkeypatch.setenv(f"KERNELSMITH_{name}", "a value")
    assert unknown_variables(variables())[f"KERNELSMITH_{name}"] == f"Did you mean KERNELSMITH_{meant}?"


@pytest.mark.parametrize(
    "name", ["KERNELSMITH_", "KERNELSMITH_ZYX", "KERNELSMITH_" + "Q" * 100_000, "KERNELSMITH_\x1b[31m"]
)
def test_what_resembles_no_name_is_said_in_short(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "a value")
    ((shown, fix),) = unknown_variables(variables()).items()
    assert shown.isprintable()
    assert name.replace("\x1b", "?").startswith(shown.removesuffix("..."))
    assert len(shown) < 100
    assert "docs/settings.md" in fix


def test_names_of_settings_are_known_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KERNELSMITH_TOKEN", "kernelsmith_port", "KERNELSMITH_DATABASE_URL", "KERNELSMITH_FORK_CHILDREN"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("KERNELSMITHS", "1")
    assert unknown_variables(variables()) == {}


def test_a_command_warns_of_an_unknown_variable_once_and_goes_on(tmp_path: Path) -> None:
    done = run("gc", "--json", DATA_DIR=str(tmp_path), KEEP_ARTIFACT_DAYS="5", TOKENS="hunter2hunter2")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["artifacts"] == 0
    assert done.stderr.count("KERNELSMITH_KEEP_ARTIFACTS_DAYS") == 1
    assert "unknown_setting" in done.stderr
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize("command", ["doctor", "serve"])
def test_a_misspelled_key_of_the_file_ends_a_command_with_the_fix(tmp_path: Path, command: str) -> None:
    file = tmp_path / "settings"
    file.write_text("KERNELSMITH_WEBHOOK_SECRET=hunter2hunter2hunter2\nexport KERNELSMITH_TOKEN=a\nPATH=/x\n")
    done = run(command, ENV_FILE=str(file), DATA_DIR=str(tmp_path / "state"))
    assert done.returncode == 2
    assert "KERNELSMITH_WEBHOOK_SECRET is no setting. Did you mean KERNELSMITH_WEBHOOK_SECRETS?" in done.stderr
    assert "hunter2" not in done.stderr


def test_a_file_is_told_what_only_the_environment_may_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("KERNELSMITH_FORK_CHILDREN=false\nkernelsmith_lease_s=9\nKERNELSMITH_PORT\n")
    monkeypatch.setenv("KERNELSMITH_ENV_FILE", str(file))
    assert unknown_keys(variables()) == ("KERNELSMITH_FORK_CHILDREN is read from the environment alone: set it there",)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("LEASE_S", "abc", "KERNELSMITH_LEASE_S"),
        ("ENV_FILE", "/nowhere/settings", "KERNELSMITH_ENV_FILE names no file"),
    ],
)
def test_doctor_says_which_setting_cannot_be_used(name: str, value: str, said: str) -> None:
    done = run("doctor", "--quick", **{name: value})
    assert done.returncode == 2, done.stderr[-500:]
    assert said in done.stderr
    assert "Traceback" not in done.stderr
