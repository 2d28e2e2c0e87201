"""Records of ibnetdiscover and ibsim text, one hazard at a time. Expected values stand in the text
itself."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from softib.errors import UnknownFormat, UnreadableFile
from softib.fabric.formats import registry
from softib.fabric.formats.base import ReadResult
from softib.fabric.formats.records import speed_of_gbps
from softib.fabric.power_up import active_speed_codes
from softib.fabric.topologies.registry import generate
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE
from softib.iba.smp import PortInfo, SwitchInfo
from tests.fabric.formats.lab import CA, PAIR, PORTS, SW


@pytest.fixture
def read(tmp_path: Path):
    def of(text: str | bytes) -> ReadResult:
        path = tmp_path / "dump"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return registry.read(path)

    return of


def rates(result: ReadResult) -> list[str]:
    """``4xHDR`` of every linked port."""
    f = result.fabric
    code = active_speed_codes(f.port_info, f.port_mlnx_speed)
    width = PortInfo.link_width_active.get(f.port_info)
    return [f"{LANES_BY_BIT[int(width[p])]}x{SPEED_BY_CODE[int(code[p])].name}" for p in np.flatnonzero(f.linked)]


def reasons(result: ReadResult) -> list[tuple[int, str]]:
    return [(p.line, p.reason) for p in result.problems]


def test_a_directors_chip_in_ibdiagnets_form_is_no_problem(read) -> None:
    """``switchguid=0xSYSTEM(CHIP)``: ibdiagnet puts the director's SystemImageGUID first. Any other
    GUID there is one."""
    told = f"sysimgguid=0x2c90300000011\nswitchguid=0x2c90300000011({SW[3:]})\n"
    f = read(PAIR.replace("sysimgguid=0x2c90300000011\nswitchguid=0x2c90300000010(2c90300000010)\n", told))
    assert reasons(f) == []
    assert f.fabric.node_guid.tolist()[0] == int(SW, 16) and f.fabric.sys_guid.tolist()[0] == 0x2C90300000011
    for other in ("0x2c90300000012(2c90300000010)", "0x2c90300000011(2c90300000013)", "0x2c90300000011"):
        (problem,) = read(PAIR.replace("0x2c90300000010(2c90300000010)", other)).problems
        assert problem.line == 4 and "differs from the record's name" in problem.reason


def test_every_field_of_a_plain_record(read) -> None:
    result = read(PAIR)
    f = result.fabric
    assert reasons(result) == [] and result.format == "ibnetdiscover"
    assert f.node_type.tolist() == [2, 1] and f.node_nports.tolist() == [41, 2]
    assert f.node_names() == ["MF0;leaf-1:MQM8700/U1", "node-1 mlx5_0"]
    assert [hex(g) for g in f.node_guid.tolist()] == ["0x2c90300000010", "0x2c90300000020"]
    assert [hex(g) for g in f.sys_guid.tolist()] == ["0x2c90300000011", "0x2c90300000021"]
    assert f.device_id.tolist() == [0xD2F0, 0x101B] and f.vendor_id.tolist() == [0x2C9, 0x2C9]
    leaf3, node2 = int(f.port(0, 3)), int(f.port(1, 2))
    assert f.port_peer[leaf3] == node2 and f.port_peer[node2] == leaf3 and f.linked.sum() == 2
    assert hex(int(f.port_guid[node2])) == "0x2c90300000099"
    assert f.lid[f.port(0, 0)] == 7 and f.lid[node2] == 9 and f.lmc[node2] == 1
    assert rates(result) == ["2xHDR", "2xHDR"]
    assert SwitchInfo.enhanced_port0.get(f.switch_info).tolist() == [1]
    assert f.source.records == {"lids", "lmcs", "speeds"}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda t: t.replace("\t", ""),
        lambda t: t.replace("\t", "        "),
        lambda t: t.replace("\n", "\r\n"),
        lambda t: t.replace("\n", "\r"),
        lambda t: "\ufeff" + t,
        lambda t: t.encode("utf-16"),
        lambda t: t.rstrip("\n"),
        lambda t: "\n".join(f"\x1b[0m{line}\x1b[K" for line in t.split("\n")),
        lambda t: t.replace("\n", " \n"),
    ],
    ids=["tabs lost", "tabs to blanks", "CRLF", "CR", "BOM", "UTF-16", "no line end", "colours", "blank at line end"],
)
def test_what_terminals_and_editors_do_to_text(read, wrap) -> None:
    plain, odd = read(PAIR), read(wrap(PAIR))
    assert reasons(odd) == []
    assert odd.counts == plain.counts and odd.fabric.node_names() == plain.fabric.node_names()
    assert (odd.fabric.port_peer == plain.fabric.port_peer).all() and (odd.fabric.lid == plain.fabric.lid).all()


def test_prompts_and_messages_around_the_text_are_one_problem_each(read) -> None:
    result = read(
        "[root@ufm ~]# ibnetdiscover\n" + PAIR + "src/query_smp.c:195; bad status 110\nmore\n[root@ufm ~]# \n"
    )
    assert [line for line, _ in reasons(result)] == [1, 15] and "2 lines that follow" in result.problems[1].reason
    assert result.counts["links"] == 1


@pytest.mark.parametrize(
    ("own", "peer", "label"),
    [
        ("[3](1/1/1)", "", "1/1/1"),
        ("[3](3)", "", "3"),
        ("[3][ext 7]", "", "7"),
        ("[3]", "[ext 2] ", ""),
    ],
)
def test_labels_on_ports(read, own: str, peer: str, label: str) -> None:
    text = PAIR.replace("[3]\t", f"{own} ").replace('[2](2c90300000099) \t"', '[2](B23D0F0/0/0/1)(2c90300000099) "')
    text = text.replace('"[3]\t\t#', f'"[3]{peer}\t\t#')
    result = read(text)
    f = result.fabric
    assert reasons(result) == [] and f.port_label.get(int(f.port(0, 3)), "") == label
    assert f.port_label[int(f.port(1, 2))] == "B23D0F0/0/0/1" and int(f.port_guid[f.port(1, 2)]) == 0x2C90300000099


def test_empty_lid_fields(read) -> None:
    result = read(PAIR.replace("lid 7", "lid").replace("lid 9", "lid ").replace("# lid  lmc 1", "# lid  lmc 1"))
    assert reasons(result) == []
    assert (
        result.fabric.lid.max() == 0 and "lids" not in result.fabric.source.records and rates(result) == ["2xHDR"] * 2
    )


@pytest.mark.parametrize(
    ("lid", "wrong"),
    [
        ("0", False),
        ("1", False),
        ("49151", False),
        ("49152", False),
        ("65535", False),
        ("65536", True),
        ("99999999999999999999", True),
        ("x12", True),
    ],
)
def test_lids_at_the_edges(read, lid: str, wrong: bool) -> None:
    result = read(PAIR.replace("lid 9 ", f"lid {lid} "))
    assert bool(reasons(result)) == wrong and all("LID" in r for _, r in reasons(result))
    assert result.fabric.lid[result.fabric.port(1, 2)] == (0 if wrong else int(lid))


def test_lids_that_contradict_each_other(read) -> None:
    result = read(PAIR.replace('mlx5_0" lid 9', 'mlx5_0" lid 8'))
    ((line, reason),) = reasons(result)
    assert line == 6 and "LID 8" in reason and "LID 9" in reason
    assert result.fabric.lid[result.fabric.port(1, 2)] == 9  # what the port's own record says


def test_guids_that_are_no_numbers(read) -> None:
    result = read(PAIR.replace(CA, "0000000000host1").replace("caguid=0x2c90300000020", "caguid=0x0000000000host1"))
    assert [line for line, _ in reasons(result)] == [11] and "hexadecimal" in result.problems[0].reason
    assert result.counts["links"] == 1 and result.fabric.node_guid[1] != result.fabric.node_guid[0]


def test_switchguid_that_differs_from_the_name(read) -> None:
    result = read(PAIR.replace("switchguid=0x2c90300000010", "switchguid=0x2c90300000077"))
    ((line, reason),) = reasons(result)
    assert line == 4 and "differs" in reason and int(result.fabric.node_guid[0]) == 0x2C90300000010


def test_two_switches_with_one_guid_are_kept_and_told(read) -> None:
    second = PAIR.replace(CA, "0002c90300000030").replace("leaf-1", "leaf-2").replace("2c90300000020", "2c90300000030")
    result = read(PAIR + "\n" + second)
    assert result.counts["switches"] == 2 and result.counts["links"] == 2 and result.counts["listed_both_ends"] == 2
    ((line, reason),) = reasons(result)
    assert line == 19 and "line 5" in reason
    f = result.fabric
    assert f.node_guid[0] == f.node_guid[2] and f.port_node[f.port_peer[f.port(3, 2)]] == 2


def test_short_names_of_a_netlist_are_names_and_no_guids(read) -> None:
    """ibsim takes any name; ibnetdiscover writes sixteen digits. ``S-0001`` and ``H-0001`` are not
    one GUID."""
    result = read('Switch 4 "S-0001"\n[1] "H-0001"[1]\n\nHca 1 "H-0001"\n[1] "S-0001"[1]\n')
    assert not result.problems
    assert result.fabric.source.format == "ibsim"
    assert len(set(result.fabric.node_guid.tolist())) == 2 and result.fabric.sizes.cables == 1


def test_the_same_dump_twice_is_one_fabric(read) -> None:
    result = read(PAIR + "\n" + PAIR)
    assert result.counts == read(PAIR).counts
    again = read(PAIR + "\n" + PAIR)
    assert [(p.line, "repeats" in p.reason) for p in again.problems] == [(19, True), (26, True)]


def test_a_name_told_by_two_guid_lines(read) -> None:
    text = 'switchguid=0x5\nSwitch 2 "a"\n[1] "b"[1]\n\nswitchguid=0x5\nSwitch 2 "b"\n[1] "a"[1]\n'
    result = read(text)
    ((line, reason),) = reasons(result)
    assert line == 6 and "line 2" in reason and result.fabric.node_guid.tolist() == [5, 5]


def test_self_loops_one_sided_dangling_conflicts(read) -> None:
    text = """\
