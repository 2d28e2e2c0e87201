"""Programs on a running fabric, played in processes of their own: ``fabric_program.py LIBRARY SCENE [JSON]``."""

import ctypes as ct
import json
import os
import socket
import sys
import time


def devices(f, at):
    from tests.preload.verbs.fabric_library import Device, Port

    assert f.sv_fabric_join() == 0
    stated, listed = [], ct.POINTER(Device)()
    for d in listed[: f.sv_devices(ct.byref(listed))]:
        ports = []
        for portnum in d.portnums[: d.portnums_n]:
            row, port = f.sv_port_row(ct.byref(d), portnum), Port()
            f.sv_port_read(row, ct.byref(port))
            gid, pkey = (ct.c_uint8 * 16)(), ct.c_uint16()
            gids = [bytes(gid).hex() for i in range(port.gid_tbl_len) if f.sv_port_gid(row, i, gid) == 0]
            pkeys = [pkey.value for i in range(port.pkey_tbl_len) if f.sv_port_pkey(row, i, ct.byref(pkey)) == 0]
            beyond = f.sv_port_gid(row, port.gid_tbl_len, gid), f.sv_port_pkey(row, port.pkey_tbl_len, ct.byref(pkey))
            address = f.sv_addr_of_port(row)
            ports.append(
                {n: getattr(port, n) for n, _ in Port._fields_}
                | {
                    "portnum": portnum,
                    "row": row,
                    "gids": gids,
                    "pkeys": pkeys,
                    "beyond": beyond,
                    "address": address,
                    "port_of_address": f.sv_port_of_addr(address),
                }
            )
        plain = {
            n: getattr(d, n)
            for n in (
                "node",
                "node_guid",
                "sys_image_guid",
                "vendor_id",
                "vendor_part_id",
                "hw_ver",
                "node_type",
                "ports",
            )
        }
        stated.append(plain | {n: getattr(d, n).decode() for n in ("name", "fw", "desc")} | {"list": ports})
    print(json.dumps({"process": f.sv_fabric_process(), "devices": stated}), flush=True)


def flow_of(f, port, dlid, back, back_dlid, pkey=0xFFFF):
    from tests.preload.verbs.fabric_library import Flow, RouteKey

    flow, qp = Flow(), (ct.c_uint32 * 2)(0x11, 0x22)
    there, home = RouteKey(port=port, dlid=dlid, pkey=pkey), RouteKey(port=back, dlid=back_dlid, pkey=pkey)
    assert f.sv_flow_walk(ct.byref(flow), ct.byref(there), ct.byref(home), qp) == 0
    return flow


def count(f, at):
    """Counts what it is told on each way, then does what it is told."""
    assert f.sv_fabric_join() == 0
    flows = []
    for route in at["ways"]:
        flow = flow_of(f, *route["way"], route.get("pkey", 0xFFFF))
        for direction, packets, dwords in route["counts"]:
            f.probe_count(flow.cell, direction, packets, dwords)
        flows.append(flow)
    for flow in flows[: at.get("end", 0)]:
        f.sv_flow_end(ct.byref(flow))
    print(json.dumps([list(flow.reason) for flow in flows]), flush=True)
    if at["then"] == "fold":
        assert f.sv_fabric_fold() == 0
        print("folded", flush=True)
    while at["then"] == "loop":
        f.probe_count_loop(flows[0].cell, 1000, 281)
    if at["then"] in ("wait", "fold"):
        sys.stdin.readline()


def events(f, at):
    """Prints the events of its first device until its input ends."""
    from tests.preload.verbs.fabric_library import Device

    assert f.sv_fabric_join() == 0
    listed = ct.POINTER(Device)()
    assert f.sv_devices(ct.byref(listed)) > 0
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    assert f.sv_device_events(ct.byref(listed[0]), there.fileno()) == 0
    print("listening", flush=True)
    while True:
        message = here.recv(64)
        print(json.dumps([int.from_bytes(message[i : i + 4], "little") for i in (0, 4)] + [len(message)]), flush=True)


def fork(f, at):
    """A child is a process of its own, and does not keep its parent's connection."""
    assert f.sv_fabric_join() == 0
    local = f.sv_fabric_process()
    pid = os.fork()
    if pid == 0:
        assert f.sv_fabric_process() == 0 and f.sv_fabric_join() == 0
        os.write(1, json.dumps([local, f.sv_fabric_process()]).encode() + b"\n")
        time.sleep(60)
    os.write(1, f"{pid}\n".encode())
    sys.stdin.readline()


def fail(f, at):
    for _ in range(2):
        assert f.sv_fabric_join() == -19  # ENODEV
    print("no devices", flush=True)


if __name__ == "__main__":
    sys.path[:0] = json.loads(os.environ["TEST_PATH"])
    library = ct.CDLL(sys.argv[1])
    for name in ("probe_count", "probe_count_loop"):
        getattr(library, name).argtypes = [ct.c_void_p, ct.c_uint64, ct.c_uint64, ct.c_uint64][
            : 3 + (name == "probe_count")
        ]
    library.sv_addr_of_port.restype = library.sv_port_of_addr.restype = ct.c_uint32
    scenes = {"devices": devices, "count": count, "events": events, "fork": fork, "fail": fail}
    scenes[sys.argv[2]](library, json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
