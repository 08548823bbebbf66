"""Record the jobs anew: ``python -m tests.recorded.models [NAME ...]``; about a minute each, without a GPU.

The real command line asks a local server that speaks Anthropic's protocol and gives the answers of ``written``. Then the table in
docs/models.md is written anew. With ``--liger PATH --out FOLDER`` the jobs are done on the unpacked source of liger-kernel 0.8.5
instead, some minutes each, and the table is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from tests.recorded.models import table
from tests.recorded.models.jobs import FOLDER, JOBS, OF_LIGER, RecordedCommand
from tests.recorded.models.library import make_library
from tests.recorded.models.provider import Count, Provider
from tests.recorded.models.tokens import counter
from tests.workers.models.anthropic_server import KEY, MODEL, anthropic_server


def main() -> int:
    """Record the jobs that are named, all by default; 1 where one of them did not end well."""
    options = asked_for()
    jobs, folder = (OF_LIGER, options.out) if options.liger else (JOBS, FOLDER)
    wanted = [job for job in jobs if not options.names or job.name in options.names]
    if not options.table:
        folder.mkdir(parents=True, exist_ok=True)
        count = counter(options.tokenizer)
        failed = [job.name for job in wanted if not recorded_anew(job, count, folder, options.liger)]
        if failed:
            print(f"not recorded: {', '.join(failed)}", file=sys.stderr)
            return 1
    if options.liger:
        print(table.table(wanted, folder), end="")
    else:
        table.write()
    return 0


def asked_for() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorded.models", description=__doc__)
    names = [job.name for job in JOBS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; all by default")
    parser.add_argument(
        "--tokenizer", type=Path, help="a tokenizer.json; by default that of an old package is downloaded"
    )
    parser.add_argument("--liger", type=Path, metavar="PATH", help="the unpacked source of liger-kernel 0.8.5")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="with --liger: where its recordings go")
    parser.add_argument("--table", action="store_true", help="make the table alone, from recordings that are there")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        parser.error(f"there is no job {', '.join(sorted(unknown))}")
    if (options.liger is None) != (options.out is None):
        parser.error("--liger and --out go together")
    return options


def recorded_anew(job: RecordedCommand, count: Count, into: Path, library: Path | None) -> bool:
    """Carry a job out and keep its recording in a folder; False, with what it said, where it did not end well."""
    from service.cli import app
    from workers.embedded import close

    with tempfile.TemporaryDirectory() as scratch, anthropic_server() as server:
        folder = Path(scratch)
        make_library(folder / "library", library)
        for name, text in job.files.items():
            (folder / name).write_text(text)
        on_this_machine_alone(server.base_url)
        server.next(*Provider(job, count).replies())
        kept = folder / job.recording().name
        arguments = [part.replace("{}", scratch) for part in job.arguments]
        done = CliRunner().invoke(
            app, [*arguments, "--repo", str(folder / "library"), "--record", str(kept)], input=job.typed or None
        )
        close()
        well = done.exit_code == 0 and not server.replies
        if well:
            job.recording(into).write_bytes(kept.read_bytes())
        else:
            server.replies.clear()
        print(f"{job.name}: exit {done.exit_code}" if well else f"{done.output}\n{job.name}: exit {done.exit_code}")
    return well


def on_this_machine_alone(base_url: str) -> None:
    """Set the environment of a job: no GPU, and the local server for a provider."""
    for name in list(os.environ):
        if name.startswith("KERNELSMITH_"):
            del os.environ[name]
    told = {
        "ARCHITECTURE": "interpreter",
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_MODEL": MODEL,
        "ANTHROPIC_BASE_URL": base_url,
    }
    os.environ |= {f"KERNELSMITH_{name}": value for name, value in told.items()} | {"TRITON_INTERPRET": "1"}


if __name__ == "__main__":
    sys.exit(main())
