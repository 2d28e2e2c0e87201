"""Play stories on running fabrics and keep what the programs printed: ``python -m bench.why_stories.record FOLDER [--stories A:B,C] [--kind K]``.

Of each story FOLDER/NNN-KIND has the logs of its programs, the exporter's history, the fabric as ibnetdiscover's and dump_lfts' text
from before, and ``truth.json``: what was planted, where, and which hosts took part. A story that is there already is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench.why_stories.kinds import FABRICS, GENERATED, PARTITIONS, Program, Story, kind_of, story
from bench.why_stories.later import LATER
from bench.why_stories.unread import UNREAD

HERE = Path(__file__).parent
SOFTIB = str(Path(sys.executable).parent / "softib")
EVERY_S = 1.5
MEETS = re.compile(r"(ib_\w+_(bw|lat)|ibv_\w+_pingpong|ucx_perftest)$")
"""Programs whose two processes meet over TCP. All nodes share this machine's ports, with other recorders too."""


def free_port() -> int:
    """A TCP port that no process listens on."""
    with socket.socket() as some:
        some.bind(("", 0))
        return int(some.getsockname()[1])


def softib(*words: str, check: bool = True) -> str:
    """What ``softib WORDS`` prints."""
    done = subprocess.run([SOFTIB, *words], capture_output=True, text=True, timeout=180)
    if check and done.returncode:
        raise RuntimeError(f"softib {' '.join(words)}: {done.stderr}")
    return done.stdout


class Lab:
    """A running fabric, and the programs that were compiled for the stories."""

    def __init__(self, kind: str, scratch: Path):
        self.name, self.scratch = f"why32-{kind}-{os.getpid()}", scratch
        folder = scratch / kind
        self.design = folder
        folder.mkdir()
        (folder / "fabric.yaml").write_text(FABRICS[kind])
        for file, text in PARTITIONS.items():
            (folder / file).write_text(self._with_guids(text, folder))
        softib("up", str(folder / "fabric.yaml"), "--name", self.name, "--detach")
        self.address: dict[str, str] = {}
        self.read()

    def read(self) -> None:
        """Write the fabric and its tables as they are now."""
        for file in ("fabric.ibnetdiscover", "tables.lft"):
            softib("convert", self.name, str(self.design / file))

    def kept(self) -> list[Path]:
        """What a story keeps of the fabric."""
        return [
            p
            for p in self.design.iterdir()
            if p.name in ("fabric.yaml", "fabric.ibnetdiscover", "tables.lft", *PARTITIONS)
        ]

    @staticmethod
    def _with_guids(text: str, folder: Path) -> str:
        """Groups A and B: every other host by its PortGUID."""
        if "@A" not in text:
            return text
        plain = folder / "plain.yaml"
        plain.write_text(re.sub("^sm:.*\n", "", FABRICS["parts"], flags=re.M))
        softib("convert", str(plain), str(folder / "plain.ibnetdiscover"))
        ports = re.findall(r"^\[1\]\((\w+)\).*# lid", (folder / "plain.ibnetdiscover").read_text(), re.M)
        groups = {"A": ports[::2], "B": ports[1::2]}
        for name, guids in groups.items():
            text = text.replace(f"@{name} = full", ", ".join(f"0x{int(g, 16):016x}=full" for g in guids))
        return text

    def address_of(self, node: str) -> str:
        if node not in self.address:
            self.address[node] = softib(
                "run", "--fabric", self.name, "--node", node, "--", "printenv", "SOFTIB_ADDRESS"
            ).strip()
        return self.address[node]

    def peer(self, host: str) -> list[str]:
        """LID and port of the switch at a host's cable."""
        switch = lid = ""
        for line in (self.design / "fabric.ibnetdiscover").read_text().splitlines():
            if found := re.match(r"^Switch\s+\d+ .*# \"(.*)\" .* lid (\d+)", line):
                switch, lid = found[1], found[2]
            elif switch and (found := re.match(rf"^\[(\d+)\].*# \"{host}\b", line)):
                return [lid, found[1]]
        raise RuntimeError(f"{host} has no switch")

    def ready(self) -> None:
        """Wait until every cabled port is active again."""
        for _ in range(60):
            if "active" in (said := softib("status", self.name)) and not re.search(r"\d+ (init|down|armed)", said):
                return
            time.sleep(0.5)

    def close(self) -> None:
        softib("down", self.name, check=False)

    def command(self, one: Program, port: int) -> tuple[list[str], dict[str, str]]:
        """argv and what is added to the environment. ``port``: the TCP port by which the two programs of a job meet."""
        env: dict[str, str] = {}
        run = [SOFTIB, "run", "--fabric", self.name, "--node", one.node, "--"]
        words = one.command.split()
        if words[0] == "mpi":
            limit, *settings, seconds = words[1:]
            env = dict(w.split("=", 1) for w in settings)
            n = one.node.count(",") + 1
            argv = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--timeout", limit, "-np", str(n)]
            argv += [w for name in env for w in ("-x", name)]
            return [*argv, *run, str(self.scratch / "mpi_loop"), seconds], env
        words = [re.sub(r"^ADDR-(.+)", lambda m: self.address_of(m[1]), w) for w in words]
        words = [str(self.scratch / w) if w == "verbs_errors" else w for w in words]
        if at := [i for i, w in enumerate(words) if MEETS.match(w)]:
            words[at[0] + 1 : at[0] + 1] = ["-p", str(port)]
        return ["bash", "-c", '"$@"; exit $?', "job", *run, "stdbuf", "-oL", "-eL", *words], env


