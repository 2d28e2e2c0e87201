"""Starts a fabric that runs in a process of its own: ``softib up`` without a terminal."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from softib.api.fabric import Fabric, result_of
from softib.api.progress import Notice
from softib.api.running.running import RunningFabric
from softib.errors import InputError, SoftibBug, SoftibError

__all__ = ["Starter", "up"]

READY_FD = "SOFTIB_READY_FD"
"""Descriptor on which a fabric in its own process tells the one who started it that it is ready."""
READY = b"ready\n"
BUG = "this is a bug in softib: "

OPENSM_SUFFIXES = ("_file", "torus_config", "nue_max_num_vls")
"""Ends of the options that keep OpenSM's underscores."""


def up(
    source: Fabric | str | os.PathLike[str],
    *,
    name: str | None = None,
    sm: str = "internal",
    engine: str | None = None,
    pace: bool = False,
    notice: Notice | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> RunningFabric:
    """Start ``source`` as a running fabric, ready when this returns; ``with softib.up(…) as f:``
    stops it at the end.

    ``sm``: ``internal`` (ours brings it up), ``external`` (a stock one will attach) or ``none``.
    ``options`` are further ones of ``softib up`` by their long names: ``lmc=1``,
    ``partitions="partitions.conf"``, ``reassign_lids=True``. ``notice`` gets a line for each thing
    that its log says, ``progress`` the state while this waits. Raises :class:`InputError` with the
    line of ``softib up`` where that refuses.
    """
    from softib.live.instances import free, name_of

    given = {"sm": sm, **({"engine": engine} if engine else {}), "pace": pace, **options}
    with tempfile.TemporaryDirectory(prefix="softib-") as folder:
        path = _file_of(source, Path(folder))
        label = source.name if isinstance(source, Fabric) else path
        instance = free(name_of(label) if name is None else name)
        new = not instance.folder.exists()
        instance.folder.mkdir(mode=0o700, exist_ok=True)
        command = [sys.executable, "-m", "softib", "up", path, "--name", instance.name, *_arguments(given)]
        try:
            code = _start(command, instance.log, path, progress or (lambda text: None))
        except KeyboardInterrupt:
            if new:
                instance.forget()
            raise
    lines = [line.removeprefix("softib: ") for line in instance.log.read_text(errors="replace").strip().splitlines()]
    if code is not None and new:
        instance.forget()
    last = lines.pop() if code is not None and lines else f"softib up ended with {code}; its log is empty"
    if notice is not None:
        for line in lines:
            notice(line)
    if code is not None:
        raise _refusal(code, last)
    return RunningFabric(instance.name)


def _arguments(options: dict[str, Any]) -> list[str]:
    """Options of ``softib up`` from names and values: ``reassign_lids=True`` is
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


def _start(command: list[str], log: Path, source: str, progress: Callable[[str], None]) -> int | None:
    """Start ``command`` in a session of its own; None when the fabric is ready, else the code with
    which it ended."""
    from softib.input_files import STDIN

    read, write = os.pipe()
    with open(log, "wb") as output:
        child = subprocess.Popen(
            command,
            env={**os.environ, READY_FD: str(write)},
            stdin=None if source == STDIN else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(write,),
            start_new_session=True,
        )
    os.close(write)
    try:
        with os.fdopen(read, "rb") as pipe:
            ready = _wait(pipe, progress)
    except KeyboardInterrupt:
        child.terminate()
        raise
    if ready:
        threading.Thread(target=child.wait, daemon=True).start()  # it goes on; no zombie stays when it ends
        return None
    return child.wait() or 1


def _wait(pipe: BinaryIO, progress: Callable[[str], None]) -> bool:
    """Hand progress on until the fabric is ready; False when it ended before."""
    for line in pipe:
        if line == READY:
            return True
        progress(line.decode(errors="replace").strip())
    return False


def _refusal(code: int, line: str) -> SoftibError:
    return SoftibBug(line.removeprefix(BUG)) if code == SoftibBug.exit_code else InputError(line)


class Starter:
    """The one who started this process's fabric and waits for it: at the other end of a pipe
    (:func:`up`), or nobody."""

    def __init__(self) -> None:
        fd = os.environ.pop(READY_FD, "")
        self.detached, self._fd = fd.isdigit(), int(fd) if fd.isdigit() else None

    def announce(self, text: str) -> None:
        """A line of progress."""
        self._write(text.encode() + b"\n")

    def ready(self) -> None:
        """That is all."""
        self._write(READY)
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # it may have left
            if self._fd is not None:
                os.write(self._fd, line)


def _file_of(source: Fabric | str | os.PathLike[str], folder: Path) -> str:
    """The path of ``source``; a fabric that was generated here is written into ``folder`` first."""
    if not isinstance(source, Fabric):
        return os.fspath(source)
    if Path(source.source).exists():
        return source.source
    from softib.fabric.topologies.registry import spec_text

    path = folder / "fabric.yaml"
    path.write_text(spec_text(result_of(source).fabric))
    return str(path)
