"""Every option of perfquery and ibqueryerrors, under either preload library, against the counter columns of the fabric."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from tests.agents.lab import OPTIONAL, counters_of, place
from tests.live.ibsim.tools.tool_answers import named
from tests.live.ibsim.tools.tool_lab import STOCK_FIRST, Lab, fields, in_turn

pytestmark = pytest.mark.stock

BASIC = {
    "SymbolErrorCounter": "symbol_error_counter",
    "LinkErrorRecoveryCounter": "link_error_recovery_counter",
    "LinkDownedCounter": "link_downed_counter",
    "PortRcvErrors": "port_rcv_errors",
    "PortRcvRemotePhysicalErrors": "port_rcv_remote_physical_errors",
    "PortRcvSwitchRelayErrors": "port_rcv_switch_relay_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "PortXmitConstraintErrors": "port_xmit_constraint_errors",
    "PortRcvConstraintErrors": "port_rcv_constraint_errors",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
    "VL15Dropped": "vl15_dropped",
    "PortXmitWait": "port_xmit_wait",
}
"""Counter as the tools call it → column. (QP1Dropped is the column ``qp1_dropped``; libibmad 44 reads it from the place of
VL15Dropped.)"""
MOVING = {
    "PortXmitData": "port_xmit_data",
    "PortRcvData": "port_rcv_data",
    "PortXmitPkts": "port_xmit_pkts",
    "PortRcvPkts": "port_rcv_pkts",
    "PortUnicastXmitPkts": "port_unicast_xmit_pkts",
    "PortUnicastRcvPkts": "port_unicast_rcv_pkts",
}
"""MADs move these, the question's own too."""
OPTIONS = {
    "-X": "PortXmitDataSL",
    "-S": "PortRcvDataSL",
    "-D": "PortXmitDiscardDetails",
    "-E": "PortRcvErrorDetails",
    "-T": "PortExtendedSpeedsCounters",
    "--oprcvcounters": "PortOpRcvCounters",
    "--flowctlcounters": "PortFlowCtlCounters",
    "--vloppackets": "PortVLOpPackets",
    "--vlopdata": "PortVLOpData",
    "--vlxmitflowctlerrors": "PortVLXmitFlowCtlUpdateErrors",
    "--vlxmitcounters": "PortVLXmitWaitCounters",
    "--swportvlcong": "SwPortVLCongestion",
    "--rcvcc": "PortRcvConCtrl",
    "--slrcvfecn": "PortSLRcvFECN",
    "--slrcvbecn": "PortSLRcvBECN",
    "--xmitcc": "PortXmitConCtrl",
    "--vlxmittimecc": "PortVLXmitTimeCong",
}
BY_SL = ("-X", "-S")
MAD_WORDS = 72
BY_NAME = {s.__name__: s for s in OPTIONAL}
BIG = 1 << 20
"""More than the MADs of this module move."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    one = Lab(generate("fat-tree", radix=4, levels=2, generation="HDR"), tmp_path_factory.mktemp("counters"))
    yield one
    one.stop()


@pytest.fixture
def lab(served):
    """The module's fabric, all counters 0."""
    f = served.f
    for name in ("counters", "detail_counters", "vl_counters", "sl_counters", "lane_counters"):
        getattr(f, name)[...] = 0
    return served


def plant(lab: Lab, port: int, scale: int = 1) -> dict[str, int]:
    """Distinct values in all error counters of ``port``; what a tool must show of them."""
    want = {}
    for i, (name, column) in enumerate(BASIC.items()):
        want[name] = (3 + i) * (1 if column in SMALL else scale)
        lab.f.counters[column][port] = want[name]
    return want


SMALL = (
    "link_error_recovery_counter",
    "link_downed_counter",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
)


def shown(text: str, names) -> dict[str, int]:
    told = fields(text)
    return {k: int(told[k], 0) for k in names}


def ask(lab: Lab, library: str, *words: object, code: int = 0) -> str:
    got, said = lab.tool(library, *(str(w) for w in words))
    assert got == code, (words, said[-2000:])
    return said


def the_port(lab: Lab) -> tuple[int, int]:
    """Port 3 of the second leaf, and the LID of its switch."""
    port = named(lab.f, "leaf-2") + 3
    return port, lab.lid(port)


