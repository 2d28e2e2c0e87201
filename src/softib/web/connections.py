"""Limits the connections of the web server: their number, the time in which a request must arrive, and the time for
which a client may leave an answer unread.
"""

from __future__ import annotations

import asyncio
import os
import resource
from asyncio import TimerHandle
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["BACKLOG", "bounded_protocol", "most_connections"]

MOST = 512
BACKLOG = 16
"""Maximum number of connections that asyncio accepts at once, before any of them is counted."""
RESERVE = 32 + 2 * BACKLOG
"""Number of descriptors reserved for the fabric, the history, files, and connections that are not counted yet."""
REQUEST_S = 10.0
"""Time in seconds within which a request, or the next request of a connection, must have arrived completely."""
UNREAD_S = 30.0
"""Time in seconds after which a client that does not read its answer is disconnected."""
OVERDUE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def most_connections() -> int:
    """Return the maximum number of open connections, computed from the number of descriptors that this process may
    still open. Its soft limit is raised to the hard one if necessary."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + RESERVE + 64
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    used = len(os.listdir("/proc/self/fd"))
    return MOST if soft == resource.RLIM_INFINITY else max(8, min(MOST, soft - used - RESERVE))


def bounded_protocol() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with these limits."""
    most = most_connections()

    class Protocol(H11Protocol):
        """One connection."""

        _timer: TimerHandle | None = None
        _unread: TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Accept a connection; beyond the limit, close the one that has been idle for the
            longest time."""
            super().connection_made(transport)
            self._watch()
            open_ = [c for c in cast(set[Protocol], self.connections) if not c.transport.is_closing()]
            if len(open_) <= most:
                return
            waiting = [c for c in open_ if c is not self and c._timer is not None]
            if waiting:
                min(waiting, key=lambda c: c._timer.when() if c._timer is not None else 0.0).transport.abort()
            else:
                transport.write(FULL)
                transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            """Stop the timers of the connection."""
            for timer in (self._timer, self._unread):
                if timer is not None:
                    timer.cancel()
            self._timer = self._unread = None
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """Receive bytes of a request."""
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            """Wait for the next request."""
            super().on_response_complete()
            self._watch()

        def pause_writing(self) -> None:
            """Start the timer of a client that does not read its answer."""
            super().pause_writing()
            self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

        def resume_writing(self) -> None:
            """Resume writing."""
            super().resume_writing()
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def _watch(self) -> None:
            """Limit the time of a request that has not arrived completely."""
            waits = self.cycle is None or self.cycle.response_complete or self.conn.their_state is h11.SEND_BODY
            if waits and self._timer is None and not self.transport.is_closing():
                self._timer = self.loop.call_later(REQUEST_S, self._overdue)
            elif not waits and self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _overdue(self) -> None:
            self._timer = None
            if not self.transport.is_closing():
                self.transport.write(OVERDUE)
                self.transport.close()

    return Protocol
