"""What C knows of a MAD is what Python declares: offsets by comparison, numbers because ``management.h`` is written from them."""

from __future__ import annotations

import re
import subprocess

import pytest

from softib.iba import constants as c
from softib.iba.sa import RMPP_HEADER, RmppHeader
from softib.iba.smp import MadHeader
from softib.preload import build

R = RmppHeader
OFFSETS = {
    "CLASS_AT": MadHeader.mgmt_class.byte,
    "METHOD_AT": MadHeader.method.byte,
    "TID_LOW_AT": MadHeader.tid.byte + 4,
    "MAD_HEADER": MadHeader.size,
    "RMPP_VERSION_AT": RMPP_HEADER + R.version.byte,
    "RMPP_TYPE_AT": RMPP_HEADER + R.type.byte,
    "RMPP_FLAGS_AT": RMPP_HEADER + R.flags.byte,
    "RMPP_STATUS_AT": RMPP_HEADER + R.status.byte,
    "RMPP_SEGMENT_AT": RMPP_HEADER + R.segment.byte,
    "RMPP_PAYLOAD_AT": RMPP_HEADER + R.length.byte,
}


def test_every_offset_is_that_of_the_declaration():
    text = (build.SOURCES / "mad_layout.h").read_text("ascii")
    assert {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", text)} == OFFSETS


def test_the_compiler_sees_the_numbers_of_python():
    cc = build.compiler()
    if cc is None:
        pytest.skip("no C compiler")
    wanted = {
        "RESPONSE_BIT": c.RESPONSE_BIT,
        "TRAP_REPRESS": c.Method.TRAP_REPRESS,
        "SUBN_ADM": c.MgmtClass.SUBN_ADM,
        "VENDOR2_FIRST": c.VENDOR2_CLASSES.start,
        "VENDOR2_LAST": c.VENDOR2_CLASSES.stop - 1,
    }
    checks = "".join(f'_Static_assert({name} == {int(number)}, "{name}");\n' for name, number in wanted.items())
    command = [*cc.split(), "-std=gnu11", "-Werror", *build.include_flags(), "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(command, input='#include "management.h"\n' + checks, capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_no_source_of_the_umad_library_counts_bytes_of_a_mad():
    raw = [
        f"{p.name}: {m}"
        for p in build.SOURCES.glob("*.c")
        for m in re.findall(r"\bmad\[\d+\]|0x80\b", p.read_text("ascii"))
    ]
    assert not raw
