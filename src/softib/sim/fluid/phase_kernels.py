"""Shift phases: host i sends to host i + k, all hosts wait for each other, and then the phase of the next k begins. In
a phase all messages have one size and begin at once. The busiest channel is the one with the most bytes per Gb/s. Its
flows have the smallest rate of all from the start, and end together. So the last flow ends when this channel has sent
its bytes. With path delays the phase ends later by at most the longest of all delays, and by at least the longest delay
of a flow on a busiest channel; if these two differ, the caller runs the fluid layer. A path is followed from a switch
to a host: all hosts of that switch use it.
"""

import numpy as np

from softib.jit import inner, kernel, table
from softib.jit.rows import Rows, i4, i8
from softib.sim.path_kernels import vl_of

LINK = Rows(
    "Links by egress port of a switch.",
    i4(
        "peer",
        "port",
        "Port at the other end; -1: packets of the SL cannot use the link, or their VL depends on the input port.",
    ),
    i4("switch", "switch", "Row of the switch at the other end; -1: an adapter."),
    i4("delay_ps", "ps", "Delay of the link and of that switch."),
    size=16,
)
SWITCH = Rows(
    "Switches.",
    i4("port_0", "port", "Row of its port 0."),
    i4("ports", "count", "Number of its ports, port 0 included."),
    size=8,
)
TAIL = Rows(
    "A message on a path without delay, by rate of the destination's link.",
    i8("arrives_ps", "ps", "Time until the message is in memory."),
    i8("completes_ps", "ps", "Time until the sender has the completion."),
)

Links = table("Links", "row switch lft gbps floor")
"""``row``: :data:`LINK` by egress port of a switch; ``switch``: :data:`SWITCH`; ``lft``
uint8[switches, LIDs]; ``gbps`` by port; ``floor[0]``: the smallest ``gbps`` of the ports in ``row``."""

Hosts = table("Hosts", "port lid switch switch_of rate_of link_ps gbps")
"""By host: ``port`` and ``lid`` of its adapter, the row of its ``switch`` in :data:`Links`,
``switch_of`` (the same among switches with hosts), ``rate_of`` (index of the rate of its link),
delay (``link_ps``) and rate (``gbps``) of its link."""

Paths = table("Paths", "forth back channels delay_ps info")
"""``channels`` int32[paths, hops] (egress ports, -1: no more), ``delay_ps`` int32[paths]. ``forth[m, i]`` is the row of
the path of host i's message in the m-th shift, ``back[m, i]`` that of its acknowledgement. If these are empty, the path
from switch s to host b is in row s × hosts + b. ``info[0]``: largest number of hops of a path; ``info[1]``: number of
paths."""

Phases = table("Phases", "shifts tail_ps took_ps most unsure loads delay_ps")
"""By phase: ``shifts`` (its k), ``took_ps`` (its duration), ``most`` (largest number of flows on a channel), and
``unsure`` (1 if the duration depends on delays; the fluid layer must then compute it). ``tail_ps``: :data:`TAIL` by
rate. ``loads`` int32[ports] and ``delay_ps`` int64[hosts] are scratch arrays of the kernels."""

MOST_HOPS = 64
LONGEST_PS = (1 << 31) - 1


@kernel
def link_rows(tables, switch, sl, rows):
    """Fill ``rows`` of :data:`Links` from the :data:`~softib.sim.path_kernels.Tables` of a
    fabric, for packets of ``sl``."""
    for egress in range(len(rows)):
        rows[egress].peer = -1
        rows[egress].switch = -1
        rows[egress].delay_ps = -1
    for s in range(len(switch)):
        for egress in range(switch[s].port_0 + 1, switch[s].port_0 + switch[s].ports):
            peer = tables.peer[egress]
            if peer < 0 or tables.delay_ps[egress] > LONGEST_PS:
                continue
            vl, one = -1, True
            for into in range(1, switch[s].ports):
                if tables.peer[switch[s].port_0 + into] >= 0:
                    here = vl_of(tables, tables.sl2vl_base[egress] + into, sl)
                    one = one and (vl < 0 or here == vl)
                    vl = here
            if one and vl < tables.vls[egress]:
                rows[egress].peer = peer
                rows[egress].switch = tables.switch[peer]
                rows[egress].delay_ps = tables.delay_ps[egress]


@inner
def follow_from(ln, s, to, lid, pa, r):
    """Write the path from switch ``s`` to port ``to`` into row ``r`` of the paths. Return 1 if there is none, or if it
    leaves :data:`Links`; otherwise 0."""
    channels, row, hops = pa.channels, ln.row, pa.channels.shape[1]
    delay, n = np.int64(0), 0
    while n < MOST_HOPS:
        number = ln.lft[s, lid]
        if number >= ln.switch[s].ports:
            return 1
        egress = ln.switch[s].port_0 + number
        peer = row[egress].peer
        if peer < 0:
            return 1
        delay += row[egress].delay_ps
        if n < hops:
            channels[r, n] = egress
        n += 1
        s = row[egress].switch
        if s < 0:
            if n < hops:
                channels[r, n] = -1
            pa.info[0] = max(pa.info[0], n)
            pa.delay_ps[r] = delay
            return 1 if peer != to or delay > LONGEST_PS else 0
    return 1


