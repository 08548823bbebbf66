"""Nightly: numbers of a library's kernels over its commits, the changes in them, and the commits that made the changes."""
