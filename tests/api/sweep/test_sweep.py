"""A sweep is its runs one by one, in the order of the grid, whoever runs them and however often it
was stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import softib
from softib.api.sweep.grid import check_appendable
from softib.errors import InputError, LimitError, MissingLibrary
from tests.cli.run import softib as run

pytest.importorskip("polars")
GRID = {"parameters": {"size": ["16KiB", "64KiB"], "senders": [2, 5], "engine": ["updn"]}, "seeds": [3, 7]}
WORK = "incast:1MB"


@pytest.fixture(scope="module")
def tree():
    return softib.generate("fat-tree", radix=4, levels=2)


@pytest.fixture(scope="module")
def swept(tree):
    return softib.sweep(tree, WORK, GRID, workers=1)


def test_each_row_is_the_run_by_itself(tree, swept):
    rows = swept.rows()
    assert len(rows) == 8 and [r["seed"] for r in rows[:2]] == [3, 7] and rows[0]["size"] == rows[3]["size"] == "16KiB"
    for row in rows:
        text = f"incast:{row['size']},senders={row['senders']}"
        alone = softib.simulate(tree, text, engine=row["engine"], seed=row["seed"])
        assert row["simulated_us"] == alone.simulated_us and row["p99_us"] == alone.percentiles_us["p99"]
        assert (
            row["good"]
            and row["error"] is None
            and row["incast took_us"] == pytest.approx(row["simulated_us"], rel=0.2)
        )


def test_options_of_runs_reach_the_run(tree):
    grid = {
        "parameters": {"layer": ["packet"], "network": ["infiniband", "roce,pfc=off"], "generation": ["NDR", "XDR"]}
    }
    rows = softib.sweep(tree, "shift:64KiB", grid, workers=1).rows()
    times = [
        softib.simulate(tree, "shift:64KiB", layer="packet", network=n, what_if=f"generation={g}").what_if.simulated_us
        for n in ("infiniband", "roce,pfc=off")
        for g in ("NDR", "XDR")
    ]
    assert [r["simulated_us"] for r in rows] == times and times[0] > times[1]


def test_options_of_one_job_change_that_job(tree, tmp_path):
    (tmp_path / "w.yaml").write_text(
        "jobs:\n- {pattern: shift, size: 1MB, name: a, start: 5us}\n- {pattern: incast, size: 1MB, name: b, "
        "senders: 2}\n"
    )
    rows = softib.sweep(
        tree, tmp_path / "w.yaml", {"parameters": {"a.size": [1, 1_000_000]}}, workers=1, layer="static"
    ).rows()
    assert rows[0]["bytes"] == 8 + 2_000_000 and rows[1]["bytes"] == 10_000_000 and "b p99_us" in rows[0]


@pytest.mark.slow
def test_processes_give_the_same_bytes(tree, swept, tmp_path):
    pytest.importorskip("joblib")
    swept.to_parquet(tmp_path / "one.parquet")
    softib.sweep(tree, WORK, GRID, workers=2, out=tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


class Stop(Exception):
    pass


def test_a_sweep_that_was_stopped_goes_on(tree, swept, tmp_path):
    out, journal, seen = tmp_path / "out.parquet", tmp_path / "out.parquet.rows", []

    def stop(done, of):
        if done == 5:
            raise Stop

    with pytest.raises(Stop):
        softib.sweep(tree, WORK, GRID, workers=1, out=out, progress=stop)
    assert not out.exists() and len(journal.read_text().splitlines()) == 5
    journal.write_text(journal.read_text()[:-20])  # the kill came while a row was written
    softib.sweep(tree, WORK, GRID, workers=1, out=out, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(n, 8) for n in range(4, 9)] and not journal.exists()
    swept.to_parquet(tmp_path / "whole.parquet")
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_rows_of_another_question_are_not_taken(tree, tmp_path):
    out, seen = tmp_path / "out.parquet", []

    def stop(done, of):
        seen.append(done)
        if done == 2:
            raise Stop

    grid = {"parameters": {"size": ["16KiB", "64KiB"]}}
    for fabric, work in (
        (tree, WORK),
        (tree, "incast:1MB,senders=3"),
        (softib.generate("fat-tree", radix=4, levels=2, generation="EDR"), WORK),
    ):
        with pytest.raises(Stop):
            softib.sweep(fabric, work, grid, workers=1, out=out, progress=stop)
    assert seen == [0, 1, 2] * 3


def test_what_one_point_cannot_run_is_in_its_row(tree):
    grid = {"parameters": {"senders": [2, 99], "layer": ["fluid", "static"], "cc": ["on"]}}
    rows = softib.sweep(tree, WORK, grid, workers=1).rows()
    assert all("needs the packet layer" in r["error"] for r in rows)
    rows = softib.sweep(tree, WORK, {"parameters": {"senders": [2, 99]}}, workers=1).rows()
    assert rows[0]["good"] and not rows[1]["good"] and "others" in rows[1]["error"] and rows[1]["simulated_us"] is None


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"parameters": {"sizes_": [1]}}, "did you mean size"),
        ({"parameters": {"size": ["big"]}}, "use for example 2MB"),
        ({"parameters": {"size": []}}, "use a list"),
        ({"parameters": {"size": [1, 1]}}, "occurs twice"),
        ({"parameters": {"engine": ["upd"]}}, "updn"),
        ({"parameters": {"network": ["roec"]}}, "roce"),
        ({"parameters": {"layer": ["liquid"]}}, "fluid"),
        ({"parameters": [1]}, "must map names to lists"),
        ({"seed": 1}, "did you mean seeds"),
        ({"seeds": 0}, "use a number"),
        ({"seeds": [1, 1]}, "different seeds"),
        ({"seeds": True}, "use a number"),
        ({"parameters": {"size": list(range(1, 2001)), "senders": list(range(1, 2001))}}, "at most 1,000,000"),
    ],
)
def test_a_grid_that_is_wrong_is_one_line_before_anything_runs(tree, grid, said):
    with pytest.raises((InputError, LimitError)) as error:
        softib.sweep(tree, WORK, grid, workers=1, progress=lambda *a: pytest.fail("it ran"))
    assert said in str(error.value) and "\n" not in str(error.value)


def test_on_the_command_line(tmp_path):
    (tmp_path / "tree.yaml").write_text("topology: {kind: fat-tree, radix: 4, levels: 2}\n")
    (tmp_path / "grid.yaml").write_text("parameters:\n  size: [1KiB, 4KiB]\nseeds: 2\n")
    how = ("simulate", tmp_path / "tree.yaml", "shift:1MB", "--sweep", tmp_path / "grid.yaml", "--workers", "1")
    done = run(*how, "--parquet", tmp_path / "rows.parquet")
    assert done.code == 0 and "4 runs" in done.out and "written to" in done.err, done.err
    import polars

    assert polars.read_parquet(tmp_path / "rows.parquet")["size"].to_list() == ["1KiB", "1KiB", "4KiB", "4KiB"]
    from tests.cli.documents import check

    assert len(check("sweep", run(*how, "--json").json())["rows"]) == 4


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--html", "x"), "--html is for a single run"),
        (("--what-if", "ar=on"), "--what-if is for a single run"),
        (("--parquet", "/nowhere/x"), ("there is no folder /nowhere")),
    ],
)
def test_options_of_one_run_do_not_go_with_a_sweep(tmp_path, more, said):
    (tmp_path / "tree.yaml").write_text("topology: {kind: fat-tree, radix: 4, levels: 2}\n")
    (tmp_path / "grid.yaml").write_text("seeds: 1\n")
    done = run(
        "simulate", tmp_path / "tree.yaml", "shift:1MB", "--sweep", tmp_path / "grid.yaml", "--workers", "1", *more
    )
    assert done.code == 2 and said in done.err and len(done.complaints) == 1 and not done.out


def test_the_line_of_a_mistake_in_the_file_is_named(tmp_path):
    (tmp_path / "grid.yaml").write_text("parameters:\n  size: [1KiB]\n  count: [[1]]\n")
    with pytest.raises(InputError, match=r"grid\.yaml:3: count: use a list"):
        softib.sweep("examples/small.yaml", WORK, tmp_path / "grid.yaml")
    assert run("simulate", "examples/small.yaml", WORK, "--workers", "2").code == 2


def test_without_joblib_one_line_says_what_to_install(tree, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(MissingLibrary, match=r"joblib is not installed; pip install .*\[sweep\]'$"):
        softib.sweep(tree, WORK, {"seeds": 2}, workers=2)


@pytest.mark.slow
def test_a_sweep_that_was_killed_goes_on(tmp_path):
    """SIGKILL while two processes work; the next call runs only what is missing."""
    pytest.importorskip("joblib")
    (tmp_path / "grid.yaml").write_text("parameters:\n  size: [64KiB, 256KiB, 1MiB]\n  layer: [packet]\nseeds: 12\n")
    journal = tmp_path / "out.parquet.rows"
    command = [
        sys.executable,
        "-m",
        "softib",
        "simulate",
        "examples/cluster.yaml",
        "permutation:1MB",
        "--sweep",
        str(tmp_path / "grid.yaml"),
        "--workers",
        "2",
        "--parquet",
        str(tmp_path / "out.parquet"),
    ]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 500
    while time.monotonic() < until and not (journal.exists() and journal.read_text().count("\n") >= 3):
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    kept = journal.read_text().count("\n")
    assert kept >= 3 and not (tmp_path / "out.parquet").exists()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and f"{kept} of 36 runs are there from before" in done.stderr, done.stderr
    whole = softib.sweep("examples/cluster.yaml", "permutation:1MB", tmp_path / "grid.yaml", workers=1)
    whole.to_parquet(tmp_path / "whole.parquet")
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.slow
def test_a_dask_cluster_of_two_workers_gives_the_same_bytes(tree, swept, tmp_path):
    pytest.importorskip("joblib")
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster:
        softib.sweep(tree, WORK, GRID, dask=cluster.scheduler_address, out=tmp_path / "dask.parquet")
    swept.to_parquet(tmp_path / "one.parquet")
    assert (tmp_path / "dask.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_one_line(tree):
    pytest.importorskip("joblib")
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with pytest.raises(InputError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9"):
        softib.sweep(tree, WORK, GRID, dask="tcp://127.0.0.1:9")


def test_checking_leaves_nothing(tmp_path):
    check_appendable(tmp_path / "new")
    assert not os.listdir(tmp_path)
    with pytest.raises(InputError, match="cannot write"):
        check_appendable(tmp_path / "no" / "where")
