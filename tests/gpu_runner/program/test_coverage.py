"""What counts as a decision of a candidate, and how it ended."""

from __future__ import annotations

import ast

import pytest
import torch

from gpu_runner.messages import MOST_DECISIONS
from gpu_runner.program.coverage import BOTH, FAILED, HELD, Decisions
from gpu_runner.program.lanes import KernelText
from gpu_runner.program.load import load
from gpu_runner.program.objects import Violation
from tests.gpu_runner.program.programs import decided

ONE_SIDED = {
    "a condition over a size": ("if x.shape[0] > 31: x = x + 1", {"`x.shape[0] > 31`": FAILED}),
    "a choice between two": ("x = x + 1 if x.stride(0) == 0 else x", {"`x.stride(0) == 0`": FAILED}),
    "each part of a condition": (
        "if x.dim() == 1 and x.shape[0] > 31: x = x + 1",
        {"`x.dim() == 1`": HELD, "`x.shape[0] > 31`": FAILED},
    ),
    "a comparison that is only passed on": ("flag = x.shape[0] == 7", {"`x.shape[0] == 7`": HELD}),
    "by a name": ("n = x.shape[0]\n    if n > 31: x = x + 1", {"`n > 31`": FAILED}),
    "through a function": (
        "def over(n): return n > 31\n    flag = over(x.shape[0])",
        {"`n > 31`": FAILED},
    ),
    "the smaller of two": (
        "n = min(x.shape[0], 31)",
        {"`31` is the minimum": FAILED, "`x.shape[0]` is the minimum": BOTH},
    ),
    "a quotient": ("n = x.shape[0] // 31", {"`x.shape[0] // 31` is not zero": FAILED}),
    "a remainder of which it is asked alone whether it is zero": (
        "if x.shape[0] % 7 == 0: x = x + 1",
        {"`x.shape[0] % 7 == 0`": HELD},
    ),
    "a long one": (
        f"flag = x.shape[0] + {'0 + ' * 30}0 > 31",
        {f"`x.shape[0] + {'0 + ' * 21}0 +… 39 more`": FAILED},
    ),
    "a rounded quotient": ("n = int(x.shape[0] / 31)", {"`int(x.shape[0] / 31)` is not zero": FAILED}),
    "an entry of a table": ("n = {31: 1}.get(x.shape[0], 0)", {"`{31: 1}.get(x.shape[0], 0)` is found": FAILED}),
    "a loop": (
        "for _ in range(x.shape[0] // 31): x = x + 1",
        {"`x.shape[0] // 31` is not zero": FAILED, "`range(x.shape[0] // 31)` is not empty": FAILED},
    ),
    "a comparison by a function": (
        "import operator\n    flag = operator.eq(x.shape[0], 31)",
        {"`operator.eq(x.shape[0], 31)`": FAILED},
    ),
    "a comparison by any": ("flag = any((x.shape[0] - 31,))", {"`any((x.shape[0] - 31,))`": HELD}),
    "a comparison of floats": (
        "import math\n    flag = math.isclose(x.shape[0], 31)",
        {"`math.isclose(x.shape[0], 31)`": FAILED},
    ),
    "a pattern": ("match x.shape[0]:\n        case 31: x = x + 1\n        case _: pass", {"`31`": FAILED}),
    "a pattern of alternatives": (
        "match x.shape[0]:\n        case 31 | 7: x = x + 1",
        {"`31 | 7`": HELD, "`31`": FAILED, "`7`": HELD},
    ),
    "the guard of a case": (
        "match x.shape[0]:\n        case n if n - 7: x = x + 1",
        {"`n - 7`": FAILED},
    ),
    "a word of which another may be a synonym": (
        "match 'cpu' if x.shape[0] else 'gpu':\n        case 'cpu' | 'host': x = x + 1",
        {"`x.shape[0]`": HELD, "`'cpu' | 'host'`": HELD},
    ),
    "the last of a condition": ("if MODE and x.shape[0] - 9: x = x + 1", {"`MODE and x.shape[0] - 9`": HELD}),
    "whether a tuple is empty": ("if (0,) * x.shape[0]: x = x + 1", {"`(0,) * x.shape[0]`": HELD}),
    "one of several": (
        "flag = x.shape[0] in (7, 31)",
        {
            "`x.shape[0] in (7, 31)`": HELD,
            "`x.shape[0] in (7, 31)` is met by 7": BOTH,
            "`x.shape[0] in (7, 31)` is met by 31": FAILED,
        },
    ),
    "what a test lays into a list": (
        "found = []\n    if (found.append(1) if x.shape[0] - 9 else found.append(2)) is not None: raise ValueError",
        {"`x.shape[0] - 9`": HELD},
    ),
    "what a test binds under a condition": (
        "if (x.shape[0] > 31 and (found := x)) is None: raise ValueError",
        {"`x.shape[0] > 31`": FAILED},
    ),
    "a function that a test changes something by": (
        "found = []\n    def laid(n): found.append(n)\n    assert (x.shape[0] > 31 and laid(1)) is not None",
        {"`x.shape[0] > 31`": FAILED},
    ),
    "tensors by another name": (
        "Tensor = complex\n    flag = isinstance((-1.0 * x.shape[0]) ** 0.5, Tensor)",
        {"`isinstance((-1.0 * x.shape[0]) ** 0.5, Tensor)`": HELD},
    ),
    "a class of tensors": (
        "if isinstance(x, torch.nn.Parameter): x = x + 1",
        {"`isinstance(x, torch.nn.Parameter)`": FAILED},
    ),
    "in what a condition binds": (
        "if (flag := x.shape[0] > 31): raise ValueError\n    n = [0, 1][flag]",
        {
            "`(flag := (x.shape[0] > 31))`": FAILED,
            "`x.shape[0] > 31`": FAILED,
            "`[0, 1][flag]` is 0": BOTH,
            "`[0, 1][flag]` is 1": FAILED,
        },
    ),
    "a number of the call among what a function gives": (
        "def go(x, n): return x, n\n    y, n = go(x, x.shape[0])\n    if n > 31: x = x + 1",
        {"`n > 31`": FAILED},
    ),
    "the least of a set": (
        "n = min({x.shape[0], 31})",
        {"`min({x.shape[0], 31})` is each of what it is the minimum of": FAILED},
    ),
    "the least that a generator gives": (
        "n = min(size for size in (x.shape[0], 31))",
        {
            "`(x.shape[0], 31)` is not empty": BOTH,
            "`min((size for size in (x.shape[0], 31)))` is item 0": BOTH,
            "`min((size for size in (x.shape[0], 31)))` is item 1": FAILED,
        },
    ),
    "the least by a key": (
        "n = min((x.shape[0], 31), key=lambda size: size)",
        {"`31` is the minimum": FAILED, "`x.shape[0]` is the minimum": BOTH},
    ),
    "the least of what is spread": (
        "sizes = x.shape[0], 31\n    n = min(*sizes)",
        {"`min(*sizes)` is item 0": BOTH, "`min(*sizes)` is item 1": FAILED},
    ),
    "the least by another function": (
        "import functools\n    n = functools.reduce(min, (x.shape[0], 31))",
        {
            "`functools.reduce(min, (x.shape[0], 31))`: the minimum is argument 1": BOTH,
            "`functools.reduce(min, (x.shape[0], 31))`: the minimum is argument 2": FAILED,
        },
    ),
    "the first of a sorted set": (
        "n = sorted({x.shape[0], 31})[0]",
        {"`sorted({x.shape[0], 31})` is each that it sorts": FAILED},
    ),
    "the least of many": (
        "n = min([x.shape[0]] + [31] * 64)",
        {"`min([x.shape[0]] + [31] * 64)` is each of what it is the minimum of": FAILED},
    ),
    "how many parts": ("n = x.split(31)[0].shape[0]", {"`x.split(31)` is more than one part": FAILED}),
    "in a container": ("sizes = [x.shape[0]]\n    if sizes[0] > 31: x = x + 1", {"`sizes[0] > 31`": FAILED}),
    "put into a container later": (
        "sizes = {}\n    sizes['n'] = x.shape[0]\n    if sizes['n'] > 31: x = x + 1",
        {"`sizes['n'] > 31`": FAILED},
    ),
}
NONE = {
    "a function of the file's own in what only refuses": "def over(n): return n > 31 and n - 7\n"
    "    if x.dim() > 3 or not x.is_contiguous() or over(4): raise ValueError",
    "what only refuses": "if x.shape[0] > 31: raise ValueError",
    "a case that only refuses": "match x.shape[0]:\n        case 31: raise ValueError\n        case n if n > 31: raise ValueError",
    "a comparison of the file's own by a function": "import operator\n    flag = operator.eq(MODE, 'llama')",
    "a case before what only refuses": "match x.shape[0]:\n        case 7: x = x + 1\n        case _: raise ValueError",
    "a mode that a table renames": "mode = 'llama'\n    mode = {'llama': 1}[mode]\n    if mode == 1: x = x + 1",
    "an assertion": "assert x.shape[0] < 31",
    "an assertion over what it binds": "assert (n := x.shape[0]) < 31",
    "on what kind of device it lies": "x = x + 1 if x.device.type == 'cuda' or x.is_cuda else x",
    "on what it lies": "x = x + 1 if x.device.type == 'cuda' else x",
    "whether it is there": "y = x if x is not None else 0",
    "whether it is a tensor": "y = x.contiguous() if isinstance(x, torch.Tensor) else x",
    "a mode of the file's own": "if MODE == 'llama': x = x + 1",
    "a mode by a default": "def go(x, mode=0): return x if mode == 0 else x + 1\n    go(x)",
    "a mode that is passed": "def go(x, mode): return x if mode == 0 else x + 1\n    go(x, 0)",
    "a mode that takes its own name's place": "mode = MODE\n    mode = mode + ''\n    if mode == 'llama': x = x + 1",
    "modes in a tuple": "mode, n = MODE, 4\n    if mode == 'llama' and n > 3: x = x + 1",
    "a device that is passed": "def go(x, device): return x if device.type == 'cuda' else x + 1\n    go(x, x.device)",
    "a mode among what a function gives": "def go(x, n): return x, n\n    y, n = go(x, 4)\n    if n > 3: x = x + 1",
    "a mode by a name": "mode = MODE\n    if mode == 'llama': x = x + 1",
}


