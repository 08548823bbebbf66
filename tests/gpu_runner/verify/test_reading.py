"""What a source may not hold, and that what is accepted has one reading."""

from __future__ import annotations

import ast
import codecs
import copy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_runner.contracts import reading
from gpu_runner.contracts.reading import MAX_BYTES, MAX_DEPTH, MAX_TOKENS, SourceError, parse_bounded, read_source

HIDDEN = 'x = 1\n# +AAo-import os+AAo-os.system("id")\n'

ENCODINGS = {
    "a utf-7 cookie that hides statements": b"# -*- coding: utf-7 -*-\n" + HIDDEN.encode(),
    "a cookie in line 2": b"#!/usr/bin/env python\n# coding: utf-7\n" + HIDDEN.encode(),
    "a cookie in vim's style": b"# vim: set fileencoding=utf-7 :\n" + HIDDEN.encode(),
    "a cookie behind utf-8's": b"# coding: utf-8 coding: utf-7\n" + HIDDEN.encode(),
    "a cookie after an indentation": b" \t# coding=cp037\nx = 1\n",
    "a codec of Python's own": b"# coding: unicode_escape\nx = 1 # \\nimport os\n",
    "latin-1 by its cookie": "# coding: latin-1\nx = 'é'\n".encode("latin-1"),
    "a variant of utf-8": b"# coding: utf-8-sig\nx = 1\n",
    "latin-1": "x = 'é'\n".encode("latin-1"),
    "utf-16": "x = 1\n".encode("utf-16"),
    "an overlong sequence": b"x = '\xc0\xaf'\n",
    "half of a surrogate pair in bytes": b"x = '\xed\xa0\x80'\n",
    "half of a surrogate pair in a text": "x = '\ud800'\n",
}
CHARACTERS = {
    "a byte order mark": codecs.BOM_UTF8 + b"x = 1\n",
    "a null": "x = 1\0\n",
    "a form feed": "x = 1\n\fy = 2\n",
    "a vertical tab in a comment": "# a\vb\n",
    "an escape sequence": "# \x1b[8m\n",
    "a delete": "x = '\x7f'\n",
    "a control character behind a letter of Greek": "# \u03c0\x08\n",
    "line ends by CR alone": "x = 1\ry = 2\r",
    "a CR within a comment": "# a note\rimport os\n",
    "U+0085": "x = 1 # a\u0085import os\n",
    "U+2028": "# a\u2028import os\n",
    "U+2029": '"""a\u2029b"""\n',
    "a no-break space in a docstring": '"""a\u00a0b"""\n',
    "an ideographic space": "# \u3000\n",
    "a soft hyphen": "# pass\u00adword\n",
    "a zero-width space": '"""a\u200bb"""\n',
    "a zero-width joiner": "x = 'a\u200db'\n",
    "a word joiner": "# a\u2060b\n",
    "a bidirectional override": "# \u202e } \u2066 if admin \u2069\n",
    "a left-to-right mark": "x = '\u200e'\n",
    "letters from right to left": "x = '\u05d0' # 1\n",
    "digits from right to left": "# \u0663\n",
    "a tag": "# \U000e0041\U000e0042\n",
    "a variation selector in a docstring": '"""a\ufe00"""\n',
    "a variation selector of an emoji": "# \u26a0\ufe0f\n",
    "a variation selector of the supplement": "# a\U000e0100\n",
    "a variation selector in an identifier": "a\ufe00 = 1\n",
    "a combining grapheme joiner": "# a\u034fb\n",
    "a mark without a letter": "# \u0301a\n",
    "a mark on a sign": "# =\u0338\n",
    "many marks on a letter": "# x\u0302\u0303\u0304\n",
    "an enclosing mark": "# a\u20dd\n",
    "what is not composed": "# e\u0301\n",
    "a Kelvin sign": "# 3 \u212a\n",
    "a Greek question mark": "# a\u037e b\n",
    "a Hangul filler as identifier": "\u3164 = 1\n",
    "a Hangul filler in a comment": "# \u3164\n",
    "a Hangul filler of half width": "# \uffa0\n",
    "a Hangul filler of a syllable": "# \u115f\u1160\n",
    "a blank pattern of Braille": "# \u2800\n",
    "a private character": "# \ue000\n",
    "an unassigned character": "# \U0003ffff\n",
    "a noncharacter": "# \ufdd0\n",
    "a replacement character": "# \ufffd\n",
    "a Cyrillic letter in an identifier": "p\u0430ss_ = 1\n",
    "a Cyrillic letter in a word of a docstring": '"""the p\u0430ssword"""\n',
    "a Greek letter in a word of a docstring": '"""the r\u03bfw"""\n',
    "a similar Greek letter in a word": "# the v\u03b1lue\n",
    "a word of Cyrillic look-alikes": "# \u0430\u0441\u0435 of it\n",
    "a word of Greek look-alikes": "# \u039d\u039f\u03a4 safe\n",
    "a Cyrillic letter in a Greek word": "# \u03c0\u0430\n",
    "an Armenian letter": "# \u0585r\n",
    "a Cherokee letter": "# \u13aa\n",
    "a ligature in a comment": "# \ufb01ne\n",
    "a ligature in an identifier": "\ufb01 = 1\n",
    "letters of full width": "\uff45val('1')\n",
    "a mathematical identifier": "\U0001d41e\U0001d431\U0001d41e\U0001d41c('1')\n",
    "a mathematical word": "# \U0001d41e\U0001d431\U0001d41e\U0001d41c\n",
    "a mathematical letter in a word": "# e\U0001d431ec\n",
    "phonetic letters": "# \u0261et\n",
    "a click that looks like an exclamation mark": "x = a \u01c3= b\n",
    "a Greek identifier": "\u03b1 = 1\n",
    "an accented identifier": "caf\u00e9 = 1\n",
    "a micro sign as identifier": "\u00b5 = 1\n",
    "a Greek name within an f-string": 'f"{\u03b1}"\n',
    "a Greek attribute": "x.\u03b1\n",
    "a Greek keyword argument": "f(\u03b1=1)\n",
}
SIZES = {
    "1,500 elif": "if a: pass\n" + "elif a: pass\n" * 1500,
    "one level too many": "x = " + "-" * MAX_DEPTH + "1\n",
    "100,000 parentheses": "(" * 100_000 + ")" * 100_000,
    "100,000 brackets, not closed": "[" * 100_000,
    "a long sum": "x = " + "a + " * 100_000 + "a",
    "a long chain of attributes": "a" + ".a" * 100_000,
    "a long chain of calls": "a" + "()" * 80_000,
    "a long chain of minus signs": "-" * 100_000 + "1",
    "a long chain of not": "not " * 100_000 + "1",
    "a long chain of conditions": "x = " + "a if b else " * 20_000 + "c",
    "a long chain of lambdas": "lambda: " * 20_000 + "1",
    "100 levels of indentation": "".join(" " * i + "if a:\n" for i in range(101)) + " " * 101 + "pass\n",
    "99 levels of indentation": "".join(" " * i + "if a:\n" for i in range(99)) + " " * 99 + "pass\n",
    "nested f-strings": 'f"{' * 2000 + "1" + '}"' * 2000,
    "an integer of 5,000 digits": "x = " + "9" * 5000,
    "a hexadecimal integer of 100,000 digits": "x = 0x" + "f" * 100_000,
    "a large file": "# " + "a" * MAX_BYTES,
    "a large file of wide characters": "# " + "\u03c0" * (MAX_BYTES // 2),
    "very many statements": "a;" * (MAX_TOKENS // 2 + 1),
    "a large tuple": "x = (" + "a," * (MAX_TOKENS // 2) + ")",
}
NO_PYTHON = {
    "prose": "this is some prose",
    "a superscript in code": "x = y\u00b2\n",
    "an open string": "'",
    "three backquotes": "```\nx = 1\n```\n",
}

HONEST = {
    "nothing": "",
    "no end of line": "x = 1",
    "tabs": "if a:\n\tb\n",
    "line ends of Windows": 'x = """a\r\nb"""\r\n',
    "a utf-8 cookie": "# -*- coding: utf-8 -*-\nx = 'é'\n",
    "a utf-8 cookie in capitals and line 2": "#!/usr/bin/python\n# coding: UTF-8\n",
    "a cookie in line 3": "\n\n# coding: utf-7\n",
    "formulas": '"""∂loss/∂logp = σ(τ·(ρ − 1)) × 4/τ → Σx², mθ_i, Δt, αx, ν, xᵢ, Wᵀ, ℝⁿ, ℓ₂, x̂, ε ≤ 3 µs."""\n',
    "typography": "# “Quoted” — naïve café … ‘so’ • ─ ✓ ½ ™ 90°\n",
    "names of people": "# Dvořák, Kılıç, Nguyễn, Gößmann, Łukasiewicz, Øystein\n",
    "Chinese and Japanese beside Latin": "# GPU上のkernelを最適化する。使用Triton内核\n",
    "Korean": "# 커널을 최적화\n",
    "Greek prose": "# Ο αλγόριθμος και η Α\n",
    "Russian prose": "# а с ядром: нос и рост\n",
    "emoji": "# 🚀 done ✅\n",
    "wide text in an f-string": "x = f'α={a:>3} {b!r}'\n",
    "escapes": "x = '\\u202e\\ud800 \\d'\n",
    "repetition": "x = 'a' * 10**10\n",
    "a deep expression": "x = " + "-" * (MAX_DEPTH - 4) + "1\n",
    "a long docstring": '"""' + "some words of prose\n" * 10_000 + '"""\n',
    "an integer of 4,300 digits": "x = " + "9" * 4300,
}


def refused(source: bytes | str) -> SourceError:
    with pytest.raises(SourceError) as raised:
        read_source(source, "candidate.py")
    assert raised.value.message.isascii()
    return raised.value


def as_imported(data: bytes) -> ast.Module:
    """The tree that Python makes of a file's bytes, as ``importlib``'s loaders have it compile them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = compile(data, "candidate.py", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    return tree


@pytest.mark.parametrize("source", ENCODINGS.values(), ids=ENCODINGS)
def test_what_is_not_plain_utf8_is_refused(source: bytes | str) -> None:
    error = refused(source)
    assert error.rule == "encoding"
    assert error.line is not None
    assert error.fix


@pytest.mark.parametrize("source", CHARACTERS.values(), ids=CHARACTERS)
def test_character_that_is_not_what_it_looks_like_is_refused(source: bytes | str) -> None:
    error = refused(source)
    assert error.rule == "characters"
    assert error.line is not None
    assert error.fix


@pytest.mark.parametrize("source", SIZES.values(), ids=SIZES)
def test_source_that_would_exhaust_the_judge_is_refused(source: str) -> None:
    assert refused(source).rule in {"too large", "too deep", "syntax"}


@pytest.mark.parametrize("source", NO_PYTHON.values(), ids=NO_PYTHON)
def test_what_is_no_python_is_refused_with_its_line(source: str) -> None:
    error = refused(source)
    assert (error.rule, error.line) == ("syntax", 1)


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_honest_source_is_read_as_python_imports_it(text: str) -> None:
    data = text.encode()
    source = read_source(data, "candidate.py")
    assert (source.data, source.text, source.path) == (data, text, "candidate.py")
    assert ast.dump(source.tree) == ast.dump(as_imported(data))


def test_deepest_tree_can_be_walked_by_recursion() -> None:
    for text in (HONEST["a deep expression"], "if a: pass\n" + "elif a: pass\n" * (MAX_DEPTH - 4)):
        tree = read_source(text).tree
        assert ast.dump(copy.deepcopy(tree)) == ast.dump(ast.parse(ast.unparse(tree)))
        compile(tree, "candidate.py", "exec")


def test_line_of_what_is_refused_is_named() -> None:
    assert refused("x = 1\n\n# \u200b\n").line == 3
    assert refused(b"x = 1\n# \xff\n").line == 2
    assert refused("x = 1\n\u03b1 = 2\n").line == 2
    assert refused("x = 1\n# the v\u0430lue\n").line == 2
    assert str(refused("x = (\n")).startswith("line 1: Syntax error: ")


def test_text_of_others_is_bounded_whatever_its_characters_are() -> None:
    assert isinstance(parse_bounded("\u03b1 = '\ufe0f'  # \u200b\n"), ast.Module)
    for source in SIZES.values():
        with pytest.raises(SourceError):
            parse_bounded(source)


def test_module_needs_the_standard_library_alone() -> None:
    root = Path(__file__).parents[3]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from gpu_runner.contracts.reading import read_source; "
    code += "print(read_source(b'x = 1').text, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "x = 1 False\n"


PIECES = ["\r\n", '"""', 'f"{x}"', "coding:", "utf-8", "utf-7", "if x:\n ", "x = 1\n", "# "]
WORDS = st.sampled_from(
    [*"abx_=+.()[]{}:;,#'\"\\ \t\n\r\f\0αοаéµﬁ中\u3164\ufe0f\u200b\u2028\ufeff\u0301\U0001d431", *PIECES]
)
SOURCES = st.lists(WORDS | st.characters(), max_size=12).map("".join)


@given(SOURCES.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=40))
@example(b"# coding: utf-7\n# +AAo-import os\n")
@example("\ufb01 = 1\n".encode())
def test_what_is_accepted_is_what_python_imports(data: bytes) -> None:
    try:
        source = read_source(data)
    except SourceError:
        return
    assert source.text.encode() == data
    assert ast.dump(source.tree, include_attributes=True) == ast.dump(as_imported(data), include_attributes=True)


@given(SOURCES)
def test_every_accepted_identifier_is_ascii(text: str) -> None:
    try:
        tree = read_source(text).tree
    except SourceError:
        return
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, str) and not (isinstance(node, ast.Constant) and name in {"value", "kind"}):
                assert value.isascii()


@given(st.text(st.characters(exclude_categories=[]), max_size=30))
def test_reading_ends_in_a_source_or_an_error_alone(text: str) -> None:
    for wrapped in (text, f'"""{text}"""', f"# {text}"):
        try:
            read_source(wrapped)
        except SourceError as error:
            assert error.message.isascii()


def test_a_walk_has_the_nodes_of_the_standard_librarys_in_its_order() -> None:
    tree = ast.parse(Path(reading.__file__).read_text(encoding="utf-8"))
    assert reading.walk(tree) == list(ast.walk(tree))
