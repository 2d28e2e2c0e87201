"""Engine ``chain``: parts of a fabric routed by engines of their own. Oracles: the engine alone on the part, walks by the proof, and bad files."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.topologies.registry import generate
from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.chains.chain_policy import ChainPolicy, parse_chain
from softib.routing.chains.chains import members_of, part_of
from softib.routing.engine import RouteOptions, route
from softib.routing.proof.credit_loops import has_credit_loop
from softib.routing.proof.verify import verify
from softib.scenario.bring_up import bring_up
from softib.scenario.graph_view import graph_of
from softib.sm.config import SmConfig


def policy(groups: str, topologies: str, steps: str) -> ChainPolicy:
    return parse_chain(
        {
            "pgrp_policy_file": (groups, "groups"),
            "topo_policy_file": (topologies, "topologies"),
            "rch_policy_file": (steps, "steps"),
        }
    )


def block(kind: str, **lines: object) -> str:
    return "\n".join([kind, *(f"{k.replace('_', '-')}: {v}" for k, v in lines.items()), f"end-{kind}", ""])


def step(number: int, engine: str, topology: int = 0, **more: object) -> str:
    return block("unicast-step", id=number, engine=engine, topology=topology, **more)


def guids(values: np.ndarray) -> str:
    return ", ".join(f"{int(g):#x}" for g in values)


@pytest.fixture(scope="module")
def tree():
    return bring_up(generate("fat-tree", radix=8, levels=3), "minhop").graph


def halves(graph, seed=3):
    """Switches that hang together: those nearest to a leaf; and the rest."""
    rng = np.random.default_rng(seed)
    start = int(graph.end_switch[np.flatnonzero(~graph.end_is_switch)[rng.integers(40)]])
    seen = [start]
    for s in seen:
        for e in range(graph.first[s], graph.first[s + 1]):
            if int(graph.peer[e]) not in seen and len(seen) < graph.n_switches // 2:
                seen.append(int(graph.peer[e]))
    return np.array(sorted(seen))


def chain_of(graph, part, engine="updn", first="minhop", **more):
    return policy(
        block("port-group", name="part", port_guid=guids(graph.switch_guid[part])),
        block("topology", id=1, sw_grp="part", hca_grp="ALL_CAS"),
        step(1, first) + step(2, engine, 1, **more),
    )


@pytest.mark.parametrize("engine", ["updn", "ftree", "sssp", "dor", "dnup"])
def test_the_part_is_routed_by_its_engine_and_the_rest_by_the_first(tree, engine):
    part = halves(tree)
    chain = chain_of(tree, part, engine, "updn")
    rows, small = part_of(tree, chain.topologies[0], members_of(tree, chain.groups))
    assert rows.tolist() == part.tolist()
    alone, whole = route(small, engine), route(tree, "updn")
    made = route(tree, "chain", RouteOptions(chain=chain))
    assert made.engine == "chain" and not verify(tree, made.lft).unreachable
    outside = np.setdiff1d(np.arange(tree.n_switches), part)
    assert np.array_equal(made.lft[outside], whole.lft[outside])
    if alone.engine != engine or any("left out" in note for note in made.notes):
        assert np.array_equal(made.lft, whole.lft), made.notes
        return
    inside = np.where(alone.lft != LFT_NO_ROUTE, alone.lft, whole.lft[part])
    assert np.array_equal(made.lft[part], inside)


def test_paths_do_not_loop_whatever_the_parts(tree):
    """Three nested and overlapping parts, two engines, seeded: every pair arrives, and no credit loop is new."""
    for seed in range(6):
        a, b = halves(tree, seed), halves(tree, seed + 50)
        groups = block("port-group", name="a", port_guid=guids(tree.switch_guid[a]))
        groups += block("port-group", name="b", port_guid=guids(tree.switch_guid[b]))
        groups += block("port-group", name="both", union_rule="a, b") + block(
            "port-group", name="rest", subtract_rule="a, b"
        )
        parts = "".join(
            block("topology", id=i, sw_grp=n, hca_grp="ALL_CAS") for i, n in enumerate(("both", "a", "rest"), 1)
        )
        steps = step(1, "minhop") + step(2, "updn", 1) + step(3, "sssp", 2) + step(4, "updn", 3)
        made = route(tree, "chain", RouteOptions(chain=policy(groups, parts, steps)))
        proof = verify(tree, made.lft)
        assert not proof.unreachable and not (proof.ca_switch.loop or proof.ca_ca.loop)
        assert proof.switch_ca.loop == proof.switch_switch.loop == 0
        assert proof.deadlock_free or has_credit_loop(tree, route(tree, "minhop").lft)


def test_a_step_that_closes_a_credit_loop_is_left_out():
    """updn breaks the ring of a torus; minhop in a row of it closes it again."""
    graph = bring_up(generate("torus", dims=[6, 2]), "updn").graph
    made = route(graph, "chain", RouteOptions(chain=chain_of(graph, np.arange(graph.n_switches), "minhop", "updn")))
    assert any("credit loop" in note and "left out" in note for note in made.notes), made.notes
    assert np.array_equal(made.lft, route(graph, "updn").lft)


def test_a_fallback_stands_in_for_a_step_that_fails(tree):
    part = halves(tree, 9)
    steps = step(1, "updn") + step(2, "file", 1) + step(5, "updn", 1, fallback_to=2)
    chain = policy(
        block("port-group", name="part", port_guid=guids(tree.switch_guid[part])),
        block("topology", id=1, sw_grp="part", hca_grp="ALL_CAS"),
        steps,
    )
    made = route(tree, "chain", RouteOptions(chain=chain))
    assert any(note.startswith("step 2 (file, topology 1) failed") for note in made.notes)
    assert any(note.startswith("step 5 (updn, topology 1)") for note in made.notes)


def test_ports_and_names_make_groups():
    fabric = generate("fat-tree", radix=8, levels=2)
    graph = bring_up(fabric, "minhop").graph
    leaf = int(graph.end_switch[np.flatnonzero(~graph.end_is_switch)[0]])
    names = [str(n) for n in fabric.node_names()]
    leaves = [s for s, n in enumerate(graph.switch_node) if names[n].startswith("leaf-")]
    groups = block("port-group", name="some", port_guid=f"{int(graph.switch_guid[leaf]):#x}@1-2/5")
    groups += block("port-group", name="leaves", port_regexp="^leaf-") + block(
        "port-group", name="host", port_name="hostname=host-0003; port=1"
    )
    groups += block("port-group", name="third", port_regexp="^leaf-:3") + block(
        "port-group", name="range", port_guid_range="0x1-0xffffffffffffffff"
    )
    found = members_of(graph_of(fabric), policy(groups, "", step(1, "minhop")).groups)
    assert (
        np.flatnonzero(found["some"].switch_ports[leaf]).tolist() == [1, 2, 5]
        and found["some"].switch_ports.any(axis=1).sum() == 1
    )
    assert np.flatnonzero(found["leaves"].switch_ports.all(axis=1)).tolist() == leaves
    assert [names[n] for n in graph.end_node[found["host"].ends]] == ["host-0003"] and not found[
        "host"
    ].switch_ports.any()
    assert np.argwhere(found["third"].switch_ports)[:, 1].tolist() == [3] * len(leaves)
    assert found["range"].switch_ports.all() and found["range"].ends.all()


def test_the_manager_writes_a_chain(tmp_path):
    from softib.live.internal_sm.settings import ManagerSettings

    fabric = generate("fat-tree", radix=8, levels=2)
    (tmp_path / "groups").write_text(block("port-group", name="leaves", port_regexp="leaf-"))
    (tmp_path / "parts").write_text(block("topology", id=1, sw_grp="leaves", hca_grp="ALL_CAS"))
    (tmp_path / "steps").write_text(step(1, "updn", config="first.conf") + step(2, "minhop", 1))
    spines = [
        g for g, n in zip(fabric.node_guid.tolist(), fabric.node_names(), strict=True) if str(n).startswith("spine")
    ]
    (tmp_path / "roots").write_text("".join(f"{g:#x}\n" for g in spines))
    (tmp_path / "first.conf").write_text(f"root_guid_file {tmp_path / 'roots'}\n")
    files = {"pgrp_policy_file": "groups", "topo_policy_file": "parts", "rch_policy_file": "steps"}
    config = ManagerSettings({"engine": "chain", **{k: str(tmp_path / v) for k, v in files.items()}}).read()
    assert isinstance(config, SmConfig) and config.options.chain.steps[0].options.root_guids == tuple(spines)
    up = bring_up(fabric, config=config)
    assert up.routing.engine == "chain" and verify(up.graph, up.fabric.lft).ok, up.report.notes


WRONG = [
    ("groups", "port-group\nname: a\nend-port-group\n", "", "groups:1: .*needs a rule"),
    ("groups", "port-group\nname: ALL\nport-guid: 0x1\nend-port-group\n", "", "groups:1: .*unique name"),
    (
        "groups",
        "port-group\nname: a\nport-guid: 0x1@0-300\nend-port-group\n",
        "",
        "groups:3: port-guid: .*not valid",
    ),
    ("groups", "port-group\nname: a\nport-regexp: [\nend-port-group\n", "", "groups:3: port-regexp"),
    ("groups", "port-group\nname: a\nunion-rule: b, c\nend-port-group\n", "", "which is not defined above"),
    ("groups", "name: a\n", "", "groups:1: .*outside of a block"),
    ("groups", "port-group\nname: a\n", "", "end-port-group is missing"),
    ("topologies", "topology\nid: 1\nsw-grp: ALL\nhca-grp: nobody\nend-topology\n", "", "which does not exist"),
    ("topologies", "topology\nid: 1\nsw-grp: ALL\nend-topology\n", "", "needs a unique id, a sw-grp and an hca-grp"),
    ("steps", "", step(1, "minhop", 4), "names topology 4"),
    ("steps", "", step(1, "dfsssp"), "cannot be part of a chain"),
    ("steps", "", step(1, "minhop") + step(1, "updn"), "two steps have the id 1"),
    ("steps", "", step(1, "minhop") + step(2, "updn", fallback_to=7), "which is not a step"),
    ("steps", "", step(1, "minhop", path_bit=1), "path-bit"),
    ("steps", "", "", "the step with the lowest id routes the whole fabric"),
]


@pytest.mark.parametrize(("where", "text", "steps", "said"), WRONG, ids=[w[3][:30] for w in WRONG])
def test_bad_files_are_named_with_their_line(where, text, steps, said):
    texts = {"groups": "", "topologies": "", "steps": steps}
    if where != "steps":
        texts[where] = text
    with pytest.raises(InputError, match=said):
        policy(*texts.values())
