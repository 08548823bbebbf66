"""The models that the settings name, ready to be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.models import configured
from workers.models.asking import Surroundings
from workers.models.asking import ask as ask_patiently
from workers.models.ledger import Models
from workers.models.protocol import Answer, Provider, Question
from workers.models.redaction import redacted_question
from workers.settings import Settings


def installed(settings: Settings, secrets: tuple[str, ...]) -> Models:
    """Give the configured models; ``secrets`` are taken out of whatever is asked before it is sent or kept.

    Raises:
        ExtraMissingError: a provider's package is not installed.
    """
    limits = configured.patience(settings)

    def ask(question: Question, providers: Sequence[Provider], cancelled: Callable[[], bool]) -> Answer:
        return ask_patiently(question, providers, limits, Surroundings(cancelled=cancelled, secrets=secrets)).answer

    def prepare(question: Question) -> Question:
        return redacted_question(configured.tailored(question, settings), secrets).question

    own = {purpose.value: configured.providers(settings, purpose) for purpose in settings.model_purposes}
    return Models(configured.providers(settings), ask, prepare, by_purpose=own)
