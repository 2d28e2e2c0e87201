"""Convert a program's parameters to the fields of CM messages, and messages to the fields of
events."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from softib.cm.connections import Timing
from softib.cm.endpoint import CA_ACK_DELAY, Endpoint, Event, Param, QpType, ack_timeout
from softib.iba.cm import RejectReason, Transport

__all__ = ["Received", "event_fields", "qp_types_of", "rej_fields", "rep_fields", "req_fields"]

XRC = 1
"""REQ.extended_transport_type."""


class Received(IntEnum):
    """REJ.message and MRA.message: the message that was received (IBA 12.6.6, 12.6.7)."""

    REQ = 0
    REP = 1
    NONE = 2


def req_fields(e: Endpoint, p: Param, head: bytes, guid: int, timing: Timing) -> dict[str, Any]:
    """Return the fields of a REQ."""
    path = e.path
    assert path is not None
    kind = {QpType.RC: Transport.RC, QpType.UC: Transport.UC}.get(QpType(e.qp_type), Transport.EXTENDED)
    return {
        "local_comm_id": e.comm_id,
        "vendor_id": p.ece_vendor,
        "service_id": e.target_service,
        "local_ca_guid": guid,
        "local_qkey": p.qkey,
        "local_qpn": p.qpn,
        "responder_resources": p.responder_resources,
        "initiator_depth": p.initiator_depth,
        "remote_cm_response_timeout": timing.response,
        "transport_service_type": kind,
        "end_to_end_flow_control": p.flow_control,
        "starting_psn": p.psn,
        "local_cm_response_timeout": timing.response,
        "retry_count": p.retry_count,
        "pkey": path.pkey,
        "path_mtu": path.mtu,
        "rnr_retry_count": p.rnr_retry_count,
        "max_cm_retries": timing.retries,
        "srq": p.srq,
        "extended_transport_type": XRC if kind is Transport.EXTENDED else 0,
        "primary_local_lid": path.slid,
        "primary_remote_lid": path.dlid,
        "primary_local_gid": path.sgid,
        "primary_remote_gid": path.dgid,
        "primary_flow_label": path.flow_label,
        "primary_packet_rate": path.rate,
        "primary_traffic_class": path.tclass,
        "primary_hop_limit": path.hop_limit,
        "primary_sl": path.sl,
        "primary_subnet_local": int(path.hop_limit <= 1),
        "primary_local_ack_timeout": ack_timeout(path.life_time),
        "private_data": head + p.private_data,
    }


def rep_fields(e: Endpoint, p: Param, guid: int) -> dict[str, Any]:
    """Return the fields of a REP."""
    return {
        "local_comm_id": e.comm_id,
        "remote_comm_id": e.peer_comm_id,
        "local_qkey": p.qkey,
        "local_qpn": p.qpn,
        "vendor_id_h": p.ece_vendor >> 16,
        "vendor_id_m": p.ece_vendor >> 8,
        "vendor_id_l": p.ece_vendor,
        "starting_psn": p.psn,
        "responder_resources": p.responder_resources,
        "initiator_depth": p.initiator_depth,
        "target_ack_delay": CA_ACK_DELAY,
        "end_to_end_flow_control": p.flow_control,
        "rnr_retry_count": p.rnr_retry_count,
        "srq": p.srq,
        "local_ca_guid": guid,
        "private_data": p.private_data,
    }


def rej_fields(e: Endpoint, rejected: Received, reason: int, private_data: bytes, guid: int) -> dict[str, Any]:
    """Return the fields of a REJ. If the reason is a timeout, it contains the sender's NodeGUID,
    for a receiver that does not know its comm ID yet."""
    timeout = reason == RejectReason.TIMEOUT
    return {
        "local_comm_id": e.comm_id,
        "remote_comm_id": e.peer_comm_id,
        "message": rejected,
        "reason": reason,
        "info_length": 8 if timeout else 0,
        "ari": guid.to_bytes(8, "big") if timeout else b"",
        "private_data": private_data,
    }


def qp_types_of(req: dict[str, Any]) -> tuple[int, ...]:
    """Return types of QP that may answer a REQ."""
    kind = req["transport_service_type"]
    if kind == Transport.EXTENDED:
        return (QpType.XRC_RECV,) if req["extended_transport_type"] == XRC else ()
    return {Transport.RC: (QpType.RC,), Transport.UC: (QpType.UC,)}.get(kind, ())


def event_fields(event: Event, message: dict[str, Any], head: int) -> dict[str, Any]:
    """Return the fields of an event from those of its ``message``. The first ``head`` bytes of its
    private data are the CMA header.

    Resources are exchanged: the peer's responder resources are this side's initiator depth.
    """
    if not message:
        return {}
    private = message["private_data"][head if event is Event.CONNECT_REQUEST else 0 :]
    fields: dict[str, Any] = {"private_data": private, "private_length": len(private)}
    if event in (Event.CONNECT_REQUEST, Event.CONNECT_RESPONSE) and "local_qpn" in message:
        fields |= {
            "qpn": message["local_qpn"],
            "qkey": message["local_qkey"],
            "psn": message["starting_psn"],
            "srq": message["srq"],
            "responder_resources": message["initiator_depth"],
            "initiator_depth": message["responder_resources"],
            "flow_control": message["end_to_end_flow_control"],
            "rnr_retry_count": message["rnr_retry_count"],
            "retry_count": message.get("retry_count", 0),
            "ece_options": message["ece_options"],
            "ece_vendor": message["vendor_id"]
            if "vendor_id" in message
            else message["vendor_id_h"] << 16 | message["vendor_id_m"] << 8 | message["vendor_id_l"],
        }
    elif event is Event.ESTABLISHED and "qpn" in message:
        fields |= {"qpn": message["qpn"], "qkey": message["qkey"]}
    return fields
