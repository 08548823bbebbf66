"""Anthropic, by its SDK: messages with streaming, tools for structured answers, prompt caching and thinking."""

from __future__ import annotations

from collections.abc import Callable

import anthropic
import httpx2

from workers.models.anthropic_speech import cached_prefix, events_of, hear, parameters
from workers.models.exchange import Endpoint, Streaming, Tongue, asked
from workers.models.options import Effort, Thinking
from workers.models.protocol import Answer, ModelError, Question

BASE_URL = "https://api.anthropic.com"


class AnthropicProvider:
    """A model of Anthropic, or of a relay that speaks the Messages API."""

    def __init__(
        self, endpoint: Endpoint, thinking: Thinking = Thinking.adaptive, effort: Effort | None = None
    ) -> None:
        """Take the endpoint, whose key is needed."""
        self._endpoint = endpoint
        self._thinking = thinking
        self._effort = effort

    @property
    def name(self) -> str:
        """Give the provider's name in the configuration."""
        return self._endpoint.name

    @property
    def model(self) -> str:
        """Give the configured model's name."""
        return self._endpoint.model

    def prefix(self, question: Question) -> str | None:
        """Give what of a question the prompt cache keeps, None where nothing is marked for it."""
        try:
            return cached_prefix(parameters(question, self.model, self._thinking, self.name, self._effort))
        except ModelError:
            return None

    def ask(
        self,
        question: Question,
        timeout_s: float,
        cancelled: Callable[[], bool],
        began: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Ask once, streaming.

        Raises:
            ModelError: there is no answer that can be used.
            OpenFormError: the question's form cannot be held strictly, a fault of the program.
        """
        wanted = parameters(question, self.model, self._thinking, self.name, self._effort)

        def opened(http: httpx2.Client) -> Streaming:
            key = self._endpoint.key
            client = anthropic.Anthropic(
                api_key=key.get_secret_value() if key is not None else "",
                base_url=self._endpoint.base_url,
                http_client=http,
                timeout=timeout_s,  # the wire ends what is quiet or late before that
                max_retries=0,
                open_telemetry=False,  # a trace may hold what was asked
            )
            stream: Streaming = client.messages.create(stream=True, **wanted)
            return stream

        tongue = Tongue(opened, hear, events_of, (anthropic.AnthropicError,), "request-id")
        return asked(self._endpoint, tongue, question, timeout_s, cancelled, began)
