"""Training steps against published tables, through ``softib.simulate``: ``python -m bench.validation.training [ROWS]`` updates the tables of docs/evidence/training.md, or prints the named rows.

The two shares of computing are of products on one GPU (section ``gpu`` of ``parameters.yaml``); the page says what was chosen with these rows in view. Narayanan et al., "Efficient Large-Scale Language Model
Training on GPU Clusters Using Megatron-LM", SC 2021: table 1 (weak scaling) and table 2 (ZeRO-3 beside tensor and pipeline parallel), on Selene: DGX A100 of 80 GB, eight HDR adapters each.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import softib

__all__ = ["TABLE_1", "TABLE_2", "Case", "best_constant", "predicted"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "training.md"


class Case(NamedTuple):
    """``size``: thousand million parameters; ``measured``: TFLOP/s a GPU. Table 1 says neither micro-batch nor chunks: the micro-batch is the one of 1 to 16 that the model finds fastest, chunks are
    2 a stage, 3 where its layers are no multiple of 2."""

    size: float
    heads: int
    hidden: int
    layers: int
    tensor: int
    pipeline: int
    gpus: int
    batch: int
    measured: float
    micro_batch: int
    interleave: int = 1
    zero: int = 0

    @property
    def name(self) -> str:
        """Size and GPUs."""
        return f"{self.size:g}B-{self.gpus}" + ("-zero" if self.zero else "")


TABLE_1 = (
    Case(1.7, 24, 2304, 24, 1, 1, 32, 512, 137, 16),
    Case(3.6, 32, 3072, 30, 2, 1, 64, 512, 138, 16),
    Case(7.5, 32, 4096, 36, 4, 1, 128, 512, 142, 16),
    Case(18.4, 48, 6144, 40, 8, 1, 256, 1024, 135, 16),
    Case(39.1, 64, 8192, 48, 8, 2, 512, 1536, 138, 8, 2),
    Case(76.1, 80, 10240, 60, 8, 4, 1024, 1792, 140, 2, 3),
    Case(145.6, 96, 12288, 80, 8, 8, 1536, 2304, 148, 2, 2),
    Case(310.1, 128, 16384, 96, 8, 16, 1920, 2160, 155, 1, 2),
    Case(529.6, 128, 20480, 105, 8, 35, 2520, 2520, 163, 1, 3),
    Case(1008.0, 160, 25600, 128, 8, 64, 3072, 3072, 163, 1, 2),
)
TABLE_2 = (
    Case(174.6, 96, 12288, 96, 1, 1, 384, 1536, 144, 4, zero=3),
    Case(174.6, 96, 12288, 96, 1, 1, 768, 1536, 88, 2, zero=3),
    Case(174.6, 96, 12288, 96, 1, 1, 1536, 1536, 44, 1, zero=3),
    Case(174.6, 96, 12288, 96, 8, 12, 384, 1536, 153, 1, 2),
    Case(174.6, 96, 12288, 96, 8, 12, 768, 1536, 149, 1, 2),
    Case(174.6, 96, 12288, 96, 8, 12, 1536, 1536, 141, 1),
)


@cache
def selene(nodes: int) -> softib.Fabric:
    """Rails of HDR, brought up."""
    made = softib.generate("rail-optimized", nodes=nodes, rails=8, radix=40, generation="HDR", ufm=False)
    return softib.bring_up(made).fabric


def workload(c: Case) -> str:
    """What a user types."""
    return (
        f"training-step:1,machine=a100,layers={c.layers},hidden={c.hidden},heads={c.heads},sequence=2048,vocabulary=51200,batch={c.batch},micro-batch={c.micro_batch},"
        f"tensor={c.tensor},pipeline={c.pipeline},interleave={c.interleave},zero={c.zero},recompute=yes,flash-attention=no,overlap=no,gradient-bytes={2 if c.zero else 4}{',gather-lists=yes' if c.zero else ''}"
    )


def predicted(c: Case) -> dict[str, float]:
    """The figures of the step."""
    run = softib.simulate(selene(c.gpus // 8), workload(c))
    figures: dict[str, float] = run.to_json()["jobs"][0]["training"]
    return figures


def best_constant(cases: tuple[Case, ...]) -> tuple[float, float]:
    """The rate that is closest to all ``cases``, and its mean error."""
    measured = np.array([c.measured for c in cases])
    rates = np.arange(40, 200, 0.5)
    errors = [float(np.mean(np.abs(r / measured - 1))) for r in rates]
    return float(rates[int(np.argmin(errors))]), min(errors)


PARTS = ("compute", "tensor", "bubble", "rest")


def lines(cases: tuple[Case, ...]) -> list[str]:
    """A table of ``cases``."""
    out = [
        "| parameters | GPUs | tensor × pipeline | ZeRO | measured | predicted | error | " + " | ".join(PARTS) + " |",
        "|---|---|---|---|---|---|---|" + "---|" * len(PARTS),
    ]
    errors = []
    for c in cases:
        found = predicted(c)
        error = found["tflops_per_gpu"] / c.measured - 1
        errors.append(abs(error))
        parts = " | ".join(f"{100 * found[f'{p}_us'] / found['step_us']:.1f} %" for p in PARTS)
        out.append(
            f"| {c.size:g} G | {c.gpus:,} | {c.tensor} × {c.pipeline} | {c.zero or ''} | {c.measured} | {found['tflops_per_gpu']:.1f} | {100 * error:+.1f} % | {parts} |"
        )
        print(out[-1], flush=True)
    rate, other = best_constant(cases)
    out += ["", f"Mean error {100 * np.mean(errors):.1f} %; the best constant, {rate:g} TFLOP/s: {100 * other:.1f} %."]
    print(out[-1])
    return out


def replaced(text: str, table: list[str]) -> str:
    """The page's ``text`` with one of its tables, the one of the same first rows, replaced by ``table``: the prose is only there."""
    first = " | ".join(table[2].split(" | ")[:4])
    head, _, rest = text.partition(first)
    begin = head.rindex(table[0])
    end = rest.index("\n", rest.index("Mean error "))
    return head[:begin] + "\n".join(table) + rest[end:]


def main() -> int:
    """Write the page, or print rows."""
    names = sys.argv[1:]
    if names:
        lines(tuple(c for c in (*TABLE_1, *TABLE_2) if c.name in names))
        return 0
    text = PAGE.read_text(encoding="utf-8")
    for cases in (TABLE_1, TABLE_2):
        text = replaced(text, lines(cases))
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
