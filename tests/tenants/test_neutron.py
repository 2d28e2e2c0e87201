"""OpenStack Neutron's ML2 driver of networking-mlnx: its events, with the values of its own tests
(stackhpc/networking-mlnx 0a69b971, tests/unit/ml2/drivers/sdn/test_mechanism_sdn.py), are partitions and members."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
pytest.importorskip("alembic", reason="alembic is not installed (the extra tenants)")

NET = "c13bba05-eb07-45ba-ace2-765706b2d701"
NETWORK = {
    "provider:segmentation_id": 4,
    "id": NET,
    "name": "net1",
    "provider:network_type": "vlan",
    "network_qos_policy": None,
}
PORT = {
    "binding:host_id": "r-ufm177",
    "id": "72c56c48-e9b8-4dcf-b3a7-0813bb3bd839",
    "binding:vnic_type": "direct",
    "device_owner": "compute:None",
    "binding:profile": {"pci_slot": "0000:02:00.4", "physical_network": "physnet1", "pci_vendor_info": "15b3:1004"},
    "mac_address": "12:34:56:78:21:b6",
    "name": "port_test1",
    "network_id": NET,
    "network_qos_policy": None,
}
CLIENT_ID = "ff:00:00:00:00:00:02:00:00:02:c9:00:7c:fe:90:03:00:29:26:52"
BARE = {
    **PORT,
    "id": "b0",
    "binding:vnic_type": "baremetal",
    "mac_address": "7c:fe:90:29:26:52",
    "extra_dhcp_opts": [{"opt_name": "client-id", "opt_value": CLIENT_ID}],
}
TOP = "/ufmRestV3/cloudx"


@pytest.fixture
def driver(ask, service):
    """The driver's requests, and its wait for the job of each."""
    token = ask("POST", "/ufmRest/app/tokens", {})[1]["access_token"]

    def send(method: str, kind: str, data, number: str = ""):
        path = f"{TOP}/{kind}" + (f"/{data['id']}" if method != "POST" else "")
        status, job = ask(method, path, data, f"Basic {token}")
        if status != 200:
            return status
        number = int(job.rpartition("/")[2])
        service._mark([number], "programmed", "")
        service.settled(number, 10)
        assert ask("GET", f"/ufmRestV3/{job.strip('/')}", None, f"Basic {token}")[1]["Status"] == "Completed"
        return status

    return send


def guids(ask, pkey="0x4"):
    document = ask("GET", f"/ufmRest/resources/pkeys/{pkey}?guids_data=true")[1]
    return document and [g["guid"] for g in document["guids"]]


def test_a_network_and_its_ports(ask, driver):
    assert driver("POST", "Port", PORT) == 404, "the driver sends the network first, and repeats what failed"
    assert driver("POST", "Network", NETWORK) == 200
    assert ask("GET", "/ufmRest/resources/pkeys/0x4")[1]["partition"] == NET
    assert driver("POST", "Port", PORT) == driver("POST", "Port", BARE) == 200
    # ib_utils.py: a virtual function's GUID is its MAC address with 0000 in the middle. Ironic's client ID ends with the GUID.
    assert sorted(guids(ask)) == ["12345600007821b6", "7cfe900300292652"]
    assert driver("POST", "Network", NETWORK) == driver("PUT", "Network", {**NETWORK, "name": "renamed"}) == 200
    assert driver("PUT", "Port", PORT) == 200 and len(guids(ask)) == 2, "repeated"
    assert driver("DELETE", "Port", PORT) == 200 and guids(ask) == ["7cfe900300292652"]
    assert driver("DELETE", "Network", NETWORK) == 200 and guids(ask) == {}
    assert driver("DELETE", "Network", NETWORK) == driver("DELETE", "Port", PORT) == 404, "done, for the driver"


def test_what_is_no_partition_is_done_for_the_driver(ask, driver):
    assert driver("POST", "Network", NETWORK) == 200
    assert driver("POST", "Network", {"id": "n2", "name": "flat"}) == 501
    ethernet = {**PORT, "binding:vnic_type": "normal"}
    assert driver("POST", "Port", ethernet) == driver("POST", "Port", {**BARE, "extra_dhcp_opts": []}) == 501
    number = {**BARE, "extra_dhcp_opts": [{"opt_name": 61, "opt_value": CLIENT_ID}]}
    assert driver("POST", "Port", number) == 200 and guids(ask) == ["7cfe900300292652"]


@pytest.mark.parametrize(
    ("kind", "data", "status"),
    [
        ("Network", {**NETWORK, "provider:segmentation_id": 0}, 400),
        ("Network", {**NETWORK, "provider:segmentation_id": 70000}, 400),
        ("Network", {**NETWORK, "provider:segmentation_id": 0x8004}, 400),
        ("Network", {**NETWORK, "provider:segmentation_id": True}, 400),
        ("Port", {**BARE, "extra_dhcp_opts": [{"opt_name": True, "opt_value": CLIENT_ID}]}, 400),
        ("Network", {"name": "no id"}, 400),
        ("Subnet", NETWORK, 400),
        ("Network", {**NETWORK, "id": "another", "provider:segmentation_id": 9}, 409),
    ],
)
def test_wrong_requests(ask, driver, kind, data, status):
    ask("POST", "/ufmRest/resources/pkeys/add", {"pkey": "0x9", "partition_name": "taken"})
    assert driver("POST", kind, data) == status
