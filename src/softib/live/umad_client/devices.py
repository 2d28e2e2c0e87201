"""Discovery of umad devices in sysfs, as in libibumad."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from softib.errors import InputError, nearest
from softib.live.umad_client.abi import ABI_VERSION
from softib.live.umad_client.libc import names_in, read_text

__all__ = ["UmadDevice", "devices", "find_device"]

MAD_CLASS, IB_CLASS = "/sys/class/infiniband_mad", "/sys/class/infiniband"
ACTIVE, DOWN = 4, 1
GUID_WORD = re.compile(r"0x[0-9a-fA-F]{1,16}$")


@dataclass(frozen=True)
class UmadDevice:
    """One port of an HCA: ``name`` (umad0), ``issm`` (issm0, "" if there is none), ``ca``
    (mlx5_0), ``portnum``, ``guid`` (PortGUID, 0 unknown), ``state`` (PortState, 0 unknown) and
    ``node_desc``."""

    name: str
    issm: str
    ca: str
    portnum: int
    guid: int
    state: int
    node_desc: str

    @property
    def path(self) -> str:
        """Return the path of the device file."""
        return f"/dev/infiniband/{self.name}"

    @property
    def issm_path(self) -> str:
        """Return the path of the issm file, which a manager on the port keeps open."""
        return f"/dev/infiniband/{self.issm}"

    def __str__(self) -> str:
        return f"{self.ca} port {self.portnum} ({self.name})"


def port_state(ca: str, portnum: int) -> int:
    """Return the PortState that sysfs reports now; 0 if it reports none."""
    word = read_text(f"{IB_CLASS}/{ca}/ports/{portnum}/state").split(":")[0]
    return int(word) if word.isdigit() else 0


def devices() -> list[UmadDevice]:
    """Return all ports with a umad device whose link layer is InfiniBand. Raises
    :class:`InputError` for a kernel of another ABI."""
    version = read_text(f"{MAD_CLASS}/abi_version")
    if version and version != str(ABI_VERSION):
        raise InputError(f"the kernel's user_mad has ABI {version}; softib supports {ABI_VERSION}")
    entries = names_in(MAD_CLASS)
    where = {name: _place(name) for name in entries if re.fullmatch(r"(umad|issm)\d+", name)}
    issm = {place: name for name, place in where.items() if name.startswith("issm")}
    ports = [_device(name, place, issm.get(place, "")) for name, place in where.items() if name.startswith("umad")]
    return sorted((d for d in ports if d is not None), key=lambda d: int(d.name[4:]))


def _place(name: str) -> tuple[str, str]:
    return read_text(f"{MAD_CLASS}/{name}/ibdev"), read_text(f"{MAD_CLASS}/{name}/port")


def _device(name: str, place: tuple[str, str], issm: str) -> UmadDevice | None:
    ca, port = place
    folder = f"{IB_CLASS}/{ca}/ports/{port}"
    if not ca or not port.isdigit() or read_text(f"{folder}/link_layer") not in ("", "InfiniBand"):
        return None
    groups = read_text(f"{folder}/gids/0").split(":")
    guid = int("".join(groups[4:]), 16) if len(groups) == 8 and all(groups) else 0
    return UmadDevice(
        name, issm, ca, int(port), guid, port_state(ca, int(port)), read_text(f"{IB_CLASS}/{ca}/node_desc")
    )


def find_device(wanted: str | None = None, guid: int | None = None) -> UmadDevice:
    """Return the device named ``wanted``: ``umad0``, its path, ``mlx5_0`` (its first port),
    ``mlx5_0:1`` or ``mlx5_0/1``, or a PortGUID; or the device with PortGUID ``guid``. With None, return the first
    device that is ACTIVE; if none is, the first that has a link; otherwise the first.

    Raises :class:`InputError`, which lists the devices of the machine.
    """
    all_of = devices()
    if not all_of:
        raise InputError(
            f"this machine has no umad device ({MAD_CLASS} is empty): load ib_umad, or start under 'softib run --' "
            f"or ibsim's "
            "libumad2sim.so"
        )
    if wanted and GUID_WORD.match(wanted):
        guid, wanted = int(wanted, 16), None
    if guid is not None:
        return _one([d for d in all_of if d.guid == guid], f"PortGUID {guid:#018x}", all_of)
    if not wanted:
        return min(all_of, key=lambda d: (d.state != ACTIVE, d.state <= DOWN))
    name = os.path.basename(wanted) if wanted.startswith("/dev/") else wanted
    ca, _, port = name.replace("/", ":").partition(":")
    return _one(
        [d for d in all_of if d.name == name or (d.ca == ca and (not port or str(d.portnum) == port))], wanted, all_of
    )


def _one(matches: list[UmadDevice], wanted: str, all_of: list[UmadDevice]) -> UmadDevice:
    if matches:
        return matches[0]
    names = [f"{d.ca}:{d.portnum}" for d in all_of]
    similar = nearest(wanted, names) or names[:8]
    raise InputError(f"umad device {wanted} does not exist; use one of {', '.join(similar)}")