Switch 8 "a"
[1] "b"[1]
[2] "b"[2]
[3] "a"[4]
[4] "a"[3]
[5] "gone"[1]
[6] "b"[1]
[7] "a"[7]

Switch 8 "b"
[1] "a"[1]
"""
    result = read(text)
    assert result.counts["links"] == 6 and result.counts["dangling"] == 1 and result.counts["self_loops"] == 2
    assert result.counts["listed_both_ends"] == 3
    told = dict(reasons(result))
    assert set(told) == {3, 4, 6, 7, 8}
    assert "one-sided" in told[3] and "back to port 4" in told[4] and "no record" in told[6]
    assert "line 11" in told[7] and "back to port 7" in told[8]
    f = result.fabric
    assert f.port_peer[f.port(0, 6)] == -1 and f.port_cable[f.port(0, 6)] >= 0
    assert f.cable_listed[f.port_cable[f.port(0, 2)]] == 1 and f.port_peer[f.port(1, 2)] == f.port(0, 2)


def test_port_told_twice_and_ports_beyond_the_node(read) -> None:
    result = read(
        'Switch 2 "a"\n[1] "b"[1]\n[1] "c"[1]\n[9] "b"[2]\n[0] "b"[3]\n[999] "b"[4]\n\nSwitch 0 "b"\n[1] '
        '"a"[1]\n'
        '[2] "a"[9]\n\nCa 1 "c"\n'
    )
    told = dict(reasons(result))
    assert (
        "line 2" in told[3]
        and "no port 9 of 'a', which has 2 ports according to line 1" in told[4]
        and "1 to 254" in told[5]
        and "1 to 254" in told[6]
        and "no port 9 of 'a'" in told[10]
        and len(told) == 5
    )
    assert result.fabric.node_nports.tolist() == [2, 2, 1] and result.counts["links"] == 2


@pytest.mark.parametrize(
    ("rate", "want"),
    [
        ("4xSDR", "4xSDR"),
        ("1xSDR", "1xSDR"),
        ("4xFDR10", "4xFDR10"),
        ("12xQDR", "12xQDR"),
        ("8xDDR", "8xDDR"),
        ("4xXDR", "4xXDR"),
        ("4x5.0 Gbps", "4x DDR"),
        ("4x10.0 Gbps", "4xQDR"),
        ("4x14.0625", "4xFDR"),
        ("4x25.78125 Gbps", "4xEDR"),
        (("4x 2.5 Gbps"), "4xSDR"),
        ("4xHDR s=4 w=2 v=4 e=4", "4xHDR"),
        ("4xNDR (scp)", "4xNDR"),
        ("4xHDR slot 3", "4xHDR"),
        ("4xHDR speed=NDR", "4xNDR"),
    ],
)
def test_forms_of_speed(read, rate: str, want: str) -> None:
    result = read(PAIR.replace("2xHDR", rate))
    assert reasons(result) == [] and rates(result) == [want.replace(" ", "")] * 2


@pytest.mark.parametrize("rate", ["4x???", "??HDR", "7xEDR", "4xLDR", "4x3.3 Gbps", "4x", ""])
def test_speeds_that_say_nothing_are_told(read, rate: str) -> None:
    result = read(PAIR.replace(" 2xHDR", f" {rate}"))
    assert {line for line, _ in reasons(result)} == {6, 13} and result.counts["links"] == 1


def test_supported_speed_is_the_devices_or_the_fastest_seen(read) -> None:
    f = read(PAIR.replace("2xHDR", "4xFDR")).fabric  # ConnectX-6 and Quantum: HDR parts
    assert PortInfo.link_speed_ext_supported.get(f.port_info)[f.linked].tolist() == [7, 7]
    f = read(PAIR.replace("2xHDR", "4xNDR")).fabric  # more than the DeviceID promises
    assert PortInfo.link_speed_ext_supported.get(f.port_info)[f.linked].tolist() == [15, 15]
    assert "capabilities" not in f.source.records


def test_names_with_quotes_hashes_and_other_bytes(read) -> None:
    result = read(PAIR.encode().replace(b"node-1 mlx5_0", b'Voltaire 4036 # "x" lid 3 \xe9'))
    assert (
        reasons(result) == [] and bytes(result.fabric.node_desc[1]).rstrip(b"\0") == b'Voltaire 4036 # "x" lid 3 \xe9'
    )
    assert result.fabric.lid[result.fabric.port(1, 2)] == 9


def test_a_router_is_neither_switch_nor_ca(read) -> None:
    result = read(PAIR.replace("Ca\t", "Rt\t").replace("caguid", "rtguid").replace("H-", "R-"))
    assert reasons(result) == [] and result.fabric.node_type.tolist() == [2, 3]
    assert (
        result.counts["cas"] == 0 and result.counts["links"] == 1 and result.fabric.lid[result.fabric.port(1, 2)] == 9
    )


def test_ibsim_options_are_enabled_bits(read) -> None:
    text = (
        'width=3\nspeed=7\nSwitch 3 "a"\n[1] "h"[1] w=11 s=7 e=7\n[2] "b"[1]\n[3] "c" 4xDDR\n\nHca 1 "h"\n[1] '
        '"a"[1] w=11 s=7 e=7\n\n'
    )
    result = read(text + 'Hca 1 "b"\n[1] "a"[2]\n\nHca 1 "c" # just a name\n[1] "a"[3] # a comment\n')
    assert reasons(result) == [] and result.format == "ibsim"
    assert rates(result) == ["12xHDR", "4xQDR", "4xDDR", "12xHDR", "4xQDR", "4xQDR"]
    assert result.fabric.node_names() == ["a", "h", "b", "just a name"]


def test_an_end_without_port_number_is_port_1(read) -> None:
    """ibsim's rule."""
    f = read('Switch 2 "a"\n[2] "h"\n\nHca 1 "h"\n[1] "a"[2]\n').fabric
    assert f.port_peer[f.port(0, 2)] == f.port(1, 1)


