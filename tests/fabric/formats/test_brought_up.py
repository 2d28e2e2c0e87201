"""Stock OpenSM on every real file: the devices that a file describes take what a manager writes.
Not one ERR, every end port with a LID."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.formats import registry
from softib.fabric.model import Fabric
from softib.fabric.power_cycle import power_on
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo
from tests.fabric.formats.lab import FILE
from tests.fabric.formats.real import names, rows
from tests.live.internal_sm.runs import one_pass
from tests.live.serving import Serving

pytestmark = pytest.mark.stock
DB = f"{FILE}.db_csv"
DUMPS = [DB, *names("ibnetdiscover"), *names("lst"), *names("topo (links between systems)")]
SMALL = {r["file"] for r in rows("ibnetdiscover") if int(r["switches"]) + int(r["cas"]) < 15}
QUICK = {DB, "ibutils-clusters/subnet.lst", "ibutils-demo/network.topo", *SMALL}


def brought_up(f: Fabric, opensm: str, folder: Path) -> None:
    """OpenSM in one pass from the first CA that has a cable; raises AssertionError where it
    complains of anything."""
    power_on(f)
    served = Serving(f)
    cas = [c for c in f.cas.tolist() if f.linked[list(f.ports_of(c))].any()]
    node = cas[0] if cas else int(f.switch_node[0])
    try:
        done = one_pass(opensm, served.environment(f"{'H' if cas else 'S'}-{int(f.node_guid[node]):016x}"), folder)
    finally:
        served.stop()
    assert done.up and not re.findall(r"ERR \w+.*", done.log)[:3], done.complaints
    ends = f.end_ports()
    reached = ends[_reached(f, node)[f.port_node[ends]]]
    assert (f.lid[reached] > 0).all()
    cabled = np.flatnonzero(f.linked & _reached(f, node)[f.port_node] & (f.port_peer != np.arange(len(f.port_peer))))
    loops = f.port_node[f.port_peer[cabled]] == f.port_node[cabled]
    assert (PortInfo.port_state.get(f.port_info[cabled[~loops]]) == PortState.ACTIVE).all()


def _reached(f: Fabric, start: int) -> np.ndarray:
    """bool[nodes]: there is a way from ``start``."""
    seen = np.zeros(f.sizes.nodes, bool)
    seen[start] = True
    a, b = f.port_node[np.flatnonzero(f.linked)], f.port_node[f.port_peer[f.linked]]
    while not seen[b[seen[a]]].all():
        seen[b[seen[a]]] = True
    return seen


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in DUMPS])
def test_opensm_brings_up(name: str, stock, shared_data: Path, tmp_path: Path) -> None:
    brought_up(
        registry.read(shared_data / name, ibnl_dirs=[shared_data / "ibutils-ibnl"]).fabric, stock("opensm"), tmp_path
    )


HOSTILE = {
    "PORTS": {"MTUCap": "0 15 6", "VLCap": "0 7 15", "NMTU": "0 15", "OpVLs": "0 15", "LinkWidthSup": "0 255 32",
              "LinkWidthActv": "0 3 64", "LinkSpeedSup": "0 4294967295", "LinkSpeedActv": "0 3841", "GUIDCap": "255 0",
              "VLArbHighCap": "0 255", "VLArbLowCap": "255", "LMC": "7", "PortPhyState": "0 15", "PortState": "0 9",
              "CapMsk": "0 4294967295", "CapMsk2": "0 65535", "LinkDownDefState": "15", "MKey": "0xffffffffffffffff",
              "MKeyProtBits": "3", "SubnTmo": "31", "RespTimeValue": "31", "LID": "65535 49152", "GIDPrfx": "0x1"},
    "NODES": {"PartitionCap": "0 1 65535", "DeviceID": "0 65535", "VendorID": "0 16777215", "SystemImageGUID": "0x0"},
    "SWITCHES": {"LinearFDBCap": "0 65535", "MCastFDBCap": "0 65535", "PartEnfCap": "0 1 65535", "LidsPerPort": "65535",
                 "OptimizedSLVLMapping": "0", "DefPort": "255", "RandomFDBCap": "65535", "PortStateChange": "1"},
}  # fmt: skip # a table, its columns aligned
"""Section → column → values that no device, or hardly any, reads."""


def corrupted(text: str, section: str, column: str, value: str) -> str:
    """``text`` with ``value`` in every second row of a column."""
    lines = text.split("\n")
    first = lines.index(f"START_{section}") + 1
    at = lines[first].split(",").index(column)
    for i in range(first + 1, lines.index(f"END_{section}"), 2):
        fields = re.findall(r'"[^"]*"|[^,]+', lines[i])
        lines[i] = ",".join([*fields[:at], value, *fields[at + 1 :]])
    return "\n".join(lines)


@pytest.mark.parametrize("section", [pytest.param(s, marks=pytest.mark.slow) for s in HOSTILE])
def test_no_value_of_a_file_makes_a_device_refuse_a_manager(
    section: str, stock, shared_data: Path, tmp_path: Path
) -> None:
    """One column after the other; where the capability itself allows no more (one P_Key), OpenSM
    lives with that."""
    text = (shared_data / DB).read_text()
    for column, values in HOSTILE[section].items():
        for value in values.split():
            (tmp_path / "f").write_text(corrupted(text, section, column, value))
            f = registry.read(tmp_path / "f").fabric
            try:
                brought_up(f, stock("opensm"), tmp_path / f"{column}-{value}")
            except AssertionError as error:
                raise AssertionError(f"{section}.{column} = {value}: {error}") from None


def test_all_of_them_at_once(stock, shared_data: Path, tmp_path: Path) -> None:
    text = (shared_data / DB).read_text()
    for section, columns in HOSTILE.items():
        for column, values in columns.items():
            text = corrupted(text, section, column, values.split()[0])
    (tmp_path / "f").write_text(text)
    result = registry.read(tmp_path / "f")
    assert {"MTUCap", "VLCap", "LinkWidthSup", "LinearFDBCap"} <= set(
        re.findall(r"(\w+) \w+ is not a legal", str(result.problems))
    )
    brought_up(result.fabric, stock("opensm"), tmp_path / "osm")
