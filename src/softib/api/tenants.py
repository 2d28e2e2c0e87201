"""Partitions as a service: start the service for one subnet."""

from __future__ import annotations

import gc
import os
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from softib.api.progress import Notice
from softib.api.web import prepared
from softib.errors import InputError
from softib.source import warn
from softib.whole_files import write_text

if TYPE_CHECKING:
    from softib.live.umad_client.wire import MadWire
    from softib.tenants.managers import Manager
    from softib.tenants.service import TenantService

__all__ = ["TenantOptions", "serve_tenants"]

SWITCH_S = 0.001
"""Longest time that a computing thread (for example a search of the subnet) holds the interpreter
while requests wait: each request passes through three threads."""
COLLECT_EVERY = 5_000
"""Number of new objects between two garbage collections. A collection stops all threads, for longer the more objects
are new; :data:`softib.cli.main.GC_EVERY`, for commands that end soon, makes requests wait for 20 ms.
"""
ADMIN = "admin"


@dataclass(frozen=True)
class TenantOptions:
    """Options of the service: where it stores tenants, and which manager programs their partitions."""

    folder: str | os.PathLike[str]
    """The directory of the database, created if missing."""
    partitions: str | os.PathLike[str] | None = None
    """The partitions.conf of a manager other than softib's in a running fabric."""
    reload: str | None = None
    """The command that makes that manager read the file again."""
    managers: str | os.PathLike[str] | None = None
    """A file with the PortGUIDs of the managers that read ``partitions``, one a line: a master and its standbys. If
    none is given, the master at the start of the service is the only one."""
    certificate: str | os.PathLike[str] | None = None
    """PEM file with the certificate and key for TLS. If none is given, one is generated for
    addresses other than loopback."""
    client_ca: str | os.PathLike[str] | None = None
    """PEM file of the CA whose client certificates identify accounts."""
    mkey: int = 0
    """The M_Key of the subnet's manager, if ports answer only with it (0: that of the environment variable
    ``SOFTIB_MKEY``, if it is set)."""


def serve_tenants(
    source: str,
    tenants: TenantOptions,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    every: float = 2.0,
    jobs: str | os.PathLike[str] | None = None,
    history: str | os.PathLike[str] | None = None,
    ready: Callable[[str], None] | None = None,
    notice: Notice = warn,
) -> None:
    """Serve the running fabric ``source``, or the subnet of ``umad:DEVICE``, like :func:`serve`,
    and let clients change its partitions under ``/ufmRest`` and ``/tenants/v1``. ``every``: seconds
    between two readings of the counters.

    At the first start an account ``admin`` is created; its password is in the file
    ``admin-password`` in the folder of ``tenants``. Raises :class:`InputError` if nothing can be
    programmed, or if another process serves the same folder, subnet or manager's file.
    """
    from softib.web.access import is_loopback
    from softib.web.server import DEFAULT_PORT, listen
    from softib.web.server import serve as run
    from softib.web.tls import self_signed, tls_of

    sys.setswitchinterval(SWITCH_S)
    tls = None if tenants.certificate is None else tls_of(tenants.certificate, tenants.client_ca)
    if tenants.client_ca is not None and tls is None and is_loopback(host):
        raise InputError("client_ca needs TLS; add certificate")
    served = prepared(source, token, every, jobs, history, notice, mkey=tenants.mkey)
    number = DEFAULT_PORT if port is None else port
    with ExitStack() as held:
        listener = held.enter_context(listen(host, number))  # first, so that a failed start creates no account
        service = _service(source, tenants, notice, held)
        gc.set_threshold(COLLECT_EVERY)
        gc.freeze()  # collections skip the modules and the stored partitions, which would take 0.1 s each time
        from softib.web.ufm.app import gate_of

        if tls is None and not is_loopback(host):
            tls = self_signed(service.folder, host, tenants.client_ca)
        run(
            served,
            host,
            number,
            token,
            ready or (lambda address: None),
            lambda app: gate_of(app, served, service),
            tls,
            listener,
        )


