"""Jobs whose hosts' HCAs stand still while they run: the fallback to TCP that nobody meant.
Counters alone decide."""

from __future__ import annotations

import pytest

from softib.diags.cable_rules.case import Case
from softib.diags.cable_rules.job_traffic import JobPorts, job_traffic
from softib.diags.cable_rules.thresholds import load_thresholds
from softib.live.proc import JobProcess
from tests.diags.cable_rules.observed import NODES, observed

FAST, STILL = 2.5e11, 5e4  # words of four octets in 120 s: 8 GB/s, 1.7 kB/s


def job(name: str, *hosts: str) -> JobPorts:
    return JobPorts(name, [(h, NODES[h][0], 1) for h in hosts])


def moved(seconds: float = 120.0, **words: float):
    data = {f"{h}[1]": w for h, w in words.items()}
    return observed(seconds, {"port_xmit_data": data, "port_rcv_data": data})


def found(seen, *jobs: JobPorts, **limits: float):
    return job_traffic(Case(seen, load_thresholds(limits)), jobs)


def test_a_job_whose_counters_stand_still_is_named_beside_one_that_moves():
    seen = moved(h0=FAST, h1=FAST, h2=STILL, h3=STILL)
    one = found(seen, job("verbs", "h0", "h1"), job("tcp", "h2", "h3"))
    assert [f.evidence["job"] for f in one] == ["tcp"]
    assert "do not change over 2 min" in one[0].message and "16.7 GB/s" in one[0].message
    assert {w.node for w in one[0].where} == {"h2", "h3"}
    assert one[0].evidence["octets_per_second"] == {"h2": pytest.approx(3333.3), "h3": pytest.approx(3333.3)}


def test_alone_it_is_named_with_less_confidence():
    seen = moved(h0=STILL, h1=STILL, h2=0, h3=0)
    assert found(seen, job("tcp", "h0", "h1"))[0].evidence["confidence"] < 0.9


def test_what_moves_is_no_finding():
    assert found(moved(h0=FAST, h1=FAST, h2=FAST / 20, h3=FAST / 20), job("a", "h0", "h1"), job("b", "h2", "h3")) == []


def test_one_host_of_a_job_that_moves_clears_it():
    assert found(moved(h0=FAST, h1=STILL, h2=0, h3=0), job("a", "h0", "h1")) == []


def test_a_job_of_one_host_uses_no_fabric():
    assert found(moved(h0=STILL, h1=FAST, h2=FAST, h3=FAST), job("alone", "h0")) == []


def test_too_short_a_time_and_unknown_counters_say_nothing():
    assert found(moved(20.0, h0=0, h1=0, h2=FAST, h3=FAST), job("a", "h0", "h1")) == []
    assert found(moved(20.0, h0=0, h1=0, h2=FAST, h3=FAST), job("a", "h0", "h1"), job_observed=10)
    seen = observed(120.0, {"port_xmit_data": {"h2[1]": FAST}})
    assert found(seen, job("a", "h0", "h1")) == [], "nobody told of PortRcvData"


def test_background_of_hosts_without_a_job_is_no_traffic_of_one():
    """Polls and sweeps move more than the threshold on every host here."""
    busy = 1e7  # 660 kB/s
    assert found(moved(h0=busy, h1=busy, h2=busy, h3=busy), job("a", "h0", "h1"))


def test_packets_like_ipoib_are_called_that_and_no_more():
    data, packets = 4e6, 4e6 * 4 / 2000
    places = [f"{h}[1]" for h in ("h0", "h1")]
    seen = observed(
        120.0,
        {
            "port_xmit_data": dict.fromkeys(places, data),
            "port_rcv_data": dict.fromkeys(places, data),
            "port_xmit_pkts": dict.fromkeys(places, packets),
            "port_multicast_xmit_pkts": dict.fromkeys(places, 3.0),
        },
    )
    one = found(seen, job("a", "h0", "h1"), job_still=1e6)
    assert "looks like IPoIB" in one[0].message and "do not know the transport" in one[0].message
    assert one[0].evidence["octets_per_packet"] == 2000


def two_jobs(octets: dict[str, float], multicasts: float = 3.0, words: float = 5e10):
    """Job gloo on h0 and h1, job verbs on h2 and h3: both move 2 GB/s, in packets of ``octets``."""
    data = {f"{h}[1]": words for h in ("h0", "h1", "h2", "h3")}
    packets = {
        f"{h}[1]": words * 4 / octets["gloo" if h in ("h0", "h1") else "verbs"] for h in ("h0", "h1", "h2", "h3")
    }
    some = {"h0[1]": multicasts, "h1[1]": multicasts, "h2[1]": multicasts, "h3[1]": multicasts}
    return observed(
        120.0,
        {"port_xmit_data": data, "port_rcv_data": data, "port_xmit_pkts": packets, "port_multicast_xmit_pkts": some},
    )


JOBS = (job("gloo", "h0", "h1"), job("verbs", "h2", "h3"))


def test_gloo_over_ipoib_moves_as_much_and_is_told_by_its_packets():
    """Full packets of IPoIB in datagram mode have 2,080 octets on the wire, those of RC with an MTU
    of 4,096 twice as many; the data counters of both jobs move alike."""
    one = found(two_jobs({"gloo": 1990.0, "verbs": 4100.0}), *JOBS)
    assert [(f.code, f.evidence["job"], f.severity.name) for f in one] == [("job-like-ipoib", "gloo", "INFO")]
    assert "1990 bytes" in one[0].message and "4100" in one[0].message and one[0].evidence["confidence"] == 0.5


def test_an_interface_in_the_environment_makes_it_a_warning():
    process = JobProcess("h0", 77, "python3", {"GLOO_SOCKET_IFNAME": "ib0"})
    case = Case(two_jobs({"gloo": 1990.0, "verbs": 4100.0}), load_thresholds({}))
    one = job_traffic(case, JOBS, lambda name, hosts: [process] if name == "gloo" else [])
    assert [(f.code, f.severity.name) for f in one] == [("job-like-ipoib", "WARNING")]
    assert "GLOO_SOCKET_IFNAME=ib0" in one[0].message and "h0: python3 (77)" in one[0].message


@pytest.mark.parametrize(
    ("octets", "multicasts"),
    [
        ({"gloo": 4100.0, "verbs": 4100.0}, 3.0),
        ({"gloo": 1990.0, "verbs": 1990.0}, 3.0),
        ({"gloo": 1990.0, "verbs": 4100.0}, 0.0),
    ],
    ids=["both send large packets", "both send small ones: the MTU may be 2,048", "no ARP: nobody sends a multicast"],
)
def test_packets_that_tell_nothing_accuse_nobody(octets, multicasts):
    assert found(two_jobs(octets, multicasts), *JOBS) == []
