"""Intervals kept as Parquet files, and asked with DuckDB.

A directory holds ``rounds/`` (one file a round, written beside and renamed, so a crash in the middle of writing loses that round alone) and ``hours/`` (the rounds of a full hour in one file, of
which the parts are removed once it is complete; a part whose hour stands already is not read). ``ports/`` has the ports as they were at a time, ``manager/`` what rounds showed of the subnet manager. Columns of a row: ``round_ns`` (end of the round), ``guid``, ``portnum``,
``begin_ns``, ``end_ns``, one a counter (NULL where its increase is not known), and ``level_…``.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.diags.manager_health import ManagerRound
from softib.diags.observations import Observations, ObservedPorts
from softib.errors import InputError, MissingLibrary, UnreadableFile
from softib.monitor.increase import Interval
from softib.monitor.series import merged_ports, observations_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow

__all__ = ["History"]

HOUR_NS = 3600 * 10**9
LEVEL = "level_"
TEXT = "text_"


class History:
    """What is kept in ``folder``. ``keep_days``: older files are removed at each new hour (0: never). Raises :class:`MissingLibrary` without pyarrow and DuckDB."""

    def __init__(self, folder: str | os.PathLike[str], keep_days: float = 30.0):
        try:
            import duckdb
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise MissingLibrary("the history needs pyarrow and duckdb: pip install 'softib[monitor]'") from None
        del duckdb
        self.folder, self.keep_days = Path(folder), keep_days
        self._ports: ObservedPorts | None = None
        self._hour = -1

    # -- writing --

    def append(self, ports: ObservedPorts, interval: Interval) -> None:
        """Keep one interval. Raises :class:`InputError` where the directory cannot be written."""
        try:
            for name in ("rounds", "hours", "ports"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            now = int(interval.end_ns.max(initial=0)) or time.time_ns()
            if self._ports is None or not _same_ports(ports, self._ports):
                self._write(_table_of_ports(ports), self.folder / "ports" / f"{now:019d}.parquet")
            self._ports = ports
            self._write(_table_of(interval, now), self.folder / "rounds" / f"{now:019d}.parquet")
            hour = now // HOUR_NS
            if hour != self._hour:
                self._hour = hour
                self.compact(now)
        except OSError as error:
            raise InputError(f"{self.folder}: the history cannot be written: {error.strerror or error}") from None

    def append_manager(self, one: ManagerRound) -> None:
        """Keep what a round showed of the subnet manager, in ``manager/``, a file a day (written anew: it is small). Raises :class:`InputError` where it cannot be written."""
        import pyarrow
        import pyarrow.parquet as parquet

        folder = self.folder / "manager"
        path = folder / f"{one.time_ns // (24 * HOUR_NS):07d}.parquet"
        row = pyarrow.Table.from_pylist([asdict(one)], schema=_manager_schema())
        try:
            folder.mkdir(parents=True, exist_ok=True)
            rows = [parquet.read_table(path), row] if path.exists() else [row]
            self._write(pyarrow.concat_tables(rows), path)
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise InputError(f"{folder}: the history cannot be written: {error}") from None

    def manager_rounds(self) -> list[ManagerRound]:
        """What rounds showed of the subnet manager, oldest first; none where nothing of it was kept."""
        import pyarrow
        import pyarrow.parquet as parquet

        rows: list[dict[str, Any]] = []
        for path in sorted((self.folder / "manager").glob("*.parquet")):
            with contextlib.suppress(pyarrow.ArrowInvalid, OSError):
                rows += parquet.read_table(path).to_pylist()
        return [ManagerRound(**row) for row in rows]

    def _write(self, table: pyarrow.Table, path: Path) -> None:
        """Whole or not at all: written under another name, flushed to the disk, renamed."""
        import pyarrow.parquet as parquet

        part = path.with_suffix(".part")
        with open(part, "wb") as file:
            parquet.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)

    def compact(self, now_ns: int) -> None:
        """Join the rounds of hours that are over, and remove what is older than :attr:`keep_days`."""
        import pyarrow
        import pyarrow.parquet as parquet

        for part in self.folder.glob("*/*.part"):
            part.unlink(missing_ok=True)
        by_hour: dict[int, list[Path]] = {}
        for path in sorted((self.folder / "rounds").glob("*.parquet")):
            by_hour.setdefault(int(path.stem) // HOUR_NS, []).append(path)
        for hour, parts in by_hour.items():
            whole = self.folder / "hours" / f"{hour:010d}.parquet"
            if hour >= now_ns // HOUR_NS:
                continue
            if not whole.exists():
                tables = [parquet.read_table(p) for p in parts]
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
            for path in stale[:-1]:  # the newest of them still names what came after it
                path.unlink(missing_ok=True)

    # -- reading --

    @property
    def size_bytes(self) -> int:
        """What its files hold."""
        return sum(p.stat().st_size for p in self.folder.glob("*/*.parquet"))

    def files(self) -> list[Path]:
        """Every file with rounds that counts, oldest first."""
        hours = sorted((self.folder / "hours").glob("*.parquet"))
        whole = {int(p.stem) for p in hours}
        return [
            *hours,
            *(p for p in sorted((self.folder / "rounds").glob("*.parquet")) if int(p.stem) // HOUR_NS not in whole),
        ]

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with the views ``intervals`` and ``ports``. Raises :class:`UnreadableFile` for a directory without any."""
        import duckdb

        files, ports = (
            [str(p) for p in self.files()],
            [str(p) for p in sorted((self.folder / "ports").glob("*.parquet"))],
        )
        if not files or not ports:
            raise UnreadableFile(
                f"{self.folder}: no history in it; 'softib exporter SOURCE --history {self.folder}' keeps one"
            )
        connection = duckdb.connect()
        try:
            connection.execute(
                f"create view intervals as select * from read_parquet({_quoted(files)}, union_by_name=true)"
            )
            managers = [str(p) for p in sorted((self.folder / "manager").glob("*.parquet"))]
            if managers:
                connection.execute(
                    f"create view manager as select * from read_parquet({_quoted(managers)}, union_by_name=true)"
                )
            connection.execute(f"create view ports as select * from read_parquet({_quoted(ports)}, union_by_name=true)")
        except duckdb.Error as error:
            raise UnreadableFile(f"{self.folder}: {str(error).splitlines()[0]}") from None
        return connection

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a question over ``intervals`` and ``ports``. Raises :class:`InputError` for one that DuckDB does not take."""
        import duckdb

        try:
            return self.connect().execute(sql).fetchall()
        except duckdb.Error as error:
            raise InputError(f"history: {str(error).splitlines()[0]}") from None

    def observations(self, since_ns: int = 0, until_ns: int = 2**63 - 1) -> Observations:
        """The intervals whose rounds ended between two clock times."""
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
        intervals = [_interval(columns, part) for part in parts]
        return observations_of(self._all_ports(), intervals)

    def times(self) -> np.ndarray:
        """Ends of the rounds in it, oldest first (clock, int64[k] in nanoseconds)."""
        rows = self.connect().execute("select distinct round_ns from intervals order by round_ns").fetchnumpy()
        return np.asarray(rows["round_ns"], np.int64)

    def of_port(self, guid: int, portnum: int, since_ns: int = 0, until_ns: int = 2**63 - 1) -> Interval:
        """What one port did: an :class:`Interval` whose rows are not ports but this port's intervals, oldest first. None of them: no rows."""
        table = self.connect().sql(
            "select * from intervals where guid = ? and portnum = ? and round_ns >= ? and round_ns <= ? order by round_ns",
            params=[guid, portnum, since_ns, until_ns],
        ).to_arrow_table()  # fmt: skip
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        return _interval(columns, slice(0, table.num_rows))

    def topologies(self) -> np.ndarray:
        """Clock times from which each kept state of the ports and cables held, oldest first (int64[k] in nanoseconds): it is kept anew when it changed."""
        return np.array(sorted(int(p.stem) for p in (self.folder / "ports").glob("*.parquet")), np.int64)

    def ports_of(self, since_ns: int) -> ObservedPorts:
        """The ports that held from ``since_ns`` (one of :meth:`topologies`) on. Raises :class:`UnreadableFile` where they are gone meanwhile."""
        import pyarrow
        import pyarrow.parquet as parquet

        path = self.folder / "ports" / f"{since_ns:019d}.parquet"
        try:
            return _ports_of(parquet.read_table(path))
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise UnreadableFile(f"{path}: {error}") from None

    def _all_ports(self) -> ObservedPorts:
        import pyarrow.parquet as parquet

        tables = [parquet.read_table(p) for p in sorted((self.folder / "ports").glob("*.parquet"))]
        ports = _ports_of(tables[0])
        for table in tables[1:]:
            ports = merged_ports(ports, _ports_of(table))
        return ports


