"""The REST interface says what the tables of ``softib`` say, in pages, and names what is wrong. Skips without FastAPI."""

from __future__ import annotations

import base64
import subprocess
import sys
from contextlib import nullcontext

import pytest

import softib
from softib.api.fabric import result_of
from softib.api.web import _copy

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")

from softib.web.app import app_of
from softib.web.served import Served
from tests.web.client import Client


@pytest.fixture(scope="module")
def fabric():
    return softib.generate("fat-tree", radix=8, levels=2)


@pytest.fixture
def served(fabric):
    return Served("tree", lambda: _copy(result_of(fabric)), explain=lambda f, a, b: {})


@pytest.fixture
def ask(served):
    client = Client(app_of(served))

    def get(path: str, status: int = 200):
        code, document = client.get(f"/api/v1/{path}")
        assert code == status, document
        return document

    return get


def test_counts_are_those_of_the_fabric(ask, fabric):
    told = ask("fabric")
    assert (told["switches"], told["hosts"], told["cables"]) == (fabric.switches, fabric.hosts, fabric.cables)
    assert told["name"] == "tree" and told["running"] is False


def test_pages_together_are_the_whole_table(ask, fabric):
    names, offset = [], 0
    while True:
        part = ask(f"nodes?offset={offset}&limit=7")
        names += [r["name"] for r in part["rows"]]
        offset += 7
        if not part["rows"]:
            break
    assert names == fabric.nodes["name"].to_list() and part["total"] == len(names)


def test_filters(ask):
    assert {r["type"] for r in ask("nodes?type=switch")["rows"]} == {"switch"}
    assert all(r["name"].startswith("leaf-1") for r in ask("nodes?prefix=LEAF-1")["rows"])
    assert {r["node"] for r in ask("ports?node=leaf-1")["rows"]} == {"leaf-1"}
    assert ask("counters?node=leaf-1")["total"] == 9  # port 0 too
    assert len(ask("links?limit=3")["rows"]) == 3


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("nodes?limit=1001", 422, "1000"),
        ("nodes?offset=-1", 422, "0"),
        ("nodes?type=toaster", 422, "switch"),
        ("ports?node=laef-1", 404, "leaf-1"),
        ("search?q=", 422, "1"),
        ("history?node=leaf-1&portnum=99", 404, "no port 99"),
        ("values?by=colour", 422, "load"),
        ("values?by=jobs&job=x", 200, None),
        ("values?at=-1", 422, "0"),
        ("history?node=leaf-1&portnum=1&since=later", 422, "number"),
        ("nothing", 404, "Not Found"),
    ],
)
def test_what_is_wrong_is_named(ask, path, status, says):
    document = ask(path, status)
    if says is not None:
        assert says in document["detail"] and "\n" not in document["detail"] and len(document["detail"]) < 400


def test_what_was_sent_is_not_sent_back(ask):
    assert ask(f"search?q={'a' * 5000}", 422)["detail"] == "q: must have at most 200 characters"


def test_what_is_served_without_a_report_says_so(served):
    code, told = Client(app_of(served)).get("/report")
    assert code == 404 and "has no report" in told["detail"]


def test_search_finds_names_and_guids(ask, fabric):
    guid = fabric.nodes["guid"][3]
    assert ask(f"search?q={guid}")["rows"][0]["name"] == fabric.nodes["name"][3]
    assert ask("search?q=leaf-2")["rows"][0]["name"] == "leaf-2"
    assert ask("search?q=zzz")["rows"] == []


def test_a_file_that_does_not_change_is_never_stale(ask):
    told = ask("fabric")
    assert told["stale"] is False and told["down"] == 0 and told["jobs"] is None and told["managers"] == []


def test_jobs_colour_what_they_use_and_share(fabric, tmp_path):
    file = tmp_path / "jobs.yaml"
    file.write_text("left: [host-0001, host-0005]\nright: [host-0002, host-0006]\nlone: [host-0009]\n")
    served = Served("tree", lambda: _copy(result_of(fabric)), jobs=str(file))
    ask = Client(app_of(served)).get
    rows = ask("/api/v1/jobs")[1]["rows"]
    on = softib.jobs_on(fabric, str(file))
    assert [r["job"] for r in rows] == ["left", "right", "lone"] and [r["colour"] for r in rows] == [1, 2, 3]
    assert rows[0]["shared_with"] == on.sharing("left")
    everything = ask("/api/v1/values?by=jobs")[1]
    value, node = (base64.b64decode(everything[k]) for k in ("value", "node"))
    names = ask("/api/v1/map")[1]["name"]
    assert {names[i]: v for i, v in enumerate(node) if v} == {
        "host-0001": 1,
        "host-0005": 1,
        "host-0002": 2,
        "host-0006": 2,
        "host-0009": 3,
    }
    edges = ask("/api/v1/map")[1]["edge"]

    def pairs(colours, wanted):
        return {frozenset((names[edges[2 * e]], names[edges[2 * e + 1]])) for e, v in enumerate(colours) if v == wanted}

    both = {
        frozenset(p.partition("[")[0] for p in (link["port"], link["peer"]))
        for link in ask("/api/v1/shared-links")[1]["rows"]
    }
    assert pairs(value, 255) >= both and frozenset(("host-0001", "leaf-1")) in pairs(value, 1)
    alone = base64.b64decode(ask("/api/v1/values?by=jobs&job=right")[1]["value"])
    assert pairs(alone, 1) == set() and pairs(alone, 2) == pairs(value, 2)
    assert "left" in ask("/api/v1/values?by=jobs&job=lfet")[1]["detail"]
    # Whoever writes the file anew sees it; a file that is none is the problem of the moment.
    file.write_text("lone: [host-0009]\n")
    import os

    os.utime(file, (1, 1))
    served.refresh()
    assert [r["job"] for r in ask("/api/v1/jobs")[1]["rows"]] == ["lone"]
    file.write_text("7")
    os.utime(file, (2, 2))
    served.refresh()
    assert "contains no jobs" in ask("/api/v1/fabric")[1]["problem"]
    assert [r["job"] for r in ask("/api/v1/jobs")[1]["rows"]] == ["lone"]


