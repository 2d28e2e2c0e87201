"""SA structures against Wireshark's dissector and libibmad's field tables, and their component masks against both users."""

from __future__ import annotations

import numpy as np
import pytest

from softib.iba import sa
from tests.iba.lab import dissect, mad_packet, number, theirs

pytestmark = pytest.mark.stock

LEVELS = {
    f"{x}{y}": f"{x.replace('_', '')}{y.replace('_', '')}"
    for x in ("mtu", "rate", "packet_life_time")
    for y in ("", "_selector")
}
COMMON = {**LEVELS, "flow_label": "flowlabel", "hop_limit": "hoplimit", "tclass": "tclass", "pkey": "p_key", "sl": "sl"}
SHOWN = {
    sa.PathRecord: ("pathrecord", {**COMMON, "dlid": "dlid", "slid": "slid", "raw_traffic": "rawtraffic",
                                   "reversible": "reversible", "numb_path": "numbpath", "preference": "preference"}),
    sa.MCMemberRecord: ("mcmemberrecord", {**COMMON, "qkey": "q_key", "mlid": "mlid", "scope": "scope",
                                           "join_state": "joinstate", "proxy_join": "proxyjoin"}),
    sa.MultiPathRecord: ("multipathrecord", {**COMMON, "raw_traffic": "rawtraffic", "reversible": "reversible",
                                             "numb_path": "numbpath", "sgid_count": "sgidcount", "dgid_count": "dgidcount"}),
    sa.LinkRecord: ("linkrecord", {"from_lid": "fromlid", "from_port": "fromport", "to_port": "toport", "to_lid": "tolid"}),
    sa.InformInfoRecord: ("", {"enum": "informinforecord.enum", **{k: f"informinfo.{v}" for k, v in {
        "lid_range_begin": "lidrangebegin", "lid_range_end": "lidrangeend", "is_generic": "isgeneric", "subscribe": "subscribe",
        "type": "type", "trap_number": "trapnumberdeviceid", "qpn": "qpn", "resp_time_value": "resptimevalue",
        "producer_type": "producertypevendorid"}.items()}}),
    sa.NodeRecord: ("", {"lid": "sa.lid", "node_guid": "nodeinfo.nodeguid", "port_guid": "nodeinfo.portguid",
                         "vendor_id": "nodeinfo.vendorid", "local_port_num": "nodeinfo.localportnum"}),
    sa.PortInfoRecord: ("", {"endport_lid": "sa.endportlid", "portnum": "sa.portnum", "lid": "portinfo.lid",
                             "overrun_errors": "portinfo.overrunerrors", "mkey": "portinfo.m_key"}),
    sa.SwitchInfoRecord: ("", {"lid": "sa.lid", "linear_fdb_cap": "switchinfo.linearfdbcap", "lids_per_port": "switchinfo.lidsperport"}),
    sa.SMInfoRecord: ("", {"lid": "sa.lid", "guid": "sminfo.guid", "act_count": "sminfo.actcount", "priority": "sminfo.priority"}),
    sa.SL2VLRecord: ("", {"lid": "sa.lid", "in_port": "sa.inputportnum", "out_port": "sa.outputportnum"}),
    sa.VLArbRecord: ("", {"lid": "sa.lid", "out_port": "sa.outputportnum", "block": "sa.blocknum_eightbit"}),
    sa.LFTRecord: ("", {"lid": "sa.lid", "block": "sa.blocknum_sixteenbit"}),
    sa.GUIDInfoRecord: ("", {"lid": "sa.lid", "block": "sa.blocknum_eightbit"}),
    sa.PKeyTableRecord: ("", {"lid": "sa.lid", "block": "sa.blocknum_sixteenbit", "portnum": "sa.portnum"}),
    sa.ServiceRecord: ("linkrecord", {"service_id": "serviceid", "service_lease": "servicelease"}),
}  # fmt: skip # a table, its columns aligned
HEAD = {
    "rmpp_version": "rmpp.rmppversion",
    "rmpp_type": "rmpp.rmpptype",
    "rmpp_flags": "rmpp.rmppflags",
    "rmpp_status": "rmpp.rmppstatus",
    "segment": "rmpp.segmentnumber",
    "length": "rmpp.payloadlength",
    "sm_key": "sa.smkey",
    "attr_offset": "sa.attributeoffset",
    "comp_mask": "sa.componentmask",
}


def message(record, octets: np.ndarray, **head: int) -> np.ndarray:
    m = np.zeros(256, np.uint8)
    m[: sa.SA_DATA] = sa.SaHeader.pack(
        base_version=1, mgmt_class=3, class_version=2, method=0x81, attr_id=record.attr, **head
    )
    m[sa.SA_DATA : sa.SA_DATA + len(octets)] = octets[:200]
    return m