def _service(source: str, tenants: TenantOptions, notice: Notice, held: ExitStack) -> TenantService:
    """Return the service; ``held`` closes it, and then releases its locks on the subnet and on the manager's file."""
    from softib.monitor.opening import is_live, open_source
    from softib.tenants.accounts import Account
    from softib.tenants.exclusive import lock, lock_subnet
    from softib.tenants.intruders import IntruderWatch
    from softib.tenants.managers import FileManager
    from softib.tenants.service import TenantService
    from softib.tenants.store import ADMIN_FILE

    if not is_live(source):
        raise InputError(f"{source}: tenants need a running fabric or umad:DEVICE; start a fabric with 'softib up'")
    path = Path(tenants.folder)
    manager = _manager(source, path, tenants)
    held.enter_context(lock_subnet(_subnet_name(source), path))
    if isinstance(manager, FileManager):
        held.enter_context(lock(manager.lock_path(), str(manager.file), path))
    intruders = IntruderWatch(lambda: _listening(source, tenants.mkey), time.time)
    service = TenantService(path, lambda: open_source(source, tenants.mkey or None), manager, intruders=intruders)
    held.callback(service.close)
    if not service.accounts.all():
        password = secrets.token_hex(16)  # hexadecimal, so that it never begins with "-" like an option
        write_text(path / ADMIN_FILE, password + "\n")  # only the owner can read the folder
        (path / ADMIN_FILE).chmod(0o600)
        service.accounts.put(Account(ADMIN, "admin"), password)
        notice(f"the password of {ADMIN} is in {path / ADMIN_FILE}")
    return service


def _subnet_name(source: str) -> str:
    """Return the name of a running fabric, or the PortGUID of a umad device."""
    from softib.live.umad_client.devices import find_device
    from softib.monitor.opening import PREFIX

    if not source.startswith(PREFIX):
        return source
    return f"{PREFIX}{find_device(source.removeprefix(PREFIX) or None).guid:016x}"


def _listening(source: str, mkey: int) -> tuple[MadWire, Callable[[], None]]:
    from softib.live.instances import find
    from softib.live.umad_client.devices import find_device
    from softib.live.umad_client.fabric_port import FabricPort
    from softib.live.umad_client.port import UmadPort
    from softib.live.umad_client.wire import keyed
    from softib.monitor.opening import PREFIX
    from softib.tenants.intruders import LISTENS

    if source.startswith(PREFIX):
        port: UmadPort = UmadPort(find_device(source.removeprefix(PREFIX) or None), LISTENS)
    else:
        port = FabricPort(find(source), None, LISTENS)
    return keyed(port, mkey or None), port.close


def _manager(source: str, folder: Path, tenants: TenantOptions) -> Manager:
    from softib.live.instances import running
    from softib.live.status import status_of
    from softib.sm.options.fabric_yaml import read_guids
    from softib.tenants.managers import FileManager, InternalManager

    partitions, reload, managers = tenants.partitions, tenants.reload, tenants.managers
    if partitions is not None or reload is not None:
        if partitions is None or not reload:
            raise InputError(
                "partitions (OpenSM's partition file) and reload (the command that makes OpenSM read it) are needed "
                "together; give both"
            )
        return FileManager(Path(partitions), reload, () if managers is None else read_guids(os.fspath(managers)))
    if managers is not None:
        raise InputError("managers names the managers that read partitions; add partitions and reload")
    instance = next((i for i in running() if i.name == source), None)
    if instance is not None and status_of(instance).sm.kind == "internal":
        return InternalManager(instance, folder)
    raise InputError(
        f"{source} has no softib manager; give OpenSM's partition file and the command that makes OpenSM read it, for "
        f"example "
        f"--partitions /etc/opensm/partitions.conf --reload 'systemctl reload opensm'"
    )
