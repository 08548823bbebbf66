"""The layout of a small library without conventions."""
