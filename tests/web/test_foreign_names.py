"""Names from devices, jobs and schedulers that command a terminal or a browser: no answer of the server and no screen of ``softib top`` carries them raw, and all are short."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")

from softib.analysis.jobs.files import read_jobs
from softib.fabric.columns import CableMedium
from softib.web.app import app_of
from tests.monitor.lab import port_of
from tests.web.client import Client
from tests.web.watched import Watched

EVIL = "\x1b[31mE\x1b]0;pwned\x07‮t⁦\x9b1m​x\x7f<img src=x onerror=alert(1)></script>"
LONG = "a" * 120_000


def unsafe(value: object, path: str = "") -> list[str]:
    """Where in a document a text is that is not printable or too long."""
    if isinstance(value, str):
        return [] if value.isprintable() and len(value) <= 1000 else [f"{path}: {value[:80]!r}"]
    if isinstance(value, dict):
        return [w for k, v in value.items() for w in (*unsafe(k, path), *unsafe(v, f"{path}.{str(k)[:30]}"))]
    return [w for i, v in enumerate(value) for w in unsafe(v, f"{path}[{i}]")] if isinstance(value, list) else []


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A fabric of eight hosts, every device of which is hostile, that runs, loses a cable and has bad jobs."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        watched = Watched(monkeypatch)
        f = watched.fabric
        bad = EVIL.encode()[:56]
        for node in range(f.sizes.nodes):
            text = bad + (b"%d" % node)
            f.node_desc[node] = 0
            f.node_desc[node][: len(text)] = np.frombuffer(text, np.uint8)
        f.node_psid[:, :3] = np.frombuffer(b"\x1b[m", np.uint8)
        f.cable_medium[:] = CableMedium.MULTIMODE
        from softib.agents.plane import AgentPlane

        watched.wire.plane = AgentPlane(f)
        f.module_info[port_of(f, f.node_name(0), 1)][20:68] = np.frombuffer((b"\x1b]0;x\x07<b>\x9b" * 9)[:48], np.uint8)
        names = f.node_names()
        jobs = tmp_path_factory.mktemp("jobs") / "jobs.json"
        one = {"name": EVIL + LONG, "job_id": 1, "user_name": EVIL + LONG, "job_state": ["RUNNING"], "nodes": "x"}
        jobs.write_text(json.dumps({"jobs": [one, one | {"job_id": 2, "name": LONG}]}))
        watched.served.jobs = str(jobs)
        for _ in range(3):
            watched.round(20.0)
            watched.add(port_of(f, names[1], 2), "symbol_error_counter", 5000)
        watched.broken = f"{EVIL}{LONG}"
        yield watched, jobs


def test_no_answer_of_rest_carries_them(hostile):
    watched, _ = hostile
    get = Client(app_of(watched.served)).get
    guid = f"{int(watched.fabric.node_guid[1]):#018x}"
    paths = [
        "fabric",
        "nodes?limit=1000",
        "ports?limit=1000",
        f"ports?node={guid}",
        f"counters?node={guid}",
        "links",
        "down",
        "findings",
        "jobs",
        "shared-links",
        "map",
        "times",
        "values?by=findings",
        "values?by=jobs",
        "search?q=E",
        f"history?node={guid}&portnum=2",
        "port-errors",
        "modules",
        "events",
    ]
    for path in paths:
        code, document = get(f"/api/v1/{path}")
        assert code == 200 and unsafe(document, path) == [], (path, unsafe(document, path)[:3])
    assert set(app_of(watched.served).openapi()["paths"]) == {f"/api/v1/{p.partition('?')[0]}" for p in paths} | {
        "/api/v1/path"
    }
    assert len(get("/api/v1/nodes")[1]["rows"]) == 14 and len(get("/api/v1/jobs")[1]["rows"]) == 2


@pytest.mark.parametrize(
    "path",
    [
        "ports?node={}",
        "path?a={}&b={}",
        "port-errors?sort={}",
        "values?job={}&by=jobs",
        "history?node={}&portnum=1",
        "nodes?type={}",
        "events?kind={}",
        "nodes?at={}",
        "nothing{}",
    ],
)
def test_no_refusal_repeats_them_raw(hostile, path):
    from urllib.parse import quote

    watched, _ = hostile
    get = Client(app_of(watched.served)).get
    for text in (EVIL, EVIL[:30], LONG[:3000]):
        code, document = get(f"/api/v1/{path.replace('{}', quote(text))}")
        assert code in (404, 409, 422) and unsafe(document) == [] and len(document["detail"]) <= 1000


def test_a_source_that_fails_with_a_hostile_word_is_one_line(hostile):
    watched, _ = hostile
    watched.wire.exchange = lambda outbox=None: watched.open()
    watched.round(2.0)
    document = watched.get("fabric")
    assert document["problem"] and unsafe(document) == [] and unsafe(watched.get("values")) == []
    assert unsafe(watched.get("events?kind=source")) == []


def test_no_screen_of_top_carries_them(hostile):
    from rich.console import Console

    from softib.render.top import VIEWS, top_screen

    watched, jobs = hostile
    watch = watched.collector.watch
    if watch is None:  # the source failed in the test before
        del watched.wire.exchange
        watched.broken = ""
        watched.round(60.0)
        watched.add(3, "symbol_error_counter", 5000)
        watched.round(20.0)
        watch = watched.collector.watch
    watch.manager.reported = {
        "sm": {"node": EVIL + LONG, "state": EVIL, "engine": EVIL, "phase": EVIL, "problems": [EVIL + LONG]}
    }
    for order in VIEWS:
        for width in (60, 200):
            out = io.StringIO()
            console = Console(file=out, width=width, height=40, force_terminal=False)
            console.print(top_screen(watch, order, 40, width, read_jobs(jobs), problem=EVIL + LONG))
            wrong = {c for c in out.getvalue() if not c.isprintable() and c != "\n"}
            assert not wrong, (order, wrong)
            assert max(map(len, out.getvalue().splitlines())) <= width
    assert "E" in out.getvalue()
