"""Which kernels a network other than InfiniBand has in the place of InfiniBand's: one machine code for each, made when it is first used."""

from __future__ import annotations

import functools
from typing import Any

from softib.jit.specialise import specialised

__all__ = ["kernels_of"]

ROCE_HEADERS = 62
"""Octets of a RoCEv2 frame beside payload and extended headers: Ethernet 14 and FCS 4, IPv4 20, UDP 8, BTH 12, ICRC 4 (IBA annex A17)."""
ROCE_ACK = ROCE_HEADERS + 4
TCP_HEADERS = 70
"""Ethernet 14 and FCS 4, IPv4 20, TCP 20 with timestamps 12 (RFC 7323)."""


@functools.cache
def kernels_of(network: str) -> tuple[Any, Any]:
    """(``start``, ``run``) of :mod:`~softib.sim.packet.kernels.loop` for ``network``."""
    from softib.sim.packet.kernels import loop

    if network == "infiniband":
        return loop.start, loop.run
    replaced = _common() | (_roce() if network == "roce" else _tcp())
    constants = {"HEADERS": ROCE_HEADERS, "ACK_OCTETS": ROCE_ACK} if network == "roce" else {"ACK_OCTETS": TCP_HEADERS}
    return loop.start, specialised(loop.run, network, replaced, constants)


def _common() -> dict[Any, Any]:
    """Links and switches of Ethernet."""
    from softib.sim.packet.kernels import ethernet_switch, links, pfc, switch

    return {
        links.has_credit: pfc.not_paused, links.take_credits: pfc.nothing_to_take, links.starve: pfc.nobody_waits,
        links.grant: pfc.received, switch.arrive: ethernet_switch.arrive_ethernet, switch.forward: ethernet_switch.forward_ethernet,
        switch.cross: ethernet_switch.cross_ethernet,
    }  # fmt: skip


def _roce() -> dict[Any, Any]:
    """RDMA's transport as it is, with DCQCN instead of InfiniBand's congestion control."""
    from softib.sim.packet.kernels import congestion, dcqcn, ethernet_events, link_layer, pacing

    return {
        congestion.forward_notice: dcqcn.notification_point, congestion.backward: dcqcn.reaction_point, pacing.waits_until: dcqcn.rate_limit,
        link_layer.link_event: ethernet_events.roce_event,
    }  # fmt: skip


def _tcp() -> dict[Any, Any]:
    """Sockets and the kernel's stack."""
    from softib.sim.packet.kernels import (
        hca,
        link_layer,
        loop,
        packet_sizes,
        receive,
        retransmission,
        tcp,
        tcp_acknowledgements,
        tcp_receive,
    )

    return {
        loop.posted: tcp.tcp_posted, packet_sizes.stream_octets: tcp.stream_segment_octets, hca.not_before: tcp.segment_not_before,
        hca.send_stream: tcp.send_segment, receive.receive: tcp_receive.tcp_receive, receive.answer: tcp_receive.segment,
        retransmission.timeout: tcp_acknowledgements.retransmission_timeout, link_layer.link_event: tcp_receive.tcp_event,
    }  # fmt: skip
