"""Graphs and tables built by hand, from nothing but the arrays: no generator, no routing engine."""

from __future__ import annotations

import numpy as np

from softib.routing.graph import PortColumns, SwitchGraph


def _graph(nports: np.ndarray, n: int, switch_cables: tuple, host_cables: tuple) -> SwitchGraph:
    """Switches of ``nports``, ``n`` one-port hosts with LIDs 1 … n; cables as (switch, port, switch, port) columns."""
    switches = len(nports)
    node_type = np.array([2] * switches + [1] * n)
    node_nports = np.concatenate([nports, np.ones(n, int)])
    base = np.concatenate([[0], np.cumsum(node_nports + (node_type == 2))])[:-1] - (node_type == 1)
    port_node = np.repeat(np.arange(switches + n), node_nports + (node_type == 2))
    port_num = np.arange(len(port_node)) - base[port_node]
    peer = np.full(len(port_node), -1)

    def plug(a: np.ndarray, b: np.ndarray) -> None:
        peer[a], peer[b] = b, a

    a, pa, b, pb = switch_cables
    plug(base[a] + pa, base[b] + pb)
    host = np.arange(n)
    at, port = host_cables
    plug(base[at] + port, base[switches + host] + 1)
    lid = np.zeros(len(port_node), int)
    lid[base[switches + host] + 1] = 1 + host
    lid[base[:switches]] = n + 1 + np.arange(switches)
    return SwitchGraph.from_ports(
        PortColumns(
            node_type=node_type,
            node_guid=np.arange(switches + n) + 1,
            node_nports=node_nports,
            port_node=port_node,
            port_num=port_num,
            port_guid=np.arange(len(port_node)) + 1000,
            port_peer=peer,
            port_lid=lid,
            port_lmc=np.zeros(len(port_node), int),
        )
    )


def two_level(leaves: int, hosts: int, spines: int) -> tuple[SwitchGraph, np.ndarray]:
    """Full two-level tree; spine = destination index mod spines (d-mod-k). Host i has LID i + 1."""
    host = np.arange(leaves * hosts)
    nports = np.array([hosts + spines] * leaves + [leaves] * spines)
    leaf, spine = (x.ravel() for x in np.meshgrid(np.arange(leaves), np.arange(spines), indexing="ij"))
    graph = _graph(
        nports,
        len(host),
        (leaf, hosts + 1 + spine, leaves + spine, 1 + leaf),
        (host // hosts, 1 + host % hosts),
    )
    lft = np.full((len(nports), graph.lft_size), 255, np.uint8)
    for s in range(leaves):
        lft[s, 1 + host] = np.where(host // hosts == s, 1 + host % hosts, hosts + 1 + host % spines)
    lft[leaves:, 1 + host] = 1 + host // hosts
    return graph, lft


def three_level(radix: int) -> tuple[SwitchGraph, np.ndarray]:
    """k-ary fat tree (Al-Fares, Loukissas, Vahdat 2008): radix³/4 hosts in ``radix`` pods, d-mod-k on both levels up."""
    h = radix // 2
    pods, leaves = radix, radix * h
    host = np.arange(leaves * h)
    nports = np.full(2 * leaves + h * h, radix)
    pod, i, j = (x.ravel() for x in np.meshgrid(np.arange(pods), np.arange(h), np.arange(h), indexing="ij"))
    leaf_spine = (pod * h + i, h + 1 + j, leaves + pod * h + j, 1 + i)
    spine_core = (leaves + pod * h + i, h + 1 + j, 2 * leaves + i * h + j, 1 + pod)
    cables = tuple(np.concatenate(c) for c in zip(leaf_spine, spine_core, strict=True))
    graph = _graph(nports, len(host), cables, (host // h, 1 + host % h))
    lft = np.full((len(nports), graph.lft_size), 255, np.uint8)
    up1, up2 = h + 1 + host % h, h + 1 + host // h % h
    own_pod = host // (h * h)
    for s in range(leaves):
        lft[s, 1 + host] = np.where(host // h == s, 1 + host % h, up1)
        lft[leaves + s, 1 + host] = np.where(own_pod == s // h, 1 + host // h % h, up2)
    lft[2 * leaves :, 1 + host] = 1 + own_pod
    return graph, lft
