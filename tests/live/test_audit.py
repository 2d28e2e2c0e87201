"""``softib audit`` on running fabrics. Oracles: the keys and partitions that the manager was given; stock OpenSM as the second manager."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from softib import load
from softib.errors import PeerError
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sm.config import SmConfig
from softib.tenants.attacks import rehearsal
from softib.tenants.attacks.rehearsal import ATTACKS, KEYED, rehearse
from softib.tenants.attacks.stage import STOPPED, THROUGH, Outcome
from softib.tenants.hardening import read_evidence
from tests.live.lab import Plane, softib  # noqa: F401

OPTIONS = """m_key 0x1122334455667788
m_key_protection_level 2
sm_key 0x99aabbccddeeff01
sa_key 0x7766554433221100
part_enforce both
partition_config_file {partitions}
"""
PARTITIONS = "Default=0x7fff: ALL=limited, SELF=full;\nred=0x8001: ALL_CAS=full;\n"
MKEY = "0x1122334455667788"
DEFAULTS = {"mkey-unset", "partition-default-full", "sa-default-key", "sm-key-default"}
"""What OpenSM's defaults leave open."""


@pytest.fixture
def options(tmp_path):
    (tmp_path / "partitions.conf").write_text(PARTITIONS)
    path = tmp_path / "opensm.conf"
    path.write_text(OPTIONS.format(partitions=tmp_path / "partitions.conf"))
    return path


