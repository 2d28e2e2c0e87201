"""Admin commands of the target without a fabric. Expected values are octets and numbers of the NVMe base specification 1.4 and of NVMe over Fabrics
1.1, written out here; the pages are also read by nvme-cli (test_programs.py)."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest

from softib.errors import InputError
from softib.ulp.nvmeof.codes import AnaState, status_text
from softib.ulp.nvmeof.structures import COMMAND, one
from softib.ulp.nvmeof.target.controller import Controllers
from softib.ulp.nvmeof.target.subsystem import Namespace, Subsystem, TargetPort

NQN = "nqn.2026-11.org.example:s"
HOST = "nqn.2014-08.org.nvmexpress:uuid:0"
DNR = 0x4000


@pytest.fixture
def subsystem(tmp_path):
    sizes = (1 << 20, 10 * 512)
    for i, size in enumerate(sizes):
        (tmp_path / f"{i}.img").write_bytes(bytes(size))
    spaces = [Namespace.of_file(tmp_path / f"{i}.img") for i in range(len(sizes))]
    made = Subsystem(NQN, spaces, [TargetPort(1, "127.64.0.1"), TargetPort(2, "127.64.0.2")], 4420)
    yield made
    made.close()


def connect_data(cntlid=0xFFFF, nqn=NQN, host=HOST):
    data = bytearray(1024)
    data[:16] = b"0123456789abcdef"
    struct.pack_into("<H", data, 16, cntlid)
    data[256 : 256 + len(nqn)], data[512 : 512 + len(host)] = nqn.encode(), host.encode()
    return bytes(data)


def connect(controllers, qid=0, sqsize=31, entries=32, data=None, recfmt=0, command_qid=None):
    sqe = bytearray(64)
    struct.pack_into("<BBHB", sqe, 0, 0x7F, 0x40, 1, 1)
    struct.pack_into("<HHHBBI", sqe, 40, recfmt, qid if command_qid is None else command_qid, sqsize, 0, 0, 5000)
    command = np.frombuffer(bytes(sqe), COMMAND)[0]
    return controllers.connect(
        command, connect_data() if data is None else data, controllers.subsystem.ports[0], qid, entries, 0.0
    )


@pytest.fixture
def controller(subsystem):
    controllers = Controllers(subsystem)
    reply, made = connect(controllers)
    assert (reply.status, reply.result & 0xFFFF) == (0, made.cntlid)
    assert set_cc(made, 0x460001).status == 0
    made.all = controllers
    return made


def execute(controller, opcode, nsid=0, **dwords):
    return controller.execute(one(COMMAND, opcode=opcode, nsid=nsid, **dwords)[0], 0, 1.0)


def set_cc(controller, value):
    return controller.execute(one(COMMAND, opcode=0x7F, cdw11=0x14, property_value=value)[0], 0, 1.0)


def test_a_controller_is_ready_only_with_entries_of_64_and_16_bytes(subsystem):
    """CC.IOSQES and IOCQES are powers of two: 6 and 4 (NVMe 1.4, 3.1.5). Others make it fatal: CSTS.CFS."""
    _, controller = connect(Controllers(subsystem))

    def csts():
        get = one(COMMAND, opcode=0x7F, cdw11=0x1C)
        get["fctype"] = 4
        return controller.execute(get[0], 0, 1.0).result

    assert execute(controller, 0x06, cdw10=1).status == DNR | 0x00C  # before CC.EN: Command Sequence Error
    assert csts() == 0
    set_cc(controller, 0x460001)
    assert csts() == 1
    set_cc(controller, 0x464001)  # SHN 01b: SHST becomes 10b
    assert csts() == 1 | 2 << 2
    set_cc(controller, 0)
    assert csts() == 0
    set_cc(controller, 0x450001)
    assert csts() == 2


def test_capabilities(controller):
    get = one(COMMAND, opcode=0x7F, cdw10=1)
    get["fctype"] = 4
    cap = controller.execute(get[0], 0, 1.0).result
    assert cap & 0xFFFF == 255  # MQES, from 0
    assert cap >> 16 & 1 == 1  # CQR: always for fabrics
    assert cap >> 37 & 1 == 1  # CSS: the NVM command set
    get["cdw10"] = 0  # CAP has eight bytes
    assert controller.execute(get[0], 0, 1.0).status == DNR | 0x002


@pytest.mark.parametrize(
    ("changes", "status", "result"),
    [
        ({"recfmt": 1}, 0x180, 0),
        ({"command_qid": 3}, 0x182, 42),
        ({"sqsize": 0}, 0x182, 44),
        ({"sqsize": 32}, 0x182, 44),  # more than the connection was requested for
        ({"data": connect_data(nqn="nqn.other")}, 0x182, 1 << 16 | 256),
        ({"data": connect_data(nqn="")}, 0x182, 1 << 16 | 256),
        ({"data": connect_data(host="x")}, 0x182, 1 << 16 | 512),
        ({"data": connect_data(cntlid=1)}, 0x182, 1 << 16 | 16),  # static, in a dynamic subsystem
        ({"data": b"\0" * 10}, 0x00F, 0),
        ({"qid": 1, "data": connect_data(cntlid=7)}, 0x182, 1 << 16 | 16),
    ],
)
def test_a_wrong_connect_says_what_is_wrong(subsystem, changes, status, result):
    """Status codes of NVMe-oF 1.1, figure 17; IPO and IATTR of figure 20."""
    reply, controller = connect(Controllers(subsystem), **changes)
    assert (reply.status, reply.result, controller) == (DNR | status, result, None)


def test_io_queues_join_their_own_controller_once(controller):
    controllers, data = controller.all, connect_data(cntlid=controller.cntlid)
    assert connect(controllers, 1, data=data)[0].result == controller.cntlid
    assert connect(controllers, 1, data=data)[0].status == DNR | 0x00C
    assert connect(controllers, 2, data=connect_data(controller.cntlid, host="nqn.thief"))[0].status == DNR | 0x182
    assert execute(controller, 0x09, cdw10=7, cdw11=0).status == DNR | 0x00C  # queues are there already
    controllers.leave(controller, 1)
    assert execute(controller, 0x09, cdw10=7, cdw11=0x0003_0001).result == 0x0001_0001
    assert connect(controllers, 3, data=data)[0].status == DNR | 0x182  # two were granted
    assert execute(controller, 0x09, cdw10=7, cdw11=0xFFFF).status == DNR | 0x002
    controllers.leave(controller, 0)
    assert controllers.all() == []


def test_identify(controller):
    page = execute(controller, 0x06, cdw10=1).data
    assert len(page) == 4096
    assert page[77] == 5  # MDTS: 2^5 pages of 4,096 bytes
    assert page[76] & 8  # CMIC: asymmetric access
    assert struct.unpack_from("<I", page, 536)[0] & (1 << 2 | 1 << 20) == 1 << 2 | 1 << 20  # SGLS
    assert struct.unpack_from("<II", page, 1792) == ((64 + 4096) // 16, 1)  # IOCCSZ, IORCSZ
    assert page[768:1024].rstrip(b"\0") == NQN.encode()
    assert struct.unpack_from("<I", page, 516)[0] == 2  # NN
    one_, two = (execute(controller, 0x06, nsid, cdw10=0).data for nsid in (1, 2))
    assert (struct.unpack_from("<Q", one_)[0], one_[130]) == (256, 12)
    assert (struct.unpack_from("<Q", two)[0], two[130]) == (10, 9)
    assert struct.unpack_from("<3I", execute(controller, 0x06, 0, cdw10=2).data) == (1, 2, 0)
    assert struct.unpack_from("<3I", execute(controller, 0x06, 1, cdw10=2).data) == (2, 0, 0)
    descriptors = execute(controller, 0x06, 2, cdw10=3).data
    assert (descriptors[0], descriptors[1], descriptors[20], descriptors[21], descriptors[40]) == (2, 16, 3, 16, 0)
    assert descriptors[4:20] == two[104:120]
    assert {execute(controller, 0x06, nsid, cdw10=0).status for nsid in (0, 3, 0xFFFFFFFF)} == {DNR | 0x00B}
    assert execute(controller, 0x06, cdw10=0x1F).status == DNR | 0x002


def log_page(controller, page, length, offset=0, keep=0):
    dwords = length // 4 - 1
    return execute(controller, 0x02, cdw10=page | keep << 15 | dwords << 16, cdw12=offset)


def test_log_pages(controller, subsystem):
    ana = log_page(controller, 0x0C, 16 + 32 + 8).data
    assert struct.unpack_from("<QH", ana) == (0, 1)
    assert struct.unpack_from("<IIQB", ana, 16) == (1, 2, 0, 1)
    assert struct.unpack_from("<II", ana, 48) == (1, 2)
    subsystem.set_state(1, AnaState.INACCESSIBLE)
    assert log_page(controller, 0x0C, 64).data[32] == 3
    assert log_page(controller, 0x02, 512).data[3] == 100  # available spare
    assert log_page(controller, 0x02, 4, 508).status == 0
    assert log_page(controller, 0x02, 4, 516).status == DNR | 0x002
    assert log_page(controller, 0x02, 4, 2).status == DNR | 0x002
    assert log_page(controller, 0x70, 1024).status == DNR | 0x109
    assert log_page(controller, 0xC0, 512).status == DNR | 0x109


def test_discovery(subsystem):
    controllers = Controllers(subsystem)
    _, controller = connect(controllers, data=connect_data(nqn="nqn.2014-08.org.nvmexpress.discovery"))
    set_cc(controller, 1)
    header = log_page(controller, 0x70, 1024).data
    assert struct.unpack_from("<QQH", header) == (1, 2, 0)
    entry = log_page(controller, 0x70, 1024, 2048).data
    assert tuple(entry[:3]) == (1, 1, 2)  # RDMA, IPv4, NVM subsystem
    assert struct.unpack_from("<HHH", entry, 4) == (2, 0xFFFF, 32)
    assert entry[32:36] == b"4420"
    assert entry[256:512].rstrip(b"\0") == NQN.encode()
    assert entry[512:768].rstrip(b"\0") == b"127.64.0.2"
    assert tuple(entry[768:771]) == (1, 2, 1)  # connected, InfiniBand, RDMA_CM
    assert execute(controller, 0x06, 1, cdw10=0).status == DNR | 0x002
    assert connect(controllers, 1, data=connect_data(controller.cntlid))[0].status == DNR | 0x182


def test_notices_come_once_until_the_page_is_read(controller):
    assert execute(controller, 0x09, cdw10=0x0B, cdw11=1 << 8 | 1 << 11).status == 0
    assert [execute(controller, 0x0C) for _ in range(4)] == [None] * 4
    assert execute(controller, 0x0C).status == DNR | 0x105  # AERL is 3, from 0
    controller.notify(0x03, 0x0C)
    controller.notify(0x03, 0x0C)
    assert [result for _, result in controller.due_events()] == [0x0C0302]
    log_page(controller, 0x0C, 64, keep=1)  # RAE
    controller.notify(0x03, 0x0C)
    assert controller.due_events() == []
    log_page(controller, 0x0C, 64)
    controller.notify(0x03, 0x0C)
    assert [result for _, result in controller.due_events()] == [0x0C0302]


def test_a_silent_host_expires(controller):
    """It said 5 s in Connect."""
    controller.execute(one(COMMAND, opcode=0x18)[0], 0, 100.0)
    assert not controller.expired(109.0)
    assert controller.expired(111.0)
    execute(controller, 0x09, cdw10=0x0F, cdw11=0)
    assert not controller.expired(1e6)


@pytest.mark.parametrize("size", [0, 511, 4097])
def test_a_file_that_is_no_disk(tmp_path, size):
    (tmp_path / "x").write_bytes(bytes(size))
    with pytest.raises(InputError, match="multiple of 512"):
        Namespace.of_file(tmp_path / "x")


def test_files_that_go_and_come_back(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(8192))
    space = Namespace.of_file(path)
    assert (space.look(), space.refuse) == (None, 0)
    path.rename(tmp_path / "y")
    assert "removed" in space.look()
    assert space.refuse == 0x082
    (tmp_path / "y").rename(path)
    assert "back" in space.look()
    os.truncate(path, 4096)
    assert "shorter" in space.look()
    os.truncate(path, 8192)
    assert space.look() and space.refuse == 0
    os.close(space.fd)


def test_status_names():
    assert status_text(DNR | 0x080) == "LBA out of range (status 0x080)"
    assert status_text(0x7C1) == "status 0x7c1"