def test_ports_form(read) -> None:
    result = read(PORTS)
    f = result.fabric
    assert [(p.line, "only as a peer" in p.reason) for p in result.problems] == [(3, True)]
    assert f.node_names() == ["o1 HCA-1", "leaf - 1", "spine"] and f.node_nports.tolist() == [1, 37, 7]
    assert f.lid[f.port(0, 1)] == 134 and f.lid[f.port(1, 0)] == 1719 and f.lid[f.port(2, 0)] == 1516
    assert f.port_peer[f.port(1, 1)] == f.port(2, 7) and rates(result) == ["4xEDR"] * 4
    assert f.source.records == {"lids", "speeds", "unlinked"}


def test_ports_form_of_real_exporters(shared_data: Path) -> None:
    folder = shared_data / "treydock-fixtures"
    one, two, three = (
        registry.read(folder / f"collectors__fixtures__ibnetdiscover__test{n}.out") for n in ("", "2", "3")
    )
    assert (one.counts["links"], one.counts["cas"], one.counts["switches"]) == (4, 3, 4)
    assert (two.counts["links"], two.counts["sharp_nodes"]) == (3, 1)
    assert [p.line for p in two.problems if "line 1 cables that port" in p.reason] == [5]  # one CA port, two cables
    assert three.fabric.node_names() == ["Infiniscale-IV Mellanox Technologies"] and three.problems == []


