"""No value of a program reaches Python outside of the evaluator, and nothing of a call is there in the next."""

# ruff: noqa: E501 - a program a line

from __future__ import annotations

import ast

import pytest

from gpu_runner.program.load import load
from gpu_runner.program.objects import Violation
from tests.gpu_runner.program.programs import evaluated, remarks

# What ``run`` of a program reaches out by. Each line: the body of ``run``.
REACHES = """
return ().__class__.__base__.__subclasses__()
return (1).__class__
return 'a'.__class__.__mro__
return len.__self__
import torch; return torch.zeros(1).type()
return slice(9, None).indices(20)
return len.__call__(1)
return run.__globals__
return run.__code__
return run.__closure__
return run.__doc__
return (lambda: 0).__defaults__
return getattr(run, '__globals__')
return getattr(run, '__glo' + 'bals__')
return hasattr(run, '__globals__')
return list(map(getattr, [run], ['__globals__']))
return '{0.__class__}'.format(1)
return '{0[a]}'.format({'a': 1})
return eval('1')
return exec('1')
return compile('1', '', 'eval')
return __import__('os')
return __builtins__
return __file__
return __name__
return globals()
return locals()
return vars()
return dir()
return id(1)
return hash('a')
return open('/etc/passwd')
return type('A', (), {})
t = type; return t('A', (), {})
import functools; return functools.partial(type, 'A', (), {})()
return list(map(type, ['A'], [()], [{}]))
return object()
import functools; return functools.partial(object)()
return str(run)
return repr(run)
return f'{run}'
return '%s' % run
return '{}'.format(run)
return str([run])
return str({'a': run})
return list(map(str, [run]))
return str(iter([]))
return str(map(len, []))
class A: pass; return str(A())
class A: pass; return str(A)
return sorted(['b', 'a'], key=repr) and str(len.__name__)
import os; return os.environ
import sys; return sys.modules
from os import path
import torch; return torch.load('x')
import torch; return torch._C
import torch; return torch.utils
import torch; return torch.ops.aten
import torch; return hasattr(torch, 'compile')
import torch; return getattr(torch, 'compile', None)
import torch; return torch.nn.functional
import torch; return torch.empty(1).data_ptr()
import torch; return torch.empty(1).numpy()
import torch; return torch.empty(1).untyped_storage()
import torch; return torch.empty(1).__array__()
import torch; return torch.Tensor.add
import torch; return str(torch.ones(2))
import torch; return list(map(str, [torch.ones(2)]))
import torch; return torch.empty(1).register_hook(print)
import torch; return torch.autograd.function.FunctionCtx()
import triton; return triton.runtime.JITFunction(run)
import triton; return triton.compiler
import triton.language as tl; return tl.core
import triton.language as tl; return tl.constexpr(len)
import triton.language as tl; return tl.cdiv[(1,)]
import functools; return functools.partial(len).func
import functools; return functools.WRAPPER_ASSIGNMENTS
import dataclasses; return dataclasses.sys
import enum; return enum.bltns
import logging; return logging.getLogger('a').handlers
import contextlib; return contextlib.suppress(BaseException)
import importlib; return importlib.import_module('os').environ
try: return ().__class__|||except BaseException: return 1
try: return ().__class__|||finally: return 1
try: 1 / 0|||except ZeroDivisionError as e: return e.__traceback__
try: 1 / 0|||except ZeroDivisionError as e: return str(e)
try: 1 / 0|||except ZeroDivisionError as e: return e.args
def f(n): return f(n + 1)|||try: return f(0)|||except RecursionError: return 1
raise BaseException
def f(x: [].append(1)): pass
x: print(1) = 2|||return x
def f() -> (lambda: 0)(): pass
def g(): yield 1|||return g().gi_frame
return (i for i in [1]).gi_frame
class A:|||    def __getattr__(self, n): return 1
class A:|||    def __del__(self): pass
class A:|||    def __init_subclass__(cls): pass
class A:|||    def __hash__(self): return 1
class A:|||    def __lt__(self, o): return True
class A:|||    def __set_name__(self, o, n): pass
class A:|||    def __class_getitem__(cls, x): return x
class A(int): pass
class A(list): pass
class A(dict): pass
class A(metaclass=type): pass
class A: pass|||return A.__dict__
class A: pass|||return A().__dict__
class A: pass|||return hasattr(A(), '__dict__')
class A: pass|||return hasattr(A, '__module__')
class A:|||    def f(self): self.__x = 1|||A().f()
class A:|||    __x = 1
import torch|||class A(torch.Tensor): pass
import torch|||class A(torch.nn.Module):|||    def __call__(self, x): return x
import torch|||class A(torch.nn.Module):|||    def _call_impl(self, x): return x
import torch|||class A(torch.nn.Module):|||    def parameters(self): return []
import torch|||class A(torch.nn.Module):|||    def __init__(self):|||        super().__init__()|||        self.forward = 1|||return A()
import torch|||class A(torch.nn.Module):|||    def __init__(self):|||        super().__init__()|||        self._forward_hooks = {}|||return A()
import torch|||class A(torch.autograd.Function):|||    @staticmethod|||    def apply(x): return x
import torch|||class A(torch.autograd.Function):|||    @staticmethod|||    def forward(ctx, x):|||        ctx.saved_tensors = 1|||        return x|||return A.apply(torch.ones(1))
return 1 is 1
return () is ()
import torch; return torch.add is torch.add
return [].append == [].append
return {'a', 'b'}.pop() if 0 else list({'a', 'b'})
return ','.join({'a', 'b'})
for x in {'a', 'b'}: return x
return next(iter({'a', 'b'}))
return [*{'a', 'b'}]
return list(map(list, [{'a', 'b'}]))
a, b = {'a', 'b'}; return a
return str({'a', 'b'})
x = []; x[:] = {'a', 'b'}; return x
import functools; return functools.reduce(max, {'a', 'b'})
return 'a'.zfill(10 ** 12) if 0 else 1 << 10 ** 6
return 10 ** 10 ** 6
return 'a' * 10 ** 9
x = 3|||while True: x = x * x
while True: pass
return [0 for i in range(10 ** 9)]
"""
# What keeps something from one call to the next. Each line: a module, of which ``run`` is called three times.
KEEPS = """
X = []|||def run(): X.append(1); return len(X)
X = []|||def run(): X[len(X):] = [1]; return len(X)
X = [0]|||def run(): X[0] += 1; return X[0]
X = {}|||def run(): X['a'] = 1
X = {'a': 0}|||def run(): X['a'] += 1
X = {}|||def run(): X.update(a=1)
X = {}|||def run():|||    x = X|||    x |= {1: 1}
X = [0]|||def run():|||    x = X|||    x += [1]
X = [0]|||def run():|||    x = X|||    x *= 2
X = {1}|||def run():|||    x = X|||    x -= {1}
X = [0, 1]|||def run(): del X[0]
X = [1, 0]|||def run(): X.sort()
X = [1, 0]|||def run():|||    for X[0] in [4]: pass
X = [1, 0]|||def run(): a, X[0] = 1, 2
X = [1, 0]|||def run(): (lambda x: x.reverse())(X)
X = [1, 0]|||def run(): list(map(X.append, [1]))
X = ([],)|||def run(): X[0].append(1)
X = {'a': {'b': []}}|||def run(): X['a']['b'].append(1)
X = 0|||def run():|||    global X|||    X += 1
X = 0|||def run():|||    if False:|||        global X|||    X = 1
def outer():|||    n = 0|||    def run():|||        nonlocal n|||        n += 1|||        return n|||    return run|||run = outer()
def outer():|||    n = []|||    return lambda: n.append(1)|||run = outer()
def run(x=[]): x.append(1)
def run(*, x={}): x['a'] = 1
class A: n = 0|||def run(): A.n += 1
class A: n = []|||def run(): A.n.append(1)
class A: n = []|||def run(): A().n.append(1)
class A: pass|||X = A()|||def run(): X.n = 1
class A: pass|||X = A()|||def run(): setattr(X, 'n', 1)
class A: pass|||X = frozenset([A()])|||def run():|||    for x in X: x.n = 1
def run(): run.n = 1
def f(): return 1|||def run(): setattr(f, 'n', 1)
X = iter([1, 2, 3])|||def run(): return next(X)
X = (i for i in [1, 2, 3])|||def run(): return next(X)
X = map(str, [1, 2, 3])|||def run(): return next(X)
X = zip([1, 2, 3])|||def run(): return next(X)
X = [iter([1, 2])]|||def run(): return next(X[0])
TAKE = [1, 2, 3].pop|||def run(): return TAKE()
TAKE = iter([1, 2, 3]).__next__|||def run(): return TAKE()
S = slice([1, 2, 3], None)|||def run(): return S.start.pop()
E = ValueError([1, 2, 3])|||def run(): return E.args[0].pop()
import functools|||F = functools.partial([1, 2, 3].pop)|||def run(): return F()
import functools|||F = functools.partial(next, iter([1, 2, 3]))|||def run(): return F()
import contextlib|||C = contextlib.nullcontext([1, 2, 3])|||def run():|||    with C as x: return x.pop()
import itertools|||C = itertools.repeat(1, 3)|||def run(): return next(C)
import torch|||X = torch.zeros(1)|||def run(): X.add_(1)
import torch|||X = [torch.zeros(1)]|||def run(): X[0].add_(1)
import torch|||class M(torch.nn.Module):|||    def __init__(self):|||        super().__init__()|||        self.register_buffer('n', torch.zeros(1))|||X = M()|||def run(): X.n.add_(1)
import functools, torch|||@functools.cache|||def first(): return torch.is_grad_enabled()|||def run():|||    if first():|||        with torch.no_grad(): return first()
import functools|||@functools.cache|||def kind(x): return isinstance(x, int)|||def run(): return kind(1), kind(1.0)
import functools|||@functools.cache|||def box(): return []|||def run(): box().append(1)
import functools|||class A:|||    @functools.cached_property|||    def x(self): return []|||X = A()|||def run(): X.x.append(1)
from dataclasses import dataclass, field|||@dataclass|||class A:|||    x: int = 0|||X = A()|||def run(): X.x += 1
from dataclasses import dataclass|||@dataclass(frozen=True)|||class A:|||    x: list|||X = A([])|||def run(): X.x.append(1)
from typing import NamedTuple|||class A(NamedTuple):|||    x: list|||X = A([])|||def run(): X.x.append(1)
from enum import Enum|||class C(Enum):|||    A = 1|||def run(): C.A.n = 1
from enum import Enum|||class C(Enum):|||    A = []|||def run(): C.A.value.append(1)
import triton|||X = triton.Config({'A': []})|||def run(): X.kwargs['B'] = 1
import triton|||X = triton.Config({'A': []})|||def run(): X.num_warps = 8
import triton|||def run():|||    n = []|||    triton.set_allocator(lambda *a: n.append(1))|||    n.append(1)
import torch, triton|||def run():|||    n = torch.zeros(1)|||    triton.set_allocator(lambda *a: n)
import triton.language as tl|||X = tl.constexpr([1])|||def run(): X.value.append(1)
import math|||def run(): math.pi = 3
import torch|||def run(): torch.add = 3
X = [1]|||def change(x): x.append(1)|||def run(): change(X)
class A:|||    xs = []|||    @classmethod|||    def f(cls): cls.xs.append(1)|||run = A.f
class A:|||    @classmethod|||    def f(cls): cls.n = 1|||run = A.f
class A:|||    def __init__(self): self.n = 0|||    def f(self): self.n += 1|||run = A().f
class A:|||    def __call__(self): self.n = 1|||run = A()
def deco(f):|||    calls = []|||    def g():|||        calls.append(1)|||        return f()|||    return g|||@deco|||def run(): return 1
from contextlib import contextmanager|||X = []|||@contextmanager|||def m(): yield X|||def run():|||    with m() as x: x.append(1)
from collections import OrderedDict|||X = OrderedDict()|||def run(): X['a'] = 1
X = []|||Y = {'x': X}|||def run():|||    match Y['x']:|||        case [*_]: pass|||        case x: x.append(1)
import functools|||@functools.cache|||def f(n, kind): return 0|||def run(): return f(2, 'a'), f(3.0, 'a')
import functools|||@functools.lru_cache(maxsize=None)|||def f(n): return 0|||def run(): return f(n=2), f(n=True)
import functools|||from dataclasses import dataclass|||@dataclass(frozen=True)|||class S:|||    n: object|||@functools.cache|||def f(s): return 0|||def run(): return f(S(2)), f(S(2.0))
import functools|||from dataclasses import dataclass|||@dataclass(frozen=True)|||class S:|||    n: object|||class A: pass|||@functools.cache|||def f(s): return 0|||def run(): return f(S(A()))
import functools|||from dataclasses import dataclass|||@dataclass(frozen=True)|||class S:|||    n: object|||    def __hash__(self): return 1|||@functools.cache|||def f(s): return 0|||def run(): return f(S(2))
"""


