"""How collectives of NCCL, RCCL and Gloo reach the fabric: settled into what surrounds each job.

Without a plug-in NCCL and RCCL know InfiniBand (and RoCE) and TCP alone, and use TCP in silence
where nothing else is found. Source: NCCL, documentation, "NCCL_NET", "NCCL_NET_PLUGIN".
"""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from dlcontainer.config.field_types import EnvName, HostFile, HostText, Interfaces
from dlcontainer.sites.groups import SiteFacts

# none: nothing brings one. own: the library's own transport, InfiniBand verbs. host: a file of the
# host is bound. image: the image has to bring it. hook: flags or hooks of the runtime bring it.
PlugIn = Literal["none", "own", "host", "image", "hook"]
# They name what has to be there: NCCL ends where it is not, libfabric has no device.
NEEDING = ("NCCL_NET", "NCCL_NET_PLUGIN", "FI_PROVIDER")
BRINGING = ("host", "image", "hook")


class Collectives(SiteFacts):
    """What NCCL, RCCL and Gloo of an image use between nodes."""

    plugin: PlugIn | None = Field(
        default=None,
        description="who brings the plug-in for the fabric: host, image, hook (the runtime's "
        "flags or hooks); own: NCCL needs none, as on InfiniBand; none: TCP. Default: own on "
        "InfiniBand, else none",
    )
    without_mpi: bool = Field(
        default=False, description="the plug-in comes to images without an MPI alone"
    )
    library: HostFile | None = Field(
        default=None, description="with host: the plug-in's file on the host, libnccl-net.so"
    )
    abi: tuple[PositiveInt, ...] = Field(
        default=(), description="versions of ncclNetPlugin that the plug-in has: [8, 9]"
    )
    environment: dict[EnvName, HostText] = Field(
        default_factory=dict, description="in the image: NCCL_NET, FI_CXI_* …"
    )
    interface: Interfaces | None = Field(
        default=None, description="NCCL_SOCKET_IFNAME: interfaces or how their names begin, hsn"
    )
    gloo_interface: Interfaces | None = Field(
        default=None, description="GLOO_SOCKET_IFNAME: interfaces by their whole names, hsn0"
    )

    @model_validator(mode="after")
    def _a_file_of_the_host(self) -> Self:
        if (self.plugin == "host") != (self.library is not None):
            raise ValueError("'library' and 'plugin: host' must be given together")
        if self.abi and self.plugin not in BRINGING:
            raise ValueError(f"'abi' is of a plug-in, and 'plugin' is {self.plugin}")
        return self

    @property
    def inside(self) -> dict[str, str]:
        """The variables that jobs set in the image."""
        named = {
            "NCCL_NET_PLUGIN": self.library,
            "NCCL_SOCKET_IFNAME": self.interface,
            "GLOO_SOCKET_IFNAME": self.gloo_interface,
        }
        return {name: text for name, text in named.items() if text} | self.environment

    @property
    def binds(self) -> tuple[str, ...]:
        """The folder of the host's plug-in, which its own libraries lie in too."""
        if self.library is None:
            return ()
        folder = self.library.rpartition("/")[0]
        return (f"{folder}:{folder}",)


def said(plugin: PlugIn, facts: Collectives, fabric: str, ccl: str) -> str:
    """Say what collectives use between nodes, on one line; `ccl` is the devices' library."""
    if plugin == "none":
        over = f" on {facts.interface}" if facts.interface else ""
        return f"TCP{over}: nothing at this site brings {ccl} a plug-in for {fabric}"
    return {
        "own": f"{fabric}, by {ccl}'s own transport",
        "host": f"{fabric}, by the host's plug-in {facts.library}",
        "image": f"TCP, unless the image brings {ccl} a plug-in for {fabric}",
        "hook": f"{fabric}, by the plug-in that the runtime brings",
    }[plugin]