@pytest.mark.parametrize("content", [b"", b"\n \t\r\n"])
def test_empty(read, content: bytes) -> None:
    with pytest.raises(UnreadableFile, match="empty"):
        read(content)


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "absent", "No such file"), (tmp_path, "a directory, not a file")):
        with pytest.raises(UnreadableFile, match=reason):
            registry.read(path)


def test_a_plan_is_no_fabric(read) -> None:
    with pytest.raises(UnknownFormat, match="--plan"):
        read("StartDevice,StartPort,EndDevice,EndPort,LinkType\na,1,b,2,data\n")


def test_a_dropped_record_says_nothing_of_its_peer(read) -> None:
    """(Found by fuzzing: the PortGUID of port 9 of a CA with one port.)"""
    result = read('Switch 2 "a"\n[1] "h"[1]\n[1] "h"[9](5)\n\nCa 1 "h"\n[1] "a"[1]\n')
    assert [p.line for p in result.problems] == [3] and result.fabric.node_nports.tolist() == [2, 1]


# -- ibdiagnet's form --

CHIP = f"""\
sysimgguid=0x2c903000000aa
switchguid=0x2c903000000aa({SW[3:]})
Switch\t41 "S-{SW}"\t\t# "MF0;director:MCS8500/L01/U1" base port 0 lid 7 lmc 0
"""


