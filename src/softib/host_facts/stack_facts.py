"""The software stack of a host as facts. A fact is the name and the value of a version or setting. Facts are read from
a folder that ``collect_stack.sh`` filled, or from a copy of a host's files in the same layout."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from softib.foreign_text import shown
from softib.host_facts.facts import AdapterFacts, HostFacts
from softib.host_facts.sysfs import FileReader, read_host
from softib.result import Result

__all__ = ["NAMES", "HostStack", "StackFact", "is_name", "read_stack"]


MODULES, PEER_MODULES = ("mlx5_core", "mlx5_ib", "nvidia"), ("nvidia_peermem", "nv_peer_mem")
LIBRARIES = {"libnccl": "nccl", **{name: name for name in ("libibverbs", "libmpi", "libmpich")}}
VERSIONS = {
    "ucx_info": ("ucx", r"# (?:Library version:|Version) (\d[\w.]*)"),
    "ompi_info": ("open-mpi", r"Open MPI v?(\d[\w.]*)"),
    "mpichversion": ("mpich", r"MPICH Version:\s*(\d[\w.]*)"),
}
SETTING = r"[A-Z][A-Z0-9_]{1,80}"
"""Name of an environment variable."""
NAMES = (
    *("os", "kernel", "ofed", *(f"{module} driver" for module in MODULES), "peer-memory"),
    *("locked-memory", "huge-pages", "transparent-huge-pages"),
    *(*LIBRARIES.values(), *(name for name, _ in VERSIONS.values())),
    *("firmware", "psid", "pcie", "virtual-functions", "virtual-function", "virtual-function-guid"),
    *("mtu", "ipoib-mtu", "numa-distance", "iommu", "gpu", "gpu-numa-node", "relaxed-ordering", "max-read-request"),
    "acs",
)
"""Names of facts, except those that are made from the names of settings (:func:`is_name`)."""


def is_name(name: str) -> bool:
    """Return whether a host can have facts of that name: one of :data:`NAMES`, an environment variable, or
    ``mlxconfig SETTING``."""
    return name in NAMES or bool(re.fullmatch(SETTING, name.removeprefix("mlxconfig ")))


@dataclass(frozen=True)
class StackFact(Result):
    """A version or setting of a host's software. ``where``: its adapter, port, device or network interface; empty: the
    host itself. ``kind``: model of that adapter or device, for example ``MT4129``."""

    name: str
    value: str
    where: str = ""
    kind: str = ""


@dataclass(frozen=True)
class HostStack(Result):
    """A host's facts. ``unread``: files that exist and could not be read, with the reason."""

    host: str
    source: str
    """The folder, archive or address from which the facts were read."""
    adapters: list[AdapterFacts]
    settings: list[StackFact]
    unread: list[str]

    def values(self, name: str) -> list[str]:
        """Return the values of all facts with that name."""
        return [f.value for f in self.settings if f.name == name]


def read_stack(root: str | os.PathLike[str], source: str = "") -> HostStack:
    """Return the facts of the host whose files are below ``root``. Raises :class:`InputError` if there are no such
    files."""
    host = read_host(root)
    files = FileReader()
    top = Path(root)
    facts = [*_system(files, top), *_memory(files, top), *_libraries(files, top), *_settings(files, top)]
    for adapter in host.adapters:
        facts += _of_adapter(files, top, adapter)
    facts += [*_pci(files, top, host), *_ports(files, top), *_networks(files, top), *_numa(files, top)]
    name = host.name or Path(source or root).name.removesuffix(".tgz")
    return HostStack(name, source or os.fspath(root), host.adapters, [f for f in facts if f.value], host.unread)


# -- the host --


def _system(files: FileReader, top: Path) -> Iterator[StackFact]:
    release = re.search(r'^PRETTY_NAME="?([^"\n]*)', files.text(top / "etc/os-release"), re.M)
    yield StackFact("os", shown(release[1]) if release else "")
    yield StackFact("kernel", files.line(top / "proc/sys/kernel/osrelease"))
    yield StackFact("ofed", files.line(top / "commands/ofed_info").rstrip(":"))
    for module in MODULES:
        yield StackFact(f"{module} driver", files.line(top / "sys/module" / module / "version"))
    for module in PEER_MODULES:
        if files.line(top / "sys/module" / module / "initstate") == "live":
            yield StackFact("peer-memory", module)


