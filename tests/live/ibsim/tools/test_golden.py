"""The same netlist, the same OpenSM, the same tools: what they print on our server and on stock ibsim, field by field.

The table of ``docs/ibsim.md`` lists what differs, with the reason; a field that stops differing fails the test too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from softib.fabric.formats.registry import read
from softib.fabric.topologies.registry import generate
from tests.live.serving import PRELOAD, Serving, run
from tests.scenario.ibsim import Ibsim

pytestmark = [
    pytest.mark.stock,
    pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent"),
]

DOCUMENT = Path(__file__).parents[4] / "docs" / "ibsim.md"
MOVING = {"PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts"}
"""Both count the MADs that pass; OpenSM sends one more or less from run to run."""


def differences() -> dict[str, dict[str, str]]:
    """Tool → field → reason, of the table of ``docs/ibsim.md``."""
    told: dict[str, dict[str, str]] = {}
    for tool, field, reason in re.findall(r"^\| ([^|]+) \| `([^`]+)` \| ([^|]+) \|$", DOCUMENT.read_text(), re.M):
        assert field not in told.setdefault(tool, {}) and reason
        told[tool][field] = reason
    return told


DIFFERENCES = differences()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """``(our server, ibsim, a host)`` on one netlist, brought up by OpenSM."""
    import shutil

    for program in ("ibsim", "opensm"):
        if not shutil.which(program, path="/usr/bin:/usr/sbin"):
            pytest.skip(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("golden")
    theirs = Ibsim(shutil.which("ibsim"), generate("fat-tree", radix=4, levels=2), folder)
    fabric = read(folder / "net").fabric
    ours = Serving(fabric)
    host = f"H-{int(fabric.node_guid[fabric.cas[0]]):016x}"
    opensm = shutil.which("opensm", path="/usr/sbin:/usr/bin")
    for env, log in ((ours.environment(host), "ours.log"), (theirs.environment(host), "theirs.log")):
        cache = folder / f"cache-{log}"  # each its own: LIDs that the first run gave would stand in the second
        cache.mkdir()
        env = {**env, "OSM_CACHE_DIR": str(cache), "OSM_TMP_DIR": str(cache)}
        code, said = run(folder, env, opensm, "-o", "-f", log)
        assert code == 0 and "SUBNET UP" in (folder / log).read_text(), said
    yield ours, theirs, host, folder
    theirs.stop()
    ours.stop()


@pytest.fixture
def pair(both, stock):
    """Run a tool on both; returns what each printed."""
    ours, theirs, host, folder = both

    def call(*command: str) -> tuple[str, str]:
        said = []
        for env in (ours.environment(host), theirs.environment(host)):
            code, text = run(folder, env, stock(command[0]), *command[1:])
            assert code == 0, (command, text)
            said.append(text)
        return said[0], said[1]

    return call


def fields(text: str) -> dict[str, str]:
    return {k.strip(): v for k, v in re.findall(r"^(\w[\w ]*):\.*\s*(.*)$", text, re.M)}


def without_comments(text: str) -> list[str]:
    return [x for x in text.splitlines() if not x.startswith("#")]


def test_dump_fts_ibroute_ibtracert_are_the_same(both, pair):
    ours, *_ = both
    a, b = pair("dump_fts")
    assert a == b and "0x" in a
    f = ours.fabric
    lids = f.lid[f.end_ports()].tolist()
    a, b = pair("ibtracert", str(lids[0]), str(lids[-1]))
    assert a == b


def test_ibnetdiscover_is_the_same(pair):
    a, b = (without_comments(x) for x in pair("ibnetdiscover"))
    told = DIFFERENCES.get("ibnetdiscover", {})
    differ = {(x, y) for x, y in zip(a, b, strict=True) if x != y}
    assert all(x.replace("NDR", "HDR") == y for x, y in differ), "the speed of links, and nothing else"
    assert bool(differ) == ("link" in told)


@pytest.mark.parametrize(
    "operation", ["nodeinfo", "nodedesc", "portinfo", "switchinfo", "pkeys", "sl2vl", "vlarb", "guidinfo"]
)
def test_smpquery_is_the_same(operation, both, pair):
    ours, *_ = both
    f = ours.fabric
    differ: set[str] = set()
    compared = 0
    for port in f.end_ports().tolist():
        on_switch = bool(f.is_switch[f.port_node[port]])
        if (operation == "switchinfo" and not on_switch) or (operation == "guidinfo" and on_switch):
            continue
        words = [operation, str(int(f.lid[port]))]
        if operation in ("portinfo", "sl2vl", "vlarb", "pkeys"):
            words.append("1")
        a, b = pair("smpquery", *words)
        left, right = fields(a), fields(b)
        if not left:
            left, right = {operation: a}, {operation: b}
        compared += len(left)
        differ |= {k for k in left.keys() | right.keys() if left.get(k) != right.get(k)}
    assert compared
    assert differ == set(DIFFERENCES.get(f"smpquery {operation}", {})), {k: (left.get(k), right.get(k)) for k in differ}


def test_ibstat_is_the_same(pair):
    a, b = (fields(x.replace("\t", "")) for x in pair("ibstat"))
    differ = {k for k in a.keys() | b.keys() if a.get(k) != b.get(k)}
    assert differ == set(DIFFERENCES.get("ibstat", {})), {k: (a.get(k), b.get(k)) for k in differ}


def test_perfquery_is_the_same(both, pair):
    f = both[0].fabric
    lid = str(int(f.lid[f.end_ports()[0]]))
    told: set[str] = set()
    for words in ((lid, "1"), ("-x", lid, "1")):
        a, b = (fields(x) for x in pair("perfquery", *words))
        differ = {k for k in (a.keys() | b.keys()) - MOVING if a.get(k) != b.get(k)}
        assert all(abs(int(a[k]) - int(b[k])) < 0.1 * int(b[k]) for k in MOVING)
        told |= differ
        assert differ <= set(DIFFERENCES.get("perfquery", {})), {k: (a.get(k), b.get(k)) for k in differ}
    assert told == set(DIFFERENCES["perfquery"])


ANSWERED = (
    "-D",
    "-E",
    "--oprcvcounters",
    "--flowctlcounters",
    "--vloppackets",
    "--vlopdata",
    "--vlxmitflowctlerrors",
    "--vlxmitcounters",
)
"""Optional attributes that ibsim 0.10 answers (PerfMgt 0x15 to 0x1c)."""


@pytest.mark.parametrize("option", ANSWERED)
def test_perfquery_optional_attributes_are_the_same(option, both, pair):
    """On a CA and on a switch: the same fields, and the same values of what no packet has touched."""
    f = both[0].fabric
    told = DIFFERENCES.get(f"perfquery {option}", {})
    for port in (int(f.end_ports()[0]), int(f.end_ports()[-1])):
        a, b = (fields(x) for x in pair("perfquery", option, str(int(f.lid[port])), "1"))
        assert len(a) > 2 and a.keys() == b.keys()
        assert {k for k in a if a[k] != b[k]} == set(told), (option, a, b)


def test_perfquery_over_ports_is_the_same(both, pair):
    """-a, -l, port lists, resets: on a switch, errors only (MADs move the rest)."""
    f = both[0].fabric
    lid = str(int(f.lid[f.node_base[f.switch_node[0]]]))
    still = lambda text: [x for x in text.splitlines() if x.split(":")[0] not in MOVING and not x.startswith("#")]
    for words in (
        ("-a", lid),
        ("-a", lid, "1,2"),
        ("-l", lid, "1-3"),
        ("-R", lid, "1"),
        ("-r", lid, "2"),
        ("-a", "-l", lid),
    ):
        a, b = (still(x) for x in pair("perfquery", *words))
        assert a == b, words
