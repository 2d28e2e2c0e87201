"""Stock tools and their options, a row each: what must be printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from softib.iba.smp import SwitchInfo
from tests.live.ibsim.tools.tool_answers import (
    CA,
    ROUTER,
    SWITCH,
    both,
    group_masks,
    groups,
    has,
    info,
    lacks,
    links_shown,
    lists,
    of_types,
    report,
    routes,
    topology,
    trace,
    up_links,
    value,
)
from tests.live.ibsim.tools.tool_lab import LIBRARIES, Lab


@dataclass(frozen=True)
class Row:
    """``words`` of a command line (with places of :func:`tests.live.ibsim.tools.tool_answers.places`), what must be in the answer, and the exit code."""

    words: str
    check: Callable[[Lab, str], None]
    code: int = 0
    libraries: tuple[str, ...] = LIBRARIES


LEAF_LINK = r'^0x\w+ +"\s*leaf-2"'


ROWS = (
    Row("ibnetdiscover", topology),
    Row("ibnetdiscover -f", both(topology, links_shown(up_links, r"4xHDR s=\d+ w=2 v=4"))),
    Row("ibnetdiscover -s", both(topology, has(r"^DR path .* new Switch \{", r"^DR path .* known Switch \{"))),
    Row("ibnetdiscover -l", lists(CA, SWITCH, ROUTER)),
    Row("ibnetdiscover -g", has(r"^Non-Chassis Nodes")),
    Row("ibnetdiscover -H", lists(CA)),
    Row("ibnetdiscover -S", lists(SWITCH)),
    Row("ibnetdiscover -R", lists(ROUTER)),
    Row("ibnetdiscover -S --node-name-map map", both(lists(SWITCH), has('"The Second Leaf"'))),
    Row("ibnetdiscover --cache other", topology),
    Row("ibnetdiscover --load-cache cache", topology),
    Row("ibnetdiscover --diff cache", lacks("^[<>]")),
    Row("ibnetdiscover --diff cache --diffcheck sw,ca,router,port,lid,nodedesc", lacks("^[<>]")),
    Row("ibnetdiscover -p", report),
    Row("ibnetdiscover -m", both(topology, has(r"max hops discovered: 6", r"Total MADs used: \d+"))),
    Row("ibnetdiscover -o 8", topology),
    Row("iblinkinfo", both(links_shown(up_links), links_shown(lambda _: 1, "Down/ *Polling"))),
    Row("iblinkinfo -l", links_shown(up_links, r'^0x\w{16} +".*4X +53\.125 Gbps Active/ +LinkUp\)==> +0x')),
    Row("iblinkinfo -l --node-name-map map", links_shown(lambda _: 4, r'^0x\w+ +"\s*The Second Leaf".*LinkUp')),
    Row("iblinkinfo -l -p", links_shown(lambda lab: 2, LEAF_LINK + r" +\d+ +[12]\[.*\(HOQ:{hoq} VL_Stall:{stall}\)")),
    Row("iblinkinfo -S {leafguid}", links_shown(lambda _: 4)),
    Row("iblinkinfo -G {leafguid}", links_shown(lambda _: 4)),
    Row("iblinkinfo -D 0,1", links_shown(lambda _: 4)),
    Row("iblinkinfo -D 0,1 -n 1 -a", has(r"^Switch: .* leaf-1:", r"^Switch: .* spine-1:")),
    Row("iblinkinfo -d", both(lacks("Active"), links_shown(lambda _: 1, "Down/ *Polling"))),
    Row("iblinkinfo --load-cache cache", links_shown(up_links)),
    Row("iblinkinfo --diff cache", lacks("^[<>]")),
    Row("iblinkinfo --diff cache --diffcheck port,state,lid,nodedesc", lacks("^[<>]")),
    Row("iblinkinfo -d --filterdownports cache", lacks("Down")),
    Row("iblinkinfo -o 8", links_shown(up_links)),
    Row("iblinkinfo --switches-only", links_shown(of_types(SWITCH))),
    Row("iblinkinfo --cas-only", links_shown(of_types(CA))),
    Row("ibhosts", lists(CA)),
    Row("ibswitches", lists(SWITCH)),
    Row("ibrouters", lists(ROUTER)),
    Row("ibnodes", lists(CA, SWITCH)),
    Row("ibidsverify", lacks(r"\w")),
    Row("dump_lfts", routes()),
    Row("dump_mfts", groups),
    Row("dump_fts", routes()),
    Row("dump_fts -n", routes(named_too=False)),
    Row("dump_fts 4 10", routes(4, 10)),
    Row(
        "dump_fts -a 4",
        links_shown(lambda lab: lab.f.sizes.switches * (int(lab.f.lid.max()) - 3), r"^0x\w{4} \d{3} : "),
    ),
    Row("dump_fts -M", groups),
    Row("dump_fts -M 0xc001 0xc004", groups),
    Row("dump_fts --node-name-map map", has("'The Second Leaf'")),
    Row("check_lft_balance -l lft -i cache -v", has(r"^(Unb|B)?\w* ?Switch Port Usage: leaf-2, 0x")),
    Row("check_lft_balance -e -l lft -i cache", has("Switch Port Usage|^$")),
    Row("ibcacheedit cache edited --switchguid {leafguid}:0x1234", lacks("rror")),
    Row("ibcacheedit cache edited --caguid {firstnode}:0x1234", lacks("rror")),
    Row("ibcacheedit cache edited --sysimgguid {leafguid}:0x1234", lacks("rror")),
    Row("ibcacheedit cache edited --portguid {leafguid}:{leafguid}:0x1234", lacks("rror")),
    Row("ibroute {leaf}", routes(one="leaf-2")),
    Row("ibroute {leaf} 10", routes(10, one="leaf-2")),
    Row("ibroute {leaf} 4 0x10", routes(4, 16, one="leaf-2")),
    Row("ibroute -n {leaf}", routes(named_too=False, one="leaf-2")),
    Row("ibroute -a {leaf} 30 70", links_shown(lambda lab: int(lab.f.lid.max()) - 29, "^0x.* : ")),
    Row("ibroute -G {leafguid}", routes(one="leaf-2")),
    Row("ibroute -D 0,1", routes(one="leaf-1")),
    Row("ibroute -L {leaf}", routes(one="leaf-2")),
    Row("ibroute --node-name-map map {spine}", has("'The Second Leaf'")),
    Row("ibroute -M {leaf}", groups),
    Row("ibroute -M -n {leaf}", group_masks),
    Row("ibroute -M {leaf} 0xc002 0xc003", groups),
    Row("ibtracert {first} {host}", trace("host-0001", "host-0009")),
    Row("ibtracert -L {first} {host}", trace("host-0001", "host-0009")),
    Row("ibtracert -G {firstguid} {hostguid}", trace("host-0001", "host-0009")),
    Row("ibtracert -f {first} {host}", trace("host-0001", "host-0009")),
    Row("ibtracert -n {first} {host}", links_shown(lambda _: 6, r"^\[\d+\] -> ")),
    Row("ibtracert -m 0xc003 {host} {first}", trace("host-0009", "host-0001")),
    Row("ibtracert --ports-file pairs", both(trace("host-0001", "host-0009"), has("^1 lid/guid pairs processed"))),
    Row("ibtracert --node-name-map map {first} {leaf}", has('"The Second Leaf"')),
    Row("smpquery NI {leaf}", value("Guid", lambda lab: int(lab.f.node_guid[lab.f.node_names().index("leaf-2")]))),
    Row("smpquery nodedesc {leaf}", has("leaf-2$")),
    Row("smpquery --node-name-map map nodedesc {leaf}", has("The Second Leaf$")),
    Row("smpquery -D nodedesc 0,1", has("leaf-1$")),
    Row("smpquery -G nodedesc {hostguid}", has("host-0009$")),
    Row("smpquery -L nodedesc {host}", has("host-0009$")),
    Row("smpquery -c nodedesc {leaf} 0,2", has("host-0004$")),
    Row("smpquery -c portinfo {spine} 0,2 3", value("LocalPort", lambda lab: 3)),
    Row("smpquery -x portinfo {leaf} 3", has("LinkSpeedExtActive:.*53.125 Gbps")),
    Row(
        "smpquery portinfo {host} 1",
        both(value("Lid", lambda lab: info(lab, "host-0009", "lid")), value("LinkState", lambda lab: "Active")),
    ),
    Row("smpquery -K portinfo {host} 1", has("Mkey:.*0x0000000000000000")),
    Row(
        "smpquery switchinfo {leaf}",
        value("LinearFdbTop", lambda lab: int(SwitchInfo.linear_fdb_top.get(lab.f.switch_info[0]))),
    ),
    Row("smpquery pkeys {host} 1", has("0xffff", "128 pkeys capacity")),
    Row(
        "smpquery sl2vl {leaf} 1",
        links_shown(lambda _: 5, r"^ports: in +\d+, out +1: +\| 0\| 1\| 2\| 3\| 4\| 5\| 6\| 7\|"),
    ),
    Row("smpquery vlarb {leaf} 1", has("# Low priority VL Arbitration", "# High priority")),
    Row("smpquery guidinfo {host}", has("{hostguid16}")),
    Row("smpquery mepi {leaf} 1", has("StateChangeEnable")),
    Row("smpquery portinfoextended {leaf} 3", value("FECModeActive", lambda lab: 2)),
    Row("smpdump -D 0,1 0x15 2", has(r"^0000 0000 0000 0000 fe80 0000 0000 0000$", "SMP status: 0x8000")),
    Row("smpdump {host} 0x11", has(r"^0101 0101 ")),
    Row("smpdump -L {host} 0x11", has(r"^0101 0101 ")),
    Row("smpdump -s -D 0,1 16", has("^leaf-1$")),
    Row("ibaddr", has(r"^GID fe80::\S+:1401 LID start 0x1 end 0x1$")),
    Row("ibaddr -g {host}", has(r"^GID fe80::\S+ $")),
    Row("ibaddr -l {host}", has("^LID start {hosthex} end {hosthex}$")),
    Row("ibaddr -L {host}", has("^LID start {host} end {host}$")),
    Row("ibaddr -D 0,1", has("^GID fe80::250:f1b0:0:0 LID start 0x2 ")),
    Row("ibaddr -G {hostguid}", has("LID start {hosthex} end {hosthex}$")),
    Row("sminfo", has("sm lid 1 sm guid {firstguid}, activity count [1-9][0-9]* priority 0 state 3 SMINFO_MASTER")),
    Row("sminfo {first}", has("state 3 SMINFO_MASTER")),
    Row("sminfo -D 0", has("sm guid {firstguid}, .* state 3 SMINFO_MASTER")),
    Row(
        "sminfo -s 1 -p 3 -a 9 {first} 5", has("priority 0 state 3 SMINFO_MASTER")
    ),  # a Set that is no master's to take
    Row("sminfo -L {first}", has("state 3 SMINFO_MASTER")),
    Row("sminfo -G {firstguid}", has("state 3 SMINFO_MASTER")),
    Row("ibstat", both(value("Base lid", lambda lab: 1), value("State", lambda lab: "Active"), has("{firstguid16}"))),
    Row("ibstat -l", has(r"^(mlx5_0|ibsim0)$")),
    Row("ibstat -s", both(has("Number of ports: 1"), lacks("Base lid"))),
    Row("ibstat -p", has("^{firstguid16}$")),
    Row("ibstat mlx5_0 1", both(value("SM lid", lambda lab: 1), value("Rate", lambda lab: 200)), libraries=("own",)),
    Row("ibstatus", has(r"200 Gb/sec \(4X HDR\)", "4: ACTIVE"), libraries=("own",)),
    Row("ibstatus mlx5_0:1", has("base lid:\t 0x1$"), libraries=("own",)),
)
