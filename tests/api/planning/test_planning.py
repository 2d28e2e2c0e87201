"""``softib.plan_*``: figures of designs against laws, and files that the next verb takes."""

from __future__ import annotations

import csv
from collections import Counter
from xml.etree import ElementTree

import pytest

import softib
from softib.diags.structure.recognise import recognise
from softib.errors import InputError

FLOOR = {"rows": 2, "racks": 12, "kw": 44}


@pytest.fixture(scope="module")
def designs():
    return softib.plan_design(softib.Demand(100, generation="EDR"))


def test_figures_of_a_full_tree_and_of_one_with_half_the_uplinks(designs):
    full, half = (
        next(r for r in designs.rows() if r.design == name) for name in ("fat tree, 2 tiers", "fat tree, 2 tiers, 2:1")
    )
    assert full.bisection == 1 and half.bisection == pytest.approx(0.5, abs=0.05)
    assert full.switch_hops == half.switch_hops == 3
    assert half.switches < full.switches and half.effective_bisection < full.effective_bisection
    leaf = next(f for f in full.failures if f.part.startswith("leaf"))
    assert leaf.lost_host_ports == 18  # half of 36 ports
    assert all(f.lost_host_ports == 0 for f in full.failures if not f.part.startswith("leaf"))
    assert full.watts_unknown  # said, not left out


def test_the_only_spine_takes_all_other_leaves_along():
    """90 hosts on leaves of 42, 42 and 6 below one spine; the manager's leaf has 6."""
    tree = softib.plan_design(softib.Demand(90, oversubscription=2)).rows()[0]
    assert tree.switches_by_tier == {"leaf": 3, "spine": 1}
    assert [(f.part.split()[0], f.lost_host_ports) for f in tree.failures] == [
        ("leaf", 42),
        ("spine", 84),
        ("cable", 0),
    ]


def test_what_save_writes_is_a_fabric(designs, tmp_path):
    for path, row in zip(designs.save(tmp_path / "d"), designs.rows(), strict=True):
        fabric = softib.load(path)
        assert (fabric.switches, fabric.cables) == (row.switches, row.cables)
        assert not softib.check(fabric).at_least("warning")


def test_saved_cables_are_the_plan_of_check(tmp_path):
    pod = softib.generate("rail-optimized", nodes=31)
    plan = softib.plan_cables(pod, FLOOR)
    for suffix in (".csv", ".ufm", ".labels", ".svg", ".xlsx"):
        plan.save(tmp_path / f"list{suffix}")
    for suffix in (".csv", ".ufm"):
        assert not list(softib.check(pod, plan=tmp_path / f"list{suffix}"))
    assert not plan.check_quote(tmp_path / "list.xlsx").differences
    with pytest.raises(softib.InputError, match="no form for"):
        plan.save(tmp_path / "list.pdf")


def test_cost_is_bill_and_energy():
    cost = softib.plan_cost(softib.generate("rail-optimized", nodes=31), FLOOR, gpus=248)
    kwh = cost.watts.watts / 1000 * 8766 * 5
    assert cost.energy.low == pytest.approx(kwh * 0.06 * 1.1) and cost.energy.high == pytest.approx(kwh * 0.2 * 1.6)
    assert cost.total.low == pytest.approx(cost.bill.low + cost.energy.low)
    assert cost.per_gpu_hour().low == pytest.approx(cost.total.low / (248 * 8766 * 5))


