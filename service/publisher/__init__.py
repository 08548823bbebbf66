"""From updates to effects on GitHub: each update exactly one, whatever dies in between."""

from service.publisher.publisher import Outbox, Publisher

__all__ = ["Outbox", "Publisher"]