@pytest.mark.parametrize(("option", "library"), in_turn(list(OPTIONS)))
def test_perfquery_shows_and_resets_what_the_columns_hold(option, library, lab):
    f, struct = lab.f, BY_NAME[OPTIONS[option]]
    port, lid = the_port(lab)
    counters = counters_of(struct)
    want = [(n * 7 + 1) % x.mask + 1 if x.bits == 2 else n * 7 + 1 for n, (x, _) in enumerate(counters)]
    for x, i in counters:
        place(f, x.name)[:, i] = 2  # of all other ports
    for n, (x, i) in zip(want, counters, strict=True):
        place(f, x.name)[port, i] = n
    said = ask(lab, library, "perfquery", option, lid, 3)
    got = [int(v, 0) for k, v in re.findall(r"^(\w+):\.*(\w+)$", said, re.M) if not k.endswith("Select")]
    if option in BY_SL:  # the questions themselves are on SL 0
        moved = (got[0] - want[0]) // MAD_WORDS
        assert got == [want[0] + moved * MAD_WORDS, *want[1:]] and 0 <= moved <= 4, said
    elif (
        option == "-T"
    ):  # RS-FEC is active at HDR: perfquery shows what it counts in place of the blocks' (PortInfoExtended)
        told = {k: int(v, 0) for k, v in re.findall(r"^(\w+):\.*(\w+)$", said, re.M)}
        assert told["FECCorrectableSymbolCtrLane3"] == place(f, "fec_correctable_block_ctr")[port, 3], said
        assert told["PortFECUncorrectableBlockCtr"] == place(f, "port_fec_uncorrectable_block_ctr")[port, 0]
    elif library == "stock":
        assert got == want[: len(got)] and len(got) >= min(len(want), 16), said
    else:
        assert got == want, said
    ask(lab, library, "perfquery", "-R", option, lid, 3)
    still = [n for n, _ in enumerate(counters) if n or option not in BY_SL]
    kept = [(place(f, x.name)[port, i], place(f, x.name)[port - 1, i]) for x, i in counters]
    assert all(kept[n][0] == 0 for n in still) and all(kept[n][1] == 2 for n in still), (
        "the port beside it keeps its own"
    )
    assert kept[0][0] <= 4 * MAD_WORDS


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_perfquery_ports_resets_and_addresses(library, lab):
    """-x -a -l -r -R, port lists and masks, by LID and by GUID, own port."""
    f = lab.f
    port, lid = the_port(lab)
    want = plant(lab, port)
    assert shown(ask(lab, library, "perfquery", lid, 3), want) == want
    assert shown(ask(lab, library, "perfquery", "-L", lid, 3), want) == want
    assert shown(ask(lab, library, "perfquery", "-G", lab.guid(port), 3), want) == want
    for column in MOVING.values():
        f.counters[column][port] = BIG << 16
    for name in MOVING:
        told = int(fields(ask(lab, library, "perfquery", "-x", lid, 3))[name])
        assert BIG << 16 <= told <= (BIG << 16) + BIG, name
    # Aggregated over all ports, over some, and each by itself.
    f.counters["port_rcv_errors"][port - 1] = 100
    assert (
        shown(ask(lab, library, "perfquery", "-a", lid), ["PortRcvErrors"])["PortRcvErrors"]
        == 100 + want["PortRcvErrors"]
    )
    assert shown(ask(lab, library, "perfquery", "-a", lid, "1,3"), want) == want
    assert shown(ask(lab, library, "perfquery", "-a", lid, "2-3"), ["PortSelect"]) == {"PortSelect": 255}
    said = ask(lab, library, "perfquery", "-l", lid, "2-4")
    assert re.findall(r"^PortSelect:\.+(\d+)$", said, re.M) == ["2", "3", "4"]
    assert re.findall(r"^PortRcvErrors:\.+(\d+)$", said, re.M) == ["100", str(want["PortRcvErrors"]), "0"]
    assert len(re.findall("PortSelect", ask(lab, library, "perfquery", "-a", "-l", lid))) == int(
        f.node_nports[f.port_node[port]]
    )
    # A mask resets what it names: bit 1 is LinkErrorRecovery (IBA 16.1.3.5).
    ask(lab, library, "perfquery", "-R", lid, 3, "0x0002")
    after = {k: int(f.counters[c][port]) for k, c in BASIC.items()}
    assert after == {**want, "LinkErrorRecoveryCounter": 0}
    assert shown(ask(lab, library, "perfquery", "-r", lid, 3), ["VL15Dropped"])["VL15Dropped"] == want["VL15Dropped"]
    assert not any(f.counters[c][port] for c in BASIC.values()) and f.counters["port_rcv_errors"][port - 1] == 100
    ask(lab, library, "perfquery", "-x", "-R", lid, 3)
    assert all(f.counters[c][port] < BIG for c in MOVING.values())
    ask(lab, library, "perfquery", "-R", "-a", lid)
    assert f.counters["port_rcv_errors"][port - 1] == 0
    own = named(f, "host-0001")
    f.counters["symbol_error_counter"][own] = 77
    assert shown(ask(lab, library, "perfquery"), ["SymbolErrorCounter"]) == {"SymbolErrorCounter": 77}


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_perfquery_samples_control(library, lab):
    """-c shows that a sampling runs, and what it samples (IBA 16.1.3.2)."""
    _, lid = the_port(lab)
    told = fields(ask(lab, library, "perfquery", "-c", lid, 3))
    assert told["PortSelect"] == "3" and told["SampleStatus"] == "0" and int(told["CounterWidth"], 0) == 4
    assert [told[f"CounterSelect{i}"] for i in range(15)] == ["0x0000"] * 15


