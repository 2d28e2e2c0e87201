"""Finds absent nodes: a number is missing in a row of names, and ports are free where this node would be cabled. A dump
contains neither a dead switch or host nor its cables. Two traces remain: an unused number between two used numbers, and
free ports between the ports of the nodes with these two numbers. Only both together are reported, because sites skip
numbers, and free ports may be spare.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.diags.labels import LONGEST, Labels, NodeClass, make_class
from softib.diags.structure.absent_ports import (
    ALL_FREE,
    MIN_ROW,
    Absent,
    fill_ports,
    in_use_elsewhere,
    is_free,
    left_by_a_switch,
)
from softib.diags.structure.host_strides import HostStride
from softib.diags.structure.row_links import RowLinks
from softib.diags.view import FabricView

__all__ = ["missing_names", "name_between"]

MAX_GAP = 4
"""Maximum length of a gap in a row of numbers. Longer gaps result from the numbering of racks."""
DENSE, SPARSE = 0.7, 0.5
"""Minimum share of a row's numbers that are in use. The second, lower share is enough if the gap has at least
:data:`MIN_PORTS_OF_SHORT_ROW` ports and all of them are free.
"""
SHORT_ROW, MIN_PORTS_OF_SHORT_ROW = 3, 6
"""A row with fewer members than ``SHORT_ROW`` is short. Its missing member is reported only if at least
``MIN_PORTS_OF_SHORT_ROW`` ports are free at its position.
"""
MIN_SWITCH_PORTS = 2
"""Minimum number of free ports at the position of an absent switch. A single free port may belong to any missing
cable."""
MOST_FREE, FREE_SHARE = 2, 0.05
"""Maximum number of free positions of a grid, or maximum share of its positions, for these to be absent switches."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Gap:
    """An unused ``number`` in the column ``along`` of a class: the ``nth`` of ``step`` steps from the node ``before``
    to the node ``after``. At the end of a row, the number is beyond both nodes. ``dense``: most numbers of the row are
    in use. ``beyond``: the gap is before or after all members of a class with only one row.
    """

    before: int
    after: int
    nth: int
    step: int
    along: int
    number: int
    dense: bool
    beyond: bool = False


def missing_names(view: FabricView, labels: Labels, rank: np.ndarray) -> list[Absent]:
    """Return the absent nodes that names and free ports indicate, in the order of their classes. ``rank``: tier of each
    node.
    """
    names = set(view.names)
    found: dict[str, Absent] = {}
    for made in [*labels.classes, *_host_classes(view)]:
        if len(made.nodes) < SHORT_ROW or view.is_sharp[made.nodes[0]]:
            continue
        if made.by_ports:
            found |= {f"place {i}": absent for i, absent in enumerate(_free_positions(view, made))}
            continue
        rows: dict[int, RowLinks] = {}
        strides: dict[int, HostStride] = {}
        for gap in _gaps(made):
            name = name_between(view.names[gap.before], view.names[gap.after], gap.nth, gap.step)
            if name is None or name in names:
                continue
            direct: list[int] = []
            if view.is_switch[gap.before] and not gap.beyond:
                if gap.along not in rows:
                    rows[gap.along] = RowLinks(view, made, gap.along)
                direct = rows[gap.along].expected_ports(gap.before, gap.number)
            if direct:  # in a grid, the switch is a gap in several rows
                _add(found.setdefault(name, Absent(name, gap.before, gap.after)), view, direct)
                continue
            known = found.get(name)
            shared = view.names[gap.before] in view.host_descriptions
            at_end = not 0 < gap.nth < gap.step
            if (
                gap.beyond
                and gap.nth < 0
                and _lowest_number([name, view.names[gap.before]]) < _start(view, labels, made)
            ):
                continue
            if (at_end and not view.is_switch[gap.before]) or (
                known and (gap.before in known.neighbours or not shared)
            ):
                continue
            absent = Absent(name, gap.before, gap.after)
            fill_ports(view, rank, absent, gap.nth, gap.step)
            if view.is_host[gap.before] and not absent.port_count:
                if gap.along not in strides:
                    strides[gap.along] = HostStride(view, made, gap.along)
                if is_free(view, port := strides[gap.along].port_of(gap.before, gap.after, gap.number)):
                    absent.ports, absent.port_count, absent.across = [port], 1, True
            if absent.at_edge and view.is_host[gap.before] and not _in_its_run(view, made, gap):
                continue
            if at_end and not (absent.ports and in_use_elsewhere(view, rank, absent.ports, gap.beyond)):
                if not gap.beyond or not left_by_a_switch(view, rank, absent):
                    continue
                absent.sure = False
            if gap.beyond and (
                len(absent.ports) < absent.port_count or (gap.nth > 0 and rank[gap.before] == 1)
            ):  # a site adds leaves at the end of a row
                continue
            if not _believed(view, absent, made, gap):
                continue
            if known:  # another adapter of a host whose adapters share its name
                known.ports += absent.ports
                known.port_count += absent.port_count
                known.neighbours.add(gap.before)
            else:
                found[name] = absent
                absent.neighbours.add(gap.before)
    return [a for a in found.values() if len(a.ports) >= max(1, ALL_FREE * a.port_count, MIN_SWITCH_PORTS * a.in_grid)]


