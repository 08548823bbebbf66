"""What the pages for operators and the files in deploy/ say of the program is true of it."""

from __future__ import annotations

import ast
import functools
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic_settings import BaseSettings
from typer.main import get_command

from service.cli import app
from service.dispatch.events import EVENTS
from service.github.credentials import PERMISSIONS, CredentialPurpose
from service.health import FIXES
from service.settings import ServiceSettings
from workers.embedded import HostPart
from workers.settings import Settings as WorkerSettings
from workers.stages.code_source import PACKAGE

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PAGE = "\n".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("operations", "settings", "runbook"))
ALIASES = {"DATABASE_URL", "REDIS_URL"}
UNITS = sorted(DEPLOY.glob("systemd/*.service"))


def fields() -> dict[str, list[Any]]:
    """Every setting by the variable that sets it, with its defaults."""
    found: dict[str, list[Any]] = {}
    kinds: tuple[type[BaseSettings], ...] = (ServiceSettings, WorkerSettings)
    for kind in kinds:
        for name, field in kind.model_fields.items():
            found.setdefault(f"KERNELSMITH_{name.upper()}", []).append(field.default)
    return found


def rows(heading: str) -> list[list[str]]:
    """The cells of every table row below a heading."""
    section = re.split(r"\n##? ", PAGE.split(f"{heading}\n", 1)[1], maxsplit=1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def logged(*levels: str) -> set[str]:
    """The events that the service and the workers log at these levels."""
    return {event for level, event in all_logged() if level in levels}


@functools.cache
def all_logged() -> set[tuple[str, str]]:
    found = set()
    texts = [path.read_text() for room in ("service", "workers") for path in (ROOT / room).rglob("*.py")]
    for node in (node for text in texts if "log." in text for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            event, function = str(node.args[0].value), ast.unparse(node.func)
            if function.startswith("log.") and re.fullmatch(r"[a-z]+(_[a-z]+)*", event):
                found.add((function.removeprefix("log."), event))
    return found


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    return loaded


def program_services() -> dict[str, dict[str, Any]]:
    return {name: it for name, it in compose()["services"].items() if str(it["image"]).startswith("kernelsmith:")}


def assert_runs(command: list[str]) -> None:
    """The command line is one that the program would take."""
    assert Path(command[0]).name == "kernelsmith"
    known = get_command(app).commands  # type: ignore[attr-defined]
    assert command[1] in known
    options = {name for parameter in known[command[1]].params for name in parameter.opts}
    for place, word in enumerate(command):
        if word.startswith("--"):
            assert word in options, command
        if word == "--only":
            assert command[place + 1] in set(HostPart)


def test_every_setting_stands_in_the_table_with_its_default() -> None:
    tables = (rows(f"## {part}") for part in ("The service", "The workers", "What language models may use"))
    told = {row[0].strip("`"): row[1] for table in tables for row in table if row[0].startswith("`KERNELSMITH_")}
    assert set(told) == set(fields())
    for name, defaults in fields().items():
        plain = [default for default in defaults if isinstance(default, int | float | str | bool)]
        assert all(told[name] == f"`{default}`" or told[name].startswith("also") for default in plain), name


def test_every_warning_and_error_of_the_log_stands_in_the_runbook() -> None:
    told = {row[0].strip("`") for row in rows("## What the log says")} - {"event"}
    assert logged("warning", "error", "exception") <= told
    assert told <= logged("warning", "error", "exception", "info") | {"publish_given_up"}  # whose level depends


def test_every_probe_that_readyz_knows_stands_in_the_runbook() -> None:
    told = " ".join(row[0] for row in rows("## What a probe says"))
    assert all(f"`{name}`" in told for name in FIXES)


def test_the_app_is_described_with_the_events_and_permissions_that_are_used() -> None:
    events = next(row for row in rows("## The GitHub App") if row[0] == "Events")
    assert set(re.findall(r"`(\w+)`", events[1])) == EVENTS
    told = next(row for row in rows("## The GitHub App") if row[0] == "Repository permissions")[1]
    assert set(PERMISSIONS[CredentialPurpose.publish]) == {"metadata", "contents", "issues", "pull_requests", "checks"}
    assert told.startswith("Metadata: read. Contents, Issues, Pull requests, Checks: read and write.")


def test_every_command_line_on_the_page_is_one_of_the_program() -> None:
    blocks = re.findall(r"```\n(.*?)```", PAGE, flags=re.DOTALL)
    quoted = [*"\n".join(blocks).splitlines(), *re.findall(r"`([^`\n]+)`", PAGE)]
    found = [re.search(r"(?:^|/bin/)(kernelsmith [^|#>&]*)", line.strip()) for line in quoted]
    commands = [shlex.split(match[1]) for match in found if match]
    assert ["kernelsmith", "work", "--only", "gpu"] in commands
    for command in commands:
        if command[1:] and re.fullmatch(r"[a-z]+", command[1]):
            assert_runs(command)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_of_the_program_with_settings_that_exist(unit: Path) -> None:
    lines = [line.partition("=") for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#")]
    given = [(name, value) for name, _, value in lines]
    assert_runs(shlex.split(dict(given)["ExecStart"]))
    for name, value in given:
        if name == "Environment":
            assert shlex.split(value)[0].partition("=")[0] in fields()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_leaves_the_sandbox_what_it_is_built_from(unit: Path) -> None:
    set_ = {
        line.partition("=")[0] for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#")
    }
    breaking = {"RestrictNamespaces", "SystemCallFilter", "MemoryDenyWriteExecute", "PrivateDevices", "PrivateUsers"}
    assert not set_ & breaking
    assert {"NoNewPrivileges", "ProtectSystem", "CapabilityBoundingSet"} <= set_


def test_compose_runs_commands_of_the_program_with_settings_that_exist() -> None:
    assert set(program_services()) == {"web", "stages", "gpu"}
    for service in program_services().values():
        assert_runs(service["command"])
        assert set(service["environment"]) <= set(fields()) | ALIASES


def test_compose_names_secrets_networks_and_volumes_that_it_defines() -> None:
    whole = compose()
    for service in whole["services"].values():
        assert set(service.get("secrets", ())) <= set(whole["secrets"])
        assert set(service["networks"]) <= set(whole["networks"])
        assert {volume.partition(":")[0] for volume in service.get("volumes", ())} <= set(whole["volumes"])
    named = {Path(secret["file"]).name for secret in whole["secrets"].values()}
    variables = {name for name in named if name.isupper()}
    assert variables <= set(fields()) | ALIASES


def test_only_the_service_holds_credentials_of_github_and_reaches_it() -> None:
    for name, service in program_services().items():
        credentials = {"KERNELSMITH_WEBHOOK_SECRETS", "app.pem"} & set(service["secrets"])
        assert bool(credentials) == ("outside" in service["networks"]) == (name == "web")


def test_the_image_is_built_from_what_is_there() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for group in re.findall(r"'\.\[([a-z,]+)\]'", text):
        assert set(group.split(",")) <= set(extras)
    shown = (ROOT / ".dockerignore").read_text()
    for line in re.findall(r"^COPY (?:--\S+ )?(.*)$", text, flags=re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists()
            assert f"!{source}\n" in shown
    stages = text.split(" AS service\n")[1].split("FROM ")[0]
    assert f"--no-deps -c constraints.txt {PACKAGE}" in stages, "components of it are read where stages run"
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", text, flags=re.MULTILINE))
    built = {service["build"]["target"] for service in program_services().values() if "build" in service}
    assert built <= targets
    assert set(re.findall(r"(KERNELSMITH_\w+)=", text)) <= set(fields())


def test_the_entry_point_gives_secrets_that_are_named_like_variables(tmp_path: Path) -> None:
    (tmp_path / "KERNELSMITH_TOKEN").write_text("a secret with 'quotes' and $signs\n")
    (tmp_path / "app.pem").write_text("a key")
    script = DEPLOY / "docker" / "entrypoint.sh"
    show = "printf %s \"$KERNELSMITH_TOKEN\"; env | grep -c 'a key' || true"
    told = subprocess.run(
        ["sh", str(script), "sh", "-c", show],
        env={"SECRETS_FOLDER": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "a secret with 'quotes' and $signs0\n"


def test_secrets_are_drawn_once_and_fit_each_other(tmp_path: Path) -> None:
    script = tmp_path / "secrets.sh"
    script.write_text((DEPLOY / "compose" / "secrets.sh").read_text())
    for _ in range(2):
        subprocess.run(["sh", str(script)], capture_output=True, check=True)
        found = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    wanted = {Path(secret["file"]).name for secret in compose()["secrets"].values()}
    assert set(found) == wanted - {"app.pem"}
    assert f":{found['postgres_password']}@postgres/" in found["DATABASE_URL"]
    assert len(found["KERNELSMITH_WEBHOOK_SECRETS"]) == 64
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
