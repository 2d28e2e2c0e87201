"""What OpenSM 3.3.23 makes of an options file. Oracle: ``opensm -F FILE -c OUT`` writes every option as it holds after FILE was read."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

import softib
from softib.live.internal_sm.settings import ManagerSettings
from softib.sm.config import SmConfig
from softib.sm.options.opensm_conf import PROGRAMMED, as_opensm_reads, shown
from softib.sm.options.opensm_defaults import DEFAULTS, KINDS, number
from softib.sm.options.softib_options import ArConfig
from tests.extent import extent

SHARED = Path(__file__).parents[4] / "shared"
VALUES = (
    "TRUE", "FALSE", "true", "yes", "1", "0", "-1", "7", "8", "9", "15", "16", "30", "31", "32", "99", "255", "256", "300", "65536", "0x12",
    "0x1ffffffff", "010", "08", "abc", "5 # x", '"quoted"', "'in'", "", "both", "in", "local", "12abc", "18446744073709551616",
)  # fmt: skip # a packed list of short values
FILES = 60


def mutant(seed: int) -> str:
    """Options in a random order with values of which some are impossible, and names that are none."""
    rng = random.Random(seed)
    names = [n for n in KINDS if KINDS[n] != "other"]
    lines = []
    for _ in range(rng.randint(3, 30)):
        name = rng.choice((*names, "pkey", "routing_threads_num"))
        value = rng.choice((*VALUES, shown(DEFAULTS.get(name))))
        if not (name == "part_enforce" and value == "(null)"):  # OpenSM crashes
            lines.append(f"{name}{rng.choice((' ', '   ', chr(9)))}{value}")
    return "\n".join(lines) + "\n"


@pytest.mark.stock
def test_every_option_of_sixty_files_holds_as_opensm_has_it(stock, tmp_path):
    opensm = stock("opensm")
    given, out = tmp_path / "in.conf", tmp_path / "out.conf"
    replaced = set()
    for seed in range(FILES):
        given.write_text(mutant(seed))
        out.unlink(missing_ok=True)
        said = subprocess.run(
            [opensm, "-F", str(given), "-c", str(out)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        rows = (line.partition(" ") for line in out.read_text().splitlines() if line and not line.startswith("#"))
        held = {name: value.strip() for name, _, value in rows}
        stated = as_opensm_reads(given.read_text())
        for name, kind in KINDS.items():
            text = held[name]
            want = (
                text == "TRUE"
                if kind == "truth"
                else number(text)
                if kind[0] in "ui"
                else None
                if text == "(null)"
                else text
            )
            got = stated.get(name)
            assert (str(got).lower() if kind == "mask" else got) == (text.lower() if kind == "mask" else want), (
                seed,
                name,
                text,
            )
        for remark in stated.remarks:
            if remark.kind == "unknown":
                assert f'Unrecognized token: "{remark.name}"' in said.stdout
            elif remark.kind == "replaced":
                assert f"{remark.name} = " in said.stdout or f"{remark.name}=" in said.stdout or "mkey" in said.stdout
                replaced.add(remark.name)
            elif remark.kind == "silent":
                assert held[remark.name] == shown(remark.now) != remark.value
        assert said.stdout.count("Unrecognized token") == sum(r.kind == "unknown" for r in stated.remarks)
    assert len(replaced) > 5


TABLES = {
    "qos_vlarb_high 0:300,1:4,20:1": "0:44,1:4,5:1",
    "qos_ca_vlarb_low 0:1,15:2": "0:1,0:2",
    "qos_sl2vl 0,1,2": "0,1,2,0,0,0,0,0,0,0,0,0,0,0,0,0",
    "qos_swe_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,16": "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,0",
    "qos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,1": "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "qos_vlarb_low 0:255,14:0": None,
    "qos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15": None,
}
"""Line → what OpenSM programs instead, by ``parse_vlarb_entry`` and ``parse_sl2vl_entry`` of its ``osm_qos.c`` (weight 300 was read
back as 0x2c, VL 20 as VL 5, the SLs beyond a short table as VL 0); None: as written."""


@pytest.mark.stock
@pytest.mark.parametrize(("line", "programmed"), TABLES.items())
def test_tables_that_opensm_changes_are_named(stock, tmp_path, line, programmed):
    """OpenSM warns of the same lines, and of no others; without ``qos TRUE`` it does not read them."""
    conf = tmp_path / "in.conf"
    conf.write_text(f"qos TRUE\n{line}\n")
    ran = subprocess.run(
        [stock("opensm"), "-F", conf, "-c", tmp_path / "out"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ("Warning: Cached Option" in ran.stdout) == (programmed is not None)
    remarks = as_opensm_reads(conf.read_text()).remarks
    assert [(r.name, r.now) for r in remarks] == ([] if programmed is None else [(line.split()[0], programmed)])
    assert as_opensm_reads(f"{line}\n").remarks == []


SILENT = {
    "qos TRUE\nqos_rtr_high_limit -2\n": "qos_rtr_high_limit",
    "qos_rtr_high_limit -2\n": "",
    "qos TRUE\nqos_rtr_high_limit -1\n": "",
    "part_enforce in\nno_partition_enforcement TRUE\n": "part_enforce",
    "part_enforce off\nno_partition_enforcement TRUE\n": "",
    "no_partition_enforcement TRUE\n": "",
}
"""File → the option that OpenSM replaces without a word."""


@pytest.mark.stock
@pytest.mark.parametrize(("text", "name"), SILENT.items())
def test_values_that_opensm_replaces_silently_are_named(stock, tmp_path, text, name):
    conf, out = tmp_path / "in.conf", tmp_path / "out"
    conf.write_text(text)
    subprocess.run([stock("opensm"), "-F", conf, "-c", out], cwd=tmp_path, capture_output=True, timeout=60)
    held = dict(line.split(None, 1) for line in out.read_text().splitlines() if line and line[0] != "#")
    written = dict(line.split() for line in text.splitlines())
    assert {n for n, value in written.items() if held[n] != value} == ({name} if name else set())
    said = softib.check_config(conf).opensm
    assert len(said) == bool(name)
    assert all(f" {name} " in line and line.endswith(f"OpenSM uses {held[name]}") for line in said)


CONGESTION = {"threshold": 4, "credit_starvation_threshold": 4}


@pytest.mark.parametrize(("name", "bits"), CONGESTION.items())
def test_thresholds_of_congestion_control_lose_their_upper_bits(tmp_path, name, bits):
    """OpenSM's ``osm_congestion_control.c`` shifts both by what leaves 4 bits of them, and only with ``congestion_control TRUE``."""
    conf = tmp_path / "conf"
    conf.write_text(f"congestion_control TRUE\ncc_sw_cong_setting_{name} 0x1a\n")
    (line,) = softib.check_config(conf).opensm
    assert f"does not fit into {bits} bits (0 to 15); OpenSM uses 10" in line
    conf.write_text(f"cc_sw_cong_setting_{name} 0x1a\n")
    assert softib.check_config(conf).good


