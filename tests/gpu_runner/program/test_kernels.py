"""Kernels: Triton is given what the text says and nothing more, and it reads and writes the launch's own memory alone."""

from __future__ import annotations

import pytest
from triton.runtime import interpreter

from gpu_runner.contracts.verify import Status
from gpu_runner.program import memory
from gpu_runner.program.objects import Violation
from tests.gpu_runner.program.programs import evaluated

HEAD = "import torch, triton\nimport triton.language as tl\n"
RUN = """
def run(*args, **options):
    x = torch.arange(8, dtype=torch.float32)
    y = torch.zeros(8)
    kernel[(1,)](x, y, *args, **options)
    return y.tolist()
"""


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.guard_memory()


def launched(kernel: str, run: str = RUN) -> list[float]:
    return evaluated(HEAD + kernel + run)  # type: ignore[no-any-return]


def of_body(line: str, before: str = "", arguments: str = "x, y") -> str:
    lines = "".join(f"    {part}\n" for part in line.split("|||"))
    return f"{before}\n@triton.jit\ndef kernel({arguments}):\n    i = tl.arange(0, 8)\n{lines}"


COPY = "tl.store(y + i, tl.load(x + i))"


def test_strings_that_look_like_definitions_are_refused() -> None:
    inside = HEAD + of_body("'''\n    def kernel(x, y): pass\n    '''|||" + COPY)
    before = (
        HEAD
        + "def deco(f='''\n@triton.jit\ndef kernel(x, y): pass\n'''): return lambda k: k\n@deco('def kernel(x): pass')"
    )
    for text in (inside, before + of_body(COPY)):
        with pytest.raises(Violation) as caught:
            evaluated(text + RUN)
        assert caught.value.rule == "kernel text"


def test_two_kernels_of_one_definition_keep_their_own_defaults() -> None:
    text = """
def make(n):
    @triton.jit
    def kernel(x, y, N: tl.constexpr = n):
        i = tl.arange(0, 8)
        tl.store(y + i, tl.load(x + i) * N)
    return kernel
first, second = make(2), make(3)
def run():
    x, y, z = torch.ones(8), torch.zeros(8), torch.zeros(8)
    first[(1,)](x, y)
    second[(1,)](x, z)
    return y[0].item(), z[0].item()
"""
    assert evaluated(HEAD + text) == (2.0, 3.0)


def test_a_builtin_that_a_module_binds_is_the_modules_own_in_a_kernel() -> None:
    before = "@triton.jit\ndef max(a, b):\n    return a + b\n"
    assert launched(of_body("tl.store(y + i, max(tl.load(x + i), 1.0))", before)) == [float(i + 1) for i in range(8)]


def test_kernels_call_each_other_and_a_constant_is_looked_up_late() -> None:
    before = "@triton.jit\ndef twice(v):\n    return v * N\n"
    assert launched(of_body("tl.store(y + i, twice(tl.load(x + i)))", before) + "N = tl.constexpr(2)\n")[3] == 6.0


def test_autotune_and_heuristics() -> None:
    before = "@triton.autotune(configs=[triton.Config({'N': 2})], key=[])"
    assert launched(of_body("tl.store(y + i, tl.load(x + i) * N)", before, "x, y, N: tl.constexpr"))[3] == 6.0
    before = "@triton.heuristics({'N': lambda args: 3})"
    assert launched(of_body("tl.store(y + i, tl.load(x + i) * N)", before, "x, y, N: tl.constexpr"))[3] == 9.0


@pytest.mark.parametrize("annotation", ["tl.constexpr", "'tl.constexpr'", "C"])
def test_a_constexpr_is_one_by_any_of_its_names(annotation: str) -> None:
    text = of_body("tl.store(y + i, tl.load(x + i) * N)", "C = tl.constexpr\n", f"x, y, N: {annotation}")
    assert launched(text, RUN.replace("(x, y, ", "(x, y, 2, "))[3] == 6.0


HEADERS = """
BOX = [0]|||x, y|||BOX[0] = 1
BOX = [0]|||x, y|||z = BOX[0]
BOX = {}|||x, y|||z = BOX['a']
import math|||x, y|||math.pi = 3
import os|||x, y|||os.system('true')
import torch|||x, y|||torch.add(1, 2)
def host(): return 1|||x, y|||host()
host = lambda: 1|||x, y|||host()
push = [1].append|||x, y|||push(1)
import functools|||x, y|||functools.partial(print)
class A: n = 1|||x, y|||A.n
class A: n = 1|||x, y|||z = A
pass|||x, y|||type(x)
pass|||x, y|||object()
pass|||x, y|||x.handle
pass|||x, y|||x.__class__
pass|||x, y|||().__class__.__base__
pass|||x, y|||getattr(x, '__class__')
pass|||x, y|||getattr(x, 'handle')
pass|||x, y|||__import__('os')
pass|||x, y|||eval('1')
pass|||x, y|||globals()
pass|||x, y|||tl.core
pass|||x, y|||tl.math.core
pass|||x, y|||_interpreter.load
pass|||x, y|||np.zeros(1)
pass|||x, y|||lambda: 1
pass|||x, y|||(z := 1)
pass|||x, y|||import os
pass|||x, y|||global z
pass|||x, y|||x.dtype = 1
pass|||x, y|||def g(): pass
pass|||x, y|||try: pass;finally: pass
pass|||x, y|||with x: pass
pass|||x, y|||yield 1
pass|||x, y|||for n in range(2): break
pass|||x, y|||while x is None: continue
pass|||x, y|||f'{().__class__}'
pass|||x, y|||{'a': 1}
pass|||x, y, *z|||pass
pass|||x, y, *, z=1|||pass
pass|||x, /, y|||pass
abs = 0|||x, y, *, z=abs and ().__class__|||pass
pass|||x, y, z=[]|||pass
pass|||x, y, z=torch.float32|||pass
pass|||x, y: print(1)|||pass
pass|||x, y, z: '*fp16' = 1|||pass
pass|||x, y, z: 'print(1)' = 1|||pass
pass|||x, y|||z: print(1) = 1
"""