@pytest.mark.parametrize("name", ONE_SIDED)
def test_decision_that_depends_on_the_call_is_seen(name: str) -> None:
    body, wanted = ONE_SIDED[name]
    assert decided(body, torch.zeros(7)) == wanted


@pytest.mark.parametrize("name", NONE)
def test_what_the_file_fixes_or_refuses_is_no_decision(name: str) -> None:
    assert not {text for text, outcome in decided(NONE[name], torch.zeros(7)).items() if outcome != BOTH}


@pytest.mark.parametrize("asked", ["x.device.index", "x.get_device() > 0"])
@pytest.mark.parametrize("has_gpu", [False, True])
def test_on_which_gpu_it_lies_is_a_decision_where_cases_tell_of_two(
    asked: str, has_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    found = decided(f"x = x + 1 if {asked} else x", torch.zeros(7))
    assert found == ({} if has_gpu else {f"`{asked}`": FAILED})


def test_both_outcomes_add_up() -> None:
    assert decided("if x.shape[0] > 31: x = x + 1", torch.zeros(7), torch.zeros(32)) == {"`x.shape[0] > 31`": BOTH}


CONSTANT = {
    "the length of a range": ("n = range(31, x.shape[0])\n    m = len(n)", "`len(n)` is anything but 0"),
    "a power of a complex zero": (
        "n = complex(x.shape[0] + 1)\n    m = 0j ** n",
        "`0j ** n` is anything but 0j",
    ),
    "the imaginary part of a root": (
        "n = complex(x.shape[0]) ** 0.5\n    m = n.imag",
        "`n.imag` is anything but 0.0",
    ),
    "what a long list holds": (
        "n = list(range(9 * x.shape[0], 99 * x.shape[0]))\n    m = n.count(1)",
        "`n.count(1)` is anything but 0",
    ),
    "every so many": ("n = x[::31]", "`x[::31]` is anything but 1"),
    "windows": ("n = x.unfold(-1, 1, 31).shape[0]", "`x.unfold(-1, 1, 31)` is anything but 1"),
    "a count in steps": (
        "n = torch.arange(0, x.shape[0], 31)",
        "`torch.arange(0, x.shape[0], 31)` is anything but 1",
    ),
    "the rest of a tensor": (
        "n = x.tensor_split((31,))[1].shape[0]",
        "`x.tensor_split((31,))` is anything but 0",
    ),
    "a power of zero": ("n = 0 ** (x.shape[0] - 6)", "`0 ** (x.shape[0] - 6)` is anything but 0"),
    "a product of conditions": (
        "n = (x.shape[0] > 7) * (x.shape[0] < 8)",
        "`(x.shape[0] > 7) * (x.shape[0] < 8)` is anything but 0",
    ),
    "how many a set has": ("n = len({x.shape[0], 9})", "`len({x.shape[0], 9})` is anything but 2"),
    "how often it occurs": ("n = (9,).count(x.shape[0])", "`(9,).count(x.shape[0])` is anything but 0"),
    "where an iterator is cut": (
        "import itertools\n    n = list(itertools.islice(range(x.shape[0]), 31))",
        "`itertools.islice(range(x.shape[0]), 31)` is not cut at its stop",
    ),
    "a text": ("n = f'{x.shape[0]:.0e}'.count('9')", "`f'{x.shape[0]:.0e}'.count('9')` is anything but 0"),
    "in place": ("n = x.shape[0]\n    n >>= 4", "`n >> 4` is not zero"),
    "an entry by a position": ("n = (1, 1, 1, 2)[x.shape[0] - 7]", "`(1, 1, 1, 2)[x.shape[0] - 7]` is 2"),
    "an entry by a key": (
        "n = {7: 'a', 8: 'b', 9: 'c'}[x.shape[0]]",
        "`{7: 'a', 8: 'b', 9: 'c'}[x.shape[0]]` is 'c'",
    ),
    "one of two equal keys": (
        "n = {x.shape[0]: 0, 9: 1}[9]",
        "`{x.shape[0]: 0, 9: 1}` is one with equal keys",
    ),
    "a key that is written": (
        "n = {9: 1}\n    n[x.shape[0]] = 2\n    n = n[9]",
        "`n[x.shape[0]]` is anything but False",
    ),
    "a union of dictionaries": (
        "n = ({9: 1} | {x.shape[0]: 2})[9]",
        "`{9: 1} | {x.shape[0]: 2}` is anything but False",
    ),
    "a dictionary of pairs": (
        "n = dict([(9, 1), (x.shape[0], 2)])[9]",
        "`dict([(9, 1), (x.shape[0], 2)])` is anything but False",
    ),
    "a dictionary that is brought up to date": (
        "n = {9: 1}\n    n.update({x.shape[0]: 2})",
        "`n.update({x.shape[0]: 2})` is anything but False",
    ),
    "a spread dictionary": (
        "n = {9: 1, **{x.shape[0]: 2}}[9]",
        "`{9: 1, **{x.shape[0]: 2}}` is anything but False",
    ),
    "a comprehension whose last key wins": (
        "n = {key: at for at, key in enumerate((9, x.shape[0]))}[9]",
        "`{key: at for at, key in enumerate((9, x.shape[0]))}` is anything but False",
    ),
    "the name of a keyword": (
        "def pick(n9=1, **_):\n        return n9\n    n = pick(**{f'n{x.shape[0]}': 2})",
        "`{f'n{x.shape[0]}': 2}` is anything but ()",
    ),
    "a place of a list": (
        "n = [1] * 3\n    n[x.shape[0] - 7] = 2\n    n = n[2]",
        "`n[x.shape[0] - 7]` is written at 2",
    ),
    "a place of a long list": (
        "n = [1] * 100\n    n[x.shape[0]] = 2",
        "`n[x.shape[0]]` is anything but False",
    ),
    "a place of a tensor": (
        "n = torch.ones(100)\n    n[x.shape[0]] = 2",
        "`n[x.shape[0]]` is anything but False",
    ),
    "a part of a list": (
        "n = [1] * 10\n    n[x.shape[0]:] = [2]",
        "`n[x.shape[0]:]` is cut at its start 0",
    ),
    "a place that is made": (
        "n = [1, 1]\n    n.insert(x.shape[0], 2)",
        "`n.insert(x.shape[0], 2)` is inserted anywhere else",
    ),
    "a remainder that changes nothing": ("n = x.shape[0] % 9", "`x.shape[0] % 9` is anything but its first value"),
    "a mask that changes nothing": ("n = x.shape[0] & 15", "`x.shape[0] & 15` is anything but its first value"),
    "a slice that never cuts": (
        "n = len(range(x.shape[0])[:9])",
        "`range(x.shape[0])[:9]` is not cut at its stop 0",
    ),
    "a slice that always cuts": ("n = len(range(9)[:x.shape[0]])", "`range(9)[:x.shape[0]]` is cut at its stop 0"),
    "a slice of a tensor": ("n = x.view(-1)[:9].numel()", "`x.view(-1)[:9]` is not cut at its stop 0"),
    "a slice of a tensor behind dots": ("n = x[..., :9].numel()", "`x[..., :9]` is not cut at its stop 0"),
    "a slice of a buffer": (
        "n = x.new_empty(9)[:x.shape[0]].numel()",
        "`x.new_empty(9)[:x.shape[0]]` is cut at its stop 0",
    ),
    "what map compares": (
        "import operator\n    (flag,) = map(operator.gt, (x.shape[0],), (9,))",
        "`map(operator.gt, (x.shape[0],), (9,))` is anything but False",
    ),
    "what map compares of several": (
        "import operator\n    a, b = map(operator.gt, (x.shape[0], x.shape[0]), (9, 7))",
        "`map(operator.gt, (x.shape[0], x.shape[0]), (9, 7))` is anything but False",
    ),
    "what two sets share": ("flag = [*{x.shape[0]} & {9}]", "`{x.shape[0]} & {9}` is anything but frozenset()"),
    "what is popped of a table": (
        "flag, _ = {9: (1, x)}.pop(x.shape[0], (0, x))",
        "`{9: (1, x)}.pop(x.shape[0], (0, x))` is found",
    ),
    "a list by a function": (
        "flags = list({x.shape[0], 9} - {x.shape[0]})",
        "`{x.shape[0], 9} - {x.shape[0]}` is anything but frozenset({9})",
    ),
    "the shorter of two by zip": (
        "n = sum(1 for _ in zip(range(x.shape[0]), range(9)))",
        "`zip(range(x.shape[0]), range(9))` is ended by item 1",
    ),
    "a number read from text": (
        "n = int(f'{str(x.shape[0]):.1}')",
        "`int(f'{str(x.shape[0]):.1}')` is made of anything but text",
    ),
    "an empty comprehension": (
        "found = [0.5 for _ in range(9, x.shape[0], 1 << 40)] + [1.0]",
        "`range(9, x.shape[0], 1 << 40)` is not empty",
    ),
    "the shorter of two by map": (
        "import operator\n    n = len(list(map(operator.add, range(x.shape[0]), range(9))))",
        "`map(operator.add, range(x.shape[0]), range(9))` is ended by item 1",
    ),
    "the shorter side of a view": (
        "n = x.view(1, -1).expand(9, -1).diagonal().numel()",
        "`x.view(1, -1).expand(9, -1).diagonal()` is ended by dimension 1",
    ),
    "an absolute value": ("n = abs(x.shape[0] - 9)", "`abs(x.shape[0] - 9)` is of a number that is not negative"),
    "a sign": (
        "import math\n    n = math.copysign(x.shape[0], x.shape[0] - 6)",
        "`math.copysign(x.shape[0], x.shape[0] - 6)` is of a negative number",
    ),
    "a remainder by a function": (
        "n = pow(x.shape[0], 1, 9)",
        "`pow(x.shape[0], 1, 9)` is anything but its first value",
    ),
    "a number read from a text as a complex one": (
        "n = complex(str(x.shape[0])).real",
        "`complex(str(x.shape[0]))` is made of anything but text",
    ),
    "an entry of a shape": (
        "SIZES = torch.Size((1, 2, 3))\n    n = SIZES[x.shape[0] - 7]",
        "`SIZES[x.shape[0] - 7]` is 3",
    ),
    "the least of a list": ("n = min([x.shape[0], 9])", "`9` is the minimum"),
    "the first in order": ("n = sorted([x.shape[0], 9])[0]", "`sorted([x.shape[0], 9])` is in another order"),
    "a quotient": ("n = divmod(x.shape[0], 9)[0]", "`divmod(x.shape[0], 9)` is more than a remainder"),
}
CHANGES = {
    "halves of a tensor": "n, m = x[: 2 * (x.shape[0] // 2)].chunk(2)",
    "every second": "n = x[1::2]",
    "parts of named sizes": "n, m = x.split((3, x.shape[0] - 3))",
    "as many numbers": "n = torch.arange(x.shape[0])",
    "the slice of all": "n = slice(None)\n    m = x[n]",
    "the half of a row": "y = x[: x.shape[0] // 2]",
    "a whole row": "y = x[: x.shape[0]]",
    "the first of a row": "y = x[:4]",
    "two in step": "pairs = [a + b for a, b in zip(x.shape, x.stride())]",
    "sizes by map": "n, m = map(int, (x.shape[0], 4))",
    "sizes but the last": "rest = tuple(size for size in (x.shape[0], 4)[1:])",
    "sizes in a list": "sizes = list((x.shape[0], 4))",
    "a size": "n = x.shape[0] * 2",
    "how many dimensions": "n = len(x.shape) - 1",
    "nothing times a size": "n = 0\n    n = n * x.shape[0]",
    "an item at a fixed place": "n = (x.shape[0], 8)[1]",
    "an entry by a dtype": "n = {torch.float32: 1, torch.float64: 2}[x.dtype]",
    "every entry": "n = (1, 2)[x.shape[0] - 7]",
    "a size by a place": "n = x.shape[x.dim() - 1]",
}


# Ways by which a number of the call would count as one of the file's own: each ends in a decision that is never true.
HIDDEN = {
    "a method kept in a name": "size = x.size\n    if size(0) > 31: x = x + 1",
    "a flag under a condition": "flag = 0\n    if n > 7: flag = 1\n    if flag > 1: x = x + 1",
    "a flag that a condition clears": "flag = 1\n    if n > 7: flag = 0\n    if flag > 1: x = x + 1",
    "a counter in a loop": "met = 0\n    for _ in range(n): met = met + 1\n    if met > 31: x = x + 1",
    "a counter in place": "met = 0\n    while met < n: met += 1\n    if met > 31: x = x + 1",
    "how far a loop goes": "met = 0\n    for i in range(64):\n        if i == n: break\n        met = i\n"
    "    if met > 31: x = x + 1",
    "what a loop goes round": "met = 0\n    for i in (7, 8, 31):\n        if i != n: continue\n        met = i\n"
    "    if met > 8: x = x + 1",
    "the end of a loop": "flag = 0\n    for i in (7, 8):\n        if i == n: break\n    else:\n"
    "        flag = 1\n    if flag: x = x + 1",
    "an error": "flag = 0\n    try: flag = (1, 2)[n - 7]\n    except IndexError: flag = 3\n    if flag > 2: x = x + 1",
    "an early return": "def over(n):\n        if n > 7: return 1\n        return 0\n    if over(n) > 1: x = x + 1",
    "an assignment expression": "flag = 0\n    (n > 7 and (flag := 1))\n    if flag > 1: x = x + 1",
    "a condition of a comprehension": "if len([1 for i in (6, 7) if i < n]) > 2: x = x + 1",
    "an item of a list": "sizes = [n]\n    m = sizes[0]\n    if m > 31: x = x + 1",
    "an item of a slice": "if slice(n).stop > 31: x = x + 1",
    "an item of a tuple": "m, _ = (n, 1)\n    if m > 31: x = x + 1",
    "a default of an inner function": "def go(m=n): return m > 31\n    if go(): x = x + 1",
    "a class of an inner scope": "class C: m = n\n    if C.m > 31: x = x + 1",
    "a closure": "def go():\n        return n\n    if go() > 31: x = x + 1",
    "a nonlocal": "met = 0\n    def go():\n        nonlocal met\n        met = n\n    go()\n    if met > 31: x = x + 1",
    "a list by two names": "def over(n): return n > 31\n    a = b = []\n    b.append(n)\n    if over(*a): x = x + 1",
    "a list that is made twice": "def over(n): return n > 31\n    a, b = [[]] * 2\n    b.append(n)\n    if over(*a): x = x + 1",
    "keywords as a notebook": "def over(**rest):\n        rest['n'] = n\n        return rest['n'] > 31\n    if over(): x = x + 1",
    "a default of a function's": "def box(): return []\n    def over(own=box()):\n        own.append(n)\n"
    "        return own[0] > 31\n    if over(): x = x + 1",
    "a partial": "import functools\n    go = functools.partial(lambda m: m > 31, n)\n    if go(): x = x + 1",
    "a list's length": "met = []\n    for _ in range(n): met.append(1)\n    if len(met) > 31: x = x + 1",
    "None by a condition": "y = next(iter((x,) * (n - 6)), None)\n    if y is None: x = x + 1",
    "None under conditions": "y = x\n    if n > 31: y = None\n    if y is None: x = x + 1",
    "a long table": "n = (0,) * 65\n    n = n[x.shape[0]]",
    "a table of enums": "from enum import Enum\n    class Mode(Enum):\n        a = 7\n        b = 31\n"
    "    t = {Mode.a: 0, Mode.b: 1}\n    m = [Mode.a, Mode.b][n > 31]\n    k = t[m]",
    "a list in order": "items = [n, 31]\n    items.sort()",
    "a list sorted": "items = [n, 31]\n    n = sorted(items)",
    "the least of a list": "items = [n, 31]\n    n = min(items)",
    "where a context manager ends": "from contextlib import contextmanager\n    @contextmanager\n    def under():\n"
    "        yield\n        end()\n"
    "    def end(): return 1, 2\n    def go(x):\n"
    "        with under(): return x, x.shape[0]\n    _, m = go(x)\n    if m > 31: x = x + 1",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_hangs_on_the_call_cannot_be_made_the_files_own(name: str) -> None:
    found = decided(f"n = x.shape[0]\n    {HIDDEN[name]}", torch.zeros(7), torch.zeros(8))
    assert FAILED in found.values()


@pytest.mark.parametrize("name", CONSTANT)
def test_what_never_changes_though_it_is_computed_of_what_does_is_seen(name: str) -> None:
    body, wanted = CONSTANT[name]
    found = decided(body, torch.zeros(7), torch.zeros(8))
    assert [text for text, outcome in found.items() if outcome == FAILED] == [wanted]


@pytest.mark.parametrize("name", ["every so many", "windows", "a count in steps", "the rest of a tensor"])
def test_that_nothing_is_cut_of_nothing_hides_no_size(name: str) -> None:
    body, wanted = CONSTANT[name]
    tensors = [torch.zeros(size) for size in (7, 8)]
    if name != "windows":  # which are not asked of nothing
        tensors.append(torch.zeros(0))
    assert [text for text, outcome in decided(body, *tensors).items() if outcome == FAILED] == [wanted]


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_or_need_not_is_no_decision(name: str) -> None:
    found = decided(CHANGES[name], torch.zeros(7), torch.zeros(8))
    assert not {text for text, outcome in found.items() if outcome != BOTH}


def test_context_of_autograd_carries_what_is_fixed() -> None:
    source = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mode):
        ctx.mode = mode
        ctx.n = 0
        ctx.n = x.shape[0]
        return x * 2

    @staticmethod
    def backward(ctx, dy):
        if ctx.mode == 0 and ctx.n > 31:
            return dy, None
        return dy * 2, None


def candidate(x):
    return Scale.apply(x, 0)
"""
    assert decided(source, torch.zeros(7, requires_grad=True)) == {"`ctx.n > 31`": FAILED}


KERNEL = """
def kernel(x_ptr, n_rows, n_cols, BLOCK):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        fixed, own, mixed = cols < n_cols, rows < n_rows, where(cols, n_cols) < BLOCK
    x = tl.load(x_ptr + cols)
    read = x < n_cols
"""


def test_what_hangs_in_a_kernel_on_fixed_numbers_alone_is_no_decision() -> None:
    tree = ast.parse(KERNEL).body[0]
    assert isinstance(tree, ast.FunctionDef)
    names = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in ("tl", "where", "range")
    }
    text = KernelText("candidate.py", "kernel", {}, frozenset(names | {"x_ptr", "n_rows"}), {}, tree)
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    fixed = {ast.unparse(n) for n in compared if text.is_fixed(n, frozenset({"n_cols", "BLOCK"}), constant=False)}
    assert fixed == {"cols < n_cols"}
    assert not any(text.is_fixed(node, frozenset({"BLOCK"}), constant=False) for node in compared)


def test_decisions_beyond_what_is_kept_prove_nothing_and_none_is_left_out() -> None:
    decisions = Decisions({("a.py", line, 0, False, "x"): BOTH for line in range(MOST_DECISIONS)})
    assert len(decisions.rows()) == MOST_DECISIONS
    decisions.aside["a.py", 0, 0, True, "y"] = FAILED
    with pytest.raises(Violation, match="more than 2,048 places"):
        decisions.rows()


BEYOND = {
    "a sum": ("1.0 + x.shape[0] / 1e9", ["`1.0 + x.shape[0] / 1000000000.0`", "`x.shape[0] / 1000000000.0`"]),
    "a function": ("math.sin(x.shape[0] / 7)", ["`math.sin(x.shape[0] / 7)`"]),
    "a product that comes to count": ("1e-9 * x.shape[0]", ["`1e-09 * x.shape[0]`"]),
    "the reciprocal of a size": ("1.0 / x.shape[0]", []),
    "a root of a size": ("math.sqrt(x.shape[0])", []),
    "a share": ("x.shape[0] / x.numel()", []),
    "a number that a case had": ("1.0 + x.shape[0] % 7", []),
}


@pytest.mark.parametrize("name", BEYOND)
def test_number_is_new_at_another_size_where_it_is_no_product_of_sizes(name: str) -> None:
    expression, wanted = BEYOND[name]
    tree = ast.parse(f"import math\nimport torch\n\n\ndef candidate(x):\n    return {expression}\n")
    seen, later = Decisions(), Decisions()
    evaluator, candidate = load({"candidate.py": tree}, [""], ["candidate.py"], "candidate", "candidate", None, seen)
    for size in (7, 8, 100):
        candidate(torch.zeros(size))
    evaluator.decisions = later
    candidate(torch.zeros(4096))
    assert sorted(text for _, _, text, *_ in seen.beyond(later.ranges())) == sorted(wanted)


def test_a_cached_function_takes_numbers_of_one_type_on_all_devices() -> None:
    text = "import functools\n\n\n@functools.cache\ndef kept(n):\n    return 0\n\n\ndef run(n):\n    return kept(n)\n"
    sources, decisions = {"candidate.py": ast.parse(text)}, Decisions()
    # A program that was loaded for another device has a cache of its own; that of a user has both numbers.
    one, other = (load(sources, [""], list(sources), "candidate", "run", None, decisions)[1] for _ in range(2))
    assert one(2) == other(3) == 0
    with pytest.raises(Violation, match="numbers of two types"):
        other(2.0)
