"""From a reference to its graph.

The decompositions, `fake`, `joint`, `canonical` and `rounding` run in the child, `raw` in both; the rest is pure and the parent's.
"""
