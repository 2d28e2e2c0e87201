"""Rules for the protection of a fabric (IBA 10.9, 14.2.4, 14.4, 15.4.1; options of OpenSM and UFM). ``advice`` names
the option of OpenSM (in ``opensm.conf`` or ``partitions.conf``), which softib's manager also has (``sm:`` in
fabric.yaml), and UFM's option (in ``gv.cfg``) if it is different.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from softib.diags.finding import Finding, Location, Severity, code, each_or_one, few, finding
from softib.diags.hardening.evidence import DEFAULT_BASE, FULL, EndPort, Evidence
from softib.plural import counted

__all__ = ["OPENSM_KEY", "judge", "pkey_text"]

OPENSM_KEY = 1
"""Default of OpenSM's ``sm_key`` and ``sa_key``, which is publicly known."""

MKEY_UNSET = code(
    "mkey-unset",
    Severity.ERROR,
    "ports have no M_Key: root on any host can change their LID, P_Keys and state",
    "set m_key (UFM and newer OpenSM: m_key_per_port TRUE too) and m_key_protection_level 2 in the manager's options",
)
MKEY_READABLE = code(
    "mkey-readable",
    Severity.ERROR,
    "ports return their M_Key to any request (M_KeyProtectBits 0)",
    "set m_key_protection_level 2, then change m_key: the old one may be known",
)
MKEY_LEVEL = code(
    "mkey-level",
    Severity.WARNING,
    "ports answer Gets without the M_Key (M_KeyProtectBits 1): anyone can read the fabric's tables",
    "set m_key_protection_level 2",
)
MKEY_SHARED = code(
    "mkey-shared",
    Severity.INFO,
    "ports share one M_Key: an attacker who learns it at one port can change all",
    "set m_key_per_port TRUE (UFM's OpenSM); OpenSM 3.3 and softib have one m_key, so do not store it on hosts",
)
MKEY_LEASE = code(
    "mkey-lease",
    Severity.WARNING,
    "protection by the M_Key expires after a wrong key: the lease period is not 0",
    "set m_key_lease_period 0 if a manager is always running, or monitor trap 256",
)
MANAGER_FOREIGN = code(
    "manager-foreign",
    Severity.ERROR,
    "a subnet manager runs where none is allowed",
    "stop it, and find out who started it; allowed_sm_guids (UFM) or sm_key keep others from taking over",
)
SM_KEY_SHOWN = code(
    "sm-key-shown",
    Severity.WARNING,
    "a subnet manager returns its SM_Key to any request, so any manager can impersonate one of the site",
    "do not rely on SM_Key: protect managers with allowed_sm_guids (UFM), or with M_Keys at protection level 2",
)
SM_KEY_DEFAULT = code(
    "sm-key-default",
    Severity.ERROR,
    "a subnet manager has OpenSM's default SM_Key: a foreign one with the default takes part in the election",
    "set sm_key to a random value, the same for master and standbys",
)
PARTITION_DEFAULT_FULL = code(
    "partition-default-full",
    Severity.WARNING,
    "hosts are full members of the default partition: each reaches all its members regardless of other partitions",
    "use 'Default=0x7fff, ipoib: ALL=limited, SELF=full;' in partitions.conf (UFM: default_membership = limited)",
)
PARTITION_EVERYONE = code(
    "partition-everyone",
    Severity.WARNING,
    "all hosts are full members of one partition: each reaches all others, whatever other partitions there are",
    "list the ports of the partition, or use ALL=limited with the ports of the servers full",
)
PARTITION_MIXED = code(
    "partition-mixed",
    Severity.INFO,
    "limited members of a partition are isolated from each other, and several full members reach them all",
    "make only ports that serve all others full members; a full member can relay between limited ones",
)
PARTITION_UNUSED = code(
    "partition-unused",
    Severity.INFO,
    "a P_Key is in the table of only one port",
    "remove the partition, or add its other members: a leftover key may be reused for another tenant",
)
PKEY_INDEX0 = code(
    "pkey-first-entry",
    Severity.WARNING,
    "entry 0 of a P_Key table is empty while others are not: management agents and many programs use entry 0",
    "keep the default partition at index 0 (pkey index0 in UFM's REST, OpenSM's own order)",
)
ENFORCEMENT_OFF = code(
    "enforcement-off",
    Severity.ERROR,
    "switches do not check P_Keys of packets from hosts: a host that changes its own table can join any partition",
    "set part_enforce both (or in), and no_partition_enforcement FALSE; softib's manager needs a partitions.conf or "
    "softib serve --tenants, too; if the switch port's table is full, OpenSM disables the check: remove the host from "
    "partitions",
)
ENFORCEMENT_WIDER = code(
    "enforcement-wider",
    Severity.WARNING,
    "a switch port accepts more P_Keys than its host holds",
    "sweep (SIGHUP, softib sm sweep); if it persists, another program writes tables: set M_Keys",
)
SA_OPEN = code(
    "sa-open",
    Severity.ERROR,
    "the subnet administration trusts all requesters: it returns P_Key tables without an SM_Key",
    "set sa_key to a random value other than 0 (UFM: the SA's enhanced trust model)",
)
SA_DEFAULT_KEY = code(
    "sa-default-key",
    Severity.ERROR,
    "the subnet administration trusts OpenSM's default key: a requester that sends 1 can read and change all records",
    "set sa_key to a random value (UFM: sa_key, and the SA's enhanced trust model)",
)
SA_SHOWS_MKEY = code(
    "sa-shows-mkey",
    Severity.ERROR,
    "the subnet administration returns M_Keys in PortInfoRecords to untrusted requesters",
    "use a manager that follows IBA 15.4.1, and change the keys",
)
SERVICE_REACHABLE = code(
    "service-reachable",
    Severity.WARNING,
    "a service is registered in the default partition, so hosts of all partitions find and reach it",
    "register it with the P_Key of its clients' partition, or make its port a limited member of the default partition",
)
SERVICE_FOREIGN = code(
    "service-foreign",
    Severity.WARNING,
    "a service is registered for a port that the subnet does not have, or that is not in the service's partition",
    "find out who registered it: clients of the service may be led elsewhere; the record ends with its lease",
)


