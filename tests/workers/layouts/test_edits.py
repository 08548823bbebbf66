import pytest

from workers.layouts.python_source import place_of, with_function, with_listed_name

EXPORTS = """\
__all__ = [
    "is_there",
    "LigerDyT",
    "LigerPolyNorm",
    "LigerReLUSquared",
    "LigerPhi3MLP",
    "LigerSwiGLUMLP",
]

__all__.extend(["AutoModel"])
"""

FUNCTIONS = """\
import torch


def liger_geglu(a, b):
    return a * b


# Conforms to torch's signature.
@torch.jit.ignore
def liger_kl_div(x):
    return x


def liger_rope(q):
    return q
"""


@pytest.mark.parametrize(
    ("new", "place"),
    [("LigerReGLU", 3), ("LigerZeta", 6), ("LigerAlpha", 1), ("aaa", 0)],
)
def test_a_name_is_placed_between_the_neighbours_it_is_most_like(new: str, place: int) -> None:
    names = ["is_there", "LigerDyT", "LigerPolyNorm", "LigerReLUSquared", "LigerPhi3MLP", "LigerSwiGLUMLP"]
    assert place_of(names, new) == place


def test_a_name_more_in_all_is_one_line_more_and_nothing_else() -> None:
    changed = with_listed_name(EXPORTS, "LigerReGLU")
    assert changed.replace('    "LigerReGLU",\n', "") == EXPORTS
    assert '"LigerPolyNorm",\n    "LigerReGLU",\n    "LigerReLUSquared",' in changed


def test_the_last_place_of_all_is_before_the_closing_bracket() -> None:
    assert '    "LigerSwiGLUMLP",\n    "LigerZeta",\n]' in with_listed_name(EXPORTS, "LigerZeta")


@pytest.mark.parametrize("source", ["x = 1\n", '__all__ = ["a", "b"]\n', EXPORTS.replace("LigerDyT", "LigerReGLU")])
def test_a_list_of_another_form_or_with_the_name_is_left_alone(source: str) -> None:
    assert with_listed_name(source, "LigerReGLU") == source


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["liger_jsd", "liger_alpha", "liger_zeta"])
def test_a_function_more_leaves_every_other_byte(name: str, newline: str) -> None:
    source = FUNCTIONS.replace("\n", newline)
    definition = f"def {name}(x):\n    return x"
    changed = with_function(source, name, definition)
    added = definition.replace("\n", newline) + newline
    assert added in changed
    assert (
        changed.replace(newline * 2 + added, "", 1) == source or changed.replace(added + newline * 2, "", 1) == source
    )


def test_a_comment_and_a_decorator_stay_with_their_function() -> None:
    changed = with_function(FUNCTIONS, "liger_jsd", "def liger_jsd(x):\n    return x")
    assert "    return x\n\n\n# Conforms to torch's signature.\n@torch.jit.ignore\ndef liger_kl_div" in changed
