"""Forty stories by an author who had not read the rules of ``softib why``: other fabrics, faults elsewhere at the same time, larger jobs.

Fourteen of them are on a healthy path: something else failed, and in six of those a fault is injected that no port of the job uses.
Change one only to play it, never to be answered.
"""

from __future__ import annotations

from bench.why_stories.kinds import Program, Story

__all__ = ["UNREAD"]

FIRST = 200
"""Number of the first story."""


def _pair(command: str, a: str, b: str, client: str | None = None) -> list[Program]:
    return [Program("server.log", a, command), Program("client.log", b, f"{client or command} ADDR-{a}", 1.0)]


def _bw(a: str, b: str, program: str = "ib_write_bw", extra: str = "", seconds: int = 10) -> list[Program]:
    return _pair(f"{program} -D {seconds} -F {extra}".strip(), a, b)


def _mpi(nodes: str, seconds: float = 12.0, env: str = "OMPI_MCA_pml=ucx", limit: int = 25) -> list[Program]:
    return [Program("job.log", nodes, f"mpi {limit} {env} {seconds}")]


def _h(*numbers: int) -> str:
    return ",".join(f"host-{n:04d}" for n in numbers)


def _healthy() -> list[Story]:
    """The fabric carried the job well."""

    def one(
        kind: str, fabric: str, programs: list[Program], cause: str, *acts: tuple[float, str], seconds: float = 30.0
    ) -> Story:
        return Story(0, kind, fabric, programs, list(acts), cause, "", seconds)

    verbs_key = _pair(f"verbs_errors serve ADDR-{_h(5)} key", _h(5), _h(12), "verbs_errors send")
    verbs_key[1].command = f"verbs_errors send ADDR-{_h(5)} key"
    verbs_idle = _pair(f"verbs_errors serve ADDR-{_h(9)} idle", _h(9), _h(2), "verbs_errors send")
    verbs_idle[1].command = f"verbs_errors send ADDR-{_h(9)} idle"
    return [
        one(
            "killed-and-flap-elsewhere",
            "tall",
            _mpi(_h(2, 5, 9, 14)),
            "process-died",
            (2.0, f"fault flap {_h(7)}[1] --period 3 --down 1 --count 3"),
            (6.0, "signal KILL rank 2"),
        ),
        one(
            "crash-and-port-down-elsewhere",
            "tall",
            _bw(_h(3), _h(16), "ib_send_bw"),
            "process-died",
            (2.0, f"fault link-down {_h(11)}[1]"),
            (5.0, "signal SEGV server.log"),
        ),
        one("stopped-of-six", "tall", _mpi(_h(2, 4, 6, 9, 11, 15), limit=22), "hang", (5.0, "signal STOP rank 4")),
        one(
            "out-of-memory",
            "deep",
            _bw(_h(4), _h(13), "ib_read_bw"),
            "process-died",
            (
                4.5,
                "note dmesg.log Out of memory: Killed process 41773 (ib_read_bw) total-vm:9931472kB, anon-rss:8123304kB, "
                "file-rss:1024kB, shmem-rss:0kB, UID:0 pgtables:16048kB oom_score_adj:0",
            ),
            (4.5, "signal KILL server.log"),
        ),
        one("no-receive", "tall", verbs_idle, "receiver-not-ready"),
        one(
            "bad-key-and-bit-errors-elsewhere",
            "tall",
            verbs_key,
            "application-error",
            (-1.0, f"fault ber {_h(8)}[1] 1e-2"),
        ),
        one(
            "memory-limit",
            "old",
            [Program("client.log", _h(6), "verbs_errors register")],
            "registration-limit",
            seconds=150.0,
        ),
        one(
            "gid-index-server",
            "tall",
            _pair("timeout 8 ibv_rc_pingpong -g 0", _h(2), _h(10), "ibv_rc_pingpong -g 301"),
            "gid-index",
        ),
        one("tcp-of-three", "tall", _mpi(_h(3, 8, 13), 3.0, "OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self"), "tcp-fallback"),
        one(
            "longer-than-posted",
            "old",
            _pair("ibv_rc_pingpong -s 1024", _h(3), _h(7), "ibv_rc_pingpong -s 32768"),
            "application-error",
        ),
        one(
            "well-and-core-cable-elsewhere",
            "tall",
            _bw(_h(2), _h(3), "ib_write_lat", seconds=4),
            "nothing",
            (1.0, "fault link-down core-1[4]"),
        ),
        one(
            "time-limit-of-server",
            "deep",
            _pair("timeout -s TERM 6 ib_write_bw -D 14 -F", _h(5), _h(15), "ib_write_bw -D 14 -F"),
            "process-died",
        ),
        one(
            "ucx-over-tcp",
            "tall",
            _pair(
                "env UCX_LOG_LEVEL=info UCX_TLS=tcp,self UCX_NET_DEVICES=all ucx_perftest -t tag_bw -n 200000 -s 4096",
                _h(6),
                _h(11),
            ),
            "tcp-fallback",
        ),
        one(
            "wrong-device",
            "old",
            _pair("ib_send_bw -D 4 -F", _h(4), _h(8), "ib_send_bw -D 4 -F -d mlx5_3"),
            "no-device",
        ),
    ]


