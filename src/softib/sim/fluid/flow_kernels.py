"""Messages of a flow (virtual time; Demers, Keshav, Shenker, SIGCOMM 1989). All messages that send on one path at the
same time have one rate. So a flow has one count of the bytes that each of its messages has sent, and a message ends
when this count reaches the message's own value. A change of a rate costs one step per flow, whatever the number of its
messages, and only the message that ends first has an event."""

import numpy as np

from softib.jit import kernel
from softib.sim.fluid.event_kernels import cancel, schedule
from softib.sim.fluid.maxmin_kernels import put, take

FOREVER = np.int64(1) << np.int64(62)


@kernel
def serve(fl, f, now):
    """Add to the count of flow f the bytes that each of its messages has sent until now."""
    fl.served[f] += fl.rate[f] * (now - fl.last[f]) / 8000.0
    fl.last[f] = now


@kernel
def end_of(fl, tr, i, now):
    """Return when message i ends at the present rate of its flow, whose count is up to date."""
    f = tr.flow[i]
    if fl.rate[f] <= 0.0:
        return FOREVER
    left = max(tr.up_to[i] - fl.served[f], 0.0)
    return now + np.int64(np.ceil(left * 8000.0 / fl.rate[f] - 1e-6))


@kernel
def join(fl, li, ro, tr, ck, i, now):
    """Begin to send message i: add it to its flow, whose messages are in the order in which they end. :func:`settle`
    schedules its event when the new rate is known."""
    f = tr.flow[i]
    put(fl, li, ro, f)
    if fl.messages[f] == 1:
        fl.served[f] = 0.0
        fl.last[f] = now
        fl.final[f] = -1
        fl.soonest[f] = -1
    serve(fl, f, now)
    tr.up_to[i] = fl.served[f] + tr.left[i]
    k = fl.final[f]
    while k >= 0 and tr.up_to[k] > tr.up_to[i]:
        k = tr.sooner[k]
    after = tr.later[k] if k >= 0 else fl.soonest[f]
    tr.sooner[i] = k
    tr.later[i] = after
    if k >= 0:
        tr.later[k] = i
    else:
        fl.soonest[f] = i
    if after >= 0:
        tr.sooner[after] = i
        if k < 0:
            cancel(tr, ck, after)
    else:
        fl.final[f] = i


@kernel
def part(fl, li, ro, tr, ck, i, now):
    """Handle the end of message i, which ends first in its flow. Schedule the end of the next message; if it ends at
    the same time, schedule it at once."""
    f = tr.flow[i]
    serve(fl, f, now)
    k = tr.later[i]
    fl.soonest[f] = k
    if k >= 0:
        tr.sooner[k] = -1
        schedule(tr, ck, k, end_of(fl, tr, k, now))
    else:
        fl.final[f] = -1
    take(fl, li, ro, f)


@kernel
def settle(fl, ro, tr, ck, now):
    """Apply the round's new rates: bring the count of each flow up to date, and reschedule the end of its next
    message."""
    for k in range(ro.size.members):
        f = ro.members[k]
        old, new, i = fl.rate[f], fl.fresh[f], fl.soonest[f]
        if abs(new - old) <= 1e-12 * old and tr.position[i] >= 0:
            continue
        serve(fl, f, now)
        fl.rate[f] = new
        ck.clock.changes += 1
        schedule(tr, ck, i, max(end_of(fl, tr, i, now), now + 1))
