"""Which kernels a change touches, and by which files. Pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from workers.layouts.import_graph import Library, Step, own_statements
from workers.tree import Tree


def touched_kernels(
    base: Tree, head: Tree, starts: Mapping[str, tuple[str, ...]], roots: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Give the kernels that reach a changed file, each with those files, the shortest chain of imports first.

    ``starts`` are the files that a kernel begins with: its own, and its wrapper's.
    """
    changed = {path for path in {*base.files, *head.files} if base.files.get(path) != head.files.get(path)}
    if not any(path.endswith(".py") for path in changed):
        return {}
    before, after = _sources(base), _sources(head)
    change = _Change(changed, Library(before, roots), Library(before | after, roots))
    found = {name: change.reached(paths) for name, paths in sorted(starts.items())}
    return {name: paths for name, paths in found.items() if paths}


@dataclass(frozen=True)
class _Change:
    changed: set[str]
    base: Library
    both: Library  # head, and of base what head has no longer, so that what was deleted is reached too

    def reached(self, starts: tuple[str, ...]) -> tuple[str, ...]:
        """Give the changed files that are reached, nearest first."""
        seen = dict.fromkeys(Step(path) for path in starts)
        waiting, found = list(seen), dict[str, None]()
        while waiting:
            step = waiting.pop(0)
            if self._is_changed(step):
                found[step.path] = None
            for following in self.both.steps(step):
                if following not in seen:
                    seen[following] = None
                    waiting.append(following)
        return tuple(found)

    def _is_changed(self, step: Step) -> bool:
        if step.path not in self.changed or step.name is None or not step.path.endswith("/__init__.py"):
            return step.path in self.changed
        # One more export in a package changes nothing for who imports another.
        sides = (self.base, self.both)
        bindings = [[ast.dump(node) for node in side.bindings(step.path, step.name)] for side in sides]
        bodies = [own_statements(side.parsed(step.path)) for side in sides]
        return bindings[0] != bindings[1] or bodies[0] != bodies[1]


def _sources(tree: Tree) -> dict[str, str]:
    return {path: tree.read(path) or "" for path in tree.paths(suffix=".py")}
