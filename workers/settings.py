"""The one place where the production reads its environment."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from dotenv import dotenv_values
from pydantic import AliasChoices, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from gpu_runner.contracts import Isolation
from workers.errors import WorkersError
from workers.models.budgets import Budget, Scope, Unit
from workers.models.pricing import Price, price_of
from workers.models.settings import ProviderSettings

# A file by this name alone: a `.env` in the working folder may be another's, such as that of a checkout.
ENV_FILE = "KERNELSMITH_ENV_FILE"


def default_data_dir() -> Path:
    """Give ``$XDG_DATA_HOME/kernelsmith``, by default ``~/.local/share/kernelsmith``."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "kernelsmith"


class WrongSettingsError(WorkersError):
    """A variable of the environment has a value that cannot be used; the text names it."""


class Settings(ProviderSettings):
    """Settings of the workers, read from ``KERNELSMITH_*``; ``DATABASE_URL`` and ``REDIS_URL`` also without the prefix."""

    model_config = SettingsConfigDict(env_prefix="KERNELSMITH_", extra="ignore", populate_by_name=True, frozen=True)

    def __init__(self, **values: Any) -> None:
        """Read the environment, and below it the file that KERNELSMITH_ENV_FILE names; no other file is looked for."""
        super().__init__(_env_file=os.environ.get(ENV_FILE), **values)  # type: ignore[call-arg]  # a word of pydantic-settings

    data_dir: Path = Field(default_factory=default_data_dir)
    database_url: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("KERNELSMITH_DATABASE_URL", "DATABASE_URL")
    )
    redis_url: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("KERNELSMITH_REDIS_URL", "REDIS_URL")
    )
    artifacts_url: str | None = None  # an fsspec URL; None: a folder in data_dir
    architecture: str | None = None  # of this GPU host; None: found by asking nvidia-smi
    require_isolation: tuple[Isolation, ...] = ()
    lease_s: float = Field(default=60.0, gt=0)
    reconcile_every_s: float = Field(default=15.0, gt=0)
    renotify_after_s: float = Field(default=60.0, ge=0)
    stage_time_limit_s: float = Field(default=3600.0, gt=60)
    gpu_time_limit_s: float = Field(default=3600.0, gt=60)
    stage_processes: int = Field(default=2, ge=1)
    keep_deliveries_days: float = Field(default=30.0, gt=3)  # GitHub can send a delivery again for three days
    # What language models may use, in dollars where they have prices; a day is one in UTC.
    model_prices: dict[str, Price] = Field(default_factory=dict)
    model_tokens_per_job: int = Field(default=2_000_000, ge=0)
    model_tokens_per_person_day: int = Field(default=5_000_000, ge=0)
    model_tokens_per_repository_day: int = Field(default=10_000_000, ge=0)
    model_tokens_per_installation_day: int = Field(default=20_000_000, ge=0)
    model_dollars_per_job: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    model_dollars_per_person_day: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    model_dollars_per_repository_day: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    model_dollars_per_installation_day: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    log_level: str = "INFO"
    log_json: bool = False

    def database(self) -> str:
        """Give the SQLAlchemy URL; PostgreSQL is spoken to through psycopg."""
        if self.database_url is None:
            return f"sqlite:///{self.data_dir.absolute() / 'kernelsmith.sqlite3'}"
        url = self.database_url.get_secret_value()
        scheme, separator, rest = url.partition("://")
        return f"postgresql+psycopg{separator}{rest}" if scheme in ("postgres", "postgresql") else url

    def broker(self) -> str | None:
        """Give the Celery broker's URL, None where no Redis is configured."""
        if self.redis_url is None:
            return None
        url = self.redis_url.get_secret_value()
        return url.replace("unix://", "redis+socket://", 1) if url.startswith("unix://") else url

    @model_validator(mode="after")
    def _money_has_prices(self) -> Self:
        limits = [budget.setting for budget in self.budgets() if budget.unit is Unit.micro_dollars]
        for provider in self.model_providers() if limits else ():
            if any(price_of(self.model_prices, provider, model) is None for model in self.models_of(provider)):
                # The model's name is not told: somebody may have put a key in its place.
                named = f"the model that {_variable(f'{provider}_model')} names"
                if self.model_purposes:
                    named += ", or one of KERNELSMITH_MODEL_PURPOSES"
                raise ValueError(f"{limits[0]} limits dollars, and KERNELSMITH_MODEL_PRICES has no price for {named}")
        return self

    def budgets(self) -> tuple[Budget, ...]:
        """Give the limits on what language models may use, the tightest scope first."""
        found = []
        for scope in Scope:
            name = scope.value if scope is Scope.job else f"{scope.value}_day"
            tokens, dollars = f"model_tokens_per_{name}", f"model_dollars_per_{name}"
            found.append(Budget(scope, Unit.tokens, getattr(self, tokens), _variable(tokens)))
            limit = getattr(self, dollars)
            if limit is not None:
                found.append(Budget(scope, Unit.micro_dollars, round(limit * 1_000_000), _variable(dollars)))
        return tuple(found)

    def artifacts(self) -> str:
        """Give the fsspec URL of the artifact store."""
        return self.artifacts_url or str(self.data_dir.absolute() / "artifacts")


