"""Export files as a target of NVMe over Fabrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from softib.api.arguments import Suggests
from softib.api.progress import Notice
from softib.api.storage.records import NvmeNamespace, NvmePort, TargetDescription, state_text
from softib.errors import InputError
from softib.source import warn

__all__ = ["PORT", "NvmeTarget"]

PORT = 4420
"""Default port of a target: the one registered for NVMe over RDMA."""


class NvmeTarget(Suggests):
    """Exports files as the namespaces 1, 2, ... of a subsystem, on all ports of this process's
    node.

    ``states``: asymmetric access states (``optimized``, ``non-optimized``, ``inaccessible``,
    ``persistent-loss``, ``change``) by number of a port. ``pcap``: a file to which capsules and
    responses are written as InfiniBand packets. It must run under ``softib run``. Raises
    :class:`InputError` for an invalid file, a port in use, and without an RDMA device.
    """

    def __init__(
        self,
        *files: str | os.PathLike[str],
        nqn: str | None = None,
        port: int = PORT,
        states: Mapping[int, str] | None = None,
        pcap: str | os.PathLike[str] | None = None,
        notice: Notice = warn,
    ):
        from softib.ulp.nvmeof.target.server import TargetServer, state_of
        from softib.ulp.nvmeof.target.subsystem import DEFAULT_NQN

        if not files:
            raise InputError("no file to export; give one or more")
        addresses = os.environ.get("SOFTIB_ADDRESSES", "").split()
        if not addresses and "SOFTIB_PLACE" in os.environ:
            raise InputError(f"{os.environ['SOFTIB_PLACE']}: a switch has no queue pairs; start the target on a host")
        if not addresses:
            raise InputError("there is no RDMA device; start the target with 'softib run -- softib target ...'")
        chosen = {number: state_of(text) for number, text in (states or {}).items()}
        self._server = TargetServer(files, DEFAULT_NQN if nqn is None else nqn, addresses, port, chosen, notice, pcap)

    def describe(self) -> TargetDescription:
        """Return its exports and their addresses."""
        subsystem = self._server.subsystem
        ports = [
            NvmePort(p.number, p.address, subsystem.service, subsystem.nqn, state_text(p.state))
            for p in subsystem.ports
        ]
        spaces = [
            NvmeNamespace(i, n.blocks << n.shift, 1 << n.shift, not n.writable, str(n.path))
            for i, n in enumerate(subsystem.namespaces, 1)
        ]
        return TargetDescription(subsystem.nqn, ports, spaces, os.getpid())

    def serve(self, until: Callable[[], bool] = lambda: False) -> None:
        """Serve hosts until ``until`` is true, or Ctrl-C."""
        self._server.serve(until)

    def set_state(self, number: int, state: str) -> None:
        """Change the asymmetric access state on port ``number``; hosts get a notice."""
        from softib.ulp.nvmeof.target.server import state_of

        self._server.set_state(number, state_of(state))

    def close(self) -> None:
        """End all connections."""
        self._server.close()

    def __enter__(self) -> NvmeTarget:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
