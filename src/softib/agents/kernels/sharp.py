"""The agent of an aggregation node: its trees, the QPs that connect them, and the quotas of jobs
(:mod:`softib.iba.vendor.sharp`).

A request that is rejected changes nothing.
"""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get8, get16, get32, inner, put16, put32
from softib.iba import constants as c
from softib.iba.smp import ATTR_AT, DATA_AT, METHOD_AT, MODIFIER_AT
from softib.iba.vendor import sharp

SET = int(c.Method.SET)
OK, BAD_ATTRIBUTE, BAD_FIELD = int(c.MadStatus.OK), int(c.MadStatus.BAD_ATTRIBUTE), int(c.MadStatus.BAD_FIELD)
N, A, T, Q = sharp.ANInfo, sharp.QPAllocation, sharp.TreeConfig, sharp.QuotaConfig
CLASS_PORT_INFO, INFO, ALLOCATION, QPC, TREE, QUOTA = (
    0x01,
    N.attr,
    A.attr,
    sharp.QPCConfig.attr,
    T.attr,
    Q.attr,
)
VERSION = sharp.SHARP_CLASS_VERSION
TREE_CAP_AT, STREAMING_CAP_AT, CHILD_CAP_AT, QP_CAP_AT, QP_USED_AT = (
    N.tree_cap.byte,
    N.streaming_tree_cap.byte,
    N.child_cap.byte,
    N.qp_cap.byte,
    N.qp_used.byte,
)
GROUP_CAP_AT, OST_CAP_AT, BUFFER_CAP_AT = N.group_cap.byte, N.ost_cap.byte, N.buffer_cap.byte
GROUP_CAP, OST_CAP, BUFFER_CAP = 1 << 20, 1 << 20, 1 << 30
COUNT_AT, FIRST_AT = A.count.byte, A.first_qpn.byte
STATE_AT, KIND_AT, CHILDREN_AT, PARENT_AT, CHILD_AT = (
    T.tree_state.byte,
    T.kind.byte,
    T.children.byte,
    T.parent_qpn.byte,
    T.child_qpn.byte,
)
RESP_TIME_AT, RESP_TIME = 7, 18
HEAD, CHILD_BLOCK, CHILDREN, QPS = 16, sharp.CHILD_BLOCK, sharp.SHARP_CHILDREN, sharp.SHARP_QPS
ENABLED, STREAMING = sharp.ENABLED, sharp.STREAMING
TREES, STREAMING_TREES = 0, 1
"""Columns of ``sharp_cap``: the maximum number of trees, and of streaming trees."""


@inner
def an_info(t, m, row):
    """Get ANInfo."""
    clear(m, DATA_AT, 192)
    put16(m, DATA_AT + TREE_CAP_AT, np.int64(t.sharp_cap[row, TREES]))
    put16(m, DATA_AT + STREAMING_CAP_AT, np.int64(t.sharp_cap[row, STREAMING_TREES]))
    put16(m, DATA_AT + CHILD_CAP_AT, CHILDREN)
    put32(m, DATA_AT + QP_CAP_AT, QPS)
    put32(m, DATA_AT + QP_USED_AT, np.int64(t.sharp_qp_used[row]) + 1)
    put32(m, DATA_AT + GROUP_CAP_AT, GROUP_CAP)
    put32(m, DATA_AT + OST_CAP_AT, OST_CAP)
    put32(m, DATA_AT + BUFFER_CAP_AT, BUFFER_CAP)
    return OK


@inner
def streaming_trees(t, row, but):
    """Return the number of enabled streaming trees of a node, not counting tree ``but``."""
    n = 0
    for tree in range(np.int64(t.sharp_cap[row, TREES])):
        head = t.sharp_tree[row, tree]
        if tree != but and head[STATE_AT] == ENABLED and head[KIND_AT] == STREAMING:
            n += 1
    return n


@inner
def qp_allocation(t, m, row, is_set):
    """Process QPAllocation. QPNs are assigned in order. All QPs are released together, and the
    trees that use them end."""
    used, first = np.int64(t.sharp_qp_used[row]), np.int64(0)
    if is_set:
        count, release = get16(m, DATA_AT + COUNT_AT), get8(m, DATA_AT)
        base = np.int64(0) if release else used
        if release > 1 or base + count >= QPS:
            return BAD_FIELD
        if release:
            for tree in range(np.int64(t.sharp_cap[row, TREES])):
                if t.sharp_tree[row, tree, STATE_AT] or t.sharp_tree[row, tree, KIND_AT]:
                    clear(t.sharp_tree[row, tree], 0, HEAD)
                    for i in range(CHILDREN):
                        t.sharp_child[row, tree, i] = 0
            for qpn in range(1, used + 1):
                clear(t.sharp_qp[row, qpn], 0, 16)
        t.sharp_qp_used[row] = base + count
        first, used = base + 1 if count else np.int64(0), count
    clear(m, DATA_AT, 192)
    put16(m, DATA_AT + COUNT_AT, used)
    put32(m, DATA_AT + FIRST_AT, first)
    return OK


