import sys

import pytest

from workers import stylecheck
from workers.contracts import FailureCode, FileChange, UserFacingError
from workers.layouts.protocol import StyleCheck
from workers.layouts.ruff import ruff_check
from workers.stylecheck import check_style
from workers.tree import Tree

CONFIGURED = b"""\
[tool.ruff]
line-length = 60

[tool.ruff.lint]
select = ["E", "F", "I"]

[tool.ruff.lint.isort]
force-single-line = true
"""
CLEAN = "import os\n\nprint(os.name)\n"


def _tree(**files: bytes) -> Tree:
    return Tree({"pyproject.toml": CONFIGURED} | files)


def _check(text: str, tree: Tree, path: str = "lib/a.py"):  # type: ignore[no-untyped-def]
    changes = (FileChange(path, text),)
    return check_style(ruff_check(changes, tree), tree, changes)


def test_a_clean_file_passes_and_is_left_as_it_is() -> None:
    outcome, fixes = _check(CLEAN, _tree())
    assert outcome.passed and fixes == ()
    assert outcome.commands[0].startswith("ruff check ") and outcome.commands[0].endswith(" lib/a.py")
    assert "All checks passed!" in outcome.log


def test_what_can_be_fixed_is_fixed_once_and_given_back() -> None:
    outcome, fixes = _check("import sys, os\nprint( os.name,'x' )\n", _tree())
    assert outcome.passed
    assert fixes == (FileChange("lib/a.py", 'import os\n\nprint(os.name, "x")\n'),)


def test_what_cannot_be_fixed_fails_and_says_where() -> None:
    outcome, _ = _check("print(missing)\n", _tree())
    assert not outcome.passed
    assert "lib/a.py:1:7: F821" in outcome.log


def test_the_target_s_own_line_length_holds() -> None:
    text = 'value = ["' + "a" * 30 + '", "' + "b" * 30 + '"]\n'
    outcome, fixes = _check(text, _tree())
    assert outcome.passed and "\n" in (fixes[0].text or "")[:-1]
    assert _check(text, Tree({"ruff.toml": b"line-length = 120\n"}))[1] == ()


def test_a_configuration_nearer_to_the_file_holds() -> None:
    tree = _tree(**{"lib/ruff.toml": b'[lint]\nselect = ["F"]\n'})
    assert _check("import sys\nimport os\nprint(os.name, sys.path)\n", tree)[0].passed


def test_imports_of_the_library_itself_are_told_by_its_files() -> None:
    text = "import torch\n\nimport helper\n\nprint(torch, helper)\n"
    assert _check(text, _tree(**{"helper.py": b"x = 1\n"}))[1] == ()
    assert len(_check(text, _tree())[1]) == 1


def test_line_endings_that_the_library_uses_are_kept() -> None:
    outcome, fixes = _check("import os\r\n\r\nprint(os.name)\r\n", _tree())
    assert outcome.passed and fixes == ()


def test_a_module_of_the_target_named_like_the_tool_is_not_run() -> None:
    changes = (FileChange("ruff.py", "raise SystemExit(0)\n"), FileChange("lib/a.py", "print(missing)\n"))
    outcome, _ = check_style(ruff_check(changes, _tree()), _tree(), changes)
    assert not outcome.passed and "F821" in outcome.log


