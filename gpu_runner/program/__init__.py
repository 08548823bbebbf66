"""A candidate's host program: its language, the static check, and the evaluator that carries it out in place of CPython."""
