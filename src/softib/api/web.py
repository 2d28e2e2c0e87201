"""Serve a fabric to browsers and REST clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from softib.api.fabric import Fabric, result_of
from softib.api.progress import Notice, Steps, unwatched
from softib.errors import InputError
from softib.source import warn

if TYPE_CHECKING:
    from softib.fabric.formats.base import ReadResult
    from softib.monitor.opening import Opened
    from softib.web.collector import Collector
    from softib.web.past import Past
    from softib.web.past_server import PastServer
    from softib.web.ports_seen import PortsSeen
    from softib.web.served import Served

__all__ = ["prepared", "serve"]

LEAST_S, MOST_S = 0.2, 3600


def serve(
    source: str | os.PathLike[str] | Fabric,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    every: float = 2.0,
    jobs: str | os.PathLike[str] | None = None,
    history: str | os.PathLike[str] | None = None,
    ready: Callable[[str], None] | None = None,
    notice: Notice = warn,
    steps: Steps = unwatched,
) -> None:
    """Serve ``source`` to browsers and REST clients until Ctrl-C: a running fabric or
    ``umad:DEVICE``, whose counters are read with MADs every ``every`` seconds; or a file or
    :class:`Fabric`, which is read once.

    ``port``: default 8470; 0 selects a free port. On loopback, all users of this machine have
    access unless a ``token`` is given. On any other ``host`` a token is required, and is generated
    if none is given. ``jobs``: a file for :func:`jobs_on`, which is read again when it changes.
    ``history``: a directory of ``softib exporter --history``, or ``http://HOST:9090`` of a
    Prometheus server, for the time before the start. ``ready`` is called with the address to open;
    ``steps`` wraps the phases of the first reading. If ports answer only with the M_Key of their manager, set the
    environment variable ``SOFTIB_MKEY`` to it. It is read-only. Raises
    :class:`InputError` or a related error if the source, the jobs or the history cannot be read, if the extra
    ``serve`` is not installed, or if the address is in use; :class:`PeerError` if there is no answer.
    """
    from softib.web.server import DEFAULT_PORT
    from softib.web.server import serve as run

    served = prepared(source, token, every, jobs, history, notice, steps)
    run(served, host, DEFAULT_PORT if port is None else port, token, ready or (lambda address: None))


def prepared(
    source: str | os.PathLike[str] | Fabric,
    token: str | None,
    every: float,
    jobs: str | os.PathLike[str] | None,
    history: str | os.PathLike[str] | None,
    notice: Notice,
    steps: Steps = unwatched,
    mkey: int = 0,
) -> Served:
    """Return a source of :func:`serve` with its arguments checked, before it is read. ``mkey``: the M_Key of the
    subnet's manager."""
    if not LEAST_S <= every <= MOST_S:
        raise InputError(f"every={every:g} is out of range; use {LEAST_S:g} to {MOST_S:g} seconds")
    if token is not None and len(token) < 16:
        raise InputError("the token is too short; use at least 16 characters")
    served = _served(source, every, mkey, notice, steps)
    if jobs is not None:
        served.jobs = os.fspath(jobs)
        from softib.analysis.jobs.files import read_jobs

        read_jobs(served.jobs)
    if history is not None:
        served.past = _past(os.fspath(history), served)
    served.report = _report(source)
    served.labs = _labs()
    return served


def _labs() -> Callable[[int | None, Mapping[str, str]], str]:
    """Return the pages of the laboratories. Pages are made one at a time, because a check takes seconds of
    processor time."""
    import threading

    lock = threading.Lock()

    def page(number: int | None, given: Mapping[str, str]) -> str:
        from softib.api.labs.page import lab_page

        with lock:
            return lab_page(number, given)

    return page


REPORT_S = 60.0
"""Age up to which a report is reused, because making one takes seconds (for large fabrics a minute)."""
MAP = "/?bare"
"""Address of the page that shows only the map."""


def _report(source: str | os.PathLike[str] | Fabric) -> Callable[[], str]:
    """Return the page of ``softib report`` with the server's map as its drawing; it is created on
    request, one at a time."""
    import threading
    import time
    from datetime import UTC, datetime

    lock, last_s, text = threading.Lock(), float("-inf"), ""

    def page() -> str:
        from softib.api.operations import report

        nonlocal last_s, text
        with lock:
            if time.monotonic() - last_s > REPORT_S:
                text = report(source).to_html(when=datetime.now(UTC), command="softib serve", live=MAP)
                last_s = time.monotonic()
            return text

    return page


