"""The monitor's history: the counter increases of each interval, stored as Parquet files and queried with
DuckDB.

A directory contains ``rounds/``, with one file per round, and ``hours/``, with one file for all rounds of a full hour.
A file is written under a temporary name and renamed, so that a crash loses only one round. When the file of an hour is
complete, the files of its rounds are removed and no longer read. ``ports/`` contains the ports over time, and
``manager/`` the subnet manager's state in each round. Columns of a row: ``round_ns`` (end of the round), ``guid``,
``portnum``, ``begin_ns``, ``end_ns``, one column per counter (NULL if its increase is unknown), and ``level_…``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from softib.diags.managers.manager_health import ManagerRound
from softib.diags.observations import Observations, ObservedPorts
from softib.errors import InputError, MissingLibrary, UnreadableFile, os_reason
from softib.extras import install_command
from softib.monitor.history_tables import (
    interval_of,
    is_whole,
    manager_schema,
    not_in,
    ports_of_table,
    table_of,
    table_of_ports,
)
from softib.monitor.intervals import Interval, merged_ports, observations_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow

__all__ = ["History"]

HOUR_NS = 3600 * 10**9
LOCK = "writer.lock"
COMMON = 0.5
"""Two lists of ports are of one fabric if at least this share of the devices in the smaller list are also in the larger
one."""


class History:
    """The history in ``folder``. ``keep_days``: files older than this are removed at the beginning of each hour (0:
    never). Raises :class:`MissingLibrary` without pyarrow and DuckDB."""

    def __init__(self, folder: str | os.PathLike[str], keep_days: float = 30.0):
        try:
            import duckdb
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise MissingLibrary(f"the history needs pyarrow and duckdb: {install_command('monitor')}") from None
        del duckdb
        self.folder, self.keep_days = Path(folder), keep_days
        self._ports: ObservedPorts | None = None
        self._hour = -1
        self._lock: IO[str] | None = None

    # -- writing --

    def claim(self, ports: ObservedPorts) -> None:
        """Claim the directory for the fabric with these ``ports``: this process is then the only writer until
        :meth:`release` or its end.

        Raises :class:`InputError` if another process is the writer (every increase would be counted twice), or if the
        history is of another fabric. If the directory cannot be written, :meth:`append` reports that.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.folder / LOCK, "a")  # noqa: SIM115 (held as long as the history is written)
        except OSError:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise InputError(f"{self.folder}: another process writes its history here; use another directory") from None
        kept = self.topologies()
        if len(kept) and not _common(ports, self.ports_of(int(kept[-1]))):
            self.release()
            raise InputError(f"{self.folder}: this history is of another fabric; use another directory")

    def release(self) -> None:
        """Allow other processes to write to the directory."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def append(self, ports: ObservedPorts, interval: Interval) -> None:
        """Store one interval. Raises :class:`InputError` if the directory cannot be written."""
        try:
            for name in ("rounds", "hours", "ports"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            now = int(interval.end_ns.max(initial=0)) or time.time_ns()
            if self._ports is None or not _same_ports(ports, self._ports):
                self._write(table_of_ports(ports), self.folder / "ports" / f"{now:019d}.parquet")
            self._ports = ports
            self._write(table_of(interval, now), self.folder / "rounds" / f"{now:019d}.parquet")
            hour = now // HOUR_NS
            if hour != self._hour:
                self._hour = hour
                self.compact(now)
        except OSError as error:
            raise InputError(f"{self.folder}: the history cannot be written: {os_reason(error)}") from None

    def append_manager(self, one: ManagerRound) -> None:
        """Store the state of the subnet manager in one round in the day's file in ``manager/``. The file is small, and
        is rewritten each time. Raises :class:`InputError` if it cannot be written."""
        import pyarrow
        import pyarrow.parquet as parquet

        folder = self.folder / "manager"
        path = folder / f"{one.time_ns // (24 * HOUR_NS):07d}.parquet"
        row = pyarrow.Table.from_pylist([asdict(one)], schema=manager_schema())
        try:
            folder.mkdir(parents=True, exist_ok=True)
            rows = [parquet.read_table(path), row] if path.exists() else [row]
            self._write(pyarrow.concat_tables(rows), path)
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise InputError(f"{folder}: the history cannot be written: {error}") from None

    def manager_rounds(self) -> list[ManagerRound]:
        """Return the states of the subnet manager by round, oldest first; empty if none was stored."""
        import pyarrow
        import pyarrow.parquet as parquet

        rows: list[dict[str, Any]] = []
        for path in sorted((self.folder / "manager").glob("*.parquet")):
            with contextlib.suppress(pyarrow.ArrowInvalid, OSError):
                rows += parquet.read_table(path).to_pylist()
        return [ManagerRound(**row) for row in rows]

    def _write(self, table: pyarrow.Table, path: Path) -> None:
        """Write a file so that it is always either complete or absent: write it under another name, flush it to the
        disk, and rename it."""
        import pyarrow.parquet as parquet

        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            parquet.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)

    def compact(self, now_ns: int) -> None:
        """Merge the rounds of past hours, and remove files older than :attr:`keep_days`."""
        import pyarrow
        import pyarrow.parquet as parquet

        for part in self.folder.glob("*/*.part"):
            part.unlink(missing_ok=True)
        by_hour: dict[int, list[Path]] = {}
        for path in self._stored("rounds"):
            by_hour.setdefault(int(path.stem) // HOUR_NS, []).append(path)
        for hour, parts in by_hour.items():
            whole = self.folder / "hours" / f"{hour:010d}.parquet"
            if hour >= now_ns // HOUR_NS:
                continue
            new = not_in(whole, parts)
            if new:
                tables = [parquet.read_table(p) for p in ([whole] if is_whole(whole) else []) + new]
                self._write(pyarrow.concat_tables(tables, promote_options="default"), whole)
            for path in parts:
                path.unlink(missing_ok=True)
        if self.keep_days:
            oldest = now_ns - int(self.keep_days * 24 * HOUR_NS)
            for path in (self.folder / "hours").glob("*.parquet"):
                if (int(path.stem) + 1) * HOUR_NS < oldest:
                    path.unlink(missing_ok=True)
            for path in (self.folder / "manager").glob("*.parquet"):
                if (int(path.stem) + 1) * 24 * HOUR_NS < oldest:
                    path.unlink(missing_ok=True)
            stale = [p for p in sorted((self.folder / "ports").glob("*.parquet")) if int(p.stem) < oldest]
            for path in stale[:-1]:  # the newest of the old files still describes the ports of later rounds
                path.unlink(missing_ok=True)

    # -- reading --

    @property
    def size_bytes(self) -> int:
        """The size of the history's files in bytes."""
        return sum(p.stat().st_size for p in self.folder.glob("*/*.parquet"))

    def _stored(self, kind: str) -> list[Path]:
        return [p for p in sorted((self.folder / kind).glob("*.parquet")) if is_whole(p)]

    def cut_files(self) -> str:
        """Return a sentence about truncated files, which are left out; "" if there are none."""
        cut = [p for p in sorted(self.folder.glob("*/*.parquet")) if not is_whole(p)]
        return f"{cut[0]}: cut off; left out{f', and {len(cut) - 1:,} more' if len(cut) > 1 else ''}" if cut else ""

    def files(self) -> list[Path]:
        """Return every valid file with rounds, oldest first."""
        hours = self._stored("hours")
        by_hour: dict[int, list[Path]] = {}
        for path in self._stored("rounds"):
            by_hour.setdefault(int(path.stem) // HOUR_NS, []).append(path)
        parts = (not_in(self.folder / "hours" / f"{hour:010d}.parquet", some) for hour, some in by_hour.items())
        return [*hours, *(path for some in parts for path in some)]

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a DuckDB connection with the views ``intervals`` and ``ports``. Raises
        :class:`UnreadableFile` for a directory without history."""
        import duckdb

        files, ports = [str(p) for p in self.files()], [str(p) for p in self._stored("ports")]
        if not files or not ports:
            raise UnreadableFile(
                f"{self.folder}: contains no history; record one with 'softib exporter SOURCE --history {self.folder}'"
            )
        connection = duckdb.connect()
        try:
            connection.execute(
                f"create view intervals as select * from read_parquet({_quoted(files)}, union_by_name=true)"
            )
            managers = [str(p) for p in self._stored("manager")]
            if managers:
                connection.execute(
                    f"create view manager as select * from read_parquet({_quoted(managers)}, union_by_name=true)"
                )
            connection.execute(f"create view ports as select * from read_parquet({_quoted(ports)}, union_by_name=true)")
        except duckdb.Error as error:
            raise UnreadableFile(f"{self.folder}: {str(error).splitlines()[0]}") from None
        return connection

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query over ``intervals`` and ``ports``. Raises :class:`InputError` for a
        query that DuckDB rejects."""
        import duckdb

        try:
            return self.connect().execute(sql).fetchall()
        except duckdb.Error as error:
            raise InputError(f"history: {str(error).splitlines()[0]}") from None

    def observations(self, since_ns: int = 0, until_ns: int = 2**63 - 1) -> Observations:
        """Return the intervals whose rounds ended between two clock times."""
        connection = self.connect()
        table = connection.sql(
            "select * from intervals where round_ns >= ? and round_ns <= ? order by round_ns, guid, portnum",
            params=[since_ns, until_ns],
        ).to_arrow_table()
        if table is None or not table.num_rows:
            raise UnreadableFile(f"{self.folder}: no round of that time in it")
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        rounds = columns["round_ns"].to_numpy(zero_copy_only=False)
        cuts = np.flatnonzero(np.diff(rounds)) + 1
        parts = [slice(int(a), int(b)) for a, b in zip([0, *cuts.tolist()], [*cuts.tolist(), len(rounds)], strict=True)]
        intervals = [interval_of(columns, part) for part in parts]
        return observations_of(self._all_ports(), intervals)

    def last_rounds(self, rows: int, since_ns: int = 0, until_ns: int = 2**63 - 1) -> tuple[int, int, int]:
        """Select the last rounds between two times: as many as fit into ``rows`` rows, but at least one. Return the
        clock time of the first of them, their number, and the number of all rounds between the two times."""
        columns = (
            self.connect()
            .execute(
                "select round_ns, count(*) n from intervals where round_ns >= ? and round_ns <= ? group by round_ns "
                "order by round_ns",
                [since_ns, until_ns],
            )
            .fetchnumpy()
        )
        times, n = np.asarray(columns["round_ns"], np.int64), np.asarray(columns["n"], np.int64)
        if not len(times):
            raise UnreadableFile(f"{self.folder}: no round of that time in it")
        fit = max(1, int((np.cumsum(n[::-1]) <= rows).sum()))
        return int(times[-fit]), fit, len(times)

    def times(self) -> np.ndarray:
        """Return the clock times at which the rounds ended, oldest first (int64[k] in nanoseconds)."""
        rows = self.connect().execute("select distinct round_ns from intervals order by round_ns").fetchnumpy()
        return np.asarray(rows["round_ns"], np.int64)

    def of_port(self, guid: int, portnum: int, since_ns: int = 0, until_ns: int = 2**63 - 1) -> Interval:
        """Return one port's history as an :class:`Interval` whose rows are the intervals of this port, oldest first. It
        has no rows if there are no intervals."""
        table = (
            self.connect()
            .sql(
                "select * from intervals where guid = ? and portnum = ? and round_ns >= ? and round_ns <= ? order "
                "by round_ns",
                params=[guid, portnum, since_ns, until_ns],
            )
            .to_arrow_table()
        )
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        return interval_of(columns, slice(0, table.num_rows))

    def topologies(self) -> np.ndarray:
        """Return the clock times from which the stored states of ports and cables apply, oldest first (int64[k] in
        nanoseconds). A new state is stored after each change."""
        return np.array([int(p.stem) for p in self._stored("ports")], np.int64)

    def ports_of(self, since_ns: int) -> ObservedPorts:
        """Return the ports and cables stored at ``since_ns`` (one of :meth:`topologies`). Raises
        :class:`UnreadableFile` if their file has been removed in the meantime."""
        import pyarrow
        import pyarrow.parquet as parquet

        path = self.folder / "ports" / f"{since_ns:019d}.parquet"
        try:
            return ports_of_table(parquet.read_table(path))
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise UnreadableFile(f"{path}: {error}") from None

    def _all_ports(self) -> ObservedPorts:
        import pyarrow.parquet as parquet

        tables = [parquet.read_table(p) for p in sorted((self.folder / "ports").glob("*.parquet"))]
        ports = ports_of_table(tables[0])
        for table in tables[1:]:
            ports = merged_ports(ports, ports_of_table(table))
        return ports


def _common(a: ObservedPorts, b: ObservedPorts) -> bool:
    """Return whether at least half of the devices of the smaller list are in both lists. A fabric that has grown or
    lost nodes is thus still the same fabric."""
    old, new = np.unique(a.node_guid), np.unique(b.node_guid)
    return len(np.intersect1d(old, new)) >= COMMON * min(len(old), len(new))


def _same_ports(a: ObservedPorts, b: ObservedPorts) -> bool:
    """Return whether ``a`` and ``b`` have the same ports, names, LIDs, cables, rates and texts."""
    return a is b or (
        len(a) == len(b)
        and a.node == b.node
        and set(a.text) == set(b.text)
        and all(
            bool(np.array_equal(getattr(a, n), getattr(b, n)))
            for n in ("node_guid", "portnum", "peer", "lid", "rate_gbps")
        )
        and all(bool((a.text[n] == b.text[n]).all()) for n in a.text)
    )


def _quoted(paths: Sequence[str]) -> str:
    return "[" + ", ".join("'" + p.replace("'", "''") + "'" for p in paths) + "]"
