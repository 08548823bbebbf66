"""The screen's allow-list: what kernels are made of passes, what reaches beyond is named with its line."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Status
from gpu_runner.contracts.reading import parse_bounded
from gpu_runner.program.imports import Library
from gpu_runner.verify.screen import Objection, screen

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"


def judged(body: str, **modules: str) -> Objection | None:
    trees = {f"{name.replace('__', '/')}.py": parse_bounded(text) for name, text in modules.items()}
    return screen(CandidateSource((SourceFile("candidate.py", HEAD + body),)), Library(trees, (".",)))


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
    ("def f(x):\n    return exec('1')\n", Status.cheating, "runs code from text"),
    ("def f(x):\n    return x.__class__.__mro__\n", Status.refused, "private name"),
    ("def f(x):\n    return getattr(x, 'so' + 'ftmax')(-1)\n", Status.refused, "reaches outside"),
    ("def f(x):\n    t = torch\n    return t\n", Status.refused, "module as a value"),
    ("torch.empty = None\n", Status.cheating, "patches a module"),
    ("def f(x, seen={}):\n    return x\n", Status.refused, "remembers between calls"),
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
    ("from triton.runtime.autotuner import Autotuner\n", Status.refused, "triton"),
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


LIBRARY = {
    "lib__ops": "import importlib\nfrom lib import settings as known\n\ndef calculate(n): ...\n",
    "lib__settings": "N = 1\n",
}


def test_the_library_around_a_candidate_may_be_imported_and_what_it_imports_may_not() -> None:
    assert judged("from lib.ops import calculate, known\nx = known.N\n", **LIBRARY) is None
    for body in (
        "from lib.ops import importlib\nx = importlib.import_module\n",
        "from lib import ops\nx = ops.importlib.import_module\n",
    ):
        found = judged(body, **LIBRARY)
        assert found is not None
        assert found.rule in ("unknown module", "module as a value")
    missing = judged("from lib.ops import nothing\n", **LIBRARY)
    assert missing is not None
    assert missing.message == "`lib.ops.nothing` is not defined there."
    stranger = judged("from other.ops import calculate\n", **LIBRARY)
    assert stranger is not None
    assert stranger.rule == "unknown module"


def test_only_the_screened_files_are_screened() -> None:
    files = (SourceFile("src/lib/ops/new.py", HEAD), SourceFile("src/lib/__init__.py", "import numpy\n"))
    nothing = Library({}, ("src",))
    assert screen(CandidateSource(files, screened=("src/lib/ops/new.py",)), nothing) is None
    assert screen(CandidateSource(files), nothing) is not None


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("x = '\ud800'\n", "encoding"),
        ("# the v\u0430lue\n", "characters"),
        ("\u3164 = 1\n", "characters"),
        ("if torch:\n    pass\n" + "elif torch:\n    pass\n" * 1500, "too deep"),
        ("x = 1;" * 150_000, "too large"),
    ],
)
def test_a_source_without_a_single_reading_is_refused(body: str, rule: str) -> None:
    found = judged(body)
    assert found is not None
    assert (found.status, found.rule) == (Status.refused, rule)


def test_a_cookie_of_another_encoding_is_refused() -> None:
    text = "# -*- coding: utf-7 -*-\n# +AAo-import os\n" + HEAD
    found = screen(CandidateSource((SourceFile("candidate.py", text),)), Library({}, (".",)))
    assert found is not None
    assert (found.status, found.rule, found.line) == (Status.refused, "encoding", 1)
