"""An all-reduce by the switches: the messages between hosts and aggregation nodes, over a tree that
the aggregation manager wrote.

Every host sends its vector to the aggregation node of its own switch. When all children of a node
have sent a piece, the node sends the reduced piece to its parent. The root node of the job sends
the result down, and each node forwards it to its children and hosts (unicast). A piece is one
operation of a latency tree (at most the payload of its quota), or a packet of a streaming tree. The
quota limits the pieces that a host may have in flight: operations (OSTs) of a latency tree, bytes
of buffers of a streaming tree. Jobs that use the same node of a tree divide its quota into equal
parts, which are reserved for the whole run, as an aggregation manager reserves the resources that a
job requests (Graham et al. 2016). A node supports few concurrent streams (the OSTs of a streaming
tree). Further all-reduces wait for the lock of the tree, in the order in which they begin, like
libsharp's jobs in exclusive lock mode (NVIDIA SHARP 3.0.0, SHARP_COLL_JOB_REQ_EXCLUSIVE_LOCK_MODE).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError, LimitError
from softib.fabric.sharp_trees import SharpTree, sharp_trees
from softib.iba.rates import MTU_BYTES
from softib.iba.smp import PortInfo
from softib.sim.messages import NO_LIMIT, Messages, Opcode, Reduction, joined, messages
from softib.sm.aggregation.aggregation_trees import AggregationTree, Job, job_tree

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["MOST_MESSAGES", "Placement", "aggregation_messages", "all_reduces", "placements"]

MOST_MESSAGES = 5_000_000
NO_QUOTA = 1 << 30
"""Number of pieces that may be in flight if no quota is set."""
LARGEST = 1 << 30
"""Maximum number of bytes in one message of a stream."""


@dataclass(frozen=True)
class Placement:
    """The resources of an all-reduce. ``tree``: its tree. ``job``: the part of the tree that it
    uses. ``sharers``: number of jobs, including this one, that share the quota of its fullest node.
    ``behind``: numbers of the streams that use its nodes earlier and must end first."""

    tree: SharpTree
    job: Job
    sharers: int = 1
    behind: tuple[int, ...] = ()


def placements(fabric: Fabric, ends: np.ndarray, reductions: Sequence[Reduction]) -> list[Placement]:
    """Return a tree for each all-reduce: the one with the fewest jobs, as
    :meth:`~softib.sm.aggregation.aggregation_mgr.AggregationManager.job` chooses it. Raises
    :class:`InputError` if there are no aggregation nodes, or if no tree connects the hosts."""
    load: dict[int, int] = {}
    trees = [_tree_for(fabric, ends, reduction, load) for reduction in reductions]
    jobs_at = np.zeros((1 + max((tree.tree for tree, _ in trees), default=0), fabric.sizes.sharps), np.int64)
    for tree, job in trees:
        jobs_at[tree.tree, job.nodes] += 1
    behind = _behind(trees, reductions)
    return [
        Placement(tree, job, _sharers(tree, job, jobs_at[tree.tree], behind[1]), before)
        for (tree, job), before in zip(trees, behind[0], strict=True)
    ]


def _sharers(tree: SharpTree, job: Job, at: np.ndarray, queues: dict[tuple[int, int], list[list[int]]]) -> int:
    """Return the number of all-reduces that use the fullest node of ``job`` at the same time: those
    of all jobs that have a stream there. ``at``: total number of all-reduces by node."""
    shares = [int(at[node]) for node in job.nodes.tolist()]
    for i, node in enumerate(job.nodes.tolist()):
        jobs = len(queues.get((tree.tree, node), ()))
        if jobs > tree.osts > 0:
            shares[i] = -(-shares[i] * tree.osts // jobs)
    return max(shares)


def _behind(
    trees: Sequence[tuple[SharpTree, Job]], reductions: Sequence[Reduction]
) -> tuple[list[tuple[int, ...]], dict[tuple[int, int], list[list[int]]]]:
    """Return two values. The first lists, for each all-reduce, those that it waits for. At each
    node of a streaming tree with n OSTs, these are the all-reduces of the n-th job before its own
    job, in the order in which jobs begin (rails of one job count as one job). The second maps
    (tree, node) to the all-reduces of each job, in this order."""
    queues: dict[tuple[int, int], list[list[int]]] = {}
    behind: list[tuple[int, ...]] = [()] * len(trees)
    for i in sorted(range(len(trees)), key=lambda i: (reductions[i].start_ps, i)):
        tree, job = trees[i]
        if not tree.streaming or not tree.osts:
            continue
        before: set[int] = set()
        for node in job.nodes.tolist():
            queue = queues.setdefault((tree.tree, node), [])
            if not queue or reductions[queue[-1][0]].job != reductions[i].job:
                queue.append([])
            queue[-1].append(i)
            before.update(queue[-1 - tree.osts] if len(queue) > tree.osts else ())
        behind[i] = tuple(sorted(before))
    return behind, queues


def all_reduces(fabric: Fabric, ends: np.ndarray, messages: Messages, streams: bool = False) -> Messages:
    """Return ``messages`` with the messages of its all-reduces added
    (:func:`aggregation_messages`). If an all-reduce waits for a tree, its hosts begin when the last
    result of the previous all-reduce has reached a host of each switch."""
    placed = placements(fabric, ends, messages.reductions)
    owners, needed = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    last: dict[int, np.ndarray] = {}
    for i in sorted(range(len(placed)), key=lambda i: (messages.reductions[i].start_ps, i)):
        reduction, at = messages.reductions[i], placed[i]
        added = aggregation_messages(fabric, ends, reduction, streams=streams, placed=at)
        final = np.arange(len(added) - int(added.qp.max()) - 1, len(added))
        final = final[np.isin(added.dst[final], reduction.hosts)]
        last[i] = len(messages) + final[len(final) - 1 - np.unique(added.src[final][::-1], return_index=True)[1]]
        hosts = len(messages) + np.arange(len(reduction.hosts))
        for before in at.behind:
            owners.append(np.repeat(hosts, len(last[before])))
            needed.append(np.tile(last[before], len(hosts)))
        messages = joined(messages, added)
    owner = np.concatenate([np.repeat(np.arange(len(messages)), np.diff(messages.first)), *owners])
    order = np.argsort(owner, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(messages)))]).astype(np.int64)
    return replace(messages, first=first, needs=np.concatenate([messages.needs, *needed])[order])


def aggregation_messages(
    fabric: Fabric, ends: np.ndarray, reduction: Reduction, streams: bool = False, placed: Placement | None = None
) -> Messages:
    """Return the messages of one all-reduce between ``reduction.hosts`` (rows of ``ends``). The
    ``value`` of a host's message is 1 + the host's row; that of a result is the sum that the nodes
    computed. ``streams``: only the first piece is sent in steps, until it has passed the tree; the
    rest then flows over all edges at the same time. ``placed``: an entry of :func:`placements`;
    without it, no other all-reduce uses the trees.

    Raises :class:`InputError` if there are no aggregation nodes, or if no tree connects these
    hosts, and :class:`LimitError` for too many messages.
    """
    placed = placed or placements(fabric, ends, [reduction])[0]
    edges_up, edges_down = _edges(fabric, ends, reduction, placed.tree, placed.job)
    piece, window = _pieces(fabric, ends, reduction, placed)
    if streams:
        return _streams(reduction, edges_up, edges_down, piece)
    n = -(-reduction.size // piece)
    a_piece = len(edges_up) + len(edges_down)
    if n * a_piece > MOST_MESSAGES:
        raise LimitError(
            f"{n:,} pieces over {a_piece} edges are {n * a_piece:,} messages; use at most {MOST_MESSAGES:,}"
        )
    needs = _needs(edges_up, edges_down)
    hosts = {int(h) for h in reduction.hosts}
    src, dst = np.array(edges_up + edges_down).T
    of_host = np.array([int(s) in hosts for s in src])
    back = {int(d): len(edges_up) + i for i, (_, d) in enumerate(edges_down)}
    first, all_needs = _repeated(needs, n, window, np.flatnonzero(of_host), [back[int(h)] for h in src[of_host]])
    size = np.repeat(np.minimum(reduction.size - piece * np.arange(n), piece), a_piece)
    return messages(
        np.tile(src, n),
        np.tile(dst, n),
        size,
        qp=np.tile(np.arange(a_piece), n),
        opcode=Opcode.SEND,
        sl=reduction.sl,
        job=reduction.job,
        first=first,
        needs=all_needs,
        reduces=1,
        rate_gbps=np.tile(np.where(of_host, reduction.rate_gbps, NO_LIMIT), n),
        start_ps=np.tile(np.where(of_host, reduction.start_ps, 0), n),
        value=np.tile(np.where(of_host, src + 1, 0), n),
    )


def _streams(reduction: Reduction, up: list[tuple[int, int]], down: list[tuple[int, int]], piece: int) -> Messages:
    """Return the messages of a stream. Over each edge, the first piece is sent when the pieces that
    it depends on have arrived; the rest follows on the same queue pair."""
    edges = len(up) + len(down)
    rest = max(reduction.size - piece, 0)
    parts = [min(reduction.size, piece)] + [min(rest - at, LARGEST) for at in range(0, rest, LARGEST)]
    owner, needed = _flat(_needs(up, down))
    first = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=edges * len(parts)))])
    src, dst = (np.tile(side, len(parts)) for side in np.array(up + down).T)
    return messages(
        src,
        dst,
        np.repeat(parts, edges),
        qp=np.tile(np.arange(edges), len(parts)),
        opcode=Opcode.SEND,
        sl=reduction.sl,
        job=reduction.job,
        first=first,
        needs=needed,
        reduces=1,
        start_ps=reduction.start_ps,
        rate_gbps=reduction.rate_gbps,
    )


def _flat(needs: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return (edge that waits, edge that it waits for) of each dependency within a piece."""
    owner = np.repeat(np.arange(len(needs)), [len(wanted) for wanted in needs])
    return owner, np.array([j for wanted in needs for j in wanted], np.int64)