def play(lab: Lab, told: Story, folder: Path) -> None:
    """Record one story."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    hosts = told.programs[0].node.split(",") if "," in told.programs[0].node else [p.node for p in told.programs]
    path = hops(lab, hosts)
    where = place(told, path)
    for file in lab.kept():
        shutil.copy(file, part / file.name)
    ports = {prefix: free_port() for prefix in ("", "other-")}
    commands = {p.log: lab.command(p, ports["other-" if p.log.startswith("other-") else ""]) for p in told.programs}
    exporter = subprocess.Popen(
        [SOFTIB, "exporter", lab.name, "--every", str(EVERY_S), "--port", "0", "--history", str(part / "history")],
        stdout=subprocess.DEVNULL,
        stderr=(part / "exporter.txt").open("w"),
    )
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        wait_for(lambda: rounds(part) >= 2, 120)
        for _, what in (a for a in told.acts if a[0] < 0):
            act(lab, what, where, part, running)
            time.sleep(1.0)
        began = time.time()
        for program in sorted(told.programs, key=lambda p: p.delay):
            if program.log.endswith("client.log"):
                server = part / program.log.replace("client", "server")
                wait_for(lambda log=server: listens(log), 40)  # type: ignore[misc]
            argv, env = commands[program.log]
            running[program.log] = subprocess.Popen(
                argv,
                stdout=(part / program.log).open("wb"),
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
                start_new_session=True,
            )
        wait_for(lambda: any(p.poll() is not None for p in running.values()) or sends(part, told), 60)
        connected = time.time()
        for after, what in sorted((a for a in told.acts if a[0] >= 0), key=lambda x: x[0]):
            time.sleep(max(0.0, connected + after - 1.5 - time.time()))
            act(lab, what, where, part, running)
        codes = finish(running, connected + told.seconds, part / "slurm.log", hosts)
        ended = time.time()
        say_signals(codes, {p.log: p.node for p in told.programs}, part / "slurm.log")
        time.sleep(18.0 if told.cause == "flapping" else 0.0)  # until it has come back
        seen = rounds(part)
        wait_for(lambda: rounds(part) >= seen + 2, 60)
    finally:
        for process in running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        exporter.terminate()
        exporter.wait(60)
        softib("fault", "clear", "--fabric", lab.name, check=False)
        for _, what in told.acts:
            if what.startswith("run") and what.endswith("disable"):
                act(lab, what.replace("disable", "enable"), where, part, running)
    (part / "truth.json").write_text(
        json.dumps(
            {
                **asdict(told),
                "where": where,
                "leaf": path[-1].split("[")[0] if path else "",
                "hosts": hosts,
                "exit_codes": codes,
                "began": began,
                "ended": ended,
            },
            indent=1,
        )
        + "\n"
    )
    part.rename(folder)
    lab.ready()
    if any(what.startswith("opensm") for _, what in told.acts):
        lab.read()


def wait_for(true: Callable[[], bool], most_s: float) -> None:
    """Until it is so, or the time is over."""
    until = time.time() + most_s
    while not true() and time.time() < until:
        time.sleep(0.2)


def rounds(part: Path) -> int:
    """Rounds that the exporter has kept."""
    return len(list((part / "history").glob("rounds/*.parquet")))


def listens(log: Path) -> bool:
    """Does the server wait for its client? Some print nothing before: those get 3 seconds."""
    if not log.exists():  # it has no server
        return True
    text = log.read_text(errors="replace")
    return "aiting" in text or "local address" in text or time.time() - log.stat().st_ctime > 6.0


def sends(part: Path, told: Story) -> bool:
    """Have the programs connected?"""
    if (job := part / "job.log").exists():
        ranks = told.programs[0].node.count(",") + 1
        return len(re.findall(r"^rank \d+ of", job.read_text(errors="replace"), re.M)) >= ranks
    text = (part / "client.log").read_text(errors="replace")
    return any(word in text for word in ("remote address", "[thread 0]", "connected,"))


def finish(
    running: dict[str, subprocess.Popen[bytes]], until: float, scheduler: Path, hosts: list[str]
) -> dict[str, int]:
    """Exit codes by log. Where one program has failed the others get 6 seconds, as a scheduler's kill gives; at the time
    limit the scheduler's log says so, in Slurm's words."""
    codes: dict[str, int] = {}
    limit = until
    while len(codes) < len(running):
        for log, process in running.items():
            if log not in codes and process.poll() is not None:
                codes[log] = process.returncode
                until = min(until, time.time() + 6.0)
        if time.time() > until:
            break
        time.sleep(0.1)
    if time.time() > limit:
        when = time.strftime("%Y-%m-%dT%H:%M:%S")
        with scheduler.open("a") as file:
            file.write(f"slurmstepd: error: *** JOB 7 ON {hosts[0]} CANCELLED AT {when} DUE TO TIME LIMIT ***\n")
    for log, process in running.items():
        if log not in codes:
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(0.5)
            codes[log] = -99
    return codes


SIGNALS = {134: "Aborted", 137: "Killed", 139: "Segmentation fault"}


def say_signals(codes: dict[str, int], nodes: dict[str, str], scheduler: Path) -> None:
    """What srun prints of a task that a signal ended. mpirun's own words are in its log already."""
    lines = [
        f"srun: error: {nodes[log]}: task 0: {SIGNALS[code]}\n"
        for log, code in codes.items()
        if code in SIGNALS and log != "job.log"
    ]
    if lines:
        with scheduler.open("a") as file:
            file.writelines(lines)


