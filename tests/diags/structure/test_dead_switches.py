"""Dead switches of direct networks and of sparse rows of names, on sites made of lists of cables (``sites.py``).

The oracle is what was cut: a dead switch is not in a scan, so the ports that held its cables are what a finding names, and
everything else about the site is as it was.
"""

from __future__ import annotations

import pytest

from softib.diags.check import check
from softib.diags.finding import Severity
from softib.fabric.topologies.registry import generate
from tests.diags.sites import Site, directors, tree
from tests.extent import extent


def torus(width: int, height: int) -> Site:
    s = Site()
    for x in range(width):
        for y in range(height):
            s.nodes[f"sw-{x}-{y}"] = (True, 8, f"sw-{x}-{y}")
            host = f"node{x * height + y:03d}"
            s.nodes[host] = (False, 1, f"{host} mlx5_0")
            s.cables.append(((f"sw-{x}-{y}", 1), (host, 1)))
            s.cables.append(((f"sw-{x}-{y}", 2), (f"sw-{(x + 1) % width}-{y}", 3)))
            s.cables.append(((f"sw-{x}-{y}", 4), (f"sw-{x}-{(y + 1) % height}", 5)))
    return s


def dragonfly(groups: int, routers: int) -> Site:
    """Routers of a group all to each other at port 10 + the other's number, a cable between each two groups."""
    s = Site()
    for g in range(groups):
        for r in range(routers):
            s.nodes[f"g{g}-r{r}"] = (True, 32, f"g{g}-r{r}")
            host = f"node{g * routers + r:03d}"
            s.nodes[host] = (False, 1, f"{host} mlx5_0")
            s.cables.append(((f"g{g}-r{r}", 1), (host, 1)))
            s.cables += [((f"g{g}-r{r}", 10 + other), (f"g{g}-r{other}", 10 + r)) for other in range(r + 1, routers)]
        for other in range(g + 1, groups):
            s.cables.append(((f"g{g}-r{other % routers}", 20 + other), (f"g{other}-r{g % routers}", 20 + g)))
    return s


def die(s: Site, switch: str, listed: bool) -> set[str]:
    """Cut the switch (and its hosts, unless the scan still lists them); return the ports that held its cables in its rows of names."""
    hosts = {peer[0] for _, peer in s.hosts_of(switch)}
    row = [k for k in s.nodes if s.nodes[k][0] and sum(a != b for a, b in zip(k, switch, strict=False)) == 1]
    ports = {f"{peer[0]}[{peer[1]}]" for _, peer in s.at(switch) if peer[0] in row}
    s.without({switch} | (set() if listed else hosts))
    return ports


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("site", "switch"),
    [(torus(5, 5), "sw-2-2"), (torus(4, 6), "sw-1-3"), (torus(4, 4), "sw-0-0"), (dragonfly(5, 4), "g2-r1")],
)
def test_a_dead_switch_of_a_direct_network_is_one_finding_with_its_ports(site: Site, switch: str, listed: bool) -> None:
    assert not check(site.fabric())
    dead = site.copy()
    ports = die(dead, switch, listed)
    (found,) = check(dead.fabric())
    assert found.code == "absent-switch" and found.evidence["name"] == switch
    assert ports <= {str(p) for p in found.where} and len(ports) >= 3
    assert ("1 adapter without any link" in found.message) is listed


def test_two_dead_spines_of_six_are_named_and_numbers_that_a_site_leaves_out_are_not() -> None:
    site = tree(leaves=10, spines=6)
    spines = site.switches("spine")
    dead = site.copy()
    dead.without({spines[1], spines[4]})
    found = [f for f in check(dead.fabric()) if f.code == "absent-switch"]
    assert {f.evidence["name"] for f in found} == {site.nodes[spines[i]][2] for i in (1, 4)}
    odd = tree(leaves=10, spines=6, parallel=1)  # built of spines 1, 3, 5, in every second port
    odd.without(set(spines[1::2]))
    assert not check(odd.fabric())


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("spines", [3, 4, 5, 6])
def test_a_dead_spine_between_few_others_is_found_with_its_ports(spines: int, parallel: int, named: bool) -> None:
    """Of three spines without names the outer two look like spines in every second port: that is no warning."""
    site = tree(leaves=6, hosts=8, spines=spines, parallel=parallel)
    if not named:
        site.nodes |= {k: (*n[:2], "Quantum Mellanox Technologies") for k, n in site.nodes.items() if n[0]}
    assert not [f for f in check(site.fabric()) if f.code == "absent-switch"]
    for middle in site.switches("spine")[1:-1]:
        dead = site.copy()
        dead.without({middle})
        (found,) = [f for f in check(dead.fabric()) if f.code == "absent-switch"]
        numbers = {peer[1] for _, peer in site.at(middle)}
        assert {p.portnum for p in found.where} == numbers and len(found.where) == 6 * parallel
        assert found.evidence.get("name") == (site.nodes[middle][2] if named else None)
        assert found.severity is (Severity.INFO if spines == 3 and not named else Severity.WARNING)


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("spines", [4, 6])
def test_spines_in_every_second_place_are_no_absent_switches(spines: int, parallel: int) -> None:
    site = tree(leaves=6, hosts=8, spines=spines, parallel=parallel)
    site.without(set(site.switches("spine")[1::2]))
    site.nodes |= {k: (*n[:2], "Quantum Mellanox Technologies") for k, n in site.nodes.items() if n[0]}
    assert not [f for f in check(site.fabric()) if f.code == "absent-switch" and f.severity is Severity.WARNING]


