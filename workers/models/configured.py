"""The providers that the settings name, in their order."""

from __future__ import annotations

from workers.models.asking import Patience
from workers.models.exchange import Endpoint
from workers.models.options import ModelProvider
from workers.models.protocol import Provider
from workers.models.settings import ProviderSettings


def providers(settings: ProviderSettings) -> tuple[Provider, ...]:
    """Give the configured providers, the preferred one first; none where none is configured.

    Raises:
        ExtraMissingError: a provider's package is not installed.
    """
    makers = {ModelProvider.anthropic: _anthropic, ModelProvider.openai: _openai}
    return tuple(makers[name](settings) for name in settings.model_providers())


def patience(settings: ProviderSettings) -> Patience:
    """Give how long and how often providers are asked."""
    return Patience(
        most_tries=settings.model_tries,
        longest_wait_s=settings.model_longest_wait_s,
        request_s=settings.model_time_limit_s,
        whole_s=settings.model_whole_time_limit_s,
    )


def _anthropic(settings: ProviderSettings) -> Provider:
    from workers.models.anthropic_provider import BASE_URL, AnthropicProvider

    endpoint = Endpoint(
        ModelProvider.anthropic,
        settings.anthropic_model or "",
        settings.anthropic_base_url or BASE_URL,
        settings.anthropic_api_key,
        settings.model_connect_s,
        settings.model_quiet_s,
    )
    return AnthropicProvider(endpoint, settings.anthropic_thinking)


def _openai(settings: ProviderSettings) -> Provider:
    from workers.models.openai_provider import BASE_URL, OpenAIProvider

    endpoint = Endpoint(
        ModelProvider.openai,
        settings.openai_model or "",
        settings.openai_base_url or BASE_URL,
        settings.openai_api_key,
        settings.model_connect_s,
        settings.model_quiet_s,
    )
    return OpenAIProvider(endpoint, with_temperature=settings.openai_temperature)
