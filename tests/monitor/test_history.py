"""The history: what was appended is what is read, questions in SQL, hours, retention, and a writer that is killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import softib
from softib.diags.managers.manager_health import ManagerRound
from softib.diags.observations import ObservedPorts
from softib.errors import InputError, UnreadableFile
from softib.monitor.history import HOUR_NS, History
from softib.monitor.intervals import Interval

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("duckdb", reason="duckdb is not installed")
BEGIN = 480_000 * HOUR_NS


def ports(n: int = 6) -> ObservedPorts:
    rows = np.arange(n, dtype=np.int32)
    return ObservedPorts(
        rows.astype(np.uint64),
        np.ones(n, np.int32),
        rows % 2 == 0,
        tuple(f"n{i}" for i in range(n)),
        rows + 1,
        rows[::-1].copy(),
        np.full(n, 400.0),
        {"vendor": np.array(["v"] * n, object)},
    )


def interval(end_ns: int, n: int = 6, errors: int = 2) -> Interval:
    known = np.arange(n) != 3
    counted = np.where(known, np.uint64(errors), np.uint64(0))
    return Interval(
        np.arange(n, dtype=np.uint64),
        np.ones(n, np.int32),
        np.full(n, end_ns - 10**9),
        np.full(n, end_ns),
        {"symbol_error_counter": counted},
        {"symbol_error_counter": known},
        {"state": np.where(known, 4.0, np.nan)},
    )


def test_what_is_kept_is_what_was_seen(tmp_path):
    history, of = History(tmp_path), ports()
    for i in range(5):
        history.append(of, interval(BEGIN + i * 10**9, errors=2**63 + i))
    seen = History(tmp_path).observations()
    assert seen.intervals == 5 and seen.ports.node == of.node and seen.ports.peer.tolist() == of.peer.tolist()
    assert seen.increase["symbol_error_counter"][4].tolist() == [2**63 + 4] * 3 + [0] + [2**63 + 4] * 2
    assert (~seen.known["symbol_error_counter"]).sum() == 5 and np.isnan(seen.level["state"][:, 3]).all()
    assert (seen.end_ns - seen.begin_ns == 10**9).all()
    assert history.observations(since_ns=BEGIN + 3 * 10**9).intervals == 2


def test_of_a_large_history_the_last_rounds_are_read(tmp_path, monkeypatch):
    """Thirty days of a large fabric fit into no memory: the last rounds do, and a line says which."""
    history, of = History(tmp_path), ports()
    for i in range(10):
        history.append(of, interval(BEGIN + i * 10**9))
    assert softib.observe(tmp_path).problems == ()
    monkeypatch.setattr("softib.api.monitor.observing.ROWS", 20)
    seen = softib.observe(tmp_path)
    assert seen.observations.intervals == 3 and "the last 3 of 10 rounds, from 2024-10-04 00:00:07 UTC on" in str(
        seen.problems[0]
    )
    seen = softib.observe(tmp_path, since=BEGIN / 1e9 + 2, until=BEGIN / 1e9 + 4)
    assert seen.observations.intervals == 3 and seen.problems == ()
    with pytest.raises(UnreadableFile, match="no round of that time"):
        softib.observe(tmp_path, until=5.0)


@pytest.mark.parametrize(
    ("text", "ago"), [("90m", 5400), ("6h", 21600), ("3d", 259200), ("1970-01-01T00:01", None), ("9999999d", None)]
)
def test_times_of_the_command_line(text, ago):
    from softib.cli.shared.clock import clock

    told = clock("--since", text)
    assert told == pytest.approx(time.time() - ago, abs=5) if ago else told in (60.0, 0.0)


@pytest.mark.parametrize("text", ["3x", "nand", "-5h", "1e9d", "yesterday", ""])
def test_a_time_that_is_none_is_one_line(text):
    import click

    from softib.cli.shared.clock import clock

    with pytest.raises(click.BadParameter, match="90m, 6h, 3d"):
        clock("--since", text)


def test_questions_in_sql(tmp_path):
    history = History(tmp_path)
    history.append(ports(), interval(BEGIN))
    history.append(ports(), interval(BEGIN + 10**9))
    question = "select p.node, sum(i.symbol_error_counter) from intervals i join ports p using (guid, portnum) where p.node = 'n1' group by 1"
    (row,) = history.ask(question)
    assert row[0] == "n1" and int(row[1]) in (4, 8)  # the ports were kept once or, as another table, twice
    with pytest.raises(InputError, match="history: "):
        history.ask("select nonsense")


def test_hours_are_joined_and_old_ones_removed(tmp_path):
    history, of = History(tmp_path, keep_days=1.0), ports()
    for hour in range(30):
        for i in range(3):
            history.append(of, interval(BEGIN + hour * HOUR_NS + i * 10**9))
    assert len(list((tmp_path / "rounds").glob("*.parquet"))) == 3  # the hour that is not over
    assert 23 <= len(list((tmp_path / "hours").glob("*.parquet"))) <= 26
    assert 24 * 3 <= history.observations().intervals <= 27 * 3


def test_a_clock_that_is_set_back_loses_no_round(tmp_path):
    """Rounds of an hour that was joined already: read at once, and joined with the others later."""
    of = ports()
    first = History(tmp_path)
    for i in range(3):
        first.append(of, interval(BEGIN + i * 600 * 10**9))
    first.append(of, interval(BEGIN + HOUR_NS))
    again = History(tmp_path)  # an hour earlier, says its clock
    for i in range(3):
        again.append(of, interval(BEGIN + i * 600 * 10**9 + 10**9))
    assert History(tmp_path).observations().intervals == 7
    again.append(of, interval(BEGIN + HOUR_NS + 10**9))
    assert History(tmp_path).observations().intervals == 8
    assert len(list((tmp_path / "hours").glob("*.parquet"))) == 1


def test_one_process_writes_a_history(tmp_path):
    """Two would count each fall twice: a host that started again once would look like a cable that fell twice."""
    first = History(tmp_path)
    first.claim(ports())
    with pytest.raises(InputError, match="another process writes its history here"):
        History(tmp_path).claim(ports())
    first.release()
    History(tmp_path).claim(ports())


def test_a_history_is_of_one_fabric(tmp_path):
    history = History(tmp_path)
    history.append(ports(6), interval(BEGIN))
    History(tmp_path).claim(ports(20))  # it has grown
    other = ports(6)
    other = ObservedPorts(
        other.node_guid + np.uint64(1000),
        other.portnum,
        other.switch,
        other.node,
        other.lid,
        other.peer,
        other.rate_gbps,
    )
    with pytest.raises(InputError, match="is of another fabric"):
        History(tmp_path).claim(other)


def test_a_crash_between_joining_and_removing_counts_nothing_twice(tmp_path):
    history, of = History(tmp_path), ports()
    history.append(of, interval(BEGIN))
    kept = next((tmp_path / "rounds").glob("*.parquet"))
    content = kept.read_bytes()
    history.append(of, interval(BEGIN + HOUR_NS))
    assert not kept.exists()
    kept.write_bytes(content)
    assert History(tmp_path).observations().intervals == 2


WRITER = """
import sys
from tests.monitor.test_history import BEGIN, interval, ports
from softib.monitor.history import History
history, of = History(sys.argv[1]), ports(5000)
for i in range(10**6):
    history.append(of, interval(BEGIN + i * 10**9, 5000))
    print(i, flush=True)
