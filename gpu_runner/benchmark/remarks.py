"""What is said beside the rows of a result, and whether all that was asked for was measured."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_CHARS = 400


@dataclass
class Remarks:
    """``said`` in the order in which it was said, each once."""

    said: list[str] = field(default_factory=list)
    complete: bool = True

    def say(self, note: str | None) -> None:
        """Note something; None is nothing."""
        if note is not None and note not in self.said:
            self.said.append(note)

    def lack(self, note: str) -> None:
        """Note something that was asked for and is not there."""
        self.say(" ".join(note.split())[:MOST_CHARS])
        self.complete = False
