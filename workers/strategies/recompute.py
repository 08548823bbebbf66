"""What forward saves and backward can compute again from what it loads anyway is no longer saved. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpu_runner.contracts import Bound
from workers.contracts import Goal
from workers.strategies.captured import kept_for_backward
from workers.strategies.evidence import Worth, bound_of
from workers.strategies.fitting import KeptError
from workers.strategies.lifting import mask_of
from workers.strategies.patches import Patches, indent_of
from workers.strategies.pointers import STORES, accesses_of
from workers.strategies.protocol import Situation
from workers.strategies.removing import Element, remove_elements, remove_statement
from workers.strategies.row_programs import used_elsewhere
from workers.strategies.saved_tensors import (
    NOTHING,
    Side,
    Way,
    allocation_of,
    count,
    forward_names,
    returned_place,
    same_tensor,
    saved_place,
    way_of,
)
from workers.strategies.slicing import (
    address_of,
    block_of,
    other_of,
    plain_load,
    rewritten,
    same_load,
    sliced,
    stored_twice,
    unified,
)
from workers.strategies.syntax import KernelFile, called, names_in, parameters_of, parsed
from workers.strategies.transformed import Place, Transformation, Transformed

# Where speed alone is the goal, what is saved must be a large part of what is moved.
LEAST_GAIN = 1.1
FORESEEN_GAIN = 1.25  # a tensor less among the four or five of an element-wise backward pass


def without_saving(place: Place) -> str:
    """Give the file with one tensor less that a forward kernel writes for the backward pass.

    Raises:
        KeptError: it writes no such tensor, or backward cannot surely compute it again.
    """
    file, kernel = place.file, place.file.kernels[place.kernel]
    way = way_of(file, place.kernel)
    if any(used_elsewhere(k, place.tree, place.path) for k in (place.kernel, way.backward.launch.kernel)):
        raise KeptError("it is used in other places than the launches of this file")
    reasons = []
    for store in _stores(kernel):
        try:
            return _without(file, way, kernel, store)
        except KeptError as error:
            reasons.append(str(error))
    told = [reason for reason in reasons if reason != NOTHING]
    raise KeptError(told[0] if told else NOTHING)


def _stores(kernel: ast.FunctionDef) -> list[ast.Expr]:
    return [s for s in kernel.body if isinstance(s, ast.Expr) and called(s.value) in STORES]


def _without(file: KernelFile, way: Way, kernel: ast.FunctionDef, store: ast.Expr) -> str:
    assert isinstance(store.value, ast.Call), "only stores are looked at"
    pointer = next((a.parameter for a in accesses_of(kernel).stores if a.call is store.value), None)
    tensor = way.forward.launch.argument(pointer) if pointer else None
    if pointer is None or not isinstance(tensor, ast.Name) or len(store.value.args) < 2:
        raise KeptError(NOTHING)
    allocation = allocation_of(way.forward.host, tensor.id)
    place = saved_place(way, tensor.id)
    patches = Patches(file.source)
    _compute_again(patches, file, way, store.value, way.names[place], allocation)
    gone = _without_store(patches, file, kernel, store, pointer)
    _without_parameters(patches, file, way.forward, gone, tensor.id)
    remove_statement(patches, file, allocation)
    _no_longer_saved(patches, file, way, tensor.id, place)
    return patches.result()


def _compute_again(
    patches: Patches, file: KernelFile, way: Way, store: ast.Call, saved: str, allocation: ast.Assign
) -> None:
    """Put what the store was of in the place of the backward kernel's load, from what that kernel loads anyway."""
    side = way.backward
    kernel = file.kernels[side.launch.kernel]
    name = _name_in_host(side, saved)
    pointers = [p for p, value in side.launch.arguments if isinstance(value, ast.Name) and value.id == name]
    loads = [a.call for a in accesses_of(kernel).loads if a.parameter in pointers]
    block, load = block_of(kernel, loads)
    call = plain_load(load)
    assert call is not None, "a block is found by its load"
    names: dict[str, str] = {}
    mask, masked = mask_of(store), mask_of(call)
    one = file.kernels[way.forward.launch.kernel]
    same = address_of(one, store).unified(address_of(kernel, call), names)
    if not same or (mask is None) is not (masked is None) or (mask and masked and not unified(mask, masked, names)):
        raise KeptError("forward and backward address what is saved in different ways")
    computed, loaded = sliced(one, store.args[1])
    found = [_same_load(file, way, block, wanted, names) for wanted in loaded]
    like = ast.unparse(allocation.value.args[0]) if isinstance(allocation.value, ast.Call) else ""
    typed = _pointer_of(way, found, like, kernel)
    last = max([load, *found], key=lambda s: s.lineno)
    target = ast.unparse(load.targets[0])
    between = [s for s in block if load.lineno < s.lineno <= last.lineno]
    if any(target in names_in(s) for s in between) or any(stored_twice(kernel, s) for s in found):
        raise KeptError("backward needs what is saved before it has loaded what it is computed from")
    taken = set(names_in(kernel)) | set(parameters_of(kernel))
    lines, value = rewritten(file, computed, store.args[1], names, lambda n: _free(n, taken))
    where, other = other_of(call)
    again = (
        f"({value}).to({typed}.dtype.element_ty)"
        if not value.isidentifier()
        else f"{value}.to({typed}.dtype.element_ty)"
    )
    text = again if where is None else f"tl.where({where}, {again}, {other})"
    indent = indent_of(file.source, load.lineno)
    lines.append(file.segment(load).replace(file.segment(call), text))
    moves = list(address_of(kernel, call).moves)
    for statement in (load, *moves):
        remove_statement(patches, file, statement)
    patches.insert_before((last.end_lineno or last.lineno) + 1, "".join(f"{indent}{line}\n" for line in lines))
    _without_parameters(patches, file, side, _only_for(kernel, [load, *moves], pointers), name)


