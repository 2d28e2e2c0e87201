"""Host and adapter in a NodeDescription: forms seen in public dumps (ibnetdiscover of Selene, of NVIDIA's labs, of an HPE machine), and names of hosts alone that look alike."""

import pytest

from softib.diags.view import adapter_of


@pytest.mark.parametrize(
    ("name", "host", "adapter"),
    [
        ("node-12 mlx5_0", "node-12", "mlx5_0"),
        ("luna-0447 mlx5_10", "luna-0447", "mlx5_10"),
        ("selene-cache-01 mlx5_2 ", "selene-cache-01", "mlx5_2"),
        ("o0002 HCA-1", "o0002", "HCA-1"),
        ("RMD701091901037 ibp11s0f0", "RMD701091901037", "ibp11s0f0"),
        ("n1 hfi1_0", "n1", "hfi1_0"),
        ("a mlx5_bond_0", "a", "mlx5_bond_0"),
        ("gpu-01-hca-2", "gpu-01", "hca-2"),
        ("dgx-01-rail-3", "dgx-01", "rail-3"),
        ("node-12_mlx5_3", "node-12", "mlx5_3"),
        ("node-12-ibp11s0f0", "node-12", "ibp11s0f0"),
    ],
)
def test_host_and_adapter(name, host, adapter):
    assert adapter_of(name) == (host, adapter)


@pytest.mark.parametrize(
    "name",
    [
        "dgx-host-0001",
        "host-0001",
        "rack-3-node-12",
        "compute-ib-12",
        "leaf-1",
        "hca-12",
        "Hca2",
        "H-44/U1",
        "",
        " ",
        "MT4123 ConnectX6   Mellanox Technologies",
        "swlab225 HCA-1 (Topspin HCA)",
        "Mellanox Technologies Aggregation Node",
        "H-29 MT23108 Infinihost-II Mellanox Technologies",
    ],
)
def test_names_that_tell_of_no_adapter(name):
    assert adapter_of(name) is None


def test_a_hostile_name_costs_no_time():
    assert adapter_of("a-" * 50_000) is None and adapter_of("hca" * 30_000) is None
