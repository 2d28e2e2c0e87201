"""Environment variables that prevent a program from using the HCAs. They explain why a job has no traffic on the HCAs,
but are not findings by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from softib.plain_values import whole_number

__all__ = ["VARIABLES", "JobProcess", "explained", "ipoib_named", "off_hcas"]

VERBS_TLS = frozenset(
    {
        "all",
        "ib",
        "rc",
        "rc_v",
        "rc_x",
        "rc_verbs",
        "rc_mlx5",
        "ud",
        "ud_v",
        "ud_x",
        "ud_verbs",
        "ud_mlx5",
        "dc",
        "dc_x",
        "dc_mlx5",
    }
)
"""Names in ``UCX_TLS`` of transports that use verbs, and of their aliases (UCX 1.13, ``ucx_info -c -f``)."""
VERBS_PML = frozenset({"ucx", "cm", "yalla"})
VERBS_BTL = frozenset({"openib", "uct", "ofi"})
"""Components of Open MPI 4.1 (ompi_info) that can use an HCA."""
SOCKET_PROVIDERS = frozenset({"tcp", "sockets", "udp", "net", "shm"})
"""Providers of libfabric (fi_provider(7)) that use no HCA."""


class JobProcess(Protocol):
    """A process of a job whose environment could be read."""

    @property
    def host(self) -> str:
        """The host's name in the job."""

    @property
    def pid(self) -> int:
        """The PID on that host."""

    @property
    def command(self) -> str:
        """The name of the command."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment at the start of the process."""


def _items(value: str) -> list[str]:
    return [x.strip() for x in value.split(",") if x.strip()]


def _number(env: Mapping[str, str], name: str) -> bool:
    value = env.get(name, "").strip()
    return whole_number(value) not in (None, 0)


def _positive(env: Mapping[str, str], name: str) -> list[str]:
    """Return the items of the list in variable ``name``; empty if it is unset or lists exclusions (``^``)."""
    items = _items(env.get(name, ""))
    return [] if items and items[0].startswith("^") else items


def _no_ucx_transport(env: Mapping[str, str]) -> bool:
    items = _items(env.get("UCX_TLS", ""))
    if not items:
        return False
    if items[0].startswith("^"):
        left_out = {items[0][1:], *items[1:]}
        return "ib" in left_out or left_out >= {"rc", "ud", "dc"}
    # A colon after a transport's name introduces an auxiliary transport. A backslash before a name excludes its
    # aliases.
    return not any(x.lstrip("\\").partition(":")[0] in VERBS_TLS for x in items)


def _no_ucx_device(env: Mapping[str, str]) -> bool:
    items = _items(env.get("UCX_NET_DEVICES", ""))
    return bool(items) and "all" not in items and not any(":" in x for x in items)


def _no_ompi_component(env: Mapping[str, str]) -> bool:
    """Return whether ``btl`` excludes HCAs. It counts only with ``pml ob1``, because ``pml ucx`` and ``cm`` ignore it
    (Open MPI 4.1, ompi_info)."""
    pml, btl = _positive(env, "OMPI_MCA_pml"), _positive(env, "OMPI_MCA_btl")
    return bool(pml) and not VERBS_PML & set(pml) and bool(btl) and not VERBS_BTL & set(btl)


def _no_provider(env: Mapping[str, str]) -> bool:
    items = {y for x in _positive(env, "FI_PROVIDER") for y in x.split(";")}
    return bool(items) and items <= SOCKET_PROVIDERS


VARIABLES: tuple[tuple[tuple[str, ...], Callable[[Mapping[str, str]], bool]], ...] = (
    (("NCCL_IB_DISABLE",), lambda env: _number(env, "NCCL_IB_DISABLE")),
    (("NCCL_NET",), lambda env: env.get("NCCL_NET", "").lower() == "socket"),
    (("UCX_TLS",), _no_ucx_transport),
    (("UCX_NET_DEVICES",), _no_ucx_device),
    (("OMPI_MCA_pml", "OMPI_MCA_btl"), _no_ompi_component),
    (("FI_PROVIDER",), _no_provider),
)
"""Variables, each with a function that returns whether its value prevents a program from using verbs (NCCL user guide,
"Environment variables"; UCX, Open MPI and libfabric as above).
"""


def off_hcas(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return ``NAME=value`` of each variable that prevents a program from using the HCAs.

    >>> off_hcas({"NCCL_IB_DISABLE": "1", "UCX_TLS": "rc,self", "HOME": "/root"})
    ('NCCL_IB_DISABLE=1',)
    """
    return tuple(f"{n}={environment[n]}" for names, keeps in VARIABLES if keeps(environment) for n in names)


def explained(processes: Iterable[JobProcess]) -> dict[str, list[str]]:
    """Return, for each variable that prevents the use of HCAs, ``NAME=value`` -> the processes (``host: command
    (PID)``) with this value, ordered by host and PID.
    """
    by_variable: dict[str, list[str]] = {}
    for p in sorted(processes, key=lambda p: (p.host, p.pid)):
        for text in off_hcas(p.environment):
            by_variable.setdefault(text, []).append(f"{p.host}: {p.command} ({p.pid})")
    return by_variable


INTERFACES = (
    "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "UCX_NET_DEVICES",
    "OMPI_MCA_btl_tcp_if_include",
)
"""Variables that name interfaces for sockets (PyTorch's "Distributed", NCCL user guide, UCX, Open
MPI). NCCL with verbs uses its variable only for bootstrap, so the variable is not evidence."""


def ipoib_named(processes: Iterable[JobProcess]) -> dict[str, list[str]]:
    """Return, for each variable that directs sockets to an IPoIB interface (``ib0``, ``ibp3s0``), ``NAME=value`` -> the
    processes with this value, as :func:`explained` does.
    """
    by_variable: dict[str, list[str]] = {}
    for p in sorted(processes, key=lambda p: (p.host, p.pid)):
        for name in INTERFACES:
            items = [x.lstrip("=") for x in _items(p.environment.get(name, ""))]
            if items and all(x.startswith("ib") and ":" not in x for x in items):
                by_variable.setdefault(f"{name}={p.environment[name]}", []).append(f"{p.host}: {p.command} ({p.pid})")
    return by_variable
