"""Matrix products and attention of transformer layers on one GPU, measured and predicted.

    python -m bench.validation.gpu_products --measure gpu_products.csv     # on a machine with CUDA and PyTorch: two minutes
    python -m bench.validation.gpu_products                                # writes docs/evidence/gpu-products.md from the rows kept beside this file

Nothing of the model was chosen with these rows in view: its two shares are of an A100 (``parameters.yaml``, section ``gpu``). Rows are medians of 20 runs in bf16, whose operands do not fit
into the cache of the GPU together with those of the run before.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Row", "predicted_us", "rows"]

HERE = Path(__file__).resolve().parent
KEPT = HERE / "gpu_products.csv"
PAGE = HERE.parents[1] / "docs" / "evidence" / "gpu-products.md"
SEQUENCE = 2048
HIDDEN = ((2304, 24), (4096, 32), (6144, 48), (8192, 64), (12288, 96))
"""Hidden sizes and heads of published models (Narayanan et al., SC 2021, table 1)."""
TENSOR = (1, 2, 4, 8)
MICRO_BATCH = (1, 2, 4, 8)
RUNS = 20
CACHE = 256 << 20
"""Octets of operands that take turns: several times the cache of any GPU."""


class Row(NamedTuple):
    """One measured time. ``what``: ``product`` of a matrix of ``rows`` × ``depth`` and one of ``depth`` × ``columns``; ``attention``, forward of ``count`` heads of ``depth`` columns over ``rows`` tokens,
    causal mask absent; ``attention-backward``, its gradients; ``gelu`` of ``rows`` × ``columns`` elements, which takes and gives each once."""

    gpu: str
    what: str
    count: int
    rows: int
    columns: int
    depth: int
    us: float


def shapes() -> list[tuple[str, int, int, int, int]]:
    """(what, count, rows, columns, depth) of everything measured, none twice."""
    found: dict[tuple[str, int, int, int, int], None] = {}
    for hidden, heads in HIDDEN:
        for tensor in TENSOR:
            for batch in MICRO_BATCH:
                tokens = batch * SEQUENCE
                for columns, depth in (
                    (3 * hidden // tensor, hidden),
                    (hidden, hidden // tensor),
                    (4 * hidden // tensor, hidden),
                    (hidden, 4 * hidden // tensor),
                ):
                    found["product", 1, tokens, columns, depth] = None
                found["gelu", 1, tokens, 4 * hidden // tensor, 0] = None
                for what in ("attention", "attention-backward"):
                    found[what, batch * heads // tensor, SEQUENCE, SEQUENCE, hidden // heads] = None
    return list(found)


def measure(path: Path) -> None:
    """Measure all shapes and write them as CSV."""
    import torch

    name = torch.cuda.get_device_name(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        for i, (what, count, rows, columns, depth) in enumerate(shapes()):
            make = {"product": product, "gelu": gelu}.get(what, attention)
            us = timed(torch, *make(torch, what, count, rows, columns, depth))
            writer.writerow((name, what, count, rows, columns, depth, f"{us:.2f}"))
            if i % 50 == 0:
                print(f"{i} of {len(shapes())}", file=sys.stderr, flush=True)


def timed(torch: Any, run: Callable[[int], Any], sets: int) -> float:
    """Median µs of a run, the sets of operands taking turns."""
    for i in range(5):
        run(i % sets)
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(RUNS)]
    for i, (begin, end) in enumerate(pairs):
        begin.record()
        run(i % sets)
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in pairs) * 1e3


def product(torch: Any, what: str, count: int, rows: int, columns: int, depth: int) -> tuple[Callable[[int], Any], int]:
    """A run of a product by its set of operands, and how many sets there are."""
    sets = max(2, CACHE // (2 * depth * (rows + columns)))
    sets = min(sets, 8)
    left = [torch.randn(rows, depth, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    right = [torch.randn(columns, depth, device="cuda", dtype=torch.bfloat16).T for _ in range(sets)]
    return (lambda i: left[i] @ right[i]), sets


def gelu(torch: Any, what: str, count: int, rows: int, columns: int, depth: int) -> tuple[Callable[[int], Any], int]:
    """A run of GELU, by its operand."""
    sets = min(8, max(2, CACHE // (4 * rows * columns)))
    taken = [torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    return (lambda i: torch.nn.functional.gelu(taken[i])), sets


def attention(
    torch: Any, what: str, count: int, rows: int, columns: int, depth: int
) -> tuple[Callable[[int], Any], int]:
    """A run of fused attention, forward or backward."""
    from torch.nn.functional import scaled_dot_product_attention

    def drawn() -> Any:
        return torch.randn(1, count, rows, depth, device="cuda", dtype=torch.bfloat16, requires_grad=True)

    sets = [(drawn(), drawn(), drawn()) for _ in range(2)]
    if what == "attention":
        return (lambda i: scaled_dot_product_attention(*(t.detach() for t in sets[i]))), 2
    made = [scaled_dot_product_attention(*one) for one in sets]
    gradient = torch.randn_like(made[0])
    return (lambda i: torch.autograd.grad(made[i], sets[i], gradient, retain_graph=True)), 2


def rows(path: Path = KEPT) -> list[Row]:
    """The measured rows."""
    with path.open(newline="") as file:
        return [
            Row(r["gpu"], r["what"], *(int(r[k]) for k in ("count", "rows", "columns", "depth")), float(r["us"]))
            for r in csv.DictReader(file)
        ]


def predicted_us(row: Row) -> float:
    """The same by the model of ``softib simulate``'s training steps."""
    from softib.workloads.nccl.machine import GPUS
    from softib.workloads.parameters import section
    from softib.workloads.training import compute

    on = compute.Processor(GPUS[next(name for name in GPUS if name in row.gpu)], section("gpu"))
    if row.what == "gelu":
        return on.memory_us(4 * row.rows * row.columns)
    if row.what == "product":
        return on.product_us(row.rows, row.columns, row.depth, row.count)
    forward = 2 * compute._unwritten_us(on, row.rows, row.depth, row.columns, row.count)
    return forward * (2.5 if row.what == "attention-backward" else 1.0)


