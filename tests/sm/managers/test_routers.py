"""Two subnets with routers between them, a manager for each: paths lead to the router that has a port in the other subnet."""

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.builder import FabricBuilder
from softib.fabric.node_finder import find_node
from softib.iba.constants import PhysState, PortState
from softib.iba.sa import PathRecord, SaMethod, SaStatus
from softib.iba.smp import PortInfo
from softib.iba.vendor.router import SITE_LOCAL
from softib.live.internal_sm.settings import ManagerSettings
from softib.sm.managers.router_mgr import PrefixRoute, parse_prefix_routes
from softib.sm.options.fabric_yaml import settings_of
from tests.sm.sa.asking import Asked

HERE, THERE, ELSEWHERE = SITE_LOCAL | 1, SITE_LOCAL | 2, 0xFE80_0000_0000_0003
SUBNETS = {"a": HERE, "b": THERE, "c": ELSEWHERE}


def routed():
    """Subnets a, b and c with three hosts each; routers a-b, a-b and a-c."""
    b = FabricBuilder("routed")
    switch = {name: int(b.nodes(1, 2, 8, desc=[f"switch-{name}"])[0]) for name in SUBNETS}
    for name, s in switch.items():
        hosts = b.nodes(3, 1, 1, desc=[f"host-{name}{i}" for i in range(3)])
        for i, h in enumerate(hosts.tolist()):
            b.links(np.array([s]), i + 1, np.array([h]), 1)
    for i, far in enumerate("bbc"):
        router = b.nodes(1, 3, 2, desc=[f"rt-{i}"])
        b.links(np.array([switch["a"]]), 5 + i, router, 1)
        b.links(np.array([switch[far]]), 5 + i, router, 2)
    return b.build()


def managed(f, name, **config):
    return Asked(f, f"host-{name}0", subnet_prefix=SUBNETS[name], sweep_interval_ps=10**13, **config)


def path(a, prefix, guid=0x1234):
    source = a.fabric.port(find_node(a.fabric, "host-a1"), 1)
    return a.ask(
        PathRecord,
        SaMethod.GET,
        frm=source,
        sgid=np.array([HERE, a.fabric.port_guid[source]], np.uint64),
        dgid=np.array([prefix, guid], np.uint64),
    )


def routers(a, prefix):
    """Routers to which paths to 16 hosts of a subnet lead."""
    found = set()
    for guid in range(1, 17):
        status, records = path(a, prefix, guid)
        assert status == 0 and int(PathRecord.hop_limit.get(records)[0]) > 1
        assert PathRecord.dgid.get(records)[0].tolist() == [prefix, guid]
        found.add(int(PathRecord.dlid.get(records)[0]))
    names = {a.lid(a.fabric.port(find_node(a.fabric, f"rt-{i}"), 1)): f"rt-{i}" for i in range(3)}
    return {names[lid] for lid in found}


def up():
    """The other subnets first, then a's manager."""
    f = routed()
    return f, managed(f, "b"), managed(f, "c"), managed(f, "a")


def test_paths_lead_to_routers_with_a_port_in_that_subnet():
    f, _, c, a = up()
    assert routers(a, THERE) == {"rt-0", "rt-1"} and routers(a, ELSEWHERE) == {"rt-2"}
    assert path(a, SITE_LOCAL | 77)[0] == SaStatus.REQ_INVALID_GID, "no router leads there"
    rt2 = f.port(find_node(f, "rt-2"), 2)
    source = f.port(find_node(f, "host-c1"), 1)
    status, records = c.ask(
        PathRecord,
        SaMethod.GET,
        frm=source,
        sgid=np.array([ELSEWHERE, f.port_guid[source]], np.uint64),
        dgid=np.array([HERE, 5], np.uint64),
    )
    assert status == 0 and int(PathRecord.dlid.get(records)[0]) == c.lid(rt2), "and back"
    assert not a.sm.report.problems


