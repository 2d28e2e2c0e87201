"""``file``: tables of a dump, by OpenSM's rules (an entry belongs to a PortGUID where the dump tells one)."""

from dataclasses import replace

import numpy as np

from softib.routing.engine import RouteOptions, route
from softib.routing.proof.verify import verify
from tests.routing.fabrics import clos, ring


def dump(g, lft, skip=()):
    """As dump_lfts prints tables."""
    lines = []
    for s in range(g.n_switches):
        if s in skip:
            continue
        lines.append(
            f"Unicast lids [0x0-0x{g.max_lid:x}] of switch Lid 9 guid 0x{int(g.switch_guid[s]):016x} ('S{s}'):"
        )
        lines += ["  Lid  Out   Destination", "       Port     Info "]
        for i in range(len(g.end_lid)):
            what = "Switch" if g.end_is_switch[i] else "Channel Adapter"
            port = lft[s, g.end_lid[i]]
            lines.append(
                f"0x{int(g.end_lid[i]):04x} {port:03d} : ({what} portguid 0x{int(g.end_guid[i]):016x}: 'x y [1]')"
            )
        lines.append(f"{len(g.end_lid)} valid lids dumped ")
    return "\n".join(lines) + "\n"


def test_a_dump_gives_its_own_tables():
    g = clos(4, 2, 3)
    lft = route(g, "ftree").lft
    r = route(g, "file", RouteOptions(lfts=dump(g, lft)))
    assert r.engine == "file" and (r.lft == lft).all() and r.notes == []


def test_an_entry_follows_its_port_to_another_lid():
    g = clos(4, 2, 3)
    lft = route(g, "ftree").lft
    text = dump(g, lft)
    lid = g.end_lid.copy()
    lid[:12] = np.roll(lid[:12], 1)
    order = np.argsort(lid)
    fields = (
        "end_lmc",
        "end_switch",
        "end_port",
        "end_is_switch",
        "end_guid",
        "end_node",
        "end_portnum",
        "end_is_compute",
    )
    other = replace(g, end_lid=lid[order], **{f: getattr(g, f)[order] for f in fields})
    r = route(other, "file", RouteOptions(lfts=text))
    assert verify(other, r.lft).ok and any("whose LID has changed" in n for n in r.notes)


def test_what_a_dump_lacks_is_counted():
    g = clos(4, 2, 3)
    text = dump(g, route(g, "ftree").lft, skip=(0,))
    r = route(
        g, "file", RouteOptions(lfts=text + "Unicast lids [0x0-0x1] of switch Lid 1 guid 0x00000000000000ff ('?'):\n")
    )
    assert (r.lft[0] == 255).all() and verify(g, r.lft).unreachable > 0
    assert [n[:4] for n in r.notes] == ["the ", "1 sw"]


def test_without_tables_of_these_switches_it_does_not_fit():
    for text in (
        "",
        "0x0001 001 : (x)\n",
        "no dump at all \x00\xff\n" * 50,
        dump(ring(3), route(ring(3), "minhop").lft, skip=(0, 1, 2)),
    ):
        r = route(clos(3, 2, 2), "file", RouteOptions(lfts=text))
        assert r.engine == "minhop" and r.notes[-1].startswith("file: ")


def test_entries_of_wild_lids_and_ports_are_left_out():
    g = ring(3)
    guid = int(g.switch_guid[0])
    text = f"Unicast lids [0-9] of switch Lid 1 guid {guid:#x} (''):\n0xffff 001 : (x)\n0x0001 999 : (x)\n0x0002 003 : (x)\n"
    r = route(g, "file", RouteOptions(lfts=text))
    assert r.lft[0, 2] == 3 and np.count_nonzero(r.lft != 255) == 1
