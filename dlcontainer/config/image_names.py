"""Names of images in registries: docker://NAME[:TAG][@sha256:DIGEST]."""

import re
from dataclasses import dataclass

FORM = "docker://NAME[:TAG][@sha256:DIGEST]"

# Source of the grammar, and of Docker Hub's three names below: the package `reference` of
# github.com/distribution/distribution, and its `normalize.go`.
_HOST = r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_HOST_ONLY = re.compile(_HOST)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REFERENCE = re.compile(
    rf"docker://(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    rf"(?:@(?P<digest>{_DIGEST.pattern}))?"
)
_MAX_LENGTH = 512
_HUB = "docker.io"
_HUB_ADDRESS = "registry-1.docker.io"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageReference:
    """An image in a registry; pinned where it has a digest."""

    name: str
    tag: str | None
    digest: str | None

    @property
    def source(self) -> str:
        """What an engine pulls: by digest where there is one.

        Never tag and digest together: not every engine takes both.
        """
        return f"{self.name}@{self.digest}" if self.digest else self.tagged

    @property
    def tagged(self) -> str:
        """The name with its tag, if it has one."""
        return f"{self.name}:{self.tag}" if self.tag else self.name

    @property
    def registry(self) -> str:
        """The registry as HOST or HOST:PORT, as it is written in names."""
        first, slash, _ = self.name.partition("/")
        is_host = slash and (first == "localhost" or re.search(r"[.:]", first))
        return first if is_host else _HUB

    @property
    def address(self) -> str:
        """Where that registry answers, HOST or HOST:PORT."""
        return _HUB_ADDRESS if self.registry in {_HUB, f"index.{_HUB}"} else self.registry

    @property
    def repository(self) -> str:
        """The name in its registry."""
        path = self.name.removeprefix(f"{self.registry}/")
        return f"library/{path}" if self.address == _HUB_ADDRESS and "/" not in path else path

    def __str__(self) -> str:
        return f"docker://{self.source}"


def parse_image(text: str) -> ImageReference:
    """Read an image's name; without tag and digest the tag is `latest`. Raises ValueError."""
    match = _REFERENCE.fullmatch(text)
    if match is None or len(text) > _MAX_LENGTH:
        raise ValueError(f"not {FORM} (lower case): {text!r}")
    tag = match["tag"] or (None if match["digest"] else "latest")
    return ImageReference(name=match["name"], tag=tag, digest=match["digest"])


def is_digest(text: str) -> bool:
    """Return whether a text is a digest as registries and recipes write it."""
    return _DIGEST.fullmatch(text) is not None


def is_registry(text: str) -> bool:
    """Return whether a text is a registry's HOST or HOST:PORT."""
    return _HOST_ONLY.fullmatch(text) is not None


def is_loopback(address: str) -> bool:
    """Return whether HOST or HOST:PORT is this very machine."""
    host = address if address.endswith("]") else re.sub(r":[0-9]+$", "", address)
    return host in {"localhost", "[::1]"} or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host) is not None
