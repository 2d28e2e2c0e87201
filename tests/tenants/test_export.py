"""The service's partitions as a file, and back: nothing changes that the file can hold, the rest is named, and OpenSM's rules accept the file."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.sm.options.opensm_partitions import as_opensm_reads_partitions
from softib.tenants.model import DEFAULT_BASE, MTU_CODES, RATES, Member, Partition
from softib.tenants.partitions_file import exported, from_conf

NAMES = ["red", "a b", "x.y-z_0", "net (blue) @rack/3+1", "r" * 64, "5", "ü", "n" * 65, "'q' \"q\" \\"]
HOSTILE = [
    "red=0x6 : ALL=full ;\nx",
    "a,b",
    "a:b",
    "Default",
    "a;b",
    "a#b",
    " a",
    "a ",
    "a\tb",
    "\u2028a",
]


def entered(ask, pkey, guids, name=None, index0=False, ipoib=True, qos=(2, 0, 2.5)):
    """A partition with every attribute that UFM's calls have."""
    head = {"pkey": pkey, "index0": index0, "ip_over_ib": ipoib, "partition_name": name}
    mtu, sl, rate = qos
    conf = {"mtu_limit": mtu, "service_level": sl, "rate_limit": rate}
    assert ask("POST", "/ufmRest/resources/pkeys/add", {**head, **conf})[0] == 200
    words = {"guids": list(guids), "memberships": list(guids.values())}
    if guids:
        assert ask("POST", "/ufmRest/resources/pkeys", {"pkey": pkey, **words})[0] == 200


def conf_of(ask):
    return ask("GET", "/tenants/v1/export/partitions.conf")[1]


def taken(ask, form, content):
    status, document = ask("POST", "/tenants/v1/import", {"format": form, "content": content})
    assert status == 200, document
    return document["notes"]


def deleted(ask, service):
    for pkey in service.state.partitions.keys() - {0x7FFF}:
        assert ask("DELETE", f"/ufmRest/resources/pkeys/{pkey:#x}")[0] == 200


def test_every_rate_mtu_sl_flag_and_name_comes_back(ask, service):
    draw = random.Random(34)
    for pkey, rate in enumerate([*RATES, 2.5, 10], 1):
        guids = {
            f"{draw.getrandbits(64) | 1:016x}": draw.choice(["full", "limited"])
            for _ in range(draw.choice([0, 1, 200]))
        }
        qos = draw.choice(list(MTU_CODES)), draw.randrange(16), rate
        entered(ask, f"{pkey:#x}", guids, draw.choice(NAMES), draw.random() < 0.5, draw.random() < 0.5, qos)
    before, conf = dict(service.state.partitions), conf_of(ask)
    assert "#" not in conf.split("\n", 1)[1]
    deleted(ask, service)
    assert taken(ask, "partitions.conf", conf) == []
    assert service.state.partitions == before
    assert conf_of(ask) == conf


def test_ufms_answer_comes_back(ask, service):
    entered(
        ask, "0x5", {"00000000000000aa": "full", "00000000000000bb": "limited"}, HOSTILE[0], True, False, (4, 3, 100)
    )
    before, content = (
        dict(service.state.partitions),
        ask("GET", "/ufmRest/resources/pkeys?guids_data=true&qos_conf=true")[1],
    )
    deleted(ask, service)
    assert taken(ask, "ufm", content) == [] and service.state.partitions == before