def test_a_light_sweep_finds_out_where_routers_lead_now():
    """A subnet that comes up later, and a router's cable that is gone at its far end: no switch of this subnet says a word."""
    f = routed()
    a = managed(f, "a")
    assert len(routers(a, THERE)) > 1, "no router says anything yet: any may lead there"
    managed(f, "b"), managed(f, "c")
    before = a.sm.sweeps
    later(a)
    assert a.sm.sweeps > before
    assert routers(a, THERE) == {"rt-0", "rt-1"} and routers(a, ELSEWHERE) == {"rt-2"}
    quiet = a.sm.sweeps
    later(a)
    assert a.sm.sweeps == quiet, "nothing changed: no sweep"
    port = f.port(find_node(f, "rt-0"), 2)
    for row in (port, int(f.port_peer[port])):
        PortInfo.port_phys_state.set(f.port_info[row][None], PhysState.POLLING)
        PortInfo.port_state.set(f.port_info[row][None], PortState.DOWN)
    later(a)
    assert routers(a, THERE) == {"rt-1"}


def later(a):
    """Eleven seconds: a light sweep is due, and what it calls for."""
    end = a.now_ps + 11 * 10**12
    inbox = None
    while a.now_ps < end or not a.sm.settled:
        outbox, deadline = a.sm.step(a.now_ps, inbox)
        if len(outbox):
            inbox = a.plane.send(outbox, a.port, a.now_ps)
        else:
            inbox, a.now_ps = None, max(a.now_ps + 1, min(deadline, max(end, a.now_ps + 1)))


def test_prefix_routes_go_before_what_routers_say():
    """opensm(8): the first line whose prefix matches counts, * matches any, no match is no path."""
    f = routed()
    guid = {name: int(f.port_guid[f.port(find_node(f, name), 1)]) for name in ("rt-0", "rt-1", "rt-2")}
    text = (
        f"# a comment\n{THERE:#x}  {guid['rt-1']:x}   # by the second\n{THERE:#x} {guid['rt-0']:#x}\n{ELSEWHERE:x} *\n"
    )
    managed(f, "c")
    a = managed(f, "a", prefix_routes=parse_prefix_routes(text, "routes"))
    assert routers(a, THERE) == {"rt-1"} and routers(a, ELSEWHERE) == {"rt-2"}
    assert path(a, SITE_LOCAL | 77)[0] == SaStatus.REQ_INVALID_GID
    a = managed(f, "a", prefix_routes=parse_prefix_routes(f"* {guid['rt-0']:x}\n", "routes"))
    assert routers(a, ELSEWHERE) == {"rt-0"}, "the file has the say"
    a = managed(f, "a", prefix_routes=parse_prefix_routes("* 0x1234\n", "routes"))
    assert path(a, THERE)[0] == SaStatus.REQ_INVALID_GID, "no such router"


@pytest.mark.parametrize("bad", ["0xfec0000000000001", "zz 1", "1 2 3", "0 *", "1ffffffffffffffff *", "* -1"])
def test_a_bad_prefix_route_is_one_line(bad):
    with pytest.raises(InputError, match=r"^routes:2: .* is not a prefix route; use a prefix") as said:
        parse_prefix_routes(f"# routes\n{bad}\n", "routes")
    assert "\n" not in str(said.value)


def test_the_options_file_names_prefix_routes(tmp_path):
    routes = tmp_path / "opensm" / "prefix-routes.conf"
    routes.parent.mkdir()
    conf = tmp_path / "opensm.conf"
    conf.write_text(f"prefix_routes_file {routes}\n")
    notes: list[str] = []
    assert ManagerSettings(options=str(conf), note=notes.append).read().prefix_routes is None, (
        "OpenSM's file names one whether it is there or not"
    )
    routes.write_text("* *\n")
    assert (
        ManagerSettings(options=str(conf), note=notes.append).read().prefix_routes == (PrefixRoute(None, None),)
        and not notes
    )
    assert settings_of({"prefix_routes_file": str(routes)})["prefix_routes"] == (PrefixRoute(None, None),)
