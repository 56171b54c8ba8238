"""How a build gets out of its host: never content."""

from typing import Literal

from pydantic import Field

from dlcontainer.config.field_types import (
    AbsolutePath,
    AptLine,
    IndexFolder,
    Proxy,
    RegistryHost,
    Strict,
    Url,
)


class PipRouting(Strict):
    """Where pip finds packages during a build, said outright."""

    index: Url | None = None
    extra_indexes: tuple[Url | IndexFolder, ...] = Field(
        default=(), description="https:// addresses, or folders of this host"
    )


class Routing(Strict):
    """The way to the outside during a build: never content, so never in a text or a digest."""

    apt: Literal["auto", "default"] | tuple[AptLine, ...] = Field(
        default="auto", description="auto: the build host's mirrors; or a list of deb lines"
    )
    pip: Literal["auto", "default"] | PipRouting = "auto"
    ca: Literal["auto", "default"] | AbsolutePath = Field(
        default="auto",
        description="a PEM file of all certificates that a build trusts, the proxy's among them; "
        "auto: the host's; default: the image's own",
    )
    proxy: Proxy = Field(
        default="auto", description="auto, none, or http://[USER:PASSWORD@]HOST[:PORT]"
    )
    wheels: tuple[AbsolutePath, ...] = Field(default=(), description="folders of wheels")
    plain_http: tuple[RegistryHost, ...] = Field(
        default=(), description="registries that speak http: HOST or HOST:PORT"
    )
    upstreams: dict[Url, Literal["auto", "none"] | Url] = Field(
        default_factory=dict, description="a recipe's upstream -> your mirror of it"
    )
