"""Plain problem files that the tests of every room use, read by name."""

from pathlib import Path


def problem_source(name: str) -> str:
    """Give the text of the problem file ``name``."""
    return (Path(__file__).parent / f"{name}.py").read_text()
