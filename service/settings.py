"""The service's settings: the one place of this room that reads the environment, always as KERNELSMITH_*."""

from __future__ import annotations

import urllib.parse
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from service.addresses import is_loopback
from workers.environment import ENV_FILE_ENCODING, env_file, unparsed_setting, wrong_env_file

SHORTEST_SECRET = 16
SHORTEST_PASSWORD = 8


class ConfigurationError(Exception):
    """The service cannot start, or a command cannot be carried out; the text lists what is missing and how to set it."""

    def __init__(self, problems: tuple[str, ...], stopped: str = "the service cannot start") -> None:
        super().__init__(f"{stopped}:\n" + "\n".join(f"- {problem}" for problem in problems))
        self.problems = problems


class ServiceSettings(BaseSettings):
    """What can be set. Secrets never print."""

    model_config = SettingsConfigDict(
        env_prefix="KERNELSMITH_", env_ignore_empty=True, extra="ignore", hide_input_in_errors=True, allow_inf_nan=False
    )

    webhook_secrets: Annotated[tuple[SecretStr, ...], NoDecode] = ()  # separated by commas; all are valid at once
    app_id: int | None = None
    private_key: SecretStr | None = None  # of the App, in PEM form
    private_key_path: Annotated[Path, AfterValidator(Path.expanduser)] | None = None
    token: SecretStr | None = None  # instead of an App
    repositories: tuple[str, ...] = ()  # owner/name: read for missed comments even before the bot has had a job there
    api_url: str = "https://api.github.com"
    html_url: str = "https://github.com"
    public_url: str = "http://127.0.0.1:8000"
    bot_login: str | None = None  # asked of GitHub where it is not set
    pages_password: SecretStr | None = None  # of the pages, by HTTP basic authentication, any user name
    pages_open: bool = False  # without a password although others reach them: something else asks who comes

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    publisher_threads: int = Field(default=2, ge=0, le=32)
    delivery_threads: int = Field(default=2, ge=0, le=32)
    poll_s: float = Field(default=1.0, gt=0)  # how often is looked for work that nothing announced
    publish_lease_s: float = Field(
        default=60.0, ge=1, le=3600
    )  # how long an update is held before another thread may take it
    delivery_lease_s: float = Field(
        default=180.0, ge=1, le=3600
    )  # the same of a delivery, which may fetch a whole repository
    snapshot_limit_mib: int = Field(default=128, ge=1)
    log_level: str = "INFO"

    @field_validator("webhook_secrets", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("api_url", "html_url", "public_url")
    @classmethod
    def _without_slash(cls, value: str) -> str:
        parts = urllib.parse.urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("it must be an address such as https://example.org")
        return value.rstrip("/")

    def all_secrets(self) -> tuple[str, ...]:
        """Every secret among these settings."""
        held = (*self.webhook_secrets, self.pages_password, self.private_key, self.token)
        secrets = [secret.get_secret_value() for secret in held if secret is not None]
        return (*secrets, self.private_key_text() or "")

    def secrets(self) -> tuple[bytes, ...]:
        """The webhook secrets as they key the signature."""
        return tuple(secret.get_secret_value().encode() for secret in self.webhook_secrets)

    def private_key_text(self) -> str | None:
        """The App's private key; one in the environment may hold ``\\n`` instead of line ends."""
        if self.private_key is not None:
            return self.private_key.get_secret_value().replace("\\n", "\n")
        return self.private_key_path.read_text() if self.private_key_path is not None else None

    def token_text(self) -> str | None:
        """The plain token."""
        return self.token.get_secret_value() if self.token is not None else None

    def is_local(self) -> bool:
        """Whether the pages are for this machine only."""
        return is_loopback(urllib.parse.urlsplit(self.public_url).hostname or "")

    def problems(self) -> tuple[str, ...]:
        """What keeps the service from starting, each with the fix."""
        return (
            *self._secret_problems(),
            *self.credential_problems(),
            *self._address_problems(),
            *self._page_problems(),
        )

    def _secret_problems(self) -> list[str]:
        if not self.webhook_secrets:
            return ["no webhook secret: set KERNELSMITH_WEBHOOK_SECRETS to the secret of the webhook at GitHub"]
        if any(len(secret) < SHORTEST_SECRET for secret in self.secrets()):
            return [
                f"a webhook secret has fewer than {SHORTEST_SECRET} characters: anybody could guess it; "
                "set KERNELSMITH_WEBHOOK_SECRETS to a long random one, such as `openssl rand -hex 32` prints"
            ]
        return []

    def credential_problems(self) -> list[str]:
        """What the credentials lack, each with the fix."""
        has_key = self.private_key is not None or self.private_key_path is not None
        if self.app_id is None and not has_key:
            if self.token is not None:
                return []
            return [
                "no GitHub credentials: set KERNELSMITH_APP_ID and KERNELSMITH_PRIVATE_KEY_PATH (a GitHub App), "
                "or KERNELSMITH_TOKEN (a plain token)"
            ]
        if self.app_id is None:
            return ["a private key without an App: set KERNELSMITH_APP_ID to the App's number"]
        if not has_key:
            return ["an App without its key: set KERNELSMITH_PRIVATE_KEY_PATH to the App's private key, a PEM file"]
        try:
            text = self.private_key_text() or ""
        except (OSError, UnicodeDecodeError) as error:
            return [f"the private key cannot be read ({type(error).__name__}): check KERNELSMITH_PRIVATE_KEY_PATH"]
        if "PRIVATE KEY" not in text:
            return ["the private key is not in PEM form: it starts with -----BEGIN RSA PRIVATE KEY-----"]
        return []

    def _address_problems(self) -> list[str]:
        parts = urllib.parse.urlsplit(self.api_url)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            return ["KERNELSMITH_API_URL is http: credentials would travel in the clear; use https"]
        return []

    def _page_problems(self) -> list[str]:
        if self.pages_password is not None:
            password = self.pages_password.get_secret_value()
            if not (password.isascii() and password.isprintable()):
                return [
                    "KERNELSMITH_PAGES_PASSWORD has a line end or letters beyond ASCII, which browsers do not send alike"
                ]
            if len(password.strip()) < SHORTEST_PASSWORD:
                return [
                    f"KERNELSMITH_PAGES_PASSWORD has fewer than {SHORTEST_PASSWORD} characters: anybody could guess it"
                ]
        if self.pages_password is not None or self.pages_open or (self.is_local() and is_loopback(self.host)):
            return []
        name = "PUBLIC_URL" if is_loopback(self.host) else "HOST"
        return [
            f"KERNELSMITH_{name} is not of this machine alone, and anybody who reaches it could read the pages of every job: "
            "set KERNELSMITH_PAGES_PASSWORD (KERNELSMITH_PAGES_OPEN=true where something in front of them asks who comes)"
        ]


def load_settings() -> ServiceSettings:
    """Read the settings from the environment, and below it from the file that KERNELSMITH_ENV_FILE names.

    Raises:
        ConfigurationError: something is missing or wrong; every problem is listed.
    """
    return checked(_read())


def load_credentials() -> ServiceSettings:
    """Read the settings as ``load_settings`` does, for a command that needs nothing but GitHub's credentials.

    Raises:
        ConfigurationError: they are missing, or a setting is wrong.
    """
    settings = _read()
    problems = settings.credential_problems()
    if problems:
        raise ConfigurationError(tuple(problems), "GitHub cannot be asked")
    return settings


def variables() -> frozenset[str]:
    """The names of all variables with settings, the workers' too."""
    from workers import embedded

    return embedded.variables() | {f"KERNELSMITH_{name.upper()}" for name in ServiceSettings.model_fields}


def _read() -> ServiceSettings:
    if (wrong := wrong_env_file()) is not None:
        raise ConfigurationError((wrong,))
    try:
        file: dict[str, Any] = {"_env_file": env_file(), "_env_file_encoding": ENV_FILE_ENCODING}
        return ServiceSettings(**file)
    except ValidationError as error:
        problems = tuple(
            f"KERNELSMITH_{'_'.join(str(part) for part in item['loc'][:1]).upper()}: {item['msg']}"
            for item in error.errors(include_input=False, include_url=False)
        )
        raise ConfigurationError(problems) from None
    except SettingsError as error:
        raise ConfigurationError((unparsed_setting(str(error)),)) from None


def checked(settings: ServiceSettings) -> ServiceSettings:
    """Settings with which the service may start.

    Raises:
        ConfigurationError: it may not; every problem is listed.
    """
    problems = settings.problems()
    if problems:
        raise ConfigurationError(problems)
    return settings
