"""The software stacks of hosts, collected on this host, over ssh or from files, and their comparison."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path, PurePosixPath

from softib.api.arguments import Suggests
from softib.errors import InputError, PeerError, os_reason
from softib.foreign_text import shown
from softib.host_facts.stack_checks import StackFault
from softib.host_facts.stack_facts import HostStack
from softib.plural import counted
from softib.result import Result
from softib.scratch import scratch_folder

__all__ = ["Stack", "stack", "stack_collector"]

MOST_OCTETS, MOST_FILES = 256 << 20, 20_000
"""Limits of an unpacked archive."""
SSH_S = 20.0
TOGETHER = 32
"""Number of hosts that are queried at the same time."""


@dataclass(frozen=True)
class Stack(Suggests, Result):
    """Hosts and the faults of their software stacks."""

    document = "stack"

    hosts: list[HostStack]
    faults: list[StackFault]
    unreached: list[str]
    """Hosts without an answer, with the reason."""
    seconds: float
    """Seconds to collect the facts of all hosts."""

    @property
    def good(self) -> bool:
        """Return whether every host was read and no host has a fault."""
        return not self.faults and not self.unreached

    def lines(self) -> list[str]:
        """Return text: one line for each fault, or a summary."""
        if not self.good:
            return [*map(str, self.faults), *self.unreached]
        adapters = sum(len(h.adapters) for h in self.hosts)
        return [f"{counted(len(self.hosts), 'host')}, {counted(adapters, 'adapter')}: as expected"]


def stack_collector() -> str:
    """Return the shell script that collects a host's facts: it prints an archive that :func:`stack`
    reads."""
    return files("softib.host_facts").joinpath("collect_stack.sh").read_text()


def stack(
    sources: Sequence[str | os.PathLike[str]] = (),
    *,
    ssh: Sequence[str] = (),
    matrix: str | os.PathLike[str] | None = None,
) -> Stack:
    """Compare the software stacks of hosts with each other, with their hardware, and with the
    support matrix. ``sources``: folders with a host's files, or archives of the collector. ``ssh``:
    hosts to collect from. Without both: this host. ``matrix``: a TOML file of rows that replace or
    extend softib's.

    Raises :class:`InputError` for files that cannot be read. A host that does not answer is listed in ``unreached``.
    """
    from softib.host_facts.stack_checks import stack_faults
    from softib.host_facts.support_matrix import read_matrix

    names = [os.fspath(s) for s in sources]
    for listed in (names, list(ssh)):
        if doubled := sorted({n for n in listed if listed.count(n) > 1}):
            raise InputError(f"{shown(doubled[0])} is given twice; remove one")
    if bad := next((h for h in ssh if not h or h.startswith("-")), None):
        raise InputError(f"{shown(bad) or 'an empty name'} is not a host name; use a name that ssh accepts")
    rows = read_matrix(matrix)
    began = time.monotonic()
    hosts = [_from_file(n) for n in names]
    unreached: list[str] = []
    if ssh or not names:
        with ThreadPoolExecutor(TOGETHER) as pool:
            for answer in pool.map(_collected, ssh or ("",)):
                if isinstance(answer, HostStack):
                    hosts.append(answer)
                else:
                    unreached.append(answer)
    took = time.monotonic() - began
    hosts = _with_distinct_names(hosts)
    return Stack(hosts, stack_faults(hosts, rows), unreached, round(took, 3))


def _with_distinct_names(hosts: list[HostStack]) -> list[HostStack]:
    """Return the hosts with distinct names: where several have the same name, the source is added to it."""
    times = Counter(h.host for h in hosts)
    return [h if times[h.host] == 1 else replace(h, host=f"{h.host} ({shown(h.source)})") for h in hosts]


def _from_file(source: str) -> HostStack:
    from softib.host_facts.stack_facts import read_stack

    path = Path(source)
    if path.is_dir():
        return read_stack(path, source)
    if not path.exists():
        raise InputError(f"{shown(source)}: no such file; give a folder or an archive of softib stack --collector")
    from softib.input_files import content

    return _from_archive(bytes(content(path, MOST_OCTETS, "archive of a host").data), source)


def _collected(host: str) -> HostStack | str:
    """Return the facts of a host (empty: this one), or the reason why there are none."""
    from softib.live.acceptance.launchers import SSH

    command = ["sh", "-s"] if not host else [*SSH, "--", host, "sh", "-s"]
    try:
        done = subprocess.run(command, input=stack_collector().encode(), capture_output=True, timeout=SSH_S)
    except subprocess.TimeoutExpired:
        return f"{host or 'this host'}: no answer within {SSH_S:.0f} s"
    except OSError as error:
        raise PeerError(f"{command[0]}: {os_reason(error)}") from None
    if done.returncode or not done.stdout:
        reason = shown(done.stderr.decode("utf-8", "replace").strip().splitlines()[-1]) if done.stderr.strip() else ""
        return f"{host or 'this host'}: {reason or f'the collector ended with {done.returncode}'}"
    try:
        return _from_archive(done.stdout, host or "this host")
    except InputError as error:
        return str(error)


def _from_archive(octets: bytes, source: str) -> HostStack:
    from softib.host_facts.stack_facts import read_stack

    with scratch_folder("stack") as folder:
        try:
            with tarfile.open(fileobj=io.BytesIO(octets), mode="r:*") as archive:
                _unpack(archive, folder)
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            why = shown(str(error))
            raise InputError(f"{shown(source)}: not an archive of softib stack --collector: {why}") from None
        return read_stack(folder, source)


def _unpack(archive: Iterable[tarfile.TarInfo], folder: Path) -> None:
    """Write the regular files of an archive, and no others, below ``folder``."""
    assert isinstance(archive, tarfile.TarFile)
    octets = count = 0
    for member in archive:
        path = PurePosixPath(member.name)
        if not member.isfile() or path.is_absolute() or ".." in path.parts:
            continue
        octets, count = octets + member.size, count + 1
        if octets > MOST_OCTETS or count > MOST_FILES:
            raise ValueError(f"it has more than {MOST_FILES:,} files or {MOST_OCTETS >> 20} MiB")
        content = archive.extractfile(member)
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.read() if content is not None else b"")
