"""Schedules: how a kernel walks its rows and columns. Pure."""
