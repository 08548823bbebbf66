"""The one place where the production reads its environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import unquote, urlsplit

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from gpu_runner.contracts import Isolation
from workers.environment import (
    AZURE,
    ENV_FILE_ENCODING,
    FSSPEC,
    GOOGLE,
    LIBPQ,
    PROXY,
    S3,
    SECRET_NAME,
    any_of,
    env_file,
    plain_environment,
    unparsed_setting,
    wrong_env_file,
)
from workers.errors import WorkersError
from workers.models.ledger import Budget, BudgetScope, BudgetUnit, Price, price_of
from workers.models.settings import ProviderSettings

_SCHEMES = {"database_url": ("postgresql", "postgres", "sqlite"), "redis_url": ("redis", "rediss", "unix")}


def default_data_dir() -> Path:
    """``$XDG_DATA_HOME/kernelsmith``, by default ``~/.local/share/kernelsmith``."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "kernelsmith"


class WrongSettingsError(WorkersError):
    """A variable of the environment has a value that cannot be used; the text names it."""


class Settings(ProviderSettings):
    """Settings of the workers, read from ``KERNELSMITH_*``; ``DATABASE_URL`` and ``REDIS_URL`` also without the prefix."""

    model_config = SettingsConfigDict(
        env_prefix="KERNELSMITH_",
        env_ignore_empty=True,
        extra="ignore",
        populate_by_name=True,
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    def __init__(self, **values: Any) -> None:
        """Read the environment, and below it the file that KERNELSMITH_ENV_FILE names; no other file is looked for."""
        file: dict[str, Any] = {"_env_file": env_file(), "_env_file_encoding": ENV_FILE_ENCODING}
        super().__init__(**file, **values)

    # A shell puts the folder of a user in the place of ~, and systemd and files of settings do not.
    data_dir: Annotated[Path, AfterValidator(Path.expanduser)] = Field(default_factory=default_data_dir)
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
    # How long a checkpoint waits for a person before it is reminded of, once, and before its job ends; 0 is never.
    checkpoint_reminder_days: float = Field(default=7.0, ge=0)
    checkpoint_expiry_days: float = Field(default=30.0, ge=0)
    ascend_python: str | None = None  # of an environment with Triton-Ascend, which lowers what is ported to NPUs
    cutile_python: str | None = (
        None  # of an environment with cuTile, which compiles what is ported to it; None: this one
    )
    cutedsl_python: str | None = None  # likewise of an environment with CuTe DSL
    gpu_dollars_per_hour: float | None = Field(default=None, ge=0)  # for --dry-run alone
    keep_artifacts_days: float = Field(default=90.0, gt=0)  # of a job that has ended and whose pull request is closed
    # What language models may use, in dollars where they have prices; a day is one in UTC.
    model_prices: dict[str, Price] = Field(default_factory=dict)
    model_tokens_per_job: int = Field(default=2_000_000, ge=0)
    model_tokens_per_person_day: int = Field(default=5_000_000, ge=0)
    model_tokens_per_repository_day: int = Field(default=10_000_000, ge=0)
    model_tokens_per_installation_day: int = Field(default=20_000_000, ge=0)
    model_dollars_per_job: float | None = Field(default=None, ge=0)
    model_dollars_per_person_day: float | None = Field(default=None, ge=0)
    model_dollars_per_repository_day: float | None = Field(default=None, ge=0)
    model_dollars_per_installation_day: float | None = Field(default=None, ge=0)
    log_level: str = "INFO"
    log_json: bool = False

    def database(self) -> str:
        """The SQLAlchemy URL; PostgreSQL is spoken to through psycopg."""
        if self.database_url is None:
            return f"sqlite:///{self.data_dir.absolute() / 'kernelsmith.sqlite3'}"
        url = self.database_url.get_secret_value()
        scheme, separator, rest = url.partition("://")
        return f"postgresql+psycopg{separator}{rest}" if scheme in ("postgres", "postgresql") else url

    def broker(self) -> str | None:
        """The Celery broker's URL, None where no Redis is configured."""
        if self.redis_url is None:
            return None
        url = self.redis_url.get_secret_value()
        return url.replace("unix://", "redis+socket://", 1) if url.startswith("unix://") else url

    @field_validator("database_url", "redis_url")
    @classmethod
    def _is_a_known_address(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        known = _SCHEMES[str(info.field_name)]
        scheme = "" if value is None else value.get_secret_value().partition("://")[0].partition("+")[0]
        if value is not None and scheme not in known:
            raise ValueError(f"it must be an address that begins with {', '.join(f'{it}://' for it in known)}")
        return value

    @model_validator(mode="after")
    def _money_has_prices(self) -> Self:
        limits = [budget.setting for budget in self.budgets() if budget.unit is BudgetUnit.micro_dollars]
        for provider in self.model_providers() if limits else ():
            if any(price_of(self.model_prices, provider, model) is None for model in self.models_of(provider)):
                # The model's name is not told: somebody may have put a key in its place.
                named = f"the model that {_variable(f'{provider}_model')} names"
                if self.model_purposes:
                    named += ", or one of KERNELSMITH_MODEL_PURPOSES"
                raise ValueError(f"{limits[0]} limits dollars, and KERNELSMITH_MODEL_PRICES has no price for {named}")
        return self

    def budgets(self) -> tuple[Budget, ...]:
        """The limits on what language models may use, the tightest scope first."""
        rows = []
        for scope in BudgetScope:
            name = scope.value if scope is BudgetScope.job else f"{scope.value}_day"
            tokens, dollars = f"model_tokens_per_{name}", f"model_dollars_per_{name}"
            rows.append(Budget(scope, BudgetUnit.tokens, getattr(self, tokens), _variable(tokens)))
            limit = getattr(self, dollars)
            if limit is not None:
                rows.append(Budget(scope, BudgetUnit.micro_dollars, round(limit * 1_000_000), _variable(dollars)))
        return tuple(rows)

    def secrets(self) -> tuple[str, ...]:
        """Every secret among these settings."""
        values: list[str] = []
        for value in self.model_dump().values():
            text = value.get_secret_value() if isinstance(value, SecretStr) else value
            if isinstance(text, str):
                is_url = "://" in text
                values += _passwords(text) if is_url else [text] if isinstance(value, SecretStr) else []
        return tuple(values)

    def artifacts(self) -> str:
        """The fsspec URL of the artifact store."""
        return self.artifacts_url or str(self.data_dir.absolute() / "artifacts")


def variables() -> frozenset[str]:
    """The names of all variables with these settings that begin with KERNELSMITH_."""
    return frozenset(_variable(name) for name in Settings.model_fields)


def load_settings() -> Settings:
    """Read the settings from the environment.

    Raises:
        WrongSettingsError: one of them cannot be used; the text names each, and no value, which may be a secret.
    """
    if (wrong := wrong_env_file()) is not None:
        raise WrongSettingsError(wrong)
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
        raise WrongSettingsError(f"a setting cannot be used:\n- {unparsed_setting(str(error))}") from None


def _within(place: tuple[int | str, ...]) -> str:
    # A name inside a JSON setting, such as a model's, is the operator's own text; only its last part is a word of ours.
    return f"{place[-1]}: " if len(place) > 1 else ""


def _variable(name: str) -> str:
    return f"KERNELSMITH_{name.upper().removeprefix('KERNELSMITH_')}"


def secret_values() -> tuple[str, ...]:
    """Every secret that this process's environment and its file hold, its own and others': none may leave for a provider."""
    values: set[str] = set()
    file = env_file() if wrong_env_file() is None else None
    of_file = dotenv_values(file, encoding=ENV_FILE_ENCODING) if file is not None else {}
    for name, value in [*os.environ.items(), *((name, value or "") for name, value in of_file.items())]:
        if SECRET_NAME.search(name):
            values.update(part.strip() for part in (value, *value.split(",")))
        values.update(_passwords(f"//{value}" if PROXY.fullmatch(name) and "://" not in value else value))
    return tuple(sorted(values - {""}))


def _passwords(url: str) -> tuple[str, ...]:
    try:
        parts = urlsplit(url) if "//" in url and "@" in url else None
        user, password = (parts.username, parts.password) if parts is not None else (None, None)
    except ValueError:
        return ()
    # One that is the user's name guards nothing, and is a word that occurs: "kernelsmith".
    return (password, unquote(password)) if password and password != user else ()


def inherited(names: tuple[str, ...]) -> dict[str, str]:
    """The named variables of this process's environment, as far as they are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


# By the scheme of an artifact store's URL.
_STORES = {"s3": S3, "s3a": S3, "gs": GOOGLE, "gcs": GOOGLE, "az": AZURE, "abfs": AZURE, "abfss": AZURE}


def environment_with(settings: Settings, *, asks_models: bool = True) -> dict[str, str]:
    """The environment of a process that shall have exactly these settings; without ``asks_models`` no provider's.

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
    store = _STORES.get(settings.artifacts().partition("://")[0])
    clients = [FSSPEC, *filter(None, [store])]
    clients += [PROXY] if store is not None or (asks_models and settings.model_providers()) else []
    clients += [LIBPQ] if settings.database_url is not None else []
    return plain_environment(any_of(*clients)) | own


def _spelled(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value.absolute())
    return json.dumps(value) if isinstance(value, bool | tuple | list | dict) else str(value)
