"""Formulae for computation and communication of a transformer's step. Parameters, operations and
collectives of dense layers: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
Clusters Using Megatron-LM", SC 2021, equations 2 and 3 and section 3.2 (96 B s l h² with recomputed
activations, a quarter of it for the recomputation). Experts: Lepikhin et al., GShard, ICLR 2021: an MLP
of 8 h² parameters each, ``top_k`` of them for a token, two all-to-alls forward and two backward.
"""

from __future__ import annotations

from dataclasses import dataclass

from softib.errors import InputError

__all__ = ["ELEMENT", "Layout", "Network", "Transformer"]

ELEMENT = 2
"""Bytes of an activation and of a weight: bf16."""


@dataclass(frozen=True)
class Transformer:
    """A transformer. ``layers``: their number; ``hidden``: size of the hidden state; ``sequence``: tokens of a
    sequence; ``vocabulary``: its size; ``experts``: number of experts in a layer (0: dense), of which a token uses
    ``top_k``; ``recompute``: activations are recomputed in the backward pass; ``heads``: number of attention heads;
    ``flash_attention``: one kernel computes attention.
    """

    layers: int
    hidden: int
    sequence: int
    vocabulary: int
    experts: int = 0
    top_k: int = 2
    recompute: bool = False
    heads: int = 32
    flash_attention: bool = True

    @property
    def parameters(self) -> float:
        """Return the number of weights: 12 l h² (1 + 13 / 12h + (V + s) / 12 l h); with experts, 8 h²
        of each layer count once per expert."""
        h, layers = self.hidden, self.layers
        dense = 12 * layers * h**2 * (1 + 13 / (12 * h) + (self.vocabulary + self.sequence) / (12 * layers * h))
        return dense + max(self.experts - 1, 0) * 8 * layers * h**2

    def flops(self, sequences: int) -> float:
        """Return the operations of forward and backward pass on B sequences: 72 B s l h² (1 + s / 6h
        + V / 12 l h), a third more if activations are recomputed; an expert's MLP is 16 of the
        24 s h² of a forward layer."""
        h, s, layers = self.hidden, self.sequence, self.layers
        repeats = 4 / 3 if self.recompute else 1.0
        layer = 24 * s * h**2 * (1 + s / (6 * h)) + (16 * s * h**2 * (self.top_k - 1) if self.experts else 0)
        return 3.0 * sequences * (layers * layer * repeats + 2 * s * h * self.vocabulary)

    @property
    def matrices(self) -> int:
        """Return the number of weight matrices: four of each layer (queries, keys and values;
        projection; two of the MLP)."""
        return 4 * self.layers

    def vectors(self, most: int) -> int:
        """Return the number of weight vectors with fewer than ``most`` elements. Each layer has
        weight and bias of two norms and the biases of the four matrices; the last norm has weight
        and bias."""
        of_layer = [*[1] * 6, 3, 4]
        return sum(n * self.hidden < most for n in of_layer) * self.layers + 2 * (self.hidden < most)

    @property
    def activation_octets(self) -> int:
        """Return the number of bytes that one sequence passes from one layer to the next."""
        return self.sequence * self.hidden * ELEMENT


@dataclass(frozen=True)
class Network:
    """A model other than a transformer, for example a CNN. Every GPU has the whole model. ``parameters``: their number;
    ``operations``: those of the forward and backward pass on one sample."""

    parameters: float
    operations: float
    layers: int = 1
    hidden: int = 0
    experts: int = 0
    top_k: int = 1
    recompute: bool = False
    activation_octets: int = 0
    matrices: int = 1

    def vectors(self, most: int) -> int:
        """Return 0, since the shapes of the weights are unknown."""
        return 0

    def flops(self, samples: int) -> float:
        """Return the operations of both passes on ``samples``."""
        return samples * self.operations


@dataclass(frozen=True)
class Layout:
    """Division of the work among ranks: rank = tensor + tensor_size × (data + data_size × pipeline),
    the order of Megatron-LM; expert-parallel groups are neighbours of a data-parallel group. A stage
    has ``interleave`` chunks of layers; chunk c follows chunk c - 1 of all stages.
    """

    tensor: int
    pipeline: int
    data: int
    expert: int
    micro_batches: int
    interleave: int = 1

    @classmethod
    def of(
        cls,
        gpus: int,
        tensor: int,
        pipeline: int,
        expert: int,
        batch: int,
        micro_batch: int,
        model: Transformer | Network,
        interleave: int = 1,
    ) -> Layout:
        """Return the layout of ``gpus``. Raises :class:`InputError`, one line, for sizes that do not
        divide."""
        if gpus % (tensor * pipeline):
            raise InputError(
                f"{gpus:,} GPUs are not a whole number of replicas of tensor {tensor} × pipeline {pipeline}"
            )
        data = gpus // (tensor * pipeline)
        if batch % (data * micro_batch):
            raise InputError(
                f"a batch of {batch:,} is not whole: {data:,} replicas with micro-batches of {micro_batch} "
                f"take multiples of {data * micro_batch:,}"
            )
        if model.experts and model.top_k > model.experts:
            raise InputError(
                f"a token goes to {model.top_k} experts, but a layer has only {model.experts}; use a smaller top-k"
            )
        if model.layers % (pipeline * interleave):
            chunks = f" of {interleave} chunks" if interleave > 1 else ""
            raise InputError(f"{model.layers} layers are not whole for {pipeline} stages{chunks}")
        micro_batches = batch // (data * micro_batch)
        if interleave > 1 and (pipeline == 1 or micro_batches % pipeline):
            raise InputError(
                f"interleave {interleave} needs a pipeline, and micro-batches of a replica ({micro_batches:,}) in "
                f"multiples of its stages ({pipeline})"
            )
        if data % expert or (expert > 1 and (not model.experts or model.experts % expert)):
            raise InputError(
                f"expert {expert} needs experts, and divides their number ({model.experts}) and the replicas ({data:,})"
            )
        return cls(tensor, pipeline, data, expert, micro_batches, interleave)

    @property
    def gpus(self) -> int:
        """Return the number of GPUs."""
        return self.tensor * self.pipeline * self.data

    def gradients(self, model: Transformer | Network) -> tuple[float, float]:
        """Return two numbers of gradients of one rank: of those summed over all replicas, and of those of experts,
        which are summed over ``data / expert`` ranks."""
        here = self.tensor * self.pipeline
        experts = model.experts * 8 * model.layers * model.hidden**2 if model.experts else 0
        return (model.parameters - experts) / here, experts / here / self.expert
