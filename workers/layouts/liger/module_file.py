"""The nn.Module of a new kernel in a Liger library. Pure."""

from __future__ import annotations

from workers.layouts.dimensions import axes_of
from workers.layouts.imports import Import, block
from workers.layouts.liger.paths import FIRST_PARTY
from workers.layouts.module_form import module_form
from workers.layouts.protocol import Design


def module_source(design: Design, function_module: str) -> str:
    """Give the file with the module's class; ``function_module`` is where the autograd function is imported from."""
    form = module_form(design.problem, axes_of(design.problem))
    function = design.names.function or ""
    imports = [Import("torch.nn", None, "nn"), Import(function_module, function)]
    if form.learned:
        imports.append(Import("torch"))
    header = block(tuple(imports), FIRST_PARTY)
    source = form.class_source(design.names.module or "", f"{function}.apply", title=design.problem.title)
    return f"{header}\n\n\n{source}\n"
