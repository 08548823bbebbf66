"""Runs a kernel: `python -m PACKAGE.kernel [LANGUAGE.]DESIGN [VERSION] [--DIMENSION=SIZE ...] [--check]`.

Without VERSION it is the newest; `v0` is the base version. Options are the fields of its plan and of its tiling, and

    --check                compare outputs and gradients with the plan's reference
    --prof_type=TYPE       `disabled`, `event` (measured times, the default without --check) or `predicted` (the roofline)
    --autotune             measure the tilings that the plan proposes
    --peak_tflops=, --peak_gbps=   what `predicted` divides by

Exit 0 done, 1 something differs from the reference, 2 it cannot be carried out.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from .runtime import KernelPlan, PlanError, Stage, checked_tiling, differences, time_ms

ROOT = Path(__file__).parent
VERSION = re.compile(r"v(\d+)")
PROFILES = ("disabled", "event", "predicted")
MOST_NAMED = 8
ON_GPUS_ALONE = ("cutile", "cute", "cute_python", "cutedsl")  # languages without an interpreter
INTERPRETED = (
    "KERNELSMITH_INTERPRETED"  # Kernelsmith sets it where it runs tests without a GPU: it interprets these languages
)


@dataclass(frozen=True)
class Design:
    """The folder of a design, with its versions by number."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def language(self) -> str:
        return self.folder.parents[1].name

    def versions(self) -> dict[int, str]:
        """The versions' packages by number, 0 for the base version."""
        numbered = {0: self.name}
        for path in sorted(self.folder.glob(f"{self.name}_v*")):
            number = path.name.removeprefix(f"{self.name}_v")
            if number.isdigit() and (path / f"{path.name}.py").is_file():
                numbered[int(number)] = path.name
        return dict(sorted(numbered.items()))


def designs() -> list[Design]:
    """The designs of all languages."""
    folders = sorted(path for path in ROOT.glob("*/*/*") if (path / path.name / f"{path.name}.py").is_file())
    return [Design(folder) for folder in folders]


def find_design(name: str) -> Design:
    """A design by its name, with its language before it where several have it.

    Raises:
        PlanError: there is none, or several.
    """
    language, _, design = name.rpartition(".")
    found = [d for d in designs() if d.name == design and language.replace("-", "_") in ("", d.language)]
    if len(found) == 1:
        return found[0]
    if found:
        named = " or ".join(f"`{d.language}.{d.name}`" for d in found)
        raise PlanError(f"`{name}` is there in several languages: name it as {named}")
    named = ", ".join(f"`{d.language}.{d.name}`" for d in designs()[:MOST_NAMED]) or "none yet"
    raise PlanError(f"there is no design `{name}`: those there are {named}")


def load_plan(design: Design, version: str | None) -> type[KernelPlan]:
    """The plan class of a version, the newest by default.

    Raises:
        PlanError: there is no such version, its module does not hold what it must, or imports what is not installed.
    """
    versions = design.versions()
    match = VERSION.fullmatch(version or f"v{max(versions)}")
    if match is None or int(match[1]) not in versions:
        named = ", ".join(f"`v{number}`" for number in versions)
        raise PlanError(f"`{design.name}` has no version `{version}`: its versions are {named}")
    name = versions[int(match[1])]
    layer = design.folder.parent.name
    package = __package__ or "kernel"
    try:
        module = importlib.import_module(f"{package}.{design.language}.{layer}.{design.name}.{name}.{name}")
    except ModuleNotFoundError as error:
        raise PlanError(f"`{name}` needs `{error.name}`, which is not installed here: install it") from error
    if not callable(getattr(module, name, None)):
        raise PlanError(f"`{name}.py` has no function `{name}`: name the kernel's entry function after its file")
    plans = [item for item in vars(module).values() if _is_plan(item) and item.__module__ == module.__name__]
    if len(plans) != 1:
        raise PlanError(f"`{name}.py` defines {len(plans)} subclasses of KernelPlan: define one")
    plan: type[KernelPlan] = plans[0]
    return plan


