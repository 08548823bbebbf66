"""Asks somebody else."""

import socket


def candidate(a, b):
    with socket.create_connection(("192.0.2.1", 80), timeout=1.0) as line:
        line.sendall(b"answer?")
    return a
