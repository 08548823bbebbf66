"""Another program sees of the environment what it works by, whatever else has a name that begins so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from deploy.demo import library
from service.local.checkout import Checkout
from tests.few import few
from workers.environment import SECRET_NAME, plain_environment
from workers.gpu_host.runner import detect
from workers.settings import Settings, default_data_dir, environment_with

ROOT = Path(__file__).parents[2]
SECRETS = {
    "NVIDIA_API_KEY": "nvapi",
    "TRITON_TOKEN": "a-token",
    "PYTHON_KEYRING_PASSWORD": "a-password",
    "XDG_SECRET": "a-secret",
    "GITHUB_TOKEN": "a-token",
    "ANTHROPIC_API_KEY": "a-key",
    "KERNELSMITH_PRIVATE_KEY": "a-key",
    "KERNELSMITH_ANTHROPIC_API_KEY": "a-key",
    "PGP_PRIVATE_KEY": "a-key",
    "PGP_PASSPHRASE": "a-phrase",
    "GOOGLE_API_KEY": "a-key",
    "AZURE_OPENAI_API_KEY": "a-key",
    "AWS_BEARER_TOKEN_BEDROCK": "a-token",
    "GIT_ASKPASS": "a-program",
    "SSH_AUTH_SOCK": "a-socket",
}


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def test_nothing_that_could_be_a_secret_is_plain() -> None:
    assert not set(SECRETS) & set(plain_environment())
    assert "PATH" in plain_environment()


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        ("s3", "AWS_SECRET_ACCESS_KEY"),
        ("gs", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("file", "FSSPEC_FILE_AUTO_MKDIR"),
    ],
)
def test_a_worker_gets_what_its_own_store_and_database_read_and_no_key_that_begins_so(
    scheme: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "read")
    monkeypatch.delenv("KERNELSMITH_ANTHROPIC_API_KEY")
    monkeypatch.setenv("PGPASSWORD", "read")
    monkeypatch.setenv("PGSSLMODE", "require")
    url = SecretStr("postgresql://bot@db/x")
    given = environment_with(Settings(artifacts_url=f"{scheme}://bucket", database_url=url), asks_models=False)
    assert {name, "PGPASSWORD", "PGSSLMODE"} <= set(given)
    assert not set(SECRETS) & set(given)


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "no_proxy"])
def test_a_worker_that_asks_models_gets_the_proxy_in_either_spelling(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "proxy.internal")
    monkeypatch.delenv("KERNELSMITH_ANTHROPIC_API_KEY")
    asks = Settings(openai_base_url="http://models.internal/v1", openai_model="a-model")
    assert environment_with(asks)[name] == "proxy.internal"
    assert name not in environment_with(asks, asks_models=False)


def test_a_process_of_an_installation_keeps_what_it_reads_and_nothing_else(tmp_path: Path) -> None:
    others = {"DB_PASS": "x", "SENTRY_DSN": "x", "PIP_INDEX_URL": "x", "SLACK_WEBHOOK_URL": "x", "GITHUB_TOKEN": "x"}
    own = {"KERNELSMITH_TOKEN": "t", "DATABASE_URL": "u", "PGPASSWORD": "p", "https_proxy": "q", "AWS_PROFILE": "a"}
    script = tmp_path / "shed.py"
    script.write_text(
        "import os\nfrom workers.environment import shed_others\nshed_others()\nprint(*os.environ, sep='\\n')"
    )
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)} | others | own
    told = subprocess.run([sys.executable, str(script)], env=given, check=True, capture_output=True, text=True).stdout
    assert own.keys() <= set(told.split())
    assert not others.keys() & set(told.split())


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tools on the path write down their environment."""
    folder, written = tmp_path / "bin", tmp_path / "seen"
    folder.mkdir()
    for name in ("git", "nvidia-smi"):
        tool = folder / name
        tool.write_text(f'#!/bin/sh\nenv >> {written}\nexec {shutil.which(name) or "false"} "$@"\n')
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return written


def test_tools_see_no_secret(seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["/usr/bin/env", "git", "init", "-q", str(tmp_path / "repo")], check=True, env=plain_environment())
    checkout = Checkout(tmp_path / "repo")
    checkout.text("status", "--short")
    checkout.resolve("main")
    detect()
    monkeypatch.setattr(library.sys, "executable", str(tmp_path / "bin" / "nvidia-smi"))
    with pytest.raises(library.LibraryError):
        library.fetch(tmp_path / "library")
    library._run(tmp_path, [str(tmp_path / "bin" / "nvidia-smi")])
    told = seen.read_text()
    assert told.count("PATH=") >= 6
    assert [name for name in SECRETS if f"{name}=" in told] == []


@pytest.mark.parametrize("command", few(["serve", "web", "work"], ["serve"]))
def test_a_process_that_lives_long_sheds_the_secrets_of_others(command: str, tmp_path: Path) -> None:
    # It ends at its settings, which is after the environment was looked at.
    script = (
        "import os, service.cli as c; c.app = lambda: print(open('/proc/self/environ').read(), os.getpid()); c.main()"
    )
    own = {"KERNELSMITH_TOKEN": "own", "AWS_SECRET_ACCESS_KEY": "own", "PGPASSWORD": "own", "DATABASE_URL": "own"}
    started = subprocess.Popen(
        [sys.executable, "-c", script, command],
        env={**os.environ, **own, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    told, _ = started.communicate(timeout=60)
    seen = dict(line.split("=", 1) for line in told.split("\0") if "=" in line)
    assert told.rstrip().endswith(str(started.pid))
    assert own.items() <= seen.items()
    others = {name for name in SECRETS if SECRET_NAME.search(name) and not name.startswith("KERNELSMITH_")}
    assert others
    assert not others & set(seen)


@pytest.mark.parametrize("module", ["workers.celery_app", "service.cli.__main__"])
def test_the_temporary_folder_stays_while_its_disk_is_full(tmp_path: Path, module: str) -> None:
    # No file may have a byte, so that tempfile finds room nowhere.
    script = f"""
import resource, sys, tempfile
sys.argv = ["kernelsmith", "--version"]
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
import runpy
try:
    runpy.run_module({module!r}, run_name="__main__")
except SystemExit:
    pass
print(tempfile.gettempdir())
"""
    temporary = {"TMPDIR": str(tmp_path), "KERNELSMITH_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-c", script]
    environment = plain_environment() | temporary
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[-1:] == [str(tmp_path)], ran.stderr


def test_the_data_folder_is_below_the_users_folder_of_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_data_dir() == tmp_path / "kernelsmith"
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_data_dir() == tmp_path / "home" / ".local" / "share" / "kernelsmith"
