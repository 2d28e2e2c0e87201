"""The REST interface (``/api/v1``, OpenAPI at ``/api/openapi.json``) and the page that uses it.
Names are the same as on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

from softib import __version__
from softib.analysis import columns
from softib.errors import SoftibError, broken_rule
from softib.web.access import policy_of
from softib.web.answers import answers_of
from softib.web.events import Kind
from softib.web.jobs_on_map import colour_of
from softib.web.map_json import By, down_document, map_document, values_document
from softib.web.now import Now
from softib.web.rows import LAST, MOST, all_times, arranged, counters_of, page, page_of, port_history, thinned
from softib.web.served import Served

__all__ = ["STATIC", "VENDOR", "app_of"]

STATIC = Path(__file__).parent / "static"
VENDOR = STATIC / "vendor"
"""Libraries that draw the map. They are downloaded from a package index at setup (``make web``), and are not part
of the repository."""

Offset = Annotated[int, Query(ge=0, description="rows to skip")]
Limit = Annotated[int, Query(ge=1, le=MOST, description="rows of the answer")]
Clock = Annotated[float, Query(ge=0, le=LAST, description="clock time, seconds since 1970")]
Search = Annotated[str, Query(max_length=200, description="rows in which a text contains this")]
Sort = Annotated[str, Query(max_length=40, description="column to sort by; -NAME: the largest first")]
NodeName = Annotated[str, Query(description="name or GUID of a node; NODE:PORT for a port")]


def app_of(served: Served) -> FastAPI:
    """Return the application; access is controlled by :class:`softib.web.access.Access`."""
    app = FastAPI(
        title="softib",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses={
            422: {"model": Refusal, "description": "An invalid parameter"},
            404: {"model": Refusal, "description": "Nothing of that name, or of that time"},
        },
        description=(
            "One InfiniBand fabric: nodes, ports, links, counters, findings, history, paths, jobs. Nothing can be "
            "changed through it."
        ),
    )
    app.exception_handler(RequestValidationError)(_one_line)
    _tables(app, served)
    _sorted_tables(app, served)
    _answers(app, served)
    _pages(app, served)
    return app


class Refusal(BaseModel):
    """The content of every answer except 200."""

    detail: str
    """The error, in one line."""


async def _one_line(request: Request, error: Exception) -> JSONResponse:
    """Return the answer to an invalid parameter. Its ``detail`` has the parameter's name and the permitted values, but
    not the received value.
    """
    assert isinstance(error, RequestValidationError)
    wrong = "; ".join(f"{e['loc'][-1]}: {broken_rule(e)}" for e in error.errors())
    return JSONResponse({"detail": wrong}, 422)


def _fabric_document(served: Served) -> dict[str, Any]:
    now = served.now
    f, watch = now.fabric, None if served.collector is None else served.collector.watch
    managers = (
        []
        if watch is None
        else [
            {
                "guid": f"{m.guid:#018x}",
                "lid": m.lid,
                "state": m.state,
                "priority": m.priority,
                "answers": m.answers,
                "stalled": m.stalled,
            }
            for m in list(watch.manager.managers.values())
        ]
    )
    return {
        "name": served.name,
        "switches": f.sizes.switches,
        "hosts": int(f.is_host.sum()),
        "cables": f.sizes.cables,
        "time": now.time_s,
        "version": now.version,
        "age_s": round(served.age_s, 3),
        "stale": served.stale,
        "drawn": now.drawn,
        "problem": now.problem,
        "rates": columns.rate_counts(f),
        "findings": len(now.findings),
        "down": len(now.seen.down) + len(now.seen.removed),
        "jobs": None if now.jobs is None else len(now.jobs.table),
        "managers": managers,
        "manager": None if watch is None else watch.manager.reported.get("sm"),
        "running": served.collector is not None,
        "paths": served.knows_paths,
        "events": served.events.number,
        "timed": served.collector is not None or served.past is not None,
    }


def _tables(app: FastAPI, served: Served) -> None:
    def then(at: float | None) -> Now:
        now: Now = _or_404(lambda: served.then(at))
        return now

    @app.get("/api/v1/fabric", responses=answers_of("fabric"))
    def fabric() -> dict[str, Any]:
        """The served fabric: counts, time and age of the last reading, and the state of its subnet manager."""
        return _fabric_document(served)

    @app.get("/api/v1/nodes", responses=answers_of("nodes"))
    def nodes(
        prefix: str = "",
        type: Literal["ca", "switch", "router"] | None = None,
        at: Clock | None = None,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> dict[str, Any]:
        """Devices whose name begins with ``prefix``."""
        table = then(at).nodes
        keep = [
            i
            for i, (n, t) in enumerate(zip(table["name"], table["type"], strict=True))
            if n.lower().startswith(prefix.lower()) and type in (None, t)
        ]
        return page(table, np.array(keep, np.int64), offset, limit)

    @app.get("/api/v1/ports", responses=answers_of("ports"))
    def ports(
        node: NodeName | None = None, at: Clock | None = None, offset: Offset = 0, limit: Limit = 100
    ) -> dict[str, Any]:
        """Ports, of one node or of all."""
        now = then(at)
        return page(now.ports, _rows_of(now, node), offset, limit)

    @app.get("/api/v1/counters", responses=answers_of("counters"))
    def counters(node: NodeName | None = None, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """PerfMgt counters of ports from the last round, null if no device answered: data in words
        of four bytes, wait in ticks, the other counters in events."""
        now = served.now
        return counters_of(now.fabric, now.reading, _rows_of(now, node), offset, limit)

    @app.get("/api/v1/links", responses=answers_of("links"))
    def links(at: Clock | None = None, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """Cables with both ends."""
        table = then(at).links
        return page(table, np.arange(len(table["node_a"])), offset, limit)

    @app.get("/api/v1/down", responses=answers_of("down"))
    def down(at: Clock | None = None, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """Missing cables and nodes that were read before, with the clock time at which they
        disappeared; the newest first."""
        return page_of(down_document(then(at)), offset, limit)

    @app.get("/api/v1/jobs", responses=answers_of("jobs"))
    def jobs(at: Clock | None = None, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """The jobs of ``--jobs`` that ran at ``at``. Each has its hosts, its cables, the jobs with which it shares
        links, the expected slowdown compared with running alone, and the number of its colour.
        """
        placed = then(at).jobs
        table = [] if placed is None else [{**one, "colour": colour_of(i)} for i, one in enumerate(placed.table)]
        return page_of(table, offset, limit)

    @app.get("/api/v1/shared-links", responses=answers_of("shared-links"))
    def shared_links(at: Clock | None = None, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """Links that two or more jobs may use. Links that most jobs may use come first."""
        placed = then(at).jobs
        return page_of([] if placed is None else placed.shared(), offset, limit)


def _sorted_tables(app: FastAPI, served: Served) -> None:
    def sorted_page(columns: Mapping[str, Any], q: str, sort: str, offset: int, limit: int) -> dict[str, Any]:
        try:
            return page(columns, arranged(columns, q, sort), offset, limit)
        except SoftibError as error:
            raise HTTPException(422, str(error)) from None

    @app.get("/api/v1/port-errors", responses=answers_of("port-errors"))
    def port_errors(
        q: Search = "", sort: Sort = "", at: Clock | None = None, offset: Offset = 0, limit: Limit = 100
    ) -> dict[str, Any]:
        """Ports with a cable, those with the worst errors first: increases of error counters in the last twenty
        minutes, their totals, and bit error ratios. Unknown values are null.
        """
        return sorted_page(_or_404(lambda: served.then(at)).errors, q, sort, offset, limit)

    @app.get("/api/v1/modules", responses=answers_of("modules"))
    def modules(
        q: Search = "", sort: Sort = "", at: Clock | None = None, offset: Offset = 0, limit: Limit = 100
    ) -> dict[str, Any]:
        """Modules and cables: vendor, part and serial number, length, temperature and optical
        power, if devices or the file report them."""
        return sorted_page(_or_404(lambda: served.then(at)).modules, q, sort, offset, limit)

    @app.get("/api/v1/events", responses=answers_of("events"))
    def events(
        kind: Kind | None = None,
        severity: Literal["info", "warning", "error"] | None = None,
        since: Clock = 0.0,
        until: Clock = LAST,
        q: Search = "",
        sort: Sort = "",
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> dict[str, Any]:
        """Events while the server was running, the newest first: ports that went down or came up,
        nodes, traps, sweeps, managers, findings that appeared or disappeared, and the source
        itself.
        """
        rows = [
            e.to_json()
            for e in served.events.all()
            if kind in (None, e.kind) and severity in (None, e.severity) and since <= e.time_s <= until
        ]
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        return sorted_page(columns, q, sort, offset, limit)


def _answers(app: FastAPI, served: Served) -> None:
    @app.get("/api/v1/findings", responses=answers_of("findings"))
    def findings(at: Clock | None = None, offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """The findings of ``softib check`` about cables and tables, and of ``softib diagnose`` about the counters in
        the twenty minutes before ``at``. The most severe come first.
        """
        return page_of(_or_404(lambda: served.then(at)).findings, offset, limit, lambda f: f.to_json())

    @app.get("/api/v1/path", responses=answers_of("path"))
    def path(a: NodeName, b: NodeName) -> dict[str, Any]:
        """The reason why packets from ``a`` to ``b`` take their path (``softib path``), according
        to the recorded tables, or for a file the tables of the default engine."""
        now = served.now
        explain = served.explain
        if explain is None or not served.knows_paths:
            raise HTTPException(409, f"{served.name} has no forwarding tables: no subnet manager has written them yet")
        return _or_404(lambda: explain(now.fabric, a, b))

    @app.get("/api/v1/search", responses=answers_of("search"))
    def search(q: Annotated[str, Query(min_length=1, max_length=200)], limit: Limit = 20) -> dict[str, Any]:
        """Nodes of the map whose name or GUID contains ``q``; those that begin with ``q`` come first."""
        now, wanted = served.now, q.lower()
        names = now.names
        guids = [f"{g:016x}" for g in now.seen.fabric.node_guid.tolist()]
        hits = [
            i
            for i, (n, g) in enumerate(zip(names, guids, strict=True))
            if wanted in n.lower() or wanted.removeprefix("0x") in g
        ]
        hits.sort(key=lambda i: (not names[i].lower().startswith(wanted), len(names[i]), names[i], i))
        return {
            "total": len(hits),
            "rows": [{"row": i, "name": names[i], "guid": f"0x{guids[i]}"} for i in hits[:limit]],
        }

    @app.get("/api/v1/history", responses=answers_of("history"))
    def history(
        node: NodeName,
        portnum: Annotated[int, Query(ge=0, le=255)],
        since: Clock = 0.0,
        until: Clock = LAST,
        limit: Limit = 1000,
    ) -> dict[str, Any]:
        """Load (share of the link), wait (share of time) and errors of one port at each stored
        time, at most ``limit`` times at even intervals; null if unknown."""
        now = served.now
        rows = _rows_of(now, node)
        port = next((r for r in rows.tolist() if int(now.fabric.port_num[r]) == portnum), None)
        if port is None:
            raise HTTPException(404, f"{node} has no port {portnum}")
        guid = int(now.fabric.node_guid[now.fabric.port_node[port]])
        return _or_404(lambda: port_history(served, guid, portnum, since, until, limit))


def _pages(app: FastAPI, served: Served) -> None:
    @app.get("/api/v1/map", responses=answers_of("map"))
    def fabric_map(at: Clock | None = None) -> dict[str, Any]:
        """The map, now or at the stored time ``at``: positions of nodes, and edges. It changes when ``drawn`` of
        ``/api/v1/values`` changes (a ``drawn`` below 0 belongs to a map of an earlier time).
        """
        return _or_404(lambda: map_document(served.then(at)))

    @app.get("/api/v1/values", responses=answers_of("values"))
    def values(by: By = "load", at: Clock | None = None, job: str | None = None) -> dict[str, Any]:
        """The values that colour the map's edges, now or at the stored time nearest to ``at``. With ``by=jobs``, the
        values show one ``job``, or all jobs.
        """
        return _or_404(
            lambda: {
                **values_document(served.then(at), served.sample(at), by, job),
                "age_s": round(served.age_s, 3),
                "stale": served.stale,
            }
        )

    @app.get("/api/v1/times", responses=answers_of("times"))
    def times(since: Clock = 0.0, until: Clock = LAST, limit: Limit = 1000) -> dict[str, Any]:
        """Clock times of the history, at most ``limit`` of them at even intervals."""
        clocks = _or_404(lambda: all_times(served, since, until))
        return {"total": len(clocks), "time": thinned(clocks, limit), "every_s": served.every_s}

    @app.get("/", include_in_schema=False)
    def index() -> HTMLResponse:
        return HTMLResponse((STATIC / "index.html").read_text(encoding="utf-8"))

    @app.get("/api/v1", include_in_schema=False)
    def interface() -> dict[str, Any]:
        """The paths below this one, each with a description of its answer; /api/openapi.json has their parameters."""
        stated = app.openapi()["paths"]
        return {"openapi": "/api/openapi.json", "paths": {path: one["get"]["summary"] for path, one in stated.items()}}

    @app.get("/report", include_in_schema=False)
    def report() -> HTMLResponse:
        """The page of ``softib report --html``, with the map in place of its drawing."""
        if served.report is None:
            raise HTTPException(404, f"{served.name} has no report")
        page = _or_404(served.report)
        return HTMLResponse(page, headers={"content-security-policy": policy_of(page)})

    @app.get("/labs", include_in_schema=False)
    @app.get("/labs/{number}", include_in_schema=False)
    def laboratory(request: Request, number: int | None = None) -> HTMLResponse:
        """The laboratories, or one of them, with an evaluation of the fields of its form. Nothing
        on this machine is changed: files are evaluated in a temporary folder."""
        if served.labs is None:
            raise HTTPException(404, "this server has no laboratories")
        make, given = served.labs, dict(request.query_params)
        return HTMLResponse(_or_404(lambda: make(number, given)))

    @app.get("/favicon.ico", include_in_schema=False)
    def icon() -> FileResponse:
        return FileResponse(STATIC / "icon.svg", media_type="image/svg+xml")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _rows_of(now: Now, node: str | None) -> np.ndarray:
    """Return the port rows of ``node``; without ``node``, those of all nodes."""
    f = now.fabric
    if node is None:
        return np.arange(f.sizes.ports)
    guid = node.removeprefix("0x").lower()
    since = next((t for g, t in now.seen.removed.items() if guid == f"{g:016x}"), None)
    if since is not None:
        raise HTTPException(
            404, f"{node} was last seen before {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC"
        )
    number = _or_404(lambda: now.finder.node(node))
    return np.fromiter(f.ports_of(number, port0=True), np.int64)


def _or_404(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except SoftibError as error:
        raise HTTPException(404, str(error)) from None
