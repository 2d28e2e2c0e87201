"""Kernels that read GOAL text into columns, a byte at a time; :mod:`softib.workloads.traces.goal` has the grammar and
all error messages. The kernel reads the output of schedgen, LogGOPSim's tools and softib. It stops at the first line of
another form, whether the line is wrong or only unusual. The line reader then reads the whole file, and reports errors.
"""

import numpy as np

from softib.jit import kernel, table

Ops = table("Ops", "rank kind peer size tag ns cpu label_at label_len who on start")
"""Columns of operations (``label_at`` and ``label_len``: bytes in the text), and of requirements: ``who`` (the row that
waits), ``on`` (the row that it waits for), and ``start`` (whether it waits for the start of that row). There is room
for one of each per line.
"""
Labels = table("Labels", "row stamp key_at key_len key_rank chain ids")
"""Labels of one rank, by number: ``row`` (the operation with this label, -1: not yet read) and ``stamp`` (number of the
rank, in the order of the file, that wrote the entry). Labels ``l1``, ``l2`` … have the number in their name; the
numbers of others are in a hash table: ``key_*`` and ``chain`` (0: empty), with ``ids`` entries."""

SEND, RECV, COMPUTE = 0, 1, 2
"""Values of ``schedule.Kind``."""
NL, SPACE, SLASH = 10, 32, 47
KEYWORDS = (b"send", b"recv", b"calc", b"to", b"from", b"requires", b"irequires", b"rank", b"tag", b"cpu", b"nic")
TO, FROM, REQUIRES, IREQUIRES, RANK_WORD, TAG_WORD, CPU_WORD, NIC_WORD = range(3, 11)
KIND, NUMBER, PEER, TAG, CPU = range(5)
OPERATIONS, NEEDS, STAMP, RANK = range(4)


@kernel
def blank(data, at):
    """Return the position of the first byte from ``at`` on that is not a space within the line."""
    while data[at] == SPACE or data[at] == 9 or data[at] == 13:
        at += 1
    return at


@kernel
def word_end(data, at):
    """Return the end of the letters, digits and underscores from ``at`` on."""
    while True:
        c = data[at]
        if not (48 <= c <= 57 or 65 <= c <= 90 or c == 95 or 97 <= c <= 122):
            return at
        at += 1


@kernel
def number_end(data, at):
    """Return the end of the digits from ``at`` on; ``at`` if there are none or more than 15
    (nanoseconds become picoseconds)."""
    end = at
    while 48 <= data[end] <= 57:
        end += 1
    return at if end - at > 15 else end


@kernel
def number_in(data, at, end):
    """Return the number whose digits are ``data[at:end]``."""
    value = 0
    for i in range(at, end):
        value = value * 10 + (data[i] - 48)
    return value


@kernel
def label_id(labels, data, at, end, rank, direct):
    """Return the number of the label in ``data[at:end]``; -1 if the hash table is full."""
    if data[at] == 108 and 1 < end - at <= 10 and data[at + 1] != 48:  # l1, l2 …
        digits = number_end(data, at + 1)
        if digits == end:
            number = number_in(data, at + 1, end)
            if number < direct:
                return number
    key = 2166136261
    for i in range(at, end):
        key = ((key ^ data[i]) * 16777619) & 0xFFFFFFFF
    key = (key ^ (rank * 2654435761)) & (len(labels.chain) - 1)
    while labels.chain[key] > 0:
        k = labels.chain[key] - 1
        if labels.key_rank[k] == rank and labels.key_len[k] == end - at:
            same = True
            for i in range(end - at):
                if data[labels.key_at[k] + i] != data[at + i]:
                    same = False
                    break
            if same:
                return direct + k
        key = (key + 1) & (len(labels.chain) - 1)
    k = labels.ids[0]
    if k >= len(labels.key_at):
        return -1
    labels.ids[0] = k + 1
    labels.chain[key] = k + 1
    labels.key_at[k], labels.key_len[k], labels.key_rank[k] = at, end - at, rank
    return direct + k


@kernel
def is_word(data, at, end, word):
    """Return whether ``data[at:end]`` is the keyword (a row of ``keywords``: its length, then its
    bytes)."""
    if end - at != word[0]:
        return False
    for i in range(end - at):
        if data[at + i] != word[i + 1]:
            return False
    return True


@kernel
def close_rank(ops, labels, first, needs, stamp):
    """Replace labels by operations in the requirements from ``first`` on. Return False if a label has no operation."""
    for i in range(first, needs):
        who, on = ops.who[i], ops.on[i]
        if labels.stamp[who] != stamp or labels.stamp[on] != stamp:
            return False
        ops.who[i], ops.on[i] = labels.row[who], labels.row[on]
    return True


@kernel
def operands(data, at, keywords, value):
    """Read the operands of an operation into ``value``; ``value[KIND]`` is its kind. Return the position after them, -1
    if the text differs."""
    computes = value[KIND] == COMPUTE
    end = number_end(data, at)
    if end == at or (computes and end - at > 15):
        return -1
    value[NUMBER], value[PEER], value[TAG], value[CPU] = number_in(data, at, end), -1, 0, 0
    at = end
    if not computes:
        if data[at] != 98 or data[at + 1] != SPACE:  # b
            return -1
        at = blank(data, at + 1)
        end = word_end(data, at)
        if not is_word(data, at, end, keywords[TO]) and not is_word(data, at, end, keywords[FROM]):
            return -1
        at = blank(data, end)
        end = number_end(data, at)
        if end == at or end - at > 9:
            return -1
        value[PEER] = number_in(data, at, end)
        at = end
    last = COMPUTE if computes else 0
    while True:
        word = blank(data, at)
        end = word_end(data, word)
        if end == word:
            return word
        which = (
            1
            if is_word(data, word, end, keywords[TAG_WORD])
            else 2
            if is_word(data, word, end, keywords[CPU_WORD])
            else 3
        )
        if (
            word == at
            or (which == 3 and not is_word(data, word, end, keywords[NIC_WORD]))
            or which <= (1 if computes else last)
        ):
            return -1
        at = blank(data, end)
        end = number_end(data, at)
        if end == at:
            return -1
        if which < 3:
            value[TAG if which == 1 else CPU] = number_in(data, at, end)
        last = which
        at = end


