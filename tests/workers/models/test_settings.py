"""Providers are configured whole or not at all, and what is wrong is told by the name of the variable."""

from __future__ import annotations

import pytest

from tests.workers.models import anthropic_server, openai_server
from tests.workers.models.kinds import DATA, question
from workers.models.asking import Patience, Surroundings, ask
from workers.models.configured import patience, providers
from workers.models.options import ModelProvider
from workers.settings import Settings, WrongSettingsError, environment_with, load_settings, secret_values

ANTHROPIC = {"ANTHROPIC_API_KEY": "sk-ant-not-a-real-key", "ANTHROPIC_MODEL": "m"}
OPENAI = {"OPENAI_API_KEY": "sk-proj-not-a-real-key", "OPENAI_MODEL": "n"}
LOCAL = {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1", "OPENAI_MODEL": "n"}


def loaded(monkeypatch: pytest.MonkeyPatch, **values: str) -> Settings:
    for name, value in values.items():
        monkeypatch.setenv(f"KERNELSMITH_{name}", value)
    return load_settings()


def wrong(monkeypatch: pytest.MonkeyPatch, **values: str) -> str:
    with pytest.raises(WrongSettingsError) as told:
        loaded(monkeypatch, **values)
    for name, value in values.items():
        assert not name.endswith("_KEY") or value not in str(told.value)
    assert told.value.__cause__ is None
    return str(told.value).removeprefix("a setting cannot be used:\n- ")


def test_without_settings_there_is_no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loaded(monkeypatch, ANTHROPIC_API_KEY="", OPENAI_BASE_URL=" ")
    assert providers(settings) == ()
    assert patience(settings) == Patience()


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (ANTHROPIC, ["anthropic"]),
        (OPENAI, ["openai"]),
        (LOCAL, ["openai"]),
        (ANTHROPIC | OPENAI, ["anthropic", "openai"]),
        (ANTHROPIC | OPENAI | {"MODEL_ORDER": '["openai", "anthropic"]'}, ["openai", "anthropic"]),
        (ANTHROPIC | OPENAI | {"MODEL_ORDER": '["openai"]'}, ["openai"]),
    ],
)
def test_who_is_configured_is_asked_in_the_order(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], order: list[str]
) -> None:
    settings = loaded(monkeypatch, **values)
    found = providers(settings)
    assert [it.name for it in found] == order
    assert {it.name: it.model for it in found}.items() <= {"anthropic": "m", "openai": "n"}.items()
    assert "not-a-real" not in repr(found) + repr([vars(it) for it in found]) + repr(settings)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"ANTHROPIC_API_KEY": "sk-ant-secret"},
            "KERNELSMITH_ANTHROPIC_MODEL is needed with KERNELSMITH_ANTHROPIC_API_KEY: no model has a default",
        ),
        ({"ANTHROPIC_MODEL": "m"}, "KERNELSMITH_ANTHROPIC_API_KEY is needed with KERNELSMITH_ANTHROPIC_MODEL"),
        (
            {"OPENAI_MODEL": "m"},
            "KERNELSMITH_OPENAI_API_KEY is needed with KERNELSMITH_OPENAI_MODEL,"
            " or KERNELSMITH_OPENAI_BASE_URL of a server that takes none",
        ),
        (
            {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"},
            "KERNELSMITH_OPENAI_MODEL is needed with KERNELSMITH_OPENAI_BASE_URL: no model has a default",
        ),
        (
            ANTHROPIC | {"ANTHROPIC_API_KEY": "sk-ant-a b"},
            "KERNELSMITH_ANTHROPIC_API_KEY holds a blank or a letter that no key has",
        ),
        (
            ANTHROPIC | {"MODEL_ORDER": '["openai", "anthropic"]'},
            "KERNELSMITH_MODEL_ORDER names openai, and KERNELSMITH_OPENAI_MODEL is not set",
        ),
        (ANTHROPIC | {"MODEL_ORDER": '["anthropic", "anthropic"]'}, "KERNELSMITH_MODEL_ORDER names a provider twice"),
        (ANTHROPIC | {"MODEL_QUIET_S": "0"}, "KERNELSMITH_MODEL_QUIET_S: Input should be greater than 0"),
    ],
)
def test_half_a_configuration_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], text: str
) -> None:
    assert wrong(monkeypatch, **values) == text


@pytest.mark.parametrize(
    "url",
    ["api.example.org", "ftp://x/v1", "https://user:pw@x/v1", "https://x/v1?key=1", "https:///v1", "http://x:99999"],
)
def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    told = wrong(monkeypatch, **ANTHROPIC, ANTHROPIC_BASE_URL=url)
    assert told.startswith("KERNELSMITH_ANTHROPIC_BASE_URL must be http:// or https:// with a host")
    assert url not in told


def test_a_worker_is_started_with_the_same_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = loaded(monkeypatch, **ANTHROPIC, **LOCAL, MODEL_ORDER='["openai", "anthropic"]')
    environment = environment_with(settings)
    for name in (*ANTHROPIC, *LOCAL, "MODEL_ORDER"):
        monkeypatch.delenv(f"KERNELSMITH_{name}")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert load_settings() == settings
    assert load_settings().model_providers() == (ModelProvider.openai, ModelProvider.anthropic)


def test_what_is_configured_is_what_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    with anthropic_server.anthropic_server() as first, openai_server.openai_server() as second:
        first.next(anthropic_server.error(401, "authentication_error"))
        second.next(openai_server.call("propose", DATA))
        urls = {"ANTHROPIC_BASE_URL": first.base_url, "OPENAI_BASE_URL": second.base_url}
        settings = loaded(monkeypatch, **ANTHROPIC, **OPENAI, **urls)
        found = ask(question(), providers(settings), patience(settings), Surroundings(secrets=secret_values()))
    assert found.answer.provider == "openai"
    assert second.asked[0].headers["authorization"] == f"Bearer {OPENAI['OPENAI_API_KEY']}"
    assert (first.asked[0].body["model"], second.asked[0].body["model"]) == ("m", "n")


def test_the_secrets_of_this_process_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "KERNELSMITH_TOKEN": "a-token-of-the-service",
        "KERNELSMITH_WEBHOOK_SECRETS": "first-secret,second-secret",
        "KERNELSMITH_ANTHROPIC_API_KEY": "sk-ant-x",
        "DATABASE_URL": "postgresql://bot:p%40ss-word@db/x",
        "AWS_SECRET_ACCESS_KEY": "of-the-bucket",
        "KERNELSMITH_PRIVATE_KEY_PATH": "/etc/app.pem",
        "KERNELSMITH_MODEL_TOKENS_PER_JOB": "20000000",
    }.items():
        monkeypatch.setenv(name, value)
    found = set(secret_values())
    wanted = {
        "a-token-of-the-service",
        "first-secret",
        "second-secret",
        "sk-ant-x",
        "p%40ss-word",
        "p@ss-word",
        "of-the-bucket",
    }
    assert wanted <= found
    assert not found & {"/etc/app.pem", "20000000", ""}
