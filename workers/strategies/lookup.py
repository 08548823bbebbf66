"""The lookup that a file gets whose launch settings are to be tuned. Pure text."""

from __future__ import annotations

import ast

from gpu_runner.contracts import TABLE
from workers.strategies.patches import Patches, line_before_definition
from workers.strategies.syntax import KernelFile

FUNCTION = "_tuned"
LOOKUP = '''# Launch settings that were measured, by architecture, pass and size.
TUNED = {}


def _tuned(device, timed_pass, size, **settings):
    """Give launch settings, with what TUNED has for this GPU and size in their place; None is left to Triton."""
    if device.type == "cuda" and torch.version.hip is None:
        architecture = "sm_%d%d" % torch.cuda.get_device_capability(device)
    else:
        architecture = device.type
    for size_up_to, measured in TUNED.get(architecture, {}).get(timed_pass, ()):
        if size <= size_up_to:
            settings.update({name: measured[name] for name in settings if name in measured})
            break
    return {name: value for name, value in settings.items() if value is not None}


'''


def taken(file: KernelFile) -> bool:
    """Tell whether a file has these names already."""
    names = {n.id for n in ast.walk(file.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    defined = {n.name for n in file.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return bool({TABLE, FUNCTION} & (names | defined))


def imports_torch(file: KernelFile) -> bool:
    """Tell whether a file binds the name ``torch``, which the lookup needs."""
    imports = [n for n in file.tree.body if isinstance(n, ast.Import)]
    return any(
        a.name == "torch" or (a.name.startswith("torch.") and a.asname is None) for n in imports for a in n.names
    )


def insert_lookup(patches: Patches, file: KernelFile) -> None:
    """Put the table and its lookup before the first definition of the file."""
    definitions = [n for n in file.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    first = min(definitions, key=lambda n: n.lineno)
    line = line_before_definition(first, file.source)
    before = [n for n in file.tree.body if (n.end_lineno or n.lineno) < line]
    if before and isinstance(before[-1], ast.Import | ast.ImportFrom):
        # Import sorters want one blank line behind imports, where no definition follows them.
        last = before[-1].end_lineno or before[-1].lineno
        if not "".join(file.source.split("\n")[last : line - 1]).strip():
            patches.replace_lines(last + 1, line - 1, "\n")
    patches.insert_before(line, LOOKUP)
