"""The readers for lines of kernels, schedulers and managers: dmesg, Slurm's messages, opensm.log and UFM's event
log."""

from __future__ import annotations

import re

from softib.job_logs.patterns import Reader, pattern

__all__ = ["DEATHS", "KERNEL", "OPENSM", "SHELL", "SLURM", "UFM"]

DEATHS = tuple(
    name
    for names in (
        "Killed, Segmentation fault, Aborted, Bus error",
        "Getötet, Speicherzugriffsfehler, Abgebrochen, Bus-Zugriffsfehler",
        "Processus arrêté, Erreur de segmentation, Abandon, Erreur du bus",  # codespell:ignore processus
        "Terminado (killed), Violación de segmento, Abortado, Error del bus",
        "Ucciso, Errore di segmentazione, Annullato, Errore di bus",
        "Morto, Falha de segmentação, Erro no barramento",  # codespell:ignore erro
        "已杀死, 段错误, 已放弃, 总线错误",
        "強制結束, 程式記憶體區段錯誤, 匯流排錯誤",
        "強制終了, 中止, バスエラー",
        "죽었음, 세그멘테이션 오류, 중지됨, 버스 오류",
        "Убито, Ошибка сегментирования, Аварийный останов, Ошибка шины",
        "Unicestwiony, Naruszenie ochrony pamięci, Przerwane, Błąd szyny",
        "Geëlimineerd, Segmentatiefout, Afgebroken, Busfout",
    )
    for name in names.split(", ")
)
"""The names of the signals KILL, SEGV, ABRT and BUS in thirteen languages (strsignal(3)). TERM is left out, because
other programs send it to end a job after its error."""

_KERNEL_HOST = r"(?:^[A-Z][a-z]{2} +\d+ [\d:]{8} (?P<host>[\w.-]+) kernel: )?"
_FATAL = (
    r"health compromised|unrecoverable hardware|health recovery flow (?:aborted|failed)|Fatal error \d+ detected|"
    r"firmware internal error|status internal error\(0x1\)|mlx5_pci_err_detected|timeout\. Will cause a leak of"
)

KERNEL = Reader(
    "kernel",
    (
        pattern(
            "Link DOWN",
            rf"{_KERNEL_HOST}.*mlx[45]\w* .*?(?P<dev>mlx[45]_\d+|ib\w+)?:? ?(?:Port: \d )?Link DOWN",
            "link-down",
        ),
        pattern("ink down", rf"{_KERNEL_HOST}.*mlx[45]_core [\w:.]+(?: (?P<dev>\w+))?: .*[Ll]ink down", "link-down"),
        pattern("Cable unplugged", rf"{_KERNEL_HOST}.*Port module event: module \d+, Cable unplugged", "link-down"),
        pattern(
            "Port module event[error]",
            rf"{_KERNEL_HOST}.*Port module event\[error\]: module \d+, (?P<detail>.*)",
            "link-errors",
        ),
        # Linux: mlx5's health.c, main.c and cmd.c.
        pattern("mlx5_core", rf"{_KERNEL_HOST}.*mlx5_core.*(?:{_FATAL})", "device-fatal"),
        # Statuses of the adapter's commands (mlx5_ifc.h): limits exceeded, no resources, bad resource.
        pattern(
            "CREATE_",
            rf"{_KERNEL_HOST}.*mlx5_cmd\w+:.*CREATE_(?P<detail>QP|CQ|MKEY|SRQ|DCT)\(.*failed, status "
            rf"(?:limits exceeded|no resources|bad resource)",
            "registration-failed",
        ),
        pattern("dump error cqe", rf"{_KERNEL_HOST}.*(?P<dev>mlx5_\d+): dump_cqe.*dump error cqe", "retry-exceeded"),
        pattern(
            "Out of memory",
            rf"{_KERNEL_HOST}.*Out of memory: Kill(?:ed)? process \d+ \((?P<detail>[^)]*)\)",
            "out-of-memory",
        ),
        pattern("oom-kill", rf"{_KERNEL_HOST}.*oom-kill:.*task=(?P<detail>[^,]*)", "out-of-memory"),
        pattern("NVRM: Xid", rf"{_KERNEL_HOST}.*NVRM: Xid \([^)]*\): (?P<detail>\d+)", "gpu-fault"),
        pattern("segfault at", rf"{_KERNEL_HOST}.*\[\d+\]: (?P<detail>segfault) at", "process-died"),
    ),
)

