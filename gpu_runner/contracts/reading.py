"""Reads Python: bytes to text to one syntax tree, under rules that leave a single meaning. Pure, with the standard library alone.

An editor, Python's parser and its import system may each read the same bytes in their own way: by a coding cookie, by NFKC, by
characters that are not drawn or are drawn like others. What ``read_source`` accepts has one reading, and is small enough for every
recursive walk over its tree (``ast.unparse``, ``compile``, ``copy.deepcopy``) under Python's default recursion limit.
"""

from __future__ import annotations

import ast
import re
import threading
import unicodedata
import warnings
from dataclasses import dataclass
from functools import lru_cache

# A text that is no Python, one with a null byte, one that is nested too deep for the interpreter, and one too deep for its parser.
UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


MAX_BYTES = 2**20
# Bounds the nodes before there are any: two for a token at most. A tree of 250,000 tokens takes about 200 MB in CPython 3.11.
MAX_TOKENS = 250_000
MAX_DEPTH = 100  # nodes within nodes; measured over Liger-Kernel 0.8.5, Triton 3.6 and PyTorch 2.11: at most 31
MAX_INTEGER = 10**4300  # sys.int_info.default_max_str_digits: a larger one has no decimal form

_TILES_IMPORTED = re.compile(r"^\s*(import cuda\.tile|from cuda\.tile\b|from cuda import)\b", re.MULTILINE)
_COOKIE = re.compile(
    r"[ \t]*#.*coding[:=](?![ \t]*utf-8(?![-\w.]))", re.ASCII | re.IGNORECASE
)  # PEP 263, any but utf-8
_TOKEN = re.compile(r"\w+|[^\w\s]")
_CONTROL = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)  # `\r` alone ends a line for Python, not for every editor
_WORD = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f])+")
_MISPLACED_MARK = re.compile(r"(?<![^\W\d_])(?<![\u0300-\u036f])[\u0300-\u036f]|(?<=[\u0300-\u036f]{2})[\u0300-\u036f]")

# Drawn as nothing, or a stand-in for what was lost, though their category is that of symbols.
_BLANK = frozenset("\u2800\ufffc\ufffd\U0001d159")
_NOT_TEXT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_STYLED = ("<super>", "<sub>", "<font>")
_SCRIPTS = (
    "GREEK ",
    "CYRILLIC ",
    "CJK UNIFIED IDEOGRAPH-",
    "HIRAGANA ",
    "KATAKANA ",
    "KATAKANA-HIRAGANA ",
    "HANGUL SYLLABLE ",
    "IDEOGRAPHIC ITERATION MARK",
    "MICRO SIGN",
)
# Greek and Cyrillic letters that most fonts draw like one of ASCII, and Greek ones that are like one at a glance.
# Source: confusables.txt of Unicode Technical Standard 39.
_SAME_SHAPE = frozenset(
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03f2\u03f3\u03f9\u037f"
    "\u0410\u0412\u0415\u0417\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408\u04ae\u04c0\u050c\u051a\u051c"
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0475\u04af\u04bb\u04cf\u0501\u051b\u051d"
)
_SIMILAR_SHAPE = frozenset("\u03b1\u03b3\u03b5\u03b7\u03b9\u03ba\u03bd\u03c1\u03c3\u03c4\u03c5\u03c7\u03c9")
_PROSE_LETTERS = 3  # letters of ASCII that make a word one of prose; with fewer it is a term of a formula

_WRITE_ASCII = "Write an escape such as \\u00e9, or the character's name."


