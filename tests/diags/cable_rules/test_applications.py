"""Stories whose counters real programs make: Debian's perftest writes over a paced running fabric while a fault is planted, and Gets alone are judged.

Next to the stories on virtual time (``stories.py``): fewer, on fabrics of 27 to 44 nodes, because every program takes a core.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import softib
from softib.diags.finding import Finding
from tests.preload.verbs.applications import Applications, stop, wait_for_listener

pytestmark = [pytest.mark.stock, pytest.mark.slow]
FABRICS = {
    "SDR": "name: apps\ngeneration: SDR\ntopology: {kind: fat-tree, radix: 6, levels: 2}\n",
    "EDR": "name: apps\ngeneration: EDR\ntopology: {kind: fat-tree, radix: 8, levels: 2}\n",
    "HDR": "name: apps\ngeneration: HDR\ntopology: {kind: fat-tree, radix: 8, levels: 2}\n",
}
LAST = {"SDR": 18, "EDR": 32, "HDR": 32}
"""Hosts of each: (radix / 2) x radix."""
SIZE = {"SDR": "20000", "EDR": "60000", "HDR": "60000"}


@pytest.fixture(scope="module", params=FABRICS)
def running(request, stock) -> Iterator[tuple[Applications, str]]:
    stock("ib_write_bw")
    made = Applications(FABRICS[request.param], "--pace")
    try:
        yield made, request.param
    finally:
        made.close()


@contextmanager
def traffic(fabric: Applications, program: str, generation: str, size: str = "") -> Iterator[tuple[str, str]]:
    """perftest from the last host to the first and from the last but one to the second, both across the spines, for as long as the block takes at most."""
    last = LAST[generation]
    pairs = [(f"host-{1 + i:04}", f"host-{last - i:04}") for i in range(2)]
    begun: list[subprocess.Popen] = []
    try:
        for server, client in pairs:
            tcp = next(fabric.ports)
            arguments = (program, "-D", "40", "-F", "-s", size or SIZE[generation], "-p", str(tcp))
            one = fabric.begin(server, *arguments)
            begun.append(one)
            wait_for_listener(tcp, one)
            begun.append(fabric.begin(client, *arguments, "127.0.0.1"))
        for _, client in pairs:
            fabric.until_busy(client)
        yield pairs[0]
    finally:
        for one in reversed(begun):
            stop(one)


def judged(monkeypatch, fabric: Applications) -> tuple[list[Finding], softib.Observed]:
    """What 5 rounds of Gets say, and what they saw."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", fabric.env["XDG_RUNTIME_DIR"])
    name = fabric.status()["name"]
    seen = softib.observe(name, rounds=5, every=1.5)
    return list(softib.diagnose(seen, name).at_least("warning")), seen


def packets(seen: softib.Observed) -> int:
    return int(seen.observations.total("port_xmit_pkts").max())


def named(found: list[Finding]) -> str:
    return str(found[0].where[0])


def test_programs_alone_accuse_nobody(running, stock, monkeypatch):
    fabric, generation = running
    with traffic(fabric, stock("ib_write_bw"), generation):
        found, seen = judged(monkeypatch, fabric)
    assert found == [] and packets(seen) > 10_000


def test_a_slow_receiver_under_programs_is_named(running, stock, monkeypatch):
    """A host that drains an eighth of its link or less: PortXmitWait of the leaf's port is what perftest's writes make it. Switches from EDR on count it in 64 bits
    (32 would be full in 1.7 s of waiting); devices of SDR's time do not count it at all."""
    fabric, generation = running
    if generation == "SDR":
        pytest.skip("devices of SDR have no PortXmitWait")
    with traffic(fabric, stock("ib_write_bw"), generation) as (server, _):
        fabric("fault", "slow-port", f"{server}[1]", "1")
        found, seen = judged(monkeypatch, fabric)
        fabric("fault", "clear")
    assert [f.code for f in found] == ["slow-receiver"] and named(found).startswith(server)
    assert seen.observations.total("port_xmit_wait").max() > 0


def test_a_port_without_flow_control_under_programs_is_named(running, stock, monkeypatch):
    fabric, generation = running
    with traffic(fabric, stock("ib_write_bw"), generation):
        fabric("fault", "flow-control", "leaf-2[4]", "0.25" if generation == "SDR" else "0.15")
        found, _ = judged(monkeypatch, fabric)
        fabric("fault", "clear")
    assert found[0].code == "flow-control-errors" and named(found) == "leaf-2[4]"
    assert {f.code for f in found[1:]} <= {"counters-stuck"}


def test_a_bad_cable_under_programs_is_named(running, stock, monkeypatch):
    """What programs lose of it is evidence beside the bit errors: packets of perftest that arrived damaged."""
    fabric, generation = running
    with traffic(fabric, stock("ib_write_bw"), generation) as (server, _):
        fabric("fault", "ber", f"{server}[1]", "8e-4" if generation == "HDR" else "1e-7")
        found, seen = judged(monkeypatch, fabric)
        fabric("fault", "clear")
    assert {found[0].where[0].node, found[0].where[1].node} & {server}
    assert all(server in {w.node for w in f.where} for f in found if f.code != "counters-stuck")
    expected = "link-pre-fec-errors" if generation == "HDR" else "link-bit-errors"
    assert expected in {found[0].code, *(a["code"] for a in found[0].evidence.get("also", []))}
    if generation != "HDR":
        assert seen.observations.total("port_local_physical_errors").sum() > 0, "perftest lost packets over it"
