"""The kept results of steps in the store of Docker or Podman: one image a key."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache.cached_step import CachedStep, Packages
from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.engines.oci import OciClient, OciImage
from dlcontainer.system import foreign_files

_REPOSITORY = "dlcontainer/steps"


@dataclass(frozen=True, kw_only=True, slots=True)
class OciStore:
    """Kept results by name, not by label: an image inherits labels, and can't take one off.

    Who may use an engine's socket can change all that builds through it do. So what is in the
    store is trusted as the engine itself is; `maker` is the user whose socket it is.
    """

    client: OciClient
    arch: Arch

    @property
    def prefix(self) -> str:
        """What stands before names: Podman would take one without a host for Docker Hub's."""
        return "localhost/" if self.client.daemon.kind == "podman" else ""

    def name(self, key: str) -> str:
        """Name the image of a key."""
        return f"{self.prefix}{_REPOSITORY}:{key}"

    def recall(self, key: str) -> CachedStep | None:
        """Return a kept result; None where there is none for this architecture."""
        image = self.client.image(self.name(key))
        if image is None or image.arch != OCI_ARCH[self.arch]:
            return None
        return self.kept(key, image)

    def kept(self, key: str, image: OciImage) -> CachedStep:
        """Describe an image as a kept result."""
        name, packages = _read(image.comment)
        return CachedStep(
            key=key,
            name=name,
            maker=self.client.daemon.owner,
            made_at=f"{image.created[:19]}Z",
            size=image.size,
            packages=packages,
        )

    def images(self) -> list[tuple[str, OciImage]]:
        """List all kept results and bases with their keys, the newest first."""
        repository = f"{self.prefix}{_REPOSITORY}"
        return [
            (name.rpartition(":")[2], image)
            for image in self.client.images(repository)
            for name in image.names
            if name.rpartition(":")[0] == repository
        ]

    def drop(self, key: str) -> None:
        """Take a result out; layers that others stand on stay as long as these do."""
        self.client.untag(self.name(key))


def comment(step: BuildStep, packages: Packages) -> str:
    """Return what a kept result is; the engines keep such a text with an image."""
    return json.dumps({"step": step.name, "packages": list(packages)})


def _read(text: str) -> tuple[str, Packages]:
    try:
        body = foreign_files.loads(text)
        return str(body["step"]), tuple(dict(package) for package in body["packages"])
    except (ValueError, KeyError, TypeError):
        return "", ()  # an imported base


def here() -> str:
    """Name this machine since its start, as this process sees it: whose process numbers count."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    machine = f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no path: pid:[number]
    return hashlib.sha256(machine.encode()).hexdigest()[:12]
