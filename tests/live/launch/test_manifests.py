"""The files of docs/recipes/kubernetes.md: each parses, names nodes and options that are there, and is valid to Kubernetes' schemas."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import softib
from tests.preload.foreign_wheels import environment

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "containers"
CHART = FOLDER / "chart"


def nodes_of(text: str) -> set[str]:
    return set(re.findall(r"--node(?:, | )(host-\d+)", text))


def hosts_of(fabric: str | Path) -> set[str]:
    return set(softib.load(fabric).nodes["name"])


def test_compose_starts_each_container_without_privilege_on_a_host_of_its_fabric():
    text = (FOLDER / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    assert set(services) == {"fabric", "server", "client"}
    for service in services.values():
        assert service["cap_drop"] == ["ALL"] and service["network_mode"] == "none" and "privileged" not in service
    source = services["fabric"]["command"][2]
    assert nodes_of(text) == {"host-0001", "host-0002"} <= hosts_of(FOLDER.parent / source)


def test_the_job_starts_each_container_without_privilege_on_a_host_of_its_fabric(tmp_path):
    files, job = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    check_job(files, job, tmp_path)


def check_job(files: dict, job: dict, folder: Path) -> None:
    (folder / "fabric.yaml").write_text(files["data"]["fabric.yaml"])
    pod = job["spec"]["template"]["spec"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*pod["initContainers"], *pod["containers"]):
        limits = container["securityContext"]
        assert limits["capabilities"] == {"drop": ["ALL"]} and limits["readOnlyRootFilesystem"]
        assert not limits["allowPrivilegeEscalation"]
    nodes = nodes_of(" ".join(" ".join(c["command"]) for c in pod["containers"]))
    assert nodes == {"host-0001", "host-0002"} <= hosts_of(folder / "fabric.yaml")


def rendered(go: str, folder: Path) -> str:
    """The chart with its own values, as ``helm template lab`` gives it."""
    values = {"Values": yaml.safe_load((CHART / "values.yaml").read_text()), "Release": {"Name": "lab"}}
    (folder / "values.json").write_text(json.dumps(values))
    words = [
        go,
        "run",
        str(Path(__file__).with_name("render.go")),
        str(CHART / "templates" / "job.yaml"),
        str(folder / "values.json"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.stock
def test_the_chart_renders_to_the_same_kind_of_job(stock, tmp_path):
    check_job(*yaml.safe_load_all(rendered(stock("go"), tmp_path)), tmp_path)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.parametrize("what", ["kubernetes.yaml", "chart"])
def test_kubernetes_schemas_accept_it(stock, tmp_path, what):
    """Strictly: an unknown property is an error."""
    program = environment("kubernetes-validate") / "bin" / "kubernetes-validate"
    text = rendered(stock("go"), tmp_path) if what == "chart" else (FOLDER / what).read_text()
    for number, document in enumerate(yaml.safe_load_all(text)):
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(document))
    files = sorted(str(path) for path in tmp_path.glob("[0-9].yaml"))
    done = subprocess.run([program, "--strict", *files], capture_output=True, text=True, timeout=120)
    assert len(files) == 2 and done.returncode == 0, done.stdout + done.stderr
