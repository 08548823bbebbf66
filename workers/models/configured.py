"""The providers that the settings name, in their order."""

from __future__ import annotations

from dataclasses import replace

from workers.models.asking import Patience
from workers.models.exchange import Endpoint
from workers.models.options import ModelProvider, Purpose
from workers.models.protocol import Provider, Question
from workers.models.settings import ProviderSettings


def providers(settings: ProviderSettings, purpose: str = Purpose.default) -> tuple[Provider, ...]:
    """Give the providers that are configured for a purpose, the preferred one first; none where none is configured.

    Raises:
        ExtraMissingError: a provider's package is not installed.
    """
    makers = {ModelProvider.anthropic: _anthropic, ModelProvider.openai: _openai}
    return tuple(makers[name](settings, purpose) for name in settings.model_providers())


def tailored(question: Question, settings: ProviderSettings) -> Question:
    """Give a question with the tokens that the settings have for its purpose."""
    found = settings.purpose(question.purpose)
    return replace(
        question,
        most_tokens=found.answer_tokens or question.most_tokens,
        thinking_tokens=question.thinking_tokens if found.thinking_tokens is None else found.thinking_tokens,
    )


def patience(settings: ProviderSettings) -> Patience:
    """Give how long and how often providers are asked."""
    return Patience(
        most_tries=settings.model_tries,
        longest_wait_s=settings.model_longest_wait_s,
        request_s=settings.model_time_limit_s,
        whole_s=settings.model_whole_time_limit_s,
    )


def _anthropic(settings: ProviderSettings, purpose: str) -> Provider:
    from workers.models.anthropic_provider import BASE_URL, AnthropicProvider

    endpoint = _endpoint(settings, ModelProvider.anthropic, purpose, BASE_URL)
    return AnthropicProvider(endpoint, settings.anthropic_thinking, settings.purpose(purpose).effort)


def _openai(settings: ProviderSettings, purpose: str) -> Provider:
    from workers.models.openai_provider import BASE_URL, OpenAIProvider

    return OpenAIProvider(
        _endpoint(settings, ModelProvider.openai, purpose, BASE_URL),
        protocol=settings.openai_protocol,
        effort=settings.purpose(purpose).effort,
        with_temperature=settings.openai_temperature,
    )


def _endpoint(settings: ProviderSettings, provider: ModelProvider, purpose: str, base_url: str) -> Endpoint:
    return Endpoint(
        provider,
        settings.model_of(provider, purpose),
        getattr(settings, f"{provider}_base_url") or base_url,
        getattr(settings, f"{provider}_api_key"),
        settings.model_connect_s,
        settings.model_quiet_s,
        settings.model_proxy,
    )
