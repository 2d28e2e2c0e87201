"""The preload library under AddressSanitizer, UBSan and LeakSanitizer against a daemon that answers anything.

A fake daemon speaks the protocol of ``preload/umad/umad.h`` wrongly in every way: errors that are none, other magics, short
and long answers, messages whose head lies about their length, descriptors that nobody announced. The program must get
errors or messages, never a crash, never a descriptor that is not its own, and it must lose neither memory nor descriptors.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from softib.live.umad.wire import HEAD_SIZE, constant, reply, types
from softib.preload import build

PROGRAM = r"""
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int session(unsigned char *room, size_t size)
{
    struct ib_user_mad_reg_req asked = { .mgmt_class = 3, .qpn = 1, .mgmt_class_version = 2, .rmpp_version = 1 };
    struct stat what;
    int fd = open("/dev/infiniband/umad0", O_RDWR | O_NONBLOCK), got = 0;

    if (fd < 0)
        return 0;
    if (fstat(fd, &what) || !S_ISSOCK(what.st_mode)) {
        printf("descriptor %d is not ours\n", fd);
        exit(3);
    }
    ioctl(fd, IB_USER_MAD_ENABLE_PKEY, 0);
    if (!ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &asked)) {
        memset(room, 0, 64);
        memcpy(room, &asked.id, 4);
        room[64] = 1, room[65] = 3, room[66] = 2, room[67] = 1, room[64 + 26] = 1;
        got += write(fd, room, 64 + 256) > 0;
        got += write(fd, room, 64 + 3000) > 0;
    }
    for (int i = 0; i < 12; i++) {
        struct pollfd wait = { fd, POLLIN, 0 };
        size_t ask = (size_t[]){ 320, 64, 319, 400, size }[i % 5];
        if (poll(&wait, 1, 20) == 1) {
            ssize_t n = read(fd, room, ask);
            if (n > (ssize_t)ask) {
                printf("%zd octets in %zu\n", n, ask);
                exit(4);
            }
            got += n > 0;
            if (n < 0 && errno == EIO)
                break;
        }
    }
    if (!close(fd))
        got++;
    return got;
}

int main(int argc, char **argv)
{
    size_t size = 1 << 16;
    unsigned char *room = malloc(size);
    int before = descriptors(), rounds = argc > 1 ? atoi(argv[1]) : 1, got = 0;

    for (int i = 0; i < rounds; i++)
        got += session(room, size);
    free(room);
    printf("%d things, %d descriptors more\n", got, descriptors() - before);
    return descriptors() != before;
}
"""


class Liar(threading.Thread):
    """A daemon that answers anything, from a seed."""

    def __init__(self, folder: Path, seed: int):
        super().__init__(daemon=True)
        self.rng, self.spare = random.Random(seed), tempfile.TemporaryFile()  # noqa: SIM115
        self.spare.write(bytes(5000))
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(folder / "umad"))
        self.listener.listen(64)
        self.asked = 0
        self.open: list[socket.socket] = []
        self.start()

    def run(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(2)
            try:
                asked = np.frombuffer(sock.recv(4096), types()["softib_umad_ask"])[0]
                self.asked += 1
                sock.send(self.answer())
                if int(asked["op"]) == constant("OPEN"):
                    self.talk(sock)
                    self.open.append(sock)
                    if len(self.open) > 4:
                        self.open.pop(0).close()
                    continue
            except (OSError, ValueError):
                pass
            sock.close()

    def answer(self) -> bytes:
        rng = self.rng
        good = reply(0, rng.choice((0, 1, 31, 32, 2**32 - 1)))
        if rng.random() < 0.7:
            return good
        errors = (1, 5, 16, 4095, 4096, 2**31 - 1, 2**31, 2**32 - 16, 2**32 - 1)
        return rng.choice(
            (
                reply(rng.choice(errors), 3),
                good[:8],
                good + b"x",
                b"\1",
                bytes(16),
                rng.randbytes(16),
                good[:8] + b"\xf0\xff\xff\xff" * 2,
            )
        )

    def talk(self, sock: socket.socket) -> None:
        rng = self.rng
        for _ in range(rng.randrange(8)):
            message = np.zeros(1, types()["softib_umad_head"])
            message["length"] = rng.choice(
                (0, 63, 64, 65, 100, 320, 321, 1000, 5064, 2**28 + 64, 2**28 + 65, 2**32 - 1)
            )
            message["status"] = rng.choice((0, 0, 0, 110, 2**32 - 1))
            message["id"] = rng.choice((0, 31, 2**32 - 1))
            octets = message.tobytes() + rng.randbytes(256)
            octets = octets[: rng.choice((1, 63, 64, 65, 100, HEAD_SIZE + 256, HEAD_SIZE + 256))] + rng.choice(
                (b"", b"", b"more")
            )
            fds = [self.spare.fileno()] * rng.choice((0, 0, 1, 1, 2, 3, 20))
            sock.setblocking(False)
            socket.send_fds(sock, [octets], fds)
            if rng.random() < 0.5:  # an announcement may be followed by its whole
                socket.send_fds(sock, [octets], [self.spare.fileno()])

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.join(60)
        for sock in self.open:
            sock.close()
        self.spare.close()


@pytest.fixture(scope="module")
def prodder(tmp_path_factory) -> Path:
    if build.compiler() is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("prodder")
    (folder / "prodder.c").write_text(PROGRAM)
    words = [
        *build.compiler().split(),
        "-g",
        "-fsanitize=address",
        "-o",
        str(folder / "prodder"),
        str(folder / "prodder.c"),
    ]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no AddressSanitizer")
    return folder / "prodder"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_daemon_that_answers_anything(seed, sanitized, prodder):
    library, asan = sanitized
    with tempfile.TemporaryDirectory(prefix="softib-", dir="/tmp") as name:
        folder = Path(name)
        liar = Liar(folder, seed)
        (folder / "hosts" / "x").mkdir(parents=True)
        env = {
            **os.environ,
            "LD_PRELOAD": f"{asan} {library}",
            "SOFTIB_UMAD": str(folder / "umad"),
            "SOFTIB_VIEW": str(folder / "hosts" / "x"),
            "ASAN_OPTIONS": "detect_leaks=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        try:
            done = subprocess.run([prodder, "50"], env=env, capture_output=True, text=True, timeout=240)
        finally:
            liar.close()
        assert done.returncode == 0 and "runtime error" not in done.stderr, (done.stdout, done.stderr[-3000:])
        assert done.stdout.endswith(" 0 descriptors more\n") and liar.asked > 50, done.stdout
        assert int(done.stdout.split()[0]) > 50, done.stdout  # it got somewhere
