"""Running fabrics: queries, path explanations, and the list of them. :func:`softib.up` starts one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.fabric import Fabric, running
from softib.api.progress import Notice
from softib.api.running.attach import Attachment, attachment_of, run_here
from softib.api.table import Table
from softib.document_reader import read_result
from softib.errors import InputError, PeerError, UnknownName
from softib.source import warn

if TYPE_CHECKING:
    from softib.analysis.path_explanation import Explanation
    from softib.live.faults.replies import FaultReply
    from softib.live.instances import Instance
    from softib.live.status import FabricStatus, JobTree, ManagerStatus, Moved

__all__ = ["RunningFabric", "explain_path", "running_fabrics", "stale_fabrics"]


def explain_path(instance: Instance, a: str, b: str) -> Explanation:
    """Return the path between the nodes, ports or LIDs ``a`` and ``b``. Raises :class:`UnknownName`
    if one does not exist."""
    from softib.analysis.path_ends import ends_of
    from softib.analysis.path_explanation import explain
    from softib.errors import PeerError
    from softib.live.sa_client import path_sl
    from softib.live.snapshot import read
    from softib.live.status import status_of

    fabric = read(instance).fabric
    ends = ends_of(fabric, a, b)
    manager = status_of(instance).sm
    engine = manager.engine_used or manager.engine or f"unknown ({manager.kind} manager)"
    sl, source = 0, "from the subnet administration"
    try:
        sl = path_sl(instance, *ends.lids(fabric), ends.a)
    except PeerError as error:
        source = f"assumed: {error}"
    return explain(fabric, ends, engine, sl, source)


SWEEP_S, LOOK_S = 60.0, 0.02


class RunningFabric(Suggests):
    """A running fabric, by name (default: the only one). Used as a context manager, it stops at the
    end of the block (:func:`up`). Raises :class:`UnknownName` if no fabric with that name is
    running.
    """

    def __init__(self, name: str | None = None):
        from softib.live.instances import find

        self.name: str = find(name).name

    def run(
        self, node: str, command: Sequence[str], *, check: bool = True, timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` on ``node`` to its end, as ``softib run`` does; stdout and stderr are
        text.

        Raises :class:`InputError` for an unknown node or program, with ``check``
        :class:`subprocess.CalledProcessError` if the program's exit code is not 0, and
        :class:`subprocess.TimeoutExpired` after ``timeout`` seconds (None: no limit).
        """
        done = subprocess.run(
            self._attached(node, command), capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL
        )
        refusal = done.stderr.strip()
        if done.returncode == InputError.exit_code and refusal.startswith("softib: ") and "\n" not in refusal:
            raise InputError(refusal.removeprefix("softib: "))
        if done.returncode and check:
            raise subprocess.CalledProcessError(done.returncode, list(command), done.stdout, done.stderr)
        return done

    def start(self, node: str, command: Sequence[str], **popen: Any) -> subprocess.Popen[str]:
        """Start ``command`` on ``node`` without waiting for its end, for example a server."""
        popen = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **popen}
        return subprocess.Popen(self._attached(node, command), text=True, **popen)

    def call(
        self,
        program: Sequence[str],
        *,
        node: str | None = None,
        port: int | None = None,
        how: Attachment | None = None,
        notice: Notice = warn,
        become: bool = False,
    ) -> int:
        """Run ``program`` on ``node`` in the foreground of this process, which passes on its stdin,
        stdout, stderr and signals; return its exit code. The default is the first host; in a
        parallel job, the host of this rank. Raises :class:`InputError`.

        ``become``: if no work remains after the program, replace this process with a small one that
        waits for the program and exits with its code, as in ``softib run``. This call then does not
        return.
        """
        return run_here(self._instance, program, node, port, how or Attachment(), notice, become)

    def sysfs(self, node: str | None = None, port: int | None = None) -> str:
        """Return the path of the tree that programs on ``node`` see as ``/sys``, for their options
        like ``--path.sysfs``. Its files hold the values at the time of the call."""
        from softib.live.control import ask

        view = attachment_of(self._instance, node, port).view
        ask(self._instance, "refresh", view=view.name)
        return f"{view}/sys"

    def fault(self, kind: str, where: str | Sequence[str] | None = None, **options: Any) -> FaultReply:
        """Inject or clear a fault: ``fault("link-down", "leaf-3[40]")``, ``fault("ber", PORT,
        ber=1e-9)``, ``fault("clear")``. Several locations, and patterns like ``leaf-*[1-4]``, are
        changed together; the reply then has ``locations``.

        Options are those of ``softib fault``. Raises :class:`InputError` or a related error.
        """
        locations = where if where is None or isinstance(where, str) else list(where)
        from softib.live.faults.replies import FaultReply

        return read_result(FaultReply, self._ask("fault", kind=kind, where=locations, **options), self.name)

    def status(self) -> FabricStatus:
        """Return the state of the fabric: ports, subnet manager, programs, MADs."""
        from softib.live.status import status_of

        return status_of(self._instance)

    def moved(self) -> Moved:
        """Return the bytes that programs moved over the ports of all hosts since the fabric was started."""
        from softib.live.status import Moved

        return read_result(Moved, self._ask("moved"), self.name)

    def sweep(self, *, reload: bool = False, timeout: float = SWEEP_S) -> ManagerStatus:
        """Make the internal subnet manager sweep the whole subnet, wait until it is done, and
        return the manager's state.

        ``reload``: the manager first reads its files (partitions, options) again, as OpenSM does on SIGHUP. Raises
        :class:`InputError` if there is no internal manager, :class:`PeerError` if it does not finish within ``timeout``
        seconds.
        """
        before = self._ask("sweep", reload=reload)["sweeps"]
        until = time.monotonic() + timeout
        while True:
            manager = self.status().sm
            if (manager.sweeps or 0) > before and not manager.phase:
                return manager
            if time.monotonic() > until:
                raise PeerError(f"the manager of {self.name!r} has not finished its sweep after {timeout:.0f} s")
            time.sleep(LOOK_S)

    def explain(self, a: str, b: str) -> Explanation:
        """Explain the path of packets from node ``a`` to node ``b`` (``NODE``, ``NODE:PORT``, or a
        LID): the tables in the switches hop by hop, with the SL from the subnet administration, the
        VLs, and alternatives.

        Raises :class:`UnknownName` for a node, and :class:`InputError` for an unknown LID.
        """

        return explain_path(self._instance, a, b)

    def job(self, hosts: Iterable[str], *, streaming: bool = False) -> JobTree:
        """Allocate an aggregation tree for a job on ``hosts`` (``softib sm job``), and return it.
        Raises :class:`UnknownName` for an unknown host, :class:`InputError` if there is no free tree for these
        hosts."""
        from softib.live.status import JobTree

        return read_result(JobTree, self._ask("job", hosts=list(hosts), streaming=streaming), self.name)

    def nodes(self, prefix: str = "", type: str | None = None) -> list[str]:
        """Return the names of its nodes that begin with ``prefix``, at most 1,000; if ``type`` is
        given (``ca``, ``switch`` or ``router``), only nodes of that type. Raises
        :class:`UnknownName` for another type."""
        types = {"ca": 1, "switch": 2, "router": 3}
        if type is not None and type not in types:
            raise UnknownName("type of node", type, types)
        names: list[str] = self._ask("nodes", prefix=prefix, type=types[type] if type else None)["nodes"]
        return names

    def snapshot(self) -> Fabric:
        """Return a copy of its current state: states, tables, counters."""
        return running(self.name)

    def counters(self) -> Table:
        """Return one row per port with its current PerfMgt counters."""
        from softib.analysis import columns

        return Table(columns.counters(running(self.name).arrays))

    def down(self) -> None:
        """Stop the fabric. The next send of a program on it then fails."""
        from softib.live.control import stop

        stop(self._instance)

    @property
    def _instance(self) -> Instance:
        from softib.live.instances import find

        return find(self.name)

    def _ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        from softib.live.control import ask

        return ask(self._instance, op, **arguments)

    def _attached(self, node: str, command: Sequence[str]) -> list[str]:
        if isinstance(command, str):
            raise InputError(f"command is a single string, {command!r}; use a list: {command.split()!r}")
        return [sys.executable, "-m", "softib", "run", "--fabric", self.name, "--node", node, "--", *command]

    def __enter__(self) -> RunningFabric:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def __repr__(self) -> str:
        return f"<RunningFabric {self.name!r}>"


def stale_fabrics(prune: bool = False) -> list[tuple[str, int]]:
    """Return this user's fabrics whose daemon was killed: the name of each, and the bytes of memory that it left.
    With ``prune``, the memory is freed; LIDs and log are kept for the next fabric of that name."""
    from softib.live.instances import stale

    return stale(prune)


def running_fabrics() -> list[RunningFabric]:
    """Return all running fabrics of this user, by name."""
    from softib.live.instances import running as instances

    fabrics = []
    for instance in instances():
        one = RunningFabric.__new__(RunningFabric)
        one.name = instance.name
        fabrics.append(one)
    return fabrics