SLURM = Reader(
    "Slurm",
    (
        pattern("DUE TO TIME LIMIT", r"ON (?P<host>[\w.-]+) CANCELLED AT .* DUE TO TIME LIMIT", "time-limit"),
        pattern("DUE TO NODE FAILURE", r"ON (?P<host>[\w.-]+) CANCELLED AT .* DUE TO NODE FAILURE", "node-failed"),
        pattern("Node failure on", r"Node failure on (?P<host>[\w.-]+)", "node-failed"),
        pattern(
            "Exited with exit code",
            r"srun: error: (?P<host>[\w.-]+): .*Exited with exit code (?P<detail>\d+)",
            "aborted",
        ),
        pattern("JobState=COMPLETED", r"JobState=COMPLETED", ends=1),
        pattern("oom_kill event", r"Detected \d+ oom[_-]kill events?", "out-of-memory"),
        pattern(
            "srun: error:",
            rf"srun: error: (?P<host>[\w.-]+): tasks? [\d,-]+: (?P<detail>{'|'.join(map(re.escape, DEATHS))})",
            "process-died",
        ),
    ),
)

SHELL = Reader(
    "shell",
    (
        # bash prints the line of its script and the process (": line 1: 4711 Killed"); dash prints the text alone.
        *(
            pattern(
                name,
                rf"(?:^(?={re.escape(name)}(?: \([^()]*\))?$)|\d\D{{1,3}} +\d+ )(?P<detail>{re.escape(name)})(?:\W|$)",
                "process-died",
            )
            for name in DEATHS
        ),
        # softib run: 128 + a signal that ends a program from inside (ILL, ABRT, BUS, FPE, SEGV), or KILL
        pattern(
            "ended with exit code",
            r"^softib: \S+ ended with exit code (?P<detail>13[245679]);",
            "process-died",
        ),
    ),
)

OPENSM = Reader(
    "OpenSM",
    (
        pattern(
            "Removed port with GUID",
            r"Removed port with GUID:0x(?P<guid>[0-9a-f]+) LID range (?P<lid_decimal>\d+)",
            "node-left",
        ),
        pattern("GID out of service", r"num:65 \(GID out of service\).*?GID:(?P<gid>[0-9a-f:]+)", "node-left"),
        pattern("num:25", r"num:(?:257|258|259) .*?from LID:(?P<lid_decimal>\d+)", "partition-violation"),
        pattern("Entering MASTER", r"Entering MASTER state", "manager-changed"),
        pattern("Exiting SM", r"Exiting SM", "manager-changed"),
        pattern("num:129", r"num:(?P<detail>129|130|131) .*?from LID:(?P<lid_decimal>\d+)", "link-errors"),
    ),
)

UFM = Reader(
    "UFM",
    (
        pattern("ink went down", r"\[\d+\].*(?:WARNING|CRITICAL|MINOR).*[Ll]ink went down", "node-left"),
        pattern("ink is Down", r"\[329\].*Link is Down", "node-left"),
        pattern("Symbol ", r"\[(?:110|917|918)\].*Symbol (?P<detail>[\w ]+)", "link-errors"),
        pattern("symbol ", r"\[(?:110|917|918)\].*symbol (?P<detail>[\w ]+)", "link-errors"),
        pattern("MASTER SM", r"\[\d+\].*(?:MASTER SM|SM failover|Standby SM)", "manager-changed"),
    ),
)
