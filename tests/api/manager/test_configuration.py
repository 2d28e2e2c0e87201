"""``softib sm check-config``: torus-2QoS.conf files against the recorded verdicts of stock OpenSM,
options files against its rules."""

from __future__ import annotations

import json

import pytest

import softib
from softib.cli.manage.sm import check_config as command
from tests.cli.documents import check
from tests.routing.engines.torus_conf_mutants import MUTANTS, TORI, verdicts


def test_a_torus_file_that_is_called_wrong_is_refused_by_opensm(tmp_path):
    """What only the fabric shows (a seed that is not in it) is not said of the file alone; nothing
    that OpenSM takes is called wrong."""
    path, refused = tmp_path / "torus.conf", 0
    for (_, text), taken in zip(MUTANTS, verdicts(), strict=True):
        path.write_text(text)
        found = softib.check_config(path)
        if found.kind == "torus-2QoS.conf":
            assert found.good or not taken, (text, found.opensm)
            refused += not found.good
    assert refused > 30


@pytest.mark.parametrize(
    ("ports", "error"), [("0", "4E17"), ("x", "4E17"), ("4294967296", "4E17"), ("-1", "4E15"), ("1", "")]
)
def test_a_limit_of_ports_that_no_torus_passes_is_named_with_opensms_error(tmp_path, ports, error):
    """Read from the log of stock OpenSM 3.3.23: every link exceeds a limit of 0, and -1 is 240 GB a switch."""
    path = tmp_path / "torus.conf"
    path.write_text(f"{TORI['4x3x1'].config()}portgroup_max_ports {ports}\n")
    said = softib.check_config(path).opensm
    assert len(said) == (2 if error else 0) and all(f"ERR {error}" in line for line in said[:1])


def test_options_and_the_files_that_they_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torus").write_text("torus 4 4 1\nxp_link 1 2\nyp_link 1 5\n")
    (tmp_path / "conf").write_text(
        "routing_engine torus-2QoS\ntorus_config torus\nlmc 9\nhm_num_traps 5\nscatter_ports 8\n"
    )
    assert command(["conf"], standalone_mode=False) == 1
    said = capsys.readouterr().out
    for part in (
        "conf: opensm.conf; OpenSM 3.3.23 does not use all of it",
        ("3: lmc '9' is out of range; OpenSM uses 0"),
        "hm_num_traps: OpenSM 3.3.23 has no such option",
        "torus-2QoS is rejected without qos TRUE",
        "seed 1 has no xm_link",
        "scatter_ports is not used",
    ):
        assert part in said, said
    command(["conf", "--json"], standalone_mode=False)
    assert check("sm-config", json.loads(capsys.readouterr().out))["good"] is False
    (tmp_path / "good").write_text("sm_priority 5\nqos TRUE\n")
    assert softib.check_config("good").good
    with pytest.raises(softib.InputError, match="nowhere"):
        softib.check_config("nowhere")


KINDS = {
    "opensm.conf": "sm_priority 5\n",
    "torus-2QoS.conf": "torus 4 4 1\n",
    "partitions.conf": ("Default=0x7fff, ipoib : ALL=full;\n"),
    "qos-policy.conf": "# levels\nqos-ulps\n default : 0\nend-qos-ulps\n",
    "prefix-routes.conf": ("* 0x0002c90300000001\n"),
    "GUID file": "0x0002c90300000001\n0x0002c90300000002 # two\n",
    "node-name-map": '0x0002c90300000001 "leaf-1"\n',
}
"""Kind → a file as OpenSM's documents show it (opensm(8), partition-config.txt,
QoS_management_in_OpenSM.txt, ibnetdiscover(8))."""
BROKEN = {
    "partitions.conf": "Default=0x7fff : ALL=entire;\n",
    "qos-policy.conf": "qos-ulps\n default : nine\nend-qos-ulps\n",
    "opensm.conf": "sm_priorty 5\n",
    "torus-2QoS.conf": "torus 4 4\n",
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_that_of_the_content(kind, tmp_path):
    (tmp_path / "file").write_text(KINDS[kind])
    found = softib.check_config(tmp_path / "file")
    assert found.kind == kind and (found.good or kind == "torus-2QoS.conf")
    check("sm-config", found.to_json())


@pytest.mark.parametrize("kind", BROKEN)
def test_each_kind_is_judged_by_its_own_rules(kind, tmp_path):
    (tmp_path / "file").write_text(BROKEN[kind])
    found = softib.check_config(tmp_path / "file")
    assert found.kind == kind and not found.good
    if kind != "opensm.conf":
        assert not any("no such option" in line for line in found.opensm)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("topology: {kind: ring, switches: 8}\n", "fabric.yaml"),
        ('vendid=0x2c9\nSwitch 8 "S-0000000000000001"\n[1] "H-0000000000000002"[1]\n', "ibnetdiscover"),
        ("Switch,Port,Remote,Remote Port\na,1,b,1\n", "cabling list"),
        ('{"a": 1}\n', "not a configuration file of OpenSM"),
        ("[Logging]\nlevel = INFO\n", "not a configuration file of OpenSM"),
        ("mode: fast\nlist:\n  - a\n", "not a configuration file of OpenSM"),
    ],
)
def test_a_file_of_something_else_is_named(text, what, tmp_path):
    (tmp_path / "file").write_text(text)
    with pytest.raises(softib.InputError, match=what):
        softib.check_config(tmp_path / "file")


