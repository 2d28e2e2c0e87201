"""The SMP filler against the declared structures, which the iba tests compare with tshark and libibmad."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.iba.constants import SmpAttr
from softib.iba.smp import MadHeader, Smp
from softib.mad.smp_requests import RequestQueue, Routes, SmpRequests, build
from tests.extent import examples

H = MadHeader


def some_routes(paths: list[list[int]]) -> Routes:
    routes = Routes()
    local = routes.add_local()
    for path in paths:
        row = np.array([local])
        for port in path:
            row = routes.extend(row, np.array([port], np.uint8))
    return routes


@settings(max_examples=examples(50), deadline=None)
@given(
    paths=st.lists(st.lists(st.integers(1, 254), min_size=1, max_size=6), min_size=1, max_size=5),
    method=st.sampled_from([1, 2]),
    attr=st.sampled_from([int(a) for a in SmpAttr]),
    mkey=st.integers(0, (1 << 64) - 1),
    modifier=st.integers(0, (1 << 32) - 1),
    out_port=st.integers(0, 254),
    seed=st.integers(0, 1 << 30),
)
def test_rows_read_back_as_the_declared_structure(paths, method, attr, mkey, modifier, out_port, seed):
    routes = some_routes(paths)
    rows = np.arange(len(routes), dtype=np.int32)
    data = np.random.default_rng(seed).integers(0, 256, (3, 64), dtype=np.uint8)
    chosen = np.arange(len(rows)) % 3
    out = np.full(len(rows), out_port, np.uint8)
    batch = build(SmpRequests(method, attr, rows, rows, modifier, out, data, chosen), routes, mkey)
    m = batch.mad
    for f, value in (
        (H.base_version, 1),
        (H.mgmt_class, 0x81),
        (H.class_version, 1),
        (H.method, method),
        (H.status, 0),
        (H.hop_pointer, 0),
        (H.attr_id, attr),
        (H.attr_mod, modifier),
        (Smp.mkey, mkey),
        (Smp.dr_slid, 0xFFFF),
        (Smp.dr_dlid, 0xFFFF),
    ):
        assert (f.get(m) == np.asarray(value, f.dtype)).all(), f
    assert (Smp.data.get(m) == data[chosen]).all()
    extra = [out_port] if out_port else []
    for r in rows.tolist():
        path = routes.path[r, 1 : int(routes.hops[r]) + 1].tolist() + extra
        assert H.hop_count.get(m)[r] == len(path)
        assert Smp.initial_path.get(m)[r].tolist() == [0, *path] + [0] * (63 - len(path))
        assert not Smp.return_path.get(m)[r].any()
    assert (batch.dlid == 0xFFFF).all() and (batch.slid == 0xFFFF).all() and not batch.dqp.any()


def test_a_route_is_the_path_that_was_walked():
    routes = some_routes([[3, 17, 200]])
    assert routes.text(3) == "0,3,17,200"
    assert routes.text(2, 9) == "0,3,17,9"
    assert routes.hops.tolist() == [0, 1, 2, 3]


def test_routes_grow_beyond_their_first_room():
    routes = Routes()
    local = routes.add_local()
    rows = routes.extend(np.full(5000, local), (np.arange(5000) % 36 + 1).astype(np.uint8))
    assert routes.path[rows, 1].tolist() == (np.arange(5000) % 36 + 1).tolist()
    assert (routes.hops[rows] == 1).all()


def test_63_hops_are_possible_and_64_are_not():
    routes = some_routes([[1] * 63])
    at = np.array([len(routes) - 1], np.int32)
    assert H.hop_count.get(build(SmpRequests(1, 0x11, at, at), routes).mad)[0] == 63
    with pytest.raises(ValueError, match="63 hops"):
        build(SmpRequests(1, 0x11, at, at, 0, np.array([1], np.uint8)), routes)


def test_queue_keeps_order_counts_and_cuts_into_chunks():
    routes = some_routes([[1], [2]])
    queue = RequestQueue(routes)
    queue.get(SmpAttr.NODE_DESC, np.array([0, 1, 2], np.int32), np.array([10, 11, 12]))
    queue.get(SmpAttr.PORT_INFO, np.array([1, 2], np.int32), np.array([20, 21]), np.array([5, 6]))
    taken = []
    while len(queue):
        batch, tags = queue.take(2)
        taken += list(
            zip(tags.tolist(), H.attr_id.get(batch.mad).tolist(), H.attr_mod.get(batch.mad).tolist(), strict=True)
        )
    assert taken == [(10, 0x10, 0), (11, 0x10, 0), (12, 0x10, 0), (20, 0x15, 5), (21, 0x15, 6)]
    assert queue.built == {(1, 0x10): 3, (1, 0x15): 2}