def configured(plan_type: type[KernelPlan], options: dict[str, str]) -> KernelPlan:
    """The plan with options for its fields and those of its tiling.

    Raises:
        PlanError: an option names no field, or has a value of another kind.
    """
    plan = plan_type()
    own = {item.name: getattr(plan, item.name) for item in fields(plan) if item.name != "tiling"}
    tiles = {item.name: getattr(plan.tiling, item.name) for item in fields(plan.tiling)}
    for name in options:
        if name not in own and name not in tiles:
            raise PlanError(
                f"there is no option `--{name}`: this kernel has {', '.join(f'--{n}' for n in (*own, *tiles))}"
            )
    given = {name: _value(name, options[name], own[name]) for name in own if name in options}
    tiled = {name: _value(name, options[name], tiles[name]) for name in tiles if name in options}
    if tiled:
        given["tiling"] = replace(plan.tiling, **tiled)
    return replace(plan, **given) if given else plan


def run(arguments: Sequence[str]) -> int:
    """Carry a command out.

    Raises:
        PlanError: it cannot be.
    """
    names = [word for word in arguments if not word.startswith("--")]
    given = (word.removeprefix("--").partition("=") for word in arguments if word.startswith("--"))
    options = {name: value if equals else "1" for name, equals, value in given}
    if not 1 <= len(names) <= 2:
        raise PlanError(f"name one design and at most one version: python -m {__package__} DESIGN [VERSION] --check")
    check, autotune = (options.pop(name, None) is not None for name in ("check", "autotune"))
    profile = options.pop("prof_type", "disabled" if check else "event")
    if profile not in PROFILES:
        raise PlanError(f"there is no `--prof_type={profile}`: use {', '.join(PROFILES)}")
    peaks = {name: options.pop(name, None) for name in ("peak_tflops", "peak_gbps")}
    design = find_design(names[0])
    plan = checked_tiling(configured(load_plan(design, names[1] if len(names) > 1 else None), options))
    device = _device(design, profile if not check else "event")
    if check:
        wrong = differences(plan, device)
        print("\n".join(wrong) if wrong else f"PASS {plan}: outputs and gradients match the reference")
        if wrong:
            return 1
    if profile == "predicted":
        if None in peaks.values():
            raise PlanError("`--prof_type=predicted` needs `--peak_tflops=` and `--peak_gbps=` of the GPU")
        stage = plan.plan_empty(*(_value(name, value or "", 0.0) for name, value in peaks.items()))
        print(f"predicted {stage.predicted_ms():.4f} ms for {plan}")
    if profile == "event":
        for candidate in plan.tilings() if autotune else [plan.tiling]:
            if candidate.validate(plan):
                tiled = replace(plan, tiling=candidate) if autotune else plan
                print(_timed(tiled.plan(*tiled.prepare_inputs(device)), tiled))
    return 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry a command out, and exit."""
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
    except PlanError as error:
        print(f"{error}.", file=sys.stderr)
        code = 2
    sys.exit(code)


def _is_plan(item: Any) -> bool:
    return isinstance(item, type) and issubclass(item, KernelPlan)


def _value(name: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, torch.dtype):
            dtype = getattr(torch, text)
            if isinstance(dtype, torch.dtype):
                return dtype
            raise ValueError(text)
        return text not in ("0", "False") if isinstance(default, bool) else type(default)(text)
    except (AttributeError, ValueError) as error:
        raise PlanError(f"`--{name}={text}` is no value: give one such as `--{name}={default}`") from error


def _device(design: Design, profile: str) -> str:
    if torch.cuda.is_available():
        return "cuda"
    if design.language == "triton" and profile == "event" and os.environ.get("TRITON_INTERPRET") != "1":
        raise PlanError("there is no GPU here: set TRITON_INTERPRET=1 to run the kernel in Triton's interpreter")
    if design.language in ON_GPUS_ALONE and profile == "event" and INTERPRETED not in os.environ:
        raise PlanError(f"there is no GPU here, and {design.language} has no interpreter: use a host with one")
    return "cpu"


def _timed(stage: Stage, plan: KernelPlan) -> str:
    ms, (flops, moved) = time_ms(stage), stage.flops_bytes()
    return f"{ms:.4f} ms, {flops / ms / 1e9:.3f} TFLOP/s, {moved / ms / 1e6:.1f} GB/s for {plan}"


if __name__ == "__main__":
    main()
