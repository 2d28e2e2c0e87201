"""The loop of an I/O queue of the initiator, which sends commands, receives responses and verifies data."""

from softib.jit import External, inner, kernel
from softib.ulp.nvmeof.codes import Io
from softib.ulp.nvmeof.host.queue_layout import (
    CAPSULE,
    CAPSULES_AT,
    CLOCK_AT,
    DATA_AT,
    DEALLOCATE,
    ENTRIES,
    FREE,
    FUA,
    IN_CAPSULE_MAX,
    LKEY,
    NSID,
    PATTERN,
    PIECE,
    RESPONSE,
    RESPONSES_AT,
    RKEY,
    SHIFT,
    STEP,
    STOP,
    TIMEOUT_NS,
)
from softib.ulp.nvmeof.ring_kernels import (
    SEND,
    SIGNALED,
    failed,
    memcpy,
    poll,
    post,
    post_receive,
    sched_yield,
    set_request,
    set_segment,
)
from softib.ulp.nvmeof.structures import IN_CAPSULE, KEYED
from softib.ulp.nvmeof.work_requests import PAIR, SQ_ROOM

clock_gettime = External("clock_gettime", "int32", "int32", "uintp")
MONOTONIC = 1
RECEIVED, SENT = 0, 1
"""Kinds of completions, in the low bits of wr_id. The bits from 8 on are the slot of the receive."""
DONE, LOST, TIMED_OUT, STOPPED, CORRUPT = range(5)
"""Results of :func:`transfer`."""
IO_READ, IO_WRITE, COMPARE, ZEROES = int(Io.READ), int(Io.WRITE), int(Io.COMPARE), int(Io.WRITE_ZEROES)
SGL = 0x40
"""Flags of a command whose data is described by an SGL."""
YIELD_AFTER, LOOK_EVERY = 2000, 64
"""Number of polls without a completion before the thread yields, and before it reads the clock again."""


@inner
def now_ns(q):
    """Return CLOCK_MONOTONIC in ns."""
    clock_gettime(MONOTONIC, q.n[CLOCK_AT])
    return q.clock[0] * 1_000_000_000 + q.clock[1]


@inner
def fill(q, slot, count, pattern):
    """Write a pattern into the slot's data."""
    row = q.data64[slot]
    for i in range(count):
        row[i] = pattern + i * STEP


@inner
def differs(q, slot, count, pattern):
    """Return whether the slot's data differs from ``pattern``."""
    row = q.data64[slot]
    different = 0
    for i in range(count):
        different |= row[i] ^ (pattern + i * STEP)
    return different != 0


