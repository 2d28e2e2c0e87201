"""A list of cables, printed in the forms of the stock tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from softib.diags.check import check
from softib.diags.finding import Finding
from softib.fabric.formats.registry import read

LEAVES, HOSTS, SPINES = 8, 8, 4
RATES = {"EDR": "25.78125", "HDR": "53.125"}


def lanes(rate: str) -> str:
    """``1xHDR`` of ``1x HDR``, ``4xEDR`` of ``EDR``."""
    return rate.replace(" ", "") if "x " in rate else f"4x{rate}"


@dataclass
class Site:
    """Cables as (node, port) → (node, port), printed as the stock tools do."""

    ports: dict[str, int] = field(default_factory=dict)
    cables: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    rate: dict[tuple[str, int], str] = field(default_factory=dict)
    could: set[tuple[str, int]] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    """Adapters whose port is listed without a link."""

    def join(self, a: tuple[str, int], b: tuple[str, int], rate: str = "HDR") -> None:
        self.cables |= {a: b, b: a}
        self.rate |= {a: rate, b: rate}

    def guid(self, node: str, port: int = 0) -> int:
        return 0xB83FD20300000000 + 16 * (1 + list(self.ports).index(node)) + port

    def lid(self, node: str, port: int) -> int:
        at = 2 * list(self.ports).index(node) + 1
        return at if self.ports[node] > 2 else at + port - 1

    def ibnetdiscover(self) -> str:
        out = []
        for node, count in self.ports.items():
            switch = count > 2
            kind, letter = ("Switch", "S") if switch else ("Ca", "H")
            out.append(f"vendid=0x2c9\ndevid={'0xd2f0' if switch else '0x101b'}\nsysimgguid={self.guid(node):#x}")
            out.append(f"{'switch' if switch else 'ca'}guid={self.guid(node):#x}({self.guid(node):x})")
            tail = f"base port 0 lid {self.lid(node, 0)} lmc 0" if switch else ""
            out.append(f'{kind}\t{count} "{letter}-{self.guid(node):016x}"\t\t# "{node}" {tail}')
            for (a, port), (b, peer) in self.cables.items():
                if a == node:
                    to = "S" if self.ports[b] > 2 else "H"
                    own = "" if switch else f"({self.guid(node, port):x})"
                    far = "" if to == "S" else f"({self.guid(b, peer):x})"
                    note = (
                        f'lid {self.lid(node, port)} lmc 0 "{b}" lid {self.lid(b, peer)}'
                        if not switch
                        else f'"{b}" lid {self.lid(b, peer)}'
                    )
                    out.append(
                        f'[{port}]{own}\t"{to}-{self.guid(b):016x}"[{peer}]{far}\t\t# {note} {lanes(self.rate[a, port])}'
                    )
            out.append("")
        return "\n".join(out)

    def iblinkinfo(self) -> str:
        out = []
        for node, count in self.ports.items():
            switch = count > 2
            out.append(f"Switch: {self.guid(node):#018x} {node}:" if switch else f"CA: {node}:")
            for port in range(1, count + 1):
                begin = f"{self.lid(node, port):>8} {port:>4}[  ] =="
                begin = begin if switch else f"      {self.guid(node, port):#018x} {begin}"
                if (node, port) in self.cables:
                    b, peer = self.cables[node, port]
                    width, speed = lanes(self.rate[node, port]).upper().split("X")
                    now = f"( {width}X {RATES[speed]:>15} Gbps Active/  LinkUp)"
                    could = " Could be 53.125 Gbps" if (node, port) in self.could else " "
                    out.append(f'{begin}{now}==> {self.lid(b, peer):>6} {peer:>4}[  ] "{b}" ({could})')
                elif switch or node in self.down:
                    out.append(f'{begin}(                Down/ Polling)==>             [  ] "" ( )')
        return "\n".join(out) + "\n"

    def findings(self, form: str, folder: Path) -> list[Finding]:
        path = folder / f"site.{form}"
        path.write_text(getattr(self, form)())
        return check(read(path).fabric)


def site(adapter_ports: int = 1) -> Site:
    """Leaves in pairs if adapters have two ports: one port in each of the pair."""
    s = Site()
    hosts = LEAVES // adapter_ports * HOSTS
    s.ports |= {f"spine-{i}": 36 for i in range(1, SPINES + 1)} | {f"leaf-{i}": 36 for i in range(1, LEAVES + 1)}
    s.ports |= {f"host-{i:03} mlx5_0": adapter_ports for i in range(1, hosts + 1)}
    for host in range(hosts):
        for port in range(1, adapter_ports + 1):
            leaf = host // HOSTS * adapter_ports + port
            s.join((f"leaf-{leaf}", host % HOSTS + 1), (f"host-{host + 1:03} mlx5_0", port))
    for leaf in range(LEAVES):
        for spine in range(SPINES):
            for k in (1, 2):
                s.join((f"leaf-{leaf + 1}", HOSTS + 2 * spine + k), (f"spine-{spine + 1}", 2 * leaf + k))
    return s