def hops(lab: Lab, hosts: list[str]) -> list[str]:
    """The ports that send on the way from the last host to the first, as NODE[PORT]."""
    if len(hosts) < 2:
        return []
    found = json.loads(
        subprocess.run([SOFTIB, "path", lab.name, hosts[1], hosts[0], "--json"], capture_output=True, text=True).stdout
        or "{}"
    )
    return [f"{h['node']}[{h['out_port']}]" for h in found.get("hops", [])]


PLACES = {"PATH": "leaf", "PATH-LEAF": "leaf", "PATH-TOP": "spine", "PATH-SPINE": "spine", "PATH-CORE": "core"}


def place(told: Story, path: list[str]) -> str:
    """The planted place, of the path where it is on it."""
    if told.where not in PLACES:
        return told.where
    port = next(p for p in path if p.startswith(PLACES[told.where]))
    return port.split("[")[0] if told.where in ("PATH-LEAF", "PATH-SPINE", "PATH-CORE") else port


def act(lab: Lab, what: str, where: str, part: Path, running: dict[str, subprocess.Popen[bytes]]) -> None:
    words = re.sub("PATH(-[A-Z]+)?", lambda m: where, what).split()
    if words[0] == "fault":
        softib(*words, "--fabric", lab.name)
        return
    if words[0] == "note":
        with (part / words[1]).open("a") as file:
            stamp = time.strftime("[%a %b %d %H:%M:%S %Y] ") if words[1] == "dmesg.log" else ""
            file.write(f"{stamp}{' '.join(words[2:])}\n")
        return
    if words[0] == "run":
        peers = [p for w in words[2:] for p in (lab.peer(w[5:]) if w.startswith("PEER-") else [w])]
        softib("run", "--fabric", lab.name, "--node", words[1], "--", *peers)
        return
    if words[0] == "opensm":
        manager = ("--node", "host-0001", "--", "opensm", "-o", "-p", "15", "-f", str(part / "opensm.log"), *words[1:])
        softib("run", "--fabric", lab.name, *manager)
        return
    number = getattr(signal, f"SIG{words[1]}")
    if words[2] == "rank":
        if found := re.search(rf"rank {words[3]} of \d+, pid (\d+)", (part / "job.log").read_text(errors="replace")):
            os.kill(int(found[1]), number)
    elif (process := running[words[2]]).poll() is None:
        os.kill(innermost(process.pid), number)


