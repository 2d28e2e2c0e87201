"""Reports cables that are missing in grids and dragonflies according to their shape, and shapes that cannot show
whether a cable is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.context import Context
from softib.diags.finding import MANY, Finding, few, finding
from softib.diags.structure.joins import Joins, Unjoined, joins, lacking
from softib.diags.structure.pattern import NO_OPINION
from softib.diags.structure.structure_checks import MISSING_CABLE, UNJUDGED_CABLES
from softib.plural import counted

__all__ = ["missing_joins", "unexplained_cables", "unjudged_shapes"]

EXCEPTIONS = 1 / 6
"""Maximum share of a shape's cables that may be missing; if more are missing, they are not reported as faults."""

FEWEST = 3
"""Minimum number of switches of a shape. The cables between two switches cannot be compared with others."""


def missing_joins(c: Context) -> Iterator[Finding]:
    """Report joins (pairs of switches or groups that the recognised shape connects) with fewer cables than similar
    joins, unless another finding about cables names their switches.
    """
    view, shape = c.view, c.structure.shape
    compared = joins(view, shape)
    node = view.fabric.port_node
    named = {int(node[p]) for p in c.seen.get("cables", ())}
    named |= {int(node[p]) for pair in c.suspects.missing for p in pair}
    present = (u.without(c.seen.get("of absent switches", ())) for u in compared.missing)
    lacks = lacking(view, shape)
    left = [
        u
        for u in present
        if u.ports_a and u.ports_b and not named & {*u.nodes_a, *u.nodes_b} and lacks[[*u.nodes_a, *u.nodes_b]].all()
    ]
    if c.suspects.exchanged:  # all cables of exchanged switches are in wrong places
        return
    moved = _one_moved(c, compared)
    if moved and not c.suspects.doubtful:
        yield _moved(c, compared.missing[0], moved, _shape_text(c))
        return
    if not left or compared.uneven:
        return
    shape_text = _shape_text(c)
    if len(compared.missing) <= EXCEPTIONS * compared.wanted:
        yield from (_missing(c, u, shape_text) for u in left)
        return
    if len(compared.missing) > 1:
        return
    ports = list(dict.fromkeys(p for u in left for p in (*u.ports_a, *u.ports_b)))
    free = [str(view.location(p)) for p in ports]
    yield finding(
        UNJUDGED_CABLES,
        [view.location(p) for p in ports],
        f"one of {counted(compared.wanted, 'cable')} between the switches of a {shape_text} is missing; with so few "
        f"cables, this may be intended; free ports: {few(free, MANY)}",
        {"missing": len(compared.missing), "of": compared.wanted, "free": free},
    )


def _without_a_rule(c: Context, cables: np.ndarray, of: int) -> Iterator[Finding]:
    """Report in one finding the cables that no rule explains, in a network of switches that matches no topology."""
    if not len(cables):
        return
    view = c.view
    ends = [(int(view.port_a[i]), int(view.port_b[i])) for i in cables]
    links = [view.link_name(*ports) for ports in ends]
    yield finding(
        UNJUDGED_CABLES,
        [view.location(p) for ports in ends for p in ports],
        f"{len(links)} of {counted(of, 'cable')} between switches fit no topology and no rule: {few(links, MANY)}",
        {"cables": links, "of": of},
    )


def _one_moved(c: Context, compared: Joins) -> list[int]:
    """Return the cables of which one may be misplaced and missing elsewhere: the cables of the only join that has one
    cable more than most, or the only cable between switches that are not neighbours.
    """
    if len(compared.missing) != 1:
        return []
    extra = compared.extra_cables(c.view, c.structure.shape)
    if [more for _, more in compared.surplus] == [1] and not extra:
        cables = list(compared.surplus[0][0])
    else:
        cables = extra if len(extra) == 1 and not compared.surplus else []
    done = c.seen.get("cables", set())
    return [] if any({int(c.view.port_a[i]), int(c.view.port_b[i])} & done for i in cables) else cables


def _moved(c: Context, u: Unjoined, cables: list[int], shape_text: str) -> Finding:
    view = c.view
    ends = [(int(view.port_a[i]), int(view.port_b[i])) for i in cables]
    links = [view.link_name(*ports) for ports in ends]
    sides = [few(sorted({view.display_names[n] for n in nodes}), MANY) for nodes in (u.nodes_a, u.nodes_b)]
    which = links[0] if len(links) == 1 else f"one of {few(links, MANY)}"
    return finding(
        UNJUDGED_CABLES,
        [view.location(p) for p in (*(p for ports in ends for p in ports), *u.ports_a, *u.ports_b)],
        f"a {shape_text} has one more cable between {' and '.join(sides)}, and has no place for {which}: one cable "
        f"may be misplaced",
        {"cables": links, "free": [[str(view.location(p)) for p in ports] for ports in (u.ports_a, u.ports_b)]},
    )


def _missing(c: Context, u: Unjoined, shape_text: str) -> Finding:
    view = c.view
    first, second = ([view.location(p) for p in ports] for ports in (u.ports_a, u.ports_b))
    evidence = {"pattern": shape_text, "free": [[str(p) for p in side] for side in (first, second)]}
    if u.certain:
        c.seen.setdefault("missing", []).append((u.ports_a[0], u.ports_b[0]))
        text = f"{view.link_name(u.ports_a[0], u.ports_b[0])}: there is no cable, but a {shape_text} has one"
    else:
        sides = (few(map(str, side), MANY) for side in (first, second))
        text = f"a {shape_text} has one more cable between {' and '.join(f'one of {side}' for side in sides)}"
    return finding(MISSING_CABLE, [*first, *second], text, evidence)


