"""Start fabrics: served by this process (``softib up``), or by a separate process (``softib up``
without a terminal)."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from softib.api.fabric import Fabric, result_of
from softib.api.progress import Notice
from softib.api.running.running import RunningFabric
from softib.errors import InputError, SoftibBug, SoftibError
from softib.plural import counted
from softib.scratch import scratch_folder
from softib.source import warn

if TYPE_CHECKING:
    from softib.live.daemon import Daemon
    from softib.live.status import FabricStatus
    from softib.live.sysfs.node_profile import NodeProfile

__all__ = ["Server", "Starter", "up"]


READY_FD = "SOFTIB_READY_FD"
"""Descriptor on which a fabric in a separate process reports that it is ready, and the descriptors that the process
closes after that."""
LIFE_FD = "SOFTIB_LIFE_FD"
"""Descriptor of a pipe whose other end belongs to the process that started this fabric for its own use; it closes
when that process ends."""
READY = b"ready\n"
BUG = "this is a bug in softib: "

OPENSM_SUFFIXES = ("_file", "torus_config", "nue_max_num_vls")
"""Options with these endings are spelled with underscores, as in OpenSM."""


def up(
    source: Fabric | str | os.PathLike[str],
    *,
    name: str | None = None,
    sm: str = "internal",
    engine: str | None = None,
    pace: bool = False,
    notice: Notice | None = None,
    progress: Callable[[str], None] | None = None,
    bound: bool = False,
    **options: Any,
) -> RunningFabric:
    """Start ``source`` as a running fabric, which is ready when this returns; ``with softib.up(…)
    as f:`` stops it at the end of the block.

    ``sm``: ``internal`` (softib's manager brings it up), ``external`` (a stock manager will attach)
    or ``none``. ``options`` are further options of ``softib up`` under their long names: ``lmc=1``,
    ``partitions="partitions.conf"``, ``reassign_lids=True``. ``notice`` is called with each line of
    its log, and ``progress`` with its state while waiting. ``bound``: the fabric ends with this
    process, even if this is killed. Raises :class:`InputError` with the
    error line of ``softib up``.
    """
    from softib.fabric.topologies.spec import stated_name
    from softib.live.instances import name_of, starting

    given = {"sm": sm, **({"engine": engine} if engine else {}), "pace": pace, **options}
    with scratch_folder("up") as folder:
        path = _file_of(source, folder)
        label = source.name if isinstance(source, Fabric) else stated_name(path)
        with starting(name_of(label) if name is None else name) as (instance, held):
            new = not any(instance.folder.iterdir())
            command = [sys.executable, "-m", "softib", "up", path, "--name", instance.name, *_arguments(given)]
            try:
                code = _start(command, instance.log, held, path, progress or (lambda text: None), bound)
            except BaseException:
                instance.forget(folder=new)
                raise
            log = instance.log.read_text(errors="replace")
            if code is not None:
                instance.forget(folder=new)
    lines = [line.removeprefix("softib: ") for line in log.strip().splitlines()]
    last = _reason(code, lines) if code is not None else ""
    if notice is not None:
        for line in lines:
            notice(line)
    if code is not None:
        raise _refusal(code, last)
    return RunningFabric(instance.name)


def _reason(code: int, lines: list[str]) -> str:
    """Return why a fabric did not start: the last line of its log (which is removed from the log),
    or the signal that ended it."""
    if code < 0:
        return f"the fabric's process was killed while it started: {signal.strsignal(-code)}"
    return lines.pop() if lines else f"softib up ended with {code}; its log is empty"


def _arguments(options: dict[str, Any]) -> list[str]:
    """Return the options of ``softib up`` from names and values: ``reassign_lids=True`` becomes
    ``--reassign-lids``. Lists repeat the option."""
    out = []
    for name, value in options.items():
        flag = "--" + (name if name.endswith(OPENSM_SUFFIXES) else name.replace("_", "-"))
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is True:
                out.append(flag)
            elif one is not None and one is not False:
                out.append(f"{flag}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    return out


END_S = 5.0
"""Seconds in which the process of an interrupted start must end."""


def _start(
    command: list[str], log: Path, held: int, source: str, progress: Callable[[str], None], bound: bool
) -> int | None:
    """Start ``command`` in a new session; return None when the fabric is ready, otherwise its exit
    code. It inherits ``held``, the lock on its name, and if ``bound`` the end of a pipe that closes with this
    process."""
    from softib.input_files import STDIN

    read, write = os.pipe()
    life, kept = os.pipe() if bound else (-1, -1)
    log.write_bytes(b"")
    with open(log, "ab") as output:  # tracebacks are appended through another descriptor
        child = subprocess.Popen(
            command,
            env={**os.environ, READY_FD: f"{write} {held}", LIFE_FD: str(life)},
            stdin=None if source == STDIN else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(write, held, life) if bound else (write, held),
            start_new_session=True,
        )
    os.close(write)
    if bound:
        os.close(life)
    try:
        with os.fdopen(read, "rb") as pipe:
            ready = _wait(pipe, progress)
    except KeyboardInterrupt:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)  # it holds the name until it has removed its files
        if bound:
            os.close(kept)
        raise
    if ready:
        threading.Thread(target=_wait_for, args=(child, kept), daemon=True).start()  # it continues
        return None
    return _wait_for(child, kept) or 1


def _wait_for(child: subprocess.Popen[bytes], kept: int) -> int:
    """Return the exit code of a fabric, so that no zombie remains, and close its pipe."""
    code = child.wait()
    if kept >= 0:
        os.close(kept)
    return code


def _wait(pipe: BinaryIO, progress: Callable[[str], None]) -> bool:
    """Forward progress until the fabric is ready; return False if it ended first."""
    for line in pipe:
        if line == READY:
            return True
        progress(line.decode(errors="replace").strip())
    return False


def _refusal(code: int, line: str) -> SoftibError:
    return SoftibBug(line.removeprefix(BUG)) if code == SoftibBug.exit_code else InputError(line)


class Starter:
    """The process that started this fabric and waits at the other end of a pipe (:func:`up`), if there is one."""

    def __init__(self) -> None:
        numbers = [int(fd) for fd in os.environ.pop(READY_FD, "").split() if fd.isdigit()]
        self.detached, self._fds = bool(numbers), numbers
        life = os.environ.pop(LIFE_FD, "")
        if life.isdigit():
            threading.Thread(target=_end_with, args=(int(life),), daemon=True).start()

    def announce(self, text: str) -> None:
        """Write a line of progress."""
        self._write(text.encode() + b"\n")

    def ready(self) -> None:
        """End the announcements: the fabric is ready."""
        self._write(READY)
        while self._fds:
            os.close(self._fds.pop())

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # the starter may have ended
            if self._fds:
                os.write(self._fds[0], line)


def _end_with(life: int) -> None:
    """Send SIGTERM to this process when the other end of the pipe ``life`` is closed."""
    os.set_inheritable(life, False)
    while os.read(life, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _file_of(source: Fabric | str | os.PathLike[str], folder: Path) -> str:
    """Return the path of ``source``; a fabric without a file (generated here, or from a running
    fabric) is first written into ``folder``."""
    if not isinstance(source, Fabric):
        return os.fspath(source)
    if Path(source.source).is_file():
        return source.source
    from softib.fabric.formats.registry import write
    from softib.fabric.topologies.registry import spec_text

    fabric = result_of(source).fabric
    if "kind" in fabric.source.generator:
        path = folder / "fabric.yaml"
        path.write_text(spec_text(fabric))
    else:
        path = folder / "fabric.net"
        write(fabric, path)
    return str(path)


GEN3_GBYTES = 12.0
"""GB/s of 16 lanes of PCIe generation 3, as NCCL counts them."""
ENGINE_FILES = ("_guid_file", "torus_config", "lfts_file", "_policy_file")
"""Options with these endings name files that routing engines read."""


def _profile_of(name: str) -> NodeProfile:
    """Return the sysfs entries that programs on a host of machine ``name`` see."""
    from softib.live.sysfs.node_profile import NodeProfile
    from softib.workloads.nccl.machine import machine_of

    machine = machine_of(name)
    gpus, adapters = max(1, machine.gpus // machine.hosts), max(1, machine.nics // machine.hosts)
    part = machine.part(gpus, adapters)
    generation = round(math.log2(machine.gpu.pcie_gbytes / GEN3_GBYTES)) + 3
    nearest = tuple(part.nic_of(gpu) for gpu in range(gpus))
    path = "phb" if machine.gpudirect == "off" else machine.gpudirect  # off: NCCL's setting, not a path
    return NodeProfile(machine.gpu.pci, (generation, 16), nearest, adapters, path)


class Server:
    """Serves one fabric in this process until it is stopped: ports, agents, sockets, and optionally softib's subnet
    manager. It handles the process's signals and blocks; :func:`softib.up` starts one in a separate process. ``name``
    is the name of the running fabric (default: the name of ``source``). Raises :class:`InputError` if a fabric of that
    name is running.
    """

    def __init__(self, source: str, name: str | None = None):
        from softib.fabric.topologies.spec import stated_name
        from softib.live.instances import free, name_of

        self._began = time.monotonic()
        self._instance = free(name_of(stated_name(source)) if name is None else name)
        self._daemon: Daemon | None = None

    def start(
        self,
        fabric: Fabric,
        *,
        sm: str = "internal",
        manager: Mapping[str, Any] | None = None,
        sm_config: str | None = None,
        partitions: str | None = None,
        udp: int | None = None,
        pcap: str | None = None,
        pace: bool = False,
        machine: str | None = None,
        notice: Notice = warn,
    ) -> None:
        """Reserve the name and create the sockets and files for programs; requests are served by
        :meth:`run`.

        ``sm``: ``internal`` (softib's), ``external`` (a stock manager will attach) or ``none``.
        ``manager`` are settings of softib's manager under the names of
        :class:`softib.sm.config.SmConfig` (``engine``, ``lmc``, ``root_guid_file`` …), None = not
        given. ``sm_config`` is OpenSM's options file, ``partitions`` its partitions.conf. ``udp``,
        ``pcap``, ``pace`` and ``machine`` are those of ``softib up``. Raises :class:`InputError`
        for a file or setting that cannot be used.
        """
        from softib.fabric.end_ports import common_lmc
        from softib.fabric.node_finder import port_named
        from softib.live.daemon import Daemon, Settings
        from softib.live.instances import claim
        from softib.live.internal_sm.settings import ManagerSettings
        from softib.sm.config import SmConfig

        result = result_of(fabric)
        profile = None if machine is None else _profile_of(machine)  # fail before the work
        given = {k: v for k, v in (manager or {}).items() if v is not None}
        if sm != "internal" and any(k.endswith(ENGINE_FILES) for k in given):
            raise InputError(
                f"GUID files are read only by the internal manager; with --sm {sm}, pass them to the manager that you "
                f"start"
            )
        given |= {k: os.path.abspath(v) for k, v in given.items() if k.endswith(ENGINE_FILES)}
        self._instance = instance = claim(self._instance.name)
        try:
            section = result.extra.get("sm") or {}
            settings = ManagerSettings(
                given, sm_config, partitions, {"lmc": common_lmc(result.fabric), **section}, notice
            )
            config = settings.read() if sm == "internal" else SmConfig()
            if sm != "internal" and section:
                notice(f"{fabric.source}: sm: configures the internal manager and is ignored with --sm {sm}")
            strict = int(result.fabric.node_strict.sum())
            if sm == "external" and strict:
                notice(
                    f"{counted(strict, 'switch')} report the extended speeds of ports only to managers that set bit 31 "
                    f"of PortInfo's AttributeModifier. OpenSM 3.3.23 does not set it, so it cannot restore the speed "
                    f"of slowed links (use 'firmware: lenient' in the fabric's file to report the speeds to all "
                    f"managers)"
                )
            node = section.get("node")
            port_named(result.fabric, node)  # fail before the work
            served = Settings(
                source=fabric.source,
                sm=sm,
                node=node,
                config=config,
                udp=udp,
                reread=settings.read,
                pcap=pcap,
                pace=pace,
                profile=profile,
            )
            self._daemon = Daemon(instance, result.fabric.copy(), served, self._began)
        except BaseException:
            instance.release()
            raise

    def run(self, on_step: Callable[[Server], None] = lambda server: None) -> None:
        """Serve until SIGINT, SIGTERM or ``softib down``; ``on_step`` is called after each step of
        the loop."""
        self._serving.run(lambda daemon: on_step(self))

    @property
    def name(self) -> str:
        """Name of the running fabric."""
        return self._instance.name

    @property
    def ready_s(self) -> float | None:
        """Seconds that this process took to bring up the subnet; None until the subnet is up."""
        return self._serving.ready_s

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of switches, channel adapters and cables."""
        fabric = self._serving.fabric
        return fabric.sizes.switches, len(fabric.cas), fabric.sizes.cables

    def faults(self) -> tuple[list[str], list[str]]:
        """Return faults and notes of the internal manager's work, one line each. Faults: tables computed by another
        engine than the requested one, pairs without a path, a credit loop that can form, ports that did not become
        ACTIVE.
        Notes: other subnets, which need separate managers. Large tables are not proved here."""
        from softib.live.left_out import left_out
        from softib.sm.tables.table_proof import PROVED, prove_tables

        if self._serving.manager is None:
            return [], []
        sm, port = self._serving.manager.sm, self._serving.manager.port
        faults, notes = left_out(self._serving.fabric, port, sm.report.problems)
        if sm.graph is not None and sm.routing is not None:
            faults += prove_tables(sm.database, sm.graph, sm.routing, sm.config, PROVED).faults
        return faults, notes

    def stop(self) -> None:
        """Leave :meth:`run` after this step."""
        self._serving.stop()

    def status(self) -> FabricStatus:
        """Return the state of the fabric: ports, subnet manager, programs, MADs."""
        return self._serving.operations.status()

    @property
    def _serving(self) -> Daemon:
        if self._daemon is None:
            raise InputError(f"{self.name} has not been started; call start(fabric) first")
        return self._daemon
