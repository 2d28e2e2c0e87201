"""Three users: the owner of a running fabric, a stranger on the same machine, and root."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.lab import FABRIC
from tests.live.serving import PRELOAD
from tests.scratch import scratch

pytestmark = [
    pytest.mark.stock,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not installed"),
]
OWNER, STRANGER = 65534, 65533


def as_user(uid: int, *capabilities: str) -> list[str]:
    sets = [word for c in capabilities for word in ("--inh-caps", f"+{c}", "--ambient-caps", f"+{c}")]
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", *sets]


def linked_rows(output: str) -> list[str]:
    """Of iblinkinfo: the ends of cables."""
    return [line for line in output.splitlines() if "LinkUp" in line]


class Owned:
    """A fabric that the user :data:`OWNER` has started with ``softib up``."""

    def __init__(self, folder: Path):
        self.folder = folder
        cache = Path(os.environ.get("SOFTIB_CACHE_DIR") or Path.home() / ".cache" / "softib")
        shutil.copytree(cache / "kernels", folder / "cache" / "kernels")  # not the bytecode beside it, a gigabyte
        (folder / "run").mkdir(mode=0o700)
        (folder / "one.yaml").write_text(FABRIC.format(name="one"))
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, OWNER, OWNER)
        source = str(Path(__file__).resolve().parents[2] / "src")
        self.env = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "SOFTIB_CACHE_DIR": str(folder / "cache"),
            "HOME": str(folder),
            "PYTHONPATH": source,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def __call__(self, *words: str, code: int = 0) -> str:
        """``softib`` of the owner, who may read this checkout and this Python wherever they are."""
        done = subprocess.run(
            [*as_user(OWNER, "dac_read_search"), sys.executable, "-m", "softib.cli.main", *words],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    @property
    def status(self) -> dict:
        return json.loads(self("status", "one", "--json"))["fabrics"][0]

    def environment(self, *options: str) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self("run", *options, "--", "env", "-0").split("\0") if "=" in line)

    def run(self, uid: int, env: dict[str, str], *command: str) -> tuple[int, str]:
        """Exit code and output of a stock program with the owner's whole ``env``, in a folder of its own user."""
        folder = self.folder / f"home-{uid}"
        folder.mkdir(exist_ok=True)
        os.chown(folder, uid, uid)
        env = {**env, "HOME": str(folder), "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
        user = [] if uid == 0 else as_user(uid)
        done = subprocess.run([*user, *command], env=env, cwd=folder, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def owned() -> Iterator[Owned]:
    folder = scratch("su-")
    folder.chmod(0o755)  # so that only what softib does keeps the stranger out
    fabric = Owned(folder)
    fabric("up", "one.yaml", "--detach")
    yield fabric
    fabric("down", "one")


@pytest.fixture(scope="module")
def by_stock_library(owned) -> dict[str, str]:
    """As a program under ``libumad2sim.so`` has it; the name of its sockets is in /proc/net/unix for everybody."""
    if not PRELOAD.is_file():
        pytest.skip("libumad2sim.so (ibsim-utils) is not installed")
    env = owned.environment("--stock-preload")
    assert f"@{env['IBSIM_SOCKNAME']}:ctl" in Path("/proc/net/unix").read_text()
    return {**env, "LD_PRELOAD": str(PRELOAD)}


TOOLS = (
    ("iblinkinfo",),
    ("ibnetdiscover",),
    ("saquery",),
    ("sminfo",),
    ("perfquery", "2"),
    ("smpquery", "nodeinfo", "1"),
    ("ibportstate", "1", "1", "disable"),
    ("opensm", "-p", "14", "-o", "-f", "opensm.log"),
)


@pytest.mark.parametrize("command", TOOLS, ids=lambda c: c[0])
def test_a_stranger_reaches_nothing_through_the_stock_library(owned, by_stock_library, stock, command):
    stock(command[0])
    code, output = owned.run(STRANGER, by_stock_library, *command)
    assert code != 0, output
    for name in ("host-0", "leaf-", "spine-", "Lid", "lid "):
        assert name not in output
    now = owned.status
    assert now["port_states"]["active"] == 32 and now["clients"] == [] and now["sm"]["state"] == "MASTER"
    assert f"refused at the socket @{now['sockname']}:ctl: uid {STRANGER}" in Path(now["log"]).read_text()


@pytest.mark.parametrize("uid", [OWNER, 0], ids=["owner", "root"])
def test_the_owner_and_root_reach_it(owned, by_stock_library, stock, uid):
    """By the stock library, by ours, and both show what the owner's fabric is."""
    stock("iblinkinfo"), stock("saquery")
    for env in (by_stock_library, owned.environment()):
        code, output = owned.run(uid, env, "iblinkinfo")
        assert code == 0 and len(linked_rows(output)) == 32, output
        code, output = owned.run(uid, env, "saquery", "-s")
        assert code == 0 and "IsSM" in output, output


CONNECT = """
import os, socket, sys
uid, *paths = sys.argv[1:]
os.setgroups([]); os.setgid(int(uid)); os.setuid(int(uid))
for path in paths:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        sock = socket.socket(socket.AF_UNIX, kind)
        try:
            sock.connect(path)
        except OSError as error:
            answer = error.strerror
        else:
            try:
                sock.settimeout(20)
                sock.send(b'{"op": "status"}\\n')
                answer = len(sock.recv(1 << 16)) > 0
            except OSError as error:
                answer = error.strerror
        if answer != "Protocol wrong type for socket":
            print(os.path.basename(path), answer, flush=True)
"""


def connect_as(uid: int, paths: list[Path]) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", CONNECT, str(uid), *map(str, paths)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_sockets_ask_for_the_user_even_where_their_modes_let_everybody_in(owned):
    """As after a ``chmod -R`` or in a copy of the folder's tree by bind mount."""
    folder = owned.folder / "run" / "softib" / "one"
    paths = sorted(p for p in folder.iterdir() if p.is_socket())
    assert [p.name for p in paths] == ["control", "rdma_cm", "umad", "verbs.sock"]
    assert set(connect_as(STRANGER, paths).values()) == {"Permission denied"}
    opened = [owned.folder / "run", owned.folder / "run" / "softib", folder, *paths]
    before = [path.stat().st_mode for path in opened]
    try:
        for path in opened:
            path.chmod(0o777)
        said = connect_as(STRANGER, paths)
        assert said.keys() == {p.name for p in paths} and not set(said.values()) & {"True", "Permission denied"}, said
        for uid in (OWNER, 0):
            assert set(connect_as(uid, paths).values()) == {"True"}
    finally:
        for path, mode in zip(opened, before, strict=True):
            path.chmod(mode)
    log = (folder / "log").read_text()
    for path in paths:
        assert f"refused at the socket {path}: uid {STRANGER}" in log


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare (util-linux) is not installed")
def test_a_program_in_another_network_namespace(owned, stock):
    """Sockets in the file system reach it; abstract ones do not, and that is one line instead of waiting without end."""
    stock("iblinkinfo")
    inside = ["unshare", "-n", *as_user(OWNER, "dac_read_search"), sys.executable, "-m", "softib.cli.main", "run"]
    run = lambda *words: subprocess.run(
        [*inside, *words], env=owned.env, cwd=owned.folder, capture_output=True, text=True, timeout=60
    )
    done = run("--", "iblinkinfo")
    assert done.returncode == 0 and len(linked_rows(done.stdout)) == 32, done.stderr
    done = run("--stock-preload", "--", "iblinkinfo")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "network namespace" in done.stderr, (
        done.stderr
    )


def test_names_that_a_stranger_takes_first(owned):
    """The abstract name is another one each time, a UDP port's holder is named, and so is the owner of a runtime directory."""
    first = owned.status["sockname"]
    owned("up", "one.yaml", "--detach", "--name", "two", "--sm", "none")
    second = json.loads(owned("status", "two", "--json"))["fabrics"][0]["sockname"]
    owned("down", "two")
    assert first.rpartition("-")[2] != second.rpartition("-")[2] and str(OWNER) not in first + second
    hold = "import os, socket, sys; os.setuid(int(sys.argv[1])); s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-I", "-c", hold, str(STRANGER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as taker:
        port = taker.stdout.readline().strip()
        said = owned("up", "one.yaml", "--name", "two", "--sm", "none", "--udp", port, code=2)
        taker.communicate("")
    assert f"UDP port {port}" in said and f"uid {STRANGER}" in said and "use another --udp" in said, said
    runtime = owned.folder / "run" / "softib"
    os.chown(runtime, STRANGER, STRANGER)
    try:
        said = owned("status", code=2)
    finally:
        os.chown(runtime, OWNER, OWNER)
    assert f"{runtime}: belongs to uid {STRANGER}" in said, said


def test_a_stranger_cannot_take_the_place_of_a_program_that_died(owned, by_stock_library):
    """The stock library's data socket has a predictable name; the daemon never connects to it a second time."""
    base, pid = by_stock_library["IBSIM_SOCKNAME"], 4_000_000
    address = lambda name: b"\0" + f"{base}:{name}".encode() + b"\0"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as data,
    ):
        control.bind(address(f"ctl{pid}")), data.bind(address(f"in{pid}"))
        control.settimeout(20), control.connect(address("ctl"))
        control.send(
            struct.pack("=4I", 0xDEADBEEF, 0, 1, 44) + struct.pack("=3I32s", pid, 0, 0, b"host-0003").ljust(64, b"\0")
        )
        number = struct.unpack_from("=I", control.recv(80), 16)[0]
        assert number and pid in [client["pid"] for client in owned.status["clients"]]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as thief:
        thief.bind(address(f"in{pid}"))
        time.sleep(1.5)  # whenever the daemon has looked whether its clients live, it refuses
        with pytest.raises(OSError, match=r"not permitted|refused"):
            thief.connect(address(f"out{number}"))
