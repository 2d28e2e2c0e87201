"""Fabric files: what people write, and what they mistype."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import SoftibError
from softib.fabric.columns import CableMedium
from softib.fabric.topologies.cables import medium_for_length
from softib.fabric.topologies.registry import generate
from softib.fabric.topologies.spec import load_fabric_yaml
from tests.extent import examples

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def load(tmp_path, text):
    path = tmp_path / "f.yaml"
    path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
    return load_fabric_yaml(path)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda p: p.stem)
def test_examples_load(path):
    result = load_fabric_yaml(path)
    assert result.problems == []
    assert result.counts["links"] == result.fabric.sizes.cables
    assert result.counts["switches"] == result.fabric.sizes.switches
    assert result.fabric.name in (path.stem, "fat-tree-648", "torus-4x4x4", "torus-4x4x4-2qos", "dragonfly-plus-9")


def test_the_demo_plants_three_faults():
    result = load_fabric_yaml(EXAMPLES / "superpod-127-faults.yaml")
    assert [p.kind for p in result.extra["faults"]] == ["swap-cables", "slow-link", "remove-cable"]
    clean = generate("rail-optimized", nodes=127, rails=8, radix=64)
    f = result.fabric
    assert f.sizes.cables == clean.sizes.cables - 1 == 2043
    differ = np.flatnonzero(f.port_peer != clean.port_peer)
    places = {p for planted in result.extra["faults"] if planted.kind != "slow-link" for p in planted.where}
    assert {f.port_name(p) for p in differ} == places
    assert f.source.generator["faults"] == result.extra["faults"]


def test_design_example():
    result = load_fabric_yaml(EXAMPLES / "pod.yaml")
    assert result.extra["sm"] == {"engine": "ftree", "partitions": str(EXAMPLES / "partitions.conf")}
    assert (result.fabric.cable_medium == CableMedium.MULTIMODE).all()
    assert (result.fabric.cable_length_m == 20).all()
    assert (result.fabric.cable_ber > 0).sum() == 1


def test_media_by_length():
    """ecosystem figures: DAC to 1.5 m, ACC to 3 m, multimode 50 m, single-mode beyond."""
    C = CableMedium
    media = medium_for_length([0.5, 1.5, 1.6, 3, 4, 50, 51, 2000, np.nan])
    assert media.tolist() == [
        C.DAC,
        C.DAC,
        C.ACC,
        C.ACC,
        C.MULTIMODE,
        C.MULTIMODE,
        C.SINGLEMODE,
        C.SINGLEMODE,
        C.UNKNOWN,
    ]


def test_lengths_by_tier_and_named_medium(tmp_path):
    f = load(
        tmp_path, "topology: {kind: fat-tree, radix: 8, levels: 2}\ncables: {length_m: {host-leaf: 1, leaf-spine: 60}}"
    ).fabric
    tier = np.array(f.source.generator["tiers"])[f.source.generator["cable_tier"]]
    assert (f.cable_length_m[tier == "host-leaf"] == 1).all()
    assert (f.cable_medium[tier == "leaf-spine"] == CableMedium.SINGLEMODE).all()
    assert "lengths" in f.source.records
    f = load(tmp_path, "topology: {kind: ring, switches: 3}\ncables: {medium: aoc}").fabric
    assert (f.cable_medium == CableMedium.AOC).all()
    assert "lengths" not in f.source.records


def test_yaml_has_no_traps(tmp_path):
    """Unquoted 2:1 is a ratio (YAML 1.1: 121), 1e-9 a number (1.1: text), a date is a name."""
    f = load(
        tmp_path,
        "name: 2026-11-21\ntopology: {kind: fat-tree, radix: 36, levels: 2, oversubscription: 2:1}\n"
        "faults: [{cable: 'leaf-1[1]', ber: 1e-9}]",
    ).fabric
    assert f.name == "2026-11-21"
    assert len(f.cas) == 864
    assert f.cable_ber.max() == 1e-9


def test_import_of_a_real_file_with_faults(shared_data, tmp_path):
    source = next((shared_data / "ufm-selene-storage").iterdir())
    result = load(
        tmp_path,
        f"topology: {{import: {source}}}\nfaults: [{{kind: remove-cable, cable: 'MF0;SSPINE4-01:MQM8700/U1[1]'}}]",
    )
    plain = load(tmp_path, f"import: {source}")
    assert result.fabric.sizes.cables == plain.fabric.sizes.cables - 1
    assert plain.counts["links"] == 1 + result.counts["links"]
    assert plain.counts["switches"] > 0


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: x\ntopology: {kind: rail-optimized, nodes: 4, radix: 7, rails: 8}\n", 2, "use 6 or 8"),
        ("topology:\n  kind: fat-tree\n  raidx: 7\n", 3, "did you mean radix"),
        ("topology:\n  kind: fat-tree\n  radix: 36\n  hosts: 90000000\n  levels: 3\n", 4, "11,664"),
        ("nmae: x\ntopology: {kind: ring, switches: 3}\n", 1, "did you mean name"),  # codespell:ignore nmae
        ("topology: {kind: fat-tre}\n", 1, "did you mean fat-tree"),
        ("topology: {}\n", 1, "needs a kind"),
        ("name: x\n", 1, "topology is missing"),
        ("topology: {kind: ring, switches: 3, name: x}\n", 1, "next to topology"),
        ("generation: XYZ\ntopology: {kind: ring, switches: 3}\n", 1, "no link speed"),
        ("topology: {kind: ring, switches: 3}\nsm: {engin: x}\n", 2, "did you mean engine"),
        ("topology: {kind: ring, switches: 3}\nsm:\n  engine: updn\n  lmc: 9\n", 4, "must be at most 7"),
        ("topology: {kind: ring, switches: 3}\nsm: {partitions: none.conf}\n", 2, "no file"),
        ("topology: {kind: ring, switches: 3}\ncables: {length_m: -3}\n", 2, "must be more than 0"),
        ("topology: {kind: ring, switches: 3}\ncables: {length_m: 9000}\n", 2, "reaches 2000 m"),
        ("topology: {kind: ring, switches: 3}\ncables: {medium: copper}\n", 2, "cable medium"),
        ("topology: {kind: ring, switches: 3}\ncables: {length_m: {leaf-spine: 3}}\n", 2, "no tier"),
        (
            "topology: {kind: ring, switches: 3}\nfaults:\n - {kind: lid-0, port: 'switch-1[0]'}\n - {kind: nope}\n",
            4,
            ("no fault named"),
        ),
        ("topology: {kind: ring, switches: 3}\nfaults:\n - x\n", 3, "must be a mapping"),
        ("topology: {import: nowhere.ibnetdiscover}\n", 1, "No such file"),
        ("import: nowhere.ibnetdiscover\n", 1, "No such file"),
        ("import: x\ntopology: {kind: ring}\n", 1, "import and topology are both given"),
        ("imprt: x\n", 1, "did you mean import"),
        ("topology: {import: 3}\n", 1, "not the name of a file"),
        ("topology: {import: f.yaml}\n", 1, "is a fabric file"),
        ("topology: {import: x, radix: 3}\n", 1, "no key next to import"),
        ("generation: EDR\ntopology: {import: x}\n", 1, "already has speeds"),
        ("name: x\nname: y\n", 2, "appears twice, first on line 1"),
        ("a: &a 1\nb: *a\n", 1, "used by an alias"),
        ("name: [1\n", 2, "not YAML"),
        ("", 0, "the file is empty; a fabric file begins with keys like name: and topology:"),
        ("- a\n", 1, "not a fabric file"),
        ("? [a]\n: b\n", 1, "a key must be a word"),
        ("name: !!int x\n", 1, "cannot have tags"),
        ("name: !!bool maybe\n", 1, "cannot have tags"),
        ("name:\n  !!timestamp x\n", 2, "cannot have tags"),
        ("name: !!python/object:os.system x\n", 1, "cannot have tags"),
        ("[" * 5000, 0, "nested too deeply"),
        (b"\xff\xfe\x00", 0, "not UTF-8"),
        ("name: \x07\n", 0, "not text"),
        (b"#" * (1 << 20), 0, "more than 256 KiB"),
    ],
)
def test_mistakes_are_one_line_with_file_and_line(tmp_path, text, line, says):
    with pytest.raises(SoftibError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{tmp_path / 'f.yaml'}:{f'{line}:' if line else ''}")
    assert says in message


def test_missing_file_and_directory(tmp_path):
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(SoftibError) as caught:
            load_fabric_yaml(path)
        assert str(caught.value).startswith(str(path))


GOOD = (EXAMPLES / "superpod-127-faults.yaml").read_bytes()
for _old, _new in (
    (b"nodes: 127, rails: 8, radix: 64", b"nodes: 9, rails: 2, radix: 8"),
    (b"leaf-3[40]", b"leaf-3[5]"),
    (b"leaf-12[45]", b"leaf-4[6]"),
    (b"leaf-7[50]", b"leaf-1[7]"),
    (b"leaf-20[33]", b"leaf-2[5]"),
):
    GOOD = GOOD.replace(_old, _new)


def test_the_file_to_be_damaged_is_good(tmp_path):
    assert len(load(tmp_path, GOOD).extra["faults"]) == 3


@settings(max_examples=examples(150), deadline=None)
@given(at=st.integers(0, len(GOOD)), cut=st.integers(0, 12), new=st.binary(max_size=6))
def test_any_damage_is_either_read_or_one_line(tmp_path_factory, at, cut, new):
    path = tmp_path_factory.mktemp("fuzz") / "f.yaml"
    path.write_bytes(GOOD[:at] + new + GOOD[at + cut :])
    try:
        load_fabric_yaml(path)
    except SoftibError as error:
        assert "\n" not in str(error)
        assert str(path) in str(error)
