"""Running fabrics: what can be asked of one, why its packets take the path they take, and the list
of them. :func:`softib.up` starts one."""

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
from softib.errors import InputError, PeerError, UnknownName
from softib.source import warn

if TYPE_CHECKING:
    from softib.analysis.path_explanation import Explanation
    from softib.live.instances import Instance
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softib.analysis.path_explanation import Explanation
    from softib.live.instances import Instance

__all__ = ["RunningFabric", "explain_path", "running_fabrics", "stale_fabrics"]


def explain_path(instance: Instance, a: str, b: str) -> Explanation:
    """The path between the nodes or ports that ``a`` and ``b`` name. Raises :class:`UnknownName`
    for one that is not there."""
    from softib.analysis.path_explanation import ends_of, explain
    from softib.errors import PeerError
    from softib.live.control import ask
    from softib.live.sa_client import path_sl
    from softib.live.snapshot import read

    fabric = read(instance).fabric
    ports = ends_of(fabric, a, b)
    manager = ask(instance, "status")["sm"]
    engine = manager.get("engine_used") or manager.get("engine") or f"unknown ({manager['kind']} manager)"
    sl, source = 0, "the subnet administration says it"
    try:
        sl = path_sl(instance, int(fabric.lid[ports[0]]), int(fabric.lid[ports[1]]), ports[0])
    except PeerError as error:
        source = f"assumed: {error}"
    return explain(fabric, *ports, engine, sl, source)


SWEEP_S, LOOK_S = 60.0, 0.02


class RunningFabric(Suggests):
    """A running fabric by name (default: the only one). As a context manager it ends with its block
    (:func:`up`).

    Raises :class:`UnknownName` where none of that name runs.
    """

    def __init__(self, name: str | None = None):
        from softib.live.instances import find

        self.name: str = find(name).name

    def run(
        self, node: str, command: Sequence[str], *, check: bool = True, timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` on ``node`` to its end, as ``softib run`` does; stdout and stderr are
        text.

        Raises :class:`InputError` where softib refuses (an unknown node, no such program), and with
        ``check`` :class:`subprocess.CalledProcessError` where the program ends with another code
        than 0.
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
        """Begin ``command`` on ``node`` and do not wait: a server, for which a client is then run."""
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
        """Run ``program`` on ``node`` (default: the first host; of a parallel job, the one of this
        rank) in the foreground of this process, whose stdin, stdout, stderr and signals it gets;
        returns its exit code. Raises :class:`InputError`.

        ``become``: where nothing is due when the program ends, replace this process by a small one
        that waits for it and ends with its exit code, as ``softib run`` does; it does not return
        then.
        """
        return run_here(self._instance, program, node, port, how or Attachment(), notice, become)

    def sysfs(self, node: str | None = None, port: int | None = None) -> str:
        """Path of the tree that programs on ``node`` see as ``/sys``, for their options like
        ``--path.sysfs``."""
        return f"{attachment_of(self._instance, node, port)['env']['SOFTIB_VIEW']}/sys"

    def fault(self, kind: str, where: str | Sequence[str] | None = None, **options: Any) -> dict[str, Any]:
        """Inject or clear a fault: ``fault("link-down", "leaf-3[40]")``, ``fault("ber", PORT,
        ber=1e-9)``, ``fault("clear")``. Several places, and patterns such as ``leaf-*[1-4]``, are
        changed at once; the reply has ``locations`` then.

        Options are those of ``softib fault``. Raises :class:`InputError` or a related error.
        """
        locations = where if where is None or isinstance(where, str) else list(where)
        return self._ask("fault", kind=kind, where=locations, **options)

    def status(self) -> dict[str, Any]:
        """One of the objects that ``softib status --json`` prints."""
        return self._ask("status")

    def moved(self) -> dict[str, int]:
        """Octets that programs have moved over the ports of all hosts since it began to run: by
        ``verbs``, and by ``ip`` over them."""
        return {key: int(octets) for key, octets in self._ask("moved").items() if key in ("verbs", "ip")}

    def sweep(self, *, reload: bool = False, timeout: float = SWEEP_S) -> dict[str, Any]:
        """Let the internal subnet manager look at the whole subnet again, and wait until it has;
        its state afterwards.

        ``reload``: it reads its files (partitions, options) before, as OpenSM does on SIGHUP.
        Raises :class:`InputError` where there is no such manager, :class:`PeerError` where it is
        not done after ``timeout`` seconds.
        """
        before = self._ask("sweep", reload=reload)["sweeps"]
        until = time.monotonic() + timeout
        while True:
            manager: dict[str, Any] = self.status()["sm"]
            if manager["sweeps"] > before and not manager["phase"]:
                return manager
            if time.monotonic() > until:
                raise PeerError(f"the manager of {self.name!r} has not finished its sweep after {timeout:.0f} s")
            time.sleep(LOOK_S)

    def explain(self, a: str, b: str) -> Explanation:
        """Why packets from node ``a`` to node ``b`` (``NODE``, or ``NODE:PORT``) take the path they
        take: the tables in the switches hop by hop, with the SL that the subnet administration
        reports, VLs, and what else was possible.

        Raises :class:`UnknownName` for a node.
        """

        return explain_path(self._instance, a, b)

    def job(self, hosts: Iterable[str], *, streaming: bool = False) -> dict[str, Any]:
        """An aggregation tree for a job on ``hosts`` (``softib sm job``): ``{"tree", "streaming",
        "top", "nodes", "hosts"}``, aggregation nodes by the name of their switch. Raises
        :class:`UnknownName` for a host, :class:`InputError` where no tree fits."""
        return self._ask("job", hosts=list(hosts), streaming=streaming)

    def nodes(self, prefix: str = "", type: str | None = None) -> list[str]:
        """Names of its nodes that begin with ``prefix``, at most 1,000; of ``type`` ``ca``,
        ``switch`` or ``router`` alone where given. Raises :class:`UnknownName` for another type."""
        types = {"ca": 1, "switch": 2, "router": 3}
        if type is not None and type not in types:
            raise UnknownName("type of node", type, types)
        names: list[str] = self._ask("nodes", prefix=prefix, type=types[type] if type else None)["nodes"]
        return names

    def snapshot(self) -> Fabric:
        """A copy of it as it stands now: states, tables, counters."""
        return running(self.name)

    def counters(self) -> Table:
        """One row a port with its PerfMgt counters, as they stand now."""
        from softib.analysis import columns

        return Table(columns.counters(running(self.name).arrays))

    def down(self) -> None:
        """Stop it. Programs on it see their next send fail."""
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
            raise InputError(f"command is one text, {command!r}; give a list: {command.split()!r}")
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
    """Fabrics of this user whose daemon was killed: each one's name, and the bytes of memory that
    it left. With ``prune`` they are freed; LIDs and log stay for the next start of the name."""
    from softib.live.instances import stale

    return stale(prune)


def running_fabrics() -> list[RunningFabric]:
    """Every fabric of this user that runs, by name."""
    from softib.live.instances import running as instances

    fabrics = []
    for instance in instances():
        one = RunningFabric.__new__(RunningFabric)
        one.name = instance.name
        fabrics.append(one)
    return fabrics
