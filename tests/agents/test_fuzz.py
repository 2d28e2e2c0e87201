"""Fuzz of the agents: mutants of every declared attribute. What must be answered is, and nothing else is written.

The bounded part runs always; ``make test-all`` sends five million.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.columns import COLUMNS
from softib.fabric.power_up import advertise_fec
from softib.fabric.virtual_ports import give_virtual_ports
from softib.iba.smp import PortInfo
from softib.scenario.bring_up import bring_up
from tests.agents.client_plane import ClientPlane

from .mutants import CC, DECLARED, DR, LID, PERF, SHARP, VENDOR, Declared, Mutants, get, routes, walk
from .smps import TRAFFIC, guard, line, random_fabric

NOW = 10**15
HARDWARE = [c.name for c in COLUMNS if c.writer == "hardware"]
KEYS = {"port_info"}  # violations and leases of M_Key, violations of P_Keys
SMP_WRITES = {
    0x10: {"node_desc"},
    0x12: {"switch_info"},
    0x14: {"guids"},
    0x16: {"pkeys"},
    0x17: {"sl2vl"},
    0x18: {"vl_arb"},
    0x19: {"lft"},
    0xFF20: {"ar_info"},
    0xFF21: {"ar_group"},
    0xFF23: {"ar_lft", "lft"},
    0xFFBD: {"ar_group"},
    0x1B: {"mft"},
    0x33: {"port_info_ext"},
    0xFF90: {"port_mlnx_speed"},
    0xFFB0: {"virtualization"},
    0xFFB1: {"vport_info"},
    0xFFB5: {"vport_guids"},
    0xFFB6: {"vport_pkeys"},
    # A port that goes down: both ends, LinkDowned, PortStateChange; it trains to another speed perhaps.
    0x15: {"port_info", "switch_info", "counters", "port_mlnx_speed"},
}
PERF_WRITES = {
    0x01: {"class_traps"},
    0x10: {"sample_control", "sample_ps", "sample_count"},
    0x17: {"op_code"},
    0x19: {"op_code"},
    0x1A: {"op_code"},
}
COUNTERS = {"counters", "detail_counters", "vl_counters", "sl_counters", "lane_counters"}
CC_WRITES = {
    0x01: {"class_traps"},
    0x12: {"cc_key_info"},
    0x14: {"cc_switch_setting"},
    0x15: {"cc_port_setting"},
    0x16: {"cc_ca_setting"},
    0x17: {"cc_table"},
}

SHARP_WRITES = {
    0x21: {"sharp_qp_used", "sharp_qp"},
    0x22: {"sharp_qp"},
    0x23: {"sharp_tree", "sharp_child"},
    0x24: {"sharp_quota"},
}


def may_write(what: Declared) -> set[str]:
    """Columns that MADs of this attribute may change (beside what all MADs do: count, and count wrong keys)."""
    if what.klass == SHARP:
        return KEYS | {"counters", "detail_counters"} | SHARP_WRITES.get(what.attr, set())
    if what.klass not in (LID, DR, PERF, CC, VENDOR):
        return {"port_info", "counters", "detail_counters"}
    if what.klass in (LID, DR):
        return KEYS | SMP_WRITES.get(what.attr, set()) | {"counters", "detail_counters"}
    if what.klass == PERF:
        return KEYS | COUNTERS | PERF_WRITES.get(what.attr, set()) | {"sample_count", "sample_ps"}
    if what.klass == CC:
        return KEYS | COUNTERS | {"cc_key_info"} | CC_WRITES.get(what.attr, set())
    return KEYS | COUNTERS


class Field:
    """A fabric that is up, between canaries, with its columns as they were at the last look."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.fabric = f = random_fabric(self.rng) if seed % 2 else line(5, 2, device_id=47396)[0]
        advertise_fec(f)
        give_virtual_ports(f, np.where(f.is_switch[f.port_node], 0, 3), np.ones(f.sizes.ports, bool))
        self.touched = guard(f)
        self.plane = ClientPlane(f)
        ends = f.end_ports()
        self.sender = int(ends[int(np.argmax([len(routes(f, int(p))[2]) for p in ends]))])
        bring_up(f, node=int(f.port_node[self.sender]), plane=self.plane)
        self.plane.take_notices()
        self.pristine = {c.name: getattr(f, c.name).copy() for c in COLUMNS}
        self.mutants = Mutants(f, self.sender, self.rng)
        self.owners = np.flatnonzero(~f.is_switch[f.port_node] | (f.port_num == 0))
        self.sent = self.answered = self.demanded = 0

    def reset(self) -> None:
        """As after bring-up."""
        for name, column in self.pristine.items():
            getattr(self.fabric, name)[...] = column
        for name in ("mkey_until", "cc_until", "notice_count", "samplers"):
            getattr(self.plane.tables, name)[...] = 0
        self.plane.take_deliveries()

    def look(self) -> dict[str, bytes]:
        return {c.name: self._octets(c.name) for c in COLUMNS}

    def _octets(self, name: str) -> bytes:
        column = getattr(self.fabric, name)
        if name == "counters":
            column = column.copy()
            for traffic in TRAFFIC:
                column[traffic] = 0
        if name == "sl_counters":
            column = column.copy()
            column["xmit_data_sl"] = column["rcv_data_sl"] = 0
        return column.tobytes()

    def run(self, what: Declared, n: int, sets: float = 0.5) -> None:
        """One batch, and every law about it."""
        f, before = self.fabric, self.look()
        batch = self.mutants.batch(n, what, sets)
        sent = batch.mad.copy()
        must = self.must_be_answered(sent, what, batch.dlid)
        answers = self.plane.send(batch, self.sender, NOW)
        self.sent, self.answered, self.demanded = (
            self.sent + n,
            self.answered + len(answers),
            self.demanded + int(must.sum()),
        )
        deliveries = sum(len(d.rows) for d in self.plane.take_deliveries())
        self.plane.take_notices()
        assert (batch.mad == sent).all(), f"{what}: requests are not written"
        assert len(answers) + deliveries <= n
        self.answers_fit(what, sent, answers.mad)
        keys = set(get(answers.mad, 8, 8).tolist())
        lost = must & ~np.isin(get(sent, 8, 8), np.array(sorted(keys), np.uint64))
        assert not lost.any(), f"{what}: no answer to {bytes(sent[np.flatnonzero(lost)[0]]).hex()}"
        after = self.look()
        wrote = {name for name, octets in after.items() if octets != before[name]}
        assert not wrote & set(HARDWARE), f"{what} wrote {wrote & set(HARDWARE)}"
        ends = self.owners
        assert (f.guids[f.guid_base[ends]] == f.port_guid[ends]).all(), (
            f"{what}: the first GUID is read-only (14.2.5.5)"
        )
        # One mutant in a hundred is noise, of whatever attribute it happens to be.
        kinds = {(int(k), int(a)) for k, a in zip(sent[:, 1], get(sent, 16, 2), strict=True)}
        allowed = set().union(*(may_write(Declared(k, a, None)) for k, a in kinds))
        assert wrote <= allowed, f"{what} wrote {wrote - allowed}"

    def answers_fit(self, what: Declared, sent: np.ndarray, got: np.ndarray) -> None:
        """IBA 13.4.5: response bit, transaction, class and attribute of the request; statuses that exist."""
        assert (got[:, 3] == 0x81).all()
        status = get(got, 4, 2) & np.uint64(0x7FFF)
        assert set(np.unique(status).tolist()) <= {0, 0x04, 0x08, 0x0C, 0x1C}, f"{what}: {np.unique(status)}"
        directed = got[:, 1] == DR
        assert (got[directed, 4] >> 7 == 1).all() and (got[directed, 6] == 0).all(), (
            "14.2.1.2: on its way back, at its end"
        )
        request = {k: i for i, k in enumerate(get(sent, 8, 8).tolist())}
        rows = np.array([request[k] for k in get(got, 8, 8).tolist()], int)
        same = [0, 1, 2, 7, *range(16, 24)]
        twice = np.bincount(rows, minlength=len(sent))[rows] > 1  # repeated MADs may differ in their noise
        assert (got[~twice][:, same] == sent[rows[~twice]][:, same]).all()

    def must_be_answered(self, m: np.ndarray, what: Declared, dlid: np.ndarray) -> np.ndarray:
        """Directed SMPs that reach a device whose M_Key lets them: answered whatever else is wrong with them.

        A batch that may move links or keys while it runs has no such list.
        """
        none = np.zeros(len(m), bool)
        if what.klass != DR or (what.attr == 0x15 and (m[:, 3] == 2).any()):
            return none
        f = self.fabric
        noise = (get(m, 16, 2) == 0x15) & (m[:, 3] == 2)
        if noise.any():
            return none
        pure = (m[:, 0] == 1) & (m[:, 1] == DR) & (m[:, 32:36] == 255).all(axis=1) & (m[:, 3] < 0x80) & (m[:, 3] != 7)
        at = walk(f, self.sender, m)
        node = f.port_node[np.maximum(at, 0)]
        end = np.where(f.is_switch[node], f.node_base[node], at)
        key = PortInfo.mkey.get(f.port_info)[end]
        level = PortInfo.mkey_protect.get(f.port_info)[end]
        fits = (key == 0) | (key == get(m, 24, 8)) | ((m[:, 3] == 1) & (level < 2))
        own = np.isin(m[:, 3], (3, 5, 6)) | (get(m, 16, 2) == 0x20)  # traps, reports, SMInfo: a manager's
        refused = m[:, 2] != 1  # answered with "bad version" before anything is looked at
        return pure & (at >= 0) & (refused | (~own & (fits | ~np.isin(m[:, 3], (1, 2)))))


