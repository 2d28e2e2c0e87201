"""The rules of ``softib audit`` on a hardened fabric, in which one thing at a time is wrong. Oracle: the clause of IBA or the option of the manager that each
of them is about; a hardened fabric has none of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softib.diags.finding import CODES, Location
from softib.diags.hardening.evidence import EndPort, Evidence, Manager, Service
from softib.diags.hardening.options import judge_options, judge_partitions, not_as_written
from softib.diags.hardening.rules import judge
from softib.sm.managers.partitions import parse_partitions
from softib.sm.options.opensm_conf import as_opensm_reads

KEYS = (0x11, 0x12, 0x13, 0x14, 0x15)
RED, BLUE = 0x8001, 0x8002
LIMITED, FULL = 0x7FFF, 0xFFFF


def port(n: int, *pkeys: int) -> EndPort:
    where, leaf = Location(f"host-{n}", 0x100 + n, 1), Location("leaf-1", 0x200, n)
    return EndPort(where, True, False, KEYS[n], 2, 0, pkeys, leaf, True, frozenset(pkeys))


def hardened() -> Evidence:
    """A manager on host-0, two hosts of tenant red and two of blue; what the manager sees with its keys."""
    ports = [port(0, FULL, RED, BLUE), port(1, LIMITED, RED), port(2, LIMITED, RED), port(3, LIMITED, BLUE)]
    ports.append(port(4, LIMITED, BLUE))
    master = Manager(ports[0].where, 0x100, "master", 8, 0)
    return Evidence(ports, [master], 0x11, {0: False, 1: False}, [], frozenset({0x100}))


def change(evidence: Evidence, n: int, **to: object) -> None:
    evidence.ports[n] = replace(evidence.ports[n], **to)


def everywhere(evidence: Evidence, **to: object) -> None:
    for n in range(len(evidence.ports)):
        change(evidence, n, **to)


STANDBY = Manager(Location("host-3", 0x103, 1), 0x103, "standby", 1, 0)
WRONG = {
    "mkey-unset": lambda e: change(e, 2, shown=True, mkey=0, protect=0),
    "mkey-readable": lambda e: change(e, 2, shown=True, protect=0),
    "mkey-level": lambda e: change(e, 2, shown=True, mkey=0, protect=1),
    "mkey-shared": lambda e: everywhere(e, mkey=0x11),
    "mkey-lease": lambda e: change(e, 2, lease=60),
    "manager-foreign": lambda e: e.managers.append(STANDBY),
    "sm-key-default": lambda e: e.managers.__setitem__(0, replace(e.managers[0], sm_key=1)),
    "partition-default-full": lambda e: [
        change(e, n, pkeys=(FULL, *e.ports[n].pkeys[1:]), leaf_pkeys=frozenset({FULL, e.ports[n].pkeys[1]}))
        for n in (1, 3)
    ],
    "partition-unused": lambda e: change(
        e, 1, pkeys=(LIMITED, RED, 0x8003), leaf_pkeys=frozenset({LIMITED, RED, 0x8003})
    ),
    "partition-everyone": lambda e: [
        change(e, n, pkeys=(*e.ports[n].pkeys, 0x8003), leaf_pkeys=frozenset({*e.ports[n].pkeys, 0x8003}))
        for n in range(1, 5)
    ],
    "partition-mixed": lambda e: [
        change(e, n, pkeys=(LIMITED, key), leaf_pkeys=frozenset({LIMITED, key}))
        for n, key in ((1, RED), (2, RED), (3, RED & 0x7FFF), (4, RED & 0x7FFF))
    ],
    "pkey-first-entry": lambda e: change(e, 2, pkeys=(0, LIMITED, RED)),
    "enforcement-off": lambda e: change(e, 2, enforces=False),
    "enforcement-wider": lambda e: change(e, 2, leaf_pkeys=frozenset({LIMITED, RED, BLUE})),
    "sa-open": lambda e: e.trusts.update({0: True, 1: True}),
    "sa-default-key": lambda e: e.trusts.update({1: True}),
    "sa-shows-mkey": lambda e: e.mkey_records.append(e.ports[2].where),
    "service-reachable": lambda e: e.services.append(Service(0x100, FULL, "service scratch")),
    "service-foreign": lambda e: e.services.append(Service(0x101, BLUE, "service scratch")),
}


def test_a_hardened_fabric_has_no_finding():
    assert list(judge(hardened())) == []


@pytest.mark.parametrize("code", WRONG)
def test_one_thing_wrong_is_one_finding(code):
    evidence = hardened()
    WRONG[code](evidence)
    assert [f.code for f in judge(evidence)] == [code]


def test_switch_ports_that_check_nothing_are_named_with_one_partition_too():
    """OpenSM enforces the default partition without a file."""
    evidence = hardened()
    everywhere(evidence, pkeys=(FULL,), leaf_pkeys=frozenset({FULL}), enforces=False)
    found = {f.code: f for f in judge(evidence)}
    assert set(found) == {"enforcement-off", "partition-default-full"}
    assert found["enforcement-off"].message.startswith("4 of 4 ports")


def test_a_manager_shows_its_key_to_strangers_alone():
    evidence = hardened()
    evidence.managers[0] = replace(evidence.managers[0], sm_key=0x99)
    assert list(judge(evidence)) == []  # who asks with the M_Key is authenticated: IBA 14.2.5.13
    evidence.mkey = 0
    assert [f.code for f in judge(evidence)] == ["sm-key-shown"]


def test_services_are_reached_by_the_rule_of_memberships():
    """IBA 10.9.3: of two members that meet, one is full. Port 0 is a full member of the default partition, the others
    are limited ones; red and blue are full members of their partition."""
    found = lambda guid, pkey: [
        (f.code, f.message) for f in judge(replace(hardened(), services=[Service(guid, pkey, "s")]))
    ]
    for guid, pkey in ((0x101, LIMITED), (0x101, 0), (0x101, RED), (0x100, RED)):
        assert found(guid, pkey) == []
    for pkey in (0, LIMITED, FULL):
        ((code, message),) = found(0x100, pkey)
        assert code == "service-reachable" and "4 ports of hosts reach it" in message
    assert [code for code, _ in found(0x999, RED)] == ["service-foreign"]


SAFE = {
    "m_key": "0x1122334455667788",
    "m_key_protection_level": "2",
    "sm_key": "0x99",
    "sa_key": "0x77",
    "part_enforce": "both",
}
OF_UFM = {
    "m_key_per_port": "TRUE",
    "cc_key_enable": "2",
    "n2n_key_enable": "2",
    "vs_key_enable": "2",
    "allowed_sm_guids": "0x0002c90300000001",
}
OPTIONS = {
    ("m_key", "0"): "mkey-unset",
    ("m_key_protection_level", "0"): "mkey-readable",
    ("m_key_protection_level", "1"): "mkey-level",
    ("m_key_lease_period", "60"): "mkey-lease",
    ("sm_key", "1"): "sm-key-default",
    ("sm_key", "0"): "sm-key-default",
    ("sa_key", "1"): "sa-default-key",
    ("sa_key", "0"): "sa-default-key",
    ("part_enforce", "off"): "enforcement-off",
    ("no_partition_enforcement", "TRUE"): "enforcement-off",
    ("allow_both_pkeys", "TRUE"): "partition-both",
    ("console", "socket"): "manager-console",
    ("m_key_per_port", "FALSE"): "mkey-shared",
    ("cc_key_enable", "0"): "class-keys",
    ("n2n_key_enable", "1"): "class-keys",
    ("allowed_sm_guids", "(null)"): "managers-any",
}


def codes_of(options: dict[str, str]) -> list[str]:
    text = "".join(f"{name} {value}\n" for name, value in options.items())
    return [f.code for f in judge_options(as_opensm_reads(text), "opensm.conf")]


@pytest.mark.parametrize(("option", "value"), OPTIONS)
def test_an_option_is_named(option, value):
    safe = {**SAFE, **OF_UFM}
    assert codes_of(SAFE) == codes_of(safe) == []
    assert codes_of({**safe, option: value}) == [OPTIONS[option, value]]


def test_defaults_of_opensm_are_judged_where_a_file_is_silent():
    """OpenSM 3.3.23: m_key 0, sm_key 1, sa_key 1, part_enforce both."""
    assert set(codes_of({"log_flags": "3"})) == {"mkey-unset", "sm-key-default", "sa-default-key"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Default=0x7fff: ALL=limited, SELF=full;", []),
        ("Default=0x7fff, ipoib: ALL=full;", ["partition-default-full"]),
        ("Default=0x7fff: ALL=full, ALL=limited;", []),
        ("red=0x1: 0x2=full, 0x3=full;", []),  # OpenSM makes every port a limited member of the default partition then
        ("red=0x1: 0x2=full; red=0x1: 0x2=limited;", ["partition-unused"]),
        ("red=0x1: 0x2=full, ALL=limited;", []),
        ("Default=0x7fff: ALL=limited, SELF=full; red=0x1: ALL=full;", ["partition-everyone"]),
        ("red=0x1: 0x2=limited, ALL_CAS=full;", ["partition-everyone"]),
        ("red=0x1: ALL_SWITCHES=full, ALL=limited;", []),
        ("red=0x1: 0x2=full, 0x3=full, 0x4=limited;", []),
        ("red=0x1: 0x2=full, 0x3=both, 0x4=limited, 0x5;", ["partition-mixed"]),
        ("red=0x1: 0x2=full, 0x3=full, 0x4, 0x5, 0x3=limited;", []),
    ],
)
def test_partitions(text, found):
    assert [f.code for f in judge_partitions(parse_partitions(text), "partitions.conf")] == found


def test_statements_that_opensm_does_not_use_as_written_are_named():
    text = "m_key_protection_level 9\nm_key_lease_period abc\nsa_key zzz\nbogus_option 3\nm_key 0x11\n"
    lines = list(not_as_written(as_opensm_reads(text), "o.conf"))
    assert [(int(line.split(":")[1]), line.split()[1].strip(":")) for line in lines] == [
        (1, "m_key_protection_level"),
        (2, "m_key_lease_period"),
        (3, "sa_key"),
        (4, "bogus_option"),
    ]
    of_ufm = as_opensm_reads(text + "m_key_per_port TRUE\n")
    assert len(list(not_as_written(of_ufm, "o.conf"))) == 3, "options of UFM's OpenSM are not mistakes"
    assert list(not_as_written(as_opensm_reads("m_key 0x11\npart_enforce both\n"), "o.conf")) == []


def test_every_code_of_an_audit_is_on_its_page():
    from tests.conftest import ROOT

    page = (ROOT / "docs" / "audit.md").read_text()
    wanted = {*WRONG, *OPTIONS.values(), "sm-key-shown"}
    assert wanted <= CODES.keys() and all(f"| `{code}` |" in page for code in wanted)


@pytest.mark.parametrize(("full", "pairs"), [((1,), "3 pairs"), ((1, 3), "5 pairs"), ((1, 2, 3, 4), "6 pairs")])
def test_one_full_member_of_the_default_partition_meets_every_limited_one(full, pairs):
    """IBA 10.9.3: two ports exchange packets if one of them is a full member; of four hosts' ports."""
    evidence = hardened()
    for n in full:
        keys = FULL, *evidence.ports[n].pkeys[1:]
        change(evidence, n, pkeys=keys, leaf_pkeys=frozenset(keys))
    (one,) = judge(evidence)
    assert one.code == "partition-default-full" and pairs in one.message and len(one.where) == len(full)