def _tree_for(fabric: Fabric, ends: np.ndarray, reduction: Reduction, load: dict[int, int]) -> tuple[SharpTree, Job]:
    """Return the tree of the job, read from the tables of the nodes. ``load``: number of jobs by
    tree so far, increased here."""
    f = fabric
    if not f.sizes.sharps:
        raise InputError("the fabric has no aggregation node; its switches cannot reduce (aggregation_nodes: true)")
    trees = sharp_trees(f)
    kind = "streaming" if reduction.streaming else "latency"
    above = f.port_node[f.port_peer[f.node_base[f.sharp_node] + 1]]
    at = f.port_node[f.port_peer[ends[reduction.hosts]]]
    candidates = [AggregationTree(t.tree, t.streaming, -1, t.parent) for t in trees]
    job = job_tree(candidates, above, at, load, reduction.streaming)
    if job is None:
        raise InputError(
            f"no {kind} aggregation tree joins these hosts; to let the manager create trees, set sm: aggregation: true"
        )
    return next(t for t in trees if t.tree == job.tree), job


def _edges(
    fabric: Fabric, ends: np.ndarray, reduction: Reduction, tree: SharpTree, job: Job
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return (source, destination) rows of ``ends`` for the way up the tree, and for the way down."""
    row_of_port = {int(port): row for row, port in enumerate(ends.tolist())}
    node = [row_of_port[int(port)] for port in fabric.node_base[fabric.sharp_node] + 1]
    up = [(int(h), node[int(a)]) for h, a in zip(reduction.hosts, job.node_of_host, strict=True)]
    up += [(node[a], node[int(tree.parent[a])]) for a in job.nodes.tolist() if a != job.top]
    return up, [(there, here) for here, there in up]


def _pieces(fabric: Fabric, ends: np.ndarray, reduction: Reduction, placed: Placement) -> tuple[int, int]:
    """Return the bytes of a piece, and the number of pieces that a host may have in flight: the job's part of the
    quota, at least one; without a quota, any number."""
    tree = placed.tree
    code = int(PortInfo.neighbor_mtu.get(fabric.port_info[ends[reduction.hosts]]).min())
    mtu = MTU_BYTES.get(code, 4096)
    if reduction.streaming:
        return mtu, max(tree.buffers // (mtu * placed.sharers), 1) if tree.buffers else NO_QUOTA
    return min(tree.payload or mtu, mtu), max(tree.osts // placed.sharers, 1) if tree.osts else NO_QUOTA


def _needs(up: list[tuple[int, int]], down: list[tuple[int, int]]) -> list[list[int]]:
    """Return for each edge the edges (numbers within a piece) whose messages it waits for."""
    into: dict[int, list[int]] = {}
    for i, (_, to) in enumerate(up):
        into.setdefault(to, []).append(i)
    from_above = {to: len(up) + i for i, (_, to) in enumerate(down)}
    needed = [into.get(source, []) for source, _ in up]
    needed += [[from_above[source]] if source in from_above else into[source] for source, _ in down]
    return needed


def _repeated(
    needs: list[list[int]], n: int, window: int, of_host: np.ndarray, back: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the CSR dependencies of ``n`` pieces. Each piece has the dependencies ``needs``. In
    addition, a host (edge ``of_host`` up, ``back`` down) sends a piece only after it has received
    the result of the piece that is ``window`` pieces earlier."""
    edges = len(needs)
    owner, needed = _flat(needs)
    step = edges * np.arange(n)[:, None]
    ahead = edges * np.arange(window, n)[:, None]
    owners = np.concatenate([(step + owner).ravel(), (ahead + of_host).ravel()])
    wanted = np.concatenate([(step + needed).ravel(), (ahead - edges * window + np.array(back, np.int64)).ravel()])
    order = np.argsort(owners, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=n * edges))])
    return first.astype(np.int64), wanted[order]
