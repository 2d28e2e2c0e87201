"""TCP ports for the exchange of perftest's two ends."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

__all__ = ["exchange_ports"]

SPAN = 2000
"""Ports in use one after another, so that one that has just been closed has time to become free
(TIME_WAIT)."""


def exchange_ports(base: int, here: bool, skip: int = 0) -> Iterator[int]:
    """Ports from ``base`` on, round and round, the first ``skip`` left out; those that are taken on
    this machine are left out where the servers run ``here``."""
    span = min(SPAN, 65536 - base)
    first = skip % span
    while True:
        for port in (*range(base + first, base + span), *range(base, base + first)):
            if not here or _free(port):
                yield port


def _free(port: int) -> bool:
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
    return True