def _cables() -> list[Story]:
    """A cable fails or errs."""

    def one(kind: str, fabric: str, programs: list[Program], cause: str, where: str, *acts: tuple[float, str]) -> Story:
        return Story(0, kind, fabric, programs, list(acts), cause, where)

    return [
        one(
            "top-cable-down",
            "tall",
            _bw(_h(2), _h(14), extra="-u 8"),
            "cable-down",
            "PATH-TOP",
            (3.0, "fault link-down PATH-TOP"),
        ),
        one(
            "old-cable-down",
            "old",
            _pair("ucx_perftest -t tag_bw -n 6000000 -s 4096", _h(5), _h(2)),
            "cable-down",
            f"{_h(5)}[1]",
            (4.0, f"fault link-down {_h(5)}[1]"),
        ),
        one(
            "one-of-six-down",
            "tall",
            _mpi(_h(3, 5, 8, 10, 12, 15)),
            "cable-down",
            f"{_h(12)}[1]",
            (6.0, f"fault link-down {_h(12)}[1]"),
        ),
        one(
            "uplink-down-and-flap-elsewhere",
            "deep",
            _bw(_h(2), _h(12), "ib_send_bw", "-u 8"),
            "cable-down",
            "PATH",
            (2.0, f"fault flap {_h(16)}[1] --period 4 --down 2 --count 2"),
            (4.0, "fault link-down PATH"),
        ),
        one(
            "cable-disabled-by-hand",
            "tall",
            _bw(_h(6), _h(13)),
            "cable-down",
            f"{_h(13)}[1]",
            (4.0, f"run {_h(4)} ibportstate PEER-{_h(13)} disable"),
        ),
        one(
            "long-flap",
            "tall",
            _bw(_h(4), _h(11), "ib_read_bw"),
            "flapping",
            f"{_h(11)}[1]",
            (3.0, f"fault flap {_h(11)}[1] --period 9 --down 6 --count 1"),
        ),
        one(
            "uplink-flaps-fast",
            "deep",
            _bw(_h(3), _h(10), extra="-u 8"),
            "flapping",
            "PATH",
            (3.0, "fault flap PATH --period 2 --down 1 --count 6"),
        ),
        one(
            "flap-under-mpi",
            "old",
            _mpi(_h(2, 4, 6, 8)),
            "flapping",
            f"{_h(6)}[1]",
            (5.0, f"fault flap {_h(6)}[1] --period 9 --down 6 --count 1"),
        ),
        one(
            "dirty-connector",
            "deep",
            _bw(_h(7), _h(14)),
            "bit-errors",
            f"{_h(14)}[1]",
            (3.0, f"fault attenuation {_h(14)}[1] 12"),
        ),
        one(
            "weak-uplink",
            "deep",
            _bw(_h(6), _h(16), "ib_send_bw"),
            "bit-errors",
            "PATH",
            (3.0, "fault weak-laser PATH 12"),
        ),
        one(
            "no-fec-errors",
            "old",
            _bw(_h(3), _h(6), "ib_send_bw"),
            "bit-errors",
            f"{_h(3)}[1]",
            (3.0, f"fault ber {_h(3)}[1] 3e-4"),
        ),
        one(
            "top-bit-errors",
            "tall",
            _bw(_h(4), _h(15), "ib_read_bw"),
            "bit-errors",
            "PATH-TOP",
            (3.0, "fault ber PATH-TOP 3e-2"),
        ),
        one(
            "third-rank-errors",
            "tall",
            _mpi(_h(2, 7, 10, 14)),
            "bit-errors",
            f"{_h(10)}[1]",
            (5.0, f"fault ber {_h(10)}[1] 2e-2"),
        ),
        one(
            "blocked-host",
            "tall",
            _pair("ibv_rc_pingpong -n 9000000 -s 2048", _h(8), _h(3)),
            "slow-receiver",
            f"{_h(3)}[1]",
            (3.5, f"fault slow-port {_h(3)}[1] 0"),
        ),
        one(
            "blocked-top-port",
            "tall",
            _bw(_h(2), _h(12)),
            "slow-receiver",
            "PATH-TOP",
            (3.0, "fault slow-port PATH-TOP 0"),
        ),
        one(
            "overrun-host",
            "deep",
            _bw(_h(9), _h(3), "ib_send_bw"),
            "slow-receiver",
            f"{_h(9)}[1]",
            (3.0, f"fault slow-port {_h(9)}[1] 0 --overrun"),
        ),
    ]


