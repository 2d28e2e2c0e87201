"""Mellanox' vendor class 0x0a, read-only. It supports the attributes whose layout vendstat and
mstflint publish, and the registers that AccessRegisterGMP reads: the module in a port, and the
port's histogram of RS-FEC corrections."""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get8, get16, get32, inner, put16, put32, put64
from softib.agents.kernels.faults.ber import settle
from softib.agents.kernels.faults.fec import PAM4, clean_codewords, corrects
from softib.agents.kernels.mad_traffic import fold
from softib.agents.kernels.samples import speed_code
from softib.fabric.counters import COUNTER_NAMES
from softib.iba import constants as c
from softib.iba.smp import ATTR_AT, METHOD_AT, MODIFIER_AT
from softib.iba.vendor import mlnx

AT, BLOCK = mlnx.REGISTER_AT, mlnx.BLOCK_SIZE
BLOCK_NUMBER_AT = AT - 4
PPCNT, PDDR, PPHCR = mlnx.PPCNT, mlnx.PDDR, mlnx.PPHCR
UNKNOWN, BAD = mlnx.UNKNOWN_REGISTER, mlnx.BAD_PARAMETER
PORT_AT, IB_PORT_AT, GROUP_AT, UNIT_AT, PAGE_AT = AT + 1, AT + 2, AT + 3, AT + 4, AT + 7
DATA_AT = AT + mlnx.PortRegister.size
HISTOGRAM, MODULE = mlnx.HISTOGRAM_GROUP, mlnx.MODULE_PAGE
BINS, MODULE_SIZE = mlnx.BINS, mlnx.ModuleInfo.size
KP4_MOST, KR4_MOST = 15, 7
KP4, KR4 = mlnx.KP4, mlnx.KR4
H = mlnx.HistogramRanges
TYPE_AT, COUNT_AT, MOST_AT, RANGES_AT = (
    AT,
    AT + H.num_of_bins.byte,
    AT + H.hist_max_measurement.byte,
    AT + H.bin_range.byte,
)
LARGEST = np.uint64(1 << 63)


@inner
def access_register(t, m, node, number, now):
    """Answer a Get of register ``number``. Return the status."""
    if number != PPCNT and number != PDDR and number != PPHCR:
        return UNKNOWN
    if get32(m, BLOCK_NUMBER_AT) >> 16 != 0 or get8(m, IB_PORT_AT) >> 6 != 1:
        return BAD
    which = get8(m, PORT_AT)
    if which < 1 or which > t.node_nports[node]:
        return BAD
    port = np.int64(t.node_base[node]) + which
    if number == PDDR:
        # Power in dBm would need another register image; softib's firmware supports only
        # microwatts.
        if get8(m, PAGE_AT) != MODULE or get8(m, UNIT_AT) >> 5 & 3 != 1:
            return BAD
        clear(m, DATA_AT, BLOCK - 8)
        copy(m, DATA_AT, t.module_info[port], 0, MODULE_SIZE)
        return OK
    code = speed_code(t, port)
    active = corrects(t, port, code)
    if number == PPCNT:
        if get8(m, GROUP_AT) & 63 != HISTOGRAM:
            return BAD
        settle(t, port, now)
        clean_codewords(t, port, now)
        clear(m, DATA_AT, BLOCK - 8)
        for k in range(BINS):
            value = t.fec_histogram[port, k]
            put64(m, DATA_AT + 8 * k, value if value < LARGEST else np.uint64(0))
        return OK
    clear(m, AT + 5, BLOCK - 5)
    m[TYPE_AT] = ((KP4 if PAM4[code] else KR4) << 4) if active else 0
    bins = (KP4_MOST if PAM4[code] else KR4_MOST) + 1 if active else 0
    m[COUNT_AT], m[MOST_AT] = bins, max(bins - 1, 0)
    for k in range(bins):
        put32(m, RANGES_AT + 4 * k, k << 16 | k)
    return OK


