"""Settings: the service starts only with what it needs, and says what is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.settings import ConfigurationError, ServiceSettings, load_settings
from workers.environment import unread_env_file

SECRET = "0123456789abcdef0123456789abcdef"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\n"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KERNELSMITH_"):
            monkeypatch.delenv(name)


def set_all(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"KERNELSMITH_{name.upper()}", value)


def problems() -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    return str(caught.value)


def test_without_anything_every_missing_setting_is_named_with_its_fix() -> None:
    text = problems()
    assert "KERNELSMITH_WEBHOOK_SECRETS" in text
    assert "KERNELSMITH_APP_ID" in text
    assert "KERNELSMITH_TOKEN" in text


def test_a_token_and_a_secret_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, webhook_secrets=SECRET, token="a-token")
    assert load_settings().token_text() == "a-token"


def test_several_secrets_are_given_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, webhook_secrets=f"{SECRET}, {SECRET[::-1]},", token="a-token")
    assert load_settings().secrets() == (SECRET.encode(), SECRET[::-1].encode())


def test_a_secret_that_can_be_guessed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, webhook_secrets=f"{SECRET},hunter2", token="a-token")
    text = problems()
    assert "fewer than 16 characters" in text
    assert "hunter2" not in text


def test_an_app_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, webhook_secrets=SECRET, app_id="7")
    assert "KERNELSMITH_PRIVATE_KEY_PATH" in problems()


def test_a_key_is_read_from_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "app.pem"
    path.write_text(KEY)
    set_all(monkeypatch, webhook_secrets=SECRET, app_id="7", private_key_path=str(path))
    assert load_settings().private_key_text() == KEY


def test_a_key_in_the_environment_may_have_its_line_ends_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, webhook_secrets=SECRET, app_id="7", private_key=KEY.replace("\n", "\\n"))
    assert load_settings().private_key_text() == KEY


@pytest.mark.parametrize("content", [None, "not a key"])
def test_a_key_that_is_not_there_or_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "app.pem"
    if content is not None:
        path.write_text(content)
    set_all(monkeypatch, webhook_secrets=SECRET, app_id="7", private_key_path=str(path))
    assert "private key" in problems()


def test_credentials_do_not_travel_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, webhook_secrets=SECRET, token="a-token", api_url="http://github.example.org/api/v3")
    assert "use https" in problems()


def test_http_is_fine_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, webhook_secrets=SECRET, token="a-token", api_url="http://127.0.0.1:9999/api/v3/")
    assert load_settings().api_url == "http://127.0.0.1:9999/api/v3"


@pytest.mark.parametrize(
    "reached",
    [
        {"host": "0.0.0.0"},
        {"host": "10.0.0.7"},
        {"host": "::"},
        {"host": "::ffff:0.0.0.0"},
        {"host": "localhost.example.org"},
        {"host": "unix:/run/kernelsmith.sock"},
        {"public_url": "https://kernels.example.org"},
        {"public_url": "http://127.0.0.1@kernels.example.org"},
    ],
)
def test_pages_that_others_reach_need_a_password_or_a_word(
    monkeypatch: pytest.MonkeyPatch, reached: dict[str, str]
) -> None:
    set_all(monkeypatch, webhook_secrets=SECRET, token="a-token", **reached)
    text = problems()
    assert "KERNELSMITH_PAGES_PASSWORD" in text
    assert f"KERNELSMITH_{next(iter(reached)).upper()} is not of this machine alone" in text
    set_all(monkeypatch, webhook_secrets=SECRET, token="a-token", pages_open="true", **reached)
    assert load_settings().pages_open
    set_all(
        monkeypatch,
        webhook_secrets=SECRET,
        token="a-token",
        pages_open="false",
        pages_password="long enough",
        **reached,
    )
    assert load_settings().pages_password is not None


def test_secrets_never_print(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, webhook_secrets=SECRET, token="a-token-of-the-bot", pages_password="a-password")
    settings = load_settings()
    shown = f"{settings} {settings!r} {settings.model_dump_json()}"
    assert not any(secret in shown for secret in (SECRET, "a-token-of-the-bot", "a-password"))


def test_a_malformed_setting_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, webhook_secrets=SECRET, token="a-token", app_id="seven", public_url="kernels.example.org")
    text = problems()
    assert "KERNELSMITH_APP_ID" in text
    assert "KERNELSMITH_PUBLIC_URL" in text
    assert "seven" not in text


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("REPOSITORIES", "octo/kernels", "KERNELSMITH_REPOSITORIES is no JSON: a list is written as"),
        ("POLL_S", "inf", "KERNELSMITH_POLL_S: Input should be a finite number"),
    ],
)
def test_a_list_without_brackets_and_a_time_without_end_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv(f"KERNELSMITH_{name}", value)
    with pytest.raises(ConfigurationError) as refused:
        load_settings()
    assert told in str(refused.value)
    assert value == "inf" or value not in str(refused.value)


def test_values_can_be_given_without_the_environment() -> None:
    assert ServiceSettings(token=None, publisher_threads=0).problems() != ()


@pytest.mark.parametrize("password", ["schön genug", "changeme\n", "   ", "hunter2", "x         "])
def test_a_password_that_browsers_cannot_send_alike_or_that_can_be_guessed_is_refused(
    monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    set_all(monkeypatch, webhook_secrets=SECRET, token="a-token-of-the-bot", pages_password=password)
    with pytest.raises(ConfigurationError, match="KERNELSMITH_PAGES_PASSWORD"):
        load_settings()


def test_an_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(
        monkeypatch,
        webhook_secrets=SECRET,
        token="a-token",
        app_id="",
        host="",
        port="",
        pages_password="",
        log_level="",
    )
    assert load_settings() == ServiceSettings(webhook_secrets=SECRET, token="a-token")


def test_the_services_settings_may_stand_in_the_file_that_is_named_and_in_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = f"KERNELSMITH_WEBHOOK_SECRETS={'s' * 20}\nexport KERNELSMITH_TOKEN='a-token'\nKERNELSMITH_PORT=8123\n"
    (tmp_path / ".env").write_text(lines)
    with pytest.raises(ConfigurationError, match="no webhook secret"):
        load_settings()
    assert "KERNELSMITH_ENV_FILE=.env" in (unread_env_file() or "")
    monkeypatch.setenv("KERNELSMITH_ENV_FILE", ".env")
    monkeypatch.setenv("KERNELSMITH_PORT", "8124")
    assert (load_settings().token_text(), load_settings().port) == ("a-token", 8124)
    assert unread_env_file() is None
    monkeypatch.setenv("KERNELSMITH_ENV_FILE", "/nowhere/kernelsmith.env")
    with pytest.raises(ConfigurationError, match="KERNELSMITH_ENV_FILE names no file"):
        load_settings()


@pytest.mark.parametrize("content", [b"PATH=/x\n", b"\xff\xfe\x00", None])
def test_a_file_of_others_is_not_spoken_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / ".env").write_bytes(content)
    assert unread_env_file() is None
