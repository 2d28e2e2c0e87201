"""Hosts with a real sshd each: Debian's, one on the address of every node of a running fabric; a session runs on its node.

Each has its own keys and configuration, and a mount namespace in which /etc/hosts knows the other nodes. Only root may have that (and the folder /run/sshd that sshd asks for).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scratch import scratch

CONFIG = """\
ListenAddress {address}:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/{keys}
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv XDG_RUNTIME_DIR={runtime} TMPDIR={folder}
ForceCommand {command}
"""
CLIENT = """\
Host {node}
  HostName {address}
  Port {port}
  User root
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  LogLevel ERROR
"""
PRIVSEP = Path("/run/sshd")


class SshdCluster:
    """``nodes`` of ``fabric`` (a name), each with an sshd; ``sick`` says what is wrong with some: ``no key``, ``off``, ``silent`` (TCP and no word), ``stuck`` (a session that
    does nothing), ``bare`` (no perftest)."""

    def __init__(self, fabric: str, nodes: list[str], sick: dict[str, str]):
        self.folder = scratch("sshd-")
        self.folder.chmod(0o755)
        self.begun: list[subprocess.Popen[bytes]] = []
        self.sockets: list[socket.socket] = []
        self.made_privsep = not PRIVSEP.exists()
        PRIVSEP.mkdir(mode=0o755, exist_ok=True)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        shutil.copy(self.folder / "user.pub", self.folder / "keys")
        (self.folder / "no-keys").touch()
        attached = [sys.executable, "-m", "softib", "run", "--fabric", fabric, "--node"]
        self.address = {
            n: subprocess.run(
                [*attached, n, "--", "printenv", "SOFTIB_ADDRESS"], check=True, capture_output=True, text=True
            ).stdout.strip()
            for n in nodes
        }
        self.port = _free_port()
        (self.folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for n, a in self.address.items())
        )
        self.config = self.folder / "config"
        self.config.write_text(
            "".join(
                CLIENT.format(node=n, address=a, port=self.port, folder=self.folder) for n, a in self.address.items()
            )
        )
        bare = self.folder / "bare"
        bare.mkdir()
        for program in ("sh", "timeout", "env"):
            (bare / program).symlink_to(str(shutil.which(program)))
        for node in nodes:
            self._begin(node, " ".join([*attached, node]), sick.get(node, ""), bare)
        for node in nodes:
            if sick.get(node) != "off":
                _until(lambda a=self.address[node]: _listens(a, self.port), 20)

    def _begin(self, node: str, attached: str, sick: str, bare: Path) -> None:
        if sick == "off":
            return
        if sick == "silent":
            self.sockets.append(socket.create_server((self.address[node], self.port)))
            return
        command = f'exec {attached} -- sh -c "$SSH_ORIGINAL_COMMAND"'
        if sick == "bare":
            command = f"PATH={bare} {command}"
        elif sick == "stuck":
            command = "exec sleep 600"
        config = self.folder / f"{node}.conf"
        config.write_text(
            CONFIG.format(
                address=self.address[node],
                port=self.port,
                folder=self.folder,
                keys="no-keys" if sick == "no key" else "keys",
                runtime=os.environ["XDG_RUNTIME_DIR"],
                command=command,
            )
        )
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin")
        script = f"mount --bind {self.folder}/hosts /etc/hosts && exec {sshd} -D -e -f {config}"
        with (self.folder / f"{node}.log").open("wb") as log:
            self.begun.append(
                subprocess.Popen(
                    ["unshare", "-m", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            )

    def log(self) -> str:
        """What the servers wrote."""
        return "\n".join(f"{p.name}: {p.read_text()}" for p in sorted(self.folder.glob("*.log")))

    def sessions(self) -> list[str]:
        """Command lines of what runs below the servers."""
        return [c for s in self.begun for c in _below(s.pid)]

    def close(self) -> None:
        """End the servers and their sessions."""
        for one in self.sockets:
            one.close()
        for server in self.begun:
            for pid in _pids_below(server.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            server.kill()
            server.wait()
        if self.made_privsep:
            PRIVSEP.rmdir()


def need_sshd() -> None:
    """Skip with the reason where this cannot be."""
    if os.geteuid():
        pytest.skip("sshd of many hosts on one machine needs root")
    for program in ("sshd", "ssh", "ssh-keygen", "unshare"):
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            pytest.skip(f"{program} is not installed")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _listens(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


def _until(true: Callable[[], bool], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def _children() -> dict[int, list[int]]:
    out: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            out.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    return out


def _pids_below(pid: int) -> Iterator[int]:
    children, queue = _children(), [pid]
    while queue:
        mine = children.get(queue.pop(), [])
        yield from mine
        queue += mine


def _below(pid: int) -> list[str]:
    out = []
    for each in _pids_below(pid):
        with contextlib.suppress(OSError):
            out.append((Path("/proc") / str(each) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
    return out
