"""The requests of the control channel, each answered from the fabric (types of ibsim's ``include/ibsim.h``)."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from softib.agents.plane import AgentPlane
from softib.iba.constants import DR_DIRECTION, LID_PERMISSIVE, Method, MgmtClass, SmpAttr
from softib.iba.smp import DATA_AT, MadHeader, NodeInfo, PortInfo, Smp
from softib.live.ibsim.wire import ControlType
from softib.mad.batch import MadBatch

__all__ = ["IbsimControl"]

FIRMWARE = 0x0001_0000_0000
"""The firmware version (fw_ver) of the simulated adapters, which the client prints in hex."""
_VENDOR = struct.Struct("=4IQ")


class IbsimControl:
    """Answers requests about a port. The only method for callers is :meth:`answer`."""

    def __init__(self, plane: AgentPlane):
        self.plane, self.fabric = plane, plane.fabric
        self._answers: dict[int, Callable[[int, bytes], bytes | None]] = {
            ControlType.GET_PORT: self._port,
            ControlType.GET_VENDOR: self._vendor,
            ControlType.GET_GID: self._gid,
            ControlType.GET_GUID: self._guid,
            ControlType.GET_NODEINFO: self._node_info,
            ControlType.GET_PORTINFO: self._port_info,
            ControlType.GET_PKEYS: self._pkeys,
        }

    def answer(self, kind: int, port: int, body: bytes) -> bytes | None:
        """Return the body of the answer to request ``kind`` of a client on ``port``; None if there
        is none."""
        function = self._answers.get(kind)
        return function(port, body) if function else None

    def _ask(self, port: int, attr: int, modifier: int = 0) -> bytes | None:
        """Return the answer that the port's SMA gives to its own host (directed route with no hops; the host knows the
        M_Key)."""
        batch = MadBatch.zeros(1)
        mad = batch.mad[0]
        mad[: MadHeader.size] = MadHeader.pack(
            base_version=1,
            mgmt_class=MgmtClass.SUBN_DR,
            class_version=1,
            method=Method.GET,
            attr_id=attr,
            attr_mod=modifier,
        )
        Smp.mkey.set(mad, PortInfo.mkey.get(self.fabric.port_info[port]))
        Smp.dr_slid.set(mad, LID_PERMISSIVE)
        Smp.dr_dlid.set(mad, LID_PERMISSIVE)
        answers, _ = self.plane.exchange(batch, port)
        if not len(answers) or int(MadHeader.status.get(answers.mad[0])) & ~DR_DIRECTION:
            return None
        return answers.mad[0, DATA_AT : DATA_AT + 64].tobytes()

    def _node_info(self, port: int, body: bytes) -> bytes | None:
        """Return NodeInfo, with the NodeGUID from which the client computes the right PortGUID.

        The stock library computes a PortGUID as NodeGUID + portnum. Real adapters number their GUIDs differently, and
        OpenSM does not find its own port if its computed PortGUID is wrong. MADs carry the true NodeGUID.
        """
        answer = self._ask(port, SmpAttr.NODE_INFO)
        if answer is None:
            return None
        info = np.frombuffer(answer, np.uint8).copy()
        guid = int(self.fabric.port_guid[port]) - int(self.fabric.port_num[port])
        NodeInfo.node_guid.set(info, guid & (1 << 64) - 1)
        return info.tobytes()

    def _port_info(self, port: int, body: bytes) -> bytes | None:
        return self._ask(port, SmpAttr.PORT_INFO, body[0])

    def _pkeys(self, port: int, body: bytes) -> bytes | None:
        return self._ask(port, SmpAttr.PKEY_TABLE)

    def _port(self, port: int, body: bytes) -> bytes:
        info = self.fabric.port_info[port]
        return struct.pack("=HBx", int(PortInfo.lid.get(info)), int(PortInfo.port_state.get(info)))

    def _vendor(self, port: int, body: bytes) -> bytes:
        f, node = self.fabric, int(self.fabric.port_node[port])
        return _VENDOR.pack(int(f.vendor_id[node]), int(f.device_id[node]), int(f.revision[node]), 0, FIRMWARE)

    def _gid(self, port: int, body: bytes) -> bytes:
        return self.fabric.port_info[port, 8:16].tobytes() + self._guid(port, body)

    def _guid(self, port: int, body: bytes) -> bytes:
        return struct.pack(">Q", int(self.fabric.node_guid[self.fabric.port_node[port]]))
