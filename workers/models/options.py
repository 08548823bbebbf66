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


class Effort(StrEnum):
    """How much a model thinks, where it takes a word for that."""

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
