"""``softib node-check`` as a prolog runs it. Oracles: exit codes, trees with planted faults, a
scontrol and an API server that record what they are asked, NVSentinel's health_event.proto."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.cli.documents import check
from tests.cli.run import one_line
from tests.cli.run import softib as command
from tests.host_facts import trees


def test_a_recorded_host_is_as_expected_until_something_changes(tmp_path):
    root = trees.host(tmp_path / "h")
    good = tmp_path / "good.yaml"
    assert command("node-check", "--root", root, "--record", good).code == 0
    began = time.monotonic()
    ran = command("node-check", "--root", root, "--manifest", good, "--json")
    assert time.monotonic() - began < 1.0 and ran.code == 0
    document = check("node-check", ran.json())
    assert document["faults"] == [] and [e["isHealthy"] for e in document["events"]] == [True]
    broken = trees.host(tmp_path / "b", state="1: DOWN", fw_ver="28.1.1")
    ran = command("node-check", "--root", broken, "--manifest", good)
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "mlx5_10: firmware: 28.1.1; expected 28.39.1002",
        "mlx5_10/1: port-state: DOWN (LinkUp); expected ACTIVE",
    ]


def test_events_have_nvsentinels_fields(tmp_path):
    root = trees.host(tmp_path / "h", state="1: DOWN")
    event = command("node-check", "--root", root, "--json").json()["events"][0]
    assert {
        k: event[k] for k in ("version", "componentClass", "checkName", "isFatal", "isHealthy", "nodeName", "errorCode")
    } == {
        "version": 1,
        "componentClass": "NIC",
        "checkName": "port-state",
        "isFatal": True,
        "isHealthy": False,
        "nodeName": "gpu-17",
        "errorCode": ["port-state"],
    }
    assert event["entitiesImpacted"] == [
        {"entityType": "NIC", "entityValue": "mlx5_10"},
        {"entityType": "NICPort", "entityValue": "mlx5_10/1"},
    ]


def test_counters_are_kept_between_two_checks(tmp_path):
    state = tmp_path / "state.json"
    assert command("node-check", "--root", trees.host(tmp_path / "a"), "--state", state).code == 0
    ran = command("node-check", "--root", trees.host(tmp_path / "b", link_downed=2), "--state", state)
    assert ran.code == 1 and "link_downed up by 2" in ran.out
    assert command("node-check", "--root", tmp_path / "b", "--state", state).code == 0, (
        "the second check kept its counters"
    )
    state.write_text("{}")
    assert "not a state file of softib node-check" in one_line(
        command("node-check", "--root", tmp_path / "b", "--state", state)
    )


def test_drain_calls_scontrol_with_the_reason(tmp_path, monkeypatch):
    program = tmp_path / "bin/scontrol"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/called\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert command("node-check", "--root", trees.host(tmp_path / "a"), "--drain").code == 0
    assert not (tmp_path / "called").exists(), "a good host is not drained"
    ran = command("node-check", "--root", trees.host(tmp_path / "b", current_link_width=8), "--drain")
    assert ran.code == 1
    assert (tmp_path / "called").read_text().splitlines() == [
        "update",
        "nodename=gpu-17",
        "state=drain",
        "reason=softib node-check: mlx5_10: pcie: 32 GT/s x8; expected 32 GT/s x16",
    ]
    program.write_text("#!/bin/sh\necho 'slurm_update error: Invalid node name specified' >&2; exit 1\n")
    ran = command("node-check", "--root", tmp_path / "b", "--drain", "--node", "nope")
    assert ran.code == 2 and "Invalid node name" in ran.err and "Traceback" not in ran.err


class Cluster(BaseHTTPRequestHandler):
    """One node object; a merge patch as RFC 7386 applies; 409 for another resourceVersion."""

    def do_GET(self):
        self.answer(200, self.server.node)

    def do_PATCH(self):
        patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.calls.append((self.path, self.headers["Content-Type"], self.headers.get("Authorization"), patch))
        if self.server.conflicts:
            self.server.conflicts -= 1
            return self.answer(409, {"kind": "Status"})
        merge(self.server.node, patch)
        return self.answer(200, self.server.node)

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code if self.path == "/api/v1/nodes/gpu-17" else 404)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def merge(target, patch):
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


@pytest.fixture
def cluster():
    server = HTTPServer(("127.0.0.1", 0), Cluster)
    other = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    server.node = {
        "metadata": {"name": "gpu-17", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"taints": [other]},
    }
    server.calls, server.conflicts = [], 0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_node_is_labelled_and_tainted_and_freed_again(tmp_path, cluster):
    url = f"http://127.0.0.1:{cluster.server_address[1]}"
    (tmp_path / "token").write_text("secret\n")
    broken = trees.host(tmp_path / "b", state="1: DOWN")
    cluster.conflicts = 1
    ran = command("node-check", "--root", broken, "--kubernetes", "--api", url, "--token", tmp_path / "token")
    assert ran.code == 1 and "secret" not in ran.out + ran.err
    path, kind, authorization, patch = cluster.calls[-1]
    assert (path, kind, authorization) == ("/api/v1/nodes/gpu-17", "application/merge-patch+json", "Bearer secret")
    assert len(cluster.calls) == 2 and patch["metadata"]["resourceVersion"] == "7", "tried again after the conflict"
    assert cluster.node["metadata"]["labels"] == {"a": "b", "softib.io/node-check": "failed"}
    assert [t["key"] for t in cluster.node["spec"]["taints"]] == ["nvidia.com/gpu", "softib.io/node-check"]
    command("node-check", "--root", broken, "--kubernetes", "--api", url)
    assert len(cluster.calls) == 2, "nothing to change, nothing sent"
    assert command("node-check", "--root", trees.host(tmp_path / "g"), "--kubernetes", "--api", url).code == 0
    assert [t["key"] for t in cluster.node["spec"]["taints"]] == ["nvidia.com/gpu"]
    assert cluster.node["metadata"]["labels"]["softib.io/node-check"] == "passed"
    ran = command("node-check", "--root", broken, "--kubernetes", "--api", url, "--node", "other")
    assert ran.code == 2 and "404" in ran.err


def test_what_cannot_be_is_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "No such file or directory" in one_line(command("node-check", "--root", tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    assert "neither sys/class/infiniband" in one_line(command("node-check", "--root", tmp_path / "empty"))
    assert "--kubernetes" in one_line(command("node-check", "--api", "http://x"))
    ran = command("node-check", "--root", trees.host(tmp_path / "h"), "--kubernetes")
    assert ran.code == 2 and "not a Kubernetes pod" in ran.err


def test_a_device_that_hangs_is_a_fault(tmp_path):
    """A FIFO without a writer blocks its reader, as a file of a dead adapter does."""
    import os

    root = trees.host(tmp_path / "h")
    rate = root / "sys/class/infiniband/mlx5_0/ports/1/rate"
    rate.unlink()
    os.mkfifo(rate)
    began = time.monotonic()
    ran = command("node-check", "--root", root, "--timeout", "0.3")
    assert ran.code == 1 and "did not answer within 0.3 s" in ran.out and time.monotonic() - began < 2
