"""``softib.simulate``: tables, figures and causes, against what the messages alone say."""

from __future__ import annotations

import json

import pytest

import softib
from softib.errors import InputError, UnknownName
from softib.routing.engine import ENGINES
from softib.sim.agreement import ALL


@pytest.fixture(scope="module")
def tree():
    return softib.generate("fat-tree", radix=8, levels=2, hosts=32)


@pytest.fixture(scope="module")
def hot(tree):
    return softib.simulate(tree, "hot-spot:1MB,senders=8", what_if="engine=minhop")


def test_tables_have_a_row_for_everything(hot):
    assert len(hot.messages) == 31 and hot.messages["job"].n_unique() == 2
    assert hot.jobs["messages"].to_list() == [8, 23]
    assert (hot.messages["arrived_us"] > hot.messages["began_us"]).all()
    assert hot.ports["port_xmit_data"].sum() == hot.ports["port_rcv_data"].sum()
    assert hot.ports["load"].max() <= 1


def test_an_incast_names_its_receiver_and_takes_its_time(hot):
    """8 MB into one link of 400 Gb/s: 160 µs and headers."""
    first = hot.busy_ports[0]
    assert first["peer"].startswith("host-0001") and "8 hosts send to one" in first["cause"]
    assert 160 < hot.simulated_us < 160 * 1.03
    assert hot.agreement != ALL and "head-of-line" in hot.why_not[0]


def test_where_no_link_is_busy_none_is_the_cause():
    """Ping-pong waits for latencies; messages that lost packets wait for ACK timeouts, with the
    links idle."""
    tree = softib.generate("fat-tree", radix=8, levels=2, hosts=32)
    alone = softib.simulate(tree, "latency:8,iterations=10")
    assert all("latencies are the limit" in port["cause"] for port in alone.busy_ports)
    uplink = softib.simulate(tree, "shift:1MB,k=9", layer="packet", record=softib.Record(trace=0)).trace["packets"][0][
        "hops"
    ][1]["port"]
    lossy = softib.simulate(tree, "shift:1MB,k=9", layer="packet", faults=[f"5us link-down {uplink}"])
    assert all(
        "waited for ACK timeouts" in port["cause"] and "shorter ACK timeout" in port["help"]
        for port in lossy.busy_ports
    )


def test_one_hosts_link_is_no_matter_of_routing(tree):
    """What one host sends at its link's rate fills every link of its path: no other path would
    carry more."""
    run = softib.simulate(tree, "bandwidth:256KB,source=0,target=9,iterations=8")
    inside = [
        port
        for port in run.busy_ports
        if port["load"] > 0.9 and port["port"].startswith(("leaf", "spine")) and "host" not in port["peer"]
    ]
    assert inside and not any(port["changes"] for port in inside)


def test_a_link_that_is_as_busy_as_its_hosts_own_is_not_the_limit():
    """Three switches in a ring, one flow on each cable: no tables send a host's data faster than
    its own link does."""
    ring = softib.generate("ring", switches=3, hosts_per_switch=1)
    found = softib.simulate(ring, "permutation:1MB", layer="fluid")
    assert found.busy_ports and all("own links are the limit" in port["help"] for port in found.busy_ports[:3])
    assert not found.remedies


def test_messages_one_after_another_are_the_limit_and_no_link_is(tree):
    """An all-to-all with one message of a host at a time leaves every link idle for most of the
    run: no faster link would help."""
    found = softib.simulate(tree, "all-to-all:4KB")
    assert found.ports["load"].max() < 0.5
    assert all("latencies are the limit" in p["cause"] and "window=1" in p["help"] for p in found.busy_ports)


def test_what_if_runs_it_again(hot):
    assert hot.engine == "ftree" and hot.what_if.engine == "minhop"
    assert hot.to_json()["what_if"]["change"] == "engine=minhop"


def test_an_engine_that_spreads_better_is_named(tree):
    """Every host of one leaf to the first host of another leaf and the like: updn and ftree lead by
    destination."""
    run = softib.simulate(tree, "permutation:1MB,seed=3")
    assert set(run.other_engines) <= set(ENGINES) and run.engine not in run.other_engines
    assert all(v > 0 for v in run.other_engines.values())


