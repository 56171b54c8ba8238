"""Docker and Podman as a build sees them: the few calls that it makes, and what they carry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, get_args

from dlcontainer.engines.engine import Binds

OciKind = Literal["docker", "podman"]
OCI_KINDS: tuple[OciKind, ...] = get_args(OciKind)

# What a container of a build runs: it waits for the end of its input, which we hold. However
# dlcontainer ends, the engine then ends the container and all that runs in it, and removes it.
LIFELINE = ("/bin/sh", "-c", "while read -r _; do :; done")
SHELL = ("/bin/sh",)


def shell_words(container: str) -> list[str]:
    """Return the words after the program that open a shell in a container, for both engines."""
    return ["exec", "--interactive", "--tty", "--workdir", "/", container, *SHELL]


@dataclass(frozen=True, kw_only=True, slots=True)
class Daemon:
    """What an engine says of itself; `rootless` where it runs with no more than a user's rights.

    `owner` is the user whose socket it is.
    """

    kind: OciKind
    version: str
    socket: Path
    owner: str
    storage_driver: str
    storage: Path
    rootless: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class OciImage:
    """An image in an engine's store; `size` in bytes is that of its last layer alone.

    `total` is that of all its layers; `layers` are their digests, the base's first.
    """

    id: str
    names: tuple[str, ...]
    arch: str
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    entrypoint: tuple[str, ...]
    created: str
    comment: str
    size: int
    total: int
    layers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerSpec:
    """A container in which steps run: the host's network, folders bound for the time being."""

    image: OciImage
    name: str
    binds: Binds


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageConfig:
    """What an image says beside its files, over the variables and labels of its parent."""

    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


class OciClient(Protocol):
    """An engine that answers. Names are REPOSITORY:TAG; every call may raise EngineError."""

    @property
    def daemon(self) -> Daemon:
        """What the engine says of itself."""

    def image(self, name: str) -> OciImage | None:
        """Look an image up by name or id; None where there is none."""

    def images(self, repository: str) -> list[OciImage]:
        """List the images of a repository in the store, the newest first."""

    def import_tree(self, tar: Path, name: str) -> None:
        """Make an image of one layer of a root tree."""

    def pull(self, reference: str, on_line: Callable[[str], None], *, plain_http: bool) -> None:
        """Fetch an image of a registry: NAME:TAG or NAME@DIGEST."""

    def start(self, spec: ContainerSpec) -> str:
        """Start a container that lives as long as this client, at most; return its id."""

    def execute(
        self, container: str, argv: tuple[str, ...], sink: Callable[[bytes], object]
    ) -> int:
        """Run a command as root in a container; return its exit code."""

    def shell_argv(self, container: str) -> list[str]:
        """Return the command of the engine's own program that opens a shell in a container."""

    def commit(self, container: str, name: str, comment: str, config: ImageConfig) -> OciImage:
        """Make an image of a container as it is now; the name appears when it is whole."""

    def remove(self, container: str) -> None:
        """End and remove a container; one that is gone is no error."""

    def containers(self, prefix: str) -> list[tuple[str, str]]:
        """List (id, name) of all containers whose names begin so."""

    def tag(self, name: str, new_name: str) -> None:
        """Give an image another name."""

    def untag(self, name: str) -> None:
        """Take a name away, and the image with its last; one that is gone is no error."""

    def save(self, name: str, target: Path) -> None:
        """Write an image as a docker-archive."""

    def export(self, container: str, target: Path) -> None:
        """Write the tree of a container as a tar."""

    def push(self, name: str, on_line: Callable[[str], None], *, plain_http: bool) -> str:
        """Send an image to the registry that its name begins with; return its digest there."""

    def close(self) -> None:
        """Close all connections: containers that were started end."""
