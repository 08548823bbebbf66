"""The settings on language models, a part of the workers' settings, and the models that they configure. No model has a default."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings
from requests.utils import get_environ_proxies, select_proxy

from workers.models.asking import AskContext, RetryPolicy
from workers.models.asking import ask as ask_patiently
from workers.models.ledger import Models
from workers.models.protocol import Answer, Endpoint, Provider, Question, redacted_question


class ModelProvider(StrEnum):
    """Who may be asked."""

    anthropic = "anthropic"
    openai = "openai"  # and every server that speaks the same protocol


class Thinking(StrEnum):
    """How thinking is enabled on an Anthropic model, which differs between generations."""

    adaptive = "adaptive"  # current models: the model decides how much
    budget = "budget"  # models before: a number of tokens
    always = "always"  # models that think whatever they are told, and so take no forced tool
    none = "none"  # models that cannot think, and servers that do not know the parameter


class Effort(StrEnum):
    """How much a model thinks, for models with an effort setting."""

    none = "none"
    minimal = "minimal"
    low = "low"
    medium = "medium"
    high = "high"
    xhigh = "xhigh"
    max = "max"


class OpenAIProtocol(StrEnum):
    """Which of OpenAI's protocols a server is asked by."""

    chat = "chat"  # chat completions, which most servers speak
    responses = "responses"  # newer: for models of OpenAI that think


class Purpose(StrEnum):
    """What a question is for: the tasks of the model author, and ``default`` for those that are not named."""

    default = "default"
    analyze = "analyze"
    generate = "generate"
    repair = "repair"
    revise = "revise"
    modify = "modify"
    diagnose = "diagnose"
    optimize = "optimize"
    extract = "extract"
    compose = "compose"


def _none_if_empty(value: object) -> object:
    """An empty variable counts as unset: compose files pass such on."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    return None if isinstance(text, str) and not text.strip() else value


Key = Annotated[SecretStr | None, BeforeValidator(_none_if_empty)]
Text = Annotated[str | None, BeforeValidator(_none_if_empty)]


class PurposeSettings(BaseModel):
    """What is other for questions of one purpose; what is None is as for all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    anthropic_model: Text = None
    openai_model: Text = None
    effort: Effort | None = None
    answer_tokens: int | None = Field(default=None, ge=1000)
    thinking_tokens: int | None = Field(default=None, ge=0)


class ProviderSettings(BaseSettings):
    """Who is asked, in which order, and for how long."""

    anthropic_api_key: Key = None
    anthropic_model: Text = None
    anthropic_base_url: Text = None  # None: Anthropic's own
    anthropic_thinking: Thinking = Thinking.adaptive
    openai_api_key: Key = None
    openai_model: Text = None
    openai_base_url: Text = None  # None: OpenAI's own
    openai_protocol: OpenAIProtocol = OpenAIProtocol.chat
    openai_key_header: Text = None  # None: Authorization, as a bearer; `api-key` at Azure
    openai_query: dict[str, str] = Field(default_factory=dict)  # of every address; `api-version` at Azure
    openai_temperature: bool = True  # False for models that take none
    model_elsewhere: bool = False  # of a process without keys: the installation's stages have them
    model_order: tuple[ModelProvider, ...] = ()  # empty: all that are configured, Anthropic first
    model_purposes: dict[Purpose, PurposeSettings] = Field(default_factory=dict)
    model_proxy: Key = None  # None: that of the environment
    model_connect_s: float = Field(default=10.0, gt=0)
    model_quiet_s: float = Field(default=120.0, gt=0)  # without any byte
    model_time_limit_s: float = Field(default=600.0, gt=0)  # of one request
    model_whole_time_limit_s: float = Field(
        default=1800.0, gt=0
    )  # of a question, with its tries, waits and other providers
    model_tries: int = Field(default=4, ge=1)  # of one provider
    model_longest_wait_s: float = Field(default=60.0, ge=0)

    @model_validator(mode="after")
    def _are_whole(self) -> Self:
        wrong = [
            *_half("ANTHROPIC", self.anthropic_model, self.anthropic_api_key, self.anthropic_base_url, local=False),
            *_half("OPENAI", self.openai_model, self.openai_api_key, self.openai_base_url, local=True),
            *_header(self.openai_key_header, self.openai_api_key),
            *_order(self.model_order, self._configured()),
            *_proxy(self.model_proxy),
            *_proxies_of_environment(self),
            *_purposes(self.model_purposes, self._configured()),
        ]
        if wrong:
            # No value may stand in it: the text is printed.
            raise ValueError("; ".join(wrong))
        return self

    def model_providers(self) -> tuple[ModelProvider, ...]:
        """The providers that are configured, the preferred one first."""
        return self.model_order or self._configured()

    def purpose(self, name: str) -> PurposeSettings:
        """What is set for a purpose, what is set for it itself before what is set by default."""
        named = {purpose.value: chosen for purpose, chosen in self.model_purposes.items()}
        chosen = [named[key].model_dump(exclude_none=True) for key in ("default", name) if key in named]
        return PurposeSettings(**{key: value for each in chosen for key, value in each.items()})

    def model_of(self, provider: ModelProvider, purpose: str) -> str:
        """The name of the model that a provider is asked for."""
        own: str | None = getattr(self.purpose(purpose), f"{provider}_model")
        return own or getattr(self, f"{provider}_model") or ""

    def models_of(self, provider: ModelProvider) -> tuple[str, ...]:
        """Every model that a provider may be asked for."""
        return tuple(dict.fromkeys(self.model_of(provider, purpose) for purpose in Purpose))

    def _configured(self) -> tuple[ModelProvider, ...]:
        names = {ModelProvider.anthropic: self.anthropic_model, ModelProvider.openai: self.openai_model}
        return tuple(provider for provider, model in names.items() if model)


