"""What a user waits for who has just installed softib: commands with an empty cache of kernels, and again with a full one.

    python bench/cold_start.py [--profile] [COMMAND …]

Commands: report (``make demo``), up, check, route; each has a cache of its own. A line each: wall-clock seconds cold and
warm, CPU seconds of all its processes (the daemon too), files and KiB in the cache. Python's bytecode is compiled before,
as an installation does it; a shell with PYTHONDONTWRITEBYTECODE pays half a second for it in each run. With ``--profile`` a line for each
process that used Numba: compiling split into Python (typing, lowering), LLVM's optimisation and machine code.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FABRIC = ROOT / "examples" / "superpod-127-faults.yaml"
SOFTIB = [sys.executable, "-m", "softib.cli.main"]
COMMANDS = {
    "report": [*SOFTIB, "report", str(FABRIC), "--html", "report.html"],
    "up": [*SOFTIB, "up", str(FABRIC), "--detach", "--name", "cold"],
    "check": [*SOFTIB, "check", str(FABRIC)],
    "route": [*SOFTIB, "route", str(FABRIC), "--engine", "ftree"],
}


def cpu() -> float:
    """CPU seconds of the children that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def daemons(folder: Path) -> list[float]:
    """CPU seconds of each softib process that runs with ``folder``."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            line, words = stat.read_text(), (stat.parent / "cmdline").read_bytes()
            ours = b"softib" in words and str(folder).encode() in (stat.parent / "environ").read_bytes()
        except OSError:
            continue
        if ours:
            fields = line.rsplit(")", 1)[1].split()
            found.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    return found


def once(command: str, env: dict[str, str], folder: Path) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one run."""
    before, begin = cpu(), time.perf_counter()
    subprocess.run(COMMANDS[command], cwd=folder, env=env, check=command != "check", capture_output=True)
    wall, extra = time.perf_counter() - begin, 0.0
    if command == "up":
        extra = sum(daemons(folder))
    took = cpu() - before + extra
    if command == "up":
        subprocess.run([*SOFTIB, "down", "cold"], env=env, check=True, capture_output=True)
        end = time.monotonic() + 30
        while daemons(folder) and time.monotonic() < end:
            time.sleep(0.1)
    return wall, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", default=[], choices=[*COMMANDS, []])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    print(f"{'':8}{'cold s':>8}{'CPU s':>8}{'warm s':>8}{'CPU s':>8}{'files':>7}{'KiB':>8}")
    for command in options.commands or COMMANDS:
        folder = Path(tempfile.mkdtemp(prefix="softib-cold-"))
        env = {
            **os.environ,
            "SOFTIB_CACHE_DIR": str(folder / "cache"),
            "XDG_RUNTIME_DIR": str(folder),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *(p for p in [os.environ.get("PYTHONPATH")] if p)]),
        }
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run([sys.executable, "-m", "compileall", "-q", ROOT / "src"], env=env, check=True)
        if options.profile:
            env["COMPILE_TIMERS"] = str(folder / "timers")
            env["PYTHONPATH"] = f"{ROOT / 'bench' / 'compile_timers'}{os.pathsep}{env['PYTHONPATH']}"
        cold, cold_cpu = once(command, env, folder)
        files = [p for p in (folder / "cache").rglob("*") if p.is_file()]
        warm, warm_cpu = once(command, env, folder)
        size = sum(p.stat().st_size for p in files) // 1024
        print(f"{command:8}{cold:8.1f}{cold_cpu:8.1f}{warm:8.2f}{warm_cpu:8.2f}{len(files):7}{size:8}", flush=True)
        if options.profile and (folder / "timers").exists():
            print("".join(f"         {line}\n" for line in (folder / "timers").read_text().splitlines()), end="")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
