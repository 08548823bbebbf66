"""A look at every operator that torch runs, which torch's compiler leaves alone, and for which it is not loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_keep_from_compiler: Callable[..., Any] = torch._disable_dynamo  # noqa: SLF001 - as torch itself does


class Mode(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped to the checker
    """Gives every operator to ``operator`` while it is entered.

    torch keeps its compiler from the code of a mode by loading the compiler, which takes seconds and is needed only where the
    code that is looked at has loaded it.
    """

    _kept: Callable[..., Any]

    def __init_subclass__(cls, **given: Any) -> None:
        """Make the form that is called where the compiler is loaded."""
        super().__init_subclass__(**given)
        cls._kept = _keep_from_compiler(cls.operator, recursive=True)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch asks whether it shall do by itself what is done here

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        # While it is being loaded it has no such function yet.
        is_loaded = hasattr(sys.modules.get("torch._dynamo"), "disable")
        return (type(self)._kept if is_loaded else type(self).operator)(self, func, args, kwargs or {})  # noqa: SLF001 - its own

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator."""
        return func(*args, **kwargs)
