"""One prefix_routes.conf, two managers: stock OpenSM and ours lead GIDs of other subnets to the same routers."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.sa import PathRecord, SaMethod
from softib.sm.managers.router_mgr import parse_prefix_routes
from tests.live.conftest import own_library  # noqa: F401  (a fixture)
from tests.live.serving import run, wait_for
from tests.live.umad.serving import UmadServing
from tests.sm.sa.asking import PREFIX, Asked

pytestmark = pytest.mark.stock

SITES = [0xFEC0_0000_0000_0000 | n for n in range(1, 5)]
FILES = {
    "by router, and the rest": "# comment\n0xfec0000000000001 0x{1:x}\n0xfec0000000000002\t0x{0:x}   # second\n* 0x{1:x}\n",
    "the first line counts": "0xfec0000000000001 0x{0:x}\n0xfec0000000000001 0x{1:x}\nfec0000000000003 {1:x}\n",
    "any before others": "* 0x{0:x}\n0xfec0000000000001 0x{1:x}\n",
    "a router that is not there": "0xfec0000000000001 0x0123456789abcdef\n0xfec0000000000002 0x{1:x}\n",
}
ONE = ("any before others", "a router that is not there")
"""Files by which all paths lead to one router."""


def with_routers():
    """A fat tree whose last two hosts are routers; the PortGUIDs of these."""
    fabric = generate("fat-tree", radix=4, levels=2)
    ports = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])
    fabric.node_type[fabric.port_node[ports[-2:]]] = NodeType.ROUTER
    return fabric, [int(g) for g in fabric.port_guid[ports[-2:]]], ports


def gid(prefix: int, guid: int) -> str:
    words = [prefix >> s & 0xFFFF for s in (48, 32, 16, 0)] + [guid >> s & 0xFFFF for s in (48, 32, 16, 0)]
    return ":".join(f"{w:x}" for w in words)


@pytest.mark.parametrize("which", FILES)
def test_paths_lead_to_opensms_routers(which, stock, own_library, tmp_path):  # noqa: F811
    fabric, routers, ports = with_routers()
    text = FILES[which].format(*routers)
    (tmp_path / "routes").write_text(text)
    (tmp_path / "opensm.conf").write_text(f"prefix_routes_file {tmp_path}/routes\n")
    ours = Asked(with_routers()[0], prefix_routes=parse_prefix_routes(text, "routes"))
    source, s = int(ports[1]), UmadServing(fabric, own_library)
    try:
        env = {
            **s.environment(fabric.node_name(int(fabric.cas[0]))),
            "OSM_CACHE_DIR": str(tmp_path),
            "OSM_TMP_DIR": str(tmp_path),
        }
        log = tmp_path / "log"
        words = [stock("opensm"), "-F", str(tmp_path / "opensm.conf"), "-f", str(log), "-d2"]
        manager = subprocess.Popen(
            words, env=env, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            assert wait_for(lambda: log.is_file() and "SUBNET UP" in log.read_text(errors="replace"))
            led = set()
            for prefix in SITES:
                here = gid(PREFIX, int(fabric.port_guid[source]))
                _, said = run(tmp_path, env, stock("saquery"), "PR", "--sgid-to-dgid", f"{here}-{gid(prefix, 0x1234)}")
                theirs = {int(lid) for lid in re.findall(r"dlid\.+(\d+)", said)}
                status, records = ours.ask(
                    PathRecord,
                    SaMethod.GET_TABLE,
                    frm=source,
                    sgid=ours.gid(source),
                    dgid=np.array([prefix, 0x1234], np.uint64),
                )
                found = set(PathRecord.dlid.get(records).tolist()) if not status and len(records) else set()
                guids = lambda f, lids: {int(f.port_guid[p]) for p in f.end_ports().tolist() if int(f.lid[p]) in lids}
                assert guids(ours.fabric, found) == guids(fabric, theirs), (hex(prefix), said[-300:])
                led |= guids(fabric, theirs)
            assert led <= set(routers) and len(led) == (1 if which in ONE else 2)
        finally:
            manager.kill()
            manager.wait()
    finally:
        s.stop()
