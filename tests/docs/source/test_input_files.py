"""No module opens a file of a user's in a way of its own: :mod:`softib.input_files` reads all of them, and bounds what it takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import softib

ROOT = Path(softib.__file__).parent
READS = {
    "read_text",
    "read_bytes",
    "fdopen",
    "mmap",
    "memmap",
    "fromfile",
    "loadtxt",
    "genfromtxt",
    "read_csv",
    "read_json",
    "load_workbook",
    "ZipFile",
}
"""Calls that read a file whatever their arguments are."""
_WORDS = re.compile(rf"\b(?:open|gzip|bz2|lzma|zipfile|tarfile|{'|'.join(sorted(READS))})\b")
UNPACKERS = {"gzip", "bz2", "lzma", "zipfile", "tarfile"}

OF_SOFTIB = {
    "monitor/prometheus_answers.py": (1, "an address, by HTTP alone, with limits of its own"),
    "input_files.py": (6, "the reader itself"),
    "fabric/formats/cabling/sheet.py": (5, "a workbook, in bytes that the reader gave"),
    # What softib ships with itself, below its own folder.
    "diags/cable_rules/thresholds.py": (1, "thresholds.yaml"),
    "fabric/formats/cabling/headings.py": (1, "headings.yaml"),
    "plan/price_book.py": (1, "prices.yaml"),
    "workloads/parameters.py": (1, "parameters.yaml"),
    "workloads/trust.py": (1, "measured.yaml"),
    "workloads/mpi/decision.py": (1, "decision.yaml"),
    "host_facts/support_matrix.py": (1, "support_matrix.toml"),
    "api/stack.py": (3, "the collector's script, and archives in bytes that the reader gave"),
    "render/html.py": (2, "templates"),
    "web/app.py": (1, "static pages"),
    "iba/catalogue/__init__.py": (1, "the catalogue of devices"),
    "api/labs/exercise.py": (1, "the laboratories"),
    "live/recording.py": (3, "a C header"),
    "live/c_header.py": (2, "C headers"),
    "jit/identity.py": (2, "sources of kernels"),
    "cli/shared/process.py": (1, "/dev/null in place of a closed stream"),
    "extras.py": (1, "metadata of the installation"),
    # What softib wrote itself, below the cache or the folder of a running fabric.
    "jit/store.py": (1, "compiled kernels"),
    "jit/accelerators.py": (1, "a pipe of its own child"),
    "api/machine.py": (1, "the output of its own child"),
    "api/running/serving.py": (2, "the log of a daemon that it started, and a pipe of its own child"),
    "api/running/ci_result.py": (1, "the output of its own child"),
    "analysis/acceptance/baseline.py": (1, "a temporary file"),
    "monitor/history_tables.py": (1, "the history that an exporter wrote"),
    "monitor/sharding/shared_discovery.py": (1, "the discovery that an exporter wrote"),
    "live/shared_fabric.py": (4, "the mapping of a running fabric"),
    "live/verbs/shared_heap.py": (2, "the mapping of a running fabric"),
    "api/labs/lab.py": (1, "a number that it writes"),
    "live/internal_sm/guid2lid.py": (1, "a file that it writes"),
    "live/crash_log.py": (1, "a log that it writes"),
    "live/sa_client.py": (1, "a descriptor that the daemon handed over"),
    "live/sysfs/node_desc.py": (1, "a file that it made"),
    # The kernel's files, and programs that are started.
    "live/proc.py": (4, "/proc"),
    "live/sysfs/node_profile.py": (2, "/sys and /proc"),
    "host_facts/sysfs.py": (1, "/sys"),
    "live/launch/doctor.py": (1, "/sys"),
    "live/launch/tuning.py": (1, "the first bytes of a program"),
    "ulp/nvmeof/rdma.py": (1, "memory of queues"),
    "ulp/ipoib/network.py": (1, "the log of a program that it started"),
    "live/launch/executable.py": (1, "the first bytes of a program"),
    "live/launch/preload.py": (1, "a program"),
    "live/umad_client/libc.py": (1, "/sys"),
}
"""Module → how often it opens another file than a user's input, and what."""


def openings(path: Path) -> Iterator[int]:
    """Lines that open a file to read it."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if _WORDS.search(text) else ():
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            if UNPACKERS & {n.split(".")[0] for n in names}:
                yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        receiver = getattr(node.func, "value", None)
        of = getattr(receiver, "id", getattr(receiver, "attr", ""))
        if name == "read_text" and isinstance(node.func, ast.Name):
            continue  # softib.input_files.read_text
        if name in READS and of not in ("kernels", "kernel"):
            yield node.lineno
        if name == "open" and of not in ("os", "sa_manager"):
            method = isinstance(node.func, ast.Attribute) and of not in ("io", "codecs")
            mode = node.args[0 if method else 1] if len(node.args) > (0 if method else 1) else None
            mode = next((k.value for k in node.keywords if k.arg == "mode"), mode)
            if not (isinstance(mode, ast.Constant) and isinstance(mode.value, str) and mode.value[:1] in "wax"):
                yield node.lineno


def test_every_file_of_a_user_is_read_through_the_bounded_reader() -> None:
    found = {str(p.relative_to(ROOT)): list(openings(p)) for p in sorted(ROOT.rglob("*.py"))}
    readers = {name: lines for name, lines in found.items() if lines and not name.startswith("preload/build")}
    strangers = {name: lines for name, lines in readers.items() if len(lines) > OF_SOFTIB.get(name, (0, ""))[0]}
    assert not strangers, f"read these with softib.input_files: {strangers}"
    gone = [name for name, (count, _) in OF_SOFTIB.items() if len(readers.get(name, ())) != count]
    assert not gone, f"these open fewer files than the table says: {gone}"
