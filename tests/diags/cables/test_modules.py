"""Modules and FEC modes as one file states them: planted in a fabric that was read, and in the real file's own rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.diags.check import check
from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric
from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from softib.iba.vendor import mlnx as r
from softib.iba.vendor.mlnx import ModuleInfo

SEQUOIA = "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv"
CODES = ("fec-mismatch", "fec-none", "module-temperature", "module-rx-power", "module-tx-power", "hot-module")


def told(fabric: Fabric) -> list:
    return [f for f in check(fabric) if f.code in CODES]


def test_a_generated_fabric_has_one_fec_mode_a_link() -> None:
    assert told(generate("fat-tree", radix=16, levels=2, generation="NDR")) == []
    mixed = generate("fat-tree", radix=16, levels=2, generation="NDR", host_generation="EDR")
    assert told(mixed) == []


@pytest.fixture
def with_modules() -> Fabric:
    """Two optical modules, one of them on the cable's other end, both healthy."""
    fabric = generate("fat-tree", radix=16, levels=2, generation="NDR")
    fabric.source.records = frozenset(fabric.source.records) | {"modules"}
    for port in ends(fabric):
        set_module(fabric, port)
    return fabric


def ends(fabric: Fabric) -> tuple[int, int]:
    port = fabric.port(find_node(fabric, "leaf-3"), 16)
    return port, int(fabric.port_peer[port])


def set_module(fabric: Fabric, port: int, **values: object) -> None:
    """500 µW sent and received on four lanes, 40 °C; alarms at 100 µW and 75 °C."""
    lanes = np.array([[500] * 4 + [0] * 4])
    given = {
        "temperature": 40 * 256,
        "temperature_high_th": 75 * 256,
        "rx_power": lanes,
        "tx_power": lanes,
        "tx_bias": lanes * 6,
        "rx_power_low_th": 100,
        "tx_power_low_th": 100,
        "monitor_cap_mask": 31,
        **values,
    }
    image = fabric.module_info[[port]]
    for name, value in given.items():
        ModuleInfo.fields[name].set(image, value)
    fabric.module_info[[port]] = image


def test_healthy_modules_give_no_finding(with_modules: Fabric) -> None:
    assert told(with_modules) == []


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        ({"temperature": 76 * 256}, "module-temperature", "its module is at 76 °C, above its alarm threshold of 75 °C"),
        (
            {"temperature": 74 * 256, "temperature_high_th": 0},
            "hot-module",
            "its module is at 74 °C, and states no alarm threshold",
        ),
        (
            {"rx_power": np.array([[500, 500, 50, 500, 0, 0, 0, 0]])},
            "module-rx-power",
            "its module receives -13.0 dBm, below its alarm threshold of -10.0 dBm",
        ),
        (
            {"tx_power": np.array([[500, 500, 0, 500, 0, 0, 0, 0]])},
            "module-tx-power",
            "its laser sends -40.0 dBm, below its alarm threshold of -10.0 dBm",
        ),
    ],
)
def test_a_module_beyond_its_alarm(with_modules: Fabric, values: dict, name: str, message: str) -> None:
    port, _ = ends(with_modules)
    set_module(with_modules, port, **values)
    (found,) = told(with_modules)
    assert found.code == name and found.message == f"{with_modules.port_name(port)}: {message}"
    assert [str(p) for p in found.where] == [with_modules.port_name(port)]


@pytest.mark.parametrize(
    "values", [{"temperature": (-10 * 256) & 0xFFFF}, {"temperature": 90 * 256, "monitor_cap_mask": r.MEASURES_VOLTAGE}]
)
def test_what_is_cold_or_not_measured_is_no_alarm(with_modules: Fabric, values: dict) -> None:
    set_module(with_modules, ends(with_modules)[0], **values)
    assert told(with_modules) == []


def test_many_hot_modules_are_one_finding(with_modules: Fabric) -> None:
    leaf = find_node(with_modules, "leaf-2")
    for port in with_modules.ports_of(leaf):
        set_module(with_modules, port, temperature=80 * 256)
    (found,) = told(with_modules)
    assert found.evidence["ports"] == 16 and found.message.startswith("16 ports; first: leaf-2[1]")


def test_fec_modes_of_the_real_file(shared_data: Path, tmp_path: Path) -> None:
    """As it is: 264 links, each with one mode. With one row changed, one finding that names the link; with both, the other."""
    text = (shared_data / SEQUOIA).read_text()
    assert told(read(shared_data / SEQUOIA).fabric) == []
    rows = text[text.index("START_FEC_MODE\n") : text.index("END_FEC_MODE\n")].splitlines()
    fabric = read(shared_data / SEQUOIA).fabric
    port = int(fabric.cable_port[(fabric.port_fec[np.maximum(fabric.cable_port, 0)] == 4).all(axis=1)][0, 0])
    path = tmp_path / "changed.db_csv"

    def changed(ports: list[int]) -> list:
        made = text
        for p in ports:
            guid, number = int(fabric.node_guid[fabric.port_node[p]]), int(fabric.port_num[p])
            (row,) = [x for x in rows[2:] if x.startswith(f"{guid:#x},") and x.split(",")[2] == str(number)][:1]
            cells = row.split(",")
            made = made.replace(row, ",".join([*cells[:3], "0", *cells[4:]]))
        path.write_text(made)
        return told(read(path).fabric)

    other = int(fabric.port_peer[port])
    (found,) = changed([port])
    assert found.code == "fec-mismatch" and sorted(found.evidence["modes"]) == [0, 4]
    assert {(p.guid, p.portnum) for p in found.where} == {
        (int(fabric.node_guid[fabric.port_node[p]]), int(fabric.port_num[p])) for p in (port, other)
    }
    (found,) = changed([port, other])
    assert found.code == "fec-none" and len(found.where) == 2
