"""The closed vocabulary of layouts: which there are, and which one a repository has."""

from __future__ import annotations

from workers.contracts import Failure, FailureCode, UserFacingError
from workers.layouts.fla.layout import FlaLayout
from workers.layouts.liger.layout import LigerLayout
from workers.layouts.plain.layout import PlainLayout
from workers.layouts.protocol import Layout
from workers.layouts.versioned.layout import VersionedLayout
from workers.tree import Tree

# In the order in which they are tried: the first that matches is a repository's layout.
LAYOUTS: dict[str, Layout] = {
    layout.name: layout for layout in (LigerLayout(), VersionedLayout(), FlaLayout(), PlainLayout())
}


def layout_named(name: str) -> Layout:
    """A layout by name.

    Raises:
        UserFacingError: there is none of that name.
    """
    layout = LAYOUTS.get(name)
    if layout is None:
        fix = f"Layouts: {', '.join(f'`{known}`' for known in LAYOUTS)}."
        raise UserFacingError(Failure(FailureCode.layout, "there is no layout of that name", fix))
    return layout


def find_layout(tree: Tree) -> Layout:
    """The layout that a repository has.

    Raises:
        UserFacingError: it has none of them.
    """
    for layout in LAYOUTS.values():
        if layout.matches(tree):
            return layout
    fix = "Name one with `--layout plain`: kernels/, tests/ and benchmarks/ are then made where they are missing."
    raise UserFacingError(Failure(FailureCode.layout, "the repository has no layout that is known", fix))
