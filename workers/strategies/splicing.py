"""Puts a section of fast kernels into an autograd Function of a file, and hands it what its calls need. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpu_runner.contracts import Graph, Problem
from gpu_runner.contracts.reading import walk
from workers.authors.protocol import Limit, Signature, SourceStyle
from workers.strategies.conditions import (
    NEEDS,
    CalledFunction,
    Coverage,
    UncallableError,
    ranged,
    result_shows_range_errors,
)
from workers.strategies.inference import TypedFunction, is_none, outermost, returned_elements, returned_types
from workers.strategies.source import (
    LOADS,
    KernelFile,
    Patches,
    accesses_of,
    add_parameter,
    called,
    first_statement_line,
    indent_of,
    line_before_definition,
    names_in,
    parsed,
    rendered_call,
)

METHOD_INDENT = 8
HOST_READS = ("item", "tolist")


@dataclass(frozen=True)
class Splice:
    """What is spliced: the section, how its functions are called, and where it goes."""

    file: KernelFile
    called: CalledFunction
    problem: Problem
    graph: Graph
    style: SourceStyle
    section: str
    signature: Signature
    overwrites: tuple[str, ...]
    least_elements: int = 0  # of the largest input: below it the file's own code is faster
    loose: frozenset[str] = frozenset()  # inputs that may be float32 beside others of fewer bits
    dtype_inputs: tuple[str, ...] = ()  # inputs whose dtype the backward function takes behind its other arguments
    limits: tuple[Limit, ...] = ()  # of the sizes that the section takes

    def result(self) -> str:
        """The file with the fast path in it.

        Raises:
            UncallableError: the Function returns or takes something that cannot be given for the fast path.
        """
        file, owner = self.file, self.called.owner
        flag = "fast" if "ctx.fast" not in file.segment(owner) else "takes_fast_path"
        patches = Patches(file.source)
        covers = f"{self.style.prefix}covers"
        coverage = Coverage(
            self.problem,
            self.graph,
            self.called,
            contiguous=_decorated(self.called.forward),
            least_elements=self.least_elements,
            loose=self.loose,
            limits=self.limits,
        )
        function = coverage.function(covers, self._wants(), self._synchronised() and not self._shows_range_errors())
        patches.insert_before(
            line_before_definition(owner, file.source), f"{self.section.strip()}\n\n\n{function}\n\n\n"
        )
        self._insert(patches, self.called.forward, self._forward(flag, covers))
        self._insert(patches, self.called.backward, self._backward(flag))
        return patches.result()

    def _insert(self, patches: Patches, method: ast.FunctionDef, lines: list[str]) -> None:
        at = first_statement_line(method)
        while self.file.source.split("\n")[at - 2].lstrip().startswith("#"):
            at -= 1
        indent = indent_of(self.file.source, first_statement_line(method))
        text = "".join(f"{indent}{line}\n" if line else "\n" for part in lines for line in part.split("\n"))
        patches.insert_before(at, text + "\n")

    def _forward(self, flag: str, covers: str) -> list[str]:
        arguments = [*self.called.parameters, "ctx.needs_input_grad"]
        asked = rendered_call(f"ctx.{flag} = {covers}", arguments, "", width=self.style.line_length - METHOD_INDENT)
        made = [self._own(name) for name in (*self.signature.outputs, *self.signature.saved)]
        inputs = [self.called.places[name] for name in self.signature.forward_arguments]
        lines = [asked, f"if ctx.{flag}:"]
        lines.append(f"    {', '.join(made)} = {self.style.forward_function}({', '.join(inputs)})")
        if self._synchronised() and self._shows_range_errors():
            lines.append(
                "    # An index out of range gives no number: what there is to say of it, the code below says."
            )
            lines += [f"    number = {made[0]}.item()", f"    ctx.{flag} = number == number", f"if ctx.{flag}:"]
        kept = [self._kept(name) for name in self._tensors_kept()]
        if kept:
            lines.append(f"    ctx.save_for_backward({', '.join(kept)})")
        lines += [f"    ctx.{self.called.places[n]} = {self.called.places[n]}" for n in self._scalars_kept()]
        lines += [f"    ctx.{self.called.places[n]}_dtype = {self.called.places[n]}.dtype" for n in self.dtype_inputs]
        return [*lines, f"    return {self._returned(made[: len(self.signature.outputs)])}"]

    def _backward(self, flag: str) -> list[str]:
        kept = [self._kept(name) for name in self._tensors_kept()]
        lines = [f"if ctx.{flag}:"]
        if kept:
            target = f"({kept[0]},)" if len(kept) == 1 else ", ".join(kept)
            lines.append(f"    {target} = ctx.saved_tensors")
        arguments = [self._backward_argument(name) for name in self.signature.backward_arguments]
        arguments += [f"ctx.{self.called.places[name]}_dtype" for name in self.dtype_inputs]
        gradients = {self.called.places[name]: self._own(f"d{name}") for name in self.signature.gradients}
        made = ", ".join(gradients.values())
        width = self.style.line_length - METHOD_INDENT
        call = rendered_call(f"{made} = {self.style.backward_function}", arguments, "    ", width=width)
        lines.append(f"    {call}")
        returned = [gradients.get(parameter, "None") for parameter in self.called.parameters]
        return [*lines, f"    return {', '.join(returned)}"]

    def _backward_argument(self, name: str) -> str:
        if name in self.signature.upstream:
            place = self.signature.upstream.index(name) if self.called.result is None else self.called.result
            arguments = self.called.backward.args.args[1:]
            if place >= len(arguments):
                raise UncallableError(f"`{self.called.owner.name}.backward` does not name its upstream gradients.")
            upstream = arguments[place].arg
            return upstream if _decorated(self.called.backward) else f"{upstream}.contiguous()"
        if name in self._scalars_kept():
            return f"ctx.{self.called.places[name]}"
        return self._kept(name)

    def _kept(self, name: str) -> str:
        return self.called.places.get(name) or self._own(name)

    def _own(self, name: str) -> str:
        """A name of the section's own results, which must not take the place of an argument that is still needed."""
        taken = {*self.called.parameters, *(a.arg for a in self.called.backward.args.args)}
        return f"{name}_" if name in taken else name

    def _tensors_kept(self) -> list[str]:
        scalars = {spec.name for spec in self.problem.scalars}
        return [n for n in self.signature.backward_arguments if n not in self.signature.upstream and n not in scalars]

    def _scalars_kept(self) -> list[str]:
        scalars = {spec.name for spec in self.problem.scalars}
        return [name for name in self.signature.backward_arguments if name in scalars]

    def _returned(self, outputs: list[str]) -> str:
        """The Function's own form of a result: the elements that the problem does not speak of must be None."""
        if self.called.result is None:
            return ", ".join(outputs)
        elements = returned_elements(self.called.forward)
        if elements is None or self.called.result >= len(elements) or len(outputs) != 1:
            raise UncallableError(
                f"What `{self.called.owner.name}` returns beside the result could not be told from its source."
            )
        frame = TypedFunction(self.called.forward, self.called.constants)
        texts = ["None"] * len(elements)
        for number, element in enumerate(elements):
            if number == self.called.result:
                texts[number] = outputs[0]
            elif not is_none(self.file, element, frame):
                dtype_source = ast.unparse(element)
                raise UncallableError(
                    f"`{dtype_source}`, which the Function returns beside the result, may be something for this call."
                )
        return ", ".join(texts)

    def _wants(self) -> list[str]:
        """Gradients are computed all together, so that calls that want some of them alone are left to the file's own code."""
        mine = [self.called.parameters.index(self.called.places[name]) for name in self.signature.gradients]
        conditions = [f"{NEEDS}[{i}] == {NEEDS}[{mine[0]}]" for i in mine[1:]]
        given = self._gradients_of_the_file()
        # What has a default may be left out of a call, and the gradients end where its arguments do.
        required = max([len(self.called.parameters) - len(self.called.forward.args.defaults), *(i + 1 for i in mine)])
        others = [i for i in given if i not in mine]
        conditions += [f"not {NEEDS}[{i}]" for i in others if i < required]
        if any(i >= required for i in others):
            conditions.append(f"not any({NEEDS}[{required}:])")
        if mine and any(not name.startswith("upstream") for name in self.overwrites):
            conditions.append(f"{NEEDS}[{mine[0]}]")
        return conditions

    def _gradients_of_the_file(self) -> list[int]:
        last = self.called.backward.body[-1]
        value = last.value if isinstance(last, ast.Return) else None
        elements = value.elts if isinstance(value, ast.Tuple) else [value]
        if len(elements) != len(self.called.parameters):
            return list(range(len(self.called.parameters)))
        return [i for i, e in enumerate(elements) if not (isinstance(e, ast.Constant) and e.value is None)]

    def _shows_range_errors(self) -> bool:
        return bool(ranged(self.problem)) and result_shows_range_errors(self.problem, self.graph)

    def _synchronised(self) -> bool:
        """Whether the file's own code waits for the GPU in forward, where it may look at indices and refuse them."""
        reached = {self.called.forward.name}
        waiting: list[ast.FunctionDef] = [self.called.forward]
        while waiting:
            function = waiting.pop()
            for node in walk(function):
                if isinstance(node, ast.Attribute) and node.attr in HOST_READS:
                    return True
            for name in names_in(function) & set(self.file.functions) - reached:
                reached.add(name)
                waiting.append(self.file.functions[name])
        return False


