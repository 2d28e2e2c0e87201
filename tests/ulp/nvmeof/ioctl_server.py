"""Run on a node: ``ioctl_server.py ADDRESS NQN SOCKET`` executes the admin commands that ioctl_shim.c sends, on a controller of NQN."""

from __future__ import annotations

import socket
import struct
import sys

from softib.ulp.nvmeof.codes import DISCOVERY_NQN
from softib.ulp.nvmeof.host.command_queue import CommandError, command
from softib.ulp.nvmeof.host.controller import HostController
from softib.ulp.nvmeof.host.discovery import this_host

PASSTHRU = struct.Struct("=BBHIIIQQIIIIIIIIII")
"""``struct nvme_passthru_cmd`` of linux/nvme_ioctl.h."""


def execute(controller: HostController, fields: tuple[int, ...]) -> tuple[int, int, bytes]:
    opcode, _, _, nsid, _, _, _, _, _, length, *dwords = fields
    request = command(opcode, nsid, **{f"cdw{10 + i}": dword for i, dword in enumerate(dwords[:6])})
    try:
        result, data = controller.execute("command", request, length)
    except CommandError as error:
        return error.status, 0, bytes(length)
    return 0, result & 0x7FFFFFFF, data


def main(address: str, nqn: str, path: str) -> None:
    controller = HostController(address, 4420, nqn, this_host(), discovery=nqn == DISCOVERY_NQN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        with client:
            while len(data := client.recv(PASSTHRU.size, socket.MSG_WAITALL)) == PASSTHRU.size:
                status, result, answer = execute(controller, PASSTHRU.unpack(data))
                client.sendall(struct.pack("=ii", status, result) + answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
