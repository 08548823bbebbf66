"""The target and the scope of an optimize job, as a person writes them: "forward < 0.3 ms @ H=4096", "backward, large". Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from workers.contracts.job import MeasuredPart, Regime, Scope

UNITS_US = {"u": 1.0, "\u03bc": 1.0, "m": 1e3, "s": 1e6}  # by the first letter
PATTERN = re.compile(
    r"\s*(?P<timed_pass>forward|backward|full|fwd|bwd)(?:\s+pass)?\s*(?:<=|<|\u2264|(?:is\s+|in\s+)?(?:under|below|less\s+than|at\s+most|within)\b|in\b)\s*(?P<value>\d{1,12}(?:\.\d{1,12}|,\d{1,2})?)\s*"
    r"(?P<unit>[u\u03bcm]?s(?:ecs?|econds?)?|micro-?seconds?|milli-?seconds?)(?!\w)"
    r"(?:\s*(?:@|\b(?:at|for|with|on|when|where)\b)\s*(?P<sizes>.+?))?\s*",
    re.IGNORECASE,
)
# A size may be written with a thousand's letter, as people write sequence lengths.
SIZE = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:==?|:)\s*(?P<size>\d{1,12})(?P<kilo>[kK])?(?![\w.])")
JOINERS = re.compile(r"(?:,|\band\b|\s)*", re.IGNORECASE)
SHORT = {"fwd": "forward", "bwd": "backward"}
FIX = "Write it as `forward < 0.3 ms @ H=4096`: a pass, a time, and the sizes at which it shall hold."
SCOPE_FIX = (
    "It is a pass (`general`, `forward`, `backward`), a part of the sizes (`small`, `large`), sizes such as `H=4096`, or a pass "
    'and sizes, in quotes: `"backward, large"`.'
)
# What people call a dimension, and the letters by which problems name it, the likeliest first.
DIMENSIONS = (
    (("hidden_size", "hidden_dim", "hidden", "d_model", "embed_dim", "model_dim"), ("H", "D", "N", "C")),
    (("head_dim", "head_size"), ("D",)),
    (("intermediate_size", "intermediate_dim", "intermediate", "ffn_dim"), ("I", "N")),
    (("vocab_size", "vocab", "n_vocab", "num_classes"), ("V", "C", "N")),
    (("seq_len", "seqlen", "sequence_length", "seq_length", "context_length"), ("S", "T", "L", "M")),
    (("num_tokens", "tokens", "n_rows", "rows", "bt"), ("T", "M", "B")),
    (("batch_size", "batch", "bsz"), ("B", "N", "T", "M")),
    (("channels", "num_channels"), ("C",)),
    (("n_cols", "cols", "columns"), ("H", "N", "V", "I", "C")),
)


@dataclass(frozen=True)
class Target:
    """A time that a pass shall stay under, on every workload with these sizes (on all of them where none is named)."""

    timed_pass: str  # forward, backward or full
    below_us: float
    sizes: tuple[tuple[str, int], ...] = ()


def parse_target(text: str) -> Target:
    """Parse a target.

    Raises:
        ValueError: it is of another form; the text is the fix.
    """
    # One letter for each that keyboards write in several ways: the sign of micro and the Greek letter, full-width digits.
    match = PATTERN.fullmatch(unicodedata.normalize("NFKC", text))
    if match is None:
        raise ValueError(FIX)
    sizes = _sizes(match["sizes"] or "")
    unit = match["unit"].lower()
    below_us = float(match["value"].replace(",", ".")) * UNITS_US["u" if unit.startswith("micro") else unit[0]]
    if sizes is None or (match["sizes"] is not None and not sizes) or below_us <= 0:
        raise ValueError(FIX)
    timed_pass = match["timed_pass"].lower()
    return Target(SHORT.get(timed_pass, timed_pass), below_us, sizes)


def parse_scope(text: str) -> tuple[Scope, Regime]:
    """Parse a scope: a pass, a part of the sizes, sizes, or a pass with one of the others.

    Raises:
        ValueError: it is of another form; the text is the fix.
    """
    words = [
        word
        for word in re.split(r"[,\s]+", SIZE.sub(" ", text).lower())
        if word and word not in ("and", "pass", "at", "sizes")
    ]
    passes = [Scope(SHORT.get(word, word)) for word in words if SHORT.get(word, word) in set(Scope)]
    parts = [MeasuredPart(word) for word in words if word in set(MeasuredPart)]
    sizes = tuple(_size(match) for match in SIZE.finditer(text))
    known = len(passes) + len(parts) == len(words) and len(passes) <= 1 and len(parts) <= 1
    if not known or not (words or sizes) or (parts and sizes) or _repeated(sizes):
        raise ValueError(SCOPE_FIX)
    return (passes[0] if passes else Scope.general), Regime(parts[0] if parts else None, sizes)


def format_scope(scope: Scope, regime: Regime) -> str:
    """A scope in the form that ``parse_scope`` reads."""
    sizes = [regime.part.value] if regime.part else [f"{name}={size}" for name, size in regime.sizes]
    passes = [] if sizes and scope is Scope.general else [scope.value]
    return ", ".join([*passes, *sizes])


def named_dimensions(sizes: tuple[tuple[str, int], ...], dimensions: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Sizes by the problem's dimension names, such as ``H`` for ``hidden_size``.

    Raises:
        ValueError: the problem has no such dimension; the text lists its own.
    """
    return tuple((_dimension(name, dimensions), size) for name, size in sizes)


def _dimension(name: str, dimensions: tuple[str, ...]) -> str:
    if name in dimensions:
        return name
    spelled = [known for known in dimensions if known.lower() == name.lower()]
    letters = next((letters for words, letters in DIMENSIONS if name.lower() in words), ())
    matching = (*spelled, *(letter for letter in letters if letter in dimensions))
    if not matching:
        raise ValueError(
            f"the problem has no dimension `{name}`; its dimensions are {', '.join(f'`{d}`' for d in dimensions)}"
        )
    return matching[0]


def _sizes(text: str) -> tuple[tuple[str, int], ...] | None:
    if JOINERS.fullmatch(SIZE.sub(" ", text)) is None:
        return None
    sizes = tuple(_size(match) for match in SIZE.finditer(text))
    return None if _repeated(sizes) else sizes


def _size(match: re.Match[str]) -> tuple[str, int]:
    return match["name"], int(match["size"]) * (1024 if match["kilo"] else 1)


def _repeated(sizes: tuple[tuple[str, int], ...]) -> bool:
    return len({name for name, _ in sizes}) < len(sizes)
