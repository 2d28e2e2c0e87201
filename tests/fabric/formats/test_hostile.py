"""Whatever the bytes: a fabric with problems that name their line, or one clear line of error, and
never anything else."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import SoftibError, UnknownFormat, UnreadableFile
from softib.fabric.formats import registry
from tests.extent import examples, extent
from tests.fabric.formats.lab import PAIR, PORTS, SMALL, SW, mutated, read_or_refuse, real


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hostile"


LST, DB = "ibutils-clusters/subnet.lst", "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv"


@settings(max_examples=examples(200), deadline=None)
@given(name=st.sampled_from(SMALL), seed=st.integers(0, 2**32 - 1), edits=st.integers(1, 12))
def test_mutated_real_files(name: str, seed: int, edits: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    read_or_refuse(tmp_path_factory.mktemp("m") / "f", mutated(real(name), random.Random(seed), edits))


@settings(max_examples=examples(40), deadline=None)
@given(name=st.sampled_from([LST, DB]), seed=st.integers(0, 2**32 - 1), edits=st.integers(1, 40))
def test_mutated_ibdiagnet_files(name: str, seed: int, edits: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    raw = real(name)[:120_000] if name == DB else real(name)[:40_000]
    read_or_refuse(tmp_path_factory.mktemp("m") / "f", mutated(raw, random.Random(seed), edits))


@settings(max_examples=examples(100), deadline=None)
@given(content=st.binary(max_size=4000))
def test_random_bytes(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    read_or_refuse(tmp_path_factory.mktemp("r") / "f", content)


@settings(max_examples=examples(150), deadline=None)
@given(pieces=st.lists(st.sampled_from([*"[]()\"#= \t-:{},'0123456789abcdefx\nlp?", "Switch 3 ", "Ca 2 ", '"S-1"', f'"S-{SW}"', "[1]", "lid ",
                                        "4xHDR", "# ", "lmc 0", "(2c9)", "switchguid=0x7\n", "CA 1 2 0x3 4x EDR - "]), max_size=120))  # fmt: skip # a packed list of short values
def test_lines_of_the_right_pieces(pieces: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    line = "".join(pieces)
    read_or_refuse(tmp_path_factory.mktemp("l") / "f", (PAIR + line + "\n" + PAIR).encode())
    read_or_refuse(tmp_path_factory.mktemp("l") / "f", (PORTS + line).encode())


# -- truncation --


@pytest.mark.parametrize(
    "name", ["jabl-tests/3.topo", "ufm-small-lab/small_topo_file", "hk-creditloop/ibnetdiscover_manually_created.txt"]
)
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 13])
def test_cut_at_any_byte_of_the_last_records_is_a_problem(name: str, step: int, path: Path) -> None:
    """Cutting anything but blank lines off the end leaves a problem that the whole file does not
    have."""
    raw = real(name).rstrip()
    whole = {(p.line, p.reason) for p in read_or_refuse(path, raw + b"\n").problems}
    for at in range(len(raw) - 700, len(raw), step):
        result = read_or_refuse(path, raw[:at])
        assert {(p.line, p.reason) for p in result.problems} - whole, raw[at - 60 : at]


@pytest.mark.parametrize("name", ["ibsim-net/net.2sw2path4hca", "qnib-net/netlist.clos5"])
def test_cut_netlists_are_told(name: str, path: Path) -> None:
    raw = real(name).rstrip()
    last = raw.rindex(b"\n[")
    for at in range(last - 40, len(raw)):
        result = read_or_refuse(path, raw[:at])
        # ibsim lets a port record leave out the peer's port number when it is 1: that is no cut
        complete = raw[at:] == b"[1]" or not raw[at:].strip()
        assert result is not None and (result.problems or complete), raw[at - 60 : at]


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 9])
def test_cut_lst_and_db_csv_are_problems(step: int, path: Path) -> None:
    raw = real(LST).rstrip()
    last = raw.rindex(b"\n") + 1
    for at in range(last + 1, len(raw), step):
        result = read_or_refuse(path, raw[:at])
        assert result is not None and result.problems[-1].line == raw.count(b"\n") + 1
    raw = real(DB)
    rng = random.Random(5)
    for at in [rng.randrange(40_000, len(raw) - 10) for _ in range(50 // step)]:
        result = read_or_refuse(path, raw[:at])
        assert result is not None and result.problems and result.counts["switches"] == 9


def test_every_cut_of_a_real_dump_is_survived(path: Path) -> None:
    raw = real("superbench-logs/ib_traffic_topo_aware_ibnetdiscover.txt")
    seen = [read_or_refuse(path, raw[:at]) for at in range(0, len(raw), extent(145, 29))]
    nodes = [r.fabric.sizes.nodes for r in seen if r is not None]
    assert nodes == sorted(nodes) and nodes[-1] == 18  # each longer cut knows at least as much
    assert sum(r is None for r in seen) < 15  # only before the first node record


# -- nothing readable, and too much --

HUNDRED_MB = 100_000_000
NOTHING = {
    "random": random.Random(1).randbytes(1 << 20) * 100,
    "letters": b"a" * HUNDRED_MB,
    "blanks": b" " * HUNDRED_MB,
    "brackets": b"[" * HUNDRED_MB,
    "digits": b"1 " * (HUNDRED_MB // 2),
    "quotes": b'"' * HUNDRED_MB,
    "arrows": (b" a -") * (HUNDRED_MB // 4),
    "short lines": b"[1]\n" * 2_000_000,
    "line ends": b"\n" * HUNDRED_MB,
    "commas": b"x," * (HUNDRED_MB // 2),
}


@pytest.mark.parametrize("kind", list(NOTHING))
def test_nothing_readable_is_one_line_soon(kind: str, path: Path) -> None:
    path.write_bytes(NOTHING[kind])
    start = time.process_time()  # others may keep the machine busy
    with pytest.raises((UnknownFormat, UnreadableFile)) as error:
        registry.read(path)
    assert time.process_time() - start < 20 and "\n" not in str(error.value)


LONG = {
    "blanks in a port line": b'[1] "S-1"[1]' + b" " * 15_000 + b"x",
    "blanks after a name": b'[1] "S-1"[1] # "x"' + b" " * 15_000 + b"x",
    "quotes after a name": b'[1] "S-1"[1] # ' + b'"' * 15_000 + b"x",
    "quoted lids": b'[1] "S-1"[1] # "' + b'" lid 1 ' * 2_000,
    "parentheses": b"[1]" + b"(1)" * 5_000 + b"x",
    "ext groups": b'[1] "S-1"[1]' + b"[a]" * 5_000 + b'"',
    "node text": b'Switch 3 "S-2" # ' + b"lid " * 4_000 + b'"',
    "node blanks": b'Switch 3 "S-2" # ' + b" " * 15_000 + b'"',
    "options": b'[1] "S-1"[1] # "" ' + b"a=b" * 5_000 + b'"',
    "a long line": b'[1] "' + b"x" * 90_000_000,
}


@pytest.mark.parametrize("kind", list(LONG))
def test_long_lines_cost_no_time(kind: str, path: Path) -> None:
    start = time.process_time()  # others may keep the machine busy
    result = read_or_refuse(path, PAIR.encode() + LONG[kind] + b"\n" + PAIR.encode().replace(b"0000002", b"0000003"))
    assert time.process_time() - start < 20 and result is not None and result.counts["cas"] == 2


def test_a_small_file_cannot_ask_for_all_memory(path: Path) -> None:
    path.write_text("".join(f'Switch 254 "S-{i:016x}"\n' for i in range(1, 30_000)))
    with pytest.raises(SoftibError, match="GiB"):
        registry.read(path)


def test_more_switches_than_lids_end_early(path: Path) -> None:
    """49,151 unicast LIDs (IBA 4.1.3): what no subnet can be is one line at the first switch too
    many."""
    path.write_text("".join(f'Switch 4 "sw{i}"\n' for i in range(150_000)))
    start = time.process_time()
    with pytest.raises(SoftibError, match=f"{path}.*more than 49151 switches.*unicast LID"):
        registry.read(path)
    assert time.process_time() - start < 15  # tables of 150,000 switches alone would take minutes


@pytest.mark.slow
def test_a_log_of_one_dump_many_times_is_one_fabric(path: Path) -> None:
    """Records that repeat do not count."""
    path.write_text((PAIR + "\n") * 50_000)
    result = registry.read(path)
    assert result.counts["switches"] == 1 and len(result.problems) >= 50_000


TOPO_LINE = "MTS3600 leaf\n   P1 -4x-10G-> HCA host P1\n"


def test_a_program_is_no_fabric(tmp_path: Path) -> None:
    """An ELF file one line of which looks like a cable; this interpreter, and the same without its
    NUL bytes."""
    elf = Path(sys.executable).read_bytes()[: 1 << 20]
    for name, content in (
        ("elf", elf),
        ("with a cable", elf[:5000] + b"\n" + TOPO_LINE.encode() + elf[5000:]),
        ("without NULs", elf.replace(b"\0", b"\n").replace(b"\x1b", b"") + b"\n" + TOPO_LINE.encode()),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UnknownFormat):
            registry.read(path)


def test_prose_with_one_cable_is_no_fabric(tmp_path: Path) -> None:
    """One line of the format in 2,000; the reason names the first that is none."""
    (tmp_path / "x").write_text("The quick brown fox jumps over the lazy dog.\n" * 2000 + TOPO_LINE)
    with pytest.raises(UnknownFormat, match=r"looked like an ibdm .topo, but 2,001 lines cannot be read.* line 1: "):
        registry.read(tmp_path / "x")
