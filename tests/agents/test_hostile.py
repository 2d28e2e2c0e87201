"""Random and hostile MADs: no crash, nothing written outside the tables, every sound request answered."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from softib.agents.kernels.serve import serve
from softib.errors import SoftibBug
from softib.fabric.columns import COLUMN_BY_NAME, COLUMNS
from softib.fabric.power_cycle import power_on
from softib.iba.smp import PortInfo
from softib.jit import interpreted
from softib.mad.batch import MadBatch
from tests.agents.client_plane import ClientPlane
from tests.agents.lab import program

from .smps import GET, SET, ask, changed, guard, line, random_fabric, requests, snapshot

ATTRS = np.array([0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1B, 0x33, 0xFF90, 0x99], np.uint16)
GMP_ATTRS = {
    4: [1, *range(0x10, 0x20), *range(0x30, 0x39)],
    0x21: [1, *range(0x11, 0x1A)],
    0x0A: [1, 0x17, 0x50, 0x90, 0x91],
}


def noise(rng, n, sound=False):
    """Random MADs; ``sound``: with the header of a directed Get or Set."""
    batch = MadBatch.zeros(n)
    batch.mad[:] = rng.integers(0, 256, (n, 256), dtype=np.uint8)
    if sound or rng.random() < 0.9:
        batch.mad[:, 0], batch.mad[:, 2] = 1, 1
        batch.mad[:, 1] = 0x81 if sound else rng.choice([1, 0x81, 4], n)
        batch.mad[:, 3] = rng.choice([GET, SET], n)
        attrs = rng.choice(ATTRS, n)
        batch.mad[:, 16], batch.mad[:, 17] = attrs >> 8, attrs & 255
        # Small modifiers now and then, or no table would ever be hit.
        small = rng.random(n) < 0.7
        batch.mad[small, 20] = 0
        batch.mad[small, 21] = rng.integers(0, 5, small.sum())
        batch.mad[small, 22] &= 1
        batch.mad[small, 23] &= 7
        batch.mad[:, 7] = rng.integers(0, 5, n) if sound else rng.choice([0, 1, 1, 2, 2, 3, 63, 64, 255], n)
        batch.mad[:, 128:192] %= 10
        pure = (rng.random(n) < 0.7) | sound
        batch.mad[pure, 32:36] = 255
        # An M_Key that noise sets would lock the rest out; some may.
        open_ = (rng.random(n) < 0.98) & (attrs == 0x15)
        batch.mad[open_, 64:72] = 0
    batch.dlid[:] = rng.integers(0, 65536, n)
    return batch


def power_cycle(f):
    """Links up and keys gone, so that the next noise gets through; tables stay as they are."""
    PortInfo.port_phys_state.set(f.port_info, np.where(f.linked | (f.port_num == 0), 5, 2))
    PortInfo.mkey.set(f.port_info, 0)


@pytest.mark.parametrize("seed", range(6))
def test_noise_writes_nothing_outside_the_tables(seed):
    rng = np.random.default_rng(seed)
    f = random_fabric(rng)
    touched = guard(f)
    plane = ClientPlane(f)
    before = snapshot(f)
    senders = f.end_ports()
    answered = 0
    for _ in range(60):
        batch = noise(rng, 500)
        sent = batch.mad.copy()
        answered += len(plane.send(batch, int(rng.choice(senders))))
        plane.take_deliveries()
        if rng.random() < 0.3:
            power_cycle(f)
        assert (batch.mad == sent).all()
    assert touched() == []
    wrote = changed(f, before)
    assert {COLUMN_BY_NAME[n].writer for n in wrote} <= {"mad", "engine"}
    assert answered > 500 and {"lft", "pkeys", "sl2vl"} <= set(wrote), "the noise hit nothing"


@pytest.mark.parametrize("seed", range(4))
def test_every_sound_request_to_a_reachable_node_is_answered(seed):
    rng = np.random.default_rng(seed)
    f = random_fabric(rng)
    plane = ClientPlane(f)
    sender = int(rng.choice(f.end_ports()))
    batch = noise(rng, 4000, sound=True)
    batch.mad[:, 3] = GET
    probe = batch[slice(None)]
    probe.mad = batch.mad.copy()
    probe.mad[:, 16:18], probe.mad[:, 20:24] = [0, 0x11], 0
    reachable = plane.send(probe, sender)
    answers = plane.send(batch, sender)
    assert len(answers) == len(reachable) > 50
    assert (answers.mad[:, 3] == 0x81).all() and (answers.mad[:, 4] == 0x80).all()
    assert set(np.unique(answers.mad[:, 5])) <= {0, 0x0C, 0x1C}


@pytest.mark.parametrize("seed", range(4))
def test_a_refused_set_changes_nothing(seed):
    rng = np.random.default_rng(100 + seed)
    f, _s, h = line(3)
    plane = ClientPlane(f)
    sm = int(f.port(h[0], 1))
    refused = 0
    for _ in range(300):
        batch = noise(rng, 1, sound=True)
        batch.mad[:, 3], batch.mad[:, 7] = SET, 1
        batch.mad[:, 24:32] = 0
        batch.mad[:, 129] = 1
        batch.mad[:, 64:72] = 0  # set no M_Key
        before = snapshot(f)
        answers = plane.send(batch, sm)
        if len(answers) and answers.mad[0, 5]:
            refused += 1
            assert changed(f, before) == []
        power_on(f)
    assert refused > 30


def test_odd_batches_are_taken_as_they_are():
    f, _s, h = line(2)
    plane = ClientPlane(f)
    sm = int(f.port(h[0], 1))
    assert len(plane.send(MadBatch.zeros(0), sm)) == 0
    batch = requests(8, path=[1])
    want = plane.send(batch, sm).mad
    read_only = requests(8, path=[1])
    read_only.mad = np.frombuffer(batch.mad.tobytes(), np.uint8).reshape(8, 256)
    assert (plane.send(read_only, sm).mad == want).all()
    strided = requests(16, path=[1])
    strided.mad = np.repeat(batch.mad, 2, axis=0)
    assert (plane.send(strided[slice(0, 16, 2)], sm).mad == want).all()
    assert (plane.send(batch, np.int32(sm), np.int64(0)).mad == want).all()


@pytest.mark.parametrize(("mads", "octets", "lids"), [(4, 255, 4), (4, 256, 3), (4, 512, 4)])
def test_a_batch_of_another_shape_is_our_bug(mads, octets, lids):
    f, _s, h = line(2)
    batch = MadBatch.zeros(4)
    batch.mad, batch.dlid = np.zeros((mads, octets), np.uint8), batch.dlid[:lids]
    with pytest.raises(SoftibBug):
        ClientPlane(f).send(batch, int(f.port(h[0], 1)))


def answers_digest():
    rng = np.random.default_rng(9)
    f = random_fabric(rng)
    plane = ClientPlane(f)
    digest = hashlib.sha256()
    for sound in (True, False):
        answers = plane.send(noise(rng, 150, sound), int(f.end_ports()[3]))
        digest.update(answers.mad.tobytes())
    g, s, h = line(2)
    plane = ClientPlane(g)
    digest.update(plane.send(gmps(rng, 150, [1, 2, 11, 12]), program(g, plane, s, h), 10**12).mad.tobytes())
    for fabric in (f, g):
        for column in COLUMNS:
            digest.update(getattr(fabric, column.name).tobytes())
    return digest.hexdigest()


def test_plain_python_gives_the_same_octets_as_machine_code():
    code = "from tests.agents.test_hostile import answers_digest; print(answers_digest())"
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(["", *sys.path])}
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == answers_digest()


def gmps(rng, n, lids):
    """GMPs of the classes that devices answer, with noise for contents; sometimes any version and method."""
    batch = MadBatch.zeros(n)
    m = batch.mad
    m[:] = rng.integers(0, 256, (n, 256), dtype=np.uint8)
    klass = rng.choice([4, 4, 0x21, 0x0A], n)
    m[:, 0], m[:, 1], m[:, 2], m[:, 3] = 1, klass, np.where(klass == 0x21, 2, 1), rng.choice([GET, SET], n)
    m[:, 16], m[:, 20:23] = 0, rng.choice([0, 1, 0xFF], (n, 3), p=[0.9, 0.05, 0.05])
    m[:, 17] = [rng.choice(GMP_ATTRS[k]) for k in klass.tolist()]
    m[:, 23] = rng.integers(0, 4, n)
    small = rng.random(n) < 0.8
    m[small, 65] = rng.integers(0, 10, small.sum())
    m[:, 24:32] = 0  # the CC_Key of most
    key = (m[:, 1] == 0x21) & (m[:, 17] == 0x12) & (rng.random(n) < 0.95)
    m[key, 64:72] = 0
    table = (m[:, 1] == 0x21) & (m[:, 17] == 0x17) & (rng.random(n) < 0.5)
    m[table, 64], m[table, 65] = 0, m[table, 65] & 0x7F  # a limit within the table
    batch.dlid[:] = rng.choice(lids, n)
    return batch


@pytest.mark.parametrize("seed", range(4))
def test_every_gmp_that_devices_know_is_answered_within_the_tables(seed):
    rng = np.random.default_rng(seed)
    f, s, h = line(3, device_id=47396)
    touched = guard(f)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    before = snapshot(f)
    statuses = set()
    for step in range(30):
        batch = gmps(rng, 400, [1, 2, 3, 11, 12, 13])
        f.cc_key_info[:] = 0
        keyed = (batch.mad[:, 1] == 0x21) & (batch.mad[:, 3] == SET) & (batch.mad[:, 17] == 0x12)
        answers = plane.send(batch, sm, int(rng.integers(0, 2**50)) + step)
        answered = np.isin(batch.mad[:, 8:16].astype("u1").copy().view(">u8")[:, 0], answers.tid)
        # Only a CC_Key that noise set stands between a request and its answer.
        assert answered.all() or keyed.any()
        assert (answers.mad[:, 3] == 0x81).all()
        statuses |= set((answers.mad[:, 4].astype(int) << 8 | answers.mad[:, 5]).tolist())
    assert touched() == [] and statuses == {0, 0x0C, 0x1C}
    wrote = set(changed(f, before))
    assert {"cc_table", "cc_ca_setting", "cc_switch_setting", "cc_port_setting", "cc_key_info", "op_code"} <= wrote
    assert {"vl_counters", "sl_counters", "detail_counters", "lane_counters", "sample_ps", "class_traps"} <= wrote
    assert not wrote & {"port_info", "lft", "pkeys", "sl2vl", "switch_info", "node_desc", "guids", "vl_arb"}


def test_other_versions_and_methods_of_gmps_are_refused():
    f, s, h = line(2)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    for klass, version in ((4, 2), (0x21, 1), (0x0A, 2)):
        assert ask(plane, sm, klass=klass, version=version, attr=1, dlid=1)[0] == 0x04
        assert ask(plane, sm, klass=klass, version=3 - version, attr=1, dlid=1)[0] == 0
        assert ask(plane, sm, klass=klass, version=3 - version, method=0x15, attr=1, dlid=1)[0] == 0x08
    f.vendor_id[:] = 0x1077
    assert ask(plane, sm, klass=0x0A, attr=1, dlid=1) is None and len(plane.take_deliveries()) == 1


def test_answers_to_noise_are_the_same_in_python(monkeypatch):
    expected = answers_digest()
    monkeypatch.setattr("softib.agents.plane.serve", lambda *args: interpreted.run(serve, args))
    assert answers_digest() == expected
