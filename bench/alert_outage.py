"""Two Alertmanagers that are away for three minutes, one ended and one killed: what of three faulty cables arrives at their webhooks.

    python bench/alert_outage.py [--out /tmp/alert-outage]

Needs Debian's prometheus and prometheus-alertmanager. A cable that failed before the outage is repaired in it, one fails in it, one fails in it and comes
back. Prints each message with its second; exit 1 if an alert that must arrive does not. 17 minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.alert_causes import Site
from bench.alert_stories import CONFIG, EVERY_S, PACKAGE, Fabric, Receiver, alert_of, free_port, shown, until

AWAY_S, BACK_S, END_S = 240, 430, 1000
PLAYS = (
    (40, "link-down", "leaf-1[5]"),
    (250, "link-down", "leaf-2[5]"),
    (255, "link-down", "leaf-3[5]"),
    (270, "clear", "leaf-1[5]"),
    (350, "clear", "leaf-3[5]"),
)
MUST = {
    ("resolved", "SoftibLinkDown", "leaf-1[5]"),
    ("firing", "SoftibFinding", "leaf-1[5]"),
    ("firing", "SoftibLinkDown", "leaf-2[5]"),
    ("firing", "SoftibFinding", "leaf-3[5]"),
}
"""What must arrive after the outage."""


def arrived(receiver: Receiver, from_s: int) -> set[tuple[str, str, str]]:
    """(status, alert, end) of each alert in the messages from number ``from_s`` on."""
    out = set()
    for message in receiver.messages[from_s:]:
        for one in message["alerts"]:
            name, _, ends = alert_of(one["labels"])
            out |= {(one["status"], name, end) for end in ends}
    return out


class Outage:
    """One fabric, its exporter, Prometheus and two Alertmanagers."""

    def __init__(self, folder: Path):
        self.folder, self.began = folder, time.monotonic()
        self.receivers, self.ports = [Receiver(), Receiver()], [free_port(), free_port()]
        self.prometheus = free_port()

    def say(self, *what: Any) -> None:
        print(f"{time.monotonic() - self.began:5.0f} s", *what, flush=True)

    def begin(self, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{command[0]}.log").open("ab")
        return subprocess.Popen(command, stdout=log, stderr=log)

    def manager(self, i: int) -> subprocess.Popen[bytes]:
        folder = self.folder / f"manager-{i}"
        folder.mkdir(exist_ok=True)
        hook = f"http://127.0.0.1:{self.receivers[i].server.server_address[1]}/alerts"
        config = (PACKAGE / "rules" / "alertmanager.yml").read_text()
        (folder / "alertmanager.yml").write_text(config.replace("http://127.0.0.1:9095/alerts", hook))
        listen = (f"--web.listen-address=127.0.0.1:{self.ports[i]}", "--cluster.listen-address=")
        data = (f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/data")
        process = self.begin("prometheus-alertmanager", *data, *listen)
        until(f"http://127.0.0.1:{self.ports[i]}/-/ready")
        return process

    def watch(self, exporter: int) -> subprocess.Popen[bytes]:
        rules = self.folder / "softib.rules.yaml"
        rules.write_text((PACKAGE / "rules" / "softib.rules.yaml").read_text())
        managers = '", "'.join(f"127.0.0.1:{p}" for p in self.ports)
        text = (
            CONFIG.format(every=EVERY_S, rules=rules, manager=managers) + f'      - targets: ["127.0.0.1:{exporter}"]\n'
        )
        text += f'  - job_name: prometheus\n    static_configs: [{{targets: ["127.0.0.1:{self.prometheus}"]}}]\n'
        (self.folder / "prometheus.yml").write_text(text)
        data = (f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data")
        process = self.begin("prometheus", *data, f"--web.listen-address=127.0.0.1:{self.prometheus}")
        until(f"http://127.0.0.1:{self.prometheus}/-/ready")
        return process

    def dropped(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.prometheus}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        wanted = ("prometheus_notifications_dropped_total", "prometheus_notifications_queue_capacity")
        return ", ".join(line for line in lines if line.startswith(wanted))

    def print_messages(self) -> None:
        seen = [0, 0]
        while True:
            for i, receiver in enumerate(self.receivers):
                for message in receiver.messages[seen[i] :]:
                    alerts = [f"{one['status']} {shown(alert_of(one['labels']))}" for one in message["alerts"]]
                    self.say(f"manager {i}:", "; ".join(alerts))
                    seen[i] += 1
            time.sleep(1)

    def play(self, fabric: Fabric) -> bool:
        managers = [self.manager(i) for i in (0, 1)]
        watching = self.watch(fabric.port)
        threading.Thread(target=self.print_messages, daemon=True).start()
        self.began, before = time.monotonic(), [0, 0]
        steps: list[tuple[int, str, str]] = sorted(
            [*PLAYS, (AWAY_S, "away", ""), (BACK_S, "back", ""), (END_S, "end", "")]
        )
        try:
            for at, what, where in steps:
                time.sleep(max(0.0, self.began + at - time.monotonic()))
                if what == "away":
                    before = [len(r.messages) for r in self.receivers]
                    for process, how in zip(managers, (signal.SIGTERM, signal.SIGKILL), strict=True):
                        process.send_signal(how)
                        process.wait()
                elif what == "back":
                    managers = [self.manager(i) for i in (0, 1)]
                elif what != "end":
                    fabric.softib("fault", what, where, "--fabric", fabric.site.name)
                self.say(what, where, self.dropped() if not where else "")
        finally:
            for process in (*managers, watching):
                process.terminate()
        missing = [MUST - arrived(r, n) for r, n in zip(self.receivers, before, strict=True)]
        self.say("missing:", missing)
        return not any(missing)


def main() -> int:
    """Play it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path("/tmp/alert-outage"))
    folder = options.parse_args().out
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "run").mkdir(mode=0o700, parents=True)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder / "run"), "XDG_STATE_HOME": str(folder / "state")}
    fabric = Fabric(Site("outage", 1, "EDR", 4, 8), folder, env)
    try:
        return 0 if Outage(folder).play(fabric) else 1
    finally:
        fabric.close()


if __name__ == "__main__":
    sys.exit(main())
