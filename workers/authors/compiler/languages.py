"""The languages that kernels are written in: how each spells what stands in all of its modules. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from workers.authors.compiler import expressions
from workers.authors.compiler.expressions import Dialect


@dataclass(frozen=True)
class Language:
    """A language, but for its addresses and loops, which a schedule's kernels write."""

    module: str  # what a kernel calls the language's module
    imports: tuple[str, ...]
    kernel: str  # the decorator of a kernel
    function: str  # the decorator of a device function
    tensor: str  # ends the name of a parameter that is a tensor
    constant: str  # annotates a parameter that is known when the kernel is compiled
    cast: str  # brings an expression to a dtype
    float32_of: str  # brings a number to float32
    dialect: Dialect
    dtypes: str = ""  # the module that has the dtypes, where they are classes of another one

    def converted(self, text: str) -> str:
        """An expression in float32."""
        return self.cast.format(text, f"{self.dtypes}.Float32" if self.dtypes else f"{self.module}.float32")

    def float32(self, name: str) -> str:
        """A number in float32."""
        return self.float32_of.format(name)


TRITON = Language(
    "tl",
    ("import triton", "import triton.language as tl"),
    "@triton.jit",
    "@triton.jit",
    "_ptr",
    "tl.constexpr",
    "{0}.to({1})",
    "tl.cast({0}, tl.float32)",
    expressions.TRITON,
)
CUTILE = Language(
    "ct",
    ("import cuda.tile as ct",),
    "@ct.kernel",
    "@ct.function",
    "_array",
    "ct.Constant[int]",
    "{0}.astype({1})",
    "ct.astype({0}, ct.float32)",
    expressions.CUTILE,
)
CUTE = Language(
    "cute",
    ("import cutlass", "import cutlass.cute as cute"),
    "@cute.kernel",
    "@cute.jit",
    "_tensor: cute.Tensor",
    "cutlass.Constexpr",
    "{0}.to({1})",
    "cutlass.Float32({0})",
    expressions.CUTE,
    "cutlass",
)
LANGUAGES = {"gpu": TRITON, "ascend": TRITON, "cutile": CUTILE, "cutedsl": CUTE}  # by target