def errors(said: str) -> dict[tuple[str, str], dict[str, int]]:
    """(node GUID, port) → counter → value, of ibqueryerrors."""
    lines = re.findall(r"^ +GUID (0x\w+) port (\w+): (.*)$", said, re.M)
    return {(g, p): {k: int(v) for k, v in re.findall(r"\[(\w+) == (\d+)", rest)} for g, p, rest in lines}


def queried(lab: Lab, library: str, *words: object, code: int | None = None) -> tuple[dict, str]:
    got, said = lab.tool(library, "ibqueryerrors", *(str(w) for w in words))
    found = errors(said)
    assert got == (1 if found and "--counters" not in words else 0) if code is None else got == code, said[-2000:]
    return found, said


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_ibqueryerrors_every_option(library, lab):
    f = lab.f
    port, lid = the_port(lab)
    guid = f"{int(f.node_guid[f.port_node[port]]):#x}"
    want = plant(lab, port, 10)
    f.detail_counters["port_inactive_discards"][port] = 5
    f.detail_counters["port_sw_hoq_lifetime_limit_discards"][port] = 6
    found, said = queried(lab, library)
    assert found == {(guid, "ALL"): want, (guid, "3"): want}
    assert f"{f.sizes.nodes} nodes checked, 1 bad nodes found" in said
    assert f"{int(f.linked.sum())} ports checked, 1 ports have errors" in said
    less = lambda *gone: {k: v for k, v in want.items() if k not in gone}
    assert queried(lab, library, "-s", "SymbolErrorCounter,VL15Dropped")[0][guid, "3"] == less(
        "SymbolErrorCounter", "VL15Dropped"
    )
    assert queried(lab, library, "-c")[0][guid, "3"] == less("PortRcvSwitchRelayErrors")
    # Where it is, and its link.
    peer = int(f.port_peer[port])
    said = queried(lab, library, "-r")[1]
    link = re.search(
        r"Link info: +(\d+) +(\d+)\[ +\] ==\( 4X +53.125 Gbps Active/ +LinkUp\)==> +(0x\w+) +(\d+) +(\d+)\[", said
    )
    assert link, said
    far = f"0x{int(f.port_guid[peer]) or int(f.node_guid[f.port_node[peer]]):016x}"
    assert link.groups() == (str(lid), "3", far, str(lab.lid(peer)), str(int(f.port_num[peer])))
    found, said = queried(lab, library, "--details")
    # Version 44 names the fields of PortXmitDiscardDetails as if they were PortRcvErrorDetails' (perfquery -D does not).
    assert found[guid, "3"]["PortLocalPhysicalErrors"] == 5 and found[guid, "3"]["PortDLIDMappingErrors"] == 6
    found, _ = queried(lab, library, "--data")
    assert found[guid, "3"].keys() >= {*want, "PortXmitData", "PortRcvPkts"}
    found, said = queried(lab, library, "--counters")
    assert len(found) == int(f.linked.sum()) and not set(BASIC) & set(found[guid, "3"]), "data only, of every port"
    # Of whom.
    bad = named(f, "leaf-2")
    assert set(queried(lab, library, "-G", f"{int(f.port_guid[bad]):#x}")[0]) == {(guid, "ALL"), (guid, "3")}
    assert set(queried(lab, library, "-S", f"{int(f.port_guid[bad]):#x}")[0]) == {(guid, "ALL"), (guid, "3")}
    found, said = queried(lab, library, "-D", "0,1")
    assert not found and "1 nodes checked" in said, "the first leaf has none"
    assert f"{f.sizes.switches} nodes checked, 1 bad" in queried(lab, library, "--switch")[1]
    assert f"{len(f.cas)} nodes checked, 0 bad" in queried(lab, library, "--ca")[1]
    assert "0 nodes checked" in queried(lab, library, "--router")[1]
    assert (
        queried(lab, library, "--skip-sl")[0]
        == queried(lab, library, "-R")[0]
        == queried(lab, library, "-o", "4")[0]
        == queried(lab, library)[0]
    )
    # Beyond thresholds.
    (lab.folder / "thresholds").write_text(f"SymbolErrorCounter={want['SymbolErrorCounter']}\nPortRcvErrors=1\n")
    found, said = queried(lab, library, "--threshold-file", "thresholds")
    assert found[guid, "3"] == less("SymbolErrorCounter") and "[PortRcvErrors = 1]" in said
    (lab.folder / "map").write_text(f'{lab.guid(port)} "Bad One"\n')
    assert (
        "Errors for 0x" in queried(lab, library, "--node-name-map", "map")[1]
        and "Bad One" in queried(lab, library, "--node-name-map", "map")[1]
    )
    ask(lab, library, "ibnetdiscover", "--cache", f"cache-{library}")
    assert queried(lab, library, "--load-cache", f"cache-{library}")[0][guid, "3"] == want
    # Cleared after they were shown: errors, then data.
    f.counters["port_xmit_data"][port] = BIG << 16
    assert queried(lab, library, "-k")[0][guid, "3"] == want
    assert not any(f.counters[c][port] for c in BASIC.values()) and f.counters["port_xmit_data"][port] >= BIG << 16
    assert queried(lab, library)[0] == {}
    queried(lab, library, "-K", "--data")
    assert np.all(f.counters["port_xmit_data"] < BIG)


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_perfquery_says_what_a_device_of_its_generation_can(library, lab):
    """Both masks, and the error counters in 64 bits of a switch: PortXmitWait does not stop at 32 bits there. The stock library loses the end of
    every MAD, so its programs are not told of them."""
    f = lab.f
    port, lid = the_port(lab)
    f.counters["port_xmit_wait"][port] = f.counters["symbol_error_counter"][port] = 2**40 + 5
    said = ask(lab, library, "perfquery", "-x", lid, 3)
    if library == "stock":
        assert "CapMask2: 0x0000000)" in said and "SymbolErrorCounter" not in said
    else:
        assert "CapMask: 0x5300 CapMask2: 0x0000002)" in said
        assert shown(said, ["PortXmitWait", "SymbolErrorCounter"]) == {
            "PortXmitWait": 2**40 + 5,
            "SymbolErrorCounter": 2**40 + 5,
        }
        ask(lab, library, "perfquery", "-x", "-R", lid, 3)
        assert not f.counters["symbol_error_counter"][port]
        f.counters["port_xmit_wait"][port] = 2**40
    plain = shown(ask(lab, library, "perfquery", lid, 3), ["PortXmitWait"])
    assert plain == {"PortXmitWait": 2**32 - 1}
    own = ask(lab, library, "perfquery", "-x")
    assert "CapMask: 0x5A00 CapMask2: 0x0000000)" in own
