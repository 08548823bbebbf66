"""A program means what CPython makes of it, or it is refused."""

# ruff: noqa: E501 - a program a line

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gpu_runner.program.programs import evaluated, native, outcome


def body(text: str) -> str:
    lines = text.strip("\n").replace("; ", "\n").splitlines()
    return "def run():\n" + "".join(f"    {line}\n" for line in lines)


# Each evaluated as CPython does: expressions first, then bodies of a function, then whole modules.
EXPRESSIONS = """
1 + 2 * 3 ** 2
-7 // 2, -7 % 2, divmod(-7, 2), 7 / 2
0.1 + 0.2, 1e308 * 10, -0.0
1 < 2 < 3, 1 < 3 < 2, 3 > 2 == 2
[] or 0 or 'x', 1 and [] and 2, not []
'a' if 0 else 'b'
[1, 2, 3][::-1], (1, 2, 3)[1:], 'abc'[-1]
[*range(3), *'ab'], (*[1], 2), {*[1], 2}
{**{'a': 1}, 'b': 2, **{'a': 3}}
[x * y for x in range(3) for y in range(x) if y % 2 == 0]
{x: x * x for x in range(3)}
sorted({x % 3 for x in range(9)})
list(x for x in range(3))
(lambda a, b=2, *c, d=4, **e: (a, b, c, d, sorted(e.items())))(1, 5, 6, d=7, z=8)
(lambda *, a: a)(1)
(lambda a, /, b: (a, b))(1, b=2)
(lambda a, /: a)(a=1)
max([3, 1, 2], key=lambda x: -x), min('b', 'a'), max([], default=5)
sorted(['bb', 'a', 'ccc'], key=len, reverse=True)
sorted([(1, 'b'), (1, 'a'), (0, 'c')], key=lambda p: p[0])
list(zip([1, 2, 3], 'ab')), list(map(str, [1, 2])), list(filter(None, [0, 1, 2]))
list(enumerate('ab', 1)), list(reversed([1, 2])), sum([1, 2], 3)
any([]), all([]), any(x > 1 for x in [1, 2]), all(x > 1 for x in [1, 2])
f'{1 + 1:>4}|{"x"!r:5}|{3.14159:.2f}|{ {"a": 1}["a"] }'
f'{10:{"0"}{5}d}', f'{1=}'
'%s-%d' % ('a', 3), '{} {a}'.format(1, a=2), '{1} {0}'.format('x', 'y')
'a,b'.split(','), ' x '.strip(), ','.join(['a', 'b']), 'abc'.replace('b', 'd')
int('12'), float('1.5'), bool(''), str(1), round(2.5), round(3.14159, 2), abs(-3), pow(2, 5, 7)
(5).bit_length(), (2.0).is_integer(), 7 .real
isinstance(1, int), isinstance(True, int), isinstance('a', (int, str)), isinstance(1, int | str)
type(1) is int, type('a') is str, type([]) is list
None is None, 1 == 1.0, 'a' in 'abc', 1 not in [1], 2 in {1: 1}
{'a': 1}.get('b', 2), list({'b': 1, 'a': 2}), list({'a': 1}.items())
[1, 2] + [3], (1,) * 3, [[0]] * 2, 'ab' * 2
1 << 4, 6 & 3, 6 | 1, 6 ^ 2, ~5, 9 >> 1
1 / 0
[][0]
{}['a']
int('x')
undefined
1 + 'a'
len(5)
'a' < 1
(1).nothing
[1, 2, 3].pop(0), [1, 2].index(2), [1, 1].count(1)
callable(len), callable(1), callable(lambda: 1)
chr(97), ord('a'), hex(255), bin(5), oct(8)
list(map(lambda a, b: a + b, [1, 2], [3, 4]))
[f(1) for f in [lambda x, k=k: x + k for k in range(3)]]
[f() for f in [lambda: k for k in range(3)]]
[(y := x * 2) + y for x in range(3)]
[x for x in range(5) if (h := x % 2)]
next(iter([1])), next(iter([]), 'no')
next(iter([]))
complex(1, 2) * 1j
repr('a'), repr([1, 'b', None]), str((1,)), str({'a': [1]})
(lambda: (yield))()
[next(i) for i in [iter([])]]
list(range(10, 0, -3)), range(3)[1], len(range(5))
slice(1, 2).start, [0, 1, 2][slice(1, 3)]
1 if 2 else 1 / 0
0 and 1 / 0
0 < 0 < 1 / 0
[i for i in range(3)][::2] == [0, 2]
bytes(3), b'ab'[0], b'ab'.hex()
float('inf') > 1, float('nan') == float('nan')
isinstance([], list) and isinstance({}, dict) and not isinstance((), list)
tuple(x for x in [1]), dict([('a', 1)]), dict(a=1), set([1]), list('ab')
hasattr('a', 'lower'), hasattr('a', 'nothing'), getattr('a', 'nothing', 3), getattr(3, 'real')
int.__name__ if False else 1
[*map(int, ['1', '2'])], sum(map(len, ['a', 'bb']))
list(zip(*[(1, 2), (3, 4)]))
list(map(bool, [0, 1, '']))
print('x')
(1, 2) < (1, 3), [1] < [1, 0], 'a' < 'b'
5 .bit_count(), 1_000, 0x10, 1e3
"""
BODIES = """
x = 1; x += 2; return x
x = [1]; y = x; x += [2]; return y
x = (1,); y = x; x += (2,); return y
a, (b, *c), d = 1, (2, 3, 4), 5; return a, b, c, d
a, b = 1, 2; a, b = b, a; return a, b
a, b = [1]; return a
a, *b = []; return a
x = [0, 0]; i, x[i] = 1, 2; return x
x = y = []; x.append(1); return y
d = {}; d['a'] = d.setdefault('b', 1); del d['b']; return d
x = [1, 2, 3]; x[1:] = [9]; del x[0]; return x
x = [3, 1]; x.sort(); return x
out = []; [out.append(i) for i in range(3)]; return out
x = 1; del x; return x
def f(): return z|||return f()
def f(a=[]): a.append(1); return a|||return f(), f()
def f(n): return 1 if n == 0 else n * f(n - 1)|||return f(10)
def f(*a, **k): return a, k|||return f(*[1, 2], *(3,), x=1, **{'y': 2})
def f(a): return a|||return f(1, a=2)
def f(a, b): return a|||return f(**{'a': 1, 'c': 2})
def f(a): return a|||return f()
fs = []; |||for i in range(3): fs.append(lambda: i)|||return [f() for f in fs]
for i in range(3):|||    if i == 1: continue|||    if i == 2: break|||else: return 'else'|||return i
for i in []: pass|||else: return 'else'
i = 0|||while i < 3: i += 1|||else: return i, 'else'
i = 0|||while True:|||    i += 1|||    if i > 3: break|||return i
try: return 1|||finally: pass
try: return 1|||finally: return 2
try: 1 / 0|||except ZeroDivisionError: return 'zero'
try: 1 / 0|||except ValueError: return 'value'
try: 1 / 0|||except (ValueError, ArithmeticError): return 'either'
try: x = 1|||except ValueError: x = 2|||else: x = 3|||finally: x += 10|||return x
try: 1 / 0|||except ZeroDivisionError as e: pass|||return e
try: 1 / 0|||except ZeroDivisionError: raise ValueError('x') from None
try: 1 / 0|||except ZeroDivisionError: raise
try:|||    try: 1 / 0|||    except ZeroDivisionError: raise|||except ArithmeticError: return 'again'
try:|||    try: 1 / 0|||    finally: {}['a']|||except KeyError: return 'key'
def f(): raise|||try: 1 / 0|||except ZeroDivisionError:|||    try: f()|||    except ZeroDivisionError: return 'zero'
raise
raise ValueError
raise 3
try: raise RuntimeError('No active exception to reraise')|||except RuntimeError: return 'own'
out = []|||for i in range(3):|||    try:|||        if i == 1: continue|||        out.append(i)|||    finally: out.append('f')|||return out
for i in range(3):|||    try: break|||    finally: i = 9|||return i
while True:|||    try: 1 / 0|||    except ZeroDivisionError: break|||    finally: pass|||return 'left'
try: int('x')|||except ValueError: return 'int'|||return 'no'
assert 1, 'no'|||return 1
assert 0, 'no'
x = 1|||def f():|||    nonlocal x|||    x += 1|||f(); f()|||return x
def f():|||    x = 1|||    def g(): return x|||    x = 2|||    return g|||return f()()
def f():|||    def g(): return x|||    return g()|||    x = 1|||return f()
def f():|||    print(x); x = 1|||x = 2|||return f()
x = 1|||def f(): return [x for x in range(3)], x|||return f()
x = 5|||return [x for _ in range(2)], [x for x in [1]], x
return [y for x in range(2) for y in [x]]
return [y for y in [y]]
return [(y, z) for y in [1] for z in [y, w] for w in [1]]
if (n := 3) > 2: return n
x = [i := 1, i + 1]|||return x, i
def f(): return [q := 1 for _ in [0]], q|||return f()
match 3:|||    case 1: return 'a'|||    case 2 | 3: return 'b'
match (1, 2):|||    case (1, x) if x > 5: return 'no'|||    case (a, b): return a, b, x
match 'a':|||    case str(): return 'text'
match [1]:|||    case [x]: return x
match None:|||    case None: return 'none'
match 5:|||    case int() | float(): return 'number'
match {'a': 1}:|||    case {'a': x}: return x
match [1, 2]:|||    case [x, *y]: return y
match range(2):|||    case [x, y]: return x
class A:|||    x = 1|||    y = x + 1|||return A.x, A.y
class A:|||    def __init__(self, a): self.a = a|||    def get(self): return self.a|||return A(3).get()
class A:|||    n = 1|||    def f(self): return n|||return A().f()
class A:|||    n = 2|||    xs = [n for _ in range(2)]|||return A.xs
class A:|||    n = 2|||    xs = [i for i in range(n)]|||return A.xs
x = 1|||class A:|||    x = x|||return A.x
x = 1|||class A:|||    y = x|||return A.y
class A:|||    @property|||    def p(self): return 4|||return A().p
class A:|||    @property|||    def p(self): return 4|||a = A()|||a.p = 5|||return a.p
class A:|||    @staticmethod|||    def s(x): return x|||    @classmethod|||    def c(cls): return cls.__name__|||class B(A): pass|||return A.s(1), A().s(2), B.c(), B().c()
class A:|||    @classmethod|||    def make(cls): return cls.__name__|||class B(A):|||    @classmethod|||    def make(cls): return super().make()|||return B.make()
class A:|||    def f(self): return 'A'|||class B(A):|||    def f(self): return 'B' + super().f()|||class C(A):|||    def f(self): return 'C' + super().f()|||class D(B, C):|||    def f(self): return 'D' + super().f()|||return D().f()
class A:|||    def f(self): return 'A'|||class B(A):|||    def f(self): return 'B' + super(B, self).f()|||class C(B):|||    def f(self): return 'C' + super(B, self).f()|||return C().f()
class A:|||    def __init__(self): self.a = 1|||class B(A):|||    def __init__(self):|||        super().__init__()|||        self.b = 2|||b = B()|||return b.a, b.b
class A:|||    xs = []|||a, b = A(), A()|||a.ys = 1|||return hasattr(b, 'ys'), hasattr(a, 'ys')
class A:|||    def __len__(self): return 0|||return bool(A()), len(A())
class A:|||    def __bool__(self): return False|||return 'x' if A() else 'y'
class A:|||    def __getitem__(self, k): return k * 2|||return A()[4]
class A:|||    def __iter__(self): return iter([1, 2])|||return list(A()), [*A()], 2 in A(), 3 in A()
class A:|||    def __contains__(self, k): return k == 1|||return 1 in A(), 2 in A()
class A:|||    def __call__(self, x): return x + 1|||return A()(1), callable(A())
class A: pass|||return callable(A()), callable(A)
class A: pass|||return len(A())
class A: pass|||return A()()
class A: pass|||return list(A())
class A: pass|||return A()[0]
class A: pass|||return A(1)
class A: pass|||return A().x
class A:|||    def __eq__(self, o): return NotImplemented|||return A() == A(), A() != A()
class A:|||    def __eq__(self, o): return [1]|||return A() == 3
class A:|||    def __eq__(self, o): return True|||return {A(): 1}
class A: pass|||a = A()|||return a == a, a == A(), a in [A(), a], a is a
class E(ValueError): pass|||try: raise E('x')|||except ValueError: return 'mine'
class E(Exception): pass|||class F(E): pass|||try: raise F|||except E: return 'base'
class A:|||    def __enter__(self): return 5|||    def __exit__(self, *e): return None|||with A() as x: return x
out = []|||class A:|||    def __enter__(self): out.append('in')|||    def __exit__(self, *e): out.append(len(e))|||try:|||    with A(): 1 / 0|||except ZeroDivisionError: pass|||return out
def dec(f):|||    def g(*a): return ('d', f(*a))|||    return g|||@dec|||@dec|||def h(x): return x|||return h(1)
order = []|||def d(n):|||    order.append(n)|||    return lambda f: order.append(-n) or f|||@d(1)|||@d(2)|||def f(a=order.append('default')): pass|||return order
order = []|||def v(x):|||    order.append(x)|||    return x|||d = {v('k'): v('v')}|||v('a') < v('b') < v('c')|||return order
def f(): return 1|||f.tag = 3|||return f.tag
x = 3|||f = lambda: x|||x = 4|||return f()
m = map(lambda x: 1 / x, [1, 0])|||return next(m)
log = []|||g = (log.append(i) or i for i in range(3))|||next(g)|||return log
z = zip([1, 2, 3], [4])|||return list(z), list(z)
it = iter([1, 2, 3])|||return [(a, b) for a, b in zip(it, it)], list(it)
xs = [1, 2, 3]|||for x in xs:|||    if x < 3: xs.append(9)|||    if len(xs) > 5: break|||return xs
d = {'a': 1}|||for k in d: d[k + 'x'] = 1|||return d
import math|||return math.sqrt(4), math.pi > 3
from math import sqrt as root|||return root(9)
import nothing_of_that_name
from math import nothing
return len
global_name = 1|||return global_name
x: int = 3|||return x
x: int|||return x
return sorted([3, 1, 2], key=str), list(map(repr, ['a']))
def f(a, b=1, /, c=2, *, d=3): return a, b, c, d|||return f(1, c=5, d=6)
a = b = c = 1|||a += b; b -= c|||return a, b, c
t = ([1],)|||t[0] += [2]|||return t
x = [[1], [2]]|||x[0][0], x[1] = 7, 8|||return x
"""
MODULES = """
from dataclasses import dataclass, field|||@dataclass|||class P:|||    x: int|||    y: int = 2|||    z: list = field(default_factory=list)|||def run(): p = P(1); p.z.append(1); return repr(p), P(1, 2) == P(1), P(1).z
from dataclasses import dataclass|||@dataclass|||class P:|||    x: int|||def run(): return P()
from dataclasses import dataclass|||@dataclass|||class P:|||    x: int|||def run(): return {P(1): 1}
from dataclasses import dataclass|||@dataclass(frozen=True)|||class P:|||    x: int|||def run(): return {P(1): 1}[P(1)]
from dataclasses import dataclass|||@dataclass(frozen=True)|||class P:|||    x: int|||def run():|||    p = P(1)|||    try: p.x = 2|||    except AttributeError: return 'frozen'
from dataclasses import dataclass|||@dataclass|||class A:|||    x: int = 1|||@dataclass|||class B(A):|||    y: int = 2|||    x: int = 5|||def run(): return repr(B()), B(7).x
from dataclasses import dataclass|||@dataclass|||class A:|||    x: int = 1|||class B(A):|||    def __init__(self): super().__init__(4)|||def run(): return B().x
from dataclasses import dataclass|||class A:|||    def __init__(self): self.q = 1|||@dataclass|||class B(A):|||    x: int = 3|||def run(): b = B(); return b.x, hasattr(b, 'q')
from dataclasses import dataclass|||@dataclass|||class A:|||    x: int|||    def __post_init__(self): self.y = self.x * 2|||def run(): return A(2).y, A(1) == A(1), repr(A(3))
from dataclasses import dataclass|||@dataclass|||class A:|||    x: list = []|||def run(): return 1
from dataclasses import dataclass|||from typing import ClassVar|||@dataclass|||class A:|||    n: ClassVar[int] = 3|||    x: int = 1|||def run(): return A(2).x, A.n, A.x
from dataclasses import dataclass|||@dataclass(order=True)|||class A:|||    x: int|||def run(): return A(1) < A(2)
from dataclasses import dataclass|||@dataclass(frozen=True)|||class A:|||    x: int|||@dataclass(frozen=True)|||class B(A):|||    y: int|||def run(): return repr(B(1, 2)), B(1, 2) == B(1, 2)
from typing import NamedTuple|||class P(NamedTuple):|||    x: int|||    y: int = 2|||    @property|||    def total(self): return self.x + self.y|||    def plus(self, n): return P(self.x + n, self.y)|||def run(): p = P(1); return p.total, p.plus(3), p[0], len(p), list(p), p == (1, 2), type(p) is P, p._replace(x=5)
from collections import namedtuple|||P = namedtuple('P', 'x y')|||def run(): return P(1, 2).x, P(y=1, x=3), P(1, 2)._asdict()
from enum import Enum|||class C(Enum):|||    A = 1|||    B = 'b'|||def run(): return C.A.name, C.A.value, C(1) is C.A, C['B'].value, [c.name for c in C], C.A == 1, str(C.A), repr(C.B), isinstance(C.A, C), C.A in C, len(list(C))
from enum import Enum|||class C(Enum):|||    A = 1|||def run(): return C(5)
from enum import Enum, auto|||class C(Enum):|||    A = auto()|||    B = auto()|||    @property|||    def twice(self): return self.value * 2|||def run(): return C.A.value, C.B.twice
from enum import Enum|||class C(Enum):|||    A = 1|||    B = 1|||def run(): return C.A is C.B, [c.name for c in C]
from enum import IntEnum|||class C(IntEnum):|||    A = 1|||    B = 2|||def run(): return C.A + 1, C.A < C.B, C.A == 1, C.A.value, C.B.name, f'{C.A}', isinstance(C.A, int), sorted(C)
from enum import StrEnum, auto|||class C(StrEnum):|||    RED = auto()|||def run(): return C.RED.value, C.RED == 'red', f'{C.RED}'
from contextlib import contextmanager|||@contextmanager|||def m(x):|||    yield x|||def run():|||    with m(3) as y: return y
from contextlib import contextmanager|||log = None|||@contextmanager|||def m(out):|||    out.append('in')|||    try: yield 1|||    except ValueError: out.append('caught')|||    finally: out.append('out')|||def run():|||    out = []|||    with m(out): raise ValueError|||    return out
from contextlib import contextmanager|||@contextmanager|||def m(out):|||    yield|||    out.append('after')|||def run():|||    out = []|||    for i in range(2):|||        with m(out): continue|||    return out
from contextlib import contextmanager|||@contextmanager|||def m(x):|||    if x: yield x|||def run():|||    with m(0): return 1
from contextlib import contextmanager|||@contextmanager|||def m():|||    yield 1|||    yield 2|||def run():|||    with m(): pass|||    return 1
from contextlib import contextmanager|||@contextmanager|||def m():|||    try: yield|||    finally: pass|||def run():|||    with m(): 1 / 0
from contextlib import contextmanager|||@contextmanager|||def m():|||    yield|||def run():|||    c = m()|||    with c: pass|||    with c: pass
from contextlib import nullcontext|||def run():|||    with nullcontext(4) as x: return x
def g():|||    yield 1|||    yield 2|||def run(): return list(g())
import functools|||@functools.lru_cache(maxsize=None)|||def f(n): return n * 2|||def run(): return f(2), f(2), f(3)
import functools|||from dataclasses import dataclass|||@dataclass(frozen=True)|||class S:|||    block: int = 8|||    kind: tuple = ('a', 2)|||@functools.cache|||def f(s, n): return s.block * n|||def run(): return f(S(), 2), f(S(), 2), f(S(4), 2), f(S(4, ('b', 1)), n=3)
import functools|||def f(a, b, c=3): return a, b, c|||def run(): p = functools.partial(f, 1, c=9); return p(2), p(2, c=1), functools.reduce(lambda a, b: a + b, [1, 2, 3])
import functools|||def run(): return functools.partial(str, 5)(), functools.reduce(max, [1, 5, 2])
import functools|||def d(f):|||    @functools.wraps(f)|||    def g(*a): return f(*a)|||    return g|||@d|||def h(): return 1|||def run(): return h.__name__, h()
import functools|||class A:|||    @functools.cached_property|||    def xs(self): return []|||def run(): a = A(); a.xs.append(1); return a.xs
import itertools|||def run(): return list(itertools.product([1], [2, 3])), list(itertools.accumulate([1, 2, 3])), list(itertools.chain([1], [2])), list(itertools.islice(iter([1, 2, 3]), 2))
import operator|||def run(): return operator.add(1, 2), operator.getitem([5], 0)
X = 1|||def run(): return X + Y|||Y = 2
def run(): return later()|||def later(): return 3
def run(): return Z
X = [i for i in range(3)]|||def run(): return X
[Y := i for i in range(3)]|||def run(): return Y
abs = lambda x: 'mine'|||def run(): return abs(-1), list(map(abs, [1]))
if True:|||    def f(): return 'a'|||else:|||    def f(): return 'b'|||def run(): return f()
try:|||    import nothing_of_that_name|||except ImportError:|||    nothing_of_that_name = None|||def run(): return nothing_of_that_name
try:|||    from math import nothing|||except ImportError:|||    nothing = 3|||def run(): return nothing
def f(x, y=[]): return y|||def run(): return f(1) is f(2)
class A:|||    n = 0|||    def f(self): return self.n|||A.n = 5|||def run(): return A().f()
x = 1|||class A:|||    x = 2|||    def f(self): return x|||    y = [x for _ in range(1)]|||def run(): return A().f(), A.y
x = 'module'|||def f():|||    x = 'function'|||    class A:|||        x = x|||    return A.x|||def run(): return f()
def f():|||    global g|||    g = 1|||f()|||def run(): return g
T = {'a': lambda x: x + 1}|||def run(): return T['a'](1)
from typing import Optional, Generic, TypeVar|||T = TypeVar('T')|||class A(Generic[T]):|||    def f(self, x: Optional[T] = None) -> T: return x|||def run(): return A().f(3)
import torch|||def run(): return torch.add == torch.add, torch.sum is None, torch.float32 == torch.float32, torch.float32.itemsize, torch.add in [torch.sum, torch.add]
import torch|||def run(): return hasattr(torch, 'no_such_thing'), getattr(torch, 'no_such_thing', 4), hasattr(torch, 'float32')
import torch|||def run(): t = torch.arange(4).view(2, 2); return t.tolist(), t[1].tolist(), t.shape == (2, 2), tuple(t.shape), t.sum().item(), bool(t[0, 1]), len(t), [int(r.sum()) for r in t]
import torch|||def run():|||    with torch.no_grad(): a = torch.is_grad_enabled()|||    return a, torch.is_grad_enabled()
import torch|||@torch.no_grad()|||def f(): return torch.is_grad_enabled()|||def run(): return f(), torch.is_grad_enabled()
import torch|||def run(): x = torch.zeros(3); x += 1; x[0] = 5; y = x; y *= 2; return x.tolist(), str(x.dtype), f'{x.sum()}'
"""


