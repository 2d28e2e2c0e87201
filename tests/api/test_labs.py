"""Laboratories. Oracles: the fault that an exercise plants, what its own commands print, and repairs that are wrong on purpose."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import softib
from softib.api.labs.exercise import ANSWERS, exercises
from softib.api.labs.judging import GOALS
from softib.api.labs.page import lab_page
from softib.errors import InputError, UnreadableFile
from tests.cli.documents import check
from tests.cli.run import one_line
from tests.cli.run import softib as command
from tests.docs.scripts import ROOT, script

FAST = (1, 3, 11)
"""Laboratories that the default run solves; the slow tests solve all."""
STANDBY = 10
"""The laboratory whose fabric runs."""
EVERY = [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in exercises() if n != STANDBY]
COMPUTED = {
    4: {"switches"},
    5: {"line"},
    6: {"same_spine", "others"},
    8: {"links"},
    9: {"factor"},
    13: {"packets", "opcode"},
    16: {"factor"},
}
"""Answers that a student counts or divides from what the commands print."""


def solve(number: int, folder: Path) -> Path:
    """The laboratory's folder, with right answers and repairs in it."""
    exercise = exercises()[number]
    place = softib.lab(number).begin(folder)
    right = {
        a.name: a.right[0] if isinstance(a.right, list) and a.kind != "nodes" else a.right for a in exercise.answers
    }
    if right:
        (place / ANSWERS).write_text(yaml.safe_dump(right))
    for repair in exercise.repairs:
        (place / repair.file).write_text(repair.done)
    return place


@pytest.mark.parametrize("number", EVERY)
def test_a_right_answer_is_right_and_the_given_files_are_not(number, tmp_path):
    lab = softib.lab(number)
    place = lab.begin(tmp_path)
    before = lab.check(tmp_path)
    assert (
        not any(item.right for item in before.items) and before.hints == [] and before.lesson == ""
    )  # not begun: no mistake
    for answer in lab.exercise.answers:
        wrong = {"number": 99999, "word": "wrong", "node": "spine-1", "nodes": "spine-1"}.get(answer.kind, "spine-1[1]")
        (place / ANSWERS).write_text(f"{answer.name}: {wrong}\n")
        checked = lab.check(tmp_path)
        assert {i.name for i in checked.items if i.right} == set() and len(checked.hints) >= 1, (answer, checked.items)
    solve(number, tmp_path)
    after = lab.check(place)  # from inside, too
    assert after.right and not after.hints and after.lesson, after.items


@pytest.mark.slow
@pytest.mark.parametrize("number", [n for n in exercises() if n != STANDBY])
def test_the_commands_print_the_answers(number, tmp_path):
    lab = softib.lab(number)
    place = lab.begin(tmp_path)
    text = ""
    for one in lab.commands:
        program = one.replace("softib ", f"{sys.executable} -m softib ", 1) if one.startswith("softib ") else one
        ran = subprocess.run(program, shell=True, cwd=place, capture_output=True, text=True, timeout=300)
        assert ran.returncode in (0, 1), (one, ran.stderr)
        text += ran.stdout
    for answer in lab.exercise.answers:
        if answer.name in COMPUTED.get(number, ()):
            continue
        rights = answer.right if isinstance(answer.right, list) else [answer.right]
        shown = [f"{right:g}" if isinstance(right, int | float) else str(right) for right in rights]
        found = [re.search(re.escape(one), text.replace(",", ""), re.IGNORECASE) is not None for one in shown]
        assert all(found) if answer.kind == "nodes" else any(found), (answer, text)


def test_cabling_answers_are_the_planted_faults():
    for number in (1, 2, 16, 19):
        exercise = exercises()[number]
        (fault,) = yaml.safe_load(exercise.fabrics[exercise.drawn])["faults"]
        (place,) = [a.right for a in exercise.answers if a.kind in ("port", "cable")]
        assert fault["cable"] == place


