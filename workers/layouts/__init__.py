"""Layouts: how a kernel lives in a target repository. The table below is the closed vocabulary; one folder a layout."""