def whole(text: str) -> str:
    return text.replace("|||", "\n") + "\n"


PROGRAMS = [
    *(body(f"return {line}") for line in EXPRESSIONS.strip().splitlines()),
    *(body(line.replace("|||", "\n")) for line in BODIES.strip().splitlines()),
    *(whole(line).replace(": p = ", ":\n    p = ").replace("; ", "\n    ") for line in MODULES.strip().splitlines()),
]
# Refused rather than evaluated: what honest host code does not need.
REFUSED = (
    "7 .real", "(lambda: (yield))()", "int.__name__", "return e", "case {'a': x}", "case [x, *y]", "match range(2)", "return len\n",
    "yield 1\n    yield 2\ndef run(): return list", "order=True", "'refused'", "c = m()\n", "(1).nothing", "with m(): continue",
    "def f(): return 1\n    f.tag = 3", "class C(Enum):\n    A = 1\ndef run(): return C(5)", "callable(len)",
    "del x; return x", "f(1) is f(2)",
)  # fmt: skip


@pytest.mark.parametrize("text", PROGRAMS)
def test_a_program_means_what_cpython_makes_of_it(text: str) -> None:
    got = outcome(evaluated, text)
    if got.startswith("refused"):
        assert any(part in text for part in REFUSED), got
        return
    assert got == outcome(native, text)


