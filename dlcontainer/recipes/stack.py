"""What the framework's build in an image is made for."""

from typing import ClassVar

from pydantic import Field

from dlcontainer.config.field_types import Fabric, GpuCode, Line, MpiFamily, Name, Strict, Version


class StackMpi(Strict):
    """The MPI that the image's programs are linked to."""

    family: MpiFamily
    name: Line = Field(description="with its version: Open MPI 4.1.4")
    fabrics: tuple[Fabric, ...] = Field(
        default=(), description="networks it was built for; empty: sockets, or not known"
    )


class Stack(Strict):
    """What the framework's build is made for; checked against the facts of a site."""

    # The keys that say that there is device code in the build.
    DEVICE_KEYS: ClassVar = ("cuda", "rocm", "oneapi", "gpu_targets")

    cuda: Version | None = None
    rocm: Version | None = None
    oneapi: Version | None = None
    gpu_targets: tuple[GpuCode, ...] = Field(
        default=(),
        description="GPU code in the framework's build: sm_70, sm_90+PTX, compute_90, gfx90a …",
    )
    cpu_target: Name | None = Field(
        default=None, description="the least processor it runs on, as GCC names it"
    )
    gcc: Version | None = Field(default=None, description="compiles in the image")
    llvm: Version | None = Field(default=None, description="compiles in the image")
    mpi: StackMpi | None = None

    @property
    def has_device_code(self) -> bool:
        """Whether the build has code for accelerators."""
        return any(getattr(self, key) for key in self.DEVICE_KEYS)
