"""What a terminal shows of GitHub's markdown."""

from __future__ import annotations

import io

from rich.console import Console
from rich.markdown import Markdown

from service.local.terminal import plain_text, show_markdown, unfolded
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


COMMENT = """\
**Proved** on NVIDIA H200 \\(SXM\\): `a_b` &lt; [the floor](https://example.com/floor)
<sub>second line</sub>

<details><summary>More</summary>

1. one
   - nested \\*star\\*
2. two

```python
a = "**kept**"
```

| case | error |
| --- | ---: |
| `x\\|y` | 1 |
| longer | 22,000 |

</details>

<!-- kernelsmith:job=x kind=report -->"""
PLAIN = """\
Proved on NVIDIA H200 (SXM): a_b < the floor (https://example.com/floor)
second line

More

1. one
  - nested *star*
2. two

    a = "**kept**"

case     error
x|y          1
longer  22,000
"""


def test_plain_text_has_no_sign_of_markdown_and_aligned_columns() -> None:
    assert plain_text(COMMENT) + "\n" == PLAIN


def test_piped_output_is_plain_text_and_shows_what_a_terminal_would_take_for_a_command() -> None:
    output = io.StringIO()
    show_markdown("**a** \\(b\\) \x1b[31mred", Console(file=output))
    assert output.getvalue() == "a (b) \\u001b[31mred\n"
