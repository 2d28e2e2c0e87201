"""The descriptions that a host gives its adapters: programs write ``/sys/class/infiniband/DEVICE/node_desc``, as
rdma-ndd of rdma-core does.

A kernel passes the text to the driver. mlx5's driver passes it to the firmware, which reports it as
NodeDescription from then on and raises trap 144 with NodeDescriptionChange on the adapter's ports
(IBA 14.2.5.1; ``mlx5_ib_modify_device`` of Linux: "pass node desc to FW, so it can generate a 144
trap"). Here the daemon watches the file of every view (inotify(7)), whether it was opened through a
preload library, a namespace, or the tree's path.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import struct
import sys
from contextlib import suppress

from softib.live.clock import clock_ps
from softib.live.mad_router import MadRouter
from softib.live.sysfs.views import CLASS, NODE_DESC, Device, View, Views

__all__ = ["Descriptions"]

IN_CLOSE_WRITE, IN_IGNORED = 0x008, 0x8000
EVENT = struct.Struct("=iIII")
ROOM = 64
"""Bytes of a NodeDescription (IBA 14.2.5.2; IB_DEVICE_NODE_DESC_MAX)."""


class Descriptions:
    """Applies the text that programs write into ``node_desc`` of any of ``views``. If the kernel provides no inotify
    instance, one line reports this, and the text is not applied."""

    def __init__(self, router: MadRouter, views: Views, selector: selectors.BaseSelector):
        self.router, self.views, self.selector = router, views, selector
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._watched: dict[int, tuple[View, Device]] = {}
        self.fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            print(f"softib: {self._reason()}; what programs write to node_desc has no effect", file=sys.stderr)
            return
        selector.register(self.fd, selectors.EVENT_READ, self._ready)
        views.made = self.watch

    @staticmethod
    def _reason() -> str:
        return f"no inotify instance: {os.strerror(ctypes.get_errno())}"

    def watch(self, view: View) -> None:
        """Watch the descriptions of the devices of a new ``view``."""
        for device in view.devices:
            folder = os.fsencode(f"{view.folder}/{CLASS}/{device.name}")
            watch = self._libc.inotify_add_watch(self.fd, folder, IN_CLOSE_WRITE)
            if watch >= 0:
                self._watched[watch] = view, device

    def _ready(self, events: int) -> None:
        with suppress(BlockingIOError):
            octets, at = os.read(self.fd, 1 << 16), 0
            while at < len(octets):
                watch, mask, _, size = EVENT.unpack_from(octets, at)
                name = octets[at + EVENT.size : at + EVENT.size + size].rstrip(b"\0")
                at += EVENT.size + size
                if mask & IN_IGNORED:
                    self._watched.pop(watch, None)
                elif name == NODE_DESC.encode() and watch in self._watched:
                    self._take(*self._watched[watch])

    def _take(self, view: View, device: Device) -> None:
        try:
            self.take(view, device)
        except Exception:
            self.router.report_bug(f"applying {NODE_DESC} of {device.name}")

    def take(self, view: View, device: Device) -> None:
        """Set the node's description to the text in the file, without a newline at its end; an empty
        file has no effect. Afterwards the file shows the description that the node has."""
        try:
            with open(view.path_of(device), "rb") as file:
                text = file.read(ROOM + 1)
        except OSError:  # the view's folder is being created again
            return
        text = text[:ROOM].removesuffix(b"\n").split(b"\0")[0]
        now = bytes(self.router.fabric.node_desc[device.node]).split(b"\0")[0]
        if text and text != now:
            now_ps = clock_ps()
            self.router.plane.describe(device.node, text, now_ps)
            self.router.epoch += 1
            self.router.traps(now_ps)
        if text != now:
            view.restore(device)

    def close(self) -> None:
        """End all watches."""
        if self.fd >= 0:
            self.selector.unregister(self.fd)
            os.close(self.fd)
