"""A program on a node of a running fabric, in the foreground of this process: ``softib run``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from softib.api.progress import Notice
from softib.errors import InputError, SoftibError

if TYPE_CHECKING:
    from softib.api.running.recording import Recording
    from softib.live.control import Attached
    from softib.live.instances import Instance
    from softib.live.status import Client
    from softib.ulp.ipoib.network import Network

NO_RDMA = 3
"""Exit code of a program that succeeded without verbs although they were required."""

__all__ = ["Attachment", "attachment_of", "run_here"]

QUIET = (0, 129, 130, 143)
"""Exit codes that need no explanation: success, SIGHUP, Ctrl-C, SIGTERM."""


@dataclass(frozen=True)
class Attachment:
    """Options of attaching a program. ``stock``: preload ``libumad2sim.so`` of ibsim-utils. ``tune``: set the
    variables that make UCX, OpenMPI, MPICH and libfabric use the HCAs. ``exclusive``: no other program may use the
    same ports. ``mount``: show ``/sys/class/infiniband`` in a mount namespace. ``refresh_s``: seconds between
    refreshes of its files. ``net``: run in the network of its node, with IP over InfiniBand. ``connected``: that
    network uses connected mode. ``capture``: a file to which its packets are written. ``assert_rdma``: the exit
    code is :data:`NO_RDMA` if the program succeeds but verbs moved nothing. ``environment``: further variables for
    the program. ``record``: a GOAL schedule (``.goal`` or ``.bin``) to which its sends, receives and computations
    are written. ``outlives``: let the program run when its fabric ends; otherwise it is ended after five seconds."""

    stock: bool = False
    tune: bool = True
    exclusive: bool = False
    mount: bool = False
    refresh_s: float | None = None
    net: bool = False
    connected: bool = False
    capture: str | os.PathLike[str] | None = None
    assert_rdma: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    record: str | os.PathLike[str] | None = None
    outlives: bool = False


def _recording(path: str | os.PathLike[str]) -> Recording:
    from softib.api.running.recording import recording_to

    return recording_to(path)


def _network(instance: Instance, place: Attached, connected: bool, notice: Notice) -> Network:
    from softib.ulp.ipoib.network import join

    network = join(instance, place, connected)
    for problem in network.problems:
        notice(f"{place.place}: {problem}")
    return network


@contextlib.contextmanager
def _using(network: Network | None, manner: Attachment) -> Iterator[list[int]]:
    """Keep ``network`` open during the block; yield its descriptor."""
    if network is None:
        yield []
        return
    capture = None
    try:
        if manner.capture is not None:
            from softib.ulp.ipoib.capture import Capture

            capture = Capture(manner.capture, network)
        yield [network.sock.fileno()]
    finally:
        if capture is not None:
            capture.close()
        network.close()


def attachment_of(instance: Instance, node: str | None, port: int | None) -> Attached:
    """Attach this program to a node, and return the daemon's reply. Raises :class:`InputError` if ``node`` is empty, as
    from an unset shell variable."""
    from softib.live.control import attach
    from softib.live.launch.tuning import job_rank

    if node is not None and not node.strip():
        raise InputError("--node is empty; add a node, or leave out --node for the first host")
    job = job_rank(os.environ)
    return attach(instance, node, port, None if job is None else job.rank)


def run_here(
    instance: Instance,
    program: Sequence[str],
    node: str | None,
    port: int | None,
    manner: Attachment,
    notice: Notice,
    become: bool = False,
) -> int:
    """Run ``program`` on the given node and port with this process's stdin, stdout and stderr; return its exit code.
    Raises :class:`SoftibError`. ``become``: if nothing remains to be done after the program, replace this process with
    a small one that waits for the program and exits with its code."""
    from softib.live.control import ask
    from softib.live.ibsim.sockets import check_reachable
    from softib.live.launch.child_watchdog import control_inode, living
    from softib.live.launch.port_locks import port_locks
    from softib.live.launch.preload import LaunchOptions, find_program, run_attached
    from softib.live.launch.tuning import HcaTraffic, communicates, on_verbs, tuned

    if manner.record is not None and manner.stock:
        raise InputError("record needs softib's library, not the stock one; leave out stock")
    alive, control = living(instance), control_inode(instance)
    path = find_program(program[0])
    place = attachment_of(instance, node, port)
    if manner.stock:
        check_reachable(place.env)
    folder = place.view

    def refresh() -> None:
        with contextlib.suppress(SoftibError):  # without the daemon, the files keep the last state
            ask(instance, "refresh", view=folder.name)

    with_network = manner.net or manner.connected or manner.capture is not None
    network = _network(instance, place, manner.connected, notice) if with_network else None
    env = {**place.env, **manner.environment, "SOFTIB_PLACE": place.place}
    if network is not None:
        env |= {"SOFTIB_ADDRESS": "".join(network.addresses[:1]), "SOFTIB_ADDRESSES": " ".join(network.addresses)}
    if manner.tune and not manner.stock:
        env |= tuned(folder, os.environ)
    recording = None if manner.record is None else _recording(manner.record)
    if recording is not None:
        env |= recording.environment
    watched = manner.assert_rdma or (not manner.stock and communicates(Path(path), program, os.environ))
    watch = HcaTraffic(lambda: _moved(instance, folder.name)) if watched else None
    if watch is not None:
        watch.begin()
    explained = watch is not None or (not manner.stock and on_verbs(Path(path), program, os.environ))
    failed = f"keep its output: softib why LOG --fabric {instance.name} explains it" if explained else ""

    def clients() -> list[Client]:
        from softib.live.status import status_of

        return status_of(instance).clients

    due = recording is not None or watch is not None or manner.stock or manner.refresh_s is not None
    due = due or manner.capture is not None
    with (
        port_locks(instance.folder, place, clients, program[0], manner.exclusive) as held,
        _using(network, manner) as joined,
    ):
        how = LaunchOptions(
            stock=manner.stock,
            namespace=manner.mount,
            enter=None if network is None else network.entering(),
            every_s=manner.refresh_s,
            refresh=refresh,
            alive=(lambda: True) if manner.outlives else alive,
            fabric=None if manner.outlives or control is None else (instance.folder, control),
            held=[*held, *joined] if become and not due else None,
            network=joined[0] if joined else None,
            failed=failed,
        )
        code = run_attached(path, tuple(program), env, how)
    if recording is not None:
        recording.close(notice, code)
    if failed and code not in QUIET:
        notice(f"{program[0]} ended with exit code {code}; {failed}")
    if watch is None or code or not alive():
        return code
    watch.end()
    if not watch.silent:
        return code
    from softib.api.running.fallback import causes

    why = causes(instance, place, Path(path), {**os.environ, **env})
    line = watch.line(place.place, manner.tune, os.environ, why)
    if manner.assert_rdma:
        line = watch.text(place.place, manner.tune, os.environ, why)
    if line is not None:
        notice(line)
    return NO_RDMA if manner.assert_rdma else code


def _moved(instance: Instance, view: str) -> tuple[int, int]:
    from softib.live.control import ask

    reply = ask(instance, "moved", view=view)
    return int(reply["verbs"]), int(reply["ip"])