@inner
def submit(r, q, req, i):
    """Send request ``i``. Return True if the queue pair accepted it."""
    n = q.n
    n[FREE] -= 1
    slot = q.free[n[FREE]]
    opcode = req.opcode[i]
    for k in range(CAPSULE // 8):
        q.capsule64[slot, k] = 0
    q.capsule8[slot, 0] = opcode
    q.capsule8[slot, 1] = SGL
    q.capsule16[slot, 1] = slot
    q.capsule32[slot, 1] = n[NSID]
    address = n[DATA_AT] + slot * n[PIECE]
    length, segments = 0, 1
    if opcode == IO_READ or opcode == IO_WRITE or opcode == COMPARE:
        length = req.blocks[i] << n[SHIFT]
    if opcode == IO_WRITE or opcode == COMPARE:
        if req.flags[i] & PATTERN:
            fill(q, slot, length >> 3, req.pattern[i])
        else:
            memcpy(address, req.memory[i], length)
    if length and opcode != IO_READ and length <= n[IN_CAPSULE_MAX]:
        segments = 2
        q.capsule32[slot, 8] = length
        q.capsule8[slot, 39] = IN_CAPSULE
        set_segment(r, 1, address, length, n[LKEY])
    else:
        key = n[RKEY]
        q.capsule64[slot, 3] = address if length else 0
        q.capsule32[slot, 8] = length | (key & 0xFF) << 24
        q.capsule32[slot, 9] = key >> 8 | KEYED << 24
    if req.blocks[i]:
        q.capsule64[slot, 5] = req.lba[i]
        q.capsule32[slot, 12] = (
            (req.blocks[i] - 1)
            | (0x40000000 if req.flags[i] & FUA else 0)
            | (0x02000000 if req.flags[i] & DEALLOCATE else 0)
        )
    q.slot_request[slot] = i
    q.slot_began[slot] = now_ns(q)
    set_segment(r, 0, n[CAPSULES_AT] + slot * CAPSULE, CAPSULE, n[LKEY])
    set_request(r, 0, SEND, SIGNALED, segments, SENT)
    return post(r, 0, 1)


@inner
def receive(r, q, slot):
    """Post a receive into row ``slot`` of the responses."""
    return post_receive(r, slot << 8 | RECEIVED, q.n[RESPONSES_AT] + slot * RESPONSE, RESPONSE, q.n[LKEY])


@inner
def finish(q, req, row):
    """End the request to which the response in ``row`` belongs. Return -1 if there is no such request, 1 if its data is
    wrong, otherwise 0."""
    slot = q.response16[row, 6]
    if slot >= q.n[ENTRIES]:
        return -1
    i = q.slot_request[slot]
    if i < 0:
        return -1
    q.slot_request[slot] = -1
    status = (q.response16[row, 7] >> 1) & 0x7FFF
    req.status[i] = status
    req.result[i] = q.response64[row, 0]
    q.free[q.n[FREE]] = slot
    q.n[FREE] += 1
    wrong = 0
    if status == 0 and req.opcode[i] == IO_READ:
        length = req.blocks[i] << q.n[SHIFT]
        if req.flags[i] & PATTERN:
            wrong = 1 if differs(q, slot, length >> 3, req.pattern[i]) else 0
            req.bad[i] = wrong
        elif req.memory[i]:
            memcpy(req.memory[i], q.n[DATA_AT] + slot * q.n[PIECE], length)
    req.ns[i] = now_ns(q) - q.slot_began[slot]
    return wrong


@kernel(_nrt=False)
def transfer(r, q, req):
    """Execute requests, as many at once as the queue's depth permits."""
    count = len(req.opcode)
    following, done, idle = 0, 0, 0
    last_ns = 0
    while done < count:
        while following < count and q.n[FREE] and r.n[SQ_ROOM]:
            if not submit(r, q, req, following):
                return LOST
            following += 1
        if q.n[STOP]:
            return STOPPED
        n = poll(r)
        if n < 0:
            return LOST
        if n == 0:
            idle += 1
            if idle > YIELD_AFTER:
                sched_yield()
                if idle == YIELD_AFTER + 1:
                    last_ns = now_ns(q)
                if idle % LOOK_EVERY == 0 and now_ns(q) - last_ns > q.n[TIMEOUT_NS]:
                    return TIMED_OUT
            continue
        idle = 0
        for k in range(n):
            if failed(r, k):
                return LOST
            if r.wc64[k, 0] & 0xFF == SENT:
                r.n[SQ_ROOM] += 1
                continue
            row = r.wc64[k, 0] >> 8
            end = finish(q, req, row)
            if end < 0 or not receive(r, q, row):
                return LOST
            done += 1
            if end:
                return CORRUPT
    return DONE


@kernel(_nrt=False)
def post_all(r, q):
    """Post a receive for every response, and mark every slot as free."""
    if r.n[PAIR] == 0:
        return False
    for slot in range(q.n[ENTRIES]):
        q.slot_request[slot] = -1
    for slot in range(q.n[ENTRIES] + 1):
        if not receive(r, q, slot):
            return False
    return True


@kernel(_nrt=False)
def send_capsule(r, q, slot):
    """Send the command that is in the slot."""
    if r.n[PAIR] == 0:
        return False
    set_segment(r, 0, q.n[CAPSULES_AT] + slot * CAPSULE, CAPSULE, q.n[LKEY])
    set_request(r, 0, SEND, SIGNALED, 1, SENT)
    return post(r, 0, 1)


@kernel(_nrt=False)
def take_responses(r, q, out):
    """Write the pending responses (slot, status, result) to the first n rows of ``out`` (int64[BATCH, 3]), and return
    n; -1 if the connection is lost."""
    if r.n[PAIR] == 0:
        return -1
    n = poll(r)
    if n < 0:
        return -1
    responses = 0
    for k in range(n):
        if failed(r, k):
            return -1
        if r.wc64[k, 0] & 0xFF == SENT:
            r.n[SQ_ROOM] += 1
            continue
        row = r.wc64[k, 0] >> 8
        out[responses, 0] = q.response16[row, 6]
        out[responses, 1] = (q.response16[row, 7] >> 1) & 0x7FFF
        out[responses, 2] = q.response64[row, 0]
        responses += 1
        if not receive(r, q, row):
            return -1
    return responses


def compile_all(r, q, req, out):
    """Compile the queue kernels by calling them with columns that have no queue pair and no requests."""
    transfer(r, q, req)
    post_all(r, q)
    send_capsule(r, q, 0)
    take_responses(r, q, out)