"""


@pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 8))])
def test_a_writer_that_is_killed_loses_at_most_the_round_that_it_wrote(tmp_path, turn):
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"}
    folder = tmp_path / str(turn)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True, env=env, cwd=root
    )
    for _ in range(4):
        assert writer.stdout.readline()
    time.sleep(0.003 * turn)
    writer.send_signal(signal.SIGKILL)
    said = [3, *(int(line) for line in writer.stdout.read().split())]
    writer.wait(20)
    seen = History(folder).observations()
    assert said[-1] + 1 <= seen.intervals <= said[-1] + 2
    assert seen.total("symbol_error_counter").sum() == 2 * 4999 * seen.intervals


def test_an_empty_directory_and_one_that_cannot_be_written_are_one_line(tmp_path):
    with pytest.raises(UnreadableFile, match="contains no history"):
        History(tmp_path).observations()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        History(tmp_path / "file").append(ports(), interval(BEGIN))


def test_what_the_manager_did_is_kept_beside_the_ports(tmp_path):
    history, kept = History(tmp_path), []
    history.append(ports(), interval(BEGIN))
    for i in range(3):
        kept.append(
            ManagerRound(
                BEGIN + i * 10**9,
                2**63 + 7,
                3,
                "MASTER",
                i < 2,
                True,
                i < 2,
                0.001,
                0.002,
                i,
                0.0,
                10,
                0,
                0.5,
                "sm HCA-1",
            )
        )
        history.append_manager(kept[-1])
    assert History(tmp_path).manager_rounds() == kept
    assert history.ask("select count(*), max(sa_wait_s), min(guid) from manager where not answered") == [
        (1, 0.5, 2**63 + 7)
    ]
    history.compact(BEGIN + 40 * 24 * HOUR_NS)
    assert History(tmp_path).manager_rounds() == []


def test_files_that_were_cut_off_are_left_out_with_a_note(tmp_path):
    """By a full disk, or a machine that lost its power: the other rounds are read, and the writer goes on."""
    history = History(tmp_path)
    for i in range(4):
        history.append(ports(), interval(BEGIN + i * 10**9))
    first, second, *_ = sorted((tmp_path / "rounds").glob("*.parquet"))
    first.write_bytes(first.read_bytes()[:100])
    second.write_bytes(b"")
    seen = softib.observe(tmp_path)
    assert seen.observations.intervals == 2
    assert [str(p) for p in seen.problems] == [f"{first}: cut off; left out, and 1 more"]
    history.append(ports(), interval(BEGIN + 2 * HOUR_NS))
    history.compact(BEGIN + 2 * HOUR_NS)
    assert History(tmp_path).observations().intervals == 3
    hour = next((tmp_path / "hours").glob("*.parquet"))
    hour.write_bytes(hour.read_bytes()[:-50])
    history.compact(BEGIN + 3 * HOUR_NS)
    assert History(tmp_path).observations().intervals == 1
