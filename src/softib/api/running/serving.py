"""A fabric that this very process serves: what ``softib up`` is while it runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from softib.api.fabric import Fabric, result_of
from softib.api.progress import Notice
from softib.errors import InputError
from softib.plural import counted
from softib.source import warn

if TYPE_CHECKING:
    from softib.live.daemon import Daemon

__all__ = ["Server"]

ENGINE_FILES = ("_guid_file", "torus_config", "lfts_file", "_policy_file")
"""Options that are paths of files for engines end so."""


class Server:
    """Serves one fabric in this process until it is stopped: ports, agents, sockets, and perhaps
    our subnet manager.

    It takes the process's signals and its time; :func:`softib.up` starts one in its own process.
    ``name`` is that of the running fabric (default: the one of ``source``). Raises
    :class:`InputError` where a fabric of that name runs.
    """

    def __init__(self, source: str, name: str | None = None):
        from softib.live.instances import free, name_of

        self._began = time.monotonic()
        self._instance = free(name_of(source) if name is None else name)
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
        notice: Notice = warn,
    ) -> None:
        """Claim the name and make everything that programs attach to; nothing is served before
        :meth:`run`.

        ``sm``: ``internal`` (ours), ``external`` (a stock one will attach) or ``none``. ``manager``
        are settings of ours by the names of :class:`softib.sm.config.SmConfig` (``engine``,
        ``lmc``, ``root_guid_file`` …), None = not given; ``sm_config`` is OpenSM's options file,
        ``partitions`` its partitions.conf. ``udp``, ``pcap`` and ``pace`` are those of ``softib
        up``. Raises :class:`InputError` for a file or setting that cannot be used.
        """
        from softib.fabric.end_ports import common_lmc
        from softib.fabric.node_finder import port_named
        from softib.live.daemon import Daemon, Settings
        from softib.live.instances import claim
        from softib.live.internal_sm.settings import ManagerSettings
        from softib.sm.config import SmConfig

        result = result_of(fabric)
        given = {k: v for k, v in (manager or {}).items() if v is not None}
        if sm != "internal" and any(k.endswith(ENGINE_FILES) for k in given):
            raise InputError(
                f"GUID files are for the internal manager; give them to the manager that you start (--sm {sm})"
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
                notice(f"{fabric.source}: sm: is for the internal manager; not used with --sm {sm}")
            strict = int(result.fabric.node_strict.sum())
            if sm == "external" and strict:
                notice(
                    f"{counted(strict, 'switch')} show the extended speeds that ports support to those alone who "
                    f"set bit 31 of PortInfo's AttributeModifier; OpenSM 3.3.23"
                    " does not, and cannot speed links up again ('firmware: lenient' in the fabric's file shows "
                    "them to everybody)"
                )
            node = section.get("node")
            port_named(result.fabric, node)  # fail before the work
            served = Settings(fabric.source, sm, node, config, udp, settings.read, pcap, pace)
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
        """Seconds until the subnet was up as far as this process is to bring it up; None before."""
        return self._serving.ready_s

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Switches, channel adapters and cables."""
        fabric = self._serving.fabric
        return fabric.sizes.switches, len(fabric.cas), fabric.sizes.cables

    def table_faults(self) -> list[str]:
        """What is wrong with the forwarding tables that the internal manager made, a line each:
        another engine than asked for made them, pairs have no path, a credit loop can form. Large
        tables are not proved here."""
        from softib.sm.tables.table_proof import PROVED, prove_tables

        sm = None if self._serving.manager is None else self._serving.manager.sm
        if sm is None or sm.graph is None or sm.routing is None:
            return []
        return prove_tables(sm.database, sm.graph, sm.routing, sm.config, PROVED).faults

    def stop(self) -> None:
        """Leave :meth:`run` after this step."""
        self._serving.stop()

    def status(self) -> dict[str, Any]:
        """What ``softib status --json`` says of it."""
        return self._serving.operations.status()

    @property
    def _serving(self) -> Daemon:
        if self._daemon is None:
            raise InputError(f"{self.name} has not been started; call start(fabric) first")
        return self._daemon