def _name_in_host(side: Side, saved: str) -> str:
    if side.call is None:
        return saved
    uses = [p for p in parameters_of(side.host) if side.given(p) == saved]
    if len(uses) != 1 or count(side.method, saved) != 2:
        raise KeptError("backward does more with what is saved than hand it to its kernel")
    return uses[0]


def _same_load(
    file: KernelFile, way: Way, block: list[ast.stmt], wanted: ast.Assign, names: dict[str, str]
) -> ast.Assign:
    """The backward kernel's own load of the same elements of the same tensor."""
    forward, backward = (file.kernels[s.launch.kernel] for s in (way.forward, way.backward))
    roots = [{id(a.call): a.parameter for a in accesses_of(k).loads} for k in (forward, backward)]
    source = plain_load(wanted)
    one = way.forward.launch.argument(roots[0].get(id(source)) or "") if source else None
    for statement in block:
        load = plain_load(statement) if isinstance(statement, ast.Assign) else None
        if load is None or not isinstance(statement, ast.Assign) or not isinstance(one, ast.Name):
            continue
        other = way.backward.launch.argument(roots[1].get(id(load)) or "")
        trial = dict(names)
        if same_load(forward, wanted, backward, statement, trial) and same_tensor(file, way, one.id, other):
            names.update(trial)
            names[ast.unparse(wanted.targets[0])] = ast.unparse(statement.targets[0])
            return statement
    raise KeptError("the backward kernel does not load what it is computed from")


def _pointer_of(way: Way, found: Iterable[ast.Assign], like: str, kernel: ast.FunctionDef) -> str:
    """The backward kernel's pointer to the tensor whose element type the saved one had."""
    roots = {id(a.call): a.parameter for a in accesses_of(kernel).loads}
    mine = forward_names(way.forward, like)
    for statement in found:
        pointer = roots.get(id(plain_load(statement)))
        value = way.backward.launch.argument(pointer or "")
        theirs = way.backward.given(value.id) if isinstance(value, ast.Name) else None
        if pointer and any(s in mine and n == theirs for s, n in zip(way.saved, way.names, strict=True)):
            return pointer
    raise KeptError("the backward kernel does not load the tensor that gave what is saved its element type")


def _free(name: str, taken: set[str]) -> str:
    new = name if name not in taken else f"{name}_again"
    if new in taken:
        raise KeptError(f"`{new}` is something else in the backward kernel")
    taken.add(new)
    return new


def _without_store(
    patches: Patches, file: KernelFile, kernel: ast.FunctionDef, store: ast.Expr, pointer: str
) -> list[str]:
    """Take the store away, what only moved its pointer, and what only it was computed by; give the parameters left over."""
    gone: list[ast.stmt] = [store]
    gone += [s for s in kernel.body if isinstance(s, ast.AugAssign) and ast.unparse(s.target) == pointer]
    while True:
        left = [n for s in kernel.body if s not in gone for n in ast.walk(s) if isinstance(n, ast.Name)]
        read = {n.id for n in left if isinstance(n.ctx, ast.Load)}
        before = {n.id for s in gone for n in ast.walk(s) if isinstance(n, ast.Name)}
        unused = [
            s
            for s in kernel.body
            if s not in gone and isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) in before - read
        ]
        if not unused:
            break
        gone += unused
    for statement in gone:
        remove_statement(patches, file, statement)
    return _only_for(kernel, gone, [pointer])


