"""The command line, on fabrics that wait for a manager."""

from __future__ import annotations

import os
import signal

import pytest

from tests.live.conftest import own_library  # noqa: F401  (a fixture)
from tests.live.lab import Softib

FABRIC = "name: net\ngeneration: EDR\ntopology: {kind: fat-tree, radix: 4, levels: 3}\n"
IMPATIENT = "sminfo_polling_timeout 300\npolling_retry_number 2\n"


@pytest.fixture
def softib(tmp_path, own_library):  # noqa: F811
    if own_library is None:
        pytest.skip("libsoftib-umad.so is not built: no C compiler")
    (tmp_path / "net.yaml").write_text(FABRIC)
    (tmp_path / "conf").write_text(IMPATIENT)
    s = Softib(tmp_path)
    yield s
    for p in s.started:
        p.terminate()
        p.wait(240)
    for one in s.status():
        os.kill(one["pid"], signal.SIGKILL)