def test_json_is_json_and_the_same_each_time(tree):
    one, two = (softib.simulate(tree, "random-pairs:100KB,over=20us").to_json() for _ in range(2))
    for made in (one, two):
        del made["wall_s"]
    assert one == two and json.loads(json.dumps(one, default=float))["messages"] == 32


def test_it_says_what_it_is_in_one_line(hot):
    assert repr(hot).count("\n") == 0 and "31 messages" in repr(hot)
    assert "virtual time" in hot._repr_html_() and softib.Simulation is type(hot)


def test_layers_agree_where_nothing_is_shared(tree):
    fluid, static = (softib.simulate(tree, "shift:1MB,k=3", layer=layer) for layer in ("fluid", "static"))
    assert (
        fluid.simulated_us == pytest.approx(static.simulated_us, rel=1e-9)
        and fluid.agreement == ALL
        and static.agreement == ALL
    )


def test_barriers_are_phases(tree):
    run = softib.simulate(tree, "all-to-all:1MB,barrier=yes")
    assert run.table("phases")["shift"].to_list() == list(range(1, 32)) and run.simulated_us > 31 * 20
    assert run.good and run.to_json()["phases"] == 31
    with pytest.raises(UnknownName):
        run.table("messages")


def test_a_yaml_of_jobs(tree, tmp_path):
    (tmp_path / "w.yaml").write_text(
        "jobs:\n- {pattern: shift, size: 1MB, sl: 0}\n- {pattern: incast, size: 64KB, sl: 1, start: 1us}\n"
    )
    run = softib.simulate(tree, tmp_path / "w.yaml")
    assert run.jobs["job"].to_list() == ["shift", "incast"] and run.workload == "w"
    assert run.messages.filter(run.messages["job"] == "incast")["began_us"].min() == 1.0


def test_the_page_and_the_parquet_file(hot, tmp_path):
    import polars

    page = hot.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page and "<svg" in page and "http" not in page.split("<body>")[1]
    hot.to_parquet(tmp_path / "m.parquet")
    assert len(polars.read_parquet(tmp_path / "m.parquet")) == 31


def test_names_are_escaped_on_the_page(tmp_path):
    (tmp_path / "evil.csv").write_text("source,destination,bytes\nhost-0001,host-0002,5MB\n")
    tree = softib.generate("fat-tree", radix=4, levels=2, name="<script>alert(1)</script>")
    page = softib.simulate(tree, f"matrix:{tmp_path / 'evil.csv'}").to_html()
    assert "<script>" not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("workload", "options", "said"),
    [
        ("permutaton:1MB", {}, "did you mean permutation"),
        ("incast:1MB,senders=32", {}, "there are only 31 others"),
        ("shift:1MB", {"layer": "fluidd"}, "did you mean fluid"),
        ("shift:1MB", {"engine": "updown"}, "no routing engine named"),
        ("shift:1MB", {"what_if": "engine"}, "use a change"),
        ("shift:1MB", {"what_if": "engin=updn"}, "did you mean engine"),
        ("shift:1MB", {"network": "roce"}, "needs the packet layer"),
        ("shift:1MB", {"network": "rocev2", "layer": "packet"}, "no network named"),
        ("shift:1MB", {"network": "roce,pfc", "layer": "packet"}, "use name=value for options"),
        ("shift:1MB", {"network": "roce,pfc=maybe", "layer": "packet"}, "use on or off"),
        ("shift:1MB", {"network": "tcp,gbps=fast", "layer": "packet"}, "not a number; use a number"),
        ("shift:1MB", {"what_if": "network=tcp,mtu=20", "layer": "packet"}, "mtu 20 is out of range"),
        ("shift:8,opcode=atomic", {"network": "tcp", "layer": "packet"}, "which sockets do not support"),
        ("all-to-all:1MB,barrier=yes", {"layer": "static"}, "does not support barriers; use layer fluid"),
        ("all-to-all:1MB,barrier=yes,sl=1", {}, "leave sl out"),
        (
            "all-to-all:1MB,barrier=yes",
            {"record": softib.Record(counters=["leaf-1:1"])},
            "messages, counters or logs",
        ),
        ("shift:4KB,opcode=atomic", {"layer": "packet"}, "an atomic, which takes 8 bytes"),
        ("nowhere.yaml", {}, "nowhere.yaml"),
    ],
)
def test_a_wrong_question_is_one_line(tree, workload, options, said):
    with pytest.raises(InputError, match=said) as error:
        softib.simulate(tree, workload, **options)
    assert "\n" not in str(error.value)


