"""Debian's Prometheus scrapes ``softib exporter`` of a running fabric: our rules, treydock's published rules and every query of the dashboard evaluate, and what it scraped comes back as observations.

treydock's rules are not part of this project: ``SOFTIB_TREYDOCK_RULES`` names the file (``examples/infiniband.rules`` of treydock/infiniband_exporter).
"""

from __future__ import annotations

import importlib.resources
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

import softib as library
from softib.monitor.exporter.names import PORT_COUNTERS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus (Debian's package) is absent"),
]
PACKAGE = importlib.resources.files("softib.monitor")
TREYDOCK = Path(os.environ.get("SOFTIB_TREYDOCK_RULES", "/nonexistent"))
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: softib
    static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus:
    def __init__(self, folder: Path, target: str, rules: list[str]):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{s.getsockname()[1]}"
        (folder / "prometheus.yml").write_text(CONFIG.format(target=target, rules=", ".join(rules)))
        words = [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={self.url[7:]}",
        ]
        self.log = open(folder / "log", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)

    def get(self, path: str, **query: str):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=20) as answer:
            return json.load(answer)["data"]

    def ask(self, query: str) -> list[dict]:
        return self.get("query", query=query)["result"]

    def until(self, query: str, seconds: float = 60) -> list[dict]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                found = self.ask(query)
            except OSError:
                found = []
            if found:
                return found
            time.sleep(0.3)
        self.log.seek(0)
        raise AssertionError(f"{query} gave nothing\n{self.log.read()[-2000:]}")

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


@pytest.fixture
def server(softib, tmp_path, monkeypatch):
    softib.start("one.yaml", "--name", "one")
    monkeypatch.setenv("XDG_RUNTIME_DIR", softib.env["XDG_RUNTIME_DIR"])
    softib("fault", "ber", "leaf-1[3]", "1e-3")
    folder = tmp_path / "prometheus"
    folder.mkdir()
    rules = [str(PACKAGE / "rules" / "softib.rules.yaml")]
    if TREYDOCK.is_file():
        shutil.copy(TREYDOCK, folder / "treydock.rules")
        rules.append(str(folder / "treydock.rules"))
    with library.Exporter("one", library.ExporterOptions(every=1.0), port=0) as exporter:
        exporter.start()
        one = Prometheus(folder, f"127.0.0.1:{exporter.port}", rules)
        try:
            softib("sm", "sweep", "one")
            one.until("count_over_time(softib_up[1m]) > 6 and on() count(softib_sm_sweep_seconds)")
            yield one
        finally:
            one.close()


def test_a_real_server(server):
    assert server.ask("up")[0]["value"][1] == "1"
    # Every query of the dashboard has data.
    dashboard = json.loads((PACKAGE / "dashboards" / "softib-fabric.json").read_text())
    queries = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
    assert len(queries) > 20
    for variable in dashboard["templating"]["list"][1:]:
        queries = [q.replace(f"${variable['name']}", ".*") for q in queries]
    empty = [q for q in queries if not server.ask(q.replace("$__rate_interval", "30s"))]
    # Nothing is down on this fabric, and its cables are copper.
    nothing = (
        "softib_link_up",
        "softib_device_up",
        "softib_port_state",
        "bottomk(10, softib_module",
        "topk(10, softib_module",
    )
    assert [q for q in empty if not q.startswith(nothing)] == []
    # Our rules, and treydock's where they are: each evaluates without an error, and the ones about what we offer give samples.
    groups = server.get("rules")["groups"]
    bad = [(r["name"], r.get("lastError")) for g in groups for r in g["rules"] if r["health"] != "ok"]
    assert not bad
    recorded = {
        r["name"] for g in groups if g["name"].startswith("softib") for r in g["rules"] if r["type"] == "recording"
    }
    recorded -= {"softib:link_of_down_device"}  # nothing is down
    assert recorded and all(server.ask(f'{{__name__="{name}"}}') for name in recorded)
    # The bad cable fires, and what the server scraped comes back as observations.
    ratios = server.ask("softib_port_effective_ber > 0")
    assert len(ratios) == 2
    seen = library.observe(server.url, rounds=20, every=1.0).observations
    assert seen.intervals >= 4 and len(seen.ports) == 32 and (seen.ports.peer >= 0).all()
    lost = seen.total("port_fec_uncorrectable_block_ctr")
    assert (lost > 0).sum() == 2 and "leaf-1" in {seen.ports.node[i] for i in lost.nonzero()[0].tolist()}
    assert set(seen.ports.rate_gbps.tolist()) == {200.0}


