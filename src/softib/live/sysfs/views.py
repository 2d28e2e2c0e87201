"""A program's view of the fabric: the HCAs of one host, as directories like those of a kernel, and as umad devices.

The tree below a view's folder (``sys/class/infiniband``, ``sys/class/infiniband_mad``,
``dev/infiniband``) consists of real files, so every method of reading a directory works. Files are
written when the view is made, and again when a program opens one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from softib.fabric.model import Fabric
from softib.fabric.node_finder import device_name, host_of, split_port
from softib.live.sysfs.files import DEVICE_FILES, FIRMWARE, port_files
from softib.live.sysfs.node_profile import NodeProfile, numa_files
from softib.live.sysfs.pci import adapter_folder, functions_of, machine_links, pci_files, pci_links

__all__ = ["Device", "View", "Views"]

ABI_VERSION = 5
"""ABI version of user_mad (the kernel's IB_USER_MAD_ABI_VERSION)."""
UVERBS_ABI = 6
"""ABI version of uverbs (the kernel's IB_USER_VERBS_ABI_VERSION)."""
CLASS = "sys/class/infiniband"
NODE_DESC = "node_desc"
TABLES = ("pkeys", "gids")
"""The only file that programs write (:mod:`softib.live.sysfs.node_desc`). It always stays the same
file, so that a namespace can make it writable in a tree that is read-only."""


@dataclass(frozen=True)
class Device:
    """An adapter: its name on the host, its node, the portnums that are shown, its number among the host's adapters
    (``slot``), and the directory of its PCI function below ``/``."""

    name: str
    node: int
    portnums: tuple[int, ...]
    slot: int
    pci: str

    @property
    def folder(self) -> str:
        """Return the adapter's directory below the view's folder. As in every kernel, ``/sys/class/infiniband`` has a
        link to it."""
        return f"{self.pci}/infiniband/{self.name}"


def devices_of(f: Fabric, nodes: list[int], portnum: int | None, profile: NodeProfile | None) -> list[Device]:
    """Return the devices of a host. Their names come from their descriptions if these differ; otherwise they are
    ``mlx5_0``, ``mlx5_1`` …"""
    names = [device_name(f, node) for node in nodes]
    if "" in names or len(set(names)) < len(names):
        names = [f"mlx5_{i}" for i in range(len(nodes))]
    slots = {node: i for i, node in enumerate(host_of(f, nodes[0]))}  # a device's slot is the same in every view
    devices = []
    for name, node in zip(names, nodes, strict=True):
        ports = (0,) if f.is_switch[node] else tuple(range(1, int(f.node_nports[node]) + 1))
        pci = adapter_folder(profile, slots[node])
        devices.append(Device(name, node, ports if portnum is None else (portnum,), slots[node], pci))
    return devices


def _fill(path: str, octets: bytes) -> None:
    """Write ``octets`` to the file ``path`` with system calls. A view has hundreds of files, and open() or pathlib
    would take twice as long."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.write(fd, octets)
        os.truncate(fd, len(octets))
    finally:
        os.close(fd)


@dataclass
class View:
    """The ``devices`` that a program sees, below ``folder``. ``umads`` are the port rows of umad0,
    umad1, …"""

    name: str
    folder: Path
    fabric: Fabric
    devices: list[Device]
    profile: NodeProfile | None = None
    umads: list[int] = field(default_factory=list)
    _lines: dict[str, Callable[[], str | bytes]] = field(default_factory=dict)
    _links: dict[str, str] = field(default_factory=dict)
    _shown: dict[str, bytes] = field(default_factory=dict)
    _tables: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        f = self.fabric
        self._lines["devices"] = lambda: "\n".join(self._device_line(d) for d in self.devices)
        self._lines[f"{CLASS}_mad/abi_version"] = lambda: str(ABI_VERSION)
        self._lines[f"{CLASS}_verbs/abi_version"] = lambda: str(UVERBS_ABI)
        self._lines["dev/infiniband/rdma_cm"] = lambda: ""
        functions = functions_of(f, {d.slot: d.node for d in self.devices}, self.profile)
        self._lines |= pci_files(functions)
        self._links |= machine_links() | pci_links(functions)
        if self.profile is not None:
            self._lines |= numa_files()
        for number, device in enumerate(self.devices):
            base, verbs = f"{CLASS}/{device.name}", f"{CLASS}_verbs/uverbs{number}"
            self._lines[f"{verbs}/ibdev"] = lambda device=device: device.name  # type: ignore[misc]
            self._lines[f"{verbs}/abi_version"] = lambda: "1"
            self._lines[f"{verbs}/dev"] = lambda number=number: f"231:{192 + number}"  # type: ignore[misc]
            self._lines[f"dev/infiniband/uverbs{number}"] = lambda: ""
            for name, text in DEVICE_FILES.items():
                self._lines[f"{base}/{name}"] = lambda text=text, n=device.node: text(f, n)  # type: ignore[misc]
            self._links[f"{device.folder}/device"] = f"../../../{os.path.basename(device.pci)}"
            self._links[base] = f"../../{device.folder.removeprefix('sys/')}"
            self._links[f"{verbs}/device"] = f"../../../{device.pci.removeprefix('sys/')}"
            for portnum in device.portnums:
                self._add_port(device, portnum)

    @staticmethod
    def _device_line(device: Device) -> str:
        """Return the device's line in the file for ``libsoftib-verbs.so``: name, row of the node, firmware,
        portnums."""
        return " ".join(map(str, (device.name, device.node, FIRMWARE, *device.portnums)))

    def _add_port(self, device: Device, portnum: int) -> None:
        f = self.fabric
        port = int(f.node_base[device.node]) + portnum
        for name, text in port_files(f, port).items():
            path = f"{CLASS}/{device.name}/ports/{portnum}/{name}"
            self._lines[path] = lambda text=text: text(f, port)  # type: ignore[misc]
        for kind in ("umad", "issm"):
            base = f"{CLASS}_mad/{kind}{len(self.umads)}"
            self._lines[f"{base}/ibdev"] = lambda: device.name
            self._lines[f"{base}/port"] = lambda: str(portnum)
            self._links[f"{base}/device"] = f"../../../{device.pci.removeprefix('sys/')}"
            self._lines[f"dev/infiniband/{kind}{len(self.umads)}"] = lambda: ""
        self.umads.append(port)

    def port(self, umad: int) -> int | None:
        """Return the port row of ``/dev/infiniband/umadN``."""
        return self.umads[umad] if 0 <= umad < len(self.umads) else None

    def refresh(self, path: str) -> None:
        """Bring the file ``path`` (below the folder) up to date; other paths are ignored. In a
        table (``pkeys``, ``gids``) all entries are updated: a program that reads one entry reads the others next, and
        ``preload/umad/refresh.c`` sends no request for these."""
        path = path if path in self._lines else "/".join(p for p in path.split("/") if p not in ("", "."))
        for device in self.devices:  # a program inside the link's target directory uses this path for the file
            if path.startswith(f"{device.folder}/"):
                path = f"{CLASS}/{device.name}{path.removeprefix(device.folder)}"
        if path not in self._lines:
            return
        folder, _, _ = path.rpartition("/")
        table = folder.rpartition("/")[2] in TABLES
        for entry in self._entries_of(folder) if table else [path]:
            self._write(entry)

    def _entries_of(self, folder: str) -> list[str]:
        entries = self._tables.get(folder)
        if entries is None:
            entries = self._tables[folder] = [p for p in self._lines if p.rpartition("/")[0] == folder]
        return entries

    def refresh_all(self) -> int:
        """Bring every file up to date; return the number of files that changed."""
        return sum(self._write(path) for path in self._lines)

    def _octets(self, path: str) -> bytes:
        text = self._lines[path]()
        if isinstance(text, bytes):
            return text
        bare = not text and (path.startswith("dev/") or "/gid_attrs/ndevs/" in path)
        return b"" if bare else f"{text}\n".encode("utf-8", "surrogateescape")

    def _write(self, path: str) -> bool:
        """Write the file if it is not up to date."""
        octets = self._octets(path)
        if self._shown.get(path) == octets:
            return False
        if path.endswith(f"/{NODE_DESC}"):
            _fill(f"{self.folder}/{path}", octets)
        else:
            new = f"{self.folder}/.new"
            _fill(new, octets)
            # A reader gets either the old line or the new one, never a part of one.
            os.replace(new, f"{self.folder}/{path}")
        self._shown[path] = octets
        return True

    def path_of(self, device: Device) -> str:
        """Return the file with the description of ``device``."""
        return f"{self.folder}/{CLASS}/{device.name}/{NODE_DESC}"

    def restore(self, device: Device) -> None:
        """Bring the description of ``device`` up to date again after a program wrote into it."""
        path = f"{CLASS}/{device.name}/{NODE_DESC}"
        self._shown.pop(path, None)
        self._write(path)

    def write(self) -> None:
        """Write every file of a new view. They are written in place, because no program can read them while the event
        loop is busy here."""
        self._shown.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        for device in self.devices:
            os.makedirs(f"{self.folder}/{device.folder}")
        os.makedirs(f"{self.folder}/{CLASS}", exist_ok=True)
        for path, to in self._links.items():
            os.makedirs(os.path.dirname(f"{self.folder}/{path}"), exist_ok=True)
            os.symlink(to, f"{self.folder}/{path}")
        for parent in {path.rpartition("/")[0] for path in self._lines}:
            os.makedirs(f"{self.folder}/{parent}", exist_ok=True)
        for path in self._lines:
            octets = self._octets(path)
            _fill(f"{self.folder}/{path}", octets)
            self._shown[path] = octets


class Views:
    """The views of a running fabric below ``folder``, by name. ``profile``: the machine model of every host."""

    def __init__(self, fabric: Fabric, folder: Path, profile: NodeProfile | None = None):
        self.fabric, self.folder, self.profile = fabric, folder, profile
        self.known: dict[str, View] = {}
        self.made: Callable[[View], None] = lambda view: None
        """Called with each new view, after its files were created."""
        shutil.rmtree(folder, ignore_errors=True)  # files of a killed daemon

    def of_port(self, port: int) -> View:
        """Return the view with only this port."""
        f = self.fabric
        return self._made(f"port-{port}", [int(f.port_node[port])], int(f.port_num[port]))

    def of_node(self, node: int) -> View:
        """Return the view with only this node, and all its ports."""
        return self._made(f"node-{node}", [node])

    def of_host(self, node: int) -> View:
        """Return the view with all HCAs of the host to which ``node`` belongs."""
        return self._made(f"host-{node}", host_of(self.fabric, node))

    def show(self, named: str, port: int, alone: bool = False) -> View:
        """Return the view for ``softib run --node NAMED``; ``port`` is the port that NAMED means.

        A host's name (or no name) shows the host; an adapter's own name or GUID shows that adapter;
        ``name:portnum``, or a separate ``port`` (``alone``), shows only that port.
        """
        node = int(self.fabric.port_node[port])
        if not alone and named in ("", self.fabric.node_name(node).split(" ")[0]):
            return self.of_host(node)
        if alone or split_port(named):
            return self.of_port(port)
        return self.of_node(node)

    def _made(self, name: str, nodes: list[int], portnum: int | None = None) -> View:
        view = self.known.get(name)
        if view is None:
            profile = self.profile if self.fabric.is_host[nodes[0]] else None
            devices = devices_of(self.fabric, nodes, portnum, profile)
            view = View(name, self.folder / name, self.fabric, devices, profile)
        elif view.folder.is_dir():
            return view
        try:
            view.write()
        except OSError:  # for example a full file system: no program must see an incomplete tree
            shutil.rmtree(view.folder, ignore_errors=True)
            raise
        self.known[name] = view
        self.made(view)
        return view
