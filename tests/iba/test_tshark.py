"""Wireshark's dissector as oracle: random attributes in our packets read back as what we declared."""

import ipaddress

import numpy as np
import pytest

from softib.iba import notice, perf, perf_optional, smp
from softib.iba.headers import BTH, DETH, LRH
from tests.iba.lab import dissect, mad_packet, number

pytestmark = pytest.mark.stock

# Their name of a field where it is not ours without underscores.
NAMES = {
    smp.NodeInfo: ("nodeinfo", {"sys_guid": "systemimageguid"}),
    smp.SwitchInfo: ("switchinfo", {
        "mcast_fdb_cap": "multicastfdbcap", "default_mcast_primary_port": "defaultmulticastprimaryport",
        "default_mcast_not_primary_port": "defaultmulticastnotprimaryport",
        "optimized_sl2vl": "optimizedsltovlmappingprogramming", "enhanced_port0": "enhancedportzero",
        "mcast_fdb_top": None}),
    smp.PortInfo: ("portinfo", {
        "mkey": "m_key", "gid_prefix": "guid", "cap_mask": "capabilitymask", "mkey_lease_period": "m_keyleaseperiod",
        "port_phys_state": "portphysicalstate", "mkey_protect": "m_keyprotectbits",
        "vl_arb_high_cap": "vlarbitrationhighcap", "vl_arb_low_cap": "vlarbitrationlowcap",
        "mkey_violations": "m_keyviolations", "pkey_violations": "p_keyviolations",
        "qkey_violations": "q_keyviolations", "mcast_pkey_trap_suppression": None, "cap_mask2": None,
        "link_speed_ext_active": None, "link_speed_ext_supported": None, "link_speed_ext_enabled": None,
        "link_speed_ext2_active": None, "link_speed_ext2_supported": None, "link_speed_ext2_enabled": None}),
    smp.SMInfo: ("sminfo", {"sm_key": "sm_key"}),
    notice.Notice: ("notice", {
        "producer_type": "producertypevendorid", "trap_number": "trapnumberdeviceid", "toggle": "noticetoggle",
        "count": "noticecount", "data_details": None}),
    perf.PortCounters: ("portcounters", {"counter_select2": None, "qp1_dropped": None, "port_xmit_wait": None}),
    perf_optional.PortCountersExtended: ("portcounters_ext", dict.fromkeys([
        "counter_select2", *[f.name for f in perf_optional.PortCountersExtended.named() if f.offset >= 576]])),
}  # fmt: skip # a table, its columns aligned
"""None: Wireshark 4.0 does not show the field."""


def mad_of(struct, data, method=0x81):
    m = np.zeros(256, np.uint8)
    klass = 4 if "iba.perf" in struct.__module__ else 0x81
    m[:4] = 1, klass, 1, method
    m[16:18] = struct.attr >> 8, struct.attr & 255
    if klass == 0x81:
        m[32:36] = 255
    m[64 : 64 + struct.size] = data
    return m


@pytest.mark.parametrize("struct", NAMES, ids=lambda c: c.__name__)
def test_fields_of_an_attribute(stock, tmp_path, struct):
    rng = np.random.default_rng(21)
    octets = rng.integers(0, 256, (25, struct.size), dtype=np.uint8)
    prefix, names = NAMES[struct]
    if struct is notice.Notice:
        notice.Notice.is_generic.set(octets, 1)
        notice.Notice.trap_number.set(octets, rng.choice(list(TRAPS), 25))
    packets = [mad_packet(mad_of(struct, o), 5, 6, 1 if "iba.perf" in struct.__module__ else 0) for o in octets]
    compared = 0
    for row, shown in zip(octets, dissect(stock, tmp_path, packets), strict=True):
        for f in struct.named():
            theirs = names.get(f.name, f.name.replace("_", ""))
            if theirs is None:
                continue
            said = shown[f"infiniband.{prefix}.{theirs}"][0]
            assert number(said) == int(f.get(row)), f
            compared += 1
    assert compared >= 25 * 5