def test_which_of_several_jobs_is_wrong_is_said(tree, tmp_path):
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "jobs:\n- {pattern: shift, size: 1MB}\n- {pattern: incast, size: 1MB, target: nobody, senders: 2}\n"
    )
    with pytest.raises(InputError, match="job 2 of jobs: no host named 'nobody'") as error:
        softib.simulate(tree, file)
    assert "\n" not in str(error.value)


def test_a_port_that_is_not_there_is_said_before_the_run(tree):
    def progress(*_):
        raise AssertionError("it runs")

    record = softib.Record(counters=["leaf-1:1", "leaf-1:99"], progress=progress)
    with pytest.raises(InputError, match="leaf-1 has no port 99"):
        softib.simulate(tree, "shift:1MB", layer="packet", record=record)


def test_without_a_path_the_question_is_wrong(tmp_path):
    """Two switches, no cable between them: hosts of the other one have no LID, and those that have
    one are too few."""
    lone = softib.generate("fat-tree", m=(2,), w=(1,), p=(1,))
    assert softib.simulate(lone, "permutation:1MB").good
    with pytest.raises(InputError, match="the fabric has 2 hosts"):
        softib.simulate(lone, "shift:1MB,hosts=0-5")


def test_a_speed_of_ethernet_names_adapters_and_switches(tree):
    """RoCE at 400 Gb/s is the same on cables of an EDR fabric and of an NDR fabric, for ``gbps``
    names all of it; and a speed four times as high takes a quarter of the time that the octets
    need."""
    slow, fast = (softib.generate("fat-tree", radix=4, levels=2, generation=g) for g in ("EDR", "NDR"))
    over = lambda fabric, gbps: softib.simulate(fabric, "shift:1MB", layer="packet", network=f"roce,gbps={gbps}")
    assert over(slow, 400).simulated_us == over(fast, 400).simulated_us
    times = [over(slow, gbps).simulated_us for gbps in (10, 25, 100, 400, 800)]
    assert times == sorted(times, reverse=True)
    octets_us = lambda gbps: 1e6 * 8 / (gbps * 1e3)
    assert times[2] - times[3] > 0.95 * (octets_us(100) - octets_us(400))


def test_figures_of_devices_that_a_user_knows(tree):
    """Three switches that take 150 ns more each, and an adapter that fetches 100 ns later: the sum,
    to the picosecond, in every layer."""
    for layer in ("fluid", "packet", "static"):
        took = lambda layer=layer, **hosts: softib.simulate(
            tree, "latency:4096,iterations=1,source=0,target=20", layer=layer, record=softib.Record(hosts=hosts)
        ).percentiles_us["min"]
        usual = took(switch_ns=200, fetch_ns=400)
        assert took(switch_ns=350, fetch_ns=400) == pytest.approx(usual + 0.45, abs=2e-6)
        assert took(switch_ns=200, fetch_ns=500) == pytest.approx(usual + 0.1, abs=2e-6)


