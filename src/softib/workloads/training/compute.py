"""Computing time on one GPU: matrix products by their size, all other operations by the bytes that
they read and write. The result of a product is divided into tiles. All multiprocessors together
compute a wave of tiles, and the result is then written to memory (NVIDIA, Matrix Multiplication
Background User's Guide, chapters 2.3 and 3). Operations between products (norms, dropout, softmax,
GELU) are limited by memory: each input and output tensor is moved once. The tensors are those of
Korthikanti et al., MLSys 2023, section 4.1, with the fused kernels of Megatron-LM (softmax with
scale and mask; bias, dropout and sum; bias and GELU).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from softib.workloads.training.model import ELEMENT, Transformer

if TYPE_CHECKING:
    from softib.workloads.nccl.machine import Gpu
    from softib.workloads.parameters import Section
    from softib.workloads.training.model import Network

__all__ = ["Passes", "Processor", "gradient_us", "head_of", "layer_of", "network_of", "optimizer_us"]

TILE = (256, 128)
"""Rows and columns of the tile that a multiprocessor computes at once: the largest tile of cuBLAS.
"""
STATES = 26
"""Bytes that Adam moves for a parameter in addition to its gradient: it reads and writes momentum, variance and weight
in fp32, and writes the weight in bf16."""


@dataclass(frozen=True)
class Passes:
    """Time in µs of a forward and of a backward pass."""

    forward: float = 0.0
    backward: float = 0.0

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def times(self, forward: float, backward: float | None = None) -> Passes:
        """Return the passes with the times multiplied by ``forward`` and ``backward`` (default: ``forward``)."""
        return Passes(self.forward * forward, self.backward * (forward if backward is None else backward))


@dataclass(frozen=True)
class Processor:
    """A GPU. ``flops``: operations per second, including memory accesses, if the user states them. If it is 0, times
    are computed from the size of products and ``values``, section ``gpu`` of the parameters."""

    gpu: Gpu
    values: Section
    flops: float = 0.0

    def product_us(self, rows: float, columns: float, depth: float, count: float = 1.0) -> float:
        """Return the time in µs of ``count`` products of a matrix of ``rows`` × ``depth`` with a matrix of ``depth`` ×
        ``columns``. The tile has the orientation that is faster."""
        if self.flops:
            return 2 * count * rows * columns * depth / self.flops * 1e6
        tall, wide = TILE
        tiles = min(
            math.ceil(count * math.ceil(rows / a) * math.ceil(columns / b)) for a, b in ((tall, wide), (wide, tall))
        )
        waves = math.ceil(tiles / self.gpu.multiprocessors)
        rate = self.gpu.tflops * self.values["product_share"] / self.gpu.multiprocessors
        return 2 * waves * tall * wide * depth / (rate * 1e6) + self.memory_us(ELEMENT * count * rows * columns)

    def memory_us(self, octets: float) -> float:
        """Return the time in µs to read or write ``octets`` bytes."""
        return 0.0 if self.flops else octets / (self.gpu.memory_gbytes * self.values["memory_share"] * 1e3)

    def linear(self, rows: float, columns: float, depth: float, count: float = 1.0) -> Passes:
        """Return the passes of a layer with weights; the backward pass computes the gradients of its
        input and of its weights."""
        back = self.product_us(rows, depth, columns, count) + self.product_us(depth, columns, rows, count)
        return Passes(self.product_us(rows, columns, depth, count), back)

    def moved(self, forward: float, backward: float) -> Passes:
        """Return the passes of an operation that only moves bytes."""
        return Passes(self.memory_us(forward), self.memory_us(backward))


def layer_of(
    model: Transformer,
    tensor: int,
    micro_batch: int,
    on: Processor,
    *,
    expert: int = 1,
    sequence_parallel: bool = False,
) -> Passes:
    """Return the computing time of the passes of one layer for ``micro_batch`` sequences, on one of the ``tensor`` GPUs
    that share the layer."""
    tokens, h = micro_batch * model.sequence, model.hidden
    heads, size = max(1.0, model.heads / tensor), h / model.heads
    units = tokens * h  # elements of a hidden state
    split = tensor if sequence_parallel else 1
    dense = on.linear(tokens, 3 * h / tensor, h) + on.linear(tokens, h, h / tensor)
    dense += on.moved(4 * units / tensor, 4 * units / tensor)  # the heads' results are placed side by side
    norms = on.moved((8 + 14) * units / split, (12 + 10) * units / split)  # two norms, two sums of bias and dropout
    return dense + norms + _attention(model, heads, size, micro_batch, on) + _mlp(model, tensor, tokens, expert, on)


def _attention(model: Transformer, heads: float, size: float, micro_batch: int, on: Processor) -> Passes:
    """Return the passes of attention: the scores, and the values weighted with them. A fused kernel (FlashAttention)
    does not write the scores to memory."""
    s, count = model.sequence, heads * micro_batch
    if model.flash_attention:
        one = 2 * _unwritten_us(on, s, size, s, count)
        return Passes(one, 2.5 * one)  # recompute the scores, and two products for each of the two (Dao et al. 2022)
    pair = on.product_us(s, s, size, count) + on.product_us(s, size, s, count)
    softmax, dropout = 4, 5
    return Passes(pair, 2 * pair) + on.moved((softmax + dropout) * count * s * s, (6 + dropout) * count * s * s)


def _unwritten_us(on: Processor, rows: float, columns: float, depth: float, count: float) -> float:
    """Return the time in µs of products whose results stay on the chip."""
    return on.product_us(rows, columns, depth, count) - on.memory_us(ELEMENT * count * rows * columns)


def _mlp(model: Transformer, tensor: int, tokens: float, expert: int, on: Processor) -> Passes:
    """Return the passes of the MLP, or of the experts on one of ``expert`` GPUs. A token uses ``top_k`` experts."""
    h, wide = model.hidden, 4 * model.hidden / tensor
    rows, count = tokens, 1.0
    if model.experts:
        count = model.experts / expert
        rows = tokens * model.top_k / count
    both = on.linear(rows, wide, h, count) + on.linear(rows, h, wide, count)
    return both + on.moved(4 * rows * count * wide, 6 * rows * count * wide)  # GELU with its bias


def head_of(model: Transformer, tensor: int, micro_batch: int, on: Processor) -> Passes:
    """Return the passes of logits and loss, which only the last stage computes."""
    tokens, columns = micro_batch * model.sequence, model.vocabulary / tensor
    entropy = on.moved(6 * tokens * columns, 6 * tokens * columns)  # logits in fp32 in addition to those in bf16
    return on.linear(tokens, columns, model.hidden) + entropy


def network_of(model: Network, samples: int, on: Processor) -> Passes:
    """Return the passes of a model with a known number of operations. A third of them belongs to the forward pass."""
    took = model.flops(samples) / on.flops * 1e6
    return Passes(took / 3, took * 2 / 3)


def gradient_us(parameters: float, octets: int, on: Processor) -> float:
    """Return the time in µs in which the gradients of a micro-batch (``octets`` bytes each) are added to the gradients
    of the step."""
    return on.memory_us(parameters * (ELEMENT + 2 * octets))


def optimizer_us(parameters: float, octets: int, on: Processor) -> float:
    """Return the time in µs of the optimizer for ``parameters`` parameters with gradients of ``octets`` bytes."""
    return on.memory_us(parameters * (STATES + octets))
