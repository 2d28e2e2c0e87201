"""Ways to disable and enable a port: Set(PortInfo) from this host, or UFM's list of unhealthy
ports."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from softib.analysis.isolation import End
from softib.errors import InputError
from softib.foreign_text import NAME, shown
from softib.iba.constants import PhysState
from softib.input_files import read_text
from softib.live.umad_client.wire import MadWire
from softib.monitor.isolation import ports
from softib.plain_values import load_json

__all__ = ["Mads", "Means", "UfmList"]

CALL = "/app/unhealthy_ports"
ANSWER_S = 60.0
"""Maximum time in seconds for one answer of UFM."""
ANSWER_MOST = 65536
DONE_S = 30.0
"""Maximum time in seconds from UFM's answer until the port has the requested state."""
LOOKS_S = 0.5


class Means(Protocol):
    """One way to disable and enable ports of switches."""

    def disable(self, ends: Sequence[End]) -> tuple[End | None, str]:
        """Disable a cable. Return the disabled end and an empty text, or None and the reason for the failure."""

    def enable(self, end: End) -> str:
        """Enable a port. Return the reason for a failure, or an empty text."""


@dataclass(frozen=True)
class Mads:
    """Disables and enables ports with Set(PortInfo), as ibportstate does."""

    wire: MadWire

    def disable(self, ends: Sequence[End]) -> tuple[End | None, str]:
        """See :func:`~softib.monitor.isolation.ports.disable`."""
        return ports.disable(self.wire, ends)

    def enable(self, end: End) -> str:
        """See :func:`~softib.monitor.isolation.ports.enable`."""
        return ports.enable(self.wire, end)


@dataclass(frozen=True)
class UfmList:
    """UFM's list of unhealthy ports, through its REST interface. UFM disables and enables the ports; this host checks
    the result with MADs. ``url``: address of UFM, without a path; ``credentials``: a token, or ``NAME:PASSWORD``."""

    wire: MadWire
    url: str
    credentials: str

    def __post_init__(self) -> None:
        parts = _parts(self.url)
        if parts is None:
            raise InputError(f"UFM's address {shown(self.url, NAME)!r}: use https://HOST or https://HOST:PORT")
        if parts[0] == "http" and parts[1] not in ("localhost", "127.0.0.1", "::1"):
            raise InputError(f"{self.url}: credentials are sent only over TLS; use https://")

    @classmethod
    def from_file(cls, wire: MadWire, url: str, path: str) -> UfmList:
        """Create the client with the credentials in the first line of a file. Raises
        :class:`InputError` if the file has none."""
        text = (read_text(path, "file of UFM's credentials").splitlines() or [""])[0].strip()
        if not text or not text.isprintable():
            raise InputError(f"{path}: no credentials in its first line; use a token or NAME:PASSWORD")
        return cls(wire, url, text)

    def disable(self, ends: Sequence[End]) -> tuple[End | None, str]:
        """Add the first end of the cable that is a switch port to the list, and wait until an end of the cable is
        disabled."""
        before = ports.link_states(self.wire, ends)
        if not before:
            return None, "neither end is a switch port that answers"
        end = next(end for end in ends if end in before)
        if why := self._put(end, {"ports_policy": "UNHEALTHY", "action": "isolate"}):
            return None, why
        until = time.monotonic() + DONE_S
        while True:
            states = ports.link_states(self.wire, ends)
            disabled = [e for e, (_, phys) in states.items() if phys == PhysState.DISABLED]
            if disabled:
                return disabled[0], ""
            if time.monotonic() >= until:
                self._put(end, {"ports_policy": "HEALTHY"})
                return None, f"UFM accepted the port, but did not disable it within {DONE_S:g} s"
            time.sleep(LOOKS_S)

    def enable(self, end: End) -> str:
        """Remove the port from the list, and wait until it is enabled."""
        if why := self._put(end, {"ports_policy": "HEALTHY"}):
            return why
        until = time.monotonic() + DONE_S
        while True:
            state = ports.link_states(self.wire, [end]).get(end)
            if state is not None and state[1] != PhysState.DISABLED:
                return ""
            if time.monotonic() >= until:
                return f"UFM accepted the port, but did not enable it within {DONE_S:g} s"
            time.sleep(LOOKS_S)

    def _put(self, end: End, change: dict[str, str]) -> str:
        """Send one change of the list to UFM. Return the reason for a failure, or an empty text."""
        body = json.dumps({"ports": [f"{end[0]:016x}_{end[1]}"], **change}).encode()
        by_name = ":" in self.credentials
        prefix = "/ufmRest" if by_name else "/ufmRestV3"
        value = base64.b64encode(self.credentials.encode()).decode() if by_name else self.credentials
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Authorization": f"Basic {value}"}
        connection = self._connection()
        try:
            connection.request("PUT", prefix + CALL, body, headers)
            answer = connection.getresponse()
            text = answer.read(ANSWER_MOST).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"UFM at {self.url} does not answer: {shown(str(error) or type(error).__name__, NAME)}"
        finally:
            connection.close()
        return "" if 200 <= answer.status < 300 else f"UFM answers {answer.status}: {shown(_reason(text), NAME)}"

    def _connection(self) -> http.client.HTTPConnection:
        parts = _parts(self.url)
        assert parts is not None
        scheme, host, port = parts
        if scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=ANSWER_S)
        return http.client.HTTPSConnection(host, port, timeout=ANSWER_S, context=ssl.create_default_context())


def _parts(url: str) -> tuple[str, str, int | None] | None:
    """Return (scheme, host, port) of an address without a path; None for any other address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    plain = not (parts.username or parts.query or parts.fragment) and parts.path in ("", "/")
    return (
        (parts.scheme, parts.hostname, port) if plain and parts.scheme in ("http", "https") and parts.hostname else None
    )


def _reason(text: str) -> str:
    """Return the message in the body of an HTTP error."""
    try:
        document = load_json(text.encode())
    except ValueError:
        return text.strip() or "no reason"
    for key in ("detail", "message", "error", "title"):
        if isinstance(document, dict) and isinstance(document.get(key), str):
            return str(document[key])
    return text.strip()
