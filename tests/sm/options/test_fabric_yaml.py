"""``sm:`` of a fabric.yaml: each key has its effect with every verb, or is an error of one line."""

from __future__ import annotations

import json

import pytest

from softib.analysis.pipeline import quietly
from softib.analysis.routing import from_engine
from softib.errors import InputError, SoftibError
from softib.fabric.topologies.spec import load_fabric_yaml
from softib.fabric.topologies.spec_models import Sm
from softib.live.internal_sm.settings import ManagerSettings
from softib.sm.config import SmConfig, config_of
from softib.sm.options.fabric_yaml import ELSEWHERE, PLAIN, VALUES, read_guids, settings_of
from softib.sm.options.qos import QosConfig
from tests.cli.run import softib
from tests.live.lab import softib as running  # noqa: F401

TOPOLOGY = "topology: {kind: fat-tree, radix: 4, levels: 2}\n"


def told(folder, **sm) -> dict:
    """The ``sm`` of a fabric.yaml, as verbs get it."""
    path = folder / "fabric.yaml"
    path.write_text(TOPOLOGY + f"sm: {json.dumps(sm)}\n")
    return load_fabric_yaml(path).extra["sm"]


def test_there_is_no_key_that_nobody_reads():
    assert set(Sm.model_fields) == {*PLAIN, *ELSEWHERE, *VALUES}


@pytest.mark.parametrize("key", [*PLAIN, "partitions", "root_guid_file", "cn_guid_file", "io_guid_file"])
def test_every_key_reaches_the_manager_of_up_and_of_report(key, tmp_path):
    (tmp_path / "partitions").write_text("Default=0x7fff : ALL=full;\njob=0x12 : ALL=full;\n")
    (tmp_path / "guids").write_text("# two of them\n0x0002c90300000001\n0x0002c90300000002 # one\n0x3 a name\n")
    values = {
        "engine": "updn",
        "lmc": 1,
        "priority": 7,
        "subnet_prefix": 0xFEC0 << 48,
        "partitions": "partitions",
        "qos": True,
        "congestion_control": True,
        "aggregation": True,
    }
    asked = told(tmp_path, **{key: values.get(key, "guids")})
    up, report = ManagerSettings(fallback=asked).read(), config_of(settings_of(asked))
    default = SmConfig()
    if key.endswith("guid_file"):
        field = key.removesuffix("_file") + "s"
        assert getattr(up.options, field) == getattr(report.options, field) == (0x2C90300000001, 0x2C90300000002, 3)
    elif key == "partitions":
        assert up.partitions == report.partitions and len(up.partitions) == 2
    elif key == "qos":
        assert up.qos == report.qos == QosConfig() != default.qos
    elif key == "aggregation":
        assert up.aggregation == report.aggregation != default.aggregation
    elif key == "congestion_control":
        assert up.congestion == report.congestion != default.congestion
    else:
        assert getattr(up, key) == getattr(report, key) == values[key] != getattr(default, key)


@pytest.mark.parametrize("sm", [{"qos_ca_sl2vl": 7}, {"qos_high_limit": 3}, {"seed": 1}])
def test_what_would_have_no_effect_is_an_error(sm, tmp_path):
    asked = told(tmp_path, **sm)
    (key,) = sm
    for read in (lambda: ManagerSettings(fallback=asked).read(), lambda: config_of(settings_of(asked))):
        with pytest.raises(InputError, match=key) as error:
            read()
        assert "\n" not in str(error.value)
    for verb in (("check",), ("report",), ("route",), ("up", "--name", f"none-{key}")):
        ran = softib(*verb, tmp_path / "fabric.yaml")
        assert ran.code == 2 and key in ran.err and len(ran.err.strip().splitlines()) == 1, verb
    assert config_of(settings_of({"qos": False})) == SmConfig()


