"""Megatron-LM's and DeepSpeed's own settings give the step that the same options give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import softib
from softib.errors import InputError
from softib.workloads.file import read_file
from softib.workloads.workload import parse

# pretrain_gpt_distributed_with_mp.sh of Megatron-LM has these names; the values are GPT-3's of Narayanan et al. 2021.
GPT = {
    "--num-layers": 96,
    "--hidden-size": 12288,
    "--num-attention-heads": 96,
    "--seq-length": 2048,
    "--micro-batch-size": 1,
    "--global-batch-size": 1536,
    "--tensor-model-parallel-size": 8,
    "--pipeline-model-parallel-size": 12,
    "--sequence-parallel": None,
    "--use-distributed-optimizer": None,
    "--bf16": None,
    "--lr": 1e-4,
    "--train-iters": 500_000,
    "--clip-grad": 1.0,
}
SAME = "training-step:1,layers=96,hidden=12288,heads=96,sequence=2048,micro-batch=1,batch=1536,tensor=8,pipeline=12,sequence-parallel=yes,zero=1,overlap=no,gradient-bytes=4"


def job(text: str) -> dict[str, Any]:
    return {k: v for k, v in parse(text).jobs[0].key().items() if k not in ("megatron", "deepspeed")}


def test_megatron_s_settings_in_a_file_are_the_options(tmp_path: Path) -> None:
    (tmp_path / "gpt.yaml").write_text(json.dumps(GPT))
    (tmp_path / "work.yaml").write_text("jobs:\n- {pattern: training-step, megatron: gpt.yaml}\n")
    assert job(f"training-step:1,megatron={tmp_path}/gpt.yaml") == job(SAME)
    found = read_file(tmp_path / "work.yaml").jobs[0].key()
    assert {k: v for k, v in found.items() if k != "size"} == {
        k: v for k, v in parse(SAME).jobs[0].key().items() if k != "size"
    }


def test_short_names_run_from_python_and_messages_are_those_of_the_options() -> None:
    fabric = softib.bring_up(softib.generate("rail-optimized", nodes=4, rails=8, radix=32, ufm=False)).fabric
    small = {"layers": 8, "hidden": 2048, "batch": 16}
    took = [
        softib.simulate(fabric, {"pattern": "training-step", **small, **more}).simulated_us
        for more in (
            {"megatron": {"tp": 8, "pp": 2, "vp": 2}},
            {"tensor": 8, "pipeline": 2, "interleave": 2, "overlap": False, "gradient_bytes": 4},
        )
    ]
    assert took[0] == took[1]


def test_deepspeed_s_file_is_the_options(tmp_path: Path) -> None:
    """The keys of DeepSpeed's documentation, "DeepSpeed Configuration JSON"."""
    config = {
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 3,
            "overlap_comm": True,
            "reduce_bucket_size": 5e8,
            "stage3_prefetch_bucket_size": 5e7,
        },
    }
    (tmp_path / "ds_config.json").write_text(json.dumps(config))
    assert job(f"training-step:1,layers=8,deepspeed={tmp_path}/ds_config.json") == job(
        "training-step:1,layers=8,batch=64,micro-batch=2,zero=3,overlap=yes"
    )


def test_layers_of_a_virtual_stage_are_chunks() -> None:
    found = softib.Workload.of(
        {
            "pattern": "training-step",
            "megatron": {
                "num-layers": 48,
                "pp": 4,
                "num-layers-per-virtual-pipeline-stage": 3,
                "recompute-granularity": "full",
            },
        }
    )
    one = found.jobs[0].key()
    assert one["interleave"] == 4 and one["recompute"] is True


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"megatron": {"context-parallel-size": 2}}, "context-parallel-size 2 is not supported"),
        ({"megatron": {"tensor-parallel-size": 2}}, "tensor_parallel_size"),
        ({"megatron": {"tp": 8}, "tensor": 4}, "tensor is given twice"),
        ({"megatron": 3}, "is not a mapping of settings"),
        (
            {"megatron": {"num-layers": 10, "pp": 2, "num-layers-per-virtual-pipeline-stage": 3}},
            "do not divide a stage of 5",
        ),
        ({"megatron": {"tp": "many"}}, "tensor"),
        ({"deepspeed": {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}}}, "offload_optimizer"),
        ({"deepspeed": {"train_batchsize": 4}}, "train_batch_size"),
        ({"megatron": "/nowhere/gpt.yaml"}, "/nowhere/gpt.yaml"),
    ],
)
def test_what_is_not_understood_is_one_line(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        softib.Workload.of({"pattern": "training-step", **settings})
    assert "\n" not in str(refused.value)
