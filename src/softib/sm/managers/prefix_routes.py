"""OpenSM's prefix routes: which router's port takes packets to which other subnet (opensm(8),
PREFIX ROUTES)."""

from __future__ import annotations

from dataclasses import dataclass

from softib.errors import InputError

__all__ = ["PrefixRoute", "parse_prefix_routes"]

ANY = "*"


@dataclass(frozen=True)
class PrefixRoute:
    """``prefix``: of another subnet, None for all; ``guid``: PortGUID of the router's port in this
    one, None for any router."""

    prefix: int | None
    guid: int | None


def parse_prefix_routes(text: str, name: str) -> tuple[PrefixRoute, ...]:
    """A line for each: prefix and PortGUID, hexadecimal, ``*`` for any; ``#`` begins a comment. The
    first line with a prefix counts.

    Raises :class:`InputError` with file and line (OpenSM logs and goes on).
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split("#")[0].split()
        if not fields:
            continue
        numbers = [_number(word) for word in fields]
        if len(fields) != 2 or -1 in numbers:
            raise InputError(
                f"{name}:{number}: {' '.join(fields)[:60]!r} is no prefix route; write a prefix and a router's "
                f"PortGUID, such as "
                "0xfec0000000000002 0x0002c90300000001, or * for any"
            )
        found.append(PrefixRoute(numbers[0], numbers[1]))
    return tuple(found)


def _number(word: str) -> int | None:
    """None for ``*``, -1 for what is no number of 64 bits."""
    if word == ANY:
        return None
    try:
        value = int(word, 16)
    except ValueError:
        return -1
    return value if 0 < value < 1 << 64 else -1
