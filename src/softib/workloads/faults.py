"""Timed faults, and settings of the management plane during a run, from a workload file or Python. Each kind of fault
is a class; kinds have the names of ``softib fault``. This module is imported only when a workload is read, like
:mod:`softib.workloads.jobs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from softib.errors import InputError, UnknownName, wrong_value
from softib.workloads.quantities import Time

__all__ = [
    "FAULTS",
    "AnyFault",
    "Fault",
    "Management",
    "fault_of",
    "management_of",
    "message_of_fault",
    "message_of_management",
]


class Fault(BaseModel):
    """Options of all faults."""

    model_config = ConfigDict(extra="forbid")
    at: Time = Field(description="time of the fault")
    where: str = Field(min_length=1, description="a port, for example leaf-3[40]: either end of the cable")


class LinkDown(Fault):
    """no signal passes the cable (pulled); the link stays down until link-up"""

    kind: Literal["link-down"] = "link-down"


class LinkUp(Fault):
    """the signal is back; the link trains to INIT, and carries data once the manager has made it ACTIVE"""

    kind: Literal["link-up"] = "link-up"


class Ber(Fault):
    """the cable makes bit errors in both directions; 0 heals it"""

    kind: Literal["ber"] = "ber"
    ber: Annotated[float, Field(ge=0, lt=1)] = Field(description="raw bit error ratio, for example 1e-9")


class Downgrade(Fault):
    """the link goes down and trains again, at most at this width and speed"""

    kind: Literal["downgrade"] = "downgrade"
    width: Annotated[int, Field(ge=1)] | None = Field(None, description="lanes: 1, 2, 4, 8 or 12")
    speed: str | None = Field(None, description="a generation, for example EDR")
    training: Time = Field(10**12, description="duration until it is up again; default 1 s, as on a running fabric")


class SlowPort(Fault):
    """the port drains data VLs only at this rate; its peer waits, or discards after
    HOQLife"""

    kind: Literal["slow-port"] = "slow-port"
    gbps: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(description="rate in Gb/s; 0: it drains nothing")


class SwitchDown(Fault):
    """a switch loses power and all its packets and state"""

    kind: Literal["switch-down"] = "switch-down"
    where: str = Field(min_length=1, description="a switch, for example leaf-3")


class SwitchUp(Fault):
    """the switch is powered on with power-up values; the manager programs it again"""

    kind: Literal["switch-up"] = "switch-up"
    where: str = Field(min_length=1, description="a switch, for example leaf-3")


AnyFault = Annotated[
    LinkDown | LinkUp | Ber | Downgrade | SlowPort | SwitchDown | SwitchUp, Field(discriminator="kind")
]

FAULTS: dict[str, type[Fault]] = {
    str(c.model_fields["kind"].default): c for c in (LinkDown, LinkUp, Ber, Downgrade, SlowPort, SwitchDown, SwitchUp)
}
"""Kind of fault → its class."""


class Management(BaseModel):
    """The subnet manager and the agents during faults."""

    model_config = ConfigDict(extra="forbid")
    sm: Literal["internal", "off"] = Field("internal", description="internal: softib's subnet manager; off: no manager")
    node: str | None = Field(None, description="node of the manager; default: the first host with a cable")
    agent: Time = Field(10_000_000, description="time of a device to answer a MAD (an assumption)")
    forward: Time = Field(5_000_000, description="time of a switch to forward a directed SMP (an assumption)")
    manager: Time = Field(5_000_000, description="time from the arrival of a MAD at the manager to its response")
    window: Annotated[int, Field(ge=1, le=4096)] = Field(
        4, description="maximum number of SMPs in flight, as OpenSM's max_wire_smps"
    )
    timeout: Time = Field(200_000_000_000, description="time until a MAD is repeated, as OpenSM's transaction_timeout")
    retries: Annotated[int, Field(ge=0, le=100)] = Field(
        3, description="number of times a MAD is repeated, as OpenSM's transaction_retries"
    )
    vl15_packets: Annotated[int, Field(ge=1, le=100_000)] = Field(
        8, description="packets in the VL15 buffer of a port; more are dropped (VL15Dropped)"
    )


def fault_of(given: Mapping[str, Any] | str) -> Fault:
    """Return a fault from Python (``{"at": "20us", "kind": "link-down", "where": "leaf-1[40]"}``) or a
    line of text (``20us link-down leaf-1[40] ber=1e-9``).

    Raises :class:`UnknownName`, with similar names, for a kind or option that does not exist, and
    :class:`InputError` for a wrong value.
    """
    from pydantic import TypeAdapter

    if not isinstance(given, str | Mapping):
        raise InputError(
            f"fault {given!r}: use a line, for example '20us link-down leaf-1[40]', or a mapping of at, kind and where"
        )
    data = _fields(given) if isinstance(given, str) else dict(given)
    try:
        fault: Fault = TypeAdapter(AnyFault).validate_python(data)
    except ValidationError as invalid:
        error = min(invalid.errors(), key=lambda e: e["type"] == "missing")
        raise InputError(f"fault {given!r}: {message_of_fault(error, tuple(error['loc']))}") from None
    return fault


def management_of(before: Management | None, given: Mapping[str, Any]) -> Management:
    """Return the settings ``before`` (None: the defaults) with the changes in ``given``. Raises the errors of
    :func:`fault_of`."""
    try:
        settings = Management.model_validate(dict(given))
        return (
            before.model_copy(update={k: getattr(settings, k) for k in settings.model_fields_set})
            if before
            else settings
        )
    except ValidationError as invalid:
        error = invalid.errors()[0]
        raise InputError(f"management: {message_of_management(error)}") from None


def message_of_management(error: Any) -> str:
    """Convert pydantic's error about a setting of the management plane to one line."""
    key = str(error["loc"][-1])
    if error["type"] == "extra_forbidden":
        return str(UnknownName("key of management", key, Management.model_fields))
    return wrong_value(key, error)


def _fields(text: str) -> dict[str, Any]:
    parts = text.split()
    if len(parts) < 3:
        raise InputError(f"fault {text!r}: use time, kind and location, for example '20us link-down leaf-1[40]'")
    data: dict[str, Any] = {"at": parts[0], "kind": parts[1], "where": parts[2]}
    for part in parts[3:]:
        key, equals, value = part.partition("=")
        if not equals or not value:
            raise InputError(f"fault {text!r}: {part!r} is not an option; use for example ber=1e-9")
        data[key] = value
    return data


def message_of_fault(error: Any, loc: tuple[Any, ...]) -> str:
    """Convert pydantic's error about a fault to one line; ``loc``: its location inside the fault."""
    if error["type"] == "union_tag_invalid":
        return str(UnknownName("kind of fault", str(error["ctx"]["tag"]), FAULTS))
    if error["type"] == "union_tag_not_found":
        return f"a fault needs its kind: {', '.join(FAULTS)}"
    kind = FAULTS.get(str(loc[0])) if loc else None
    key = str(loc[-1]) if loc else "fault"
    if error["type"] == "extra_forbidden" and kind is not None:
        return str(UnknownName(f"option of {loc[0]}", key, kind.model_fields))
    if error["type"] == "missing" and kind is not None:
        return f"{key} is missing: {kind.model_fields[key].description}"
    return wrong_value(key, error)
