"""The state of the SA while its manager is master (IBA 15.4): groups, subscriptions and services;
notices of GIDs (traps 64, 65) and of groups (66, 67); reports that are not acknowledged yet; and
queries that wait for tables of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from softib.iba.notice import Notice
from softib.mad.batch import MadBatch
from softib.mad.transactor import Transactor
from softib.sm.config import SmConfig
from softib.sm.journal import Journal
from softib.sm.managers.link_mgr import fewest_data_vls
from softib.sm.managers.mcast_mgr import Group, McastManager, has_full
from softib.sm.managers.partitions import BASE, IP_SIGNATURES, Members, Partition
from softib.sm.sa.administrator import Administrator, Deferred
from softib.sm.sa.inventory import Need
from softib.sm.sa.mcmember_record import Multicast, broadcast_mgid
from softib.sm.sa.service_record import Services
from softib.sm.sa.subnet import Subnet
from softib.sm.sa.subscriptions import Subscription, Subscriptions, gid_notice, report

__all__ = ["SaManager", "SaRecords"]

REPORT_WINDOW = 64
BUDGET = 1024.0
"""Maximum cost of the requests that are answered in one step (:mod:`softib.sm.sa.fair_queue`). They
take about 20 ms, so that no SMP has to wait longer for the manager."""
IN_SERVICE, OUT_OF_SERVICE = 64, 65
LINK_LOCAL, HOPS_MAX = 2, 255


@dataclass
class SaRecords:
    """Records that are restored in a new SA, from a dump or from a standby's copy. ``services``: as
    in :class:`~softib.sm.sa.service_record.Services`. ``made``: MGIDs that were created.
    ``aliases``: (PortGUID, block) → its alias GUIDs, uint64[8]. ``here``: PortGUIDs of the subnet.
    """

    groups: list[Group] = field(default_factory=list)
    services: dict[bytes, tuple[np.ndarray, int, int]] = field(default_factory=dict)
    subscriptions: list[Subscription] = field(default_factory=list)
    made: int = 0
    aliases: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    here: list[int] = field(default_factory=list)


class SaManager:
    """``subnet`` is None while this manager is not master. ``groups.changed`` and ``waiting``
    contain work that the manager has not done yet."""

    def __init__(self, config: SmConfig):
        self.config = config
        self.journal = Journal()
        self.groups = McastManager(self.journal)
        self.subscriptions, self.services = Subscriptions(self.journal), Services(self.journal)
        self.multicast = Multicast(self.groups)
        self.sa = Administrator(config.sa_key, self.multicast, self.subscriptions, self.services)
        self.sa.aliases.journal = self.journal
        self.waiting: list[Deferred] = []
        self.queue = self.sa.queue
        self.requests = self.refused = 0
        """Number of queries from others since the start, and the number of these answered BUSY."""
        self._served = False
        self._reports = Transactor(REPORT_WINDOW, config.timeout_ps, config.retries)
        self._outbox: list[MadBatch] = []
        self._now_ps = 0
        self._restored: np.ndarray | None = None
        self._outdated, self._requested = set[int](), set[int]()
        """PortGUIDs of members that joined a group before its attributes changed, and of those
        members that the current sweep requests to join again."""

    @property
    def subnet(self) -> Subnet | None:
        """The subnet whose records this SA returns."""
        return self.sa.subnet

    @property
    def registered(self) -> np.ndarray | None:
        """PortGUIDs (uint64[n]) of the hosts whose groups, services and subscriptions this manager
        knows; None if it knows no host's."""
        return self._restored if self.subnet is None else self.subnet.end_guid

    def up_to_date(self) -> np.ndarray | None:
        """Return those of the :attr:`registered` hosts that did not join a group before its
        attributes changed. The sweep that begins now requests all other hosts to join again."""
        registered = self.registered
        self._requested, self._outdated = self._requested | self._outdated, set()
        if registered is None or not self._requested:
            return registered
        return np.setdiff1d(registered, np.array(sorted(self._requested), np.uint64))

    @property
    def needs_sweep(self) -> bool:
        """Return whether members of changed groups have not been requested to join again."""
        return bool(self._outdated)

    # -- mastership --

    def restore(self, copy: SaRecords, config: SmConfig) -> None:
        """Restore the records of the previous master. A restored multicast group outlives its last member only if a
        partition in ``config`` defines it."""
        self.close()
        self.config = config
        for group in copy.groups:
            self.groups.enter(group)
        for s in copy.subscriptions:
            self.subscriptions.add(s)
        self.services.records.update(copy.services)
        self.multicast.made = copy.made
        self.sa.aliases.restore(copy.aliases)
        self._restored = np.array(sorted(copy.here), np.uint64)

    def open(self, subnet: Subnet, members: Members) -> None:
        """Handle the end of a sweep: absent ports are removed, and subscribers get GID In Service and Out of Service
        notices."""
        before, first = self.registered, self.subnet is None
        self._requested.clear()
        if first:
            self._partition_groups(subnet)
        self.sa.refresh(subnet, members)
        self._restored = None
        if before is None:
            return
        if first:
            self._end_deserted(self.groups.groups.values())
        old, new = set(before.tolist()), set(subnet.end_guid.tolist())
        for guid in sorted(new - old):
            self._report_gid(IN_SERVICE, (self.config.subnet_prefix, guid))
        left = old - new
        if left:
            for group in self.groups.remove_ports(left):
                self.multicast.events.append((67, group.mgid))
            self.subscriptions.remove_ports(left)
            self.services.remove_ports(left)
            self.sa.aliases.remove_ports(left)
            self.sa.renamed()
        for guid in sorted(left):
            self._report_gid(OUT_OF_SERVICE, (self.config.subnet_prefix, guid))
        self._events()

    def close(self) -> None:
        """Stop answering and discard the state, because this manager is no longer master."""
        self.sa.close()
        self.sa.aliases.clear()
        self.groups.clear()
        self._outdated.clear()
        self._requested.clear()
        self.subscriptions.clear()
        self._restored = None
        self.services.records.clear()
        self.multicast.events.clear()
        self.waiting.clear()
        self._outbox.clear()
        self._reports.abandon()
        self.queue.clear()

    def reconfigure(self, config: SmConfig) -> None:
        """Use the partitions of ``config``: their groups are added or changed. The groups of
        removed partitions end when their last full member leaves. Members of a changed group must
        join again; the next sweep requests this."""
        self.config = config
        if self.subnet is None:
            return
        kept = [g for g in self.groups.groups.values() if g.kept]
        for group in kept:
            group.kept = False
        self._enter_groups(self.subnet, config.known_partitions, changes=True)
        self._end_deserted(kept)
        self._events()

    def repartition(self, config: SmConfig, old: list[Partition], new: list[Partition], rows: np.ndarray) -> None:
        """Replace partitions ``old`` with ``new`` without a sweep; their memberships are in these ``rows``."""
        assert self.subnet is not None
        self.sa.repartition(rows)
        if any(g.mgid for p in (*old, *new) for g in p.groups):  # another partition may keep the same group
            self.reconfigure(config)
            return
        self.config = config
        groups = [self.groups.groups.get(broadcast_mgid(p.pkey, g.scope)) for p in old for g in p.groups]
        kept = [g for g in groups if g is not None and g.kept]
        for group in kept:
            group.kept = False
        self._enter_groups(self.subnet, [p for p in new if p.members], changes=True)
        self._end_deserted(kept)
        self._events()

    def _end_deserted(self, groups: Iterable[Group]) -> None:
        """End the groups among ``groups`` that no partition keeps and that have no full member."""
        for group in [g for g in groups if not has_full(g)]:
            self.groups.remove(group)
            self.multicast.events.append((67, group.mgid))

    def _partition_groups(self, subnet: Subnet) -> None:
        """Create the groups of partitions: IPoIB's broadcast group, and those in the file. If the
        engine's paths use several VLs, groups use the first SL that no path uses, unless the file
        states another SL. (Clients create their own groups with the broadcast group's SL.)"""
        self._enter_groups(subnet, self.config.known_partitions)

    def _enter_groups(self, subnet: Subnet, partitions: Iterable[Partition], changes: bool = False) -> None:
        """With ``changes``, existing groups get the attributes of their partition. Otherwise they keep the attributes
        from the previous master, because their members use these."""
        free = self._free_sl(subnet)
        for partition in partitions:
            for g in partition.groups:
                mgid = g.mgid or broadcast_mgid(partition.pkey, g.scope)
                stated = {
                    "qkey": g.qkey,
                    "mtu": g.mtu,
                    "rate": g.rate,
                    "sl": g.sl or free,
                    "tclass": g.tclass,
                    "flow_label": g.flow_label,
                }
                if (group := self.groups.groups.get(mgid)) is not None:
                    group.kept = True
                    if changes and any(getattr(group, name) != value for name, value in stated.items()):
                        self._change(group, stated)
                else:
                    self.groups.add(
                        mgid,
                        0x3FFF,
                        **stated,
                        pkey=partition.pkey | 0x8000,
                        hop_limit=0 if g.scope == LINK_LOCAL else HOPS_MAX,
                        packet_life_time=self.config.subnet_timeout,
                        kept=True,
                    )

    def _change(self, group: Group, stated: dict[str, int]) -> None:
        """Change the attributes of a partition's group. If it is IPoIB's broadcast group, also
        change the IP groups that clients created with its attributes. Otherwise these clients would
        request the new attributes, and be rejected."""
        is_broadcast = group.mgid == broadcast_mgid(group.pkey & BASE, group.scope)
        level = {name: stated[name] for name in ("qkey", "mtu", "rate", "sl")}
        before = {name: getattr(group, name) for name in level}
        alike = [
            g
            for g in (self.groups.groups.values() if is_broadcast else ())
            if g.pkey & BASE == group.pkey & BASE
            and not g.kept
            and g.mgid[2:4] in IP_SIGNATURES
            and all(getattr(g, name) == value for name, value in before.items())
        ]
        for one, values in ((group, stated), *((g, level) for g in alike)):
            self._outdated |= one.members.keys()
            self.groups.change(one, **values)

    def _free_sl(self, subnet: Subnet) -> int:
        """Return an SL whose VL no unicast path uses; 0 if one VL is enough, or if no VL is left."""
        if subnet.routing.path_sl is None:
            return 0
        used = subnet.routing.vls
        return used if used < fewest_data_vls(subnet.db, self.config.max_op_vls) else 0

    # -- questions --

    def sm_info(self, local_info: Callable[[], np.ndarray], others: dict[int, np.ndarray]) -> None:
        """Set the content of SMInfoRecord; ``local_info`` is called for each request."""
        self.sa.sm_info, self.sa.other_managers = local_info, others

    def answer(self, requests: MadBatch, now_ps: int) -> MadBatch:
        """Return answers; a query that needs tables of devices is added to ``waiting``."""
        self._now_ps = now_ps
        self.requests += len(requests)
        if not len(self.queue) and (len(requests) == 1 or self.queue.costs(requests) <= BUDGET):
            return self._answer(requests)
        full = self.queue.put(requests)
        self._served = True
        self.refused += 0 if full is None else len(full)
        replies = self._answer(self.queue.take(BUDGET))
        return replies if full is None else MadBatch.concat([replies, self.sa.busy(full)])

    def _answer(self, requests: MadBatch) -> MadBatch:
        replies = self.sa.answer(requests, self._now_ps)
        self.waiting += self.sa.deferred
        self.sa.deferred.clear()
        self._events()
        return replies

    def was_read(self, need: Need, table: np.ndarray) -> None:
        """Answer the requests that waited for the tables that were just read."""
        self.sa.read[need] = table
        ready = [w for w in self.waiting if w.need == need]
        self.waiting = [w for w in self.waiting if w.need != need]
        for w in ready:
            self._outbox.append(self.sa.answer(w.request, self._now_ps))

    # -- notices --

    def forward(self, notice: np.ndarray) -> None:
        """Forward a device's trap (Notice, uint8[64]) to its subscribers."""
        if self.subnet is None:
            return
        end = int(self.subnet.end_of_lid[int(Notice.issuer_lid.get(notice))])
        gid = (self.config.subnet_prefix, int(self.subnet.end_guid[end])) if end >= 0 else (0, 0)
        self._report(notice, gid)

    def _events(self) -> None:
        """Report groups that were created or ended."""
        for trap, mgid in self.multicast.events:
            octets = np.frombuffer(mgid, ">u8")
            self._report_gid(trap, (int(octets[0]), int(octets[1])))
        self.multicast.events.clear()

    def _report_gid(self, trap: int, gid: tuple[int, int]) -> None:
        subnet = self.subnet
        assert subnet is not None
        port = subnet.db.sm_port
        issuer = (self.config.subnet_prefix, int(subnet.db.port_guid[port]))
        self._report(gid_notice(trap, gid, int(subnet.db.port_lid[port])), issuer)

    def _report(self, notice: np.ndarray, issuer: tuple[int, int]) -> None:
        to = self.subscriptions.wanted_by(notice, issuer)
        if to:
            self._reports.submit(report(notice, issuer, to), np.zeros(len(to), np.int64))

    # -- the wire --

    def acknowledged(self, now_ps: int, inbox: MadBatch) -> None:
        """Handle answers to reports."""
        self._reports.receive(now_ps, inbox)
        self._reports.completed()

    def postpone(self, by_ps: int) -> None:
        """See :meth:`~softib.mad.transactor.Transactor.postpone`."""
        self._reports.postpone(by_ps)

    def send(self, now_ps: int) -> tuple[MadBatch, int]:
        """Return deferred answers and reports, and the time of the next call."""
        self._reports.receive(now_ps)
        self._reports.completed()
        served, self._served = self._served, False
        if len(self.queue) and not served:
            self._now_ps = now_ps
            self._outbox.append(self._answer(self.queue.take(BUDGET)))
        reports, deadline_ps = self._reports.send(now_ps)
        deadline_ps = now_ps if len(self.queue) else deadline_ps
        out = MadBatch.concat([*self._outbox, reports]) if self._outbox else reports
        self._outbox = []
        return out, deadline_ps