def test_the_head(stock, tmp_path):
    rng = np.random.default_rng(3)
    heads = []
    for _ in range(12):
        values = {n: int(rng.integers(0, sa.SaHeader.fields[n].mask, endpoint=True, dtype=np.uint64)) for n in HEAD}
        heads.append(values | {"rmpp_type": 1})
    packets = [mad_packet(message(sa.NodeRecord, np.zeros(1, np.uint8), **h), 5, 6, 1) for h in heads]
    for head, shown in zip(heads, dissect(stock, tmp_path, packets), strict=True):
        for ours, name in HEAD.items():
            assert number(shown[f"infiniband.{name}"][0]) == head[ours], ours


@pytest.mark.parametrize("record", SHOWN, ids=lambda r: r.__name__)
def test_wireshark_reads_what_we_declare(stock, tmp_path, record):
    octets = np.random.default_rng(record.attr).integers(0, 256, (12, record.size), dtype=np.uint8)
    if record is sa.MultiPathRecord:
        record.sgid_count.set(octets, 1)
        record.dgid_count.set(octets, 2)
    prefix, names = SHOWN[record]
    packets = [mad_packet(message(record, o), 5, 6, 1) for o in octets]
    for row, shown in zip(octets, dissect(stock, tmp_path, packets), strict=True):
        for ours, name in names.items():
            said = shown[f"infiniband.{prefix + '.' if prefix else ''}{name}"][0]
            assert number(said) == int(record.fields[ours].get(row)), ours


LIBIBMAD = [
    (sa.PathRecord, "dlid", "SA_PR_DLID"),
    (sa.PathRecord, "slid", "SA_PR_SLID"),
    (sa.PathRecord, "numb_path", "SA_PR_NPATH"),
    (sa.PathRecord, "sl", "SA_PR_SL"),
    (sa.MCMemberRecord, "qkey", "SA_MCM_QKEY"),
    (sa.MCMemberRecord, "mlid", "SA_MCM_MLID"),
    (sa.MCMemberRecord, "mtu", "SA_MCM_MTU"),
    (sa.MCMemberRecord, "rate", "SA_MCM_RATE"),
    (sa.MCMemberRecord, "sl", "SA_MCM_SL"),
    (sa.MCMemberRecord, "tclass", "SA_MCM_TCLASS"),
    (sa.MCMemberRecord, "pkey", "SA_MCM_PKEY"),
    (sa.MultiPathRecord, "numb_path", "SA_MP_NPATH"),
    (sa.MultiPathRecord, "sgid_count", "SA_MP_NSRC"),
    (sa.MultiPathRecord, "dgid_count", "SA_MP_NDEST"),
    (sa.SaHeader, "comp_mask", "SA_COMPMASK"),
    (sa.SaHeader, "attr_offset", "SA_ATTROFFS"),
    (sa.SaHeader, "sm_key", "SA_MKEY"),
    (sa.SaHeader, "segment", "SA_RMPP_SEGNUM"),
    (sa.SaHeader, "length", "SA_RMPP_LEN"),
    (sa.SaHeader, "rmpp_type", "SA_RMPP_TYPE"),
    (sa.SaHeader, "rmpp_flags", "SA_RMPP_FLAGS"),
    (sa.SaHeader, "rmpp_resp_time", "SA_RMPP_RESP"),
    (sa.SaHeader, "rmpp_status", "SA_RMPP_STATUS"),
]


@pytest.mark.parametrize(("record", "ours", "name"), LIBIBMAD, ids=lambda x: getattr(x, "__name__", x))
def test_libibmad_reads_the_same(mad, numbers, record, ours, name):
    octets = np.random.default_rng(5).integers(0, 256, (30, 256), dtype=np.uint8)
    f = record.fields[ours]
    for row in octets:
        assert theirs(mad, row, numbers[f"IB_{name}_F"], f.bits) == int(f.get(row))


@pytest.mark.parametrize("record", sa.COMPONENTS, ids=lambda r: r.__name__)
def test_octets_survive_and_every_component_is_a_field(record):
    octets = np.random.default_rng(6).integers(0, 256, (20, record.size), dtype=np.uint8)
    assert (record.pack(**record.unpack(octets)) == octets).all()
    named = {n.split(":")[0] for n in sa.COMPONENTS[record] if n}
    assert named <= set(record.fields)
    assert record.size % 8 == 0 or record is sa.SaHeader, "records stand in tables at multiples of 8 octets"


def test_bits_that_stock_clients_send():
    """Masks that saquery and Linux' ib_sa put on the wire (seen in captures of theirs), by name."""
    assert sa.mask_of(sa.PathRecord, "sgid", "dgid", "numb_path", "pkey") == 0x300C
    assert sa.mask_of(sa.PathRecord, "dlid", "slid") == 0x30
    assert sa.mask_of(sa.MCMemberRecord, "mgid", "port_gid", "join_state") == 0x10003
    assert sa.mask_of(sa.PortInfoRecord, "cap_mask") == 1 << 7
    assert sa.mask_of(sa.NodeRecord, "node_description") == 1 << 14
