"""Several subnet managers in one process (``softib sm run`` with several devices)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from softib.api.arguments import Suggests
from softib.api.manager.managing import PlannedChanges, SmRun, UmadManager
from softib.errors import InputError
from softib.result import Result, key

__all__ = ["UmadManagers"]

OnStep = Callable[[UmadManager], None]


@dataclass
class SmRunPorts(Result):
    """The last sweep of each manager, or the changes that each would make."""

    document = "sm-run"

    ports: list[Any] = field(metadata=key(type=list[SmRun] | list[PlannedChanges]))
    failed: list[str]
    """A line for each manager that could not continue, with the reason."""


class UmadManagers(Suggests, Sequence[UmadManager]):
    """Several managers in one process, each with a separate subnet, settings and state: one process
    for all rails of a host. They run alternately. A manager that cannot continue (its port was
    removed, or there is another master) ends, and the others continue. LIDs, M_Keys and the
    administrator's database are stored separately for each port, in files whose names end with its
    PortGUID. Raises :class:`InputError` if a port is named twice.
    """

    def __init__(self, managers: Sequence[UmadManager]):
        self._managers = list(managers)
        guids = [m.port for m in self._managers]
        if twice := next((g for g in guids if guids.count(g) > 1), None):
            raise InputError(
                f"{twice} is given twice; name each port once, because it can have only one subnet manager"
            )
        self.failed: tuple[str, ...] = ()
        """A line for each manager that could not continue, with the reason."""

    @overload
    def __getitem__(self, index: int) -> UmadManager: ...
    @overload
    def __getitem__(self, index: slice) -> list[UmadManager]: ...
    def __getitem__(self, index: int | slice) -> UmadManager | list[UmadManager]:
        return self._managers[index]

    def __len__(self) -> int:
        return len(self._managers)

    def serve(
        self,
        *,
        once: bool = False,
        take_over: bool = False,
        strict: bool = False,
        on_step: OnStep = lambda manager: None,
    ) -> None:
        """Run :meth:`UmadManager.serve` for all of them, until SIGINT or SIGTERM, or with ``once``
        until each subnet is up."""
        from softib.live.umad_sm.session import Plan
        from softib.live.umad_sm.several import serve_several

        plans = [Plan(once, m._elects, take_over, m._window, strict) for m in self]
        jobs = [(m.among_others()._job(on_step, once), plan) for m, plan in zip(self, plans, strict=True)]
        self.failed = tuple(str(error) for error in serve_several(jobs))
        for m in self:
            m._log("end", state=m.state)

    def dry_run(self, *, on_step: OnStep = lambda manager: None) -> list[PlannedChanges]:
        """Return the result of :meth:`UmadManager.dry_run` for each of them."""
        return [m.among_others().dry_run(on_step=on_step) for m in self]

    @property
    def counts(self) -> dict[str, int]:
        """Sums of :attr:`UmadManager.counts` over all managers."""
        return {name: sum(m.counts[name] for m in self) for name in ("nodes", "mads", "sweeps")}

    @property
    def phase(self) -> str:
        """Activity of the first manager that is busy; empty while all are idle."""
        return next((f"{m.port}: {m.phase}" for m in self if m.phase), "")

    @property
    def state(self) -> str:
        """SMState of each manager."""
        return ", ".join(m.state for m in self)

    def log_to(
        self, path: str | None = None, *, level: str = "info", max_mb: int = 100, to_stderr: bool = False
    ) -> None:
        """Log like :meth:`UmadManager.log_to`, with the same ``max_mb``, but into one log for all managers, in which
        each line names its port."""
        from softib.live.umad_sm.log import set_up_log

        set_up_log(level, path, max_mb, to_stderr)

    def to_json(self, planned: Sequence[PlannedChanges] = ()) -> dict[str, Any]:
        """Return the last sweep of each manager (with ``planned``, the changes that it would make), as ``softib sm run
        A B --json`` prints them (docs/schemas/sm-run.schema.json)."""
        ports: list[Any] = list(planned) or [one.to_json() for one in self]
        return SmRunPorts(ports, list(self.failed)).to_json()

    def __repr__(self) -> str:
        return f"<UmadManagers on {', '.join(m.port for m in self)}: {self.state}>"
