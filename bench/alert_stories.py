"""A real Prometheus and Alertmanager watch ten fabrics at once, on which faults, exporters that end and healthy traffic are played: at the end of each round
exactly the right alerts must stand, one for each cause.

    python bench/alert_stories.py [--rounds 1-6] [--minutes 20] [--out /tmp/alert-stories] [--again]

Needs Debian's prometheus, prometheus-alertmanager and perftest. A round writes OUT/round-N.json; a round whose file is there is not played again, so an
interrupted run goes on where it ended. Rules, Alertmanager's configuration and all intervals are those that are shipped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.alert_causes import UP, Alert, Site, rounds, sites
from softib.fabric.topologies.spec import load_fabric_yaml

SOFTIB = (sys.executable, "-m", "softib")
PACKAGE = files("softib.monitor")
EVERY_S = 15
TRAFFIC_S = 60
CONFIG = """
global: {{scrape_interval: {every}s, evaluation_interval: {every}s}}
rule_files: [{rules}]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{manager}"]}}]}}]}}
scrape_configs:
  - job_name: softib
    static_configs:
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)


def until(url: str, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def end(process: subprocess.Popen[bytes], how: int = signal.SIGTERM) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)
        process.send_signal(how)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)


class Fabric:
    """One running fabric with its exporter."""

    def __init__(self, site: Site, folder: Path, env: dict[str, str]):
        self.site, self.folder, self.env = site, folder, env
        self.log = (folder / f"{site.name}.log").open("ab")
        self.file = folder / f"{site.name}.yaml"
        self.file.write_text(site.yaml)
        self.fabric = load_fabric_yaml(str(self.file)).fabric
        self.names = self.fabric.node_names()
        self.exporter: subprocess.Popen[bytes] | None = None
        self.programs: list[subprocess.Popen[bytes]] = []
        self.silenced: list[str] = []
        pace = ("--pace",) if site.paced else ()
        self.softib("up", str(self.file), "--name", site.name, "--detach", *pace)
        self.port = free_port()
        self.start()

    def softib(self, *words: str) -> None:
        subprocess.run([*SOFTIB, *words], env=self.env, stdout=self.log, stderr=self.log, timeout=600, check=True)

    def start(self) -> None:
        words = (*SOFTIB, "exporter", self.site.name, "--port", str(self.port), "--every", str(EVERY_S))
        self.exporter = subprocess.Popen(words, env=self.env, stdout=self.log, stderr=self.log)
        until(f"http://127.0.0.1:{self.port}/metrics")

    # -- names --

    def end_of(self, word: str) -> tuple[str, str]:
        """A port as ``softib fault`` takes it, and the other end of its cable."""
        node, _, number = word.removesuffix("]").partition("[")
        f = self.fabric
        if word.startswith(UP):
            node = word.partition(":")[2]
            rows = [int(f.port(self.names.index(node), p)) for p in range(1, 200) if p <= self.ports_of(node)]
            row = next(
                r for r in rows if (peer := self.peer(r)) and peer[0] not in self.site.taken and "spine" in peer[0]
            )
            number = str(int(f.port_num[row]))
        row = int(f.port(self.names.index(node), int(number)))
        other = self.peer(row)
        assert other is not None
        return f"{node}[{number}]", f"{other[0]}[{other[1]}]"

    def ports_of(self, node: str) -> int:
        return int(self.fabric.node_nports[self.names.index(node)])

    def peer(self, row: int) -> tuple[str, int] | None:
        f = self.fabric
        other = int(f.port_peer[row])
        return None if other < 0 else (self.names[int(f.port_node[other])], int(f.port_num[other]))

    def expected(self) -> set[Alert]:
        alerts = set()
        for name, code, things in self.site.alerts:
            named: set[str] = set()
            for thing in things:
                named |= set(self.end_of(thing)) if thing.startswith(UP) or "[" in thing else {thing}
            alerts.add((name, code, frozenset(named)))
        return alerts

    # -- plays --

    def play(self, what: str, arguments: tuple[str, ...], manager: str) -> None:
        if what == "fault":
            words = [self.end_of(w)[0] if w.startswith(UP) else w for w in arguments]
            self.softib("fault", *words, "--fabric", self.site.name)
        elif what == "traffic":
            threading.Thread(target=self.traffic, args=arguments, daemon=True).start()
        elif what == "silence":
            silence(manager, arguments[0], f"127.0.0.1:{self.port}")
        elif what == "start":
            self.start()
        else:
            assert self.exporter is not None
            self.exporter.send_signal(signal.SIGKILL if what == "kill" else signal.SIGSTOP)
            if what == "kill":
                self.exporter.wait(20)

    def traffic(self, how: str, to: str = "") -> None:
        """perftest's writes for a minute: pairs across the spines, or three senders to one host."""
        hosts = [n for n in self.names if n.startswith("host")]
        last = hosts[::-1]
        pairs = (
            [(hosts[0], last[0]), (hosts[1], last[1])]
            if how == "pairs"
            else [
                (to or hosts[1], sender) for sender in (last if to != last[0] else last[self.site.hosts_a_leaf :])[:3]
            ]
        )
        begun = []
        for server, client in pairs:
            port = free_port()
            words = ("ib_write_bw", "-D", str(TRAFFIC_S), "-F", "-s", "65536", "-p", str(port))
            for node, more in ((server, ()), (client, ("127.0.0.1",))):
                run = (*SOFTIB, "run", "--fabric", self.site.name, "--node", node, "--", *words, *more)
                begun.append(subprocess.Popen(run, env=self.env, stdout=self.log, stderr=self.log))
                time.sleep(3)
        for one in begun:
            with suppress(subprocess.TimeoutExpired):
                one.wait(TRAFFIC_S + 60)
            if one.poll() is None:
                end(one)

    def close(self) -> None:
        if self.exporter is not None:
            end(self.exporter)
        subprocess.run([*SOFTIB, "down", self.site.name], env=self.env, stdout=self.log, stderr=self.log, timeout=120)
        self.log.close()


