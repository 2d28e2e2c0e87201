"""Just enough of ibsim's server for stock tools to talk to our agents (libumad2sim's protocol, one port a client)."""

import os
import selectors
import socket
import struct
import threading

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.node_finder import find_node
from softib.iba.constants import CapMask
from softib.iba.smp import PortInfo

from .smps import ask, requests

PRELOAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
TIMEOUT = 110


class StandIn(threading.Thread):
    """Serves ``fabric`` below the abstract socket name ``base`` until :meth:`stop`."""

    def __init__(self, fabric, base):
        super().__init__(daemon=True)
        self.f, self.base, self.plane = fabric, base, AgentPlane(fabric, additional_counters=False)
        self.selector, self.clients, self.running = selectors.DefaultSelector(), {}, True
        self.control = self._socket(f"{base}:ctl")
        self.selector.register(self.control, selectors.EVENT_READ, None)

    def _socket(self, name):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.bind(b"\0" + name.encode() + b"\0")
        return s

    def environment(self, node, sm=False):
        """Environment of a program that runs on ``node``."""
        env = {**os.environ, "LD_PRELOAD": PRELOAD, "IBSIM_SOCKNAME": self.base, "SIM_HOST": node}
        return {**env, "SIM_SET_ISSM": "1"} if sm else env

    def stop(self):
        self.running = False
        self.join(60)
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()

    def run(self):
        while self.running:
            for key, _ in self.selector.select(0.1):
                if key.data is None:
                    self._control(*self.control.recvfrom(80))
                else:
                    self._data(key.data, key.fileobj.recv(288))

    def _control(self, message, sender):
        magic, number, kind, length = struct.unpack_from("=4I", message)
        body = bytearray(message[16:])
        client = self.clients.get(number)
        if kind == 1:
            pid, _, issm, node = struct.unpack("=3I32s", body[:44])
            name = node.split(b"\0")[0].decode()
            index = find_node(self.f, name) if name else int(self.f.cas[0])
            number = len(self.clients)
            port = int(self.f.node_base[index]) + (self.f.node_type[index] == 1)
            out = self._socket(f"{self.base}:out{number}")
            out.connect(b"\0" + f"{self.base}:in{pid}".encode() + b"\0")
            self.clients[number] = {"port": int(port), "issm": bool(issm), "out": out}
            self.selector.register(out, selectors.EVENT_READ, number)
            body[:44] = struct.pack("=3I32s", number, 0, issm, name.encode())
        elif kind == 2:
            self.selector.unregister(client["out"])
            client["out"].close()
            del self.clients[number]
            self.clients[-1 - number] = {"port": -1, "issm": False, "out": None}
        elif kind == 4:
            body[:24] = struct.pack("=4IQ", 0x2C9, 0x1017, 0, 0, 0x100000)
        elif kind in (7, 8):
            body[:] = ask(self.plane, client["port"], attr=0x11 if kind == 7 else 0x15)[1][:64].tobytes()
        elif kind == 9:
            client["issm"] = bool(struct.unpack_from("=I", body)[0])
            info = self.f.port_info[client["port"] : client["port"] + 1]
            cap = int(PortInfo.cap_mask.get(info)[0]) & ~int(CapMask.IS_SM)
            PortInfo.cap_mask.set(info, cap | (int(CapMask.IS_SM) if client["issm"] else 0))
        elif kind == 10:
            body[:] = ask(self.plane, client["port"], attr=0x16)[1][:64].tobytes()
        self.control.sendto(struct.pack("=4I", magic, number, kind, length) + bytes(body), sender)

    def _data(self, number, message):
        dlid, sqp = struct.unpack_from(">H", message)[0], struct.unpack_from(">I", message, 12)[0]
        batch = requests(1, dlid=dlid)
        batch.mad[0] = np.frombuffer(message[32:288], np.uint8)
        m = batch.mad[0]
        if not m[3] & 0x80:
            m[8:10] = number >> 8, number & 255
        answers, delivery = self.plane.exchange(batch, self.clients[number]["port"])
        if len(answers):
            self._deliver(number, dlid, sqp, answers.mad[0])
        elif delivery is not None and self._to_client(delivery, number, dlid, sqp):
            pass
        elif not m[3] & 0x80 and m[3] != 7:
            self._deliver(number, dlid, sqp, m, TIMEOUT)

    def _to_client(self, delivery, number, dlid, sqp):
        port, m = int(delivery.ports[0]), delivery.batch.mad[0]
        if m[3] & 0x80:
            target = int(m[8]) << 8 | int(m[9])
        else:
            target = next((n for n, c in self.clients.items() if c["issm"] and c["port"] == port), None)
        if target not in self.clients or self.clients[target]["port"] != port:
            return False
        slid = 0xFFFF if dlid == 0xFFFF else int(self.f.lid[self.clients[number]["port"]])
        self._deliver(target, slid, sqp, m)
        return True

    def _deliver(self, number, slid, sqp, m, status=0):
        head = struct.pack(">HHHHIIII", 0xFFFF, 0, slid, 0, sqp, sqp, status, 0) + struct.pack(">Q", 256)
        self.clients[number]["out"].send(head + m.tobytes())
