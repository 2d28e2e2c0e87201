"""The shared fabric: one declaration, and a C program sees what Python sees."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess

import numpy as np
import pytest

from softib.errors import UnreadableFile
from softib.fabric.columns import COLUMNS
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.live.shared_fabric import HEADER, SharedFabric
from tests.live.serving import mad

READER = r"""
#include <stdio.h>
#include <string.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include "shared_fabric.h"
int main(int argc, char **argv) {
    printf("layout %zu %zu %zu %zu %zu\n", sizeof(struct softib_shared_fabric), offsetof(struct softib_shared_fabric, epoch),
           sizeof(struct softib_column), offsetof(struct softib_column, offset), offsetof(struct softib_column, shape));
    struct stat st;
    int fd = open(argv[1], O_RDONLY);
    if (fd < 0 || fstat(fd, &st)) return 1;
    const char *base = mmap(0, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    const struct softib_shared_fabric *b = (const void *)base;
    if (memcmp(b->magic, "SOFTIBv", 8) || b->version != SOFTIB_SHARED_FABRIC_VERSION || b->size != (uint64_t)st.st_size) return 2;
    const struct softib_column *c = (const void *)(base + b->directory);
    char name[64];
    snprintf(name, sizeof(name), "/proc/%u/fd/%u", b->pid, b->lazy_fd);
    int second = open(name, O_RDONLY);
    const char *lazy = second < 0 ? 0 : mmap(0, b->lazy_size, PROT_READ, MAP_SHARED, second, 0);
    if (!lazy || lazy == MAP_FAILED) return 3;
    printf("epoch %llu name %s\n", (unsigned long long)b->epoch, b->name);
    for (unsigned i = 0; i < b->columns; i++) {
        unsigned long long n = 1, sum = 0, octets;
        for (unsigned d = 0; d < c[i].ndim; d++) n *= c[i].shape[d];
        octets = n * (unsigned)(c[i].dtype[2] - '0');
        for (unsigned long long k = 0; k < octets; k++) sum += (unsigned char)(c[i].store == SOFTIB_LAZY ? lazy : base)[c[i].offset + k];
        printf("%s %s %s %llu %llu\n", c[i].name, c[i].dtype, c[i].writer, n, sum);
    }
    return 0;
}
"""


@pytest.fixture
def mapped(tmp_path):
    f = generate(
        "fat-tree", radix=4, levels=2, generation="EDR"
    )  # from HDR on ports have a PortInfoExtended from the start
    f.name = "pod"
    return SharedFabric.create(tmp_path / "shared_fabric", f), tmp_path / "shared_fabric"


def test_every_column_is_there_and_read_only_elsewhere(mapped):
    shared, path = mapped
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    seen = SharedFabric.open(path)
    for c in COLUMNS:
        a, b = getattr(shared.fabric, c.name), getattr(seen.fabric, c.name)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), c.name
        assert not b.flags.writeable
    assert seen.fabric.name == "pod" and seen.fabric.sizes == shared.fabric.sizes
    shared.fabric.lft[0, 5] = 3
    shared.fabric.counters["port_xmit_data"][7] = 1 << 40
    shared.epoch = 9
    assert seen.fabric.lft[0, 5] == 3 and seen.fabric.counters["port_xmit_data"][7] == 1 << 40 and seen.epoch == 9
    with pytest.raises(ValueError, match="read-only"):
        seen.fabric.lft[0, 5] = 4


def blocks(shared):
    return os.fstat(shared.files[1]).st_blocks


def test_lazy_columns_cost_what_was_written(mapped):
    shared, path = mapped
    assert blocks(shared) == 0 and int(shared.header["lazy_size"]) > 1000 * shared.fabric.sizes.ports
    assert path.stat().st_blocks * 512 >= path.stat().st_size, "the rest is reserved: no SIGBUS on a full file system"
    shared.fabric.lane_counters["sync_header_error_counter"][3] = 7
    one = blocks(shared)
    assert 0 < one <= 16
    copy = SharedFabric.snapshot(path)
    assert blocks(shared) == one, "a snapshot brings no page to life"
    for c in COLUMNS:
        assert getattr(copy, c.name).tobytes() == getattr(shared.fabric, c.name).tobytes(), c.name
    assert copy.sizes == shared.fabric.sizes
    shared.fabric.lft[0, 9] = 1
    copy.lft[0, 9] = 2
    assert shared.fabric.lft[0, 9] == 1


def test_labels_and_systems_are_shared(tmp_path):
    f = generate("fat-tree", radix=4, levels=2)
    f.port_label, f.node_system = {3: "1/2/\u00e4"}, {1: "chassis-7"}
    SharedFabric.create(tmp_path / "b", f)
    for seen in (SharedFabric.open(tmp_path / "b").fabric, SharedFabric.snapshot(tmp_path / "b")):
        assert seen.port_label == f.port_label and seen.node_system == f.node_system
        assert seen.source.format == "shared-fabric"


def test_a_shared_fabric_without_its_daemon_is_one_line(mapped):
    shared, path = mapped
    shared.close()
    with pytest.raises(UnreadableFile, match="has ended"):
        SharedFabric.open(path)
    with pytest.raises(UnreadableFile, match="has ended"):
        SharedFabric.snapshot(path)


def test_a_c_program_reads_the_same(mapped, tmp_path):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    shared, path = mapped
    shared.epoch = 77
    shared.fabric.counters["port_rcv_pkts"][3] = 5
    shared.fabric.vl_counters["port_vl_xmit_wait"][5, 7] = 9
    (tmp_path / "reader.c").write_text(READER)
    subprocess.run(
        [compiler, "-Wall", "-Werror", f"-I{HEADER.path.parent}", "-o", tmp_path / "reader", tmp_path / "reader.c"],
        check=True,
    )
    said = subprocess.run([tmp_path / "reader", path], capture_output=True, text=True, check=True).stdout.splitlines()
    types = HEADER.types()
    head, column = types["softib_shared_fabric"], types["softib_column"]
    assert [int(x) for x in said[0].split()[1:]] == [
        head.itemsize,
        head.fields["epoch"][1],
        column.itemsize,
        column.fields["offset"][1],
        column.fields["shape"][1],
    ]
    assert said[1] == "epoch 77 name pod"
    told = {x.split()[0]: x.split()[1:] for x in said[2:]}
    assert list(told) == [c.name for c in COLUMNS]
    for c in COLUMNS:
        array = getattr(shared.fabric, c.name)
        octets = np.frombuffer(array.tobytes(), np.uint8)
        n = array.size * (array.dtype.itemsize // 8 if array.dtype.fields else 1)
        assert told[c.name][1:] == [c.writer, str(n), str(int(octets.sum(dtype=np.uint64)))], c.name


def test_mads_write_the_shared_fabric(mapped):
    """An agent's Set is seen by who mapped it before."""
    from softib.agents.plane import AgentPlane
    from softib.mad.batch import MadBatch

    shared, path = mapped
    seen = SharedFabric.open(path)
    f = shared.fabric
    power_on(f)
    batch = MadBatch.zeros(1)
    batch.mad[0] = mad(method=2, attr=0x19, path=[1], data=bytes(range(1, 5)) * 16)
    answers = AgentPlane(f).send(batch, int(f.node_base[f.cas[0]]) + 1)
    assert len(answers) == 1 and not answers.mad[0, 5]
    leaf = int(f.switch_of_node[f.port_node[f.port_peer[f.node_base[f.cas[0]] + 1]]])
    assert seen.fabric.lft[leaf, :64].tolist() == list(range(1, 5)) * 16


@pytest.mark.parametrize(
    "spoil",
    [lambda b: b[:10], lambda b: b"", lambda b: b"X" + b[1:], lambda b: b[:8] + b"\xff" + b[9:], lambda b: b[:-1]],
)
def test_what_is_no_shared_fabric_is_one_line(spoil, mapped, tmp_path):
    octets = mapped[1].read_bytes()
    (tmp_path / "spoilt").write_bytes(spoil(octets))
    with pytest.raises(UnreadableFile):
        SharedFabric.open(tmp_path / "spoilt")
    with pytest.raises(UnreadableFile):
        SharedFabric.open(tmp_path / "absent")
