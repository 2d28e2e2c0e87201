"""The loop of a queue of the target, which receives capsules, moves data by RDMA, and sends responses.

Admin and fabrics commands are passed to Python when their data has arrived; Python answers with :func:`respond`.
"""

from softib.jit import External, inner, kernel
from softib.ulp.nvmeof.codes import Admin, AnaState, Io, Status
from softib.ulp.nvmeof.ring_kernels import (
    INLINE,
    READ,
    SEND,
    SEND_WITH_INVALIDATE,
    SIGNALED,
    WRITE,
    failed,
    memcpy,
    poll,
    post,
    post_receive,
    sched_yield,
    set_request,
    set_segment,
)
from softib.ulp.nvmeof.structures import IN_CAPSULE, KEYED, KEYED_INVALIDATE
from softib.ulp.nvmeof.target.queue_layout import (
    ADMIN,
    BUFFERS_AT,
    CAPSULE,
    CAPSULES_AT,
    CLOCK_AT,
    ENTRIES,
    ERRNO_AT,
    FREE,
    HEAD,
    HELD,
    HELD_FIRST,
    LKEY,
    MAX_DATA,
    MTU,
    N_ERRORS,
    N_READ,
    N_READS,
    N_WRITES,
    N_WRITTEN,
    NUMBER_OF_NAMESPACES,
    PSN_IN,
    PSN_OUT,
    RESPONSE_AT,
    SCRATCH_AT,
    SLOT,
    SPAN,
    STOP,
    TRACE_AT,
    TRACE_ROOM,
    TRACED,
    WAIT,
    ZEROES_AT,
)
from softib.ulp.nvmeof.work_requests import PAIR, SEND_WR_2, SQ_ROOM

pread = External("pread", "intp", "int32", "uintp", "uintp", "intp")
pwrite = External("pwrite", "intp", "int32", "uintp", "uintp", "intp")
fdatasync = External("fdatasync", "int32", "int32")
fallocate = External("fallocate", "int32", "int32", "int32", "intp", "intp")
memcmp = External("memcmp", "int32", "uintp", "uintp", "uintp")
clock_gettime = External("clock_gettime", "int32", "int32", "uintp")
errno_location = External("__errno_location", "uintp")
EINTR, ENOSPC, EDQUOT, EFBIG = 4, 28, 122, 27
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 0x10

IDLE, COMMAND, BROKEN, CALLED = range(4)
"""Return values of :func:`serve`. IDLE: nothing arrived during ``SPINS`` polls. COMMAND: Python must execute the
command in slot ``SLOT``. BROKEN: the connection failed. CALLED: another thread set ``STOP``, or the trace is half
full."""
REALTIME, YIELD_AFTER = 0, 2000
"""CLOCK_REALTIME; number of polls without a completion before the thread yields."""
RECEIVED, DATA, ANSWERED = range(3)
"""Low bits of wr_id: the kind of completion. From bit 8: the slot; for ANSWERED the buffer + 1, and
from bit 24 the number of work requests."""
FLUSH, IO_WRITE, IO_READ, COMPARE, ZEROES = (int(opcode) for opcode in Io)
FABRICS = int(Admin.FABRICS)
DNR = 0x4000
"""Bit "do not retry" of a status (NVMe 1.4, figure 124)."""
OK = int(Status.SUCCESS)
INVALID_OPCODE, INVALID_FIELD = DNR | Status.INVALID_OPCODE, DNR | Status.INVALID_FIELD
INVALID_NAMESPACE, SGL_TYPE_INVALID = DNR | Status.INVALID_NAMESPACE, DNR | Status.SGL_TYPE_INVALID
SGL_LENGTH_INVALID, SGL_OFFSET_INVALID = DNR | Status.SGL_LENGTH_INVALID, DNR | Status.SGL_OFFSET_INVALID
LBA_OUT_OF_RANGE, WRITE_PROTECTED = DNR | Status.LBA_OUT_OF_RANGE, DNR | Status.WRITE_PROTECTED
COMPARE_FAILURE = DNR | Status.COMPARE_FAILURE
CAPACITY_EXCEEDED, WRITE_FAULT = DNR | Status.CAPACITY_EXCEEDED, int(Status.WRITE_FAULT)
READ_ERROR, PERSISTENT_LOSS = int(Status.UNRECOVERED_READ_ERROR), int(Status.ANA_PERSISTENT_LOSS)
INACCESSIBLE, TRANSITION = int(Status.ANA_INACCESSIBLE), int(Status.ANA_TRANSITION)
STATE_INACCESSIBLE, STATE_LOSS, STATE_CHANGE = (
    int(state) for state in (AnaState.INACCESSIBLE, AnaState.PERSISTENT_LOSS, AnaState.CHANGE)
)


