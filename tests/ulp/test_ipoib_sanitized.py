"""softib-ipoib under AddressSanitizer and UndefinedBehaviourSanitizer: neither finds anything."""

from __future__ import annotations

import subprocess

import pytest

from softib.live import control, instances
from softib.preload import build
from softib.ulp.ipoib import network
from tests.preload.verbs.c_programs import SANITIZE
from tests.ulp.ipoib_nodes import RECEIVE, SEND, A, B, Network, follows_its_pkey, interfaces, skip_without

pytestmark = [pytest.mark.slow, pytest.mark.stock]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """softib-ipoib built with the sanitizers, and the folder of what they say."""
    folder = tmp_path_factory.mktemp("asan")
    try:
        libraries = [build.compile_library(folder / "libsoftib-umad.so", SANITIZE), folder / build.VERBS_LIBRARY.name]
        binary = build.compile_ipoib(folder / "binary", SANITIZE)
    except RuntimeError as error:
        if "cannot find -l" not in str(error):
            raise
        pytest.skip(f"no AddressSanitizer: {error}")
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    start = folder / "softib-ipoib"
    start.write_text(
        f"#!/bin/sh\nexport LD_PRELOAD={asan.strip()}:{libraries[0]}:{libraries[1]}\n"
        f"export UBSAN_OPTIONS=print_stacktrace=1:log_path={folder}/said\n"
        f'export ASAN_OPTIONS=detect_leaks=0:log_path={folder}/said\nexec {binary} "$@"\n'
    )
    start.chmod(0o755)
    return start


@pytest.mark.parametrize("connected", (False, True))
def test_nothing_is_found(stock, program, monkeypatch, connected):
    skip_without(stock)
    nodes = Network((), connected=(A, B) if connected else ())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(nodes.folder))
    monkeypatch.setattr(network, "IPOIB", program)
    monkeypatch.setattr(network, "built_libraries", tuple)
    instance, joined = instances.find(None), []
    try:
        for node in (A, B):
            joined.append(network.join(instance, control.attach(instance, node), connected))
            nodes.address[node] = joined[-1].addresses[0]
        server = nodes.begin_net(B, "python3", "-c", RECEIVE, nodes.address[B])
        assert server.stdout.readline().strip() == "ready"
        nodes.net(A, "python3", "-c", SEND, nodes.address[B])
        assert server.communicate(timeout=60)[0].strip().splitlines()[-1] == "8388608 ok"
        six = next(a["local"] for a in interfaces(nodes, B)["ib0"]["addr_info"] if a["family"] == "inet6")
        for words in ((nodes.address[B], "-s", "60000"), (f"{six}%ib0", "-s", "100")):
            nodes.net(A, "ping", "-c", "3", "-i", "0.1", "-W", "5", *words, options=("--pcap", str(nodes.folder / "x")))
        follows_its_pkey(nodes, A, B)
    finally:
        for one in joined:
            one.close()
        nodes.close()
    said = "\n".join(p.read_text() for p in sorted(program.parent.glob("said*")))
    assert not said, said
