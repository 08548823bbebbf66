"""The emitted module: imports, kernels, launchers and the autograd function, as a maintainer would have written it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from workers.authors.compiler.design import Design
from workers.authors.compiler.device_functions import device_functions
from workers.authors.compiler.functions import (
    autograd_function,
    backward_launcher,
    entry_point,
    forward_launcher,
)
from workers.authors.compiler.section import prefixed
from workers.authors.compiler.segment_launches import SEGMENT_SETTINGS
from workers.authors.compiler.settings_text import (
    BLOCK_SETTINGS,
    HELPERS,
    NUM_PROGRAMS,
    NUM_STAGES,
    PERSISTENT_SETTINGS,
    TILE_SETTINGS,
)
from workers.authors.compiler.several import Several, autograd_of, entry_of, launchers_of
from workers.authors.compiler.tuned_text import (
    LOOP_STAGES,
    PROGRAMS_AND_STAGES,
    STREAMING_SETTINGS,
    SUM_PARTIALS,
    TUNED,
)
from workers.authors.compiler.values import ordered
from workers.authors.compiler.wrapping import wrapped
from workers.authors.protocol import SourceStyle

_SETTINGS = {
    "_tuned(": TUNED,
    "_tile_settings(": TILE_SETTINGS,
    "_streaming_settings(": STREAMING_SETTINGS,
    "_segment_settings(": SEGMENT_SETTINGS,
    "_persistent_settings(": PERSISTENT_SETTINGS,
    "_block_settings(": BLOCK_SETTINGS,
    "_num_programs(": NUM_PROGRAMS,
    "_num_stages(": NUM_STAGES,
    "_programs_and_stages(": PROGRAMS_AND_STAGES,
    "_loop_stages(": LOOP_STAGES,
    "_sum_partials(": SUM_PARTIALS,
}

LIBDEVICE_TANH = ("triton.language.extra.libdevice", "tanh")


@dataclass(frozen=True)
class Imports:
    """What the module imports, and the helpers that it has to define because the target lacks them."""

    lines: tuple[str, ...]
    helpers: tuple[str, ...]


@dataclass(frozen=True)
class Rendered:
    """A source, and the imports that it needs where it is a section of another file."""

    source: str
    imports: tuple[str, ...] = ()


def render(design: Design, style: SourceStyle) -> Rendered:
    """Give the module's source, or the section's."""
    launchers = [forward_launcher(design, style)]
    if design.backward is not None or (style.section and design.program.gradients):
        launchers.append(backward_launcher(design, style))
    functions = launchers if style.section else [*launchers, autograd_function(design, style)]
    if style.entry is not None and not style.section:
        functions.append(entry_point(design, style))
    return _rendered([design], functions, style)


def render_several(several: Several, style: SourceStyle) -> Rendered:
    """Give the source of a module, or of a section, that holds several programs."""
    functions = launchers_of(several, style)
    functions += [] if style.section else [autograd_of(several, style)]
    if style.entry is not None and not style.section:
        functions.append(entry_of(several, style))
    return _rendered([member.design for member in several.members], functions, style)


def _rendered(designs: list[Design], functions: list[str], style: SourceStyle) -> Rendered:
    stages = [stage for design in designs for stage in (design.forward, design.backward) if stage is not None]
    values = ordered(value for stage in stages for value in (store.value for store in stage.task.stores))
    kernels = [kernel.source for stage in stages for kernel in stage.kernels]
    text = "\n".join(functions)
    settings = [source for call, source in _SETTINGS.items() if call in text]
    imports = _imports(style, "\n".join([text, *settings]), any(value.op == "libdevice_tanh" for value in values))
    blocks = [*imports.helpers, *device_functions(values), *settings, *dict.fromkeys(kernels), *functions]
    source = "\n\n\n".join(blocks) + "\n"
    if style.section:
        return Rendered(wrapped(prefixed(source, style), style.line_length), tuple(filter(None, imports.lines)))
    gap = "\n\n" if source.startswith("TUNED") else "\n\n\n"  # as the formatter of imports has it before an assignment
    return Rendered("\n".join(imports.lines) + gap + wrapped(source, style.line_length))


def _imports(style: SourceStyle, text: str, tanh: bool) -> Imports:
    offered = dict(style.helpers)
    used = [name for name in sorted(HELPERS) if name in text]
    missing = [name for name in used if name not in offered]
    standard = sorted({module for name in missing if (module := HELPERS[name][1]) is not None})
    lines = [f"import {module}" for module in standard]
    lines += [*([""] if standard else []), "import torch", "import triton", "import triton.language as tl"]
    given = sorted([*((offered[name], name) for name in used if name in offered), *([LIBDEVICE_TANH] if tanh else [])])
    lines += ["", *_from_imports(given, style.single_line_imports)] if given else []
    return Imports(tuple(lines), tuple(HELPERS[name][0] for name in missing))


def _from_imports(given: list[tuple[str, str]], single: bool) -> list[str]:
    if single:
        return [f"from {module} import {name}" for module, name in given]
    modules = dict.fromkeys(module for module, _ in given)
    return [f"from {module} import {', '.join(name for other, name in given if other == module)}" for module in modules]