def test_every_operation_is_in_openapi_and_is_a_get(served):
    document = app_of(served).openapi()
    assert set(document["paths"]) == {f"/api/v1/{p}" for p in (
        "fabric", "nodes", "ports", "counters", "links", "down", "findings", "path", "search", "history", "jobs", "shared-links", "map", "values", "times", "port-errors", "modules", "events")}  # fmt: skip # a packed list of short values
    for operations in document["paths"].values():
        assert set(operations) == {"get"} and operations["get"]["description"]


ASKED = (
    "fabric",
    "nodes",
    "ports",
    "counters",
    "links",
    "down",
    "findings",
    "search?q=leaf",
    "history?node=leaf-1&portnum=1",
    "jobs",
    "shared-links",
    "map",
    "values",
    "values?by=findings",
    "times",
    "port-errors",
    "modules",
    "events",
)  # path: where tables are


def valid(jsonschema, app, asked):
    """The answer, as OpenAPI's schema has it: no key more, none less."""
    code, answer = Client(app).get(f"/api/v1/{asked}")
    document = app.openapi()
    stated = document["paths"][f"/api/v1/{asked.partition('?')[0]}"]["get"]
    schema = stated["responses"]["200"]["content"]["application/json"]["schema"]
    assert code == 200 and "$ref" in schema, asked
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(answer)
    return answer


def test_every_answer_is_what_openapi_says(fabric, tmp_path, jsonschema):
    """Oracle: jsonschema, with the schema as a client of the interface gets it."""
    (tmp_path / "jobs.yaml").write_text("left: [host-0001, host-0005]\nright: [host-0002, host-0006]\n")
    app = app_of(Served("tree", lambda: _copy(result_of(fabric)), jobs=str(tmp_path / "jobs.yaml")))
    for asked in ASKED:
        answer = valid(jsonschema, app, asked)
        if asked in ("nodes", "ports", "counters", "links", "jobs", "search?q=leaf"):
            assert answer["rows"], asked


def test_the_root_of_the_interface_lists_every_path(served):
    app = app_of(served)
    code, document = Client(app).get("/api/v1")
    assert code == 200 and document["openapi"] == "/api/openapi.json"
    assert set(document["paths"]) == set(app.openapi()["paths"]) and all(document["paths"].values())


def test_a_path_is_the_one_that_the_tables_have(jsonschema):
    """Hop by hop the forwarding tables of the fabric, walked here; a name that is not there is 404 with the near ones."""
    from softib.api.web import _explain_at_rest

    routed = softib.bring_up(softib.generate("fat-tree", radix=4, levels=2)).fabric
    f = result_of(routed).fabric
    app = app_of(Served("routed", lambda: _copy(result_of(routed)), explain=_explain_at_rest(routed)))
    client = Client(app)
    names = [n for n, switch in zip(f.node_names(), f.is_switch, strict=True) if not switch]
    code, told = client.get(f"/api/v1/path?a={names[0]}&b={names[-1]}")
    assert code == 200, told
    assert valid(jsonschema, app, f"path?a={names[0]}&b={names[-1]}") == told
    at = next(p for p in range(f.sizes.ports) if f.node_name(int(f.port_node[p])) == names[0] and f.port_peer[p] >= 0)
    end = next(p for p in range(f.sizes.ports) if f.node_name(int(f.port_node[p])) == names[-1] and f.port_peer[p] >= 0)
    walked = [(names[0], int(f.port_num[at]))]
    while (node := int(f.port_node[f.port_peer[at]])) != int(f.port_node[end]):
        out = int(f.lft[f.switch_of_node[node], f.lid[end]])
        walked.append((f.node_name(node), out))
        at = f.port(node, out)
    assert [(h["node"], h["out_port"]) for h in told["hops"]] == walked and len(walked) == 4
    assert client.get(f"/api/v1/path?a={names[0]}&b=nobody")[0] == 404


def test_a_file_is_routed_when_a_path_is_asked_for(fabric):
    """The page of a file answers as ``softib path`` does."""
    from softib.api.web import _served

    served = _served(fabric, 1.0, 0, lambda text: None, lambda phase: nullcontext())
    client = Client(app_of(served))
    names = sorted(fabric.nodes["name"].to_list())
    code, told = client.get(f"/api/v1/path?a={names[0]}&b={names[1]}")
    assert code == 200 and not told["ended"] and client.get("/api/v1/fabric")[1]["paths"]
    found = softib.route(fabric).path(names[0], names[1])
    assert [h["out_port"] for h in told["hops"]] == [h.out_port for h in found.hops]


def test_no_warning_of_the_framework_is_printed():
    """FastAPI's own filter may be lost, because another thread leaves catch_warnings; here it is never set."""
    program = (
        "import warnings, softib.web.server\n"
        "warnings.simplefilter = lambda *words, **named: None\n"
        "from softib.web.app import app_of\n"
        "app_of(None)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
