"""No call of a program keeps the evaluator busy within native code, and what is counted gives what CPython gives."""

from __future__ import annotations

import resource
import time

import pytest

from gpu_runner.program import budget
from gpu_runner.program.objects import Violation
from tests.few import few
from tests.gpu_runner.program.programs import evaluated, native, outcome

MOST_S = 4.0  # of one call, on a busy host
SHARES = (0.25, 1.0)  # of the bounds: in `make test`, and the bounds themselves
MOST_BYTES = 16 * 2**30  # of address space, while nothing of it may be used

# What would not end, or take minutes. Each line: the body of ``run``.
ENDLESS = """
import itertools; return 1 in itertools.repeat(0)
import itertools; return list(itertools.repeat(0))
import itertools; return sum(itertools.repeat(0))
import itertools; return max(itertools.repeat(0))
import itertools; return next(filter(None, itertools.repeat(0)))
import itertools; return list(itertools.islice(itertools.repeat(0), 10**12, None))
import itertools; return 1 in itertools.chain([2], itertools.repeat(0))
import itertools; return 1 in itertools.product(range(1000), repeat=9)
import itertools; return list(itertools.product([0], repeat=10**9))
import itertools; return 1 in itertools.accumulate(itertools.repeat(2))
import itertools; return list(itertools.accumulate(['ab' * 4096] * 100000))
import itertools; a, *b = itertools.repeat(0)
import itertools; return [*itertools.repeat(0)]
import itertools; x = []; x += itertools.repeat(0)
import itertools; return ''.join(itertools.repeat('a'))
import math, itertools; return math.fsum(itertools.repeat(0.0))
return sum(range(10**11))
return max(range(10**11))
return min(range(10**11))
return sorted(range(10**9))
return any(map(bool, range(10**11))) if max(range(10**11)) else 0
return 0.5 in range(10**11)
return range(10**11).count(0.5)
return range(10**11).index(0.5)
return list(range(10**11))
return set(range(10**11))
return [*range(10**11)]
a, *b = range(10**9)
return len(range(10**9)[:]) + sum(range(10**9)[:])
import math; return math.factorial(10**7)
import math; return math.comb(10**7, 5 * 10**6)
import math; return math.prod(range(1, 10**6))
import math; return math.prod([3**2000] * 100000)
import math; return math.lcm(*range(1, 100000))
import functools, operator; return functools.reduce(operator.mul, range(1, 10**6))
import functools, operator; return functools.reduce(operator.add, [[0] * 10000] * 100000)
import operator; return operator.mul('a', 10**10)
import operator; return len(operator.mul([0], 10**9))
return 10**(10**9)
return pow(3, 10**9)
return 1 << 10**10
return round(7, -10**9)
return '%1000000000d' % 1
return '%*d' % (10**9, 1)
return '{:1000000000}'.format(1)
return format(1, '1000000000')
return ('a' * 10**6) * 10**6
return 'a'.ljust(10**9)
return 'a'.zfill(10**9)
return ('a' * 10**6).replace('a', 'b' * 1000)
return sum([[0] * 1000] * 1000000, [])
x = [0] * 10**6; return [x.index(0.5) if 0.5 in x else 0 for _ in range(10**4)]
x = [0] * 10**6; return [len(x[:]) for _ in range(10**5)]
x = [0] * 10**6; return [x.count(1) for _ in range(10**5)]
x = [0] * 10**6; return [sum(x) for _ in range(10**5)]
x = dict(enumerate(range(10**6))); return [1.5 in x.values() for _ in range(10**5)]
x = 1; return [x := x + x for _ in range(10**6)]
x = []; [x := [x, x] for _ in range(60)]; y = []; [y := [y, y] for _ in range(60)]; return x == y
x = (); [x := (x, x) for _ in range(60)]; return {x: 1}
x = (); [x := (x, x) for _ in range(60)]; return {x}
x = (); [x := (x, x) for _ in range(60)]; return {}.get(x)
x = (); [x := (x, x) for _ in range(60)]; return {}[x]
x = (); [x := (x, x) for _ in range(60)]; return str(x)
x = (int,); [x := (x, x) for _ in range(60)]; return isinstance('', x)
x = []; [x := [x, x] for _ in range(60)]; return sorted([x, x])
"""
# What is counted by models of the evaluator's own, with the results of CPython.
COUNTED = """
import itertools; return list(itertools.repeat(3, 4)), list(zip([1, 2], itertools.repeat(0)))
import itertools; return list(itertools.product([1, 2], 'ab')), list(itertools.product(range(2), repeat=3))
import itertools; return list(itertools.accumulate([1, 2, 3])), list(itertools.accumulate([3, 1, 2], max))
import itertools; return list(itertools.accumulate([1, 2], initial=5)), list(itertools.accumulate(['a', 'b']))
import math; return math.factorial(20), math.comb(10, 3), math.lcm(4, 6, 10), math.lcm()
import math; return math.prod([2, 3, 0.5]), math.prod([2], start=7)
import math; return math.prod([2], start=7)
import math; return math.factorial(-1)
import math; return math.comb(3, 5)
import functools, operator; return functools.reduce(operator.mul, (2, 3, 4), 1), functools.reduce(operator.add, [[1], [2]])
import operator; return operator.eq(1, 1.0), operator.lt(1, 2), operator.getitem([4, 5], 1), operator.and_(6, 3), operator.mod(7, 4)
return sum([0.1] * 10), sum([1, 2.5]), sum([[1], [2]], []), sum((), 3), sum([True, True])
return sum(['a', 'b'])
return sum(x for x in range(5)), sum(range(4), start=2)
return 3 in range(10**12), 10**12 - 1 in range(10**12), range(10**12)[5], len(range(10**12))
return '%5d|%-5s|%.3f' % (1, 'a', 2.0), '{:>8}'.format('x'), format(3.5, '.2f'), f'{7:04d}', '100000 of %s' % 3
return round(2.675, 2), round(1234, -2), 'abc'.replace('b', 'xx'), 'a,b'.split(','), 'ab'.ljust(4)
x = [3, 1]; x += [2]; x.sort(); x.extend(range(2)); return x, x.pop(0), x.index(2), x[1:], {(1, (2,)): 3}[1, (2,)]
return [1, [2, (3,)]] == [1, [2, (3,)]], {1: [2]} == {1: [2]}, 'a' in 'cab', sorted([(2, 'b'), (1, 'a')])
"""


def body(line: str) -> str:
    return "def run():\n" + "".join(f"    {each}\n" for each in line.split("; "))


@pytest.fixture
def little_memory() -> object:
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("line", ENDLESS.strip().splitlines())
@pytest.mark.parametrize("share", few(SHARES, SHARES[:1]))
@pytest.mark.usefixtures("little_memory")
def test_native_code_that_would_not_end_is_refused_at_once(
    line: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_STEPS", "MOST_WORK"):
        monkeypatch.setattr(budget, name, int(share * getattr(budget, name)))
    begin = time.process_time()
    with pytest.raises(Violation) as caught:
        evaluated(body(line))
    assert caught.value.rule in ("endless", "too large")
    assert time.process_time() - begin < MOST_S * share


@pytest.mark.parametrize("line", COUNTED.strip().splitlines())
def test_what_is_counted_gives_what_cpython_gives(line: str) -> None:
    text = body(line)
    assert outcome(evaluated, text) == outcome(native, text)
