"""The parameter sweep: launch settings and tiles are looked up in ``TUNED``, which a tuning run fills, or stay. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import lru_cache

from gpu_runner.contracts import TABLE, Knob, Pass
from gpu_runner.contracts.reading import TRITON, walk
from workers.authors.compiler.schedules.cutedsl import VALUES as OF_THREADS
from workers.contracts import Notes, PlannedStrategy
from workers.strategies.evidence import bound_of
from workers.strategies.protocol import DoesNotApply, Proposed, Situation, Table
from workers.strategies.source import (
    KernelFile,
    Launch,
    Patches,
    accesses_of,
    autotune_of,
    called,
    constexprs_of,
    indent_of,
    line_before_definition,
    loops_over_blocks,
    names_in,
    parsed,
    rendered_call,
    size_parameter,
)
from workers.strategies.tiles import ELEMENTS, launch_numbers, look_up
from workers.strategies.tiles import LOOKUP as LOOKUP_OF_TILES
from workers.tuned_table import with_tuned

FUNCTION = "_tuned"
LOOKUP = '''# Launch settings that were measured, by architecture, pass and size.
TUNED = {}


def _tuned(device, timed_pass, size, **settings):
    """Launch settings, with what TUNED has for this GPU and size in their place; None is left to Triton."""
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
    """Whether a file has these names already."""
    names = {n.id for n in walk(file.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    defined = {n.name for n in file.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    return bool({TABLE, FUNCTION} & (names | defined))


def imports_torch(file: KernelFile) -> bool:
    """Whether a file binds the name ``torch``, which the lookup needs."""
    imports = [n for n in file.tree.body if isinstance(n, ast.Import)]
    return any(
        a.name == "torch" or (a.name.startswith("torch.") and a.asname is None) for n in imports for a in n.names
    )


def insert_lookup(patches: Patches, file: KernelFile, lookup: str = LOOKUP) -> None:
    """Insert the table and its lookup before the first definition of the file."""
    definitions = [n for n in file.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    first = min(definitions, key=lambda n: n.lineno)
    line = line_before_definition(first, file.source)
    before = [n for n in file.tree.body if (n.end_lineno or n.lineno) < line]
    if before and isinstance(before[-1], ast.Import | ast.ImportFrom):
        # Import sorters want one blank line behind imports, where no definition follows them.
        last = before[-1].end_lineno or before[-1].lineno
        if not "".join(file.source.split("\n")[last : line - 1]).strip():
            patches.replace_lines(last + 1, line - 1, "\n")
    patches.insert_before(line, lookup)


WARPS = (1, 2, 4, 8, 16, 32)
STAGES = (1, 2, 3, 4)
BLOCKS = (1024, 2048, 4096, 8192, 16384, 32768)
PROGRAMS = (1, 2, 3, 4, 8)
PROGRAMS_NAME = "programs_per_multiprocessor"
ROWS_NAME = "rows_per_program"
ROWS = (1, 2, 4, 8, 16, 32)
LOOP_STAGES_NAME = "loop_stages"
VALUES = {
    "num_warps": WARPS,
    "num_stages": STAGES,
    PROGRAMS_NAME: PROGRAMS,
    ROWS_NAME: ROWS,
    LOOP_STAGES_NAME: STAGES,
}
# Of settings that are looked up already; the names in capitals are the compiler author's.
SETTINGS = VALUES | {"BLOCK_SIZE": BLOCKS, "BLOCK_ROWS": ROWS, "PROGRAMS": PROGRAMS, "NUM_STAGES": STAGES}
SETTINGS = OF_THREADS | SETTINGS | {ELEMENTS: BLOCKS}
ALLOCATIONS = ("torch.empty", "torch.empty_like", "torch.zeros", "torch.zeros_like")


@dataclass(frozen=True)
class Tunable:
    """A launch, its tunable settings with their present expressions (None: left to Triton), and its lookup."""

    launch: Launch
    timed_pass: Pass
    device: str  # such as "X.device"
    size: str  # such as "n_cols"
    settings: tuple[tuple[str, ast.expr | None], ...]


@dataclass(frozen=True)
class Persistent:
    """A function that starts as many programs as the GPU has multiprocessors: ``name`` holds that number."""

    function: ast.FunctionDef
    name: str
    after: ast.stmt  # the statement after which the number is settled
    launch: Tunable


def tunables(file: KernelFile) -> tuple[Tunable, ...]:
    """The launches that can be tuned, from top to bottom."""
    return tuple(tunable for launch in file.launches if (tunable := _tunable(file, launch)) is not None)


def persistents(launches: tuple[Tunable, ...]) -> tuple[Persistent, ...]:
    """The places where the number of programs is the number of multiprocessors."""
    places: dict[tuple[str, str], Persistent] = {}
    for tunable in launches:
        function = tunable.launch.function
        for statement in function.body:
            name = _multiprocessors(statement)
            known = _known_before(function, statement)
            ready = {tunable.size.split(".")[0], tunable.device.split(".")[0]} <= known
            if name is not None and ready and name in _grid_names(function, tunable.launch):
                places.setdefault((function.name, name), Persistent(function, name, statement, tunable))
    return tuple(places.values())


def knobs_of(launches: tuple[Tunable, ...], places: tuple[Persistent, ...]) -> tuple[Knob, ...]:
    """The knobs of a file's launches, each setting once a pass."""
    names = [(t.timed_pass, name) for t in launches for name, _ in t.settings]
    names += [(p.launch.timed_pass, PROGRAMS_NAME) for p in places]
    return tuple(Knob(timed_pass, name, VALUES.get(name, BLOCKS)) for timed_pass, name in dict.fromkeys(names))


