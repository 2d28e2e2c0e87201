"""Which environment keeps a program from the HCAs. Oracles: the manuals of NCCL, UCX, Open MPI and libfabric, in examples."""

from __future__ import annotations

import pytest

from softib.diags.cable_rules.job_environment import explained, off_hcas
from softib.live.proc import JobProcess

OFF = (
    {"NCCL_IB_DISABLE": "1"},
    {"NCCL_NET": "Socket"},
    {"UCX_TLS": "tcp,self,sm"},
    {"UCX_TLS": "^ib"},
    {"UCX_TLS": "^rc,ud,dc"},
    {"UCX_NET_DEVICES": "eth0"},
    {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"},
    {"FI_PROVIDER": "sockets"},
)
ON = (
    {},
    {"NCCL_IB_DISABLE": "0"},
    {"NCCL_NET": "IB"},
    {"UCX_TLS": "rc_v,ud_v,self", "UCX_NET_DEVICES": "mlx5_0:1"},
    {"UCX_TLS": "all"},
    {"UCX_TLS": "^tcp"},
    {"UCX_TLS": "\\rc_v,self"},
    {"UCX_TLS": "tcp,ud:aux"},
    {"UCX_NET_DEVICES": "eth0,mlx5_0:1"},
    {"OMPI_MCA_btl": "tcp,self"},  # pml ucx does not look at it
    {"OMPI_MCA_pml": "ucx,cm", "OMPI_MCA_btl": "self"},
    {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "openib,self"},
    {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "^tcp"},
    {"FI_PROVIDER": "verbs;ofi_rxm,tcp"},
    {"FI_PROVIDER": "^tcp"},
    {"FI_PROVIDER": "ofi_rxm"},
)


@pytest.mark.parametrize("environment", OFF, ids=str)
def test_variables_that_keep_a_program_from_verbs(environment):
    assert off_hcas(environment) == tuple(f"{n}={v}" for n, v in environment.items())


@pytest.mark.parametrize("environment", ON, ids=str)
def test_variables_that_do_not(environment):
    assert off_hcas(environment) == ()


def test_processes_are_told_by_variable():
    found = explained(
        [
            JobProcess("b", 7, "train", {"NCCL_IB_DISABLE": "1"}),
            JobProcess("a", 9, "train", {"NCCL_IB_DISABLE": "1"}),
            JobProcess("a", 8, "sh", {}),
        ]
    )
    assert found == {"NCCL_IB_DISABLE=1": ["a: train (9)", "b: train (7)"]}