@inner
def error_number(q):
    """Return the errno of the last call."""
    memcpy(q.n[ERRNO_AT], errno_location(), 4)
    return q.errno[0]


@inner
def key_of(q, slot):
    """Return the remote key of a keyed SGL."""
    return (q.capsule32[slot, 8] >> 24) | ((q.capsule32[slot, 9] & 0xFFFFFF) << 8)


@inner
def length_of(q, slot):
    """Return the length in bytes of the data that a command's SGL describes."""
    length = int(q.capsule32[slot, 8])
    return length if q.capsule8[slot, 39] == IN_CAPSULE else length & 0xFFFFFF


@inner
def is_keyed(q, slot):
    """Return whether the command's data is in the host's memory (a keyed SGL)."""
    return q.capsule8[slot, 39] == KEYED or q.capsule8[slot, 39] == KEYED_INVALIDATE


@inner
def buffer_at(q, buffer):
    return q.n[BUFFERS_AT] + buffer * MAX_DATA


@inner
def take_buffer(q, slot):
    """Assign a buffer to the slot."""
    q.n[FREE] -= 1
    q.slot_buffer[slot] = q.free[q.n[FREE]]


@inner
def give_back(q, buffer):
    q.free[q.n[FREE]] = buffer
    q.n[FREE] += 1


