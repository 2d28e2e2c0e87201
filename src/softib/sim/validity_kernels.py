# mypy: ignore-errors
"""Where rates of flows cannot be what a lossless network with credits gives: docs/simulate.md has the rule.

A flow whose bottleneck is an output port inside fills the buffers of every link before it (its **back-pressured** links). Fluid rates
hold as long as

* no other flow shares a back-pressured link, unless it has the same bottleneck (it would wait behind packets that wait: head-of-line
  blocking), and
* the links that meet at a back-pressured one, or at the bottleneck, bring equal rates: switches serve input ports in turn, not flows.
"""

import numpy as np

from softib.jit import kernel, table
from softib.sim.maxmin_kernels import MEMBERS, STAMP

Doubt = table("Doubt", "found inside stamp tag held brings met least most shared")
"""``found`` int64[4]: ps, message, channel and reason of what was found first (-1: nothing). By channel: ``inside`` (1: a switch sends on it), the bottleneck ``tag`` of the flows that
wait on it and how many these are (``held``), Gb/s that it ``brings``, the ``least`` and ``most`` that one of its inputs brings. By message:
``shared``: it had others beside it at its bottleneck."""

BLOCKED, UNEVEN = 1, 2
EVEN = 0.01
"""Inputs that differ by less count as even."""


@kernel
def doubt_at(found, now, i, c, reason):
    """Remember the first doubt."""
    if found[0] < 0:
        found[0], found[1], found[2], found[3] = now, i, c, reason


@kernel
def bottleneck_at(fl, i):
    """Position of flow i's bottleneck on its path; 0 is its own link."""
    for e in range(fl.first[i], fl.first[i + 1]):
        if fl.channel[e] == fl.bottleneck[i]:
            return e - fl.first[i]
    return 0


@kernel
def judge(fl, li, ro, do, now):
    """Look at the flows that have new rates; ``do.found`` gets the first doubt."""
    for k in range(ro.numbers[MEMBERS]):
        i = ro.members[k]
        if li.flows[fl.bottleneck[i]] > 1:
            do.shared[i] = 1
    if hold(fl, li, ro, do, now):
        for k in range(ro.numbers[MEMBERS]):
            if not others_hold(fl, li, do, ro.members[k], now):
                return
        for k in range(ro.numbers[MEMBERS]):
            if not even(fl, do, ro.members[k], ro.numbers[STAMP], now):
                return


@kernel
def hold(fl, li, ro, do, now):
    """Tag the back-pressured links of the round's flows; False where two bottlenecks press on one."""
    stamp = ro.numbers[STAMP]
    for k in range(ro.numbers[MEMBERS]):
        i = ro.members[k]
        b = fl.bottleneck[i]
        if not do.inside[b]:
            continue
        for e in range(fl.first[i], fl.first[i] + bottleneck_at(fl, i)):
            u = fl.channel[e]
            if do.stamp[u] != stamp:
                do.stamp[u] = stamp
                do.tag[u] = b
                do.held[u] = 0
                do.brings[u] = 0.0
            if do.tag[u] != b:
                doubt_at(do.found, now, i, u, BLOCKED)
                return False
            do.held[u] += 1
            do.brings[u] += fl.rate[i]
    return True


@kernel
def others_hold(fl, li, do, i, now):
    """Do all flows on the back-pressured links of flow i have its bottleneck?"""
    b = fl.bottleneck[i]
    if not do.inside[b]:
        return True
    for e in range(fl.first[i], fl.first[i] + bottleneck_at(fl, i)):
        u = fl.channel[e]
        if do.held[u] == li.flows[u]:
            continue
        do.held[u] = li.flows[u]
        do.brings[u] = 0.0
        at = li.head[u]
        while at >= 0:
            k = fl.owner[at]
            do.brings[u] += fl.rate[k]
            if fl.bottleneck[k] != b:
                doubt_at(do.found, now, k, u, BLOCKED)
                return False
            at = fl.next[at]
    return True


@kernel
def even(fl, do, i, stamp, now):
    """Do the inputs that meet flow i's back-pressured links and its bottleneck bring equal rates?"""
    if not do.inside[fl.bottleneck[i]]:
        return True
    for e in range(fl.first[i], fl.first[i] + bottleneck_at(fl, i)):
        u, x = fl.channel[e], fl.channel[e + 1]
        if not do.inside[x]:
            continue
        if do.met[x] != stamp:
            do.met[x] = stamp
            do.least[x] = np.inf
            do.most[x] = 0.0
        do.least[x] = min(do.least[x], do.brings[u])
        do.most[x] = max(do.most[x], do.brings[u])
        if do.most[x] - do.least[x] > EVEN * do.most[x]:
            doubt_at(do.found, now, i, x, UNEVEN)
            return False
    return True
