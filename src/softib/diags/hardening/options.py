"""Applies the hardening rules to a manager's files: ``partitions.conf``, and ``opensm.conf`` as OpenSM 3.3.23 reads it.
Options that only UFM's OpenSM has are known by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from softib.diags.finding import Finding, Severity, code, few, finding
from softib.diags.hardening import rules
from softib.diags.hardening.evidence import DEFAULT_BASE
from softib.sm.managers.partitions import FULL, Partition
from softib.sm.options.opensm_conf import Stated, shown

__all__ = ["judge_options", "judge_partitions", "not_as_written"]

MANAGER_CONSOLE = code(
    "manager-console",
    Severity.WARNING,
    "the manager's console listens on a TCP port without a password",
    "set console off, or local",
)
PARTITION_BOTH = code(
    "partition-both",
    Severity.WARNING,
    "a port may be a full and a limited member of one partition: the full membership applies",
    "set allow_both_pkeys FALSE, and give each port one membership",
)
CLASS_KEYS = code(
    "class-keys",
    Severity.WARNING,
    "vendor classes of MADs (congestion control, node to node, vendor specific) accept writes without a key",
    "set cc_key_enable 2, n2n_key_enable 2 and vs_key_enable 2 (available in UFM's OpenSM, not in OpenSM 3.3)",
)
MANAGERS_ANY = code(
    "managers-any",
    Severity.WARNING,
    "any port may run a subnet manager that takes part in the election",
    "list the ports of your managers in allowed_sm_guids (available in UFM's OpenSM, not in OpenSM 3.3)",
)

UFM_ONLY = ("allowed_sm_guids", "cc_key_enable", "m_key_per_port", "n2n_key_enable", "sm_key_per_port", "vs_key_enable")
"""Options of UFM's OpenSM that OpenSM 3.3 does not have. A file with one of these options is treated as a file of
UFM."""


def judge_options(stated: Stated, name: str) -> Iterator[Finding]:
    """Yield the findings about the options file ``name``."""

    def of(code: str, option: str, says: str = "") -> Finding:
        line = stated.lines.get(option)
        where = f"{name}:{line}" if line else name
        default = "" if line else " (the default)"
        message = f"{where}: {option} {shown(stated.get(option))}{default}{says}"
        return finding(code, (), message, {"file": name, "line": line, "option": option})

    number = lambda option: int(str(stated.get(option) or 0), 0)
    if not number("m_key"):
        yield of(rules.MKEY_UNSET, "m_key", ": ports get no M_Key")
    elif not (level := number("m_key_protection_level")):
        yield of(rules.MKEY_READABLE, "m_key_protection_level", ": ports show their M_Key")
    elif level < 2:
        yield of(rules.MKEY_LEVEL, "m_key_protection_level", ": everyone can read the tables")
    if number("m_key") and number("m_key_lease_period"):
        yield of(rules.MKEY_LEASE, "m_key_lease_period", " s after a wrong key protection ends")
    if number("sm_key") in (0, rules.OPENSM_KEY):
        yield of(rules.SM_KEY_DEFAULT, "sm_key", ": everybody knows it")
    if number("sa_key") in (0, rules.OPENSM_KEY):
        yield of(rules.SA_DEFAULT_KEY, "sa_key", ": everybody knows it")
    if stated.get("no_partition_enforcement"):
        yield of(rules.ENFORCEMENT_OFF, "no_partition_enforcement", ": switches do not check P_Keys")
    elif stated.get("part_enforce") in ("off", "out"):
        yield of(rules.ENFORCEMENT_OFF, "part_enforce", ": switches do not check what hosts send")
    if stated.get("allow_both_pkeys"):
        yield of(PARTITION_BOTH, "allow_both_pkeys")
    if stated.get("console") in ("socket", "loopback"):
        yield of(MANAGER_CONSOLE, "console")
    yield from _of_ufm(stated, name)


def not_as_written(stated: Stated, name: str) -> Iterator[str]:
    """Yield the statements of the options file ``name`` that OpenSM ignores or replaces, one line
    each. A file of UFM has many options that OpenSM 3.3 does not have."""
    of_ufm = any(option in stated.unknown for option in UFM_ONLY)
    for remark in sorted(stated.remarks, key=lambda r: r.line):
        if remark.kind != "unknown" or not of_ufm:
            yield f"{name}:{remark.line}: {remark}"


def _of_ufm(stated: Stated, name: str) -> Iterator[Finding]:
    """Yield the findings about options that only UFM's OpenSM has, if the file states one of them."""
    if not any(option in stated.unknown for option in UFM_ONLY):
        return
    value = lambda option: stated.unknown.get(option, (0, ""))[1].strip()

    def of(code: str, option: str, says: str) -> Finding:
        line = stated.unknown.get(option, (None, ""))[0]
        where = f"{name}:{line}" if line else name
        message = f"{where}: {option} {value(option) or 'is not set'}{says}"
        return finding(code, (), message, {"file": name, "line": line, "option": option})

    if value("m_key_per_port").upper() != "TRUE" and int(str(stated.get("m_key") or 0), 0):
        yield of(rules.MKEY_SHARED, "m_key_per_port", ": all ports have the one M_Key")
    for option in ("cc_key_enable", "n2n_key_enable", "vs_key_enable"):
        if value(option) != "2":
            yield of(CLASS_KEYS, option, ": its class takes writes without a key")
    if value("allowed_sm_guids") in ("", "(null)"):
        yield of(MANAGERS_ANY, "allowed_sm_guids", ": any port may run a manager")


def judge_partitions(partitions: list[Partition], name: str) -> Iterator[Finding]:
    """Yield the findings about a partitions file. ``partitions``: result of
    :func:`~softib.sm.managers.partitions.parse_partitions`.
    """
    for partition in partitions:
        last = dict(partition.members)  # a later line for a port replaces an earlier one
        where = f"{name}: partition {partition.pkey:#06x} ({partition.name})"
        if partition.pkey == DEFAULT_BASE:
            full = [str(who) for who in ("ALL", "ALL_CAS") if last.get(who, 0) & FULL]
            if full:
                message = f"{where}: {' and '.join(full)} are full members"
                yield finding(rules.PARTITION_DEFAULT_FULL, (), message, {"file": name})
        elif full := [str(who) for who in ("ALL", "ALL_CAS") if last.get(who, 0) & FULL]:
            message = f"{where}: {' and '.join(full)} are full members"
            yield finding(rules.PARTITION_EVERYONE, (), message, {"file": name})
        elif last and all(isinstance(who, int) for who in last):  # no keywords, whose ports are unknown
            yield from _of_members(where, name, {f"{guid:#018x}": bool(bits & FULL) for guid, bits in last.items()})


def _of_members(where: str, name: str, members: dict[str, bool]) -> Iterator[Finding]:
    full, limited = ([guid for guid, whole in members.items() if whole is kind] for kind in (True, False))
    if len(full) > 1 and len(limited) > 1:
        message = (
            f"{where} has {len(limited)} limited members, and {len(full)} full ones that reach them all: {few(full)}"
        )
        yield finding(rules.PARTITION_MIXED, (), message, {"file": name, "full": full, "limited": limited})
    if len(members) == 1:
        message = f"{where} has the port {next(iter(members))} alone"
        yield finding(rules.PARTITION_UNUSED, (), message, {"file": name})
