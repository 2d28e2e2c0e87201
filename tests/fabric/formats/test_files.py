"""Compressed files and standard input: what they hold reads as the file itself does, and every promise of hostile bytes
holds through them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib import input_files as files
from softib.errors import UnreadableFile
from softib.fabric.columns import COLUMNS
from softib.fabric.formats import node_name_map, registry
from softib.fabric.formats.cabling.plan import read_plan
from softib.fabric.formats.lft import dump
from softib.fabric.topologies.spec import is_fabric_yaml, load_fabric_yaml
from tests.extent import examples
from tests.fabric.formats.lab import PAIR, SMALL, mutated, read_or_refuse, real

PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
READ = [
    "jabl-tests/3.topo",
    "ibsim-net/net.2sw2path4hca",
    "ibutils-clusters/subnet.lst",
    "ibutils-demo/network.topo",
    "treydock-fixtures/collectors__fixtures__ibnetdiscover__test.out",
]


@pytest.mark.parametrize("packer", PACK)
@pytest.mark.parametrize("name", READ)
def test_a_compressed_file_is_the_file(name: str, packer: str, tmp_path: Path, shared_data: Path) -> None:
    raw = (shared_data / name).read_bytes()
    options = {"ibnl_dirs": [shared_data / "ibutils-ibnl"]}
    plain, packed = tmp_path / "x.dump", tmp_path / f"x.dump.{packer}"
    plain.write_bytes(raw)
    packed.write_bytes(PACK[packer](raw))
    a, b = registry.read(plain, **options), registry.read(packed, **options)
    assert [(p.line, p.reason) for p in a.problems] == [(p.line, p.reason) for p in b.problems]
    assert a.counts == b.counts and a.fabric.name == b.fabric.name == "x"
    for c in COLUMNS:
        x, y = (getattr(f, c.name) for f in (a.fabric, b.fabric))
        assert np.array_equal(x.view(np.uint8), y.view(np.uint8)), c.name


class Input(io.TextIOWrapper):
    """Standard input with these bytes."""

    def __init__(self, raw: bytes):
        super().__init__(io.BytesIO(raw))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input(pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Input(pack(PAIR.encode())))
    result = registry.read("-")
    assert result.fabric.name == "stdin" and result.counts["links"] == 1
    monkeypatch.setattr(sys, "stdin", Input(pack(b"topology: {kind: ring, switches: 4}\n")))
    assert is_fabric_yaml("-")
    assert load_fabric_yaml("-").fabric.sizes.switches == 4


def test_the_other_readers_too(tmp_path: Path, shared_data: Path) -> None:
    """Tables, names and plans are read through the same door."""
    names = tmp_path / "names.gz"
    names.write_bytes(gzip.compress(b'0x2c9 "one"\n'))
    assert node_name_map.read(names).names == {0x2C9: "one"}
    f = registry.read(shared_data / "qnib-net/netlist.clos5").fabric
    f.lft[:, 1:20] = 3
    dump.write_lfts(f, f.lft, tmp_path / "x.lft")
    (tmp_path / "x.lft.gz").write_bytes(gzip.compress((tmp_path / "x.lft").read_bytes()))
    a, b = (dump.read_lfts(tmp_path / n, f).lft for n in ("x.lft", "x.lft.gz"))
    assert (a == b).all() and (a != 255).any()
    plan = sorted((shared_data / "ufm-ndt").glob("*"))
    plan = [p for p in plan if p.is_file() and b"StartDevice" in p.read_bytes()[:4000]]
    (tmp_path / "plan.gz").write_bytes(gzip.compress(plan[0].read_bytes()))
    assert len(read_plan(tmp_path / "plan.gz")) == len(read_plan(plan[0])) > 0


def test_members_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    lines = PAIR.encode().splitlines(keepends=True)
    (tmp_path / "x").write_bytes(b"".join(map(gzip.compress, lines)) + bytes(512))
    assert files.content(tmp_path / "x") == files.Content(PAIR.encode())
    (tmp_path / "x").write_bytes(gzip.compress(PAIR.encode()) + b"rest")
    assert files.content(tmp_path / "x").flaw and registry.read(tmp_path / "x").problems


def test_a_cut_stream_keeps_what_stands_before(tmp_path: Path, shared_data: Path) -> None:
    raw = (shared_data / "hk-examples/Topo.2.txt").read_bytes()
    packed = gzip.compress(raw)
    (tmp_path / "x").write_bytes(packed[: len(packed) * 3 // 4])
    result = registry.read(tmp_path / "x")
    assert 0 < result.fabric.sizes.nodes <= 16 and any("gzip" in p.reason for p in result.problems)
    (tmp_path / "x").write_bytes(packed[:12])
    with pytest.raises(UnreadableFile, match="gzip"):
        registry.read(tmp_path / "x")


def test_a_small_file_cannot_unpack_into_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bomb ends at the limit of a file, whatever it would unpack into."""
    monkeypatch.setattr(files, "FILE_LIMIT", 1 << 20)
    for name, pack in PACK.items():
        (tmp_path / name).write_bytes(pack(bytes(3 << 20)))
        with pytest.raises(UnreadableFile, match="the maximum of"):
            files.content(tmp_path / name)
        assert len(files.head(tmp_path / name, 100)) == 100


