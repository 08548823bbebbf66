"""Puts a section of fast kernels into an autograd Function of a file, before its own code, which stays as it is. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpu_runner.contracts import Graph, Problem
from workers.authors.protocol import Limit, Signature, SourceStyle
from workers.strategies.calling import Called, UncallableError
from workers.strategies.covered import NEEDS, Coverage
from workers.strategies.nothing import Frame, is_none, returned_elements
from workers.strategies.out_of_range import ranged, told_by_result
from workers.strategies.patches import Patches, first_statement_line, indent_of, line_before_definition, rendered_call
from workers.strategies.syntax import KernelFile, names_in

METHOD_INDENT = 8
HOST_READS = ("item", "tolist")


@dataclass(frozen=True)
class Splice:
    """What is spliced: the section, how its functions are called, and where it goes."""

    file: KernelFile
    called: Called
    problem: Problem
    graph: Graph
    style: SourceStyle
    section: str
    signature: Signature
    overwrites: tuple[str, ...]
    least_elements: int = 0  # of the largest input: below it the file's own code is faster
    loose: frozenset[str] = frozenset()  # inputs that may be float32 beside others of fewer bits
    choice: str | None = None  # the Function's parameter that says whether gradients may take memory that is there
    told: tuple[str, ...] = ()  # inputs whose dtype the backward function takes behind its other arguments
    limits: tuple[Limit, ...] = ()  # of the sizes that the section takes

    def result(self) -> str:
        """Give the file with the fast path in it.

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
            choice=self.choice,
            limits=self.limits,
        )
        function = coverage.function(covers, self._wants(), self._synchronised() and not self._told_by_result())
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
        if self._synchronised() and self._told_by_result():
            lines.append(
                "    # An index out of range gives no number: what there is to say of it, the code below says."
            )
            lines += [f"    ctx.{flag} = abs({made[0]}.item()) >= 0", f"if ctx.{flag}:"]
        kept = [self._kept(name) for name in self._tensors_kept()]
        if kept:
            lines.append(f"    ctx.save_for_backward({', '.join(kept)})")
        lines += [f"    ctx.{self.called.places[n]} = {self.called.places[n]}" for n in self._scalars_kept()]
        lines += [] if self.choice is None else [f"    ctx.{self.choice} = {self.choice}"]
        lines += [f"    ctx.{self.called.places[n]}_dtype = {self.called.places[n]}.dtype" for n in self.told]
        return [*lines, f"    return {self._returned(made[: len(self.signature.outputs)])}"]

    def _backward(self, flag: str) -> list[str]:
        kept = [self._kept(name) for name in self._tensors_kept()]
        lines = [f"if ctx.{flag}:"]
        if kept:
            target = f"({kept[0]},)" if len(kept) == 1 else ", ".join(kept)
            lines.append(f"    {target} = ctx.saved_tensors")
        arguments = [self._backward_argument(name) for name in self.signature.backward_arguments]
        arguments += [] if self.choice is None else [f"ctx.{self.choice}"]
        arguments += [f"ctx.{self.called.places[name]}_dtype" for name in self.told]
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
        frame = Frame(self.called.forward, self.called.constants)
        texts = ["None"] * len(elements)
        for number, element in enumerate(elements):
            if number == self.called.result:
                texts[number] = outputs[0]
            elif not is_none(self.file, element, frame):
                told = ast.unparse(element)
                raise UncallableError(
                    f"`{told}`, which the Function returns beside the result, may be something for this call."
                )
        return ", ".join(texts)

    def _wants(self) -> list[str]:
        """Gradients are computed all together, so that calls that want some of them alone are left to the file's own code."""
        mine = [self.called.parameters.index(self.called.places[name]) for name in self.signature.gradients]
        found = [f"{NEEDS}[{i}] == {NEEDS}[{mine[0]}]" for i in mine[1:]]
        given = self._gradients_of_the_file()
        found += [f"not {NEEDS}[{i}]" for i in given if i not in mine]
        if mine and any(not name.startswith("upstream") for name in self.overwrites):
            found.append(f"{NEEDS}[{mine[0]}]")
        return found

    def _gradients_of_the_file(self) -> list[int]:
        last = self.called.backward.body[-1]
        value = last.value if isinstance(last, ast.Return) else None
        elements = value.elts if isinstance(value, ast.Tuple) else [value]
        if len(elements) != len(self.called.parameters):
            return list(range(len(self.called.parameters)))
        return [i for i, e in enumerate(elements) if not (isinstance(e, ast.Constant) and e.value is None)]

    def _told_by_result(self) -> bool:
        return bool(ranged(self.problem)) and told_by_result(self.problem, self.graph)

    def _synchronised(self) -> bool:
        """Whether the file's own code waits for the GPU in forward, where it may look at indices and refuse them."""
        reached = {self.called.forward.name}
        waiting: list[ast.FunctionDef] = [self.called.forward]
        while waiting:
            function = waiting.pop()
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and node.attr in HOST_READS:
                    return True
            for name in names_in(function) & set(self.file.functions) - reached:
                reached.add(name)
                waiting.append(self.file.functions[name])
        return False


def _decorated(method: ast.FunctionDef) -> bool:
    """Whether a decorator hands contiguous tensors to the method."""
    return any(ast.unparse(d).split(".")[-1] == "ensure_contiguous" for d in method.decorator_list)
