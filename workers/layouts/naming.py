"""Names of a new kernel: which are allowed, which are taken, and how snake_case becomes CamelCase. Pure."""

from __future__ import annotations

import keyword
import re

from gpu_runner.contracts import KernelNames, Problem
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.layouts.dimensions import TAKEN
from workers.layouts.protocol import Design
from workers.layouts.reference import helper_names

MAX_NAME_LENGTH = 60
# Spellings that a plain capital does not give. Source: class names of Liger-Kernel 0.8 and of torch.nn.
SPELLINGS = {
    "avg": "Avg",
    "ce": "CE",
    "celu": "CELU",
    "dpo": "DPO",
    "dyt": "DyT",
    "elu": "ELU",
    "geglu": "GEGLU",
    "gelu": "GELU",
    "glu": "GLU",
    "grpo": "GRPO",
    "jsd": "JSD",
    "kl": "KL",
    "mhc": "MHC",
    "mlp": "MLP",
    "moe": "MoE",
    "mse": "MSE",
    "nll": "NLL",
    "qk": "QK",
    "relu": "ReLU",
    "rms": "RMS",
    "selu": "SELU",
    "silu": "SiLU",
    "tvd": "TVD",
}
# A word may end in one of these: `reglu` is ReGLU, `prelu` is PReLU.
ENDINGS = (("glu", "GLU"), ("relu", "ReLU"), ("mlp", "MLP"))
# What the generated files define or import themselves.
GENERATED = TAKEN | {
    "assert_matches",
    "assert_verbose_allclose",
    "infer_device",
    "make_inputs",
    "needs_bfloat16",
    "supports_bfloat16",
    "tl",
    "triton",
}
AMBIGUOUS = frozenset({"l", "O", "I"})
RESERVED = frozenset({"configure", "functional", "kernels", "ops", "test", "tests", "transformers", "utils"})


def camel_case(name: str) -> str:
    """The class-name form of a snake_case name: ``rms_norm`` is ``RMSNorm``, ``reglu`` is ``ReGLU``."""
    return "".join(_spelled(word) for word in name.split("_") if word)


def import_name(path: str) -> str:
    """The dotted name by which a file or folder of a package is imported."""
    return path.removeprefix("src/").removesuffix(".py").replace("/", ".")


def check_name(name: str) -> None:
    """Refuse a name that cannot be a module of a library.

    Raises:
        UserFacingError: it contains a path, is no identifier in snake_case, is a keyword, or is reserved.
    """
    if "/" in name or "\\" in name or "." in name:
        raise _refused(name, "is a path, not a name", "Give the kernel's name alone, such as `reglu`.")
    if not name.isascii() or not name.isidentifier():
        raise _refused(name, "is no Python identifier", "Use letters, digits and `_`, such as `rms_scale`.")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise _refused(name, "is a word of the Python language", "Choose another name, such as `reglu`.")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise _refused(name, "is not in snake_case", f"Write it as `{snake_case(name)}`.")
    if len(name) > MAX_NAME_LENGTH:
        raise _refused(name[:MAX_NAME_LENGTH] + "...", f"is longer than {MAX_NAME_LENGTH} characters", "Shorten it.")
    if name in RESERVED:
        raise _refused(name, "is reserved for a module of the library itself", "Choose another name.")


def check_symbols(names: KernelNames) -> None:
    """Refuse conflicting names of a library's form.

    Raises:
        UserFacingError: two are the same, or one is a keyword or used by the test file itself.
    """
    symbols = [name for name in (names.function, names.module, names.functional) if name is not None]
    for symbol in symbols:
        if keyword.iskeyword(symbol) or symbol in GENERATED or symbols.count(symbol) > 1:
            raise _refused(symbol, "cannot be the name of a function or class here", "Set another one in NAMES.")


def check_problem(problem: Problem) -> None:
    """Refuse a problem whose own names cannot stand in a test file, or never pass a style check.

    Raises:
        UserFacingError: a parameter is named `l`, `O` or `I`, or a helper is named like something of the test file.
    """
    for name in problem.parameters:
        if name in AMBIGUOUS:
            message = f"`reference` has a parameter `{name}`, which style checks refuse as too like a digit (E741)"
            fix = f"Give `{name}` another name in the problem, such as `x`."
            raise UserFacingError(Failure(FailureCode.problem, message, fix))
    for name in helper_names(problem):
        if name in GENERATED or name.startswith(("test_", "Test", "pytest_")):
            message = f"the problem defines `{name}`, a name that the test file needs itself"
            raise UserFacingError(Failure(FailureCode.problem, message, f"Rename `{name}` in the problem."))


def snake_case(name: str) -> str:
    """The nearest snake_case name, for a suggestion."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "_", words)).strip("_").lstrip("0123456789_") or "my_kernel"


def _spelled(word: str) -> str:
    if word in SPELLINGS:
        return SPELLINGS[word]
    for ending, spelling in ENDINGS:
        if word.endswith(ending) and len(word) > len(ending):
            return word[: -len(ending)].capitalize() + spelling
    return word.capitalize()


def _refused(name: str, why: str, fix: str) -> UserFacingError:
    return UserFacingError(Failure(FailureCode.name, f"`{name}` {why}", fix))


def existing_failure(name: str, path: str) -> UserFacingError:
    """The refusal of a name that is taken, with a pointer to what has it."""
    message = f"a kernel `{name}` exists at `{path}`"
    fix = f"Choose another name; to make the existing one faster, use `/kernel optimize {name}`."
    return UserFacingError(Failure(FailureCode.exists, message, fix))


def source_of(design: Design) -> str:
    """The proved source of a design's kernel module, ending in a newline.

    Raises:
        ValueError: there is none yet.
    """
    if design.source is None:
        raise ValueError(f"the kernel {design.name} has no source yet")
    return design.source.rstrip("\n") + "\n"
