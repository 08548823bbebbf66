"""What every command of the command line says and ends with."""

from __future__ import annotations

import errno
import keyword
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from service.escape import clean
from workers.contracts import Failure, FailureCode, UserFacingError

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_ENVIRONMENT = 3
OF_A_FILE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
}

HELP = "The console command: by-hand actions, local jobs, the demo, and the processes of an installation."
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=HELP)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"kernelsmith {version('kernelsmith')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version, and end.")
]


@app.callback()
def _kernelsmith(version: Version = False) -> None: ...


ProblemFile = Annotated[Path, typer.Argument(help="The problem file.", exists=True, dir_okay=False, readable=True)]
CandidateFile = Annotated[Path, typer.Argument(help="The candidate file.", exists=True, dir_okay=False, readable=True)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]


Npu = Annotated[Literal["ascend"] | None, typer.Option(help="ascend: also what kernels for an NPU need of this host.")]


def in_a_folder(path: Path | None) -> Path | None:
    """Refuse a path that cannot be written to for want of a folder, before any work is done for it."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"folder '{path.parent}' does not exist.")
    return path


def output(help_: str) -> Any:
    """The option `--out` of a file."""
    return typer.Option(help=help_, dir_okay=False, callback=in_a_folder)


def say(text: str) -> None:
    """Print text on standard error; what a terminal would take for a command in it is shown by its code."""
    typer.echo(clean(text), err=True)


def tell(markdown: str) -> None:
    """Print markdown on standard output: laid out on a terminal, as plain text where it is piped."""
    from rich.console import Console

    from service.local.terminal import show_markdown

    show_markdown(markdown, Console())


def told(failure: Failure) -> str:
    """A failure as a terminal shows it."""
    where = f" (line {failure.line})" if failure.line else ""
    return "\n".join(part for part in (failure.message + where, failure.fix, failure.log) if part)


def working(what: str) -> AbstractContextManager[object]:
    """Show on a terminal, until the block ends, that something is being done that takes long and tells nothing of itself."""
    from rich.console import Console

    return Console(stderr=True).status(what)


@contextmanager
def reporting(*, kernels: bool = False) -> Iterator[None]:
    """Turn an error for people into words and an exit code; with ``kernels`` also that nothing here could run one."""
    missing = [name for name in ("torch", "triton") if kernels and find_spec(name) is None]
    if missing:
        say(
            f"{' and '.join(missing)} cannot be imported, and no kernel runs without. Run: pip install 'kernelsmith[gpu]'"
        )
        raise typer.Exit(EXIT_ENVIRONMENT)
    try:
        yield
    except (typer.Exit, KeyboardInterrupt):
        raise
    except UserFacingError as error:
        say(told(error.failure))
        code = EXIT_ENVIRONMENT if error.failure.code is FailureCode.environment else EXIT_REFUSED
        raise typer.Exit(code) from error
    except OSError as error:
        if error.filename == "git":
            say("git is not installed, or not on PATH. Install it, and run the command again.")
            raise typer.Exit(EXIT_ENVIRONMENT) from error
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)  # what writes has no file's name
        if not full and (error.filename is None or error.errno not in OF_A_FILE):
            raise
        place = "" if error.filename is None else f"{error.filename}: "
        say(
            f"{place}{error.strerror}\n{'Free some, or name' if full else 'Name'} another place, and run the command again."
        )
        raise typer.Exit(EXIT_ENVIRONMENT) from error
    except _store_errors() as error:
        say(
            f"the database cannot be used: {str(error).splitlines()[0]}\nStart it, free its disk, or correct DATABASE_URL."
        )
        raise typer.Exit(EXIT_ENVIRONMENT) from error


def _store_errors() -> type[Exception]:
    from workers.embedded import SQLAlchemyError  # when something else has failed: it takes long

    return SQLAlchemyError


def exit_code(failure: Failure | None) -> int:
    """The exit code of a failure: refused, the environment's, or of something that was tried."""
    from service.local.asking import REFUSALS

    if failure is None:
        return EXIT_FAILED
    if failure.code is FailureCode.environment:
        return EXIT_ENVIRONMENT
    return EXIT_REFUSED if failure.code in REFUSALS else EXIT_FAILED


def text_of(path: Path) -> str:
    """The text of a file; the command ends with the reason where it has none."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        say(f"{path} is not UTF-8 at byte {error.start}. Save it as UTF-8.")
        raise typer.Exit(EXIT_REFUSED) from error


def kernel_name(problem: Path, name: str | None) -> str:
    """The kernel's name, an identifier: as asked for, or from the problem's file name without the number before it."""
    words = re.sub(r"[^0-9A-Za-z]+", "_", name or problem.stem).strip("_").lower()
    plain = re.sub(r"^[0-9]+_*", "", words)
    return plain if plain.isidentifier() and not keyword.iskeyword(plain) else f"kernel_{words}".rstrip("_")
