"""Settings of Megatron-LM and DeepSpeed as options of a training step.

Names are those of Megatron-LM's command line (``--tensor-model-parallel-size``, with or without the
dashes in front, or ``tp``) and of DeepSpeed's configuration file. A setting that changes a step, but that the model
does not have, is an error. Settings without an effect on a step (data, logging, learning rate) are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softib.errors import InputError, UnknownName

__all__ = ["with_settings"]

MEGATRON = {
    "tensor_model_parallel_size": "tensor",
    "tp": "tensor",
    "pipeline_model_parallel_size": "pipeline",
    "pp": "pipeline",
    "expert_model_parallel_size": "expert",
    "ep": "expert",
    "num_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "seq_length": "sequence",
    "vocab_size": "vocabulary",
    "padded_vocab_size": "vocabulary",
    "micro_batch_size": "micro_batch",
    "mbs": "micro_batch",
    "global_batch_size": "batch",
    "gbs": "batch",
    "num_experts": "experts",
    "moe_router_topk": "top_k",
    "sequence_parallel": "sequence_parallel",
    "virtual_pipeline_model_parallel_size": "interleave",
    "vp": "interleave",
    "overlap_grad_reduce": "overlap",
    "use_flash_attn": "flash_attention",
}
DERIVED = (
    "num_layers_per_virtual_pipeline_stage",
    "use_distributed_optimizer",
    "recompute_granularity",
    "recompute_activations",
    "accumulate_allreduce_grads_in_fp32",
    "bf16",
    "fp16",
)
ONLY_1 = ("context_parallel_size", "cp", "expert_tensor_parallel_size", "etp")
"""Settings of kinds of parallelism that the model does not have: they must be 1."""
CHANGES = re.compile(r"parallel|_size$|overlap|recompute|^moe_|expert|checkpoint_activations|group_query|fp8")
"""Names of settings of Megatron-LM that may change a step. An unknown setting with such a name is an error."""
DEEPSPEED = {"train_batch_size": "batch", "train_micro_batch_size_per_gpu": "micro_batch"}
IGNORED = {
    "optimizer",
    "scheduler",
    "steps_per_print",
    "wall_clock_breakdown",
    "gradient_clipping",
    "bf16",
    "fp16",
    "zero_allow_untested_optimizer",
    "gradient_accumulation_steps",
    "prescale_gradients",
    "dump_state",
    "tensorboard",
    "wandb",
    "csv_monitor",
    "comms_logger",
    "flops_profiler",
    "checkpoint",
    "zero_force_ds_cpu_optimizer",
    "seed",
    "data_types",
}
"""Keys of DeepSpeed's file that are ignored, because they have no effect on a step or follow from other keys."""
ZERO_IGNORED = re.compile(r"bucket_size|^stage3_|contiguous_gradients|round_robin|sub_group_size|^reduce_scatter$")


def with_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options ``given`` of a job, with ``megatron`` and ``deepspeed`` converted to
    options. Raises :class:`InputError` for settings that are not in the model, or given twice."""
    merged = dict(given)
    for name, read in (("megatron", _megatron), ("deepspeed", _deepspeed)):
        settings = merged.pop(name, None)
        if settings is None:
            continue
        for key, value in read(_mapping(name, settings)).items():
            if key in merged:
                raise InputError(f"{key.replace('_', '-')} is given twice: also in the settings of {name}")
            merged[key] = value
    return merged


def _mapping(name: str, settings: Any) -> dict[str, Any]:
    if isinstance(settings, str):
        from softib.plain_yaml import load_yaml

        settings = load_yaml(Path(settings), f"file of settings of {name}", "name: value").data
    if not isinstance(settings, Mapping):
        raise InputError(
            f"{name}: {settings!r} is not a mapping of settings; use a mapping or the name of a YAML or JSON file"
        )
    return {str(k).lstrip("-").replace("-", "_"): v for k, v in settings.items()}


def _on(value: Any) -> bool:
    """Return whether a flag is on; a flag without a value is on."""
    return value is None or str(value).lower() in ("true", "yes", "1", "on")


def _megatron(s: dict[str, Any]) -> dict[str, Any]:
    flags = ("sequence_parallel", "overlap_grad_reduce", "use_flash_attn")
    settings: dict[str, Any] = {"overlap": False, "gradient_bytes": 4}
    for key, value in s.items():
        if key in MEGATRON:
            settings[MEGATRON[key]] = _on(value) if key in flags else value
        elif key in ONLY_1:
            if str(value) != "1":
                raise InputError(f"megatron: {key.replace('_', '-')} {value} is not supported; use 1")
        elif key not in DERIVED and CHANGES.search(key):
            raise UnknownName("supported setting of Megatron-LM", key, [*MEGATRON, *DERIVED, *ONLY_1])
    if _on(s.get("fp16", False)) and not _on(s.get("accumulate_allreduce_grads_in_fp32", False)):
        settings["gradient_bytes"] = 2
    if _on(s.get("use_distributed_optimizer", False)):
        settings["zero"] = 1
    if s.get("recompute_granularity") == "full":
        settings["recompute"] = True
    if "num_layers_per_virtual_pipeline_stage" in s:
        chunk = _whole(s, "num_layers_per_virtual_pipeline_stage")
        stage = _whole(settings, "layers") // _whole({"pipeline": 1} | settings, "pipeline")
        if chunk < 1 or stage % chunk:
            raise InputError(f"megatron: chunks of {chunk} layers do not divide a stage of {stage}")
        settings["interleave"] = stage // chunk
    return settings


def _whole(s: Mapping[str, Any], key: str) -> int:
    value = s.get(key)
    if not str(value).isdecimal():
        raise InputError(f"megatron: {key.replace('_', '-')} is {value}; use a whole number")
    return int(str(value))


def _deepspeed(s: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, value in s.items():
        if key in DEEPSPEED:
            settings[DEEPSPEED[key]] = value
        elif key == "zero_optimization":
            settings |= _zero(value)
        elif key not in IGNORED:
            raise UnknownName("supported setting of DeepSpeed", key, [*DEEPSPEED, "zero_optimization", *IGNORED])
    return settings


def _zero(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"deepspeed: zero_optimization {value!r} is not a mapping; use for example {{stage: 3}}")
    settings: dict[str, Any] = {}
    for key, of in value.items():
        if key == "stage":
            settings["zero"] = of
        elif key == "overlap_comm":
            settings["overlap"] = _on(of)
        elif not ZERO_IGNORED.search(str(key)):
            raise UnknownName("supported setting of zero_optimization", str(key), ["stage", "overlap_comm"])
    return settings
