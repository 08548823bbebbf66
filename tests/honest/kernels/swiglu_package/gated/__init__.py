"""Gated units."""

from .functional import swiglu

__all__ = ["swiglu"]
