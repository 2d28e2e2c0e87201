"""Which RDMA device and port a process uses, and pyverbs itself."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softib.errors import InputError

__all__ = ["Device", "load_pyverbs", "open_device"]

DEBIAN = Path("/usr/lib/python3/dist-packages")
"""Where Debian's python3-pyverbs is, which a virtual environment does not look into."""
DEVICE_VARIABLE = "SOFTIB_TORCH_DEVICE"
PORT_ACTIVE = 4


def load_pyverbs() -> Any:
    """The package pyverbs with its modules loaded. Raises :class:`InputError` where there is none
    for this Python."""
    try:
        import pyverbs.device
    except ImportError:
        sys.path.append(str(DEBIAN))  # last: nothing of Debian's comes before the environment's own packages
        try:
            import pyverbs.device
        except ImportError:
            raise InputError(
                f"pyverbs is not installed for Python {sys.version_info[0]}.{sys.version_info[1]}; on Debian it is "
                f"in the "
                "package python3-pyverbs"
            ) from None
        finally:
            sys.path.remove(str(DEBIAN))
    import pyverbs.addr
    import pyverbs.cq
    import pyverbs.enums
    import pyverbs.mr
    import pyverbs.pd
    import pyverbs.qp
    import pyverbs.wr

    return pyverbs


@dataclass
class Device:
    """An open device and its port."""

    verbs: Any
    context: Any
    portnum: int
    lid: int
    mtu: int
    name: str


def open_device() -> Device:
    """The device and port that ``$SOFTIB_TORCH_DEVICE`` names (``mlx5_0`` or ``mlx5_0:1``); without
    it, active ports are dealt out by ``$LOCAL_RANK``. Raises :class:`InputError` where no port is
    active."""
    verbs = load_pyverbs()
    wanted, _, wanted_port = os.environ.get(DEVICE_VARIABLE, "").partition(":")
    names = [device.name.decode() for device in verbs.device.get_device_list()]
    if not names:
        raise InputError("no RDMA device is here; start the program with 'softib run -- …'")
    if wanted and wanted not in names:
        raise InputError(f"${DEVICE_VARIABLE}: no device {wanted!r}; there are {', '.join(names)}")
    ports = []
    for name in [wanted] if wanted else names:
        context = verbs.device.Context(name=name)
        for portnum in range(1, context.query_device().phys_port_cnt + 1):
            port = context.query_port(portnum)
            if port.state == PORT_ACTIVE and (not wanted_port or str(portnum) == wanted_port):
                ports.append(Device(verbs, context, portnum, port.lid, port.active_mtu, f"{name}:{portnum}"))
    if not ports:
        raise InputError(
            f"no port of {', '.join([wanted] if wanted else names)} is active; is a subnet manager running?"
        )
    chosen = ports[int(os.environ.get("LOCAL_RANK", "0") or 0) % len(ports)]
    for other in {id(p.context): p.context for p in ports}.values():
        if other is not chosen.context:
            other.close()
    return chosen
