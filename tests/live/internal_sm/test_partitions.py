"""One partitions.conf, two managers: stock OpenSM and ours leave the same P_Key tables and the same groups."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba import sa
from softib.sm.managers.partitions import parse_partitions
from tests.live.conftest import own_library  # noqa: F401  (a fixture)
from tests.live.serving import run, wait_for
from tests.live.umad.serving import UmadServing
from tests.sm.sa.asking import Asked

pytestmark = pytest.mark.stock

FILES = {
    "no rule for the default partition": "mine=0x5 : {0}=full, {1} ;\n",
    "the last word counts": """Default=0x7fff : ALL=full, {1}=limited, SELF=limited ;
        mine=0x5 : {0}=full, {2}=full ; mine=0x8005 : {0}=limited, {1}=full, {2}=limi ;""",
    "a rule that names few": "Default=0x7fff, ipoib : {2}=full ;\n",
    "keywords and both": """Default=0x7fff, ipoib, rate=7, mtu=5 : ALL, ALL_SWITCHES=full, SELF=full ;
        a=0x11, defmember=full : ALL_CAS ; b=0x12 : {0}=both, {1}=full, {2}=limited ; c=0x13, defmember=both : {3}, SELF ;
        d=0x14 : NONE ;""",
    "names without P_Keys": "one : {0}=full, {1} ;\ntwo : {1}=full, {2} ;\none : {3}=full ;\n0x7 : {2}=full ;\n, ipoib : {0} ;\n",
    "groups": """Default=0x7fff,ipoib:
        mgid=ff12:401b::0707,sl=0 # random IPv4 group
        mgid=ff12:601b::16    # MLDv2-capable routers
        mgid=ff12:401b::16    # IGMP
        mgid=ff12::1,Q_Key=0xDEADBEEF,rate=3,mtu=2 # random group
        ALL=full;
        store=0x21, ipoib, rate=6, mtu=5, scope=2, scope=5, Q_Key=0x1234 :
        mgid=ff12:401b:0:0:0:0:e000:1
        mgid=ff18::77,scope=3,mtu=1
        {0}=full, {1} ;""",
}
HOSTS = 6


def table(f, port: int) -> list[int]:
    first = int(f.pkey_base[port])
    return sorted(k for k in f.pkeys[first : first + int(f.pkey_cap[port])].tolist() if k)


def groups_of(said: str) -> set[tuple[str, int, int, int, int]]:
    found = re.findall(r"MGID\.+(\S+)\s+Mlid\.+\S+\s+Mtu\.+(\w+)\s+pkey\.+(\w+)\s+Rate\.+(\w+)\s+SL\.+(\w+)", said)
    return {(g, *(int(v, 0) for v in rest)) for g, *rest in found}


def text_of(record: np.ndarray) -> tuple[str, int, int, int, int]:
    import ipaddress

    R = sa.MCMemberRecord
    mgid = str(ipaddress.IPv6Address(record[:16].tobytes()))
    return (
        mgid,
        0x80 | int(R.mtu.get(record)),
        int(R.pkey.get(record)),
        0x80 | int(R.rate.get(record)),
        int(R.sl.get(record)),
    )


@pytest.mark.parametrize("which", FILES)
def test_tables_and_groups_are_opensms(which, stock, own_library, tmp_path):  # noqa: F811
    """OpenSM numbers partitions without a P_Key anew at each sweep (osm_prtn_config.c: a counter that goes on), so only a bring-up
    of one sweep can be compared; on a slow machine it sometimes takes two."""
    assert any(are_opensms(which, stock, own_library, made) for made in folders(tmp_path))


def folders(parent: Path) -> Iterator[Path]:
    for name in "abcd":
        (parent / name).mkdir()
        yield parent / name


def are_opensms(which: str, stock, own_library, folder: Path) -> bool:  # noqa: F811
    """False: OpenSM swept more than once."""
    fabric = generate("fat-tree", radix=4, levels=2)
    cas = fabric.node_base[fabric.cas] + 1
    text = FILES[which].format(*(hex(int(fabric.port_guid[p])) for p in cas[1:]))
    path = folder / "partitions.conf"
    path.write_text(text)
    ours = Asked(generate("fat-tree", radix=4, levels=2), partitions=tuple(parse_partitions(text)))
    s = UmadServing(fabric, own_library)
    try:
        env = {
            **s.environment(fabric.node_name(int(fabric.cas[0]))),
            "OSM_CACHE_DIR": str(folder),
            "OSM_TMP_DIR": str(folder),
        }
        log = folder / "log"
        words = [stock("opensm"), "-P", str(path), "-f", str(log), "-d2"]
        manager = subprocess.Popen(
            words, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            assert wait_for(lambda: log.is_file() and "SUBNET UP" in log.read_text(errors="replace"))
            _, said = run(folder, env, stock("saquery"), "-g")
        finally:
            manager.kill()
            manager.wait()
        if len(re.findall("SUBNET UP|Errors during init", log.read_text(errors="replace"))) > 1:
            return False
        for port in cas.tolist():
            theirs = table(fabric, port)
            assert theirs and table(ours.fabric, port) == theirs, fabric.port_name(port)
            # Enforcement: behind a host stands what the host holds (OpenSM writes the full key of both kinds there).
            leaf = int(fabric.port_peer[port])
            assert {k & 0x7FFF for k in table(ours.fabric, leaf)} == {k & 0x7FFF for k in table(fabric, leaf)}
        _, records = ours.ask(sa.MCMemberRecord, trusted=False)
        assert {text_of(r) for r in records} == groups_of(said)
        return True
    finally:
        s.stop()
