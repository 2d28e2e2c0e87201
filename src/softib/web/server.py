"""The web server of one fabric, which runs in the foreground of this process until it is interrupted."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from softib.errors import InputError, os_reason
from softib.extras import install_command
from softib.web.access import Access, is_loopback, new_token
from softib.web.served import Served
from softib.web.tls import Tls

__all__ = ["DEFAULT_PORT", "listen", "serve"]

DEFAULT_PORT = 8470
CLOSING_S = 2.0
"""Maximum time in seconds for which the process waits at its end for the present round and answers."""
ENDS = (signal.SIGINT, signal.SIGTERM)
# FastAPI suppresses this warning about its use of pydantic with catch_warnings; another thread that leaves
# catch_warnings at the same time (as Numba does) enables it again.
warnings.filterwarnings("ignore", "The '[a-z_]+' attribute with value .* was provided to the `Field", UserWarning)


def serve(
    served: Served,
    host: str,
    port: int,
    token: str | None,
    ready: Callable[[str], None],
    wrapped: Callable[[Any], Any] = lambda app: app,
    tls: Tls | None = None,
    listener: socket.socket | None = None,
) -> None:
    """Serve until Ctrl-C. ``port``: 0 selects a free port. ``listener``: the result of :func:`listen` for this address.
    ``ready`` is called with the address to open, which includes the token if one was generated. ``wrapped`` puts other
    applications around this one. Except on loopback a token is always required; if none is given, one is generated.
    Raises :class:`InputError` if a library is missing, the address does not belong to this machine, or the port is
    taken.
    """
    uvicorn_server = _library()
    from softib.web.app import app_of

    local = is_loopback(host)
    secret = token if token is not None or local else new_token()
    listener = listener or listen(host, port)
    names = frozenset({"localhost", "127.0.0.1", "::1", host}) if local else frozenset()
    server = uvicorn_server(wrapped(Access(app_of(served), secret, names)), tls)
    try:
        served.refresh()
    except BaseException:
        listener.close()
        raise
    reader = threading.Thread(target=served.run, name="softib-serve-refresh", daemon=True)
    reader.start()
    shown = f"[{host}]" if ":" in host else host
    scheme = "http" if tls is None else "https"
    query = f"?token={secret}" if secret is not None and token is None else ""
    ready(f"{scheme}://{shown}:{listener.getsockname()[1]}/{query}")
    try:
        server.run(sockets=[listener])
    finally:
        served.stop()
        listener.close()
        reader.join(CLOSING_S)
        if not reader.is_alive():
            served.close()


def _library() -> Callable[[Any, Tls | None], Any]:
    try:
        import fastapi  # noqa: F401
        import uvicorn

        from softib.web.connections import BACKLOG, bounded_protocol
    except ImportError as error:
        raise InputError(f"softib serve needs {error.name}; {install_command('serve')}") from None

    class Server(uvicorn.Server):
        """A server that ends cleanly on a signal; uvicorn's own server would raise the signal again after
        everything is closed."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            in_main = threading.current_thread() is threading.main_thread()
            before = {s: signal.signal(s, self.handle_exit) for s in ENDS} if in_main else {}
            try:
                yield
            finally:
                for which, handler in before.items():
                    signal.signal(which, handler)

    def server(app: Any, tls: Tls | None) -> Server:
        secured = {} if tls is None else tls.options()
        return Server(
            uvicorn.Config(
                app,
                http=bounded_protocol() if tls is None else tls.protocol(bounded_protocol()),
                backlog=BACKLOG,
                log_level="warning",
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=int(CLOSING_S),
                **secured,
            )
        )

    return server


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this address, before anything is created for the server. Raises
    :class:`InputError` like :func:`serve`.
    """
    _library()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot serve on {host}:{port}: {os_reason(error)}; choose another --host or --port (0: a free one)"
        ) from None
    listener.listen(128)
    return listener