def _free_positions(view: FabricView, made: NodeClass) -> Iterator[Absent]:
    """Yield an absent switch for each free position of a grid, if there are few."""
    taken = np.zeros(tuple(made.span.tolist()), bool)
    taken[tuple(made.numbers.T)] = True
    free = np.argwhere(~taken)
    if len(free) > max(MOST_FREE, FREE_SHARE * taken.size):
        return
    rows = [RowLinks(view, made, k) for k in range(len(made.span))] if len(free) else []
    for place in free:
        in_line = (np.delete(made.numbers != place, k, axis=1) for k in range(len(rows)))
        members_in_line = [np.flatnonzero(~apart.any(axis=1)) for apart in in_line]
        neighbours = [int(made.nodes[members[0]]) for members in members_in_line if len(members)]
        if neighbours:
            absent = Absent("", neighbours[0], neighbours[-1])
            for k, members in enumerate(members_in_line):
                if len(members):
                    _add(absent, view, rows[k].expected_ports(int(made.nodes[members[0]]), int(place[k])))
            yield absent


def _believed(view: FabricView, absent: Absent, made: NodeClass, gap: Gap) -> bool:
    """Return whether enough of the ports at the position of ``absent`` are free."""
    least = MIN_SWITCH_PORTS if view.is_switch[gap.before] else 1
    if len(made.nodes) < MIN_ROW or not gap.dense:
        least = MIN_PORTS_OF_SHORT_ROW
    share = ALL_FREE if gap.dense else 1.0
    return len(absent.ports) >= max(least, share * absent.port_count)


def _start(view: FabricView, labels: Labels, node_class: NodeClass) -> float:
    """Return the number at which a site begins to count: the lowest in the rows of its other
    switches, or of its hosts if there are none."""
    others = [x for x in labels.classes if x is not node_class and not x.by_ports]
    switches = [x for x in others if view.is_switch[x.nodes[0]]]
    return min((_lowest_number([view.names[n] for n in x.nodes]) for x in switches or others), default=math.inf)


def _lowest_number(names: list[str]) -> int:
    """Return the lowest number by which ``names`` of one form differ."""
    numbers = np.array([[min(int(x), LONGEST) for x in _NUMBER.findall(n)] for n in names], np.int64)
    return int(numbers[:, numbers.min(axis=0) < numbers.max(axis=0)].min())


def _in_its_run(view: FabricView, node_class: NodeClass, gap: Gap) -> bool:
    """Return whether the number of ``gap`` is within the row of names that differ only in another number. A number next
    to the end of the row counts as within it if most rows continue there and the row is on several leaves (the adapters
    of a host). Otherwise, the rows may end differently by design, because leaves are filled to different degrees."""
    x = node_class.numbers[:, gap.along]
    if len(np.unique(x)) == len(x):
        return True
    numbers = node_class.numbers[node_class.nodes == gap.before][0].copy()
    numbers[gap.along] = gap.number
    for t in np.delete(np.arange(len(numbers)), gap.along).tolist():
        others = np.delete(node_class.numbers, t, axis=1)
        of_row = (others == np.delete(numbers, t)).all(axis=1)
        row = node_class.numbers[of_row, t]
        if not len(row) or not row.min() - 1 <= numbers[t] <= row.max() + 1:
            return False
        if not row.min() <= numbers[t] <= row.max():
            lines = np.unique(others, axis=0, return_inverse=True)[1].reshape(-1)
            having = np.unique(lines[node_class.numbers[:, t] == numbers[t]])
            leaves = {_leaf_of(view, n)[0] for n in node_class.nodes[of_row].tolist()}
            if 2 * len(having) <= lines.max() + 1 or len(leaves) < min(2, len(row)):
                return False
    return True


def _host_classes(view: FabricView) -> Iterator[NodeClass]:
    """Yield classes of hosts whose adapters all have the host's name: one class has the first adapter of each host, the
    next one the second adapter, and so on. Adapters of a host are in the order of their leaves, because adjacent hosts
    use the same leaves.
    """
    hosts: dict[str, list[int]] = {}
    for node in np.flatnonzero(view.is_host).tolist():
        shared = view.host_descriptions.get(view.names[node])
        if shared and shared.carriers == shared.usual:
            hosts.setdefault(view.names[node], []).append(node)
    forms: dict[str, list[list[int]]] = {}
    for name, nodes in hosts.items():
        forms.setdefault(view.host_descriptions[name].form, []).append(sorted(nodes, key=lambda n: _leaf_of(view, n)))
    for form, rows in forms.items():
        for column in zip(*rows, strict=True):
            made = make_class(form, np.array(column), [view.names[n] for n in column])
            if made is not None:
                yield made