def innermost(pid: int) -> int:
    """The program below shells and launchers."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
    return pid


def stories() -> list[Story]:
    """All 240."""
    return [story(n, kind_of(n)) for n in range(GENERATED)] + UNREAD + LATER


def wanted(text: str) -> set[int]:
    """Numbers of ``A:B,C``; B is not in its range."""
    ranges = [part.partition(":") for part in text.split(",")]
    return {n for first, _, end in ranges for n in range(int(first), int(end or int(first) + 1))}


def main() -> None:
    """Play what is asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--stories", default=f"0:{LATER[-1].number + 1}", help="numbers and ranges: A:B,C")
    options.add_argument("--kind", action="append", help="only stories of this kind")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the fabric goes down
    numbers = wanted(given.stories)
    every = [s for s in stories() if s.number in numbers and (not given.kind or s.kind in given.kind)]
    with tempfile.TemporaryDirectory(prefix="why-stories-") as scratch:
        subprocess.run(["mpicc", "-O2", str(HERE / "mpi_loop.c"), "-o", f"{scratch}/mpi_loop"], check=True)
        subprocess.run(
            ["gcc", "-O2", str(HERE / "verbs_errors.c"), "-o", f"{scratch}/verbs_errors", "-lrdmacm", "-libverbs"],
            check=True,
        )
        for kind in dict.fromkeys(s.fabric for s in every):
            lab = Lab(kind, Path(scratch))
            try:
                for told in (s for s in every if s.fabric == kind):
                    folder = given.folder / f"{told.number:03d}-{told.kind}"
                    if folder.exists():
                        continue
                    began = time.monotonic()
                    try:
                        play(lab, told, folder)
                        print(f"{folder.name}: {time.monotonic() - began:.0f} s", flush=True)
                    except (RuntimeError, subprocess.SubprocessError, OSError, StopIteration) as error:
                        print(f"{folder.name}: not recorded: {error}", flush=True)
            finally:
                lab.close()


if __name__ == "__main__":
    main()
