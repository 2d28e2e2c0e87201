"""What makes UCX, OpenMPI, MPICH and libfabric use the HCAs of their node.

Programs on two nodes of a fabric share one machine. Communication libraries notice, and take shared
memory: nothing goes over the fabric, and what is measured is the memory. On two real hosts they
could not. So ``softib run`` sets in their environment what they may use. A variable that the user
has set stays, and where it is the one that chooses (the first of a group), so does all of its
group.

An OpenMPI that lacks a component which a variable names does not start (5.0 has no ``osc`` pt2pt, a
build may have no ``pml`` ucx or ``mtl`` ofi). So components are excluded, not chosen: an unknown
name in an exclusion is no error.

Sources: UCX 1.13 ``ucx_info -c -f`` (UCX_TLS, UCX_NET_DEVICES); OpenMPI 4.1 and 5.0 (MCA parameters
``pml``, ``osc``, ``btl``, ``mtl``); MPICH 4.0 README.envvar (MPIR_CVAR_NOLOCAL); Intel MPI's
developer reference (I_MPI_FABRICS); fabric(7) and fi_verbs(7) of libfabric (FI_PROVIDER,
FI_VERBS_DGRAM_NAME_SERVER_PORT).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["MARK", "tuned"]

MARK = "SOFTIB_TUNED"
"""Names what we have set, so that a ``softib run`` inside another one sets it anew for its own
node."""

TRANSPORTS = "rc_v,ud_v,self"
"""Of UCX: reliable connections and datagrams over verbs, and a process with itself. No shared
memory, no TCP."""

NAME_SERVER_PORT = "5679"
"""TCP port of libfabric's name server for datagrams (its own default is 5678). That the preload
library knows it by (``cm/name_server.c``), so that each node has a server of its own."""


def tuned(view: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables to set for a program that sees the devices of ``view``, less those that
    ``environment`` decides."""
    mine = set(environment.get(MARK, "").split())
    user_set = {name for name in environment if name not in mine}
    groups: tuple[dict[str, str], ...] = (
        {"UCX_TLS": TRANSPORTS, "UCX_NET_DEVICES": ",".join(ports(view)) or "all"},
        # What is left is ucx, else cm over libfabric's mtl.
        {
            "OMPI_MCA_pml": "^ob1",
            "OMPI_MCA_osc": "^sm,rdma",
            "OMPI_MCA_btl": "self",
            "OMPI_MCA_mtl": "^psm,psm2,portals4",
        },
        {"MPIR_CVAR_NOLOCAL": "1"},
        {"I_MPI_FABRICS": "ofi"},
        {"FI_PROVIDER": "verbs"},
        {"FI_VERBS_DGRAM_NAME_SERVER_PORT": NAME_SERVER_PORT},
    )
    found: dict[str, str] = {}
    for group in groups:
        if next(iter(group)) not in user_set:
            found |= {name: value for name, value in group.items() if name not in user_set}
    return found | {MARK: " ".join(found)}


def ports(view: Path) -> list[str]:
    """``mlx5_0:1`` … of the view."""
    devices = sorted(
        (view / "sys/class/infiniband").glob("*/ports/*"), key=lambda p: (len(p.parts[-3]), p.parts[-3], int(p.name))
    )
    return [f"{p.parts[-3]}:{p.name}" for p in devices]
