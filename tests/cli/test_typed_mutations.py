"""Each reader of a user's file, with one value of a valid file replaced by one of another type: an error of softib's in one line, or a result. Nothing else is ever raised.

Random bytes rarely reach the code that converts a value; a number of 5,000 digits, ``²``, a date, a tag or a list in its place always do.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from softib.errors import SoftibBug, SoftibError
from softib.fabric.formats import counters_text, node_name_map, registry
from softib.fabric.formats.cabling.plan import read_plan
from softib.fabric.formats.lft import dump, parse
from softib.fabric.formats.topo.ibnl import read_ibnl
from softib.fabric.topologies.spec import load_fabric_yaml
from softib.routing.engines.minhop import DoesNotFit
from tests.extent import extent

WORDS = ("9" * 5000, "²", "٣", "-1", "1e999", "nan", "0x", "0x" + "f" * 5000, "1_0", "+5", "true", "~", "2026-13-40", "!!bool maybe",
         "!!int x", "!!timestamp 1", "!!binary ä", "&a", "*a", "[", "{", "\ud800", "\0", "99999999999999999999", "4294967296", "")  # fmt: skip # a table, its columns aligned
VALUES = (
    None,
    True,
    -1,
    1 << 64,
    10**400,
    1e308,
    float("nan"),
    "x",
    "",
    "9" * 5000,
    [],
    {},
    [[]],
    {"a": 1},
    [None],
    "\ud800",
)
TOKEN = re.compile(r"[\w.]+")

NET = """vendid=0x2c9
devid=0xd2f0
sysimgguid=0x1
switchguid=0x1(1)
Switch 4 "S-0000000000000001" # "leaf" enhanced port 0 lid 1 lmc 0
[1] "H-0000000000000011"[1](11) # "host" lid 2 4xEDR

caguid=0x11
Ca 1 "H-0000000000000011" # "host"
[1](11) "S-0000000000000001"[1] # lid 2 lmc 0 "leaf" lid 1 4xEDR
"""
DB_CSV = """START_NODES
NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID,DeviceID,PartitionCap,revision,VendorID,LocalPortNum
"leaf",4,2,1,1,0x0000000000000001,0x0000000000000001,0x0000000000000001,54000,8,0xa0,0x2c9,0
"host",1,1,1,1,0x0000000000000011,0x0000000000000011,0x0000000000000011,4123,128,0x0,0x2c9,1
END_NODES

START_PORTS
NodeGuid,PortGuid,PortNum,MKey,GIDPrfx,MSMLID,LID,CapMsk,M_KeyLeasePeriod,DiagCode,LinkWidthActv,LinkWidthSup,LinkWidthEn,LocalPortNum,LinkSpeedEn,LinkSpeedActv,LMC,MKeyProtBits,LinkDownDefState,PortPhyState,PortState,LinkSpeedSup
0x0000000000000001,0x0000000000000001,1,0x0,0x0,1,1,0,0,0,2,3,3,1,7,1,0,0,2,5,4,7
0x0000000000000011,0x0000000000000011,1,0x0,0x0,1,2,0,0,0,2,3,3,1,7,1,0,0,2,5,4,7
END_PORTS

START_LINKS
NodeGuid1,PortNum1,NodeGuid2,PortNum2
0x0000000000000001,1,0x0000000000000011,1
END_LINKS
"""
LST = (
    "{ CA Ports:01 SystemGUID:0000000000000011 NodeGUID:0000000000000011 PortGUID:0000000000000011 VenID:000002C9 DevID:00001003 Rev:00000000 {host} LID:0002 PN:01 } "
    "{ SW Ports:24 SystemGUID:0000000000000001 NodeGUID:0000000000000001 PortGUID:0000000000000001 VenID:000002C9 DevID:0000C738 Rev:00000000 {leaf} LID:0001 PN:01 } "
    "PHY=4x LOG=ACT SPD=10\n"
)
LINKS = """CA: host:
      0x0000000000000011      2    1[  ] ==( 4X        25.78125 Gbps Active/  LinkUp)==>       1    1[  ] "leaf" ( )
Switch: 0x0000000000000001 leaf:
           1    1[  ] ==( 4X        25.78125 Gbps Active/  LinkUp)==>       2    1[  ] "host" ( )
           1    2[  ] ==(                Down/ Polling)==>             [  ] "" ( )
