"""A decision changes launch settings alone, or it may change a value: attacks on the rule that tells them apart."""

from __future__ import annotations

import ast

import pytest

from gpu_runner.verify.settings import HostCode

HEAD = """
import functools
import torch
import triton
import triton.language as tl

@triton.jit
def _kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for start in tl.range(0, n, BLOCK, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)

"""
DECISION = "n > 100"


def alone(text: str, decision: str = DECISION) -> bool:
    tree = ast.parse(HEAD + text)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and ast.unparse(node) == decision]
    return HostCode(tree).changes_settings_alone(found[0])


HONEST = {
    "a table of thresholds": """
def settings(n):
    warps = 4
    if n > 100:
        warps = 32
    elif n > 50:
        warps = 8
    return 1024, warps

def forward(x, y):
    BLOCK, num_warps = settings(x.numel())
    _kernel[(1,)](x, y, x.numel(), BLOCK=BLOCK, STAGES=2, num_warps=num_warps)
""",
    "what a helper returns on each side": """
def warps_of(n):
    \"\"\"Warps by width.\"\"\"
    if n > 100:
        return 4
    elif n > 50:
        return 8
    else:
        return 16

def plan(n):
    BLOCK = min(1024, triton.next_power_of_2(n))
    return BLOCK, warps_of(BLOCK)

def forward(x, y, n):
    BLOCK, num_warps = plan(n)
    _kernel[(1,)](x, y, n, BLOCK=BLOCK, STAGES=2, num_warps=num_warps)
""",
    "an expression": """
def forward(x, y, n):
    warps = max(4, min(16, 8 if n > 100 else 4))
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2, num_warps=warps)
""",
    "stages of a loop": """
def forward(x, y, n):
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=3 if n > 100 else 2)
""",
    "by way of another function's argument": """
def run(x, y, n, warps):
    _kernel[(1,)](x, y, n, 64, 2, num_warps=warps)

def forward(x, y, n):
    run(x, y, n, 8 if n > 100 else 4)
""",
    "kept for the backward": """
class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, n):
        ctx.warps = 8 if n > 100 else 4
        return y

    @staticmethod
    def backward(ctx, dy):
        _kernel[(1,)](dy, dy, dy.numel(), BLOCK=64, STAGES=2, num_warps=ctx.warps)
""",
    "by way of a table of settings": """
TUNED = {}

def tuned(size, **settings):
    if not TUNED:
        return settings
    for largest, found in TUNED.get("sm_90", ()):
        if size <= largest:
            return {**settings, **found}
    return settings

def forward(x, y, n):
    chosen = tuned(n, BLOCK=64, num_warps=8 if n > 100 else 4)
    BLOCK, warps = chosen["BLOCK"], chosen["num_warps"]
    _kernel[(1,)](x, y, n, BLOCK=BLOCK, STAGES=chosen["BLOCK"], num_warps=warps)
""",
    "refused": """
def forward(x, y, n):
    if n > 100:
        raise ValueError("too many")
""",
}