def _half(name: str, model: str | None, key: SecretStr | None, base_url: str | None, *, local: bool) -> list[str]:
    start = f"KERNELSMITH_{name}"
    others = [f"{start}_API_KEY"] * (key is not None) + [f"{start}_BASE_URL"] * (base_url is not None)
    if model is None:
        return [f"{start}_MODEL is needed with {' and '.join(others)}: no model has a default"] if others else []
    wrong = []
    if key is None and not (local and base_url):
        fix = f", or {start}_BASE_URL of a server that takes none" if local else ""
        wrong.append(f"{start}_API_KEY is needed with {start}_MODEL{fix}")
    if key is not None and not re.fullmatch(r"[!-~]+", key.get_secret_value()):
        wrong.append(f"{start}_API_KEY holds a blank or a letter that no key has")
    if base_url is not None and not _is_address(base_url):
        wrong.append(f"{start}_BASE_URL must be http:// or https:// with a host, without a user, a password or a query")
    return wrong


def _header(name: str | None, key: SecretStr | None) -> list[str]:
    if name is None:
        return []
    if key is None:
        return ["KERNELSMITH_OPENAI_API_KEY is needed with KERNELSMITH_OPENAI_KEY_HEADER"]
    fits = re.fullmatch(r"[A-Za-z0-9-]+", name)
    return [] if fits else ["KERNELSMITH_OPENAI_KEY_HEADER must be the name of a header, such as api-key"]


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    fits = parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
    return fits and "@" not in parts.netloc and not parts.query and not parts.fragment


def _proxy(proxy: SecretStr | None) -> list[str]:
    if proxy is None:
        return []
    try:
        parts = urlsplit(proxy.get_secret_value())
        fits = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.path in ("", "/")
        )
    except ValueError:
        fits = False
    return (
        [] if fits else ["KERNELSMITH_MODEL_PROXY must be http:// or https:// with a host, such as http://proxy:3128"]
    )


def proxy_for(settings: ProviderSettings, base_url: str) -> SecretStr | None:
    """The proxy on the way to a provider: the configured one, else the environment's, as its other clients take it."""
    if settings.model_proxy is not None:
        return settings.model_proxy
    found = select_proxy(base_url, get_environ_proxies(base_url))
    return SecretStr(found if "://" in found else f"http://{found}") if found else None


def _proxies_of_environment(settings: ProviderSettings) -> list[str]:
    urls = [
        getattr(settings, f"{provider}_base_url") or f"https://api.{provider}.com"
        for provider in settings.model_providers()
    ]
    return [
        f"the proxy of the environment for {urlsplit(url).scheme}:// addresses cannot be used for language models: "
        "KERNELSMITH_MODEL_PROXY names another, and NO_PROXY the hosts that need none"
        for url in dict.fromkeys(urls)
        if _is_address(url) and _proxy(proxy_for(settings, url))
    ]


