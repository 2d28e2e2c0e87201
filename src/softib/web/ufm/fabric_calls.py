"""UFM's calls for the content of the fabric: ports, systems, links."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Response

from softib.web.served import Served
from softib.web.ufm.fabric_rows import FabricRows, page_of

__all__ = ["Reading", "add_fabric_calls"]

Page = Annotated[int | None, Query(ge=1, le=1 << 31)]
PerPage = Annotated[int | None, Query(ge=1, le=1_000_000_000)]


class Reading:
    """The rows of the fabric as last read. They are updated after each reading."""

    def __init__(self, served: Served):
        self.served = served
        self._lock = threading.Lock()
        self._rows: FabricRows | None = None
        self._seen: FabricRows | None = None

    @property
    def rows(self) -> FabricRows:
        """Return the current rows."""
        now = self.served.now
        with self._lock:
            if self._rows is None or self._rows.now is not now:
                self._rows = FabricRows(now)
            return self._rows

    @property
    def seen(self) -> FabricRows:
        """All devices that were ever read, including devices that cannot be reached."""
        now = self.served.now
        with self._lock:
            if self._seen is None or self._seen.fabric is not now.seen.fabric:
                self._seen = FabricRows(replace(now, fabric=now.seen.fabric))
            return self._seen


def add_fabric_calls(app: FastAPI, reading: Reading) -> None:
    """Add the calls to ``app``."""

    @app.get("/resources/ports")
    def ports(
        response: Response,
        sys_type: str | None = None,
        active: bool | None = None,
        system: str | None = None,
        page_number: Page = None,
        rpp: PerPage = None,
    ) -> list[dict[str, Any]]:
        """All ports, or one page of ``rpp`` ports."""
        rows = reading.rows
        matches = rows.ports_where(sys_type, active, system)
        response.headers["X-Total-Count"] = str(len(matches))
        return page_of(matches, rows.port, page_number, rpp)

    @app.get("/resources/ports/{names}")
    def some_ports(names: str) -> list[dict[str, Any]]:
        """Ports by their names, separated by commas."""
        rows = reading.rows
        matches = [rows.find(name) for name in names.split(",")[:1000]]
        if None in matches:
            raise HTTPException(404, f"port {names.split(',')[matches.index(None)][:64]!r} does not exist")
        return [rows.port(row) for row in matches if row is not None]

    @app.get("/resources/systems")
    def systems(
        response: Response, type: str | None = None, ports: bool = False, page_number: Page = None, rpp: PerPage = None
    ) -> list[dict[str, Any]]:
        """Systems: switches and hosts."""
        rows = reading.rows
        matches = rows.systems_where(type)
        response.headers["X-Total-Count"] = str(len(matches))
        return page_of(matches, lambda node: rows.system(node, ports), page_number, rpp)

    @app.get("/resources/systems/{guid}")
    def one_system(guid: str, ports: bool = False) -> list[dict[str, Any]]:
        """One system."""
        rows = reading.rows
        node = rows.find_system(guid)
        if node is None:
            raise HTTPException(404, f"system {guid[:64]!r} does not exist")
        return [rows.system(node, ports)]

    @app.get("/resources/links")
    def links(
        response: Response, system: str | None = None, page_number: Page = None, rpp: PerPage = None
    ) -> list[dict[str, Any]]:
        """Links: cables with both ends."""
        rows = reading.rows
        cables = rows.cables
        if system is not None:
            ends = set(rows.ports_where(None, None, system).tolist())
            of = rows.fabric.cable_port[cables]
            cables = cables[[bool(ends & {int(a), int(b)}) for a, b in of]]
        response.headers["X-Total-Count"] = str(len(cables))
        return page_of(cables, rows.link, page_number, rpp)