class SourceError(ValueError):
    """A source without a single reading: the rule that it breaks, what is wrong, where, and the fix, all in ASCII."""

    def __init__(self, rule: str, message: str, line: int | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule  # "syntax", "too large", "too deep", "encoding" or "characters"
        self.message = message
        self.line = line
        self.fix = fix

    def __str__(self) -> str:
        """Return the message with its line."""
        return self.message if self.line is None else f"line {self.line}: {self.message}"


@dataclass(frozen=True)
class Source:
    """A Python file with one reading. ``data``, ``text`` and ``tree`` are the same program."""

    path: str
    data: bytes
    text: str
    tree: ast.Module


def read_source(source: bytes | str, path: str = "<source>") -> Source:
    """Read a Python file strictly; see docs/security.md for the rules.

    Raises:
        SourceError: it is no Python, too large, too deep, or can be read in more than one way.
    """
    data, text = _decoded(source)
    _check_size(text)
    _check_cookie(text)
    check_characters(text)
    tree = _tree(text)
    if not text.isascii():
        _check_code_is_ascii(text)
    return Source(path, data, text, tree)


_PARSING = threading.Lock()


def parse(text: str) -> ast.Module:
    """Parse a text in one thread at a time: CPython 3.11 counts the depth of all at once, and raises SystemError.

    Raises: as ``ast.parse``.
    """
    with _PARSING:
        return ast.parse(text)


def parse_bounded(text: str) -> ast.Module:
    """Parse a text of others, whatever its characters are, into a tree that is safe to walk.

    Raises:
        SourceError: it is no Python, too large or too deep.
    """
    _check_size(text)
    return _tree(text)


def walk(tree: ast.AST) -> list[ast.AST]:
    """The nodes of a tree in the order of ``ast.walk``, in two fifths of its time."""
    nodes = [tree]
    for node in nodes:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


def dotted(node: ast.expr) -> str | None:
    """An expression such as ``tl.math.exp`` as text; None where it begins with no name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def check_characters(text: str) -> None:
    """Require that every character of a text is visible and unambiguous.

    Raises:
        SourceError: a character is invisible, changes the order of others, or looks like another.
    """
    control = _CONTROL.search(text)
    if control is not None:
        raise _character_error(text, control.start(), "cannot be seen", "Remove it.")
    if text.isascii():
        return
    for character in dict.fromkeys(text):
        fault = None if character.isascii() else _fault_of(character)
        if fault is not None:
            raise _character_error(text, text.index(character), *fault)
    mark = _MISPLACED_MARK.search(text)
    if mark is not None:
        raise _character_error(
            text, mark.start(), "is a combining mark without a letter, or one too many", "Remove it."
        )
    normal = unicodedata.normalize("NFC", text)
    if normal != text:
        place = next((i for i, (a, b) in enumerate(zip(text, normal, strict=False)) if a != b), len(normal))
        raise _character_error(
            text, min(place, len(text) - 1), "is not in Unicode's normal form C", "Write it composed."
        )
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.isascii():
            _check_words(line, number)


def _decoded(source: bytes | str) -> tuple[bytes, str]:
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    try:
        return data, data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError("encoding", "The file is not UTF-8.", line, "Save the file as UTF-8.") from error


def _check_size(text: str) -> None:
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise SourceError("too large", "The file is larger than 1 MiB.", fix="Split the file.")
    if len(text) > MAX_TOKENS and sum(1 for _ in _TOKEN.finditer(text)) > MAX_TOKENS:
        raise SourceError("too large", f"The file has more than {MAX_TOKENS} tokens.", fix="Split the file.")


def _check_cookie(text: str) -> None:
    for number, line in enumerate(text.split("\n", 2)[:2], start=1):
        if _COOKIE.match(line):
            message = "A comment declares another encoding than utf-8."
            raise SourceError("encoding", message, number, "Remove the comment.")


def _tree(text: str) -> ast.Module:
    try:
        tree = _parsed(text)
    except UNPARSABLE as error:
        raise _syntax_error(error) from error
    _check_nodes(tree)
    return tree


def _check_code_is_ascii(text: str) -> None:
    """A question mark belongs to no token of Python, so that what still parses has it in strings and comments alone."""
    try:
        _parsed(re.sub(r"[^\x00-\x7f]", "?", text))
    except UNPARSABLE as error:
        message = "There is a character outside of ASCII in the code."
        fix = "Write names and operators in ASCII; other characters may stand in strings and comments."
        raise SourceError("characters", message, getattr(error, "lineno", None), fix) from error


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unknown escape is no fault, and the warning would print the line
        return parse(text)


def _syntax_error(error: BaseException) -> SourceError:
    if isinstance(error, RecursionError | MemoryError):
        return _too_deep(None)
    reason = str(getattr(error, "msg", None) or error or type(error).__name__)
    reason = reason.encode("ascii", "backslashreplace").decode()
    return SourceError("syntax", f"Syntax error: {reason}.", getattr(error, "lineno", None), "Correct the syntax.")


def _too_deep(line: int | None) -> SourceError:
    message = f"The code nests more than {MAX_DEPTH} levels deep; an `elif` is a level within the `if`."
    return SourceError("too deep", message, line, "Use a table, a loop or intermediate variables.")


def _check_nodes(tree: ast.Module) -> None:
    layer: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        for node in layer:
            if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= MAX_INTEGER:
                message = "An integer has more than 4300 digits."
                raise SourceError("too large", message, node.lineno, "Compute it.")
        layer = [child for node in layer for child in ast.iter_child_nodes(node)]
        if not layer:
            return
    raise _too_deep(next((line for node in layer if isinstance(line := getattr(node, "lineno", None), int)), None))


@lru_cache(maxsize=4096)
def _fault_of(character: str) -> tuple[str, str] | None:
    """What is wrong with a character in any place, and the fix."""
    category = unicodedata.category(character)
    if category in _NOT_TEXT or character in _BLANK:
        return "cannot be seen", "Remove it."
    if category[0] == "M" and not ("\u0300" <= character <= "\u036f" and unicodedata.combining(character)):
        return "changes how its neighbours are drawn", "Remove it."
    if unicodedata.bidirectional(character) in _RIGHT_TO_LEFT:
        return "is written from right to left, which reorders its neighbours", _WRITE_ASCII
    if category == "Nd" or (category == "Nl" and unicodedata.normalize("NFKC", character).isascii()):
        return "looks like digits or letters of ASCII", _WRITE_ASCII
    if category[0] == "L" and not _is_known_letter(character):
        return "is a letter that may be taken for another", _WRITE_ASCII
    return None


def _is_known_letter(character: str) -> bool:
    if unicodedata.decomposition(character).startswith(_STYLED):
        return True
    if _is_latin(character):
        is_compatible = unicodedata.decomposition(character).startswith("<compat>")
        return unicodedata.normalize("NFD", character)[0].isascii() or (character < "\u0180" and not is_compatible)
    return unicodedata.name(character, "").startswith(_SCRIPTS)


def _is_latin(character: str) -> bool:
    return character.isascii() or unicodedata.name(character, "").startswith("LATIN ")


def _check_words(line: str, number: int) -> None:
    """Words that mix scripts whose letters look alike, and words of look-alike letters in a line that is not in their script."""
    bases = unicodedata.normalize("NFD", line)
    line_scripts = {_script(c) for c in bases if c.isalpha() and c not in _SAME_SHAPE}
    for match in _WORD.finditer(line):
        word = match[0]
        if not word.isascii() and _is_confusable(unicodedata.normalize("NFD", word), line_scripts):
            shown = word[:40].encode("ascii", "backslashreplace").decode()
            message = f"The word {shown} has letters that look like those of ASCII and are none."
            raise SourceError("characters", message, number, "Write the word in one script.")


def _is_confusable(word: str, line_scripts: set[str]) -> bool:
    """Whether a decomposed word passes for one of other letters; ``line_scripts`` are those that its line is clearly in."""
    letters = [c for c in word if c.isalpha()]
    scripts = {_script(c) for c in letters}
    if {"latin", "font"} <= scripts or (scripts == {"font"} and len(letters) > 1):
        return True  # one symbol such as that of the real numbers is none
    if "cyrillic" in scripts and not scripts.isdisjoint({"latin", "greek"}):
        return True
    if "latin" in scripts:
        is_prose = sum(c.isascii() for c in letters) >= _PROSE_LETTERS
        return any(c in _SAME_SHAPE or (is_prose and c in _SIMILAR_SHAPE) for c in letters)
    return all(c in _SAME_SHAPE for c in letters) and not scripts <= line_scripts


def _script(letter: str) -> str:
    tag = unicodedata.decomposition(letter)
    if tag.startswith(_STYLED):
        return tag[1 : tag.index(">")]
    if _is_latin(letter):
        return "latin"
    return unicodedata.name(letter, "").split(" ")[0].lower()


def _character_error(text: str, place: int, what: str, fix: str) -> SourceError:
    character = text[place]
    name = unicodedata.name(character, "")
    named = f"U+{ord(character):04X}" + (f" {name}" if name else "")
    line = text.count("\n", 0, place) + 1
    return SourceError("characters", f"The character {named} {what}.", line, fix)


_THREADS_IMPORTED = re.compile(r"^\s*(import cutlass\b|from cutlass\b)", re.MULTILINE)


def of_threads(text: str) -> bool:
    """Whether a file imports CuTe DSL."""
    return _THREADS_IMPORTED.search(text) is not None


def of_tiles(text: str) -> bool:
    """Whether a file imports cuTile."""
    return _TILES_IMPORTED.search(text) is not None


TRITON, CUTILE, CUTEDSL = "Triton", "cuTile", "CuTe DSL"


def language_of(texts: list[str]) -> str:
    """The language of the kernels of some files, as reports say it."""
    if any(map(of_threads, texts)):
        return CUTEDSL
    return CUTILE if any(map(of_tiles, texts)) else TRITON
