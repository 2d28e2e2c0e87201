"""Reports adapter ports without a link although most ports of their kind have one, and adapters without any link."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cables.links import host_classes
from softib.diags.context import Context
from softib.diags.finding import MANY, Finding, Severity, code, finding
from softib.diags.structure.absent_ports import is_free
from softib.diags.view import MIN_HOSTS, SAME, FabricView
from softib.fabric.identity import models
from softib.plural import counted, plural

UNLINKED_HCA_PORT = code(
    "unlinked-hca-port",
    Severity.WARNING,
    "an adapter's port has no link, unlike others of its kind (or an adapter is listed without links)",
    "check the cable and the transceiver, and that the switch port is enabled",
)
SCANS = ("ibnetdiscover", "ibsim", "lst", "db_csv", "iblinkinfo")
"""Formats of scans, which list only nodes that the scan reached. A listed node without a link is reported."""


def unlinked_hca_ports(c: Context) -> Iterator[Finding]:
    """Report an adapter port without a link if most ports with the same number on adapters of the same kind have
    one.
    """
    view, f = c.view, c.view.fabric
    if "unlinked" not in view.records:
        yield from _unlinked_nodes(view)
        yield from _unlisted_ports(c)
        return
    rows = np.flatnonzero(view.is_host[f.port_node])
    kind = models(f)[f.port_node[rows]] * 256 + f.port_num[rows]
    _, at = np.unique(kind, return_inverse=True)
    linked = f.port_cable[rows] >= 0
    share = np.bincount(at, linked) / np.bincount(at) if len(at) else np.zeros(0)
    bad = rows[~linked & (share[at] > 0.5)]
    bad = bad[np.argsort(view.port_place[bad])]
    wanted = c.pattern.expected[bad]
    place_of = {p: q for a, b in c.suspects.missing for p, q in ((a, b), (b, a))}
    by_switch: dict[int, list[int]] = {}
    for port, want in zip(bad.tolist(), wanted.tolist(), strict=True):
        by_switch.setdefault(want, []).append(port)
    for want, ports in by_switch.items():
        if len(ports) > MANY:
            hint = f"; the pattern puts them on {view.display_names[want]}" if want >= 0 else ""
            yield finding(
                UNLINKED_HCA_PORT,
                map(view.location, ports),
                f"{len(ports)} adapter ports have no link, {view.location(ports[0])} the first{hint}",
                {"expected": view.display_names[want] if want >= 0 else None, "ports": len(ports)},
            )
            continue
        for port in ports:
            where = [view.location(p) for p in (port, place_of.get(port, -1)) if p >= 0]
            right = str(where[1]) if len(where) > 1 else view.display_names[want] if want >= 0 else None
            hint = f"; the pattern joins it to {right}" if right else ""
            yield finding(UNLINKED_HCA_PORT, where, f"{where[0]} has no link{hint}", {"expected": right})


def _unlinked_nodes(view: FabricView) -> Iterator[Finding]:
    """Report adapters that a scan lists without any link. The scan reached them over a link, so a record is missing or
    the link was removed.
    """
    f = view.fabric
    cabled = np.bincount(f.port_node[f.port_cable >= 0], minlength=f.sizes.nodes) > 0
    lone = np.flatnonzero(view.is_host & ~cabled)
    lone = lone[np.argsort(view.node_place[lone])]
    if f.source.format not in SCANS or not len(lone) or not cabled.any():
        return
    evidence = {"listed": int(view.is_host.sum()), "unlinked": len(lone)}
    if len(lone) > MANY:
        yield finding(
            UNLINKED_HCA_PORT,
            map(view.node_location, lone.tolist()),
            f"{counted(len(lone), 'adapter')} {plural(len(lone), 'is', 'are')} listed without any link, "
            f"{view.display_names[int(lone[0])]} the first",
            evidence,
        )
        return
    for node in lone.tolist():
        yield finding(
            UNLINKED_HCA_PORT,
            [view.node_location(node)],
            f"{view.display_names[node]} is listed without any link",
            evidence,
        )


def _unlisted_ports(c: Context) -> Iterator[Finding]:
    """Report adapter ports that a scan does not list because they have no link, if nearly all adapters of their class
    have a link at this port number.
    """
    view, f = c.view, c.view.fabric
    if f.source.format not in SCANS:
        return
    linked = np.flatnonzero(view.is_host[f.port_node] & (f.port_cable >= 0))
    nodes = np.unique(f.port_node[linked])
    kind = np.stack([host_classes(c)[nodes], models(f)[nodes]])
    kind = np.unique(kind, axis=1, return_inverse=True)[1].reshape(-1)
    lacking: list[tuple[int, int, int, int]] = []
    for k in np.unique(kind).tolist():
        alike = nodes[kind == k]
        ports = linked[np.isin(f.port_node[linked], alike)]
        for number in np.unique(f.port_num[ports]).tolist() if len(alike) >= MIN_HOSTS else ():
            having = f.port_node[ports[f.port_num[ports] == number]]
            if SAME * len(alike) <= len(having) < len(alike):
                lacking += [(n, number, len(having), len(alike)) for n in np.setdiff1d(alike, having).tolist()]
    lacking.sort(key=lambda one: (int(view.node_place[one[0]]), one[1]))
    if len(lacking) > MANY:
        where = [view.location_on(node, number) for node, number, _, _ in lacking]
        yield finding(
            UNLINKED_HCA_PORT,
            where,
            f"{len(where)} adapter ports have no link, {where[0]} the first; nearly all of their kind have one",
            {"expected": None, "ports": len(where)},
        )
        return
    for node, number, having, of in lacking:
        place = _port_between(view, node, number)
        where = [view.location_on(node, number), *([view.location(place)] if place >= 0 else ())]
        hint = f"; the links of its neighbours put it on {where[1]}" if place >= 0 else ""
        yield finding(
            UNLINKED_HCA_PORT,
            where,
            f"{where[0]} has no link, {having} of {of} adapters of its kind have one there{hint}",
            {"expected": str(where[1]) if place >= 0 else None, "linked": having, "of": of},
        )


def _port_between(view: FabricView, node: int, number: int) -> int:
    """Return the free switch port to which port ``number`` of ``node`` probably belongs: the one between the switch
    ports of port ``number`` of neighbouring adapters; -1 if their links do not agree on one. An adapter is a neighbour
    if another of its ports is next to a port of ``node`` on a switch.
    """
    f = view.fabric
    ports = set[int]()
    for port in f.ports_of(node):
        at = int(f.port_peer[port])
        if at < 0 or not view.is_switch[f.port_node[at]]:
            continue
        for step in (-1, 1):
            sibling = int(f.port_peer[at + step]) if at + step in f.ports_of(int(f.port_node[at])) else -1
            if sibling < 0 or f.port_num[sibling] != f.port_num[port]:
                continue
            neighbour = int(f.port_node[sibling])
            if number > f.node_nports[neighbour]:
                continue
            peer = int(f.port_peer[f.node_base[neighbour] + number])
            if peer >= 0:
                ports.add(peer - step)
    (place, *others) = ports or (-1,)
    return place if not others and is_free(view, place) else -1
