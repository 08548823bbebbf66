"""The closed choices of the settings on language models. Pure."""

from __future__ import annotations

from enum import StrEnum


class ModelProvider(StrEnum):
    """Who may be asked."""

    anthropic = "anthropic"
    openai = "openai"  # and every server that speaks the same protocol


class Thinking(StrEnum):
    """How a model of Anthropic is told to think, which differs between generations of models."""

    adaptive = "adaptive"  # current models: the model decides how much
    budget = "budget"  # models before: a number of tokens
    always = "always"  # models that think whatever they are told, and so take no forced tool
    none = "none"  # models that cannot think, and servers that do not know the parameter