GET = int(c.Method.GET)
OK, BAD_ATTRIBUTE, BAD_FIELD = int(c.MadStatus.OK), int(c.MadStatus.BAD_ATTRIBUTE), int(c.MadStatus.BAD_FIELD)
DATA, RECORDS_AT = mlnx.VENDOR_DATA, mlnx.VENDOR_DATA + 8
CLASS_PORT_INFO, GENERAL_INFO, CONFIG_SPACE, COUNTER_GROUPS = (
    0x01,
    mlnx.GeneralInfo.attr,
    mlnx.CONFIG_SPACE_ACCESS,
    mlnx.COUNTER_GROUP_INFO,
)
G, X = mlnx.GeneralInfo, mlnx.GeneralInfoExt
HW_AT, DEVICE_AT, UPTIME_AT, FW_AT, PSID_AT, SW_AT = (
    G.hw_revision.byte,
    G.device_id.byte,
    G.uptime.byte,
    G.fw_major.byte,
    G.psid.byte,
    G.sw_major.byte,
)
EXT_AT, EXT_SIZE = SW_AT - 1, X.size
ACCESS_REGISTER, CAPABILITY_AT, CAPABLE = (
    mlnx.ACCESS_REGISTER,
    mlnx.CAPABILITY_AT,
    mlnx.CAPABLE,
)
EXT_DEVICES = np.array(mlnx.EXT_FW_DEVICES, np.int64)
PSID = np.frombuffer(b"SOFTIB".ljust(16, b"\0"), np.uint8)
RECORD, MAX_RECORDS = mlnx.ConfigSpaceRecord.size, 18
XMIT_WAIT = COUNTER_NAMES.index("port_xmit_wait")
ADDRESS, STEP = mlnx.XMIT_WAIT_ADDRESS, mlnx.XMIT_WAIT_STEP
IS3, IS3_PORTS, FIRST_GROUP_PORT = mlnx.IS3_DEVICE_ID, mlnx.IS3_PORTS, 4
RESP_TIME_AT, RESP_TIME = 7, 18
PS_PER_S = 1_000_000_000_000


@inner
def general_info(t, m, node, now):
    """Get GeneralInfo: the hardware, as in NodeInfo; the seconds since power-up; and softib's
    version as firmware version and software version."""
    device = np.int64(t.device_id[node])
    put16(m, DATA + HW_AT, np.int64(t.revision[node]) & 0xFFFF)
    put16(m, DATA + DEVICE_AT, device)
    put32(m, DATA + UPTIME_AT, (now // PS_PER_S) & 0xFFFFFFFF)
    copy(m, DATA + FW_AT, t.firmware, 0, 3)
    copy(m, DATA + PSID_AT, PSID, 0, 16)
    at = DATA + SW_AT
    for i in range(EXT_DEVICES.shape[0]):
        if EXT_DEVICES[i, 0] <= device <= EXT_DEVICES[i, 1]:
            for j in range(3):
                put32(m, DATA + EXT_AT + 4 * j, np.int64(t.firmware[j]))
            at = DATA + SW_AT + EXT_SIZE
    copy(m, at, t.firmware, 0, 3)
    put32(m, DATA + CAPABILITY_AT, CAPABLE)
    return OK


@inner
def config_space(t, m, node, modifier):
    """Read the configuration space of InfiniScale III: PortXmitWait of the ports whose addresses
    the records have."""
    records = (modifier >> 16) & 0x3F
    if t.device_id[node] != IS3 or records > MAX_RECORDS:
        return BAD_FIELD
    for i in range(records):
        at = RECORDS_AT + RECORD * i
        group = (get32(m, at) - ADDRESS) // STEP
        if group < 1 or group > IS3_PORTS or (get32(m, at) - ADDRESS) % STEP:
            return BAD_FIELD
        number = (group + FIRST_GROUP_PORT - 2) % IS3_PORTS + 1
        value = np.uint64(0)
        if number <= t.node_nports[node]:
            value = t.counters[t.node_base[node] + number, XMIT_WAIT]
        put32(m, at + 4, min(np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF)), 0xFFFFFFFF))
    return OK


@inner
def vendor_agent(t, m, ingress, now):
    """Answer a Get of one vendor attribute. Return the status."""
    attribute, node = get16(m, ATTR_AT), t.port_node[ingress]
    if m[METHOD_AT] != GET:
        return BAD_ATTRIBUTE
    fold(t)
    if attribute == CONFIG_SPACE:
        return config_space(t, m, node, get32(m, MODIFIER_AT))
    if attribute == ACCESS_REGISTER:
        return access_register(t, m, node, get32(m, MODIFIER_AT), now)
    if attribute != CLASS_PORT_INFO and attribute != GENERAL_INFO and attribute != COUNTER_GROUPS:
        return BAD_ATTRIBUTE
    clear(m, DATA, 232)
    if attribute == GENERAL_INFO:
        return general_info(t, m, node, now)
    if attribute == CLASS_PORT_INFO:
        m[DATA], m[DATA + 1], m[DATA + RESP_TIME_AT] = 1, 1, RESP_TIME
    # Counters always count, without selection of a group, so the number of counter groups is 0.
    return OK