def _decorated(method: ast.FunctionDef) -> bool:
    """Whether a decorator hands contiguous tensors to the method."""
    return any(ast.unparse(d).split(".")[-1] == "ensure_contiguous" for d in method.decorator_list)


@dataclass(frozen=True)
class Loosened:
    """A section, the inputs that may be float32 in it, and those whose dtype its backward function takes last."""

    section: str
    loose: frozenset[str]
    dtype_inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class SpliceNames:
    """How a section's functions are called."""

    style: SourceStyle
    signature: Signature

    @property
    def functions(self) -> tuple[str, str]:
        """The names of the forward and the backward function."""
        return self.style.forward_function, self.style.backward_function


def loosened(file: KernelFile, bound: CalledFunction, problem: Problem, section: str, names: SpliceNames) -> Loosened:
    """A section that takes float32 for parameters wherever the results equal those of the file's own code.

    It reads them as float32 anyway; results must keep the dtype that the file gives them, inferred from the source of both.
    """
    strict = Loosened(section, frozenset())
    wanted = [spec.name for spec in problem.inputs if spec.parameter and spec.dtype is None]
    fast = parsed(section)
    forward, backward = (fast.functions.get(name) for name in names.functions)
    if not wanted or forward is None or backward is None:
        return strict
    loose = frozenset(name for name in wanted if _always_cast(fast, name))
    others = frozenset(spec.name for spec in problem.inputs if spec.dtype is None) - loose
    if not _same_results(file, bound, fast, forward, names.signature, others):
        return strict
    patches, passed_dtypes = Patches(section), []
    dtypes = {name: _gradient_dtype(backward, names.signature, name) for name in loose}
    keeping = frozenset(name for name, node in dtypes.items() if name not in names.signature.gradients or node)
    for name in (n for n in names.signature.gradients if n in keeping):
        node = dtypes[name]
        if node is None or ast.unparse(node.value) == name:
            continue
        in_scope = name in names.signature.backward_arguments
        patches.replace(node, f"{name}.dtype" if in_scope else f"{name}_dtype")
        passed_dtypes += [] if in_scope else [name]
    if passed_dtypes:
        broken = backward.args.args[0].lineno != backward.lineno
        add_parameter(
            patches, fast, backward, (",\n    " if broken else ", ").join(f"{name}_dtype" for name in passed_dtypes)
        )
    return Loosened(patches.result(), keeping, tuple(passed_dtypes))


