"""Write Slurm's ``topology.conf``, for ``topology/tree`` and for ``topology/block``.

Slurm needs a *tree*: each node is under one leaf switch, and each switch under one parent
(topology.conf(5)). But in a fat tree every leaf is connected to many spines. Switches at the same
height that join the same parts are interchangeable, so they become **one** line:

* A *leaf* is a switch with hosts; its line has ``Nodes=``. The height of a switch is its distance
  from the nearest leaf.
* For each height 1, 2, …, the switches up to this height form connected parts. Each part becomes
  one line whose ``Switches=`` lists the lower parts that it joins; a part that joins only one gets
  no line. So a two-level tree is leaves and one line for all its spines; a three-level tree has one
  line per pod and one for the core. Leaves that are cabled to each other are joined at height 0.
* A line for one switch has its name. A line for several is called ``spines1``, ``spines2`` …, and a
  comment lists the switches. Unconnected parts are separate trees; a comment states this.

A host with adapters on several leaves (rails) is listed under the leaf with most of its links; if
several have the same number, under the leaf of its first adapter by name. A host can be on fabrics
that no switch connects, for example compute and storage. Then the fabric with the most host links
is used. Hosts and switches without a unique name are called ``H-GUID`` and ``S-GUID``. SHARP
aggregation nodes are not hosts. In ``topology/block`` (Slurm 23.11 and newer), a *block* is a leaf
with its hosts. The planning base block size, which is the first of ``BlockSizes``, is the size of
the smallest block, because Slurm rejects smaller blocks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from softib.fabric.formats.cabling.name_index import spoken_names
from softib.fabric.model import Fabric
from softib.natural_order import natural_key
from softib.plural import counted
from softib.whole_files import write_text

__all__ = ["block_sizes", "expand_hostlist", "fold_hostlist", "tree", "write", "write_blocks"]

_NUMBERED = re.compile(r"^(.*?)(\d{1,18})(\D*)$")
_GUID_NAME = re.compile(r"^[SH]-[0-9a-f]{16}$")
_BAD = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass
class Line:
    """A ``SwitchName=`` line. A leaf has ``nodes``, other switches have ``children``.
    ``stands_for`` lists the switch nodes that the line represents."""

    name: str
    nodes: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    stands_for: list[int] = field(default_factory=list)


def write(fabric: Fabric, path: str | Path) -> list[str]:
    """Write ``topology.conf``. Returns notes on content that Slurm's tree cannot represent."""
    lines, notes = tree(fabric)
    out = ["# topology.conf for topology/tree, written by softib"]
    for line in lines:
        if len(line.stands_for) > 1:
            names = fold_hostlist([_switch_name(fabric, n) for n in line.stands_for])
            out.append(f"# {line.name} stands for {names}")
        members = f"Nodes={fold_hostlist(line.nodes)}" if line.nodes else f"Switches={fold_hostlist(line.children)}"
        out.append(f"SwitchName={line.name} {members}")
    out += [f"# {note}" for note in notes if note.startswith("separate")]
    write_text(path, "\n".join(out) + "\n")
    return notes


def write_blocks(fabric: Fabric, path: str | Path) -> list[str]:
    """Write ``topology.conf`` for ``topology/block``. Returns notes on content that it cannot represent."""
    lines, notes = tree(fabric)
    leaves = [line for line in lines if line.nodes]
    out = ["# topology.conf for topology/block, written by softib"]
    out += [f"BlockName={line.name} Nodes={fold_hostlist(line.nodes)}" for line in leaves]
    if leaves:
        out.append(f"BlockSizes={','.join(map(str, block_sizes([len(line.nodes) for line in leaves])))}")
    write_text(path, "\n".join(out) + "\n")
    return [*notes, "blocks do not describe the switches above the leaves"]


def block_sizes(nodes: list[int]) -> list[int]:
    """Return the values of ``BlockSizes``: the size of a block, and of groups of 2, 4, 8 … blocks,
    as NVIDIA's Topograph writes them. ``nodes`` is the number of nodes in each block."""
    return [min(nodes) << doubled for doubled in range(len(nodes).bit_length())]


