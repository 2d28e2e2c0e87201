"""The messages between the rdma_cm device of libsoftib-verbs.so and the daemon
(``preload/verbs/cm/wire.h``)."""

from __future__ import annotations

from typing import Any

from softib.live.c_header import CHeader, Layout

__all__ = ["HEADER", "constant", "hello_of", "layout", "reply", "request_of", "request_size"]

HEADER = CHeader("verbs/cm/wire.h", "SOFTIB_CM_")
constant = HEADER.constant


def layout(name: str) -> Layout:
    """Return the layout of the structure ``softib_cm_`` + ``name``."""
    return HEADER.layout(f"softib_cm_{name}")


def hello_of(message: bytes) -> Any | None:
    """Return the hello in ``message``; None if it is not a hello of this version."""
    kind = layout("hello")
    if len(message) != kind.size:
        return None
    hello = kind.unpack(message)
    return hello if (hello.magic, hello.version) == (constant("MAGIC"), constant("VERSION")) else None


def request_size() -> int:
    """Return the size of a request in bytes. In a POST, an event follows the request."""
    return layout("ask").size


def request_of(message: bytes) -> Any | None:
    """Return the request in ``message``; None if it is not a request."""
    kind = layout("ask")
    return kind.unpack(message) if len(message) >= kind.size else None


def reply(values: dict[str, Any]) -> bytes:
    """Return the bytes of a reply or event with these values."""
    return layout("reply").pack(values)
