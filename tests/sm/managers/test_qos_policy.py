"""QoS policies: what the reader takes, which request gets which level, and what its path then says."""

from __future__ import annotations

import re
import subprocess
import time

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.topologies.registry import generate
from softib.iba.sa import MultiPathRecord, PathRecord, SaMethod
from softib.live.internal_sm.settings import ManagerSettings
from softib.sm.managers.partitions import parse_partitions
from softib.sm.managers.qos_policy import MatchRule, QosLevel, parse_policy
from softib.sm.options.qos import QosConfig
from tests.live.serving import PRELOAD, Serving
from tests.sm.sa.asking import Asked, hosts

LEVELS = """qos-levels
    qos-level
        name: DEFAULT
        use: whatever no rule fits
        sl: 1
    end-qos-level
    qos-level # all that a level can say
        name: slow
        sl: 3
        mtu-limit: 2
        rate-limit: 2
        packet-life: 9
    end-qos-level
    qos-level
        name: jobs only
        sl: 4
        pkey: 0x12-0x14
    end-qos-level
end-qos-levels
"""


def rules(*texts):
    body = "\n".join(f"qos-match-rule\n{text}\nend-qos-match-rule" for text in texts)
    return f"qos-match-rules\n{body}\nend-qos-match-rules\n"


def group(name, *lines):
    return "port-group\nname: {}\n{}\nend-port-group\n".format(name, "\n".join(lines))


@pytest.fixture
def lab():
    def make(text, partitions="Default=0x7fff : ALL=full;\njob=0x12 : ALL=full;\n"):
        f = generate("fat-tree", radix=4, levels=2, generation="EDR")
        guid = [int(f.port_guid[f.port(ca, 1)]) for ca in f.cas]
        text = re.sub(r"@(\d)", lambda m: hex(guid[int(m[1])]), text)
        a = Asked(f, qos=QosConfig(), qos_policy=parse_policy(text), partitions=tuple(parse_partitions(partitions)))
        return a, hosts(a)

    return make


def path(a, h, source, target, **fields):
    """The path from host ``source`` to ``target`` as it is answered, None where there is none."""
    status, got = a.ask(PathRecord, SaMethod.GET, sgid=a.gid(h[source]), dgid=a.gid(h[target]), frm=h[source], **fields)
    return None if status else PathRecord.unpack(got[0][:64].tobytes())


def sl(a, h, source, target, **fields):
    found = path(a, h, source, target, **fields)
    return None if found is None else found["sl"]


def test_what_fits_no_rule_gets_the_default_level(lab):
    a, h = lab(LEVELS)
    assert sl(a, h, 0, 1) == sl(a, h, 3, 5) == 1
    assert sl(a, h, 0, 1, sl=1) == 1 and sl(a, h, 0, 1, sl=2) is None, "a request for another SL has no path"


def test_a_level_limits_mtu_rate_and_packet_life(lab):
    a, h = lab(
        "port-groups\n"
        + group("store", "port-guid: @2")
        + "end-port-groups\n"
        + LEVELS
        + rules("destination: store\nqos-level-name: slow")
    )
    free, slow = path(a, h, 0, 1), path(a, h, 0, 2)
    assert (slow["sl"], slow["mtu"], slow["rate"], slow["packet_life_time"]) == (3, 2, 2, 9)
    assert (free["sl"], free["mtu"], free["packet_life_time"]) == (1, 5, 18) and free["rate"] > 2
    assert sl(a, h, 2, 0) == 1, "from the store is another direction"
    assert path(a, h, 2, 2)["packet_life_time"] == 0, "loopback takes no time (IBA 15.2.5.16)"


