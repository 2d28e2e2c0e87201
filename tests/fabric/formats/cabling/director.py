"""A director fabric and its UFM-style cabling list, made together: invented names in the forms of the field.

Leaves are one-chip switches, directors have leaf cards of two chips and spine cards of one. Each leaf has one cable to
each of some leaf chips of the directors. The list tells each of these cables from both ends, in upper case, a director's
port as ``Blade 3_Port 2/7``; host cables once, the host's port as its whole NodeDescription.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType

NAMELESS = "MT4123 ConnectX6   Mellanox Technologies"
HEADER = "#StartDevice,StartPort,EndDevice,EndPort,LinkType"


@dataclass
class Made:
    """``uplinks`` and ``host_links`` are cables as pairs of (node, portnum); rows of the two lists are in their order."""

    fabric: Fabric
    uplinks: list[tuple[tuple[int, int], tuple[int, int]]]
    host_links: list[tuple[tuple[int, int], tuple[int, int]]]
    chip: dict[int, tuple[str, int, int]]
    """(director, card, chip) of each leaf chip."""

    def end(self, at: tuple[int, int]) -> tuple[str, str]:
        """(device, port) as UFM writes them."""
        node, portnum = at
        if node in self.chip:
            director, card, chip = self.chip[node]
            return director.upper(), f"Blade {card}_Port {chip}/{portnum}"
        name = self.fabric.node_name(node)
        if self.fabric.is_switch[node]:
            return name.split(";")[1].split(":")[0].upper(), f"Port {portnum}"
        return name.split()[0], name

    def row(self, a: tuple[int, int], b: tuple[int, int]) -> str:
        return ",".join([*self.end(a), *self.end(b), "Data"])

    def switch_list(self) -> list[str]:
        """Two rows a cable."""
        return [self.row(*ends) for a, b in self.uplinks for ends in ((a, b), (b, a))]

    def host_list(self) -> list[str]:
        return [self.row(a, b) for a, b in self.host_links]


def text(rows: list[str]) -> str:
    return "\n".join([HEADER, *rows]) + "\n"


def director_fabric(
    leaves: int = 12,
    directors: int = 2,
    cards: int = 3,
    hosts: int = 1,
    adapters: int = 8,
    radix: int = 40,
    spines: int | None = None,
) -> Made:
    """``hosts`` a leaf, of ``adapters`` each. Leaf l's uplink k goes to chip k, port l mod radix/2 + 1 of it.

    Two leaf groups share a chip set where there are more leaves than a chip has ports: group g uses the chips 2c + g mod 2.
    """
    half = radix // 2
    groups = -(-leaves // half)
    b = FabricBuilder("director")
    desc = [f"MF0;hal7-{1 + i // half:02d}-{i % half + 1:02d}ib0:MQM8700/U1" for i in range(leaves)]
    chip_at: dict[int, tuple[str, int, int]] = {}
    spine_nodes: list[list[int]] = []
    chips: list[list[int]] = []
    spines = spines if spines is not None else half // 2
    for d in range(directors):
        name = f"hal7-{90 + d}ib1-A"
        own = []
        for card in range(1, cards + 1):
            for chip in (1, 2):
                own.append(len(desc))
                chip_at[len(desc)] = (name, card, chip)
                desc.append(f"MF0;{name}:MCS8500/L{card:02d}/U{chip}")
        chips.append(own)
        spine_nodes.append(list(range(len(desc), len(desc) + spines)))
        desc += [f"MF0;{name}:MCS8500/S{s + 1:02d}/U1" for s in range(spines)]
    b.nodes(len(desc), NodeType.SWITCH, radix, desc=desc, speed="HDR")
    first_host = len(desc)
    names = [f"HAL7{1000 + h} ibp{11 + 32 * a}s0f0" for h in range(leaves * hosts) for a in range(adapters)]
    b.nodes(len(names), NodeType.CA, 1, desc=names, speed="HDR")
    uplinks, host_links, backplane = [], [], []
    for leaf in range(leaves):
        for k in range(hosts * adapters):
            host_links.append(((first_host + leaf * hosts * adapters + k, 1), (leaf, k + 1)))
        group, at = leaf // half, leaf % half
        # A group has its own chips: every groups-th card pair of each director.
        mine = [c for d in range(directors) for i, c in enumerate(chips[d]) if i % groups == group]
        uplinks += [((leaf, half + 1 + k), (c, at + 1)) for k, c in enumerate(mine[: radix - half])]
    for d in range(directors):
        for s, spine in enumerate(spine_nodes[d]):
            backplane += [((c, half + 1 + s), (spine, i + 1)) for i, c in enumerate(chips[d][:radix])]
    links = uplinks + host_links + backplane
    a, z = (np.array([x[e] for x in links]) for e in (0, 1))
    b.links(a[:, 0], a[:, 1], z[:, 0], z[:, 1])
    return Made(b.build(), uplinks, host_links, chip_at)


def rename(fabric: Fabric, node: int, name: str) -> None:
    """Give ``node`` another NodeDescription."""
    fabric.node_desc[node] = 0
    fabric.node_desc[node, : len(name)] = np.frombuffer(name.encode(), np.uint8)
