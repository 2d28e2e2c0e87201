"""A small program over libibumad, unmodified: subscribes at the subnet administrator and prints each report, or makes and
leaves a multicast group. Runs under either preload library: ``python -I trap_program.py subscribe`` (until its input
ends), ``… group MGID`` (makes it, waits for its input to end, leaves it)."""

from __future__ import annotations

import ctypes
import os
import select
import sys

umad = ctypes.CDLL("libibumad.so.3")
SA, VERSION, TRAP, REPORT, REPORT_RESP = 3, 2, 5, 6, 0x86
MAD = 256


def open_port() -> tuple[int, int]:
    """(port id, agent for class 3 that takes reports) of the first port. (Only then umad_size() is right.)"""
    assert umad.umad_init() == 0
    port = umad.umad_open_port(None, 0)
    assert port >= 0, port
    mask = (ctypes.c_long * 2)(1 << REPORT, 0)
    agent = umad.umad_register(port, SA, VERSION, 0, mask)
    assert agent >= 0, agent
    return port, agent


def sa(method: int, attr: int, tid: int, mask: int, record: bytes) -> bytes:
    """An SA MAD: the common header, RMPP, SM_Key, AttributeOffset, ComponentMask, then the record."""
    head = bytes((1, SA, VERSION, method)) + bytes(4) + tid.to_bytes(8, "big") + attr.to_bytes(2, "big") + bytes(6)
    return (head + bytes(12) + bytes(8) + bytes(4) + mask.to_bytes(8, "big") + record).ljust(MAD, b"\0")


def send(port: int, agent: int, mad: bytes, lid: int, timeout_ms: int) -> None:
    buffer = ctypes.create_string_buffer(umad.umad_size() + MAD)
    umad.umad_set_addr(buffer, lid, 1, 0, ctypes.c_int(0x80010000 - (1 << 32)))
    ctypes.memmove(ctypes.addressof(buffer) + umad.umad_size(), mad, MAD)
    assert umad.umad_send(port, agent, buffer, MAD, timeout_ms, 3 if timeout_ms else 0) == 0


def receive(port: int, timeout_ms: int) -> tuple[bytes, int] | None:
    """The next MAD and the LID that sent it."""
    buffer, size = ctypes.create_string_buffer(umad.umad_size() + MAD), ctypes.c_int(MAD)
    if umad.umad_recv(port, buffer, ctypes.byref(size), timeout_ms) < 0:
        return None
    return buffer.raw[umad.umad_size() :], int.from_bytes(buffer.raw[28:30], "big")


def answered(port: int, tid: int) -> bytes:
    """The answer to ``tid``; it must be a good one."""
    for _ in range(50):
        got = receive(port, 2000)
        if got and int.from_bytes(got[0][12:16], "big") == tid:
            assert got[0][3] in (0x81, 0x95) and got[0][4:6] == b"\0\0", got[0][:64].hex()
            return got[0]
    raise SystemExit(f"no answer to {tid}")


def report(mad: bytes) -> str:
    """``trap NUMBER issuer LID`` and, of traps 64 to 67, the GID."""
    notice = mad[56:]
    number, issuer = int.from_bytes(notice[4:6], "big"), int.from_bytes(notice[6:8], "big")
    gid = f" gid {notice[16:32].hex()}" if 64 <= number <= 67 else ""
    return f"trap {number} issuer {issuer}{gid}"


def subscribe(lid: str) -> None:
    port, agent = open_port()
    inform = bytes(16) + b"\xff\xff" + bytes(4) + b"\1\1" + b"\xff\xff" * 2 + bytes(3) + b"\x13" + b"\0\xff\xff\xff"
    send(port, agent, sa(2, 3, 1, 0, inform), int(lid), 1000)
    answered(port, 1)
    print("subscribed", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        got = receive(port, 100)
        if got and got[0][3] == REPORT:
            print(report(got[0]), flush=True)
            back = bytearray(got[0])
            back[3] = REPORT_RESP
            send(port, agent, bytes(back), got[1], 0)


def group(lid: str, gid: str, mgid: str) -> None:
    """A full member that makes the group, as a stock administrator wants it: P_Key, Q_Key, TClass, SL, FlowLabel."""
    port, agent = open_port()
    head = bytes.fromhex(mgid) + bytes.fromhex(gid) + (0x0B1B).to_bytes(4, "big")
    member = head + bytes(4) + b"\xff\xff" + bytes(2) + bytes(4) + b"\x21" + bytes(7)
    send(port, agent, sa(2, 0x38, 1, 0x130C7, member), int(lid), 1000)
    answered(port, 1)
    print("joined", flush=True)
    sys.stdin.read()
    send(port, agent, sa(0x15, 0x38, 2, 0x10003, member), int(lid), 1000)
    answered(port, 2)
    print("left", flush=True)


def silent_manager() -> None:
    """Sits on its port as a manager (IsSM) until its input ends, prints each trap and answers none."""
    libc = ctypes.CDLL(None)  # Python's own open is open64, which the stock library does not replace
    assert umad.umad_init() == 0
    port = umad.umad_open_port(None, 0)
    assert umad.umad_register(port, 1, 1, 0, (ctypes.c_long * 2)(1 << TRAP, 0)) >= 0
    issm = libc.open(
        b"/dev/infiniband/issm0", os.O_RDWR
    )  # now: a trap of a class without an agent kills a stock client
    assert issm >= 0
    print("listening", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        got = receive(port, 100)
        if got and got[0][3] == TRAP:
            number, tid = int.from_bytes(got[0][68:70], "big"), int.from_bytes(got[0][8:16], "big")
            print(f"trap {number} from {got[1]} tid {tid}", flush=True)
    libc.close(issm)
    print("done", flush=True)


def smp(lid: str, method: str, attr: str, modifier: str, data: str, key: str) -> None:
    """One LID-routed SMP; prints the 64 octets of the answer's data, or ``none`` where nobody answers."""
    assert umad.umad_init() == 0
    port = umad.umad_open_port(None, 0)
    agent = umad.umad_register(port, 1, 1, 0, None)
    head = (
        bytes((1, 1, 1, int(method))) + bytes(4) + (9).to_bytes(8, "big") + int(attr, 0).to_bytes(2, "big") + bytes(2)
    )
    asked = (
        head + int(modifier, 0).to_bytes(4, "big") + int(key, 0).to_bytes(8, "big") + bytes(32) + bytes.fromhex(data)
    )
    buffer = ctypes.create_string_buffer(umad.umad_size() + MAD)
    umad.umad_set_addr(buffer, int(lid), 0, 0, 0)
    ctypes.memmove(ctypes.addressof(buffer) + umad.umad_size(), asked.ljust(MAD, b"\0"), MAD)
    assert umad.umad_send(port, agent, buffer, MAD, 300, 0) == 0
    got = receive(port, 3000)
    good = got is not None and umad.umad_status(buffer) == 0 and got[0][3] == 0x81
    print(got[0][64:128].hex() if got and good else "none", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
