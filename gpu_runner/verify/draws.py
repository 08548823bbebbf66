"""The secret master seed of a verdict, and what is drawn from it, by label. Pure but for ``fresh``."""

from __future__ import annotations

import hashlib
import os
import random
from dataclasses import dataclass

MASTER_BYTES = 16
SEED_BYTES = 7  # of one case: torch takes 63 bits


@dataclass(frozen=True)
class Draws:
    """A stream of seeds. SHA-256 separates them: a child that knows the inputs of one case learns nothing of another."""

    master: str  # hexadecimal

    def __post_init__(self) -> None:
        """Check the master seed.

        Raises:
            ValueError: it is not 32 hexadecimal digits.
        """
        if len(bytes.fromhex(self.master)) != MASTER_BYTES:
            raise ValueError(f"a seed has {2 * MASTER_BYTES} hexadecimal digits")

    @classmethod
    def fresh(cls) -> Draws:
        """A master seed that nobody can know."""
        return cls(os.urandom(MASTER_BYTES).hex())

    def seed(self, label: str) -> int:
        """The seed by this label."""
        return int.from_bytes(self._digest(label)[:SEED_BYTES], "big")

    def stream(self, label: str) -> random.Random:
        """A stream of draws by this label."""
        return random.Random(self._digest(label))  # noqa: S311 - its seed is secret and 256 bits long

    def _digest(self, label: str) -> bytes:
        return hashlib.sha256(f"{self.master}/{label}".encode()).digest()
