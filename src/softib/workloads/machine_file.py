"""A machine file describes one node of GPUs, the costs of messages in hosts, and measurements.

``softib calibrate`` writes it; ``machine=FILE`` of a job and ``softib simulate --machine FILE``
read it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from softib.errors import InputError, UnknownName, wrong_value
from softib.workloads.trust import Dataset

if TYPE_CHECKING:
    from softib.workloads.nccl.machine import Machine

__all__ = ["MachineFile", "Measured", "is_machine_file", "read_machine"]

Positive = Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]
Few = Annotated[int, Field(ge=1, le=1024)]
Share = Annotated[float, Field(ge=0, lt=10, allow_inf_nan=False)]


class Measured(BaseModel):
    """One benchmark log that was used to calibrate the machine."""

    model_config = ConfigDict(extra="forbid")
    name: str
    library: Literal["nccl", "mpi"]
    what: str
    generation: str
    nodes: tuple[Few, Few]
    size: tuple[int, int]
    error: Share
    half: Share
    """Half width of the range of log(measured time / predicted time)."""
    gpu: str = ""
    version: str = ""


class MachineFile(BaseModel):
    """Keys of a machine file. A file without ``gpu`` describes only hosts."""

    model_config = ConfigDict(extra="forbid")
    gpu: str | None = None
    gpus: Few | None = None
    nics: Few | None = None
    nic_gbps: Positive | None = None
    cpu: Literal["intel", "amd", "arm"] | None = None
    gpudirect: Literal["pix", "phb", "sys", "off"] | None = None
    per_process: Few | None = None
    gpu_nic_gbps: Positive | None = None
    """Gb/s between GPUs and one adapter in one direction."""
    nvlink_gbytes: Positive | None = None
    """GB/s of all NVLinks of a GPU in one direction."""
    nccl: dict[str, Annotated[float, Field(ge=0, lt=1e6, allow_inf_nan=False)]] = Field(default_factory=dict)
    """Parameters of section ``nccl`` of parameters.yaml."""
    hosts: dict[str, Any] = Field(default_factory=dict)
    """Costs of messages in the hosts, as in the section ``hosts`` of a fabric file."""
    measured: list[Measured] = Field(default_factory=list)

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """Return the measurements of the machine."""
        return tuple(Dataset(**row.model_dump()) for row in self.measured)

    def machine(self) -> Machine:
        """Return the node of GPUs. Raises :class:`InputError` if the file has none."""
        from softib.workloads.nccl.machine import BY_GPU

        if self.gpu is None:
            raise InputError("the machine has no key gpu; it describes only hosts")
        if self.gpu.lower() not in BY_GPU:
            raise UnknownName("GPU of the machine", self.gpu, [m.gpu.name for m in BY_GPU.values()])
        base = BY_GPU[self.gpu.lower()]
        fields = ("gpus", "nics", "nic_gbps", "cpu", "gpudirect", "per_process", "gpu_nic_gbps")
        stated = {name: value for name in fields if (value := getattr(self, name)) is not None}
        gpu = base.gpu if self.nvlink_gbytes is None else base.gpu.but(nvlink_gbytes=self.nvlink_gbytes)
        return base.but(**stated, gpu=gpu, constants=self.nccl, measured=self.datasets)


def is_machine_file(name: str) -> bool:
    """Return whether ``machine=name`` is a file."""
    return Path(name).suffix in (".yaml", ".yml")


def read_machine(path: str | os.PathLike[str]) -> MachineFile:
    """Read the machine file ``path``. Raises :class:`InputError`, one line with file and line number."""
    from softib.plain_yaml import load_yaml
    from softib.sim.packet.profiles import host_figures
    from softib.workloads.parameters import section

    data, lines = load_yaml(Path(path), "machine file", "gpu: A100")
    try:
        machine = MachineFile.model_validate(data)
    except ValidationError as invalid:
        error = invalid.errors()[0]
        key = tuple(error["loc"])
        if error["type"] == "extra_forbidden":
            text = str(UnknownName("key of a machine file", str(key[-1]), MachineFile.model_fields))
        else:
            text = wrong_value(".".join(map(str, key)), error)
        raise InputError(f"{path}:{lines.of(key)}: {text}") from None
    try:
        section("nccl").but(**machine.nccl)
        host_figures(machine.hosts)
        if machine.gpu is not None:
            machine.machine()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return machine
