"""What becomes of an OCI image: it stays in the store, or is an archive, or a SIF."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import SQUASH, Apptainer
from dlcontainer.engines.base import BuildSpec, Outcome
from dlcontainer.engines.capabilities import Trial
from dlcontainer.engines.oci import OciClient, OciImage
from dlcontainer.errors import BuildError, EngineError
from dlcontainer.image import sif
from dlcontainer.system.machine import Host
from dlcontainer.system.process import CommandFailedError, Runner

_ARCHIVE = "image.tar"


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """What is made, and the registry in between: HOST[:PORT]/NAMESPACE."""

    outcome: Outcome = "sif"
    registry: str | None = None
    plain_http: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivered:
    """Where an image went: its name and id in the store, and its digest in a registry.

    `size` in bytes is that of all its layers, unpacked. Only an outcome `image` stays there.
    """

    engine: str
    name: str
    id: str
    size: int
    pushed: str | None
    digest: str | None

    @property
    def reference(self) -> str | None:
        """Name it in the registry, by digest; None where it was not pushed."""
        return f"{self.pushed.rpartition(':')[0]}@{self.digest}" if self.pushed else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Packer:
    """Apptainer, which makes a SIF of an OCI image."""

    engine: Apptainer
    trial: Trial
    host: Host
    runner: Runner
    squash: tuple[str, ...] = SQUASH


@dataclass(frozen=True, kw_only=True, slots=True)
class Deliverer:
    """Who brings a finished image to its place; `packer` is needed for a SIF alone."""

    route: Route
    packer: Packer | None
    on_line: Callable[[str], None]

    def deliver(
        self, client: OciClient, name: str, made: tuple[Path, Path], places: tuple[Path, Path]
    ) -> Delivered:
        """Make what the route says of an image; `places` are a private folder and the log.

        `made` are the file to write and the bill of materials, which a SIF lists as a part. The
        outcome `image` writes no file. Raises BuildError, EngineError.
        """
        target, sbom = made
        image = client.image(name)
        if image is None:
            raise BuildError(f"{name} is gone from the engine's store", next_step="build again")
        try:
            delivered = self._pushed(client, image, name)
            if self.route.outcome == "docker-archive":
                client.save(name, target)
            elif self.route.outcome == "sif":
                self._pack(client, target, places, delivered)
                self._add_bill(target, sbom, places)
        finally:
            if self.route.outcome != "image":
                # The steps' images stay: they are the cache, and hold all but its last words.
                with contextlib.suppress(EngineError):
                    client.untag(name)
        return delivered

    def _pushed(self, client: OciClient, image: OciImage, name: str) -> Delivered:
        """Push an image, if a registry is to have it."""
        pushed, digest = None, None
        if self.route.registry:
            pushed = f"{self.route.registry}/{name.rpartition('/')[2]}"
            client.tag(name, pushed)
            try:
                digest = client.push(pushed, self.on_line, plain_http=self.route.plain_http)
            finally:
                with contextlib.suppress(EngineError):
                    client.untag(pushed)
        return Delivered(
            engine=f"{client.daemon.kind} {client.daemon.version}",
            name=name,
            id=image.id,
            size=image.total,
            pushed=pushed,
            digest=digest,
        )

    def _pack(
        self, client: OciClient, target: Path, places: tuple[Path, Path], delivered: Delivered
    ) -> None:
        folder, log = places
        packer = self._packer()
        archive = folder / _ARCHIVE
        if delivered.reference is None:
            client.save(delivered.name, archive)
            source = f"docker-archive:{_ARCHIVE}"
        else:
            source = f"docker://{delivered.reference}"
        spec = BuildSpec(
            definition=source,
            image=target,
            mode=packer.trial.build_mode or "plain",
            squash=packer.squash if packer.trial.takes_squash else (),
            plain_http=self.route.plain_http and delivered.reference is not None,
        )
        tmp = folder / "pack"
        tmp.mkdir(exist_ok=True)
        env = apptainer.environment(packer.host.environ, tmpdir=tmp)
        try:
            packer.runner(
                packer.engine.build_argv(spec), env=env, cwd=folder, on_line=self.on_line, log=log
            )
        except CommandFailedError as error:
            last = "\n".join(error.completed.stdout.splitlines()[-8:])
            raise BuildError(
                "the OCI image could not be made a SIF", why=last, next_step=f"read {log}"
            ) from None
        finally:
            archive.unlink(missing_ok=True)

    def _add_bill(self, target: Path, sbom: Path, places: tuple[Path, Path]) -> None:
        """Add the bill of materials to the SIF's parts, as Apptainer's own images have it."""
        folder, log = places
        packer = self._packer()
        options = sif.part_options(sif.arch(target))["sbom"]
        argv = packer.engine.sif_add_argv(target, sbom, sif.BILL, options)
        env = apptainer.environment(packer.host.environ, tmpdir=folder)
        try:
            packer.runner(argv, env=env, cwd=folder, on_line=self.on_line, log=log)
        except CommandFailedError:
            self.on_line(sif.NO_BILLS)

    def _packer(self) -> Packer:
        if self.packer is None:
            raise RuntimeError("a SIF needs a packer")
        return self.packer