def test_the_command_line_and_the_options_file_go_before_it(tmp_path):
    (tmp_path / "a").write_text("0xa\n")
    (tmp_path / "b").write_text("0xb\n")
    (tmp_path / "c").write_text("0xc\n")
    asked = told(tmp_path, root_guid_file="a", cn_guid_file="a", priority=3, engine="minhop")
    (tmp_path / "conf").write_text(f"root_guid_file {tmp_path / 'b'}\nsm_priority 5\n")
    config = ManagerSettings({}, str(tmp_path / "conf"), None, asked).read()
    assert (config.options.root_guids, config.options.cn_guids) == ((0xB,), (0xA,))
    assert (config.priority, config.engine) == (5, "minhop")
    given = {"root_guid_file": str(tmp_path / "c"), "priority": 9}
    config = ManagerSettings(given, str(tmp_path / "conf"), None, asked).read()
    assert (config.options.root_guids, config.priority) == ((0xC,), 9)


def test_a_guid_file_with_something_else_in_it_is_named(tmp_path):
    (tmp_path / "guids").write_text("0x1\nleaf-1\n")
    with pytest.raises(SoftibError, match=r"guids:2: 'leaf-1' is not a GUID"):
        read_guids(str(tmp_path / "guids"))


def test_the_managers_node_is_the_one_named(tmp_path):
    told(tmp_path, node="host-0005")
    result = load_fabric_yaml(tmp_path / "fabric.yaml")
    assert from_engine(result, None, quietly).bring_up.node == "host-0005[1]"


def test_a_running_manager_has_them(running):  # noqa: F811
    (running.folder / "told.yaml").write_text(
        TOPOLOGY + "sm: {node: host-0006, priority: 4, lmc: 1, engine: updn, subnet_prefix: 0xfec0000000000000}\n"
    )
    running("up", "told.yaml", "--detach")
    (status,) = running.status()
    assert status["sm"]["node"] == "host-0006[1]" and status["sm"]["engine"] == "updn"
    said = running(
        "run",
        "--node",
        "host-0006",
        "--",
        "cat",
        "/sys/class/infiniband/mlx5_0/ports/1/lid_mask_count",
        "/sys/class/infiniband/mlx5_0/ports/1/gids/0",
        "/sys/class/infiniband/mlx5_0/ports/1/sm_lid",
        "/sys/class/infiniband/mlx5_0/ports/1/lid",
    )
    assert "fec0:0000:0000:0000" in said
    assert said.split()[2] == said.split()[3]
    (running.folder / "bad.yaml").write_text(TOPOLOGY + "sm: {node: host-9999}\n")
    assert "host-9999" in running("up", "bad.yaml", "--detach", code=2)


def test_options_of_single_engines_reach_them(tmp_path):
    (tmp_path / "torus.conf").write_text("torus 4 4\n")
    (tmp_path / "lfts").write_text("Unicast lids\n")
    asked = told(tmp_path, engine="torus-2QoS", torus_config="torus.conf")
    assert ManagerSettings(fallback=asked).read().options.torus_config == "torus 4 4\n"
    asked = told(tmp_path, engine="file", lfts_file="lfts")
    assert ManagerSettings(fallback=asked).read().options.lfts == "Unicast lids\n"
    with pytest.raises(InputError, match=r"sm\.data_vls: read only by engine lash, dfsssp, nue"):
        ManagerSettings(fallback=told(tmp_path, data_vls=4)).read()
    ran = softib("route", tmp_path / "fabric.yaml")
    assert ran.code == 2 and "sm.data_vls" in ran.err and len(ran.err.strip().splitlines()) == 1
    asked = told(tmp_path, engine="nue", nue_max_num_vls=0, data_vls=4)
    options = config_of(settings_of(asked)).options
    assert (options.nue_max_num_vls, options.data_vls) == (0, 4)
    given = {"engine": "nue", "nue_max_num_vls": 3}
    assert ManagerSettings(given).read().options.nue_max_num_vls == 3
    (tmp_path / "conf").write_text("torus_config /nowhere/torus-2QoS.conf\nnue_max_num_vls 2\n")
    assert ManagerSettings({}, str(tmp_path / "conf")).read().options.nue_max_num_vls == 2
    ran = softib("route", tmp_path / "fabric.yaml", "--engine", "minhop")
    assert ran.code == 0, ran.err
