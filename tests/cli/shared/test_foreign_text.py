"""Text from files reaches a terminal, a page and JSON printable and short: no escape sequence, no C1 control, no bidi character, in any output of any verb."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softib.cli.main import VERBS
from tests.cli.run import softib

EVIL = "\x1b[31mE\x1b]0;pwned\x07\u202etxt\u2066\u009b1m\u200bx\x7f"
LONG = "a" * 120_000


def unsafe(text: str) -> set[str]:
    """Characters that no terminal should get."""
    return {c for c in text if not c.isprintable() and c not in "\n\t"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fabric, a plan, jobs, a workload and an options file, every name in which is hostile."""
    folder = tmp_path_factory.mktemp("evil")
    names = [f"{EVIL}-{i}" for i in range(4)]
    lines = []
    for i, name in enumerate(names[:2]):
        other = 1 - i
        lines += [
            f"switchguid=0x{i + 1:x}({i + 1:x})",
            f'Switch 4 "S-{i + 1:016x}" # "{name}" enhanced port 0 lid {i + 1} lmc 0',
            f'[1] "H-{i + 0x11:016x}"[1](11) # "{names[i + 2]}" lid {i + 11} 4xEDR',
            f'[2] "S-{other + 1:016x}"[2] # "{names[other]}" lid {other + 1} 4xEDR',
            f'[3] "S-00000000000000{i}9"[1]',
            "",
        ]
    for i, name in enumerate(names[2:]):
        lines += [
            f"caguid=0x{i + 0x11:x}",
            f'Ca 1 "H-{i + 0x11:016x}" # "{name}"',
            f'[1](11) "S-{i + 1:016x}"[1] # lid {i + 11} lmc 0 "{names[i]}" lid {i + 1} 4xEDR',
            "",
        ]
    lines += [f"[7] {EVIL} {LONG}"]
    (folder / "f.ibnetdiscover").write_text("\n".join(lines))
    (folder / "plan.csv").write_text(
        "Source,Source Port,Destination,Destination Port\n"
        f"{names[0]},1,{names[3]},1\n{EVIL}none,2,{EVIL}nowhere,3\n{LONG},1,{names[2]},1\n"
    )
    jobs = {"jobs": [{"name": EVIL + LONG, "job_id": 1, "user_name": EVIL, "job_state": ["RUNNING"], "nodes": "x"}]}
    (folder / "jobs.json").write_text(json.dumps(jobs))
    (folder / "jobs.yaml").write_text(json.dumps({EVIL + "job": [f"{EVIL}host", names[2], names[3]], LONG: [LONG]}))
    (folder / "bad-jobs.yaml").write_text(json.dumps([{"name": EVIL, "hosts": EVIL + LONG + "[1-"}]))
    (folder / "w.yaml").write_text(
        json.dumps({"name": "w", "jobs": [{"pattern": "permutation", "size": "1KB", "name": EVIL}]}, ensure_ascii=True)
    )
    (folder / "bad.yaml").write_text(json.dumps({"jobs": [{"pattern": EVIL + LONG}]}))
    (folder / "guids").write_text(f"{EVIL}{LONG}\n")
    (folder / "names").write_text(f'0x1 "{EVIL}"\n0x99 "{EVIL}"\n{EVIL}{LONG}\n')
    (folder / "job.log").write_text(
        f"{EVIL}host:1:2 [0] NCCL INFO NET/IB : Using [0]{EVIL}:1/IB\n{EVIL}host:1:2 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion "
        f"from peer {EVIL}<1> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid {EVIL} remoteGids{EVIL}\n{LONG}{EVIL}\n"
        f"[Thu Jan  1 00:00:00 2026] mlx5_core {EVIL}: Port: 1 Link DOWN\n"
    )
    (folder / "opensm.conf").write_text(
        f"routing_engine {EVIL}\n{EVIL} {LONG}\nlog_file {EVIL}\n0x7fff={EVIL} : ALL=full;\n"
    )
    (folder / "ci.yaml").write_text(json.dumps({"nodes": {EVIL + LONG: EVIL}, "faults": [EVIL]}))
    (folder / "errors.txt").write_text(f'Errors for "{EVIL}"\n   GUID 0x11 port 1: [{EVIL} == 7]\n')
    (folder / f"{EVIL.replace('/', '')}.net").write_text("nothing")
    return folder


