"""A cable with bit errors: the answer counts the packets that it damaged, which the ports at its ends count, and as many as the rate says."""

from __future__ import annotations

import math

import softib


def test_damaged_packets_are_those_that_ports_count() -> None:
    fabric = softib.generate("fat-tree", radix=8, levels=2, hosts=8, generation="EDR")
    run = softib.simulate(fabric, "shift:16MB,k=4", layer="packet", faults=["1us ber leaf-1[1] ber=1e-6"])
    doc = run.to_json()
    r = doc["retransmission"]
    ends = [run.counters(port)["port_rcv_errors"] for port in ("leaf-1:1", "host-0001:1")]
    assert r["packets_damaged"] == sum(ends) > 0 == r["packets_lost_on_wire"]
    octets = sum(4 * run.counters(port)["port_rcv_data"] for port in ("leaf-1:1", "host-0001:1"))
    expected = octets * 8 * 1e-6
    assert abs(r["packets_damaged"] - expected) < 5 * math.sqrt(expected) + 0.1 * expected
    assert r["packets_resent"] >= r["packets_damaged"]
