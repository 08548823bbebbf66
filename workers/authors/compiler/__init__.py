"""The compiler author: from a captured graph to forward and backward Triton kernels, with no model. Pure."""

from __future__ import annotations

from workers.authors.compiler.author import CompilerAuthor

__all__ = ["CompilerAuthor"]