def _same_ports(a: ObservedPorts, b: ObservedPorts) -> bool:
    """The same ports, names, LIDs, cables, rates and texts?"""
    return a is b or (
        len(a) == len(b) and a.node == b.node and set(a.text) == set(b.text)
        and all(bool(np.array_equal(getattr(a, n), getattr(b, n))) for n in ("node_guid", "portnum", "peer", "lid", "rate_gbps"))
        and all(bool((a.text[n] == b.text[n]).all()) for n in a.text)
    )  # fmt: skip


def _manager_schema() -> pyarrow.Schema:
    import pyarrow

    kinds = {
        "int": pyarrow.int64(), "str": pyarrow.string(), "bool": pyarrow.bool_(), "float": pyarrow.float64(), "bool | None": pyarrow.bool_(),
    }  # fmt: skip
    return pyarrow.schema(
        [(f.name, pyarrow.uint64() if f.name == "guid" else kinds[str(f.type)]) for f in fields(ManagerRound)]
    )


def _quoted(paths: Sequence[str]) -> str:
    return "[" + ", ".join("'" + p.replace("'", "''") + "'" for p in paths) + "]"


def _table_of(one: Interval, now: int) -> pyarrow.Table:
    import pyarrow

    columns: dict[str, Any] = {
        "round_ns": np.full(len(one.guid), now, np.int64), "guid": one.guid, "portnum": one.portnum.astype(np.int16), "begin_ns": one.begin_ns,
        "end_ns": one.end_ns,
    }  # fmt: skip
    for name, values in one.increase.items():
        columns[name] = pyarrow.array(values, mask=~one.known[name])
    for name, values in one.level.items():
        columns[LEVEL + name] = pyarrow.array(values.astype(np.float32), mask=np.isnan(values))
    return pyarrow.table(columns)


