# mypy: ignore-errors
"""Shift phases: host i sends to host i + k, everybody waits, then comes the next k.

In a phase all messages have one size and begin at once. The channel with the most octets per Gb/s (the busiest) has the least share
from the first moment on, its flows end together, and no other flow has a smaller rate at any time, so none ends later: the last flow ends
when the busiest channel has sent its octets. With delays of paths the phase ends at most the longest of all delays later, and at
least the longest delay of a flow on a busiest channel; where these two differ, the caller asks the fluid layer itself.
"""

import numpy as np

from softib.jit import kernel, table
from softib.sim.path_kernels import follow

Routes = table("Routes", "switch_of channels delay_ps head_ps link_ps head_gbps gbps tail_ps")
"""By host: ``switch_of`` (row of the tables of paths), ``head_ps`` (its adapter and its link), ``link_ps``,
``head_gbps``. ``tail_ps``: from the last packet's coming until it is in memory, and until the sender knows, but for the path back. ``delay_ps`` int32[switches, hosts]: of the path from a switch to a host (-1: it was not followed);
``channels`` int32[switches, hosts, hops]: its egress ports, -1: no more. ``gbps`` by port."""


Filling = table("Filling", "port lid switch_of channels delay_ps vl_at path info")
"""What the table is filled from and into: ports and LIDs of hosts, the columns of :data:`Routes`, ``vl_at`` (the VL that each port was first seen
with, -1: none), a path, ``info[2]``: most hops of a path."""


@kernel
def fill_all(t, fi, first_of, sl):
    """Paths from every switch to every host, seen by host ``first_of[s]`` of switch s (to that host: by another one there).
    Returns how many there are none of, or that use a second VL of a port."""
    lost = 0
    for s in range(len(first_of)):
        a = first_of[s]
        for b in range(len(fi.port)):
            if b != a:
                lost += fill_one(t, fi, a, b, sl)
    for a in range(len(fi.port)):
        b = first_of[fi.switch_of[a]]
        if a != b:
            lost += fill_one(t, fi, a, b, sl)
    return lost


@kernel
def fill_shifts(t, fi, shifts, sl):
    """As :func:`fill_all`, only what ``shifts`` and their acknowledgements need."""
    n, switch_of, delay_ps = len(fi.port), fi.switch_of, fi.delay_ps
    lost = 0
    for k in shifts:
        b = k % n
        for i in range(n):
            if b != i:
                if delay_ps[switch_of[i], b] < 0:
                    lost += fill_one(t, fi, i, b, sl)
                if delay_ps[switch_of[b], i] < 0:
                    lost += fill_one(t, fi, b, i, sl)
            b += 1
            if b == n:
                b = 0
    return lost


@kernel
def fill_one(t, fi, a, b, sl):
    """The path of host a to host b, unless it is there; returns 1 where there is none."""
    s = fi.switch_of[a]
    if fi.delay_ps[s, b] >= 0:
        return 0
    channels, path = fi.channels, fi.path
    n = follow(t, fi.port[a], fi.port[b], fi.lid[b], sl, path, fi.info)
    if n < 1:
        return 1
    fi.info[2] = max(fi.info[2], n - 1)
    if n - 1 > channels.shape[2]:
        return 0
    fi.delay_ps[s, b] = fi.info[0] - t.delay_ps[fi.port[a]]
    lost = 0
    for j in range(1, n):
        egress = path[j] >> 4
        channels[s, b, j - 1] = egress
        vl = path[j] & 15
        if fi.vl_at[egress] >= 0 and fi.vl_at[egress] != vl:
            lost = 1
        fi.vl_at[egress] = vl
    if n - 1 < channels.shape[2]:
        channels[s, b, n - 1] = -1
    return lost


@kernel
def add_shift(ro, k, loads, touched):
    """Flows of shift k on each port in ``loads``; ``touched`` lists those with any. Returns how many."""
    n, hops = len(ro.switch_of), ro.channels.shape[2]
    channels, switch_of = ro.channels, ro.switch_of
    used = 0
    for i in range(n):
        b = i + k
        if b >= n:
            b -= n
        if b == i:
            continue
        s = switch_of[i]
        for j in range(hops):
            c = channels[s, b, j]
            if c < 0:
                break
            if loads[c] == 0:
                touched[used] = c
                used += 1
            loads[c] += 1
    return used


@kernel
def longest_delay(ro, k, loads, least, both):
    """``both[0]``: the longest delay, there and until all know, of a flow of shift k; ``both[1]``: of one whose share is the ``least``."""
    n, hops = len(ro.switch_of), ro.channels.shape[2]
    limit = least * (1 + 1e-12)
    both[0], both[1] = 0, 0
    for i in range(n):
        b = i + k
        if b >= n:
            b -= n
        if b == i:
            continue
        s = ro.switch_of[i]
        back = ro.tail_ps[1] + ro.delay_ps[ro.switch_of[b], i] + ro.link_ps[b]
        delay = ro.head_ps[i] + ro.delay_ps[s, b] + max(ro.tail_ps[0], back)
        both[0] = max(both[0], delay)
        if delay > both[1]:
            held = ro.head_gbps[i] <= limit
            for j in range(hops):
                c = ro.channels[s, b, j]
                if c < 0 or held:
                    break
                held = ro.gbps[c] <= limit * loads[c]
            if held:
                both[1] = delay


@kernel
def shift_phases(ro, shifts, bits, loads, touched, both, took_ps, unsure, most):
    """Length of each phase in ``took_ps``, for messages of ``bits`` (1000 × bits on the wire); ``unsure[m]`` 1 where delays decide, which only the fluid layer knows;
    ``most``: flows on the fullest channel."""
    slowest = ro.head_gbps.min()
    for m in range(len(shifts)):
        used = add_shift(ro, shifts[m], loads, touched)
        least, flows = slowest, 1
        for u in range(used):
            c = touched[u]
            flows = max(flows, loads[c])
            if ro.gbps[c] < least * loads[c]:
                least = ro.gbps[c] / loads[c]
        longest_delay(ro, shifts[m], loads, least, both)
        took_ps[m] = np.int64(np.ceil(bits / least - 1e-6)) + both[1]
        unsure[m] = 1 if both[0] > both[1] or shifts[m] % len(ro.switch_of) == 0 else 0
        most[m] = flows
        for u in range(used):
            loads[touched[u]] = 0
