"""Honest candidates in the styles in which people write Triton kernels and their host code."""