def fuzz(seed: int, total: int, size: int, per_reset: int = 12) -> Field:
    """At least ``total`` mutants in batches of ``size``, each attribute in turn."""
    field = Field(seed)
    order = field.rng.permutation(len(DECLARED))
    batches = 0
    while field.sent < total:
        what = DECLARED[order[batches % len(order)]]
        if batches % per_reset == 0:
            field.reset()
        field.run(what, size, sets=(0.0, 0.5, 1.0)[batches % 3])
        batches += 1
    assert field.touched() == [], "a write beyond a column"
    return field


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_mutants_of_every_attribute(seed):
    field = fuzz(seed, 400_000, 1024)
    assert field.answered > field.sent // 3 and field.demanded > field.sent // 10, "the mutants hit nothing"


def rows_changed(f, name, before):
    """Ports (or switches) whose rows of a column changed; None where rows are neither."""
    column, old = getattr(f, name), before[name]
    new = np.frombuffer(column.tobytes(), np.uint8).reshape(len(column), -1)
    return np.flatnonzero((new != np.frombuffer(old.tobytes(), np.uint8).reshape(len(column), -1)).any(axis=1))


@pytest.mark.parametrize(("seed", "mads"), [(11, 1500), pytest.param(12, 30_000, marks=pytest.mark.slow)])
def test_one_mad_writes_rows_of_its_device_alone(seed, mads):
    """A Set of one device never shows on another, but for the far end of a link that it takes down or up."""
    field = Field(seed)
    f, rng = field.fabric, field.rng
    settable = [d for d in DECLARED if d.structure is not None and d.klass in (LID, DR, CC, SHARP)]
    hits = 0
    for i in range(mads // 50):
        if i % 6 == 0:
            field.reset()
        batch = field.mutants.batch(50, settable[rng.integers(len(settable))], sets=0.9)
        for r in range(50):
            before = {c.name: getattr(f, c.name).copy() for c in COLUMNS if c.writer == "mad"}
            one = batch[r : r + 1]
            answers = field.plane.send(one, field.sender, NOW)
            field.plane.take_deliveries(), field.plane.take_notices()
            wrote = {name: rows for name in before if len(rows := rows_changed(f, name, before))}
            if not wrote:
                continue
            assert len(answers) or set(wrote) <= {"port_info", "cc_key_info"}, "only violations are written silently"
            hits += 1
            nodes = set()
            for name, rows in wrote.items():
                if name in ("pkeys", "guids", "sl2vl"):
                    base = {"pkeys": f.pkey_base, "guids": f.guid_base, "sl2vl": f.sl2vl_base}[name]
                    order = np.argsort(base, kind="stable")
                    ports = order[np.searchsorted(base[order], rows, side="right") - 1]
                    nodes |= set(f.port_node[ports].tolist())
                elif name.startswith("vport_"):
                    owners = np.flatnonzero(f.virtualization.any(axis=1))
                    place = np.searchsorted(f.vport_base[owners], rows, side="right") - 1
                    nodes |= set(f.port_node[owners[place]].tolist())
                elif name.startswith("sharp_"):
                    nodes |= set(f.sharp_node[rows].tolist())
                elif name in ("switch_info", "lft", "mft", "cc_switch_setting", "ar_info", "ar_group", "ar_lft"):
                    nodes |= set(f.switch_node[rows].tolist())
                elif name == "node_desc":
                    nodes |= set(rows.tolist())
                else:
                    nodes |= set(f.port_node[rows].tolist())
            if len(nodes) > 1:
                ends = wrote.get("port_info", np.zeros(0, int))
                assert (
                    len(nodes) == 2 and len(ends) and set(wrote) <= {"port_info", "switch_info", "port_mlnx_speed"}
                ), wrote
                assert f.port_peer[ends[0]] in ends or len(ends) == 1, "both ends of one cable"
    assert hits > mads // 30


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_without_the_key_nothing_changes(level):
    """IBA 14.2.4: SMPs with a wrong M_Key write nothing but violation counters, at each level of protection."""
    field = Field(20 + level)
    f = field.fabric
    PortInfo.mkey.set(f.port_info, np.uint64(0x1234_5678_9ABC_DEF0))
    PortInfo.mkey_protect.set(f.port_info, level)
    before = {c.name: getattr(f, c.name).copy() for c in COLUMNS}
    answered = 0
    for what in [d for d in DECLARED if d.klass in (LID, DR)] * 3:
        batch = field.mutants.batch(500, what, sets=0.7)
        batch.mad[:, 24] = 0x77
        answers = field.plane.send(batch, field.sender, NOW)
        answered += len(answers)
        assert (answers.mad[:, 3] == 0x81).all()
        told = answers.mad[(answers.mad[:, 2] == 1) & (get(answers.mad, 16, 2) == 0x15) & (answers.mad[:, 5] == 0)]
        if level:
            assert not told[:, 64:72].any(), "the M_Key is shown to nobody who does not know it"
        field.plane.take_deliveries(), field.plane.take_notices()
    for name, old in before.items():
        new = getattr(f, name).copy()
        if name in ("counters", "detail_counters", "sl_counters"):
            continue  # MADs count, and so do those that are dropped
        if name == "port_info":
            at = PortInfo.mkey_violations.byte
            assert (new[:, at : at + 2] != old[:, at : at + 2]).any()
            new[:, at : at + 2] = old[:, at : at + 2]
        assert new.tobytes() == old.tobytes(), f"{name} was written without the M_Key"
    assert (answered > 5000) == (level < 2), "levels 0 and 1 let everybody read, 2 and 3 nobody"


BOUNDS = """
import numpy as np, pathlib, sys
sys.path.insert(0, {folder!r})
from bad_kernels import beyond
try:
    beyond(np.zeros(4, np.uint8), 9)
except IndexError:
    pass
else:
    raise SystemExit("bounds are not checked")
from tests.agents import test_fuzz
for seed in (31, 32):
    field = test_fuzz.fuzz(seed, {mads}, 1024)
    print(field.sent, field.answered)
"""


@pytest.mark.slow
def test_no_kernel_reads_or_writes_beyond_an_array(tmp_path):
    """The same under Numba's bounds check, with a cache of its own (a minute of compiling)."""
    (tmp_path / "bad_kernels.py").write_text(
        "# mypy: ignore-errors\nfrom softib.jit import kernel\n\n\n@kernel(_nrt=False)\ndef beyond(a, i):\n    return a[i]\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    env = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "SOFTIB_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([root, *sys.path]),
    }
    code = BOUNDS.format(folder=str(tmp_path), mads=400_000)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.split()) == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
def test_five_million_mutants(seed):
    field = fuzz(seed, 625_000, 2048, per_reset=20)
    print(f"seed {seed}: {field.sent} sent, {field.answered} answered, {field.demanded} had to be")
    assert field.demanded > field.sent // 10