def errors_of(kept: list[Row]) -> list[float]:
    """Relative error of each prediction."""
    return [predicted_us(row) / row.us - 1 for row in kept]


def tflops(row: Row) -> float:
    """Measured rate."""
    products = {"gelu": 0, "product": 1, "attention": 2, "attention-backward": 5}[row.what]
    return products * 2 * row.count * row.rows * row.columns * row.depth / row.us / 1e6


BANDS = ((0, 30), (30, 100), (100, 300), (300, 1000), (1000, 10**9))
"""Of measured µs."""


def page(kept: list[Row]) -> str:
    """The page of evidence."""
    lines = [
        "# Products and attention on one GPU, measured and predicted",
        "",
        "<!-- written by python -m bench.validation.gpu_products: do not edit -->",
        "",
        f"Measured on one {kept[0].gpu} with PyTorch, bf16, medians of {RUNS} runs (`bench/validation/gpu_products.csv`). Predicted: the times that a training step of `softib simulate` uses for this GPU. No constant of the",
        "model was fitted to these rows: its two shares are of an A100. Shapes are those of the layers of published models, for tensor parallelism of 1 to 8 and micro-batches of 1 to 8 sequences of 2,048 tokens.",
        "Large products are predicted within about a tenth. Attention and memory-bound operations take longer than predicted: PyTorch's kernels reach a smaller share of the data sheet on an H200 than on an A100.",
        "",
        "| what | measured time | rows | measured, median | mean error | mean of absolute errors | worst |",
        "|---|---|---|---|---|---|---|",
    ]
    for what in ("product", "attention", "attention-backward", "gelu"):
        of_kind = [row for row in kept if row.what == what]
        for low, high in (*BANDS, (0, 10**9)):
            band = [row for row in of_kind if low <= row.us < high]
            if not band:
                continue
            errors = errors_of(band)
            span = (
                "all"
                if (low, high) == (0, 10**9)
                else f"{low:,} to {high:,} µs"
                if high < 10**9
                else f"from {low:,} µs"
            )
            rate = (
                f"{statistics.median(map(tflops, band)):.0f} TFLOP/s"
                if what != "gelu"
                else f"{statistics.median(4e-3 * r.rows * r.columns / r.us for r in band):.0f} GB/s"
            )
            mean, size = statistics.mean(errors), statistics.mean(map(abs, errors))
            lines.append(
                f"| {what} | {span} | {len(band)} | {rate} | {mean:+.1%} | {size:.1%} | {max(errors, key=abs):+.1%} |".replace(
                    "%", " %"
                )
            )
    return "\n".join([*lines, ""])


def main(argv: list[str]) -> int:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--measure", metavar="CSV", type=Path)
    chosen = parser.parse_args(argv)
    if chosen.measure:
        measure(chosen.measure)
    else:
        PAGE.write_text(page(rows()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
