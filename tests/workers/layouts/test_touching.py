from tests.workers.layouts.designs import reglu, rms_scale
from tests.workers.layouts.standing import LIGER, PLAIN, liger, plain, with_file
from workers.tree import Tree

OPS = "src/liger_kernel/ops"
MODULES = "src/liger_kernel/transformers"
DEEP = "from liger_kernel.deep import depth\n\n\ndef shallow():\n    return depth\n"


def _touched(base: Tree, *paths: str, text: str = "# changed\n") -> dict[str, tuple[str, ...]]:
    head = base
    for path in paths:
        head = with_file(head, path, (base.read(path) or "") + text)
    return LIGER.touched(base, head)


def test_a_kernel_is_touched_by_its_own_file_and_by_its_wrapper() -> None:
    assert _touched(liger(), f"{OPS}/reglu.py") == {"reglu": (f"{OPS}/reglu.py",)}
    assert _touched(liger(), f"{MODULES}/reglu.py") == {"reglu": (f"{MODULES}/reglu.py",)}


def test_a_helper_touches_every_kernel_that_imports_it() -> None:
    assert _touched(liger(), f"{OPS}/utils.py") == {
        "reglu": (f"{OPS}/utils.py",),
        "rms_scale": (f"{OPS}/utils.py",),
    }


def test_tests_benchmarks_and_prose_touch_nothing() -> None:
    paths = ("test/transformers/test_reglu.py", "benchmark/scripts/benchmark_reglu.py", "README.md", "test/utils.py")
    assert _touched(liger(), *paths) == {}


def test_the_shortest_chain_comes_first() -> None:
    found = _touched(liger(), f"{OPS}/utils.py", f"{MODULES}/reglu.py", f"{OPS}/reglu.py")
    assert found["reglu"] == (f"{OPS}/reglu.py", f"{MODULES}/reglu.py", f"{OPS}/utils.py")


def test_imports_are_followed_in_every_form() -> None:
    forms = (
        "from liger_kernel.ops.deep import depth",
        "from liger_kernel.ops import deep",
        "import liger_kernel.ops.deep",
        "import liger_kernel.ops.deep as d",
        "from . import deep",
        "from .deep import depth",
        "from ..ops.deep import depth",
        "from .deep import *",
        "def late():\n    from .deep import depth",
    )
    for form in forms:
        base = with_file(liger(), f"{OPS}/deep.py", "depth = 1\n")
        base = with_file(base, f"{OPS}/softmax.py", f"{form}\n" + (base.read(f"{OPS}/softmax.py") or ""))
        assert _touched(base, f"{OPS}/deep.py") == {"softmax": (f"{OPS}/deep.py",)}, form


def test_imports_for_type_checkers_alone_are_not_followed() -> None:
    form = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from .deep import depth\n"
    base = with_file(liger(), f"{OPS}/deep.py", "depth = 1\n")
    base = with_file(base, f"{OPS}/softmax.py", form + (base.read(f"{OPS}/softmax.py") or ""))
    assert _touched(base, f"{OPS}/deep.py") == {}


def test_a_wrapper_reaches_through_the_package_only_what_it_names() -> None:
    # transformers/reglu.py imports LigerReGLUFunction from the package, which imports every kernel.
    assert set(_touched(liger(), f"{OPS}/rms_scale.py")) == {"rms_scale"}


def test_one_more_export_touches_nobody_else() -> None:
    line = "from liger_kernel.ops.utils import calculate_settings  # noqa: F401\n"
    assert _touched(liger(), f"{OPS}/__init__.py", text=line) == {}


def test_a_package_that_does_something_else_touches_who_goes_through_it() -> None:
    found = _touched(liger(), f"{OPS}/__init__.py", text="print('loaded')\n")
    assert found["reglu"] == (f"{OPS}/__init__.py",)


