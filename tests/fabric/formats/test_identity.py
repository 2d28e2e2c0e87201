"""Nodes of whom a file states no vendor, part or GUID: what programs read of them, and that nobody takes it for stated."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.diags.cables.device_speeds import supported
from softib.diags.view import FabricView
from softib.fabric.formats import registry
from softib.fabric.identity import GENERIC_PART, GUID_BASE, Stated
from softib.fabric.topologies.registry import generate
from softib.iba.devices import DEVICES, MELLANOX
from tests.extent import examples
from tests.fabric.formats.lab import PAIR
from tests.live.lab import Softib, softib  # noqa: F401

NETLIST = """\
Switch 4 "sw"
[1] "a"[1] 4xEDR
[2] "b"[1]
Ca 1 "a"
[1] "sw"[1] 4xEDR
Ca 2 "b"
[1] "sw"[2]
"""


def read(folder: Path, text: str):
    (folder / "f").write_text(text)
    return registry.read(folder / "f")


def test_a_netlist_has_a_whole_identity(tmp_path: Path) -> None:
    """NodeInfo: no component is 0 but the revision (IBA 14.2.5.3); the part is one that knows the speed of its links."""
    f = read(tmp_path, NETLIST).fabric
    for column in (f.node_guid, f.sys_guid, f.vendor_id, f.device_id, f.node_nports):
        assert (column > 0).all()
    assert not f.node_stated.any() and len(set(f.node_guid.tolist())) == 3
    for node in range(3):
        part = DEVICES[int(f.device_id[node])]
        assert (part.kind == "switch") == bool(f.is_switch[node]) and int(f.vendor_id[node]) == MELLANOX
    assert [DEVICES[int(d)].generation for d in f.device_id] == ["EDR", "EDR", "FDR"]


def test_what_is_stated_stays_and_is_known_to_be(tmp_path: Path) -> None:
    f = read(tmp_path, PAIR).fabric
    assert (f.node_stated == Stated.NODE_GUID | Stated.SYS_GUID | Stated.VENDOR | Stated.DEVICE).all()
    other = read(tmp_path, PAIR.replace("vendid=0x2c9\ndevid=0x101b", "vendid=0x1fc1")).fabric
    assert other.vendor_id.tolist() == [MELLANOX, 0x1FC1] and int(other.device_id[1]) == GENERIC_PART
    zeros = read(tmp_path, re.sub(r"(vendid|devid|sysimgguid)=\S+", r"\1=0x0", PAIR)).fabric
    assert (zeros.node_stated == Stated.NODE_GUID).all() and zeros.vendor_id.all() and zeros.device_id.all()
    assert (generate("ring", switches=3).node_stated & (Stated.VENDOR | Stated.DEVICE) > 0).all(), "hardware of our own"


def test_guid_zero_is_no_guid(tmp_path: Path) -> None:
    result = read(tmp_path, PAIR.replace("0002c90300000020", "0" * 16).replace("caguid=0x2c90300000020", "caguid=0x0"))
    assert result.counts["links"] == 1 and int(result.fabric.node_guid[1]) != 0
    assert any("NodeGUID 0" in p.reason for p in result.problems)


@settings(max_examples=examples(40), deadline=None)
@given(taken=st.lists(st.integers(0, 5), max_size=4), beyond=st.booleans())
def test_generated_guids_are_nobodys(taken, beyond, tmp_path_factory) -> None:
    """Files that softib wrote hold generated GUIDs; a node without one among them gets yet another."""
    base = GUID_BASE + (1 << 40 if beyond else 0)
    text = NETLIST + "".join(f'Ca 1 "H-{base + (i << 8):016x}"\n' for i in sorted(set(taken)))
    f = read(tmp_path_factory.mktemp("g"), text).fabric
    assert len(np.unique(f.node_guid)) == f.sizes.nodes


def test_no_device_has_no_port(tmp_path: Path) -> None:
    result = read(tmp_path, NETLIST + 'Ca 0 "lost"\nSwitch 0 "bare"\n')
    assert (result.fabric.node_nports >= 1).all()
    assert sum("at least one" in p.reason for p in result.problems) == 2


def test_findings_do_not_rest_on_what_stands_in(tmp_path: Path) -> None:
    """The speed that a part could have is known of stated parts only: an invented one makes no link a slow one. All parts
    have four lanes."""
    stated = re.sub(r"(?m)^(Switch|Ca)", r"vendid=0x2c9\ndevid=0x1017\n\1", NETLIST)
    for text, known in ((NETLIST, False), (stated, True)):
        view = FabricView(read(tmp_path, text).fabric)
        speed, lanes = supported(view, np.concatenate([view.port_a, view.port_b]))
        assert (lanes == 4).all() and (speed > 0).all() == known and (speed > 0).any() == known


@pytest.mark.parametrize("suffix", [".net", ".ibnetdiscover"])
def test_writers_do_not_state_it(suffix: str, tmp_path: Path) -> None:
    f = read(tmp_path, NETLIST).fabric
    registry.write(f, tmp_path / f"out{suffix}")
    assert "vendid" not in (tmp_path / f"out{suffix}").read_text()
    again = registry.read(tmp_path / f"out{suffix}").fabric
    assert not (again.node_stated & (Stated.VENDOR | Stated.DEVICE)).any()
    assert (again.vendor_id == f.vendor_id).all() and (again.device_id == f.device_id).all()


@pytest.mark.stock
def test_programs_on_a_running_netlist(stock, softib: Softib) -> None:  # noqa: F811
    """ibv_devinfo, ibstat, saquery, vendstat and the files of sysfs: nothing that no device reads."""
    (softib.folder / "one.net").write_text(NETLIST)
    softib.start(str(softib.folder / "one.net"), "--name", "one")
    programs = " && ".join(
        [
            f"{stock('ibv_devinfo')} -v",
            f"{stock('saquery')} NR",
            stock("ibstat"),
            f"{stock('vendstat')} -N 1",
            "cd /sys/class/infiniband/* && grep -H . board_id hca_type fw_ver node_guid sys_image_guid",
        ]
    )
    shown = softib("run", "--fabric", "one", "--node", "a", "--", "sh", "-c", programs)
    info, nodes = shown.split("NodeRecord dump", 1)
    said = dict(re.findall(r"^\s*(\w+):\s+(\S+)", info, re.M))
    for name in ("vendor_id", "vendor_part_id", "phys_port_cnt"):
        assert int(said[name], 0) > 0, (name, info)
    for name in ("node_guid", "sys_image_guid", "board_id", "fw_ver"):
        assert said[name].strip("0:."), (name, info)
    for name in ("sys_guid", "node_guid", "port_guid", "device_id", "vendor_id", "partition_cap", "num_ports"):
        values = re.findall(rf"{name}\.+(\w+)", nodes)
        assert len(values) == 3 and all(int(v, 0) for v in values), (name, nodes)
    assert re.search(r"hw_dev_id:\s+0x0*[1-9a-f]", shown), shown
    assert len(re.findall(r"(?m)^(?:board_id|hca_type|fw_ver|node_guid|sys_image_guid):.", shown)) == 5
    assert "MT0" not in shown and "0000:0000:0000:0000" not in shown
