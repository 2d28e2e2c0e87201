"""``softib sm check-config``: torus-2QoS.conf files against the recorded verdicts of stock OpenSM, options files against its rules."""

from __future__ import annotations

import json

import pytest

import softib
from softib.cli.sm_check_config import command
from tests.cli.documents import check
from tests.routing.torus_conf_mutants import MUTANTS, verdicts


def test_a_torus_file_that_is_called_wrong_is_refused_by_opensm(tmp_path):
    """What only the fabric shows (a seed that is not in it) is not said of the file alone; nothing that OpenSM takes is called wrong."""
    path, refused = tmp_path / "torus.conf", 0
    for (_, text), taken in zip(MUTANTS, verdicts(), strict=True):
        path.write_text(text)
        found = softib.check_config(path)
        if found.kind == "torus-2QoS.conf":
            assert found.good or not taken, (text, found.opensm)
            refused += not found.good
    assert refused > 30


def test_options_and_the_files_that_they_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torus").write_text("torus 4 4 1\nxp_link 1 2\nyp_link 1 5\n")
    (tmp_path / "conf").write_text(
        "routing_engine torus-2QoS\ntorus_config torus\nlmc 9\nhm_num_traps 5\nscatter_ports 8\n"
    )
    assert command(["conf"], standalone_mode=False) == 1
    said = capsys.readouterr().out
    for part in ("conf: opensm.conf; OpenSM 3.3.23 does not take all of it", "3: lmc '9' is out of range; OpenSM takes 0", "hm_num_traps: OpenSM 3.3.23 has no such option",
                 "torus-2QoS is refused without qos TRUE", "seed 1 has no xm_link", "scatter_ports is not used"):  # fmt: skip
        assert part in said, said
    command(["conf", "--json"], standalone_mode=False)
    assert check("sm-config", json.loads(capsys.readouterr().out))["good"] is False
    (tmp_path / "good").write_text("sm_priority 5\nqos TRUE\n")
    assert softib.check_config("good").good
    with pytest.raises(softib.InputError, match="nowhere"):
        softib.check_config("nowhere")


KINDS = {
    "opensm.conf": "sm_priority 5\n", "torus-2QoS.conf": "torus 4 4 1\n", "partitions.conf": "Default=0x7fff, ipoib : ALL=full;\n",
    "qos-policy.conf": "# levels\nqos-ulps\n default : 0\nend-qos-ulps\n", "prefix-routes.conf": "* 0x0002c90300000001\n",
    "GUID file": "0x0002c90300000001\n0002c90300000002 # two\n", "node-name-map": '0x0002c90300000001 "leaf-1"\n',
}  # fmt: skip
"""Kind → a file as OpenSM's documents show it (opensm(8), partition-config.txt, QoS_management_in_OpenSM.txt, ibnetdiscover(8))."""
BROKEN = {
    "partitions.conf": "Default=0x7fff : ALL=entire;\n", "qos-policy.conf": "qos-ulps\n default : nine\nend-qos-ulps\n",
    "opensm.conf": "sm_priorty 5\n",
    "torus-2QoS.conf": "torus 4 4\n",
}  # fmt: skip


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
        ('{"a": 1}\n', "no configuration of OpenSM"),
        ("[Logging]\nlevel = INFO\n", "no configuration of OpenSM"),
        ("mode: fast\nlist:\n  - a\n", "no configuration of OpenSM"),
    ],
)
def test_a_file_of_something_else_is_named(text, what, tmp_path):
    (tmp_path / "file").write_text(text)
    with pytest.raises(softib.InputError, match=what):
        softib.check_config(tmp_path / "file")
