"""A Slurm job's partition: a prolog or epilog that is killed between any two of its requests can be run again, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")
pytest.importorskip("uvicorn", reason="uvicorn is not installed (the extra serve)")

import uvicorn

from softib.tenants.accounts import Account
from tests.tenants.subnet_lab import SubnetLab, until

SCRIPT = Path(__file__).parents[2] / "examples/slurm/partition.py"
POINTS = [(request, moment) for request in (1, 2, 3, 4) for moment in ("before", "after")]


class Controller:
    """Runs the script as slurmctld would, with the programs of Slurm that it calls; ``kill_at``: (request, before or after
    the service did it) at which SIGKILL hits it."""

    def __init__(self, folder: Path, lab: SubnetLab, served):
        from softib.web.ufm.app import gate_of

        self.lab, self.folder, self.kill_at, self.seen = lab, folder, (0, ""), 0
        self.child: subprocess.Popen[str] | None = None
        self.service = lab.service
        self.service.accounts.put(Account("slurm", "operator"), "a long password")
        (folder / "token").write_text(
            self.service.accounts.new_token(self.service.accounts.by_password("slurm", "a long password"))
        )
        gate = gate_of(lambda scope, receive, send: None, served, self.service)

        async def watched(scope, receive, send):
            self.seen += scope["type"] == "http"
            number = self.seen
            if (number, "before") == self.kill_at:
                self.child.kill()
                return

            async def answering(message):
                if (number, "after") == self.kill_at:
                    self.child.kill()
                await send(message)

            await gate(scope, receive, answering)

        config = uvicorn.Config(watched, port=0, log_level="critical", lifespan="off", access_log=False)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        nodes = " ".join(n for n in list(self.service.view.names)[1:4])
        for name, text in (("scontrol", f"printf '%s\\n' {nodes}"), ("squeue", f"cat {folder}/queue")):
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        self.nodes = nodes.split()
        self.env = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "SOFTIB_URL": f"http://127.0.0.1:{port}",
            "SOFTIB_TOKEN_FILE": str(folder / "token"),
            "SLURM_CLUSTER_NAME": "c1",
            "SLURM_JOB_NODELIST": "host-000[2-4]",
        }

    def run(self, command: str, job: int, kill_at: tuple[int, str] = (0, "")) -> tuple[int, str]:
        self.kill_at, self.seen = kill_at, 0
        env = {**self.env, "SLURM_JOB_ID": str(job)}
        words = [sys.executable, "-S", "-E", str(SCRIPT), command]
        self.child = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, problem = self.child.communicate(timeout=60)
        return self.child.returncode, out.strip() or problem

    @property
    def partitions(self) -> dict[str, int]:
        """Name, without the digest of nodes, → number of members, of the partitions of jobs."""
        return {
            p.name.rpartition("-")[0]: len(p.members)
            for p in self.service.state.partitions.values()
            if p.name.startswith("slurm-")
        }

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory, served):
    lab = SubnetLab(tmp_path_factory.mktemp("lab"))
    controller = Controller(tmp_path_factory.mktemp("slurm"), lab, served)
    try:
        yield controller
    finally:
        controller.close()
        lab.close()


def test_a_job_has_its_partition_while_it_runs(slurm):
    code, pkey = slurm.run("begin", 7)
    assert code == 0, pkey
    assert slurm.partitions == {"slurm-c1-7-0": 3}
    (partition,) = [p for p in slurm.service.state.partitions.values() if p.name.startswith("slurm-c1-7-0-")]
    assert all(int(pkey, 16) | 0x8000 in slurm.lab.table(guid) for guid in partition.members)
    assert slurm.run("begin", 7) == (0, pkey), "the same job again: the same partition"
    assert slurm.run("end", 7)[0] == 0 and slurm.partitions == {}
    assert slurm.run("end", 7)[0] == 0, "twice is no error"
    (slurm.folder / "queue").write_text("8\n")
    assert [slurm.run("begin", job)[0] for job in (8, 9)] == [0, 0]
    assert slurm.run("sweep", 0)[0] == 0 and slurm.partitions == {"slurm-c1-8-0": 3}
    assert slurm.run("end", 8)[0] == 0 and slurm.partitions == {}


def held_by(slurm, pkey: str) -> set[str]:
    """The hosts whose devices hold it."""
    names = slurm.service.view.names
    return {name for name, guids in names.items() if int(pkey, 16) | 0x8000 in slurm.lab.table(guids[0])}


def on(slurm, nodes: list[str]) -> None:
    (slurm.folder / "scontrol").write_text(f"#!/bin/sh\nprintf '%s\\n' {' '.join(nodes)}\n")


def test_a_job_that_begins_again_with_the_same_restart_count_has_a_partition(slurm):
    """slurmctld requeues a job whose prolog failed, and runs the prolog of a job again that it was starting when it ended itself."""
    code, first = slurm.run("begin", 20)
    assert code == 0 and slurm.run("end", 20)[0] == 0
    code, second = slurm.run("begin", 20)
    assert code == 0, second
    assert slurm.partitions == {"slurm-c1-20-0": 3} and held_by(slurm, second) == set(slurm.nodes)
    assert slurm.run("end", 20)[0] == 0 and slurm.partitions == {}
    until(lambda: held_by(slurm, second) == set())
    slurm.service.clock, clock = lambda: time.time() + 4000, slurm.service.clock
    try:  # after the quarantine another job has the P_Key of the first
        slurm.service._next_key = int(first, 16)
        code, other = slurm.run("begin", 21)
        assert (code, other) == (0, first)
        on(slurm, list(slurm.service.view.names)[4:6])
        code, third = slurm.run("begin", 20)
        assert code == 0 and third != first, "the P_Key of another job"
        assert slurm.partitions == {"slurm-c1-20-0": 2, "slurm-c1-21-0": 3}
        on(slurm, slurm.nodes)
        code, fourth = slurm.run("begin", 20)
        assert code == 0 and held_by(slurm, fourth) == set(slurm.nodes)
        assert slurm.partitions == {"slurm-c1-20-0": 3, "slurm-c1-21-0": 3}, "only the ports of the nodes it has now"
        assert [slurm.run("end", job)[0] for job in (20, 21)] == [0, 0] and slurm.partitions == {}
    finally:
        on(slurm, slurm.nodes)
        slurm.service.clock = clock


@pytest.mark.parametrize(
    ("point", "moment"), [pytest.param(*p, marks=() if p == (2, "after") else pytest.mark.slow) for p in POINTS]
)
def test_a_script_that_is_killed_can_be_run_again(slurm, point, moment):
    job = 100 + 10 * point + (moment == "after")
    assert slurm.run("begin", job, (point, moment))[0] == -signal.SIGKILL
    code, pkey = slurm.run("begin", job)
    assert code == 0 and slurm.partitions == {f"slurm-c1-{job}-0": 3}, pkey
    if point < 3:  # an epilog has two requests
        assert slurm.run("end", job, (point, moment))[0] == -signal.SIGKILL
    assert slurm.run("end", job)[0] == 0 and slurm.partitions == {}
    assert slurm.run("begin", job + 500, (point, moment))[0] == -signal.SIGKILL
    assert slurm.run("end", job + 500)[0] == 0 and slurm.partitions == {}, "the job was cancelled meanwhile"


@pytest.fixture
def stub(tmp_path):
    """A service that makes partitions, and answers ``status`` to a request for members; and Slurm's programs."""
    made: dict[str, str] = {}

    class Answers(BaseHTTPRequestHandler):
        status = 404

        def answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
            status, document = 200, {}
            if self.path == "/tenants/v1/partitions":
                made["0x5"] = body["name"]
                document = {"pkey": "0x5", "revision": 1}
            elif self.path.endswith("/hosts"):
                status, document = Answers.status, {"error": "no"}
            elif self.command == "DELETE":
                made.pop(self.path.rpartition("/")[2])
            else:
                document = {key: {"partition": name} for key, name in made.items()}
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *words) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name, text in (("scontrol", "echo host-0001"), ("squeue", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "token").write_text("token")
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SOFTIB_URL": f"http://127.0.0.1:{server.server_port}",
        "SOFTIB_TOKEN_FILE": str(tmp_path / "token"),
        "SLURM_CLUSTER_NAME": "c1",
        "SLURM_JOB_NODELIST": "host-0001",
        "SLURM_JOB_ID": "7",
    }
    yield Answers, made, env
    server.shutdown()
    thread.join(10)
    server.server_close()