SHIFTS = {
    "cc_cct 0:1,3:16383": None,
    "cc_cct 1: 2, 3:4": None,
    "cc_cct 0:1,4:1": "0:1,0:1",
    "cc_cct 0:1,1:16384": "0:1,1:0",
    "cc_cct 0:1,7:70000": "0:1,3:4464",
    "cc_sw_cong_setting_credit_starvation_return_delay 3:7": None,
    "cc_sw_cong_setting_credit_starvation_return_delay 5:20000": "1:3616",
    "cc_sw_cong_setting_credit_starvation_return_delay 2:16384": "3:0",
}
"""Line → what stock OpenSM programmed instead, read with ``ibccquery`` (shift and multiplier of each entry; 0x4e20 and 0xc000 of
CS_ReturnDelay)."""


@pytest.mark.parametrize(("line", "programmed"), SHIFTS.items())
def test_shifts_and_multipliers_lose_their_upper_bits(line, programmed):
    remarks = as_opensm_reads(f"congestion_control TRUE\n{line}\n").remarks
    assert [(r.kind, r.now) for r in remarks] == ([] if programmed is None else [("programmed", programmed)])
    assert as_opensm_reads(f"{line}\n").remarks == []


TAKEN = (
    "cc_cct 0:1,2",
    "cc_cct 0:1",
    "cc_cct 0:1,3:4,",
    "cc_ca_cong_setting_ccti_increase 0 1,1 2",
    "cc_ca_cong_setting_ccti_increase 0 5",
    "cc_ca_cong_setting_ccti_increase 3 0x7",
    "cc_ca_cong_setting_ccti_increase 0 7 9",
    "cc_ca_cong_setting_ccti_increase 16 1",
    "cc_ca_cong_setting_ccti_increase 0 x",
    "cc_ca_cong_setting_ccti_timer 0 65535",
    "cc_ca_cong_setting_ccti_timer 0 70000",
    "cc_ca_cong_setting_trigger_threshold 0 300",
)