def silence(manager: str, matcher: str, instance: str) -> None:
    """A silence of an hour, as amtool makes it."""
    name, _, value = matcher.partition("=")
    begin = datetime.now(UTC)
    body = {
        "matchers": [{"name": n, "value": v, "isRegex": False} for n, v in ((name, value), ("instance", instance))],
        "startsAt": begin.isoformat(),
        "endsAt": (begin + timedelta(hours=1)).isoformat(),
        "createdBy": "stories",
        "comment": "maintenance",
    }
    request = urllib.request.Request(
        f"{manager}/api/v2/silences", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20):
        pass


class Receiver:
    """What Alertmanager's webhook calls: how many messages there were."""

    def __init__(self) -> None:
        receiver, self.messages = self, []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def alert_of(labels: dict[str, str]) -> Alert:
    """What an alert that stands names."""
    name, code = labels["alertname"], labels.get("code", "")
    node, port, peer = labels.get("node", ""), labels.get("port", ""), labels.get("peer", "")
    ends = {f"{node}[{port}]", f"{peer}[{labels.get('peer_port', '')}]"} if port and peer else {node} - {""}
    return name, code, frozenset(ends)


class Round:
    """One round: Prometheus, Alertmanager and the fabrics."""

    def __init__(self, number: int, folder: Path, minutes: float, fabrics: int):
        self.number, self.folder, self.seconds = number, folder, minutes * 60
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        run = folder / "run"
        run.mkdir(mode=0o700)
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(run), "XDG_STATE_HOME": str(folder / "state")}
        self.stack = ExitStack()
        self.receiver = Receiver()
        self.fabrics: list[Fabric] = []
        self.sites = list(sites(number, fabrics))

    def watch(self) -> None:
        for site in self.sites:
            one = Fabric(site, self.folder, self.env)
            self.stack.callback(one.close)
            self.fabrics.append(one)
        self.manager, self.prometheus = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        rules = self.folder / "softib.rules.yaml"
        rules.write_text((PACKAGE / "rules" / "softib.rules.yaml").read_text())
        config = (PACKAGE / "rules" / "alertmanager.yml").read_text()
        hook = f"http://127.0.0.1:{self.receiver.server.server_address[1]}/alerts"
        (self.folder / "alertmanager.yml").write_text(config.replace("http://127.0.0.1:9095/alerts", hook))
        text = CONFIG.format(every=EVERY_S, rules=rules, manager=self.manager[7:])
        for one in self.fabrics:
            text += f'      - {{targets: ["127.0.0.1:{one.port}"], labels: {{fabric: {one.site.name}}}}}\n'
        (self.folder / "prometheus.yml").write_text(text)
        self.begin(
            "prometheus-alertmanager",
            f"--config.file={self.folder}/alertmanager.yml",
            f"--storage.path={self.folder}/alertmanager",
            f"--web.listen-address={self.manager[7:]}",
            "--cluster.listen-address=",
        )
        self.begin(
            "prometheus",
            f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address={self.prometheus[7:]}",
        )
        until(f"{self.manager}/-/ready")
        until(f"{self.prometheus}/-/ready")

    def begin(self, *words: str) -> None:
        log = self.stack.enter_context((self.folder / f"{words[0]}.log").open("ab"))
        process = subprocess.Popen(words, stdout=log, stderr=log)
        self.stack.callback(end, process)

    def play(self) -> dict[str, Any]:
        self.watch()
        began = time.monotonic()
        plays = sorted(
            ((at, one, what, words) for one in self.fabrics for at, what, words in one.site.plays), key=lambda p: p[0]
        )
        for at, one, what, words in plays:
            time.sleep(max(0.0, began + at * self.seconds - time.monotonic()))
            one.play(what, words, self.manager)
            print(f"{time.monotonic() - began:6.0f} s  {one.site.name}: {what} {' '.join(words)}", flush=True)
        time.sleep(max(0.0, began + self.seconds - time.monotonic()))
        standing = get(f"{self.manager}/api/v2/alerts?active=true&silenced=false&inhibited=false")
        return self.result(standing)

    def result(self, standing: list[dict[str, Any]]) -> dict[str, Any]:
        stories = []
        for one in self.fabrics:
            mine = [a for a in standing if a["labels"].get("fabric") == one.site.name]
            have = [alert_of(a["labels"]) for a in mine]
            want = one.expected()
            stories.append(
                {
                    "fabric": one.site.name,
                    "hosts": sum(n.startswith("host") for n in one.names),
                    "generation": one.site.generation,
                    "kinds": one.site.kinds,
                    "right": sorted(map(shown, want)) == sorted(map(shown, have)),
                    "expected": sorted(map(shown, want)),
                    "missing": sorted(shown(a) for a in want - set(have)),
                    "unexpected": sorted(shown(a) for a in set(have) - want),
                    "twice": len(have) - len(set(have)),
                    "severities": sorted(a["labels"].get("severity", "") for a in mine),
                    "without_runbook": sum("runbook_url" not in a["annotations"] for a in mine),
                }
            )
        others = [shown(alert_of(a["labels"])) for a in standing if not a["labels"].get("fabric")]
        return {
            "round": self.number,
            "minutes": self.seconds / 60,
            "every_s": EVERY_S,
            "right": sum(s["right"] for s in stories),
            "of": len(stories),
            "messages": len(self.receiver.messages),
            "of_no_fabric": others,
            "stories": stories,
        }