def failure_of(command: str, env: dict[str, str]) -> str:
    """Its only line."""
    words = [sys.executable, "-S", "-E", str(SCRIPT), command]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.mark.parametrize("status", [400, 403, 404, 409, 500])
def test_a_prolog_that_fails_takes_its_partition_back(stub, status):
    answers, made, env = stub
    answers.status = status
    assert f": {status}: " in failure_of("begin", env)
    assert made == {}


@pytest.mark.parametrize(
    ("command", "changed", "named"),
    [
        ("begin", {"SLURM_JOB_ID": ""}, "SLURM_JOB_ID"),
        ("end", {"SLURM_JOB_ID": "seven"}, "SLURM_JOB_ID"),
        ("begin", {"SOFTIB_URL": ""}, "SOFTIB_URL"),
        ("sweep", {"SOFTIB_URL": "host:8471"}, "host"),
        ("end", {"SOFTIB_TOKEN_FILE": "/nowhere"}, "SOFTIB_TOKEN_FILE"),
        ("sweep", {}, "squeue"),
        ("begin", {"PATH": "/nowhere"}, "scontrol"),
    ],
)
def test_what_is_missing_is_one_line(stub, command, changed, named):
    _, made, env = stub
    made["0x6"] = "slurm-c1-8-0"
    assert named in failure_of(command, {**env, **changed})
    assert made == {"0x6": "slurm-c1-8-0"}, "nothing is removed"