"""
NET_DUMP = """"leaf", Mellanox, 0x0000000000000001, LID 1
  #          : IB# : Sta  : PhysSta    : MTU : LWA     : LSA     : FEC mode            : Retran : Neighbor Guid      : N#         : NLID : Neighbor Description
  1/1/1      : 1   : ACT  : LINK UP    : 5   : 4x      : 100     : RS_FEC_544_514      : NO-RTR : 0x0000000000000011 : B184D0F0/0/0/1 : 2  : "host"
"""
TOPO = "MTS3600 leaf\n   P1 -4x-10G-> HCA host P1\n   P2 -> HCA other P1\n"
IBNL = "TOPSYSTEM A,B\n\nNODE SW 24 MT47396 U1\n1 -4x-5G-> P1\n2 -> P2\n"
LFTS = "Unicast lids [0x0-0x2] of switch Lid 1 guid 0x0000000000000001 (leaf):\n  Lid  Out   Destination\n       Port     Info\n0x0002 001 : (Channel Adapter portguid 0x0000000000000011: 'host')\n1 valid lids dumped\n"
FABRIC_YAML = """name: t
topology: {kind: fat-tree, radix: 4, levels: 2}
generation: EDR
faults:
- {cable: "leaf-1[1]", ber: 1.0e-12}
sm: {engine: updn, lmc: 0, qos: true}
"""
WORKLOAD = "name: w\njobs:\n- {pattern: permutation, size: 1KB, start: 10us, sl: 0, seed: 3, name: a}\nfaults:\n- {kind: link-down, at: 3us, where: 'a[1]'}\n"
PRICES = """currency: USD
date: 2026-01-01
adapters: {EDR: {low: 1, high: 2.5, source: a}}
switch_ports: {EDR: {low: 1, high: 2, source: a}}
cables: {EDR: [{up_to_m: 2, low: 1, high: 2, source: a}]}
"""
THRESHOLDS = "ber_floor: 1.0e-15\nisolations_share: {value: 0.5, source: x}\n"
JOBS_YAML = "train: [host, 7]\nother: 'node[1-2]'\n"
JOBS_LIST = "- {name: a, hosts: [host], user: me}\n- {name: b, hosts: host}\n"
SLURM = {
    "jobs": [
        {
            "name": "a",
            "job_id": 1,
            "user_name": "u",
            "job_state": ["RUNNING"],
            "nodes": "n[1-2]",
            "start_time": {"set": True, "number": 5},
            "end_time": 7,
            "job_resources": {"nodes": {"list": "n1", "allocation": [{"name": "n1"}]}},
        }
    ]
}
PODS = {"kind": "List", "items": [{"kind": "Pod", "metadata": {"namespace": "n", "labels": {"job-name": "j"}, "ownerReferences": [{"kind": "Job", "name": "x"}]},
                                   "spec": {"nodeName": "n1"}, "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z",
                                   "containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}}]}}]}  # fmt: skip # a table, its columns aligned
PARTITIONS = "Default=0x7fff, ipoib, mtu=4, rate=3, sl=0 : ALL=full;\njob=0x12, defmember=full, scope=2 : 0x11=limited, SELF;\nten=0x13 : ALL,\nmgid=ff12:401b::1,sl=1;\n"
OPENSM = "guid 0x0\nlmc 1\nsm_priority 3\nm_key_lease_period 60\nqos TRUE\nqos_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,15\nmax_op_vls 4\nrouting_engine updn\nsweep_interval 10\n"
QOS = "qos-levels\nqos-level\nname: DEFAULT\nsl: 1\nmtu-limit: 2\npkey: 0x12-0x14\nend-qos-level\nend-qos-levels\nqos-ulps\ndefault : 0\nsdp, port-num 30000 : 0\nend-qos-ulps\n"
TORUS = "torus 3T 4M 5T\nxp_link 0x1 0x2\nport_order 1 2 3\nmax_changes 10\n"
GOAL = "num_ranks 2\nrank 0 {\nl1: calc 100 cpu 0\nl2: send 8b to 1 tag 3\nl2 requires l1\n}\nrank 1 {\nl1: recv 8b from 0 tag 3\n}\n"
GROUPS = "port-group\nname: a\nport-guid: 0x1, 0x11\nport-name: hostname=node1; port=2; hca_idx=1\nend-port-group\n"
TOPOLOGIES = "topology\nid: 1\nsw-grp: a\nhca-grp: a\nend-topology\n"
CHAIN = "unicast-step\nid: 1\nengine: minhop\ntopology: 0\npath-bit: 0\nend-unicast-step\n"
COUNTERS = "# Port extended counters: Lid 1 port 1 (CapMask: 0x5A00)\nPortSelect:......................1\nPortXmitData:....................77\n"
PM = "Port=1 Lid=0x0001 GUID=0x0000000000000001\nlink_down_counter=0x0\nsymbol_error_counter=0x5\n"
TELEMETRY = [
    {"values": [{"node_guid": "0x1", "port_num": "1", "timestamp": 5.0, "Infiniband_MBOut_u_Gb": 4, "Raw_BER": 1e-9}]}
]
CHAKRA = {
    "workload_graph": [
        {
            "Id": 1,
            "Name": "a",
            "NodeType": 5,
            "data_deps": [],
            "ctrl_deps": [],
            "comm_size": 8,
            "comm_dst": 1,
            "comm_tag": 2,
            "is_cpu_op": False,
            "runtime": 5,
        }
    ]
}
PROMETHEUS = {"status": "success", "data": {"result": [
    {"metric": {"__name__": "infiniband_switch_port_symbol_error_total", "guid": "0x1", "port": "1", "switch": "leaf", "job": "j", "instance": "i",
                "uplink_guid": "0x1", "uplink_port": "1", "uplink_lid": "3"}, "values": [[1.0, "1"], [2.5, "7"]]}]}}  # fmt: skip # a table, its columns aligned
"""The same answer to every query: counters, uplinks and rates."""
MATRIX = "source,destination,bytes\nhost-1,host-2,1e6\nhost-2,host-1,5MB\n"
GRID = "parameters:\n  size: [1KB, 2KB]\n  engine: [minhop]\nseeds: 2\n"
PLAN = "StartDevice,StartPort,EndDevice,EndPort,Length\nleaf,Port 1,host,Port 1,3\nleaf,Port 2,other HCA-1,Port 1,2m\n"


NAMES = [
    "iblinkinfo",
    "net_dump",
    "ibnetdiscover",
    "db_csv",
    "lst",
    "topo",
    "ibnl",
    "ibsim",
    "lfts",
    "hcas",
    "names",
    "counters",
    "pm",
    "plan",
    "fabric.yaml",
    "workload",
    "prices",
    "thresholds",
    "jobs",
    "jobs list",
    "slurm",
    "pods",
    "hosts",
    "partitions",
    "opensm.conf",
    "qos policy",
    "prefix routes",
    "link policy",
    "guids",
    "torus",
    "groups",
    "topologies",
    "chain",
    "goal",
    "chakra.json",
    "matrix",
    "grid",
    "baseline",
    "record",
    "journal",
    "telemetry",
    "guid2lid",
    "rows",
    "prometheus",
]


def readers(folder: Path) -> dict[str, tuple[Any, Callable[[Path], Any]]]:
    """Name → a valid content (text, or a document), and what reads a file of it."""
    from softib.analysis.acceptance import baseline as accepted_baseline
    from softib.analysis.jobs.files import read_hosts, read_jobs
    from softib.api.sweep.grid import Journal as Rows
    from softib.api.sweep.grid import read_grid
    from softib.diags.baseline import read_baseline
    from softib.diags.cable_rules.thresholds import load_thresholds
    from softib.live.acceptance.journal import read_journal
    from softib.live.internal_sm.guid2lid import read_lids
    from softib.monitor import prometheus
    from softib.monitor.prometheus_answers import series_of
    from softib.monitor.ufm_telemetry import read_telemetry
    from softib.plan.price_book import read_book
    from softib.routing.chains import chain_policy
    from softib.routing.engines import torus_config
    from softib.sm.managers import partitions, qos_policy, router_mgr
    from softib.sm.options import fabric_yaml, file, link
    from softib.workloads import traffic_matrix, workload
    from softib.workloads.traces.forms import read_trace

    def asked(path: Path) -> Any:
        """As the answer of a server at each query."""
        with mock.patch.object(prometheus, "answer_of", lambda url, what, given: series_of(url, path.read_bytes())):
            return prometheus.observations_of_server("http://server", 2, 1.0)

    (folder / "pair").write_text(NET)
    f = registry.read(folder / "pair").fabric
    text = lambda parse: lambda path: parse(path.read_text("utf-8", "replace"), str(path))
    chain = lambda which: (
        lambda path: chain_policy.parse_chain(
            {"pgrp_policy_file": (GROUPS, "g"), "topo_policy_file": (TOPOLOGIES, "t"), "rch_policy_file": (CHAIN, "c")}
            | {which: (path.read_text("utf-8", "replace"), str(path))}
        )
    )
    net = lambda path: registry.read(path)
    baseline = {"softib_baseline": 1, "findings": [{"fingerprint": "a", "code": "x"}]}
    record = {
        "softib_fabric_baseline": 1,
        "name": "a",
        "firmware": {"1": "2"},
        "modules": {"a": {"b": "c"}},
        "errors": {"a": {"c": [1, 2.0]}},
        "pairs": {"bw": [["a", "b", 2.0]]},
        "fabric": NET.splitlines(),
    }
    record[accepted_baseline.KEY] = record.pop("softib_fabric_baseline")
    return {
        "ibnetdiscover": (NET, net), "db_csv": (DB_CSV, net), "lst": (LST, net), "topo": (TOPO, net), "ibnl": (IBNL, read_ibnl),
        "iblinkinfo": (LINKS, net), "net_dump": (NET_DUMP, net), "ibsim": ('Switch 4 "leaf"\n[1] "host"[1]\n\nHca 1 "host"\n[1] "leaf"[1]\n', net), "lfts": (LFTS, lambda p: dump.read_lfts(p, f)),
        "hcas": ("host/1 7\n", lambda p: parse.read_hcas(p, f)), "names": ('0x1 "leaf"\n', node_name_map.read),
        "counters": (COUNTERS, lambda p: counters_text.read_counters(p, f)), "pm": (PM, lambda p: counters_text.read_counters(p, f)),
        "plan": (PLAN, read_plan), "fabric.yaml": (FABRIC_YAML, load_fabric_yaml), "workload": (WORKLOAD, lambda p: workload.read(str(p))),
        "prices": (PRICES, read_book), "thresholds": (THRESHOLDS, load_thresholds), "jobs": (JOBS_YAML, read_jobs), "jobs list": (JOBS_LIST, read_jobs),
        "slurm": (SLURM, lambda p: (read_jobs(p), read_jobs(p, 6.0))), "pods": (PODS, lambda p: (read_jobs(p), read_jobs(p, 6.0))),
        "hosts": ("node[1-2]\nhost:8 slots=8\n", read_hosts), "partitions": (PARTITIONS, text(partitions.parse_partitions)),
        "opensm.conf": (OPENSM, text(file.read_options)), "qos policy": (QOS, text(qos_policy.parse_policy)),
        "prefix routes": ("0xfec0000000000002 0x1\n* 0x2\n", text(router_mgr.parse_prefix_routes)),
        "link policy": ("leaf[1-3,9] width=1x,4x speed=QDR,EDR fec=rs\n", text(link.parse_link_policy)), "guids": ("0x1\n0x2\n", lambda p: fabric_yaml.read_guids(str(p))),
        "torus": (TORUS, lambda p: _as_engine(torus_config.parse, p)), "groups": (GROUPS, chain("pgrp_policy_file")),
        "topologies": (TOPOLOGIES, chain("topo_policy_file")), "chain": (CHAIN, chain("rch_policy_file")), "goal": (GOAL, read_trace),
        "chakra.json": (CHAKRA, read_trace), "matrix": (MATRIX, lambda p: traffic_matrix.matrix_of(p, traffic_matrix.read_rows(p), ["host-1", "host-2"])),
        "grid": (GRID, read_grid), "baseline": (baseline, read_baseline), "record": (record, accepted_baseline.read_baseline),
        "journal": ({"softib_accept_journal": 1, "ports": []}, read_journal), "telemetry": (TELEMETRY, lambda p: read_telemetry(str(p))),
        "guid2lid": ("0x1 0x1 0x1\n", read_lids), "rows": (["k", {"a": 1}], lambda p: Rows(str(p).removesuffix(".rows")).read()),
        "prometheus": (PROMETHEUS, asked),
    }  # fmt: skip # a table, its columns aligned


def _as_engine(parse: Callable[[str], Any], path: Path) -> None:
    """As the engine, which turns what does not fit into its note."""
    with contextlib.suppress(DoesNotFit):
        parse(path.read_text("utf-8", "replace"))


def texts(valid: str) -> Iterator[str]:
    """``valid`` with each of its words replaced."""
    for at in TOKEN.finditer(valid):
        for word in WORDS:
            yield valid[: at.start()] + word + valid[at.end() :]


def documents(valid: Any) -> Iterator[Any]:
    """``valid`` with each of its values replaced, and gone."""
    yield from VALUES
    for key, value in valid.items() if isinstance(valid, dict) else enumerate(valid) if isinstance(valid, list) else ():
        for other in documents(value):
            copy = valid.copy()
            copy[key] = other
            yield copy
        copy = valid.copy()
        copy.pop(key)
        yield copy


@pytest.mark.parametrize("name", NAMES)
def test_no_value_of_another_type_is_a_traceback(name: str, tmp_path: Path) -> None:
    valid, read = readers(tmp_path)[name]
    path = tmp_path / (
        name if "." in name else f"{name}.rows" if name == "rows" else f"{name}.yaml" if name in ("workload",) else name
    )
    plain = valid if isinstance(valid, str) else json.dumps(valid)
    path.write_text(plain)
    read(path)  # the file itself is right
    made = texts(valid) if isinstance(valid, str) else (json.dumps(d, allow_nan=True) for d in documents(valid))
    wrong: dict[str, str] = {}
    for content in itertools.islice(made, 0, None, extent(23, 1)):
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        try:
            read(path)
        except SoftibError as error:
            assert not isinstance(error, SoftibBug) and "\n" not in str(error) and len(str(error)) <= 1000
        except Exception as error:
            wrong.setdefault(f"{type(error).__name__}: {str(error)[:100]}", content[-400:])
    assert not wrong, wrong


OF_TEXT = {
    "partitions",
    "opensm.conf",
    "qos policy",
    "prefix routes",
    "link policy",
    "torus",
    "groups",
    "topologies",
    "chain",
    "rows",
}
"""Readers that take a text; the settings of a manager read their files with one function, which ``guids`` is here."""


@pytest.mark.parametrize("name", sorted(set(NAMES) - OF_TEXT - {"guid2lid", "prometheus"}))
def test_a_device_without_an_end_is_refused(name: str, tmp_path: Path) -> None:
    _, read = readers(tmp_path)[name]
    with pytest.raises(SoftibError, match="/dev/zero"):
        read(Path("/dev/zero"))


def octets(valid: bytes) -> Iterator[bytes]:
    """``valid`` with each of its bytes and words replaced, cut at each, and with each left out or written twice."""
    for at in range(len(valid)):
        for other in (0, 1, 0x7F, 0x80, 0xFF, valid[at] ^ 1):
            yield valid[:at] + bytes([other]) + valid[at + 1 :]
        for word in (0xFFFF_FFFF, 0x7FFF_FFFF, 1 << 31, 1 << 20):
            yield valid[:at] + word.to_bytes(4, "little") + valid[at + 4 :]
        for word in ((1 << 64) - 1, (1 << 63) - 1, 1 << 40):
            yield valid[:at] + word.to_bytes(8, "little") + valid[at + 8 :]
        yield valid[:at]
        yield valid[:at] + valid[at + 1 :]
        yield valid[: at + 1] + valid[at:]
        yield valid[:at] + b"\xff" * 11 + valid[at:]  # no varint has so many


@pytest.mark.parametrize("name", ["program.bin", "trace.et"])
def test_no_octet_of_a_program_is_a_traceback_or_much_memory(name: str, tmp_path: Path) -> None:
    """Binary GOAL, and Chakra's protobuf: numbers in them become sizes of tables."""
    import tracemalloc

    from softib.workloads.traces.forms import read_trace
    from softib.workloads.traces.goal_binary import write_binary
    from tests.workloads.traces.chakra_files import et, field, node

    if name == "program.bin":
        (tmp_path / "text.goal").write_text(GOAL)
        valid = write_binary(read_trace(tmp_path / "text.goal"))
    else:
        valid = et(
            node(1, 4, micros=5),
            node(2, 7, data=b"\1", comm_type=0, comm_size=8),
            field(1, 3) + field(3, 4) + field(4, 2),
        )
    path = tmp_path / name
    path.write_bytes(valid)
    read_trace(path)  # the file itself is right
    wrong: dict[str, bytes] = {}
    tracemalloc.start()
    for content in itertools.islice(octets(valid), 0, None, extent(17, 1)):
        path.write_bytes(content)
        try:
            read_trace(path)
        except SoftibError as error:
            assert not isinstance(error, SoftibBug) and "\n" not in str(error) and len(str(error)) <= 1000
        except Exception as error:
            wrong.setdefault(f"{type(error).__name__}: {str(error)[:100]}", content)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not wrong, wrong
    assert most < 64 << 20
