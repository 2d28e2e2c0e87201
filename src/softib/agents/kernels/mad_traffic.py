"""Count MADs on every port of their path, as all packets are (IBA 16.1.3.5: on all VLs, including
VL15).

The hops of one call are collected in ``passed``, which has one word per port, so that it stays in
the CPU's cache. ``touched`` lists the ports with a nonzero count. :func:`fold` adds the counts to
the counters.
"""

import numpy as np

from softib.agents.kernels.big_endian import inner
from softib.agents.kernels.route import TOUCHED
from softib.fabric.counters import COUNTER_NAMES, SL_COUNTERS

MAD_DWORDS = np.uint64((8 + 12 + 8 + 256 + 4) // 4)
"""PortXmitData of one MAD: LRH 8, BTH 12, DETH 8, MAD 256, ICRC 4 bytes. The VCRC and the link
delimiters do not count."""
XMIT_DATA, RCV_DATA, XMIT_PKTS, RCV_PKTS, UNICAST_XMIT, UNICAST_RCV = (
    COUNTER_NAMES.index(n)
    for n in (
        "port_xmit_data",
        "port_rcv_data",
        "port_xmit_pkts",
        "port_rcv_pkts",
        "port_unicast_xmit_pkts",
        "port_unicast_rcv_pkts",
    )
)
XMIT_SL, RCV_SL = (SL_COUNTERS.fields[n][1] // 8 for n in ("xmit_data_sl", "rcv_data_sl"))
SENT, RECEIVED = np.uint64(1), np.uint64(1) << np.uint64(32)
BOTH = SENT | RECEIVED
LOW, ALL_ONES = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFFFFFFFF)


@inner
def add(row, column, n):
    """Increase a counter that stops at its maximum."""
    row[column] = ALL_ONES if n > ALL_ONES - row[column] else row[column] + n


@inner
def pass_port(t, port, packets):
    """Record that ``packets`` went through ``port``."""
    before = t.passed[port]
    if before == np.uint64(0):
        n = t.progress[TOUCHED]
        t.touched[n] = port
        t.progress[TOUCHED] = n + 1
    t.passed[port] = before + packets


@inner
def count_hops(t, first, last, there_and_back):
    """Count one MAD on the hops ``first``…``last`` - 1 of ``path`` (rows of the egress ports). With
    ``there_and_back``, also count its answer on the same links."""
    for i in range(first, last):
        egress = t.path[i]
        ingress = np.int64(t.port_peer[egress])
        pass_port(t, egress, BOTH if there_and_back else SENT)
        pass_port(t, ingress, BOTH if there_and_back else RECEIVED)


@inner
def count_level(t, first, last, level):
    """Count one MAD per SL (PortXmitDataSL, PortRcvDataSL) on the hops ``first``…``last`` - 1 of
    ``path``. ``level`` is the SL; -1 means VL15, which has no SL (IBA 7.6.5)."""
    if level < 0:
        return
    for i in range(first, last):
        egress = np.int64(t.path[i])
        add(t.sl_counters[egress], XMIT_SL + level, MAD_DWORDS)
        add(t.sl_counters[np.int64(t.port_peer[egress])], RCV_SL + level, MAD_DWORDS)


@inner
def count_back(t, first, last):
    """Count an answer on the hops ``last`` - 1 … ``first``, backwards on the path of its
    request."""
    for i in range(first, last):
        pass_port(t, np.int64(t.port_peer[t.path[i]]), SENT)
        pass_port(t, t.path[i], RECEIVED)


@inner
def fold(t):
    """Add the collected counts to the counters."""
    for i in range(t.progress[TOUCHED]):
        port = t.touched[i]
        sent, received = t.passed[port] & LOW, t.passed[port] >> np.uint64(32)
        t.passed[port] = np.uint64(0)
        row = t.counters[port]
        add(row, XMIT_DATA, sent * MAD_DWORDS)
        add(row, XMIT_PKTS, sent)
        add(row, UNICAST_XMIT, sent)
        add(row, RCV_DATA, received * MAD_DWORDS)
        add(row, RCV_PKTS, received)
        add(row, UNICAST_RCV, received)
    t.progress[TOUCHED] = 0