def _tunable(file: KernelFile, launch: Launch) -> Tunable | None:
    kernel = file.kernels[launch.kernel]
    if launch.timed_pass is None or autotune_of(kernel) is not None or _looked_up(launch):
        return None
    tensor, size = tensor_of(file, launch), size_of(file, launch, kernel)
    if tensor is None or size is None:
        return None
    settings = _settings(launch, kernel)
    return Tunable(launch, launch.timed_pass, f"{tensor}.device", size, tuple(settings)) if settings else None


def _settings(launch: Launch, kernel: ast.FunctionDef) -> list[tuple[str, ast.expr | None]]:
    given = {k.arg: k.value for k in launch.call.keywords if k.arg is not None}
    # What an unpacked dict holds is not known, except that a setting that is named beside it is not in it.
    wanted = ["num_warps"]
    wanted += ["num_stages"] if any(called(node) == "tl.dot" for node in walk(kernel)) else []
    settings = [(n, given.get(n)) for n in wanted if n in given or not launch.starred or in_dict(launch, n)]
    for name in constexprs_of(kernel):
        value = given.get(name)
        if (
            name.startswith("BLOCK")
            and value is not None
            and loops_over_blocks(kernel, name)
            and not _shapes_grid(launch, value)
        ):
            settings.append((name, value))
    return settings


def in_dict(launch: Launch, setting: str) -> bool:
    """Whether a setting comes from a dict that is unpacked into the call, and must not be given a second time."""
    named = [n for n in walk(launch.function) if isinstance(n, ast.Constant) and n.value == setting]
    return bool(launch.starred) and bool(named) and setting not in {k.arg for k in launch.call.keywords}


def _looked_up(launch: Launch) -> bool:
    return any(called(keyword.value) == "_tuned" for keyword in launch.starred)


def tensor_of(file: KernelFile, launch: Launch) -> str | None:
    """The first tensor that a launch hands over, by a name that is surely no None."""
    pointers = accesses_of(file.kernels[launch.kernel])
    for parameter, value in launch.arguments:
        moved = parameter in pointers.read | pointers.written
        if moved and isinstance(value, ast.Name) and _is_tensor(value.id, launch.function):
            return value.id
    return None


def _is_tensor(name: str, function: ast.FunctionDef) -> bool:
    """A name whose strides or shape are taken unconditionally, or that was allocated just here, is no None."""
    optional = {id(x) for n in walk(function) if isinstance(n, ast.IfExp) for x in walk(n)}
    return any(_tells_tensor(node, name) for node in walk(function) if id(node) not in optional)


def _tells_tensor(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id == name and node.attr in ("stride", "shape", "view", "device")
    if isinstance(node, ast.Assign) and called(node.value) in ALLOCATIONS:
        return any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    return False


def size_of(file: KernelFile, launch: Launch, kernel: ast.FunctionDef) -> str | None:
    """The length of a row as the host knows it, by which settings are looked up; None where it has no name."""
    parameter = size_parameter(kernel)
    value = launch.argument(parameter) if parameter is not None else None
    return file.segment(value) if isinstance(value, ast.Name | ast.Attribute) else None


def _shapes_grid(launch: Launch, block: ast.expr) -> bool:
    names = names_in(block)
    return bool(names & _grid_names(launch.function, launch)) if names else False


def _grid_names(function: ast.FunctionDef, launch: Launch) -> frozenset[str]:
    names = set(names_in(launch.grid))
    for _ in range(4):
        for node in walk(function):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in names for t in node.targets):
                names |= names_in(node.value)
    return frozenset(names)


