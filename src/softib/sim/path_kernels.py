"""Kernels that follow messages through the tables of a fabric: LFT by DLID, SL2VL at each output,
link by link.

A **channel** is one VL of one egress port. A path is the list of its channels; port 0 of a switch
has no link, so a path that begins or ends there has one channel fewer.
"""

from softib.jit import kernel, table
from softib.jit.rows import Rows, i8

Tables = table("Tables", "peer switch base num lft sl2vl sl2vl_base vls delay_ps mtu")
"""A fabric's columns by port: ``peer`` (-1: no usable link), ``switch`` (row of ``lft``, -1: a CA),
``base`` and ``num`` (as in :mod:`softib.fabric.columns`), ``sl2vl_base``, ``vls`` (data VLs),
``delay_ps`` (switch and cable, int64), ``mtu`` bytes."""

Sends = table("Sends", "port to dlid sl")
"""Messages by row: port rows of both ends, DLID, SL."""

Paths = table("Paths", "first channel of_port port delay_ps mtu")
"""Output of :func:`lay_paths`: ``channel[first[i]:first[i + 1]]`` of row i, ``of_port`` int32[16
× ports] (channel of a port and VL, -1 = none yet), ``port`` int64 (16 × port + VL) by channel,
``delay_ps`` and ``mtu`` by row."""

COUNTED = Rows(
    "What ports counted.",
    i8("data_out", "words of 4 bytes", "PortXmitData."),
    i8("data_in", "words of 4 bytes", "PortRcvData."),
    i8("packets_out", "packets", "PortXmitPkts."),
    i8("packets_in", "packets", "PortRcvPkts."),
)

NO_ROUTE, NO_LINK, NO_VL, LOOP, WRONG = -1, -2, -3, -4, -5
"""Reasons for a missing path: an LFT without a route, a port without a link, an SL without a VL, a
loop in the tables, delivery to another port."""


@kernel
def vl_of(tables, row, sl):
    """Return the VL of ``sl`` in row ``row`` of the SL2VL tables (IBA 14.2.5.8: two SLs per
    byte, the even one in the high bits)."""
    pair = tables.sl2vl[row, sl >> 1]
    return (pair >> 4) if sl & 1 == 0 else (pair & 15)


@kernel
def follow(tables, source, target, dlid, sl, path, info):
    """Write the channels (16 × egress port + VL) from port ``source`` to port ``target`` to
    ``path``; return their number, or the reason for a missing path.

    ``info[0]`` is the sum of delays, ``info[1]`` the smallest MTU of the links.
    """
    n, at, into = 0, source, 0
    info[0], info[1] = 0, 4096
    if tables.switch[source] < 0:
        vl = vl_of(tables, tables.sl2vl_base[source], sl)
        if tables.peer[source] < 0:
            return NO_LINK
        if vl >= tables.vls[source]:
            return NO_VL
        path[0] = 16 * source + vl
        info[0] = tables.delay_ps[source]
        info[1] = tables.mtu[source]
        n = 1
        at = tables.peer[source]
        into = tables.num[at]
    while n < len(path):
        s = tables.switch[at]
        if s < 0:
            return n if at == target else WRONG
        if dlid >= tables.lft.shape[1] or tables.lft[s, dlid] == 255:
            return NO_ROUTE
        number = tables.lft[s, dlid]
        if number == 0:
            return n if tables.base[at] == target else WRONG
        egress = tables.base[at] + number
        if egress >= len(tables.base) or tables.base[egress] != tables.base[at] or tables.peer[egress] < 0:
            return NO_LINK
        vl = vl_of(tables, tables.sl2vl_base[egress] + into, sl)
        if vl >= tables.vls[egress]:
            return NO_VL
        path[n] = 16 * egress + vl
        info[0] += tables.delay_ps[egress]
        info[1] = min(info[1], tables.mtu[egress])
        n += 1
        at = tables.peer[egress]
        into = tables.num[at]
    return LOOP


@kernel
def lay_paths(tables, sends, begin, paths, path, info, why):
    """Compute the paths of all rows from ``begin`` on; return the first row for which ``paths.channel`` has no room
    (the number of rows if all have room). ``why[i]`` is 0, or the reason why row i has no path; such a row has no
    channels. ``info[2]`` counts channels.
    """
    channel, of_port, first = paths.channel, paths.of_port, paths.first
    for i in range(begin, len(sends.port)):
        at = first[i]
        n = 0
        if (
            i > 0
            and sends.port[i] == sends.port[i - 1]
            and sends.to[i] == sends.to[i - 1]
            and (sends.dlid[i] == sends.dlid[i - 1] and sends.sl[i] == sends.sl[i - 1])
        ):
            before = first[i - 1]
            n = at - before
            if at + n > len(channel):
                return i
            for j in range(n):
                channel[at + j] = channel[before + j]
            paths.delay_ps[i] = paths.delay_ps[i - 1]
            paths.mtu[i] = paths.mtu[i - 1]
            why[i] = why[i - 1]
        elif sends.port[i] == sends.to[i]:
            paths.delay_ps[i] = 0
            paths.mtu[i] = tables.mtu[sends.port[i]]
        else:
            n = follow(tables, sends.port[i], sends.to[i], sends.dlid[i], sends.sl[i], path, info)
            if n < 0:
                why[i] = n
                n = 0
            if at + n > len(channel):
                return i
            for j in range(n):
                c = of_port[path[j]]
                if c < 0:
                    c = info[2]
                    of_port[path[j]] = c
                    paths.port[c] = path[j]
                    info[2] += 1
                channel[at + j] = c
            paths.delay_ps[i] = info[0]
            paths.mtu[i] = info[1]
        first[i + 1] = at + n
    return len(sends.port)


@kernel
def follow_back(tables, sends, small, path, info, delay_ps, why, counted):
    """Compute the delay of each row's reverse path, for acknowledgements, or the reason for a
    missing path. Each row counts (``counted``, as in :func:`count`) one packet of ``small[i]`` 4-byte
    units; 0: row i is not acknowledged, and skipped."""
    n = 0
    for i in range(len(sends.port)):
        if small[i] == 0 or sends.port[i] == sends.to[i]:
            n = 0
            continue
        if (
            n > 0
            and sends.port[i] == sends.port[i - 1]
            and sends.to[i] == sends.to[i - 1]
            and (sends.dlid[i] == sends.dlid[i - 1] and sends.sl[i] == sends.sl[i - 1])
        ):
            delay_ps[i] = delay_ps[i - 1]
        else:
            n = follow(tables, sends.port[i], sends.to[i], sends.dlid[i], sends.sl[i], path, info)
            delay_ps[i] = info[0]
        if n < 0:
            why[i] = n
        for j in range(n):
            egress = path[j] >> 4
            ingress = tables.peer[egress]
            counted[egress].data_out += small[i]
            counted[ingress].data_in += small[i]
            counted[egress].packets_out += 1
            counted[ingress].packets_in += 1


@kernel
def count(tables, paths, packets, dwords, counted):
    """Add ``packets[i]`` and ``dwords[i]`` of row i to every port of its path: ``counted`` is
    :data:`COUNTED` by port."""
    for i in range(len(packets)):
        for e in range(paths.first[i], paths.first[i + 1]):
            egress = paths.port[paths.channel[e]] >> 4
            ingress = tables.peer[egress]
            counted[egress].data_out += dwords[i]
            counted[ingress].data_in += dwords[i]
            counted[egress].packets_out += packets[i]
            counted[ingress].packets_in += packets[i]
