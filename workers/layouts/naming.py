"""Names of a new kernel: which are allowed, and how snake_case becomes the field's spelling. Pure."""

from __future__ import annotations

import keyword
import re

from gpu_runner.contracts import Problem
from workers.contracts import Failure, FailureCode, UserFacingError

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

AMBIGUOUS = frozenset({"l", "O", "I"})
RESERVED = frozenset({"configure", "functional", "kernels", "ops", "test", "tests", "transformers", "utils"})


def camel_case(name: str) -> str:
    """Give the class-name form of a snake_case name: ``rms_norm`` is ``RMSNorm``, ``reglu`` is ``ReGLU``."""
    return "".join(_spelled(word) for word in name.split("_") if word)


def check_name(name: str) -> None:
    """Refuse a name that cannot be a module of a library.

    Raises:
        UserFacingError: it holds a path, is no identifier in snake_case, is a keyword, or is reserved.
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


def check_inputs(problem: Problem) -> None:
    """Refuse inputs and scalars whose names linters refuse everywhere: the kernel would never pass a style check.

    Raises:
        UserFacingError: one is named `l`, `O` or `I`.
    """
    for name in problem.parameters:
        if name in AMBIGUOUS:
            message = f"`reference` has a parameter `{name}`, which style checks refuse as too like a digit (E741)"
            cure = f"Give `{name}` another name in the problem, such as `x`."
            raise UserFacingError(Failure(FailureCode.problem, message, cure))


def snake_case(name: str) -> str:
    """Give the nearest snake_case name, for a suggestion."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "_", words)).strip("_").lstrip("0123456789_") or "my_kernel"


def _spelled(word: str) -> str:
    if word in SPELLINGS:
        return SPELLINGS[word]
    for ending, spelling in ENDINGS:
        if word.endswith(ending) and len(word) > len(ending):
            return word[: -len(ending)].capitalize() + spelling
    return word.capitalize()


def _refused(name: str, why: str, cure: str) -> UserFacingError:
    return UserFacingError(Failure(FailureCode.name, f"`{name}` {why}", cure))