@kernel
def requirement(data, name, name_end, at, ops, labels, keywords, where):
    """Read ``NAME requires NAME`` or ``irequires``; return the position after it, -1 if
    the text differs, -2 if it is not a requirement. ``where`` as in :func:`read_text`."""
    end = word_end(data, at)
    waits = is_word(data, at, end, keywords[REQUIRES])
    if not waits and not is_word(data, at, end, keywords[IREQUIRES]):
        return -2
    direct = len(labels.row) - len(labels.key_at)
    on = blank(data, end)
    on_end = word_end(data, on)
    if on_end == on or on == end:
        return -1
    who_id = label_id(labels, data, name, name_end, where[STAMP], direct)
    on_id = label_id(labels, data, on, on_end, where[STAMP], direct)
    if who_id < 0 or on_id < 0:
        return -1
    n = where[NEEDS]
    ops.who[n], ops.on[n], ops.start[n] = who_id, on_id, not waits
    where[NEEDS] = n + 1
    return on_end


@kernel
def operation(data, at, rank, ops, labels, keywords, where, value):
    """Read a line within a rank, an operation or a requirement; return the position after it,
    -1 if the text differs."""
    name, name_end = at, word_end(data, at)
    if name_end == name:
        return -1
    at = blank(data, name_end)
    labelled = data[at] == 58  # :
    if labelled:
        at = blank(data, at + 1)
    else:
        end = requirement(data, name, name_end, at, ops, labels, keywords, where)
        if end != -2:
            return end
        at = name
    end = word_end(data, at)
    value[KIND] = (
        SEND if is_word(data, at, end, keywords[0]) else RECV if is_word(data, at, end, keywords[1]) else COMPUTE
    )
    if value[KIND] == COMPUTE and not is_word(data, at, end, keywords[2]):
        return -1
    behind = blank(data, end)
    at = operands(data, behind, keywords, value) if behind > end else -1
    if at < 0 or value[CPU] > 255:
        return -1
    n = where[OPERATIONS]
    computes = value[KIND] == COMPUTE
    ops.rank[n], ops.kind[n], ops.peer[n], ops.tag[n], ops.cpu[n] = (
        rank,
        value[KIND],
        value[PEER],
        value[TAG],
        value[CPU],
    )
    ops.size[n], ops.ns[n] = 0 if computes else value[NUMBER], value[NUMBER] if computes else 0
    ops.label_at[n], ops.label_len[n] = name, name_end - name if labelled else 0
    if labelled:
        number = label_id(labels, data, name, name_end, where[STAMP], len(labels.row) - len(labels.key_at))
        if number < 0 or labels.stamp[number] == where[STAMP]:
            return -1
        labels.stamp[number], labels.row[number] = where[STAMP], n
    where[OPERATIONS] = n + 1
    return at


@kernel
def opened(data, at, seen, keywords, where):
    """Read ``rank N {`` and store N in ``where[RANK]``. Return the position after it, -1 if the text differs."""
    end = word_end(data, at)
    named = is_word(data, at, end, keywords[RANK_WORD])
    at = blank(data, end)
    if not named or at == end:
        return -1
    end = number_end(data, at)
    if end == at or end - at > 9:
        return -1
    rank = number_in(data, at, end)
    at = blank(data, end)
    if rank >= len(seen) or seen[rank] or data[at] != 123:  # {
        return -1
    seen[rank] = True
    where[RANK] = rank
    where[STAMP] += 1
    return at + 1


@kernel
def line_end(data, at):
    """Return the position after the newline that follows spaces and a comment from ``at`` on; -1 if
    there is other text."""
    at = blank(data, at)
    if data[at] == SLASH and data[at + 1] == SLASH:
        while data[at] != NL:
            if data[at] >= 128:
                return -1
            at += 1
    return at + 1 if data[at] == NL else -1


@kernel
def read_text(data, at, ops, labels, seen, keywords, where):
    """Read operations and requirements from byte ``at`` on (``data`` ends with a newline);
    ``where`` counts them (OPERATIONS, NEEDS), and the ranks that were opened (STAMP). Returns True if everything was
    read."""
    value = np.zeros(5, np.int64)
    first = 0
    where[RANK] = -1
    while at < len(data):
        at = blank(data, at)
        c = data[at]
        if c != NL and c != SLASH:
            if c == 125:  # }
                if where[RANK] < 0 or not close_rank(ops, labels, first, where[NEEDS], where[STAMP]):
                    return False
                where[RANK], first = -1, where[NEEDS]
                at += 1
            elif where[RANK] < 0:
                at = opened(data, at, seen, keywords, where)
            else:
                at = operation(data, at, where[RANK], ops, labels, keywords, where, value)
                if at >= 0:
                    at = blank(data, at)
                    at += data[at] == 59  # ;
            if at < 0:
                return False
        at = line_end(data, at)
        if at < 0:
            return False
    return where[RANK] < 0
