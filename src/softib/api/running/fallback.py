"""Reasons why a program did not use the HCAs of its node, found in its environment, its limits, and the node's
ports. The variables are those that ``softib diagnose`` checks (:mod:`softib.diags.cable_rules.job_environment`)."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

from softib.diags.cable_rules.job_environment import off_hcas
from softib.fabric.model import Fabric
from softib.foreign_text import shown
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo
from softib.live.control import Attached
from softib.live.instances import Instance
from softib.live.launch.executable import look_at
from softib.live.shared_fabric import SharedFabric
from softib.plain_values import whole_number
from softib.preload.build import why_no_verbs

__all__ = ["causes"]

LEAST_LOCKED = 64 << 10
"""With fewer bytes of locked memory than this (``ulimit -l``), a real HCA can register almost no memory."""
SMALLEST_MTU = 128
"""The MTU of code n is this number of bytes times 2^n (IBA 14.2.5.6)."""


def causes(instance: Instance, attached: Attached, program: Path, environment: Mapping[str, str]) -> list[str]:
    """Return each cause as a short text. ``attached`` is the daemon's reply to ``attach``,
    ``environment`` the program's."""
    fabric = SharedFabric.snapshot(instance.shared_fabric)
    return [
        *_device(program, fabric, attached.ports),
        *_named_devices(environment, _devices(attached.view)),
        *(f"{shown(text)} keeps it from them" for text in off_hcas(environment)),
        *_partition(environment, fabric, attached.ports),
        *_mtu(environment, fabric, attached.ports),
        *_limits(),
    ]


def _device(program: Path, fabric: Fabric, rows: list[tuple[int, str]]) -> Iterator[str]:
    missing = why_no_verbs()
    if missing:
        yield f"no RDMA device: {missing}"
    kind = look_at(program)
    if kind is not None and kind.deaf:
        yield f"no RDMA device: {program.name} {kind.deaf}"
    states = {name: PortState(int(fabric.port_state[row])) for row, name in rows}
    if states and PortState.ACTIVE not in states.values():
        yield ", ".join(f"{name} is {state.name}" for name, state in states.items())


def _devices(view: Path) -> list[str]:
    """Return the ports of the node's devices as programs name them, for example ``mlx5_0:1``."""
    return sorted(f"{port.parent.parent.name}:{port.name}" for port in view.glob("sys/class/infiniband/*/ports/*"))


def _named_devices(environment: Mapping[str, str], devices: list[str]) -> Iterator[str]:
    """``UCX_NET_DEVICES`` lists ports. ``NCCL_IB_HCA`` lists prefixes of ports, or whole names after ``=``, and
    excludes them after ``^`` (NCCL user guide)."""
    here = ", ".join(devices) or "no device"
    ports = [name.strip() for name in environment.get("UCX_NET_DEVICES", "").split(",") if ":" in name]
    if ports and not set(ports) & set(devices):
        yield f"UCX_NET_DEVICES={shown(environment['UCX_NET_DEVICES'])}: the node has {here}"
    value = environment.get("NCCL_IB_HCA", "").strip()
    names = [name.strip() for name in value.lstrip("^=").split(",") if name.strip()]
    exact = value.lstrip("^").startswith("=")
    hits = {d for d in devices for n in names if n in (d, d.partition(":")[0]) or (not exact and d.startswith(n))}
    if names and not (set(devices) - hits if value.startswith("^") else hits):
        yield f"NCCL_IB_HCA={shown(value)}: the node has {here}"


def _partition(environment: Mapping[str, str], fabric: Fabric, rows: list[tuple[int, str]]) -> Iterator[str]:
    """``UCX_IB_PKEY`` is a P_Key, ``NCCL_IB_PKEY`` an index."""
    for row, name in rows:
        base = int(fabric.pkey_base[row])
        table = [int(p) for p in fabric.pkeys[base : base + int(fabric.pkey_cap[row])]]
        partitions = sorted({f"0x{p & 0x7FFF:04x}" for p in table if p & 0x7FFF})
        pkey = _number(environment.get("UCX_IB_PKEY", ""))
        if pkey is not None and pkey & 0x7FFF and f"0x{pkey & 0x7FFF:04x}" not in partitions:
            yield f"UCX_IB_PKEY={environment['UCX_IB_PKEY']}: {name} is in {', '.join(partitions) or 'no partition'}"
        index = _number(environment.get("NCCL_IB_PKEY", ""))
        if index is not None and (index >= len(table) or not table[index] & 0x7FFF):
            yield f"NCCL_IB_PKEY={index}: {name} has no P_Key at this index"


def _mtu(environment: Mapping[str, str], fabric: Fabric, rows: list[tuple[int, str]]) -> Iterator[str]:
    for variable in ("UCX_RC_PATH_MTU", "UCX_RC_VERBS_PATH_MTU"):
        wanted = _number(environment.get(variable, ""))
        for row, name in rows:
            mtu = SMALLEST_MTU << int(PortInfo.neighbor_mtu.get(fabric.port_info[row]))
            if wanted is not None and wanted > mtu:
                yield f"{variable}={wanted}: {name} carries {mtu}"


def _limits() -> Iterator[str]:
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if soft != resource.RLIM_INFINITY and soft < LEAST_LOCKED:
        yield f"ulimit -l is {soft >> 10}: too little locked memory to register buffers"


def _number(text: str) -> int | None:
    text = text.strip()
    try:
        return int(text, 16) if text.lower().startswith("0x") else whole_number(text)
    except ValueError:
        return None