def _purposes(purposes: dict[Purpose, PurposeSettings], configured: tuple[ModelProvider, ...]) -> list[str]:
    return [
        f"KERNELSMITH_MODEL_PURPOSES names {provider}_model for {purpose}, and KERNELSMITH_{provider.upper()}_MODEL is not set"
        for purpose, chosen in purposes.items()
        for provider in ModelProvider
        if getattr(chosen, f"{provider}_model") and provider not in configured
    ]


def _order(order: tuple[ModelProvider, ...], configured: tuple[ModelProvider, ...]) -> list[str]:
    wrong = []
    if len(set(order)) != len(order):
        wrong.append("KERNELSMITH_MODEL_ORDER names a provider twice")
    wrong += [
        f"KERNELSMITH_MODEL_ORDER names {each}, and KERNELSMITH_{each.upper()}_MODEL is not set"
        for each in dict.fromkeys(order)
        if each not in configured
    ]
    return wrong


def providers(settings: ProviderSettings, purpose: str = Purpose.default) -> tuple[Provider, ...]:
    """The providers that are configured for a purpose, the preferred one first; none where none is configured.

    Raises:
        ExtraMissingError: a provider's package is not installed.
    """
    makers = {ModelProvider.anthropic: _anthropic, ModelProvider.openai: _openai}
    return tuple(makers[name](settings, purpose) for name in settings.model_providers())


def tailored(question: Question, settings: ProviderSettings) -> Question:
    """A question with the tokens that the settings have for its purpose."""
    chosen = settings.purpose(question.purpose)
    return replace(
        question,
        most_tokens=chosen.answer_tokens or question.most_tokens,
        thinking_tokens=question.thinking_tokens if chosen.thinking_tokens is None else chosen.thinking_tokens,
    )


def retry_policy(settings: ProviderSettings) -> RetryPolicy:
    """How long and how often providers are asked."""
    return RetryPolicy(
        most_tries=settings.model_tries,
        longest_wait_s=settings.model_longest_wait_s,
        request_s=settings.model_time_limit_s,
        whole_s=settings.model_whole_time_limit_s,
    )


def _anthropic(settings: ProviderSettings, purpose: str) -> Provider:
    from workers.models.anthropic_api import BASE_URL, AnthropicProvider

    endpoint = _endpoint(settings, ModelProvider.anthropic, purpose, BASE_URL)
    return AnthropicProvider(endpoint, settings.anthropic_thinking, settings.purpose(purpose).effort)


def _openai(settings: ProviderSettings, purpose: str) -> Provider:
    from workers.models.openai_api import BASE_URL, OpenAIProvider

    return OpenAIProvider(
        _endpoint(settings, ModelProvider.openai, purpose, BASE_URL),
        protocol=settings.openai_protocol,
        effort=settings.purpose(purpose).effort,
        with_temperature=settings.openai_temperature,
        key_header=settings.openai_key_header,
        query=settings.openai_query,
    )


def _endpoint(settings: ProviderSettings, provider: ModelProvider, purpose: str, base_url: str) -> Endpoint:
    return Endpoint(
        provider,
        settings.model_of(provider, purpose),
        getattr(settings, f"{provider}_base_url") or base_url,
        getattr(settings, f"{provider}_api_key"),
        settings.model_connect_s,
        settings.model_quiet_s,
        proxy_for(settings, getattr(settings, f"{provider}_base_url") or base_url),
    )


def installed(settings: ProviderSettings, secrets: tuple[str, ...]) -> Models:
    """The configured models; ``secrets`` are taken out of whatever is asked before it is sent or kept.

    Raises:
        ExtraMissingError: a provider's package is not installed.
    """
    limits = retry_policy(settings)

    def ask(question: Question, providers: Sequence[Provider], cancelled: Callable[[], bool]) -> Answer:
        return ask_patiently(question, providers, limits, AskContext(cancelled=cancelled, secrets=secrets)).answer

    def prepare(question: Question) -> Question:
        return redacted_question(tailored(question, settings), secrets).question

    own = {purpose.value: providers(settings, purpose) for purpose in settings.model_purposes}
    return Models(providers(settings), ask, prepare, by_purpose=own)
