"""Oracle: what stock ibnetdiscover finds on stock ibsim, loaded with our netlist, is what we read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.fabric.formats import registry
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.rates import SPEED_BY_NAME
from tests.formats import ibsim
from tests.formats.real import names

LARGE = ("hk-examples/Topo.5.txt", "hk-examples/Topo.6_CS8500.txt", "ufm-selene-storage/selene.storage.txt")


def discovered(fabric: Fabric, tmp_path: Path, stock) -> tuple[list[Fabric], list[str]]:
    """What ibnetdiscover sees of each connected part, and the writer's notes."""
    net = tmp_path / "fabric.net"
    notes = registry.write(fabric, net)
    found = []
    with ibsim.running(stock("ibsim"), net, fabric) as env:
        ours = registry.read(net).fabric if fabric.sizes.cables else fabric
        for start in ibsim.parts(ours):
            kind = {1: "H", 2: "S", 3: "R"}[int(ours.node_type[start])]
            text = ibsim.ibnetdiscover(stock("ibnetdiscover"), env, f"{kind}-{int(ours.node_guid[start]):016x}")
            seen = tmp_path / "seen"
            seen.write_bytes(text)
            found.append(registry.read(seen).fabric)
    return found, notes


def compare(fabric: Fabric, found: list[Fabric]) -> None:
    """Nodes with cables, links, and speeds up to what ibsim knows are the same."""
    cabled = np.unique(fabric.port_node[fabric.linked])
    of_all = [ibsim.node_ids(fabric)[i] for i in range(0)] + sorted(
        (int(fabric.node_type[i]), int(fabric.node_guid[i]), int(fabric.node_nports[i])) for i in cabled
    )
    assert sorted(n for f in found for n in ibsim.node_ids(f)) == of_all
    assert sorted(link for f in found for link in ibsim.links(f)) == ibsim.links(fabric)
    theirs = {k: v for f in found for k, v in rates(f).items()}
    fastest = SPEED_BY_NAME["HDR"].code
    for end, code in rates(fabric).items():
        assert theirs[end] == min(code, fastest), end


def rates(f: Fabric) -> dict[tuple[int, int], int]:
    """Slower of the two ends' speeds of each linked port: ibsim negotiates."""
    code = active_speed_codes(f.port_info, f.port_mlnx_speed)
    up = np.flatnonzero(f.linked)
    both = np.minimum(code[up], code[f.port_peer[up]])
    guid, num = f.node_guid[f.port_node[up]].tolist(), f.port_num[up].tolist()
    return {(g, n): int(c) for g, n, c in zip(guid, num, both.tolist(), strict=True)}


@pytest.mark.stock
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in LARGE else ()) for n in names("ibnetdiscover")])
def test_stock_tools_find_what_we_read(name: str, shared_data: Path, tmp_path: Path, stock) -> None:
    fabric = registry.read(shared_data / name).fabric
    found, _ = discovered(fabric, tmp_path, stock)
    compare(fabric, found)
