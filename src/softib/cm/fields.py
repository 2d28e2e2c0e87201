"""Fields of CM messages from what a program said, and the other way round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softib.cm.endpoint import Endpoint, Event, Param, QpType, State
from softib.cm.path import CA_ACK_DELAY, ack_timeout
from softib.iba.cm import RejectReason, Transport

__all__ = ["Timing", "code_ms", "event_fields", "reject_words", "reply_words", "request_words", "said_in"]

XRC = 1
"""REQ.extended_transport_type."""
REJECTED_REQ, REJECTED_REP, REJECTED_NONE = 0, 1, 2


@dataclass(frozen=True)
class Timing:
    """``response``: how long an answer may take, 4.096 us * 2^n; ``retries``: how often a message is sent again
    (CMA_CM_RESPONSE_TIMEOUT and CMA_MAX_CM_RETRIES of Linux, drivers/infiniband/core/cma.c); ``patience``: what an MRA
    asks for (CMA_CM_MRA_SETTING); ``early_ms``: how long a request waits for a listener at most; ``unread_ms``: how long a
    DREQ waits at most until its receiver's program has taken the completions that were there before it."""

    response: int = 20
    retries: int = 15
    patience: int = 24
    early_ms: int = 250
    unread_ms: int = 100

    @property
    def response_ms(self) -> int:
        """``response`` as Linux counts it, in ms."""
        return code_ms(self.response)

    def hold_ms(self, response: int) -> int:
        """How long to hold a request whose sender waits ``response`` (a code) for an answer."""
        return min(self.early_ms, code_ms(response) // 2)


def code_ms(code: int) -> int:
    """4.096 us * 2^``code``, as Linux rounds it."""
    return 1 << max(code - 8, 0)


def request_words(e: Endpoint, p: Param, head: bytes, guid: int, timing: Timing) -> dict[str, Any]:
    """Of REQ."""
    path = e.path
    assert path is not None
    kind = {QpType.RC: Transport.RC, QpType.UC: Transport.UC}.get(QpType(e.qp_type), Transport.EXTENDED)
    return {
        "local_comm_id": e.comm_id, "vendor_id": p.ece_vendor, "service_id": e.target_service, "local_ca_guid": guid,
        "local_qkey": p.qkey, "local_qpn": p.qpn, "responder_resources": p.responder_resources,
        "initiator_depth": p.initiator_depth, "remote_cm_response_timeout": timing.response,
        "transport_service_type": kind, "end_to_end_flow_control": p.flow_control, "starting_psn": p.psn,
        "local_cm_response_timeout": timing.response, "retry_count": p.retry_count, "pkey": path.pkey,
        "path_mtu": path.mtu, "rnr_retry_count": p.rnr_retry_count, "max_cm_retries": timing.retries, "srq": p.srq,
        "extended_transport_type": XRC if kind is Transport.EXTENDED else 0, "primary_local_lid": path.slid,
        "primary_remote_lid": path.dlid, "primary_local_gid": path.sgid, "primary_remote_gid": path.dgid,
        "primary_flow_label": path.flow_label, "primary_packet_rate": path.rate,
        "primary_traffic_class": path.tclass, "primary_hop_limit": path.hop_limit, "primary_sl": path.sl,
        "primary_subnet_local": int(path.hop_limit <= 1), "primary_local_ack_timeout": ack_timeout(path.life_time),
        "private_data": head + p.private_data,
    }  # fmt: skip


def reply_words(e: Endpoint, p: Param, guid: int) -> dict[str, Any]:
    """Of REP."""
    return {
        "local_comm_id": e.comm_id, "remote_comm_id": e.peer_comm_id, "local_qkey": p.qkey, "local_qpn": p.qpn,
        "vendor_id_h": p.ece_vendor >> 16, "vendor_id_m": p.ece_vendor >> 8, "vendor_id_l": p.ece_vendor,
        "starting_psn": p.psn, "responder_resources": p.responder_resources, "initiator_depth": p.initiator_depth,
        "target_ack_delay": CA_ACK_DELAY, "end_to_end_flow_control": p.flow_control,
        "rnr_retry_count": p.rnr_retry_count, "srq": p.srq, "local_ca_guid": guid, "private_data": p.private_data,
    }  # fmt: skip


def reject_words(e: Endpoint, reason: int, private_data: bytes, guid: int) -> dict[str, Any]:
    """Of REJ. A timeout names the sender's NodeGUID, for a receiver that does not know its own name yet."""
    what = REJECTED_REQ if e.state is State.REQ_RCVD else REJECTED_REP if e.state is State.REP_RCVD else REJECTED_NONE
    timeout = reason == RejectReason.TIMEOUT
    return {
        "local_comm_id": e.comm_id, "remote_comm_id": e.peer_comm_id, "message": what, "reason": reason,
        "info_length": 8 if timeout else 0, "ari": guid.to_bytes(8, "big") if timeout else b"",
        "private_data": private_data,
    }  # fmt: skip


def said_in(req: dict[str, Any]) -> tuple[int, ...]:
    """Types of QP that may answer a REQ."""
    kind = req["transport_service_type"]
    if kind == Transport.EXTENDED:
        return (QpType.XRC_RECV,) if req["extended_transport_type"] == XRC else ()
    return {Transport.RC: (QpType.RC,), Transport.UC: (QpType.UC,)}.get(kind, ())


def event_fields(event: Event, said: dict[str, Any], head: int) -> dict[str, Any]:
    """What a program is told of a message: ``said`` are its fields, ``head`` octets of private data are the CMA's own.

    Resources change places: what the other side serves, this side may have outstanding.
    """
    if not said:
        return {}
    private = said["private_data"][head if event is Event.CONNECT_REQUEST else 0 :]
    told: dict[str, Any] = {"private_data": private, "private_length": len(private)}
    if event in (Event.CONNECT_REQUEST, Event.CONNECT_RESPONSE) and "local_qpn" in said:
        told |= {
            "qpn": said["local_qpn"], "qkey": said["local_qkey"], "psn": said["starting_psn"], "srq": said["srq"],
            "responder_resources": said["initiator_depth"], "initiator_depth": said["responder_resources"],
            "flow_control": said["end_to_end_flow_control"], "rnr_retry_count": said["rnr_retry_count"],
            "retry_count": said.get("retry_count", 0), "ece_options": said["ece_options"],
            "ece_vendor": said["vendor_id"] if "vendor_id" in said
            else said["vendor_id_h"] << 16 | said["vendor_id_m"] << 8 | said["vendor_id_l"],
        }  # fmt: skip
    elif event is Event.ESTABLISHED and "qpn" in said:
        told |= {"qpn": said["qpn"], "qkey": said["qkey"]}
    return told
