"""The REST interface (``/api/v1``, OpenAPI at ``/api/openapi.json``) and the page that uses it. Words are those of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, HTTPException, Query
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles

from softib import __version__
from softib.analysis import columns
from softib.errors import SoftibError
from softib.web.map_json import By, map_document, values_document
from softib.web.rows import MOST, page
from softib.web.served import Served

__all__ = ["STATIC", "VENDOR", "app_of"]

STATIC = Path(__file__).parent / "static"
VENDOR = STATIC / "vendor"
"""Libraries that draw the map, put there at setup from a package index (``make web``); no part of the repository."""

Offset = Annotated[int, Query(ge=0, description="rows to skip")]
Limit = Annotated[int, Query(ge=1, le=MOST, description="rows of the answer")]
NodeName = Annotated[str, Query(description="name or GUID of a node; NODE:PORT for a port")]


def app_of(served: Served) -> FastAPI:
    """The application; who may use it is :class:`softib.web.access.Access`'s business."""
    app = FastAPI(
        title="softib", version=__version__, openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,
        description="One InfiniBand fabric: nodes, ports, links, counters, findings, paths. Nothing can be changed through it.",
    )  # fmt: skip
    _tables(app, served)
    _answers(app, served)
    _pages(app, served)
    return app


def _tables(app: FastAPI, served: Served) -> None:
    @app.get("/api/v1/fabric")
    def fabric() -> dict[str, Any]:
        """What is served: counts, when it was read last, and what its subnet manager says."""
        now = served.now
        f = now.fabric
        return {
            "name": served.name, "switches": f.sizes.switches, "hosts": len(f.cas), "cables": f.sizes.cables, "time": now.time_s, "version": now.version,
            "drawn": now.drawn, "problem": now.problem, "rates": columns.rate_counts(f), "findings": len(now.findings),
            "manager": served.manager() if served.manager is not None else None, "running": served.explain is not None,
        }  # fmt: skip

    @app.get("/api/v1/nodes")
    def nodes(
        prefix: str = "", type: Literal["ca", "switch", "router"] | None = None, offset: Offset = 0, limit: Limit = 100
    ) -> dict[str, Any]:
        """Devices whose name begins with ``prefix``."""
        table = served.now.nodes
        keep = [
            i for i, (n, t) in enumerate(zip(table["name"], table["type"], strict=True))
            if n.lower().startswith(prefix.lower()) and type in (None, t)
        ]  # fmt: skip
        return page(table, np.array(keep, np.int64), offset, limit)

    @app.get("/api/v1/ports")
    def ports(node: NodeName | None = None, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """Ports, of one node or of all."""
        return page(served.now.ports, _rows_of(served, node), offset, limit)

    @app.get("/api/v1/counters")
    def counters(node: NodeName | None = None, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """PerfMgt counters of ports: data in words of four octets, wait in ticks, the rest in events."""
        return page(served.now.counters, _rows_of(served, node), offset, limit)

    @app.get("/api/v1/links")
    def links(offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """Cables with both ends."""
        table = served.now.links
        return page(table, np.arange(len(table["node_a"])), offset, limit)


def _answers(app: FastAPI, served: Served) -> None:
    @app.get("/api/v1/findings")
    def findings(offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """What ``softib check`` says of the fabric as it stands, worst first."""
        found = served.now.findings
        return {"total": len(found), "offset": offset, "rows": [f.to_json() for f in found[offset : offset + limit]]}

    @app.get("/api/v1/path")
    def path(a: NodeName, b: NodeName) -> dict[str, Any]:
        """Why packets from ``a`` to ``b`` take the path they take (``softib sm explain``)."""
        if served.explain is None:
            raise HTTPException(409, f"{served.name} is no running fabric: nobody programmed tables in it")
        return _or_404(lambda: served.explain(a, b))  # type: ignore[misc]

    @app.get("/api/v1/search")
    def search(q: Annotated[str, Query(min_length=1, max_length=200)], limit: Limit = 20) -> dict[str, Any]:
        """Nodes whose name or GUID contains ``q``, those that begin with it first."""
        names, wanted = served.now.nodes["name"], q.lower()
        guids = [f"{g:016x}" for g in served.now.fabric.node_guid.tolist()]
        found = [
            i
            for i, (n, g) in enumerate(zip(names, guids, strict=True))
            if wanted in n.lower() or wanted.removeprefix("0x") in g
        ]
        found.sort(key=lambda i: (not names[i].lower().startswith(wanted), len(names[i]), names[i], i))
        return {
            "total": len(found),
            "rows": [{"row": i, "name": names[i], "guid": f"0x{guids[i]}"} for i in found[:limit]],
        }

    @app.get("/api/v1/history")
    def history(node: NodeName, portnum: Annotated[int, Query(ge=0, le=255)]) -> dict[str, Any]:
        """Load (share of the link), wait (ticks) and errors of one port at each time that is kept."""
        rows = _rows_of(served, node)
        port = next((r for r in rows.tolist() if int(served.now.fabric.port_num[r]) == portnum), None)
        if port is None:
            raise HTTPException(404, f"{node} has no port {portnum}")
        samples = list(served.history.samples)
        return {
            "time": [s.time_s for s in samples], "load": [round(float(s.load[port]), 4) for s in samples],
            "wait": [int(s.wait[port]) for s in samples], "errors": [int(s.errors[port]) for s in samples],
        }  # fmt: skip


def _pages(app: FastAPI, served: Served) -> None:
    @app.get("/api/v1/map")
    def fabric_map() -> dict[str, Any]:
        """The map: places of nodes, and edges; it changes when ``drawn`` of ``/api/v1/values`` does."""
        return map_document(served.now)

    @app.get("/api/v1/values")
    def values(by: By = "load", at: float | None = None) -> dict[str, Any]:
        """What colours the edges of the map, now or at the kept time that is nearest to ``at``."""
        return values_document(served.now, served.history.at(at), by)

    @app.get("/api/v1/times")
    def times() -> dict[str, Any]:
        """Clock times of which the history is kept."""
        return {"time": served.history.times(), "every_s": served.every_s}

    @app.get("/", include_in_schema=False)
    def index() -> HTMLResponse:
        return HTMLResponse((STATIC / "index.html").read_text(encoding="utf-8"))

    @app.get("/favicon.ico", include_in_schema=False)
    def icon() -> FileResponse:
        return FileResponse(STATIC / "icon.svg", media_type="image/svg+xml")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _rows_of(served: Served, node: str | None) -> np.ndarray:
    """Port rows of a node, by its number; of all nodes without one."""
    now = served.now
    f = now.fabric
    if node is None:
        return np.arange(f.sizes.ports)
    found = _or_404(lambda: now.finder.node(node))
    return np.fromiter(f.ports_of(found, port0=True), np.int64)


def _or_404(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except SoftibError as error:
        raise HTTPException(404, str(error)) from None
