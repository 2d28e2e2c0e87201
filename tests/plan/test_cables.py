"""Floor plans and the cables on them: laws of racks and ways, and the list that reads back as a plan."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.cabling_plan.compare import compare
from softib.errors import InputError
from softib.fabric.faults.inject import swap_cables
from softib.fabric.formats.cabling.plan import read_plan, write_plan
from softib.iba.catalogue import cable as catalogue_cable
from softib.plan.bill import Part, bill_of, spares
from softib.plan.cables import cables_of
from softib.plan.designs import Demand, candidates
from softib.plan.floor import read_floor
from softib.plan.placement import lay_out
from softib.plan.plugs import media_of
from softib.plan.price_book import read_book
from softib.plan.quote import check_quote, read_quote

DEMANDS = [
    *(Demand(n, 8) for n in (31, 40, 63)),
    *(Demand(n, 1, generation) for generation in ("EDR", "HDR", "NDR") for n in (30, 64, 100, 150, 200, 300)),
]
FLOOR = {"rows": 3, "racks": 16, "host": {"units": 2, "kw": 1.0}, "kw": 25}


def placed(demand: Demand, which: int = 0):
    fabric = candidates(demand).designs[which].fabric
    return fabric, lay_out([fabric], read_floor(FLOOR))[0]


@pytest.mark.parametrize("demand", DEMANDS, ids=str)
def test_the_list_reads_back_as_the_plan_and_a_swap_is_its_only_finding(demand, tmp_path):
    """Twenty-one designs: as designed = as built; two exchanged plugs are the only findings."""
    fabric, layout = placed(demand)
    plan = cables_of(fabric, layout, demand.generation).plan()
    write_plan(plan, tmp_path / "list.csv")
    back = read_plan(tmp_path / "list.csv")
    assert not back.problems
    result = compare(fabric, back)
    assert result.ok and result.counts["matched"] == fabric.sizes.cables
    hosts = np.flatnonzero((fabric.switch_of_node[fabric.port_node[fabric.cable_port]] < 0).any(axis=1))
    a, b = (fabric.port_name(int(fabric.cable_port[hosts[i]].max())) for i in (0, -1))
    swap_cables(fabric, a, b)
    wrong = compare(fabric, back)
    assert wrong.counts["swapped"] == 2 and wrong.counts["matched"] == fabric.sizes.cables - 2


@pytest.mark.slow
@pytest.mark.parametrize("demand", DEMANDS, ids=str)
def test_every_planted_swap_is_the_only_finding(demand, tmp_path):
    """Forty exchanges of two plugs a design, between any two cables and either ends: the plan names both cables and no
    other."""
    fabric, layout = placed(demand)
    write_plan(cables_of(fabric, layout, demand.generation).plan(), tmp_path / "list.csv")
    plan = read_plan(tmp_path / "list.csv")
    random = np.random.default_rng(35)
    for _ in range(40):
        built = fabric.copy()
        cables, ends = random.choice(fabric.sizes.cables, 2, replace=False), random.integers(0, 2, 2)
        swap_cables(built, *(built.port_name(int(built.cable_port[c, e])) for c, e in zip(cables, ends, strict=True)))
        wrong = compare(built, plan).counts
        assert (wrong["swapped"], wrong["matched"]) == (2, fabric.sizes.cables - 2), (cables, ends, wrong)


OFFER = """Item;Description;Qty
1;MQM9700-NS2F Quantum-2 switch 64 ports;1
2;MCX75310AAS-NEAT ConnectX-7 adapter;{adapters}
3;Passive copper splitter cable OSFP to 2xOSFP, 1.5 m, MCP7Y00-N01A;{splitters}
4;Installation on site;1
"""


@pytest.mark.parametrize(
    ("offer", "lacks"),
    [
        ({"adapters": 16, "splitters": 8}, []),
        ({"adapters": 16, "splitters": 7}, [(8, 7)]),
        ({"adapters": 8, "splitters": 8}, [(16, 8)]),  # one adapter a host where the design has two rails
        ({"adapters": 16, "splitters": 16}, [(0, 8)]),  # a splitter a host port, though each serves two
    ],
)
def test_an_offer_by_hand(tmp_path, offer, lacks):
    """8 hosts with two ports each beside their switch: 16 adapters' ports, 8 splitters and a switch. Row 4 is no part."""
    demand = Demand(8, 2)
    fabric = candidates(demand).designs[0].fabric
    space = {"racks": 1, "rack_units": 9, "host": {"units": 1, "kw": 1}, "slack_m": 1, "adapters": 2}
    (layout,) = lay_out([fabric], read_floor(space))
    bill = bill_of([Part("NDR", 1, 16, tuple(cables_of(fabric, layout, "NDR").orders))], read_book())
    (tmp_path / "offer.csv").write_text(OFFER.format(**offer))
    differences, notes = check_quote(bill, read_quote(tmp_path / "offer.csv"))
    assert [(d.needed, d.offered) for d in differences] == lacks
    assert [note for note in notes if "Installation" in note] == notes and len(notes) == 1


