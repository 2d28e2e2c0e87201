"""Answers of a Prometheus server's HTTP API. The server is not trusted: the size and the duration of an answer are
limited, and its content is checked.

No redirect is followed, and no compressed answer is decompressed. Only samples that are numbers are
kept (Prometheus itself writes NaN and Inf).
"""

from __future__ import annotations

import contextlib
import http.client
import math
import os
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from softib.errors import PeerError
from softib.foreign_text import NAME, shown
from softib.plain_values import load_json

__all__ = ["PATIENCE_S", "Series", "answer_of", "series_of"]

PATIENCE_S = 30.0
"""Maximum time in seconds from the connection to the last byte of an answer."""
MOST_OCTETS = 128 << 20
"""Maximum size of an answer in bytes: five million samples."""
MOST_PARTS = 8_000_000
"""Maximum number of objects and lists in an answer. A valid answer of :data:`MOST_OCTETS` has fewer."""
CHUNK = 1 << 18
LAST_S = 9e9
"""A clock time later than any other."""


@dataclass(frozen=True)
class Series:
    """One series: its labels (printable, of bounded length) and its samples as (clock time in seconds, value), all
    finite numbers."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]

    @property
    def last(self) -> float | None:
        """Return the last value; None if it is not a number."""
        return self.samples[-1][1] if self.samples else None


def answer_of(url: str, call: str, given: dict[str, str]) -> list[Series]:
    """Return the series in the answer of the server at ``url`` to ``/api/v1/CALL`` (``call``). Raises
    :class:`PeerError` if the server is not Prometheus, or if its answer is too late or too large."""
    address = f"{url.rstrip('/')}/api/v1/{call}?{urllib.parse.urlencode(given)}"
    deadline = time.monotonic() + PATIENCE_S
    try:
        data = _fetched(address, deadline)
    except urllib.error.HTTPError as error:
        where = error.headers.get("location")
        error.close()
        if where:
            raise PeerError(
                f"{url}: the server redirects to {shown(where, NAME)}; if you trust that address, use it instead"
            ) from None
        raise PeerError(
            f"{url}: the server answers {error.code} {error.reason}; check that it is a Prometheus server"
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        overdue = time.monotonic() >= deadline
        why = (
            f"no complete answer in {PATIENCE_S:g} s"
            if overdue
            else str(getattr(error, "reason", error)) or type(error).__name__
        )
        raise PeerError(f"{url}: no Prometheus answers: {why}") from None
    return series_of(url, data)


def series_of(url: str, data: bytes) -> list[Series]:
    """Return the series in an answer of the server at ``url``. Raises :class:`PeerError` if ``data`` is not valid."""
    if data.count(b"{") + data.count(b"[") > MOST_PARTS:
        raise PeerError(f"{url}: the answer has more than {MOST_PARTS:,} parts; use a shorter time")
    try:
        document = load_json(data)
    except ValueError as error:
        raise PeerError(f"{url}: no Prometheus answers: {shown(str(error), NAME)}") from None
    try:
        result = document["data"]["result"]
        if not isinstance(result, list):
            raise TypeError
        texts: dict[str, str] = {}  # equal texts of labels share one string
        return [_one(one, texts) for one in result]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise PeerError(f"{url}: the server is not Prometheus") from None


def _one(one: dict[str, Any], texts: dict[str, str]) -> Series:
    labels = {_text(name, texts): _text(value, texts) for name, value in one["metric"].items()}
    pairs = one["values"] if "values" in one else [one["value"]]
    samples = []
    for at, text in pairs:
        at_s, value = float(at), float(text)
        if 0 <= at_s <= LAST_S and math.isfinite(value):
            samples.append((at_s, value))
    return Series(labels, samples)


def _text(label: str, texts: dict[str, str]) -> str:
    text = texts.get(label)
    if text is None:
        text = texts[label] = shown(label, NAME)
    return text


def _fetched(address: str, deadline: float) -> bytes:
    """Return the body of the answer from ``address``. Raises the errors of urllib, and :class:`ValueError` if the
    answer is too long, too late or compressed."""
    parts: list[bytes] = []
    size = 0
    with _Deadline(deadline) as limit, _opener(limit).open(address, timeout=PATIENCE_S) as answer:
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise ValueError("the answer is compressed, although softib requests none")
        while part := answer.read1(CHUNK):
            size += len(part)
            parts.append(part)
            if size > MOST_OCTETS:
                raise ValueError(f"the answer has more than {MOST_OCTETS >> 20} MiB; use a shorter time")
        if answer.length or time.monotonic() >= deadline:
            raise ValueError(f"the answer ends early, after {size:,} bytes")
    return b"".join(parts)


class _Deadline:
    """Closes the connections of one request at a given time. (The timeout of a socket is not enough, since it restarts
    with every byte.)"""

    def __init__(self, deadline: float):
        self.connections: list[socket.socket] = []
        self.timer = threading.Timer(max(0.0, deadline - time.monotonic()), self.cut)
        self.timer.daemon = True

    def __enter__(self) -> _Deadline:
        self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.timer.join()
        for connection in self.connections:
            connection.close()

    def take(self, connection: socket.socket) -> None:
        """Add a connection. A duplicate of its descriptor is kept, because TLS takes over the original."""
        self.connections.append(socket.socket(fileno=os.dup(connection.fileno())))

    def cut(self) -> None:
        """Close the connections, because the time has expired."""
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _opener(limit: _Deadline) -> urllib.request.OpenerDirector:
    """Return an opener for HTTP and HTTPS, through a proxy if the environment names one, but without redirects, files
    and FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Http(limit),
        _Https(limit),
    ):
        opener.add_handler(handler)
    return opener


class _Connection(http.client.HTTPConnection):
    limit: _Deadline

    def connect(self) -> None:
        super().connect()
        self.limit.take(self.sock)


class _SafeConnection(http.client.HTTPSConnection, _Connection):
    pass


def _limited(kind: type[_Connection], limit: _Deadline) -> Callable[..., _Connection]:
    def made(host: str, **options: Any) -> _Connection:
        connection = kind(host, **options)
        connection.limit = limit
        return connection

    return made


class _Http(urllib.request.HTTPHandler):
    def __init__(self, limit: _Deadline):
        super().__init__()
        self.limit = limit

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_limited(_Connection, self.limit), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, limit: _Deadline):
        super().__init__()
        self.limit = limit

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_limited(_SafeConnection, self.limit), req)
