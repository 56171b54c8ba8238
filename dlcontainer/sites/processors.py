"""The processors of a node: their cores, and how these are numbered over NUMA domains."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from dlcontainer.config.field_types import Line, Name
from dlcontainer.sites.groups import SiteFacts

# As Linux numbers a node's NUMA domains and cores; none has as many.
DomainNumber = Annotated[int, Field(ge=0, le=255)]
CoreNumber = Annotated[int, Field(ge=0, le=8191)]


class Cpu(SiteFacts):
    """The processors of one node."""

    model: Line
    cores: int = Field(gt=0, description="cores a job can use, per node")
    threads_per_core: int = Field(default=1, gt=0)
    cores_per_domain: int | None = Field(
        default=None,
        gt=0,
        le=1024,
        description="cores of one NUMA domain: domain n has the n-th so many",
    )
    reserved: tuple[CoreNumber, ...] = Field(
        default=(), description="numbers of further cores, which jobs do not get: [0, 8, 16]"
    )
    target: Name | None = Field(
        default=None, description="GCC's name for it: power9, knl, znver3 …"
    )

    @model_validator(mode="after")
    def _whole_domains(self) -> Self:
        if len({*self.reserved}) != len(self.reserved):
            raise ValueError("'reserved' names a core twice")
        if any(core >= self.all_cores for core in self.reserved):
            raise ValueError(
                f"'reserved' names core {max(self.reserved)}, but 'cores' and 'reserved' are "
                f"{self.all_cores} cores, from 0 on"
            )
        if self.cores_per_domain and self.all_cores % self.cores_per_domain:
            raise ValueError(
                f"'cores' and 'reserved' are {self.all_cores} cores, not a multiple of "
                f"'cores_per_domain': {self.cores_per_domain}"
            )
        return self

    @property
    def all_cores(self) -> int:
        """The cores of the node, those too that jobs do not get."""
        return self.cores + len(self.reserved)

    def shares(self, domains: Sequence[int]) -> list[list[int]]:
        """Return the cores of each device, by the number of the domain beside it.

        A domain's cores that jobs get are divided among its devices in their order, the same number
        to each: some are left over, or a share is empty. Needs cores_per_domain.
        """
        size, reserved = self.cores_per_domain or 0, {*self.reserved}
        shares = []
        for device, domain in enumerate(domains):
            first = domain * size
            free = [core for core in range(first, first + size) if core not in reserved]
            share = len(free) // domains.count(domain)
            before = domains[:device].count(domain) * share
            shares.append(free[before : before + share])
        return shares