@pytest.mark.parametrize("demand", DEMANDS, ids=str)
def test_laws_of_racks_and_cables(demand):
    fabric, layout = placed(demand)
    cables = cables_of(fabric, layout, demand.generation)
    floor = layout.floor
    for rack in range(floor.n_racks):
        units = [u for e in layout.elevations if e.rack == rack for u in range(e.u, e.u + e.units)]
        assert len(units) == len(set(units)) and all(1 <= u <= floor.rack_units for u in units)
    assert (layout.kw <= floor.kw).all()
    assert (cables.length_m >= cables.path_m - 1e-9).all()
    for medium, metres, _ in cables.by_kind():
        assert metres <= catalogue_cable(medium, demand.generation).reach_m
    # Every cage of a switch holds one kind of plug.
    kinds: dict[int, set[str]] = {}
    media = media_of(demand.generation)
    for ends, hosts, kind in zip(
        cables.links.cages.tolist(), cables.links.host.tolist(), cables.kind.tolist(), strict=True
    ):
        for cage, is_host in zip(ends, hosts, strict=True):
            if not is_host:
                kinds.setdefault(cage, set()).add(media[kind].medium)
    assert all(len(k) == 1 for k in kinds.values())


def test_a_way_by_hand():
    """Two racks side by side, both devices at the top unit: 0.5 m up, 0.6 m along, 0.5 m down, 0.5 m of slack."""
    fabric = candidates(Demand(2, 1, "NDR")).designs[0].fabric
    floor = read_floor(
        {
            "racks": 2,
            "rack_units": 10,
            "host": {"units": 1, "kw": 1},
            "placed": [
                {"node": "leaf-1", "rack": "A01", "u": 10},
                {"node": "host-0001", "rack": "A02", "u": 10},
                {"node": "host-0002", "rack": "A01", "u": 9},
            ],
        }
    )
    cables = cables_of(fabric, lay_out([fabric], floor)[0], "NDR")
    assert sorted(cables.path_m.round(5).tolist()) == [0.54445, 2.1]
    (order,) = cables.orders  # one splitter serves both hosts: the longer leg
    assert (order.role, order.metres, order.count) == ("splitter", 2.5, 1)


