"""Record the messages of a program: the folder to which its threads write, and the schedule made from it."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING

from softib.api.progress import Notice
from softib.errors import InputError
from softib.plural import counted
from softib.whole_files import write_file

if TYPE_CHECKING:
    from softib.sim.recorded_events import RecordedThread

__all__ = ["Recording", "recording_to"]

SUFFIXES = (".goal", ".bin")
VARIABLE = "SOFTIB_RECORD"
AWAY_NS, AWAY_SHARE = 200_000_000, 0.1
"""A note is printed if a rank was without a processor for longer than both of these: ns (more than launchers need to
start), and a share of the recording."""


@dataclass(frozen=True)
class Recording:
    """A recording to ``path`` of ``ranks`` concurrent calls of ``softib run`` (1: only this one). This call is rank
    ``rank``; its threads write to ``folder``."""

    path: Path
    folder: Path
    rank: int
    ranks: int

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the program."""
        from softib.live.launch.tuning import RANK_VARIABLES

        return {VARIABLE: str(self.folder), "SOFTIB_RECORD_RANK_FROM": ",".join(name for name, _ in RANK_VARIABLES)}

    def close(self, notice: Notice, code: int = 0) -> None:
        """End the recording of this program, which ended with ``code`` (128 + signal). The last rank writes the
        schedule. The last rank is the last of those that record here, if some ranks of the job do not record, or record
        elsewhere. A rank that fails also writes the schedule, because its launcher then ends the other ranks. Raises
        :class:`InputError` if it cannot be written."""
        last = True
        try:
            with (self.folder / "lock").open("w") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                (self.folder / f"{self.rank}.done").touch()
                done, began = (len(list(self.folder.glob(f"*.{ending}"))) for ending in ("done", "began"))
                last, failed = done >= self.ranks, self.folder / "failed"
                if (last or code or done == began) and not (code and failed.exists()):
                    if code:
                        failed.touch()
                    few = (
                        ""
                        if last or code
                        else f"; {done} of the {counted(self.ranks, 'rank')} of this job record to it"
                    )
                    notice(_write(self.path, self.folder) + few + self._failure(code))
        finally:
            if last:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _failure(self, code: int) -> str:
        """Return the message about a failed program."""
        if not code:
            return ""
        who = f"rank {self.rank} of {self.ranks}" if self.ranks > 1 else "the program"
        how = (
            f"was ended by {Signals(code - 128).name}"
            if code - 128 in set(Signals)
            else f"failed with exit code {code}"
        )
        return f"; {who} {how}: what {'all ranks' if self.ranks > 1 else 'it'} had done until then"


def _remove_dead(target: Path) -> None:
    """Remove leftovers of recordings to ``target`` whose launcher or program was killed."""
    from softib.live.proc import has_ended

    for left in target.absolute().parent.glob(f"{glob.escape(target.name)}.*.parts"):
        number = left.name.removesuffix(".parts").rpartition(".")[2]
        if number.isdecimal() and has_ended(int(number)):
            shutil.rmtree(left, ignore_errors=True)


def recording_to(path: str | os.PathLike[str]) -> Recording:
    """Begin a recording to ``path`` (``.goal`` text, ``.bin`` binary). Ranks started by
    one launcher record together.

    Raises :class:`InputError` for another suffix, for a folder that cannot be written, or inside another recording.
    """
    from softib.live.launch.tuning import job_rank

    target = Path(path)
    if target.suffix not in SUFFIXES:
        raise InputError(f"{target}: the suffix of a recording must be .goal (text) or .bin (binary)")
    if os.environ.get(VARIABLE):
        raise InputError(f"{target}: an outer softib run already records this program; leave out one --record")
    _remove_dead(target)
    job = job_rank(os.environ)
    together = job is not None and job.size > 1
    number = os.getppid() if together else os.getpid()
    folder = target.with_name(f"{target.name}.{number}.parts").absolute()
    try:
        folder.mkdir(exist_ok=together)
    except OSError as error:
        raise InputError(f"{folder}: cannot create the folder: {error.strerror}") from None
    rank, ranks = (job.rank, job.size) if job is not None and together else (0, 1)
    (folder / f"{rank}.began").touch()
    return Recording(target, folder, rank, ranks)


def _write(path: Path, folder: Path) -> str:
    """Write the schedule of the records in ``folder``; return a line about it."""
    from softib.live.recording import collective_names, threads_in
    from softib.workloads.traces.goal import write_goal
    from softib.workloads.traces.goal_binary import write_binary
    from softib.workloads.traces.recorded import recorded_schedule

    threads = threads_in(folder)
    program = recorded_schedule(str(path), threads, collective_names())
    s = program.schedule
    write_file(
        path,
        lambda part: part.write_bytes(
            write_binary(s) if path.suffix == ".bin" else write_goal(s, program.notes).encode()
        ),
    )
    left = [
        f"{n:,} {note}"
        for n, note in (
            (program.unknown, "to queue pairs that were not recorded"),
            (program.local, "of a rank to itself"),
        )
        if n
    ]
    rest = f"; left out: {', '.join(left)}" if left else ""
    processors = os.cpu_count() or 1  # all processors of the machine: a launcher may have bound each rank to one
    if s.ranks > processors:
        rest += f"; they shared {processors} processors here, and do so in trace:{path},processors={processors}"
    return (
        f"{path}: {counted(program.messages, 'message')} of {counted(s.ranks, 'rank')}, {s.octets:,} "
        f"bytes{rest}{_away(threads)}"
    )


def _away(threads: list[RecordedThread]) -> str:
    """Return a message about the thread that spent most time without a processor before its posts. The schedule
    contains this time neither as messages nor as computation."""
    most = max(threads, key=lambda t: t.away)
    span = int(most.ns[-1] - most.ns[0])
    if most.away < max(AWAY_NS, AWAY_SHARE * span):
        return ""
    who = "a rank" if most.rank is None else f"rank {most.rank}"
    return (
        f"; not in it: {most.away / 1e9:.1f} s in which {who} slept, or waited for other threads, files, GPUs, "
        f"sockets or a processor"
    )
