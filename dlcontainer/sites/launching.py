"""How a job is asked for, how its ranks meet, and how its image comes to the nodes."""

from typing import Literal, Self

from pydantic import Field, model_validator

from dlcontainer.config.field_types import (
    Asked,
    HostSuffix,
    HostText,
    Identifier,
    Name,
    PortRange,
    Strict,
    TimeLimit,
)


class Resources(Strict):
    """The values that a job asks for: each replaces its word in `directives`, or adds a line."""

    account: Asked | None = Field(default=None, description="whom the job is charged to")
    partition: Asked | None = Field(default=None, description="partition or queue")
    time: TimeLimit | None = Field(default=None, description="H:MM:SS, or the scheduler's own")
    nodes: int | None = Field(default=None, gt=0)


class ParallelEnvironment(Strict):
    """What a job asks for slots of, where its scheduler counts these in place of nodes."""

    name: Name = Field(description="as qconf -spl lists it")
    slots_per_node: int = Field(gt=0, description="slots that it gives on each node")


class Rendezvous(Strict):
    """How ranks find the first node of their job; without a key by the name that it has itself."""

    suffix: HostSuffix | None = Field(
        default=None, description="put behind the host's short name: i, .hsn.example.org"
    )
    address: bool = Field(default=False, description="the address that its name stands for")
    interface: Identifier | None = Field(
        default=None, description="its address at this network interface: hsn0, ib0"
    )
    ipv6: bool = Field(default=False, description="of several addresses one of IPv6 first")
    port: int | None = Field(
        default=None, ge=1024, le=65535, description="the same for all jobs; else by their number"
    )
    ports: PortRange | None = Field(
        default=None, description="those that jobs may use, by their number: 20000-29999"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(map(bool, (self.suffix, self.address, self.interface))) > 1:
            raise ValueError(
                "'suffix', 'address' and 'interface' exclude each other: give one of them"
            )
        if self.port is not None and self.ports is not None:
            raise ValueError("'port' and 'ports' exclude each other: give one of them")
        return self

    @property
    def between(self) -> range | None:
        """Return the ports that jobs may use; None where the site does not say."""
        if self.ports is None:
            return None
        first, last = map(int, self.ports.split("-"))
        return range(first, last + 1)


class EndWarning(Strict):
    """How a job hears before its time limit that it ends: a signal, handed on to its ranks.

    Others than these end an image's mount or its launcher, or do not reach the image (URG).
    """

    signal: Literal["USR1", "USR2"]
    seconds: int | None = Field(
        default=None,
        gt=0,
        le=65535,
        description="before the limit; Slurm's may come 60 s earlier, LSF counts whole minutes, "
        "Grid Engine's queues say how many",
    )


class Staging(Strict):
    """Where a job brings its image before ranks start.

    `sbcast`: Slurm copies it to each node. `dbcast` of mpiFileUtils and `copy` are a process on
    each node. With `stripes` one `copy` goes to a Lustre folder, whose file is striped before.
    """

    how: Literal["none", "sbcast", "dbcast", "copy"]
    to: HostText | None = Field(default=None, description="folder: /tmp, $VARIABLE/images")
    stripes: int | None = Field(default=None, ge=-1, description="of the copy's file; -1: all")
    usual: bool = Field(default=True, description="false: only with DLCONTAINER_STAGE=1")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.to is None) != (self.how == "none"):
            raise ValueError("'to' is for copies only, not for 'how: none'")
        if self.stripes is not None and self.how != "copy":
            raise ValueError("'stripes' is for 'how: copy' only (copies on Lustre)")
        return self
