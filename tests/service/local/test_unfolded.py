"""What a terminal shows of GitHub's markdown."""

from __future__ import annotations

from rich.console import Console
from rich.markdown import Markdown

from service.local.terminal import unfolded
from service.report.layout import folded, table


def shown(markdown: str) -> str:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(Markdown(unfolded(markdown)))
    return captured.get()


def test_a_folded_part_keeps_its_title() -> None:
    told = shown("Done.\n\n" + folded("Noise and conditions", "All was quiet.") + "\n\n<sub>Job `j7k2`</sub>")
    assert [line.strip() for line in told.splitlines() if line.strip()] == [
        "Done.",
        "Noise and conditions",
        "All was quiet.",
        "Job j7k2",
    ]


def test_what_stands_on_two_lines_of_a_cell_is_told_apart() -> None:
    told = shown(table(("field", "value"), [("inputs", "`x` (N)<br>`w` (C)")]))
    assert "x (N); w (C)" in told


def test_code_is_left_as_it_is() -> None:
    text = "````html\n<details><summary>a</summary>\n```\n<br><sub>b</sub>\n</details>\n````\n<sub>c</sub>"
    assert unfolded(text) == text.removesuffix("<sub>c</sub>") + "c"