def load_settings() -> Settings:
    """Read the settings from the environment.

    Raises:
        WrongSettingsError: one of them cannot be used; the text names each, and no value, which may be a secret.
    """
    file = os.environ.get(ENV_FILE)
    if file is not None and not Path(file).is_file():
        raise WrongSettingsError(f"{ENV_FILE} names no file that can be read")
    try:
        return Settings()
    except ValidationError as error:
        items = error.errors(include_input=False, include_url=False)
        # What several settings get wrong together stands at no single one; such a text names them itself.
        problems = [
            f"{_variable(str(item['loc'][0]))}: {_within(item['loc'][1:])}{item['msg']}"
            for item in items
            if item["loc"]
        ]
        problems += [item["msg"].removeprefix("Value error, ") for item in items if not item["loc"]]
        raise WrongSettingsError("a setting cannot be used:\n" + "\n".join(f"- {it}" for it in problems)) from None
    except SettingsError as error:
        raise WrongSettingsError(f"a setting cannot be used: {error}; a list is written as JSON") from None


def _within(place: tuple[int | str, ...]) -> str:
    # A name inside a JSON setting, such as a model's, is the operator's own text; only its last part is a word of ours.
    return f"{place[-1]}: " if len(place) > 1 else ""


def _variable(name: str) -> str:
    return f"KERNELSMITH_{name.upper().removeprefix('KERNELSMITH_')}"


SECRET_NAME = re.compile(r"(?:^|_)(?:TOKEN|SECRETS?|PASSWORD|PASSWD|API_?KEY|PRIVATE_KEY|ACCESS_KEY)$", re.IGNORECASE)


def secret_values() -> tuple[str, ...]:
    """Give every secret that this process's environment and its file hold, its own and others': none may leave for a provider."""
    found: set[str] = set()
    of_file = dotenv_values(os.environ[ENV_FILE]) if ENV_FILE in os.environ else {}
    for name, value in [*os.environ.items(), *((name, value or "") for name, value in of_file.items())]:
        if SECRET_NAME.search(name):
            found.update(part.strip() for part in (value, *value.split(",")))
        if name.upper().endswith(("_URL", "_PROXY")) and "@" in value:
            found.update(_passwords(value))
    return tuple(sorted(found - {""}))


def _passwords(url: str) -> tuple[str, ...]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return ()
    return (password, unquote(password)) if password else ()


def inherited(names: tuple[str, ...]) -> dict[str, str]:
    """Give the named variables of this process's environment, as far as they are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


# What any process of the production gets of this one's environment: where programs, certificates and libraries are. What is not
# named here is not passed on, so that no process holds a secret of another's.
_PLAIN = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR|VIRTUAL_ENV|PYTHON\w*|XDG_\w+|SSL_CERT_(FILE|DIR)|"
    r"(REQUESTS|CURL)_CA_BUNDLE|LD_LIBRARY_PATH|CUDA_\w+|NVIDIA_\w+|TRITON_\w+|\w+_NUM_THREADS|KERNELSMITH_FORK_CHILDREN"
)
_STORES = {
    "s3": "AWS_",
    "s3a": "AWS_",
    "gs": "GOOGLE_",
    "gcs": "GOOGLE_",
    "az": "AZURE_",
    "abfs": "AZURE_",
    "abfss": "AZURE_",
}


def plain_environment() -> dict[str, str]:
    """Give what of this process's environment any program may see: no setting, and nothing that could be a secret."""
    return {name: value for name, value in os.environ.items() if _PLAIN.fullmatch(name)}


def environment_with(settings: Settings, *, asks_models: bool = True) -> dict[str, str]:
    """Give the environment of a process that shall have exactly these settings; without ``asks_models`` no provider's.

    Beyond them it has what any program may see, and what the clients of the database and of the artifact store read by themselves.
    """
    left_out = set() if asks_models else set(ProviderSettings.model_fields)
    # Prices and limits of models are held against the models that are configured.
    left_out |= set() if asks_models else {name for name in Settings.model_fields if name.startswith("model_")}
    own = {
        f"KERNELSMITH_{name.upper()}": _spelled(value)
        for name, value in settings.model_dump().items()
        if value is not None and name not in left_out
    }
    clients = ["FSSPEC_", _STORES.get(settings.artifacts().partition("://")[0], "FSSPEC_")]
    clients += ["PG"] if settings.database_url is not None else []
    more = {name: value for name, value in os.environ.items() if name.startswith(tuple(clients))}
    return plain_environment() | more | own


def _spelled(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value.absolute())
    return json.dumps(value) if isinstance(value, bool | tuple | list | dict) else str(value)
