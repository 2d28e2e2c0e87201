"""UFM's ``app/syslog``: the log of the service and the monitor's events, sent to a syslog server. The setting survives
a restart."""

from __future__ import annotations

import json
import logging
import logging.handlers
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field, ValidationError

from softib.errors import InputError, os_reason
from softib.input_files import json_document
from softib.tenants.service import TenantService
from softib.web.events import Event
from softib.web.served import Served
from softib.web.ufm.authority import operator_of
from softib.whole_files import write_text

__all__ = ["add_syslog_calls"]

FILE = "syslog.json"
LOG = logging.getLogger("softib.tenants")
EVENTS = logging.getLogger("softib.tenants.events")
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
"""Maps the severity of an event to a logging level."""


class _Syslog(BaseModel):
    active: bool = False
    destination: Annotated[str, Field(max_length=255)] = "127.0.0.1:514"
    level: Literal["CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG"] = "WARNING"
    ufm_log: bool = False
    events_log: bool = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port. Raises :class:`InputError`."""
        host, colon, port = self.destination.rpartition(":")
        if not colon or not host.strip("[]") or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise InputError(f"destination {self.destination[:64]!r} is not valid; use HOST:PORT of a UDP port")
        return host.strip("[]"), int(port)


class _Sender:
    """Sender of the logs and events that ``setting`` selects."""

    def __init__(self, served: Served):
        self.served, self.setting = served, _Syslog()
        self._handler: logging.Handler | None = None

    def use(self, setting: _Syslog) -> None:
        """Apply ``setting``. Raises :class:`InputError` if its destination cannot be used."""
        handler: logging.Handler | None = None
        if setting.active:
            try:
                handler = logging.handlers.SysLogHandler(setting.address)
            except OSError as error:
                raise InputError(f"destination {setting.destination[:64]!r}: {os_reason(error)}") from None
            handler.setLevel(setting.level)
            handler.setFormatter(logging.Formatter("softib: %(levelname)s: %(message)s"))
            handler.handleError = lambda record: None  # type: ignore[method-assign]  # a lost datagram is no event
        for log in (LOG, EVENTS):
            if self._handler is not None:
                log.removeHandler(self._handler)
        if self._handler is not None:
            self._handler.close()
        self._handler, self.setting = handler, setting
        EVENTS.propagate = False
        if handler is not None and setting.ufm_log:
            LOG.addHandler(handler)
        if handler is not None and setting.events_log:
            EVENTS.setLevel(logging.DEBUG)
            EVENTS.addHandler(handler)
        self.served.events.listener = self._event if handler is not None and setting.events_log else None

    @staticmethod
    def _event(event: Event) -> None:
        EVENTS.log(LEVELS[event.severity], "%s: %s", event.kind, event.text)


def add_syslog_calls(app: FastAPI, served: Served, service: TenantService) -> None:
    """Add the calls to ``app``, and restore the setting of an earlier process."""
    path, sender = service.folder / FILE, _Sender(served)
    if path.exists():
        sender.use(_read(path))

    @app.get("/app/syslog")
    def syslog(request: Request) -> dict[str, Any]:
        """The setting."""
        operator_of(request, ("admin", "operator", "viewer"))
        return sender.setting.model_dump()

    @app.put("/app/syslog")
    def put_syslog(request: Request, body: _Syslog) -> dict[str, Any]:
        """Send the log (``ufm_log``) and the events (``events_log``) of at least a given level to
        ``destination``, by UDP."""
        operator_of(request, ("admin",))
        sender.use(body)
        write_text(path, json.dumps(body.model_dump()) + "\n")
        return {}


def _read(path: Path) -> _Syslog:
    try:
        return _Syslog.model_validate(json_document(path, "setting of syslog", "remove it"))
    except ValidationError:
        raise InputError(f"{path}: not a file of syslog settings; remove it") from None
