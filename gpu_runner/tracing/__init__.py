"""From a reference to its graph: `joint`, `decompositions` and `canonical` run in the child, the rest is pure and the parent's."""
