"""CollNet and NVLS over SHARP put their load on links: what each link carries is what the tree says, in every layer, and half of a ring's on the hosts' links."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import softib
from softib.errors import InputError

SIZE = 8 << 20
MTU = 4096
HEADERS = 24
"""Octets of LRH, BTH and ICRC of a packet, as PortXmitData counts them."""


@cache
def rails() -> softib.Fabric:
    return softib.generate("rail-optimized", nodes=4, rails=8, radix=32, ufm=False, aggregation_nodes=True)


@cache
def tree() -> softib.Fabric:
    """16 hosts on four leaves."""
    return softib.generate("fat-tree", radix=8, levels=2, generation="HDR", aggregation_nodes=True)


def sent(run: softib.Simulation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Octets that each port sent, without headers; ports of hosts; ports between switches."""
    of = run._run
    f = of.fabric
    host = (f.switch_of_node[f.port_node] < 0) & (f.port_peer >= 0)
    host[f.node_base[f.sharp_node] + 1] = False
    trunk = (f.switch_of_node[f.port_node] >= 0) & (f.port_peer >= 0)
    trunk &= f.switch_of_node[f.port_node[np.maximum(f.port_peer, 0)]] >= 0
    return of.octets / (1 + HEADERS / MTU), host, trunk


@pytest.mark.parametrize("layer", ["static", "fluid", "packet"])
@pytest.mark.parametrize("algorithm", ["collnet", "nvls"])
def test_a_host_s_link_carries_its_share_once(algorithm: str, layer: str) -> None:
    """An adapter gives its rail's tree 1/8 of the octets and takes as many back; acknowledgements aside."""
    run = softib.simulate(
        rails(), f"nccl-all-reduce:{SIZE},machine=dgx-h100,algorithm={algorithm},sharp=yes", layer=layer
    )
    assert run.good
    octets, host, _ = sent(run)
    at = run._run.fabric.port_peer[host]
    for ports in (octets[host], octets[at]):
        assert ports[ports > 0] == pytest.approx(SIZE / 8, rel=0.01)
        assert (ports > SIZE / 100).sum() == 32


def test_switches_that_reduce_halve_what_a_ring_sends() -> None:
    """All-reduce by a ring sends 2 (n - 1) / n octets for each octet of an adapter's share, by a tree 1."""
    octets = {}
    for how in ("algorithm=ring,protocol=simple", "algorithm=collnet,sharp=yes"):
        run = softib.simulate(rails(), f"nccl-all-reduce:{SIZE},machine=dgx-h100,{how}")
        of_port, host, _ = sent(run)
        octets[how[10:14]] = of_port[host].max()
    assert octets["ring"] / octets["coll"] == pytest.approx(2 * 31 / 32, rel=0.01)


@pytest.mark.parametrize("layer", ["static", "fluid", "packet"])
def test_each_edge_of_the_tree_carries_the_reduced_stream_once_each_way(layer: str) -> None:
    """Hosts on four leaves: of each leaf one link to the top of the tree is used, and carries the whole vector up and down, however many hosts the leaf has."""
    run = softib.simulate(
        tree(), "nccl-all-reduce:1MiB,machine=dgx-a100,gpus=1,nics=1,algorithm=collnet,sharp=yes", layer=layer
    )
    assert run.good
    octets, host, trunk = sent(run)
    busy = octets[trunk][octets[trunk] > 1000]
    assert busy == pytest.approx(1 << 20, rel=0.01)
    leaves = len(np.unique(run._run.fabric.port_node[run._run.fabric.port_peer[host]]))
    assert len(busy) == 2 * leaves
    assert octets[host] == pytest.approx(1 << 20, rel=0.01)


@pytest.mark.parametrize(
    "text", ["nccl-all-reduce:4MiB,machine=dgx-h100,algorithm=collnet,sharp=yes", "aggregation:4MiB,tree=streaming"]
)
def test_the_layers_agree(text: str) -> None:
    at = {layer: softib.simulate(rails(), text, layer=layer).simulated_us for layer in ("static", "fluid", "packet")}
    assert at["fluid"] == pytest.approx(at["packet"], rel=0.1)
    assert at["static"] == pytest.approx(at["fluid"], rel=0.1)


def test_other_traffic_on_the_links_slows_the_tree() -> None:
    """The reduced stream shares links with three permutations, as any flow does: a quarter of a link is less than the channels move."""
    from softib.workloads.workload import Workload, parse

    job = parse(f"nccl-all-reduce:{SIZE},machine=dgx-h100,algorithm=collnet,sharp=yes").jobs[0]
    others = tuple(parse(f"shift:64MB,k={k}").jobs[0] for k in (8, 16, 24))
    alone = softib.simulate(rails(), Workload("alone", (job,))).to_json()["jobs"][0]["nccl"]["took_us"]
    shared = softib.simulate(rails(), Workload("shared", (job, *others))).to_json()["jobs"][0]["nccl"]["took_us"]
    assert shared > 1.3 * alone


def test_without_aggregation_nodes_one_line() -> None:
    plain = softib.generate("rail-optimized", nodes=4, rails=8, radix=32, ufm=False)
    with pytest.raises(InputError, match="no aggregation node") as refused:
        softib.simulate(plain, "nccl-all-reduce:1MB,algorithm=collnet,sharp=yes")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("detail", ["flows", "chunks"])
def test_a_tree_of_nvls_sends_the_same_with_switches_that_could_reduce(detail: str) -> None:
    """Two DGX H100 with ``sharp=yes`` run by NVLS' tree: nothing left the nodes, since switches that no one had reduced it."""
    fabric = softib.generate("rail-optimized", nodes=2, rails=8, generation="NDR", ufm=False, aggregation_nodes=True)
    line = f"nccl-all-reduce:16MB,algorithm=nvls-tree,detail={detail}"
    with_switches, without = (softib.simulate(fabric, line + more) for more in (",sharp=yes", ""))
    octets = [sum(j["bytes"] for j in run.to_json()["jobs"]) for run in (with_switches, without)]
    assert octets[0] == octets[1] >= 2 * 16_000_000
    assert with_switches.simulated_us == pytest.approx(without.simulated_us)