def tree(fabric: Fabric) -> tuple[list[Line], list[str]]:
    """Return (lines, notes). Lines of leaves come first."""
    notes: list[str] = []
    leaf_hosts = _hosts(fabric, notes)
    names = _names(fabric)
    lines = [
        Line(names[leaf], sorted(sorted(hosts), key=natural_key), [], [leaf])
        for leaf, hosts in sorted(leaf_hosts.items())
    ]
    height = _heights(fabric, list(leaf_hosts))
    links = _switch_links(fabric)
    part = {leaf: line.name for leaf, line in zip(sorted(leaf_hosts), lines, strict=True)}
    spines = 0
    for level in range(int(height.max(initial=0)) + 1 if leaf_hosts else 0):
        for members in _components(height, links, level):
            children = list(dict.fromkeys(part[n] for n in members if n in part))
            if len(children) == 1:
                part.update(dict.fromkeys(members, children[0]))
                continue
            tops = [n for n in members if height[n] == level and n not in leaf_hosts] or members
            if len(tops) == 1:
                name = names[tops[0]]
            else:
                spines += 1
                name = _fresh(f"spines{spines}", set(names.values()))
            lines.append(Line(name, [], sorted(sorted(children), key=natural_key), tops))
            part.update(dict.fromkeys(members, name))
    roots = sorted(sorted({part[leaf] for leaf in leaf_hosts}), key=natural_key)
    if len(roots) > 1:
        notes.append(f"these trees are separate, because no switch joins them: {', '.join(roots[:20])}")
    return lines, notes


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "x"
    return name


def _switch_name(fabric: Fabric, node: int) -> str:
    desc = fabric.node_name(node)
    return _BAD.sub("_", next(iter(spoken_names(desc)), desc).removesuffix("/U1"))


def _names(fabric: Fabric) -> dict[int, str]:
    """Return the name of each switch node. A name that is not unique (of a chassis, or a default
    description) is replaced by S-GUID, as in ibnetdiscover."""
    switches = fabric.switch_node.tolist()
    name_of = {n: _switch_name(fabric, n) for n in switches}
    often = Counter(name_of.values())
    return {n: name if often[name] == 1 else f"S-{int(fabric.node_guid[n]):016x}" for n, name in name_of.items()}


def _hosts(fabric: Fabric, notes: list[str]) -> dict[int, list[str]]:
    """Return the hosts under each leaf switch."""
    at: dict[str, list[tuple[str, int]]] = {}
    often = Counter(fabric.node_names())
    for node in np.flatnonzero(fabric.is_host).tolist():
        desc = fabric.node_name(node)
        host = next(iter(spoken_names(desc)), "")
        if not host:
            # Default descriptions are the same on every host; only their GUIDs distinguish them.
            host = desc.removesuffix("/U1") if often[desc] == 1 else f"H-{int(fabric.node_guid[node]):016x}"
        host = _BAD.sub("_", host)
        peers = [int(fabric.port_peer[p]) for p in fabric.ports_of(node)]
        leaves = [int(fabric.port_node[q]) for q in peers if q >= 0 and fabric.is_switch[fabric.port_node[q]]]
        at.setdefault(host, []).extend((desc, leaf) for leaf in leaves)
    apart = _apart(fabric)
    links_of = Counter(apart[leaf] for links in at.values() for _, leaf in links)
    hosts: dict[int, list[str]] = {}
    many = several = 0
    for host, links in at.items():
        if not links:
            notes.append(f"host {host} has no link to a switch and is omitted")
            continue
        count = Counter(leaf for _, leaf in links)
        rank = {leaf: (links_of[apart[leaf]], n) for leaf, n in count.items()}
        most = max(rank.values())
        first = min((x for x in links if rank[x[1]] == most), key=lambda x: (natural_key(x[0]), x[0]))
        hosts.setdefault(first[1], []).append(host)
        many += len(count) > 1
        several += len({apart[leaf] for leaf in count}) > 1
    if many:
        notes.append(
            f"{counted(many, 'host')} are on several leaves; Slurm's tree lists each under one leaf, chosen by most "
            f"links, then first adapter"
        )
    if several:
        notes.append(
            f"{counted(several, 'host')} are on several fabrics that no switch connects, for example compute and "
            f"storage; each is listed in the fabric with most host links"
        )
    return hosts