PARTITIONS = """Default=0x7fff, ipoib : ALL=full;
Bad=0x12345 : ALL=full;
Big=70000 : SELF=full;
Dup=0x13 : 0xdeadbeef=full, nonsense=full;
Z=0x30, ipoib, sl=20, mtu=9 : ALL=most;
mine=0x31 : ALL=full
  mgid=ff18::77,sl=0 ;
"""


def test_every_mistake_of_partitions_and_what_opensm_does(tmp_path):
    """The numbers were read from stock OpenSM 3.3.23 with smpquery and saquery, file by file
    (``test_partition_files.py`` asks it again)."""
    path = tmp_path / "p.conf"
    path.write_text(PARTITIONS)
    said = softib.check_config(path).opensm
    assert (
        "up to line 4, then replaces the whole file" in said[0] and "every port is a full member of 0x7fff" in said[0]
    )
    expected = [
        (2, "0xa345"),
        (3, "0x9170"),
        (4, "'nonsense' is not a PortGUID"),
        (5, "sl='20'"),
        (5, "mtu=9"),
        (5, "uses limited"),
        (7, "ff12…"),
    ]
    assert len(said) == 1 + len(expected)
    for line, (number, part) in zip(said[1:], expected, strict=True):
        assert line.startswith(f"{path}:{number}: ") and part in line
    path.write_text(PARTITIONS.splitlines(keepends=True)[0] + "B=0x3:ALL=both")
    found = softib.check_config(path)
    assert found.good and any("rejects the whole file" in line for line in found.softib), (
        "OpenSM takes it, softib does not"
    )


def test_one_bad_line_of_a_guid_file_is_named_with_what_opensm_does(tmp_path):
    """Observed with stock OpenSM 3.3.23: it logs only the name of the file (ERR AA02), updn takes the GUIDs above the
    line, ftree is rejected (AB2A, AB23); 0250f1b000000000 is such a line, 166898924429246464 the switch 0x250f1b000000000."""
    path = tmp_path / "roots"
    path.write_text(
        "0x0002c90300000001\n# two\n  0x0002c90300000002 spine\nnonsense\n0x0002c90300000003\n0250f1b000000000\n"
        "166898924429246464\n0x0002c90300000004#x\n"
    )
    found = softib.check_config(path)
    assert found.kind == "GUID file" and not found.good
    expected = [
        (4, "'nonsense' is not a GUID", "OpenSM stops reading here, and 4 lines after it are not used"),
        (6, "'0250f1b000000000' is not a GUID", "use 0x0250f1b000000000"),
        (7, "is read as 0x0250f1b000000000", "use 0x"),
    ]
    assert len(found.opensm) == len(expected)
    for line, (number, *parts) in zip(found.opensm, expected, strict=True):
        assert line.startswith(f"{path}:{number}: ") and all(part in line for part in parts), line
    path.write_text("0x0002c90300000001\n0250f1b000000000\n")
    found = softib.check_config(path)
    assert "OpenSM stops reading here; updn" in found.opensm[0] and found.softib == ("uses the file as written",)
    path.write_text("* 0x0002c90300000001\n0xfe80000000000000 *\nnonsense\n")
    assert softib.check_config(path).kind == "prefix-routes.conf"


def test_lines_come_in_the_order_of_the_file(tmp_path):
    path = tmp_path / "o.conf"
    path.write_text(
        "m_key 0xZZ\nsm_priority 99\nlmc 9\nsm_priorty 3\nsweep_interval ten\nmax_op_vls 7\nqos TRUE\nqos_sl2vl 0,1\n"
    )
    for lines in (softib.check_config(path).opensm, softib.check_config(path).softib):
        numbers = [int(line.removeprefix(f"{path}:").split(":")[0]) for line in lines if line.startswith(f"{path}:")]
        assert len(numbers) > 1 and numbers == sorted(numbers)
    path.write_text("torus 4 4 4\nyp_link 1\nx_dateline 9\nbogus 1\n")
    said = softib.check_config(path).opensm
    assert [line.split(":")[0] for line in said[:3]] == [
        f"torus-2QoS.conf line {n}" for n in (2, 3, 4)
    ] and "rejected" in said[3]


def test_a_number_of_five_thousand_digits_in_a_guid_file_is_one_line(tmp_path):
    """``strtoull`` ends at 64 bits; Python's own conversion of digits ends at 4,300 of them."""
    path = tmp_path / "roots"
    path.write_text("0x0002c90300000001\n0x0002c90300000002\n" + 5000 * "9" + "\n")
    (remark,) = softib.check_config(path).opensm
    assert ":3: " in remark and f"read as {(1 << 64) - 1:#018x}" in remark
