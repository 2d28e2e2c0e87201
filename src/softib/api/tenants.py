"""Partitions as a service: opens the service of one subnet."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from softib.api.progress import Notice
from softib.errors import InputError
from softib.source import warn

if TYPE_CHECKING:
    from softib.tenants.managers import Manager
    from softib.tenants.service import TenantService

__all__ = ["tenant_service"]

ADMIN, PASSWORD_FILE = "admin", "admin-password"


def tenant_service(
    source: str,
    folder: str | os.PathLike[str],
    partitions: str | os.PathLike[str] | None = None,
    reload: str | None = None,
    notice: Notice = warn,
) -> TenantService:
    """The service of the running fabric, or subnet behind ``umad:DEVICE``, ``source``, kept in
    ``folder``; close it at the end. With ``partitions`` and ``reload`` another manager programs them.

    The first time an account ``admin`` is made; its password is in ``folder/admin-password``. Raises
    :class:`InputError` where nothing can be programmed.
    """
    from softib.monitor.opening import is_live, open_source
    from softib.tenants.accounts import Account
    from softib.tenants.service import TenantService

    if not source or not is_live(source):
        raise InputError(
            f"{source or 'this fabric'}: tenants need a running fabric, or umad:DEVICE; 'softib up' runs one"
        )
    path = Path(folder)
    service = TenantService(path, lambda: open_source(source), _manager(source, path, partitions, reload))
    if not service.accounts.all():
        password = secrets.token_urlsafe(18)
        descriptor = os.open(path / PASSWORD_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(password + "\n")
        service.accounts.put(Account(ADMIN, "admin"), password)
        notice(f"the password of {ADMIN} is in {path / PASSWORD_FILE}")
    return service


def _manager(source: str, folder: Path, partitions: str | os.PathLike[str] | None, reload: str | None) -> Manager:
    from softib.live.control import ask
    from softib.live.instances import running
    from softib.tenants.managers import FileManager, InternalManager

    if partitions is not None or reload is not None:
        if partitions is None or not reload:
            raise InputError(
                "partitions, the manager's file, and reload, the command that makes it read it, go together"
            )
        return FileManager(Path(partitions), reload)
    instance = next((i for i in running() if i.name == source), None)
    if instance is not None and ask(instance, "status")["sm"]["kind"] == "internal":
        return InternalManager(instance, folder)
    raise InputError(
        f"{source}: no manager of softib's runs there; name OpenSM's file and how it reads it again, for example "
        f"--partitions /etc/opensm/partitions.conf --reload 'systemctl reload opensm'"
    )
