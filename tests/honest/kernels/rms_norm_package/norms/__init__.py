"""Norms."""
