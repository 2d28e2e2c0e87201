"""Kernels of the static layer: messages and computations one after another, where each begins when
what it waits for is there."""

import numpy as np

from softib.jit import kernel, table
from softib.sim.loggops_kernels import drop_first, push

Delays = table("Delays", "start think request sends forth answer")
"""ps by message: not before, after what it waits for, until its data leaves, until its last octet
has left (-1: it cannot), until that arrives, from then until the sender knows."""

Waits = table("StaticWaits", "first to left ready")
"""By message: ``to[first[i]:first[i + 1]]`` wait for i, ``left[i]`` is how many i waits for,
``ready[i]`` when the last of them was there (ps, 0)."""

Shared = table("StaticShared", "first channel link octets single ps_byte link_free short_free processor processor_free")
"""What does one thing after another: ``link[channel[first[i]:first[i + 1]]]`` are the links of
message i, which put ``octets[i]`` on each at ``ps_byte`` of the link; ``link_free``: until when
they are taken (ps, float64), ``short_free``: by messages of a ``single`` packet. ``processor``:
that of a computation, -1 for a message; ``processor_free``: likewise."""


@kernel
def occupy(i, leaves, sh):
    """Message i is put on its links from ``leaves`` on, behind what they have; when the last of
    them is through. One of a single packet waits for others of a single packet alone, as queue
    pairs send their packets in turn."""
    end = float(leaves)
    for e in range(sh.first[i], sh.first[i + 1]):
        c = sh.link[sh.channel[e]]
        took = sh.octets[i] * sh.ps_byte[c]
        sh.link_free[c] = max(sh.link_free[c], float(leaves)) + took
        if sh.single[i]:
            sh.short_free[c] = max(sh.short_free[c], float(leaves)) + took
            end = max(end, sh.short_free[c])
        else:
            end = max(end, sh.link_free[c])
    return int(np.ceil(end - 1e-6))


@kernel
def follow(q, w, src, de, sh, began, arrived, completed):
    """When each message and computation begins, arrives and completes, by time; what waits for one
    that never arrives never begins."""
    for i in range(len(src)):
        if w.left[i] == 0:
            push(q, de.start[i] if de.start[i] > de.think[i] else de.think[i], i)
    while q.n[0] > 0:
        now, i = q.when[0], q.what[0]
        drop_first(q)
        if de.sends[i] < 0:
            continue
        k = sh.processor[i]
        if k >= 0:
            now = max(now, sh.processor_free[k])
        began[i] = now
        leaves = now + de.request[i]
        arrived[i] = max(leaves + de.sends[i], occupy(i, leaves, sh)) + de.forth[i]
        completed[i] = arrived[i] + de.answer[i]
        if k >= 0:
            sh.processor_free[k] = arrived[i]
        for e in range(w.first[i], w.first[i + 1]):
            j = w.to[e]
            w.ready[j] = max(w.ready[j], completed[i] if src[j] == src[i] else arrived[i])
            w.left[j] -= 1
            if w.left[j] == 0:
                push(q, max(de.start[j], w.ready[j] + de.think[j]), j)