def whole(line: str) -> str:
    return line.replace("|||", "\n") + "\n"


def of_run(line: str) -> str:
    lines = line.replace("; ", "|||").split("|||")
    return "def run():\n" + "".join(f"    {each}\n" for each in lines)


PROGRAMS = [*map(of_run, REACHES.strip().splitlines()), *map(whole, KEEPS.strip().splitlines())]


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_runner.program.budget.MOST_STEPS", 20_000)


@pytest.mark.parametrize("text", PROGRAMS)
def test_the_evaluator_alone_refuses_what_reaches_out_or_keeps_something(text: str) -> None:
    with pytest.raises(Violation) as caught:
        evaluated(text, calls=3)
    assert caught.value.message


# What the static check sees in the text, whether it is reached or not.
SEEN = [
    "def run(x: [].append(1)): pass",
    "x: print(1) = 2",
    "def run() -> (lambda: 0)(): pass",
    *(
        of_run(line)
        for line in REACHES.strip().splitlines()
        if any(
            word in line
            for word in ("__class__", "__globals__", "_C", "import os", "import sys", "suppress", "globals()")
        )
        and "getattr" not in line
    ),
    *map(
        whole,
        [
            line
            for line in KEEPS.strip().splitlines()
            if "def run(): X" in line and "X = [" in line and "torch" not in line
        ],
    ),
]