def test_zstd_and_other_kinds_of_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x28\xb5\x2f\xfd0000")
    with pytest.raises(UnreadableFile, match="zstd -dc"):
        registry.read(tmp_path / "x")
    with pytest.raises(UnreadableFile, match="regular file"):
        registry.read("/dev/zero")


@settings(max_examples=examples(30), deadline=None)
@given(
    name=st.sampled_from(SMALL),
    packer=st.sampled_from(sorted(PACK)),
    seed=st.integers(0, 2**32 - 1),
    edits=st.integers(0, 6),
)
def test_hostile_bytes_through_every_compression(
    name: str, packer: str, seed: int, edits: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The law of ``read_or_refuse``, with the bytes spoiled before they are packed, and after."""
    rng = random.Random(seed)
    content = mutated(real(name), rng, edits)
    folder = tmp_path_factory.mktemp("z")
    a, b = read_or_refuse(folder / "f", content), read_or_refuse(folder / "f", PACK[packer](content), content)
    assert (a is None) == (b is None) and (a is None or len(a.problems) == len(b.problems))
    read_or_refuse(folder / "f", mutated(PACK[packer](content), rng, 1 + edits), content * 2)


def test_a_pipe_of_a_shell(tmp_path: Path) -> None:
    """Head and body of one pipe, in a process of its own."""
    program = "from softib.fabric.formats import registry; r = registry.read('-'); print(r.format, r.fabric)"
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], input=gzip.compress(PAIR.encode()), capture_output=True, timeout=60
    )
    assert b"ibnetdiscover" in done.stdout, (done.stderr, time.monotonic() - start)


def test_a_bomb_of_a_real_size_takes_little_memory(tmp_path: Path) -> None:
    """1.5 MB that unpack to 1.5 GB behind a valid head. The law is the kernel's count of this process's memory."""
    member = gzip.compress(b"\n" * (16 << 20))
    (tmp_path / "x.gz").write_bytes(gzip.compress(PAIR.encode()) + member * 96)
    program = (
        "import re, sys\nfrom softib.errors import UnreadableFile\nfrom softib.fabric.formats import registry\n"
        "try:\n    registry.read(sys.argv[1])\nexcept UnreadableFile as error:\n    print(error)\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "x.gz"], capture_output=True, text=True, timeout=60
    )
    refusal, peak_kb = done.stdout.splitlines()
    assert "times its size" in refusal and int(peak_kb) < 500_000


def test_lines_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softib.fabric.formats.base.MOST_LINES", 1000)
    (tmp_path / "x").write_text(PAIR + "\n" * 1001)
    with pytest.raises(UnreadableFile, match="more than 1,000 lines"):
        registry.read(tmp_path / "x")
