"""The compiler author: from a captured graph to forward and backward Triton kernels, with no model. Pure.

In the order of a compile: ``graph`` (operators, sizes, well-formedness), ``axes`` and ``domain`` (what is a row, what a column),
``lowering`` to ``values`` with ``algebra`` and ``rounding``, ``program`` (what forward stores and saves, what backward needs),
``design`` (names, and a schedule for each pass), ``schedules/`` (kernels and how they are launched), ``launchers`` and
``emit`` (the module around them), ``plan`` (what else a proposal says). ``programs`` takes a problem apart whose outputs share
no computation; ``series`` cuts one with products into steps. A new operator: its name in ``graph``, its rule in ``lowering`` or
``algebra``, its spelling in ``expressions``, and in ``emit`` its device function where Triton has none.
"""

from __future__ import annotations

from workers.authors.compiler.author import CompilerAuthor

__all__ = ["CompilerAuthor"]
