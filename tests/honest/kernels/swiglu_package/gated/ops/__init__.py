"""Kernels and their Functions."""