def pkey_text(key: int) -> str:
    """Return the P_Key and its membership as text in OpenSM's notation."""
    return f"{key & ~FULL:#06x} ({'full' if key & FULL else 'limited'})"


def judge(e: Evidence) -> Iterator[Finding]:
    """Apply all rules to ``e``."""
    rules = (_mkeys, _leases, _shared_key, _managers, _default_partition, _partitions, _index0, _enforcement, _sa)
    for rule in (*rules, _services):
        yield from rule(e)


def _of_ports(
    name: str, ports: Sequence[EndPort], all_of: int, text: str, detail: Callable[[EndPort], str] | None = None
) -> Iterator[Finding]:
    """Yield one finding about ``ports``, whose message has their number, the number of all ports (``all_of``), and the
    first names.
    """
    if not ports:
        return
    locations = [p.where for p in ports]
    shown = [str(p.where) + (f" {detail(p)}" if detail else "") for p in ports]
    message = f"{len(ports):,} of {counted(all_of, 'port')} {text}: {few(shown)}"
    yield finding(name, locations, message, {"ports": shown})


def _mkeys(e: Evidence) -> Iterator[Finding]:
    open_ = [p for p in e.ports if p.shown]
    n = len(e.ports)
    yield from _of_ports(MKEY_UNSET, [p for p in open_ if not p.protect and not p.mkey], n, "have no M_Key")
    yield from _of_ports(MKEY_READABLE, [p for p in open_ if not p.protect and p.mkey], n, "show their M_Key")
    yield from _of_ports(MKEY_LEVEL, [p for p in open_ if p.protect], n, "answer without the M_Key")


