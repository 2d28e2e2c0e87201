"""Captures of runs in which a manager works: SMPs on VL15 and MADs on data VLs beside the data, as tshark reads them (IBA chapter 13, 14.2.1, 14.2.2)."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from softib.fabric.end_ports import end_ports
from softib.iba.constants import MgmtClass
from softib.iba.crc import icrc
from softib.scenario.bring_up import bring_up
from softib.scenario.failures import ManagerSettings, run_failures
from softib.scenario.faults_in_time import TimedFault
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, constants
from softib.sim.packet.frames import frames, tap, write_capture
from softib.sim.packet.stepping import PacketSteps, ProcessorTimes
from softib.sm.config import SmConfig
from tests.iba.dissected import columns
from tests.iba.lab import vcrc
from tests.sim.packet.fabrics import star, tree
from tests.sim.packet.traffic import mixture

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
US = 1_000_000
FIELDS = (
    "frame.packet_flags_direction",
    "infiniband.lrh.vl",
    "infiniband.lrh.slid",
    "infiniband.lrh.dlid",
    "infiniband.bth.destqp",
    "infiniband.mad.mgmtclass",
    "infiniband.mad.method",
    "infiniband.mad.transactionid",
    "infiniband.smpdirected.initialpath",
)


def managed(ports_of, config: SmConfig, seed: int = 0):
    """A cable between two switches is pulled and put back under random messages; frames of the ports that ``ports_of(fabric)`` names."""
    fabric = tree(4, 2).copy()
    between = np.flatnonzero(fabric.is_switch[fabric.port_node] & (fabric.port_peer >= 0) & (fabric.port_num > 0))
    between = between[fabric.is_switch[fabric.port_node[fabric.port_peer[between]]]]
    ports = ports_of(fabric, int(between[0]))
    watched = tuple(sorted({*ports, *fabric.port_peer[ports].tolist()}))
    of_port = int(between[0])
    where = fabric.port_name(of_port)
    faults = [TimedFault(2 * US, "link-down", where), TimedFault(900 * US, "link-up", where)]
    sent = mixture(len(end_ports(fabric)), 300, seed)
    made = run_failures(
        fabric, sent, faults, PacketOptions(watch_ports=watched, ack_timeout=8), ManagerSettings(config)
    )
    return fabric, ports, made


@pytest.fixture(scope="module")
def at_manager():
    """The link of the manager's host, and the one whose cable is pulled."""
    return managed(lambda fabric, between: [int(end_ports(fabric)[0]), between], SmConfig(engine="minhop"))


@pytest.mark.stock
@needs_tshark
def test_tshark_reads_every_frame_of_a_sweep(at_manager, tmp_path):
    """No frame is malformed; those of VL15 are between QPs 0; each request of the manager is answered under its transaction ID; hop pointers stand where they
    stood on this link."""
    fabric, ports, made = at_manager
    path = tmp_path / "sweep.pcapng"
    assert write_capture(made.outcome.log, fabric, ports[:1], path) == len(tap(made.outcome.log, ports[:1]).row)
    assert not columns(path, "frame.number", only="_ws.malformed || _ws.expert.severity == 8388608")
    rows = [dict(zip(FIELDS, row, strict=True)) for row in columns(path, *FIELDS, only="infiniband.mad")]
    assert len(rows) > 100 and {int(r["infiniband.lrh.vl"], 0) for r in rows} == {15}
    assert {int(r["infiniband.bth.destqp"], 0) for r in rows} == {0}
    said: dict[str, set[int]] = {"1": set(), "2": set()}
    for r in rows:
        if int(r["infiniband.mad.method"], 0) in (0x01, 0x02, 0x81):
            said[str(int(r["frame.packet_flags_direction"], 0))].add(int(r["infiniband.mad.transactionid"], 0))
    asked = {1 + (made.manager_port == ports[0])}
    assert asked == {2} and said["2"] and len(said["1"] - said["2"]) == 0 and len(said["2"] - said["1"]) <= 3
    traps = [r for r in rows if int(r["infiniband.mad.method"], 0) == 5]
    assert traps and all(int(r["frame.packet_flags_direction"], 0) == 1 for r in traps)
    directed = columns(path, *FIELDS[:4], only="infiniband.mad.mgmtclass == 0x81")
    assert directed and all(int(r[2], 0) == int(r[3], 0) == 0xFFFF for r in directed)