def _only_for(kernel: ast.FunctionDef, gone: list[ast.stmt], pointers: list[str]) -> list[str]:
    inside = {id(n) for s in gone for n in ast.walk(s)}
    rest = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name) and id(n) not in inside}
    mentioned = {n.id for s in gone for n in ast.walk(s) if isinstance(n, ast.Name)}
    if set(pointers) & rest:
        raise KeptError("what is saved is used in more than one place")
    return [p for p in parameters_of(kernel) if p in mentioned and p not in rest]


def _without_parameters(patches: Patches, file: KernelFile, side: Side, gone: list[str], tensor: str) -> None:
    launch = side.launch
    kernel = file.kernels[launch.kernel]
    parameters: list[Element] = list(kernel.args.args)
    remove_elements(patches, file, parameters, [a for a in kernel.args.args if a.arg in gone])
    handed = {id(value) for name, value in launch.arguments if name in gone}
    arguments: list[Element] = [*launch.call.args, *launch.call.keywords]
    mine = [a for a in arguments if id(a.value if isinstance(a, ast.keyword) else a) in handed]
    if any(count(a, tensor) for a in arguments if a not in mine):
        raise KeptError("what is saved is used for more than itself")
    remove_elements(patches, file, arguments, mine)


def _no_longer_saved(patches: Patches, file: KernelFile, way: Way, tensor: str, place: int) -> None:
    remove_elements(patches, file, list(way.saving.args), [way.saving.args[place]])
    left = [name for number, name in enumerate(way.names) if number != place]
    patches.replace(way.loading.targets[0], f"({left[0]},)" if len(left) == 1 else ", ".join(left))
    forward, backward = way.forward, way.backward
    host_uses = 1 + count(forward.launch.call, tensor)
    if forward.call is not None and forward.unpacked is not None:
        number = returned_place(forward, tensor)
        last, target = forward.host.body[-1], forward.unpacked.targets[0]
        assert isinstance(last, ast.Return), "a tensor is given back in the last statement"
        for node in (last.value, target):
            assert isinstance(node, ast.Tuple), "a tensor is one of several results"
            patches.replace(node, ", ".join(file.segment(e) for i, e in enumerate(node.elts) if i != number))
        host_uses += 1
        if count(forward.host, tensor) != host_uses:
            raise KeptError("what is saved is used for more than itself")
    if backward.call is not None:
        name = _name_in_host(backward, way.names[place])
        if count(backward.host, name) != count(backward.launch.call, name):
            raise KeptError("backward does more with what is saved than hand it to its kernel")
        call, host = backward.call, backward.host
        if call.keywords or host.args.defaults:
            raise KeptError("how backward hands what is saved to its kernel could not be told")
        number = parameters_of(host).index(name)
        remove_elements(patches, file, list(call.args), [call.args[number]])
        remove_elements(patches, file, list(host.args.args), [host.args.args[number]])
    elif count(backward.method, way.names[place]) != 1 + count(backward.launch.call, way.names[place]):
        raise KeptError("backward does more with what is saved than hand it to its kernel")


def _worth(situation: Situation, found: Transformed) -> Worth | None:
    """A write and a read less among those that both kernels make; for memory, a tensor less among those saved."""
    before, after = (_moved(parsed(text)) for text in (situation.source, found.source))
    gain = before / max(after, 1)
    if situation.goal is Goal.speed and gain < LEAST_GAIN:
        return None
    if situation.goal is Goal.speed:
        return Worth(f"{before - after} of {before} loads and stores of the file's kernels would go", gain)
    trigger = (
        f"A tensor of the size of an input would no longer be saved, and {before - after} of {before} loads and stores"
    )
    return Worth(f"{trigger} would go", max(gain, 1.25), 1.05)


def _foreseen(situation: Situation) -> Worth | None:
    """Arithmetic is free where memory bounds a pass: what autograd would keep is then cheaper to compute again."""
    kept = () if situation.graph is None else kept_for_backward(situation.problem, situation.graph)
    if not kept or bound_of(situation) is not Bound.memory:
        return None
    named = ", ".join(f"`{op}`" for op in dict.fromkeys(kept))
    trigger = f"Backward needs what forward computes by {named} at the size of an input, and memory bounds it"
    return Worth(trigger, FORESEEN_GAIN)


def _moved(file: KernelFile) -> int:
    found = (accesses_of(kernel) for kernel in file.kernels.values())
    return sum(len(accesses.loads) + len(accesses.stores) for accesses in found)


RECOMPUTE = Transformation(
    "recompute",
    "Recompute instead of save",
    "recompute.md",
    without_saving,
    (),
    _worth,
    "What is saved is not worth computing again.",
    "Writing an intermediate and reading it again moves more bytes than computing it takes, and keeps memory until backward.",
    "What forward wrote for backward alone is computed again there, from what backward loads anyway, and rounded as it was",
    "A tensor of the size of an input less between forward and backward, and a write and a read less.",
    _foreseen,
)
