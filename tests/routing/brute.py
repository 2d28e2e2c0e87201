"""Slow, plain Python that knows nothing of the kernels: walks tables, searches graphs."""

from __future__ import annotations

from collections import deque


def neighbours(g):
    """switch → [(out_port, peer switch)]"""
    return {
        s: [(int(g.out_port[e]), int(g.peer[e])) for e in range(g.first[s], g.first[s + 1])]
        for s in range(g.n_switches)
    }


def bfs(g, source):
    """{switch: links from source}"""
    near, seen, queue = neighbours(g), {source: 0}, deque([source])
    while queue:
        s = queue.popleft()
        for _, p in near[s]:
            if p not in seen:
                seen[p] = seen[s] + 1
                queue.append(p)
    return seen


def places(g):
    """What ports lead to: ({(switch, port): switch}, {(switch, port): end})."""
    links = {(s, port): peer for s, near in neighbours(g).items() for port, peer in near}
    return links, {(int(g.end_switch[i]), int(g.end_port[i])): i for i in range(len(g.end_lid))}


def walk(g, lft, switch, lid, known=None):
    """(what became of it, [(switch, out_port), …]) of a packet for ``lid`` put on ``switch``; ``known``: :func:`places` of ``g``.

    ``("end", path)`` names the end index it reached, ``("dead", …)``, ``("loop", …)``.
    """
    links, hosts = known or places(g)
    path, seen = [], set()
    while True:
        if switch in seen:
            turn = path[[s for s, _ in path].index(switch) :]
            return "loop", path + turn + turn[:1]  # once more round: it enters by another port than at first
        seen.add(switch)
        port = int(lft[switch][lid])
        if (switch, port) in hosts:
            if port:
                path.append((switch, port))
            return hosts[switch, port], path
        if port == 255 or (switch, port) not in links:
            return "dead", path
        path.append((switch, port))
        switch = links[switch, port]


def lids(g, end):
    return range(int(g.end_lid[end]), int(g.end_lid[end]) + (1 << int(g.end_lmc[end])))


def cas(g):
    return [i for i in range(len(g.end_lid)) if not g.end_is_switch[i]]


def judge(g, lft):
    """(arrived, hops histogram of CA→CA and CA→switch, unreachable) by walking every pair."""
    hops, lost = {}, 0
    for a in cas(g):
        for b in range(len(g.end_lid)):
            if a == b:
                continue
            for lid in lids(g, b):
                got, path = walk(g, lft, int(g.end_switch[a]), lid)
                if got == b:
                    hops[len(path)] = hops.get(len(path), 0) + 1
                else:
                    lost += 1
    return hops, lost


def dependencies(g, lft, vl_of=lambda a, b: lambda s, i, o: 0, counts=lambda a, b: True, switches=False, answers=False):
    """Edges between channels (switch, port, vl) from every CA's path that ``counts``, in plain sets.

    ``vl_of(source end, destination end)`` gives a function (switch, in_port, out_port) → VL. ``switches``: also the paths of packets that switches send: what they ask,
    and their answers, which have the SL of the request. ``answers``: CAs answer so, too, as connections by the connection manager do; None: not even switches answer.
    """
    far = {
        (s, int(g.out_port[e])): (int(g.peer[e]), int(g.peer_port[e]))
        for s in range(g.n_switches)
        for e in range(g.first[s], g.first[s + 1])
    }
    edges, known = {}, places(g)
    for a in range(len(g.end_lid)) if switches else cas(g):
        for b in range(len(g.end_lid)):
            vls = [vl_of(a, b)] if counts(a, b) else []
            if (answers or (answers is False and g.end_is_switch[a])) and counts(b, a):
                vls.append(vl_of(b, a))
            for vl, lid in [(vl, lid) for vl in vls if a != b for lid in lids(g, b)]:
                _, path = walk(g, lft, int(g.end_switch[a]), lid, known)
                came, before = int(g.end_port[a]), None
                for s, p in path:
                    if (s, p) not in far:
                        break
                    here = (s, p, vl(s, came, p))
                    edges.setdefault(here, set())
                    if before is not None:
                        edges[before].add(here)
                    before, came = here, far[s, p][1]
    return edges


def cut_off(g, lft):
    """(switch, end) pairs that cables join and ``lft`` does not: from each end back over the entries that lead there."""
    near, out = neighbours(g), []
    for b in range(len(g.end_lid)):
        home, joined = int(g.end_switch[b]), bfs(g, int(g.end_switch[b]))
        for lid in lids(g, b):
            arrives = {home} if int(lft[home][lid]) == int(g.end_port[b]) else set()
            queue = list(arrives)
            for s in queue:
                for _, p in near[s]:
                    if p not in arrives and any(q == s and port == int(lft[p][lid]) for port, q in near[p]):
                        arrives.add(p)
                        queue.append(p)
            out += [(s, b) for s in joined if s not in arrives]
    return sorted(set(out))


def has_cycle(edges):
    """Depth-first, three colours."""
    colour = dict.fromkeys(edges, 0)
    for root in edges:
        if colour[root]:
            continue
        stack = [(root, iter(edges[root]))]
        colour[root] = 1
        while stack:
            node, rest = stack[-1]
            nxt = next(rest, None)
            if nxt is None:
                colour[node] = 2
                stack.pop()
            elif colour[nxt] == 1:
                return True
            elif colour[nxt] == 0:
                colour[nxt] = 1
                stack.append((nxt, iter(edges[nxt])))
    return False
