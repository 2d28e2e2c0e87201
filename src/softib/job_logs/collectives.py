"""The readers for lines of NCCL and PyTorch."""

from __future__ import annotations

from softib.job_logs.patterns import Reader, pattern

__all__ = ["NCCL", "PYTORCH"]

_HOST = r"(?:(?<![\w.-])(?!20\d\d-\d\d-)(?P<host>(?=[\w.-]*[A-Za-z.])[\w.-]+):\d+:\d+ \[\w+\]|\bNCCL (?:WARN|INFO)\b)"
"""NCCL's ``host:pid:tid [device]``, after any label or time that a launcher writes; or only ``NCCL WARN``."""
_ENDS = (
    r"(?:.*?local ?Gid ?(?P<gid>[0-9a-fA-F:.]+))?(?:.*?remote ?Gids? ?(?P<rgid>[0-9a-fA-F:.]+))?"
    r"(?:.*?(?:hca|dev) (?P<dev>[\w-]+(?::\d+)?))?"
)

NCCL = Reader(
    "NCCL",
    (
        # NCCL 2.12 and later print the status as a number; some versions print its name in front of the number
        pattern(
            "Got completion",
            rf"{_HOST}.*Got completion (?:from peer (?P<rip>\S+) )?with (?:status=(?:\w+\()?|error )(?P<status>\d+)"
            rf"(?:.*?vendor[_ ]err=? ?(?P<detail>\d+))?{_ENDS}",
        ),
        pattern("Timeout waiting for RX", rf"{_HOST}.*Timeout waiting for RX", "receive-timeout"),
        pattern(
            "ibv_modify_qp",
            rf"{_HOST}.*ibv_modify_qp failed with (?:error )?(?P<detail>(?:\d+ )?(?:Network is unreachable|"
            rf"No such device|Connection timed out|No route to host))(?:.*?on dev (?P<dev>[\w-]+(?::\d+)?))?"
            rf"(?:.*?local GID (?:index \d+, local GID )?(?P<gid>[0-9a-fA-F:.]+))?"
            rf"(?:.*?remote GID (?P<rgid>[0-9a-fA-F:.]+))?",
            "address-unresolved",
        ),
        pattern(
            "ibv_modify_qp",
            rf"{_HOST}.*ibv_modify_qp failed with.*?(?:on dev (?P<dev>[\w-]+(?::\d+)?))?(?:.*?local GID (?:index \d+, "
            rf"local GID )?(?P<gid>[0-9a-fA-F:.]+))?(?:.*?remote GID (?P<rgid>[0-9a-fA-F:.]+))?",
            "connect-failed",
        ),
        pattern("ibv_reg_mr", rf"{_HOST}.*ibv_reg_mr\w* failed", "registration-failed"),
        pattern("reg_dmabuf_mr", rf"{_HOST}.*ibv_reg_dmabuf_mr failed", "registration-failed"),
        pattern("No device found", rf"{_HOST}.*NET/IB : No device found", "no-device"),
        pattern("NET/Socket : Using", rf"{_HOST}.*NCCL INFO NET/Socket : Using \[0\](?P<detail>\S+)", "tcp-used"),
        pattern("Using network Socket", rf"{_HOST}.*Using network (?P<detail>Socket)", "tcp-used"),
        pattern(
            "Got async event", rf"{_HOST}.*?(?P<dev>[\w-]+:\d+) Got (?:async|fatal) event : port error", "link-down"
        ),
        pattern("Got async", rf"{_HOST}.*?(?P<dev>[\w-]+:\d+) Got async (?:fatal )?event : .*fatal", "device-fatal"),
        pattern(
            "Connection closed by remote peer", rf"{_HOST}.*Connection closed by remote peer (?P<rip>\S+)", "peer-lost"
        ),
        pattern("remote process exited or there", r"remote process exited or there was a network error", "peer-lost"),
        # nccl-tests: the header of the results, and the line below them
        pattern("busbw", r"^# +size +count +type .*\bbusbw", starts=True),
        pattern("Avg bus bandwidth", r"^# Avg bus bandwidth", ends=1),
        pattern("Cuda failure", rf"{_HOST}.*Cuda failure(?: \d+)? '(?P<detail>[^']*)'", "gpu-fault"),
    ),
)

PYTORCH = Reader(
    "PyTorch",
    (
        pattern(
            "Watchdog caught collective operation timeout",
            r"\[Rank (?P<rank>\d+)\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<seq>\d+), "
            r"OpType=(?P<detail>\w+)",
            "collective-timeout",
        ),
        pattern(
            "last enqueued",
            r"Rank (?P<rank>\d+)\] .*?last enqueued(?: NCCL)? work: (?P<begun>\d+), last completed(?: NCCL)? work: "
            r"(?P<ended>\d+)",
            "collective-timeout",
        ),
        pattern("Timed out waiting", r"Timed out waiting \d+ms for (?:recv|send) operation", "collective-timeout"),
        pattern("Connection closed by peer", r"Connection closed by peer \[(?P<detail>[^\]]*)\]", "peer-lost"),
        pattern("Signal ", r"Signal \d+ \((?P<detail>SIG[A-Z]+)\) received by PID", "process-died"),
        pattern("exitcode", r"exitcode *: -(?P<detail>\d+)", "process-died"),
        pattern("Traceback (most recent call last)", r"Traceback \(most recent call last\)", "aborted"),
        pattern("CUDA error", r"CUDA error: (?P<detail>[^\n]{1,80})", "gpu-fault"),
    ),
)
