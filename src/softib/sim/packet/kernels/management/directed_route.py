"""Directed routes of SMPs: hop pointer, initial and return path (IBA 14.2.2)."""

import numpy as np

from softib.iba.constants import DR_DIRECTION, MgmtClass
from softib.iba.smp import (
    CLASS_AT,
    DR_DLID_AT,
    DR_SLID_AT,
    HOP_COUNT_AT,
    HOP_POINTER_AT,
    INITIAL_PATH_AT,
    RETURN_PATH_AT,
    STATUS_AT,
)
from softib.jit import inner

SUBN_DR = int(MgmtClass.SUBN_DR)
DIRECTION = DR_DIRECTION >> 8
"""In the first byte of the status: the SMP is on its way back (IBA 14.2.2)."""


@inner
def directed(m):
    """Is the SMP ``m`` a directed one?"""
    return m[CLASS_AT] == SUBN_DR


@inner
def permissive(m, at):
    """Is the LID at ``at`` of the SMP the permissive one?"""
    return m[at] == 0xFF and m[at + 1] == 0xFF


@inner
def passes_on(m):
    """Must a directed SMP that came to a switch go on? Its way out has hops left, or its way back."""
    hops, at = np.int64(m[HOP_COUNT_AT]), np.int64(m[HOP_POINTER_AT])
    if m[STATUS_AT] & DIRECTION:
        return at > 1
    return at < hops


@inner
def next_hop(net, m, came_in):
    """The port by which a directed SMP leaves the node that it came to by ``came_in``; -1: it is
    where it shall be; -2: its path leads nowhere (IBA 14.2.2). Moves the hop pointer and writes the
    return path."""
    hops, at = np.int64(m[HOP_COUNT_AT]), np.int64(m[HOP_POINTER_AT])
    if m[STATUS_AT] & DIRECTION:
        if at <= 1:
            m[HOP_POINTER_AT] = 0
            return np.int64(-1)
        m[HOP_POINTER_AT] = at - 1
        num = np.int64(m[RETURN_PATH_AT + at - 1])
    else:
        if not permissive(m, DR_SLID_AT) or not permissive(m, DR_DLID_AT) or at > hops:
            return np.int64(-2)
        if at:
            m[RETURN_PATH_AT + at] = net.port[came_in].num
        m[HOP_POINTER_AT] = at + 1
        if at == hops:
            return np.int64(-1)
        num = np.int64(m[INITIAL_PATH_AT + at + 1])
    if net.port[came_in].switch < 0 or num < 1 or num >= net.port[came_in].ports:
        return np.int64(-2)
    return np.int64(net.port[came_in].port_0) + num


@inner
def first_hop(net, m, port):
    """The port by which a directed SMP leaves the node of ``port`` that sends it (-1: it is for
    that node; -2: its path leads nowhere). An answer goes back where it came from."""
    hops = np.int64(m[HOP_COUNT_AT])
    if m[STATUS_AT] & DIRECTION:
        m[HOP_POINTER_AT] = hops
        num = np.int64(m[RETURN_PATH_AT + hops])
    else:
        m[HOP_POINTER_AT] = min(hops, 1)
        num = np.int64(m[INITIAL_PATH_AT + 1])
    if hops == 0:
        return np.int64(-1)
    if net.port[port].switch < 0:
        return np.int64(port) if num == net.port[port].num else np.int64(-2)
    if num < 1 or num >= net.port[port].ports:
        return np.int64(-2)
    return np.int64(net.port[port].port_0) + num