def shown(alert: Alert) -> str:
    name, code, things = alert
    return " ".join([name, *([code] if code else []), *sorted(things)])


def main() -> int:
    """Play the rounds that have no result yet; 1 where a story ended otherwise than it should."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", default=f"1-{rounds()}")
    options.add_argument("--minutes", type=float, default=20.0)
    options.add_argument("--fabrics", type=int, default=10)
    options.add_argument("--out", type=Path, default=Path("/tmp/alert-stories"))
    options.add_argument("--again", action="store_true")
    given = options.parse_args()
    absent = [p for p in ("prometheus", "prometheus-alertmanager", "ib_write_bw") if shutil.which(p) is None]
    if absent:
        print(f"absent: {', '.join(absent)}; apt-get install prometheus prometheus-alertmanager perftest")
        return 2
    first, _, last = given.rounds.partition("-")
    wrong = 0
    for number in range(int(first), int(last or first) + 1):
        file = given.out / f"round-{number}.json"
        if file.exists() and not given.again:
            result = json.loads(file.read_text())
        else:
            one = Round(number, given.out / f"round-{number}", given.minutes, given.fabrics)
            with one.stack:
                result = one.play()
                file.write_text(json.dumps(result, indent=1) + "\n")
        wrong += result["of"] - result["right"]
        print(f"round {number}: {result['right']} of {result['of']} right, {result['messages']} messages")
        for story in result["stories"]:
            if not story["right"]:
                print(
                    f"  {story['fabric']} ({', '.join(story['kinds'])}): missing {story['missing']}, unexpected {story['unexpected']}"
                )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
