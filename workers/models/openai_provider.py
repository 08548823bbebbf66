"""Any endpoint that speaks OpenAI's chat completions or responses, by the ``openai`` SDK, which is an optional extra."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import httpx2

from workers.errors import WorkersError
from workers.models import openai_responses, openai_speech
from workers.models.exchange import Endpoint, Streaming, Tongue, asked
from workers.models.options import Effort, OpenAIProtocol
from workers.models.protocol import Answer, Question

BASE_URL = "https://api.openai.com/v1"


class ExtraMissingError(WorkersError):
    """A package that a setting asks for is not installed; the text says how to install it."""


class OpenAIProvider:
    """A model of OpenAI, of a relay, or of a server of one's own such as vLLM."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        protocol: OpenAIProtocol = OpenAIProtocol.chat,
        effort: Effort | None = None,
        with_temperature: bool = True,
    ) -> None:
        """Take the endpoint; without a key no authorization is sent.

        Raises:
            ExtraMissingError: the SDK is not installed.
        """
        if find_spec("openai") is None:
            raise ExtraMissingError(
                "KERNELSMITH_OPENAI_MODEL is set, and the package openai is not installed: pip install 'kernelsmith[openai]'"
            )
        self._endpoint = endpoint
        self._protocol = protocol
        self._effort = effort
        self._with_temperature = with_temperature

    @property
    def name(self) -> str:
        """Give the provider's name in the configuration."""
        return self._endpoint.name

    @property
    def model(self) -> str:
        """Give the configured model's name."""
        return self._endpoint.model

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        """Ask once, streaming.

        Raises:
            ModelError: there is no answer that can be used.
            OpenFormError: the question's form cannot be held strictly, a fault of the program.
        """
        import openai

        speech = openai_responses if self._protocol is OpenAIProtocol.responses else openai_speech
        wanted = speech.parameters(
            question,
            self.model,
            effort=self._effort,
            with_temperature=self._with_temperature,
            provider=self.name,
        )

        def opened(http: httpx2.Client) -> Streaming:
            key = self._endpoint.key
            client = openai.OpenAI(
                api_key=key.get_secret_value() if key is not None else "none",
                base_url=self._endpoint.base_url,
                http_client=http,
                timeout=timeout_s,  # the wire ends what is quiet or late before that
                max_retries=0,
            )
            without = {"Authorization": openai.Omit()} if key is None else {}
            resource: Any = client.chat.completions if speech is openai_speech else client.responses
            stream: Streaming = resource.create(stream=True, extra_headers=without, **wanted)
            return stream

        tongue = Tongue(opened, speech.hear, speech.events_of, (openai.OpenAIError,), "x-request-id")
        return asked(self._endpoint, tongue, question, timeout_s, cancelled)
