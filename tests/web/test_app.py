"""The REST interface says what the tables of ``softib`` say, in pages, and names what is wrong. Skips without FastAPI."""

from __future__ import annotations

import base64

import numpy as np
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
    clock = iter(range(1, 100))
    return Served("tree", lambda: _copy(result_of(fabric)), clock=lambda: float(next(clock)))


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


@pytest.mark.parametrize(("path", "status", "says"), [
    ("nodes?limit=1001", 422, "1000"), ("nodes?offset=-1", 422, "0"), ("nodes?type=toaster", 422, "switch"),
    ("ports?node=laef-1", 404, "leaf-1"), ("path?a=host-1&b=host-2", 409, "no running fabric"), ("search?q=", 422, "1"),
    ("history?node=leaf-1&portnum=99", 404, "no port 99"), ("values?by=colour", 422, "load"), ("nothing", 404, "Not Found"),
])  # fmt: skip
def test_what_is_wrong_is_named(ask, path, status, says):
    assert says in str(ask(path, status)["detail"])


def test_search_finds_names_and_guids(ask, fabric):
    guid = fabric.nodes["guid"][3]
    assert ask(f"search?q={guid}")["rows"][0]["name"] == fabric.nodes["name"][3]
    assert ask("search?q=leaf-2")["rows"][0]["name"] == "leaf-2"
    assert ask("search?q=zzz")["rows"] == []


def test_values_are_those_of_the_busiest_port_of_an_edge(fabric):
    result = _copy(result_of(fabric))
    clock = iter(range(1, 100))
    served = Served("tree", lambda: _copy(result), clock=lambda: float(next(clock)))
    ask = Client(app_of(served)).get
    assert set(base64.b64decode(ask("/api/v1/values")[1]["value"])) == {0}
    port = int(np.flatnonzero(result.fabric.linked)[0])
    result.fabric.counters["port_xmit_data"][port] += np.uint64(1 << 60)
    served.refresh()
    value = base64.b64decode(ask("/api/v1/values")[1]["value"])
    assert [i for i, v in enumerate(value) if v] == [int(served.now.map.edge_of_port[port])] and max(value) == 255


def test_a_cable_that_goes_makes_a_new_map_and_findings(fabric):
    result = _copy(result_of(fabric))
    clock = iter(range(1, 100))
    served = Served("tree", lambda: _copy(result), clock=lambda: float(next(clock)))
    ask = Client(app_of(served)).get
    before = ask("/api/v1/fabric")[1]
    assert before["findings"] == 0
    from softib.fabric.plugging import delete_cables

    f = result.fabric
    between = f.is_switch[f.port_node[f.cable_port]].all(axis=1)
    delete_cables(f, np.flatnonzero(between)[:1])
    served.refresh()
    after = ask("/api/v1/fabric")[1]
    assert after["drawn"] == before["drawn"] + 1 and after["version"] > before["version"]
    assert "missing-cable" in [f["code"] for f in ask("/api/v1/findings")[1]["rows"]]
    marked = base64.b64decode(ask("/api/v1/values?by=findings")[1]["node"])
    assert max(marked) == 2  # warning


def test_a_source_that_is_gone_leaves_the_last_reading_with_the_reason(fabric):
    answers = [_copy(result_of(fabric))]

    def read():
        if not answers:
            raise softib.PeerError("the daemon has ended")
        return answers.pop()

    served = Served("tree", read)
    served.refresh()
    assert served.refresh().problem == "the daemon has ended" and served.now.fabric.sizes.switches == fabric.switches


def test_every_operation_is_in_openapi_and_is_a_get(served):
    document = app_of(served).openapi()
    assert set(document["paths"]) == {f"/api/v1/{p}" for p in (
        "fabric", "nodes", "ports", "counters", "links", "findings", "path", "search", "history", "map", "values", "times")}  # fmt: skip
    for operations in document["paths"].values():
        assert set(operations) == {"get"} and operations["get"]["description"]
