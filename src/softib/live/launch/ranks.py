"""Ranks of a parallel job on nodes of the fabric: ``mpirun -np 2 softib run -- ./program`` puts
each on a host of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.errors import InputError, UnknownName
from softib.fabric.node_finder import NodeFinder, host_of

__all__ = ["Ranks"]


class Ranks:
    """Which node a rank sits on."""

    def __init__(self, finder: NodeFinder):
        self.finder = finder
        self._hosts: list[int] = []
        self._more = self._each_host()

    def of(self, node: str, rank: int | None) -> tuple[str, int | None]:
        """``--node`` for this rank, and the row of the host instead where none was named.

        ``node`` is one name for all ranks, or several with commas: rank r has the r-th, and begins
        again behind the last. Without a name it is the r-th host. Raises :class:`InputError`:
        several names and no rank, or no host.
        """
        if node:
            names = [node] if "," not in node or self._known(node) else [n.strip() for n in node.split(",")]
            if not all(names):
                raise InputError(f"--node {node}: an empty name between commas")
            if len(names) > 1 and rank is None:
                raise InputError(
                    f"--node {node}: several nodes are for ranks, and no launcher (mpirun, srun, torchrun) says "
                    f"which one "
                    "this is; name one node, or start 'mpirun -np N softib run --node A,B -- CMD'"
                )
            return names[(rank or 0) % len(names)], None
        return "", None if rank is None else self._host(rank)

    def _known(self, name: str) -> bool:
        try:
            self.finder.rows(name)
        except UnknownName:
            return False
        return True

    def _host(self, rank: int) -> int | None:
        """Row of a CA of the rank's host; None on a fabric without linked CAs."""
        while len(self._hosts) <= rank and (row := next(self._more, None)) is not None:
            self._hosts.append(row)
        return self._hosts[rank % len(self._hosts)] if self._hosts else None

    def _each_host(self) -> Iterator[int]:
        """The first linked CA of each host, in the order of the file."""
        f = self.finder.fabric
        linked = np.unique(f.port_node[np.flatnonzero(f.linked)])
        seen: set[int] = set()
        for node in linked[f.is_host[linked]].tolist():
            if node not in seen:
                seen.update(host_of(f, node))
                yield node
