# mypy: ignore-errors
"""One run on several cores: parts of the network, each with its own events, that meet at the ends of windows of time.

A part may handle what happens before the earliest event of all parts plus the *lookahead*: whatever another part does from that event
on comes over a cable, and takes at least that long (conservative synchronisation: Chandy and Misra 1979). What it brings is mail, taken at the
end of the window. Every part decides by the same numbers, so all go on, or end, together.

While links change and MADs travel, an agent or the manager may write what holds in all parts from one event on. So the earliest event of the management plane
(with the timeouts, which wait beside it) is the last of its window: in each part what stands before it is done, and nothing behind it.
"""

import numpy as np

from softib.jit import External, inner
from softib.sim.packet.kernels.events import push, push_timer
from softib.sim.packet.kernels.links import credited
from softib.sim.packet.kernels.pools import blank_packet, short
from softib.sim.packet.kernels.work import release
from softib.sim.packet.tables import (
    ABORTED,
    ABOUT,
    CRITICAL,
    DONE,
    EVENTS,
    EVERYBODY,
    FOR_PART,
    GOES_ON,
    GROW,
    HANDLED,
    IN_NETWORK,
    LEFT,
    LETTER,
    LOOKAHEAD,
    LOOKS,
    MADS_INBOX,
    MAIL_FIRST,
    MAILED,
    MANAGE,
    MANAGED,
    MANAGED_AT,
    MANAGED_WHAT,
    MG_ON,
    NEVER,
    OF_ARRIVAL,
    OF_CREDIT,
    OF_EVENT,
    OPT_VLS,
    PACKET_AT,
    PACKET_COLUMNS,
    PART,
    PARTS,
    REPORT_COLUMNS,
    REPORT_EVENTS,
    REPORT_FIRST,
    REPORT_HANDLED,
    REPORT_IN_NETWORK,
    REPORT_INBOX,
    REPORT_LEFT,
    REPORT_MAILED,
    REPORT_NEXT,
    REPORT_TIMER,
    REPORT_TIMER_WHAT,
    REPORT_WHAT,
    ROUND,
    STUCK,
    SYNC_ABORT,
    SYNC_LOCK_AT,
    SYNC_PARTS,
    SYNC_ROUND,
    SYNC_ROW,
    TAKEN,
    TAKEN_FROM,
    TIME_OVER,
    TIMER_N,
    WHEN,
    WINDOW_END,
    WINDOW_WHAT,
)  # fmt: skip

spin_lock = External("pthread_spin_lock", "int32", "uintp")
spin_unlock = External("pthread_spin_unlock", "int32", "uintp")
sched_yield = External("sched_yield", "int32")
pthread_self = External("pthread_self", "uintp")
PATIENCE = 300
"""Looks at the others before the processor is offered to them."""
RUNNING = -1
"""Of TAKEN: no mail is being taken."""


@inner
def report_at(part, box):
    """Where ``part`` says how far it is."""
    return SYNC_PARTS + part * SYNC_ROW + REPORT_NEXT + box * REPORT_COLUMNS


@inner
def behind_window(s, now, what):
    """Is the event ``what`` of ``now`` behind the window's end?"""
    return now > s.reg[WINDOW_END] or (now == s.reg[WINDOW_END] and what > s.reg[WINDOW_WHAT])


@inner
def report(n, s, following, what, has_events):
    """Tell the others: time of the next event, whether there are any but timeouts, what is left, how much mail there is."""
    at = report_at(s.reg[PART], s.reg[ROUND] & 1)
    s.sync[at] = following
    s.sync[at + REPORT_EVENTS] = has_events
    s.sync[at + REPORT_LEFT] = s.reg[LEFT]
    s.sync[at + REPORT_IN_NETWORK] = s.reg[IN_NETWORK]
    s.sync[at + REPORT_MAILED] = s.reg[MAILED]
    s.sync[at + REPORT_FIRST] = s.reg[MAIL_FIRST]
    s.sync[at + REPORT_HANDLED] = s.reg[EVENTS] - s.reg[HANDLED]
    s.reg[HANDLED] = s.reg[EVENTS]
    if n.management[MG_ON]:
        s.sync[at + REPORT_WHAT] = what
        s.sync[at + REPORT_TIMER] = s.timer[0, 0] if s.reg[TIMER_N] > 0 else np.int64(NEVER)
        s.sync[at + REPORT_TIMER_WHAT] = s.timer[0, 1]
        s.sync[at + REPORT_INBOX] = s.mads[MADS_INBOX]


@inner
def behind(s, wanted):
    """Has a part not ended window ``wanted`` yet?"""
    first = wanted
    for part in range(s.reg[PARTS]):
        first = min(first, s.sync[SYNC_PARTS + part * SYNC_ROW + SYNC_ROUND])
    return first < wanted


@inner
def meet(s):
    """Wait until all parts have ended this window; False if the run was given up. The lock orders what was written before; while it
    waits nobody holds it, and whoever needs the processor gets it."""
    lock = np.uintp(s.sync[SYNC_LOCK_AT])
    wanted = s.reg[ROUND] + 1
    spin_lock(lock)
    s.sync[SYNC_PARTS + s.reg[PART] * SYNC_ROW + SYNC_ROUND] = wanted
    spin_unlock(lock)
    looks = 0
    while behind(s, wanted):
        if s.sync[SYNC_ABORT]:
            return False
        looks += 1
        if looks < PATIENCE:
            pthread_self()  # a call that the compiler cannot see into: it reads memory anew
        else:
            sched_yield()
    s.reg[LOOKS] += looks
    spin_lock(lock)
    spin_unlock(lock)
    return True


