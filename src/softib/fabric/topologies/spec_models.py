"""Schema of the fabric file, which pydantic checks. This module is imported only when a fabric file
is read, because the import of pydantic takes 0.1 s."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, create_model, field_validator

from softib.fabric.topologies.params import Kind, Parameter
from softib.fabric.topologies.registry import kinds

__all__ = ["FabricFile", "fabric_schema"]

Metres = Annotated[float, Field(gt=0, le=40_000, allow_inf_nan=False)]


class Part(BaseModel):
    """Base class of each part of the file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class Cables(Part):
    """Cables. ``medium: auto`` selects the cheapest medium that is long enough. ``length_m`` is one
    number, or a number for each tier (``leaf-spine: 20``)."""

    medium: StrictStr = Field("auto", description="auto (by length), DAC, ACC, AOC, MMF, SMF or backplane")
    length_m: Metres | dict[StrictStr, Metres] | None = Field(
        None, description="metres: one number, or one for each tier, for example {host-leaf: 2, leaf-spine: 20}"
    )


class _Sm(Part):
    """Options of the subnet manager, with OpenSM's name if OpenSM has the option.

    ``partitions``, ``root_guid_file``, ``cn_guid_file``, ``io_guid_file``, ``torus_config``,
    ``lfts_file`` are file names, relative to the fabric file; ``node`` is the adapter on which the
    subnet manager runs.
    """

    engine: StrictStr | None = Field(None, description="routing engine by OpenSM's name, or a comma-separated list")
    partitions: StrictStr | None = Field(None, description="file in the format of OpenSM's partitions.conf")
    node: StrictStr | None = Field(
        None,
        description=(
            "adapter on which the subnet manager runs; by default the first host with a cable, in the largest part"
        ),
    )
    priority: Annotated[StrictInt, Field(ge=0, le=15)] | None = Field(None, description="priority of SMInfo")
    lmc: Annotated[StrictInt, Field(ge=0, le=7)] | None = Field(None, description="LID mask control of every CA port")
    subnet_prefix: Annotated[StrictInt, Field(ge=0, lt=1 << 64)] | None = Field(
        None, description="upper half of every GID; by default 0xfe80000000000000"
    )
    root_guid_file: StrictStr | None = Field(
        None, description="file of NodeGUIDs of the top switches (updn, dnup, ftree)"
    )
    cn_guid_file: StrictStr | None = Field(None, description="file of PortGUIDs of the compute nodes (ftree)")
    io_guid_file: StrictStr | None = Field(None, description="file of PortGUIDs of I/O nodes (ftree)")
    torus_config: StrictStr | None = Field(None, description="torus-2QoS.conf of engine torus-2QoS")
    lfts_file: StrictStr | None = Field(None, description="tables of engine file, in the format of dump_lfts")
    pgrp_policy_file: StrictStr | None = Field(None, description="port groups of engine chain")
    topo_policy_file: StrictStr | None = Field(None, description="parts of the fabric for engine chain")
    rch_policy_file: StrictStr | None = Field(None, description="steps of engine chain: which engine routes which part")
    nue_max_num_vls: Annotated[StrictInt, Field(ge=0, le=15)] | None = Field(
        None, description="VLs that nue uses; 0: as many as it needs"
    )
    data_vls: Annotated[StrictInt, Field(ge=1, le=15)] | None = Field(
        None,
        description=(
            "data VLs that lash, dfsssp and nue may use; by default as many as all links between switches support"
        ),
    )
    seed: Annotated[StrictInt, Field(ge=0)] | None = Field(None, description="reserved; an error today")
    qos: StrictBool | None = Field(None, description="programs SLtoVL and VL arbitration tables and VLHighLimit")
    congestion_control: StrictBool | None = Field(None, description="programs congestion control (IBA annex A10)")
    adaptive_routing: Literal["free", "bounded", "off", False] | None = Field(
        None, description="adaptive routing of the switches: free, bounded or off"
    )
    aggregation: StrictBool | None = Field(
        None, description=("sets up aggregation trees over the aggregation nodes for jobs")
    )
    link_policy_file: StrictStr | None = Field(None, description="file of widths and speeds that ports may train to")
    qos_policy_file: StrictStr | None = Field(None, description="file in the format of OpenSM's qos-policy.conf")
    prefix_routes_file: StrictStr | None = Field(
        None, description="file in the format of OpenSM's prefix-routes.conf: routers to other subnets"
    )