@kernel
def fill_all(ln, ho, n, of_switch, pa):
    """Compute the paths from each of ``of_switch`` (rows of :data:`Links`) to the first ``n``
    hosts; return the number of missing paths."""
    lost = 0
    for s in range(len(of_switch)):
        for b in range(n):
            lost += follow_from(ln, of_switch[s], ho.port[b], ho.lid[b], pa, s * n + b)
    return lost


@kernel
def fill_shifts(ln, ho, n, shifts, seen, pa):
    """Like :func:`fill_all`, but only paths that ``shifts`` of ``n`` hosts and their
    acknowledgements need, by destination; ``seen`` by switch is a scratch array."""
    seen[:] = -1
    lost, used = 0, 0
    for b in range(n):
        begin = used
        for m in range(len(shifts)):
            k = shifts[m] % n
            for back in range(2 if k else 0):
                i = b + k if back else b - k
                i += n if i < 0 else 0
                i -= n if i >= n else 0
                s = ho.switch[i]
                if seen[s] < begin:
                    lost += follow_from(ln, s, ho.port[b], ho.lid[b], pa, used)
                    seen[s] = used
                    used += 1
                if back:
                    pa.back[m, b] = seen[s]
                else:
                    pa.forth[m, i] = seen[s]
    pa.info[1] = used
    return lost


@inner
def row_of(ho, n, pa, m, i, b):
    """Return the row of the path of the m-th shift's message from host i to host b."""
    return pa.forth[m, i] if len(pa.forth) else ho.switch_of[i] * n + b


@inner
def add_shift(ln, ho, n, pa, ph, m, k, base):
    """Add each message of shift ``k``: its delay to ``delay_ps``, and one flow on each port of its
    path to ``loads``, where values up to ``base`` mean none. Returns the smallest share of a port
    (Gb/s) and the most flows."""
    channels, hops = pa.channels, pa.channels.shape[1]
    loads, delay_ps, tail_ps = ph.loads, ph.delay_ps, ph.tail_ps
    least, most, floor = np.inf, 1, ln.floor[0]
    for i in range(n):
        least = min(least, ho.gbps[i])
    for i in range(n):
        b = i + k
        if b >= n:
            b -= n
        r = row_of(ho, n, pa, m, i, b)
        back = pa.back[m, i] if len(pa.back) else ho.switch_of[b] * n + i
        rate = ho.rate_of[b]
        acknowledged_ps = tail_ps[rate].completes_ps + pa.delay_ps[back] + ho.link_ps[b]
        delay_ps[i] = ho.link_ps[i] + pa.delay_ps[r] + max(tail_ps[rate].arrives_ps, acknowledged_ps)
        for j in range(hops):
            c = channels[r, j]
            if c < 0:
                break
            flows = max(loads[c], base) + 1
            loads[c] = flows
            flows -= base
            most = max(most, flows)
            if floor < least * flows and ln.gbps[c] < least * flows:
                least = ln.gbps[c] / flows
    return least, most


@inner
def longest_held(ln, ho, n, pa, ph, m, k, base, least):
    """Return the longest delay among the messages with the smallest rate, ``least``."""
    channels, hops = pa.channels, pa.channels.shape[1]
    loads, delay_ps = ph.loads, ph.delay_ps
    limit, longest = least * (1 + 1e-12), 0
    for i in range(n):
        if delay_ps[i] <= longest:
            continue
        held = ho.gbps[i] <= limit
        b = i + k
        if b >= n:
            b -= n
        r = row_of(ho, n, pa, m, i, b)
        for j in range(hops):
            c = channels[r, j]
            if c < 0 or held:
                break
            held = ln.gbps[c] <= limit * (loads[c] - base)
        if held:
            longest = delay_ps[i]
    return longest


@kernel
def shift_phases(ln, ho, n, pa, ph, begin, end, bits):
    """Compute the phases of ``ph`` from ``begin`` to ``end``, for messages of ``bits`` (1000 × bits
    on the wire)."""
    ph.loads[:] = 0
    base = 0
    for m in range(begin, end):
        k = ph.shifts[m] % n
        ph.unsure[m] = 1
        if k == 0:
            continue
        least, ph.most[m] = add_shift(ln, ho, n, pa, ph, m, k, base)
        held = longest_held(ln, ho, n, pa, ph, m, k, base, least)
        ph.took_ps[m] = np.int64(np.ceil(bits / least - 1e-6)) + held
        ph.unsure[m] = 1 if ph.delay_ps.max() > held else 0
        base += n
        if base > LONGEST_PS - 2 * n:
            ph.loads[:] = 0
            base = 0
