"""softib's subnet manager on a umad device: ``softib sm run``, and its dry run."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.progress import Notice
from softib.api.table import Rows
from softib.result import Result, key
from softib.sm.dry_run import AttributeChange
from softib.sm.sweep.report import SweepReport
from softib.source import warn

if TYPE_CHECKING:
    from softib.live.umad_client.devices import UmadDevice
    from softib.live.umad_sm.manager import Hooks
    from softib.live.umad_sm.manager import UmadManager as Loop
    from softib.live.umad_sm.session import Job
    from softib.sm.tables.table_proof import TableProof

__all__ = ["PlannedChanges", "SmRun", "UmadManager"]

OnStep = Callable[["UmadManager"], None]


class UmadManager(Suggests):
    """softib's subnet manager for the subnet of one umad device: hardware, a port under ``softib run``, or ibsim.

    ``device`` is ``umad0``, ``mlx5_0``, ``mlx5_0:1``, ``/dev/infiniband/umad0`` or a PortGUID
    (hexadecimal; default: the first active port); ``guid`` selects the port by its PortGUID
    instead. ``manager`` are settings under the names of :class:`softib.sm.config.SmConfig`
    (``engine``, ``lmc``, ``priority``, ``root_guid_file`` …), None = not given. ``sm_config`` is
    OpenSM's options file, ``partitions`` its partitions.conf. ``lids``: the file that stores LIDs
    (default: the file in OSM_CACHE_DIR, that of the running fabric, or that of the port in the
    user's cache). ``database``: the file that stores groups, subscriptions and services (default:
    none). ``window``: maximum number of outstanding requests.

    Raises :class:`InputError` for a device, file or setting that cannot be used.
    """

    def __init__(
        self,
        device: str | None = None,
        *,
        guid: int | None = None,
        manager: Mapping[str, Any] | None = None,
        sm_config: str | None = None,
        partitions: str | None = None,
        lids: str | os.PathLike[str] | None = None,
        database: str | os.PathLike[str] | None = None,
        window: int = 8,
        notice: Notice = warn,
    ):
        from softib.live.internal_sm.settings import ManagerSettings
        from softib.live.umad_client.devices import find_device

        given = {k: v for k, v in (manager or {}).items() if v is not None}
        given |= {
            k: os.path.abspath(v)
            for k, v in given.items()
            if k.endswith(("_guid_file", "torus_config", "lfts_file", "_policy_file"))
        }
        self._settings = ManagerSettings(given, sm_config, partitions, {}, notice)
        self._config = self._settings.read()
        self._elects = "priority" in given or bool(self._config.priority)
        self._device: UmadDevice = find_device(device, guid)
        self._database = None if database is None else Path(database)
        self._lids, self._window = None if lids is None else Path(lids), window
        self._among_others = False
        self._running: Loop | None = None
        log = logging.getLogger("softib.sm")
        if not log.handlers:
            log.addHandler(logging.NullHandler())

    def log_to(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        level: str = "info",
        max_mb: int = 100,
        to_stderr: bool = False,
    ) -> None:
        """Log to ``path`` as lines of JSON, and as short lines to stderr. At ``max_mb`` MB a new file is begun, and
        five older files are kept (0: never). Raises :class:`InputError` if the file cannot be written."""
        from softib.live.umad_sm.log import set_up_log

        set_up_log(level, None if path is None else os.fspath(path), max_mb, to_stderr)

    def serve(
        self,
        *,
        once: bool = False,
        take_over: bool = False,
        strict: bool = False,
        on_step: OnStep = lambda manager: None,
    ) -> None:
        """Manage the subnet until SIGINT or SIGTERM, or with ``once`` until it is up; SIGHUP reads the files again.
        With ``strict``, it also ends if its tables have :attr:`faults` or if its first sweep left out a device or port.
        It handles the signals of the process. If there is a live master, it raises :class:`InputError`, unless a
        priority was given, with which it takes part in the election, or ``take_over`` is set. ``take_over`` uses
        priority 15, so that the other master hands over (IBA 14.4.1). ``on_step`` is called after each step. Raises
        :class:`MadTimeout` if the port has no link or the other master does not hand over.
        """
        from softib.live.umad_sm import session

        plan = session.Plan(once, self._elects, take_over, self._window, strict)
        self._log("begin", guid=f"{self.guid:#018x}", engine=self._config.engine, dry_run=False)
        self._running = session.serve(self._device, self._config, plan, self._hooks(on_step, once))
        self._log("end", state=self.state)

    def dry_run(self, *, on_step: OnStep = lambda manager: None) -> PlannedChanges:
        """Run one sweep as master without sending Sets, and return the changes that it would make.
        Other managers are ignored."""
        from softib.live.umad_sm import session

        plan = session.Plan(window=self._window)
        self._log("begin", guid=f"{self.guid:#018x}", engine=self._config.engine, dry_run=True)
        self._running, changes, master = session.dry_run(self._device, self._config, plan, self._hooks(on_step, True))
        return PlannedChanges(self.port, None if master is None else str(master), changes, self._running.sm.report)

    @property
    def port(self) -> str:
        """Name of the port, for example ``mlx5_0 port 1 (umad0)``."""
        return str(self._device)

    @property
    def guid(self) -> int:
        """PortGUID of the port."""
        return self._device.guid

    @property
    def state(self) -> str:
        """SMState (IBA 14.4.1): DISCOVERING, STANDBY, MASTER or NOTACTIVE."""
        return "NOTACTIVE" if self._running is None else self._running.sm.state.name

    @property
    def phase(self) -> str:
        """Name of the manager's current activity; empty while it is idle."""
        return "" if self._running is None else self._running.sm.phase

    @property
    def counts(self) -> dict[str, int]:
        """Counts for a progress line: ``nodes`` discovered, ``mads`` sent, ``sweeps`` started."""
        if self._running is None:
            return {"nodes": 0, "mads": 0, "sweeps": 0}
        sm = self._running.sm
        return {"nodes": sm.database.n_nodes, "mads": sm.transactor.sent, "sweeps": sm.sweeps}

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of its last sweep, one line each."""
        return () if self._running is None else tuple(self._running.sm.report.problems)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of its last sweep, one line each: fallbacks, other managers, reasons for changed
        tables."""
        return () if self._running is None else tuple(self._running.sm.report.notes)

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults of the last sweep as master, one line each: tables computed by another engine than the selected one,
        pairs without a path, a credit loop that can form, an omitted device, a port that is not ACTIVE. Empty if there
        are none.
        """
        if self._running is None:
            return ()
        proof = self._running.proof
        return (*(() if proof is None else proof.faults), *self._running.sm.report.left_out)

    @property
    def verdict(self) -> str:
        """Quality of the tables in one line; empty if there are no tables yet, or if there are :attr:`faults`."""
        proof = None if self._running is None else self._running.proof
        return "" if proof is None else proof.verdict

    def to_json(self) -> dict[str, Any]:
        """Return its last sweep, as ``softib sm run --json`` prints it
        (docs/schemas/sm-run.schema.json)."""
        report = SweepReport() if self._running is None else self._running.sm.report
        proof = None if self._running is None else self._running.proof
        return SmRun(self.state, self.port, self.counts["sweeps"], report.sent, report.sets, proof, report).to_json()

    def _hooks(self, on_step: OnStep, proves_all: bool) -> Hooks:
        from softib.live.umad_sm import session
        from softib.live.umad_sm.manager import Hooks

        def step(running: Loop) -> None:
            self._running = running
            on_step(self)

        lids, database = self._lids or session.default_lids(self._device), self._database
        if self._among_others:
            lids, database = self._of_port(lids), self._of_port(database)
        return Hooks(step, reread=self._settings.read, lids=lids, database=database, proves_all=proves_all)

    def among_others(self) -> UmadManager:
        """Make this manager use separate files from now on, because others run in the same process, and return it."""
        self._among_others = True
        return self

    def _of_port(self, path: Path | None) -> Path | None:
        """Return the path of this port's file next to ``path``, for several managers."""
        end = f"-{self.guid:016x}"
        return path if path is None or path.name.endswith(end) else path.with_name(path.name + end)

    def _job(self, on_step: OnStep, once: bool) -> Job:
        """Return the job that :class:`UmadManagers` runs."""
        from softib.live.umad_sm.session import Job

        self._log("begin", guid=f"{self.guid:#018x}", engine=self._config.engine, dry_run=False)
        return Job(self._device, self._config, self._hooks(on_step, once))

    def _log(self, event: str, **details: Any) -> None:
        logging.getLogger("softib.sm").info(event, extra={"port": self.port, **details})

    def __repr__(self) -> str:
        return f"<UmadManager on {self.port}: {self.state}>"


@dataclass(eq=False, repr=False)
class PlannedChanges(Rows[AttributeChange], Result):
    """Changes that a manager would make (:meth:`UmadManager.dry_run`), by node, attribute and block
    or port; empty if there are none."""

    document = "sm-run"
    row, by = AttributeChange, "attr"

    port: str
    master: str | None
    """LID, PortGUID and priority of the subnet's master at the time of the run, as text; null if there is none."""
    rows: list[AttributeChange] = field(metadata=key("changes"))
    report: SweepReport = field(metadata=key("sweep"))

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the sweep, one line each."""
        return tuple(self.report.problems)


@dataclass
class SmRun(Result):
    """The last sweep of a manager that ended."""

    document = "sm-run"

    state: str
    """SMState (IBA 14.4.1)."""
    port: str
    sweeps: int
    sent: int
    """Number of requests in the last sweep, without retries."""
    sets: int
    """Number of requests that changed something."""
    tables: TableProof | None
    """Quality of the tables of the last sweep as master."""
    report: SweepReport = field(metadata=key(flat=SweepReport))