def test_another_room_and_a_bend_by_hand():
    """Rows of two rooms, tops of two racks: 3 m of pitch, 60 m between the rooms, twice 0.5 m up, 0.5 m of slack; a half
    circle of 0.1 m inside a rack."""
    fabric = candidates(Demand(2, 1, "NDR")).designs[0].fabric
    floor = read_floor(
        {
            "rows": 2,
            "racks": 1,
            "rack_units": 10,
            "host": {"units": 1, "kw": 1},
            "gaps_m": {1: 60},
            "bend_radius_m": 0.1,
            "placed": [
                {"node": "leaf-1", "rack": "A01", "u": 10},
                {"node": "host-0001", "rack": "B01", "u": 10},
                {"node": "host-0002", "rack": "A01", "u": 9},
            ],
        }
    )
    cables = cables_of(fabric, lay_out([fabric], floor)[0], "NDR")
    assert sorted(cables.path_m.round(4).tolist()) == [round(np.pi * 0.1 + 0.5, 4), 64.5]
    assert {medium for medium, _, _ in cables.by_kind()} == {"SMF"}  # multimode reaches 50 m, and one plug serves both


@pytest.mark.parametrize(
    ("floor", "why"),
    [
        ({"racks": 1}, "need at least"),
        ({"racks": 4, "kw": 5}, "does not fit into a rack"),
        ({"racks": 0}, "racks"),
        ({"racks": 4, "row": 2}, r"no key of a floor plan named 'row'; did you mean rows"),
        ({"rackz": 4}, "did you mean racks"),  # unknown and, under its right name, missing
        ({"rows": 4}, "racks is missing"),
        ({"racks": 9, "placed": [{"node": "leaf-99", "rack": "A01", "u": 1}]}, "no device leaf-99"),
        ({"racks": 9, "placed": [{"node": "leaf-1", "rack": "C01", "u": 1}]}, "no rack C01"),
        ({"racks": 9, "placed": [{"node": n, "rack": "A01", "u": 1} for n in ("leaf-1", "leaf-2")]}, "overlap"),
        ({"racks": 9, "gaps_m": {1: 50}}, "no row follows row 1"),
        ({"racks": 9, "tray_m": 0.1, "bend_radius_m": 0.2}, "does not fit below a tray"),
        (
            {"rows": 60, "racks": 9, "row_pitch_m": 40, "kw": 11, "host": {"units": 8, "kw": 10}},
            "no cable of EDR is longer",
        ),
    ],
)
def test_impossible_floors_are_one_line(floor, why):
    fabric = candidates(Demand(400, 1, "EDR")).designs[0].fabric
    with pytest.raises(InputError, match=why) as error:
        cables_of(fabric, lay_out([fabric], read_floor(floor))[0], "EDR")
    assert "\n" not in str(error.value)


def test_spares_are_the_quantile_of_a_poisson_process():
    """Against the sum itself, for a mean of 1.754: 0.173, 0.477, 0.743, 0.899, 0.967, 0.991."""
    assert spares(1024, 0.000571, 3) == 5
    assert spares(0, 0.001, 3) == 0
    book = read_book()
    book = book.model_copy(update={"running": book.running.model_copy(update={"links_fail": None})})
    assert [item.spares for item in bill_of([Part("NDR", 12, 256, ())], book).items] == [1, None]  # unknown is not 0


def test_a_quote_lacks_what_was_taken_out_of_it(tmp_path):
    demand = Demand(31, 8)
    fabric, layout = placed(demand)
    orders = tuple(cables_of(fabric, layout, "NDR").orders)
    bill = bill_of([Part("NDR", fabric.sizes.switches, demand.ports, orders)], read_book())
    lines = bill.csv().splitlines()
    (tmp_path / "whole.csv").write_text("\n".join(lines))
    assert check_quote(bill, read_quote(tmp_path / "whole.csv")) == ([], [])
    missing = next(i for i, line in enumerate(lines) if "MMA4Z00-NS," in line)
    (tmp_path / "part.csv").write_text("\n".join(lines[:missing] + lines[missing + 1 :]))
    (difference,), notes = check_quote(bill, read_quote(tmp_path / "part.csv"))
    assert difference.offered == 0 and difference.needed > 0 and "twin-port" in difference.text and not notes
    with pytest.raises(InputError, match="no row has a quantity"):
        (tmp_path / "none.csv").write_text("a,b\nc,d\n")
        read_quote(tmp_path / "none.csv")