@pytest.mark.stock
@pytest.mark.parametrize("line", TAKEN)
def test_lines_of_congestion_control_that_opensm_cannot_read_are_named(stock, tmp_path, line):
    conf, out = tmp_path / "in.conf", tmp_path / "out"
    conf.write_text(f"congestion_control TRUE\n{line}\n")
    subprocess.run([stock("opensm"), "-F", conf, "-c", out], cwd=tmp_path, capture_output=True, timeout=60)
    name = line.split(" ", 1)[0]
    held = [row.split(None, 1)[1].strip() for row in out.read_text().splitlines() if row.startswith(f"{name} ")]
    default = "(null)" if name == "cc_cct" else "0 0"
    unread = all(row == default for row in held)
    assert [r.kind for r in as_opensm_reads(conf.read_text()).remarks] == (["unreadable"] if unread else [])


MISSING = {
    "routing_engine ftree\nroot_guid_file": "ftree tables configured",
    "routing_engine ftree\ncn_guid_file": "minhop tables configured",
    "routing_engine file\nlfts_file": "minhop tables configured",
    "prefix_routes_file": "minhop tables configured",
}
"""Beginning of a file of options → what stock OpenSM 3.3.23 logs if the path that follows does not exist: it routes."""


@pytest.mark.parametrize("text", MISSING)
def test_a_file_that_does_not_exist_ends_no_manager(tmp_path, text):
    conf, path = tmp_path / "conf", tmp_path / "absent"
    conf.write_text(f"{text} {path}\n")
    notes: list[str] = []
    config = ManagerSettings({}, str(conf), note=notes.append).read()
    name = text.split()[-1]
    assert config.engine == (text.split()[1] if "engine" in text else SmConfig().engine)
    assert [note for note in notes if f"{name}: no file {path}" in note]
    assert any(f"{name}: no file {path}" in line for line in softib.check_config(conf).opensm)


def test_vls_above_fifteen_limit_nothing(tmp_path):
    """Stock OpenSM brought links with VLCap VL0-14 from one VL to all of them with max_op_vls 6, 7, 15, 16, 33 and 255, read with ``smpquery``."""
    conf = tmp_path / "conf"
    for value, code in ((0, 0), (4, 4), (5, 5), (6, 5), (15, 5), (255, 5)):
        conf.write_text(f"max_op_vls {value}\n")
        notes: list[str] = []
        assert ManagerSettings({}, str(conf), note=notes.append).read().max_op_vls == code
        assert bool(notes) == (value > code) and softib.check_config(conf).good


def _edited(lines: list[str], seed: int) -> str:
    """A whole options file with none, one or two lines as people spoil or change them."""
    rng = random.Random(seed)
    lines = list(lines)
    for _ in range(seed % 3):
        at = rng.randrange(len(lines))
        name, value = (*lines[at].split(None, 1), "")[:2]
        changed = (
            f"{name[:-1]} {value}",
            f"{name.upper()} {value}",
            f"{name}={value}",
            f"{name} {rng.choice(VALUES)}",
            f"{name}",
            f"{name} {value} extra",
            f"  {name}\t\t{value}   # as before",
            f'{name} "{value}"',
            f"{name} {value}\n{name} {value}",
            f"{name} {rng.choice((3, 8, 300))}",
        )
        lines[at] = rng.choice(changed)
    return "\n".join(lines) + "\n"


def _as_written(text: str, held: dict[str, str]) -> bool:
    """Each option that OpenSM knows holds what the last line with it says."""
    last = {name: value.strip() for line in text.splitlines() for name, _, value in [_words(line)] if name in held}
    return all(held[name] == value or number(held[name]) == number(value) is not None for name, value in last.items())


def _words(line: str) -> tuple[str, str, str]:
    name, gap, value = line.split("#")[0].strip().replace("\t", " ").partition(" ")
    value = value.strip()
    return name, gap, value[1:-1] if value[:1] == value[-1:] and value[:1] in ("'", '"') and len(value) > 1 else value


@pytest.mark.stock
def test_check_config_takes_and_refuses_edited_files_as_opensm_does(stock, tmp_path):
    """The public command's verdict: OpenSM knows every name, and holds every value as it is written; the
    values that a component cannot hold are compared on the wire (``test_option_fields.py``)."""
    opensm, given, out = stock("opensm"), tmp_path / "in.conf", tmp_path / "out.conf"
    run = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 60, "check": False}
    subprocess.run([opensm, "-c", str(out)], **run)
    lines = [line for line in out.read_text().splitlines() if line and not line.startswith("#")]
    good = 0
    for seed in range(extent(10, 60)):
        given.write_text(_edited(lines, seed))
        out.unlink()
        said = subprocess.run([opensm, "-F", str(given), "-c", str(out)], **run).stdout
        held = {n: v.strip() for n, _, v in (line.partition(" ") for line in out.read_text().splitlines()) if n != "#"}
        fits = all((number(held[name]) or 0) <= component.mask for name, component in PROGRAMMED.items())
        taken = "Unrecognized token" not in said and _as_written(given.read_text(), held) and fits
        found = softib.check_config(given)
        assert found.good == taken, (seed, found.opensm, said[-300:])
        good += taken
    assert 3 < good < extent(10, 60) - 3