def _past(history: str, served: Served) -> Past | PastServer:
    if history.startswith(("http://", "https://")):
        from softib.web.past_server import PastServer

        return PastServer(history, served.fabric)
    from softib.web.past import Past

    return Past(history)


def _served(source: str | os.PathLike[str] | Fabric, every: float, mkey: int, notice: Notice, steps: Steps) -> Served:
    from softib.monitor.opening import is_live, open_source
    from softib.source import load
    from softib.web.collector import Collector
    from softib.web.served import Served

    if isinstance(source, Fabric):
        result, name = result_of(source), source.name
        return Served(name, lambda: _copy(result), explain=_explain_at_rest(source), stated=_stated(source.source))
    name = os.fspath(source)
    if is_live(name) and (os.path.isdir(name) or not os.path.exists(name)):

        def opened() -> Opened:
            one = open_source(name, mkey or None)
            if one.other_subnets:
                notice(one.other_subnets)
            return one

        collector = Collector(name, opened)
        explain = _explain(name, _sl_of(name), collector)
        return Served(
            name,
            collector=collector,
            every_s=every,
            explain=explain,
            steps=steps,
        )
    result = load(name, [], None, notice=notice)
    explain = _explain_at_rest(Fabric(result, name))
    shown_name = result.fabric.name or os.path.basename(name)
    return Served(shown_name, lambda: _copy(result), explain=explain, stated=_stated(name))


def _stated(file: str) -> Callable[[ReadResult], PortsSeen]:
    """Return a function for the counters, modules and cables recorded in a file."""

    def stated(result: ReadResult) -> PortsSeen:
        from softib.monitor.files import snapshot_of
        from softib.web.ports_seen import PortsSeen

        shot = snapshot_of(result, file)
        return PortsSeen(shot.ports, shot.reading)

    return stated


def _explain_at_rest(fabric: Fabric) -> Callable[[Any, str, str], dict[str, object]]:
    """Return a function for paths in the fabric's tables; if there are none, the default engine computes tables at
    the first query."""
    import threading

    from softib.api.operations import route

    lock, routing = threading.Lock(), None

    def explained(_: Any, a: str, b: str) -> dict[str, object]:
        nonlocal routing
        with lock:
            routing = routing or route(fabric)
        return routing.path(a, b).to_json()

    return explained


Sl = Callable[[int, int], tuple[int, str]]


def _explain(name: str, sl_of: Sl, collector: Collector | None = None) -> Callable[[Any, str, str], dict[str, object]]:
    """Return a function that explains a path from the tables that were read."""

    def explained(fabric: Any, a: str, b: str) -> dict[str, object]:
        from softib.analysis.path_ends import ends_of
        from softib.analysis.path_explanation import explain

        ends = ends_of(fabric, a, b)
        watch = None if collector is None else collector.watch
        manager = {} if watch is None else watch.manager.reported.get("sm", {})
        engine = manager.get("engine_used") or manager.get("engine") or "unknown"
        return explain(fabric, ends, engine, *sl_of(*ends.lids(fabric))).to_json()

    return explained


def _no_sl(slid: int, dlid: int) -> tuple[int, str]:
    return 0, "assumed: no subnet administration was queried"


def _sl_of(name: str) -> Sl:
    """Return a function for SLs from a running fabric's subnet administration; a umad device is not queried."""

    def reported_sl(slid: int, dlid: int) -> tuple[int, str]:
        from softib.errors import PeerError
        from softib.live.instances import running
        from softib.live.sa_client import path_sl

        instance = next((i for i in running() if i.name == name), None)
        if instance is None:
            return _no_sl(slid, dlid)
        try:
            return path_sl(instance, slid, dlid), "from the subnet administration"
        except PeerError as error:
            return 0, f"assumed: {error}"

    return reported_sl


def _copy(result: ReadResult) -> ReadResult:
    """Return a copy of the reading of a source that does not change. Each caller gets a copy, because a check
    brings it up."""
    from dataclasses import replace

    return replace(result, fabric=result.fabric.copy())