def test_groups_by_guid_range_name_partition_and_kind(lab):
    f = generate("fat-tree", radix=4, levels=2, generation="EDR")
    a, h = lab(
        "port-groups\n"
        + group("named", "port-name: host-0003/P1, host-0004/P1")
        + group("members", "partition: few")
        + group("keyed", "pkey: 0x13")
        + group("boxes", "node-type: SWITCH, SELF")
        + "end-port-groups\n"
        + LEVELS
        + rules(
            "source: named\nqos-level-name: slow",
            "destination: members\nqos-level-name: jobs only",
            "source: boxes\nqos-level-name: slow",
        ),
        "Default=0x7fff : ALL=full;\njob=0x12 : ALL=full;\nfew=0x13 : @5;\n".replace(
            "@5", hex(int(f.port_guid[f.port(f.cas[5], 1)]))
        ),
    )
    assert [sl(a, h, s, 1) for s in range(6)] == [3, 1, 3, 3, 1, 1], "host 0 runs the manager"
    assert sl(a, h, 1, 5) == 4


def test_quotes_are_openSMs_and_a_group_that_nobody_is_in_is_said(lab):
    """osm_qos_parser_l.l: what is in quotes is one text, commas and blanks included; the last slash divides node and port, which is a number of any base."""
    a, h = lab(
        "port-groups\n"
        + group("named", 'port-name: "host-0003/P1" , host-0004/p0x1')
        + group('"two words"', 'port-name: "a, b/P1"')
        + group("wrong", "port-guid: 0x1234")
        + "end-port-groups\n"
        + LEVELS
        + rules('source: "named"\nqos-level-name: "slow"', 'source: "two words", wrong\nqos-level-name: slow')
    )
    assert [sl(a, h, s, 1) for s in range(5)] == [1, 1, 3, 3, 1]
    said = [n for n in a.sm.report.notes if "QoS policy" in n]
    assert len(said) == 2 and "'two words'" in said[0] and "'wrong'" in said[1]
    for wrong in ("host-0003", "host-0003/Q1", "host-0003/P0", 'a", b'):
        with pytest.raises(InputError, match="port-name"):
            parse_policy("port-groups\n" + group("g", f"port-name: {wrong}") + "end-port-groups\n" + LEVELS)


def test_a_rule_with_both_ends_needs_both_and_the_first_that_fits_counts(lab):
    a, h = lab(
        "port-groups\n"
        + group("a", "port-guid: @1")
        + group("b", "port-guid: @2, @3")
        + "end-port-groups\n"
        + LEVELS
        + rules(
            "source: a\ndestination: b\nqos-level-name: slow",
            "source: a\nqos-level-name: jobs only",
            "source: a\nqos-level-name: DEFAULT",
        )
    )
    assert [sl(a, h, 1, t) for t in (2, 3, 4)] == [3, 3, 4] and sl(a, h, 2, 3) == 1


def test_what_a_rule_asks_for_the_request_must_give(lab):
    a, h = lab(
        LEVELS
        + rules(
            "service-id: 0x10000-0x1ffff\nqos-level-name: slow",
            "qos-class: 7-9,11\nqos-level-name: slow",
            "pkey: 0x0012\nqos-level-name: jobs only",
        )
    )
    assert sl(a, h, 0, 1) == 1
    assert sl(a, h, 0, 1, service_id=0x10001) == 3 and sl(a, h, 0, 1, service_id=0x20000) == 1
    assert [sl(a, h, 0, 1, qos_class=c) for c in (6, 7, 9, 10, 11)] == [1, 3, 3, 1, 3]
    assert sl(a, h, 0, 1, pkey=0x8012) == 4 and sl(a, h, 0, 1, pkey=0xFFFF) == 1


def test_a_level_keeps_paths_in_its_partitions(lab):
    a, h = lab(LEVELS + rules("qos-class: 1\nqos-level-name: jobs only"))
    assert path(a, h, 0, 1)["pkey"] == 0xFFFF
    assert path(a, h, 0, 1, qos_class=1)["pkey"] == 0x8012
    assert path(a, h, 0, 1, qos_class=1, pkey=0xFFFF) is None


