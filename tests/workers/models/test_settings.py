"""Providers are configured whole or not at all, and what is wrong is told by the name of the variable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.workers.models import anthropic_server, openai_server
from tests.workers.models.kinds import DATA, question
from workers.authors.llm.protocol import Task
from workers.models.asking import AskContext, RetryPolicy, ask
from workers.models.settings import ModelProvider, Purpose, installed, providers, retry_policy
from workers.settings import Settings, WrongSettingsError, environment_with, load_settings, secret_values

ANTHROPIC = {"ANTHROPIC_API_KEY": "sk-ant-not-a-real-key", "ANTHROPIC_MODEL": "m"}
OPENAI = {"OPENAI_API_KEY": "sk-proj-not-a-real-key", "OPENAI_MODEL": "n"}
PRICE_OF_M = '{"m": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}}'
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
    assert retry_policy(settings) == RetryPolicy()


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


def test_a_header_for_the_key_is_a_name_and_wants_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    told = wrong(monkeypatch, **LOCAL, OPENAI_KEY_HEADER="api-key")
    assert told.startswith("KERNELSMITH_OPENAI_API_KEY is needed with KERNELSMITH_OPENAI_KEY_HEADER")
    told = wrong(monkeypatch, **OPENAI, OPENAI_KEY_HEADER="api key: x")
    assert told.startswith("KERNELSMITH_OPENAI_KEY_HEADER must be the name of a header")
    settings = loaded(monkeypatch, **OPENAI, OPENAI_KEY_HEADER="", OPENAI_QUERY='{"api-version": "2024-10-21"}')
    assert (settings.openai_key_header, settings.openai_query) == (None, {"api-version": "2024-10-21"})


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
        found = ask(question(), providers(settings), retry_policy(settings), AskContext(secrets=secret_values()))
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


PURPOSES = """{
    "default": {"effort": "medium", "thinking_tokens": 9000},
    "generate": {"anthropic_model": "large", "effort": "high", "answer_tokens": 20000}
}"""


def test_model_effort_and_tokens_are_set_for_each_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    with anthropic_server.anthropic_server() as server:
        server.next(*[anthropic_server.call("propose", DATA)] * 2)
        settings = loaded(monkeypatch, **ANTHROPIC, MODEL_PURPOSES=PURPOSES, ANTHROPIC_BASE_URL=server.base_url)
        models = installed(settings, ())
        for purpose in ("generate", "diagnose"):
            asked = models.prepare(replace(question(), purpose=purpose, most_tokens=32_000, thinking_tokens=12_000))
            models.ask(asked, models.providers_for(asked), lambda: False)
    generate, diagnose = (asked.body for asked in server.asked)
    assert (generate["model"], generate["max_tokens"], generate["output_config"]) == (
        "large",
        29_000,
        {"effort": "high"},
    )
    assert (diagnose["model"], diagnose["max_tokens"], diagnose["output_config"]) == ("m", 41_000, {"effort": "medium"})


def test_purposes_are_those_of_the_model_author() -> None:
    assert set(Purpose) - {Purpose.default} == set(Task)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"MODEL_PURPOSES": '{"invent": {}}'}, "KERNELSMITH_MODEL_PURPOSES: "),
        ({"MODEL_PURPOSES": '{"repair": {"effort": "most"}}'}, "KERNELSMITH_MODEL_PURPOSES: effort: "),
        ({"MODEL_PURPOSES": '{"repair": {"answer_tokens": 3}}'}, "KERNELSMITH_MODEL_PURPOSES: answer_tokens: "),
        (
            {"MODEL_PURPOSES": '{"repair": {"openai_model": "n"}}'},
            "KERNELSMITH_MODEL_PURPOSES names openai_model for repair, and KERNELSMITH_OPENAI_MODEL is not set",
        ),
        (
            {"MODEL_PROXY": "socks5://u:secret-word@x"},
            "KERNELSMITH_MODEL_PROXY must be http:// or https:// with a host",
        ),
        (
            {"MODEL_PURPOSES": PURPOSES, "MODEL_DOLLARS_PER_JOB": "1", "MODEL_PRICES": PRICE_OF_M},
            "KERNELSMITH_MODEL_DOLLARS_PER_JOB limits dollars, and KERNELSMITH_MODEL_PRICES has no price for",
        ),
    ],
)
def test_purpose_or_proxy_that_cannot_be_is_named(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], text: str
) -> None:
    told = wrong(monkeypatch, **ANTHROPIC, **values)
    assert told.startswith(text)
    assert "secret-word" not in told


def test_settings_may_stand_in_a_file_that_is_named_and_in_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("KERNELSMITH_ANTHROPIC_BASE_URL=http://of.a.checkout\n")
    named = tmp_path / "kernelsmith.env"
    named.write_text('KERNELSMITH_ANTHROPIC_API_KEY="sk-ant-in-a-file"\nKERNELSMITH_ANTHROPIC_MODEL=of-the-file\n')
    assert loaded(monkeypatch).anthropic_base_url is None
    settings = loaded(monkeypatch, ENV_FILE=str(named), ANTHROPIC_MODEL="of-the-environment")
    assert (settings.anthropic_model, settings.anthropic_base_url) == ("of-the-environment", None)
    assert settings.anthropic_api_key is not None
    assert "sk-ant-in-a-file" in secret_values(), "it is taken out of what is asked"
    assert "sk-ant-in-a-file" in environment_with(settings).values(), "processes that are started get it"


def test_file_of_settings_may_begin_with_a_mark_and_is_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = tmp_path / "kernelsmith.env"
    named.write_bytes(b"\xef\xbb\xbfKERNELSMITH_OPENAI_API_KEY=a-key-in-a-file\r\nKERNELSMITH_OPENAI_MODEL=m\r\n")
    settings = loaded(monkeypatch, ENV_FILE=str(named))
    assert (settings.openai_api_key, settings.openai_model) == (SecretStr("a-key-in-a-file"), "m")
    assert "a-key-in-a-file" in secret_values()
    named.write_bytes(b"# caf\xe9\nKERNELSMITH_OPENAI_MODEL=m\n")
    assert "no UTF-8 text from byte 5 on" in wrong(monkeypatch, ENV_FILE=str(named))


def test_folder_of_a_user_is_meant_by_its_sign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert loaded(monkeypatch, DATA_DIR="~/state").data_dir == tmp_path / "state"


def test_file_of_settings_that_is_not_there_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "KERNELSMITH_ENV_FILE names no file" in wrong(monkeypatch, ENV_FILE="/nowhere/kernelsmith.env")
