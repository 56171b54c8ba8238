"""The ways to make a recipe, and what each needs of a site."""

from typing import Literal

from pydantic import Field

from dlcontainer.config.field_types import (
    Arch,
    GpuCode,
    Line,
    MpiFamily,
    MpiMode,
    Name,
    Strict,
    Vendor,
    Version,
)


class Needs(Strict):
    """What a variant needs of a site; an empty list asks for nothing."""

    arch: tuple[Arch, ...] = ()
    accelerator: tuple[Literal[Vendor, "none"], ...] = ()
    cpu: tuple[Name, ...] = Field(default=(), description="cpu.target is one of these")
    gpu: tuple[GpuCode, ...] = Field(
        default=(),
        description="accelerator.target runs code for one of these; "
        "not needed beside stack.gpu_targets",
    )
    toolkit: Version | None = Field(
        default=None, description="the site's CUDA, ROCm or oneAPI is this or newer"
    )
    mpi: tuple[MpiFamily, ...] = Field(default=(), description="the family of the site's MPI")
    mpi_mode: tuple[MpiMode, ...] = ()


class Variant(Strict):
    """One way to make the recipe: `vendor` as a centre would publish it, `distro` anywhere."""

    kind: Literal["vendor", "distro"]
    summary: Line
    status: Literal["built", "never built"] | None = Field(
        default=None, description="never built: rendered only; a plan's notes say so"
    )
    lock: Literal["by the site"] | None = Field(
        default=None,
        description="by the site: what it needs could not be reached from here, so its digest or "
        "its packages are pinned where it is built",
    )
    pythons: tuple[Version, ...] = Field(
        default=(),
        description="Pythons that its packages were built and tried with; a machine's own base "
        "with another one leaves the recipe's in place. Empty: any",
    )
    needs: Needs = Needs.model_construct()
    refused: Line | None = Field(
        default=None,
        description="why it is not available: what the recipe adds does not exist for it",
    )
    changes: dict[str, object] = Field(min_length=1, description="what differs in the recipe")