@pytest.mark.parametrize("text", SEEN)
def test_the_static_check_refuses_what_the_text_shows(text: str) -> None:
    assert remarks(text)


def test_a_parent_package_is_evaluated_before_its_module() -> None:
    text = "from box.inner import X\nfrom box.seen import Y\ndef run(): return X, Y\n"
    others: dict[str, str] = {"box/__init__": "from .seen import Y\n", "box/inner": "X = 2\n", "box/seen": "Y = [1]\n"}
    assert evaluated(text, 1, **others) == (2, [1])


def test_a_module_that_is_imported_late_changes_nothing_that_was_there() -> None:
    text = "class A: n = 0\ndef run():\n    import late\n    return A.n\n"
    with pytest.raises(Violation):
        evaluated(text, late="import candidate\ncandidate.A.n = 1\n")


def test_a_module_cannot_stand_for_a_library() -> None:
    assert evaluated("import math\ndef run(): return math.sqrt(4)\n", math="def sqrt(x): return 3\n") == 2.0


def test_what_a_library_cannot_define_is_refused_each_time_that_it_is_asked_for() -> None:
    library = "import threading\n\nLOCK = threading.Lock()\n\n\ndef held():\n    return LOCK\n"
    candidate = "import library\n\n\ndef run():\n    return library.held()\n"
    sources = {"library.py": ast.parse(library), "candidate.py": ast.parse(candidate)}
    _, run = load(sources, [""], ["candidate.py"], "candidate", "run")
    for _ in range(2):
        with pytest.raises(Violation, match=r"threading\.Lock"):
            run()
