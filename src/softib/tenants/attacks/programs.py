"""Attacks by programs on the attacker's host: RDMA with a P_Key or R_Key of another tenant, and a second subnet
manager."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

from softib.scratch import scratch_folder
from softib.tenants.attacks.key_guess import TRIES
from softib.tenants.attacks.stage import FULL, NOT_TRIED, STOPPED, THROUGH, Outcome, Stage, keys_of, shared_key

__all__ = ["foreign_manager", "key_guess", "packets_across"]

MANAGER_S = 15.0
"""Time for which the attacker's manager runs after its discovery: longer than OpenSM's sweep interval of 10 s, after
which a master detects other managers."""
BEGINS_S = 120.0
"""Maximum time for the discovery by the attacker's manager. The limit only ends a hang."""
ELECTED = re.compile("now (STANDBY|MASTER|NOT_ACTIVE)|: sweep: ")
"""Lines that a manager prints after its discovery (IBA 14.4.1), or after a sweep in which no other port answered."""
GUESS_S = 120.0
"""Maximum time for the guesses."""


def packets_across(s: Stage) -> tuple[Outcome, str]:
    """RDMA writes with a P_Key of the victim that the attacker must not have."""
    key = shared_key(s)
    if not key:
        return STOPPED, f"{s.attacker} has no P_Key in which {s.victim} would take a packet"
    if shutil.which("ib_write_bw") is None:
        return NOT_TRIED, "ib_write_bw is not installed (package perftest)"
    done = _write(s, keys_of(s, s.victim).index(key), keys_of(s, s.attacker).index(key | FULL))
    if done:
        return THROUGH, f"{s.attacker} wrote into the memory of {s.victim} with P_Key {key | FULL:#06x}"
    return STOPPED, f"packets of {s.attacker} with P_Key {key | FULL:#06x} did not reach {s.victim}"


def key_guess(s: Stage) -> tuple[Outcome, str]:
    """RDMA READs with guessed R_Keys, as a client of a program on the victim (see
    :mod:`softib.tenants.attacks.key_guess`)."""
    port, program = str(_free_port()), [sys.executable, "-m", "softib.tenants.attacks.key_guess"]
    one = s.run(s.victim, [*program, "serve", port])
    try:
        line = one.stdout.readline() if one.stdout is not None else ""
        if not line.startswith("listening "):
            return NOT_TRIED, f"the program on {s.victim} does not run: {line.strip()[:200]}"
        two = s.run(s.attacker, [*program, "guess", line.split()[1], port])
        try:
            output = two.communicate(timeout=GUESS_S)[0]
        except subprocess.TimeoutExpired:
            two.kill()
            two.communicate()
            return STOPPED, f"{s.attacker} read no memory within {GUESS_S:.0f} s"
    finally:
        one.terminate()
        one.communicate(timeout=30)
    try:
        result = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        return NOT_TRIED, f"the program on {s.attacker} does not run: {output.strip()[-200:]}"
    if result["why"]:
        # The attacker's program failed because the subnet administration refused it a path. A program that builds its
        # packets itself does not need one.
        outcome = NOT_TRIED if shared_key(s) else STOPPED
        return outcome, f"{s.attacker} gets no connection to {s.victim}: {result['why']}"
    for name, owner in (("same", "another client's buffer"), ("other", "a buffer in another protection domain")):
        if result[name]:
            return THROUGH, f"{s.attacker} read {owner} on {s.victim} with guess {result[name]} of its R_Key"
    return STOPPED, f"{2 * TRIES} guesses of R_Keys read nothing on {s.victim}"


def foreign_manager(s: Stage) -> tuple[Outcome, str]:
    """A subnet manager of priority 15 on the attacker's host, with the M_Key that the attacker has
    and OpenSM's default SM_Key."""
    mine = s.lids[s.attacker]
    with scratch_folder("rehearsal") as folder:
        options = folder / "opensm.conf"
        options.write_text(f"m_key {s.key:#x}\nsm_priority 15\nsweep_interval 2\n")
        command = [sys.executable, "-m", "softib", "sm", "run", "--sm-config", str(options)]
        program = s.run(s.attacker, [*command, "--priority", "15", "--guid2lid", f"{folder}/guid2lid"])
        lines = list[str]()
        output = program.stdout or ()
        reader = threading.Thread(target=lambda: lines.extend(output), daemon=True)
        reader.start()
        began, until = time.monotonic(), None
        try:
            while s.master != mine:
                if until is None and any(ELECTED.search(line) for line in list(lines)):
                    until = time.monotonic() + MANAGER_S
                over = time.monotonic() > (began + BEGINS_S if until is None else until)
                if not over and program.poll() is None:
                    time.sleep(0.25)
                elif until is None and not any("begin: port" in line for line in list(lines)):
                    return NOT_TRIED, f"the manager on {s.attacker} does not run: {''.join(lines[-1:]).strip()[:200]}"
                else:
                    return STOPPED, f"{s.victim} keeps its manager while one of priority 15 runs on {s.attacker}"
            return THROUGH, f"the manager of {s.attacker} is the master of {s.victim}"
        finally:
            program.terminate()
            program.wait(timeout=30)
            reader.join(timeout=30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write(s: Stage, server: int, client: int) -> bool:
    """Return whether RDMA writes of the attacker arrive if it sends them with the P_Key at index ``client`` of its
    table."""
    port = str(_free_port())
    program = ["ib_write_bw", "-n", "50", "-s", "4096", "-F", "-p", port]
    one = s.run(s.victim, [*program, f"--pkey_index={server}"])
    try:
        until = time.monotonic() + MANAGER_S
        while True:
            two = s.run(s.attacker, [*program, f"--pkey_index={client}", "127.0.0.1"])
            try:
                output = two.communicate(timeout=60)[0]
            except subprocess.TimeoutExpired:
                two.kill()
                two.communicate()
                return False
            if "Couldn't connect" not in output or time.monotonic() > until:
                return two.returncode == 0
            time.sleep(0.2)
    finally:
        one.terminate()
        one.communicate(timeout=30)
