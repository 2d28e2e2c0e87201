"""The base class of all jobs, and the types of their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from softib.foreign_text import NAME, shown
from softib.workloads.quantities import Rate, Size, Time

if TYPE_CHECKING:
    from softib.workloads.hosts import Hosts

__all__ = ["HostName", "Job", "Number", "Repeated", "ShownName", "Yes"]

Number = Annotated[int, Field(ge=1, le=100_000_000)]
HostName = str | int
ShownName = Annotated[str, AfterValidator(lambda v: shown(v, NAME))]
"""A name from a user, in printable form."""
Yes = Annotated[
    bool, BeforeValidator(lambda v: {"yes": True, "no": False, "true": True, "false": False}.get(str(v).lower(), v))
]


class Job(BaseModel):
    """Options of all patterns."""

    model_config = ConfigDict(extra="forbid")
    name: ShownName | None = Field(None, description="name of the job in results; default: its pattern")
    size: Size = Field(1_000_000, description="bytes of a message, at most 2 GiB")
    hosts: list[HostName] | HostName | None = Field(
        None, description="hosts: names, patterns (node-1*), ranges (0-15); default all"
    )
    start: Time = Field(0, description="time at which it begins")
    fabric: str | None = Field(None, description="fabric of the file on which the job runs; default: SOURCE")
    sl: Annotated[int, Field(ge=0, le=15)] | None = Field(
        None, description="service level; default: that of the path record, otherwise 0"
    )
    seed: Annotated[int, Field(ge=0)] | None = Field(None, description="seed of random draws; default: that of the run")
    rate: Rate | None = Field(None, description="static rate of each path in Gb/s; default: the rate of the port")
    opcode: Literal["write", "write-with-imm", "send", "read", "atomic"] = Field(
        "write", description="operation of the work requests; transport ud supports only send"
    )
    transport: Literal["rc", "uc", "ud"] = Field("rc", description="service of the queue pairs")
    receives: Annotated[int, Field(ge=0, le=1 << 20)] = Field(
        0,
        description="receives that a destination keeps posted on a queue pair (sends, packet layer); 0: always enough",
    )
    repost: Time = Field(0, description="time from the arrival of a send until its receive is posted again")

    first_word: ClassVar[str] = "size"
    """The option that a value without a name sets, as in ``incast:64KB``."""

    @property
    def pattern_name(self) -> str:
        """Return the name of the job's pattern."""
        return str(getattr(self, "pattern", ""))

    @property
    def fewest_hosts(self) -> int:
        """Return the smallest number of hosts that the pattern can run on."""
        return 2

    @property
    def reduces(self) -> bool:
        """Return whether the job uses reductions in switches (aggregation nodes)."""
        return False

    @property
    def assumes_machine(self) -> bool:
        """Return whether the job runs on GPUs, and names no machine."""
        return False

    def assumed_machine(self, hosts: Hosts) -> str:
        """Return the name of the machine that is assumed for the job on ``hosts`` if it does not name one."""
        return ""

    @property
    def result_rows(self) -> int:
        """Return the number of rows that the job has in results."""
        return 1

    def notes(self, hosts: Hosts) -> list[str]:
        """Return the assumptions of the job about ``hosts``, one line each, for the notes of a run."""
        return []

    def figures(self, hosts: Hosts, took_us: float) -> dict[str, Any]:
        """Return figures of the job in addition to time and rate, for results. ``took_us``: duration of the job in
        microseconds."""
        return {}

    def key(self) -> dict[str, Any]:
        """Return the job as plain values, which are equal for equal jobs."""
        data = getattr(self, "_data", None)
        held = {} if data is None else {"data": getattr(data, "digest", None) or repr(data)}
        return {**self.model_dump(mode="json"), **held}

    @model_validator(mode="before")
    @classmethod
    def _datagrams_are_sent(cls, given: Any) -> Any:
        """Use ``send`` as the default of ``opcode`` with transport UD, which has no other operation."""
        if isinstance(given, dict) and given.get("transport") == "ud":
            return {"opcode": "send", **given}
        return given


class Repeated(Job):
    """Base of patterns whose pairs may send several messages in a row."""

    count: Number = Field(1, description="number of messages of each pair, one after another")