def _memory(files: FileReader, top: Path) -> Iterator[StackFact]:
    limit = re.search(r"^Max locked memory +(\S+)", files.text(top / "proc/self/limits"), re.M)
    value = limit[1] if limit else ""
    yield StackFact("locked-memory", str(int(value) >> 10) if value.isdigit() else value)
    total = 0
    for folder in sorted((top / "sys/kernel/mm/hugepages").glob("hugepages-*kB")):
        total += files.number(folder / "nr_hugepages") * int(re.sub(r"\D", "", folder.name) or 0)
    yield StackFact("huge-pages", str(total >> 10))
    enabled = re.search(r"\[(\w+)\]", files.line(top / "sys/kernel/mm/transparent_hugepage/enabled"))
    yield StackFact("transparent-huge-pages", enabled[1] if enabled else "")


def _libraries(files: FileReader, top: Path) -> Iterator[StackFact]:
    versions: dict[str, set[str]] = {}
    for line in files.text(top / "commands/libraries").split():
        stem, _, version = Path(line).name.partition(".so.")
        if stem in LIBRARIES and version.count("."):
            versions.setdefault(LIBRARIES[stem], set()).add(shown(version))
    for name, builds in sorted(versions.items()):
        yield StackFact(name, ", ".join(sorted(builds)))
    for command, (name, pattern) in VERSIONS.items():
        match = re.search(pattern, files.text(top / "commands" / command))
        yield StackFact(name, match[1] if match else "")


def _settings(files: FileReader, top: Path) -> Iterator[StackFact]:
    for path in ("commands/env", "etc/nccl.conf", "etc/ucx/ucx.conf"):
        where = "environment" if path == "commands/env" else path.rpartition("/")[2]
        for line in files.text(top / path).splitlines():
            name, equals, value = line.strip().partition("=")
            if equals and re.fullmatch(SETTING, name.strip()):
                yield StackFact(name.strip(), shown(value.strip())[:200], where)


# -- adapters --


def _of_adapter(files: FileReader, top: Path, a: AdapterFacts) -> Iterator[StackFact]:
    device = top / "sys/class/infiniband" / a.name / "device"
    fact = lambda name, value: StackFact(name, value, a.name, a.kind)
    is_virtual = (device / "physfn").exists()
    if is_virtual:
        yield fact("virtual-function", "yes")
        return
    yield fact("firmware", a.firmware)
    yield fact("psid", a.psid)
    if a.pcie is not None:
        yield fact("pcie", f"{a.pcie.gts:g} GT/s x{a.pcie.width}")
    yield fact("virtual-functions", files.line(device / "sriov_numvfs"))
    for number in sorted((device / "sriov").glob("[0-9]*"), key=lambda p: int(p.name) if p.name.isdigit() else -1):
        yield StackFact("virtual-function-guid", files.line(number / "node"), f"{a.name} VF {number.name}")
    text = files.text(top / "commands" / f"mlxconfig-{address_of(files, top, a)}")
    for name, value in re.findall(r"^\s+\*?\s*([A-Z][A-Z0-9_]+)\s+(\S+)\s*$", text, re.M):
        yield fact(f"mlxconfig {name}", shown(value))


def address_of(files: FileReader, top: Path, a: AdapterFacts) -> str:
    """Return the PCI address of an adapter. A copy without symbolic links has it in commands/pci_paths: one line for
    each adapter, in the order of their names."""
    if re.fullmatch(ADDRESS, a.slot):
        return a.slot
    names = sorted(p.name for p in (top / "sys/class/infiniband").glob("*") if p.is_dir())
    paths = files.text(top / "commands/pci_paths").split()
    at = names.index(a.name) if a.name in names else len(paths)
    return paths[at].rsplit("/", 1)[-1] if at < len(paths) else ""


ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"


