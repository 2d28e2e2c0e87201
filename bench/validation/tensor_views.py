"""Processor time of a view of a tensor in Python, as ZeRO stage 3 of DeepSpeed makes one for each rank: ``python -m bench.validation.tensor_views`` prints µs (needs torch)."""

from __future__ import annotations

import sys
import time

RANKS, PIECE, ROUNDS = 1536, 8, 20


def main() -> int:
    """Print the least and the median of some rounds."""
    import torch

    flat = torch.zeros(PIECE * RANKS)
    parts = [flat.narrow(0, PIECE * i, PIECE) for i in range(RANKS)]
    took = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for i in range(RANKS):
            parts[i].narrow(0, 0, PIECE)
            flat.view(-1).narrow(0, PIECE * i, PIECE)
        took.append((time.process_time() - begin) / RANKS / 3 * 1e6)
    print(f"torch {torch.__version__}: {min(took):.2f} us, median {sorted(took)[ROUNDS // 2]:.2f} us for a view")
    return 0


if __name__ == "__main__":
    sys.exit(main())
