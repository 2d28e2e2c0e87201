"""Damaged partitions.conf files: ``softib sm check-config`` against stock ``opensm -o -P FILE`` on a fabric of two hosts. The log says
whether OpenSM dropped the file, and at which line; stock ``smpquery pkeys`` says which P_Keys all ports hold."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

import softib
from softib import generate
from softib.sm.options.opensm_partitions import as_opensm_reads_partitions
from tests.live.lab import Softib

pytestmark = pytest.mark.stock

DEFAULT = "Default=0x7fff, ipoib : ALL=full;\n"
FILES = {
    "as documented": DEFAULT
    + "store=0x8010, ipoib, rate=6, mtu=4, defmember=full :\n  ALL, SELF ;\nstore=0x10 : ALL_CAS=limited;\n",
    "a member that is no GUID": DEFAULT + "A=0x13 : ALL=full, nonsense=full;\nB=70000 : ALL;\n",
    "no ; in the middle": DEFAULT + "B=0x3:ALL=full\nC=0x4:ALL=full;\n",
    "no ; at the end": DEFAULT + "A=0x8002,ipoib:ALL=full,SELF=both;\n#c\nB=0x3:ALL=both",
    "a name that begins ALL, no ; above": DEFAULT + "B=0x3:SELF=full\nA=0x4 ;\n",
    "a P_Key of 17 bits": DEFAULT + "Bad=0x12345 : ALL=full;\nZ=0x30:ALL=full;\n",
    "a decimal P_Key of 17 bits": DEFAULT + "Big=70000 : ALL=full;\n",
    "P_Key 0": DEFAULT + "None=0 : ALL=full;\nOther=0x8000 : ALL=full;\n",
    "a P_Key that is no number": DEFAULT + "A=zap : ALL=full;\n",
    "a rate that there is not": DEFAULT + "A=0x21, ipoib, rate=77 : ALL=full;\n",
    "a rate below all": DEFAULT + "A=0x21, ipoib, rate=1 : ALL=full;\n",
    "an SL that there is not": DEFAULT + "A=0x22, ipoib, sl=20 : ALL=full;\n",
    "an MTU that there is not": DEFAULT + "A=0x23, ipoib, mtu=9 : ALL=full;\n",
    "an MTU in octets": DEFAULT + "A=0x23, ipoib, mtu=4096 : ALL=full;\n",
    "an unknown membership": DEFAULT + "A=0x24 : ALL=most;\n",
    "an unknown flag": DEFAULT + "A=0x25, wat=3 : ALL=full;\n",
    "CR LF": DEFAULT.replace("\n", "\r\n") + "A=0x26 : ALL=full;\r\n",
    "blanks between members": DEFAULT + "A=0x27 : ALL=full SELF=full;\nB=0x28 : ALL SELF;\n",
    "two semicolons": DEFAULT + "A=0x29 : ALL=full;;\n",
    "a header on two lines": DEFAULT + "A=0x2a,\n ipoib : ALL=full;\n",
    "default, no capital and no P_Key": DEFAULT + "default : ALL=full;\n",
    "one P_Key under two names": DEFAULT + "A=0x31 : ALL=full;\nB=0x31 : SELF=limited;\n",
    "a group ends the line": DEFAULT + "A=0x32 : ALL=full, mgid=ff12:401b::707;\n",
    "flags of a group take the line": DEFAULT + "A=0x33 : ALL\n mgid=ff12:401b::707,sl=1, SELF=full;\n",
    "not a multicast GID": DEFAULT + "A=0x34 : ALL=full\n mgid=fe80::1\n;\n",
    "a ; of its own below a longer line": DEFAULT + "A=0x35 : ALL=full\n;\nB=0x36 : ALL ;\n",
    "a rate that is no number": DEFAULT + "A=0x37, ipoib, rate=foo : ALL=full;\n",
    "a rate that is no number, no group": DEFAULT + "A=0x38, rate=foo, mtu=4x : ALL=full;\n",
    "0x7fff under two names": DEFAULT + "C=0x7fff : ALL=limited;\n",
    "a comment only": "# nothing : here ;\n",
}
QUICK = [
    "as documented",
    "a member that is no GUID",
    "no ; in the middle",
    "no ; at the end",
    "a P_Key of 17 bits",
    "a rate that there is not",
    "an MTU in octets",
    "CR LF",
    "two semicolons",
    "a group ends the line",
    "a rate that is no number, no group",
    "0x7fff under two names",
]
UNLIKE = {
    "a rate that is no number": ("2: rate='foo' is not a number; OpenSM uses 0", "does not create"),
    "a rate that is no number, no group": (
        "2: rate='foo' is not a number",
        "2: mtu='4x' is not a number; OpenSM uses 4",
    ),
    "0x7fff under two names": ("2: P_Key 0x7fff belongs to 'Default'",),
    "one P_Key under two names": ("3: P_Key 0x31 belongs to 'A'",),
}
EACH = """for f in f*.conf; do opensm -o -P $f -f $f.log > $f.out 2>&1; for lid in 1 2 3 4; do smpquery pkeys $lid; done > $f.pkeys 2>&1; done"""


def mutants(number: int) -> list[str]:
    """Seeded: a character less, more or other, or a line twice or not at all."""
    chance, out = random.Random(11), []
    for _ in range(number):
        text = FILES["as documented"] + "tail=0x41, ipoib:SELF, ALL=full;\n"
        for _ in range(chance.randint(1, 2)):
            at = chance.randrange(len(DEFAULT), len(text))
            text = text[:at] + chance.choice(("", "", *":,;=# \nA0x1\r")) + text[at + chance.randint(0, 1) :]
        out.append(text)
    return out


def agree(command: Softib, stock, texts: list[str]) -> None:
    command.folder.joinpath("small.yaml").write_text(
        "name: one\ntopology: {kind: ring, switches: 2, hosts_per_switch: 1}\n"
    )
    command.start("small.yaml", "--sm", "external")
    folder = command.folder / "files"
    folder.mkdir()
    for i, text in enumerate(texts):
        (folder / f"f{i:03}.conf").write_bytes(text.encode())
    each = EACH.replace("opensm", stock("opensm")).replace("smpquery", stock("smpquery"))
    words = command.words("run", "--", "/bin/sh", "-c", each)
    env = {**command.env, "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
    subprocess.run(words, env=env, cwd=folder, check=True, timeout=600, capture_output=True)
    wrong = [(text, why) for i, text in enumerate(texts) if (why := difference(folder / f"f{i:03}.conf", text))]
    assert not wrong, "\n".join(f"{text!r}: {why}" for text, why in wrong)


def difference(path: Path, text: str) -> str:
    """Where check-config and OpenSM disagree."""
    log = path.with_name(f"{path.name}.log").read_text()
    found = re.findall(r"0x([0-9a-f]{4})\b", path.with_name(f"{path.name}.pkeys").read_text())
    held = {int(k, 16) for k in found} - {0}
    read = as_opensm_reads_partitions(text)
    lines = [int(n) for n in re.findall(r"PARSE ERROR: line (\d+)", log)]
    if any("may drop" in r.text for r in read.remarks):
        return "" if softib.check_config(path).opensm else "what OpenSM does by chance is called right"
    if ("Partition configuration in error" in log) != (read.dropped is not None):
        return f"OpenSM {'drops' if lines else 'takes'} it: {read.remarks}"
    if read.dropped:
        if lines and set(lines) != {read.dropped.line}:
            return f"OpenSM names line {lines}: {read.dropped}"
        return "" if held == {0xFFFF} else f"the default gives {held}"
    if {k & 0x7FFF for k in held} != set(read.pkeys):
        return f"ports hold {sorted(map(hex, held))}, not {read.pkeys}"
    group = any("does not create" in r.text for r in read.remarks)
    if group != ("Failed to create MC group" in log):
        return f"groups: {read.remarks}"
    for full in re.findall(r"full members hold (0x\w+)", " ".join(r.text for r in read.remarks)):
        if int(full, 16) not in held:
            return f"{full} is held by no port: {held}"
    if not read.remarks and softib.check_config(path).opensm:
        return "a file without a remark is called wrong"
    return ""


def test_opensm_does_what_check_config_says(softib, stock):
    agree(softib, stock, [FILES[name] for name in QUICK])


@pytest.mark.parametrize("name", UNLIKE)
def test_what_opensm_skips_or_adds_elsewhere_is_named(tmp_path, name):
    """OpenSM says so at its verbose level: ``flag 'rate' requires valid value`` (it stores 0), ``Duplicated partition definition``."""
    path = tmp_path / "p.conf"
    path.write_text(FILES[name])
    said = "\n".join(softib.check_config(path).opensm)
    assert all(part in said for part in UNLIKE[name]), said


@pytest.mark.slow
def test_opensm_does_what_check_config_says_of_many(softib, stock):
    agree(softib, stock, [*FILES.values(), *mutants(200)])


def test_the_manager_answers_with_the_pkey_of_the_request(softib, stock):
    """Index 0 of the manager's port is another partition's: a host outside it is answered in the default partition, as stock OpenSM does."""
    softib.folder.joinpath("ring.yaml").write_text(
        "name: one\ntopology: {kind: ring, switches: 2, hosts_per_switch: 2}\n"
    )
    guid = int(generate("ring", switches=2, hosts_per_switch=2)["host-0001"].guid, 16)
    softib.folder.joinpath("p.conf").write_text(
        f"Default=0x7fff, ipoib : ALL=limited, SELF=full ;\nfive=0x5, indx0 : {guid + 1:#x}=full ;\n"
    )
    softib.start("ring.yaml", "--partitions", "p.conf")
    keys = softib("run", "--node", "host-0001", "--", stock("smpquery"), "pkeys", "-D", "0")
    assert keys.split()[1:3] == ["0x8005", "0xffff"]
    nodes = softib("run", "--node", "host-0003", "--", stock("saquery"), "-t", "2000", "NR")
    assert "host-0003" in nodes and "host-0001" in nodes and "host-0002" not in nodes, (
        "as limited members share partitions"
    )