def test_every_laboratory_is_complete():
    known = exercises()
    assert list(known) == list(range(1, 21))
    for one in known.values():
        assert one.commands and one.hints and one.lesson and (one.answers or one.repairs)
        assert (ROOT / "docs" / one.read.partition("#")[0]).is_file()
        assert {r.file for r in one.repairs} <= set(one.files) | set(one.fabrics) and {
            r.goal for r in one.repairs
        } <= set(GOALS)


def test_pages_are_as_the_exercises():
    made = script("make_labs").texts()
    other = [str(path) for path, text in made.items() if not path.is_file() or path.read_text("utf-8") != text]
    assert other == [], "run python docs/make_labs.py"
    folder = ROOT / "docs" / "labs"
    assert set(folder.glob("*.md")) == {p for p in made if p.suffix == ".md"}


def test_answers_in_a_persons_notation(tmp_path):
    place = softib.lab(1).begin(tmp_path)
    for port, per_cent in (
        ("leaf-3:6", "75 %"),
        ("leaf-3/6", 74.9),
        ("0x0250f1b000000200[6]", "75,0"),
        ("LEAF-3[6]", "~75"),
    ):
        (place / ANSWERS).write_text(f"port: '{port}'\nper_cent: {per_cent}\n")
        assert softib.lab(1).check(tmp_path).right, (port, per_cent)
    for port, per_cent in (
        ("leaf-2[6]", "7,5"),
        ("spine-2[3]", "75 or 50"),
        ("leaf-3", "0,75"),
        ("leaf-9[1]", "many"),
        ("[leaf-3]", "{a: 1}"),
        ("5", "nan"),
    ):
        (place / ANSWERS).write_text(f"port: '{port}'\nper_cent: {per_cent}\n")
        items = softib.lab(1).check(tmp_path).items
        assert not any(i.right for i in items) and all(0 < len(i.message) < 120 for i in items), items
    (place / ANSWERS).write_text('port: " "\nper_cent: "\\n"\n')
    assert {i.message for i in softib.lab(1).check(tmp_path).items} == {"no answer yet"}


def test_a_port_stands_for_its_node_and_a_blank_cable_for_nothing(tmp_path):
    place = softib.lab(2).begin(tmp_path)
    (place / ANSWERS).write_text("cable: ','\ngbps: ' '\nspine: spine-2[5]\n")
    assert {i.name for i in softib.lab(2).check(tmp_path).items if i.right} == {"spine"}


def test_the_files_of_the_fault_stay_as_they_are(tmp_path, monkeypatch):
    place = softib.lab(7).begin(tmp_path)
    (place / "fabric.yaml").write_text((place / "fabric.yaml").read_text() + "sm: {engine: lash}\n")
    monkeypatch.chdir(tmp_path)
    assert "must not be changed" in one_line(command("lab", "7", "--check"))


def test_another_repair_than_the_right_one_is_wrong(tmp_path):
    place = softib.lab(3).begin(tmp_path)
    repaired = place / "repaired.yaml"
    at_the_spines = "import: found.ibnetdiscover\nfaults:\n- {kind: swap-cables, ports: ['spine-3[5]', 'spine-2[2]']}\n"
    repaired.write_text(at_the_spines)
    assert softib.lab(3).check(tmp_path).right  # exchanged at the other side: as good
    for wrong in (
        at_the_spines + "- {kind: swap-cables, ports: ['leaf-2[6]', 'leaf-5[7]']}\n",
        at_the_spines + "- {kind: remove-cable, cable: 'leaf-1[5]'}\n",
        "name: other\ntopology: {kind: fat-tree, radix: 8, levels: 2, hosts: 24}\n",
        "import: /etc/passwd\n",
        "import: [",
    ):
        repaired.write_text(wrong)
        (item,) = softib.lab(3).check(tmp_path).items
        assert not item.right and item.message and "root:" not in item.message


