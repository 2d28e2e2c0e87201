"""Ids that share a port number: the rules of ``cma_check_port`` and ``cma_match_private_data`` (Linux drivers/infiniband/core/cma.c)."""

from __future__ import annotations

import errno

import pytest

from softib.fabric.topologies.registry import generate
from tests.live.rdma_cm.lab import ACCEPTS, CLIENT, A, B
from tests.live.rdma_cm.serving import CmServing, ended, line

ANY4, ANY6 = "0.0.0.0", "::"
OWN, LOOPBACK = "own", "127.0.0.1"
BOTH, ONLY, WIDE = None, 1, 0
"""AFONLY: not set, set, cleared."""

PAIRS = [
    ((ANY4, BOTH), (ANY6, ONLY), 0),
    ((ANY6, ONLY), (ANY4, BOTH), 0),
    ((ANY4, ONLY), (ANY6, ONLY), 0),
    ((OWN, BOTH), (ANY6, ONLY), 0),
    ((ANY4, BOTH), (ANY6, BOTH), errno.EADDRNOTAVAIL),
    ((ANY6, BOTH), (ANY4, BOTH), errno.EADDRNOTAVAIL),
    ((ANY4, WIDE), (ANY6, ONLY), errno.EADDRNOTAVAIL),
    ((ANY6, ONLY), (ANY6, ONLY), errno.EADDRNOTAVAIL),
    ((ANY4, BOTH), (OWN, BOTH), errno.EADDRNOTAVAIL),
    ((OWN, BOTH), (ANY6, BOTH), errno.EADDRNOTAVAIL),
    ((OWN, BOTH), (OWN, BOTH), errno.EADDRINUSE),
    ((OWN, BOTH), (LOOPBACK, BOTH), errno.EADDRINUSE),
]


@pytest.fixture(scope="module")
def served(cm_library, own_library):
    s = CmServing(generate("fat-tree", radix=4, levels=2), cm_library, own_library)
    yield s
    s.stop()


def test_ids_of_one_port(served):
    out = served.play(
        A,
        """
u = Ucm()
for n, (first, second, error) in enumerate(pairs):
    ids = []
    for ip, only in (first, second):
        ids.append(u.create())
        if only is not None:
            u.set_option(ids[-1], AFONLY, only)
        try:
            u.bind(ids[-1], own if ip == "own" else ip, 7300 + n)
            u.listen(ids[-1])
            seen = 0
        except OSError as e:
            seen = e.errno
    print(n, seen)
    for i in ids:
        u.destroy(i)
""",
        pairs=PAIRS,
        own=served.ip(A),
    )
    assert [int(w) for w in out.split()[1::2]] == [error for _, _, error in PAIRS]


def test_options_by_state(served):
    """rdma_set_afonly: before and after binding, not of an id that listens. rdma_set_reuseaddr: cleared before binding alone."""
    served.play(
        A,
        """
import errno
u = Ucm()
def fails(f, *a):
    try:
        f(*a)
    except OSError as e:
        assert e.errno == errno.EINVAL, e
    else:
        raise AssertionError("it worked")
c = u.create()
u.bind(c, "::", 7350)
u.set_option(c, AFONLY, 1)
u.set_option(c, REUSEADDR, 1)
fails(u.set_option, c, REUSEADDR, 0)
u.listen(c)
fails(u.set_option, c, AFONLY, 0)
d = u.create()
u.set_option(d, REUSEADDR, 1)
u.bind(d, "0.0.0.0", 7350)
u.listen(d)
""",
    )


def test_ids_that_reuse_an_address(served):
    """Two may be bound; while both are, neither listens, and beside a listener none is bound."""
    out = served.play(
        A,
        """
u = Ucm()
ids = [u.create() for _ in range(3)]
for i in ids:
    u.set_option(i, REUSEADDR, 1)
def told(f, *a):
    try:
        f(*a)
        print(0)
    except OSError as e:
        print(e.errno)
told(u.bind, ids[0], own, 7360)
told(u.bind, ids[1], own, 7360)
told(u.listen, ids[0])
u.destroy(ids[1])
told(u.listen, ids[0])
told(u.bind, ids[2], own, 7360)
""",
        own=served.ip(A),
    )
    assert [int(w) for w in out.split()] == [0, 0, errno.EADDRINUSE, 0, errno.EADDRINUSE]


def test_requests_find_the_listener_of_their_family(served):
    """Of two listeners the IPv4 one, though ``::`` was bound first, as tgtd does with its portals."""
    one = served.launch(
        B,
        """
u = Ucm()
for ip, uid in (("::", 66), ("0.0.0.0", 44)):
    l = u.create(uid=uid)
    u.set_option(l, AFONLY, 1)
    u.bind(l, ip, port)
    u.listen(l)
print("ready")
e = u.expect(CONNECT_REQUEST)
assert e.uid == 44, e
"""
        + ACCEPTS,
        port=7370,
    )
    assert line(one) == "ready"
    two = served.launch(
        A, CLIENT + "u.expect(CONNECT_RESPONSE); u.ready(c)", port=7370, ip=served.ip(B), path=served.path(A, B)
    )
    ended(two)
    assert "established" in ended(one)


def test_an_ipv6_listener_takes_no_ipv4_request(served):
    one = served.launch(
        B,
        """
u = Ucm()
l = u.create()
u.set_option(l, AFONLY, 1)
u.bind(l, "::", port)
u.listen(l)
print("ready", flush=True)
time.sleep(60)
""",
        port=7380,
    )
    assert line(one) == "ready"
    two = served.launch(
        A, CLIENT + "e = u.expect(REJECTED); print(e.status)", port=7380, ip=served.ip(B), path=served.path(A, B)
    )
    assert ended(two).split() == ["8"]
    one.kill()
    one.wait()
