"""Take the requests that public clients of UFM send from their sources: ``python tests/tenants/take_requests.py MIRRORS > requests.json``.

``MIRRORS`` holds a git directory of each repository below (``git clone --bare``). Written are facts alone: method, path with {names} for what the
client fills in, keys of the body with the type of each, file and commit. Rules are one line a request: where in which file it stands (a pattern
that must be there, or the taking fails), and what it is. A request that a client builds from parts is put together here, its parts checked there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

TEXT, BOOL, LIST, NUMBER = "text", "bool", "list", "number"
MEMBERS = {"pkey": TEXT, "index0": BOOL, "ip_over_ib": BOOL, "membership": TEXT, "guids": LIST}


@dataclass(frozen=True)
class Request:
    """``evidence``: patterns that are in ``file`` at the commit ``at``. ``live``: the request needs a subnet."""

    client: str
    file: str
    method: str
    path: str
    evidence: tuple[str, ...]
    body: dict[str, str] = field(default_factory=dict)
    status: int = 200
    live: bool = False
    at: str = "HEAD"


IB_K8S = "pkg/sm/plugins/ufm/ufm.go"
NICO = "crates/ib-fabric/src/ib/ufmclient/mod.rs"
ML2 = "networking_mlnx_baremetal/ufmclient/modules/resources/pkey.py"
SLURM = "plugins/SLURM-Integration/ufm_slurm_utils.py"
PKEYS = "scripts/ufm_pkeys/ufm_pkeys.py"
ISOLATE = "scripts/batch_isolate_devices/batch_isolate_devices.py"
PDR = "plugins/pdr_deterministic_plugin/ufm_sim_web_service/constants.py"
FLUENTD = "plugins/fluentd_topology_plugin/fluentd_topology_plugin.py"
GRPC = "plugins/grpc_streamer_plugin/ufm_sim_web_service/Config.py"
SNMP = "plugins/snmp_receiver_plugin/snmp_server/helpers.py"
HEALTH = "scripts/ufm_fabric_health/run_fabric_health_report.py"
UFM_HEALTH = "scripts/ufm_health/run_ufm_health_report.py"
SYSLOG = "plugins/ufm_syslog_streaming_plugin/README.md"
GRAFANA = "plugins/grafana_infiniband_telemetry_plugin/src/api/labels_api.py"
PDR_CLIENT = "plugins/pdr_deterministic_plugin/ufm_sim_web_service/ufm_communication_mgr.py"
WITH_SHARP = "7ce132a1^"
IMBUE = "ufm_events/find_problematic_events.py"

REQUESTS = {
    "Mellanox/ib-kubernetes": [
        Request("ib-kubernetes", IB_K8S, "GET", "/ufmRest/app/ufm_version", (r"/ufmRest/app/ufm_version",)),
        Request("ib-kubernetes", IB_K8S, "POST", "/ufmRest/resources/pkeys",
                (r'Post\(u\.buildURL\("/ufmRest/resources/pkeys"\), http\.StatusOK', r'"pkey": "0x%04X", "index0": true, "ip_over_ib": true, "membership": "full"'),
                MEMBERS),
        Request("ib-kubernetes", IB_K8S, "GET", "/ufmRest/resources/pkeys/?guids_data=true", (r"/ufmRest/resources/pkeys/\?guids_data=true",)),
        Request("ib-kubernetes", IB_K8S, "POST", "/ufmRest/actions/remove_guids_from_pkey", (r"/ufmRest/actions/remove_guids_from_pkey",),
                {"pkey": TEXT, "guids": LIST}),
    ],
    "NVIDIA/infra-controller": [
        Request("infra-controller", NICO, "GET", "/ufmRestV3/app/ufm_version", (r'"/app/ufm_version"', r'"/ufmRestV3"')),
        Request("infra-controller", NICO, "GET", "/ufmRestV3/app/smconf", (r'"/app/smconf"', r"m_key_per_port: bool")),
        Request("infra-controller", NICO, "POST", "/ufmRestV3/resources/pkeys", (r'"/resources/pkeys"\)', r"membership: PortMembership,\s+index0: bool,\s+guids"),
                MEMBERS),
        Request("infra-controller", NICO, "PUT", "/ufmRestV3/resources/pkeys/qos_conf", (r'"/resources/pkeys/qos_conf"', r"rate_limit: f32"),
                {"pkey": TEXT, "mtu_limit": NUMBER, "service_level": NUMBER, "rate_limit": NUMBER}),
        Request("infra-controller", NICO, "GET", "/ufmRestV3/resources/pkeys?guids_data=true", (r'"/resources/pkeys\?guids_data=true"',)),
        Request("infra-controller", NICO, "GET", "/ufmRestV3/resources/pkeys?qos_conf=true", (r'"/resources/pkeys\?qos_conf=true"',)),
        Request("infra-controller", NICO, "GET", "/ufmRestV3/resources/pkeys/{pkey}?guids_data=true&qos_conf=true",
                (r'"/resources/pkeys/\{pkey\}"', r'"guids_data=true"', r'"qos_conf=true"')),
        Request("infra-controller", NICO, "GET", "/ufmRestV3/resources/ports?sys_type=Computer", (r'"/resources/ports\?sys_type=Computer"',)),
        Request("infra-controller", NICO, "POST", "/ufmRestV3/actions/remove_guids_from_pkey", (r'"/actions/remove_guids_from_pkey"',),
                {"pkey": TEXT, "guids": LIST}),
    ],
    "IamFive/networking-mlnx-baremetal": [
        Request("networking-mlnx-baremetal", ML2, "GET", "/ufmRest/resources/pkeys?guids_data=False", (r"'/resources/pkeys\?guids_data=%s' % with_guid",)),
        Request("networking-mlnx-baremetal", ML2, "GET", "/ufmRest/resources/pkeys/{pkey}?guids_data=True", (r"'/resources/pkeys/%s\?guids_data=%s'",)),
        Request("networking-mlnx-baremetal", ML2, "PUT", "/ufmRest/resources/pkeys", (r"put\('/resources/pkeys'", r'"membership": "full" if'), MEMBERS),
        Request("networking-mlnx-baremetal", ML2, "POST", "/ufmRest/resources/pkeys/", (r"post\('/resources/pkeys/'",), MEMBERS),
        Request("networking-mlnx-baremetal", ML2, "DELETE", "/ufmRest/resources/pkeys/{pkey}/guids/{guid},{other}", (r"'/resources/pkeys/%s/guids/%s'", r"','\.join")),
        Request("networking-mlnx-baremetal", ML2, "DELETE", "/ufmRest/resources/pkeys/{pkey}", (r"delete\('/resources/pkeys/%s' % pkey\)",)),
    ],
    "Mellanox/ufm_sdk_3.0": [
        Request("UFM-Slurm", SLURM, "GET", "/ufmRest/app/ufm_version", (r'UFM_VER_URL = "/ufmRest/app/ufm_version"',)),
        Request("UFM-Slurm", SLURM, "POST", "/ufmRest/resources/pkeys/hosts", (r'"/ufmRest/resources/pkeys/hosts"', r'"hosts_names": job_nodes'),
                {"hosts_names": TEXT, "pkey": TEXT, "ip_over_ib": BOOL, "index0": BOOL}),
        Request("UFM-Slurm", SLURM, "DELETE", "/ufmRest/resources/pkeys/{pkey}/hosts/{hosts}", (r'"/ufmRest/resources/pkeys/\{0\}/hosts/\{1\}"',)),
        Request("ufm_pkeys", PKEYS, "PUT", "/ufmRest/resources/pkeys", (r'"resources/pkeys"', r"HTTPMethods\.PUT", r'"memberships"'),
                {"pkey": TEXT, "index0": BOOL, "ip_over_ib": BOOL, "memberships": LIST, "guids": LIST}),
        Request("ufm_pkeys", PKEYS, "GET", "/ufmRest/resources/pkeys/{pkey}?guids_data=true", (r"\?guids_data=true",)),
        Request("ufm_pkeys", PKEYS, "DELETE", "/ufmRest/resources/pkeys/{pkey}", (r"HTTPMethods\.DELETE",)),
        Request("ufm_sdk batch_isolate_devices", ISOLATE, "GET", "/ufmRest/app/unhealthy_ports", (r"/ufmRest/app/unhealthy_ports", r"PeerPortDname")),
        Request("ufm_sdk pdr plugin", PDR, "GET", "/ufmRest/app/unhealthy_ports", (r'"/app/unhealthy_ports"',)),
        Request("ufm_sdk pdr plugin", PDR, "GET", "/ufmRest/resources/ports?active=true", (r"/resources/ports\?active=true",)),
        Request("ufm_sdk pdr plugin", PDR, "GET", "/ufmRest/resources/isolated_ports", (r"/resources/isolated_ports",)),
        Request("ufm_sdk pdr plugin", PDR, "POST", "/ufmRest/app/events/external_event", (r"/app/events/external_event",),
                {"event_id": NUMBER, "description": TEXT, "external_event_name": TEXT, "external_event_type": TEXT, "external_event_source": TEXT}),
        Request("ufm_sdk fluentd topology", FLUENTD, "GET", "/ufmRest/app/versioning", (r"'app/versioning'",)),
        Request("ufm_sdk fluentd topology", FLUENTD, "GET", "/ufmRest/app/events", (r"'app/events'",)),
        Request("ufm_sdk fluentd topology", FLUENTD, "GET", "/ufmRest/app/alarms", (r"'app/alarms'",)),
        Request("ufm_sdk grpc streamer", GRPC, "GET", "/ufmRest/resources/links", (r'"/resources/links"',)),
        Request("ufm_sdk fluentd topology", FLUENTD, "GET", "/ufmRest/resources/systems", (r"'resources/systems",)),
        Request("ufm_sdk pdr plugin", PDR, "GET", "/ufmRest/monitoring/session/0/data", (r'"/monitoring/session/0/data"',)),
        Request("ufm_sdk snmp plugin", SNMP, "GET", "/ufmRest/jobs/{job}", (r'f"/jobs/\{job_id\}"',)),
        Request("ufm_sdk ufm_fabric_health", HEALTH, "POST", "/ufmRest/reports/Fabric_Health", (r"'reports/Fabric_Health'", r"response\.json\(\)\['report_id'\]"),
                {"duplicate_nodes": BOOL, "cables": BOOL}),
        Request("ufm_sdk syslog streaming", SYSLOG, "PUT", "/ufmRest/app/syslog", (r"ufmRest/app/syslog", r'"events_log": true,"destination"'),
                {"active": BOOL, "destination": TEXT, "level": TEXT, "ufm_log": BOOL, "events_log": BOOL}),
        Request("ufm_sdk grafana telemetry", GRAFANA, "GET", "/ufmRest/app/fabric_snapshot?tag=grafana&output=json&levels=true&hash=",
                (r"/app/fabric_snapshot\?tag=grafana&output=json&levels=true&hash=%s", r'labels_response\.get\("labels"\)')),
        Request("ufm_sdk batch_isolate_devices", ISOLATE, "POST", "/ufmRest/actions", (r"/ufmRest/actions", r'"action": "mark_device_unhealthy"', r"status_code != 202"),
                {"params": TEXT, "action": TEXT, "object_ids": LIST, "object_type": TEXT, "identifier": TEXT}, 202, live=True),
        Request("ufm_sdk batch_isolate_devices", ISOLATE, "PUT", "/ufmRest/app/unhealthy_ports", (r'"ports_policy": "HEALTHY"',),
                {"ports": LIST, "ports_policy": TEXT}, live=True),
        Request("ufm_sdk pdr plugin", PDR_CLIENT, "PUT", "/ufmRest/app/unhealthy_ports", (r'"ports_policy": "UNHEALTHY"', r'"action": "isolate"'),
                {"ports": LIST, "ports_policy": TEXT, "action": TEXT}, live=True),
        Request("ufm_sdk pdr plugin", PDR_CLIENT, "POST", "/ufmRest/actions", (r'"action": "reset"', r'"params": \{ "port_id": port_name \}'),
                {"params": TEXT, "action": TEXT, "object_ids": LIST, "object_type": TEXT, "description": TEXT, "identifier": TEXT}, 202, live=True),
        Request("UFM-Slurm with SHARP", SLURM, "POST", "/ufmRest/app/sharp/resources?partially_alloc=false", (r'"/ufmRest/app/sharp/resources"', r'"app_resources_limit"'),
                {"app_id": TEXT, "hosts_names": TEXT, "app_resources_limit": NUMBER, "pkey": TEXT}, live=True, at=WITH_SHARP),
        Request("UFM-Slurm with SHARP", SLURM, "DELETE", "/ufmRest/app/sharp/resources/{app}", (r'"/ufmRest/app/sharp/resources/\{0\}"',), {}, 204, live=True, at=WITH_SHARP),
        Request("ufm_sdk ufm_health", UFM_HEALTH, "POST", "/ufmRest/reports/UFM_Health", (r"'reports/UFM_Health'",)),
    ],
    "imbue-ai/cluster-health": [
        Request("imbue cluster-health", IMBUE, "GET", "/ufmRest/resources/ports", (r"/ufmRest/resources/ports", r'port\["node_description"\]')),
    ],
}  # fmt: skip # a table, its columns aligned


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout


def mirror(folder: Path, repository: str) -> Path:
    """The git directory of a repository below ``folder``."""
    base = folder / repository.replace("/", "+")
    return next(p for p in (base / "repo" / ".git", base / "repo", base) if (p / "HEAD").is_file())


def main(mirrors: str) -> None:
    out = []
    for repository, requests in REQUESTS.items():
        folder = mirror(Path(mirrors), repository)
        for request in requests:
            text = git(folder, "show", f"{request.at}:{request.file}")
            missing = [p for p in request.evidence if not re.search(p, text)]
            if missing:
                raise SystemExit(f"{repository} {request.at} {request.file}: no {missing[0]}")
            facts = {k: v for k, v in asdict(request).items() if k not in ("evidence", "at")}
            at = git(folder, "rev-parse", request.at).strip()
            out.append({"repository": repository, "commit": at, **facts})
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