def _multiprocessors(statement: ast.stmt) -> str | None:
    """The name that a statement gives the number of multiprocessors, whichever branch it takes."""
    for node in walk(statement):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            if isinstance(value, ast.Attribute) and value.attr == "multi_processor_count":
                return node.targets[0].id
    return None


def _known_before(function: ast.FunctionDef, statement: ast.stmt) -> frozenset[str]:
    known = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    for earlier in function.body:
        if earlier is statement:
            break
        known |= {n.id for n in walk(earlier) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(known)


def looked_up(file: KernelFile) -> tuple[Knob, ...]:
    """The knobs of a file that is written to look its settings up, and whose table is still empty; () for any other."""
    tables = [
        n for n in file.tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.Dict) and not n.value.keys
    ]
    if not any(isinstance(target, ast.Name) and target.id == TABLE for node in tables for target in node.targets):
        return ()
    calls = [n for n in walk(file.tree) if isinstance(n, ast.Call) and called(n) == FUNCTION and len(n.args) == 3]
    names = dict.fromkeys(
        (str(passed.value), str(keyword.arg))
        for passed, keyword in ((call.args[1], keyword) for call in calls for keyword in call.keywords)
        if isinstance(passed, ast.Constant) and passed.value in set(Pass) and keyword.arg in SETTINGS
    )
    return tuple(Knob(Pass(timed_pass), name, SETTINGS[name]) for timed_pass, name in names)


Wanted = frozenset[tuple[Pass, str]]


@lru_cache(maxsize=64)  # as often as its file is parsed
def swept(source: str, wanted: Wanted | None = None) -> tuple[str, tuple[Knob, ...]] | None:
    """A file whose settings are looked up, with the knobs to tune; None where there is nothing to tune.

    ``wanted`` limits it to some settings of some passes; None: all that may be changed.

    Raises:
        ValueError: the file cannot be parsed.
    """
    file = parsed(source)
    if there := looked_up(file):
        return source, there
    if taken(file) or not imports_torch(file):
        return None
    launches = tunables(file)
    places = persistents(launches)
    numbers = () if launches else launch_numbers(file)
    if wanted is not None:
        numbers = tuple(number for number in numbers if (number.timed_pass, number.setting) in wanted)
        places = tuple(p for p in places if (p.launch.timed_pass, PROGRAMS_NAME) in wanted)
        limited = (
            replace(t, settings=tuple(s for s in t.settings if (t.timed_pass, s[0]) in wanted)) for t in launches
        )
        launches = tuple(t for t in limited if t.settings)
    patches = Patches(source)
    changed = tuple(t for t in launches if _rewrite(patches, file, t))
    for place in places:
        _count(patches, file, place)
    look_up(patches, file, numbers)
    if not changed and not places and not numbers:
        return None
    insert_lookup(patches, file, LOOKUP_OF_TILES if numbers else LOOKUP)
    tiles = {(number.timed_pass, number.setting): number.knob for number in numbers}
    return patches.result(), (*knobs_of(changed, places), *tiles.values())


def _rewrite(patches: Patches, file: KernelFile, tunable: Tunable) -> bool:
    """Replace a launch's settings by the lookup; False where the call is written in a way that this cannot preserve."""
    call = tunable.launch.call
    dropped = {name for name, _ in tunable.settings}
    through_dict = next((k for k in tunable.launch.starred if any(in_dict(tunable.launch, n) for n in dropped)), None)
    named = [k for k in call.keywords if k.arg in dropped]
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    lines = [a.lineno for a in arguments]
    if len(set(lines)) == len(lines) and lines and call.lineno not in lines:
        # A comment stays with the lookup, which stands in the line of the setting that it is about.
        commented = [k for k in named if not _alone_on_its_line(file, k)]
        place = through_dict or next(iter([*commented, *named]), None)
        others = [k for k in named if k is not place]
        if place is not None and all(_alone_on_its_line(file, k) for k in others):
            inner = indent_of(file.source, place.lineno)
            patches.replace(place, _lookup(file, tunable, through_dict, inner))
            for keyword in others:
                patches.replace_lines(keyword.lineno, keyword.end_lineno or keyword.lineno, "")
            return True
    segment = file.segment(call)
    if "#" in segment:
        return False
    kept = [file.segment(a) for a in call.args]
    kept += [_keyword(file, k) for k in call.keywords if k not in named and k is not through_dict]
    indent = indent_of(file.source, call.lineno)
    kept.append(_lookup(file, tunable, through_dict, indent + "    "))
    patches.replace(call, rendered_call(file.segment(call.func), kept, indent))
    return True