@pytest.mark.parametrize("line", HEADERS.strip().splitlines())
def test_a_kernel_that_reaches_the_host_is_refused(line: str) -> None:
    before, arguments, text = line.split("|||")
    with pytest.raises((Violation, NameError)):
        launched(of_body(text.replace(";", "\n    "), before, arguments))


LAUNCHES = """
kernel[(1,)](x, y, warmup=True)
kernel.run(x, y, grid=(1,), warmup=True)
kernel.fn[(1,)](x, y)
kernel(x, y)
kernel.cache
kernel.src
kernel.__globals__
kernel.fn = 1
str(kernel)
[kernel][0] is 1
kernel[(1,)]([x], y)
kernel[(1,)](x, run)
kernel[(1,)](x, {'a': y})
"""


@pytest.mark.parametrize("line", LAUNCHES.strip().splitlines())
def test_a_launch_that_is_none_is_refused(line: str) -> None:
    run = f"\ndef run():\n    x, y = torch.zeros(8), torch.zeros(8)\n    {line}\n"
    with pytest.raises((Violation, TypeError)):
        launched(of_body(COPY), run)


BEYOND = """
tl.store(y + i + 8, 1.0)
tl.store(y - 1, 1.0)
z = tl.load(x + 1000000)
z = tl.load(tl.full((1,), 64, tl.int64).to(tl.pointer_type(tl.float32)))
z = tl.load(tl.full((8,), 4096, tl.int64).to(tl.pointer_type(tl.float32), bitcast=True))
tl.store(tl.cast(x.to(tl.int64) + 4096, tl.pointer_type(tl.float32)), 1.0)
tl.atomic_add(y + 100, 1.0)
tl.atomic_cas(y.to(tl.pointer_type(tl.int32)) + 100, 0, 1)
tl.atomic_xchg(y - 100, 1.0)
tl.store(tl.make_block_ptr(y, (64,), (1,), (32,), (8,), (0,)), tl.zeros((8,), tl.float32))
z = tl.load(tl.make_block_ptr(x, (8,), (64,), (0,), (8,), (0,)))
z = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [8, 8]).load([8, 8])
tl.make_tensor_descriptor(y, [64, 64], [64, 1], [8, 8]).store([8, 8], tl.zeros((8, 8), tl.float32))
tl.store(y + i.to(tl.int64) * 1152921504606846976, 1.0)
"""


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("line", BEYOND.strip().splitlines())
def test_a_kernel_reaches_no_memory_that_it_was_not_given(line: str) -> None:
    with pytest.raises(BaseException) as caught:
        launched(of_body(line))
    assert isinstance(caught.value, Violation), caught.value
    assert caught.value.status is Status.out_of_bounds


ENDLESS = """
for k in range(10 ** 9): z = k + i
z = tl.zeros((1073741824,), tl.float32)
z = tl.arange(0, 1073741824)
z = tl.zeros((1048576,), tl.float32)[:, None] + tl.zeros((1048576,), tl.float32)[None, :]
for k in tl.static_range(10 ** 9): z = k
while True: z = i + 1
z = tl.zeros((1,), tl.float32)|||for k in tl.static_range(10 ** 9): z = z * 2
"""


@pytest.fixture
def two_thousand_operations(bounds: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most of a launch; counting begins to look at it where a copy of it says."""
    monkeypatch.setattr(memory, "MOST_OPERATIONS", 2000)
    monkeypatch.setattr(interpreter._interpreter, "most", 2000)


@pytest.mark.usefixtures("two_thousand_operations")
@pytest.mark.parametrize("line", ENDLESS.strip().splitlines())
def test_a_kernel_that_does_not_end_is_refused(line: str) -> None:
    with pytest.raises(BaseException) as caught:
        launched(of_body(line))
    assert isinstance(caught.value, Violation | ValueError) or "numel" in str(caught.value)


@pytest.mark.usefixtures("two_thousand_operations")
def test_a_grid_that_does_not_end_is_refused() -> None:
    with pytest.raises(Violation):
        launched(of_body(COPY), RUN.replace("(1,)", "(2147483647,)"))


def test_what_a_kernel_prints_shows_no_more_than_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert launched(of_body("tl.device_print('v', i)|||tl.static_print('n', x)|||" + COPY)) == list(range(8))


def test_a_kernel_has_a_name_that_fits_into_a_record() -> None:
    with pytest.raises(Violation):
        launched(of_body(COPY).replace("kernel", "k" * 1000), RUN.replace("kernel", "k" * 1000))


def test_a_loop_of_launches_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_runner.program.evaluator.state.MOST_LAUNCHES", 10)
    with pytest.raises(Violation):
        launched(of_body(COPY), RUN.replace("kernel[", "for _ in range(100): kernel["))