def test_a_dead_leaf_explains_the_adapters_that_are_listed_without_a_link() -> None:
    site = tree()
    leaves = site.switches("leaf")
    dead = site.copy()
    hosts = {peer[0] for leaf in (leaves[2], leaves[5]) for _, peer in site.hosts_of(leaf)}
    dead.without({leaves[2], leaves[5]})
    found = check(dead.fabric())
    assert {f.code for f in found} == {"absent-switch"} and len(found) == 2
    named = {str(p) for p in found[0].where if p.portnum is None}
    assert named == {site.nodes[h][2] for h in hosts}
    extra = site.copy()  # without a dead leaf, a dark adapter is a finding of its own
    extra.cables.remove(next(c for c in extra.cables if {c[0][0], c[1][0]} & hosts))
    assert "unlinked-hca-port" in {f.code for f in check(extra.fabric())}


GENERATED = {
    "dragonfly": {"g": 9, "a": 4, "p": 2, "h": 2, "radix": 9},
    "dragonfly+": {"g": 5, "radix": 10, "l": 4, "s": 4, "p": 4, "h": 4},
    "hyperx": {"dims": [4, 4], "hosts_per_switch": 2, "radix": 10},
    "mesh": {"dims": [5, 4], "hosts_per_switch": 2, "radix": 12},
}


@pytest.mark.parametrize("shape", GENERATED)
def test_every_switch_of_a_direct_network_is_named_once_it_is_dead(shape: str) -> None:
    """Corners, the first and the last of each group, and those whose neighbours leave the own number out of their ports."""
    site = Site.of(generate(shape, **GENERATED[shape]))
    switches = [key for key, node in site.nodes.items() if node[0]]
    for switch in switches[:: extent(7, 1)]:
        dead = site.copy()
        freed = {f"{peer[0]}[{peer[1]}]" for _, peer in site.at(switch)}
        dead.without({switch, *(peer[0] for _, peer in site.hosts_of(switch))})
        (found,) = check(dead.fabric())
        assert found.code == "absent-switch" and found.evidence["name"] == switch, found.message
        assert {str(p) for p in found.where} <= freed


def test_a_dead_spine_between_leaves_and_cores_is_one_finding_with_the_ports_of_both() -> None:
    site = Site.of(generate("fat-tree", radix=16, levels=3, hosts=512))
    freed = {f"{peer[0]}[{peer[1]}]" for _, peer in site.at("spine-20")}
    site.without({"spine-20"})
    (found,) = check(site.fabric())
    assert found.evidence["name"] == "spine-20" and {str(p) for p in found.where} == freed


def test_a_dead_leaf_below_several_groups_of_boards_is_one_finding() -> None:
    """Leaves without names: 18 uplinks to boards of three directors, which fall into several kinds by the leaves they reach."""
    site = directors(edges=36, bare=8)
    clean = {f.code for f in check(site.fabric())}
    freed = {peer for _, peer in site.at("leaf20") if site.nodes[peer[0]][0]}
    site.without({"leaf20", *(peer[0] for _, peer in site.hosts_of("leaf20"))})
    found = [f for f in check(site.fabric()) if f.code not in clean]
    assert [f.code for f in found] == ["absent-switch"], [f.message for f in found]
    assert {(site.key_of[p.guid], p.portnum) for p in found[0].where} == freed


ENDS = {
    # (topology, dead switch, severity): the first and the last of a row of names that no other row continues
    "full tree": (("fat-tree", {"radix": 8, "levels": 2}), ("spine-1", "spine-4"), Severity.INFO),
    "parallel cables": (("fat-tree", {"radix": 24, "levels": 2, "parallel": 2}), ("spine-1", "spine-6"), Severity.INFO),
    "three tiers": (
        ("fat-tree", {"radix": 8, "levels": 3}),
        ("leaf-1", "spine-1", "spine-32", "core-1", "core-16"),
        Severity.WARNING,
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_the_first_and_the_last_switch_of_a_row_of_names(case: str) -> None:
    """Where others of its tier use the ports; else, as information, where leaves lack just one more switch for as many
    uplinks as hosts."""
    (kind, parameters), switches, severity = ENDS[case]
    site = Site.of(generate(kind, **parameters))
    assert not check(site.fabric())
    for switch in switches:
        dead = site.copy()
        freed = {f"{peer[0]}[{peer[1]}]" for _, peer in site.at(switch)}
        dead.without({switch, *(peer[0] for _, peer in site.hosts_of(switch))})
        (found,) = check(dead.fabric())
        assert (found.code, found.evidence["name"], found.severity) == ("absent-switch", switch, severity)
        assert {str(p) for p in found.where} == freed & {str(p) for p in found.where} and len(found.where) >= len(
            freed
        ) / 2


def test_a_dead_first_leaf_with_several_cables_to_each_spine_is_named_by_the_ports_of_the_spines() -> None:
    site = Site.of(generate("fat-tree", radix=24, levels=2, hosts=120, parallel=2))
    freed = {f"{peer[0]}[{peer[1]}]" for _, peer in site.at("leaf-1") if site.nodes[peer[0]][0]}
    site.without({"leaf-1", *(peer[0] for _, peer in site.hosts_of("leaf-1"))})
    (found,) = check(site.fabric())
    assert found.code == "absent-switch" and {str(p) for p in found.where} == freed


def test_a_tree_that_is_filled_in_part_lacks_nothing_at_its_end() -> None:
    for hosts in (6, 30, 100, 389):
        assert not check(Site.of(generate("fat-tree", radix=12, levels=3, hosts=hosts)).fabric())
