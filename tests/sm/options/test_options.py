"""OpenSM's options file, and LIDs that are remembered."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.agents.plane import AgentPlane
from softib.errors import InputError, SoftibError
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from softib.live.internal_sm.guid2lid import read_lids, write_lids
from softib.live.internal_sm.settings import ManagerSettings
from softib.sm.config import SmConfig
from softib.sm.managers import link_mgr
from softib.sm.managers.congestion_mgr import CC_OPTIONS, congestion_config
from softib.sm.options.fabric_yaml import CHAIN_FILES
from softib.sm.options.file import OPTIONS, read_options
from softib.sm.options.link import LINK_OPTIONS, LinkPolicy, LinkRule, link_policy
from softib.sm.options.opensm_defaults import KINDS, LEFT_OUT
from softib.sm.options.qos import QOS_OPTIONS, qos_config
from softib.sm.options.softib_options import SOFTIB_OPTIONS
from softib.sm.subnet_manager import SubnetManager
from tests.extent import examples
from tests.sm.sa.asking import Asked, hosts
from tests.sm.wire import settle


@pytest.mark.stock
def test_opensms_defaults_are_ours(stock, tmp_path):
    path = tmp_path / "opensm.conf"
    subprocess.run([stock("opensm"), "-c", str(path)], cwd=tmp_path, capture_output=True, timeout=240, check=False)
    text = path.read_text()
    found, said_notes = read_options(text, "opensm.conf")
    assert said_notes == [], "defaults are no news"
    said = {line.split()[0].lstrip("#") for line in text.splitlines() if line.split()}
    own = {*SOFTIB_OPTIONS, *CHAIN_FILES, "aggregation", "link_policy_file"}
    assert set(OPTIONS) - said == own - {"babbling_port_policy"}, "stock OpenSM has none"
    # Options that make up a part of their own say nothing here: what OpenSM writes is off.
    assert qos_config(found) is None and not [k for k in QOS_OPTIONS if found.get(k) is not None]
    assert congestion_config(found) is None
    apart = (
        "sweep_interval_ps",
        "partition_config_file",
        "qos_policy_file",
        "prefix_routes_file",
        "qos",
        "congestion_control",
        *QOS_OPTIONS,
        *CC_OPTIONS,
        *LINK_OPTIONS,
        "babbling_port_policy",
        "torus_config",
        "nue_max_num_vls",
    )
    assert link_policy(found) == LinkPolicy((LinkRule(width=255, speed=15, ext=31, fdr10=1),)), "what ports support"
    assert found["nue_max_num_vls"] == SmConfig().options.nue_max_num_vls
    ours = {k: getattr(SmConfig(), k) for k in found if k not in apart}
    # Ours by decision: SMPs wait less long in process (docs/decisions/0005).
    differ = {k for k, v in ours.items() if found[k] != v}
    assert differ <= {"timeout_ps", "retries"}, {k: (found[k], ours[k]) for k in differ}
    assert found["sweep_interval_ps"] == ManagerSettings().read().sweep_interval_ps == 10 * 10**12
    # What is not carried over has a line of its own, and nothing else has; what the template leaves blank is none of both.
    plain = {line.split()[0] for line in text.splitlines() if line.split() and not line.startswith("#")}
    assert plain <= set(OPTIONS) | set(LEFT_OUT), plain - set(OPTIONS) - set(LEFT_OUT)
    assert set(LEFT_OUT) <= plain | said and not set(LEFT_OUT) & set(OPTIONS)
    assert set(KINDS) == plain


def test_the_command_line_goes_before_the_file_and_the_file_before_the_fabric(tmp_path):
    (tmp_path / "conf").write_text(
        "lmc 2\nrouting_engine updn,minhop # a comment\nhead_of_queue_lifetime 0xf\nunheard_of 5\nsm_key (null)\n"
    )
    notes: list[str] = []
    told = ManagerSettings({"lmc": 1}, str(tmp_path / "conf"), None, {"engine": "ftree"}, notes.append)
    config = told.read()
    assert (config.lmc, config.engine, config.hoq_life) == (1, "updn,minhop", 15)
    assert (
        len(notes) == 2
        and "sm_key '(null)' is not a valid value; OpenSM uses 1" in notes[0]
        and notes[1].endswith("neither softib nor OpenSM 3.3.23 has an option unheard_of")
    )
    assert ManagerSettings(fallback={"engine": "ftree"}).read().engine == "ftree"
    with pytest.raises(SoftibError, match="nowhere"):
        ManagerSettings(options=str(tmp_path / "nowhere")).read()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\nflap_threshold -1", "f:2: flap_threshold '-1' is not possible; use a number from 0 to 1000"),
        ("adaptive_routing fast", "use free, bounded or off"),
    ],
)
def test_an_impossible_value_of_softibs_own_is_an_error(text, says):
    with pytest.raises(InputError) as error:
        read_options(text, "f")
    assert says in str(error.value) and "\n" not in str(error.value)


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=80))
def test_no_text_raises_anything_else(text):
    for key in (*OPTIONS, ""):
        try:
            read_options(f"{key} {text}")
        except SoftibError as error:
            assert "\n" not in str(error)


def test_lids_are_given_again_and_those_of_absent_ports_to_nobody(tmp_path):
    path = tmp_path / "guid2lid"
    first = Asked(generate("fat-tree", radix=4, levels=2))
    write_lids(path, first.sm.lids)
    kept = read_lids(path)
    assert kept == first.sm.lids and len(kept) == len(first.sm.database.end_ports())
    guid = sorted(kept)
    kept[guid[0]], kept[guid[1]] = (40, 40), kept[guid[0]]
    absent = 0x123456789
    kept[absent] = (1, 1) if kept[guid[2]] != (1, 1) else (2, 2)
    gone = next(g for g, lids in kept.items() if lids == kept[absent] and g != absent)
    del kept[gone]
    fabric, sm = generate("fat-tree", radix=4, levels=2), SubnetManager(SmConfig())
    sm.lids.update(kept)
    settle(sm, AgentPlane(fabric), int(hosts(first)[0]))
    found = {int(sm.database.port_guid[p]): int(sm.database.port_lid[p]) for p in sm.database.end_ports()}
    assert all(found[g] == lids[0] for g, lids in kept.items() if g != absent)
    assert found[gone] not in {lids[0] for lids in kept.values()}, "the LID of somebody who is away is not given away"
    assert len(set(found.values())) == len(found)


@settings(max_examples=examples(100), deadline=None)
@given(
    lines=st.lists(
        st.one_of(
            st.text(max_size=40),
            st.tuples(st.integers(0, 9), st.integers(-2, 0x1FFFF), st.integers(-2, 0x1FFFF)).map(
                lambda t: f"{t[0]:#x} {t[1]:#x} {t[2]:#x}"
            ),
        ),
        max_size=8,
    )
)
def test_a_spoilt_file_of_lids_gives_what_can_be_used(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "spoilt"
    path.write_text("\n".join(lines), encoding="utf-8", errors="replace")
    lids = read_lids(path)
    taken = [x for a, b in lids.values() for x in range(a, b + 1)]
    assert len(taken) == len(set(taken)) and all(0 < x < 0xC000 for x in taken)


def test_only_new_ports_are_told_to_register_again(monkeypatch):
    told: list[set[int]] = []
    whole = link_mgr.wanted_port_info

    def watched(db, config, reregister=False):
        wanted = whole(db, config, reregister)
        told.append(set(db.port_guid[PortInfo.client_reregister.get(wanted) > 0].tolist()))
        return wanted

    monkeypatch.setattr(link_mgr, "wanted_port_info", watched)
    net = Asked(generate("fat-tree", radix=4, levels=2))
    everybody = {int(net.fabric.port_guid[p]) for p in hosts(net)}
    assert told[-1] == everybody, "a new master"
    net.sweep()
    assert told[-1] == set()
    port = int(hosts(net)[3])
    net.plane.set_link(port, False, net.now_ps)
    net.sweep()
    net.plane.set_link(port, True, net.now_ps)
    net.sweep()
    assert told[-1] == {int(net.fabric.port_guid[port])}
    quiet = Asked(generate("fat-tree", radix=4, levels=2), no_clients_rereg=True)
    assert told[-1] == set() and np.unique(quiet.fabric.port_state[quiet.fabric.linked]).tolist() == [4]
