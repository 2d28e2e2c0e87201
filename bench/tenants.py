"""Changes a second of partitions as a service, over HTTP: time to durable, and from there to programmed and read back.

    python bench/tenants.py [--hosts 5000] [--tenants 1000] [--partitions 20] [--rate 200] [--seconds 30]

A running fabric and ``softib serve --tenants`` as users start them; all partitions are entered by one import, then clients add and remove GUIDs
at a fixed rate, each over a connection of its own. A request's time is counted from when it was due: a late one counts as slow.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FABRIC = "name: {name}\ngeneration: HDR\ntopology: {{kind: fat-tree, radix: 40, levels: 3, hosts: {hosts}}}\n"
SOFTIB = [sys.executable, "-m", "softib"]
CLIENTS = 64


class Client:
    """One server's REST, as its administrator; a connection a thread."""

    def __init__(self, port: int, password: str):
        self.port, self.local = port, threading.local()
        self.headers = {
            "Authorization": "Basic " + base64.b64encode(f"admin:{password}".encode()).decode(),
            "Content-Type": "application/json",
        }

    def __call__(self, method: str, path: str, body: object = None) -> object:
        data = None if body is None else json.dumps(body)
        answer = None
        while answer is None:
            if (connection := getattr(self.local, "connection", None)) is None:
                connection = self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
            try:
                connection.request(method, path, data, self.headers)
                answer = connection.getresponse()
            except (http.client.RemoteDisconnected, ConnectionError):  # it was idle for more than five seconds
                connection.close()
                self.local.connection = None
        document = json.loads(answer.read())
        assert answer.status == 200, (answer.status, document)
        return document


def processor_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def enter(ask: Client, guids: list[str], tenants: int, partitions: int) -> None:
    """Make the tenants, and enter their partitions, four ports each, every port in as few as it can be."""
    for i in range(tenants):
        ask("PUT", f"/tenants/v1/tenants/t{i:04}", {"limit": partitions})
    conf = []
    for n in range(tenants * partitions):
        ports = [guids[(n * 4 + k * 7) % len(guids)] for k in range(4)]
        conf.append(
            f"t{n // partitions:04}_{n % partitions}={n + 1:#x}, ipoib : {', '.join(f'0x{g}=full' for g in ports)} ;"
        )
        if len(conf) == 2000:
            ask("POST", "/tenants/v1/import", {"format": "partitions.conf", "content": "\n".join(conf)})
            conf.clear()
    if conf:
        ask("POST", "/tenants/v1/import", {"format": "partitions.conf", "content": "\n".join(conf)})


def drive(ask: Client, guids: list[str], total: int, rate: float, seconds: float) -> list[float]:
    """Seconds from when each change was due to its 200."""
    chosen, began = random.Random(34), time.monotonic() + 0.5
    plan = [
        (began + i / rate, chosen.randrange(total) + 1, chosen.choice(guids), chosen.random() < 0.5)
        for i in range(int(rate * seconds))
    ]

    def one(change: tuple[float, int, str, bool]) -> float:
        due, pkey, guid, adds = change
        time.sleep(max(0.0, due - time.monotonic()))
        path = "/ufmRest/resources/pkeys" if adds else "/ufmRest/actions/remove_guids_from_pkey"
        ask("POST", path, {"pkey": f"{pkey:#x}", "guids": [guid]})
        return time.monotonic() - due

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, plan))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("hosts", 5000), ("tenants", 1000), ("partitions", 20), ("rate", 200), ("seconds", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="softib-tenants-") as folder:
        env = {**os.environ, "XDG_RUNTIME_DIR": folder}
        Path(folder, "f.yaml").write_text(FABRIC.format(name="bench", hosts=given.hosts))
        subprocess.run([*SOFTIB, "up", f"{folder}/f.yaml", "--name", "bench", "--detach"], env=env, check=True)
        words = [*SOFTIB, "serve", "bench", "--tenants", f"{folder}/tenants", "--port", "0", "--every", "60"]
        server = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True)
        try:
            line = ""
            while " at http://" not in line:
                line = server.stderr.readline()
                assert line, "the server ended"
            status = subprocess.run([*SOFTIB, "status", "bench", "--json"], env=env, capture_output=True, check=True)
            daemon = json.loads(status.stdout)["fabrics"][0]["pid"]
            measure(
                Client(
                    int(line.strip().rstrip("/").rpartition(":")[2]),
                    Path(folder, "tenants", "admin-password").read_text().strip(),
                ),
                given,
                {"server": server.pid, "fabric": daemon},
            )
        finally:
            server.terminate()
            server.wait()
            subprocess.run([*SOFTIB, "down", "bench"], env=env)


def measure(ask: Client, given: argparse.Namespace, processes: dict[str, int]) -> None:
    ports = ask("GET", "/ufmRest/resources/ports?sys_type=Computer")
    guids = [p["guid"] for p in ports]
    began = time.monotonic()
    enter(ask, guids, given.tenants, given.partitions)
    newest = ask("GET", "/tenants/v1/revisions?limit=1")[0]["id"]
    state = ""
    while state not in ("programmed", "pending", "rolled-back"):
        state = ask("GET", f"/tenants/v1/revisions/{newest}?wait_s=30")["state"]
    total = given.tenants * given.partitions
    print(
        f"{total:,} partitions of {given.tenants:,} tenants on {len(guids):,} hosts: entered and {state} in {time.monotonic() - began:.1f} s"
    )
    used = {name: processor_s(pid) for name, pid in processes.items()}
    taken = drive(ask, guids, total, given.rate, given.seconds)
    print(
        f"{given.rate} changes/s for {given.seconds} s: durable after {1e3 * percentile(taken, 0.5):.0f} ms, p99 {1e3 * percentile(taken, 0.99):.0f} ms"
    )
    last = ask("GET", "/tenants/v1/revisions?limit=1")[0]["id"]
    ask("GET", f"/tenants/v1/revisions/{last}?wait_s=30")
    listed, before = [], last + 1
    while before > newest + 1:
        page = [r for r in ask("GET", f"/tenants/v1/revisions?limit=1000&before={before}") if r["id"] > newest]
        if not page:
            break
        listed, before = listed + page, page[-1]["id"]
    waits = [r["settled_s"] - r["at_s"] for r in listed if r["state"] == "programmed"]
    others = {r["state"] for r in listed} - {"programmed"}
    text = f"; others: {', '.join(sorted(others))}" if others else ""
    print(
        f"programmed and read back {1e3 * percentile(waits, 0.5):.0f} ms after that, p99 {1e3 * percentile(waits, 0.99):.0f} ms ({len(waits):,} changes{text})"
    )
    costs = (f"{name} {1e3 * (processor_s(pid) - used[name]) / len(taken):.2f} ms" for name, pid in processes.items())
    print(f"processor time a change, with what runs beside it: {', '.join(costs)}")
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
