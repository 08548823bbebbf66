"""Answers to lines that are no command."""

# ruff: noqa: E501 (messages stand here as they are sent)
from __future__ import annotations

from inline_snapshot import snapshot
from markdown_it import MarkdownIt

from service.commands.command import ErrorCode
from service.commands.parser import parse_comment
from service.report.replies import WORDS, reply_command_errors


def wrong(*lines: str) -> str:
    return reply_command_errors(parse_comment("\n\n".join(f"/kernel {line}" for line in lines)).errors)


def test_wrong_verbs_options_and_values() -> None:
    assert wrong("crate reglu") == snapshot(
        "`/kernel crate reglu`: there is no command `crate`. Did you mean `create`? The commands are: `create`, `optimize`, `modify`, `port`, `fuse`, `tune`, `profile`, `bench`, `verify`, `nightly`, `bisect`, `triaged`, `explain`, `status`, `cancel`, `retry`, `approve`, `revise`, `help`. `/kernel help` explains them."
    )
    assert wrong("create x --autor compiler", "create x --layout=ligr", "create x --gpu", "status --auto") == snapshot("""\
Some lines of this comment could not be carried out:

- `/kernel create x --autor compiler`: `create` has no option `--autor`. Did you mean `--author`? Its options: `--author`, `--candidates`, `--repairs`, `--choose`, `--to`, `--layout`, `--gpu`, `--profile`, `--auto`, `--dry-run`.
- `/kernel create x --layout=ligr`: `ligr` is not a value for `--layout`: `liger` or `plain` or `versioned` or `fla`. Did you mean `liger`?
- `/kernel create x --gpu`: `--gpu` needs a value, such as `--gpu sm_90`.
- `/kernel status --auto`: `status` has no option `--auto`. It has no options.\
""")
    assert wrong("create x --gpu=potato", "create x --auto --auto", "create x --auto=maybe", "approve 12") == snapshot("""\
Some lines of this comment could not be carried out:

- `/kernel create x --gpu=potato`: `potato` is not a value for `--gpu`. An architecture is written like `sm_90`, `h100` or `hopper`; only NVIDIA GPUs are supported.
- `/kernel create x --auto --auto`: `--auto` is given twice. Give it once.
- `/kernel create x --auto=maybe`: `maybe` is not a value for `--auto`: `true` or `false`.
- `/kernel approve 12`: `12` is not a value for `SHA`. A commit is named by 7 to 40 hexadecimal digits.\
""")


def test_wrong_names_paths_and_links() -> None:
    assert wrong("create ReGLU", "create a/b", "create class") == snapshot("""\
Some lines of this comment could not be carried out:

- `/kernel create ReGLU`: `ReGLU` cannot be the name of a kernel. A name is a Python identifier in snake\\_case: lower-case letters, digits and single underscores. Did you mean `reglu`?
- `/kernel create a/b`: `a/b` cannot be the name of a kernel. A name is not a path: the layout decides where the files go. Did you mean `b`?
- `/kernel create class`: `class` cannot be the name of a kernel. This is a word of Python itself, so no module can have it as its name. Did you mean `class_kernel`?\
""")
    assert wrong("create x form a.py", "create x from ../a.py", "create x from a.py b.py", "create x from") == snapshot("""\
Some lines of this comment could not be carried out:

- `/kernel create x form a.py`: `form` is not expected here. Did you mean `from a.py`?
- `/kernel create x from ../a.py`: `../a.py` is not a path in this repository. A path is relative to the repository's root and stays inside of it.
- `/kernel create x from a.py b.py`: `b.py` is not expected here. The form is `/kernel create NAME [from PATH[:SYMBOL]|URL] [--author compiler|llm|auto] [--candidates N] [--repairs N] [--choose first|best] [--to ascend|cutile|cutedsl|rocm] [--layout liger|plain|versioned|fla] [--gpu ARCH] [--profile] [--auto] [--dry-run]`.
- `/kernel create x from`: `from` needs a path or a link after it, such as `from src/model.py:MLP`.\
""")
    assert wrong("create x from https://evil.example/@octocat/x", "create x from https://github.com/a/b") == snapshot("""\
Some lines of this comment could not be carried out:

- `/kernel create x from https://evil.example/@octocat/x`: `https://evil.example/@octocat/x` is on another host, and only links to `github.com` and its gists are followed. Paste the code as a fenced Python block instead.
- `/kernel create x from https://github.com/a/b`: `https://github.com/a/b` is not a link to a file. Such a link looks like `https://github.com/OWNER/NAME/blob/COMMIT/PATH#L1-L20`.\
""")


def test_missing_parts() -> None:
    assert wrong("create", "revise", "approve") == snapshot("""\
Some lines of this comment could not be carried out:

- `/kernel create`: `NAME` is missing. The form is `/kernel create NAME [from PATH[:SYMBOL]|URL] [--author compiler|llm|auto] [--candidates N] [--repairs N] [--choose first|best] [--to ascend|cutile|cutedsl|rocm] [--layout liger|plain|versioned|fla] [--gpu ARCH] [--profile] [--auto] [--dry-run]`, for example `/kernel create reglu --layout liger`.
- `/kernel revise`: `TEXT` is missing. The form is `/kernel revise TEXT`, for example `/kernel revise keep the row in registers, and round once at the end`.
- `/kernel approve`: `SHA` is missing. The form is `/kernel approve SHA`, for example `/kernel approve 1f2e3d4`.\
""")


def test_too_many_commands_and_a_quote() -> None:
    assert wrong(*["status"] * 10) == snapshot(
        "This comment has 10 commands, and at most 5 are accepted in one. None was carried out; split them over several comments."
    )
    assert reply_command_errors(parse_comment("> you said\n/kernel cancel").errors) == snapshot(
        "`/kernel cancel`: this line belongs to the quote above it, so it was not carried out. Put an empty line before it."
    )
    both = "/kernel create x from a.py\n```python\ndef reference(): ...\n```"
    assert reply_command_errors(parse_comment(both).errors) == snapshot(
        "`/kernel create x from a.py`: there are two problems, `a.py` and the Python block. Leave one of them out."
    )


def test_every_error_has_its_words() -> None:
    assert set(WORDS) == set(ErrorCode)


def test_what_is_echoed_mentions_nobody() -> None:
    text = wrong("@octocat/team #1 ![x](https://evil.example)", "create `@octocat`", "create x --layout=@octocat")
    leaves = [leaf for token in MarkdownIt("commonmark").parse(text) for leaf in token.children or []]
    assert not [leaf for leaf in leaves if leaf.type == "text" and "octocat" in leaf.content]
    assert {leaf.type for leaf in leaves} == {"text", "code_inline"}
