"""A network namespace for TAP devices: a child process creates it and passes its descriptors back; a program enters it
before it starts.

For users other than root, the namespace belongs to a new user namespace, in which the user keeps the same ID and may
configure the network (ambient capabilities). Sources: network_namespaces(7), user_namespaces(7), capabilities(7),
netdevice(7), Linux' Documentation/networking/tuntap.rst.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from softib.errors import InputError, os_reason

__all__ = ["Descriptors", "entering", "make_namespace"]

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
TUN = "/dev/net/tun"
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
TUNGETFEATURES = 0x800454CF
IFF_UP = 1
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAPABILITIES = (10, 12, 13)
"""Numbers of the capabilities NET_BIND_SERVICE, NET_ADMIN and NET_RAW."""
CAP_VERSION_3 = 0x20080522
IP6_DEFAULTS = Path("/proc/sys/net/ipv6/conf/default")


@dataclass(frozen=True)
class Descriptors:
    """Descriptors of a network namespace: the network namespace (``net``), its user namespace (``user``; -1: the
    current one), sockets in it for ioctls (``six``: -1 in a kernel without IPv6) and for rtnetlink(7), and descriptors
    of ``/dev/net/tun`` that can become its TAPs."""

    net: int
    user: int
    socket: int
    six: int
    netlink: int
    taps: tuple[int, ...]

    def close(self) -> None:
        """Close all descriptors."""
        for fd in (self.net, self.user, self.socket, self.six, self.netlink, *self.taps):
            if fd >= 0:
                os.close(fd)


def make_namespace(taps: int) -> Descriptors:
    """Return a new network namespace with ``taps`` descriptors for TAPs. Raises :class:`InputError` if the system
    refuses it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        _child(theirs, taps)
    theirs.close()
    with ours:
        message, fds, _, _ = socket.recv_fds(ours, 1024, taps + 5)
    os.waitpid(child, 0)
    if message[:1] != b"+":
        raise InputError(message.decode("utf-8", "replace") or "the network namespace could not be created")
    named = dict(zip(message[1:].decode().split(), fds, strict=False))
    return Descriptors(
        named["net"],
        named.get("user", -1),
        named["socket"],
        named.get("six", -1),
        named["netlink"],
        tuple(fds[len(named) :]),
    )


def _child(sock: socket.socket, taps: int) -> None:
    """Create the namespace, in the child; this function does not return."""
    try:
        try:
            new_user = _unshare()
            names = ["net", *(["user"] if new_user else [])]
            named = {name: os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in names}
            control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            named["socket"] = control.fileno()
            named["netlink"] = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE).detach()
            _up(control, "lo")
            with contextlib.suppress(OSError):
                Path("/proc/sys/net/ipv4/ping_group_range").write_text(f"{os.getgid()} {os.getgid()}")
            with contextlib.suppress(OSError):  # this kernel has no IPv6
                (IP6_DEFAULTS / "addr_gen_mode").write_text(
                    "1"
                )  # the address comes from the GUID, not from the TAP's MAC
                (IP6_DEFAULTS / "accept_dad").write_text("0")  # no duplicate address detection, since GUIDs are unique
                named["six"] = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).detach()
            tuns = [_tun() for _ in range(taps)]
            socket.send_fds(sock, [f"+{' '.join(named)}".encode()], [*named.values(), *tuns])
        except InputError as error:
            sock.send(str(error).encode())
        except OSError as error:
            sock.send(f"the network of the node could not be made: {os_reason(error)}".encode())
    finally:
        os._exit(0)


def _call(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _unshare() -> bool:
    """Enter a new network namespace, together with a new user namespace if necessary; return whether a new user
    namespace was necessary."""
    uid, gid, libc = os.getuid(), os.getgid(), _libc()
    if libc.unshare(CLONE_NEWNET) == 0:
        return False
    try:
        _call(libc.unshare(CLONE_NEWUSER | CLONE_NEWNET))
        Path("/proc/self/setgroups").write_text("deny")  # an unprivileged process must write this before gid_map
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    except OSError as error:
        advice = (
            "raise the limit of namespaces (sysctl user.max_net_namespaces, user.max_user_namespaces)"
            if error.errno in (errno.ENOSPC, errno.EUSERS)
            else "run as root, or enable unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
        )
        raise InputError(f"this machine does not permit network namespaces ({error.strerror}); {advice}") from None
    return True


def _request(name: str, body: bytes) -> bytes:
    return struct.pack("16s24s", name.encode(), body)


def _up(control: socket.socket, name: str) -> None:
    flags = struct.unpack_from("h", fcntl.ioctl(control, SIOCGIFFLAGS, _request(name, b"")), 16)[0]
    fcntl.ioctl(control, SIOCSIFFLAGS, _request(name, struct.pack("h", flags | IFF_UP)))


def _tun() -> int:
    """Return a descriptor that can become a TAP of the current network namespace."""
    remedy = f"make it with 'mknod {TUN} c 10 200', or give the container {TUN}"
    try:
        tun = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    except OSError as error:
        cause = f"{error.strerror}; run as root, or permit it (chmod 666 {TUN}; in a container: --device {TUN})"
        if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
            cause = f"no such device; {remedy}"
        raise InputError(f"{TUN}: {cause}") from None
    try:
        fcntl.ioctl(tun, TUNGETFEATURES, bytes(4))
    except OSError:
        os.close(tun)
        raise InputError(f"{TUN} is not a TUN/TAP device; remove it, then {remedy}") from None
    return tun


def entering(net: int, user: int) -> Callable[[], None]:
    """Enter the namespaces. A child process calls this before it executes the program."""

    def enter() -> None:
        libc = _libc()
        if user >= 0:
            _call(libc.setns(user, CLONE_NEWUSER))
        _call(libc.setns(net, CLONE_NEWNET))
        if user >= 0 and os.getuid():
            _keep_capabilities(libc)

    return enter


def _keep_capabilities(libc: ctypes.CDLL) -> None:
    """Keep :data:`CAPABILITIES` in the user namespace across ``execve``."""
    head = struct.pack("Ii", CAP_VERSION_3, 0)
    mask = sum(1 << c for c in CAPABILITIES)
    data = ctypes.create_string_buffer(24)
    _call(libc.capget(head, data))
    effective, permitted, _, *high = struct.unpack("6I", data.raw)
    _call(libc.capset(head, struct.pack("6I", effective, permitted, permitted & mask, *high)))
    for capability in CAPABILITIES:
        _call(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0))
