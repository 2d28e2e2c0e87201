"""A fabric in a browser."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from softib.api.fabric import Fabric, result_of
from softib.api.progress import Notice
from softib.errors import InputError
from softib.source import warn

if TYPE_CHECKING:
    from softib.fabric.formats.base import ReadResult
    from softib.web.served import Served

__all__ = ["serve"]

LEAST_S, MOST_S = 0.2, 3600.0


def serve(
    source: str | os.PathLike[str] | Fabric, *, host: str = "127.0.0.1", port: int | None = None, token: str | None = None,
    every: float = 2.0, ready: Callable[[str], None] | None = None, notice: Notice = warn,
) -> None:  # fmt: skip
    """Serve ``source`` (a file, a :class:`Fabric`, or a running fabric, read again every ``every`` seconds) to browsers and REST clients until Ctrl-C.

    ``port``: default 8470, 0 a free one. On loopback everybody of this machine may look unless a ``token`` is given; on another ``host`` a token is needed and is made where none
    is given. ``ready`` gets the address to open. Nothing can be changed through it. Raises :class:`InputError` where the source cannot be read, the extra ``serve`` is
    not installed, or the address is taken.
    """
    from softib.web.server import DEFAULT_PORT
    from softib.web.server import serve as run

    if not LEAST_S <= every <= MOST_S:
        raise InputError(f"every={every:g}: between {LEAST_S:g} and {MOST_S:g} seconds")
    if token is not None and len(token) < 16:
        raise InputError("the token is too short to keep anybody out: at least 16 characters")
    served = _served(source, every, notice)
    run(served, host, DEFAULT_PORT if port is None else port, token, ready or (lambda address: None))


def _served(source: str | os.PathLike[str] | Fabric, every: float, notice: Notice) -> Served:
    from softib.live.instances import running as instances
    from softib.source import load
    from softib.web.served import Served

    if isinstance(source, Fabric):
        result, name = result_of(source), source.name
        return Served(name, lambda: _copy(result), changes=False)
    name = os.fspath(source)
    instance = next((i for i in instances() if i.name == name), None)
    if instance is None or os.path.exists(name):
        result = load(name, [], None, notice=notice)
        return Served(result.fabric.name or os.path.basename(name), lambda: _copy(result), changes=False)
    from softib.api.explaining import explain_path
    from softib.live.control.client import ask
    from softib.live.snapshot import read

    def manager() -> dict[str, Any]:
        found: dict[str, Any] = ask(instance, "status")["sm"]
        return found

    return Served(
        name, lambda: read(instance), lambda a, b: explain_path(instance, a, b).to_json(), manager, every_s=every
    )


def _copy(result: ReadResult) -> ReadResult:
    """A reading of a source that does not change; whoever checks it brings it up, so each gets a copy."""
    from dataclasses import replace

    return replace(result, fabric=result.fabric.copy())