@pytest.mark.parametrize("path", ["data/opensm-qnib/opensm.conf", "data/gsi-lqcd-lft/opensm.conf"])
def test_files_of_sites_are_taken_and_say_first_what_is_lost(path):
    """One of an image of 2012 and one of a cluster of 2015: partitions that are not there come first, defaults are no news."""
    conf = SHARED / path
    if not conf.is_file():
        pytest.skip(f"{conf} is not there")
    notes: list[str] = []
    ManagerSettings({}, str(conf), note=notes.append).read()
    assert "partition_config_file: no file" in notes[0] and len(notes) < 6
    mine = [line.split() for line in conf.read_text().splitlines() if line.strip() and not line.startswith("#")]
    for name, *value in mine:
        if (
            name in DEFAULTS
            and value
            and (value[0] == shown(DEFAULTS[name]) or number(value[0]) == DEFAULTS[name] is not None)
        ):
            assert not any(f" {name}" in n and "not used" in n for n in notes), name


def test_what_has_no_effect_and_what_is_replaced_is_said_and_the_manager_goes_on(tmp_path):
    (tmp_path / "conf").write_text(
        "qos_ca_high_limit 10\nlmc 9\nallow_both_pkeys yes\nrouting_engine foo,torus-2QoS,ar_updn\ncc_cct 0:1\nperfmgr TRUE\nlog_flags 0x43\n"
        "sweep_on_trap TRUE\nheld_back_sw_file x\n"
    )
    notes: list[str] = []
    config = ManagerSettings({}, str(tmp_path / "conf"), note=notes.append).read()
    assert (config.lmc, config.qos, config.congestion, config.allow_both_pkeys) == (0, None, None, False)
    assert config.engine == "torus-2QoS,updn" and config.ar == ArConfig()
    text = "\n".join(notes)
    for part in (
        "conf:2: lmc '9' is out of range; OpenSM uses 0",
        "conf:3: allow_both_pkeys 'yes' is not a valid value; OpenSM uses FALSE",
        "no engine foo; ignored",
        "ar_updn of NVIDIA's OpenSM is updn with adaptive_routing free",
        "qos_ca_high_limit: no effect without qos TRUE",
        "cc_cct: no effect without congestion_control TRUE",
        "rejects torus-2QoS without qos TRUE",
        "perfmgr is not used",
        "log_flags is not used",
        "neither softib nor OpenSM 3.3.23 has an option held_back_sw_file",
    ):
        assert part in text, (part, text)
    assert "sweep_on_trap" not in text


@pytest.mark.parametrize(
    ("line", "bits"), [("m_key_lease_period 600000", 16), ("max_op_vls 300", 8), ("sweep_interval 99999999999", 32)]
)
def test_a_number_wider_than_its_field_is_named(line, bits):
    """The widths are those of PortInfo's components (IBA 14.2.5.6: M_KeyLeasePeriod has 16 bits, OperationalVLs fewer
    than 8) and of C's unsigned int."""
    (remark,) = as_opensm_reads(line + "\n").remarks
    assert f"does not fit into {bits} bits (0 to {(1 << bits) - 1})" in str(remark)


def test_roots_may_be_named_by_a_port_group(tmp_path):
    from softib.fabric.topologies.registry import generate
    from softib.routing.engine import route
    from softib.scenario.graph_view import graph_of

    (tmp_path / "groups").write_text("port-group\nport-regexp: spine.*\nname: tops\nend-port-group\n")
    (tmp_path / "roots").write_text("tops\n")
    (tmp_path / "conf").write_text(
        f"routing_engine updn\nroot_guid_file {tmp_path}/roots\npgrp_policy_file {tmp_path}/groups\n"
    )
    options = ManagerSettings({}, str(tmp_path / "conf")).read().options
    fabric = generate("fat-tree", radix=8, levels=2)
    graph = graph_of(fabric)
    spines = tuple(
        sorted(int(fabric.node_guid[n]) for n in fabric.switch_node if fabric.node_name(int(n)).startswith("spine"))
    )
    assert route(graph, "updn", options).roots == spines
    named = route(graph, "updn", options.__class__(root_guids=spines))
    assert (route(graph, "updn", options).lft == named.lft).all()