def _lookup(file: KernelFile, tunable: Tunable, through_dict: ast.keyword | None, indent: str) -> str:
    arguments = [tunable.device, f'"{tunable.timed_pass}"', tunable.size]
    for name, value in tunable.settings:
        if not (through_dict is not None and in_dict(tunable.launch, name)):
            arguments.append(f"{name}={'None' if value is None else file.segment(value)}")
    if through_dict is not None:
        arguments.append(f"**{file.segment(through_dict.value)}")
    return rendered_call(f"**{FUNCTION}", arguments, indent, width=119)


def _keyword(file: KernelFile, keyword: ast.keyword) -> str:
    value = file.segment(keyword.value)
    return f"**{value}" if keyword.arg is None else f"{keyword.arg}={value}"


def _alone_on_its_line(file: KernelFile, keyword: ast.keyword) -> bool:
    text = file.source.split("\n")[(keyword.end_lineno or keyword.lineno) - 1]
    return text.rstrip().endswith(",") and "#" not in text


def _count(patches: Patches, file: KernelFile, place: Persistent) -> None:
    """More programs than multiprocessors keep more bytes on their way; the buffers of partial sums grow with the number."""
    indent = indent_of(file.source, place.after.lineno)
    launch = place.launch
    lookup = f'{FUNCTION}({launch.device}, "{launch.timed_pass}", {launch.size}, {PROGRAMS_NAME}=1)'
    line = f'{indent}{place.name} *= {lookup}["{PROGRAMS_NAME}"]\n'
    patches.insert_before((place.after.end_lineno or place.after.lineno) + 1, line)


NO_LAUNCH = "The file launches no kernel of its own whose settings could be looked up."
AUTOTUNED = "`@triton.autotune` chooses this file's settings on the user's own GPU, so that a table would not be asked."


class ParameterSweep:
    """Tunes warps, stages, blocks and programs of every launch; no kernel changes."""

    id = "parameter_sweep"
    title = "Launch settings by measurement"
    document = "parameter-sweep.md"
    needs_kernel = True

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """Always the first: it costs nothing to read, and shows how much the present code can give."""
        sweep = _swept(situation)
        if isinstance(sweep, DoesNotApply):
            return PlannedStrategy(self.id, self.title, sweep.sentence, 1.0, 1.0, bound_of(situation))
        if situation.language != TRITON:
            settings = " and ".join(f"`{knob.setting}` ({knob.tuned_pass})" for knob in sweep[1])
            trigger = f"Settings are the same on all GPUs and at all sizes: {settings}."
            return PlannedStrategy(self.id, self.title, trigger, 1.0, 1.3, bound_of(situation))
        kernels = [k for k in situation.reading.kernels if k.launch]
        fixed = sum(1 for k in kernels if not any(name == "num_warps" for name, _ in k.launch))
        many = f"{len(kernels)} kernels are" if len(kernels) > 1 else "1 kernel is"
        trigger = f"{many} launched with settings of one rule for all GPUs and sizes"
        trigger += f", {fixed} of them with Triton's default number of warps." if fixed else "."
        return PlannedStrategy(self.id, self.title, trigger, 1.0, 1.3 if fixed else 1.15, bound_of(situation))

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """The file with its settings looked up; where no setting won, ``settle`` returns the original file."""
        sweep = _swept(situation)
        if isinstance(sweep, DoesNotApply):
            return sweep
        text, knobs = sweep
        named = ", ".join(f"`{knob.setting}` ({knob.tuned_pass})" for knob in knobs)
        notes = Notes(
            "The settings come from a rule that knows neither this GPU nor these sizes; measured ones are at least as fast.",
            f"Launches look their settings up in `TUNED` first: {named}. No kernel is changed.",
            "Between nothing and 15%, most where a pass is far from its floor; the file stays as it is if nothing is found.",
        )
        return Proposed(text, notes, knobs, lambda _, table: with_tuned_sweep(situation.source, table))


def _swept(situation: Situation) -> tuple[str, tuple[Knob, ...]] | DoesNotApply:
    try:
        sweep = swept(situation.source)
    except ValueError as error:
        return DoesNotApply(f"The source was not understood: {error}.")
    if sweep is None:
        return DoesNotApply(AUTOTUNED if situation.reading.autotuned else NO_LAUNCH)
    return sweep


def with_tuned_sweep(source: str, table: Table) -> str:
    """A file in which only settings of the table are looked up; the original file, byte by byte, where there are none.

    Raises:
        ValueError: the file cannot be parsed.
    """
    wanted = frozenset(
        (Pass(timed_pass), setting)
        for _, passes in table
        for timed_pass, entries in passes
        for _, settings in entries
        for setting, _ in settings
    )
    sweep = swept(source, wanted) if wanted else None
    return source if sweep is None else with_tuned(sweep[0], table)
