"""QoS, partitions and congestion control of stock OpenSM: what its options say must stand in our tables, and a run on
stock ibsim must look the same where ibsim is right."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from tests.live.internal_sm.runs import on_both, sl2vl_of
from tests.live.serving import PRELOAD, run

pytestmark = [
    pytest.mark.stock,
    pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent"),
]

SL2VL = [0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0]
QOS_CONF = f"""qos TRUE
qos_max_vls 8
qos_high_limit 4
qos_vlarb_high 0:64,1:32,3:200
qos_vlarb_low 0:1,1:2,2:3,7:255
qos_sl2vl {",".join(map(str, SL2VL))}
"""
QOS_POLICY = """qos-ulps
    default : 0
    any, pkey 0x0012 : 3
    any, service-id 0x5000 : 5
end-qos-ulps
"""


def fabric() -> Fabric:
    return generate("fat-tree", radix=4, levels=2)


def fields(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w[\w ]*):\.*\s*(.*)$", text, re.M))


def test_qos_tables_are_those_of_the_options(stock, tmp_path):
    (tmp_path / "conf").write_text(QOS_CONF)
    (tmp_path / "policy").write_text(QOS_POLICY)
    seen: dict[str, tuple[str, str]] = {}

    def look(ours, theirs, host):
        for what in ("sl2vl", "vlarb"):
            texts = [run(tmp_path, env, stock("smpquery"), "-D", what, "0,1", "1")[1] for env in (ours, theirs)]
            seen[what] = texts[0], texts[1]

    done = on_both(
        stock, fabric(), tmp_path, "-F", str(tmp_path / "conf"), "-Q", "-Y", str(tmp_path / "policy"), then=look
    )
    f = done.fabric
    assert done.ours.up and done.theirs.up and not done.ours.complaints - done.theirs.complaints
    held = sl2vl_of(f)
    for s, node in enumerate(f.switch_node.tolist()):
        cabled = [p for p in range(1, int(f.node_nports[node]) + 1) if f.linked[f.node_base[node] + p]]
        assert (held[s][np.ix_([0, *cabled], cabled)] == SL2VL).all()
    nibbles = np.stack([f.sl2vl >> 4, f.sl2vl & 15], axis=2).reshape(-1, 16)
    cas = f.node_base[f.cas] + 1
    assert (nibbles[f.sl2vl_base[cas]] == SL2VL).all()
    for port in np.flatnonzero(f.linked).tolist():
        low, high = f.vl_arb[port, 0].reshape(-1, 2), f.vl_arb[port, 2].reshape(-1, 2)
        assert low[:4].tolist() == [[0, 1], [1, 2], [2, 3], [7, 255]] and not low[4:].any()
        assert high[:3].tolist() == [[0, 64], [1, 32], [3, 200]] and not high[3:].any()
    assert (PortInfo.vl_high_limit.get(f.port_info[f.linked]) == 4).all(), "ibsim forgets it"
    # What the tools read is the same on both, behind the header lines.
    for what, (ours, theirs) in seen.items():
        rows = [
            [x for x in text.splitlines() if re.match(r"(ports|VL|WEIGHT|#\s*High|#\s*Low)", x)]
            for text in (ours, theirs)
        ]
        assert rows[0] and len(rows[0]) == len(rows[1]), what
    ours, theirs = seen["sl2vl"]
    assert (
        ours.splitlines()[2:3]
        and [x for x in ours.splitlines() if " 1: " in x][:1] == [x for x in theirs.splitlines() if " 1: " in x][:1]
    )


def test_partitions(stock, tmp_path):
    f = fabric()
    guid = [int(f.port_guid[f.node_base[n] + 1]) for n in f.cas]
    (tmp_path / "partitions.conf").write_text(
        f"Default=0x7fff, ipoib : ALL=limited, SELF=full, {guid[5]:#x}=full ;\n"
        f"store=0x12, defmember=limited : {guid[0]:#x}=full, {guid[1]:#x}, {guid[2]:#x}=full ;\n"
        f"tenant=0x8034 : {guid[1]:#x}=full, {guid[3]:#x}=limited ;\n"
    )
    wanted = [
        {0xFFFF, 0x8012},
        {0x7FFF, 0x0012, 0x8034},
        {0x7FFF, 0x8012},
        {0x7FFF, 0x0034},
        {0x7FFF},
        {0xFFFF},
    ]
    theirs_said: list[str] = []

    def look(ours, theirs, host):
        theirs_said.append(run(tmp_path, theirs, stock("smpquery"), "-D", "pkeys", "0")[1])

    done = on_both(stock, f, tmp_path, "-P", str(tmp_path / "partitions.conf"), then=look)
    f = done.fabric
    assert done.ours.up and done.theirs.up and not done.ours.complaints - done.theirs.complaints

    def table(port: int) -> set[int]:
        first = int(f.pkey_base[port])
        return set(f.pkeys[first : first + int(f.pkey_cap[port])].tolist()) - {0}

    rows = {int(f.port_guid[p]): int(p) for p in f.node_base[f.cas] + 1}
    for g, keys in zip(guid, wanted, strict=False):
        assert table(rows[g]) == keys, hex(g)
        leaf = int(f.port_peer[rows[g]])
        # The leaf's port holds what its host holds, and enforces it both ways (-Z both).
        assert {k & 0x7FFF for k in table(leaf)} >= {k & 0x7FFF for k in keys}
        assert PortInfo.partition_enforcement_inbound.get(f.port_info[leaf])
        assert PortInfo.partition_enforcement_outbound.get(f.port_info[leaf])
    assert set(re.findall(r"0x[0-9a-f]{4}", theirs_said[0])) - {"0x0000"} == {"0xffff", "0x8012"}


def test_congestion_control_writes_its_tables_and_no_other(stock, tmp_path):
    """ibsim takes CC MADs for SMPs: P_Key and SL2VL tables are overwritten there (``docs/ibsim.md``)."""
    (tmp_path / "conf").write_text(
        "congestion_control TRUE\ncc_sw_cong_setting_control_map 0x1f\ncc_sw_cong_setting_threshold 0x7\ncc_sw_cong_setting_marking_rate 0x55\n"
        "cc_ca_cong_setting_ccti_timer 0 150\ncc_ca_cong_setting_ccti_increase 0 2\ncc_ca_cong_setting_control_map 0x3\n"
        "cc_cct 0:0,0:1,0:2,1:3\n"
    )
    damage: list[str] = []

    def look(ours, theirs, host):
        for env in (ours, theirs):
            damage.append(run(tmp_path, env, stock("smpquery"), "-D", "pkeys", "0")[1])

    done = on_both(stock, fabric(), tmp_path, "-F", str(tmp_path / "conf"), then=look)
    f = done.fabric
    assert done.ours.up and not done.ours.complaints - done.theirs.complaints
    cas = f.node_base[f.cas] + 1
    assert (f.cc_switch_setting[:, 68] == 0x70).all() and (f.cc_ca_setting[cas, 4:7] == [0, 150, 2]).all()
    assert (f.cc_table[cas, :10].view(">u2") == [3, 0, 0, 1, 2]).all()
    assert (f.pkeys[f.pkey_base[cas]] == 0xFFFF).all() and not f.pkeys[f.pkey_base[cas] + 1].any()
    keys = [[x for x in re.findall(r"0x[0-9a-f]{4}", text) if x != "0x0000"] for text in damage]
    assert keys[0] == ["0xffff"] and keys[1] != ["0xffff"], "ibsim's own error is the reason of a difference"