def test_short_rules_and_what_they_stand_for(lab):
    a, h = lab("""qos-ulps
        default : 0
        sdp, port-num 30000 : 1   # the narrow one first
        sdp : 2
        rds : 3
        iser, port-num 900-901 : 4
        iser : 5
        ipoib, pkey 0x0012 : 6
        any, service-id 0x6234 : 7
        any, source-target-port-guid @3 : 8
        srp, target-port-guid @1 : 9
        any, source-port-guid @4-@5 : 10
    end-qos-ulps
    """)
    service = lambda s: sl(a, h, 0, 2, service_id=s)
    assert [service(s) for s in (0x10000 + 30000, 0x10001, 0x10648CA, 0x1060000 + 900, 0x1060CBC, 0x6234, 1)] == [
        1,
        2,
        3,
        4,
        5,
        7,
        0,
    ]
    assert [
        sl(a, h, 0, 2),
        sl(a, h, 0, 2, pkey=0x12),
        sl(a, h, 3, 2),
        sl(a, h, 0, 3),
        sl(a, h, 0, 1),
        sl(a, h, 5, 2),
    ] == [0, 6, 8, 8, 9, 10]


def test_all_paths_at_once_and_multipath_say_the_same(lab):
    a, h = lab(
        "port-groups\n"
        + group("b", "port-guid: @2")
        + "end-port-groups\n"
        + LEVELS
        + rules("destination: b\nqos-level-name: slow")
    )
    _, got = a.ask(PathRecord, sgid=a.gid(h[0]))
    by_lid = {int(d): int(s) for d, s in zip(PathRecord.dlid.get(got), PathRecord.sl.get(got), strict=True)}
    assert {d for d, s in by_lid.items() if s == 3} == {a.lid(h[2])} and set(by_lid.values()) == {1, 3}
    gids = np.concatenate([a.gid(h[0]), a.gid(h[2])]).astype(">u8").tobytes()
    _, got = a.ask(MultiPathRecord, SaMethod.GET_MULTI, sgid_count=1, dgid_count=1, extra=gids)
    assert PathRecord.sl.get(got).tolist() == [3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("qos-levels\nend-qos-levels", ":2: there is no qos-level DEFAULT"),
        ("nonsense", ":1: 'nonsense' is not the start of a section"),
        (
            LEVELS + "qos-match-rules\nqos-match-rule\nqos-level-name: x\nend-qos-match-rule\nend-qos-match-rules",
            "names the qos-level 'x'",
        ),
        (LEVELS + rules("source: nobody\nqos-level-name: slow"), "names the port-group 'nobody'"),
        (LEVELS + rules("source: nobody"), "needs a qos-level-name"),
        ("qos-levels\nqos-level\nname: a\nsl: 16\n", ":4: sl: '16' is not possible"),
        ("qos-levels\nqos-level\nname: a\nend-qos-level\n", ":4: qos-level 'a' needs an sl"),
        ("qos-levels\nqos-level\ncolour: red\n", ":3: 'colour: red' is not a line of qos-level"),
        ("port-groups\nport-group\nname: a\nport-guid: 0x5-0x3\n", ":4: port-guid: '0x5-0x3'"),
        ("qos-ulps\nmpi : 3\n", ":2: 'mpi : 3' is not a rule of qos-ulps"),
        ("qos-ulps\nsdp, pkey 3 : 3\n", "is not a rule of qos-ulps"),
        ("qos-ulps\ndefault : 3\n", ":2: the file ends inside qos-ulps"),
    ],
)
def test_what_cannot_be_is_named_with_file_and_line(text, says):
    with pytest.raises(InputError, match=re.escape(says)):
        parse_policy(text, "f")


def test_the_setup_section_is_passed_over_as_opensm_does_and_levels_keep_their_order():
    policy = parse_policy(
        "qos-setup\n anything: at all\nend-qos-setup\n" + LEVELS + "qos-ulps\nrds : 3\nend-qos-ulps\n"
    )
    assert [level.name for level in policy.levels] == ["DEFAULT", "slow", "jobs only", "sl 3"]
    assert policy.levels[1] == QosLevel("slow", 3, 2, 2, 9) and policy.rules == (
        MatchRule("sl 3", service_ids=((0x10648CA, 0x10648CA),)),
    )


