#!/usr/bin/env python3
"""Give each tenant of MAAS or CloudStack the InfiniBand partition of its hosts, again and again, from cron.

    maas PROFILE machines read | partitions.py maas          tenants are resource pools, with the machines in use
    cmk list dedicatedhosts    | partitions.py cloudstack    tenants are accounts and domains, with dedicated hosts

SOFTIB_URL (https://host:8471), SOFTIB_TOKEN_FILE (a token of POST /tenants/v1/tokens) and SOFTIB_CA (PEM, for TLS) say
where `softib serve --tenants` is. Needs only Python's library. Partitions of other names stay. Hosts are found by the
names in their NodeDescriptions; hosts without InfiniBand are listed. A list without any host
of the fabric changes nothing.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from typing import Any

IN_USE = {"Allocated", "Deploying", "Deployed"}
"""A machine of MAAS in another state has no tenant."""
Tenants = dict[str, set[str]]


def ask(method: str, path: str, body: Any = None) -> Any:
    """One request."""
    with open(os.environ["SOFTIB_TOKEN_FILE"]) as file:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {file.read().strip()}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["SOFTIB_URL"].rstrip("/") + path, data, headers, method=method)
    context = ssl.create_default_context(cafile=os.environ.get("SOFTIB_CA") or None)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code}: {error.read().decode('utf-8', 'replace')[:500]}")
    except OSError as error:
        sys.exit(f"{method} {path}: {error}")


def of_maas(machines: list[dict[str, Any]]) -> Tenants:
    """Pool -> host names of its machines in use."""
    tenants: Tenants = {}
    for machine in machines:
        if machine["status_name"] in IN_USE:
            tenants.setdefault(machine["pool"]["name"], set()).add(machine["hostname"])
    return tenants


def of_cloudstack(document: dict[str, Any]) -> Tenants:
    """Account, or domain if the host is dedicated to a whole domain, -> host names."""
    tenants: Tenants = {}
    for host in document.get("dedicatedhost", []):
        tenants.setdefault(host.get("accountid") or host["domainid"], set()).add(host["hostname"])
    return tenants


def apply(cloud: str, tenants: Tenants) -> None:
    """Make the partitions of this cloud those of its tenants."""
    ports: dict[str, set[str]] = {}
    for port in ask("GET", "/ufmRestV3/resources/ports?sys_type=Computer"):
        ports.setdefault(port["system_name"], set()).add(port["guid"])
    if ports.keys().isdisjoint(host for hosts in tenants.values() for host in hosts):
        sys.exit("no host of the list has a port in the fabric; nothing was changed")
    listed = ask("GET", "/ufmRestV3/resources/pkeys?guids_data=true")
    present = {one["partition"]: (key, one) for key, one in listed.items() if one["partition"].startswith(f"{cloud}-")}
    for tenant, hosts in sorted(tenants.items()):
        absent = sorted(hosts - ports.keys())
        if absent:
            print(f"{tenant}: no InfiniBand port of {', '.join(absent)}", file=sys.stderr)
        guids = sorted(set().union(*(ports[host] for host in hosts & ports.keys())))
        name = f"{cloud}-{tenant}"
        if not guids:
            continue
        key, partition = present.pop(name, ("", {"guids": []}))
        if guids != sorted(guid["guid"] for guid in partition["guids"]):
            key = key or ask("POST", "/tenants/v1/partitions", {"name": name})["pkey"]
            ask("PUT", "/ufmRestV3/resources/pkeys", {"pkey": key, "guids": guids, "partition_name": name})
            print(f"{name}: P_Key {key}, {len(guids)} port{'s' * (len(guids) != 1)}")
    for name, (key, _) in sorted(present.items()):
        ask("DELETE", f"/ufmRestV3/resources/pkeys/{key}")
        print(f"{name}: P_Key {key} removed")


if __name__ == "__main__":
    clouds = {"maas": of_maas, "cloudstack": of_cloudstack}
    if len(sys.argv) != 2 or sys.argv[1] not in clouds:
        sys.exit(__doc__)
    try:
        given = clouds[sys.argv[1]](json.load(sys.stdin))
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        sys.exit(
            f"the input is not the list of {sys.argv[1]}: {type(problem).__name__}: {problem}; nothing was changed"
        )
    if not given:
        sys.exit("the list has no host of a tenant; nothing was changed")
    missing = [name for name in ("SOFTIB_URL", "SOFTIB_TOKEN_FILE") if not os.environ.get(name)]
    if missing:
        sys.exit(f"set {' and '.join(missing)}")
    apply(sys.argv[1], given)
