"""Targets that a library's operators are ported to: what each wants of a kernel's files. Pure."""
