"""Read the facts of a host from its /sys, or from a folder with a copy of it.

Files: the kernel's ABI (Documentation/ABI/stable/sysfs-class-infiniband, testing/sysfs-bus-pci).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from softib.errors import InputError, os_reason
from softib.foreign_text import shown
from softib.host_facts.facts import AdapterFacts, HostFacts, PcieLink, PortFacts

__all__ = ["FileReader", "read_host"]

MOST = 1 << 16
"""Number of bytes of a file that are read at most."""
CLASS = Path("sys/class/infiniband")
EMPTY_GID = re.compile(r"^[0:]*$|:0000:0000:0000:0000$")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def read_host(root: str | os.PathLike[str] = "/", name: str = "") -> HostFacts:
    """Return the facts of a host. ``root`` is the root of its file system, or the folder ``infiniband`` of its
    /sys/class. A missing file makes its fact unknown.

    Raises :class:`InputError` if ``root`` is neither.
    """
    top = Path(root)
    if not top.is_dir():
        raise InputError(f"{shown(os.fspath(root))}: no such folder; give / or a folder that has sys/class/infiniband")
    folder = top / CLASS
    if not folder.is_dir() and not (top / "sys").is_dir():
        folder = top
        if not any((one / "ports").is_dir() for one in _entries(top)):
            raise InputError(f"{shown(os.fspath(root))}: contains neither sys/class/infiniband nor adapters")
    files = FileReader()
    adapters = [_adapter(files, one) for one in sorted(_entries(folder), key=_by_number)]
    kernel = files.line(top / "proc/sys/kernel/osrelease")
    host = name or files.line(top / "proc/sys/kernel/hostname") or files.line(top / "etc/hostname")
    return HostFacts(host, kernel, adapters, files.unread)


class FileReader:
    """Reads files of one line, and records the files that could not be read."""

    def __init__(self) -> None:
        self.unread: list[str] = []

    def text(self, path: Path, most: int = MOST) -> str:
        """Return the content of the file; empty if it does not exist. tar(1) pads the files of /sys with zeros to their
        size."""
        try:
            with path.open("rb") as file:
                return file.read(most).rstrip(b"\0").decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            if error.errno != 22:  # EINVAL: an unused entry of a GID table
                self.unread.append(f"{shown(str(path))}: {os_reason(error)}")
            return ""

    def line(self, path: Path) -> str:
        """Return the first line of the file, without the newline."""
        return shown(self.text(path).partition("\n")[0].strip())

    def number(self, path: Path, otherwise: int = 0) -> int:
        """Return the number in the file; ``otherwise`` if there is none."""
        try:
            return int(self.line(path), 0)
        except ValueError:
            return otherwise


def _entries(folder: Path) -> list[Path]:
    try:
        return [one for one in folder.iterdir() if one.is_dir()]
    except OSError:
        return []


def _by_number(path: Path) -> tuple[str, int]:
    head = path.name.rstrip("0123456789")
    return head, int(path.name[len(head) :] or 0)


def _adapter(files: FileReader, folder: Path) -> AdapterFacts:
    device = folder / "device"
    ports = sorted((p for p in _entries(folder / "ports") if p.name.isdigit()), key=lambda p: int(p.name))
    return AdapterFacts(
        name=folder.name,
        kind=files.line(folder / "hca_type"),
        firmware=files.line(folder / "fw_ver"),
        psid=files.line(folder / "board_id"),
        node_guid=files.line(folder / "node_guid"),
        slot=device.resolve().name if device.exists() else "",
        pcie=_pcie(files, device),
        numa_node=files.number(device / "numa_node", -1),
        virtual_functions=files.number(device / "sriov_numvfs"),
        ports=[_port(files, one) for one in ports],
    )


def _pcie(files: FileReader, device: Path) -> PcieLink | None:
    names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    speed, width, most, most_width = (files.line(device / n) for n in names)
    if not speed and not width:
        return None
    return PcieLink(_number(speed), int(_number(width)), _number(most), int(_number(most_width)))


def _number(text: str) -> float:
    hit = NUMBER.match(text)
    return float(hit[0]) if hit else 0.0


def _port(files: FileReader, folder: Path) -> PortFacts:
    rate = files.line(folder / "rate")
    lanes = re.search(r"\((\d+)X", rate)
    gids = [files.line(p) for p in sorted(_files(folder / "gids"), key=_by_number)]
    keys = [files.number(p) for p in sorted(_files(folder / "pkeys"), key=_by_number)]
    counters = {}
    for one in sorted(_files(folder / "counters"), key=lambda p: p.name):
        text = files.line(one)
        if text.isdigit():
            counters[one.name] = int(text)
    return PortFacts(
        number=int(folder.name),
        state=_named(files.line(folder / "state")),
        physical_state=_named(files.line(folder / "phys_state")),
        link_layer=files.line(folder / "link_layer"),
        rate=rate,
        gbps=_number(rate),
        lanes=int(lanes[1]) if lanes else 0,
        lid=files.number(folder / "lid"),
        sm_lid=files.number(folder / "sm_lid"),
        gids=[g for g in gids if g and not EMPTY_GID.search(g)],
        pkeys=[k for k in keys if k],
        counters=counters,
    )


def _files(folder: Path) -> list[Path]:
    try:
        return [one for one in folder.iterdir() if one.is_file()]
    except OSError:
        return []


def _named(text: str) -> str:
    """Return the name in a text like ``4: ACTIVE``."""
    return text.partition(":")[2].strip() or text