QOS_KEYS = tuple(
    f"{prefix}_{name}"
    for prefix in ("qos", "qos_ca", "qos_sw0", "qos_swe", "qos_rtr")
    for name in ("high_limit", "vlarb_high", "vlarb_low", "sl2vl")
)
"""QoS options, with OpenSM's names. Values are written as in OpenSM's options file."""
CC_KEYS = (
    "cc_key",
    "cc_max_outstanding_mads",
    "cc_cct",
    *(
        f"cc_sw_cong_setting_{name}"
        for name in (
            "control_map",
            "victim_mask",
            "credit_mask",
            "threshold",
            "packet_size",
            "credit_starvation_threshold",
            "credit_starvation_return_delay",
            "marking_rate",
        )
    ),
    *(
        f"cc_ca_cong_setting_{name}"
        for name in (
            "port_control",
            "control_map",
            "ccti_timer",
            "ccti_increase",
            "trigger_threshold",
            "ccti_min",
        )
    ),
)
"""Options of congestion control, with OpenSM's names. Values are written as in OpenSM's options
file."""
LINK_KEYS = (
    "m_key",
    "m_key_lease_period",
    "m_key_protection_level",
    "force_link_speed",
    "force_link_speed_ext",
    "force_link_width",
    "flap_threshold",
    "flap_window",
    "flap_pause",
    "fdr10",
    "babbling_threshold",
    "lft_drain_time",
)
LINK_SWITCHES = ("m_key_lookup", "babbling_port_policy", "lft_discard", "local_repair")
AR_KEYS = ("ar_sl_mask", "ar_transport_mask", "aggregation_trees", "aggregation_streaming_trees")
Written = StrictStr | StrictInt
_OPTIONS: dict[str, Any] = {
    key: (Written | None, Field(None, description=f"OpenSM's option for {about}, as in its options file"))
    for keys, about in (
        (QOS_KEYS, "QoS"),
        (CC_KEYS, "congestion control"),
        (AR_KEYS, "adaptive routing"),
        (LINK_KEYS, "keys and links"),
    )
    for key in keys
}
_OPTIONS |= {
    key: (StrictBool | None, Field(None, description="option for keys and links, as in the options file"))
    for key in LINK_SWITCHES
}
Sm: Any = create_model("Sm", __base__=_Sm, __doc__=_Sm.__doc__, **_OPTIONS)


class VirtualPorts(Part):
    """Virtual functions of a host's ports."""

    functions: Annotated[StrictInt, Field(ge=1, le=255)] = Field(
        description="virtual functions of each port of the host"
    )
    lid_required: StrictBool = Field(
        False, description=("each gets a separate LID; otherwise all share their port's LID")
    )


Positive = Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]


class HostCosts(Part):
    """Message costs of a host. Missing values are the defaults of its adapter's generation."""

    pcie: Annotated[StrictStr, Field(pattern=r"^gen[1-6]x(1|2|4|8|16|32)$")] | None = Field(
        None, description="host interface of the adapters, for example gen4x16; a narrow one limits their data rate"
    )
    program_ns: Positive | None = Field(
        None, description="ns that a program takes to detect a message and post the next one; more in a virtual machine"
    )
    post_ns: Positive | None = Field(
        None, description="ns of CPU time for a work request: the inverse of a program's message rate"
    )
    fetch_ns: Positive | None = Field(
        None, description="ns from the doorbell until payload that is not inline begins to arrive"
    )
    message_gap_ns: Positive | None = Field(
        None, description="ns between two requests of a port: the inverse of the adapter's message rate"
    )
    copy_gbytes: Positive | None = Field(None, description="GB/s at which ranks of one host copy from one to another")
    switch_ns: Positive | None = Field(None, description="ns that the switches between hosts add, from port to port")