def test_messages_are_messages(tree):
    """A checkpoint computes between its messages: the table has no rows of computations, and no NaN
    in a run that completed."""
    run = softib.simulate(tree, "checkpoint:1MB,rounds=2,compute=10us,hosts=0-7,targets=6-7")
    found = run.to_json()
    assert found["computations"] > 0 and len(run.messages) == found["messages"]
    assert not any(run.messages["latency_us"].is_nan())
    row = int(run.messages["message"][-1])
    assert (
        (
            softib.simulate(
                tree,
                "checkpoint:1MB,rounds=2,compute=10us,hosts=0-7,targets=6-7",
                layer="packet",
                record=softib.Record(trace=row),
            ).trace["source"]
        )
        == run.messages["source"][-1]
    )


def test_waiting_for_ones_own_queue_pair_is_no_harm(tree):
    """Two hosts that send to two others, ten messages each at once: the last waits for the nine
    before it, for no one else."""
    run = softib.simulate(tree, "bandwidth:1MB,iterations=10,tx-depth=10,source=0,target=20")
    assert all(port["victims"] is None for port in run.busy_ports)


def test_options_in_files_are_written_as_on_the_command_line(tree, tmp_path):
    """``queue-depth`` in a file of jobs, and a wrong value names its line."""
    (tmp_path / "w.yaml").write_text("name: w\njobs:\n- {pattern: storage, size: 1MB, queue-depth: 4, targets: 0}\n")
    line = softib.simulate(tree, "storage:1MB,queue-depth=4,targets=0")
    assert softib.simulate(tree, tmp_path / "w.yaml").simulated_us == line.simulated_us
    (tmp_path / "w.yaml").write_text(
        "name: w\njobs:\n- pattern: storage\n  size: 1MB\n  queue-depth: two\n  targets: 0\n"
    )
    with pytest.raises(InputError, match=r"w.yaml:5: queue.depth"):
        softib.simulate(tree, tmp_path / "w.yaml")


def test_ethernet_beside_infiniband(tree):
    """The same incast over InfiniBand, RoCE and TCP: headers and stacks cost what they cost, and
    the figures of ports are there."""
    found = softib.simulate(
        tree, "incast:1MB,senders=8", layer="packet", network="roce,gbps=100", what_if="network=tcp,mtu=9000,gbps=100"
    )
    roce, tcp = found.to_json(), found.to_json()["what_if"]
    assert found.good and found.what_if.good and (roce["network"], tcp["network"]) == ("roce", "tcp")
    assert roce["ethernet"]["gbps"] == tcp["ethernet"]["gbps"] == 100
    least_us = 8 * 1e6 * 8 / 100e3
    assert least_us < roce["simulated_us"] < tcp["simulated_us"]
    assert tcp["ethernet"]["cpu_receive_us"] > 8 * 22.5 and roce["ethernet"]["cpu_receive_us"] == 0
    assert roce["ethernet"]["ecn_marked"] > 0
    assert found.ports["load"].max() <= 1 and {"pause_frames_sent", "tail_drops", "mean_queue"} <= set(
        found.ports.columns
    )
    assert "flows that the hash leads here" in str(roce["ports"]) or "the receiver's own link" in str(roce["ports"])


def test_multicast_groups_are_the_managers():
    """The workload's members join through the subnet administrator; without our manager, or in
    another layer, one line says why not."""
    tree = softib.generate("fat-tree", radix=4, levels=2)
    run = softib.simulate(tree, "multicast:1024,receivers=3,count=4", layer="packet")
    assert run.good and run.agreement == ALL and len(run.messages) == 4
    with pytest.raises(InputError, match="--layer packet"):
        softib.simulate(tree, "multicast:1024")
    with pytest.raises(InputError, match="path MTU"):
        softib.simulate(tree, "multicast:9000", layer="packet")


def test_receives_are_counted_by_packets_alone():
    tree = softib.generate("fat-tree", radix=4, levels=2)
    text = "incast:1KB,senders=2,count=6,opcode=send,receives=1,repost=5us"
    packets, fluid = softib.simulate(tree, text, layer="packet"), softib.simulate(tree, text)
    assert packets.good and packets.agreement == ALL and packets.simulated_us > 640, "one RNR NAK timer at least"
    assert fluid.agreement != ALL and "receives" in fluid.why_not[-1]