def audited(softib, *args: str) -> dict:  # noqa: F811
    done = subprocess.run(
        softib.words("audit", *args, "--json"), env=softib.env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def codes(document: dict) -> set[str]:
    return {f["code"] for f in document["findings"]}


def test_what_answers_with_a_key_and_without():
    """IBA 14.2.4.1: at level 2 nothing answers to a wrong key, at level 1 Gets do."""
    for level in (1, 2):
        fabric = generate("fat-tree", radix=4, levels=2)
        bring_up(fabric, config=SmConfig(mkey=int(MKEY, 0), mkey_protect=level))
        evidence = read_evidence(Plane(fabric), int(MKEY, 0))
        assert len(evidence.ports) == fabric.sizes.switches + len(fabric.cas)
        assert {(p.mkey, p.protect, p.shown) for p in evidence.ports} == {(int(MKEY, 0), level, level == 1)}
    stranger = read_evidence(Plane(fabric))
    assert not stranger.ports and len(stranger.unread) == 1
    with pytest.raises(PeerError, match="0x5"):
        read_evidence(Plane(fabric), 5)


REGISTER = f"""
from softib.iba.sa import SaMethod, ServiceRecord
from softib.iba.constants import MgmtClass, SmpAttr
from softib.iba.smp import PortInfo
from softib.live.umad_client.abi import ASKS
from softib.live.umad_client.devices import find_device
from softib.live.umad_client.port import UmadPort
from softib.live.umad_client.wire import smp_get, transact
from softib.tenants.administration import ask_administration

device = find_device(None)
wire = UmadPort(device, {{**ASKS, int(MgmtClass.SUBN_ADM): 0}})
info = transact(wire, smp_get(SmpAttr.PORT_INFO, mkey={MKEY}))
gid = (int(PortInfo.gid_prefix.get(info)), device.guid)
fields = dict(service_id=0x77, service_gid=gid, service_pkey=0xFFFF, service_name="scratch", service_lease=600)
master = int(PortInfo.master_sm_lid.get(info))
print(ask_administration(wire, master, ServiceRecord, fields, 0, SaMethod.SET, 30.0).status)
"""


def register(softib, fabric: str) -> str:  # noqa: F811
    """Register a service of the manager's host in the default partition; return the status of the answer."""
    return softib("run", "--fabric", fabric, "--", sys.executable, "-c", REGISTER).strip()


@pytest.mark.slow
def test_defaults_and_a_hardened_fabric(softib, options):  # noqa: F811
    softib.start("one.yaml", "--name", "open")
    softib.start("two.yaml", "--name", "hard", "--sm-config", str(options))
    assert codes(audited(softib, "open")) == DEFAULTS | {"enforcement-off"}, "OpenSM enforces without a file, too"
    assert codes(audited(softib, "hard", "--mkey", MKEY)) == {"mkey-shared"}
    stranger = audited(softib, "hard")
    assert not stranger["ports"] and not stranger["findings"] and "M_Key" in stranger["unjudged"][0]
    assert "0x5" in softib("audit", "hard", "--mkey", "0x5", code=2)
    assert register(softib, "hard") == "0"
    assert codes(audited(softib, "hard", "--mkey", MKEY)) == {"mkey-shared", "service-reachable"}


CHANGED = {
    "mkey-readable": ("m_key_protection_level 2", "m_key_protection_level 0"),
    "mkey-level": ("m_key_protection_level 2", "m_key_protection_level 1"),
    "mkey-lease": ("m_key_protection_level 2", "m_key_protection_level 2\nm_key_lease_period 60"),
    "sm-key-default": ("sm_key 0x99aabbccddeeff01\n", ""),
    "sa-default-key": ("sa_key 0x7766554433221100\n", ""),
    "enforcement-off": ("part_enforce both", "part_enforce off"),
    "partition-default-full": ("ALL=limited", "ALL=full"),
    "pkey-first-entry": ("red=0x8001:", "red=0x8009, indx0:"),
    "partition-unused": ("ALL_CAS=full;", "ALL_CAS=full;\nlone=0x8002: {first:#x}=full;"),
    "partition-mixed": ("ALL_CAS=full;", "{first:#x}=full, {second:#x}=full, {third:#x}=limited, {fourth:#x}=limited;"),
}
"""One thing wrong in the hardened files, as OpenSM's manual has the setting. (OpenSM leaves a P_Key that a table already has at its index.)"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("opensm"), reason="opensm is absent")
def test_opensm_is_judged_alike(softib, options, tmp_path):  # noqa: F811
    softib.start("one.yaml", "--name", "one", "--sm", "external")
    fabric = load(softib.folder / "one.yaml").arrays
    hosts = fabric.port_guid[fabric.is_host[fabric.port_node] & fabric.linked].tolist()[1:5]
    guids = dict(zip(("first", "second", "third", "fourth"), hosts, strict=True))

    def under(*args: str, registers: bool = False) -> set[str]:
        """Codes of the findings under an OpenSM with these arguments; ``registers``: with a service of its host."""
        log = tmp_path / "opensm.log"
        log.unlink(missing_ok=True)
        words = softib.words("run", "--fabric", "one", "--", "opensm", *args, "-f", str(log))
        manager = subprocess.Popen(words, env=softib.env, stdout=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 240  # ends a hang
            while not log.exists() or "SUBNET UP" not in log.read_text():
                assert time.monotonic() < until and manager.poll() is None
                time.sleep(0.1)
            assert not registers or register(softib, "one") == "0"
            document = audited(softib, "one", *(("--mkey", MKEY) if args else ()))
            print(args, document["unjudged"], log.read_text()[-2000:])  # shown if the test fails
            return codes(document)
        finally:
            manager.terminate()
            manager.wait(20)

    assert under() == DEFAULTS
    hardened, partitions = options.read_text(), tmp_path / "partitions.conf"
    assert under("-F", str(options)) == {"mkey-shared"}
    assert under("-F", str(options), registers=True) == {"mkey-shared", "service-reachable"}
    for code, (right, wrong) in CHANGED.items():
        assert right in hardened + PARTITIONS
        options.write_text(hardened.replace(right, wrong))
        partitions.write_text(PARTITIONS.replace(right, wrong.format(**guids)))
        beside = (
            {"partition-everyone"} if code == "partition-unused" else set()
        )  # a second partition beside ALL_CAS=full
        assert under("-F", str(options)) == {"mkey-shared", code, *beside}


SA_KEY = next(advice for attack, _, _, advice in ATTACKS if attack == "mkey-from-administration")


@pytest.mark.parametrize(
    ("source", "expected"), [("mkey-from-administration", SA_KEY), ("mkey-from-port", KEYED), ("", None)]
)
def test_attacks_with_the_key_name_where_it_came_from(monkeypatch, source, expected):
    """Without a source there is no M_Key: each attack has its advice."""

    def attempt(attack: str) -> Callable[[Any], tuple[Outcome, str]]:
        def act(stage: Any) -> tuple[Outcome, str]:
            if attack == source:
                stage.key = 0x77
            return (THROUGH if attack == source or not attack.startswith("mkey-from") else STOPPED), "seen"

        return act

    monkeypatch.setattr(rehearsal, "ATTACKS", tuple((a, c, attempt(a), advice) for a, c, _, advice in ATTACKS))
    advice = {one.attack: one.advice for one in rehearse(SimpleNamespace(key=0))}
    own = {attack: text for attack, _, _, text in ATTACKS}
    needs = (
        "port-info-set",
        "forwarding-table-set",
        "self-admission",
        "enforcement-off",
        "packets-across",
        "foreign-manager",
    )
    assert {a: advice[a] for a in needs} == {a: expected or own[a] for a in needs}
    assert {a: advice[a] for a in ("key-guess", "group-leave", "trap-flood")} == {
        a: own[a] for a in ("key-guess", "group-leave", "trap-flood")
    }
    if source == "mkey-from-administration":
        assert "m_key_protection_level" not in " ".join(advice[a] for a in needs)


OPEN = {"port-info-set", "forwarding-table-set", "packets-across", "key-guess", "foreign-manager"}
"""What gets through where no port has an M_Key: all MADs that an M_Key guards (IBA 14.2.4), and R_Keys of one domain (10.2.3)."""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ib_write_bw"), reason="perftest is absent")
def test_a_rehearsal_gets_through_where_the_specification_lets_it(softib, tmp_path):  # noqa: F811
    """IBA 14.2.4: without an M_Key everybody writes; at level 1 the key is hidden in ports but not by an administration that trusts everybody (15.4.1);
    at level 2, with keys of one's own, nothing gets through."""
    files = {name: tmp_path / name for name in ("partitions.conf", "one.conf", "two.conf")}
    fabric = load(softib.folder / "two.yaml").arrays
    last = fabric.port_guid[fabric.is_host[fabric.port_node] & fabric.linked].max()  # the victim is the last host
    files["partitions.conf"].write_text(f"Default=0x7fff: ALL=limited, SELF=full;\nred=0x8001: {last:#x}=full;\n")
    files["one.conf"].write_text("m_key 0x77\nm_key_protection_level 1\n")
    files["two.conf"].write_text(OPTIONS.format(partitions=files["partitions.conf"]))

    advice: dict[str, str] = {}

    def outcomes(*args: str) -> dict[str, str]:
        attempts = audited(softib, str(softib.folder / "two.yaml"), "--rehearse", *args)["attempts"]
        advice.update({a["attack"]: a["advice"] for a in attempts})
        return {a["attack"]: a["outcome"] for a in attempts}

    through = lambda found: {attack for attack, outcome in found.items() if outcome == "got through"}
    assert through(outcomes()) == OPEN
    known = outcomes("--sm-config", str(files["one.conf"]), "--partitions", str(files["partitions.conf"]))
    assert known["mkey-from-port"] == "stopped" and known["self-admission"] == "got through"
    assert through(known) == OPEN - {"key-guess"} | {"mkey-from-administration", "self-admission", "enforcement-off"}
    keyed = through(known) - {"packets-across"}  # the M_Key is set: only the administration gives it away
    assert all("sa_key" in advice[attack] and "m_key_protection" not in advice[attack] for attack in keyed), advice
    assert known["key-guess"] == "not tried"  # the administration gives no path in a partition that it does not know
    hardened = outcomes("--sm-config", str(files["two.conf"]))
    assert set(hardened.values()) <= {"stopped", "not needed"} and len(hardened) == 11
    assert not softib.status()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ib_write_bw"), reason="perftest is absent")
def test_a_running_fabric_has_a_twin_too(softib):  # noqa: F811
    """As docs/audit.md says; the twin is of the cables that the fabric has now."""
    softib("up", str(softib.folder / "two.yaml"), "--name", "original", "--detach")
    twin = audited(softib, "original", "--rehearse")
    assert {a["attack"] for a in twin["attempts"]} >= OPEN
    assert any(
        "default options and partitions, whatever the manager of original has" in line for line in twin["unjudged"]
    )
    softib("down", "original")
    assert not softib.status()


def test_what_cannot_be_rehearsed(softib):  # noqa: F811
    assert "that softib can copy" in softib("audit", "umad:mlx5_0", "--rehearse", code=2)