def _always_cast(fast: KernelFile, name: str) -> bool:
    """Whether every kernel that gets the input casts it where it loads it, and nothing else depends on its bytes."""
    for function in fast.functions.values():
        for node in walk(function):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return False
            if isinstance(node, ast.Attribute) and ast.unparse(node) == f"{name}.element_size":
                return False
    pointers = [
        (launch.kernel, parameter)
        for launch in fast.launches
        for parameter, value in launch.arguments
        if isinstance(value, ast.Name) and value.id == name
    ]
    return all(_casts(fast.kernels[kernel], parameter) for kernel, parameter in pointers)


def _casts(kernel: ast.FunctionDef, parameter: str) -> bool:
    accesses = accesses_of(kernel)
    if parameter in accesses.written or accesses.atomics or any(a.parameter is None for a in accesses.loads):
        return False
    cast = {
        id(node.func.value)
        for node in walk(kernel)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "to"
        and called(node.func.value) in LOADS
        and [ast.unparse(a) for a in node.args] == ["tl.float32"]
    }
    return all(id(a.call) in cast for a in accesses.loads if a.parameter == parameter)


def _same_results(
    file: KernelFile,
    bound: CalledFunction,
    fast: KernelFile,
    forward: ast.FunctionDef,
    signature: Signature,
    others: frozenset[str],
) -> bool:
    """Whether each result has the dtype of the inputs that are no parameters, or the same fixed one, in both."""
    count = len(signature.outputs)
    mine = returned_types(fast, outermost(forward))[:count]
    theirs = returned_types(file, outermost(bound.forward))
    theirs = theirs[:count] if bound.result is None else theirs[bound.result : bound.result + 1]
    if len(mine) != count or len(theirs) != count:
        return False
    own = {bound.places[name] for name in others}
    for fast_types, types in zip(mine, theirs, strict=True):
        if not fast_types or not types:
            return False
        if not (fast_types <= others and types <= own) and not (fast_types == types and len(types) == 1):
            return False
    return True


def _gradient_dtype(backward: ast.FunctionDef, signature: Signature, name: str) -> ast.Attribute | None:
    """The ``.dtype`` that the gradient of an input is cast to; None where no single place determines it."""
    last = backward.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    elements = value.elts if isinstance(value, ast.Tuple) else [value]
    if name not in signature.gradients or len(elements) != len(signature.gradients):
        return None
    result = elements[signature.gradients.index(name)]
    made = [
        n.value
        for n in walk(backward)
        if isinstance(n, ast.Assign)
        and isinstance(result, ast.Name)
        and any(isinstance(t, ast.Name) and t.id == result.id for t in n.targets)
    ]
    dtypes = [n for v in made for n in walk(v) if isinstance(n, ast.Attribute) and n.attr == "dtype"]
    return dtypes[0] if len(made) == 1 and len(dtypes) == 1 else None