def test_frames_are_the_counters_and_both_checksums_hold(at_manager):
    """What a port counted as sent is in the capture, data and MADs; MADs that went out and came back have the same words, but for hop pointer, path
    and what the agent wrote."""
    _, ports, made = at_manager
    log = made.outcome.log
    for port in ports:
        sent = np.flatnonzero((log.kind == constants.LOG_SENT) & (log.port == port))
        assert len(sent) == made.outcome.counters["port_xmit_pkts"][port]
        seen = tap(log, [port])
        octets = 0
        for which, packets in frames(log, seen.row):
            for row, packet in zip(seen.row[which].tolist(), packets, strict=True):
                raw = packet.tobytes()
                assert raw[-6:-2] == icrc(raw[:-6]) and raw[-2:] == vcrc(raw[:-2])
                octets += (len(raw) - 2) // 4 if log.port[row] == port else 0
        assert octets == made.outcome.counters["port_xmit_data"][port]
    assert (log.mad >= 0).sum() == len(log.mads) > 100
    classes = log.mads[:, 1]
    assert {MgmtClass.SUBN_DR} <= set(classes.tolist()) <= {MgmtClass.SUBN_DR, MgmtClass.SUBN_LID}
    out = log.mads[log.mad[(log.mad >= 0) & (log.port == ports[0])]]
    way_out = out[(out[:, 1] == MgmtClass.SUBN_DR) & (out[:, 3] < 0x80)]
    assert (way_out[:, 6] == 1).all(), "the hop pointer on the first link (14.2.2.1)"
    back = log.mads[log.mad[(log.mad >= 0) & (log.port != ports[0]) & (log.came_in != ports[0])]]
    answers = back[(back[:, 1] == MgmtClass.SUBN_DR) & ((back[:, 4] & 0x80) > 0)]
    assert len(answers) and (answers[:, 6] >= 1).all()


@pytest.mark.stock
@needs_tshark
def test_mads_on_a_data_vl_are_read_too(tmp_path):
    """A path query to the SA and a PMA's Get travel between QPs 1 with the LIDs, SL and VL that they were posted with; hop by hop their octets are the same."""
    fabric = star(3)
    ends = end_ports(fabric)
    query, counters = np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    query[:4], query[8:18] = (1, 3, 2, 1), (0, 0, 0, 1, 2, 3, 4, 5, 0, 0x35)
    counters[:4], counters[17] = (1, 4, 1, 1), 0x12
    options = PacketOptions(watch_ports=(int(ends[1]), int(fabric.port_peer[ends[1]]), int(fabric.port_peer[ends[0]])))
    steps = PacketSteps(fabric, messages([1], [0], 9000), np.zeros(1, np.int64), options, ProcessorTimes())
    lid = [int(fabric.lid[port]) for port in ends[:3]]
    for mad, to in ((query, 0), (counters, 2)):
        steps.post(int(ends[1]), mad, lid[to], 0, 0, steps.vl_of(int(ends[1]), 0))
    while steps.run_until(2000 * US):
        steps.arrived()
    path = tmp_path / "gmps.pcapng"
    write_capture(steps.log(), fabric, [int(ends[1])], path)
    assert not columns(path, "frame.number", only="_ws.malformed || _ws.expert.severity == 8388608")
    fields = (
        "infiniband.lrh.vl",
        "infiniband.lrh.slid",
        "infiniband.lrh.dlid",
        "infiniband.bth.destqp",
        "infiniband.mad.mgmtclass",
        "infiniband.mad.attributeid",
        "infiniband.mad.transactionid",
    )
    found = [[int(x, 0) for x in row] for row in columns(path, *fields, only="infiniband.mad")]
    assert found == [[0, lid[1], lid[0], 1, 3, 0x35, 0x0102030405], [0, lid[1], lid[2], 1, 4, 0x12, 0]]
    assert columns(path, "infiniband.deth.q_key", only="infiniband.mad") == [["0x0000000080010000"]] * 2
    log = steps.log()
    assert len(log.mads) == 3 and (log.mads[[0, 2]] == query).all(), (
        "out of the host, and out of the switch to the first host"
    )


def test_nothing_is_sent_by_an_adapter_without_a_link():
    """What an adapter whose cable is pulled discards (7.2.7) is no frame."""
    fabric = tree(4, 2).copy()
    bring_up(fabric)
    host = int(end_ports(fabric)[3])
    sent = mixture(len(end_ports(fabric)), 60, 1)
    fault = [TimedFault(1 * US, "link-down", fabric.port_name(host))]
    options = PacketOptions(watch_ports=(host,), ack_timeout=6)
    made = run_failures(fabric, sent, fault, options, ManagerSettings(None))
    log = made.outcome.log
    rows = np.flatnonzero((log.kind == constants.LOG_SENT) & (log.port == host))
    assert made.outcome.counters["port_xmit_discards"][host] > 0
    assert len(rows) == made.outcome.counters["port_xmit_pkts"][host] and (log.now[rows] <= 1 * US).all()


def test_samples_of_a_run_with_failures_are_its_counters():
    """Heat maps over time: what a link carried in all intervals is what its port counted, data, MADs and headers; the samples end with the messages."""
    fabric = tree(4, 2).copy()
    sent = mixture(len(end_ports(fabric)), 300, 4)
    fault = [TimedFault(2 * US, "link-down", fabric.port_name(int(fabric.port_peer[end_ports(fabric)[2]])))]
    settings = ManagerSettings(SmConfig(engine="minhop"))
    made = run_failures(fabric, sent, fault, PacketOptions(sample_ps=300_000, ack_timeout=4, retries=1), settings)
    samples, counters = made.outcome.samples, made.outcome.counters
    octets = 4 * counters["port_xmit_data"].astype(np.int64) + 2 * counters["port_xmit_pkts"].astype(np.int64)
    assert len(samples.octets) > 20 and samples.queued.any()
    assert np.array_equal(samples.octets.sum(axis=0), octets)
