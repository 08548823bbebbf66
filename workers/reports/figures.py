"""Figures of one look: made, drawn to PNG always in the same bytes, and kept with their text form."""

from __future__ import annotations

import io
from typing import Any

from workers.contracts import Image
from workers.engine.protocol import StageContext


def store(context: StageContext, file_name: str, content: bytes, alt: str) -> Image:
    return Image(file_name, context.artifact(file_name, content, "image/png"), alt)


def figure_of(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, height), dpi=130, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure, axes


def png_of(figure: Any) -> bytes:
    buffer = io.BytesIO()
    # Without a fixed Software field the same figure would give other bytes with another matplotlib.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