def test_switches_reduce_where_they_have_aggregation_nodes():
    """The manager writes the trees; the load of links does not count those inside a switch."""
    tree = softib.generate("fat-tree", radix=8, levels=2, generation="HDR", aggregation_nodes=True)
    run = softib.simulate(tree, "aggregation:1KB", layer="packet")
    assert run.good and run.agreement == ALL and 0 < run.ports["load"].max() <= 1
    assert softib.simulate(tree, "aggregation:1KB").good
    with pytest.raises(InputError, match="no aggregation node"):
        softib.simulate(softib.generate("fat-tree", radix=4, levels=2), "aggregation:8", layer="packet")


def test_jobs_that_reduce_at_once_share_the_nodes(tmp_path):
    """Two jobs over the same switches: the second has an even part of the tree's operations, so a
    job of many small ones takes longer than alone."""
    tree = softib.generate("fat-tree", radix=8, levels=2, generation="HDR", aggregation_nodes=True)
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "jobs:\n- {pattern: aggregation, size: 64KiB, hosts: [0, 4, 8, 12], name: one}\n"
        "- {pattern: aggregation, size: 64KiB, hosts: [1, 5, 9, 13], name: two}\n"
    )
    both = softib.simulate(tree, file, layer="packet")
    alone = softib.simulate(tree, "aggregation:64KiB,hosts=0+4+8+12", layer="packet")
    assert both.good and both.simulated_us > 1.3 * alone.simulated_us


def managed(tmp_path, partitions: str, policy: str = ""):
    """16 hosts whose manager has a partition file, every SL on the VL of its number, and a QoS
    policy."""
    (tmp_path / "partitions.conf").write_text(partitions)
    (tmp_path / "policy.conf").write_text(policy)
    lines = [
        "topology: {kind: fat-tree, radix: 8, levels: 2, hosts: 16}",
        "sm:",
        "  partitions: partitions.conf",
        "  qos: true",
        '  qos_sl2vl: "0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7"',
        *(["  qos_policy_file: policy.conf"] if policy else []),
    ]
    (tmp_path / "fabric.yaml").write_text("\n".join(lines) + "\n")
    return softib.load(tmp_path / "fabric.yaml")


@pytest.mark.parametrize("layer", ["packet", "fluid"])
def test_the_sl_is_the_path_records(tmp_path, layer):
    """The partition's SL, as the administration states it, and its VL; a job's own SL goes before."""
    fabric = managed(tmp_path, "Default=0x7fff, sl=2 : ALL=full;\n")
    run = softib.simulate(fabric, "shift:100KB", layer=layer)
    assert run.busy_ports[0]["vls"] == [2] and not any("no path record" in note for note in run.to_json()["notes"])
    assert softib.simulate(fabric, "shift:100KB,sl=3", layer=layer).busy_ports[0]["vls"] == [3]


def test_a_qos_policy_states_the_sl(tmp_path):
    policy = "qos-levels\n qos-level\n  name: DEFAULT\n  sl: 5\n end-qos-level\nend-qos-levels\n"
    fabric = managed(tmp_path, "Default=0x7fff : ALL=full;\n", policy)
    assert softib.simulate(fabric, "shift:100KB").busy_ports[0]["vls"] == [5]


def test_hosts_that_share_no_partition_send_nothing(tmp_path):
    """Two limited members of a partition have no path (IBA 10.9.3); with the manager's own host, a
    full member, they have."""
    fabric = managed(tmp_path, "Default=0x7fff : ALL=limited, SELF=full;\n")
    assert softib.simulate(fabric, "incast:1KB,senders=3,target=0").good
    with pytest.raises(InputError, match=r"no path from host-0002.* to host-0003.* share no partition") as error:
        softib.simulate(fabric, "shift:1KB,hosts=1-5")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("layer", ["packet", "fluid"])