def test_most_programs_are_evaluated() -> None:
    assert len(PROGRAMS) >= 150
    assert sum(outcome(evaluated, text).startswith("refused") for text in PROGRAMS) < 20


NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(
    NAMES, st.integers(-3, 9).map(str), st.sampled_from(["[]", "[1, 2]", "'t'", "None", "True", "(a, b)"])
)


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    operators = st.sampled_from(["+", "-", "*", "//", "%", "<", "==", "in", "and", "or"])
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(inner, NAMES, inner).map(lambda p: f"[{p[0]} for {p[1]} in {p[2]}]"),
        st.tuples(NAMES, inner).map(lambda p: f"({p[0]} := {p[1]})"),
        st.tuples(NAMES, inner, inner).map(lambda p: f"(lambda {p[0]}={p[1]}: {p[2]})()"),
        st.tuples(inner, NAMES, inner, inner).map(lambda p: f"list({p[0]} for {p[1]} in {p[2]} if {p[3]})"),
        two.map(lambda p: f"{{{p[0]}: {p[1]}}}"),
        two.map(lambda p: f"{p[0]}[{p[1]}]"),
    )


TERMS = st.recursive(LEAVES, _larger, max_leaves=6)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _statements(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    block = st.lists(inner, min_size=1, max_size=3).map(
        lambda parts: _indented([line for part in parts for line in part])
    )
    return st.one_of(
        st.tuples(TERMS, block, block).map(lambda p: [f"if {p[0]}:", *p[1], "else:", *p[2]]),
        st.tuples(NAMES, TERMS, block, block).map(lambda p: [f"for {p[0]} in {p[1]}:", *p[2], "else:", *p[3]]),
        st.tuples(block, block, block).map(
            lambda p: ["try:", *p[0], "except (TypeError, ValueError) as c:", *p[1], "finally:", *p[2]]
        ),
        st.tuples(NAMES, NAMES, TERMS, block).map(lambda p: [f"def {p[0]}({p[1]}={p[2]}):", *p[3], f"{p[0]}()"]),
        st.tuples(NAMES, block).map(
            lambda p: [f"class {p[0]}:", *(line for line in p[1] if "return" not in line), "    pass"]
        ),
    )


SIMPLE = st.one_of(
    st.tuples(NAMES, TERMS).map(lambda p: [f"{p[0]} = {p[1]}"]),
    st.tuples(NAMES, st.sampled_from("+-*"), TERMS).map(lambda p: [f"{p[0]} {p[1]}= {p[2]}"]),
    TERMS.map(lambda value: [f"return {value}"]),
    st.tuples(NAMES, NAMES, TERMS).map(lambda p: [f"{p[0]}, *{p[1]} = {p[2]}"]),
    TERMS.map(lambda value: [f"out.append({value})"]),
)
STATEMENTS = st.recursive(SIMPLE, _statements, max_leaves=8)


def _compiles(text: str) -> bool:
    try:
        compile(text, "", "exec")
    except SyntaxError:
        return False
    return True


@settings(max_examples=100, deadline=None)
@given(st.lists(STATEMENTS, min_size=1, max_size=5))
def test_a_drawn_program_means_what_cpython_makes_of_it(parts: list[list[str]]) -> None:
    lines = ["a, b, c, out = 1, [2, 3], 'x', []", *(line for part in parts for line in part), "return a, b, c, out"]
    text = "def run():\n" + "".join(f"    {line}\n" for line in lines)
    if not _compiles(text):
        return
    got = outcome(evaluated, text)
    assert got.startswith("refused") or got == outcome(native, text)
