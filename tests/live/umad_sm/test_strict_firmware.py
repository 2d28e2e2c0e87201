"""Switches that show extended speeds to those alone who set SMSupportExtendedSpeeds: stock OpenSM 3.3.23 does not set it in a Get, so it cannot give
links back the speeds that they support (a reading of linux-rdma/opensm#39); with lenient firmware it does, and softib's manager does either way."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from softib.fabric.node_finder import find_node
from softib.iba.smp import PortInfo
from tests.live.umad_sm.lab import fabric_of, own

HDR, ALL = 4, 15


def enabled(s) -> set[int]:
    """LinkSpeedExtEnabled of the switches' cabled ports."""
    f = fabric_of(s)
    rows = np.flatnonzero(f.linked & f.is_switch[f.port_node] & (f.port_num > 0))
    return set(PortInfo.link_speed_ext_enabled.get(f.port_info[rows]).tolist())


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize(("firmware", "after_opensm"), [("strict", HDR), ("lenient", ALL)])
def test_opensm_leaves_slow_links_slow(softib, stock, firmware, after_opensm):
    opensm, smpquery = stock("opensm"), stock("smpquery")
    (softib.folder / "ndr.yaml").write_text(
        f"generation: NDR\nfirmware: {firmware}\ntopology: {{kind: fat-tree, radix: 4, levels: 2}}\n"
    )
    (softib.folder / "slow").write_text(f"force_link_speed_ext {HDR}\n")
    (softib.folder / "full").write_text("force_link_speed_ext 31\n")
    softib("up", "ndr.yaml", "--sm", "external", "--detach")
    own(softib, "sm", "run", "--once", "--sm-config", "slow")
    assert enabled(softib) == {HDR}
    lid = str(int(fabric_of(softib).lid[fabric_of(softib).port(find_node(fabric_of(softib), "leaf-1"), 0)]))
    shown = {bit: softib("run", "--", smpquery, *bit, "portinfo", lid, "2") for bit in ((), ("-x",))}
    assert "LinkSpeedExtSupported:...........14.0625" in shown[("-x",)]
    assert ("LinkSpeedExtSupported:...........0" in shown[()]) == (firmware == "strict")
    assert "LinkSpeedExtActive:..............53.125" in shown[()], (
        "what a link runs at is no secret: iblinkinfo asks without the bit, too"
    )
    words = softib.words("run", "--", opensm, "-o", "-f", "osm.log")
    subprocess.run(
        words,
        env={**softib.env, "OSM_CACHE_DIR": str(softib.folder)},
        cwd=softib.folder,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert enabled(softib) == {after_opensm}
    own(softib, "sm", "run", "--once", "--sm-config", "full")
    assert enabled(softib) == {ALL}
