"""Whether a text is a kernel module of the target's style: the names that a layout calls, and kernels that are launched. Pure."""

from __future__ import annotations

import ast

from workers.authors.llm.hearing import named
from workers.authors.llm.protocol import Fault, KernelBrief, UnusableAnswer
from workers.authors.llm.python_text import check_reach, dotted, parsed
from workers.authors.protocol import SourceStyle


def check_module(source: str, brief: KernelBrief) -> None:
    """See to it that a layout can use a module.

    Raises:
        UnusableAnswer: it cannot, or reaches beyond what kernels need.
    """
    style = brief.style
    tree = parsed(source, "the module")
    check_reach(tree, "the module", modules_of(style))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    wanted = [style.forward_function]
    if _computes_gradients(brief):
        wanted.append(style.backward_function)
    if style.entry is not None and not style.section:
        wanted.append(style.entry)
    for name in wanted:
        if name not in functions:
            raise UnusableAnswer(Fault.names, f"the module does not define the function `{named(name)}`")
    if style.section:
        _check_prefix(tree, style)
    elif style.function_class not in classes:
        raise UnusableAnswer(Fault.names, f"the module does not define the class `{named(style.function_class)}`")
    else:
        _check_class(classes[style.function_class], brief)
    if style.entry is not None and not style.section:
        _check_entry(functions[style.entry], brief)
    check_kernels(tree, "the module")


def _computes_gradients(brief: KernelBrief) -> bool:
    """Whether a gradient is more than what comes from upstream, which a class can hand on by itself."""
    if brief.graph is None:
        return any(spec.grad for spec in brief.problem.inputs)
    return any(node is not None and node not in brief.graph.upstream for _, node in brief.graph.gradients)


def modules_of(style: SourceStyle) -> tuple[str, ...]:
    """The target's own modules that a kernel may import from: those of its helpers."""
    return tuple(sorted({module for _, module in style.helpers}))


def kernels_of(tree: ast.Module) -> set[str]:
    """The names of a module's Triton kernels and device functions."""
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _is_kernel(node)}


def check_kernels(tree: ast.Module, what: str) -> None:
    """See to it that a module has a Triton kernel and launches one.

    Raises:
        UnusableAnswer: it does not.
    """
    kernels = kernels_of(tree)
    if not kernels:
        raise UnusableAnswer(Fault.names, f"{what} defines no function with `@triton.jit`: there is no kernel in it")
    inside = {id(inner) for node in tree.body if _is_kernel(node) for inner in ast.walk(node)}
    outside = [node for node in ast.walk(tree) if id(node) not in inside]
    launches = any(isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) for node in outside)
    # Which of several kernels is launched may be chosen before, under another name.
    if not launches or not any(isinstance(node, ast.Name) and node.id in kernels for node in outside):
        raise UnusableAnswer(Fault.names, f"{what} launches none of its kernels by `kernel[grid](...)`")


def _is_kernel(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(_is_jit(decorator) for decorator in node.decorator_list)


def _is_jit(decorator: ast.expr) -> bool:
    name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
    return name in ("triton.jit", "jit")


def _check_class(node: ast.ClassDef, brief: KernelBrief) -> None:
    name = named(node.name)
    if not any((dotted(base) or "").endswith("Function") for base in node.bases):
        raise UnusableAnswer(Fault.names, f"the class `{name}` is no `torch.autograd.Function`")
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    for method in ("forward", "backward"):
        if method not in methods or not _is_static(methods[method]):
            raise UnusableAnswer(Fault.names, f"the class `{name}` has no static method `{method}`")
    parameters = brief.problem.parameters
    if parameters and not _takes(methods["forward"], 1 + len(parameters)):
        given = ", ".join(f"`{named(parameter)}`" for parameter in parameters)
        raise UnusableAnswer(Fault.names, f"`{name}.forward` does not take ctx and then {given}, in this order")
    outputs = len(brief.graph.outputs) if brief.graph is not None else 0
    if outputs and not _takes(methods["backward"], 1 + outputs):
        sentence = f"`{name}.backward` does not take ctx and then one gradient for each of {outputs} outputs"
        raise UnusableAnswer(Fault.names, sentence)


def _is_static(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)


def _takes(node: ast.FunctionDef, count: int) -> bool:
    """Whether a function can be called with so many positional arguments."""
    positional = len(node.args.posonlyargs) + len(node.args.args)
    required = positional - len(node.args.defaults)
    keyword_only = any(default is None for default in node.args.kw_defaults)
    return required <= count and (positional >= count or node.args.vararg is not None) and not keyword_only


def _check_entry(node: ast.FunctionDef, brief: KernelBrief) -> None:
    own = tuple(argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
    if brief.problem.parameters and own != brief.problem.parameters:
        given = ", ".join(named(parameter) for parameter in brief.problem.parameters)
        raise UnusableAnswer(Fault.names, f"`{named(node.name)}` does not have the reference's parameters ({given})")


def _check_prefix(tree: ast.Module, style: SourceStyle) -> None:
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef):
            raise UnusableAnswer(Fault.names, "a section of a file holds no imports and no classes")
        if isinstance(node, ast.FunctionDef) and not node.name.startswith(style.prefix):
            sentence = (
                f"`{named(node.name)}` does not begin with `{named(style.prefix)}`, as every name of the section must"
            )
            raise UnusableAnswer(Fault.names, sentence)