def _leaf_of(view: FabricView, adapter: int) -> tuple[int, int]:
    """Return (node, port number) at the other end of an adapter's first cable; (-1, 0) if there is none."""
    f = view.fabric
    peers = [int(f.port_peer[p]) for p in f.ports_of(adapter) if f.port_peer[p] >= 0]
    return (int(f.port_node[peers[0]]), int(f.port_num[peers[0]])) if peers else (-1, 0)


def _gaps(made: NodeClass) -> Iterator[Gap]:
    """Return the missing numbers of each row. A row consists of the members that differ only in one number. If one
    number distinguishes all members, all are one row.
    """
    for s in range(made.numbers.shape[1]):
        x = made.numbers[:, s]
        alone = len(np.unique(x)) == len(x)
        others = np.zeros(len(x), np.int64) if alone else made.numbers @ made.stride - x * made.stride[s]
        order = np.lexsort((x, others))
        line = np.unique(others, return_inverse=True)[1].reshape(-1)
        size = np.bincount(line)
        low, high = np.full(len(size), np.iinfo(np.int64).max), np.zeros(len(size), np.int64)
        np.minimum.at(low, line, x)
        np.maximum.at(high, line, x)
        share = size / (high - low + 1)
        before, after = order[:-1], order[1:]
        step = x[after] - x[before]
        same = line[before] == line[after]
        alike = np.ones(len(size), np.bool_)  # rows numbered 1, 3, 5 … have no gaps
        alike[line[before][same & (step == 1)]] = False
        good = (size >= SHORT_ROW) & ((share >= DENSE) | (share >= SPARSE) & ~alike)
        gap = same & (step > 1) & (step <= MAX_GAP + 1) & good[line[before]]
        for i in np.flatnonzero(gap).tolist():
            a, b = int(before[i]), int(after[i])
            for k in range(1, int(step[i])):
                dense = bool(share[line[a]] >= DENSE)
                yield Gap(int(made.nodes[a]), int(made.nodes[b]), k, int(step[i]), s, int(x[a]) + k, dense)
        if len(size) >= SHORT_ROW:
            yield from _ends(made, s, order[np.flatnonzero(same & (step == 1))], line, low, high)
        elif len(size) == 1 and good.all() and step[0] == step[-1] == 1:
            first, second, last_but_one, last = made.nodes[order[[0, 1, -2, -1]]].tolist()
            yield Gap(first, second, -1, 1, s, -1, True, beyond=True)
            yield Gap(last_but_one, last, 2, 1, s, int(high[0]) + 1, True, beyond=True)


def _ends(
    made: NodeClass, s: int, stepping: np.ndarray, line: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Iterator[Gap]:
    """Yield the gaps at the ends of rows: a row begins one number later, or ends one number earlier, than most rows.
    ``stepping``: members whose next number in the row exists.
    """
    x = made.numbers[:, s]
    first, last = int(np.median(low)), int(np.median(high))
    for a in stepping.tolist():
        row = line[a]
        for at_end, number in ((x[a] == low[row] == first + 1, first), (x[a] + 1 == high[row] == last - 1, last)):
            if at_end:
                step = made.numbers[a].copy()
                step[s] += 1
                after = int(made.nodes[made.find(step[None])[0]])
                yield Gap(int(made.nodes[a]), after, number - int(x[a]), 1, s, number, True)


def name_between(before: str, after: str, k: int, gap: int) -> str | None:
    """Return the name ``k`` of ``gap`` steps from ``before`` to ``after``, None if the numbers do
    not have equal steps, or the name would have a negative number.

    Other numbers that differ (racks) keep the value of ``before``.
    """
    low, high = _NUMBER.findall(before), _NUMBER.findall(after)
    stepped = False
    numbers = []
    for a, b in zip(low, high, strict=True):
        if int(b) - int(a) == gap:
            if int(a) + k < 0:
                return None
            numbers.append(str(int(a) + k).zfill(len(a) if a.startswith("0") or len(a) == len(b) else 0))
            stepped = True
        else:
            numbers.append(a)
    if not stepped:
        return None
    parts = iter(numbers)
    return _NUMBER.sub(lambda _: next(parts), before)


def _add(absent: Absent, view: FabricView, ports: list[int]) -> None:
    absent.in_grid = True
    absent.port_count += len(ports)
    absent.ports += [p for p in ports if is_free(view, p)]