@inner
def take_letter(n, s, part, box, i):
    """Take letter ``i`` of ``part``'s box, if it is for us."""
    addressee = s.mail[part, box, i, FOR_PART]
    if addressee != s.reg[PART] and addressee != EVERYBODY:
        return
    letter, t, about = s.mail[part, box, i, LETTER], s.mail[part, box, i, WHEN], s.mail[part, box, i, ABOUT]
    if letter == OF_CREDIT:
        row = about >> 16
        credited(s, row // n.opt[OPT_VLS], row, about & 0xFFFF, t)
    elif letter == OF_ARRIVAL:
        release(n, s, s.arrival, s.after_arrival, about, t)
    elif letter == OF_EVENT:
        push(s, t, about)
    else:
        k = blank_packet(s)
        s.reg[IN_NETWORK] -= 1  # it was before
        for column in range(PACKET_COLUMNS):
            s.when[k, column] = s.mail[part, box, i, PACKET_AT + column]
        if about >> 28 & 15 == MANAGE:
            push_timer(s, t, about | k)
        else:
            push(s, t, about | k)


@inner
def take_mail(n, s):
    """Take what the others sent in this window; False where a pool is short (call again)."""
    box = s.reg[ROUND] & 1
    while s.reg[TAKEN_FROM] < s.reg[PARTS]:
        part = s.reg[TAKEN_FROM]
        many = s.sync[report_at(part, box) + REPORT_MAILED] if part != s.reg[PART] else np.int64(0)
        while s.reg[TAKEN] < many:
            if short(s):
                return False
            take_letter(n, s, part, box, s.reg[TAKEN])
            s.reg[TAKEN] += 1
        s.reg[TAKEN_FROM] += 1
        s.reg[TAKEN] = 0
    return True


@inner
def next_window(n, s, until):
    """The end of the next window, from what all said. Returns GOES_ON, or why it ends here."""
    box = s.reg[ROUND] & 1
    first, events, left, in_network = np.int64(NEVER), np.int64(0), np.int64(0), np.int64(0)
    most = np.int64(0)
    for part in range(s.reg[PARTS]):
        at = report_at(part, box)
        first = min(first, s.sync[at], s.sync[at + REPORT_FIRST])
        events += s.sync[at + REPORT_EVENTS] + s.sync[at + REPORT_MAILED]
        left += s.sync[at + REPORT_LEFT]
        in_network += s.sync[at + REPORT_IN_NETWORK]
        most = max(most, s.sync[at + REPORT_HANDLED])
    s.reg[CRITICAL] += most
    s.reg[ROUND] += 1
    s.reg[TAKEN] = RUNNING
    s.reg[MAILED] = 0
    s.reg[MAIL_FIRST] = NEVER
    if n.management[MG_ON]:
        return managed_window(s, until, box)
    if left <= 0 and in_network <= 0:
        return np.int64(DONE)
    if first == NEVER or (events == 0 and in_network > 0):
        return np.int64(STUCK)
    if first > until:
        return np.int64(TIME_OVER)
    s.reg[WINDOW_END] = min(first + s.reg[LOOKAHEAD], until + 1)
    return np.int64(GOES_ON)


@inner
def managed_window(s, until, box):
    """:func:`next_window` of a run whose links change: its caller says when all is done."""
    first, what = np.int64(NEVER), np.int64(NEVER)
    timer, timer_what, inbox = np.int64(NEVER), np.int64(NEVER), np.int64(0)
    for part in range(s.reg[PARTS]):
        at = report_at(part, box)
        inbox += s.sync[at + REPORT_INBOX]
        if earlier(s.sync[at], s.sync[at + REPORT_WHAT], first, what):
            first, what = s.sync[at], s.sync[at + REPORT_WHAT]
        if s.sync[at + REPORT_FIRST] <= first:
            first, what = s.sync[at + REPORT_FIRST], np.int64(-1)
        if earlier(s.sync[at + REPORT_TIMER], s.sync[at + REPORT_TIMER_WHAT], timer, timer_what):
            timer, timer_what = s.sync[at + REPORT_TIMER], s.sync[at + REPORT_TIMER_WHAT]
    status = np.int64(GOES_ON)
    if inbox > 0:  # no part may go on behind the event of this MAD
        timer, timer_what = s.reg[MANAGED_AT], s.reg[MANAGED_WHAT]
        if earlier(timer, timer_what, first, what):
            status = np.int64(MANAGED)
    elif first == NEVER:
        status = np.int64(STUCK)
    elif first > until:
        status = np.int64(TIME_OVER)
    s.reg[WINDOW_WHAT] = -1
    s.reg[WINDOW_END] = min(first + s.reg[LOOKAHEAD], until + 1) if status == GOES_ON else 0
    if status == GOES_ON and timer < s.reg[WINDOW_END]:
        s.reg[WINDOW_END] = timer
        s.reg[WINDOW_WHAT] = timer_what
        s.reg[MANAGED_AT] = timer
        s.reg[MANAGED_WHAT] = timer_what
    return status


@inner
def earlier(now, what, other, other_what):
    """Is event ``what`` of ``now`` before the other one?"""
    return now < other or (now == other and what < other_what)


@inner
def end_window(n, s, until, following, what, has_events):
    """This part has nothing more in its window. Returns GOES_ON with a new one, GROW, or why the run ends."""
    if s.reg[TAKEN] == RUNNING:
        report(n, s, following, what, has_events)
        if not meet(s):
            return np.int64(ABORTED)
        s.reg[TAKEN] = 0
        s.reg[TAKEN_FROM] = 0
    if not take_mail(n, s):
        return np.int64(GROW)
    return next_window(n, s, until)
