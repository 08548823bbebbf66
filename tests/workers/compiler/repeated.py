"""Runs kernels with loops and the same ones unrolled in Triton's interpreter, and tells where they give other bits.

``python -m tests.workers.compiler.repeated CASES RESULTS``: a case is a problem, sizes, a dtype and a form.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch

from tests.workers.compiler.captured import captured, style
from tests.workers.compiler.formed import SETTINGS, formed, tunable_style
from tests.workers.compiler.interpreted import loaded
from workers.authors.compiler.schedules import base


def computed(candidate: Callable[..., Any], name: str, sizes: dict[str, int], dtype: str) -> list[torch.Tensor]:
    """Outputs and gradients."""
    problem, _ = captured(name)
    torch.manual_seed(0)
    inputs = []
    for spec in problem.inputs:
        value = torch.randn([sizes[dim] for dim in spec.dims]).to(getattr(torch, dtype))
        inputs.append(value.requires_grad_(spec.grad))
    output = candidate(*inputs)
    wanted = [value for value in inputs if value.requires_grad]
    return [output.detach(), *torch.autograd.grad(output, wanted, torch.randn_like(output))]


def differences(name: str, sizes: dict[str, int], dtype: str, form: str) -> list[str]:
    """Which tensors differ, and whether there is a loop at all."""
    own = style(name) if form == "plain" else tunable_style(name)
    sources = [formed(name, own).source]
    with patch.object(base, "rerolled_loops", lambda _: ()):
        sources.append(formed(name, own).source)
    results = []
    for source in sources:
        module = loaded(name, source)
        if form != "plain":
            entry = ((1 << 40, SETTINGS[form]),)
            module.TUNED["cpu"] = {"forward": entry, "backward": entry}
        results.append(computed(module.candidate, name, sizes, dtype))
    found = [] if "for _ in" in sources[0] and "for _ in" not in sources[1] else ["nothing was repeated"]
    pairs = enumerate(zip(*results, strict=True))
    return found + [f"tensor {place}" for place, (one, other) in pairs if not torch.equal(one, other)]


def main() -> None:
    """Run every case."""
    from gpu_runner.child.interpreter import teach_interpreter

    teach_interpreter()
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    with open(sys.argv[2], "w") as file:
        json.dump({key: differences(*case) for key, case in cases.items()}, file)


if __name__ == "__main__":
    main()
