"""ibdiagnet's .lst: hexadecimal throughout, both generations of the tool, node types that its DeviceIDs belie."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from softib.fabric.formats import registry
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo


def end(kind: str, ports: str, guid: str, device: str, name: str, lid: str, num: str) -> str:
    return (
        f"{{ {kind} Ports:{ports} SystemGUID:{guid} NodeGUID:{guid} PortGUID:{guid} VenID:000002C9 DevID:{device} "
        f"Rev:000000A1 {{{name}}} LID:{lid} PN:{num} }}"
    )


SW = ("SW", "41", "0002c90300000010", "d2f2", "leaf {1}", "00ff", "1a")
CA = ("CA", "01", "0002c90300000020", "1021", "node-1 mlx5_0", "0010", "01")


def read(tmp_path: Path, *lines: str):
    path = tmp_path / "x.lst"
    path.write_text("\n".join(lines) + "\n")
    return registry.read(path)


def test_every_number_is_hexadecimal(tmp_path: Path) -> None:
    result = read(tmp_path, f"{end(*CA)} {end(*SW)} PHY=4x LOG=INI SPD=100")
    f = result.fabric
    assert (
        result.problems == []
        and f.node_nports.tolist() == [1, 0x41]
        and f.node_names() == ["node-1 mlx5_0", "leaf {1}"]
    )
    assert f.port_peer[f.port(0, 1)] == f.port(1, 0x1A)
    assert f.lid[f.port(0, 1)] == 0x10 and f.lid[f.port(1, 0)] == 0xFF
    assert f.device_id.tolist() == [0x1021, 0xD2F2]
    assert PortInfo.port_state.get(f.port_info)[f.linked].tolist() == [PortState.INIT] * 2
    assert PortInfo.link_speed_ext_active.get(f.port_info)[f.linked].tolist() == [8, 8]
    assert f.source.records == {"lids", "speeds", "states"}


def test_old_files_list_twice_and_shift_device_ids(tmp_path: Path) -> None:
    sm = ("CA-SM", "02", "0002c90300000020", "5A440000", "host", "0001", "02")
    old = ("SW", "18", "0002c90300000010", "B9240000", "switch", "0002", "03")
    first = ("SW", "18", "0002c90300000010", "0000", "switch", "0002", "03")  # the far end of a line names no device
    result = read(tmp_path, f"{end(*sm)} {end(*first)} PHY=12x LOG=ACT", f"{end(*old)} {end(*sm)} PHY=12x LOG=ACT")
    f = result.fabric
    assert result.problems == [] and result.counts["links"] == 1 and result.counts["listed_both_ends"] == 1
    assert f.device_id.tolist() == [0x5A44, 0xB924] and f.node_nports.tolist() == [2, 24]
    assert f.source.sms == [{"node": 0, "portnum": 2, "priority": None, "state": 3}]
    assert f.source.records == {"lids", "sm", "states"}  # no SPD: the speed is not recorded


def test_a_switch_listed_as_ca_is_told(tmp_path: Path) -> None:
    odd = ("CA", "18", "0002c90300000010", "B9240000", "MT47396", "0002", "03")
    result = read(tmp_path, f"{end(*CA)} {end(*odd)} PHY=4x LOG=ACT SPD=5")
    assert [p.line for p in result.problems] == [1] and "DeviceID 0xb924" in result.problems[0].reason
    assert result.counts["switches"] == 1 and result.counts["cas"] == 1


def test_contradictions_are_told(tmp_path: Path) -> None:
    other = ("SW", "40", *SW[2:5], "00fe", "1b")
    result = read(
        tmp_path,
        f"{end(*CA)} {end(*SW)} PHY=4x LOG=ACT SPD=100",
        f"{end('CA', '01', '0002c90300000030', *CA[3:])} {end(*other)} PHY=3x LOG=UP SPD=7",
    )
    reasons = " | ".join(p.reason for p in result.problems if p.line == 2)
    for told in ("64 ports here", "unknown width", "unknown speed", "unknown port state", "LID 254"):
        assert told in reasons, reasons


def test_real_sms(shared_data: Path) -> None:
    f = registry.read(shared_data / "ibutils-clusters/subnet.lst").fabric
    (sm,) = f.source.sms
    assert int(f.node_guid[sm["node"]]) == 0x0002C90109769A00 and sm["portnum"] == 1
    assert f.lid[f.port(sm["node"], 1)] == 1 and np.count_nonzero(f.is_switch) == 62