def _leases(e: Evidence) -> Iterator[Finding]:
    ending = [p for p in e.ports if p.lease and (p.mkey or p.protect)]
    yield from _of_ports(
        MKEY_LEASE, ending, len(e.ports), "lose their protection by themselves", lambda p: f"after {p.lease} s"
    )


def _shared_key(e: Evidence) -> Iterator[Finding]:
    keyed = [p for p in e.ports if p.mkey]
    if len(keyed) > 1 and len({p.mkey for p in keyed}) == 1:
        yield from _of_ports(MKEY_SHARED, keyed, len(e.ports), "have one M_Key in common")


def _managers(e: Evidence) -> Iterator[Finding]:
    for m in e.managers:
        if m.state == "not active":
            continue
        who = f"the {m.state} subnet manager at {m.where} (PortGUID {m.guid:#018x}, priority {m.priority})"
        if e.allowed is not None and m.guid not in e.allowed:
            yield finding(MANAGER_FOREIGN, [m.where], f"{who} is not among those allowed", {"guid": f"{m.guid:#018x}"})
        if m.sm_key == OPENSM_KEY:
            yield finding(SM_KEY_DEFAULT, [m.where], f"{who} shows the SM_Key 1, which is OpenSM's default")
        elif m.sm_key and not e.mkey:  # a manager may return its SM_Key to a requester with the M_Key (IBA 14.2.5.13)
            yield finding(SM_KEY_SHOWN, [m.where], f"{who} shows its SM_Key")


def _default_partition(e: Evidence) -> Iterator[Finding]:
    full = [p for p in e.hosts if DEFAULT_BASE | FULL in p.memberships]
    limited = [p for p in e.hosts if p not in full and DEFAULT_BASE in p.memberships]
    if pairs := len(full) * (len(full) - 1) // 2 + len(full) * len(limited):
        are = "is a full member" if len(full) == 1 else "are full members"
        text = f"of hosts {are} of the default partition, where {counted(pairs, 'pair')} of hosts' ports can meet"
        yield from _of_ports(PARTITION_DEFAULT_FULL, full, len(e.hosts), text)


def _partitions(e: Evidence) -> Iterator[Finding]:
    """Check the partitions except the default partition: full and limited members in one partition, and P_Keys that
    only one port has.
    """
    holders: dict[int, list[tuple[EndPort, bool]]] = defaultdict(list)
    for port in e.hosts:
        for key in port.memberships:
            if key & ~FULL != DEFAULT_BASE:
                holders[key & ~FULL].append((port, bool(key & FULL)))
    managing = frozenset(
        k & ~FULL for p in e.ports if p.host and p not in e.hosts for k in p.memberships
    )  # a manager is in every partition
    unused = []
    for base, members in sorted(holders.items()):
        full, limited = ([p for p, whole in members if whole is kind] for kind in (True, False))
        if len(holders) > 1 and len(full) == len(e.hosts) > 2:
            message = f"all {len(full)} ports of hosts are full members of partition {base:#06x}"
            yield finding(PARTITION_EVERYONE, (), message, {"partition": base})
        if len(full) > 1 and len(limited) > 1:
            yield finding(
                PARTITION_MIXED,
                [p.where for p in full],
                f"partition {base:#06x} has {len(limited)} limited members, and {len(full)} full ones that reach "
                f"them all: {few(str(p.where) for p in full)}",
                {"full": [str(p.where) for p in full], "limited": [str(p.where) for p in limited]},
            )
        if len({id(p) for p, _ in members}) == 1:
            where = members[0][0].where
            alone = "" if base not in managing else ", besides the manager's"
            message = f"P_Key {base:#06x} is only in the table of {where}{alone}"
            unused.append(([where], message, {"pkey": f"{base:#06x}"}))
    yield from each_or_one(PARTITION_UNUSED, unused, f"{len(unused)} P_Keys are in the table of one port each")