# Wireshark 4.0 shows 16 of the 32 port masks.
TABLES = [
    (smp.PKeyTable, "p_keytable.p_keybase", lambda v: [x & 0x7FFF for x in v]),
    (smp.LinearForwardingTable, "linearforwardingtable.port", list),
    (smp.MulticastForwardingTable, "multicastforwardingtable.portmask", lambda v: v[:16]),
    (smp.VLArbitrationTable, "vlarbitrationtable.weight", lambda v: [x & 0xFF for x in v]),
    (smp.VLArbitrationTable, "vlarbitrationtable.vl", lambda v: [x >> 8 & 0xF for x in v]),
    (smp.SLtoVLMappingTable, "sltovlmappingtable.sltovlhighbits", lambda v: list(v)[0::2]),
    (smp.SLtoVLMappingTable, "sltovlmappingtable.sltovllowbits", lambda v: list(v)[1::2]),
]


@pytest.mark.parametrize(("struct", "name", "expected"), TABLES, ids=lambda x: getattr(x, "__name__", x))
def test_tables(stock, tmp_path, struct, name, expected):
    octets = np.random.default_rng(22).integers(0, 256, (8, 64), dtype=np.uint8)
    (field,) = struct.named()
    shown = dissect(stock, tmp_path, [mad_packet(mad_of(struct, o), 5, 6, 0) for o in octets])
    for row, fields in zip(octets, shown, strict=True):
        assert [number(x) for x in fields[f"infiniband.{name}"]] == expected(field.get(row).tolist())


# Wireshark 4.0 itself fails on trap 259 ("trying to fetch an IPv6 address with length 2").
TRAPS = {
    64: {"gid": None},
    128: {"lid": "lidaddr"},
    129: {"lid": "lidaddr", "portnum": "portno"},
    144: {"lid": "lidaddr", "cap_mask": "capabilitymask", "other_local_changes": "otherlocalchanges"},
    145: {"lid": "lidaddr", "sys_guid": "systemimageguid"},
    256: {
        "lid": "lidaddr",
        "dr_slid": "drslid",
        "method": "method",
        "attr_id": "attributeid",
        "attr_mod": "attributemodifier",
        "mkey": "mkey",
        "dr_notice": "drnotice",
        "dr_path_truncated": "drpathtruncated",
        "dr_hop_count": "drhopcount",
    },
    257: {"lid1": "lidaddr1", "lid2": "lidaddr2", "key": "key", "sl": "sl", "qp1": "qp1", "qp2": "qp2"},
}


@pytest.mark.parametrize("trap", TRAPS)
def test_what_a_trap_says(stock, tmp_path, trap):
    details = notice.DETAILS_BY_TRAP[trap]
    octets = np.random.default_rng(trap).integers(0, 256, (6, details.size), dtype=np.uint8)
    packets = []
    for o in octets:
        data = notice.Notice.pack(is_generic=1, type=1, producer_type=2, trap_number=trap, issuer_lid=9, data_details=o)
        packets.append(mad_packet(mad_of(notice.Notice, data, method=5), 5, 6, 0))
    for row, shown in zip(octets, dissect(stock, tmp_path, packets), strict=True):
        for ours, theirs in TRAPS[trap].items():
            if theirs is None:
                gid = details.gid.get(row).tolist()
                (said,) = shown["infiniband.trap.gidaddr"]
                assert int(ipaddress.ip_address(said)) == gid[0] << 64 | gid[1]
            else:
                assert number(shown[f"infiniband.trap.{theirs}"][0]) == int(details.fields[ours].get(row)), ours


def test_headers_of_the_packet(stock, tmp_path):
    m = mad_of(perf.PortCounters, perf.PortCounters.zeros())
    (shown,) = dissect(stock, tmp_path, [mad_packet(m, 0xBEEF, 0x1234, 1, src_qp=7, sl=5, pkey=0x8001, psn=0xABCDE)])
    want = {
        "lrh.vl": 0,
        "lrh.sl": 5,
        "lrh.lnh": 2,
        "lrh.dlid": 0xBEEF,
        "lrh.pktlen": 72,
        "lrh.slid": 0x1234,
        "bth.opcode": 100,
        "bth.p_key": 0x8001,
        "bth.destqp": 1,
        "bth.psn": 0xABCDE,
        "deth.q_key": 0x80010000,
        "deth.srcqp": 7,
    }
    assert {k: number(shown[f"infiniband.{k}"][0]) for k in want} == want
    assert LRH.size + BTH.size + DETH.size == 28