def test_the_server_is_the_history_of_a_slider(server):
    """``softib serve one --history http://…``: times, loads, errors and the map of each, under the NodeGUIDs of the fabric."""
    pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
    from softib.web.past_server import PastServer

    time.sleep(45)  # errors are told by steps of 15 s, of which there must be two
    past = PastServer(server.url)
    times = past.times()
    assert len(times) >= 1 and times == sorted(times)
    sample = past.at(times[-1])
    assert (
        sample is not None
        and len(sample.guid) == 32
        and (sample.load >= 0).sum() == 32
        and (sample.wait >= 0).sum() == 32
    )
    assert sample.errors.astype(int).sum() > 0 and (sample.errors > 0).sum() <= 4  # the planted cable's ends
    then = past.maps.at(times[-1])
    assert then is not None and len(then.map.edge) == 16 and then.drawn < 0 and past.maps.at(times[-1] - 1) is not None
    names = then.seen.fabric.node_names()
    assert {n for n in names if n.startswith("leaf")} == {"leaf-1", "leaf-2", "leaf-3", "leaf-4"}
    leaf = int(then.seen.fabric.node_guid[names.index("leaf-1")])
    told = past.of_port(leaf, 3, 0.0, 9e9)
    assert len(told) == 0 or all(load >= 0 for _, load, _, _ in told if load == load)


def test_every_counter_joins_the_names_as_treydock_s_rules_join_them(server):
    """The shape of its published rules, without the file: each counter of each port has one name of its cable's other end, so that ``group_left`` never meets two."""
    join = "rate({}[1m]) * on(guid, port) group_left({}, uplink, uplink_port) infiniband_{}_uplink_info"
    for kind, name, ports in (("switch", "switch", 24), ("hca", "hca", 8)):
        for counter in (c.treydock for c in PORT_COUNTERS if "qp1_dropped" not in c.treydock):
            found = server.ask(join.format(f"infiniband_{kind}_port_{counter}_total", name, kind))
            assert len(found) == ports, (kind, counter, len(found))
            assert all(one["metric"]["uplink_port"] and one["metric"][name] for one in found)
    loaded = server.ask(
        "infiniband_switch_info * on(guid) group_right(switch) infiniband_switch_port_rate_bytes_per_second"
    )
    assert len(loaded) == 24 and {one["metric"]["switch"] for one in loaded} >= {"leaf-1", "leaf-4"}


@pytest.mark.skipif(not TREYDOCK.is_file(), reason="SOFTIB_TREYDOCK_RULES names no file")
def test_treydock_s_published_rules_have_data(server):
    time.sleep(3)
    groups = [g for g in server.get("rules")["groups"] if g["name"].startswith("infiniband-record")]
    names = {r["name"] for g in groups for r in g["rules"] if r["type"] == "recording"}
    # qp1_dropped is an optional counter that the devices of this fabric do not have (ClassPortInfo.CapabilityMask bit 15).
    wanted = {n for n in names if "qp1_dropped" not in n}
    assert len(wanted) > 60
    assert not [n for n in wanted if not server.ask(f'{{__name__="{n}"}}')]
    metrics = {m for g in groups for r in g["rules"] for m in re.findall(r"infiniband_\w+", r["query"])}
    assert all(server.ask(m) for m in metrics if "qp1_dropped" not in m)
