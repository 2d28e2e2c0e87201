"""The rehearsal: all attacks by a tenant's host on a twin, one after the other. The attacker has root on its host, so
it can send any MAD through its port, and it knows the LIDs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from softib.tenants.attacks import programs, requests
from softib.tenants.attacks.stage import THROUGH, Attempt, Outcome, Stage

__all__ = ["ATTACKS", "KEYED", "rehearse"]

KEYED = "set m_key and m_key_protection_level 2"
ATTACKS: tuple[tuple[str, str, Callable[[Stage], tuple[Outcome, str]], str], ...] = (
    ("mkey-from-port", "IBA 14.2.4.1", requests.mkey_from_port, KEYED),
    (
        "mkey-from-administration",
        "IBA 15.4.1",
        requests.mkey_from_administration,
        "set sa_key to a value that no one knows",
    ),
    ("port-info-set", "IBA 14.2.4", requests.port_info_set, KEYED),
    ("forwarding-table-set", "IBA 14.2.4", requests.forwarding_table_set, KEYED),
    ("self-admission", "IBA 10.9.2", requests.self_admission, KEYED),
    ("enforcement-off", "IBA 14.2.4", requests.enforcement_off, KEYED),
    (
        "packets-across",
        "IBA 10.9.3",
        programs.packets_across,
        "set part_enforce both, and the default partition to limited",
    ),
    (
        "key-guess",
        "IBA 10.2.3",
        programs.key_guess,
        "give each client of a program its protection domain",
    ),
    ("group-leave", "IBA 15.2.5.17", requests.group_leave, "no setting does: it is a fault of the manager"),
    ("trap-flood", "IBA 14.2.5.1", requests.trap_flood, "set babbling_port_policy TRUE"),
    (
        "foreign-manager",
        "IBA 14.4",
        programs.foreign_manager,
        "set m_key, m_key_protection_level 2 and a sm_key of your own",
    ),
)
"""(attack, clause that defines the defence, function, protection), in the order of the rehearsal. Attacks that obtain
keys come first, because later ones use these keys. Attacks that leave the twin without a manager come last.
"""


NEED_KEY = {"port-info-set", "forwarding-table-set", "self-admission", "enforcement-off", "foreign-manager"}
"""Attacks that do not succeed if the attacker does not know the M_Key."""


def rehearse(stage: Stage) -> Iterator[Attempt]:
    """Try every attack. Later attacks can use the results of earlier ones: keys, the victim's P_Key, disabled checks.
    If the attacker has obtained the M_Key, the advice about a later attack that needs the M_Key is therefore to protect
    it.
    """
    keeps_key, through = "", set[str]()
    for attack, clause, attempt, advice in ATTACKS:
        had = stage.key
        outcome, seen = attempt(stage)
        if outcome == THROUGH:
            through.add(attack)
            if stage.key and not had:
                keeps_key = advice
            elif keeps_key and (attack in NEED_KEY or (attack == "packets-across" and "self-admission" in through)):
                advice = keeps_key
        yield Attempt(attack, clause, outcome, seen, advice if outcome == THROUGH else "")
