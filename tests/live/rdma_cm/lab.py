"""What tests of this package share."""

from __future__ import annotations

import subprocess

from tests.live.rdma_cm.serving import CmServing
from tests.live.serving import wait_for

A, B = "host-0001", "host-0002"

SERVER = """
u = Ucm()
l = u.create(uid=100)
u.bind(l, port=port)
u.listen(l)
print("ready")
e = u.expect(CONNECT_REQUEST)
assert e.uid == 100 and e.private[:2] == b"hi", e
"""

ACCEPTS = """
u.accept(e.id, uid=200, qpn=0x22, private=b"yes")
assert u.expect(ESTABLISHED).uid == 200
print("established")
"""

CLIENT = """
u = Ucm()
c = u.create(uid=7)
u.route_by(c, ip, port, path)
u.connect(c, qpn=0x11, private=b"hi")
"""


def opensm(served: CmServing, stock, tmp_path, node: str) -> subprocess.Popen:
    env = {**served.environment(node), "OSM_CACHE_DIR": str(tmp_path), "OSM_TMP_DIR": str(tmp_path)}
    words = [stock("opensm"), "-f", str(tmp_path / "opensm.log"), "-e", "-d2"]  # -d2: a log written at once
    sm = subprocess.Popen(words, env=env, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = tmp_path / "opensm.log"
    assert wait_for(lambda: log.is_file() and "SUBNET UP" in log.read_text(errors="replace"))
    return sm
