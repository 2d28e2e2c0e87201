"""FECN and BECN of InfiniBand (IBA annex A10).

A switch marks packets with FECN if the queue of an output VL exceeds its threshold; a port without
credits is a victim and marks only if its VictimMask bit is set. The destination answers with a
packet that carries BECN.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import CNP, FECN
from softib.sim.packet.kernels.hca.acks import control
from softib.sim.packet.kernels.link.credits import has_credit


@inner
def mark(net, state, k, out, row):
    """Set FECN in packet ``k``, which is queued for port VL ``row`` of ``out`` (annex A10, switches)."""
    threshold = net.marking[out].threshold
    octets = np.int64(state.packet[k].octets)
    if threshold == 0 or state.vl[row].queued < threshold or octets < net.marking[out].packet_size:
        return
    if not net.marking[out].victim and not has_credit(state, row, octets):
        return
    state.vl_more[row].mark += 1
    if state.vl_more[row].mark > net.marking[out].rate:
        state.vl_more[row].mark = 0
        state.packet[k].marks |= FECN
        state.port[out].marked += 1


@inner
def forward_notice(net, state, port, k):
    """Answer a packet with FECN at ``port`` with a packet that carries BECN. Returns the port to check."""
    state.port[port].rcv_fecn += 1
    stream = np.int64(state.packet[k].stream)
    q = stream >> 1
    if stream & 1:  # a response, whose sender is the destination of the requests
        lid = state.message[state.order[state.qp[q].first_message]].lid
        return control(net, state, port, stream, CNP, np.int64(0), lid, state.qp[q].out_vl)
    return control(net, state, port, stream, CNP, np.int64(0), state.qp[q].back_lid, state.qp[q].back_vl)


@inner
def no_notice(net, state, port, k):
    """Replaces :func:`forward_notice`: the receiver sends no notice."""
    state.port[port].rcv_fecn += 1
    return np.int64(-1)
