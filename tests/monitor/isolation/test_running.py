"""``softib isolate`` on running fabrics beside traffic. Oracles: perftest ends well, ibportstate and ibtracert of infiniband-diags show the
port and the paths; the planted fault."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.documents import check
from tests.live.serving import wait_for
from tests.preload.verbs.applications import FABRIC, A, Applications, B, C, stop

UPLINK = "leaf-1[3]"


pytestmark = [pytest.mark.stock, pytest.mark.slow]


@pytest.fixture(params=["internal", "opensm"])
def fabric(request, stock):
    if request.param == "internal":
        made = Applications(FABRIC)
        yield made
        made.close()
        return
    made = Applications(FABRIC, "--sm", "external")
    log = made.folder / "opensm.log"
    sm = made.begin(
        C,
        stock("opensm"),
        "-f",
        str(log),
        "-e",
        "-d2",
        "-s",
        "5",
        OSM_CACHE_DIR=str(made.folder),
        OSM_TMP_DIR=str(made.folder),
    )
    try:
        assert wait_for(lambda: log.is_file() and "SUBNET UP" in log.read_text(errors="replace"))
        yield made
    finally:
        stop(sm)
        made.close()


def ran(fabric, *words, code=0):
    done = subprocess.run(
        fabric.arguments(*words), env=fabric.env, cwd=fabric.folder, capture_output=True, text=True, timeout=300
    )
    assert code in (None, done.returncode), (words, done.stdout, done.stderr)
    return done.stdout


def physical_state(fabric, stock, port):
    node, number = re.fullmatch(r"(.*)\[(\d+)\]", port).groups()
    lid = next(
        int(m[1])
        for m in re.finditer(r"lid (\d+) lmc", ran(fabric, "run", "--node", A, "--", stock("ibswitches")))
        if f'"{node}"' in m.string[: m.start()].splitlines()[-1]
    )
    text = ran(fabric, "run", "--node", A, "--", stock("ibportstate"), str(lid), number, "query")
    return re.search(r"PhysLinkState:\.*(\w+)", text)[1]


def test_a_bad_cable_beside_traffic_is_isolated_and_comes_back(fabric, stock):
    """Shadow changes nothing; act disables one port; the manager routes around it; the job ends well; a second call keeps it; release."""
    name = fabric.status()["name"]
    quick = ("--rounds", "2", "--every", "1.5")
    assert "0 cables isolated" in ran(fabric, "isolate", name, *quick)
    fabric("fault", "ber", UPLINK, "1e-4")
    fabric("fault", "ber", f"{B}[1]", "1e-4")
    tcp = next(fabric.ports)
    words = (stock("ib_write_bw"), "-D", "20", "-F", "-p", str(tcp))
    server = fabric.begin(A, *words)
    client = None
    try:
        assert wait_for(lambda: f":{tcp:04X} " in Path("/proc/net/tcp").read_text())
        client = fabric.begin(B, *words, "127.0.0.1")
        fabric.until_busy(B)
        shadow = check("isolate", json.loads(ran(fabric, "isolate", name, *quick, "--json", code=1)))
        assert not shadow["acted"] and physical_state(fabric, stock, UPLINK) == "LinkUp"
        assert [(c["cable"], c["isolate"]) for c in shadow["choices"] if c["isolate"]] == [
            ("leaf-1[3] ↔ spine-1[1]", True)
        ]
        (held,) = [c for c in shadow["choices"] if not c["isolate"]]
        assert B in held["cable"] and "only cable" in held["why"]
        acted = check("isolate", json.loads(ran(fabric, "isolate", name, *quick, "--act", "--json", code=1)))
        assert acted["acted"] and acted["standing"] == 1, acted
        (kept,) = check("isolate-ledger", json.loads(ran(fabric, "isolate", "ledger", name, "--json")))["isolations"]
        assert kept["ended"] is None and physical_state(fabric, stock, kept["port"]) == "Disabled"
        path = ran(fabric, "run", "--node", A, "--", stock("ibtracert"), *(str(fabric_lid(fabric, n)) for n in (A, B)))
        assert "spine-2" in path and "spine-1" not in path
        again = json.loads(ran(fabric, "isolate", name, *quick, "--act", "--json", code=1))
        assert again["standing"] == 1 and not any(c["isolate"] for c in again["choices"])
        for program in (server, client):
            assert program.wait(120) == 0, program.communicate()[0]
    finally:
        stop(server)
        if client is not None:
            stop(client)
    fabric("fault", "clear")
    assert "released manually" in ran(fabric, "isolate", "release", name, kept["port"])
    assert wait_for(lambda: physical_state(fabric, stock, kept["port"]) == "LinkUp")
    assert ran(fabric, "isolate", "release", name) == "no cable is isolated\n"


def test_a_cable_comes_back_for_a_trial_and_when_the_fabric_needs_it(fabric):
    """Leaf-1 has two cables: with one isolated and the other without a signal, only the bad one is left."""
    name = fabric.status()["name"]
    quick = (name, "--every", "1.5", "--act")
    told = lambda text: [r["why"] for r in json.loads(text)["released"]]
    fabric("fault", "ber", UPLINK, "1e-3")
    ran(fabric, "isolate", *quick, "--hold", "1", code=1)
    assert "trial" in told(ran(fabric, "isolate", *quick, "--json"))[0], "an hour is a second here"
    assert wait_for(lambda: "isolated: " in ran(fabric, "isolate", *quick, "--hold", "600", code=None))
    fabric("fault", "link-down", "leaf-1[4]")
    assert wait_for(
        lambda: told(ran(fabric, "isolate", *quick, "--json", code=None)) == ["no other path is left between its ends"]
    )
    records = json.loads(ran(fabric, "isolate", "ledger", name, "--json"))["isolations"]
    assert len(records) == 2 and all(r["ended"] is not None for r in records)


def fabric_lid(fabric, node):
    return int(re.search(r"(?:Base lid|LMC).*?(\d+)", ran(fabric, "run", "--node", node, "--", "ibstat"))[1])