def test_chips_of_a_director_in_ibdiagnets_form(read) -> None:
    """ibdiagnet 2 writes ``switchguid=SYSTEM(NODE)``: nothing is wrong with it, unless none of the
    GUIDs is the system's."""
    result = read(CHIP)
    assert reasons(result) == []
    assert int(result.fabric.node_guid[0]) == int(SW, 16) and int(result.fabric.sys_guid[0]) == 0x2C903000000AA
    assert len(reasons(read(CHIP.replace("switchguid=0x2c903000000aa", "switchguid=0x2c903000000ab")))) == 1
    assert len(reasons(read(CHIP.replace(f"({SW[3:]})", "(2c903000000bb)")))) == 1


def test_a_real_director_has_no_problem(shared_data: Path) -> None:
    assert registry.read(shared_data / "hk-examples/Topo.6_CS8500.txt").problems == []


@pytest.mark.parametrize(
    ("text", "name"),
    [("2.5", "SDR"), ("5", "DDR"), ("10", "QDR"), ("10.3125", "FDR10"), ("14", "FDR"), ("14.0625", "FDR"), ("25", "EDR"), ("25.78125", "EDR"),
     ("50", "HDR"), ("53.125", "HDR"), ("100", "NDR"), ("106.25", "NDR"), ("200", "XDR"), ("212.5", "XDR"), ("0", ""), ("nan", ""), ("3", "")],
)  # fmt: skip # a packed list of short values
def test_speeds_as_tools_print_them(text: str, name: str) -> None:
    """As they are, or as Linux rounds them."""
    code = speed_of_gbps(text)
    assert (SPEED_BY_CODE[code].name if code else "") == name


def test_a_port_that_its_peer_does_not_have_is_taken_from_the_peers_record(tmp_path: Path) -> None:
    """One bad number in one of 32 cables' two records: the other record names both ends, so no cable is lost."""
    whole, bad = generate("fat-tree", radix=8, levels=2), tmp_path / "bad"
    registry.write(whole, bad, "ibnetdiscover")
    lines = bad.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith('[5]\t"S-'))
    lines[at] = re.sub(r'"\[\d+\]', '"[99]', lines[at], count=1)
    bad.write_text("".join(lines))
    result = registry.read(bad)
    assert [(p.line, p.code) for p in result.problems] == [(at + 1, "")], reasons(result)
    assert "no port 99" in result.problems[0].reason
    f = result.fabric
    assert f.sizes.cables == whole.sizes.cables and f.linked.sum() == whole.linked.sum()