def test_a_scaling_curve_has_time_efficiency_and_money(tmp_path):
    """Rows of fewer GPUs do not change that of all; 8 GPUs cost a switch, 8 adapters and 8 cables of the book."""
    pod = softib.generate("rail-optimized", nodes=2, rails=8, radix=64, ufm=False)
    step = "training-step:1,layers=2,hidden=1024,tensor=8,batch=16,micro-batch=1"
    (alone,) = softib.plan_cost(pod, FLOOR, gpus=16, workload=step).rows
    cost = softib.plan_cost(pod, FLOOR, gpus=16, workload=step, scale=[8])
    first, last = cost.rows
    assert (last.gpus, last.step_us, last.efficiency) == (16, alone.step_us, alone.efficiency)
    low, high = (8 * (1599 + 586) + 11_000, 8 * (2188 + 2000) + 50_000)
    assert (first.relative, first.price.low, first.price.high) == (1.0, low, high)
    assert first.gpu_hour.high == pytest.approx(high / (8 * 8766 * 5 * first.efficiency))
    cost.save(tmp_path / "curve.svg")
    cost.save(tmp_path / "curve.csv")
    lines = ElementTree.parse(tmp_path / "curve.svg").getroot().iter("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [2, 2, 2, 2]
    (_, row, _) = list(csv.reader((tmp_path / "curve.csv").open()))
    assert [float(v) for v in row[:2]] == [8, first.step_us] and float(row[4]) == low
    with pytest.raises(softib.InputError, match="two numbers of GPUs"):
        softib.plan_cost(pod, FLOOR).save(tmp_path / "curve.svg")


def test_a_row_of_the_curve_costs_what_the_first_design_costs():
    """13 hosts of 8 GPUs: the list's first design is a fat tree, which costs less than the rail-optimized fabric itself."""
    first = softib.plan_design(softib.Demand.of_gpus(104)).rows()[0]
    step = "training-step:1,layers=2,hidden=1024,tensor=8,batch=104,micro-batch=1"
    (row,) = softib.plan_cost(
        softib.generate("rail-optimized", nodes=13, rails=8, radix=64, ufm=False), FLOOR, gpus=104, workload=step
    ).rows
    assert (row.price.low, row.price.high) == (first.price.low, first.price.high)


def test_ethernet_for_the_same_money():
    """8 hosts on one switch: each item of the book's NDR and 400 Gb/s Ethernet prices by hand."""
    cost = softib.plan_cost(softib.generate("fat-tree", levels=1, hosts=8), FLOOR)
    own, other = cost.networks
    book = {"NDR": (1599 + 179 + 586, 2188 + 1000 + 2000), "ethernet": (1000 + 200 + 1000, 2000 + 400 + 2000)}
    assert (own.price.low, own.price.high) == tuple(8 * p for p in book["NDR"])
    assert (other.price.low, other.price.high) == tuple(8 * p for p in book["ethernet"])
    assert other.host_ports_for_the_same_money == 8 * sum(book["NDR"]) // sum(book["ethernet"])


def test_a_design_pays_whole_switches():
    """20 hosts on one QM9700: 20 adapters and cables, and the switch with its free ports."""
    row = softib.plan_design(softib.Demand(20)).rows()[0]
    assert (row.price.low, row.price.high) == (20 * (1599 + 586) + 11000, 20 * (2188 + 2000) + 50000)


def test_a_budget_buys_as_many_hosts_as_the_book_says():
    """By hand, middle prices: a switch 30,500, an adapter 1,893.5 and a link's cable 1,293: 21 hosts for 100,000."""
    designs = softib.plan_design(softib.Demand(1), budget=100_000)
    assert designs.to_json()["hosts"] == (100_000 - 30_500) // (1893.5 + 1293) == 21
    with pytest.raises(softib.InputError, match="budget 5,000"):
        softib.plan_design(softib.Demand(1), budget=5000)
    with pytest.raises(softib.InputError, match="XDR switch port"):
        softib.plan_design(softib.Demand(1, generation="XDR"), budget=1e6)


def test_a_budget_beyond_all_designs_is_one_line():
    with pytest.raises(InputError, match=r"pays for more than 16 hosts; no design for 32"):
        softib.plan_design(softib.Demand(1, radix=4), budget=1e9)


def test_a_storage_fabric_is_saved_beside_the_designs(tmp_path):
    designs = softib.plan_design(softib.Demand(8, generation="EDR"), storage_ports=1, storage_hosts=4)
    compute, storage = map(softib.load, designs.save(tmp_path / "d"))
    assert (compute.hosts, storage.hosts, storage.name) == (8, 12, "design-storage")


def test_the_reference_design_comes_first():
    """NVIDIA's table: 31 nodes on 8 leaves and 4 spines with 252 + 256 cables, four of them UFM's."""
    first = softib.plan_design(softib.Demand(31, 8)).rows()[0]
    assert (first.design, first.switches, first.cables) == ("rail-optimized, 2 tiers", 12, 508)


@pytest.mark.parametrize(("hosts", "ratio"), [(100, 1.0), (100, 2.0), (128, 1.0), (20, 1.0), (20, 3.0)])
def test_the_first_design_has_the_bisection_that_was_asked(hosts, ratio):
    """A dragonfly+ of several groups has fewer switches than a tree of three tiers, and half its bisection."""
    rows = softib.plan_design(softib.Demand(hosts, radix=8, oversubscription=ratio)).rows()
    assert rows[0].bisection >= 0.999 / ratio
    if hosts == 128:
        assert min(row.switches for row in rows if row.kind == "dragonfly+") < rows[0].switches


def test_ports_that_a_design_adds_are_named(capsys):
    """A unit of 31 hosts and UFM in the free slot: 4 ports more than the demand's; a full unit has none."""
    for hosts, added in ((31, 4), (32, 0)):
        designs = softib.plan_design(softib.Demand(hosts, 8))
        (row,) = (r for r in designs.rows() if r.kind == "rail-optimized")
        assert row.host_ports == hosts * 8 + added and row.note.count("2 UFM hosts with 2 ports each") == bool(added)
    designs.print()
    assert "price unknown; power: 39 W; plan cables places them" in capsys.readouterr().out


def test_unpriced_networks_are_named():
    own, other = softib.plan_cost(softib.generate("fat-tree", levels=1, hosts=4, generation="HDR"), FLOOR).networks
    assert own.price is other.price is None and "ethernet-200 adapter" in other.price_missing


def test_doubling_a_tree_of_two_tiers_moves_half_of_the_uplinks():
    """Each leaf has c cables to each of s spines and later c/2 to each of 2s: half of them stay."""
    (tree, *_) = softib.plan_design(softib.Demand(32, radix=16)).rows()
    assert tree.switches_by_tier == {"leaf": 4, "spine": 2} and tree.cables_by_tier["leaf-spine"] == 32
    assert (tree.twice_the_hosts.cables_moved, tree.twice_the_hosts.cables_kept) == (16, 48)


@pytest.mark.slow
def test_the_page_about_1024_gpus():
    """docs/plan.md: what its table says."""
    designs = softib.plan_design(softib.Demand.of_gpus(1024))
    row = designs.rows()[0]
    assert (row.design, row.switches_by_tier) == ("rail-optimized, 2 tiers", {"leaf": 32, "spine": 16})
    assert (row.cables, row.failures[0].lost_host_ports) == (2048, 32)
    twice = row.twice_the_hosts
    assert (twice.switches, twice.cables_new, twice.cables_moved) == (48, 2048, 512)
    workload = "training-step:1,layers=40,hidden=5120,tensor=8,batch=1024,micro-batch=1"
    hall = {"rows": 4, "racks": 12, "kw": 44}
    cost = softib.plan_cost(designs.fabric(), hall, gpus=1024, workload=workload, scale=[64])
    assert cost.networks[1].host_ports_for_the_same_money == 1184
    assert cost.rows[-1].step_us / cost.rows[0].step_us == pytest.approx(1.03, abs=0.005)  # 3 % longer
    assert softib.advise(softib.Facts(hosts=128, gpus=1024, kind="training")).verdict == "infiniband"


def test_a_second_unit_costs_what_the_published_tables_say():
    """DGX SuperPOD: 8 leaves and 4 spines for one unit of 32 slots, 16 and 8 for two; 256 cables more
    to nodes and 256 more between switches."""
    grown = softib.plan_growth(softib.generate("rail-optimized", nodes=32), 32).to_json()
    assert (len(grown["new_leaves"]), grown["new_upper_switches"]) == (8, 4)
    assert len(grown["cables"]) == 256 + 256 and len(grown["moves"]) == grown["moved_cables"] == 8 * 16


def grown_ends(tree, grown):
    """Both ends of every cable afterwards."""
    ends = {frozenset({row[:2], row[2:4]}) for row in tree.links.rows()}
    for m in grown["moves"]:
        stays = (m["node_a"], m["port_a"])
        ends.remove(frozenset({stays, (m["from_node"], m["from_port"])}))
        ends.add(frozenset({stays, (m["node_z"], m["port_z"])}))
    return ends | {frozenset({(c["node_a"], c["port_a"]), (c["node_z"], c["port_z"])}) for c in grown["cables"]}


@pytest.mark.parametrize(("hosts", "more", "moves"), [(100, 20, 0), (64, 20, 32), (60, 4, 0)])
def test_a_tree_of_three_tiers_stays_one(tmp_path, hosts, more, moves):
    """Written as a netlist and read back, the structure reader finds a tree of three tiers with a full bisection and no
    fault. 64 hosts of radix 8 fill four pods: the cores get twice as many, and half of their cables move."""
    tree = softib.generate("fat-tree", radix=8, levels=3, hosts=hosts)
    grown = softib.plan_growth(tree, more).to_json()
    by_node = {}
    for a, z in grown_ends(tree, grown):
        by_node.setdefault(a[0], {})[a[1]] = z
        by_node.setdefault(z[0], {})[z[1]] = a
    lines = []
    for node in sorted(by_node):
        lines.append(f'{"Hca 1" if node.startswith(("host", "new-0")) else "Switch 8"} "{node}"')
        lines += [f'[{port}] "{peer[0]}"[{peer[1]}]' for port, peer in sorted(by_node[node].items())]
    (tmp_path / "after.net").write_text("\n".join([*lines, ""]))
    after = softib.load(tmp_path / "after.net")
    assert after.hosts == hosts + more and len(grown["moves"]) == moves
    assert after.cables == tree.cables + len(grown["cables"])
    structure = recognise(after.arrays)
    assert (structure.kind, structure.levels, structure.bisection.percent) == ("fat-tree", 3, 100)
    assert not softib.check(after).at_least("warning")


def test_new_switches_above_take_an_equal_share_of_every_leaf():
    """A tree of 4 leaves and 2 spines of radix 40 grows by 500 hosts: every cable as it is afterwards."""
    tree = softib.generate("fat-tree", radix=40, levels=2, hosts=64)
    grown = softib.plan_growth(tree, 500).to_json()
    ends = grown_ends(tree, grown)
    ports = [port for cable in ends for port in cable]
    assert len(ports) == len(set(ports)) and max(number for _, number in ports) <= 40
    uplinks = Counter(
        tuple(sorted(node for node, _ in cable))
        for cable in ends
        if all("leaf" in node or "spine" in node or "top" in node for node, _ in cable)
    )
    leaves, spines = 4 + len(grown["new_leaves"]), 2 + grown["new_upper_switches"]
    assert len(uplinks) == leaves * spines and set(uplinks.values()) == {20 // spines}
    assert len(ends) == 64 + 500 + leaves * 20


def test_hosts_go_to_free_ports_first():
    tree = softib.generate("fat-tree", radix=36, levels=2, hosts=300)  # 16 leaves of 18 hosts, one of 12
    few = softib.plan_growth(tree, 6).to_json()
    assert not few["new_leaves"] and len(few["cables"]) == 6 and few["oversubscription"] == 1
    more = softib.plan_growth(tree, 10).to_json()
    assert len(more["new_leaves"]) == 1 and len(more["cables"]) == 10 + 18
    ports = [(c["node_a"], c["port_a"]) for c in more["cables"]] + [(c["node_z"], c["port_z"]) for c in more["cables"]]
    assert len(ports) == len(set(ports))
    with pytest.raises(softib.InputError, match="trees of one to three tiers"):
        softib.plan_growth(softib.generate("torus", dims=[3, 3]), 2)


def test_new_hosts_have_as_many_adapters_as_the_present_ones(tmp_path):
    """32 hosts of 8 adapters fill 8 leaves of radix 64; 8 hosts more have 64 adapters, on two new leaves."""
    tree = softib.generate("fat-tree", radix=64, levels=2, hosts=256, adapters=8)
    tree.save(tmp_path / "tree.ibnetdiscover")
    for source in (tree, tmp_path / "tree.ibnetdiscover"):
        grown = softib.plan_growth(source, 8).to_json()
        assert (grown["adapters"], len(grown["new_leaves"])) == (8, 2)
        assert len(grown["cables"]) == 64 + 2 * 32


@pytest.mark.parametrize(("hosts", "room"), [(8, 31), (40, 63), (90, 95), (125, 127), (128, 128)])
def test_the_slot_of_ufm_is_no_room_for_hosts(hosts, room):
    """DGX SuperPOD: 1 to 4 units with UFM have 31, 63, 95 and 127 nodes; four full units without it, 128."""
    from softib.plan.designs import candidates

    designs = candidates(softib.Demand(hosts, 8)).designs
    assert [c.room for c in designs if c.kind == "rail-optimized"] in ([room], [])
    assert hosts == 8 or any(c.kind == "rail-optimized" for c in designs)


@pytest.mark.parametrize("name", ["QM9700", "qm9790", "MQM9700-NS2F", "Quantum-2"])
def test_a_system_or_part_number_names_its_chip(name):
    assert [d.name for d in softib.devices(name).devices] == ["Quantum-2"]


def test_a_scaling_curve_needs_a_workload():
    with pytest.raises(softib.InputError, match="add a workload"):
        softib.plan_cost(softib.generate("fat-tree", radix=8, levels=2, hosts=8), {"racks": 9}, scale=[8])


def test_a_key_that_appears_twice_in_a_floor_plan_names_its_line(tmp_path):
    from softib.plan.floor import read_floor

    (tmp_path / "hall.yaml").write_text("rows: 1\nracks: 4\nracks: 2\n")
    with pytest.raises(softib.InputError, match=r"hall\.yaml:3: .*racks appears twice"):
        read_floor(tmp_path / "hall.yaml")


@pytest.mark.parametrize("generation", ["SDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR"])
def test_the_generation_of_a_dump_is_that_of_its_links(tmp_path, generation):
    """The dump names the speed on each line (for example 4xNDR)."""
    from softib.api.planning.cables import generation_of

    softib.generate("fat-tree", radix=8, levels=2, hosts=8, generation=generation).save(tmp_path / "a.ibnetdiscover")
    assert f"4x{generation}\n" in (tmp_path / "a.ibnetdiscover").read_text()
    assert generation_of(softib.load(tmp_path / "a.ibnetdiscover")) == generation


@pytest.mark.parametrize(
    ("hosts", "why"), [(1_000_000, r"a subnet has 49,151 \(IBA 4\.1\.3\)"), (5000, "another tier")]
)
def test_more_hosts_than_a_fabric_can_have_are_refused_at_once(hosts, why):
    with pytest.raises(softib.InputError, match=why):
        softib.plan_growth(softib.generate("rail-optimized", nodes=32), hosts)
