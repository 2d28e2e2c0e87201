"""Whether a program ended normally. Oracle: what programs printed here that ended, or were killed before they ended."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import softib
from softib.job_logs.read import read_logs

PINGPONG = """\
  local address:  LID 0x0021, QPN 0x000039, PSN 0xbdfa6b, GID ::
  remote address: LID 0x001a, QPN 0x000038, PSN 0xee5221, GID ::
"""
PERFTEST = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
 local address: LID 0x21 QPN 0x0029 PSN 0xf40b7f RKey 0x00401b VAddr 0x007fd8066d1000
 remote address: LID 0x1c QPN 0x0028 PSN 0x63ab01 RKey 0x00011a VAddr 0x007ff2f86f1000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
"""
UCX = """\
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
[thread 0]            512721      0.025     1.953     1.953     2000.46    2000.46      512118      512118
"""
ENDS = {
    PINGPONG: "24576000000 bytes in 13.09 seconds = 15022.93 Mbit/sec\n3000000 iters in 13.09 seconds = 4.36 usec/iter\n",
    PERFTEST: " 65536      449200           0.00               4668.52\t\t   0.074696\n" + "-" * 87 + "\n",
    UCX: "Final:               6000000      0.025     1.805     3.585     2164.45    1089.66      554100      278954\n",
}


def written(folder, *texts):
    paths = [folder / f"{i}.log" for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


@pytest.mark.parametrize("text", ENDS, ids=("pingpong", "perftest", "ucx_perftest"))
def test_a_program_that_is_killed_has_no_result_and_one_that_ends_has_one(tmp_path, text):
    killed = read_logs(written(tmp_path, text))
    assert [e.symptom for e in killed.events] == ["no-result"] and killed.completed == 0
    ended = read_logs(written(tmp_path, text + ENDS[text]))
    assert not ended.events and ended.completed == 1
    again = read_logs(written(tmp_path, text + ENDS[text] + text))
    assert [e.symptom for e in again.events] == ["no-result"] and again.completed == 1


def test_an_error_is_told_instead_of_the_missing_result(tmp_path):
    failed = PERFTEST + " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x0\n"
    assert [e.symptom for e in read_logs(written(tmp_path, failed)).events] == ["retry-exceeded"]


def test_two_programs_in_one_log_of_which_one_ended(tmp_path):
    log = read_logs(written(tmp_path, PERFTEST + PERFTEST + ENDS[PERFTEST]))
    assert [e.symptom for e in log.events] == ["no-result"] and log.completed == 1
    labelled = "".join(f"node-1: {line}\n" for line in PERFTEST.splitlines())
    labelled += "".join(f"node-2: {line}\n" for line in (PERFTEST + ENDS[PERFTEST]).splitlines())
    log = read_logs(written(tmp_path, labelled))
    assert [(e.symptom, e.local.host) for e in log.events] == [("no-result", "")] or log.events[0].local.lid == 0x21


def test_a_silent_log_is_no_sure_sign_of_a_job_that_ended_well(tmp_path):
    """A rank that is killed, or stopped, prints nothing either."""
    silent = softib.why(*written(tmp_path, "rank 0 of 4\nrank 1 of 4\n"))
    assert silent.causes[0].code == "nothing" and silent.causes[0].probability < 0.8
    unfinished = softib.why(*written(tmp_path, PINGPONG))
    assert unfinished.symptom == "no-result" and unfinished.causes[0].code != "nothing"
    assert next(c.probability for c in unfinished.causes if c.code == "nothing") < 0.1
    ended = softib.why(*written(tmp_path, PINGPONG + ENDS[PINGPONG]))
    assert ended.symptom == "completed" and ended.causes[0].code == "nothing"


def test_the_lines_are_those_of_the_installed_programs():
    for program, text in (("ib_write_bw", "#bytes"), ("ibv_rc_pingpong", "Mbit/sec"), ("ucx_perftest", "Final:")):
        found = subprocess.run(["which", program], capture_output=True, text=True)
        if found.returncode:
            pytest.skip(f"{program} is not installed")
        assert text.encode() in Path(found.stdout.strip()).read_bytes(), program