def _interval(columns: dict[str, Any], part: slice) -> Interval:
    def plain(name: str) -> np.ndarray:
        return np.asarray(columns[name][part.start : part.stop].to_numpy(zero_copy_only=False))

    increase, known, level = {}, {}, {}
    for name, column in columns.items():
        if name in ("round_ns", "guid", "portnum", "begin_ns", "end_ns"):
            continue
        values = column[part.start : part.stop]
        there = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool)
        filled = np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False))
        if name.startswith(LEVEL):
            level[name.removeprefix(LEVEL)] = np.where(there, filled.astype(np.float64), np.nan)
        else:
            increase[name], known[name] = filled.astype(np.uint64), there
    return Interval(
        plain("guid").astype(np.uint64),
        plain("portnum").astype(np.int32),
        plain("begin_ns"),
        plain("end_ns"),
        increase,
        known,
        level,
    )


def _table_of_ports(ports: ObservedPorts) -> pyarrow.Table:
    import pyarrow

    columns: dict[str, Any] = {
        "guid": ports.node_guid, "portnum": ports.portnum, "switch": ports.switch, "node": list(ports.node), "lid": ports.lid, "peer": ports.peer,
        "rate_gbps": ports.rate_gbps,
    }  # fmt: skip
    columns |= {TEXT + name: list(map(str, texts.tolist())) for name, texts in ports.text.items()}
    return pyarrow.table(columns)


def _ports_of(table: pyarrow.Table) -> ObservedPorts:
    def column(name: str, dtype: Any) -> np.ndarray:
        return np.asarray(table.column(name).to_numpy(), dtype)

    text = {
        n.removeprefix(TEXT): np.array(table.column(n).to_pylist(), object)
        for n in table.column_names
        if n.startswith(TEXT)
    }
    return ObservedPorts(
        column("guid", np.uint64), column("portnum", np.int32), column("switch", bool), tuple(table.column("node").to_pylist()), column("lid", np.int32),
        column("peer", np.int32), column("rate_gbps", np.float64), text,
    )  # fmt: skip