def test_the_environment_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2")
    monkeypatch.setitem(stylecheck.TOOLS, "show", (sys.executable, "-I", "-c", "import os; print(sorted(os.environ))"))
    outcome, _ = check_style(StyleCheck((("show",),), ()), _tree(), ())
    assert outcome.passed and "SOME_TOKEN" not in outcome.log and "HOME" in outcome.log


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", '[tool.ruff]\nextend = "/etc/passwd"\n'),
        ("pyproject.toml", '[tool.ruff]\nextend = "../other/ruff.toml"\n'),
        ("pyproject.toml", '[tool.ruff]\nextend = "~/ruff.toml"\n'),
        ("pyproject.toml", '[tool.ruff]\nextend = "${HOME}/ruff.toml"\n'),
        ("lib/ruff.toml", 'extend = "../../ruff.toml"\n'),
        ("lib/.ruff.toml", 'extend = "x/../../../ruff.toml"\n'),
        ("ruff.toml", '\ufeffextend = "/etc/passwd"\n'),
        # What ruff reads and tomllib does not: TOML 1.1, long files, long lines of dots.
        ("ruff.toml", 'extend = "/etc/passwd"\nlint = {\n  preview = false,\n}\n'),
        ("ruff.toml", '"ext\\u0065nd" = "/etc/passwd"\nlint = {\n  preview = false,\n}\n'),
        ("ruff.toml", f'extend = "/etc/passwd"\n#{"x" * 2**20}\n'),
        ("lib/ruff.toml", f'# {"." * 4000}\nextend = "/etc/passwd"\n'),
    ],
)
def test_a_configuration_outside_of_the_repository_is_refused(path: str, text: str) -> None:
    tree = _tree(**{path: text.encode()})
    changes = (FileChange("lib/a.py", CLEAN),)
    with pytest.raises(UserFacingError) as caught:
        check_style(ruff_check(changes, _tree()), tree, changes)
    assert caught.value.failure.code is FailureCode.style
    assert path in caught.value.failure.message


def test_what_an_extended_file_extends_stays_inside_too() -> None:
    tree = _tree(
        **{"pyproject.toml": b'[tool.ruff]\nextend = "style/base"\n', "style/base": b'extend = "/etc/passwd"\n'}
    )
    with pytest.raises(UserFacingError, match="style/base"):
        _check(CLEAN, tree)


def test_a_configuration_of_any_name_may_be_extended() -> None:
    files = {
        "ruff.toml": b'extend = "style/base.toml"\n',
        "style/base.toml": b'extend = "more.toml"\n',
        "style/more.toml": b'[lint]\nselect = ["F"]\n',
    }
    outcome, fixes = _check("import sys\nimport os\n\nprint(os.name, sys.path)\n", Tree(files))
    assert outcome.passed, outcome.log
    assert fixes == (), "only the rule that is extended holds: imports are in no order"


def test_a_configuration_inside_of_the_repository_may_be_extended() -> None:
    tree = _tree(**{"lib/ruff.toml": b'extend = "../pyproject.toml"\nline-length = 100\n'})
    assert _check(CLEAN, tree)[0].passed


def test_a_configuration_that_does_not_parse_fails_with_the_tool_s_own_words() -> None:
    tree = Tree({"pyproject.toml": b"[tool.ruff]\nline-length = \n"})
    outcome, _ = _check(CLEAN, tree)
    assert not outcome.passed and "pyproject.toml" in outcome.log


def test_a_repository_without_a_style_check_passes_without_running_anything() -> None:
    outcome, fixes = _check(CLEAN, Tree({}))
    assert (outcome.passed, outcome.commands, fixes) == (True, (), ())


def test_a_command_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stylecheck, "TIME_LIMIT_S", 0.2)
    monkeypatch.setitem(stylecheck.TOOLS, "sleep", (sys.executable, "-I", "-c", "import time; time.sleep(9)"))
    with pytest.raises(UserFacingError) as caught:
        check_style(StyleCheck((("sleep",),), ()), _tree(), ())
    assert caught.value.failure.code is FailureCode.environment


def test_a_path_that_leaves_the_checkout_is_never_written() -> None:
    tree = _tree(**{"../outside.py": b"", "/outside.py": b"", "lib": b"", "lib/b.py": b""})
    assert _check(CLEAN, tree, "other/a.py")[0].passed


def test_a_tool_that_is_not_installed_is_the_hosts_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stylecheck.TOOLS, "ruff", (sys.executable, "-I", "-m", "a_tool_that_is_not_there"))
    with pytest.raises(UserFacingError) as raised:
        _check(CLEAN, _tree())
    assert raised.value.failure.code is FailureCode.environment
    assert "`ruff`" in raised.value.failure.message
    assert "pip install ruff" in (raised.value.failure.fix or "")


def test_a_change_without_a_single_reading_is_refused_and_what_people_wrote_is_not() -> None:
    text = "# the v\u0430lue\n" + CLEAN
    with pytest.raises(UserFacingError) as caught:
        _check(text, _tree())
    assert caught.value.failure.code is FailureCode.refused
    assert caught.value.failure.line == 1
    assert _check(text, _tree(**{"lib/a.py": text.encode()}))[0].passed