@inner
def packets(q, length):
    """Return the number of packets in a message (an empty message has one packet, IBA 9.7.2)."""
    return max(1, (length + q.n[MTU] - 1) // q.n[MTU])


@inner
def trace(q, outgoing, psn, address, length):
    """Add a capsule or response to the trace for the capture."""
    if q.n[TRACED] < q.n[TRACE_ROOM]:
        row = q.trace[q.n[TRACED]]
        clock_gettime(REALTIME, q.n[CLOCK_AT])
        row[0], row[1], row[2] = outgoing, length, psn & 0xFFFFFF
        row[3] = q.clock[0] * 1_000_000_000 + q.clock[1]
        memcpy(q.n[TRACE_AT] + 8 * (SPAN * q.n[TRACED] + 4), address, length)
        q.n[TRACED] += 1


@inner
def answer(r, q, slot, status, result, length):
    """Send ``length`` bytes of the slot's buffer to the host, then the response to the command in ``slot``; post the
    slot's receive again. Return True if the queue pair accepted both."""
    n = q.n
    n[HEAD] = (n[HEAD] + 1) % n[ENTRIES]
    q.response64[0] = result
    q.response16[4] = n[HEAD]
    q.response16[5] = 0
    q.response16[6] = q.capsule16[slot, 1]
    q.response16[7] = (status << 1) & 0xFFFF
    buffer, key = q.slot_buffer[slot], key_of(q, slot)
    invalidates = q.capsule8[slot, 39] == KEYED_INVALIDATE
    address = q.capsule64[slot, 3]
    if status:
        note_error(q, slot, status)
    q.slot_buffer[slot] = -1
    if length == 0 and buffer >= 0:
        give_back(q, buffer)
        buffer = -1
    if not post_receive(r, slot << 8 | RECEIVED, n[CAPSULES_AT] + slot * CAPSULE, CAPSULE, n[LKEY]):
        return False
    count = 1
    if length:
        count = 2
        set_segment(r, 0, buffer_at(q, buffer), length, n[LKEY])
        set_request(r, 0, WRITE, 0, 1, 0)
        r.send64[0, 1] = r.n[SEND_WR_2]
        r.send64[0, 5] = address
        r.send32[0, 12] = key
    set_segment(r, 2, n[RESPONSE_AT], 16, n[LKEY])
    set_request(
        r,
        1,
        SEND_WITH_INVALIDATE if invalidates else SEND,
        SIGNALED | INLINE,
        1,
        count << 24 | (buffer + 1) << 8 | ANSWERED,
    )
    r.send32[1, 9] = key if invalidates else 0
    if n[TRACE_ROOM]:
        if length:
            n[PSN_OUT] += packets(q, length)
        trace(q, 2 if invalidates else 1, n[PSN_OUT], n[RESPONSE_AT], 16)
        n[PSN_OUT] += 1
    return post(r, 2 - count, count)


@inner
def note_error(q, slot, status):
    """Store the error for the log page."""
    q.done[N_ERRORS] += 1
    q.error64[0] = q.done[N_ERRORS]
    q.error64[1] = q.capsule16[slot, 1]
    q.error64[2] = status
    q.error64[3] = q.capsule64[slot, 5]
    q.error64[4] = q.capsule32[slot, 1]


@inner
def fetch(r, q, slot, length):
    """Start the RDMA READ of ``length`` bytes from the host's memory into the slot's buffer."""
    set_segment(r, 0, buffer_at(q, q.slot_buffer[slot]), length, q.n[LKEY])
    set_request(r, 0, READ, SIGNALED, 1, slot << 8 | DATA)
    r.send64[0, 5] = q.capsule64[slot, 3]
    r.send32[0, 12] = key_of(q, slot)
    if q.n[TRACE_ROOM]:
        q.n[PSN_OUT] += packets(q, length)
    return post(r, 0, 1)


@inner
def read_file(q, fd, address, length, offset):
    """Read from the file into memory; return a status."""
    done = 0
    while done < length:
        got = pread(fd, address + done, length - done, offset + done)
        if got < 0 and error_number(q) == EINTR:
            continue
        if got <= 0:  # an error, or the file was truncated
            return READ_ERROR
        done += got
    return OK


@inner
def write_file(q, fd, address, length, offset):
    """Write to the file; return a status."""
    done = 0
    while done < length:
        wrote = pwrite(fd, address + done, length - done, offset + done)
        if wrote < 0:
            error = error_number(q)
            if error == EINTR:
                continue
            return CAPACITY_EXCEEDED if error == ENOSPC or error == EDQUOT or error == EFBIG else WRITE_FAULT
        done += wrote
    return OK


@inner
def write_zeroes(q, fd, offset, length, deallocate):
    """Zero a range of the file; return a status."""
    how = KEEP_SIZE | (PUNCH_HOLE if deallocate else ZERO_RANGE)
    if fallocate(fd, how, offset, length) == 0:
        return OK
    done = 0
    while done < length:
        part = min(length - done, MAX_DATA)
        status = write_file(q, fd, q.n[ZEROES_AT], part, offset + done)
        if status:
            return status
        done += part
    return OK


@inner
def refusal(q, slot, opcode):
    """Return the error status if the command must not be executed; otherwise OK."""
    if q.capsule8[slot, 1] & 3:  # a fused command
        return INVALID_FIELD
    if opcode != FLUSH and opcode != IO_WRITE and opcode != IO_READ and opcode != COMPARE and opcode != ZEROES:
        return INVALID_OPCODE
    nsid = q.capsule32[slot, 1]
    if nsid < 1 or nsid > q.n[NUMBER_OF_NAMESPACES]:
        return INVALID_NAMESPACE
    if q.refuse[nsid]:
        return q.refuse[nsid]
    state = q.state[nsid]
    if state == STATE_INACCESSIBLE:
        return INACCESSIBLE
    if state == STATE_LOSS:
        return PERSISTENT_LOSS
    if state == STATE_CHANGE:
        return TRANSITION
    if opcode == FLUSH:
        return OK
    if (opcode == IO_WRITE or opcode == ZEROES) and not q.writable[nsid]:
        return WRITE_PROTECTED
    first, blocks = q.capsule64[slot, 5], int(q.capsule16[slot, 24]) + 1
    if first < 0 or first >= q.blocks[nsid] or blocks > q.blocks[nsid] - first:
        return LBA_OUT_OF_RANGE
    if opcode == ZEROES:
        return OK
    if q.capsule8[slot, 1] >> 6 != 1:  # the data is not described by an SGL
        return INVALID_FIELD
    return wrong_segment(q, slot, opcode, blocks << q.shift[nsid])


@inner
def wrong_segment(q, slot, opcode, size):
    """Return an error status if the command's SGL does not describe ``size`` bytes; otherwise OK."""
    if size > MAX_DATA:
        return INVALID_FIELD
    if is_keyed(q, slot):
        return OK if length_of(q, slot) == size else SGL_LENGTH_INVALID
    if q.capsule8[slot, 39] != IN_CAPSULE or opcode == IO_READ:
        return SGL_TYPE_INVALID
    if length_of(q, slot) != size:
        return SGL_LENGTH_INVALID
    if q.capsule64[slot, 3] != 0 or 64 + size > q.received[slot]:
        return SGL_OFFSET_INVALID
    return OK


@inner
def with_data(q, slot, opcode, address):
    """Execute a command with its data at ``address``; return a status."""
    nsid = q.capsule32[slot, 1]
    fd, shift = q.fd[nsid], q.shift[nsid]
    offset, length = q.capsule64[slot, 5] << shift, (int(q.capsule16[slot, 24]) + 1) << shift
    if opcode == COMPARE:
        status = read_file(q, fd, q.n[SCRATCH_AT], length, offset)
        if status == OK and memcmp(q.n[SCRATCH_AT], address, length):
            status = COMPARE_FAILURE
        return status
    status = write_file(q, fd, address, length, offset)
    if status == OK and q.capsule32[slot, 12] & 0x40000000 and fdatasync(fd):  # FUA
        status = WRITE_FAULT
    if status == OK:
        q.done[N_WRITTEN] += length
        q.done[N_WRITES] += 1
    return status


@inner
def execute(r, q, slot):
    """Begin the I/O command in ``slot``, to which a buffer is assigned. Return False if the connection failed."""
    opcode = q.capsule8[slot, 0]
    status = refusal(q, slot, opcode)
    nsid = q.capsule32[slot, 1]
    if status:
        return answer(r, q, slot, status, 0, 0)
    fd, shift = q.fd[nsid], q.shift[nsid]
    offset, length = q.capsule64[slot, 5] << shift, (int(q.capsule16[slot, 24]) + 1) << shift
    if opcode == IO_READ:
        status = read_file(q, fd, buffer_at(q, q.slot_buffer[slot]), length, offset)
        if status == OK:
            q.done[N_READ] += length
            q.done[N_READS] += 1
        return answer(r, q, slot, status, 0, length if status == OK else 0)
    if opcode == FLUSH:
        return answer(r, q, slot, WRITE_FAULT if fdatasync(fd) else OK, 0, 0)
    if opcode == ZEROES:
        return answer(r, q, slot, write_zeroes(q, fd, offset, length, q.capsule32[slot, 12] & 0x02000000), 0, 0)
    if not is_keyed(q, slot):
        return answer(r, q, slot, with_data(q, slot, opcode, q.n[CAPSULES_AT] + slot * CAPSULE + 64), 0, 0)
    return fetch(r, q, slot, length)


@inner
def for_python(q, slot):
    """Return whether Python executes the command."""
    return q.n[ADMIN] != 0 or q.capsule8[slot, 0] == FABRICS


@inner
def begin(r, q, slot):
    """Begin the command in ``slot`` if a buffer and room in the send queue are available. Return -1 if the connection
    failed, 1 if Python must execute the command now, otherwise 0."""
    if q.n[FREE] == 0 or r.n[SQ_ROOM] < 2:
        q.held[(q.n[HELD_FIRST] + q.n[HELD]) % q.n[ENTRIES]] = slot
        q.n[HELD] += 1
        return 0
    take_buffer(q, slot)
    if not for_python(q, slot):
        return 0 if execute(r, q, slot) else -1
    to_target = q.capsule8[slot, 4 if q.capsule8[slot, 0] == FABRICS else 0] & 3
    if to_target == 1 and is_keyed(q, slot):
        return 0 if fetch(r, q, slot, min(length_of(q, slot), MAX_DATA)) else -1
    q.n[SLOT] = slot
    return 1


@inner
def data_came(r, q, slot):
    """Continue the command in ``slot``, whose data is in its buffer. Return values are those of :func:`begin`."""
    if for_python(q, slot):
        q.n[SLOT] = slot
        return 1
    opcode = q.capsule8[slot, 0]
    status = with_data(q, slot, opcode, buffer_at(q, q.slot_buffer[slot]))
    return 0 if answer(r, q, slot, status, 0, 0) else -1


@inner
def completed(r, q, k):
    """Handle one completion. Return values are those of :func:`begin`."""
    wr_id = r.wc64[k, 0]
    if failed(r, k):
        return -1
    kind, slot = wr_id & 0xFF, (wr_id >> 8) & 0xFFFF
    if kind == RECEIVED:
        size = int(r.wc32[k, 5])
        if size < 64:
            return -1
        q.received[slot] = size
        if q.n[TRACE_ROOM]:
            trace(q, 0, q.n[PSN_IN], q.n[CAPSULES_AT] + slot * CAPSULE, size)
            q.n[PSN_IN] += packets(q, size)
        return begin(r, q, slot)
    if kind == DATA:
        r.n[SQ_ROOM] += 1
        return data_came(r, q, slot)
    r.n[SQ_ROOM] += wr_id >> 24
    if slot:
        give_back(q, slot - 1)
    return 0


@kernel(_nrt=False)
def serve(r, q, pending):
    """Serve the queue; return ``IDLE``, ``COMMAND``, ``BROKEN`` or ``CALLED``. ``pending`` int64[2]: the index of the
    next completion to handle, and the number of completions polled."""
    idle = 0
    while True:
        if q.n[STOP] or (q.n[TRACE_ROOM] and 2 * q.n[TRACED] > q.n[TRACE_ROOM]):
            return CALLED
        while pending[0] < pending[1]:
            k = pending[0]
            pending[0] += 1
            what = completed(r, q, k)
            if what:
                return BROKEN if what < 0 else COMMAND
        while q.n[HELD] and q.n[FREE] and r.n[SQ_ROOM] >= 2:
            slot = q.held[q.n[HELD_FIRST]]
            q.n[HELD_FIRST] = (q.n[HELD_FIRST] + 1) % q.n[ENTRIES]
            q.n[HELD] -= 1
            what = begin(r, q, slot)
            if what:
                return BROKEN if what < 0 else COMMAND
        pending[0] = 0
        pending[1] = poll(r)
        if pending[1] < 0:
            return BROKEN
        if pending[1] == 0:
            idle += 1
            if idle > q.n[WAIT]:
                return IDLE
            if idle > YIELD_AFTER:
                sched_yield()
        else:
            idle = 0


@kernel(_nrt=False)
def respond(r, q, slot, status, result, length):
    """Answer a command that Python executed, with ``length`` bytes of its buffer."""
    return r.n[PAIR] != 0 and answer(r, q, slot, status, result, length)


@kernel(_nrt=False)
def post_all(r, q):
    """Post receives for all slots."""
    if r.n[PAIR] == 0:
        return False
    for slot in range(q.n[ENTRIES]):
        if not post_receive(r, slot << 8 | RECEIVED, q.n[CAPSULES_AT] + slot * CAPSULE, CAPSULE, q.n[LKEY]):
            return False
    return True


def compile_all(r, q, pending):
    """Compile the kernels that serve queues by calling them with columns that have no queue pair."""
    q.n[STOP] = 1
    serve(r, q, pending)
    respond(r, q, 0, 0, 0, 0)
    post_all(r, q)
