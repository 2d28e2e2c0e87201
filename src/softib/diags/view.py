"""Input that all checks use, computed once: names, roles, cables with both ends, rates. A check uses only data that the
source recorded (``Source.records``); generated fabrics record their hardware.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from softib.components import components
from softib.diags.finding import Location
from softib.fabric.model import Fabric
from softib.fabric.node_finder import distinct_names
from softib.fabric.power_up import active_speed_codes
from softib.iba.devices import is_aggregation_node
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE, data_gbps
from softib.iba.smp import PortInfo
from softib.natural_order import natural_key

__all__ = [
    "MIN_HOSTS",
    "SAME",
    "FabricView",
    "HostDescription",
    "adapter_of",
    "components",
    "gbps_text",
    "host_descriptions",
    "port_location",
]


SAME = 0.9
"""Minimum share of the hosts of a kind that must have the same number of adapters."""
MIN_HOSTS = 5
_NUMBER = re.compile(r"\d+")


def port_location(fabric: Fabric, port: int) -> Location:
    """Return the location of a port row without using a :class:`FabricView`, so that nodes with the same name are not
    distinguished."""
    node = int(fabric.port_node[port])
    return Location(fabric.node_name(node), int(fabric.node_guid[node]), int(fabric.port_num[port]))


@dataclass(frozen=True)
class HostDescription:
    """A NodeDescription that is a host's name and is shared by its adapters. ``form``: the name with # for each number
    (``node-#``). ``carriers``: number of adapters with this description. ``usual``: usual number of adapters of a host
    with this form.
    """

    form: str
    usual: int
    carriers: int

    @property
    def is_one_host(self) -> bool:
        """Return whether all adapters with this description belong to one host: there are at most as many as a host of
        this form usually has.
        """
        return self.carriers <= self.usual


def host_descriptions(adapters: Iterable[str]) -> dict[str, HostDescription]:
    """Return the descriptions that are names of hosts, not of single adapters. ``adapters``: the description of each
    channel adapter.
    """
    carriers = Counter(adapters)
    forms: dict[str, list[str]] = {}
    for name in carriers:
        if (form := _NUMBER.sub("#", name)) != name:
            forms.setdefault(form, []).append(name)
    most = {form: Counter(carriers[n] for n in names).most_common(1)[0] for form, names in forms.items()}
    alike = {form for form, (usual, agree) in most.items() if usual >= 2 and agree >= SAME * len(forms[form])}
    sure = [most[form][0] for form in alike if most[form][1] >= MIN_HOSTS]
    # At a site with such names, a few hosts with a different form of name (two login nodes) are accepted, too.
    kept = [form for form in forms if form in alike and most[form][0] <= max(sure, default=0)]
    return {n: HostDescription(form, most[form][0], carriers[n]) for form in kept for n in forms[form]}


_FAMILY = r"(?:hca|nic|rail|mlx\d*|mthca|hfi\d*|qib|ipath|ibdev|cx\d*)"
_HCA_NAME = re.compile(
    rf"^(?P<host>\S+?)(?:\s+(?P<hca>[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z]+)*[_-]?\d[A-Za-z0-9]*)|[_-]+(?P<joined>{_FAMILY}(?:[_-]bond)?[_-]?\d+|ib(?:\d+|[ps]\d+\w*)))\s*$",
    re.IGNORECASE,
)
"""Names of host adapters: ``host mlx5_0``, ``node-12 ibp11s0f0``, ``host HCA-1`` (after a space, any word with a
number), or ``gpu-01-hca-2`` (after a hyphen, only names that adapters have: the end of ``dgx-host-0001`` belongs to the
host's name). :func:`adapter_of` returns both parts.
"""


def adapter_of(name: str) -> tuple[str, str] | None:
    """Return (host, adapter) if ``name`` consists of a host's name and an adapter's name, otherwise None."""
    m = _HCA_NAME.match(name)
    return None if m is None else (m["host"], m["hca"] or m["joined"])


_LANES = np.zeros(256, np.int64)
for _bit, _lanes in LANES_BY_BIT.items():
    _LANES[_bit] = _lanes


class FabricView:
    """Read-only columns of a fabric for the checks. ``records`` replaces the source's list of recorded data. Cables and
    their ends are sorted by :attr:`port_place`, so that findings do not depend on the order of the file.
    """

    def __init__(self, fabric: Fabric, records: frozenset[str] | None = None):
        self.fabric = fabric
        stated = fabric.source.records if records is None else records
        if fabric.source.format == "generated":
            stated = stated | {"speeds", "capabilities", "unlinked"}
        self.records = frozenset(stated)
        self.names: list[str] = fabric.node_names()
        self.is_switch: np.ndarray = fabric.is_switch
        self.is_sharp = is_aggregation_node(fabric.node_desc) & ~fabric.is_switch
        self.is_host = fabric.is_host
        ends = fabric.cable_port
        self.cable = np.flatnonzero((ends >= 0).all(axis=1)) if len(ends) else np.zeros(0, np.int64)
        place = self.port_place[ends[self.cable]] if len(ends) else np.zeros((0, 2), np.int64)
        self.cable = self.cable[np.argsort(place.min(axis=1), kind="stable")]
        turned = (self.port_place[ends[self.cable, 0]] > self.port_place[ends[self.cable, 1]]).astype(np.int64)
        self.port_a, self.port_b = ends[self.cable, turned], ends[self.cable, 1 - turned]
        self.node_a, self.node_b = fabric.port_node[self.port_a], fabric.port_node[self.port_b]

    @cached_property
    def node_place(self) -> np.ndarray:
        """The position of each node in the order of findings (int64[nodes]): switches first, then by name in natural
        order, then by GUID."""
        place = np.empty(len(self.names), np.int64)
        guid, is_switch = self.fabric.node_guid.tolist(), self.is_switch.tolist()
        order = sorted(
            range(len(self.names)), key=lambda n: (not is_switch[n], natural_key(self.names[n]), self.names[n], guid[n])
        )
        place[order] = np.arange(len(order))
        return place

    @cached_property
    def port_place(self) -> np.ndarray:
        """The position of each port in the order of findings (int64[ports]): by node, then by number."""
        return self.node_place[self.fabric.port_node] * 256 + self.fabric.port_num

    # -- names --

    @cached_property
    def display_names(self) -> list[str]:
        """The name of each node in messages; the GUID is added if several nodes have the same name."""
        return distinct_names(self.fabric)

    @cached_property
    def adapters(self) -> dict[int, tuple[str, str]]:
        """Node → (host, adapter) for every CA with a name like ``host mlx5_0``."""
        rows = np.flatnonzero(self.is_host).tolist()
        return {n: both for n in rows if (both := adapter_of(self.names[n]))}

    @cached_property
    def host_descriptions(self) -> dict[str, HostDescription]:
        """Descriptions that are names of hosts, each shared by the host's adapters."""
        return host_descriptions(self.names[n] for n in np.flatnonzero(self.is_host).tolist())

    def location(self, port: int) -> Location:
        """Return the location of a port row."""
        return self.location_on(int(self.fabric.port_node[port]), int(self.fabric.port_num[port]))

    def node_location(self, node: int) -> Location:
        """Return the location of a node as a whole."""
        return self.location_on(node, None)

    def location_on(self, node: int, portnum: int | None) -> Location:
        """Return the location of port ``portnum`` of ``node``, also if the node has no port of this number; None: the
        node as a whole."""
        node = int(node)
        return Location(self.names[node], int(self.fabric.node_guid[node]), portnum, self.display_names[node])

    def link_name(self, a: int, b: int) -> str:
        """Return the name of the link between two port rows, for example ``leaf-3[40] ↔ spine-2[3]``."""
        return f"{self.location(a)} ↔ {self.location(b)}"

    # -- rates --

    @cached_property
    def speed(self) -> np.ndarray:
        """The active speed code of each port."""
        return active_speed_codes(self.fabric.port_info, self.fabric.port_mlnx_speed)

    @cached_property
    def lanes(self) -> np.ndarray:
        """The number of active lanes of each port."""
        return _LANES[PortInfo.link_width_active.get(self.fabric.port_info)]

    @cached_property
    def link_gbps(self) -> np.ndarray:
        """Data rate of each cable of :attr:`cable` in Gb/s: the rate of its slower end."""
        at_a = data_gbps(self.speed[self.port_a], self.lanes[self.port_a])
        at_b = data_gbps(self.speed[self.port_b], self.lanes[self.port_b])
        return np.minimum(at_a, at_b)

    # -- graph --

    @cached_property
    def between_switches(self) -> np.ndarray:
        """Rows of :attr:`cable` that join two different switches."""
        both = self.is_switch[self.node_a] & self.is_switch[self.node_b]
        return np.flatnonzero(both & (self.node_a != self.node_b))

    @cached_property
    def to_hosts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(row of :attr:`cable`, host port, switch port) of every cable between a switch and a CA that is not a SHARP
        node.
        """
        a_host = self.is_host[self.node_a] & self.is_switch[self.node_b]
        b_host = self.is_host[self.node_b] & self.is_switch[self.node_a]
        rows = np.flatnonzero(a_host | b_host)
        first = a_host[rows]
        host = np.where(first, self.port_a[rows], self.port_b[rows])
        switch = np.where(first, self.port_b[rows], self.port_a[rows])
        return rows, host, switch

    @cached_property
    def host_numbers(self) -> np.ndarray:
        """For each port number, the share of the switches with hosts that have a host at this port (float64[256])."""
        _, _, switch_port = self.to_hosts
        switches = max(1, len(np.unique(self.fabric.port_node[switch_port])))
        return np.asarray(np.bincount(self.fabric.port_num[switch_port], minlength=256) / switches)

    @cached_property
    def component(self) -> np.ndarray:
        """The connected component of each node, as the smallest node index in it."""
        return components(len(self.names), self.node_a, self.node_b)


def speed_text(code: int, lanes: int = 4) -> str:
    """Return the name of a speed: ``EDR``, or for example ``1x EDR`` if the width is not 4x."""
    name = SPEED_BY_CODE[int(code)].name if int(code) in SPEED_BY_CODE else "an unknown speed"
    return name if lanes == 4 else f"{lanes}x {name}"


def gbps_text(value: float) -> str:
    """Return a rate as text, for example ``400 Gb/s`` or ``51.2 Tb/s``."""
    return f"{value / 1000:,.1f} Tb/s" if value >= 10_000 else f"{value:,.0f} Gb/s"
