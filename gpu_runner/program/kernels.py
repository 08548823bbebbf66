"""Kernels of a program: their closed languages, what Triton and cuTile are given of them, and their launches.

Triton or cuTile compiles, and Triton's interpreter runs, a function that is made here of the checked syntax tree alone.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import importlib
import inspect
import itertools
import linecache
import types
import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gpu_runner.contracts.reading import dotted
from gpu_runner.contracts.verify import Status
from gpu_runner.program import lanes, language, threads, tiles
from gpu_runner.program.coverage import Decisions
from gpu_runner.program.evaluator import Evaluator
from gpu_runner.program.evaluator.calls import Calls
from gpu_runner.program.language import THREAD_KERNELS, TILE_KERNELS, TRITON_KERNELS, KernelLanguage
from gpu_runner.program.objects import FIXED, GIVEN, Facade, Function, Native, TypeAnnotation, Violation, unproved
from gpu_runner.program.scopes import bound_names, is_plain_annotation

_FUTURE = importlib.import_module("__future__")
_STATEMENTS = (
    ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.For, ast.While, ast.Return, ast.Pass, ast.Assert,
    ast.Break, ast.Continue,
)  # fmt: skip
_EXPRESSIONS = (
    ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare,
    ast.IfExp, ast.Tuple, ast.List, ast.Call, ast.Starred, ast.JoinedStr, ast.FormattedValue, ast.ListComp,
)  # fmt: skip
BUILTINS = language.words("abs bool float int isinstance len max min range tuple list str print getattr")
_places = itertools.count()
_made_at: weakref.WeakValueDictionary[str, Kernel] = weakref.WeakValueDictionary()
MOST_LETTERS = 200
MOST_CALLS = 8  # of an autotuned kernel, whose arguments a prune is asked about once more
_OPTIONS = frozenset(["do_not_specialize", "do_not_specialize_on_alignment", "noinline", "debug"])


@dataclass(eq=False)
class Kernel:
    """A kernel as host code has it; ``real`` is Triton's, with an autotuner around it where there is one."""

    name: str
    real: Any
    function: Function
    evaluator: Calls = field(repr=False)
    globals: dict[str, Any] = field(default_factory=dict, repr=False)
    holds: tuple[Any, ...] = ()  # what Triton keeps for it: configurations, and functions that it calls
    inner: Kernel | None = None  # what an autotuner stands around
    place: str = ""  # by which `lanes` knows its text
    spoken: KernelLanguage = TRITON_KERNELS
    is_ready: bool = False

    def __getitem__(self, grid: Any) -> Native:
        """The launcher for a grid."""
        if self.spoken is not TRITON_KERNELS:
            raise TypeError(f"a kernel of {self.spoken.name} is no launcher")
        return Native(self.name, lambda *args, **named: self.launch(grid, args, named), self)

    def __repr__(self) -> str:
        """Refuse."""
        raise unproved("The text of a kernel would say where it lies.")

    def launch(self, grid: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Launch it."""
        self._begin(named, args)
        self._note_fixed(args, named)
        args = tuple(_given(value, self.spoken) for value in args)
        named = {name: _given(value, self.spoken) for name, value in named.items()}
        if not callable(grid):
            grid = tuple(self.evaluator.iterate(grid)) if isinstance(grid, list | tuple) else (grid,)
        return self.real[grid](*args, **named)

    def launch_tiles(self, stream: Any, grid: Any, args: Any) -> None:
        """Launch it as cuTile does, where its arguments come in a tuple: what each hangs on is not told apart."""
        self.evaluator.argument_levels = None
        args = tuple(self.evaluator.iterate(args))
        self._begin({}, args)
        args = tuple(_given(value, self.spoken) for value in args)
        self.evaluator.decisions.launches(self.place, set())
        tiles.launch(stream, tuple(self.evaluator.iterate(grid)), self.real, args)

    def launch_threads(self, given: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        """Launch it as CuTe DSL does, compiled for arguments of some kinds: what each hangs on is not told apart."""
        self.evaluator.argument_levels = None
        self._begin({}, args)
        args = tuple(_given(value, self.spoken) for value in args)
        self.evaluator.decisions.launches(self.place, set())
        threads.launch(self.real, given, args)

    def _begin(self, named: dict[str, Any], args: tuple[Any, ...]) -> None:
        self.evaluator.launch()
        if self.evaluator.placement is not None:
            self.evaluator.placement.check((args, named))
        if named.get("warmup") or self.evaluator.loading:
            raise unproved("The evaluator launches a kernel within a call, and does not only compile it.")
        self.prepare()

    def _note_fixed(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note which of its arguments hang on nothing but the file; of a dtype, host code and the problem decide."""
        passed, self.evaluator.argument_levels = self.evaluator.argument_levels, None
        by_place, by_name = passed if passed is not None and len(passed[0]) == len(args) else ([], {})
        levels = dict(zip(self.real.arg_names, by_place, strict=False)) | by_name
        values = dict(zip(self.real.arg_names, args, strict=False)) | named
        types_of_data = {name for name, value in values.items() if type(value).__name__ == "dtype"}
        fixed = (
            {name for name, level in levels.items() if level == FIXED} | types_of_data | _of_configurations(self.real)
        )
        self.evaluator.decisions.launches(self.place, fixed)

    def prepare(self) -> None:
        """Look up what the kernel's text names outside of it, in it and in the kernels that it calls."""
        if self.is_ready:
            return
        self.is_ready = True
        try:
            self.globals |= self._outside()
        except BaseException:
            self.is_ready = False
            raise

    def _outside(self) -> dict[str, Any]:
        assert isinstance(self.function.node, ast.FunctionDef)
        names: dict[str, Any] = {}
        for name in free_names(self.function.node):
            value = self.evaluator.lookup(name, self.function.closure)
            if value is not inspect.Parameter.empty:
                names[name] = _given(value, self.spoken, "")
            elif name not in BUILTINS:
                names[name] = _given(self.evaluator.load(name, self.function.closure), self.spoken, "")
        return names


def _of_configurations(real: Any) -> set[str]:
    """The arguments that an autotuner's configurations give, where no call has a say in which: the file has written them."""
    is_pruned = getattr(real, "early_config_prune", None) or getattr(real, "perf_model", None)
    own = set() if is_pruned else {name for config in getattr(real, "configs", ()) for name in config.kwargs}
    return (
        own | _of_configurations(real.fn)
        if hasattr(real, "fn") and not isinstance(real.fn, types.FunctionType)
        else own
    )


def _given(value: Any, spoken: KernelLanguage, holder: str = "argument") -> Any:
    """What a kernel's language is given for a value of the program, as an ``argument`` or for a name in the text of a kernel."""
    if isinstance(value, Kernel):
        if value.spoken is not spoken:
            raise Violation(
                "kernel", f"A kernel of {spoken.name} calls `{value.name}`, which is one of {value.spoken.name}."
            )
        value.prepare()
        return value.real
    if isinstance(value, Native):
        if value.owner is not None or not spoken.has(value.name):
            raise Violation("kernel", f"A kernel has no use for `{value.name}`.")
        return value.call if spoken is TRITON_KERNELS else language.resolve(value.name)
    if isinstance(value, Facade):
        if value.path not in spoken.modules and not value.path.endswith(".libdevice"):
            raise Violation("kernel", f"A kernel has no use for the module `{value.path}`.")
        return importlib.import_module(value.path)
    if isinstance(value, Function):
        raise Violation("kernel", f"A kernel calls `{value.name}`, which is no kernel.")
    if isinstance(value, tuple):
        each = [_given(item, spoken, holder) for item in value]
        return type(value)(*each) if hasattr(value, "_fields") else tuple(each)
    is_plain = isinstance(value, (bool, int, float, str, type(None), torch.dtype))
    is_type = isinstance(value, type) and (value in (bool, int, float, str, tuple) or _is_triton(value))
    is_argument = holder and isinstance(value, torch.Tensor | torch.device | torch.Size)
    if is_plain or is_type or is_argument or _is_triton(type(value)):
        return value
    raise unproved(f"The evaluator gives no kernel a {type(value).__name__}.")


def _is_triton(kind: type) -> bool:
    return kind.__module__.startswith(("triton.", "cuda.tile.")) or kind in (tiles.PaddingMode, tiles.RoundingMode)


def install(evaluator: Evaluator, freeze: Callable[[Any], None]) -> None:
    """Teach an evaluator Triton's decorators; ``freeze`` marks what Triton keeps."""

    def jit(function: Any = None, **options: Any) -> Any:
        if set(options) - _OPTIONS:
            raise unproved(f"The evaluator knows no `triton.jit` with {', '.join(sorted(set(options) - _OPTIONS))}.")
        return make_kernel(function, options) if function is not None else lambda inner: make_kernel(inner, options)

    def autotune(configs: Any, key: Any, **options: Any) -> Any:
        import triton

        known = {
            "prune_configs_by",
            "reset_to_zero",
            "restore_value",
            "warmup",
            "rep",
            "use_cuda_graph",
            "cache_results",
        }
        if set(options) - known:
            raise Violation("triton", f"`triton.autotune` takes no {', '.join(sorted(set(options) - known))} here.")
        options.pop("cache_results", None)
        given = list(configs)
        freeze([given, *options.values()])
        names = list(key)
        options = {name: _pruning(evaluator, option, names) for name, option in options.items()}
        return lambda kernel: _around(kernel, triton.autotune(configs=given, key=names, **options))

    def heuristics(values: Any) -> Any:
        import triton

        freeze([values])
        return lambda kernel: _around(kernel, triton.heuristics(dict(values)))

    def tile(kind: str, known: frozenset[str]) -> Callable[..., Any]:
        def decorator(function: Any = None, /, **options: Any) -> Any:
            if options.keys() - known:
                raise unproved(f"The evaluator knows no `ct.{kind}` with {', '.join(sorted(options.keys() - known))}.")
            return (
                make_kernel(function, options, kind)
                if function is not None
                else lambda inner: make_kernel(inner, options, kind)
            )

        return decorator

    def launch(stream: Any, grid: Any, kernel: Any, kernel_args: Any, /) -> None:
        if not isinstance(kernel, Kernel) or kernel.spoken is not TILE_KERNELS:
            raise TypeError("`ct.launch` takes a kernel of cuTile")
        kernel.launch_tiles(stream, grid, kernel_args)

    evaluator.special |= {
        **_OF_THREADS,
        **threads.HOST,
        "triton.jit": jit,
        "triton.autotune": autotune,
        "triton.heuristics": heuristics,
        "triton.constexpr_function": lambda function: make_kernel(function, {}, "constexpr_function"),
        "torch.library.wrap_triton": lambda kernel: kernel,
        "cuda.tile.kernel": tile("kernel", tiles.OPTIONS),
        "cuda.tile.function": tile("function", frozenset()),
        "cuda.tile.launch": launch,
        "cuda.tile.cdiv": tiles.cdiv,
    }
    evaluator.attribute_of.append(_attribute)


def _thread(kind: str) -> Callable[[Any], Kernel]:
    return lambda function: make_kernel(function, {}, kind)


def _compile_threads(launcher: Any, *given: Any, options: str = "") -> Native:
    """A launcher of CuTe DSL, compiled for what stands for its arguments."""
    if not isinstance(launcher, Kernel) or launcher.spoken is not THREAD_KERNELS or options != threads.OPTIONS:
        raise unproved(f"The evaluator knows `cute.compile` of a launcher with `{threads.OPTIONS}`.")
    if not all(isinstance(each, tuple) for each in given):
        raise unproved("The evaluator compiles a launcher for tensors, numbers and a stream that stand for others.")
    name = f"compiled {launcher.name} {given}"
    return Native(name, lambda *args: launcher.launch_threads(given, args), launcher)


_OF_THREADS: dict[str, Callable[..., Any]] = {
    "cutlass.cute.kernel": _thread("cute.kernel"),
    "cutlass.cute.jit": _thread("cute.jit"),
    "cutlass.cute.compile": _compile_threads,
}


def _pruning(evaluator: Evaluator, option: Any, key: Collection[str]) -> Any:
    """An option of an autotuner; a prune among its functions knows that the file has written the settings that it is given.

    A setting is kept for all calls of one ``key``: those that the prune keeps for other arguments beside it are kept too.
    """
    prune = option.get("early_config_prune") if isinstance(option, dict) else None
    if not isinstance(prune, Function):
        return option
    calls: list[dict[str, Any]] = []  # numbers of earlier ones, but for those of the key

    def kept(configs: Any, given: Any, named: dict[str, Any]) -> list[Any]:
        evaluator.argument_levels = [FIXED, GIVEN], dict.fromkeys(named, GIVEN)
        return list(evaluator.call_function(prune, (configs, given), named))

    def pruned(configs: Any, given: Any, **named: Any) -> list[Any]:
        left = kept(configs, given, named)
        before, evaluator.decisions = evaluator.decisions, Decisions()  # what is decided for no call counts for none
        try:
            for other in calls:
                left += [config for config in kept(configs, given | other, named) if config not in left]
        finally:
            evaluator.decisions = before
        free = {name: value for name, value in given.items() if name not in key and isinstance(value, int | float)}
        if free and free not in calls and len(calls) < MOST_CALLS:
            calls.append(free)
        return left

    return option | {"early_config_prune": pruned}


def _attribute(value: Any, name: str) -> Any:
    if not isinstance(value, Kernel):
        return NotImplemented
    if name == "__name__" and value.inner is None:
        return value.name
    if name == "arg_names":
        return list(value.real.arg_names)
    if name == "fn" and value.inner is not None:
        return value.inner
    if name == "replace_hints" and value.spoken is TILE_KERNELS:
        return Native("replace_hints", functools.partial(_hinted, value), value)
    if name == "run" and value.spoken is TRITON_KERNELS:
        return Native("run", functools.partial(_run, value), value)
    raise Violation("triton", f"The attribute `{name}` of a kernel is not in the language of host code.")


def _hinted(kernel: Kernel, **hints: Any) -> Kernel:
    """The kernel with hints for its compiler, which change no value."""
    if hints.keys() - tiles.OPTIONS:
        named = ", ".join(sorted(hints.keys() - tiles.OPTIONS))
        raise unproved(f"The evaluator knows no `replace_hints` of a kernel with {named}.")
    return replace(kernel, real=kernel.real.replace_hints(**hints))


def _run(kernel: Kernel, *args: Any, grid: Any, warmup: Any = False, **named: Any) -> Any:
    if warmup is not False:
        raise unproved("The evaluator launches a kernel, and does not only compile it.")
    return kernel.launch(grid, args, named)


def _around(kernel: Any, decorate: Callable[[Any], Any]) -> Kernel:
    if not isinstance(kernel, Kernel):
        raise TypeError("an autotuner or a heuristic stands around a kernel")
    return Kernel(
        kernel.name,
        decorate(kernel.real),
        kernel.function,
        kernel.evaluator,
        kernel.globals,
        inner=kernel,
        place=kernel.place,
    )


_KINDS = {  # Triton's are the others
    "kernel": TILE_KERNELS,
    "function": TILE_KERNELS,
    "cute.kernel": THREAD_KERNELS,
    "cute.jit": THREAD_KERNELS,
}


def make_kernel(function: Any, options: dict[str, Any], kind: str = "jit") -> Kernel:
    """A kernel of a function of the program.

    Raises:
        Violation: its text leaves the language of kernels.
    """
    spoken = _KINDS.get(kind, TRITON_KERNELS)
    if not isinstance(function, Function) or not isinstance(function.node, ast.FunctionDef):
        raise TypeError(f"a kernel of {spoken.name} is made of a function")
    node = function.node
    if len(node.name) > MOST_LETTERS:
        raise Violation("too large", f"The name of a kernel has more than {MOST_LETTERS} letters.")
    if function.attributes:
        raise Violation("kernel text", "A kernel is made of a function as it is defined, and of no wrapped one.")
    for violation in violations_in(node, spoken):
        violation.path = violation.path or function.closure.module.path
        raise violation
    holder = Kernel(function.name, None, function, function.evaluator, spoken=spoken)
    by_python = (
        kind == "constexpr_function" or spoken is THREAD_KERNELS
    )  # in the interpreter, of launchers and kernels alike
    plain = _compiled(function, holder.globals, spoken, noted=by_python)
    holder.place = plain.__code__.co_filename
    holder.real = _made(plain, options, kind)
    _made_at[holder.place] = holder
    return holder


def kernel_at(place: str) -> Kernel:
    """The kernel whose Python function has its code at this place.

    Raises:
        KeyError: there is none.
    """
    return _made_at[place]


def _made(plain: types.FunctionType, options: dict[str, Any], kind: str) -> Any:
    """The library's own kernel of a Python function."""
    import triton

    if _KINDS.get(kind) is THREAD_KERNELS:
        return threads.made(plain, kind.removeprefix("cute."))
    if kind in _KINDS:
        decorate = getattr(importlib.import_module(tiles.MODULE), kind)
        return decorate(**options)(plain) if options else decorate(plain)
    if kind == "constexpr_function":
        return triton.constexpr_function(plain)
    return triton.jit(plain, **options) if options else triton.jit(plain)


def _compiled(function: Function, names: dict[str, Any], spoken: KernelLanguage, *, noted: bool) -> Any:
    """A Python function of a kernel's checked tree. Its source, which its language reads again, is that tree's own text.

    What a function decides that Python runs is ``noted``; of a kernel the interpreter has it noted.
    """
    node = function.node
    assert isinstance(node, ast.FunctionDef)
    bare = copy.deepcopy(node)
    bare.decorator_list = []
    if ast.get_docstring(bare, clean=False) is not None:
        bare.body = bare.body[1:] or [ast.copy_location(ast.Pass(), bare.body[0])]
    _settle_defaults(bare, function, spoken)
    path = function.closure.module.path
    text = ast.unparse(bare)
    if ast.dump(ast.parse(text).body[0]) != ast.dump(bare):
        raise unproved(f"The text of the kernel `{node.name}` does not say what its tree says.")
    place = f"{path}:{node.lineno}:{node.name}:{next(_places)}"  # Triton reads it when it first runs the kernel
    lines = [line + "\n" for line in text.splitlines()]
    linecache.cache[place] = (len(text), None, lines, place)
    lanes.register(place, path, bare, text, bound_names(node)[0])
    tree = ast.parse(text)
    if noted and lanes.noting:
        tree = ast.fix_missing_locations(lanes.Noting().visit(tree))
        names |= lanes.noting
    code = compile(tree, place, "exec", _FUTURE.annotations.compiler_flag, dont_inherit=True)
    import triton.language as tl

    names |= {"__builtins__": _plain_builtins(), "__name__": function.closure.module.name, "__kernelsmith_tl__": tl}
    if spoken is TILE_KERNELS:
        names["__kernelsmith_ct__"] = importlib.import_module(tiles.MODULE)
    if spoken is THREAD_KERNELS:
        names["__kernelsmith_cutlass__"] = importlib.import_module(threads.MODULE)
    inner = next(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    exec(code, names)  # noqa: S102 - a definition whose every part was checked: it evaluates constant defaults and annotations
    made = names.pop(node.name)
    assert made.__code__ is inner or made.__code__ == inner
    made.__module__ = function.closure.module.name
    return made


def _settle_defaults(bare: ast.FunctionDef, function: Function, spoken: KernelLanguage) -> None:
    """Put the values of defaults in place of their expressions, and leave annotations that mean something to Triton."""
    arguments = bare.args
    parameters = function.signature.parameters
    if arguments.posonlyargs or arguments.kwonlyargs:
        raise unproved("The evaluator knows the plain arguments of a kernel alone.")
    for place, arg in enumerate(arguments.args[len(arguments.args) - len(arguments.defaults) :]):
        arguments.defaults[place] = _constant(parameters[arg.arg].default, arg.arg)
    for arg in arguments.args:
        settled = _ANNOTATIONS.get(spoken.name, _annotation)
        arg.annotation = None if arg.annotation is None else settled(arg.annotation, function)
    bare.returns = None
    for node in ast.walk(bare):
        if isinstance(node, ast.AnnAssign):
            known = _annotation(node.annotation, function)
            # Triton evaluates it, where the kernel may know the language by another name, or by none.
            own = known is not None and "constexpr" in ast.unparse(known)
            node.annotation = (
                ast.parse("__kernelsmith_tl__.constexpr", mode="eval").body if own else ast.Constant("tensor")
            )


def _constant(value: Any, name: str) -> ast.expr:
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if isinstance(value, bool | int | float | str | type(None)):
        made: ast.expr = ast.Constant(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and (value < 0 or str(value)[:1] == "-"):
            made = ast.UnaryOp(ast.USub(), ast.Constant(-value))
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            made = ast.Call(ast.Name("float", ast.Load()), [ast.Constant(str(value))], [])
        return made
    raise unproved(f"The default of `{name}` is no number, text or None.")


def _annotation(node: ast.expr, function: Function) -> ast.expr | None:
    """What Triton reads of an annotation, which is never evaluated: its text under the name that Triton gives it."""
    text = ast.unparse(node)
    module = function.closure.module
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and not module.is_deferred:
        text = node.value
        node = ast.parse(text, mode="eval").body if text.replace(".", "").isidentifier() else node
    if dotted(node) is None:
        if "const" in text or "*" in text or isinstance(node, ast.Constant):
            raise unproved(f"The evaluator does not know what Triton makes of the annotation `{text}`.")
        return None
    value = function.evaluator.value(node, function.closure)
    if isinstance(value, type) and _is_triton(value) and value.__name__ == "constexpr":
        name = "tl.constexpr"
        if module.is_deferred and text not in ("tl.constexpr", "constexpr"):
            raise unproved("Triton knows a `constexpr` in text by the names `tl.constexpr` and `constexpr` alone.")
    elif type(value).__name__ == "dtype" and _is_triton(type(value)):
        name = f"tl.{value.name}"
    elif isinstance(value, type) and "const" not in value.__name__:
        name = value.__name__
    else:
        raise unproved(f"The evaluator does not know what Triton makes of the annotation `{text}`.")
    return ast.parse(name, mode="eval").body


def _tile_annotation(node: ast.expr, function: Function) -> ast.expr | None:
    """What cuTile reads of an annotation: whether a parameter is a constant."""
    value = function.evaluator.value(node, function.closure)
    if isinstance(value, TypeAnnotation) and value.path == f"{tiles.MODULE}.Constant":
        return ast.parse("__kernelsmith_ct__.Constant[int]", mode="eval").body
    if isinstance(value, TypeAnnotation | type):
        return None
    raise unproved(f"The evaluator does not know what cuTile makes of the annotation `{ast.unparse(node)}`.")


def _thread_annotation(node: ast.expr, function: Function) -> ast.expr | None:
    """What CuTe DSL reads of an annotation: the type of a number, a tensor, or that a parameter is a constant."""
    value = function.evaluator.value(node, function.closure)
    path = value.path if isinstance(value, TypeAnnotation) else getattr(value, "name", "")
    if path.startswith("cutlass."):
        return ast.parse(f"__kernelsmith_{path.replace('.', '__.', 1)}", mode="eval").body
    raise unproved(f"The evaluator does not know what CuTe DSL makes of the annotation `{ast.unparse(node)}`.")


_ANNOTATIONS = {TILE_KERNELS.name: _tile_annotation, THREAD_KERNELS.name: _thread_annotation}


def _plain_builtins() -> dict[str, Any]:
    names = [*BUILTINS, "AssertionError", "ValueError", "TypeError", "__import__", "super", "object", "type"]
    return {name: getattr(builtins, name) for name in names}


def free_names(node: ast.FunctionDef) -> list[str]:
    """The names that a kernel's body uses and does not bind."""
    bound, _ = bound_names(node)
    inner = {
        name.id
        for comp in ast.walk(node)
        if isinstance(comp, ast.comprehension)
        for name in ast.walk(comp.target)
        if isinstance(name, ast.Name)
    }
    used = (name for statement in node.body for name in ast.walk(statement) if isinstance(name, ast.Name))
    skipped = {
        id(name) for item in ast.walk(node) if isinstance(item, ast.AnnAssign) for name in ast.walk(item.annotation)
    }
    return list(dict.fromkeys(name.id for name in used if name.id not in bound | inner and id(name) not in skipped))


def violations_in(node: ast.FunctionDef, spoken: KernelLanguage = TRITON_KERNELS) -> Iterator[Violation]:
    """What in a kernel's text is outside of its language. Pure."""
    yield from _of_text(node)
    if node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.posonlyargs:
        yield _said(node, "A kernel takes each argument by name.")
    for statement in node.body:
        yield from _of_statement(statement, spoken)
    decorators = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    by_python = any((dotted(one) or "").endswith("constexpr_function") for one in decorators)
    for part in ast.walk(node) if spoken is TRITON_KERNELS and not by_python else ():
        if isinstance(part, ast.Break | ast.Continue):
            yield _said(part, f"Triton compiles no `{type(part).__name__.lower()}`, which its interpreter takes.")


def _of_text(node: ast.FunctionDef) -> Iterator[Violation]:
    """What would have Triton, which reads a kernel's text from its file, take other text for the kernel."""
    for part in ast.walk(node):
        text = part.value if isinstance(part, ast.Constant) else None
        if isinstance(text, str) and any(line.strip().startswith("def ") for line in text.splitlines()):
            yield _said(part, "A text within a kernel has a line that begins with `def`.", "kernel text")
    # Its own decorator is the last one: any other would stand between Triton and the function.
    for decorator in node.decorator_list[:-1]:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (dotted(called) or "").rpartition(".")[2] in (
            "jit",
            "constexpr_function",
            *_KINDS,
        ):
            yield _said(decorator, "Another decorator stands between that of a kernel and its function.", "kernel text")


def _of_statement(root: ast.stmt, spoken: KernelLanguage) -> Iterator[Violation]:
    annotations = {
        id(n) for item in ast.walk(root) if isinstance(item, ast.AnnAssign) for n in ast.walk(item.annotation)
    }
    for node in ast.walk(root):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.AnnAssign) and not is_plain_annotation(node.annotation):
            yield _said(node, "An annotation holds names, brackets and text alone.")
        if (isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS)) or (
            isinstance(node, ast.expr) and not isinstance(node, _EXPRESSIONS)
        ):
            yield _said(node, f"A kernel has no `{type(node).__name__}`.")
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and spoken is not THREAD_KERNELS:
            yield _said(node, "A kernel sets an item.")
        elif isinstance(node, ast.Attribute):
            yield from _of_attribute(node, spoken)
        elif isinstance(node, ast.Name) and (
            node.id.startswith("__") or node.id in language.RUNS_TEXT | language.REACHES
        ):
            yield _said(node, f"A kernel uses `{node.id}`.", "reaches outside")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            if len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
                yield _said(node, "`getattr` takes a name that is not written out.", "reaches outside")
            elif node.args[1].value not in spoken.attributes:
                yield _said(node, f"A kernel asks for the attribute `{node.args[1].value!s}`.", "unknown attribute")
        elif isinstance(node, ast.FormattedValue) and not isinstance(
            node.value, ast.Name | ast.Constant | ast.Attribute
        ):
            yield _said(node, "A message of a kernel names values alone.")


def _of_attribute(node: ast.Attribute, spoken: KernelLanguage) -> Iterator[Violation]:
    if isinstance(node.ctx, ast.Store | ast.Del):
        yield _said(node, f"A kernel sets `{node.attr}`.", "patches a module")
    elif node.attr not in spoken.names:
        yield _said(node, f"The attribute `{node.attr}` is not in the language of kernels.", "unknown attribute")


def _said(node: ast.AST, message: str, rule: str = "kernel") -> Violation:
    violation = Violation(rule, message, Status.refused)
    violation.line = getattr(node, "lineno", None)
    return violation


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a structure of arguments, those of tensor descriptors among them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_in(item)]
    base = getattr(value, "base", None)
    return [base] if isinstance(base, torch.Tensor) and hasattr(value, "block_shape") else []
