"""The screen's allow-list: what kernels are made of passes, what reaches beyond is named with its line."""

from __future__ import annotations

import pytest
from gpu_runner.verify.objections import Objection

from gpu_runner.contracts import CandidateSource, SourceFile, Status
from gpu_runner.verify.screen import screen, tops_under

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"


def judged(body: str, own: frozenset[str] = frozenset()) -> Objection | None:
    return screen(CandidateSource((SourceFile("candidate.py", HEAD + body),)), own)


ACCEPTED = [
    "from triton.language.extra.libdevice import tanh\n",
    "import math\nN = math.ceil(2.5)\n",
    "try:\n    from triton.language.extra.libdevice import rsqrt\nexcept ModuleNotFoundError:\n    rsqrt = None\n",
    "def f(w, part):\n    return part.sum(dim=0).to(w.dtype)\n",
    "def f(x):\n    return torch.cuda.get_device_properties(x.device).multi_processor_count\n",
    "def f(x):\n    with torch.cuda.device(x.device):\n        return torch.empty_like(x)\n",
    "@triton.jit\ndef k(x, N: tl.constexpr):\n    v = tl.load(x + tl.arange(0, N))\n    tl.store(x, tl.sum(v.abs(), axis=0))\n",
    "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.block = 1\n        return x\n",
    "class K:\n    def __init__(self, x):\n        self.x = x\n    def mean(self):\n        return self.mean\n",
    "import functools\n\n@functools.cache\ndef f():\n    return torch.cuda.get_device_properties(0).multi_processor_count\n",
    "def f():\n    args = {}\n    args['num_warps'] = 4\n    args.update(num_stages=2)\n    return args\n",
]
REFUSED = [
    ("import os\n", Status.cheating, "reaches outside"),
    ("from threading import Thread\n", Status.cheating, "reaches outside"),
    ("import numpy\n", Status.refused, "unknown module"),
    ("import torch.nn.functional as F\ny = F.relu\n", Status.refused, "torch operator"),
    ("def f(x):\n    return torch.softmax(x, -1)\n", Status.refused, "torch operator"),
    ("def f(x):\n    return x.softmax(-1)\n", Status.refused, "unknown attribute"),
    ("def f(x):\n    return x.sum(dim=-1)\n", Status.refused, "torch operator"),
    ("def f(x):\n    return exec('1')\n", Status.cheating, "runs code from text"),
    ("def f(x):\n    return x.__class__.__mro__\n", Status.refused, "private name"),
    ("def f(x):\n    return getattr(x, 'so' + 'ftmax')(-1)\n", Status.refused, "reaches outside"),
    ("def f(x):\n    t = torch\n    return t\n", Status.refused, "module as a value"),
    ("torch.empty = None\n", Status.cheating, "patches a module"),
    ("def f(x, seen={}):\n    return x\n", Status.refused, "remembers between calls"),
    ("import functools\n\n@functools.cache\ndef f(x):\n    return x\n", Status.refused, "remembers between calls"),
    ("SEEN = []\ndef f(x):\n    SEEN.append(x)\n", Status.refused, "remembers between calls"),
    ("def f(x):\n    f.seen = x\n", Status.refused, "remembers between calls"),
    ("class K:\n    seen = {}\ndef f(x):\n    K.seen[0] = x\n", Status.refused, "remembers between calls"),
    ("class K:\n    def f(self, x):\n        self.seen = x\n", Status.refused, "remembers between calls"),
    ("f = lambda x, seen=dict(): seen\n", Status.refused, "remembers between calls"),
    ("class K:\n    def relu(self): ...\ndef f(x):\n    return x.relu()\n", Status.refused, "unknown attribute"),
    (
        "def g():\n    seen = {}\n    def f(x):\n        seen[0] = x\n    return f\n",
        Status.refused,
        "remembers between calls",
    ),
    (
        "import functools\n\n@functools.cache\ndef f():\n    return {}\n",
        Status.refused,
        "remembers between calls",
    ),
    (
        "def f(x):\n    try:\n        return k(x)\n    except Exception:\n        return x\n",
        Status.refused,
        "try around code",
    ),
    ("from triton.runtime.autotuner import Autotuner\n", Status.refused, "unknown module"),
    ("x = torch._C\n", Status.refused, "torch operator"),
    ("def f(:\n", Status.compile_error, "syntax"),
]


@pytest.mark.parametrize("body", ACCEPTED)
def test_what_kernels_are_made_of_is_accepted(body: str) -> None:
    assert judged(body) is None


@pytest.mark.parametrize(("body", "status", "rule"), REFUSED)
def test_what_reaches_beyond_is_named_with_its_line(body: str, status: Status, rule: str) -> None:
    objection = judged(body)
    assert objection is not None
    assert (objection.status, objection.rule) == (status, rule)
    assert objection.line is not None
    assert objection.line > HEAD.count("\n")


def test_the_library_around_a_candidate_may_be_imported_and_no_other() -> None:
    body = "from liger_kernel.ops.utils import calculate_settings, ensure_contiguous\n"
    assert judged(body, frozenset({"liger_kernel"})) is None
    objection = judged(body)
    assert objection is not None
    assert objection.rule == "unknown module"
    smuggled = judged("from liger_kernel.ops.utils import importlib\n", frozenset({"liger_kernel"}))
    assert smuggled is not None
    assert smuggled.rule == "reaches outside"


def test_only_the_screened_files_are_screened() -> None:
    files = (SourceFile("src/lib/ops/new.py", HEAD), SourceFile("src/lib/__init__.py", "import importlib\n"))
    assert screen(CandidateSource(files, screened=("src/lib/ops/new.py",))) is None
    assert screen(CandidateSource(files)) is not None


def test_top_level_modules_are_found_under_their_roots_in_a_snapshot() -> None:
    paths = ["repo-abc/src/lib/__init__.py", "repo-abc/setup.py", "repo-abc/src/os/__init__.py"]
    assert tops_under(paths, ("src",)) == {"lib"}