def _switch_links(fabric: Fabric) -> np.ndarray:
    """Return the two nodes of every cable between switches (int[2, n])."""
    ports = fabric.cable_port[(fabric.cable_port >= 0).all(axis=1)]
    nodes = fabric.port_node[ports]
    return nodes[fabric.is_switch[nodes].all(axis=1)].T.astype(np.int64)


def _apart(fabric: Fabric) -> dict[int, int]:
    """Return the index of the connected fabric that contains each switch."""
    inside = np.where(fabric.is_switch, 0, -1)
    parts = _components(inside, _switch_links(fabric), 0)
    return {node: i for i, part in enumerate(parts) for node in part}


def _heights(fabric: Fabric, leaves: list[int]) -> np.ndarray:
    """Return the distance of each switch from the nearest leaf, or a huge number if it reaches no
    leaf."""
    unreached = np.iinfo(np.int64).max
    height = np.full(fabric.sizes.nodes, unreached)
    height[leaves] = 0
    a, b = _switch_links(fabric)
    for level in range(fabric.sizes.switches):
        adjacent = np.concatenate([b[height[a] == level], a[height[b] == level]])
        new = adjacent[height[adjacent] == unreached]
        if not len(new):
            break
        height[new] = level + 1
    return np.where(height == unreached, -1, height)


def _components(height: np.ndarray, links: np.ndarray, level: int) -> list[list[int]]:
    """Return the connected parts of the switches up to height ``level``. Switches of a part ascend,
    and parts are in the order of their first switch."""
    inside = (height >= 0) & (height <= level)
    a, b = links[:, inside[links].all(axis=0)] if links.size else links
    label = np.arange(len(height))
    while True:  # labels converge to the minimum of each part; with pointer jumping, few iterations are needed
        before = label.copy()
        np.minimum.at(label, a, label[b])
        np.minimum.at(label, b, label[a])
        label = label[label]
        if (label == before).all():
            break
    parts: dict[int, list[int]] = {}
    for node in np.flatnonzero(inside).tolist():
        parts.setdefault(int(label[node]), []).append(node)
    return list(parts.values())


def fold_hostlist(names: list[str]) -> str:
    """Fold ``node1, node2, node4`` to ``node[1-2,4]``, as ``scontrol show hostlist`` does. Numbers
    keep their leading zeros."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    order: list[tuple[str, str, int] | str] = []
    padded = {
        (m.group(1), m.group(3), len(m.group(2)))
        for n in names
        if (m := _NUMBERED.match(n)) and m.group(2)[0] == "0" and len(m.group(2)) > 1
    }
    for name in dict.fromkeys(names):
        match = _NUMBERED.match(name)
        if match is None or _GUID_NAME.match(name):
            order.append(name)
            continue
        prefix, digits, suffix = match.groups()
        key = (prefix, suffix, len(digits) if (prefix, suffix, len(digits)) in padded else 0)
        if key not in groups:
            order.append(key)
        groups.setdefault(key, []).append(int(digits))
    return ",".join(x if isinstance(x, str) else _folded(x, sorted(groups[x])) for x in order)


def _folded(key: tuple[str, str, int], numbers: list[int]) -> str:
    prefix, suffix, width = key
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][1] + 1 == n:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]:0{width}d}{suffix}"
    inside = ",".join(f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs)
    return f"{prefix}[{inside}]{suffix}"


def expand_hostlist(text: str) -> list[str]:
    """Return the names in a hostlist that has at most one bracket per name. This is the inverse of
    :func:`fold_hostlist`."""
    out: list[str] = []
    for item in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)?|\[[^\]]*\][^,\[\]]*", text):
        match = re.match(r"^([^\[]*)\[([^\]]*)\](.*)$", item)
        if match is None:
            out.append(item)
            continue
        for run in match.group(2).split(","):
            first, _, last = run.partition("-")
            out += [
                f"{match.group(1)}{n:0{len(first)}d}{match.group(3)}" for n in range(int(first), int(last or first) + 1)
            ]
    return out