# Each gets a number that depends on the decision to where it may change a value.
ATTACKS = {
    "an argument": "def f(x, y, n):\n    k = 1 if n > 100 else n\n    _kernel[(1,)](x, y, k, BLOCK=64, STAGES=2)\n",
    "a block": "def f(x, y, n):\n    _kernel[(1,)](x, y, n, BLOCK=64 if n > 100 else 32, STAGES=2)\n",
    "a block by its place": "def f(x, y, n):\n    b = 64 if n > 100 else 32\n    _kernel[(1,)](x, y, n, b, 2)\n",
    "the grid": "def f(x, y, n):\n    _kernel[(1 if n > 100 else 2,)](x, y, n, BLOCK=64, STAGES=2)\n",
    "a lambda": """
def f(x, y, n):
    k = 1 if n > 100 else 2
    _kernel[lambda meta: (k,)](x, y, n, BLOCK=64, STAGES=2)
""",
    "a call within a lambda": """
def settings(n):
    return 8 if n > 100 else 4

def f(x, y, n):
    w = settings(n)
    _kernel[lambda meta: (settings(n),)](x, y, n, BLOCK=64, STAGES=2, num_warps=w)
""",
    "an attribute within a lambda": """
def f(ctx, x, y, n):
    ctx.k = 8 if n > 100 else 4
    _kernel[lambda meta: (ctx.k,)](x, y, n, BLOCK=64, STAGES=2)
""",
    "an early return": "def f(x, y, n):\n    if n > 100:\n        return x\n    return y\n",
    "a launch on one side": """
def f(x, y, n):
    if n > 100:
        _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2)
""",
    "a launch in an expression": """
def f(x, y, n):
    n > 100 and _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2)
""",
    "a setting that the kernel takes itself": """
@triton.jit
def _own(x_ptr, n, num_warps: tl.constexpr):
    tl.store(x_ptr, n + num_warps)

def f(x, n):
    _own[(1,)](x, n, num_warps=8 if n > 100 else 4)
""",
    "stages that are computed with": """
@triton.jit
def _own(x_ptr, n, STAGES: tl.constexpr):
    for at in tl.range(0, n, 1, num_stages=STAGES):
        tl.store(x_ptr + at, STAGES)

def f(x, n):
    _own[(1,)](x, n, STAGES=8 if n > 100 else 4)
""",
    "a heuristic": """
@triton.heuristics({"BLOCK": lambda args: args["num_warps"]})
@triton.jit
def _own(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, BLOCK)

def f(x, n):
    _own[(1,)](x, n, num_warps=8 if n > 100 else 4)
""",
    "another kernel of that name": """
def f(x, y, n, _kernel):
    _kernel[(1,)](x, y, n, num_warps=8 if n > 100 else 4)
""",
    "the kernel's name bound again": """
_kernel = functools.partial(_kernel)

def f(x, y, n):
    _kernel[(1,)](x, y, n, num_warps=8 if n > 100 else 4)
""",
    "what a helper returns on each side, as a block": """
def block_of(n):
    if n > 100:
        return 64
    return 32

def f(x, y, n):
    _kernel[(1,)](x, y, n, BLOCK=block_of(n), STAGES=2)
""",
    "a helper that returns before it has done something": """
def warps_of(n, x):
    if n > 100:
        return 4
    x.zero_()
    return 8

def f(x, y, n):
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2, num_warps=warps_of(n, x))
""",
    "a function that returns before it launches": """
def f(x, y, n):
    if n > 100:
        return y
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2)
    return y
""",
    "a helper whose result is handed on": """
def warps_of(n):
    if n > 100:
        return 4
    return 8

def f(x, y, n):
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2, num_warps=warps_of(n))
    return warps_of(n)
""",
    "another option": "def f(x, y, n):\n    _kernel[(1,)](x, y, n, enable_fp_fusion=n > 100)\n",
    "options in a dict": "def f(x, y, n):\n    d = {'n': n > 100}\n    _kernel[(1,)](x, y, **d)\n",
    "a list": """
def f(x, y, n):
    found = []
    found.append(8 if n > 100 else 4)
    _kernel[(1,)](x, y, found[0], BLOCK=64, STAGES=2)
""",
    "an item of a table": """
def f(x, y, n):
    d = {}
    d["k"] = n > 100
    _kernel[(1,)](x, y, d["k"], BLOCK=64, STAGES=2)
""",
    "another item of a table of settings": """
def tuned(size, **settings):
    return {**settings, "size": size}

def f(x, y, n):
    chosen = tuned(n, k=n > 100, num_warps=4)
    _kernel[(1,)](x, y, chosen["k"], BLOCK=64, STAGES=2, num_warps=chosen["num_warps"])
""",
    "a parameter by place that is named as an item": """
def tuned(num_warps, /, **settings):
    return settings["num_warps"]

def f(x, y, n):
    _kernel[(1,)](x, y, tuned(1, num_warps=n > 100), BLOCK=64, STAGES=2)
""",
    "all items of a table": """
def tuned(**settings):
    return settings

def f(x, y, n):
    chosen = tuned(num_warps=8 if n > 100 else 4)
    _kernel[(1,)](x, y, sum(chosen.values()), BLOCK=64, STAGES=2)
""",
    "a table under another name": """
def f(x, y, n):
    chosen = {"num_warps": 8 if n > 100 else 4}
    other = chosen
    _kernel[(1,)](x, y, other["num_warps"], BLOCK=64, STAGES=2)
""",
    "a table by a key that is computed": """
def f(x, y, n, key):
    chosen = {"num_warps": 8 if n > 100 else 4}
    _kernel[(1,)](x, y, chosen[key], BLOCK=64, STAGES=2)
""",
    "a key of a table": """
def f(x, y, n):
    chosen = {("a" if n > 100 else "b"): 8, "b": 4}
    _kernel[(1,)](x, y, chosen["b"], BLOCK=64, STAGES=2)
""",
    "a table handed on": """
def run(x, y, n, chosen):
    _kernel[(1,)](x, y, chosen["num_warps"], BLOCK=64, STAGES=2)

def f(x, y, n):
    chosen = {"num_warps": 8 if n > 100 else 4}
    run(x, y, n, chosen)
""",
    "a table within a table": """
def f(x, y, n):
    chosen = {"inner": {"num_warps": 8 if n > 100 else 4}}
    _kernel[(1,)](x, y, chosen["inner"]["num_warps"], BLOCK=64, STAGES=2)
""",
    "a table for one name of several": """
def f(x, y, n):
    chosen, other = {"num_warps": 8 if n > 100 else 4}, 2
    _kernel[(1,)](x, y, chosen["num_warps"], BLOCK=64, STAGES=2)
""",
    "a table within a lambda": """
def f(x, y, n):
    chosen = {"num_warps": 8 if n > 100 else 4}
    _kernel[lambda meta: (chosen["num_warps"],)](x, y, n, BLOCK=64, STAGES=2)
""",
    "where something is put": """
def f(x, y, n):
    d = {}
    d[n > 100] = n
    _kernel[(1,)](x, y, d.get(0), BLOCK=64, STAGES=2)
""",
    "an element that is written": "def f(x, y, n):\n    w = 8 if n > 100 else 4\n    y[w] = 0\n",
    "an element that is changed": "def f(x, y, n):\n    w = 8 if n > 100 else 4\n    y[w] += 1\n",
    "an attribute": """
class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, n):
        ctx.k = 8 if n > 100 else 4

    @staticmethod
    def backward(ctx, dy):
        _kernel[(1,)](dy, dy, ctx.k, BLOCK=64, STAGES=2)
""",
    "an attribute by getattr": """
class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, n):
        ctx.k = 8 if n > 100 else 4

    @staticmethod
    def backward(ctx, dy):
        _kernel[(1,)](dy, dy, getattr(ctx, "k"), BLOCK=64, STAGES=2)
""",
    "a closure": """
def f(x, y, n):
    k = 8 if n > 100 else 4
    def inner():
        _kernel[(1,)](x, y, k, BLOCK=64, STAGES=2)
    inner()
""",
    "an item that is returned": """
def settings(n):
    return (8 if n > 100 else 4), 4

def f(x, y, n):
    BLOCK, num_warps = settings(n)
    _kernel[(1,)](x, y, n, BLOCK=BLOCK, STAGES=2, num_warps=num_warps)
""",
    "a function that others call": "def settings(n):\n    return 8 if n > 100 else 4\n",
    "a function that is handed on": """
def settings(n):
    return 8 if n > 100 else 4

def f(x, y, n):
    k = settings(n)
    _kernel[(1,)](x, y, next(map(settings, [n])), BLOCK=64, STAGES=2)
""",
    "two settings at once": """
def f(x, y, n):
    i = 0
    if n > 100:
        i += 1
    _kernel[(1,)](x, y, [n, n, 0][i], BLOCK=64, STAGES=2)
""",
    "a second decision": """
def f(x, y, n):
    warps = 8 if n > 100 else 4
    if warps == 8:
        x = y
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2, num_warps=warps)
""",
    "a loop": """
def f(x, y, n):
    for _ in range(2 if n > 100 else 1):
        _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2)
""",
    "an error that is caught": """
def f(x, y, n):
    try:
        if n > 100:
            raise ValueError
    except ValueError:
        x = y
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2)
""",
    "torch": "def f(x, y, n):\n    y.mul_(2 if n > 100 else 1)\n",
    "a name bound in an expression": """
def f(x, y, n):
    w = 4 if (k := n > 100) else 8
    _kernel[(1,)](x, y, k, BLOCK=64, STAGES=2, num_warps=w)
""",
    "a name bound on one side": """
def f(x, y, n):
    w = 4 if n > 100 else (x := y).ndim
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2, num_warps=w)
""",
    "max by another meaning": """
def f(x, y, n, max):
    w = max(8 if n > 100 else 4, x)
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2, num_warps=w)
""",
    "a name of the module": """
def settings(n):
    global k
    k = 8 if n > 100 else 4

def f(x, y, n):
    _kernel[(1,)](x, y, k, BLOCK=64, STAGES=2)
""",
    "a default": """
def f(x, y, n):
    w = 8 if n > 100 else 4
    def g(k=w):
        return k
    _kernel[(1,)](x, y, g(), BLOCK=64, STAGES=2)
""",
    "a decorated helper": """
@functools.cache
def settings(n):
    return 8 if n > 100 else 4

def f(x, y, n):
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2, num_warps=settings(n))
""",
    "a match": """
def f(x, y, n):
    match n > 100:
        case True:
            x = y
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2)
""",
    "in the kernel": """
@triton.jit
def _own(x_ptr, n):
    if n > 100:
        tl.store(x_ptr, n)
""",
    "at import": "n = 3\nBIG = n > 100\n",
    "a loop's own name": """
def f(x, y, n):
    for x.flag in [n > 100]:
        pass
""",
    "the order of stores": """
def f(x, y, n):
    w = 4
    while n > 100:
        w = 8
        n = 0
    _kernel[(1,)](x, y, n, BLOCK=64, STAGES=2, num_warps=w)
""",
}


@pytest.mark.parametrize("name", sorted(HONEST))
def test_what_reaches_settings_of_launches_alone_changes_no_value(name: str) -> None:
    assert alone(HONEST[name])


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_what_may_reach_a_value_counts(name: str) -> None:
    assert not alone(ATTACKS[name])


@pytest.mark.parametrize("decision", ["table[n]", "table.update({n: 2})", "table.pop(n, None)", "{f'n{n}': 2}"])
def test_what_is_done_for_its_effect_alone_may_reach_a_value(decision: str) -> None:
    statement = {"table[n]": "table[n] = 2", "{f'n{n}': 2}": "table = dict(**{f'n{n}': 2})"}.get(decision, decision)
    body = (
        f"    table = {{9: 1}}\n    {statement}\n    _kernel[(1,)](x, y, table[9], BLOCK=64, STAGES=2, num_warps=4)\n"
    )
    assert not alone(f"\ndef forward(x, y, n):\n{body}", decision)
