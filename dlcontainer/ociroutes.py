"""What becomes of an OCI image: it stays in the store, or is an archive, or a SIF."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import SQUASH, Apptainer
from dlcontainer.engines.base import BuildSpec
from dlcontainer.engines.oci import OciClient
from dlcontainer.engines.trial import Trial
from dlcontainer.errors import BuildError
from dlcontainer.machine import Host
from dlcontainer.shell import CommandFailedError, Runner

Outcome = Literal["sif", "docker-archive", "image"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_ARCHIVE = "image.tar"


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """What is made, and the registry in between: HOST[:PORT]/NAMESPACE."""

    outcome: Outcome = "sif"
    registry: str | None = None
    plain_http: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivered:
    """Where an image went: its name and id in the store, and its digest in a registry."""

    name: str
    id: str
    pushed: str | None
    digest: str | None


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
        self, client: OciClient, name: str, target: Path, places: tuple[Path, Path]
    ) -> Delivered:
        """Make what the route says of an image; `places` are a private folder and the log.

        The outcome `image` writes no file. Raises BuildError, EngineError.
        """
        image = client.image(name)
        if image is None:
            raise BuildError(f"{name} is gone from the engine's store", next_step="build again")
        pushed, digest = None, None
        if self.route.registry:
            pushed = f"{self.route.registry}/{name.rpartition('/')[2]}"
            client.tag(name, pushed)
            digest = client.push(pushed, self.on_line, plain_http=self.route.plain_http)
            client.untag(pushed)
        if self.route.outcome == "docker-archive":
            client.save(name, target)
        elif self.route.outcome == "sif":
            self._pack(client, name, target, places, pushed and f"{pushed}@{digest}")
        if self.route.outcome != "image":
            # The steps' images stay: they are the cache, and hold all but its last words.
            client.untag(name)
        return Delivered(name=name, id=image.id, pushed=pushed, digest=digest)

    def _pack(
        self,
        client: OciClient,
        name: str,
        target: Path,
        places: tuple[Path, Path],
        remote: str | None,
    ) -> None:
        folder, log = places
        packer = self.packer
        if packer is None:
            raise RuntimeError("a SIF needs a packer")
        archive = folder / _ARCHIVE
        if remote is None:
            client.save(name, archive)
            source = f"docker-archive:{_ARCHIVE}"
        else:
            repository, digest = remote.split("@")
            source = f"docker://{repository.rpartition(':')[0]}@{digest}"
        spec = BuildSpec(
            definition=source,
            image=target,
            mode=packer.trial.build_mode or "plain",
            squash=packer.squash if packer.trial.takes_squash else (),
            plain_http=self.route.plain_http and remote is not None,
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
