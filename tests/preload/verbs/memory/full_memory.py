"""A fabric whose directory is on a tmpfs of its own, in a mount namespace of its own: ``full_memory.py FOLDER SIZE SCENE PROGRAM``.

Prints a JSON list: exit code and output of each program that ran, then what became of the daemon.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

folder, size, scene, program = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder], check=True)
env = {**os.environ, "XDG_RUNTIME_DIR": folder}
filler = Path(folder, "filler")
log = Path(folder, "softib", "small", "log")


def softib(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "softib.cli.main", *words], env=env, capture_output=True, text=True, timeout=240
    )


def begin() -> subprocess.Popen:
    words = ["run", "--node", "host-0002", "--", "env", "-u", "PYTHONPATH", *program.split()]
    return subprocess.Popen(
        [sys.executable, "-m", "softib.cli.main", *words],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def leave(octets: int) -> None:
    """Fill the file system but for ``octets``."""
    about = os.statvfs(folder)
    with filler.open("wb") as file:
        for margin in range(8):  # the daemon may take a page meanwhile
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, max(1, (about.f_bavail - margin) * about.f_frsize - octets))
                return


def rings(octets: int | None) -> None:
    """Its queues exist, and then ``octets`` are left for what comes into them."""
    running = begin()
    line = running.stdout.readline()
    if octets is not None:
        leave(octets)
    running.stdin.close()
    ends.append((running.wait(120), line + running.stdout.read()))
    filler.unlink(missing_ok=True)


def ranks(pairs: int) -> None:
    """MPI jobs of two ranks that have connected and wait, all at once."""
    for at in range(0, pairs, 4):
        some = [begin() for _ in range(min(4, pairs - at))]
        jobs.extend((one, one.stdout.readline()) for one in some)
    held = json.loads(softib("status", "small", "--json").stdout)["fabrics"][0]["verbs"]
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    ends.append((0, json.dumps({"programs": held["programs"], "octets": held["octets"], "free": free})))
    Path(program.split()[-1]).touch()
    ends.extend((one.wait(240), first) for one, first in jobs)


def one_alone(octets: int | None) -> None:
    if octets is not None:
        leave(octets)
    running = begin()
    said = running.communicate("\n", 120)[0]
    ends.append((running.returncode, said))
    filler.unlink(missing_ok=True)


ends: list[tuple[int, str]] = []
jobs: list[tuple[subprocess.Popen, str]] = []
up = softib("up", f"{folder}.yaml", "--detach", "--name", "small")
assert up.returncode == 0, up.stderr
assert (
    softib("run", "--node", "host-0002", "--", "true").returncode == 0
)  # what it sees in /sys takes room, once a node
if scene == "many":
    programs = [begin() for _ in range(8)]
    lines = [p.stdout.readline() for p in programs]  # which it prints when it has made all that there is room for
    for _ in range(600):  # the daemon looks at the room now and then
        if "the file system is full" in log.read_text():
            break
        time.sleep(0.1)
    for p, line in zip(programs, lines, strict=True):
        p.stdin.close()
        ends.append((p.wait(240), line + p.stdout.read()))
elif scene == "rings":
    for left in (None, 0, 1 << 20, 13 << 19):
        rings(left)
elif scene.startswith("ranks "):
    ranks(int(scene.split()[1]))
else:
    one_alone(None)
    for pages in json.loads(scene):
        one_alone(pages * 4096)
for _ in range(300):  # the daemon frees what a program held when it sees its end
    status = json.loads(softib("status", "small", "--json").stdout)["fabrics"]
    if status and not status[0]["verbs"]["chunks"]:
        break
    time.sleep(0.2)
text = log.read_text()
down = softib("down", "small")
print(json.dumps({"ends": ends, "status": status, "log": text, "down": down.returncode}))