def _ports(files: FileReader, top: Path) -> Iterator[StackFact]:
    """Yield the active and the largest MTU of each InfiniBand port, from ibv_devinfo."""
    adapter, port, largest = "", "", ""
    for line in files.text(top / "commands/ibv_devinfo").splitlines():
        name, _, value = line.strip().partition(":")
        value = value.strip()
        if name == "hca_id":
            adapter = shown(value)
        elif name == "port":
            port = shown(value)
        elif name == "max_mtu":
            largest = value.split(" ")[0]
        elif name == "active_mtu":
            yield StackFact("mtu", shown(value.split(" ")[0]), f"{adapter}/{port}", f"of {shown(largest)}")


def _networks(files: FileReader, top: Path) -> Iterator[StackFact]:
    for folder in sorted((top / "sys/class/net").glob("*")):
        if files.line(folder / "type") == "32":  # ARPHRD_INFINIBAND
            yield StackFact("ipoib-mtu", files.line(folder / "mtu"), folder.name, "IPoIB")


def _numa(files: FileReader, top: Path) -> Iterator[StackFact]:
    for folder in sorted((top / "sys/devices/system/node").glob("node[0-9]*")):
        yield StackFact("numa-distance", files.line(folder / "distance"), folder.name)


# -- PCI --

GPU_VENDORS = ("0x10de", "0x1002")
LSPCI_MOST = 16 << 20
"""Number of bytes of lspci's output that are read at most."""


def _pci(files: FileReader, top: Path, host: HostFacts) -> Iterator[StackFact]:
    gpus = list(_gpus(files, top))
    yield from gpus
    groups = [files.line(p) for p in sorted((top / "sys/class/infiniband").glob("*/device/iommu_group/type"))]
    groups += [files.line(top / "sys/bus/pci/devices" / g.where / "iommu_group/type") for g in gpus if g.name == "gpu"]
    if host.adapters and (top / "sys/class/infiniband").is_dir():
        translated = any(g.startswith("DMA") for g in groups)
        yield StackFact("iommu", "translated" if translated else "passthrough" if any(groups) else "off")
    paths = files.text(top / "commands/pci_paths").splitlines()
    bridges = {part for path in paths for part in path.split("/")[:-1] if re.fullmatch(ADDRESS, part)}
    adapters = {address_of(files, top, a): a for a in host.adapters}
    yield from _lspci(files.text(top / "commands/lspci", LSPCI_MOST), bridges, adapters)


def _gpus(files: FileReader, top: Path) -> Iterator[StackFact]:
    for folder in sorted((top / "sys/bus/pci/devices").glob("*")):
        vendor, kind = files.line(folder / "vendor"), files.line(folder / "device")
        if vendor in GPU_VENDORS and files.line(folder / "class").startswith("0x03"):  # display controllers
            yield StackFact("gpu", f"{vendor}:{kind}", folder.name, kind)
            yield StackFact("gpu-numa-node", files.line(folder / "numa_node"), folder.name, kind)


def _lspci(text: str, bridges: set[str], adapters: dict[str, AdapterFacts]) -> Iterator[StackFact]:
    """Yield access control of bridges above GPUs and adapters, and settings of adapters."""
    redirecting, has_acs = [], False
    for block in re.split(r"\n(?=[0-9a-f])", text):
        address = block.split(" ", 1)[0]
        control = re.search(r"ACSCtl:(.*)", block)
        if control and (address in bridges or not bridges):
            has_acs = True
            if "SrcValid+" in control[1] or "ReqRedir+" in control[1]:
                redirecting.append(shown(address))
        a = adapters.get(address)
        if a is not None and (relaxed := re.search(r"RlxdOrd([+-])", block)):
            yield StackFact("relaxed-ordering", "on" if relaxed[1] == "+" else "off", a.name, a.kind)
        if a is not None and (read := re.search(r"MaxReadReq (\d+) bytes", block)):
            yield StackFact("max-read-request", read[1], a.name, a.kind)
    if has_acs:
        yield StackFact("acs", "on" if redirecting else "off", ", ".join(redirecting[:4]))