class FabricFile(Part):
    """A complete fabric file. ``topology`` is checked against the parameters of its kind, and each
    fault against the keys of its kind."""

    name: StrictStr | None = Field(None, description="name of the fabric; by default that of the kind")
    generation: StrictStr | None = Field(
        None,
        description=(
            "link speed of all devices unless set otherwise: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR (default), XDR"
        ),
    )
    data_vls: Literal[1, 2, 4, 8, 15] | None = Field(
        None,
        description=(
            "data VLs of every port, 1, 2, 4, 8 or 15 (PortInfo VLCap); by default 8, or the value of an imported file"
        ),
    )
    firmware: Literal["strict", "lenient"] | None = Field(
        None,
        description=(
            "strict: switches report the extended speeds of a port only to managers that set "
            "SMSupportExtendedSpeeds; lenient (default): to all"
        ),
    )
    network: Literal["infiniband", "roce"] = Field(
        "infiniband",
        description=(
            "link layer of the hosts' adapters as programs see it (softib run): infiniband (default), or roce: "
            "Ethernet, with GIDs of RoCE v1 and v2"
        ),
    )
    topology: dict[str, Any]
    cables: Cables | None = Field(None, description="length and medium of the cables")
    sm: Sm | None = Field(None, description="options of the subnet manager")
    virtual_ports: dict[StrictStr, Annotated[StrictInt, Field(ge=1, le=255)] | VirtualPorts] | None = Field(
        None,
        description=(
            "virtual functions of hosts' ports, by host (* and ? fit any name; the last match counts): a number, or "
            "{functions: N, lid_required: true}; by default none"
        ),
    )
    hosts: HostCosts | None = Field(None, description="host costs of messages (softib simulate)")
    faults: list[dict[str, Any]] = Field([], description="faults to plant, in this order")

    @field_validator("faults", mode="before")
    @classmethod
    def _none(cls, faults: Any) -> Any:
        """Return an empty list for None, which YAML gives if every line of the list is commented
        out."""
        return [] if faults is None else faults


PARTS: dict[tuple[str, ...], type[Part]] = {(): FabricFile, ("cables",): Cables, ("sm",): Sm, ("hosts",): HostCosts}
"""Part by its path in the file. Error messages list the keys of a part."""


DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES = {
    "whole": ("integer",),
    "list": ("array",),
    "whole or list": ("integer", "array"),
    "ratio": ("number", "string"),
    "yes/no": ("boolean",),
    "text": ("string",),
}
"""JSON types by form of a parameter."""
IMPORT = {"type": "object", "required": ["import"], "properties": {"import": {"type": "string"}}}
OF_THE_FILE = ("name", "generation")
"""Parameters of every kind that are at the top level of the file."""


def fabric_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12). It has the same keys, types and bounds as
    :func:`softib.fabric.topologies.spec.load_fabric_yaml`. Only that function checks conditions on
    several values, for example whether the radix is large enough for the hosts."""
    schema = FabricFile.model_json_schema()
    schema["properties"]["topology"] = {"oneOf": [*map(_kind, kinds().values()), IMPORT]}
    schema["properties"]["import"] = {"type": "string", "description": "short for topology: {import: FILE}"}
    del schema["required"]
    schema["oneOf"] = [{"required": ["topology"]}, {"required": ["import"]}]
    return {"$schema": DIALECT, **schema, "title": "softib fabric.yaml"}


def _kind(kind: Kind) -> dict[str, Any]:
    named = [p for p in kind.all_parameters if p.name not in OF_THE_FILE]
    return {
        "type": "object",
        "title": kind.name,
        "description": kind.doc,
        "properties": {"kind": {"const": kind.name}, **{p.name: _parameter(p) for p in named}},
        "required": ["kind", *(p.name for p in named if p.required)],
        "additionalProperties": False,
    }


def _parameter(p: Parameter) -> dict[str, Any]:
    types = TYPES[p.form]
    schema: dict[str, Any] = {"description": p.doc, "type": types[0] if len(types) == 1 else list(types)}
    if "integer" in types:
        schema |= {"minimum": p.low, "maximum": p.high}
    if "array" in types:
        schema["items"] = {"type": "integer", "minimum": p.low, "maximum": p.high}
    return schema if p.default is None else {**schema, "default": p.default}
