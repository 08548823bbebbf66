"""What parsing a text of others as Python may end in."""

from __future__ import annotations

# A text that is no Python, one with a null byte, one that is nested too deep for the interpreter, and one too deep for its parser.
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
