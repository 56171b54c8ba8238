"""What an engine is: it gives argv, runs nothing, changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

EngineKind = Literal["apptainer", "docker", "podman"]
# What a build comes to; Apptainer makes SIFs alone.
Outcome = Literal["sif", "docker-archive", "image"]
# Of what a build takes newer packages.
RefreshKind = Literal["base", "os", "python"]

Containment = Literal["", "apart", "alone"]

# (folder or file of the host, path in the image)
Binds = tuple[tuple[Path, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildSpec:
    """One build: a definition file in the working directory becomes an image."""

    definition: str
    image: Path
    binds: Binds = ()
    mode: str
    # Arguments of mksquashfs; empty where the engine does not take them.
    squash: tuple[str, ...] = ()
    # The base's registry speaks http, not https.
    plain_http: bool = False
    # What OCI calls the image's architecture, where it is another than this host's.
    arch: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSpec:
    """One command as the root of an unpacked tree, which it may change."""

    tree: Path
    argv: tuple[str, ...]
    mode: str
    binds: Binds = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """One command in an image, in an environment that is declared and nothing else."""

    image: Path
    argv: tuple[str, ...]
    mode: str
    environment: Mapping[str, str] = field(default_factory=dict)
    binds: Binds = ()
    # One of several ranks of a node: they share the host's memory files, /tmp and processes.
    together: bool = False
    # What lets the host's accelerators in: --nv, --rocm.
    accelerators: tuple[str, ...] = ()
    # A site's own words: flags and binds, which come before ours.
    site_words: tuple[str, ...] = ()
    # Somebody else's image, trusted by nobody: no privilege to gain, none of the site's own binds;
    # "alone" without the host's network too, which not every engine can take away.
    contained: Containment = ""


def is_lent(target: str, binds: Binds) -> bool:
    """Return whether a folder shows inside another bound one: it is the host's own, to be read."""
    return any(target.startswith(f"{folder}/") for _, folder in binds)


class Engine(Protocol):
    """An engine: pure; asked twice it answers the same."""

    @property
    def program(self) -> Path:
        """The program to call."""

    def build_argv(self, spec: BuildSpec) -> list[str]:
        """Return the command that builds an image."""

    def run_argv(self, spec: RunSpec) -> list[str]:
        """Return the command that runs a command in an image."""
