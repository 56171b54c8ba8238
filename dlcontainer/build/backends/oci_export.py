"""What becomes of an OCI image: it stays in the store, or is an archive, or a SIF."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.engines.engine import BuildSpec, Outcome
from dlcontainer.engines.execution import Execution
from dlcontainer.engines.oci import OciClient, OciImage
from dlcontainer.errors import BuildError, EngineError
from dlcontainer.image import sif
from dlcontainer.system.process import CommandFailedError

_ARCHIVE = "image.tar"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportTarget:
    """What is made, and the registry in between: HOST[:PORT]/NAMESPACE."""

    outcome: Outcome = "sif"
    registry: str | None = None
    plain_http: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedImage:
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
class SifPacker:
    """Apptainer, which makes a SIF of an OCI image."""

    execution: Execution
    squash: tuple[str, ...] = SQUASH


@dataclass(frozen=True, kw_only=True, slots=True)
class OciExporter:
    """Brings a finished image to its place; `packer` is needed for a SIF alone.

    `folder` is private.
    """

    target: ExportTarget
    packer: SifPacker | None
    folder: Path
    log: Path
    on_line: Callable[[str], None]

    def deliver(self, client: OciClient, name: str, file: Path, sbom: Path) -> ExportedImage:
        """Make what the target says of an image: write `file`, unless the outcome is `image`.

        `sbom` is the bill of materials, which a SIF lists as a part. Raises BuildError,
        EngineError.
        """
        image = client.image(name)
        if image is None:
            raise BuildError(
                f"image {name} is missing from the engine's store", next_step="build again"
            )
        try:
            delivered = self._pushed(client, image, name)
            if self.target.outcome == "docker-archive":
                client.save(name, file)
            elif self.target.outcome == "sif":
                self._pack(client, file, delivered)
                self._add_bill(file, sbom)
        finally:
            if self.target.outcome != "image":
                # The steps' images stay: they are the cache, and hold all but its last words.
                with contextlib.suppress(EngineError):
                    client.untag(name)
        return delivered

    def _pushed(self, client: OciClient, image: OciImage, name: str) -> ExportedImage:
        """Push an image, if a registry is to have it."""
        pushed, digest = None, None
        if self.target.registry:
            pushed = f"{self.target.registry}/{name.rpartition('/')[2]}"
            client.tag(name, pushed)
            try:
                digest = client.push(pushed, self.on_line, plain_http=self.target.plain_http)
            finally:
                with contextlib.suppress(EngineError):
                    client.untag(pushed)
        return ExportedImage(
            engine=f"{client.daemon.kind} {client.daemon.version}",
            name=name,
            id=image.id,
            size=image.total,
            pushed=pushed,
            digest=digest,
        )

    def _pack(self, client: OciClient, file: Path, delivered: ExportedImage) -> None:
        packer = self._packer()
        execution = packer.execution
        archive = self.folder / _ARCHIVE
        if delivered.reference is None:
            client.save(delivered.name, archive)
            source = f"docker-archive:{_ARCHIVE}"
        else:
            source = f"docker://{delivered.reference}"
        spec = BuildSpec(
            definition=source,
            image=file,
            mode=execution.build_mode,
            squash=packer.squash if execution.capabilities.takes_squash else (),
            plain_http=self.target.plain_http and delivered.reference is not None,
        )
        tmp = self.folder / "pack"
        tmp.mkdir(exist_ok=True)
        try:
            self._run(execution, execution.engine.build_argv(spec), tmp)
        except CommandFailedError as error:
            last = "\n".join(error.completed.stdout.splitlines()[-8:])
            raise BuildError(
                "cannot convert the OCI image to a SIF", why=last, next_step=f"read {self.log}"
            ) from None
        finally:
            archive.unlink(missing_ok=True)

    def _add_bill(self, file: Path, sbom: Path) -> None:
        """Add the bill of materials to the SIF's parts, as Apptainer's own images have it."""
        execution = self._packer().execution
        options = sif.part_options(sif.arch(file))["sbom"]
        argv = execution.engine.sif_add_argv(file, sbom, sif.BILL, options)
        try:
            self._run(execution, argv, self.folder)
        except CommandFailedError:
            self.on_line(sif.NO_BILLS)

    def _run(self, execution: Execution, argv: list[str], tmpdir: Path) -> None:
        env = apptainer.environment(execution.host.environ, tmpdir=tmpdir)
        execution.runner(argv, env=env, cwd=self.folder, on_line=self.on_line, log=self.log)

    def _packer(self) -> SifPacker:
        if self.packer is None:
            raise RuntimeError("a SIF needs a packer")
        return self.packer