def _nodes() -> list[Story]:
    """A switch, a host or the configuration of the fabric."""

    def one(kind: str, fabric: str, programs: list[Program], cause: str, where: str, *acts: tuple[float, str]) -> Story:
        return Story(0, kind, fabric, programs, list(acts), cause, where)

    return [
        one(
            "tall-leaf-dead",
            "tall",
            _pair("ucx_perftest -t ucp_put_bw -n 6000000 -s 8", _h(7), _h(14)),
            "switch-dead",
            "leaf-7",
            (4.0, "fault switch-down leaf-7"),
        ),
        one(
            "tall-spine-dead",
            "tall",
            _bw(_h(6), _h(15), extra="-u 8"),
            "switch-dead",
            "PATH-SPINE",
            (3.0, "fault switch-down PATH-SPINE"),
        ),
        one(
            "core-dead",
            "tall",
            _bw(_h(3), _h(11), "ib_send_bw", "-u 8"),
            "switch-dead",
            "PATH-CORE",
            (3.0, "fault switch-down PATH-CORE"),
        ),
        one(
            "leaf-of-two-ranks-dead",
            "tall",
            _mpi(_h(3, 4, 7, 9, 12, 16)),
            "switch-dead",
            "leaf-2",
            (6.0, "fault switch-down leaf-2"),
        ),
        one(
            "host-without-power",
            "tall",
            _bw(_h(5), _h(9)),
            "host-dead",
            _h(9),
            (4.0, f"fault link-down {_h(9)}[1]"),
            (4.0, "signal STOP client.log"),
            (9.0, f"note slurm.log srun: error: Node failure on {_h(9)}"),
        ),
        one(
            "host-of-four-without-power",
            "deep",
            _mpi(_h(2, 6, 11, 13)),
            "host-dead",
            _h(11),
            (6.0, f"fault link-down {_h(11)}[1]"),
            (6.0, "signal STOP rank 2"),
            (11.0, f"note slurm.log srun: error: Node failure on {_h(11)}"),
        ),
        one(
            "disabled-before",
            "deep",
            _bw(_h(4), _h(8), seconds=4),
            "port-down",
            f"{_h(8)}[1]",
            (-1.0, f"run {_h(2)} ibportstate PEER-{_h(8)} disable"),
        ),
        one(
            "one-of-four-down-before",
            "tall",
            _mpi(_h(2, 5, 10, 15), 6.0),
            "port-down",
            f"{_h(15)}[1]",
            (-1.0, f"fault link-down {_h(15)}[1]"),
        ),
        one("other-tenant", "parts", _pair("ibv_rc_pingpong -n 4000", _h(7), _h(12)), "partition", ""),
        one("limited-both", "limited", _bw(_h(3), _h(6), "ib_read_bw"), "partition", ""),
    ]


def _all() -> list[Story]:
    stories = _healthy() + _cables() + _nodes()
    for number, story in enumerate(stories, FIRST):
        story.number = number
    return stories


UNREAD = _all()
"""In the order of their numbers."""