def test_tables_of_a_dump_carry_the_traffic(tmp_path, layer):
    """Loads of links are those of the engine whose tables the dump has, on a fabric that nobody
    managed and on one that holds other tables."""
    plain = softib.generate("fat-tree", radix=4, levels=3)
    work, loads = "permutation:64KB", {}
    for engine in ("ftree", "minhop"):
        softib.route(plain, engine=engine).save(tmp_path / engine)
        loads[engine] = octets(softib.simulate(plain, work, layer=layer, engine=engine))
    assert loads["ftree"] != loads["minhop"]
    for fabric in (plain, softib.bring_up(plain, engine="minhop").fabric):
        run = softib.simulate(fabric, work, layer=layer, lfts=tmp_path / "ftree")
        assert octets(run) == loads["ftree"]
    if layer == "packet":
        assert any("no path record stated an SL" in note for note in run.to_json()["notes"])


def test_what_if_beside_a_dump_keeps_its_tables(tmp_path):
    """Another generation has the dump's tables; what a manager has to write (groups of adaptive
    routing) has those of the manager, and says so."""
    plain = softib.generate("fat-tree", radix=4, levels=3)
    softib.route(plain, engine="minhop").save(tmp_path / "minhop")
    more = {"layer": "packet", "lfts": tmp_path / "minhop"}
    run = softib.simulate(plain, "permutation:64KB", what_if="generation=XDR", **more)
    assert run.what_if.engine == run.engine == "file" and octets(run.what_if) == octets(run)
    run = softib.simulate(plain, "permutation:64KB", what_if="engine=ftree,ar=on", **more)
    assert [run.variants[k].engine for k in ("engine=ftree,ar=on", "engine=ftree", "ar=on")] == ["ftree"] * 3


def octets(run):
    """Words sent by each port."""
    return {(row["node"], row["port"]): row["port_xmit_data"] for row in run.ports.iter_rows(named=True)}


@pytest.mark.parametrize(("generation", "still"), [("QDR", True), ("FDR", True), ("HDR", False)])
def test_adaptive_routing_on_switches_that_have_none_is_said(generation: str, still: bool) -> None:
    """InfiniScale IV and SwitchX route by their tables alone (vendor's briefs)."""
    tree = softib.generate("fat-tree", radix=4, levels=2, generation=generation)
    run = softib.simulate(tree, "shift:64KB,k=4", layer="packet", what_if="ar=on")
    assert any("ar=on changes nothing" in note for note in run.what_if.notes) == still


def test_a_file_of_roce_adapters_is_not_silently_infiniband(tmp_path):
    path = tmp_path / "roce.yaml"
    for network, expected in (("network: roce\n", True), ("", False)):
        path.write_text(network + "topology: {kind: fat-tree, radix: 4, levels: 2}\n")
        notes = softib.simulate(path, "incast:64KB,senders=3").notes
        assert any("--network roce" in note for note in notes) is expected


@pytest.mark.parametrize(
    ("workload", "helps"), [("incast:1MB", "fewer senders"), ("all-to-all:1MB,window=0", "faster link")]
)
def test_fewer_senders_help_an_incast_and_not_an_exchange(workload, helps):
    """In an all-to-all every host's link is as busy out as in: twice the rate takes half the time."""
    tree = softib.generate("fat-tree", radix=8, levels=2, hosts=16, generation="EDR")
    run = softib.simulate(tree, workload, what_if="generation=HDR")
    causes = [port for port in run.busy_ports if port["cause"].startswith("the receiver's own link")]
    assert causes and all(helps in port["help"] for port in causes)
    assert run.simulated_us / run.what_if.simulated_us == pytest.approx(2, rel=0.1)


def test_a_run_that_computes_names_computing_and_not_latencies():
    """A step of which nine tenths are computing, and a barrier, which is latencies."""
    tree = softib.generate("fat-tree", radix=8, levels=2, hosts=16, generation="NDR")
    step = softib.simulate(tree, "training-step:1,layers=4,hidden=2048,batch=2048")
    figures = step.to_json()["jobs"][0]["training"]
    assert figures["efficiency"] > 0.5 and "computations and exchanges inside hosts take" in step.busy_ports[0]["cause"]
    assert "latencies are the limit" in softib.simulate(tree, "latency:2").busy_ports[0]["cause"]
