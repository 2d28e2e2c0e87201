"""Lines of several processes in one log, each behind a launcher's label. Oracle: the same lines in a file for each process."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import pytest

from softib.job_logs.read import read_logs

LOST = """\
 local address: LID 0x{local:02x} QPN 0x004d PSN 0x8cb909
 remote address: LID 0x{remote:02x} QPN 0x004c PSN 0xea018d
---------------------------------------------------------------------------------------
 Completion with error at client
 Failed status 12: wr_id 0 syndrom 0x0
"""
WELL = """\
  local address:  LID 0x{local:04x}, QPN 0x0000cd, PSN 0x31002b, GID ::
  remote address: LID 0x{remote:04x}, QPN 0x0000cc, PSN 0x6ba0ce, GID ::
8192000 bytes in 0.01 seconds = 9000.00 Mbit/sec
"""
OPENIB = """\
The InfiniBand retry count between two MPI processes has been exceeded.

  Local host:   node-{local}
  Local device: mlx5_0
  Peer host:    node-{remote}
"""
LABELS = {
    "pdsh": lambda n: f"node-{n}: ",
    "srun --label": lambda n: f"{n}: ",
    "mpirun --tag-output": lambda n: f"[1,{n}]<stdout>:",
    "torchrun": lambda n: f"[rank{n}]: ",
}


def written(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_text("".join(line + "\n" for line in lines))
    return path


def facts(log, named):
    """What the log says of each error; without the hosts that only a label names."""
    return sorted(
        (e.symptom, e.local.lid, e.remote.lid, *((e.local.host, e.remote.host) if named else ())) for e in log.events
    )


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("ends", [((3, 9), (17, 21)), ((3, 9), (9, 3)), ((11, 12), (3, 9), (40, 41))])
def test_labelled_lines_in_turn_say_what_the_processes_say_alone(tmp_path, label, ends):
    jobs = []
    for n, (local, remote) in enumerate(ends):
        text = (LOST, WELL, OPENIB)[n % 3]
        jobs.append(text.format(local=local, remote=remote).splitlines())
    alone = read_logs([written(tmp_path, f"{n}.log", lines) for n, lines in enumerate(jobs)])
    labelled = [[LABELS[label](n) + line for line in lines] for n, lines in enumerate(jobs)]
    mixed = [line for row in zip_longest(*labelled) for line in row if line is not None]
    together = read_logs([written(tmp_path, "job.log", mixed)])
    assert facts(alone, False) == facts(together, False) != []
    assert sorted(map(str, alone.pairs)) == sorted(map(str, together.pairs))


def test_the_label_names_the_host_of_an_error_without_ends(tmp_path):
    lines = ["node-7: IB device mlx5_4 not found", "node-8: IB device mlx5_4 not found"]
    events = read_logs([written(tmp_path, "job.log", lines)]).events
    assert {e.local.host for e in events} == {"node-7", "node-8"}


@pytest.mark.parametrize(
    "line",
    [
        "srun: error: node-3: task 0: Killed",
        "bash: line 1: 4711 Killed  ./train",
        "12:30:01 Failed status 12: wr_id 0 syndrom 0x0",
    ],
)
def test_programs_and_times_in_front_of_a_line_are_no_labels(tmp_path, line):
    for event in read_logs([written(tmp_path, "job.log", [line])]).events:
        assert event.local.host in ("", "node-3")


def test_a_long_block_is_searched_like_its_lines(tmp_path):
    """Long blocks are searched for all literals at once; bytes beyond ASCII and lines of many literals move no line."""
    lines = [f"шаг {n}: loss 1.25 \N{SNOWMAN} error, Killed not, Failed st" for n in range(4000)]
    marked = {7: LOST, 1999: WELL, 3990: OPENIB}
    for at, text in marked.items():
        lines[at : at + 1] = text.format(local=3, remote=9).splitlines()
    every = read_logs([written(tmp_path, "job.log", lines)])
    short = [
        read_logs([written(tmp_path, "one.log", text.format(local=3, remote=9).splitlines())])
        for text in marked.values()
    ]
    assert [e.symptom for e in every.events] == [e.symptom for one in short for e in one.events] != []
    first = next(e for e in every.events if "Failed status" in e.text)
    assert lines[first.line - 1] == first.text and every.lines == len(lines)


def printed(ends, order):
    """perftest's lines of programs with these (local, remote) LIDs, one line of the program of each number in ``order``."""
    lines = [
        iter(
            [
                f" local address: LID 0x{a:02x} QPN 0x004d PSN 0x8cb909",
                f" remote address: LID 0x{b:02x} QPN 0x4c PSN 0x1",
            ]
        )
        for a, b in ends
    ]
    return [next(lines[n]) for n in order] + [" Failed status 12: wr_id 0 syndrom 0x81"]


@pytest.mark.parametrize(
    ("ends", "order", "pairs"),
    [
        (((3, 9), (17, 21)), (0, 1, 0, 1), {(3, 9), (3, 21), (17, 9), (17, 21)}),
        (((3, 9), (17, 21)), (0, 1, 1, 0), {(3, 9), (3, 21), (17, 9), (17, 21)}),
        (((3, 9), (17, 21)), (0, 0, 1, 1), {(3, 9), (17, 21)}),
        (((3, 9), (9, 3)), (0, 1, 0, 1), {(3, 9), (9, 3)}),
        (((3, 9), (3, 9)), (0, 1, 0, 1), {(3, 9)}),
    ],
)
def test_lines_of_two_programs_without_labels_pair_no_ends_that_may_not_belong_together(tmp_path, ends, order, pairs):
    """The true pairs are among those of the log; an error gets ends only if the log has one pair."""
    log = read_logs([written(tmp_path, "job.log", printed(ends, order))])
    assert {(a.lid, b.lid) for a, b in log.pairs} == pairs >= set(ends)
    assert any("mixed" in p for p in log.problems) == (len(pairs) > 2)
    (error,) = log.events
    assert bool(error.remote) == (len(pairs) == 1)
