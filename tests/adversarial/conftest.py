"""The fixtures of conversations, for attacks that go the whole way."""

from __future__ import annotations

from tests.conversations.asking import ask_models
from tests.conversations.conftest import errors, keys, open_talk

__all__ = ["ask_models", "errors", "keys", "open_talk"]
