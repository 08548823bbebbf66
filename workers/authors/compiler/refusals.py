"""How a stage of the compiler says that it cannot. Pure."""

from __future__ import annotations


class CannotCompileError(Exception):
    """The graph is beyond what the compiler expresses: ``sentence`` names ``operator`` or the shape."""

    def __init__(self, sentence: str, operator: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.operator = operator