def test_an_export_that_comes_from_elsewhere_touches_who_uses_it() -> None:
    base = liger()
    text = (base.read(f"{OPS}/__init__.py") or "").replace(
        "ops.reglu import LigerReGLUF", "ops.other import LigerReGLUF"
    )
    found = LIGER.touched(base, with_file(base, f"{OPS}/__init__.py", text))
    assert found == {"reglu": (f"{OPS}/__init__.py",)}


def test_of_a_gathering_module_only_what_is_named_is_followed() -> None:
    gathering = "from liger_kernel.ops.geglu import geglu_forward\n" + DEEP
    base = with_file(liger(), f"{OPS}/gathering.py", gathering)
    base = with_file(base, "src/liger_kernel/deep.py", "depth = 1\n")
    text = "from liger_kernel.ops.gathering import shallow\n" + (base.read(f"{OPS}/softmax.py") or "")
    base = with_file(base, f"{OPS}/softmax.py", text)
    assert set(_touched(base, f"{OPS}/geglu.py")) == {"geglu"}
    assert _touched(base, "src/liger_kernel/deep.py") == {"softmax": ("src/liger_kernel/deep.py",)}
    assert set(_touched(base, f"{OPS}/gathering.py")) == {"softmax"}


def test_a_circle_of_imports_ends() -> None:
    base = with_file(liger(), f"{OPS}/one.py", "from liger_kernel.ops.two import b\n\na = b\n")
    base = with_file(base, f"{OPS}/two.py", "from liger_kernel.ops.one import a\n\nb = a\n")
    text = "from liger_kernel.ops.one import a\n" + (base.read(f"{OPS}/softmax.py") or "")
    base = with_file(base, f"{OPS}/softmax.py", text)
    assert _touched(base, f"{OPS}/two.py") == {"softmax": (f"{OPS}/two.py",)}


def test_new_and_deleted_kernels_and_helpers_are_named() -> None:
    base, path = liger(), f"{OPS}/reglu.py"
    assert set(LIGER.touched(base, with_file(base, path, None))) == {"reglu"}
    assert set(LIGER.touched(with_file(base, path, None), base)) == {"reglu"}
    assert "rms_scale" in LIGER.touched(base, with_file(base, f"{OPS}/utils.py", None))


def test_a_file_that_does_not_parse_is_a_change_all_the_same() -> None:
    assert set(_touched(liger(), f"{OPS}/utils.py", text="def broken(:\n")) == {"reglu", "rms_scale"}


def test_kernels_of_a_small_library_are_followed_too() -> None:
    base = with_file(plain(reglu(), rms_scale()), "launching.py", "settings = 1\n")
    head = with_file(base, "kernels/reglu.py", (base.read("kernels/reglu.py") or "") + "# changed\n")
    assert PLAIN.touched(base, head) == {"reglu": ("kernels/reglu.py",)}
    base = with_file(base, "kernels/reglu.py", "import launching\n" + (base.read("kernels/reglu.py") or ""))
    assert PLAIN.touched(base, with_file(base, "launching.py", "settings = 2\n")) == {"reglu": ("launching.py",)}


def test_sources_that_are_nested_without_end_are_followed_all_the_same() -> None:
    chain = "if a == 0:\n    pass\n" + "".join(f"elif a == {n}:\n    pass\n" for n in range(1500))
    deep = f"a = 1\n{chain}else:\n    from liger_kernel.ops.deep import depth\nsum = {' + '.join('a' * 1500)}\n"
    base = with_file(liger(), f"{OPS}/deep.py", "depth = 1\n")
    base = with_file(base, f"{OPS}/softmax.py", deep + (base.read(f"{OPS}/softmax.py") or ""))
    assert set(_touched(base, f"{OPS}/softmax.py")) == {"softmax"}
    inits = with_file(base, f"{OPS}/__init__.py", (base.read(f"{OPS}/__init__.py") or "") + deep)
    assert set(_touched(inits, f"{OPS}/reglu.py")) == {"reglu"}
    assert isinstance(_touched(inits, f"{OPS}/__init__.py"), dict)