COMMANDS = [
    "check F", "check F --all", "check F --json", "check F --format csv", "check F --format sarif", "check F --format junit",
    "check F --plan plan.csv", "check F --plan plan.csv --json", "check F --jobs jobs.yaml", "check F --jobs jobs.json",
    "check F --jobs jobs.yaml --json", "check F --jobs bad-jobs.yaml", "check F --node-name-map names",
    "check F --root_guid_file guids", "report F", "report F --json", "report F --plan plan.csv --html out.html", "route F", "route F --json",
    "route F --dump out.lfts", "diff F EVIL", "diff F F", "simulate F w.yaml", "simulate F w.yaml --json", "simulate F w.yaml --html out.html",
    "simulate F bad.yaml", "simulate F w.yaml --against errors.txt", "calibrate errors.txt", "calibrate EVIL", "calibrate errors.txt --machine bad.yaml", "simulate F EVIL", "compare F w.yaml", "compare F w.yaml --prices bad.yaml", "check EVIL", "check BADNAME",
    "convert F out.net", "convert F EVIL", "diagnose bad.yaml EVIL", "generate EVIL", "EVIL", "report F --engine EVIL", "baseline record F out.baseline",
    "check F --ignore EVIL", "check F --baseline bad.yaml", "path F A B", "path F A B --json", "path F A EVIL", "path F A B --lfts bad.yaml",
    "convert plan.csv --explain", "convert plan.csv --explain --json", "convert plan.csv out.names --match F", "why job.log",
    "why job.log --json", "why job.log --fabric F", "why EVIL", "sm check-config opensm.conf", "sm check-config opensm.conf --json",
    "sm EVIL", "sm run --engine EVIL", "plan cables F --floor bad.yaml", "plan check-quote plan.csv --design f.yaml", "plan grow F --hosts EVIL",
    "advise EVIL --hosts 4", "exporter f.db_csv --once --fabric F", "exporter EVIL", "diagnose errors.txt errors.txt --fabric F", "ci --file bad.yaml",
    "ci --file ci.yaml", "ci --node EVIL -- true", "ci --fault EVIL -- true", "audit EVIL", "audit F", "audit --sm-config opensm.conf",
    "audit --partitions opensm.conf --sm-config opensm.conf", "accept EVIL --launcher ssh", "top EVIL", "serve EVIL", "up EVIL", "up F --sm-config opensm.conf --engine EVIL",
    "node-check --manifest bad.yaml", "isolate EVIL", "isolate ledger EVIL", "isolate release EVIL EVIL", "isolate errors.txt errors.txt --fabric F",
    "stack EVIL", "stack --ssh EVIL", "stack --matrix bad.yaml",
    "lab EVIL", "down EVIL", "status EVIL", "run --fabric EVIL -- true", "shell --fabric EVIL", "fault EVIL x", "fault link-down EVIL --fabric EVIL", "nvme list EVIL",
    "target EVIL", "compile EVIL", "doctor EVIL", "completion EVIL", "--EVIL", "check F --EVIL",
]  # fmt: skip # a packed list of short values


def test_every_verb_is_asked():
    """``report`` and the others of Look read the same fabric; those that need a running one get a hostile name of it."""
    asked = {command.split()[0] for command in COMMANDS}
    assert asked >= set(VERBS), set(VERBS) - asked


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_hostile_reaches_a_person(
    command: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = {
        "A": f"{EVIL}-2",
        "B": f"{EVIL}-3",
        "--EVIL": f"--{EVIL}{LONG}",
        "F": str(files / "f.ibnetdiscover"),
        "EVIL": EVIL + LONG,
        "BADNAME": str(next(files.glob("*.net"))),
    }
    arguments = [words.get(w) or (str(files / w) if (files / w).is_file() else w) for w in command.split()]
    ran = softib(*arguments)
    assert ran.code in (0, 1, 2), ran.err
    meaning = json.dumps(ran.json(), ensure_ascii=False) if "--json" in command and ran.out else ""
    for text in (ran.out, meaning, ran.err, *(p.read_text("utf-8") for p in tmp_path.glob("out.*"))):
        assert not unsafe(text), (
            sorted(map(ascii, unsafe(text))),
            [ascii(x)[:300] for x in text.splitlines() if unsafe(x)][:3],
        )
    assert max(map(len, ran.err.splitlines()), default=0) < 1100
    assert "a" * 2000 not in ran.out