@inner
def qpc_config(t, m, row, modifier, is_set):
    """Get or Set QPCConfig of a QP that is reserved."""
    if modifier < 1 or modifier > t.sharp_qp_used[row]:
        return BAD_FIELD
    if is_set:
        if get8(m, DATA_AT) > ENABLED:
            return BAD_FIELD
        copy(t.sharp_qp[row, modifier], 0, m, DATA_AT, 16)
    clear(m, DATA_AT, 192)
    copy(m, DATA_AT, t.sharp_qp[row, modifier], 0, 16)
    return OK


@inner
def tree_fits(t, m, row, tree, block):
    """Return whether a TreeConfig names only reserved QPs, and does not exceed the numbers of trees
    and children."""
    used = t.sharp_qp_used[row]
    if block == 0:
        state, kind = get8(m, DATA_AT + STATE_AT), get8(m, DATA_AT + KIND_AT)
        if state > ENABLED or kind > STREAMING or get16(m, DATA_AT + CHILDREN_AT) > CHILDREN:
            return False
        if get32(m, DATA_AT + PARENT_AT) > used:
            return False
        if state == ENABLED and kind == STREAMING:
            if streaming_trees(t, row, tree) >= t.sharp_cap[row, STREAMING_TREES]:
                return False
    for i in range(CHILD_BLOCK):
        if get32(m, DATA_AT + CHILD_AT + 4 * i) > used:
            return False
    return True


@inner
def tree_config(t, m, row, modifier, is_set):
    """Get or Set TreeConfig, the head and the children of one tree."""
    tree, block = modifier & 0xFFFF, modifier >> 16
    if tree >= t.sharp_cap[row, TREES] or block * CHILD_BLOCK >= CHILDREN:
        return BAD_FIELD
    head, first = t.sharp_tree[row, tree], block * CHILD_BLOCK
    if is_set:
        if not tree_fits(t, m, row, tree, block):
            return BAD_FIELD
        if block == 0:
            copy(head, 0, m, DATA_AT, HEAD)
        for i in range(CHILD_BLOCK):
            t.sharp_child[row, tree, first + i] = get32(m, DATA_AT + CHILD_AT + 4 * i)
    clear(m, DATA_AT, 192)
    copy(m, DATA_AT, head, 0, HEAD)
    for i in range(CHILD_BLOCK):
        put32(m, DATA_AT + CHILD_AT + 4 * i, np.int64(t.sharp_child[row, tree, first + i]))
    return OK


@inner
def quota_config(t, m, row, modifier, is_set):
    """Get or Set the QuotaConfig of a tree."""
    if modifier >= t.sharp_cap[row, TREES]:
        return BAD_FIELD
    image = t.sharp_quota[row, modifier]
    if is_set:
        if get32(m, DATA_AT) > GROUP_CAP or get32(m, DATA_AT + 4) > OST_CAP or get32(m, DATA_AT + 8) > BUFFER_CAP:
            return BAD_FIELD
        copy(image, 0, m, DATA_AT, 16)
    clear(m, DATA_AT, 192)
    copy(m, DATA_AT, image, 0, 16)
    return OK


@inner
def sharp_agent(t, m, ingress):
    """Answer a Get or Set of one attribute of an aggregation node. Return the status."""
    attribute, modifier, is_set = get16(m, ATTR_AT), get32(m, MODIFIER_AT), m[METHOD_AT] == SET
    row = np.int64(t.sharp_of_node[t.port_node[ingress]])
    if attribute == ALLOCATION:
        return qp_allocation(t, m, row, is_set)
    if attribute == QPC:
        return qpc_config(t, m, row, modifier, is_set)
    if attribute == TREE:
        return tree_config(t, m, row, modifier, is_set)
    if attribute == QUOTA:
        return quota_config(t, m, row, modifier, is_set)
    if is_set:
        return BAD_ATTRIBUTE
    if attribute == INFO:
        return an_info(t, m, row)
    if attribute == CLASS_PORT_INFO:
        clear(m, DATA_AT, 192)
        m[DATA_AT], m[DATA_AT + 1], m[DATA_AT + RESP_TIME_AT] = 1, VERSION, RESP_TIME
        return OK
    return BAD_ATTRIBUTE
