"""The backend of Docker and Podman: each step runs in a container, and becomes a layer.

No engine's build cache and no BuildKit is needed: folders are bound while a step runs, so nothing
of the routing is ever in a layer. What a step leaves in /tmp and /var/tmp is discarded.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.build import build_steps
from dlcontainer.build.backends.backend import DamagedError, SaveTask
from dlcontainer.build.backends.oci_export import ExportedImage, OciExporter
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache import oci_layers
from dlcontainer.build.cache.cached_step import CachedStep, Packages
from dlcontainer.build.cache.oci_layers import OciStore
from dlcontainer.config.field_types import OCI_ARCH
from dlcontainer.engines.engine import Binds
from dlcontainer.engines.oci import ContainerSpec, ImageConfig, OciClient, OciImage
from dlcontainer.errors import BuildError, EngineError
from dlcontainer.formats import oci_config, step_environment
from dlcontainer.formats.step_environment import SYSTEM_PATH
from dlcontainer.image.contents.tar_tree import TarTree
from dlcontainer.planning.plan import Plan
from dlcontainer.system.output_lines import OutputLines
from dlcontainer.system.process import CommandFailedError, CompletedCommand

# The folders of the container, where nothing of the host is bound.
_EMPTY_TMP = "rm -rf /tmp/..?* /tmp/.[!.]* /tmp/* /var/tmp/..?* /var/tmp/.[!.]* /var/tmp/*"


@dataclass(frozen=True, kw_only=True, slots=True)
class OciWork:
    """What an image is made of: the plan, and what its steps start from and see.

    `base` makes a tar of the base's root tree in a folder, or names an image of a registry by
    digest; `base_key` its digest. `binds` are seen by the steps and are in no layer; the first
    is the routing's folder.
    """

    plan: Plan
    base: Callable[[Path], Path] | str
    base_key: str
    binds: Binds
    folder: Path
    log: Path
    on_line: Callable[[str], None]
    plain_http: bool = False


@contextmanager
def opened(client: OciClient, work: OciWork, exporter: OciExporter) -> Iterator["OciBackend"]:
    """Hand out a backend; at the end no container of it is left.

    First, containers of builds that are no more go: those killed before they had started.
    """
    reap(client)
    backend = OciBackend(client=client, work=work, exporter=exporter)
    try:
        yield backend
    except BaseException:
        # What happened first is what is told: an engine that is gone removes nothing.
        with suppress(EngineError):
            backend.drop_container()
        raise
    backend.drop_container()


@dataclass(kw_only=True, slots=True)
class OciBackend:
    """One image in the making, in the store of Docker or Podman."""

    client: OciClient
    work: OciWork
    exporter: OciExporter
    delivered: ExportedImage | None = None
    _parent: OciImage | None = None
    _container: str | None = None
    store: OciStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = OciStore(client=self.client, arch=self.work.plan.site.arch)

    def recall(self, key: str) -> CachedStep | None:
        """Return the kept result of a step; whoever may write to the store is trusted
        (OciStore).
        """
        return self.store.recall(key)

    def begin(self, parent: CachedStep | None) -> None:
        """Start from a kept result, or from the base; raises DamagedError for one that is gone."""
        self.drop_container()
        if parent is None:
            self._parent = self._base()
            return
        self._parent = self.client.image(self.store.name(parent.key))
        if self._parent is None:
            raise DamagedError(parent.key)

    def run(self, step: BuildStep) -> None:
        """Put the step's files in and run its script; raises CommandFailedError."""
        with build_steps.laid_out(step, self.work.binds[0][0]) as script:
            self._execute(("/bin/sh", script), f"step {step.name}")
        self._execute(("/bin/sh", "-c", _EMPTY_TMP), f"clean after step {step.name}")

    def keep(self, step: BuildStep, packages: Packages) -> SaveTask:
        """Keep the tree as it is now as this step's result; nothing is left to do then."""
        name, comment = self.store.name(step.key), oci_layers.comment(step, packages)
        config = ImageConfig(entrypoint=self._from().entrypoint)
        self._parent = self.client.commit(self._running(), name, comment, config)
        # The next step's layer holds that step alone: it gets a container of its own.
        self.drop_container()
        return lambda: None

    def files(self) -> TarTree:
        """Show the files of the tree as it is now, from a copy of it as a tar."""
        path = self.work.folder / "tree.tar"
        self.client.export(self._running(), path)
        return TarTree(path=path)

    def finish(self, target: Path, sbom: Path) -> None:
        """Make the image of the tree as it is now, with the plan's environment and labels."""
        (self.work.folder / "tree.tar").unlink(missing_ok=True)
        plan = self.work.plan
        parent = self._from()
        config = ImageConfig(
            entrypoint=parent.entrypoint,
            environment=oci_config.environment(plan, parent.environment),
            labels=oci_config.all_labels(plan),
        )
        name = image_name(plan, self.store)
        image = self.client.commit(self._running(), name, f"dlcontainer {plan.name}", config)
        self.drop_container()
        try:
            _require(image, parent, config)
        except BuildError:
            self.client.untag(name)
            raise
        self.delivered = self.exporter.deliver(self.client, name, target, sbom)

    def shell_command(self) -> tuple[list[str], Mapping[str, str], Path]:
        """Return command, environment and folder of a shell in the tree as it is now."""
        argv = [*self.client.shell_argv(self._running()), "-c"]
        argv.append(step_environment.in_shell(self.work.plan))
        return argv, dict(os.environ), self.work.folder

    def drop_container(self) -> None:
        """End the running container, if there is one."""
        container, self._container = self._container, None
        if container is not None:
            self.client.remove(container)

    def _from(self) -> OciImage:
        if self._parent is None:
            raise RuntimeError("begin() comes first")
        return self._parent

    def _running(self) -> str:
        if self._container is None:
            spec = ContainerSpec(image=self._from(), name=container_name(), binds=self.work.binds)
            self._container = self.client.start(spec)
        return self._container

    def _execute(self, argv: tuple[str, ...], what: str) -> None:
        container = self._running()
        # The base's variables and none of the engine's: the same as at Apptainer's backend.
        base = {"PATH": SYSTEM_PATH, **self._from().environment, "TERM": "dumb"}
        clean = ("/usr/bin/env", "-i", *(f"{name}={value}" for name, value in base.items()))
        with self.work.log.open("a", encoding="utf-8", newline="\n", buffering=1) as log:
            lines = OutputLines(self.work.on_line, log)
            code = self.client.execute(container, (*clean, *argv), lines.sinks()[0])
            output, _ = lines.texts()
        if code != 0:
            done = CompletedCommand(
                argv=(what,), returncode=code, stdout=output, stderr="", elapsed=0.0
            )
            raise CommandFailedError(done)

    def _base(self) -> OciImage:
        if isinstance(self.work.base, str):
            reference = self.work.base
            if self.client.image(reference) is None:
                self.client.pull(reference, self.work.on_line, plain_http=self.work.plain_http)
        else:
            reference = self.store.name(self.work.base_key)
            if self.client.image(reference) is None:
                tar = self.work.base(self.work.folder)
                self.client.import_tree(tar, reference)
                tar.unlink()
        image = self.client.image(reference)
        if image is None:
            raise BuildError(
                f"{self.client.daemon.kind} imported the base, but has no image of it",
                next_step="read the engine's own log",
            )
        arch = OCI_ARCH[self.work.plan.site.arch]
        if image.arch != arch:
            # An engine takes an imported tree for one of its own machine.
            raise BuildError(
                f"{self.client.daemon.kind} reads the base as {image.arch}; the plan needs {arch}",
                next_step="use --engine apptainer to build for another architecture",
            )
        return image


