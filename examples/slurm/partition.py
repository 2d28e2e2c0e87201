#!/usr/bin/env python3
"""Give a Slurm job its InfiniBand partition, and take it back: for PrologSlurmctld, EpilogSlurmctld and cron.

    partition.py begin    the job's partition, with every port of its nodes, when the tables of the ports hold it
    partition.py end      removes it
    partition.py sweep    removes partitions of jobs that squeue does not list any more

SOFTIB_URL (https://host:8471), SOFTIB_TOKEN_FILE (a token of POST /tenants/v1/tokens) and SOFTIB_CA (PEM, for TLS) say
where `softib serve --tenants` is. Needs only Python's library. Request ids are made of cluster, job, restart and nodes,
so that a script that is killed anywhere can be run again: the service executes a request with the same id once.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any

WAIT_S = float(os.environ.get("SOFTIB_WAIT_S", "30"))
TRIES = 3


def ask(method: str, path: str, body: Any = None, request_id: str = "", absent: int = 0) -> Any:
    """One request; it is repeated if the service does not answer, or is busy. The status ``absent`` is no error."""
    try:
        with open(os.environ["SOFTIB_TOKEN_FILE"]) as file:
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {file.read().strip()}"}
        context = ssl.create_default_context(cafile=os.environ.get("SOFTIB_CA") or None)
    except (OSError, ValueError) as error:
        sys.exit(f"SOFTIB_TOKEN_FILE or SOFTIB_CA cannot be read: {error}")
    if request_id:
        headers["X-Request-Id"] = request_id
    data = None if body is None else json.dumps(body).encode()
    left = TRIES
    while True:
        left -= 1
        try:
            request = urllib.request.Request(os.environ["SOFTIB_URL"].rstrip("/") + path, data, headers, method=method)
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == absent:
                return None
            if error.code != 503 or not left:
                sys.exit(f"{method} {path}: {error.code}: {error.read().decode('utf-8', 'replace')[:500]}")
        except OSError as error:
            if not left:
                sys.exit(f"{method} {path}: {error}")
        except ValueError as error:  # no URL, or no JSON
            sys.exit(f"{method} {path}: {error}")
        time.sleep(1)


def job_name() -> str:
    """The beginning of the name of the job's partition: cluster, job and restart; a digest of the nodes follows."""
    cluster = re.sub(r"[^A-Za-z0-9_.-]", "_", os.environ.get("SLURM_CLUSTER_NAME", "cluster"))
    return f"slurm-{cluster}-{int(os.environ['SLURM_JOB_ID'])}-{int(os.environ.get('SLURM_RESTART_COUNT') or 0)}"


def lines(*command: str) -> list[str]:
    """Lines that a program of Slurm prints."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout.split()
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"{command[0]}: {error}")


def partitions(prefix: str) -> dict[str, str]:
    """P_Key -> name of the partitions with this prefix."""
    listed = ask("GET", "/ufmRestV3/resources/pkeys?guids_data=false")
    named = {key: value["partition"] if isinstance(value, dict) else value for key, value in listed.items()}
    return {key: name for key, name in named.items() if name.startswith(prefix)}


def of_job(job: str) -> dict[str, str]:
    """P_Key -> name of the partitions of a job and restart: one, unless it began again on other nodes."""
    return {key: name for key, name in partitions(job).items() if name == job or name.startswith(f"{job}-")}


def begin() -> None:
    """Make the partition, give it the ports of the nodes, and wait until every port holds the P_Key. A failure after
    the partition was made takes it back."""
    job, nodes = job_name(), lines("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"])
    try:
        pkey, key = own_partition(job, nodes)
        fill(pkey, nodes, key)
    except BaseException as failure:
        try:
            end()
        except SystemExit as another:
            sys.exit(f"{failure}; its partition may still be there: {another}")
        raise


def own_partition(job: str, nodes: list[str]) -> tuple[str, str]:
    """P_Key of the job's partition, and the beginning of its requests' ids. Slurm may begin a job again with the same
    restart count. Then the id of an earlier begin gives its P_Key: if that was removed since, and may be another job's
    now, the next id makes a new one. A partition of an earlier begin on other nodes is removed."""
    name = f"{job}-{hashlib.sha256(' '.join(sorted(nodes)).encode()).hexdigest()[:8]}"
    for attempt in itertools.count():
        key = f"{name}/{attempt}"
        pkey = ask("POST", "/tenants/v1/partitions", {"name": name}, f"{key}/partition")["pkey"]
        alive = of_job(job)
        if alive.pop(pkey, "") == name:
            break
    for other in alive:
        remove(other)
    return pkey, key


def fill(pkey: str, nodes: list[str], key: str) -> None:
    """Give the partition the ports of the nodes, and wait for their tables."""
    ask("POST", "/ufmRestV3/resources/pkeys/hosts", {"pkey": pkey, "hosts_names": nodes}, f"{key}/hosts")
    until = time.monotonic() + WAIT_S
    while True:
        guids = ask("GET", f"/ufmRestV3/resources/pkeys/{pkey}?guids_data=true").get("guids", [])
        waits = [guid["guid"] for guid in guids if not guid["programmed"]]
        if guids and not waits:
            print(pkey)
            return
        if time.monotonic() > until:
            missing = f"is missing in {', '.join(waits[:4])}" if waits else "has no ports"
            sys.exit(f"{job_name()}: P_Key {pkey} {missing} after {WAIT_S:g} s")
        time.sleep(0.1)


def end() -> None:
    """A partition that is not there any more is no error."""
    for pkey in of_job(job_name()):
        remove(pkey)


def sweep() -> None:
    """What prologs and epilogs left that never ended, because the controller died or the service was away."""
    cluster = job_name_prefix()
    left = partitions(cluster)
    alive = set(lines("squeue", "--all", "--noheader", "--format=%A"))  # after the list: a job that begins now is in it
    for pkey, name in left.items():
        if name.removeprefix(cluster).split("-")[0] not in alive:
            remove(pkey)


def job_name_prefix() -> str:
    """The prefix of this cluster's partitions."""
    os.environ.setdefault("SLURM_JOB_ID", "0")
    return job_name().rsplit("-", 2)[0] + "-"


def remove(pkey: str) -> None:
    """Delete a partition. Its P_Key is assigned to no other job for an hour, so a repeated request is harmless."""
    ask("DELETE", f"/ufmRestV3/resources/pkeys/{pkey}", absent=404)


if __name__ == "__main__":
    commands = {"begin": begin, "end": end, "sweep": sweep}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(f"usage: partition.py {'|'.join(commands)}")
    needed = ["SOFTIB_URL", "SOFTIB_TOKEN_FILE"]
    needed += {"begin": ["SLURM_JOB_ID", "SLURM_JOB_NODELIST"], "end": ["SLURM_JOB_ID"]}.get(sys.argv[1], [])
    unset = [variable for variable in needed if not os.environ.get(variable)]
    if unset:
        sys.exit(f"set {' and '.join(unset)}")
    for variable in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT"):
        if not re.fullmatch("[0-9]*", os.environ.get(variable, "")):
            sys.exit(f"{variable} must be a number")
    commands[sys.argv[1]]()