def _index0(e: Evidence) -> Iterator[Finding]:
    empty = [p for p in e.ports if p.pkeys and not p.pkeys[0] & ~FULL and p.memberships]
    yield from _of_ports(PKEY_INDEX0, empty, len(e.ports), "have an empty entry 0")


def _enforcement(e: Evidence) -> Iterator[Finding]:
    able = [p for p in e.hosts if p.enforces is not None]
    yield from _of_ports(
        ENFORCEMENT_OFF, [p for p in able if not p.enforces], len(able), "of hosts are not checked by their switch"
    )
    wider: list[tuple[list[Location], str, dict[str, object]]] = []
    for port in able:
        if not port.enforces or port.leaf_pkeys is None or port.pkeys is None or port.leaf is None:
            continue
        held = {k & ~FULL for k in port.memberships}
        surplus = sorted(k for k in port.leaf_pkeys if k & ~FULL and k & ~FULL not in held)
        if surplus:
            keys = ", ".join(map(pkey_text, surplus[:4]))
            message = f"{port.leaf} lets {keys} through, which {port.where} does not hold"
            wider.append(([port.leaf, port.where], message, {"pkeys": [f"{k:#06x}" for k in surplus]}))
    yield from each_or_one(
        ENFORCEMENT_WIDER, wider, f"{len(wider)} switch ports let more P_Keys through than hosts hold"
    )


def _sa(e: Evidence) -> Iterator[Finding]:
    where = [m.where for m in e.managers if m.state == "master"]
    if e.trusts.get(0):
        yield finding(SA_OPEN, where, "the subnet administration gave a P_Key table to a request without an SM_Key")
    elif e.trusts.get(OPENSM_KEY):
        yield finding(SA_DEFAULT_KEY, where, "the subnet administration gave a P_Key table to a request with SM_Key 1")
    if e.mkey_records:
        yield finding(
            SA_SHOWS_MKEY,
            e.mkey_records,
            f"the subnet administration showed the M_Keys of {counted(len(e.mkey_records), 'port')} to a request "
            f"without an SM_Key: {few(map(str, e.mkey_records))}",
        )


def _services(e: Evidence) -> Iterator[Finding]:
    """Check whether each service's port is a member of the service's partition, and which hosts reach a service in the
    default partition.
    """
    ports = {p.where.guid: p for p in e.ports if p.pkeys is not None}
    for one in e.services:
        port, base = ports.get(one.guid), one.pkey & ~FULL
        if port is None:
            where = f"a port that did not answer, {one.guid:#018x}"
            yield finding(SERVICE_FOREIGN, (), f"{one.title} registered for {where}", {"guid": f"{one.guid:#018x}"})
            continue
        if base and not any(k & ~FULL == base for k in port.memberships):
            message = f"{one.title} registered for {port.where} in P_Key {base:#06x}, which that port does not have"
            yield finding(SERVICE_FOREIGN, [port.where], message, {"pkey": f"{one.pkey:#06x}"})
            continue
        shares = base in (0, DEFAULT_BASE)
        reach = [p for p in e.hosts if shares and p is not port and _meet_by_default(p, port)]
        if reach:
            message = (
                f"{one.title} of {port.where} in the default partition: {counted(len(reach), 'port')} of "
                f"hosts reach it, for example {few(str(p.where) for p in reach)}"
            )
            yield finding(SERVICE_REACHABLE, [port.where], message, {"pkey": f"{one.pkey:#06x}"})


def _meet_by_default(a: EndPort, b: EndPort) -> bool:
    """Return whether both ports are members of the default partition, and at least one of them is a full member."""
    of_a, of_b = ({k for k in p.memberships if k & ~FULL == DEFAULT_BASE} for p in (a, b))
    return bool(of_a and of_b) and any(k & FULL for k in of_a | of_b)