def image_name(plan: Plan, store: OciStore) -> str:
    """Name a plan's image in an engine's store."""
    return f"{store.prefix}{repository_of(plan.name)}:{plan.digest[:12]}"


def repository_of(name: str) -> str:
    """Name a plan's images as registries allow it: lower case, one separator at a time."""
    plain = re.sub(r"[^a-z0-9.]+|[.]{2,}", "-", name.lower())
    return f"dlcontainer/{re.sub(r'[.-]{2,}', '-', plain).strip('.-')}"


def _require(image: OciImage, parent: OciImage, config: ImageConfig) -> None:
    """Refuse an image that says other than it was told: engines add variables of their own."""
    for what, has, expected in (
        ("variables", image.environment, {**parent.environment, **config.environment}),
        ("labels", image.labels, {**parent.labels, **config.labels}),
    ):
        wrong = sorted({key for key, _ in dict(has).items() ^ dict(expected).items()})
        if wrong:
            raise BuildError(
                f"the image's {what} differ from those of the plan: {', '.join(wrong)}",
                next_step="report this fault with the engine's version (`dlcontainer "
                "doctor` prints it)",
            )


def container_name() -> str:
    """Return a new name that says whose process a container belongs to."""
    return f"{_prefix()}{os.getpid()}-{_started(os.getpid())}-{secrets.token_hex(4)}"


def reap(client: OciClient) -> list[str]:
    """Remove containers of processes of this machine that are no more; return their names."""
    prefix, gone = _prefix(), []
    for container, name in client.containers(prefix):
        pid, started = name.removeprefix(prefix).split("-")[:2]
        if _started(int(pid)) != started:
            client.remove(container)
            gone.append(name)
    return gone


def _prefix() -> str:
    return f"dlcontainer-{oci_layers.here()}-"


def _started(pid: int) -> str:
    """Return what tells a process from a later one of the same number; '' for none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