def _shape_text(c: Context) -> str:
    shape = c.structure.shape
    return f"{shape.kind} of " + (" × ".join(map(str, shape.dims)) if shape.dims else counted(shape.groups, "group"))


def unjudged_shapes(c: Context) -> Iterator[Finding]:
    """Report shapes that cannot show whether a cable is missing: a chain, which may be a ring without one cable, and
    switches that match no rule and no topology.
    """
    view, f, shape = c.view, c.view.fabric, c.structure.shape
    links = view.between_switches
    ends = np.concatenate([view.port_a[links], view.port_b[links]])
    if shape.kind == "mesh" and shape.forms == ("path",):
        x = shape.coordinates[:, 0]
        nodes = np.array([int(np.flatnonzero(x == i)[0]) for i in (0, shape.dims[0] - 1)])
        text = f"{counted(len(links), 'cable')} join {shape.dims[0]} switches in a chain: a mesh, or a ring without one"
    elif shape.kind == "irregular" and len(np.unique(f.port_node[ends])) >= FEWEST:
        ruled = c.pattern.expected[ends] != NO_OPINION
        if ruled.mean() > 0.5:
            astray = ruled & (c.pattern.expected[ends] != f.port_node[f.port_peer[ends]])
            unruled = ~ruled.reshape(2, -1).any(axis=0)
            if not unruled.any() and not _named_nodes(c):
                unruled = astray.reshape(2, -1).any(axis=0)
            yield from _without_a_rule(c, links[unruled], len(links))
            return
        nodes = np.unique(f.port_node[ends])
        text = f"{counted(len(links), 'cable')} between {counted(len(nodes), 'switch')} fit no topology and no rule"
    else:
        return
    ports = np.flatnonzero(np.isin(f.port_node, nodes) & (f.port_cable < 0) & (f.port_num > 0))
    if c.seen.get("missing"):
        return
    if len(np.unique(f.port_node[ports])) < 2:
        if shape.kind == "irregular":
            yield finding(
                UNJUDGED_CABLES,
                map(view.location, np.sort(ends).tolist()),
                f"{text}: wrong cables are not named",
                {"cables": len(links), "free": []},
            )
        return
    free = [str(view.location(p)) for p in ports.tolist()]
    yield finding(
        UNJUDGED_CABLES,
        [view.location(p) for p in ports.tolist()],
        f"{text}; a missing cable is not seen; free: {few(free, MANY)}",
        {"cables": len(links), "free": free},
    )


def unexplained_cables(c: Context) -> Iterator[Finding]:
    """Report the cables of a grid between switches that are not neighbours, if no finding names any of these switches.
    If a shape was found from port numbers and many cables do not match it, report all of its cables, because several
    wrong cables can look like another network.
    """
    view, shape, node = c.view, c.structure.shape, c.view.fabric.port_node
    by_ports, named = c.structure.labels.by_ports, _named_nodes(c)
    if not (shape.forms or (by_ports and shape.kind == "dragonfly")):
        return
    compared = joins(view, shape)
    rows = view.between_switches
    inside = shape.coordinates[:, 0] >= 0 if shape.forms else shape.group >= 0
    unjoined = [u for u in compared.missing if not named & {*u.nodes_a, *u.nodes_b}]
    vacant = int(np.prod(shape.dims)) - int((inside & view.is_switch).sum()) if shape.forms else 0
    if by_ports and not named and (vacant or (not shape.forms and (compared.uneven or unjoined))):
        astray = rows.tolist()
        text = f"{counted(len(rows), 'cable')} fit a {_shape_text(c)} only in part, and are not judged"
    else:
        beyond = rows[~inside[view.node_a[rows]] | ~inside[view.node_b[rows]]].tolist() if by_ports else []
        astray = sorted({*compared.extra_cables(view, shape), *beyond})
        text = "{} of " + f"{counted(len(rows), 'cable')} between switches have no place in a {_shape_text(c)}"
    ends = [(int(view.port_a[i]), int(view.port_b[i])) for i in astray]
    ends = [pair for pair in ends if not named & {int(node[p]) for p in pair}]
    if not ends:
        return
    text = text.format(len(ends))
    links = [view.link_name(*pair) for pair in ends]
    yield finding(
        UNJUDGED_CABLES,
        [view.location(p) for pair in ends for p in pair],
        f"{text}: {few(links, MANY)}",
        {"cables": links, "of": len(rows), "missing": len(unjoined)},
    )


def _named_nodes(c: Context) -> set[int]:
    """Return the nodes that findings about cables and absent switches name."""
    view, node = c.view, c.view.fabric.port_node
    ports = {p for key in ("cables", "of absent switches") for p in c.seen.get(key, ())}
    ports |= {p for pair in c.seen.get("missing", ()) for p in pair}
    ports |= {int(p) for kind in c.suspects.unjudged for i in kind.cables for p in (view.port_a[i], view.port_b[i])}
    ports |= {p for m in c.suspects.doubtful for p in (m.a, m.b, m.vacancy)}
    return {int(node[p]) for p in ports} | {n for x in c.suspects.exchanged for n in x.switches}
