"""Text about the tables of a sweep: which engine made them and why, and whether packets arrive and
cannot deadlock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softib.jit import small_work_in_python
from softib.plural import counted, plural
from softib.result import Result, key
from softib.routing.engine import Routing, chain
from softib.routing.graph import SwitchGraph
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.link_mgr import fewest_data_vls

if TYPE_CHECKING:
    from softib.routing.proof.credit_loops import Channel

__all__ = ["PROVED", "TableProof", "prove_tables"]

PROVED = 1 << 22
"""Maximum number of forwarding table entries that a running manager proves. In a larger subnet, the
proof would delay the answers to requests."""
SHOWN_LINKS = 4


@dataclass(frozen=True)
class TableProof(Result):
    """Forwarding tables, and the result of their proof."""

    wanted: str
    """The selected engines."""
    engine: str
    """The engine that made the tables."""
    reasons: tuple[str, ...] = ()
    """Reasons why another engine than the selected one made them."""
    lost: int | None = field(default=None, metadata=key("unreachable"))
    """Number of pairs (CA, address of another device) without a path; null: not proved."""
    loop: tuple[str, ...] = field(default=(), metadata=key("credit_loop"))
    """Switch and egress port of each link of a credit loop; empty: none can form."""
    switch_lost: int | None = field(default=None, metadata=key("switch_unreachable"))
    """Number of pairs (switch, address of another device) without a path; null: not proved."""
    switch_loop: tuple[str, ...] = field(default=(), metadata=key("switch_credit_loop"))
    """The links of a credit loop that exists only with packets sent by switches, or sent to
    them."""
    answer_loop: tuple[str, ...] = field(default=(), metadata=key("answer_credit_loop"))
    """The links of a credit loop that exists only if answers use the SL of the request."""

    @property
    def is_fallback(self) -> bool:
        """Return whether an engine that was not selected made the tables."""
        return self.engine not in chain(self.wanted)

    @property
    def good(self) -> bool:
        """Return whether the proof found no fault."""
        return not self.is_fallback and not self.lost and not self.loop

    @property
    def faults(self) -> list[str]:
        """The faults of the tables, one line each."""
        lines = []
        if self.is_fallback:
            reasons = f" ({'; '.join(self.reasons)})" if self.reasons else ""
            lines.append(f"tables by {self.engine}, not by {self.wanted}{reasons}")
        if self.lost:
            lines.append(f"{counted(self.lost, 'pair')} {plural(self.lost, 'has', 'have')} no path")
        if self.loop:
            lines.append(f"a credit loop can form: {_cycle(self.loop)}")
        if lines and not self.is_fallback:
            lines[0] = f"tables by {self.engine}: {lines[0]}"
        return lines

    @property
    def remarks(self) -> list[str]:
        """Limitations of tables on which all traffic of CAs arrives, one line each."""
        lines = []
        if self.switch_lost:
            pairs = f"{counted(self.switch_lost, 'pair')} {plural(self.switch_lost, 'has', 'have')}"
            lines.append(f"packets of switches: {pairs} no path")
        if self.answer_loop:
            lines.append(f"answers on the SL of the request can form a credit loop: {_cycle(self.answer_loop)}")
        if self.switch_loop:
            lines.append(f"packets from and to switches can form a credit loop: {_cycle(self.switch_loop)}")
        return lines

    @property
    def verdict(self) -> str:
        """One line with :attr:`remarks` if the tables have no fault; empty if there are
        :attr:`faults`."""
        if not self.good:
            return ""
        if self.lost is None:
            return f"tables by {self.engine}, not proved: run 'softib check' on this subnet"
        if remarks := self.remarks:
            return f"tables by {self.engine}: every pair of CAs arrives, without a credit loop; {'; '.join(remarks)}"
        return f"tables by {self.engine}: every pair arrives, no credit loop"


def _cycle(links: tuple[str, ...]) -> str:
    tail = f" → … ({counted(len(links), 'link')})" if len(links) > SHOWN_LINKS else " → the first"
    return " → ".join(links[:SHOWN_LINKS]) + tail


@small_work_in_python(repeated=True)
def prove_tables(
    db: Database, graph: SwitchGraph, routing: Routing, config: SmConfig, most: int | None = None
) -> TableProof:
    """Prove the tables that a sweep wrote to the switches of ``db``; tables of more than ``most``
    entries are not proved (None: no limit)."""
    engines = tuple(f"{engine}: " for engine in chain(config.engine))
    reasons = tuple(db.with_names(note) for note in routing.notes if note.startswith(engines))
    if most is not None and routing.lft.size > most:
        return TableProof(config.engine, routing.engine, reasons)
    from softib.routing.proof.verify import verify

    vls = fewest_data_vls(db, config.max_op_vls)
    proof = verify(graph, routing.lft, routing.path_sl, routing.sl2vl, vls)
    loop, switch_loop, answer_loop = (
        tuple(_channel(db, graph, c) for c in cycle or ())
        for cycle in (proof.credit_loop, proof.switch_loop, proof.answer_loop)
    )
    return TableProof(
        config.engine,
        routing.engine,
        reasons,
        proof.unreachable,
        loop,
        proof.switch_unreachable,
        switch_loop,
        answer_loop,
    )


def _channel(db: Database, graph: SwitchGraph, channel: Channel) -> str:
    switch, port, vl = channel
    return f"{db.name(int(graph.switch_node[switch]))}[{port}]" + (f" VL {vl}" if vl else "")
