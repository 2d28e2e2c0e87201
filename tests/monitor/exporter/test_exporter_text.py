"""What a scrape gets: parsed by prometheus-client's own parser, compared with the fabric's counters; names are those of treydock's and guilbaults' exporters."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import UnknownName
from softib.iba.smp import PortInfo
from softib.monitor.exporter.names import SERVICE, metrics
from softib.monitor.exporter.ratios import upper_bound
from softib.monitor.exporter.text import PortText
from tests.monitor.exporter.scraping import labels, scraped
from tests.monitor.lab import Lab, port_of, row_of

parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")


def test_values_are_the_fabric_s_and_data_is_in_bytes():
    lab = Lab()
    lab.fabric.counters["port_xmit_data"] += np.uint64(10**15)
    port = port_of(lab.fabric, "leaf-3", 2)
    lab.add(port, "symbol_error_counter", 77)
    one, families, samples = scraped(lab)
    row = row_of(one.targets, lab.fabric, port)
    assert samples["infiniband_switch_port_symbol_error_total", labels(lab, port)] == 77
    words = int(one.reading.value["port_xmit_data"][row])
    assert (
        words >= 10**15 and samples["infiniband_switch_port_transmit_data_bytes_total", labels(lab, port)] == 4 * words
    )
    host = port_of(lab.fabric, "host-0003", 1)
    assert ("infiniband_hca_port_link_downed_total", labels(lab, host)) in samples
    assert families["infiniband_switch_port_symbol_error"].type == "counter"
    info = next(
        s
        for s in families["infiniband_switch_uplink_info"].samples
        if s.labels["switch"] == "leaf-3" and s.labels["port"] == "2"
    )
    peer = int(lab.fabric.port_peer[port])
    assert (
        info.labels["uplink"] == lab.fabric.node_names()[int(lab.fabric.port_node[peer])]
        and info.labels["uplink_type"] == "CA"
    )
    assert samples["infiniband_switch_port_rate_bytes_per_second", labels(lab, port)] == 400e9 / 8


def test_guilbaults_names_have_both_ends():
    lab = Lab()
    one, families, _ = scraped(lab, "guilbaults")
    sample = next(
        s
        for s in families["infiniband_portxmitdata"].samples
        if s.labels["local_name"] == "leaf-1" and s.labels["local_port"] == "1"
    )
    assert set(sample.labels) == {
        "component",
        "local_name",
        "local_guid",
        "local_port",
        "remote_guid",
        "remote_port",
        "remote_name",
    }
    row = row_of(one.targets, lab.fabric, port_of(lab.fabric, "leaf-1", 1))
    assert sample.value == 4 * int(one.reading.value["port_xmit_data"][row])
    with pytest.raises(UnknownName):
        PortText(one.targets.ports, "nobody")


@pytest.mark.parametrize("scheme", ["treydock", "guilbaults"])
def test_every_metric_is_declared(scheme):
    lab = Lab(optical=True)
    before = lab.round().reading
    _, families, _ = scraped(lab, scheme, before)
    known = {m.name.removesuffix("_total"): m for m in metrics(scheme)}
    for name, family in families.items():
        assert name in known and known[name].kind == family.type and known[name].help == family.documentation
        assert {label for s in family.samples for label in s.labels} <= set(known[name].labels)
    silent = set(known) - set(families) - {m.name.removesuffix("_total") for m in SERVICE}
    allowed = (
        "infiniband_exporter",
        "infiniband_scrape",
        "softib_finding",  # nothing is wrong there
        "softib_port_stuck",
        "temperature",
        "qp1_dropped",
        "qp1dropped",
    )
    assert not [name for name in silent if not any(word in name for word in allowed)], silent


def test_what_was_not_read_is_absent():
    lab = Lab()
    lab.round()
    host = port_of(lab.fabric, "host-0006", 1)
    assert ("infiniband_hca_port_receive_packets_total", labels(lab, host)) in scraped(lab)[2]
    lab.wire.mute.add(int(PortInfo.lid.get(lab.fabric.port_info[host])))
    _, _, samples = scraped(lab)
    assert not [key for key in samples if key[1] == labels(lab, host)]


def test_error_ratios_and_waiting_by_hand():
    lab = Lab()
    port = port_of(lab.fabric, "leaf-2", 1)
    before = lab.round().reading
    lab.add(port, "symbol_error_counter", 5)
    lab.add(port, "port_xmit_wait", 1_000_000)
    _, _, samples = scraped(lab, before=before)
    bits = 4 * 106.25e9  # one second of four NDR lanes
    of = labels(lab, port)
    assert samples["softib_port_symbol_ber", of] == pytest.approx(5 / bits, rel=1e-8)
    assert samples["softib_port_observed_seconds", of] == 1
    assert samples["softib_port_symbol_ber_upper", of] == pytest.approx(
        10.51 / bits, rel=0.01
    )  # chi-squared tables: 95 % for 5
    quiet = labels(lab, port_of(lab.fabric, "leaf-2", 2))
    assert samples["softib_port_symbol_ber", quiet] == 0
    assert samples["softib_port_symbol_ber_upper", quiet] == pytest.approx(3.0 / bits, rel=0.02)  # the rule of three
    tick_s = 1 * 10 / 106.25e9
    assert samples["softib_port_transmit_wait_ratio", of] == pytest.approx(1_000_000 * tick_s, rel=1e-8)


def test_the_upper_bound_is_that_of_the_tables():
    # Poisson, one-sided 95 %: half the chi-squared quantile of 2 (n + 1) degrees of freedom.
    for n, wanted in ((0, 2.996), (1, 4.744), (3, 7.754), (10, 16.96), (100, 118.1)):
        assert upper_bound(np.array([n]))[0] == pytest.approx(wanted, rel=0.015)


def test_names_cannot_break_the_text():
    lab = Lab()
    node = lab.fabric.node_names().index("leaf-1")
    lab.fabric.node_desc[node] = np.frombuffer(b'a"b\\c\nd\x01'.ljust(64, b"\0"), np.uint8)
    lab.poller.discover()
    _, families, _ = scraped(lab)
    assert {s.labels["switch"] for s in families["infiniband_switch_info"].samples} >= {'a"b\\c d\ufffd'}


def test_hcas_are_called_as_treydock_calls_them():
    """Its ibnetdiscover.go: the first word of a name with `` HCA`` in it; each PortGUID is a device."""
    from softib.monitor.exporter.labels import hca_name

    assert [hca_name(n) for n in ("p0001 HCA-1", "node 7 mlx5_0", "MF0;leaf:MQM9700/U1")] == [
        "p0001",
        "node 7 mlx5_0",
        "MF0;leaf:MQM9700/U1",
    ]