def test_opensm_reads_every_partition_of_the_file(ask, service):
    """A line of more than 4,094 bytes ends in the middle of a GUID for OpenSM, which drops the file: then every port is a full member of the default
    partition, and no tenant is isolated."""
    for pkey, (name, members) in enumerate([*((n, 3) for n in NAMES + HOSTILE), ("many", 5000)], 0x10):
        entered(ask, f"{pkey:#x}", {f"{pkey << 32 | n:016x}": "full" for n in range(1, members + 1)}, name)
    conf = conf_of(ask)
    read = as_opensm_reads_partitions(conf)
    assert read.remarks == []
    assert read.pkeys.keys() == service.state.partitions.keys()
    assert max(len(line.encode()) for line in conf.split("\n")) < 4094


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_the_file_cannot_hold_is_named(ask, service, name):
    entered(ask, "0x5", {"00000000000000aa": "full"}, name)
    conf = conf_of(ask)
    assert f"# This file cannot hold of 0x5: its name {name!a}\n" in conf
    before = service.state.partitions[5]
    deleted(ask, service)
    assert taken(ask, "partitions.conf", conf) == []
    after = service.state.partitions[5]
    assert after.name == "pkey_0x5" and (after.members, after.qos) == (before.members, before.qos)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=128),
            st.text("ab1 :,=;#\t\n\\\"'üDefault\x00\u2028", min_size=1, max_size=12),
            st.sampled_from(["pkey_0x1", "pkey_0x2", "DEFAULT", "ALL", "ipoib", "0x5"]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_name_comes_back_to_the_service_that_wrote_it(names):
    """OpenSM's file has no quotes: another name stands for one that it cannot hold, and the import says so. OpenSM itself reads every
    partition."""
    default = Partition(DEFAULT_BASE, "management", everyone="full")
    before = [Partition(k, name, members={0xAA + k: Member(bool(k % 2))}) for k, name in enumerate(names, 1)]
    text = exported([default, *before])
    read = as_opensm_reads_partitions(text)
    assert read.remarks == [] and read.pkeys.keys() == {DEFAULT_BASE, *range(1, len(names) + 1)}
    back, notes = from_conf(text, "f", {p.pkey for p in before}, before)
    by_pkey = {p.pkey: p for p in back}
    assert [by_pkey[p.pkey] for p in before] == before
    assert len(notes) == text.count("its name")
    assert all(
        (f"keeps its name {p.name!a}" in "".join(notes)) == (f"of {p.pkey:#x}: its name" in text) for p in before
    )


def test_tenants_and_names_of_hosts_are_named(ask, service):
    assert ask("PUT", "/tenants/v1/tenants/acme", {})[0] == 200
    assert ask("POST", "/tenants/v1/partitions", {"name": "red", "tenant": "acme"})[0] == 200
    host = next(iter(service.view.names))
    assert ask("POST", "/ufmRest/resources/pkeys/hosts", {"hosts_names": host, "pkey": "0x66"})[0] == 200
    conf = conf_of(ask)
    assert "its tenant 'acme'\n" in conf and "# This file cannot hold of 0x66: the host's name of 1 member\n" in conf
    document = ask("GET", "/ufmRest/resources/pkeys?guids_data=true&qos_conf=true")[1]
    for form, content in (("partitions.conf", conf), ("ufm", document)):
        dry = {"format": form, "content": content, "dry_run": True}
        assert ask("POST", "/tenants/v1/import", dry) == (200, {"rows": {}, "notes": []}), "nothing would change"
    deleted(ask, service)
    assert ask("DELETE", "/tenants/v1/tenants/acme")[0] == 200


@pytest.mark.parametrize(
    ("definition", "note"),
    [
        ("red=0x5, rate=2 : 0xaa=full ;", "rate=2"),
        ("red=0x5, rate=40 : 0xaa=full ;", "rate=40"),
        ("red=0x5, mtu=3 : 0xaa=full ;", "mtu=3"),
        ("red=0x5, ipoib, scope=5 : 0xaa=full ;", "scope"),
        ("red=0x5, ipoib, Q_Key=0x11 : 0xaa=full ;", "Q_Key"),
        ("red=0x5, ipoib, TClass=1 : 0xaa=full ;", "TClass"),
        ("red=0x5, ipoib, FlowLabel=1 : 0xaa=full ;", "FlowLabel"),
        ("red=0x5, ipoib : 0xaa=full, mgid=ff12:401b::5 ;", "multicast groups"),
        ("red=0x5 : 0xaa=both ;", "both memberships of 00000000000000aa"),
        ("red=0x5 : SELF=full, 0xaa=full ;", "SELF"),
        ("red=0x5 : ALL=full, 0xaa=full ;", "ALL"),
        ("Default=0x7fff : ALL=full, ALL_SWITCHES=full ;", "ALL_SWITCHES"),
        ("Default=0x7fff : ALL=full, SELF=limited ;", "SELF"),
    ],
)
def test_what_the_service_cannot_hold_of_a_file_is_named(ask, definition, note):
    whole = definition if definition.startswith("Default") else f"Default=0x7fff, ipoib : ALL=full ;\n{definition}"
    notes = taken(ask, "partitions.conf", whole + "\n")
    assert len(notes) == 1 and note in notes[0]
    assert ask("PUT", "/tenants/v1/default_membership", {"membership": "full"})[0] == 200


def test_a_file_without_the_default_partition_leaves_it_as_it_is(ask, service):
    before = service.state.partitions[0x7FFF]
    (note,) = taken(ask, "partitions.conf", "red=0x5 : 0xaa=full ;\n")
    assert "default partition" in note and service.state.partitions[0x7FFF] == before


def test_rate_and_mtu_without_ipoib_are_taken(ask, service):
    taken(ask, "partitions.conf", "red=0x5, rate=16, mtu=5, sl=2 : 0xaa=full ;\n")
    assert (service.state.partitions[5].qos.mtu, service.state.partitions[5].qos.rate) == (4, 100)


def test_a_partition_without_a_pkey_takes_no_other_over(ask, service):
    """OpenSM chooses the key of such a line; here 0x1 is another partition's, 0x2 is in quarantine, and 0x3 is further down in the file."""
    entered(ask, "0x1", {"00000000000000aa": "full"}, "red")
    entered(ask, "0x2", {"00000000000000bb": "full"}, "blue")
    assert ask("DELETE", "/ufmRest/resources/pkeys/0x2")[0] == 200
    before = service.state.partitions[1]
    conf = "Default=0x7fff, ipoib : ALL=full ;\ng : 0xcc=full ;\nh=0x3 : 0xdd=full ;\ng : 0xee ;\n"
    (note,) = taken(ask, "partitions.conf", conf)
    now = service.state.partitions
    assert now[1] == before and now[3].members.keys() == {0xDD}
    (made,) = (p for p in now.values() if p.name == "g")
    assert made.members.keys() == {0xCC, 0xEE} and made.pkey not in (1, 2, 3)
    assert "g has no P_Key" in note and f"{made.pkey:#x}" in note


def test_a_file_that_comes_twice_makes_nothing_twice(ask, service):
    """A partition without a P_Key is known by its name; where that is not enough, the answer is a conflict and nothing changes."""
    content = "blue : 0x0002c903000e0b72=full ;\nred=0x6, ipoib : ;\n"
    (note,) = [n for n in taken(ask, "partitions.conf", content) if "blue" in n]
    first = dict(service.state.partitions)
    assert len(first) == 3 and "it gets" in note
    (note,) = [n for n in taken(ask, "partitions.conf", content) if "blue" in n]
    assert service.state.partitions == first and "the partition with that name" in note
    blue = next(f"{pkey:#x}" for pkey, p in first.items() if p.name == "blue")
    tried = lambda text: ask("POST", "/tenants/v1/import", {"format": "partitions.conf", "content": text})
    status, answer = tried(f"blue : ;\nother={blue} : ;\n")
    assert status == 409 and "other" in answer["error"]
    entered(ask, "0x99", {}, "blue")
    status, answer = tried(content)
    assert status == 409 and blue in answer["error"] and "0x99" in answer["error"]
    assert {p: service.state.partitions[p] for p in first} == first


def test_opensm_gets_empty_partitions_with_ipoib(tmp_path):
    """OpenSM creates their broadcast group; without IPoIB an empty definition has no effect."""
    from softib.sm.managers.partitions import parse_partitions
    from softib.sm.options.opensm_partitions import as_opensm_reads_partitions
    from softib.tenants.managers import FileManager
    from softib.tenants.model import Partition
    from softib.tenants.state import State

    state = State.empty()
    state.partitions |= {k: Partition(k, f"p{k}", ip_over_ib=ip) for k, ip in ((0x5, True), (0x6, False))}
    file = tmp_path / "partitions.conf"
    FileManager(file, "true").program(state)
    text = file.read_text()
    assert {p.pkey: p.ipoib for p in parse_partitions(text)} == {0x7FFF: True, 0x5: True}
    assert as_opensm_reads_partitions(text).remarks == []