def test_files_name_the_policy(tmp_path):
    (tmp_path / "policy").write_text(LEVELS)
    (tmp_path / "conf").write_text(f"qos TRUE\nqos_policy_file {tmp_path / 'policy'}\n")
    assert ManagerSettings(options=str(tmp_path / "conf")).read().qos_policy.levels[0].sl == 1
    section = {"qos": True, "qos_policy_file": str(tmp_path / "policy")}
    assert ManagerSettings(fallback=section).read().qos_policy.levels[0].sl == 1
    notes = []
    (tmp_path / "conf").write_text(f"qos TRUE\nqos_policy_file {tmp_path / 'nowhere'}\n")
    assert ManagerSettings(options=str(tmp_path / "conf"), note=notes.append).read().qos_policy is None
    assert len(notes) == 1 and "nowhere" in notes[0]
    with pytest.raises(InputError, match=r"sm\.qos_policy_file: has no effect without qos: true"):
        ManagerSettings(fallback={"qos_policy_file": str(tmp_path / "policy")}).read()


POLICY = (
    "port-groups\n"
    + group("b", "port-guid: @2, @4")
    + group("c", "port-guid: @3")
    + "end-port-groups\n"
    + LEVELS
    + rules(
        "source: c\ndestination: b\nqos-level-name: DEFAULT",
        "destination: b\nqos-level-name: slow",
        "pkey: 0x12\nqos-level-name: jobs only",
    )
    + "qos-ulps\nany, target-port-guid @5 : 6\nend-qos-ulps\n"
)
SHOWN = ("sl", "mtu", "rate", "pkt_life")
PAIRS = [(0, 1), (1, 0), (0, 2), (2, 0), (3, 2), (3, 4), (1, 4), (4, 3), (5, 1), (1, 5), (5, 2), (3, 5), (6, 7)]


@pytest.mark.stock
@pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent")
@pytest.mark.parametrize("question", [[], ["--pkey", "0x12"], ["--qos_class", "3"]])
def test_stock_opensm_answers_the_same(question, stock, tmp_path, lab):
    a, h = lab(POLICY, "Default=0x7fff : ALL=full;\njob=0x12 : ALL=full;\n")
    f = generate("fat-tree", radix=4, levels=2, generation="EDR")
    guid = [int(f.port_guid[f.port(ca, 1)]) for ca in f.cas]
    (tmp_path / "policy").write_text(re.sub(r"@(\d)", lambda m: hex(guid[int(m[1])]), POLICY))
    (tmp_path / "partitions").write_text("Default=0x7fff : ALL=full;\njob=0x12 : ALL=full;\n")
    serving = Serving(f)
    try:
        env = {
            **serving.environment(f.node_name(int(f.cas[0]))),
            "OSM_CACHE_DIR": str(tmp_path),
            "OSM_TMP_DIR": str(tmp_path),
        }
        log = tmp_path / "log"
        sm = subprocess.Popen(
            [stock("opensm"), "-Q", "-Y", str(tmp_path / "policy"), "-P", str(tmp_path / "partitions"), "-f", str(log)],
            env=env,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + 60
            while "SUBNET UP" not in (log.read_text() if log.is_file() else ""):
                assert time.monotonic() < deadline and sm.poll() is None
                time.sleep(0.05)
            asker = serving.environment(f.node_name(int(f.cas[1])))
            lid = [int(f.lid[f.port(ca, 1)]) for ca in f.cas]
            theirs = {pair: _asked(stock, asker, question, *(lid[i] for i in pair)) for pair in PAIRS}
        finally:
            sm.terminate()
            sm.wait(20)
    finally:
        serving.stop()
    fields = {"pkey": 0x12} if "--pkey" in question else {"qos_class": 3} if question else {}
    for (source, target), found in theirs.items():
        value = path(a, h, source, target, **fields)
        assert found == [value[k] for k in ("sl", "mtu", "rate", "packet_life_time")], (source, target)
    assert {found[0] for found in theirs.values()} >= ({3, 4} if "--pkey" in question else {1, 3, 6})


def _asked(stock, env, question, slid, dlid):
    """What the administrator says of one path. (A table of many loses octets on its way through the stock library.)"""
    command = [stock("saquery"), "PR", "--slid", str(slid), "--dlid", str(dlid), *question]
    text = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60).stdout
    value = dict(re.findall(r"^\t\t(\w+)\.+(\S+)$", text.split("PathRecord dump:")[1], re.M))
    return [int(value[k], 0) & 63 for k in SHOWN]