def test_missing_and_foreign_files_are_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "laboratory not started" in one_line(command("lab", "2", "--check"))
    assert command("lab", "2").code == 0
    (tmp_path / "lab-02" / "found.ibnetdiscover").unlink()
    assert "found.ibnetdiscover: this file of laboratory 2 is missing; run 'softib lab 2' to restore it" in one_line(
        command("lab", "2", "--check")
    )
    assert command("lab", "2").code == 0
    (tmp_path / "lab-02" / ANSWERS).write_text("colour: red\n")
    assert "'colour' is not a question" in one_line(command("lab", "2", "--check"))
    (tmp_path / "lab-02" / ANSWERS).write_bytes(b"\0" * 100)
    assert ANSWERS in one_line(command("lab", "2", "--check"))
    (tmp_path / "lab-02" / ".mistakes").write_text("[]")
    assert "laboratory 99 does not exist" in one_line(command("lab", "99"))
    with pytest.raises(InputError):
        softib.lab(0)
    with pytest.raises(UnreadableFile):
        softib.lab(2).check(tmp_path)


def test_the_command_line_has_documents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(check("labs", command("lab", "--json").json())["labs"]) == 20
    assert check("lab", command("lab", "1", "--json").json())["files"] == ["found.ibnetdiscover", ANSWERS]
    ran = command("lab", "1", "--check", "--json")
    assert ran.code == 1 and check("lab-check", ran.json())["right"] is False
    solve(1, tmp_path)
    ran = command("lab", "1", "--check")
    assert ran.code == 0 and "Solved." in ran.out


def test_the_browsers_form_judges_and_reads_no_other_file():
    assert "/labs/20" in lab_page(None, {})
    right = {"repaired.yaml": exercises()[3].repairs[0].done, "mistakes": "2"}
    assert "Solved." in lab_page(3, right)
    assert "Solved." in lab_page(1, {"port": "leaf-3[6]", "per_cent": "75"})
    for text in ("import: /etc/hostname\n", "import: '..\\x2f..\\x2fetc'\n", "x" * 5000):
        assert "without / and" in lab_page(3, {"repaired.yaml": text})
    began = time.monotonic()
    page = lab_page(8, {"torus.yaml": "topology: {kind: torus, dims: [200, 200]}\nsm: {engine: lash}\n", "links": "4"})
    assert "only sm may change" in page and time.monotonic() - began < 20  # no fabric of that size is made
    page = lab_page(1, {"port": "<script>alert(1)</script>", "per_cent": "x"})
    assert "<script" not in page


@pytest.mark.slow
def test_the_standby_is_seen_on_the_running_fabric(tmp_path):
    place = solve(STANDBY, tmp_path)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run"), "PYTHONPATH": str(ROOT / "src")}
    (tmp_path / "run").mkdir(mode=0o700)

    def softib_program(*args: str) -> subprocess.CompletedProcess:
        words = [sys.executable, "-m", "softib", *args]
        return subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, timeout=120)

    assert softib_program("up", "fabric.yaml", "--name", "lab-10", "--detach").returncode == 0
    second = None
    try:
        alone = softib_program("lab", "10", "--check")
        assert alone.returncode == 1 and "has one manager only" in alone.stdout, alone
        manager = (
            "run",
            "--fabric",
            "lab-10",
            "--node",
            "host-0009",
            "--",
            sys.executable,
            "-m",
            "softib",
            "sm",
            "run",
        )
        second = subprocess.Popen(
            [sys.executable, "-m", "softib", *manager, "--priority", "1"],
            cwd=place,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 60
        while time.monotonic() < end and softib_program("lab", "10", "--check").returncode:
            time.sleep(1)
        assert softib_program("lab", "10", "--check").returncode == 0
    finally:
        if second is not None:
            second.terminate()
            second.wait(20)
        softib_program("down", "lab-10")
