"""A fabric that runs: started, used and stopped from Python. The daemon is a process of its own, as ``softib up`` starts it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from softib.api.fabric import Fabric, running
from softib.api.frames import frame
from softib.errors import InputError

if TYPE_CHECKING:
    import polars

__all__ = ["RunningFabric", "up"]


class RunningFabric:
    """A running fabric by name. As a context manager it ends with its block (:func:`up`)."""

    def __init__(self, name: str):
        self.name = name

    def run(
        self, node: str, command: Sequence[str], *, check: bool = True, timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``command`` on ``node`` to its end, as ``softib run`` does; stdout and stderr are text.

        Raises :class:`InputError` where softib refuses (an unknown node, no such program), and with ``check``
        :class:`subprocess.CalledProcessError` where the program ends with another code than 0.
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

    def fault(self, kind: str, where: str | None = None, **options: Any) -> dict[str, Any]:
        """Break or mend something: ``fault("link-down", "leaf-3[40]")``, ``fault("ber", PORT, ber=1e-9)``, ``fault("clear")``.

        Options are those of ``softib fault``. Raises :class:`InputError` and its kin.
        """
        return self._ask("fault", kind=kind, where=where, **options)

    def status(self) -> dict[str, Any]:
        """As ``softib status --json`` prints it."""
        return self._ask("status")

    def snapshot(self) -> Fabric:
        """A copy of it as it stands now: states, tables, counters."""
        return running(self.name)

    def counters(self) -> polars.DataFrame:
        """One row a port with its PerfMgt counters, as they stand now."""
        from softib.api import columns

        return frame(columns.counters(running(self.name).arrays))

    def down(self) -> None:
        """Stop it. Programs on it see their next send fail."""
        from softib.live.control.client import stop
        from softib.live.instances import find

        stop(find(self.name))

    def _ask(self, op: str, **more: Any) -> dict[str, Any]:
        from softib.live.control.client import ask
        from softib.live.instances import find

        return ask(find(self.name), op, **more)

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


def up(
    source: Fabric | str | os.PathLike[str], *, name: str | None = None, sm: str = "internal", engine: str | None = None,
    pace: bool = False, options: Sequence[str] = (),
) -> RunningFabric:  # fmt: skip
    """Start ``source`` as a running fabric, ready when this returns; ``with softib.up(…) as f:`` stops it at the end.

    ``sm``: ``internal`` (ours brings it up), ``external`` (a stock one will attach) or ``none``. ``options`` are further ones of
    ``softib up``. Raises :class:`InputError` with that command's own line where it refuses.
    """
    arguments = [f"--sm={sm}", *(["--pace"] if pace else []), *([f"--engine={engine}"] if engine else []), *options]
    with tempfile.TemporaryDirectory(prefix="softib-") as folder:
        path = _file_of(source, Path(folder))
        named = name or _name_for(source)
        command = [sys.executable, "-m", "softib", "up", path, "--detach", "--name", named, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"softib up ended with {done.returncode}"]
        raise InputError(lines[-1].removeprefix("softib: "))
    return RunningFabric(named)


def _name_for(source: Fabric | str | os.PathLike[str]) -> str:
    from softib.live.instances import name_of

    return name_of(source.name if isinstance(source, Fabric) else os.fspath(source))


def _file_of(source: Fabric | str | os.PathLike[str], folder: Path) -> str:
    """The path of ``source``; a fabric that was generated here is written into ``folder`` first."""
    if not isinstance(source, Fabric):
        return os.fspath(source)
    if Path(source.source).exists():
        return source.source
    from softib.api.fabric import result_of
    from softib.fabric.topologies.spec_writer import spec_text

    path = folder / "fabric.yaml"
    path.write_text(spec_text(result_of(source).fabric))
    return str(path)
