"""The fabric file's shape, checked by pydantic. Imported only when a fabric file is read (pydantic takes 0.1 s)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, create_model

__all__ = ["FabricFile"]

Metres = Annotated[float, Field(gt=0, le=40_000, allow_inf_nan=False)]


class Part(BaseModel):
    """Unknown keys are errors in every part."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class Cables(Part):
    """``medium`` auto: the cheapest that reaches; ``length_m`` one number, or one by tier (``leaf-spine: 20``)."""

    medium: StrictStr = "auto"
    length_m: Metres | dict[StrictStr, Metres] | None = None


class _Sm(Part):
    """Options of the subnet manager, under OpenSM's names where it has them.

    ``partitions``, ``root_guid_file``, ``cn_guid_file``, ``io_guid_file`` are files, relative to the fabric file;
    ``node`` is the adapter on which the subnet manager runs.
    """

    engine: StrictStr | None = None
    partitions: StrictStr | None = None
    node: StrictStr | None = None
    priority: Annotated[StrictInt, Field(ge=0, le=15)] | None = None
    lmc: Annotated[StrictInt, Field(ge=0, le=7)] | None = None
    subnet_prefix: Annotated[StrictInt, Field(ge=0, lt=1 << 64)] | None = None
    root_guid_file: StrictStr | None = None
    cn_guid_file: StrictStr | None = None
    io_guid_file: StrictStr | None = None
    data_vls: Annotated[StrictInt, Field(ge=1, le=15)] | None = None
    seed: Annotated[StrictInt, Field(ge=0)] | None = None
    qos: StrictBool | None = None
    congestion_control: StrictBool | None = None
    aggregation: StrictBool | None = None
    qos_policy_file: StrictStr | None = None
    adaptive_routing: Literal["free", "bounded", "off", False] | None = None


QOS_KEYS = tuple(
    f"{prefix}_{name}"
    for prefix in ("qos", "qos_ca", "qos_sw0", "qos_swe", "qos_rtr")
    for name in ("high_limit", "vlarb_high", "vlarb_low", "sl2vl")
)
"""OpenSM's names of QoS options; their values are written as in its options file."""
CC_KEYS = (
    "cc_key", "cc_max_outstanding_mads", "cc_cct",
    *(f"cc_sw_cong_setting_{name}" for name in (
        "control_map", "victim_mask", "credit_mask", "threshold", "packet_size", "credit_starvation_threshold",
        "credit_starvation_return_delay", "marking_rate",
    )),
    *(f"cc_ca_cong_setting_{name}" for name in (
        "port_control", "control_map", "ccti_timer", "ccti_increase", "trigger_threshold", "ccti_min",
    )),
)  # fmt: skip
"""Likewise, of congestion control."""
AR_KEYS = ("ar_sl_mask", "ar_transport_mask", "aggregation_trees", "aggregation_streaming_trees")
Written = StrictStr | StrictInt
_OPTIONS: dict[str, Any] = dict.fromkeys((*QOS_KEYS, *CC_KEYS, *AR_KEYS), (Written | None, None))
Sm: Any = create_model("Sm", __base__=_Sm, __doc__=_Sm.__doc__, **_OPTIONS)


class FabricFile(Part):
    """A whole fabric file. ``topology`` is checked against its kind's parameter table, each fault against its kind."""

    name: StrictStr | None = None
    generation: StrictStr | None = None
    topology: dict[str, Any]
    cables: Cables | None = None
    sm: Sm | None = None
    faults: list[dict[str, Any]] = []


PARTS: dict[tuple[str, ...], type[Part]] = {(): FabricFile, ("cables",): Cables, ("sm",): Sm}
"""Part by its path in the file: where the names of known keys are."""
